"""Metrics of the order of predicted ratings: rank correlations and concordant pairs."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Floats, Ints
from evalplugin.metrics.base import metric
from evalplugin.metrics.context import ScoringContext


class Pairs(NamedTuple):
    """Numbers of pairs of items in each user's truth, by kind: int64 (B,) each."""

    all: Ints
    concordant: Ints  # ratings differ, and the predictions differ the same way
    discordant: Ints  # ratings differ, and the predictions differ the other way
    same_rating: Ints  # whatever the predictions are
    same_prediction: Ints  # whatever the ratings are

    @property
    def comparable(self) -> Ints:
        """Pairs whose ratings differ."""
        return self.all - self.same_rating


def count_pairs(context: ScoringContext) -> Pairs:
    """Count the pairs of each user's truth by their order. Time grows with the pairs, memory does not."""
    rating, predicted, row = context.truth_rating, context.predictions, context.truth_row
    assert predicted is not None  # `needs` says so
    last = np.repeat(context.truth_indptr[1:], context.n_truth)  # where the user's truth ends
    counts = np.zeros((4, context.n_users), dtype=np.int64)
    left = np.arange(len(row))
    distance = 1
    while len(left := left[left + distance < last[left]]):
        right = left + distance
        up = np.sign(rating[right] - rating[left])
        predicted_up = np.sign(predicted[right] - predicted[left])
        agreement = up * predicted_up
        for kind, holds in enumerate((agreement > 0, agreement < 0, up == 0, predicted_up == 0)):
            counts[kind] += np.bincount(row[left[holds]], minlength=context.n_users)
        distance += 1
    return Pairs(context.n_truth * (context.n_truth - 1) // 2, *counts)


@metric("spearman", higher_is_better=True, bounds=(-1.0, 1.0), needs=("predictions",))
def spearman(context: ScoringContext) -> Floats:
    """Rank correlation of predicted ratings with the ratings of the user's truth.

    spearman = Pearson correlation of the ranks of the predictions and of the ratings, equal values sharing
    their mean rank. Equal predictions for the whole truth order nothing: 0. It takes no k. Undefined (NaN) for
    a user with fewer than two truth items or with equal ratings for all of them, and for all users where a
    model predicts no ratings. Range -1 to 1, higher is better.

    Source: Spearman, The proof and measurement of association between two things, 1904; Herlocker et al., ACM TOIS
    22, 2004.

    >>> from evalplugin.metrics import evaluate
    >>> predictions = [{"a": 9.0, "b": 3.0, "c": 5.0}]
    >>> evaluate("spearman", lists=[[]], truth=[{"a": 5, "b": 4, "c": 1}], predictions=predictions)
    [0.5]
    """
    assert context.predictions is not None  # `needs` says so
    of_rating = centred_rank(context, context.truth_rating)
    of_prediction = centred_rank(context, context.predictions)
    both = _sum(context, of_rating * of_prediction)
    return _correlation(both, _sum(context, of_rating**2), _sum(context, of_prediction**2))


@metric("kendall", higher_is_better=True, bounds=(-1.0, 1.0), needs=("predictions",))
def kendall(context: ScoringContext) -> Floats:
    """Rank correlation of predicted and true ratings: agreement on the order of pairs of the user's truth.

    kendall = (concordant - discordant pairs) / sqrt(pairs with different ratings * pairs with different
    predictions), which is tau-b. Equal predictions for the whole truth order nothing: 0. It takes no k.
    Undefined (NaN) for a user with fewer than two truth items or with equal ratings for all of them, and for
    all users where a model predicts no ratings. Range -1 to 1, higher is better.

    Source: Kendall, Biometrika 33, 1945.

    >>> from evalplugin.metrics import evaluate
    >>> predictions = [{"a": 9.0, "b": 3.0, "c": 5.0, "d": 2.0}]
    >>> evaluate("kendall", lists=[[]], truth=[{"a": 5, "b": 4, "c": 3, "d": 1}], predictions=predictions)
    [0.6666666666666666]
    """
    pairs = count_pairs(context)
    return _correlation(
        (pairs.concordant - pairs.discordant).astype(np.float64),
        pairs.comparable.astype(np.float64),
        (pairs.all - pairs.same_prediction).astype(np.float64),
    )


@metric("concordant_pairs", higher_is_better=True, bounds=(0.0, 1.0), needs=("predictions",))
def concordant_pairs(
    context: ScoringContext,
    *,
    ties: Annotated[
        Literal["half", "wrong"], Field(description="Credit of a pair with equal predictions")
    ] = "half",
) -> Floats:
    """Share of the pairs with different ratings that the predicted ratings order the same way.

    concordant_pairs = (concordant pairs + pairs with equal predictions / 2) / pairs with different ratings.
    ``ties=wrong`` gives a pair with equal predictions nothing, as surprise's FCP (which pools the pairs of all
    users). Chance gives 0.5. It takes no k. Undefined (NaN) for a user with fewer than two truth items or with equal
    ratings for all of them, and for all users where a model predicts no ratings. Range 0 to 1, higher is better.

    Source: Koren and Sill, RecSys 2011 (FCP).

    >>> from evalplugin.metrics import evaluate
    >>> predictions = [{"a": 9.0, "b": 3.0, "c": 3.0}]
    >>> evaluate("concordant_pairs", lists=[[]], truth=[{"a": 5, "b": 4, "c": 1}], predictions=predictions)
    [0.8333333333333334]
    """
    pairs = count_pairs(context)
    right = pairs.concordant.astype(np.float64)
    if ties == "half":
        right += (pairs.comparable - pairs.concordant - pairs.discordant) / 2
    comparable = pairs.comparable
    share: Floats = np.divide(right, comparable, out=np.full(context.n_users, np.nan), where=comparable > 0)
    return share


def centred_rank(context: ScoringContext, value: Floats) -> Floats:
    """Return each truth item's rank by ``value`` among its user's, less the mean rank: float64 (t,)."""
    row = context.truth_row
    order = np.lexsort((value, row))
    starts = np.ones(len(row), dtype=np.bool_)
    starts[1:] = (row[order[1:]] != row[order[:-1]]) | (value[order[1:]] != value[order[:-1]])
    first = np.flatnonzero(starts)
    end = np.append(first[1:], len(row))
    rank = np.empty(len(row))
    rank[order] = np.repeat((first + end - 1) / 2, end - first)  # equal values share their mean rank
    middle = context.truth_indptr[:-1] + (context.n_truth - 1) / 2
    return rank - middle[row]


def _sum(context: ScoringContext, value: Floats) -> Floats:
    total = np.bincount(context.truth_row, weights=value, minlength=context.n_users)
    return total.astype(np.float64, copy=False)


def _correlation(both: Floats, of_ratings: Floats, of_predictions: Floats) -> Floats:
    size = np.sqrt(of_ratings * of_predictions)
    share = np.divide(both, size, out=np.zeros(len(both)), where=size > 0)
    return np.where(of_ratings > 0, np.clip(share, -1.0, 1.0), np.nan)
