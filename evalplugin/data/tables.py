"""Tables (pandas, Arrow, polars): columns checked by name and returned as plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Flags, Floats, Ints
from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.libraries import pa, pc
from evalplugin.base.units import count_text
from evalplugin.data.times import DATETIME_UNITS

IdKind: TypeAlias = Literal["integers", "text"]
_CHUNK = 2**20  # values checked at a time: temporaries of this size stay in the cache
_SAMPLE = 2**15  # of rows whose order shows whether a column is shuffled
_FIT = "fit into 64 bits with sign"
# Texts for a missing value, as databases, R, pandas and JavaScript write it, in lower case.
_NULLS = (
    "null",
    "(null)",
    "none",
    "nan",
    "-nan",
    "na",
    "n/a",
    "#n/a",
    "<na>",
    "nat",
    "nil",
    "undefined",
    "\\n",
)
_WITH_NAMES = ("model", "metric", "part")  # roles of columns where such a text is a name
LARGE = "integer scores must be between -2^53 and 2^53, as float64 rounds others: subtract a constant, or give ranks"
_RULES = {
    "rank": "ranks must be whole numbers",
    "score": "scores must be finite numbers",
    "rating": "ratings must be finite numbers (float32)",
    "position": "positions must be whole numbers from 1",
    "propensity": "propensities must be numbers above 0 and at most 1, the probability with which a row was shown",
}
_WHOLE = ("rank", "position")


def row_number(row: int, file: str = "") -> str:
    """Return the name of a row in messages, given its position from 0; ``file`` is such as `` of a.csv``."""
    return f"row {row + 1}{file} (counted from 1)"


def column_problem(name: str, names: Sequence[str], role: str = "") -> str | None:
    """Return the problem, if not exactly one column has the name; ``role`` names its purpose in the message."""
    count = names.count(name)
    if count > 1:
        return f"{count} columns are called {name!r}" + (f" ({role})" if role else "")
    if not count:
        hint = did_you_mean(name, names, noun="columns")
        return f"no {role + ' ' if role else ''}column {name!r}{hint}"
    return None


def columns_problem(columns: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the problems of all columns, named by role, as one line; None: each is there once."""
    problems = [column_problem(name, names, role) for role, name in columns.items()]
    return "; ".join(filter(None, problems)) or None


