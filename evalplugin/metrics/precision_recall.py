"""Metrics that count hits: precision, recall, their harmonic mean, hit, R-precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Floats
from evalplugin.metrics.base import ShareMetric, metric
from evalplugin.metrics.context import ScoringContext

__all__ = ["F1", "Hit", "Precision", "RPrecision", "Recall"]


@metric("precision")
@dataclass(frozen=True)
class Precision(ShareMetric):
    """Share of the top k that is relevant.

    precision@k = hits in the top k / k. The divisor is k however short the list is: positions behind its end are
    misses; with ``denominator=listed`` it is the number of items in the top k (0 for an empty list), which favours
    short lists. Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval, 2008, section 8.4.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("precision@2", lists=[["a", "b"], ["d", "e"]], truth=[{"a"}, {"d", "e"}])
    [0.5, 1.0]
    """

    denominator: Annotated[
        Literal["k", "listed"], Field(description="Divisor of the hits; listed: items in the top k")
    ] = "k"

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        listed = np.maximum(np.minimum(context.n_listed, k), 1) if self.denominator == "listed" else k
        return context.undefined_without_relevant(context.n_hits(k) / listed)


@metric("recall")
@dataclass(frozen=True)
class Recall(ShareMetric):
    """Share of the user's relevant items that is in the top k.

    recall@k = hits in the top k / relevant items. The divisor is not cut at k; with ``denominator=min`` it is
    the smaller of both, so that a perfect top k is 1. Undefined (NaN) for a user without a relevant item. Range
    0 to 1, higher is better.

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval, 2008, section 8.3.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("recall@2", lists=[["a", "b", "c"]], truth=[{"a", "c", "d", "e"}])
    [0.25]
    """

    denominator: Annotated[
        Literal["relevant", "min"], Field(description="Divisor of the hits; min: at most k")
    ] = "relevant"

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        reachable = (
            context.n_relevant if self.denominator == "relevant" else np.minimum(context.n_relevant, k)
        )
        return context.undefined_without_relevant(context.n_hits(k) / np.maximum(reachable, 1))


@metric("f1")
@dataclass(frozen=True)
class F1(ShareMetric):
    """Harmonic mean of precision and recall.

    f1@k = 2 precision recall / (precision + recall) = 2 hits in the top k / (k + relevant items); 0 without a
    hit. Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7 (F with beta 1).

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("f1@2", lists=[["a", "b"]], truth=[{"a", "c"}])
    [0.5]
    """

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        return context.undefined_without_relevant(2 * context.n_hits(k) / (k + context.n_relevant))


@metric("hit")
@dataclass(frozen=True)
class Hit(ShareMetric):
    """Whether any relevant item is in the top k.

    hit@k = 1 with at least one hit in the top k, else 0; the mean is the hit rate (TREC: success). Undefined
    (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: Deshpande and Karypis, Item-based top-N recommendation algorithms, ACM TOIS 22, 2004.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("hit@2", lists=[["a", "b", "c"], ["a", "b", "c"]], truth=[{"b", "c"}, {"c"}])
    [1.0, 0.0]
    """

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        return context.undefined_without_relevant((context.n_hits(k) > 0).astype(np.float64))


@metric("r_precision")
@dataclass(frozen=True)
class RPrecision(ShareMetric):
    """Precision at R, the number of the user's relevant items.

    r_precision = hits in the top R / R. It takes no k; where the list is shorter than R, the positions
    behind its end are misses. Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: Buckley and Voorhees, Retrieval system evaluation, in TREC: Experiment and Evaluation in
    Information Retrieval, 2005; trec_eval's Rprec.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("r_precision", lists=[["a", "b", "c"]], truth=[{"a", "c"}])
    [0.5]
    """

    takes_k: ClassVar[bool] = False

    def __call__(self, context: ScoringContext, _k: int, /) -> Floats:
        """Return float64 (B,)."""
        hits = context.hits
        found = context.total(hits, np.ones(len(hits.row)), context.n_relevant)
        return context.undefined_without_relevant(found / np.maximum(context.n_relevant, 1))
