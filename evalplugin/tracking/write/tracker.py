"""The tracker of a bake-off: one MLflow run for each model, and a summary run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import starmap
from typing import Self

from evalplugin.base.errors import TrackingError
from evalplugin.base.secrets import redact
from evalplugin.base.signals import ignore_signals
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Bakeoff, BakeoffResult, DataSplit, ModelResult, ScoredOn
from evalplugin.report.drawing import Drawing, draw
from evalplugin.report.palette import model_colours
from evalplugin.report.sections import Section
from evalplugin.report.verdict import verdict_sentence
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import FAIL_FAST, attempt, connect, tracking_call
from evalplugin.tracking.large import LargeTables
from evalplugin.tracking.location import artifact_location, resolve_uri
from evalplugin.tracking.names import metric_names
from evalplugin.tracking.read.logged import VALUES
from evalplugin.tracking.read.runs import DONE, models_filter, search_runs
from evalplugin.tracking.write.artifacts import picture_artifacts, picture_requests, summary_artifact
from evalplugin.tracking.write.board import Links, board_of, save_board
from evalplugin.tracking.write.contents import model_items, standing_items, summary_items, summary_name
from evalplugin.tracking.write.items import Artifact, Item, Tag
from evalplugin.tracking.write.labels import common_tags, model_tags
from evalplugin.tracking.write.logged_models import NO_LOGGED_MODELS, open_logged_model, with_logged_model
from evalplugin.tracking.write.provenance import is_gone, process_tags
from evalplugin.tracking.write.writer import RunWriter

_KIND = {"mlflow.experimentKind": "custom_model_development"}
# Reports a step by its name while the context lasts.
Progress = Callable[[str], AbstractContextManager[object]]


@dataclass
class MlflowTracker:
    """Logs one bake-off to one MLflow store, run by run. Make it with ``open``.

    Used in a ``with`` statement, an exception inside, Ctrl-C and SIGTERM included, ends the open runs as KILLED.
    """

    bakeoff: Bakeoff
    uri: str  # absolute
    client: mlflow.MlflowClient = field(repr=False)
    writer: RunWriter = field(repr=False)
    common_tags: tuple[Tag, ...] = field(repr=False)  # of all runs
    progress: Progress = field(default=nullcontext, repr=False)
    board: bool = True  # whether to save a board
    # Of a run that `mlflow run` has started for the bake-off, or a resumed one.
    summary_run_id: str | None = None
    # Ids of the models' runs by dataset, split and model: started here, or resumed.
    run_ids: dict[tuple[str, str, str], str] = field(default_factory=dict, repr=False)
    _complete: set[str] = field(default_factory=set, repr=False)  # ids of runs whose results are logged
    _without_models: bool = field(default=False, repr=False)  # whether the store keeps no logged models

    @classmethod
    def open(
        cls,
        bakeoff: Bakeoff,
        uri: str | None = None,
        *,
        resume: bool = False,
        progress: Progress = nullcontext,
        large: LargeTables | None = None,
        board: bool = True,
    ) -> MlflowTracker:
        """Return a tracker of a reachable store, whose experiment exists and has no dead runs of this machine.

        Args:
            bakeoff: The bake-off to log.
            uri: The tracking URI; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.
            resume: Whether to resume the bake-off's existing runs.
            progress: Reports the step that follows an exception, by its name, while the context lasts.
            large: Where large tables go; None: into the runs.
            board: Whether to save a board.

        Raises:
            TrackingError: The store cannot be reached or used, the experiment is deleted, two metrics have one
                name in MLflow.
        """
        metric_names(bakeoff.metrics)  # refused now, not after the first model is fitted
        uri = resolve_uri(uri)
        client = connect(uri)
        with tracking_call(uri, f"open the experiment {bakeoff.experiment!r}", settings=FAIL_FAST):
            experiment_id = _open_experiment(client, uri, bakeoff.experiment)
            writer = RunWriter(client, experiment_id, large or LargeTables())
        tracker = cls(bakeoff, uri, client, writer, tuple(common_tags(bakeoff)), progress, board)
        with tracking_call(uri, "look for runs of ours that were cut off", settings=FAIL_FAST):
            if resume:
                tracker._resume()  # first, as the process of these runs has ended too
            _close_dead_runs(client, tracker.experiment_id)
        if tracker.summary_run_id is None and (run_id := os.environ.get("MLFLOW_RUN_ID")):
            with tracking_call(uri, f"adopt the run of MLFLOW_RUN_ID={run_id}", settings=FAIL_FAST):
                run = client.get_run(run_id)
            # With another status, an earlier bake-off of this process has ended it.
            if run.info.status in ("RUNNING", "SCHEDULED"):
                tracker.summary_run_id = writer.attach(run)
                writer.open_runs.add(run_id)
        return tracker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        with ignore_signals(), self.progress("end the open runs"):  # no run may stay RUNNING
            with suppress(TrackingError):  # after a first failure the store gets no further requests
                for run_id in sorted(self.writer.open_runs):
                    with tracking_call(self.uri, "end a run", settings=FAIL_FAST):
                        self.writer.end(run_id, "KILLED")
            self.writer.open_runs.clear()

    @property
    def experiment_id(self) -> str:
        """The experiment of all runs."""
        return self.writer.experiment_id

    def start_model(self, data: ScoredOn, model: str, type: str) -> str:
        """Return the id of the RUNNING run of a model to fit: a new run, or a resumed one."""
        key = (*DataSplit.of(data), model)
        if key in self.run_ids:
            return self.run_ids[key]
        bakeoff = self.bakeoff
        tags = [
            *self.common_tags,
            *model_tags(data, model, type),
            Tag("mlflow.runColor", model_colours(bakeoff.models, bakeoff.baseline)[model]),
            Tag("evalplugin.place", str(bakeoff.position(data, model))),
        ]
        with tracking_call(self.uri, f"start the run of {model}"):
            self.run_ids[key] = self.writer.start(bakeoff.run_name(data, model), tags)
        return self.run_ids[key]

    def finish_model(self, result: ModelResult, further: Iterable[Item] = ()) -> None:
        """Log a model's results without pictures, and ``further`` items; end its run as FINISHED or FAILED.

        Logging twice stores everything once. A complete resumed run stays unchanged.
        """
        run_id = self.run_id(result)
        if run_id in self._complete:
            return
        has_failed = result.error is not None
        items = [*model_items(self.bakeoff, result), *further]
        with tracking_call(self.uri, f"log {result.model}"):
            # New for the first attempt alone, which may have created a logged model although it failed.
            run = self.writer.new_runs.pop(run_id, None)
            if (model := open_logged_model(self.client, run_id, items, new=run)) is None:
                self._without_models = True
            else:
                items = [*with_logged_model(items, model, self.bakeoff, result)]
            self.writer.log(run_id, items)
        with tracking_call(self.uri, f"end the run of {result.model}"):
            if model is not None:
                self.client.finalize_logged_model(model.model_id, "FAILED" if has_failed else "READY")
            self.writer.end(run_id, "FAILED" if has_failed else "FINISHED")

    def fail_model(self, result: ModelResult) -> None:
        """Log a failed model's result, after logging its whole result has failed; its run is FAILED in any case."""
        try:
            self.finish_model(result)
        except Exception:  # noqa: BLE001 - whatever could not be logged again: the first error is reported
            run_id = self.run_id(result)
            with suppress(TrackingError), tracking_call(self.uri, "end a run", settings=FAIL_FAST):
                self.writer.end(run_id, "FAILED")
                self.writer.log(run_id, [Artifact("traceback.txt", result.error or "")])

    def finish_bakeoff(
        self,
        result: BakeoffResult,
        comparisons: Sequence[Comparison],
        *,
        sections: Iterable[Section] = (),
        items: Iterable[Item] = (),
        pictures: Drawing | None = None,
    ) -> Links:
        """Log the items that need all models (pictures, differences, summary run, board) and return the links.

        Args:
            result: All models' results.
            comparisons: The comparisons of the result.
            sections: What features add to the reports.
            items: Further items of the summary run.
            pictures: The pictures that are being drawn; None: they are drawn here.
        """
        rows = {(*c.contest.place, row.model): (c, row) for c in comparisons for row in c.models}
        with tracking_call(self.uri, "log the differences"):
            query = models_filter(self.bakeoff.id)
            seals = {run.id: run.seal for run in search_runs(self.client, [self.experiment_id], query)}
            for key, standing in rows.items():
                run_id = self.run_ids[key]
                self.writer.log(
                    run_id, [*standing_items(self.bakeoff, *standing), Tag(VALUES, seals[run_id])]
                )
        board_key, warnings = None, []
        if self.board:
            shown = board_of(result, comparisons)
            try:  # MLflow does not document saved views: without one the link opens the plain page
                with tracking_call(self.uri, "save the board"):
                    board_key = save_board(self.client, self.experiment_id, self.bakeoff.id, shown)
            except TrackingError as error:
                warnings.append(str(error))
        if self._without_models:
            warnings.append(NO_LOGGED_MODELS)
        compared = tuple(self.run_ids[key] for key, (_, row) in rows.items() if row.error is None)
        links = Links(
            tracking_uri=redact(self.uri),
            experiment_id=self.experiment_id,
            summary_run_id=self._start_summary(summary_name(comparisons)),
            bakeoff=self.bakeoff.id,
            board=board_key,
            compared=compared,
            warnings=tuple(warnings),
        )
        with tracking_call(self.uri, "log the summary run"):
            summary = summary_items(self.bakeoff, comparisons, links, sections)
            self.writer.log(links.summary_run_id, [*summary, *items])
        pictures = pictures or draw(picture_requests(result))
        drawn = picture_artifacts(pictures.figures)  # last, as drawing takes longest
        with tracking_call(self.uri, "log the pictures"):
            for model in result.models:
                key = (*DataSplit.of(model.data), model.model)
                if key in drawn:  # no model that failed
                    comparison, row = rows[key]
                    verdict = verdict_sentence(comparison, self.bakeoff.primary)
                    summary_of_model = summary_artifact(self.bakeoff, model, row.cells, verdict)
                    self.writer.log(self.run_ids[key], [summary_of_model, *drawn[key]])
        with tracking_call(self.uri, "end the summary run"):
            failed = len(result.failed) == len(result.models)
            self.writer.end(links.summary_run_id, "FAILED" if failed else "FINISHED")
        return links

    def run_id(self, result: ModelResult) -> str:
        """Return the id of a model's run."""
        return self.run_ids[(*DataSplit.of(result.data), result.model)]

    def tag(self, run_id: str, key: str, value: str) -> None:
        """Set a tag with the prefix ``evalplugin.`` on an ended run."""
        with tracking_call(self.uri, f"tag the run {run_id}"):
            self.writer.log(run_id, [Tag(f"evalplugin.{key}", value)])

    def _resume(self) -> None:
        """Attach to the bake-off's existing runs; incomplete ones become runs of this process."""
        query = f"tags.`evalplugin.bakeoff` = '{self.bakeoff.id}'"
        runs = search_runs(self.client, [self.experiment_id], query)
        seen = set()
        for run in sorted(runs, key=lambda run: run.status not in DONE):  # complete runs first
            key = (run.tag("role"), run.tag("dataset"), run.tag("split"), run.model)
            if key in seen:
                # The answer to its start was lost, and the retry started another one.
                if run.status not in ("KILLED", *DONE):
                    self.client.set_terminated(run.id, "KILLED")
                continue
            seen.add(key)
            run_id = self.writer.attach(run.run)
            if run.tag("role") == "summary":
                self.summary_run_id = run_id
            else:
                self.run_ids[key[1:]] = run_id
            if run.status in DONE:
                self._complete.add(run_id)
            else:
                self.writer.log(run_id, starmap(Tag, process_tags().items()))
                self.client.update_run(run_id, status="RUNNING")
                self.writer.open_runs.add(run_id)

    def _start_summary(self, name: str) -> str:
        tags = [*self.common_tags, Tag("evalplugin.role", "summary")]
        if self.summary_run_id is None:
            with tracking_call(self.uri, "start the summary run"):
                return self.writer.start(name, tags)
        with tracking_call(self.uri, "tag the summary run"):
            # The source that `mlflow run` has logged must not change.
            self.writer.log(self.summary_run_id, [tag for tag in tags if not tag.key.startswith("mlflow.")])
        return self.summary_run_id