def is_number_type(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type are integers or floats."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_cluster(role: str) -> bool:
    """Return whether a column with a role has ids of clusters: ``cluster``, or ``cluster 2`` of a second one."""
    return role.startswith("cluster")


def check_roles(table: str, columns: Mapping[str, str]) -> None:
    """Refuse one column for two roles.

    Raises:
        DataError: Two roles name the same column.
    """
    role_of: dict[str, str] = {}
    for role, name in columns.items():
        if (first := role_of.setdefault(name, role)) != role:
            raise DataError(f"{table}: column {name!r} cannot be both {first} and {role}: name two columns")


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of ids without a missing one: integers of any width that fit int64, or Arrow text.

    Text may be a dictionary of different texts, some of them unused, and the code of each row.
    """

    kind: IdKind
    values: Any  # an array of NumPy or of Arrow

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def codes(self) -> npt.NDArray[np.integer[Any]] | None:
        """The code of each row in the dictionary; None if there is none."""
        is_coded = self.kind == "text" and pa.types.is_dictionary(self.values.type)
        return _numbers(self.values.indices) if is_coded else None

    def run_starts(self, threads: int = 1) -> Ints:
        """Return the positions of values that differ from the one before, 0 included: int64 (r,).

        Where almost all differ, or almost all of the first ones, as in shuffled rows, these are all positions: no copy
        of the values is needed then.
        """
        n = len(self)

        def starts(low: int) -> Ints:
            return np.flatnonzero(self._differs(low, min(low + _CHUNK, n))) + low

        if n > _SAMPLE and 10 * np.count_nonzero(self._differs(1, _SAMPLE)) > 9 * _SAMPLE:
            return np.arange(n)
        with ThreadPoolExecutor(threads) as pool:
            run = pool.map if threads > 1 and n > _CHUNK else map
            rows = np.concatenate([np.zeros(min(n, 1), dtype=np.int64), *run(starts, range(1, n, _CHUNK))])
        return np.arange(n) if 10 * len(rows) > 9 * n else rows

    def _differs(self, low: int, high: int) -> Flags:
        """Return whether the values of some rows differ from the one before."""
        values = self.values if self.codes is None else self.codes
        current, before = values[low:high], values[low - 1 : high - 1]
        if isinstance(values, np.ndarray):
            differs: Flags = current != before
            return differs
        return np.asarray(pc.not_equal(current, before))

    def take(self, rows: Ints) -> Ids:
        """Return the ids at some rows."""
        if len(rows) == len(self):
            return self
        if self.kind == "integers":
            return Ids(self.kind, self.values[rows])
        return Ids(self.kind, self.values.take(pa.array(rows)))


def ids_of(values: npt.NDArray[np.generic]) -> Ids:
    """Return a vocabulary, int64 or str as object, as a column of ids."""
    if values.dtype.kind == "i":
        return Ids("integers", values)
    return Ids("text", pa.array(values, type=pa.large_string()))


def is_table(value: Any) -> bool:
    """Return whether ``Table`` takes a value: a DataFrame of pandas or polars, an Arrow table, and the like."""
    if isinstance(value, type):
        return False
    if hasattr(value, "iloc"):  # also a Series of pandas, which Arrow would take as a table
        return hasattr(value, "columns")
    return hasattr(value, "column_names") or hasattr(value, "__arrow_c_stream__")


@dataclass(frozen=True)
class Seconds:
    """A time column in seconds since 1970."""

    whole: Ints  # (n,) rounded down
    fraction: npt.NDArray[np.int32] | None = None  # (n,) what was cut, in ticks; None: every time is whole
    ticks: int = 1  # a second: the fewest of 1, 10**3, 10**6 and 10**9 that are exact
    rounded: int = 0  # number of times that are not exact

    @classmethod
    def of_ticks(cls, time: Ints, ticks: int) -> Seconds:
        """Return times (n,) that are in ticks since 1970."""
        whole, fraction = np.divmod(time, ticks)
        if not fraction.any():
            return cls(whole)
        while not (fraction % 1000).any():
            fraction, ticks = fraction // 1000, ticks // 1000
        return cls(whole, fraction.astype(np.int32), ticks)

    @classmethod
    def of_floats(cls, time: npt.NDArray[np.floating[Any]]) -> Seconds:
        """Return times (n,) that are in seconds since 1970, in the fewest ticks from which the same floats come back.

        Neighbours among float64 near today's times are 2.4e-7 s apart: up to six digits are exact in microseconds.
        """
        floor = np.floor(time)
        whole, fraction = floor.astype(np.int64), (time - floor).astype(np.float64)
        if not fraction.any():
            return cls(whole)
        most = 2.0**63 / (np.abs(floor).max() + 1)  # ticks, for the times to fit into 64 bits
        for ticks in [ticks for ticks in DATETIME_UNITS if ticks == 1 or ticks < most]:
            steps = np.rint(fraction * ticks)
            differs = (floor + steps / ticks).astype(time.dtype) != time
            if not differs.any():
                break
        next_second = steps == ticks
        fraction = np.where(next_second, 0, steps).astype(np.int32)
        return cls(whole + next_second, None if ticks == 1 else fraction, ticks, int(differs.sum()))


class Table:
    """A table under the name that messages give it; every method raises DataError for a value that breaks a rule."""

    def __init__(self, table: Any, name: str, row_name: Callable[[int], str] = row_number) -> None:
        """Take a pandas DataFrame, an Arrow table, or any object with the Arrow stream interface.

        Raises:
            DataError: The table is of another type.
        """
        is_pandas = hasattr(table, "iloc") and hasattr(table, "columns")
        if isinstance(table, type) or not (is_pandas or hasattr(table, "column_names")):
            if not is_table(table):
                given = f"the class {table.__name__}" if isinstance(table, type) else type(table).__name__
                lazy = "; collect() makes one of it" if hasattr(table, "collect") else ""
                raise DataError(f"{name}: must be a pandas DataFrame or an Arrow table, not {given}{lazy}")
            table = pa.table(table)
        self.name, self.row_name, self._table = name, row_name, table
        self.notes: list[str] = []  # on the columns read so far, for people
        self._is_pandas = hasattr(table, "iloc")
        self.columns = [str(c) for c in (table.columns if self._is_pandas else table.column_names)]

    def __len__(self) -> int:
        return len(self._table)

    def filter(self, kept: Flags) -> Table:
        """Return some of the rows, under their names in this table."""
        rows = np.flatnonzero(kept)
        table = self._table[kept] if self._is_pandas else self._table.filter(pa.array(kept))
        return Table(table, self.name, lambda row: self.row_name(int(rows[row])))

    def ids(self, name: str, role: str, *, coded: bool = False) -> Ids:
        """Return an id column: no value missing, all of them integers or all of them text.

        Args:
            name, role: The column, and its role in messages.
            coded: Whether categories and dictionaries of text keep their codes; else they become plain text.
        """
        rule = f"{role} ids must be integers or text"
        column = self._values(name, role, rule, f"no {role} id may be missing", coded=coded)
        if isinstance(column, np.ndarray):
            if column.dtype.kind in "iu":
                self._check_int64(name, column, f"{role} ids")
                return Ids("integers", column)
            self._refuse_floats(name, column, rule, f"{role} id")
        if not _is_text(column.type) and not pa.types.is_dictionary(column.type):
            self.refuse(name, 0, f"{rule}, all of one type")
        ids = Ids("text", column)
        if role not in _WITH_NAMES:
            self.check_null_texts(name, role, ids)
        return ids

    def check_null_texts(self, name: str, role: str, ids: Ids) -> None:
        """Refuse texts such as ``NULL`` in a column whose other ids are numbers; in other columns they are noted."""
        rows, among_numbers = null_texts(ids)
        if among_numbers:
            rule = f"no {role} id may be missing, and all others are numbers: leave such rows out, or write the id"
            self._refuse_rows(name, rows, rule)
        if len(rows):
            text = ids.take(rows[:1]).values[0].as_py()
            self.notes.append(
                f"{self.name}: {text!r} is the {role} of {count_text(len(rows), 'row')} (column {name!r}), the first "
                f"is {self.row_name(int(rows[0]))}: where it stands for a missing id, leave such rows out"
            )

    def numbers(self, name: str, role: str) -> npt.NDArray[Any]:
        """Return a column of ranks or positions (integers), scores, ratings or propensities, as it is stored.

        All are finite, ratings as float32.
        """
        rule = _RULES[role]
        column = self._values(name, role, rule, f"no {role} may be missing")
        if not isinstance(column, np.ndarray):
            self._refuse_other(name, column, rule, pa.int64() if role in _WHOLE else pa.float64())
        if column.dtype.kind == "f" and role in _WHOLE:
            self._refuse_floats(name, column, rule, role)
        if role == "score":
            self._refuse_large(name, column)
        if column.dtype.kind == "f" and len(column):
            kind = np.float32 if role == "rating" and column.dtype == np.float64 else column.dtype
            with np.errstate(over="ignore"):
                # NaN and infinity are among the extremes, which take no copy of the column.
                if not np.isfinite(np.array([column.min(), column.max()]).astype(kind)).all():
                    self._refuse_rows(name, np.flatnonzero(~np.isfinite(column.astype(kind))), rule)
        return column

    def scores(self, name: str, role: str = "score") -> Floats:
        """Return a column of scores or rewards as float64, NaN where one is missing; true is 1 and false 0."""
        rule = f"{role}s must be finite numbers, true or false"
        try:
            column = self.arrow(name)
        except (pa.ArrowException, TypeError, OverflowError, UnicodeError):
            values = self._column(name).tolist()
            wrong = (row for row, value in enumerate(values) if not isinstance(value, Real | None))
            self.refuse(name, next(wrong, 0), rule)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.uint8())
        is_known = (
            is_number_type(column.type) or pa.types.is_decimal(column.type) or pa.types.is_null(column.type)
        )
        if not is_known:
            self._refuse_other(name, column, rule, pa.float64())
        if pa.types.is_integer(column.type):
            self._refuse_large(name, _numbers(column.fill_null(0)))
        scores: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        self._refuse_rows(name, np.flatnonzero(np.isinf(scores)), rule)
        return scores

    def seconds(self, name: str) -> Seconds:
        """Return a time column in seconds since 1970."""
        rule = (
            "timestamps must be numbers or datetimes (in CSV files, text such as 2026-01-31 09:30:00 too; "
            "pandas.to_datetime converts any other)"
        )
        column = self._values(name, "timestamp", rule, "no timestamp may be missing")
        if not isinstance(column, np.ndarray):
            if pa.types.is_date(column.type):
                column = column.cast(pa.timestamp("s"))
            if not pa.types.is_timestamp(column.type):
                self._refuse_other(
                    name, column, rule, pa.float64(), pa.timestamp("ns"), pa.timestamp("ns", "UTC")
                )
            ticks = next(ticks for ticks, unit in DATETIME_UNITS.items() if unit == column.type.unit)
            return Seconds.of_ticks(_numbers(column.view(pa.int64())), ticks)  # UTC
        if column.dtype.kind != "f":
            self._check_int64(name, column, "timestamps")
            return Seconds(column.astype(np.int64))
        self._refuse_rows(name, np.flatnonzero(np.isnan(column)), "no timestamp may be missing", missing=True)
        beyond = np.flatnonzero(~(np.abs(column) < 2.0**63))
        self._refuse_rows(name, beyond, f"timestamps must be finite and {_FIT}")
        return Seconds.of_floats(column)

    def arrow(self, name: str, *, coded: bool = False) -> pa.Array:
        """Return a column as one Arrow array: categories by their values, views of text as text.

        Args:
            name: The column.
            coded: Whether a dictionary of text stays one, without repeated texts.

        Raises:
            ArrowException, TypeError, OverflowError, UnicodeError: Values of a DataFrame that Arrow has no type for.
        """
        column = self._column(name)
        if self._is_pandas:
            if getattr(column.dtype, "tz", None) is not None:  # Arrow's way to UTC makes pandas warn
                column = column.dt.tz_convert(None)
            column = pa.array(column, from_pandas=True)
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # Arrow makes no array of no chunk, nor of text beyond 2 GiB
            column = pa.concat_arrays(
                [c.cast(pa.large_string()) if pa.types.is_string(c.type) else c for c in column.chunks]
            )
        if pa.types.is_dictionary(column.type):
            categories = _without_view(column.dictionary)
            column = pa.DictionaryArray.from_arrays(column.indices, categories)
            if coded and _is_text(categories.type) and not categories.null_count:
                return column if self._is_pandas else _without_repetition(column)  # pandas allows none
            column = column.dictionary_decode()
        return _without_view(column)

    def refuse(self, name: str, row: int, rule: str, *, count: int = 1, missing: bool = False) -> NoReturn:
        """Raise the error for values of a column that break a rule.

        Args:
            name: The column.
            row: The first such row.
            rule: The rule, with which the message ends.
            count: Number of such rows.
            missing: Whether the values are missing.
        """
        column = self._column(name)
        value = None if missing else column.iloc[row] if self._is_pandas else _plain(column[row])
        value = value.item() if isinstance(value, np.generic) else value
        shown = "empty" if value is None else f"{value!r} ({type(value).__name__})"
        more = f", and {count - 1} more rows" if count > 1 else ""
        raise DataError(f"{self.name}: column {name!r}, {self.row_name(row)} is {shown}{more}: {rule}")

    def _column(self, name: str) -> Any:
        position = self.columns.index(name)
        return self._table.iloc[:, position] if self._is_pandas else self._table.column(position)

    def _values(self, name: str, role: str, rule: str, never_missing: str, *, coded: bool = False) -> Any:
        """Return a column as a NumPy array of numbers, or else as one Arrow array; nulls are refused."""
        if problem := column_problem(name, self.columns, role):
            raise DataError(f"{self.name}: {problem}")
        if self._is_pandas:
            dtype = self._column(name).dtype
            if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
                return self._column(name).to_numpy()
        try:
            column = self.arrow(name, coded=coded)
        except (pa.ArrowException, TypeError, OverflowError, UnicodeError):
            self._refuse_mixed(name, role, rule, never_missing)
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            self._refuse_rows(name, np.flatnonzero(missing), never_missing, missing=True)
        if is_number_type(column.type):
            return _numbers(column)
        return column

    def _check_int64(self, name: str, column: npt.NDArray[Any], subject: str) -> None:
        if column.dtype == np.uint64 and column.max(initial=0) >= 2**63:
            self._refuse_rows(name, np.flatnonzero(column >= 2**63), f"{subject} must {_FIT}")

    def _refuse_large(self, name: str, column: npt.NDArray[Any]) -> None:
        if column.dtype.kind != "f":
            self._refuse_rows(name, np.flatnonzero((column >= 2**53) | (column <= -(2**53))), LARGE)

    def _refuse_rows(self, name: str, rows: Ints, rule: str, *, missing: bool = False) -> None:
        if len(rows):
            self.refuse(name, int(rows[0]), rule, count=len(rows), missing=missing)

    def _refuse_floats(self, name: str, column: npt.NDArray[Any], rule: str, role: str) -> NoReturn:
        """Refuse floats where integers are needed, or the missing value that turned integers into floats."""
        missing = np.isnan(column)
        whole = bool((missing | (np.isfinite(column) & (column == np.floor(column)))).all())
        if whole:
            made = f"no {role} may be missing (this made floats of all)"
            self._refuse_rows(name, np.flatnonzero(missing), made, missing=True)
        # Files with integers are read as floats too.
        fraction = (
            0 if whole else int(np.argmax(~missing & ~(np.isfinite(column) & (column == np.floor(column)))))
        )
        self.refuse(name, fraction, f"{rule}, not floats" + "; convert the column to integers first" * whole)

    def _refuse_other(self, name: str, column: pa.Array, rule: str, *kinds: pa.DataType) -> NoReturn:
        """Refuse the first text that cannot be read as the first one can, by one of ``kinds``; else the first value."""
        known = np.flatnonzero(column.is_valid())
        if not _is_text(column.type):
            self.refuse(name, int(known[0]), f"{rule}, not {column.type}")
        texts = column.drop_null()
        kind = next((kind for kind in kinds if _are_all(texts[:1], kind)), kinds[0])
        if _are_all(texts, kind):
            self.refuse(name, int(known[0]), f"{rule}, not text")
        fit, end = 0, len(texts)  # the first texts are of the kind up to ``fit``, but not up to ``end``
        while end - fit > 1:
            middle = (fit + end) // 2
            fit, end = (middle, end) if _are_all(texts[fit:middle], kind) else (fit, middle)
        if fit and len(kinds) > 1:
            rule += f"; all must be of one kind, and {self.row_name(int(known[0]))} is {texts[0].as_py()!r}"
        self.refuse(name, int(known[fit]), rule)

    def _refuse_mixed(self, name: str, role: str, rule: str, never_missing: str) -> NoReturn:
        """Refuse the first value of a DataFrame's column that differs in type, so that Arrow has no type for it."""
        values = self._column(name).tolist()
        numbers = (int, float, np.number)
        wanted = numbers if isinstance(values[0], numbers) else type(values[0])
        for row, value in enumerate(values):
            if value is None or value != value:  # NaN differs from itself
                self.refuse(name, row, never_missing, missing=True)
            is_text = isinstance(value, str) and (role in _RULES or role == "timestamp")
            if is_text or isinstance(value, bool) or not isinstance(value, wanted):
                self.refuse(name, row, f"{rule}, all of one type")
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                self.refuse(name, row, f"{rule.partition(' must ')[0]} must {_FIT}")
            if isinstance(value, int) and role in (*_RULES, "timestamp") and abs(value) >= 2**53:
                self.refuse(
                    name, row, LARGE if role == "score" else f"{rule}; float64 rounds integers beyond 2^53"
                )
            if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
                self.refuse(name, row, "text ids must be valid Unicode")
        self.refuse(name, 0, rule)


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers of a column without nulls. Arrow's own ways import pandas, which takes long."""
    is_float, is_signed = pa.types.is_floating(column.type), pa.types.is_signed_integer(column.type)
    dtype = np.dtype(f"{'f' if is_float else 'i' if is_signed else 'u'}{column.type.bit_width // 8}")
    values = column.buffers()[1]
    if values is None:
        return np.empty(0, dtype)
    return np.frombuffer(values, dtype, len(column), column.offset * dtype.itemsize)


def arrow_numbers(values: npt.NDArray[Any]) -> pa.Array:
    """Return numbers as an Arrow array on the same memory, if they are contiguous; ``pa.array`` imports pandas."""
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, buffer])


