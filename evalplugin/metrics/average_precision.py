"""Metrics of the ranks of hits: reciprocal rank, average precision, rank-biased precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Floats, Ints
from evalplugin.metrics.base import ShareMetric, metric
from evalplugin.metrics.context import ScoringContext

__all__ = ["AveragePrecision", "RankBiasedPrecision", "ReciprocalRank"]


@metric("rr")
@dataclass(frozen=True)
class ReciprocalRank(ShareMetric):
    """One over the rank of the first relevant item.

    rr@k = 1 / rank of the first hit, 0 without a hit in the top k; the mean is MRR. Undefined (NaN) for a
    user without a relevant item. Range 0 to 1, higher is better.

    Source: Voorhees, The TREC-8 question answering track report, 1999.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("rr", lists=[["a", "b", "c", "d"]] * 3, truth=[{"b", "c"}, {"d"}, {"x"}])
    [0.5, 0.25, 0.0]
    """

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        first = np.where(context.hit_number == 1, 1 / context.hits.rank, 0.0)
        return context.undefined_without_relevant(context.total(context.hits, first, k))


@metric("ap")
@dataclass(frozen=True)
class AveragePrecision(ShareMetric):
    """Mean of the precisions at the relevant items.

    ap@k = sum of precision@rank over the hits in the top k / denominator; the mean is MAP. By
    ``denominator``: ``relevant``, all relevant items of the user, found or not (TREC; one that is not found
    has precision 0); ``min``, the smaller of k and that, so that a perfect top k is 1; ``hits``, the relevant
    items found in the top k (0 without one), which does not penalise misses; ``listed``, the smaller of
    all relevant items and the items in the top k, which favours short lists; ``k``. Undefined (NaN) for a user
    without a relevant item. Range 0 to 1, higher is better.

    Source: Buckley and Voorhees, Evaluating evaluation measure stability, SIGIR 2000 (``relevant``).

    >>> from evalplugin.metrics import evaluate
    >>> lists, truth = [[1, 2, 3, 4, 5]], [{1, 3, 6}]
    >>> evaluate("ap@5", lists=lists, truth=truth) == [(1 + 2/3) / 3]
    True
    >>> evaluate("ap(denominator=hits)@5", lists=lists, truth=truth) == [(1 + 2/3) / 2]
    True
    """

    denominator: Annotated[
        Literal["relevant", "min", "hits", "listed", "k"],
        Field(description="Divisor of the sum of precisions"),
    ] = "relevant"

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        precision = context.hit_number / context.hits.rank
        return context.undefined_without_relevant(
            context.total(context.hits, precision, k) / np.maximum(self._divisor(context, k), 1)
        )

    def _divisor(self, context: ScoringContext, k: int) -> Ints:
        if self.denominator == "relevant":
            return context.n_relevant
        if self.denominator == "min":
            return np.minimum(context.n_relevant, k)
        if self.denominator == "hits":
            return context.n_hits(k)
        if self.denominator == "listed":
            return np.minimum(np.minimum(context.n_relevant, k), context.n_listed)
        return np.full(context.n_users, k, dtype=np.int64)


@metric("rbp")
@dataclass(frozen=True)
class RankBiasedPrecision(ShareMetric):
    """Relevant items per item viewed, for a reader who goes on to the next rank with probability p.

    rbp@k = (1 - p) * sum of p^(rank - 1) over the hits in the top k. A finite list cannot reach 1: the best
    is 1 - p^k. Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: Moffat and Zobel, Rank-biased precision for measurement of retrieval effectiveness, ACM TOIS 27,
    2008.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("rbp(p=0.5)", lists=[["a", "b", "c"]], truth=[{"a", "b"}])
    [0.75]
    """

    p: Annotated[float, Field(gt=0, lt=1, description="The probability of going on to the next rank")] = 0.8

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        reached = np.power(self.p, context.hits.rank - 1.0)
        return context.undefined_without_relevant((1 - self.p) * context.total(context.hits, reached, k))
