"""The one place that talks to MLflow: values made elsewhere go into runs."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalplugin.errors import TrackingError
from evalplugin.report.leaderboard import Cell, headline, headline_metrics, leaderboard_rows
from evalplugin.report.palette import model_colours
from evalplugin.report.text import leaderboard_markdown
from evalplugin.results import Bakeoff, BakeoffResult, DataInfo, ModelResult
from evalplugin.tracking import labels, values
from evalplugin.tracking.artifacts import TABLE, Artifacts, config_artifacts, model_artifacts, write
from evalplugin.tracking.board import Links, board_of, board_path, compare_path
from evalplugin.tracking.connection import BRIEFLY, connect, talking
from evalplugin.tracking.experiment import close_dead_runs, open_experiment, save_board
from evalplugin.tracking.location import resolve_uri, ui_base_url, ui_command
from evalplugin.tracking.names import metric_names
from evalplugin.tracking.pictures import picture_artifacts
from evalplugin.tracking.redaction import redact

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["MlflowTracker"]


@dataclass
class MlflowTracker:
    """Logs one bake-off to one MLflow store, run by run. Make it with ``open``."""

    bakeoff: Bakeoff
    uri: str  # absolute
    experiment_id: str
    client: MlflowClient = field(repr=False)
    common_tags: Mapping[str, str] = field(repr=False)
    summary_run_id: str | None = None  # a run that `mlflow run` has started for us
    _started: dict[str, int] = field(default_factory=dict, repr=False)  # run id -> milliseconds since 1970
    _open: set[str] = field(default_factory=set, repr=False)
    _cells: dict[str, Mapping[str, Cell]] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, bakeoff: Bakeoff, uri: str | None = None) -> MlflowTracker:
        """Return a tracker whose store answers, with the experiment there and our own dead runs closed.

        Args:
            bakeoff: What is going to run.
            uri: The tracking URI; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.

        Raises:
            TrackingError: The store cannot be reached or used, the experiment is deleted, two metrics have one
                name in MLflow.
        """
        metric_names(bakeoff.metrics)  # refused now, not after the first model is fitted
        uri = resolve_uri(uri)
        client = connect(uri)
        with talking(uri, f"open the experiment {bakeoff.experiment!r}", waiting=BRIEFLY):
            experiment_id = open_experiment(client, uri, bakeoff.experiment)
        tracker = cls(bakeoff, uri, experiment_id, client, labels.common_tags(bakeoff))
        with talking(uri, "look for runs of ours that were cut off", waiting=BRIEFLY):
            close_dead_runs(client, experiment_id)
        if run_id := os.environ.get("MLFLOW_RUN_ID"):
            with talking(uri, f"adopt the run of MLFLOW_RUN_ID={run_id}", waiting=BRIEFLY):
                tracker._adopt(run_id)
        return tracker

    def start_model(self, data: DataInfo, model: str, type: str) -> str:
        """Return the id of a new run, RUNNING, for a model that is about to be fitted."""
        colour = model_colours(self.bakeoff.models, self.bakeoff.baseline)[model]
        tags = labels.model_tags(self.common_tags, data, model, type, colour)
        name = self.bakeoff.run_name(data.dataset, data.split, model)
        with talking(self.uri, f"start the run of {model}"):
            run = self.client.create_run(self.experiment_id, tags=tags, run_name=name)
        self._started[run.info.run_id] = run.info.start_time
        self._open.add(run.info.run_id)
        return str(run.info.run_id)

    def finish_model(self, run_id: str, result: ModelResult) -> None:
        """Log everything about a model but the pictures, which need all models; FINISHED, or FAILED with traceback.

        Sent twice, it stores everything once.
        """
        bakeoff = self.bakeoff
        cells = self._cells[run_id] = headline(bakeoff, result)
        logged = values.model_metrics(bakeoff, result, cells)
        params, too_long = labels.model_params(bakeoff, result)
        tags = {"mlflow.note.content": labels.note(bakeoff, result, cells)}
        if logged.left_out:
            tags["evalplugin.left_out"] = ", ".join(logged.left_out)[: labels.MAX_TAG]
        if result.per_user is not None:
            # Marks the file as a table for MLflow's artifact view, which joins it across runs.
            tags["mlflow.loggedArtifacts"] = json.dumps([{"path": TABLE, "type": "table"}])
        with talking(self.uri, f"log {result.model}"):
            self._log(run_id, logged.metrics, params, tags)
            self._log_inputs(run_id, result.data)
            self._upload(run_id, model_artifacts(bakeoff, result, cells, left_out_params=tuple(too_long)))
            self._end(run_id, "FINISHED" if result.error is None else "FAILED")

    def finish_bakeoff(self, result: BakeoffResult, run_ids: Sequence[str], *, board: bool = True) -> Links:
        """Log what needs all models (pictures, differences, the summary run, the board) and return the links.

        ``run_ids`` are those of ``result.models``, in the same order. ``board``: whether to save a board.
        """
        bakeoff = self.bakeoff
        rows = leaderboard_rows(result, [self._cells[run_id] for run_id in run_ids])
        run_of = {
            (m.data.dataset, m.data.split, m.model): run_id
            for m, run_id in zip(result.models, run_ids, strict=True)
        }
        ranked = [run_of[row.dataset, row.split, row.model] for row in rows if row.error is None]
        pictures = picture_artifacts(result)
        with talking(self.uri, "log the pictures and differences"):
            for row in rows:
                key = (row.dataset, row.split, row.model)
                self._log(run_of[key], values.difference_metrics(bakeoff, row).metrics)
                self._upload(run_of[key], pictures.get(key, {}))
        saved, warning = None, None
        if board:
            saved, warning = save_board(self.client, self.uri, self.experiment_id, board_of(result, rows))
        links = Links(
            tracking_uri=redact(self.uri),
            base_url=ui_base_url(self.uri),
            board_url_path=board_path(self.experiment_id, bakeoff.id, saved),
            compare_url_path=compare_path(self.experiment_id, ranked),
            ui_command=ui_command(self.uri),
            experiment_id=self.experiment_id,
            summary_run_id=self._start_summary(),
            warnings=(warning,) if warning else (),
        )
        text = redact(leaderboard_markdown(bakeoff, rows, headline_metrics(bakeoff)))
        tags = {
            "mlflow.note.content": labels.cut(
                f"{text}\n[Board]({links.board_url}) · [Compare]({links.compare_url})"
            ),
            "evalplugin.board": links.board_url_path,
            # A link to very many runs would be cut and lead nowhere.
            **(
                {"evalplugin.compare": links.compare_url_path}
                if len(links.compare_url_path) <= labels.MAX_TAG
                else {}
            ),
        }
        with talking(self.uri, "log the summary run"):
            self._log(
                links.summary_run_id,
                values.summary_metrics(bakeoff, rows).metrics,
                labels.summary_params(bakeoff),
                tags,
            )
            self._upload(links.summary_run_id, {**config_artifacts(bakeoff), "leaderboard.md": _writer(text)})
            self._end(
                links.summary_run_id, "FAILED" if len(result.failed) == len(result.models) else "FINISHED"
            )
        return links

    def finish_alone(self, run_id: str, result: ModelResult) -> str:
        """Log a model that is compared with no other here, pictures included; return the path of its run's page."""
        self.finish_model(run_id, result)
        pictures = picture_artifacts(BakeoffResult(self.bakeoff, (result,)))
        with talking(self.uri, "log the pictures"):
            for files in pictures.values():
                self._upload(run_id, files)
        return f"/#/experiments/{self.experiment_id}/runs/{run_id}"

    def abort(self) -> None:
        """End every run that is still open as KILLED; quietly, since something else has gone wrong already."""
        for run_id in sorted(self._open):
            with suppress(TrackingError), talking(self.uri, "end a run", waiting=BRIEFLY):
                self.client.set_terminated(run_id, "KILLED")
        self._open.clear()

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

    def _upload(self, run_id: str, files: Artifacts) -> None:
        if files:
            with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
                write(files, Path(folder))
                self.client.log_artifacts(run_id, folder)

    def _end(self, run_id: str, status: str) -> None:
        self.client.set_terminated(run_id, status)
        self._open.discard(run_id)


def _writer(text: str) -> Any:
    return lambda path: path.write_text(text, encoding="utf-8", newline="\n")
