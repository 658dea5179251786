"""``Feature``: a part of a bake-off that can be left out, and the values that the flow hands to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Self

from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.engines import Session
from evalplugin.execution.results import Bakeoff, BakeoffResult, Finding
from evalplugin.execution.runner import Job, PreparedData
from evalplugin.execution.store.journal import Header, Journal
from evalplugin.report.charts.pictures import ModelPicture
from evalplugin.report.competition import findings_of
from evalplugin.report.sections import Section
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.write.board import Links
from evalplugin.tracking.write.items import Item
from evalplugin.tracking.write.tracker import MlflowTracker
from evalplugin.workspace import Workspace


@dataclass(frozen=True)
class Planned:
    """A bake-off that is about to run: its data is read, and nothing is fitted yet."""

    workspace: Workspace
    prepared: Sequence[PreparedData]
    jobs: Sequence[Job]
    inputs: Mapping[str, str]  # fingerprints of the models' inputs
    bakeoff: Bakeoff
    header: Header  # of a journal of its own


@dataclass(frozen=True)
class Running(Planned):
    """A bake-off that is under way: where its tasks run and where its results go."""

    journal: Journal
    session: Session
    tracker: MlflowTracker
    is_idle: bool  # whether there was nothing left to compute


@dataclass(frozen=True)
class Results:
    """All models of a bake-off, scored and compared; features add to it before and after it is logged."""

    result: BakeoffResult
    comparisons: tuple[Comparison, ...]  # one for each dataset and split, in config order
    # What the features have found, by the names of the attributes of ``Outcome``; a feature need not be there.
    values: Mapping[str, Any] = field(default_factory=dict)
    links: Links | None = None  # once it is logged

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the checks in the data and in the results."""
        return findings_of(self.comparisons, self.values.get("checked", ()))

    def having(self, **values: Any) -> Self:
        """Return the results with further values."""
        return replace(self, values={**self.values, **values})


class Feature:
    """A part of a bake-off that can be left out; it implements the moments that it needs.

    The flow makes one of each kind for a bake-off, and calls all of them at each moment, in the order of its tuple.
    """

    def around(self, workspace: Workspace) -> AbstractContextManager[object]:
        """Return a context manager around all that follows; these end in order too."""
        return nullcontext()

    def start(self, workspace: Workspace) -> Workspace:
        """Return the workspace, perhaps with another config; nothing is read yet."""
        return workspace

    def with_data(self, workspace: Workspace, prepared: list[PreparedData]) -> list[PreparedData]:
        """Return the data, read and split; nothing is fitted yet."""
        return prepared

    def with_jobs(self, workspace: Workspace, prepared: list[PreparedData], jobs: list[Job]) -> list[Job]:
        """Return the jobs that are about to run; nothing is fitted yet."""
        return jobs

    def difference(self, last: LoggedRun) -> str | None:
        """Return a reason to run although data, config and code are those of the last bake-off; None: there is none."""
        return None

    def earlier(self, planned: Planned, features: Sequence[Feature]) -> Journal | None:
        """Return the journal of an earlier bake-off to continue; None: this is a new one.

        Raises:
            UnchangedError: There is nothing to do.
        """
        return None

    def opened(self, running: Running) -> None:
        """Take notice of the bake-off, once the tracking store is open and it can be continued if it is cut off."""

    def before_tasks(self, running: Running) -> Running:
        """Return the bake-off, perhaps with other jobs; their tasks are about to run."""
        return running

    def pictures(self, result: BakeoffResult) -> Iterator[ModelPicture]:
        """Yield further pictures of the models' runs."""
        yield from ()

    def after(self, running: Running, results: Results) -> Results:
        """Return the results, all models compared, as they are to be logged."""
        return results

    def sections(self, comparisons: Sequence[Comparison], values: Mapping[str, Any]) -> Iterator[Section]:
        """Yield what reports on the comparisons show of this feature, given the values of ``Results``."""
        yield from ()

    def items(self, results: Results) -> Iterator[Item]:
        """Yield what the summary run holds of this feature."""
        yield from ()

    def end(self, running: Running, results: Results) -> Results:
        """Return the results after what is left to do once everything is logged."""
        return results
