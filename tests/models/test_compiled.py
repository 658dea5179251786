from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.models.kernels.compiled import kth_largest

NUMBERS = st.lists(st.integers(-3, 3) | st.floats(allow_nan=False), min_size=1, max_size=200)


@given(NUMBERS, st.data())
def test_the_kth_largest_of_values_with_ties_is_that_of_sorted_ones(numbers, data):
    k = data.draw(st.integers(1, len(numbers)))
    values = np.array(numbers, dtype=np.float64)
    assert kth_largest(values.copy(), k) == np.sort(values)[-k]
