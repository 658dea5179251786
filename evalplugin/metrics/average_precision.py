"""Metrics of the ranks of hits: reciprocal rank, average precision, rank-biased precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Floats, Ints
from evalplugin.metrics.base import UserMetric, metric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.propensity import Power, Propensity, check_propensity, inverse_propensity


@metric("rr", higher_is_better=True, bounds=(0.0, 1.0))
def rr(context: ScoringContext, k: int) -> Floats:
    """One over the rank of the first relevant item.

    rr@k = 1 / rank of the first hit, 0 without a hit in the top k; the mean is MRR. Undefined (NaN) for a
    user without a relevant item. Range 0 to 1, higher is better.

    Source: Voorhees, The TREC-8 question answering track report, 1999.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("rr", lists=[["a", "b", "c", "d"]] * 3, truth=[{"b", "c"}, {"d"}, {"x"}])
    [0.5, 0.25, 0.0]
    """
    first = np.where(context.hit_number == 1, 1 / context.hits.rank, 0.0)
    return context.undefined_without_relevant(context.total(context.hits, first, k))


@metric("ap")
@dataclass(frozen=True)
class AP(UserMetric):
    """Mean of the precisions at the relevant items.

    ap@k = sum of precision@rank over the hits in the top k / denominator; the mean is MAP. By ``denominator``:
    ``relevant``, all relevant items of the user (TREC); ``min``, the smaller of k and that, so that a perfect top k
    is 1; ``hits``, those in the top k (0 without one); ``listed``, the smaller of relevant and listed items, which
    favours short lists; ``k``. Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    With ``propensity=popularity`` the mean is weighted: ap@k = sum of w precision@rank over the hits in the top k /
    sum of w over the relevant items, with w as of ``recall``. Precision stays that of the observed items: only a part
    of the bias goes.

    Source: Buckley and Voorhees, SIGIR 2000 (``relevant``); weighted: the self-normalised estimator of Yang et al.,
    RecSys 2018, of the precision at the rank of each relevant item.

    >>> from evalplugin.metrics import evaluate
    >>> lists, truth = [[1, 2, 3, 4, 5]], [{1, 3, 6}]
    >>> evaluate("ap@5", lists=lists, truth=truth) == [(1 + 2/3) / 3]
    True
    >>> evaluate("ap(denominator=hits)@5", lists=lists, truth=truth) == [(1 + 2/3) / 2]
    True
    """

    higher_is_better = True
    bounds = (0.0, 1.0)

    denominator: Annotated[
        Literal["relevant", "min", "hits", "listed", "k"],
        Field(description="Divisor of the sum of precisions"),
    ] = "relevant"
    propensity: Propensity = "equal"
    power: Power = None

    def __post_init__(self) -> None:
        """Check that the parameters are compatible; set the needs, which depend on ``propensity``."""
        check_propensity(self, denominator="relevant")

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        precision = context.hit_number / context.hits.rank
        if self.power is not None:
            weight = inverse_propensity(context, self.power)
            return context.undefined_without_relevant(context.weighted_mean(weight, precision, k))
        precisions = context.total(context.hits, precision, k)
        return context.undefined_without_relevant(precisions / np.maximum(self._divisor(context, k), 1))

    def _divisor(self, context: ScoringContext, k: int) -> Ints | int:
        reachable = np.minimum(context.n_relevant, k)
        match self.denominator:
            case "relevant":
                return context.n_relevant
            case "min":
                return reachable
            case "hits":
                return context.n_hits(k)
            case "listed":
                return np.minimum(reachable, context.n_listed)
        return k


@metric("rbp", higher_is_better=True, bounds=(0.0, 1.0))
def rbp(
    context: ScoringContext,
    k: int,
    *,
    p: Annotated[float, Field(gt=0, lt=1, description="The probability of going on to the next rank")] = 0.8,
) -> Floats:
    """Relevant items per item viewed, for a reader who goes on to the next rank with probability p.

    rbp@k = (1 - p) * sum of p^(rank - 1) over the hits in the top k. A finite list cannot reach 1: the best
    is 1 - p^k. Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: Moffat and Zobel, ACM TOIS 27, 2008.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("rbp(p=0.5)", lists=[["a", "b", "c"]], truth=[{"a", "b"}])
    [0.75]
    """
    reached = np.power(p, context.hits.rank - 1.0)
    return context.undefined_without_relevant((1 - p) * context.total(context.hits, reached, k))
