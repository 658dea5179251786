from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from evalplugin.base.errors import DataError
from evalplugin.data import vocabulary
from evalplugin.data.tables import Ids, Table
from evalplugin.data.vocabulary import codes_in, encode


@pytest.mark.parametrize("distinct", [3, 500, 100_000])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_ids_have_the_codes_of_one_sorted_vocabulary(distinct, kind, monkeypatch):
    monkeypatch.setattr(vocabulary, "_PIECE", 1000)
    rng = np.random.default_rng(0)
    # The first rows of a column have few of its texts, or almost all.
    texts = [
        "\N{GREEK SMALL LETTER OMEGA}" * (n % 3) + str(n) for n in rng.integers(0, distinct, 5000).tolist()
    ]
    columns = [texts, sorted(texts), ["", "b", "b"], []]
    ids = [Ids("text", pa.array(column, kind)) for column in columns]
    users, codes = encode(ids)
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


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("index", [pa.int8(), pa.uint32(), pa.int64()])
def test_codes_of_dictionaries_are_used(text: pa.DataType, index: pa.DataType) -> None:
    """Texts may be repeated, unused or in any order, and differ between chunks."""
    first = pa.DictionaryArray.from_arrays(
        pa.array([3, 0, 1, 3, 0], index), pa.array(["b", "a", "unused", "b"], text)
    )
    second = pa.DictionaryArray.from_arrays(pa.array([1, 1], index), pa.array(["a", "new"], text))
    column = pa.chunked_array([first, second])
    texts = column.to_pylist()
    table = Table(pa.table({"user": column}), "lists")
    plain = table.ids("user", "user")
    coded = table.ids("user", "user", coded=True)
    other = Ids("text", pa.array(["c", "b"]))
    assert coded.codes is not None
    for ids in (coded, Ids("text", coded.values.slice(1, 5)), coded.take(np.array([6, 0, 2]))):
        assert ids.codes is not None
        expected = encode([Ids("text", pa.array(ids.values.to_pylist(), pa.string())), other])
        found = encode([ids, other])
        assert found[0].tolist() == expected[0].tolist()
        for ours, theirs in zip(found[1], expected[1], strict=True):
            assert ours.tolist() == theirs.tolist()
        np.testing.assert_array_equal(codes_in(ids, found[0]), expected[1][0])
    assert coded.values.to_pylist() == texts
    assert coded.run_starts().tolist() == plain.run_starts().tolist()


@pytest.mark.parametrize(
    "column", [["a", None], pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))]
)
def test_missing_ids_in_dictionaries_are_refused(column: object) -> None:
    values = pa.array(column).dictionary_encode() if isinstance(column, list) else column
    with pytest.raises(DataError, match=r"row 2.* is empty: no user id may be missing"):
        Table(pa.table({"user": values}), "lists").ids("user", "user", coded=True)
