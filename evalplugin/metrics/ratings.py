"""Metrics of predicted ratings: root mean squared and mean absolute error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Floats
from evalplugin.metrics.base import Need, SummedMetric, UserMetric, metric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.moments import ExactSum


@dataclass(frozen=True)
class RatingLoss(UserMetric, SummedMetric):
    """The mean of a loss over ratings: each user's, or one over the ratings of all users."""

    higher_is_better = False
    bounds = (0.0, float("inf"))
    needs: ClassVar[tuple[Need, ...]] = ("predictions",)
    takes_k = False

    pooled: Annotated[bool, Field(description="one number over all users, instead of one each")] = False

    def __post_init__(self) -> None:
        """Set the scope, which depends on ``pooled``."""
        if self.pooled:
            object.__setattr__(self, "scope", "overall")

    @property
    def unit(self) -> str:
        """The word that headers add to the name: what is averaged."""
        return "" if self.pooled else "per user"

    def __call__(self, context: ScoringContext, _k: int, /) -> Floats:
        """Return float64 (B,)."""
        loss = self._loss(context)
        total = np.bincount(context.truth_row, weights=loss, minlength=context.n_users)
        mean = np.where(context.n_truth > 0, total / np.maximum(context.n_truth, 1), np.nan)
        return self._of_mean(mean)

    def start(self, n_items: int) -> npt.NDArray[np.generic]:
        """Return the exact sum of the loss: object (1,)."""
        return np.array([ExactSum()], dtype=object)

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Add the losses of a block; nothing where a model predicts no ratings."""
        if context.predictions is not None:
            state[0] += ExactSum.of(self._loss(context))

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the error over all ratings; NaN without any."""
        total: Any = state.item()
        return float(self._of_mean(np.array([total.mean]))[0]) if total.n else math.nan

    @staticmethod
    def _loss(context: ScoringContext) -> Floats:
        """Return the loss of each rating of the truth: float64 (t,)."""
        raise NotImplementedError

    @staticmethod
    def _of_mean(mean: Floats) -> Floats:
        """Return the error for a mean loss: float64, of the same shape."""
        return mean


@metric("rmse")
@dataclass(frozen=True)
class RMSE(RatingLoss):
    """Root of the mean squared error of the ratings predicted for the truth.

    rmse = sqrt(mean over the user's truth of (predicted - rating)^2), one value a user. ``pooled=true``: the same
    over the truth of all users, one number a model, as in most papers and surprise.accuracy; without an interval or a
    test, and with folds the mean of their errors. It takes no k. Undefined (NaN) for a user without truth, and for
    all users where a model predicts no ratings. From 0 up, lower is better.

    Source: Herlocker et al., ACM TOIS 22, 2004.

    >>> from evalplugin.metrics import evaluate
    >>> truth, predictions = [{"a": 4.0, "b": 2.0}, {"a": 1.0}], [{"a": 3.0, "b": 2.0}, {"a": 3.0}]
    >>> evaluate("rmse", lists=[[], []], truth=truth, predictions=predictions)
    [0.7071067811865476, 2.0]
    >>> evaluate("rmse(pooled=true)", lists=[[], []], truth=truth, predictions=predictions)  # sqrt((1 + 0 + 4) / 3)
    [1.2909944487358056]
    """

    @staticmethod
    def _loss(context: ScoringContext) -> Floats:
        return _errors(context) ** 2

    @staticmethod
    def _of_mean(mean: Floats) -> Floats:
        return np.sqrt(mean)


@metric("mae")
@dataclass(frozen=True)
class MAE(RatingLoss):
    """Mean absolute error of the ratings predicted for the truth.

    mae = mean over the user's truth of |predicted - rating|, one value a user. ``pooled=true``: as of ``rmse``. It
    takes no k. Undefined (NaN) for a user without truth, and for all users where a model predicts no ratings. From 0
    up, lower is better.

    Source: Herlocker et al., ACM TOIS 22, 2004.

    >>> from evalplugin.metrics import evaluate
    >>> truth, predictions = [{"a": 4.0, "b": 2.0}, {"a": 1.0}], [{"a": 3.0, "b": 2.0}, {"a": 3.0}]
    >>> evaluate("mae", lists=[[], []], truth=truth, predictions=predictions)
    [0.5, 2.0]
    """

    @staticmethod
    def _loss(context: ScoringContext) -> Floats:
        return np.abs(_errors(context))


def _errors(context: ScoringContext) -> Floats:
    assert context.predictions is not None  # `needs` says so
    return context.predictions - context.truth_rating
