"""Metrics of graded gain: discounted cumulative gain, and the same against the best possible list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Floats, Ints
from evalplugin.base.errors import DataError
from evalplugin.metrics.base import UserMetric, metric
from evalplugin.metrics.context import RankedItems, ScoringContext
from evalplugin.metrics.propensity import Power, Propensity, check_propensity, inverse_propensity

_LARGEST_EXPONENT = 1000.0  # 2^1000 is near the largest float64


@metric("dcg")
@dataclass(frozen=True)
class DCG(UserMetric):
    """Gain of the top k, discounted by rank.

    dcg@k = sum over ranks up to k of gain(rating) / discount(rank). The gain of an item outside of the truth is 0; a
    rating counts whatever the relevance threshold.

    ``gain``: ``linear``, the rating; ``exp2``, 2^rating - 1; ``binary``, 1 where relevant. The first two refuse
    negative ratings. ``discount``: ``log2``, log2(rank + 1); ``log``, max(1, log of rank to ``base``), so ranks 1 to
    base are not discounted; ``halflife``, 2^((rank - 1) / (alpha - 1)), half the gain at rank ``alpha``; ``ln``, the
    natural log(rank + 1).

    Undefined (NaN) for a user without a relevant item. From 0 up, higher is better; compare it between models only.

    Source: Järvelin and Kekäläinen, ACM TOIS 20, 2002 (``discount=log``); Burges et al., ICML 2005 (``log2``,
    ``exp2``); Breese et al., UAI 1998 (``halflife``).

    >>> from evalplugin.metrics import evaluate
    >>> rated = {"a": 4.0, "b": 3.0, "c": 0.0, "d": 5.0}
    >>> evaluate("dcg(discount=log, base=2)", lists=[["a", "b", "c", "d"]], truth=[rated])
    [9.5]
    """

    higher_is_better = True
    bounds = (0.0, float("inf"))

    gain: Annotated[Literal["linear", "exp2", "binary"], Field(description="Gain of an item")] = "linear"
    discount: Annotated[
        Literal["log2", "log", "halflife", "ln"], Field(description="Divisor of the gain at a rank")
    ] = "log2"
    base: Annotated[float | None, Field(gt=1, description="Base of the logarithm, with discount=log")] = None
    alpha: Annotated[
        float | None, Field(gt=1, description="Rank of half the gain, with discount=halflife")
    ] = None
    cut: Annotated[
        Literal["full", "truth"],
        Field(description="truth: the list is also cut at the number of truth items"),
    ] = "full"

    def __post_init__(self) -> None:
        """Check that base and alpha are given with their discounts, and only with them."""
        for name, discount in (("base", "log"), ("alpha", "halflife")):
            given = getattr(self, name) is not None
            if given and self.discount != discount:
                raise ValueError(
                    f"{name} goes with discount={discount} only, not with discount={self.discount}"
                )
            if not given and self.discount == discount:
                raise ValueError(f"discount={discount} needs {name}, for example {name}=2")

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        return context.undefined_without_relevant(self._sum(context, context.matches, k))

    def _sum(self, context: ScoringContext, ranked: RankedItems, k: int | Ints) -> Floats:
        """Return the discounted gain of each user's ranked items: float64 (B,)."""
        if len(context.truth_rating):
            self.check_ratings(context.truth_rating.min(), context.truth_rating.max())
        limit = np.minimum(context.n_truth, k) if self.cut == "truth" else k
        discount = self._discount(np.arange(1, ranked.rank.max(initial=0) + 1))  # computed once a rank
        return context.total(ranked, self._gain(ranked) / discount[ranked.rank - 1], limit)

    def _gain(self, ranked: RankedItems) -> Floats:
        if self.gain == "exp2":
            return np.subtract(np.exp2(ranked.gain), 1.0)
        return ranked.gain if self.gain == "linear" else ranked.relevant.astype(np.float64)

    def _discount(self, ranks: Ints) -> Floats:
        rank = ranks.astype(np.float64)
        discount: Floats
        if self.base is not None:  # discount=log
            discount = np.maximum(1.0, np.log(rank) / np.log(self.base))
        elif self.alpha is not None:  # discount=halflife
            halvings = (rank - 1.0) / (self.alpha - 1.0)
            discount = np.exp2(np.minimum(halvings, _LARGEST_EXPONENT))
        else:
            discount = np.log(rank + 1.0) if self.discount == "ln" else np.log2(rank + 1.0)
        return discount

    def check_ratings(self, lowest: float, highest: float) -> None:
        """Check that the ratings can be gains.

        Raises:
            DataError: There are negative ones, or ones that ``exp2`` cannot take.
        """
        if self.gain == "binary":
            return
        if lowest < 0:
            raise DataError(
                f"gain={self.gain} needs ratings of 0 or more, but the truth has {lowest:g}; "
                f"gain=binary with a relevance threshold takes any"
            )
        if self.gain == "exp2" and highest > _LARGEST_EXPONENT:
            raise DataError(
                f"gain=exp2 needs ratings up to {_LARGEST_EXPONENT:g}, but the truth has {highest:g}; "
                f"use gain=linear"
            )


