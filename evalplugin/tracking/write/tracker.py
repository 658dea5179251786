"""The tracker of a bake-off: one MLflow run for each model, and a summary run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import starmap
from typing import Self

from evalplugin.base.errors import TrackingError
from evalplugin.base.places import DataSplit
from evalplugin.base.secrets import redact
from evalplugin.base.signals import ignore_signals
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import ModelResult, Plan, Scored
from evalplugin.report.charts.palette import model_colours
from evalplugin.report.charts.pictures import ModelPicture
from evalplugin.report.sections import Section
from evalplugin.report.sentences.verdict import verdict
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import FAIL_FAST, connect, tracking_call
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.names import metric_names
from evalplugin.tracking.read.runs import DONE, search_runs
from evalplugin.tracking.write.artifacts import picture_artifacts, summary_artifact
from evalplugin.tracking.write.board import Links, board_of, save_boards
from evalplugin.tracking.write.contents import model_items, standing_items, summary_items, summary_name
from evalplugin.tracking.write.items import Datum, Item, Tag
from evalplugin.tracking.write.labels import common_tags, model_tags
from evalplugin.tracking.write.logged_models import (
    NO_LOGGED_MODELS,
    of_logged_model,
    open_logged_model,
)
from evalplugin.tracking.write.provenance import process_data
from evalplugin.tracking.write.writer import RunWriter, close_dead_runs, open_experiment

# Reports a step by its name while the context lasts.
Progress = Callable[[str], AbstractContextManager[object]]
Key = tuple[str, str, str]  # of a model's run: dataset, split and model


@dataclass
class MlflowTracker:
    """Logs one bake-off to one MLflow store, run by run. Make it with ``open``.

    Used in a ``with`` statement, an exception inside, Ctrl-C and SIGTERM included, ends the open runs as KILLED.
    """

    plan: Plan
    uri: str  # absolute
    client: mlflow.MlflowClient = field(repr=False)
    writer: RunWriter = field(repr=False)
    common_tags: tuple[Tag | Datum, ...] = field(repr=False)  # of all runs
    progress: Progress = field(default=nullcontext, repr=False)
    board: bool = True  # whether to save a board
    summary: str | None = None  # id of the summary run: resumed, or started by `mlflow run` for the bake-off
    ids: dict[Key, str] = field(default_factory=dict, repr=False)  # of the models' runs: started or resumed
    complete: set[Key] = field(default_factory=set, repr=False)  # the models' runs whose results are logged
    keeps_models: bool = True  # whether the store keeps logged models

    @classmethod
    def open(
        cls,
        plan: Plan,
        uri: str | None = None,
        *,
        resume: bool = False,
        progress: Progress = nullcontext,
        board: bool = True,
    ) -> Self:
        """Return a tracker of a reachable store, whose experiment exists and has no dead runs of this machine.

        Args:
            plan: Of the bake-off to log.
            uri: The tracking URI; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.
            resume: Whether to resume the bake-off's existing runs.
            progress: Reports the step that follows an exception, by its name, while the context lasts.
            board: Whether to save a board.

        Raises:
            TrackingError: The store cannot be reached or used, the experiment is deleted, two metrics have one
                name in MLflow.
        """
        metric_names(plan.metrics)  # refused now, not after the first model is fitted
        uri = resolve_uri(uri)
        client = connect(uri)
        with tracking_call(uri, f"open the experiment {plan.experiment!r}", settings=FAIL_FAST):
            writer = RunWriter(client, open_experiment(client, uri, plan.experiment))
        tracker = cls(plan, uri, client, writer, tuple(common_tags(plan)), progress, board)
        with tracking_call(uri, "look for runs of ours that were cut off", settings=FAIL_FAST):
            if resume:
                tracker._resume()  # first, as the process of these runs has ended too
            close_dead_runs(client, tracker.experiment_id)
        if tracker.summary is None and (run_id := os.environ.get("MLFLOW_RUN_ID")):
            with tracking_call(uri, f"adopt the run of MLFLOW_RUN_ID={run_id}", settings=FAIL_FAST):
                run = client.get_run(run_id)
            # With another status, an earlier bake-off of this process has ended it.
            if run.info.status in ("RUNNING", "SCHEDULED"):
                tracker.summary = writer.attach(run)
                writer.open_runs.add(run_id)
        return tracker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        # No run may stay RUNNING. After a first failure the store gets no further requests.
        with self.progress("end the open runs"), ignore_signals(), suppress(TrackingError):
            for run_id in sorted(self.writer.open_runs):
                with tracking_call(self.uri, "end a run", settings=FAIL_FAST):
                    self.writer.end(run_id, "KILLED")
        self.writer.open_runs.clear()

    @property
    def experiment_id(self) -> str:
        """The experiment of all runs."""
        return self.writer.experiment_id

    def run_id(self, result: ModelResult) -> str:
        """Return the id of a model's run."""
        return self.ids[key_of(result)]

    def start_model(self, data: Scored, model: str, type: str) -> None:
        """Start the RUNNING run of a model to fit; a resumed run has started."""
        if (key := (*DataSplit.of(data), model)) in self.ids:
            return
        plan = self.plan
        tags: list[Tag | Datum] = [
            *self.common_tags,
            *model_tags(data, model, type),
            Tag("mlflow.runColor", model_colours(plan.models, plan.baseline)[model]),
            Datum("position", str(plan.position(data, model))),
        ]
        with tracking_call(self.uri, f"start the run of {model}"):
            self.ids[key] = self.writer.start(plan.run_name(data, model), tags)

    def finish_model(self, result: ModelResult, further: Iterable[Item] = ()) -> None:
        """Log a model's results without pictures, and ``further`` items; end its run as FINISHED or FAILED.

        Logging twice stores everything once. A complete resumed run stays unchanged.
        """
        if (key := key_of(result)) in self.complete:
            return
        run_id, failed = self.ids[key], result.error is not None
        items = [*model_items(self.plan, result), *further]
        with tracking_call(self.uri, f"log {result.model}"), self.writer.uploading({run_id: items}):
            # New for the first attempt alone, which may have created a logged model although it failed.
            run = self.writer.new_runs.pop(run_id, None)
            if (model := open_logged_model(self.client, run_id, items, new=run)) is None:
                self.keeps_models = False
            self.writer.log_values(run_id, of_logged_model(items, model, self.plan, result))
        with tracking_call(self.uri, f"end the run of {result.model}"):
            if model is not None:
                self.client.finalize_logged_model(model.model_id, "FAILED" if failed else "READY")
            self.writer.end(run_id, "FAILED" if failed else "FINISHED")
        self.complete.add(key)

    def finish_bakeoff(
        self,
        results: Sequence[ModelResult],
        comparisons: Sequence[Comparison],
        *,
        sections: Iterable[Section] = (),
        items: Iterable[Item] = (),
        pictures: Iterable[ModelPicture] = (),
    ) -> Links:
        """Log the items that need all models (pictures, differences, summary run, board) and return the links.

        Args:
            results: Of all models.
            comparisons: Of the results.
            sections: What features add to the reports.
            items: Further items of the summary run.
            pictures: What features add to the pictures of the models' runs.
        """
        plan, sections = self.plan, list(sections)
        findings = [finding for section in sections for finding in section.findings]
        rows = {(*c.contest.place, row.model): (c, row) for c in comparisons for row in c.models}
        pages: dict[str, list[Item]] = {}
        drawn = picture_artifacts(plan, results, pictures)
        for model in results:
            key = key_of(model)
            if key in drawn:  # no model that failed
                comparison, row = rows[key]
                sentences = str(verdict(comparison))
                pages[self.ids[key]] = [summary_artifact(plan, model, row.cells, sentences), *drawn[key]]
        with tracking_call(self.uri, "log the pictures"), self.writer.uploading(pages):
            with tracking_call(self.uri, "log the differences"):
                for key, standing in rows.items():
                    self.writer.log(self.ids[key], standing_items(plan, *standing, findings))
            boards, warnings = self._save_boards(results, comparisons)
            summary = self._start_summary(summary_name(comparisons))
            links = Links(
                tracking_uri=redact(self.uri),
                experiment_id=self.experiment_id,
                summary_run_id=summary,
                bakeoff=plan.id,
                boards=boards,
                compared=tuple(self.ids[key] for key, (_, row) in rows.items() if row.error is None),
                warnings=warnings,
            )
            with tracking_call(self.uri, "log the summary run"):
                self.writer.log(summary, [*summary_items(plan, comparisons, links, sections), *items])
        with tracking_call(self.uri, "end the summary run"):
            self.writer.end(
                summary, "FAILED" if all(model.error is not None for model in results) else "FINISHED"
            )
        return links

    def tag(self, run_id: str, item: Tag | Datum) -> None:
        """Log a tag or a value for programs into an ended run."""
        with tracking_call(self.uri, f"tag the run {run_id}"):
            self.writer.log(run_id, [item])

    def _save_boards(
        self, results: Sequence[ModelResult], comparisons: Sequence[Comparison]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the keys of the saved boards, and warnings about what the store cannot show."""
        keys: tuple[str, ...] = ()
        warnings = []
        if self.board:
            try:  # MLflow does not document saved views: without one the link opens the plain page
                with tracking_call(self.uri, "save the board"):
                    boards = {
                        c.contest.place: board
                        for c in comparisons
                        if (board := board_of(self.plan, results, c)) is not None
                    }
                    keys = save_boards(self.client, self.experiment_id, self.plan.id, boards)
            except TrackingError as error:
                warnings.append(str(error))
        if not self.keeps_models:
            warnings.append(NO_LOGGED_MODELS)
        return keys, tuple(warnings)

    def _start_summary(self, name: str) -> str:
        """Return the id of the summary run, started if there is none yet."""
        tags = [*self.common_tags, Tag("evalplugin.role", "summary")]
        if self.summary is None:
            with tracking_call(self.uri, "start the summary run"):
                self.summary = self.writer.start(name, tags)
        else:
            with tracking_call(self.uri, "tag the summary run"):
                # The source that `mlflow run` has logged must not change.
                self.writer.log(self.summary, [tag for tag in tags if not tag.key.startswith("mlflow.")])
        return self.summary

    def _resume(self) -> None:
        """Attach to the bake-off's existing runs; incomplete ones become runs of this process."""
        query = f"tags.`evalplugin.bakeoff` = '{self.plan.id}'"
        seen = set()
        runs = search_runs(self.client, [self.experiment_id], query)
        for run in sorted(runs, key=lambda run: run.status not in DONE):  # complete runs first
            key = (run.tag("dataset"), run.tag("split"), run.model)
            if (run.tag("role"), *key) in seen:
                # The answer to its start was lost, and the retry started another one.
                if run.status not in ("KILLED", *DONE):
                    self.client.set_terminated(run.id, "KILLED")
                continue
            seen.add((run.tag("role"), *key))
            run_id = self.writer.attach(run.run)
            if run.tag("role") == "summary":
                self.summary = run_id
            else:
                self.ids[key] = run_id
                if run.status in DONE:
                    self.complete.add(key)
            if run.status not in DONE:
                self.writer.log(run_id, starmap(Datum, process_data().items()))
                self.client.update_run(run_id, status="RUNNING")
                self.writer.open_runs.add(run_id)


def key_of(result: ModelResult) -> Key:
    """Return the key of a model's run."""
    return (*DataSplit.of(result.data), result.model)
