"""The bake-offs before: trends of the models, on the page and in the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import DataSplit
from evalplugin.features.base import Feature, Results, Running
from evalplugin.features.history.past import past_of
from evalplugin.features.history.report import trend
from evalplugin.features.history.trends import PastBakeoff
from evalplugin.report.sections import Section
from evalplugin.tracking.connection import tracking_call


class HistoryFeature(Feature):
    """Reads the latest bake-offs of the experiment, once all models are logged."""

    def after(self, running: Running, results: Results) -> Results:
        """Add the latest bake-offs, the oldest first, this one with its decision, which is not logged yet."""
        tracker, bakeoff = running.tracker, results.result.bakeoff
        with (
            running.workspace.observer.progress("read the bake-offs before"),
            tracking_call(tracker.uri, "read the bake-offs before"),
        ):
            past = tuple(past_of(tracker.client, tracker.experiment_id, models_each=bakeoff.n_runs))
        if (decision := results.values.get("decision")) is not None:
            past = with_decision(past, bakeoff.id, decision)
        return results.having(past=past)

    def sections(self, comparisons: Sequence[Comparison], values: Mapping[str, Any]) -> Iterator[Section]:
        """Yield the trend for the page."""
        yield trend_section(partial(tuple, values.get("past", ())))


def trend_section(past: Callable[[], Sequence[PastBakeoff]]) -> Section:
    """Return the trend for the page; ``past`` returns the bake-offs, and is called when there is a page."""
    return Section(tab=partial(_trend_tab, past))


def _trend_tab(
    past: Callable[[], Sequence[PastBakeoff]], comparison: Comparison, models: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {"data": {"trend": trend(comparison, past(), models)}}


def with_decision(past: Sequence[PastBakeoff], id: str, decision: Any) -> tuple[PastBakeoff, ...]:
    """Return bake-offs, the one of an id with the decision of its gate."""
    decided = {key: getattr(decision, key) for key in ("outcome", "champion", "promoted")}
    decided["decided"] = DataSplit.of(decision)
    return tuple(replace(bakeoff, **decided) if bakeoff.id == id else bakeoff for bakeoff in past)
