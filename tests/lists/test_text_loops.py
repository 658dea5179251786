from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from evalplugin.data import vocabulary
from evalplugin.data.tables import Ids
from evalplugin.data.vocabulary import encode
from evalplugin.lists.text_loops import dictionary_of


def texts_of(kind: pa.DataType) -> pa.Array:
    rng = np.random.default_rng(0)
    words = [
        "",
        "\N{GREEK SMALL LETTER OMEGA}",
        "a\0",
        "a",
        "x" * 8,
        "x" * 9,
        "x" * 16,
        *map(str, range(9000)),
    ]
    words += ["x" * 8 + w for w in words]
    return pa.array(rng.choice(np.array(words, dtype=object), 60_000), kind)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("rows", [slice(0, 60_000), slice(7, 40_001), slice(9, 10), slice(5, 5)])
def test_distinct_texts_and_codes_are_those_of_arrow(kind: pa.DataType, rows: slice) -> None:
    texts = texts_of(kind)[rows.start : rows.stop]
    distinct, code = dictionary_of(texts)
    expected = texts.dictionary_encode()
    assert distinct.type == kind
    assert distinct.equals(expected.dictionary)
    np.testing.assert_array_equal(code, expected.indices.to_numpy())


def test_codes_of_texts_do_not_depend_on_who_encodes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [Ids("text", texts_of(pa.large_string())), Ids("text", pa.array(["b", "", "x"] * 3))]
    by_arrow = encode(columns)
    assert by_arrow[0].tolist() == sorted(set(columns[0].values.to_pylist()) | {"b", "x"})
    for column, codes in zip(columns, by_arrow[1], strict=True):
        assert by_arrow[0][codes].tolist() == column.values.to_pylist()
    monkeypatch.setattr(vocabulary, "_PIECE", 1000)
    for found in (encode(columns), encode(columns, dictionary_of)):
        assert found[0].tolist() == by_arrow[0].tolist()
        for ours, theirs in zip(found[1], by_arrow[1], strict=True):
            np.testing.assert_array_equal(ours, theirs)
