"""Metrics of listed items beyond their relevance: novelty, popularity, long tail, diversity, serendipity."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import NO_ITEM, Codes, Floats
from evalplugin.metrics.base import metric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.train_data import TrainData

_PAIRS = 2**20  # pairs of listed items processed at a time: 8 MB an array

TailShare: TypeAlias = Annotated[
    float,
    Field(gt=0, lt=1, description="Share of the train interactions that the head holds, at least"),
]


@metric("novelty", higher_is_better=True, bounds=(0.0, float("inf")), needs=("train",), about="lists")
def novelty(context: ScoringContext, k: int) -> Floats:
    """Mean self-information of the listed items, in bits: the rarer an item is in the train data, the higher.

    novelty@k = mean over the items in the top k of -log2(users with the item in the train data / users of the train
    data). An item without train data counts as one user's. Undefined (NaN) for a user without a list. From 0 up,
    higher is better.

    Source: Zhou et al., PNAS 107, 2010 (self-information); Castells et al., Novelty and diversity in recommender
    systems, 2015.

    >>> from evalplugin.metrics import evaluate
    >>> train = [{"a", "b"}, {"a"}, {"a"}, {"a", "c"}]
    >>> evaluate("novelty@2", lists=[["b", "a"], ["c", "b"], ["a"], []], truth=[{}] * 4, train=train)
    [1.0, 2.0, 0.0, nan]
    """
    assert context.train is not None  # `needs` says so
    return _mean_over_list(context, context.train.information, k)


@metric("popularity", higher_is_better=None, bounds=(0.0, float("inf")), needs=("train",), about="lists")
def popularity(context: ScoringContext, k: int) -> Floats:
    """Mean number of users who have the listed items in the train data.

    popularity@k = mean over the items in the top k of the users with the item in the train data. Undefined (NaN)
    for a user without a list. From 0 up; neither direction is better by itself.

    Source: Yin et al., PVLDB 5, 2012 (average recommendation popularity); the ARP of Abdollahpouri et al., FLAIRS
    2019.

    >>> from evalplugin.metrics import evaluate
    >>> train = [{"a", "b"}, {"a"}, {"a"}, {"a", "c"}]
    >>> evaluate("popularity@2", lists=[["b", "a"], ["c", "b"], ["a"], []], truth=[{}] * 4, train=train)
    [2.5, 1.0, 4.0, nan]
    """
    assert context.train is not None  # `needs` says so
    return _mean_over_list(context, context.train.counts.astype(np.float64), k)


@metric("aplt", higher_is_better=True, bounds=(0.0, 1.0), needs=("train",), about="lists")
def aplt(context: ScoringContext, k: int, *, tail: TailShare = 0.8) -> Floats:
    """Share of the listed items that are from the long tail.

    aplt@k = items in the top k from the long tail / items in the top k. The long tail is every item outside of the
    head: the fewest most popular items that hold the share ``tail`` of the train interactions, without parting
    equally popular ones. Undefined (NaN) for a user without a list. Range 0 to 1, higher is better.

    Source: Abdollahpouri et al., FLAIRS 2019 (average percentage of long tail items).

    >>> from evalplugin.metrics import evaluate
    >>> train = [{"a", "b"}, {"a", "b"}, {"a"}, {"a", "c"}]  # popularity: a 4, b 2, c 1; the head is a and b
    >>> evaluate("aplt@2", lists=[["c", "a"], ["b", "a"], ["c"], []], truth=[{}] * 4, train=train)
    [0.5, 0.0, 1.0, nan]
    """
    assert context.train is not None  # `needs` says so
    return _mean_over_list(context, context.train.is_tail(tail).astype(np.float64), k)


@metric("aclt", higher_is_better=True, bounds=(0.0, float("inf")), needs=("train",), about="lists")
def aclt(context: ScoringContext, k: int, *, tail: TailShare = 0.8) -> Floats:
    """Number of the listed items that are from the long tail.

    aclt@k = items in the top k from the long tail, which is that of ``aplt``. Undefined (NaN) for a user without a
    list. From 0 to k, higher is better.

    Source: Abdollahpouri et al., FLAIRS 2019 (average coverage of long tail items, as its formula has it).

    >>> from evalplugin.metrics import evaluate
    >>> train = [{"a", "b"}, {"a", "b"}, {"a"}, {"a", "c"}]  # popularity: a 4, b 2, c 1; the head is a and b
    >>> evaluate("aclt@2", lists=[["c", "a"], ["b", "a"], []], truth=[{}] * 3, train=train)
    [1.0, 0.0, nan]
    """
    assert context.train is not None  # `needs` says so
    total = _total_over_list(context, context.train.is_tail(tail).astype(np.float64), k)
    return np.where(context.n_listed > 0, total, np.nan)


@metric("diversity", higher_is_better=True, bounds=(0.0, 1.0), needs=("train",), about="lists")
def diversity(context: ScoringContext, k: int) -> Floats:
    """Dissimilarity of the listed items: 1 less their mean pairwise similarity.

    diversity@k = 1 - mean over the pairs of items in the top k of cosine(users of the one, users of the other), where
    the cosine is users with both in the train data / sqrt(users with the one * users with the other), 0 without train
    data. Undefined (NaN) for a user with fewer than two items in the top k. Range 0 to 1, higher is better.

    Source: Ziegler et al., WWW 2005 (intra-list similarity); with item vectors as in Zhang et al., Auralist, WSDM
    2012.

    >>> from evalplugin.metrics import evaluate
    >>> train = [{"a", "b"}, {"a", "b"}, {"c"}, {"c", "d"}]
    >>> lists = [["a", "b"], ["a", "c"], ["a"], []]
    >>> evaluate("diversity@2", lists=lists, truth=[{}] * 4, train=train)
    [0.0, 1.0, nan, nan]
    """
    assert context.train is not None  # `needs` says so
    item = context.item[:, :k]
    listed = np.minimum(context.n_listed, k)
    n_pairs = listed * (listed - 1) // 2
    similarity = _sums_of_cosines(context.train, item)
    mean = np.divide(similarity, n_pairs, out=np.full(context.n_users, np.nan), where=n_pairs > 0)
    diversity: Floats = np.subtract(1.0, np.minimum(mean, 1.0))
    return diversity


def _sums_of_cosines(train: TrainData, item: Codes) -> Floats:
    """Return each list's sum of the cosines between its items: float64 (B,)."""
    n_users, width = item.shape
    first, second = np.triu_indices(width, 1)
    similarity = np.zeros(n_users)
    step = max(1, _PAIRS // max(1, len(first)))
    for start in range(0, n_users, step):
        some = item[start : start + step]
        left, right = some[:, first], some[:, second]
        row, pair = np.nonzero((left != NO_ITEM) & (right != NO_ITEM))
        cosine = train.cosine(left[row, pair], right[row, pair])
        similarity[start : start + step] = np.bincount(row, weights=cosine, minlength=len(some))
    return similarity


@metric("serendipity", higher_is_better=True, bounds=(0.0, 1.0), needs=("train",))
def serendipity(context: ScoringContext, k: int) -> Floats:
    """Share of the top k that is relevant and would not be in the user's list of popular items.

    serendipity@k = hits in the top k that are not expected / k. Expected are the items that popularity would list:
    those not in the user's train data for which fewer than k other such items are more popular. Undefined (NaN) for a
    user without a relevant item. Range 0 to 1, higher is better.

    Source: Murakami et al., Metrics for evaluating the serendipity of recommendation lists, 2008; Ge et al., RecSys
    2010 (with popularity as the primitive method).

    >>> from evalplugin.metrics import evaluate
    >>> train = [{"a"}, {"a", "b"}, {"a", "b"}, {"c"}]
    >>> evaluate("serendipity@1", lists=[["c"], ["c"]], truth=[{"b", "c"}, {"c"}], train=train)
    [1.0, 0.0]
    """
    assert context.train is not None and context.user is not None  # `needs` says so
    hits = context.hits
    item = context.item[hits.row, hits.rank - 1]
    rank = context.train.popularity_rank(context.user[hits.row], item)
    unexpected = context.total(hits, (rank > k).astype(np.float64), k)
    return context.undefined_without_relevant(unexpected / k)


def _mean_over_list(context: ScoringContext, worth: Floats, k: int) -> Floats:
    """Return the mean ``worth`` (n_items,) of the items in the top k: float64 (B,), NaN for an empty list."""
    total = _total_over_list(context, worth, k)
    listed = np.minimum(context.n_listed, k)
    mean: Floats = np.divide(total, listed, out=np.full(context.n_users, np.nan), where=listed > 0)
    return mean


def _total_over_list(context: ScoringContext, worth: Floats, k: int) -> Floats:
    """Return the sum of the ``worth`` (n_items,) of the items in the top k: float64 (B,)."""
    item = context.item[:, :k]
    row, column = np.nonzero(item != NO_ITEM)
    total = np.bincount(row, weights=worth[item[row, column]], minlength=context.n_users)
    return total.astype(np.float64, copy=False)
