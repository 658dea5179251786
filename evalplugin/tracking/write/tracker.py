"""The one place that talks to MLflow: values made elsewhere go into runs."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from evalplugin.base.errors import TrackingError
from evalplugin.base.secrets import redact
from evalplugin.base.signals import ignore_signals
from evalplugin.comparison.comparison import Comparison, headline
from evalplugin.comparison.gate import Decision
from evalplugin.comparison.trends import PastBakeoff
from evalplugin.execution.results import Bakeoff, BakeoffResult, DataInfo, ModelResult
from evalplugin.report.page import comparison_page
from evalplugin.report.palette import model_colours
from evalplugin.report.text import leaderboard_markdown
from evalplugin.tracking.connection import BRIEFLY, connect, talking
from evalplugin.tracking.location import resolve_uri, ui_base_url, ui_command
from evalplugin.tracking.names import metric_names
from evalplugin.tracking.read.past import past_of
from evalplugin.tracking.write import labels, values
from evalplugin.tracking.write.artifacts import (
    TABLE,
    Artifacts,
    config_artifacts,
    model_artifacts,
    text_file,
    write,
)
from evalplugin.tracking.write.board import PAGE, Links, board_of, board_path, compare_path
from evalplugin.tracking.write.decisions import decision_files, decision_tags
from evalplugin.tracking.write.experiment import close_dead_runs, open_experiment, runs_of_bakeoff, save_board
from evalplugin.tracking.write.pictures import picture_artifacts
from evalplugin.tracking.write.provenance import process_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["MlflowTracker"]

Progress = Callable[
    [str], AbstractContextManager[object]
]  # reports a step by its name while the context lasts


@dataclass
class MlflowTracker:
    """Logs one bake-off to one MLflow store, run by run. Make it with ``open``.

    Used in a ``with`` statement, an exception inside, Ctrl-C and SIGTERM included, ends the open runs as KILLED.
    """

    bakeoff: Bakeoff
    uri: str  # absolute
    experiment_id: str
    client: MlflowClient = field(repr=False)
    common_tags: Mapping[str, str] = field(repr=False)
    summary_run_id: str | None = None  # a run that `mlflow run` has started for us
    _started: dict[str, int] = field(default_factory=dict, repr=False)  # run id -> milliseconds since 1970
    _open: set[str] = field(default_factory=set, repr=False)
    _taken_up: dict[tuple[str, ...], str] = field(
        default_factory=dict, repr=False
    )  # what was logged of -> run id
    _ended: set[str] = field(default_factory=set, repr=False)  # runs that hold everything already
    _progress: Progress = field(default=nullcontext, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # no run may stay RUNNING for ever
            with ignore_signals(), self._progress("end the open runs"):
                self.abort()

    @classmethod
    def open(
        cls,
        bakeoff: Bakeoff,
        uri: str | None = None,
        *,
        resume: bool = False,
        progress: Progress = nullcontext,
    ) -> MlflowTracker:
        """Return a tracker whose store answers, with the experiment there and our own dead runs closed.

        Args:
            bakeoff: What is going to run.
            uri: The tracking URI; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.
            resume: Whether to go on with the runs that the bake-off has already.
            progress: Reports the step that an exception causes, from its name, while the context lasts.

        Raises:
            TrackingError: The store cannot be reached or used, the experiment is deleted, two metrics have one
                name in MLflow.
        """
        metric_names(bakeoff.metrics)  # refused now, not after the first model is fitted
        uri = resolve_uri(uri)
        client = connect(uri)
        with talking(uri, f"open the experiment {bakeoff.experiment!r}", waiting=BRIEFLY):
            experiment_id = open_experiment(client, uri, bakeoff.experiment)
        tracker = cls(bakeoff, uri, experiment_id, client, labels.common_tags(bakeoff), _progress=progress)
        with talking(uri, "look for runs of ours that were cut off", waiting=BRIEFLY):
            if resume:
                tracker._take_up()  # first: the process that made them is gone, but they are to go on
            close_dead_runs(client, experiment_id)
        if tracker.summary_run_id is None and (run_id := os.environ.get("MLFLOW_RUN_ID")):
            with talking(uri, f"adopt the run of MLFLOW_RUN_ID={run_id}", waiting=BRIEFLY):
                tracker._adopt(run_id)
        return tracker

    def start_model(self, data: DataInfo, model: str, type: str) -> str:
        """Return the id of a run, RUNNING, for a model that is about to be fitted: a new one, or that taken up."""
        if (known := self._taken_up.get((data.dataset, data.split or data.split_type, model))) is not None:
            return known
        colour = model_colours(self.bakeoff.models, self.bakeoff.baseline)[model]
        tags = labels.model_tags(self.common_tags, data, model, type, colour)
        tags["evalplugin.place"] = str(self.bakeoff.place(data.dataset, data.split, model))
        name = self.bakeoff.run_name(data.dataset, data.split, model)
        with talking(self.uri, f"start the run of {model}"):
            run = self.client.create_run(self.experiment_id, tags=tags, run_name=name)
        self._started[run.info.run_id] = run.info.start_time
        self._open.add(run.info.run_id)
        return str(run.info.run_id)

    def finish_model(self, run_id: str, result: ModelResult) -> None:
        """Log everything about a model but the pictures, which need all models; FINISHED, or FAILED with traceback.

        Sent twice, it stores everything once. A run that was taken up and holds everything stays as it is.
        """
        if run_id in self._ended:
            return
        self._log_model(run_id, result)
        with talking(self.uri, f"end the run of {result.model}"):
            self._end(run_id, "FINISHED" if result.error is None else "FAILED")

    def past_bakeoffs(self, decision: Decision | None = None) -> tuple[PastBakeoff, ...]:
        """Return the latest bake-offs of the experiment, the oldest first, this one included.

        All its models must be finished. ``decision``: what its gate has decided, which is not logged yet.
        """
        with talking(self.uri, "read the bake-offs before"):
            past = past_of(self.client, self.experiment_id)
        if decision is None:
            return tuple(past)
        known = {key: getattr(decision, key) for key in ("outcome", "champion", "promoted")}
        known["decided"] = (decision.dataset, decision.split)
        return tuple(replace(one, **known) if one.id == self.bakeoff.id else one for one in past)

    def finish_bakeoff(
        self,
        result: BakeoffResult,
        comparisons: Sequence[Comparison],
        run_ids: Sequence[str],
        *,
        board: bool = True,
        decision: Decision | None = None,
        past: Sequence[PastBakeoff] = (),
    ) -> Links:
        """Log what needs all models (pictures, differences, the summary run, the board) and return the links.

        ``comparisons`` are those of the result. ``run_ids`` are those of ``result.models``, in the same order.
        ``board``: whether to save a board. ``decision``: of the gate, if there is one. ``past``: what
        ``past_bakeoffs`` returned, for the page.
        """
        bakeoff = self.bakeoff
        rows = {(c.contest.dataset, c.contest.split, row.model): row for c in comparisons for row in c.models}
        run_of = {
            (m.data.dataset, m.data.split, m.model): run_id
            for m, run_id in zip(result.models, run_ids, strict=True)
        }
        ranked = [run_of[key] for key, row in rows.items() if row.error is None]
        pictures = picture_artifacts(result)
        with talking(self.uri, "log the pictures and differences"):
            for key, row in rows.items():
                self._log(run_of[key], values.difference_metrics(bakeoff, row).metrics)
                self._upload(run_of[key], pictures.get(key, {}))
        saved, warning = None, None
        if board:
            saved, warning = save_board(
                self.client, self.uri, self.experiment_id, board_of(result, comparisons)
            )
        links = Links(
            tracking_uri=redact(self.uri),
            base_url=ui_base_url(self.uri),
            board_url_path=board_path(self.experiment_id, bakeoff.id, saved),
            compare_url_path=compare_path(self.experiment_id, ranked) if ranked else None,
            ui_command=ui_command(self.uri),
            experiment_id=self.experiment_id,
            summary_run_id=self._start_summary(),
            warnings=(warning,) if warning else (),
        )
        text = redact(leaderboard_markdown(bakeoff, comparisons))
        shown = {"Board": links.board_url, "Compare": links.compare_url}
        pages = " · ".join(f"[{name}]({url})" for name, url in shown.items() if url is not None)
        path = links.compare_url_path
        tags = {
            "mlflow.note.content": labels.cut(f"{text}\n{pages}"),
            "evalplugin.board": links.board_url_path,
            # A link to very many runs would be cut and lead nowhere.
            **({"evalplugin.compare": path} if path is not None and len(path) <= labels.MAX_TAG else {}),
            **({} if decision is None else decision_tags(decision)),
        }
        with talking(self.uri, "log the summary run"):
            self._log(
                links.summary_run_id,
                values.summary_metrics(bakeoff, comparisons).metrics,
                labels.summary_params(bakeoff),
                tags,
            )
            page = comparison_page(comparisons, decision=decision, past=past)
            files = {"leaderboard.md": text_file(text), PAGE: text_file(page)}
            decided = {} if decision is None else decision_files(decision)
            self._upload(links.summary_run_id, {**config_artifacts(bakeoff), **files, **decided})
            self._end(
                links.summary_run_id, "FAILED" if len(result.failed) == len(result.models) else "FINISHED"
            )
        return links

    def tag(self, run_id: str, key: str, value: str) -> None:
        """Set a tag of ours on a run that has ended."""
        with talking(self.uri, f"tag the run {run_id}"):
            self.client.set_tag(run_id, f"evalplugin.{key}", labels.cut(redact(value)))

    def finish_alone(self, run_id: str, result: ModelResult) -> str:
        """Log a model that is compared with no other here, pictures included; return the path of its run's page."""
        self.finish_model(run_id, result)
        pictures = picture_artifacts(BakeoffResult(self.bakeoff, (result,)))
        with talking(self.uri, "log the pictures"):
            for files in pictures.values():
                self._upload(run_id, files)
        return f"/#/experiments/{self.experiment_id}/runs/{run_id}"

    def log_into(self, run: Run, result: ModelResult, folder: Path) -> tuple[values.Metric, ...]:
        """Log a model, pictures included, into a run that somebody else has started and will end.

        Returns its metrics. The files are written to ``folder`` and stay there.
        """
        run_id, found = run.info.run_id, run.data.tags
        self._started[run_id] = run.info.start_time
        key = result.data.dataset, result.data.split, result.model
        pictures = picture_artifacts(BakeoffResult(self.bakeoff, (result,))).get(key, {})
        metrics = self._log_model(run_id, result, pictures=pictures, found=found, folder=folder)
        tags = labels.model_tags(self.common_tags, result.data, result.model, result.type)
        with talking(self.uri, f"tag {result.model}"):
            # Last: only a run that holds everything is a model's.
            self._log(run_id, tags=labels.beside(tags, found))
        return metrics

    def abort(self) -> None:
        """End every run that is still open as KILLED; quietly, since something else has gone wrong already."""
        with suppress(TrackingError):  # a store that does not answer once is not asked again for every run
            for run_id in sorted(self._open):
                with talking(self.uri, "end a run", waiting=BRIEFLY):
                    self.client.set_terminated(run_id, "KILLED")
        self._open.clear()

    def _take_up(self) -> None:
        """Go on with the runs that the bake-off has: those that are not complete are this process's from now on."""
        for run in runs_of_bakeoff(self.client, self.experiment_id, self.bakeoff.id):
            run_id, tags = run.info.run_id, run.data.tags
            self._started[run_id] = run.info.start_time
            if tags["evalplugin.role"] == "summary":
                self.summary_run_id = run_id
            else:
                names = (tags[f"evalplugin.{part}"] for part in ("dataset", "split", "model"))
                self._taken_up[tuple(names)] = run_id
            if run.info.status in ("FINISHED", "FAILED"):
                self._ended.add(run_id)
                continue
            self._log(run_id, tags=process_tags())
            self.client.update_run(run_id, status="RUNNING")
            self._open.add(run_id)

    def _adopt(self, run_id: str) -> None:
        run = self.client.get_run(run_id)
        # A run that has ended is one that an earlier bake-off of this process has adopted.
        if run.info.status in ("RUNNING", "SCHEDULED"):
            self.summary_run_id = run_id
            self._started[run_id] = run.info.start_time
            self._open.add(run_id)

    def _start_summary(self) -> str:
        tags = labels.summary_tags(self.common_tags)
        if self.summary_run_id is not None:
            with talking(self.uri, "tag the summary run"):
                # What `mlflow run` has said about the source stays as it is.
                self._log(
                    self.summary_run_id, tags={k: v for k, v in tags.items() if not k.startswith("mlflow.")}
                )
            return self.summary_run_id
        with talking(self.uri, "start the summary run"):
            run = self.client.create_run(self.experiment_id, tags=tags, run_name=f"summary {self.bakeoff.id}")
        self._started[run.info.run_id] = run.info.start_time
        self._open.add(run.info.run_id)
        return str(run.info.run_id)

    def _log_model(
        self,
        run_id: str,
        result: ModelResult,
        *,
        pictures: Artifacts = MappingProxyType({}),
        found: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> tuple[values.Metric, ...]:
        """Log a model and return its metrics; ``found`` are the tags of a run that somebody else has started."""
        bakeoff = self.bakeoff
        cells = headline(result.per_user, bakeoff.headline, bakeoff.seed)
        logged = values.model_metrics(bakeoff, result, cells)
        params, too_long = labels.model_params(bakeoff, result)
        tags = {"mlflow.note.content": labels.note(bakeoff, result, cells)}
        if logged.left_out:
            tags["evalplugin.left_out"] = ", ".join(logged.left_out)[: labels.MAX_TAG]
        if result.per_user is not None:
            # Marks the file as a table for MLflow's artifact view, which joins it across runs.
            tags["mlflow.loggedArtifacts"] = json.dumps([{"path": TABLE, "type": "table"}])
        with talking(self.uri, f"log {result.model}"):
            tags = tags if found is None else labels.beside(tags, found)
            self._log(run_id, logged.metrics, params, tags)
            self._log_inputs(run_id, result.data)
            files = model_artifacts(bakeoff, result, cells, left_out_params=tuple(too_long))
            self._upload(run_id, {**files, **pictures}, folder)
        return logged.metrics

    def _log(
        self,
        run_id: str,
        metrics: Sequence[values.Metric] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag

        # One fixed time a run: a value that is sent again is then the same value, and stored once.
        at = self._started[run_id]
        self.client.log_batch(
            run_id,
            metrics=[Metric(m.key, m.value, at, m.step) for m in metrics],
            params=[Param(key, value) for key, value in (params or {}).items()],
            tags=[RunTag(key, value) for key, value in (tags or {}).items()],
        )

    def _log_inputs(self, run_id: str, data: DataInfo) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = [
            DatasetInput(
                Dataset(d.name, d.digest, "evalplugin", d.source, d.schema, d.profile),
                [InputTag("mlflow.data.context", d.context)],
            )
            for d in values.dataset_inputs(data)
        ]
        self.client.log_inputs(run_id, inputs)

    def _upload(self, run_id: str, files: Artifacts, folder: Path | None = None) -> None:
        if files:
            with (
                nullcontext(folder) if folder else tempfile.TemporaryDirectory(prefix="evalplugin-") as place
            ):
                write(files, Path(place))
                self.client.log_artifacts(run_id, str(place))

    def _end(self, run_id: str, status: str) -> None:
        self.client.set_terminated(run_id, status)
        self._open.discard(run_id)
