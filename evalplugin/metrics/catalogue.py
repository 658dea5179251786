"""Metrics of all lists together: coverage of the catalogue, Gini indices, entropy, personalization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM, Flags, Ints
from evalplugin.metrics.base import OverallMetric, SummedMetric, metric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.moments import ExactSum

_LIMB = 30  # binary digits of each of the two whole numbers that hold a discount


@metric("coverage")
@dataclass(frozen=True)
class Coverage(OverallMetric):
    """Share of the catalogue that is in the top k of any user.

    coverage@k = distinct items in the top k of all lists / items of the catalogue. One number a model. The catalogue
    is every item of the data, train and test. Range 0 to 1, higher is better.

    Source: Herlocker et al., ACM TOIS 22, 2004; Ge et al., RecSys 2010 (catalogue coverage).

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("coverage@2", lists=[["a", "b", "c"], ["b", "a"]], truth=[{"a"}, {"d"}])
    [0.5]
    """

    higher_is_better = True
    bounds = (0.0, 1.0)
    needs = ("catalogue",)

    def start(self, n_items: int) -> Flags:
        """Return the marks of listed items, all False: bool (n_items,)."""
        return np.zeros(n_items, dtype=np.bool_)

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Mark the items of the block's top k."""
        item = context.item[:, :k]
        state[item[item != NO_ITEM]] = True

    def merge(self, a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return the items that either has marked."""
        marks: npt.NDArray[np.generic] = np.logical_or(a, b)
        return marks

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the share of marked items."""
        return float(np.count_nonzero(state) / len(state)) if len(state) else float("nan")


class _Counting(SummedMetric):
    """Counts of the lists that hold each item, and of all lists. Integers add up in any order."""

    needs = ("catalogue",)

    def start(self, n_items: int) -> Ints:
        """Return the counts of each item and, last, of the lists, all zero: int64 (n_items + 1,)."""
        return np.zeros(n_items + 1, dtype=np.int64)

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Count the items of the block's top k."""
        item = context.item[:, :k]
        counted = np.bincount(item[item != NO_ITEM], minlength=len(state))
        counted[-1] = np.count_nonzero(context.n_listed)
        np.add(state, counted, out=state)


@metric("gini")
@dataclass(frozen=True)
class Gini(_Counting):
    """Inequality of how often the items of the catalogue are listed: 0 all equally, towards 1 always the same few.

    gini@k = sum over i of (2 i - I - 1) c_i / (I * sum of c_i), with c_i the number of top k that hold item i, in
    ascending order, and I the items of the catalogue. One number a model. Undefined (NaN) without a list. Range 0 to
    1, lower is better.

    Source: Gini, Variabilità e mutabilità, 1912; for recommenders Fleder and Hosanagar, Management Science 55, 2009.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("gini@1", lists=[["a"], ["a"]], truth=[{"a"}, {"b"}], catalogue="abcd")
    [0.75]
    """

    higher_is_better = False
    bounds = (0.0, 1.0)

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the Gini index of the counts."""
        counts = np.sort(state[:-1].astype(np.int64))
        n, total = len(counts), int(counts.sum())
        weights = 2 * np.arange(1, n + 1) - n - 1
        return int(weights @ counts) / (n * total) if total else float("nan")


@metric("exposure_gini")
@dataclass(frozen=True)
class ExposureGini(SummedMetric):
    """Inequality of the items' exposure, where a listing counts more the higher it is in its list.

    exposure_gini@k = sum over i of (2 i - I - 1) e_i / (I * sum of e_i), with e_i the exposure of an item, in
    ascending order: the sum of 1 / log2(rank + 1) over the lists that hold it in the top k. I is the number of items
    of the catalogue. At k = 1 it is ``gini``. One number a model. Undefined (NaN) without a list. Range 0 to 1, lower
    is better.

    Source: Diaz et al., CIKM 2020 (exposure); Raj and Ekstrand, SIGIR 2022; LensKit's ExposureGini with
    LogRankWeight(offset=1).

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("exposure_gini@1", lists=[["a"], ["a"]], truth=[{"a"}, {"b"}], catalogue="abcd")
    [0.75]
    >>> evaluate("exposure_gini", lists=[["a", "b"], ["b", "a"]], truth=[{}] * 2)
    [0.0]
    """

    higher_is_better = False
    bounds = (0.0, 1.0)
    needs = ("catalogue",)

    def start(self, n_items: int) -> Ints:
        """Return no exposure: int64 (2, n_items), in units of 2 ** -30 and 2 ** -60, so that sums are exact."""
        return np.zeros((2, n_items), dtype=np.int64)

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Add the discounts of the block's top k."""
        item = context.item[:, :k]
        listed = item != NO_ITEM
        discount = 1.0 / np.log2(np.arange(2, item.shape[1] + 2))  # a multiple of 2 ** -60, from 1 / 31 to 1
        limbs = divmod(np.ldexp(discount, 2 * _LIMB).astype(np.int64), 2**_LIMB)
        for total, limb in zip(state, limbs, strict=True):
            np.add.at(total, item[listed], np.broadcast_to(limb, item.shape)[listed])

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the Gini index of the exposures."""
        high, low = state.astype(np.float64)
        exposure = np.sort(np.ldexp(high, -_LIMB) + np.ldexp(low, -2 * _LIMB))
        n = len(exposure)
        above = ExactSum.of((2 * np.arange(1, n + 1) - n - 1) * exposure).mean
        total = n * ExactSum.of(exposure).mean
        return max(above / total, 0.0) if total > 0 else float("nan")


@metric("entropy")
@dataclass(frozen=True)
class Entropy(_Counting):
    """Entropy, in bits, of the items at all positions of all lists: the higher, the more evenly items are listed.

    entropy@k = -sum of p_i log2 p_i, with p_i the share of the positions of all top k that hold item i. One number a
    model. Undefined (NaN) without a list. From 0 (always one item) to log2 of the catalogue's size (all items
    equally), higher is better.

    Source: Shannon, 1948; for recommenders Adomavicius and Kwon, IEEE TKDE 24, 2012.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("entropy@2", lists=[["a", "b"], ["c", "d"]], truth=[{"a"}, {"b"}])
    [2.0]
    """

    higher_is_better = True
    bounds = (0.0, float("inf"))

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the entropy of the counts."""
        counts = state[:-1].astype(np.float64)
        share = counts[counts > 0] / max(counts.sum(), 1)
        return float(np.maximum(-(share * np.log2(share)).sum(), 0.0)) if len(share) else float("nan")


@metric("personalization")
@dataclass(frozen=True)
class Personalization(_Counting):
    """Dissimilarity of the users' lists: 1 less the mean share of the other lists that hold a listed item.

    personalization@k = 1 - mean over the positions of all top k of (other lists with its item / other lists) = 1 -
    sum of c (c - 1) / ((L - 1) * sum of c), with c the number of lists that hold an item and L the number of lists
    that are not empty. One number a model. Undefined (NaN) with fewer than two lists. Range 0 to 1, higher is better.

    Source: Zhou et al., PNAS 107, 2010 (inter-user diversity by Hamming distance).

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("personalization@2", lists=[["a", "b"], ["a", "c"], ["d", "e"]], truth=[{"a"}] * 3)
    [0.8333333333333334]
    """

    higher_is_better = True
    bounds = (0.0, 1.0)

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return 1 less the mean overlap."""
        counts, lists = state[:-1].astype(np.int64), int(state[-1])
        if lists < 2:
            return float("nan")
        return 1.0 - int(counts @ (counts - 1)) / ((lists - 1) * int(counts.sum()))
