"""The tracker of a bake-off: one MLflow run for each model, and a summary run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, Self, TypeVar

from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Bakeoff, BakeoffResult, DataSplit, ModelResult, ScoredOn
from evalplugin.report.charts.palette import model_colours
from evalplugin.report.charts.pictures import ModelPicture
from evalplugin.report.sections import Section
from evalplugin.report.verdict import verdict_sentence
from evalplugin.tracking import mlflow
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.names import metric_names
from evalplugin.tracking.write.artifacts import picture_artifacts, summary_artifact
from evalplugin.tracking.write.background import Logger, RemoteRuns
from evalplugin.tracking.write.board import Links, board_of
from evalplugin.tracking.write.contents import model_items, standing_items, summary_items, summary_name
from evalplugin.tracking.write.items import Item, Tag
from evalplugin.tracking.write.labels import common_tags, model_tags
from evalplugin.tracking.write.logged_models import for_logged_model
from evalplugin.tracking.write.provenance import process_tags
from evalplugin.tracking.write.runs import Key, Runs

P = ParamSpec("P")
T = TypeVar("T")
# Reports a step by its name while the context lasts.
Progress = Callable[[str], AbstractContextManager[object]]


@dataclass
class MlflowTracker:
    """Logs one bake-off to one MLflow store, run by run. Make it with ``open``.

    Used in a ``with`` statement, an exception inside, Ctrl-C and SIGTERM included, ends the open runs as KILLED.
    """

    bakeoff: Bakeoff
    uri: str  # absolute
    runs: Runs | RemoteRuns = field(repr=False)
    common_tags: tuple[Tag, ...] = field(repr=False)  # of all runs
    progress: Progress = field(default=nullcontext, repr=False)
    board: bool = True  # whether to save a board

    @classmethod
    def open(
        cls,
        bakeoff: Bakeoff,
        uri: str | None = None,
        *,
        resume: bool = False,
        progress: Progress = nullcontext,
        board: bool = True,
        logger: Logger | None = None,
    ) -> MlflowTracker:
        """Return a tracker of a reachable store, whose experiment exists and has no dead runs of this machine.

        Args:
            bakeoff: The bake-off to log.
            uri: The tracking URI; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.
            resume: Whether to resume the bake-off's existing runs.
            progress: Reports the step that follows an exception, by its name, while the context lasts.
            board: Whether to save a board.
            logger: The process that logs; None: this one, before a call returns.

        Raises:
            TrackingError: The store cannot be reached or used, the experiment is deleted, two metrics have one
                name in MLflow.
        """
        metric_names(bakeoff.metrics)  # refused now, not after the first model is fitted
        uri = resolve_uri(uri)
        open_runs = Runs.open if logger is None else logger.open
        resumed = process_tags() if resume else None
        runs = open_runs(uri, bakeoff.experiment, bakeoff.id, resume=resumed)
        return cls(bakeoff, uri, runs, tuple(common_tags(bakeoff)), progress, board)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with self.progress("end the open runs"):  # no run may stay RUNNING
                self.runs.end_open()

    @property
    def experiment_id(self) -> str:
        """The experiment of all runs."""
        return self.runs.experiment_id

    def start_model(self, data: ScoredOn, model: str, type: str) -> None:
        """Start the RUNNING run of a model to fit: a new run, or a resumed one."""
        bakeoff = self.bakeoff
        tags = [
            *self.common_tags,
            *model_tags(data, model, type),
            Tag("mlflow.runColor", model_colours(bakeoff.models, bakeoff.baseline)[model]),
            Tag("evalplugin.place", str(bakeoff.position(data, model))),
        ]
        self.runs.start((*DataSplit.of(data), model), bakeoff.run_name(data, model), tags)

    def finish_model(self, result: ModelResult, further: Iterable[Item] = ()) -> None:
        """Log a model's results without pictures, and ``further`` items; end its run as FINISHED or FAILED.

        Logging twice stores everything once. A complete resumed run stays unchanged.
        """
        if (key := key_of(result)) not in self.runs.complete:
            items = [*model_items(self.bakeoff, result), *further]
            items = [*for_logged_model(items, self.bakeoff, result)]
            self.runs.finish(key, items, failed=result.error is not None)

    def fail_model(self, result: ModelResult) -> None:
        """Log a failed model's result, after logging its whole result has failed; its run is FAILED in any case."""
        try:
            self.finish_model(result)
        except Exception:  # noqa: BLE001 - whatever could not be logged again: the first error is reported
            self.runs.fail(key_of(result), result.error or "")

    def finish_bakeoff(
        self,
        result: BakeoffResult,
        comparisons: Sequence[Comparison],
        *,
        sections: Iterable[Section] = (),
        items: Iterable[Item] = (),
        pictures: Iterable[ModelPicture] = (),
    ) -> Links:
        """Log the items that need all models (pictures, differences, summary run, board) and return the links.

        Args:
            result: All models' results.
            comparisons: The comparisons of the result.
            sections: What features add to the reports.
            items: Further items of the summary run.
            pictures: What features add to the pictures of the models' runs.
        """
        bakeoff, runs = self.bakeoff, self.runs
        rows = {(*c.contest.place, row.model): (c, row) for c in comparisons for row in c.models}
        runs.log_standings({key: [*standing_items(bakeoff, *standing)] for key, standing in rows.items()})
        links = runs.start_summary(
            summary_name(comparisons),
            [*self.common_tags, Tag("evalplugin.role", "summary")],
            board=(board_of(result, comparisons),) if self.board else None,
            compared=[key for key, (_, row) in rows.items() if row.error is None],
        )
        runs.log_summary([*summary_items(bakeoff, comparisons, links, sections), *items])
        drawn = picture_artifacts(result, pictures)
        pages: dict[Key, list[Item]] = {}
        for model in result.models:
            key = key_of(model)
            if key in drawn:  # no model that failed
                comparison, row = rows[key]
                verdict = verdict_sentence(comparison, bakeoff.primary)
                pages[key] = [summary_artifact(bakeoff, model, row.cells, verdict), *drawn[key]]
        runs.log("log the pictures", pages)
        runs.end_summary("FAILED" if len(result.failed) == len(result.models) else "FINISHED")
        runs.wait()
        return links

    def run_id(self, result: ModelResult) -> str:
        """Return the id of a model's run."""
        return self.runs.run_id(key_of(result))

    def read(
        self,
        purpose: str,
        function: Callable[Concatenate[mlflow.MlflowClient, str, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what a function reads from the store; see ``Runs.read``."""
        return self.runs.read(purpose, function, *args, **kwargs)

    def tag(self, run_id: str, key: str, value: str) -> None:
        """Set a tag with the prefix ``evalplugin.`` on an ended run."""
        self.runs.tag(run_id, Tag(f"evalplugin.{key}", value))
        self.runs.wait()


def key_of(result: ModelResult) -> Key:
    """Return the key of a model's run."""
    return (*DataSplit.of(result.data), result.model)
