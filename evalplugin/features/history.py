"""The bake-offs before: trends of the models, on the page and in the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evalplugin.comparison.gate import Decision
from evalplugin.comparison.trends import PastBakeoff
from evalplugin.features.base import Feature, Results, Running

__all__ = ["HistoryFeature", "with_decision"]


class HistoryFeature(Feature):
    """Reads the latest bake-offs of the experiment, once all models are logged."""

    def after(self, running: Running, results: Results) -> Results:
        """Add the latest bake-offs, this one with its decision, which is not logged yet."""
        with running.workspace.observer.progress("read the bake-offs before"):
            past = running.tracker.past_bakeoffs()
        if results.decision is not None:
            past = with_decision(past, results.result.bakeoff.id, results.decision)
        return replace(results, past=past)


def with_decision(past: Sequence[PastBakeoff], id: str, decision: Decision) -> tuple[PastBakeoff, ...]:
    """Return bake-offs, the one of an id with its decision."""
    decided = {key: getattr(decision, key) for key in ("outcome", "champion", "promoted")}
    decided["decided"] = (decision.dataset, decision.split)
    return tuple(replace(one, **decided) if one.id == id else one for one in past)
