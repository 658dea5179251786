from __future__ import annotations

from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from evalplugin.comparison.statistics.paired import benjamini_hochberg, holm

P_VALUES = st.lists(st.one_of(st.floats(1e-12, 1), st.sampled_from([0.01, 0.02, 0.05])), max_size=30).map(
    np.array
)


def test_holm_by_hand() -> None:
    p = np.array([0.04, 0.01, 0.03, 0.02])
    assert holm(p) == pytest.approx([0.03 * 2, 0.01 * 4, 0.03 * 2, 0.02 * 3])


def test_benjamini_hochberg_by_hand() -> None:
    p = np.array([0.9, 0.01, 0.04, 0.03])
    assert benjamini_hochberg(p) == pytest.approx([0.9, 0.01 * 4, 0.04 * 4 / 3, 0.04 * 4 / 3])


@given(P_VALUES.filter(len))
def test_both_agree_with_statsmodels(p: np.ndarray) -> None:
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1])


@given(P_VALUES, st.integers(0, 99))
def test_an_undefined_p_value_stays_so_and_does_not_count(p: np.ndarray, seed: int) -> None:
    places = np.sort(np.random.default_rng(seed).permutation(len(p) + 3)[: len(p)])
    with_nan = np.full(len(p) + 3, nan)
    with_nan[places] = p
    for correct in (holm, benjamini_hochberg):
        corrected = correct(with_nan)
        assert corrected[places].tolist() == correct(p).tolist()
        assert np.isnan(np.delete(corrected, places)).all()
