"""``Feature``: a part of a bake-off that can be left out, and the values that the flow hands to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.engines import Session
from evalplugin.execution.results import BakeoffResult
from evalplugin.execution.runner import Job, PreparedData
from evalplugin.execution.store.journal import Journal
from evalplugin.report.sections import Section
from evalplugin.tracking import Links, MlflowTracker
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.write.items import Item
from evalplugin.workspace import Workspace

__all__ = ["Feature", "Results", "Running"]


@dataclass(frozen=True)
class Running:
    """A bake-off that is under way: where its tasks run and where its results go."""

    workspace: Workspace
    inputs: Mapping[str, str]  # fingerprints of the models' inputs
    journal: Journal
    session: Session
    tracker: MlflowTracker
    is_idle: bool = False  # whether there was nothing left to compute


@dataclass(frozen=True)
class Results:
    """All models of a bake-off, scored and compared; features add to it before and after it is logged."""

    prepared: Sequence[PreparedData]
    result: BakeoffResult
    run_ids: Sequence[str]  # of the models of ``result``, in the same order
    comparisons: tuple[Comparison, ...]  # one for each dataset and split, in config order
    # What the features have found, by the names of the attributes of ``Outcome``; a feature need not be there.
    values: Mapping[str, Any] = field(default_factory=dict)
    links: Links | None = None  # once it is logged

    def having(self, **values: Any) -> Self:
        """Return the results with further values."""
        return replace(self, values={**self.values, **values})


class Feature:
    """A part of a bake-off that can be left out; it implements the moments that it needs.

    The flow makes one of each kind for a bake-off, and calls all of them at each moment, in the order of its tuple.
    """

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

    def before_tasks(self, running: Running, jobs: list[Job]) -> list[Job]:
        """Return the jobs whose tasks are to run, once the tracking store is open."""
        return jobs

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
