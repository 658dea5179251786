"""Metrics that count hits: precision, recall, their harmonic mean, hit, R-precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Floats
from evalplugin.metrics.base import UserMetric, metric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.propensity import Power, Propensity, check_propensity, inverse_propensity


@metric("precision", higher_is_better=True, bounds=(0.0, 1.0))
def precision(
    context: ScoringContext,
    k: int,
    *,
    denominator: Annotated[
        Literal["k", "listed"], Field(description="Divisor of the hits; listed: items in the top k")
    ] = "k",
) -> Floats:
    """Share of the top k that is relevant.

    precision@k = hits in the top k / k, however short the list is; ``denominator=listed`` (0 for an empty list)
    favours short lists. Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: Manning et al., Introduction to Information Retrieval, 2008, section 8.4.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("precision@2", lists=[["a", "b"], ["d", "e"]], truth=[{"a"}, {"d", "e"}])
    [0.5, 1.0]
    """
    listed = np.maximum(np.minimum(context.n_listed, k), 1) if denominator == "listed" else k
    return context.undefined_without_relevant(context.n_hits(k) / listed)


@metric("recall")
@dataclass(frozen=True)
class Recall(UserMetric):
    """Share of the user's relevant items that is in the top k.

    recall@k = hits in the top k / relevant items. With ``denominator=min`` a perfect top k is 1. Undefined (NaN)
    for a user without a relevant item. Range 0 to 1, higher is better.

    With ``propensity=popularity`` it estimates, from a log in which popular items are observed more often, the recall
    over all items that the user finds relevant (self-normalised inverse propensity): recall@k = sum over the hits of
    w / sum over the relevant items of w, with w = 1 / (users with the item in the train data, at least 1)^power.

    Source: Manning et al., Introduction to Information Retrieval, 2008, section 8.3; weighted: Steck, RecSys 2011;
    Schnabel et al., ICML 2016; Yang et al., RecSys 2018.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("recall@2", lists=[["a", "b", "c"]], truth=[{"a", "c", "d", "e"}])
    [0.25]
    >>> train = [{"a"}, {"a"}, {"a"}, {"a", "b"}]  # weights: 1 / 4^0.5 of a, 1 of b
    >>> name, lists, truth = "recall(propensity=popularity, power=0.5)@1", [["b"], ["a"]], [{"a", "b"}] * 2
    >>> evaluate(name, lists=lists, truth=truth, train=train)
    [0.6666666666666666, 0.3333333333333333]
    """

    higher_is_better = True
    bounds = (0.0, 1.0)

    denominator: Annotated[
        Literal["relevant", "min"], Field(description="Divisor of the hits; min: at most k")
    ] = "relevant"
    propensity: Propensity = "equal"
    power: Power = None

    def __post_init__(self) -> None:
        """Check that the parameters are compatible; set the needs, which depend on ``propensity``."""
        check_propensity(self, denominator="relevant")

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        if self.power is not None:
            weight = inverse_propensity(context, self.power)
            return context.undefined_without_relevant(
                context.weighted_mean(weight, np.ones(len(context.hits.row)), k)
            )
        reachable = (
            context.n_relevant if self.denominator == "relevant" else np.minimum(context.n_relevant, k)
        )
        return context.undefined_without_relevant(context.n_hits(k) / np.maximum(reachable, 1))


@metric("f1", higher_is_better=True, bounds=(0.0, 1.0))
def f1(context: ScoringContext, k: int) -> Floats:
    """Harmonic mean of precision and recall.

    f1@k = 2 precision recall / (precision + recall) = 2 hits in the top k / (k + relevant items); 0 without a
    hit. Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7 (F with beta 1).

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("f1@2", lists=[["a", "b"]], truth=[{"a", "c"}])
    [0.5]
    """
    return context.undefined_without_relevant(2 * context.n_hits(k) / (k + context.n_relevant))


@metric("hit", higher_is_better=True, bounds=(0.0, 1.0))
def hit(context: ScoringContext, k: int) -> Floats:
    """Whether any relevant item is in the top k.

    hit@k = 1 with at least one hit in the top k, else 0; the mean is the hit rate (TREC: success). Undefined
    (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: Deshpande and Karypis, ACM TOIS 22, 2004.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("hit@2", lists=[["a", "b", "c"], ["a", "b", "c"]], truth=[{"b", "c"}, {"c"}])
    [1.0, 0.0]
    """
    return context.undefined_without_relevant((context.n_hits(k) > 0).astype(np.float64))


@metric("r_precision", higher_is_better=True, bounds=(0.0, 1.0))
def r_precision(context: ScoringContext) -> Floats:
    """Precision at R, the number of the user's relevant items.

    r_precision = hits in the top R / R. It takes no k; where the list is shorter than R, the positions
    behind its end are misses. Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: Buckley and Voorhees, Retrieval system evaluation, in TREC: Experiment and Evaluation in Information
    Retrieval, 2005; trec_eval's Rprec.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("r_precision", lists=[["a", "b", "c"]], truth=[{"a", "c"}])
    [0.5]
    """
    hits = context.hits
    n_hits = context.total(hits, np.ones(len(hits.row)), context.n_relevant)
    return context.undefined_without_relevant(n_hits / np.maximum(context.n_relevant, 1))


@metric("pool_recall", higher_is_better=True, bounds=(0.0, 1.0), needs=("pool",))
def pool_recall(context: ScoringContext) -> Floats:
    """Share of the user's relevant items that is in the pool of given candidates.

    pool_recall = relevant items in the user's pool / relevant items: the ceiling of the recall of any model. It is 0
    for a user without a pool. It takes no k, and needs ``recommend: {candidates: given}``. Undefined (NaN) for a user
    without a relevant item. Range 0 to 1, higher is better.

    Source: recall (Manning et al., Introduction to Information Retrieval, 2008, section 8.3) of the candidates;
    Covington et al., RecSys 2016, for the two stages.

    >>> from evalplugin.metrics import evaluate
    >>> truth, pool = [{"a", "b", "c"}, {"a"}], [{"a", "b", "x"}, {"y"}]
    >>> evaluate("pool_recall", lists=[["a"], ["y"]], truth=truth, pool=pool)
    [0.6666666666666666, 0.0]
    """
    return context.undefined_without_relevant(context.n_relevant_in_pool / np.maximum(context.n_relevant, 1))
