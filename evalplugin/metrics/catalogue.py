"""Metrics of all lists together: how much of the catalogue they show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from evalplugin.metrics.base import OverallMetric, metric
from evalplugin.metrics.context import ScoringContext
from evalplugin.models.topn import NO_ITEM

__all__ = ["Coverage"]


@metric("coverage")
@dataclass(frozen=True)
class Coverage(OverallMetric):
    """Share of the catalogue that is in anybody's top k.

    coverage@k = distinct items in the top k of all lists / items of the catalogue. One number a model. Every
    list counts, also that of a user without truth; the catalogue holds every item of the data, train and
    test. Range 0 to 1, higher is better.

    Source: Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22, 2004; Ge,
    Delgado-Battenfeld and Jannach, Beyond accuracy, RecSys 2010 (catalogue coverage).

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("coverage@2", lists=[["a", "b", "c"], ["b", "a"]], truth=[{"a"}, {"d"}])
    [0.5]
    """

    higher_is_better: ClassVar[bool | None] = True
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def start(self, n_items: int) -> npt.NDArray[np.bool_]:
        """Return which items were listed so far: none of them, bool (n_items,)."""
        return np.zeros(n_items, dtype=np.bool_)

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Mark the items of the block's top k."""
        item = context.item[:, :k]
        state[item[item != NO_ITEM]] = True

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the share of marked items."""
        return float(np.count_nonzero(state) / len(state)) if len(state) else float("nan")