def _open_experiment(client: mlflow.MlflowClient, uri: str, name: str) -> str:
    """Return the id of the named experiment, created if it is missing, and marked as one of models."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = artifact_location(uri, name)
        made = attempt("RESOURCE_ALREADY_EXISTS", client.create_experiment, name, location, tags=_KIND)
        # None: another process was faster.
        return str(made) if made is not None else _open_experiment(client, uri, name)
    if experiment.lifecycle_stage != "active":
        raise TrackingError(
            f"MLflow at {uri}: the experiment {name!r} (id {experiment.experiment_id}) is deleted; "
            f"choose another name, or restore it: MLFLOW_TRACKING_URI={uri} mlflow experiments restore "
            f"--experiment-id {experiment.experiment_id}"
        )
    for key, value in _KIND.items():
        if key not in experiment.tags:
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return str(experiment.experiment_id)


def _close_dead_runs(client: mlflow.MlflowClient, experiment_id: str) -> None:
    """End as KILLED the runs of an experiment that are RUNNING though the process that made them here is gone."""
    host = process_tags()["evalplugin.host"].replace("'", "")
    query = f"attributes.status = 'RUNNING' and tags.`evalplugin.host` = '{host}'"
    for run in search_runs(client, [experiment_id], query):
        if is_gone(run.run.data.tags):
            client.set_terminated(run.id, "KILLED")
