from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from evalplugin.data import vocabulary
from evalplugin.data.tables import Ids
from evalplugin.data.vocabulary import codes_in, encode


@pytest.mark.parametrize("distinct", [3, 500, 100_000])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_ids_have_the_codes_of_one_sorted_vocabulary(
    distinct: int, kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "_PIECE", 1000)
    rng = np.random.default_rng(0)
    # The first rows of a column have few of its texts, or almost all.
    texts = [
        "\N{GREEK SMALL LETTER OMEGA}" * (n % 3) + str(n) for n in rng.integers(0, distinct, 5000).tolist()
    ]
    columns = [texts, sorted(texts), ["", "b", "b"], []]
    users, codes = encode([Ids("text", pa.array(column, kind)) for column in columns])
    assert users.tolist() == sorted({*texts, "", "b"})
    for column, code in zip(columns, codes, strict=True):
        assert code.dtype == np.int32
        assert users[code].tolist() == column


@pytest.mark.parametrize("step", [1, 3, 10**6])
def test_codes_of_integers_are_positions_in_the_vocabulary(step: int) -> None:
    known = np.arange(-5, 40) * step
    values = np.random.default_rng(0).choice(known, 300)
    code = codes_in(Ids("integers", values), known)
    assert code.dtype == np.int32
    np.testing.assert_array_equal(known[code], values)
