"""Metrics of predicted ratings: root mean squared and mean absolute error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evalplugin.base.arrays import Floats
from evalplugin.metrics.base import Need, UserMetric, metric
from evalplugin.metrics.context import ScoringContext

__all__ = ["MAE", "RMSE"]


@metric("rmse")
@dataclass(frozen=True)
class RMSE(UserMetric):
    """Root of the mean squared error of the ratings predicted for the user's truth.

    rmse = sqrt(mean over the user's truth of (predicted - rating)^2), one value a user; the mean over users
    weighs every user alike, which is not the error over all ratings pooled. It takes no k. Undefined (NaN)
    for a user without truth, and for all users where a model predicts no ratings. From 0 up, lower is better.

    Source: Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22, 2004.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("rmse", lists=[[]], truth=[{"a": 4.0, "b": 2.0}], predictions=[{"a": 3.0, "b": 2.0}])
    [0.7071067811865476]
    """

    higher_is_better: ClassVar[bool | None] = False
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    needs: ClassVar[tuple[Need, ...]] = ("predictions",)
    takes_k: ClassVar[bool] = False

    def __call__(self, context: ScoringContext, _k: int, /) -> Floats:
        """Return float64 (B,)."""
        return np.sqrt(_mean_over_truth(context, _errors(context) ** 2))


@metric("mae")
@dataclass(frozen=True)
class MAE(UserMetric):
    """Mean absolute error of the ratings predicted for the user's truth.

    mae = mean over the user's truth of |predicted - rating|, one value a user; the mean over users weighs
    every user alike, which is not the error over all ratings pooled. It takes no k. Undefined (NaN) for a
    user without truth, and for all users where a model predicts no ratings. From 0 up, lower is better.

    Source: Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22, 2004.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("mae", lists=[[]], truth=[{"a": 4.0, "b": 2.0}], predictions=[{"a": 3.0, "b": 2.0}])
    [0.5]
    """

    higher_is_better: ClassVar[bool | None] = False
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    needs: ClassVar[tuple[Need, ...]] = ("predictions",)
    takes_k: ClassVar[bool] = False

    def __call__(self, context: ScoringContext, _k: int, /) -> Floats:
        """Return float64 (B,)."""
        return _mean_over_truth(context, np.abs(_errors(context)))


def _errors(context: ScoringContext) -> Floats:
    assert context.predictions is not None  # `needs` says so
    return context.predictions - context.truth_rating


def _mean_over_truth(context: ScoringContext, value: Floats) -> Floats:
    total = np.bincount(context.truth_row, weights=value, minlength=context.n_users)
    return np.where(context.n_truth > 0, total / np.maximum(context.n_truth, 1), np.nan)
