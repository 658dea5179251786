"""P-values adjusted for multiple comparisons: Holm, Benjamini and Hochberg."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["benjamini_hochberg", "holm"]


def holm(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return Holm's adjusted p-values (C,): at most a share alpha of families have a false finding below alpha.

    NaN stays NaN and does not count in the family. Source: Holm 1979.
    """
    order = _ascending(p)
    m = len(order)
    adjusted = np.full(p.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(m, 0, -1)), 1)
    return adjusted


def benjamini_hochberg(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return Benjamini and Hochberg's adjusted p-values (C,): of the findings below alpha, at most alpha are false.

    That is on average over families, for tests that are independent or depend on each other positively, as those of
    many models against one baseline do. NaN stays NaN and does not count in the family. Source: Benjamini and
    Hochberg 1995.
    """
    descending = _ascending(p)[::-1]
    m = len(descending)
    adjusted = np.full(p.shape, np.nan)
    adjusted[descending] = np.minimum.accumulate(p[descending] * (m / np.arange(m, 0, -1)))
    return adjusted


def _ascending(p: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    return np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN is sorted last
