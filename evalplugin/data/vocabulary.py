"""Codes of one sorted vocabulary for the ids of several columns."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Ints
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa, pc
from evalplugin.base.units import count_text, plural
from evalplugin.data.tables import Ids, Table, ids_of

_SPARSE = 8  # ids that lie further apart than this, on average, are hashed and not looked up in a table
_PIECE = 2**17  # texts that are worth a thread of their own
_MAX_THREADS = 4
Integers: TypeAlias = "npt.NDArray[np.integer[Any]]"
_Encoded: TypeAlias = "tuple[npt.NDArray[np.generic], list[Integers]]"
_LARGEST = 2**31 - 2  # -1 means "no item", and the hash of a list's item has 32 bits


def check_kinds(role: str, **columns: Ids) -> None:
    """Refuse to compare integer ids with text ids.

    Raises:
        DataError: The columns differ in type; the message names them by keyword.
    """
    (first, ids), *others = columns.items()
    for name, other in others:
        if other.kind != ids.kind:
            raise DataError(
                f"{role} ids are {ids.kind} in the {first}{_example(ids)}, but {other.kind} in the {name}"
                f"{_example(other)}: they can never be equal; convert one of the two columns, or read those of CSV "
                f"files as text (ids: text, or --ids text)"
            )


def _example(ids: Ids) -> str:
    """Return an example for messages: of text ids one that is not an integer, if possible."""
    if not len(ids):
        return ""
    if ids.kind == "integers":
        return f" (such as {ids.values[0]})"
    texts = ids.values if ids.codes is None else ids.values.dictionary_decode()
    position = pc.index(pc.match_substring_regex(texts, "^(0|-?[1-9][0-9]*)$"), False).as_py()
    example = texts.slice(max(position, 0), 1).cast(pa.large_binary())[0].as_py()
    return f" (such as {example.decode('utf-8', 'backslashreplace')!r})"


def unicode_notes(noun: str, *columns: Ids) -> list[str]:
    """Return a note on text ids that are the same once their Unicode is normalised; none without such ids."""
    unlike: set[str] = set()
    for ids in columns:
        if ids.kind == "text":
            texts = ids.values if ids.codes is None else ids.values.dictionary
            unlike |= set(texts.filter(pc.invert(pc.string_is_ascii(texts))).unique().to_pylist())
    by_form: dict[str, str] = {}
    twice = [text for text in sorted(unlike) if by_form.setdefault(normalize("NFC", text), text) != text]
    note = "in two forms of Unicode (NFC and NFD), which are different ids: unicodedata.normalize('NFC', id) makes one"
    return [f"{count_text(len(twice), noun)}, such as {twice[0]!r}, {note}"] if twice else []


def codes_end(*columns: Integers) -> int | None:
    """Return the upper bound of integer ids that can serve as their own int32 codes; None if they cannot."""
    end = 0
    for values in filter(len, columns):
        if values.dtype == np.int64 and values.flags.c_contiguous:
            values = values.view(np.uint64)  # one pass instead of two: negative ids become very large
        largest = int(values.max())
        if largest > _LARGEST or (values.dtype.kind == "i" and values.min() < 0):
            return None
        end = max(end, largest + 1)
    return end


def encode(columns: Sequence[Ids]) -> _Encoded:
    """Return the sorted vocabulary of all columns together (int64, or str as object), and each one's codes."""
    if columns[0].kind == "integers":
        return _encode_integers([column.values for column in columns])
    return _encode_text(columns)


def codes_in(ids: Ids, vocabulary: npt.NDArray[np.generic]) -> Integers:
    """Return the int32 code of each id in a sorted vocabulary that has all of them."""
    values = ids.values
    codes: Integers
    if ids.kind == "integers":
        low, span = int(vocabulary[0]), int(vocabulary[-1]) - int(vocabulary[0]) + 1
        if span == len(vocabulary):
            codes = values.astype(np.int64) - low
        elif span <= _SPARSE * len(values) + 2**16:
            code = np.empty(span, dtype=np.int32)
            code[vocabulary - low] = np.arange(len(vocabulary))
            codes = code[values if low == 0 else values.astype(np.int64) - low]
        else:
            codes = np.searchsorted(vocabulary, values.astype(np.int64, copy=False))
        return codes.astype(np.int32)
    texts = values if ids.codes is None else values.dictionary
    codes = _positions(texts, pa.array(vocabulary, type=texts.type))
    return codes if ids.codes is None else codes[ids.codes]


def codes_of(ids: npt.NDArray[np.generic], vocabulary: npt.NDArray[np.generic]) -> Ints:
    """Return the codes of sorted ids in a sorted vocabulary, -1 for those that it lacks: int64."""
    both, (own, known) = encode([ids_of(ids), ids_of(vocabulary)])
    code = np.full(len(both), -1)
    code[known] = np.arange(len(vocabulary))
    found: Ints = code[own]
    return found


class Matched(NamedTuple):
    """A column of ids, matched to a vocabulary."""

    ids: npt.NDArray[np.generic]  # (k,) the different ids, ascending
    code: Ints  # (k,) in the vocabulary, -1 for an id that it lacks
    position: Integers  # (n,) of each row's id among the different ones
    notes: list[str]  # on forms of Unicode


