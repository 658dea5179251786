"""Metrics of predictions for judged pairs, relevant or not: grouped AUC, log loss, calibration error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import DataError
from evalplugin.metrics.base import SummedMetric, metric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.correlation import centred_rank
from evalplugin.metrics.moments import ExactSum
from evalplugin.metrics.ratings import RatingLoss

_LEAST = 2.0**-52  # probability, and that of the contrary: the logarithm of 0 is infinite


def _probabilities(context: ScoringContext) -> Floats:
    """Return the predictions for the truth (t,), as probabilities.

    Raises:
        DataError: One is below 0 or above 1.
    """
    assert context.predictions is not None  # `needs` says so
    wrong = context.predictions[~((context.predictions >= 0) & (context.predictions <= 1))]
    if len(wrong):
        raise DataError(
            f"the model predicts {wrong[0]:g}, which is not a probability: predictions must be from 0 to 1"
        )
    return context.predictions


class _OfProbabilities:
    """Metrics that take predictions for probabilities."""

    def check_ratings(self, lowest: float, highest: float) -> None:
        """Check that models predict probabilities.

        Raises:
            DataError: Ratings are below 0 or above 1.
        """
        if lowest < 0 or highest > 1:
            raise DataError(
                f"needs probabilities, which models predict for ratings from 0 to 1, but the truth has {lowest:g} to "
                f"{highest:g}; take gauc, or ratings of 0 and 1"
            )


@metric("gauc")
@dataclass(frozen=True)
class GAUC(SummedMetric):
    """Probability that a user's relevant pair has a higher prediction than another, weighted by the user's pairs.

    gauc = sum over users of n AUC / sum over users of n, with n the number of items of the user's truth and AUC =
    pairs of a relevant and a non-relevant one that predictions order rightly / all such pairs, where equal
    predictions count half. A user without such a pair does not count. One number a model. It takes no k. Undefined
    (NaN) where no user has one, and where a model predicts nothing. Range 0 to 1, chance 0.5, higher is better.

    Source: Zhu et al., KDD 2017. RecBole's GAUC weighs a user by the relevant items alone.

    >>> from evalplugin.metrics import evaluate
    >>> truth, predictions = [{"a": 1, "b": 0}, {"a": 0, "b": 1, "c": 0}], [{"a": 3, "b": 1}, {"a": 4, "b": 3, "c": 2}]
    >>> evaluate("gauc", lists=[[], []], truth=truth, predictions=predictions)  # (2 * 1 + 3 * 0.5) / 5
    [0.7]
    """

    higher_is_better = True
    bounds = (0.0, 1.0)
    needs = ("predictions", "negatives")
    takes_k = False

    def start(self, n_items: int) -> npt.NDArray[np.generic]:
        """Return the exact sums of n AUC and of n: object (2,)."""
        return np.array([ExactSum(), ExactSum()], dtype=object)

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Add the users of a block; nothing where a model predicts nothing."""
        if context.predictions is None:
            return
        rank = np.where(context.truth_relevant, centred_rank(context, context.predictions), 0.0)
        above = np.bincount(context.truth_row, weights=rank, minlength=context.n_users)
        pairs = context.n_relevant * (context.n_truth - context.n_relevant)
        both = pairs > 0
        n = context.n_truth[both].astype(np.float64)
        state[0] += ExactSum.of(n * (0.5 + above[both] / pairs[both]))
        state[1] += ExactSum.of(n)

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the weighted mean."""
        weighted: Any = state[0]
        n: Any = state[1]
        return float(weighted.units / n.units) if n.n else math.nan


@metric("logloss")
@dataclass(frozen=True)
class LogLoss(_OfProbabilities, RatingLoss):
    """Negative logarithm of the probability that the model gave to what is true of a judged pair.

    logloss = mean over the user's truth of -ln p where relevant, -ln (1 - p) elsewhere, with p the predicted
    probability; one value a user. ``pooled=true``: as of ``rmse``. p is kept from 2^-52 to 1 - 2^-52. It takes no k,
    and needs ratings from 0 to 1. Undefined (NaN) for a user without truth, and for all users where a model predicts
    nothing. From 0 up, lower is better.

    Source: Good, Rational decisions, 1952; scikit-learn's log_loss and RecBole's LogLoss.

    >>> from evalplugin.metrics import evaluate
    >>> truth, predictions = [{"a": 1, "b": 0}, {"a": 1}], [{"a": 0.5, "b": 0.5}, {"a": 1.0}]
    >>> evaluate("logloss", lists=[[], []], truth=truth, predictions=predictions)  # ln 2, 0
    [0.6931471805599453, 2.220446049250313e-16]
    """

    needs = ("predictions", "negatives")

    @staticmethod
    def _loss(context: ScoringContext) -> Floats:
        p = np.clip(_probabilities(context), _LEAST, 1.0 - _LEAST)
        loss: Floats = -np.log(np.where(context.truth_relevant, p, 1.0 - p))
        return loss


@metric("ece")
@dataclass(frozen=True)
class ECE(_OfProbabilities, SummedMetric):
    """Difference between predicted probabilities and the share of relevant pairs: whether probabilities can be trusted.

    ece = sum over bins of |relevant pairs - sum of their predicted probabilities| / all pairs, with the judged pairs
    (the truth of all users) in ``bins`` of equal width by predicted probability, a boundary in the lower bin. One
    number a model. It takes no k, and needs ratings from 0 to 1. Undefined (NaN) without truth, and where a model
    predicts nothing. Range 0 to 1, lower is better.

    Source: Naeini et al., AAAI 2015; Guo et al., ICML 2017 (15 bins).

    >>> from evalplugin.metrics import evaluate
    >>> truth, predictions = [{"a": 1, "b": 0, "c": 1, "d": 1}], [{"a": 0.75, "b": 0.75, "c": 0.25, "d": 0.25}]
    >>> evaluate("ece(bins=2)", lists=[[]], truth=truth, predictions=predictions)  # (|1 - 1.5| + |2 - 0.5|) / 4
    [0.5]
    """

    higher_is_better = False
    bounds = (0.0, 1.0)
    needs = ("predictions", "negatives")
    takes_k = False

    bins: Annotated[int, Field(ge=1, le=1000, description="Number of bins of equal width")] = 15

    def start(self, n_items: int) -> npt.NDArray[np.generic]:
        """Return each bin's exact sum of relevance less probability: object (bins,)."""
        return np.array([ExactSum()] * self.bins, dtype=object)

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Add the pairs of a block; nothing where a model predicts nothing."""
        if context.predictions is None:
            return
        p = _probabilities(context)
        edges = np.arange(1, self.bins) / self.bins
        bin_ = np.searchsorted(edges, p, side="left")
        order = np.argsort(bin_, kind="stable")
        gap = (context.truth_relevant - p)[order]
        ends = np.cumsum(np.bincount(bin_, minlength=self.bins))
        for number, part in enumerate(np.split(gap, ends[:-1])):
            state[number] += ExactSum.of(part)

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the sum of the bins' differences over the number of pairs."""
        sums: list[Any] = state.tolist()
        n = sum(each.n for each in sums)
        return math.fsum(abs(each.mean) * each.n for each in sums if each.n) / n if n else math.nan