@metric("ndcg")
@dataclass(frozen=True)
class NDCG(DCG):
    """Discounted gain of the top k, divided by that of the best possible list.

    ndcg@k = dcg@k / dcg@k of the user's truth, highest rating first. List and best list are cut alike.
    ``ideal=listed`` favours short lists; ``ideal=k`` needs gain=binary. Undefined (NaN) for a user without a relevant
    item, and where the gain of the best list is 0. Range 0 to 1, higher is better.

    With ``propensity=popularity`` the gain of an item is w gain(rating), in the best list too, with w as of
    ``recall``. Weights correct the comparison of models, not the level.

    Source: Järvelin and Kekäläinen, ACM TOIS 20, 2002; variants as for ``dcg``; weighted: Jain et al., KDD 2016; Yang
    et al., RecSys 2018.

    >>> from evalplugin.metrics import evaluate
    >>> truth = [{"a": 5.0, "b": 2.5}]
    >>> evaluate("ndcg(discount=halflife, alpha=2)", lists=[["b", "a"]], truth=truth)
    [0.8]
    >>> train = [{"a"}, {"a"}, {"a"}, {"a", "b"}]  # weights: 1 / 4 of a, 1 of b
    >>> evaluate("ndcg(propensity=popularity, power=1)@1", lists=[["a"]], truth=truth, train=train)
    [0.5]
    """

    bounds = (0.0, 1.0)

    ideal: Annotated[
        Literal["truth", "listed", "k"],
        Field(
            description="The best list: of the truth, no longer than the user's list, or of k relevant items"
        ),
    ] = "truth"
    propensity: Propensity = "equal"
    power: Power = None

    def __post_init__(self) -> None:
        """Check that the parameters are compatible; set the needs, which depend on ``propensity``."""
        super().__post_init__()
        check_propensity(self, ideal="truth", cut="full")
        if self.ideal == "k" and (self.gain != "binary" or self.cut != "full"):
            raise ValueError("ideal=k goes with gain=binary and without cut=truth only")

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        if self.power is not None:
            return self._weighted(context, k, inverse_propensity(context, self.power))
        reached = self._sum(context, context.matches, k)
        if self.ideal == "k":
            best = np.full(context.n_users, (1 / self._discount(np.arange(1, k + 1))).sum())
        elif self.ideal == "listed":
            best = self._sum(context, context.ideal, np.maximum(np.minimum(context.n_listed, k), 1))
        else:
            best = self._sum(context, context.ideal, k)
        return self._share(context, reached, best)

    def _weighted(self, context: ScoringContext, k: int, weight: Floats) -> Floats:
        """Return the share with gains weighted by (n_items,), against the best list by these gains: float64 (B,)."""
        row = context.truth_row
        truth = RankedItems(row, context.ideal.rank, context.truth_rating, context.truth_relevant)
        if len(row):
            self.check_ratings(truth.gain.min(), truth.gain.max())
        gain = self._gain(truth) * weight[context.truth_item]
        best_first = np.lexsort((-gain, row))  # ranks of a user stand in the order of the rows
        found = context.found
        discount = self._discount(np.arange(1, max(truth.rank.max(initial=0), found.rank.max(initial=0)) + 1))
        return self._share(
            context,
            context.total(context.matches, gain[found.truth] / discount[found.rank - 1], k),
            context.total(truth, gain[best_first] / discount[truth.rank - 1], k),
        )

    def _share(self, context: ScoringContext, reached: Floats, best: Floats) -> Floats:
        share = np.divide(reached, best, out=np.full(context.n_users, np.nan), where=best > 0)
        return context.undefined_without_relevant(share)