def _plain(scalar: pa.Scalar) -> object:
    """Return an Arrow scalar as a plain value; as its type where Python has none, as for a time of an unknown zone."""
    try:
        return scalar.as_py()
    except (pa.ArrowException, ValueError, OverflowError):
        return str(scalar.type)


def null_texts(ids: Ids) -> tuple[Ints, bool]:
    """Return the rows of a column of text that hold a text such as ``NULL``, and whether all others are numbers."""
    texts = ids.values if ids.codes is None else ids.values.dictionary
    words = pc.ascii_lower(pc.ascii_trim_whitespace(texts))
    is_null = pc.is_in(words, value_set=pa.array(_NULLS, words.type), skip_nulls=True)
    if not pc.any(is_null).as_py():
        return np.empty(0, dtype=np.int64), False
    of_texts = np.asarray(is_null)
    rows = np.flatnonzero(of_texts if ids.codes is None else of_texts[ids.codes])
    others = texts.filter(pc.invert(is_null))
    return rows, min(len(rows), len(others)) > 0 and _are_all(others, pa.float64())


def _are_all(texts: pa.Array, kind: pa.DataType) -> bool:
    """Return whether all texts can be read as a type."""
    try:
        pc.utf8_trim_whitespace(texts).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string())


def _without_repetition(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return a dictionary array whose dictionary has each text once."""
    encoded = column.dictionary.dictionary_encode()
    if len(encoded.dictionary) == len(column.dictionary):
        return column
    return pa.DictionaryArray.from_arrays(encoded.indices.take(column.indices), encoded.dictionary)


def _without_view(column: pa.Array) -> pa.Array:
    """Return views of text as plain text, as few of Arrow's functions accept views."""
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column