def matched(
    table: Table,
    column: str,
    role: str,
    vocabulary: npt.NDArray[np.generic],
    *,
    noun: str = "",
    examples: npt.NDArray[np.generic] | None = None,
) -> Matched:
    """Return a column of ids with their codes in a sorted vocabulary of the data.

    Args:
        table, column: The column.
        role: ``user`` or ``item``.
        vocabulary: All ids of the data, sorted.
        noun: Of what has such an id, for messages; empty: the role.
        examples: Ids of the data that messages show; None: the first ones of the vocabulary.

    Raises:
        DataError: An id is missing, or of another type than the data's; none is in the data.
    """
    own, known = table.ids(column, role), ids_of(vocabulary)
    try:
        check_kinds(role, table=own, data=known)
    except DataError as error:
        raise DataError(f"{table.name}: {error}") from None
    ids, (position,) = encode([own])
    code, notes = codes_of(ids, vocabulary), unicode_notes(role, own, known)
    if (code < 0).all():
        forms = "".join(f"; {note}" for note in notes)
        raise DataError(
            f"{table.name}: none of its {plural(noun or role)} is in the data: column {column!r} has ids such as "
            f"{_examples(ids)}, the data such as {_examples(vocabulary if examples is None else examples)}{forms}"
        )
    return Matched(ids, code, position, notes)


def _examples(ids: npt.NDArray[np.generic]) -> str:
    return ", ".join(map(repr, ids[:3].tolist()))


def _encode_integers(columns: list[Integers]) -> _Encoded:
    first = columns[0]
    if (first[1:] > first[:-1]).all() and all(np.array_equal(first, other) for other in columns[1:]):
        return first.astype(np.int64), [np.arange(len(first))] * len(columns)
    total = sum(map(len, columns))
    filled = [column for column in columns if len(column)]
    low = min((int(c.min()) for c in filled), default=0)
    span = max((int(c.max()) for c in filled), default=-1) - low + 1
    if span <= _SPARSE * total + 2**16:
        seen = np.zeros(span, dtype=np.bool_)
        # Offsets are computed only where they are not the ids themselves: a column may be most of the memory.
        offsets = [column if low == 0 else column.astype(np.int64) - low for column in columns]
        for offset in offsets:
            seen[offset] = True
        code = np.cumsum(seen, dtype=np.int32) - 1
        return np.flatnonzero(seen) + low, [code[offset] for offset in offsets]
    joined = pa.chunked_array([pa.array(c.astype(np.int64, copy=False)) for c in columns], type=pa.int64())
    vocabulary = np.sort(pc.unique(joined).to_numpy())
    value_set = pa.array(vocabulary)
    codes = [pc.index_in(chunk, value_set=value_set).to_numpy() for chunk in joined.chunks]
    return vocabulary, codes


class _Texts(NamedTuple):
    """The texts of a part of a column."""

    used: pa.Array  # the different texts of its rows
    all: pa.Array  # the same, or with unused ones
    codes: Integers  # the position of each row in ``all``

    @classmethod
    def of(cls, part: Ids) -> _Texts:
        if part.codes is None:
            encoded = pc.dictionary_encode(part.values)
            return cls(encoded.dictionary, encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False))
        texts = part.values.dictionary
        used = np.zeros(len(texts), dtype=np.bool_)
        used[part.codes] = True
        return cls(texts if used.all() else texts.filter(pa.array(used)), texts, part.codes)


def _encode_text(columns: Sequence[Ids]) -> _Encoded:
    threads = min(_MAX_THREADS, pa.cpu_count())
    size = max(_PIECE, -(-max(map(len, columns)) // threads))
    codes: list[Integers] = [np.empty(len(column), dtype=np.int32) for column in columns]
    pieces, places = [], []
    for column, code in zip(columns, codes, strict=True):
        step = size if column.codes is None else len(column)  # a dictionary is looked up once
        for at in range(0, len(column), step):
            pieces.append(Ids(column.kind, column.values.slice(at, step)))
            places.append(code[at : at + step])
    with ThreadPoolExecutor(threads) as pool:
        encoded = list(pool.map(_Texts.of, pieces))
        parts = [texts.used.cast(pa.large_string()) for texts in encoded]
        vocabulary = pc.unique(pa.chunked_array(parts, type=pa.large_string()))
        vocabulary = vocabulary.take(pc.sort_indices(vocabulary))  # bytes of UTF-8 sort as code points do
        try:
            vocabulary.validate(full=True)
        except pa.ArrowInvalid:
            raise DataError("text ids must be valid UTF-8, but some are bytes of another encoding") from None

        def write(place: Integers, texts: _Texts) -> None:
            _positions(texts.all.cast(pa.large_string()), vocabulary).take(
                texts.codes, out=place, mode="clip"
            )

        list(pool.map(write, places, encoded))
    return vocabulary.to_numpy(zero_copy_only=False), codes


def _positions(texts: pa.Array, vocabulary: pa.Array) -> Codes:
    """Return the position of each text in a vocabulary, -1 for one that it lacks."""
    found: Codes = pc.fill_null(pc.index_in(texts, value_set=vocabulary), -1).to_numpy(zero_copy_only=False)
    return found
