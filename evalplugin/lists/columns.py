"""Columns of tables made elsewhere (pandas, Arrow, whatever speaks Arrow), checked and as plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.data.encoding import row_number

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Ids", "Kind", "Source", "ids_of"]

Kind: TypeAlias = Literal["integers", "text"]
_CHUNK = 2**20  # values looked at together: what is made of them stays in the cache


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of ids without a missing one: integers of any width that fits int64, or Arrow text."""

    kind: Kind
    values: Any  # an array of NumPy or of Arrow

    def __len__(self) -> int:
        return len(self.values)

    def run_starts(self) -> npt.NDArray[np.int64]:
        """Return where a value differs from the one before it, position 0 included: int64 (r,)."""
        n = len(self)
        starts = [np.zeros(min(n, 1), dtype=np.int64)]
        for low in range(1, n, _CHUNK):
            high = min(low + _CHUNK, n)
            now, before = self.values[low:high], self.values[low - 1 : high - 1]
            if self.kind == "integers":
                differs = now != before
            else:
                import pyarrow.compute as pc

                differs = pc.not_equal(now, before).to_numpy(zero_copy_only=False)
            starts.append(np.flatnonzero(differs) + low)
        return np.concatenate(starts)

    def take(self, rows: npt.NDArray[np.int64]) -> Ids:
        """Return the ids at some rows."""
        if len(rows) == len(self):
            return self
        if self.kind == "integers":
            return Ids(self.kind, self.values[rows])
        import pyarrow as pa

        return Ids(self.kind, self.values.take(pa.array(rows)))


def ids_of(values: npt.NDArray[np.generic]) -> Ids:
    """Return a vocabulary, int64 or str as object, as a column of ids."""
    if values.dtype.kind == "i":
        return Ids("integers", values)
    import pyarrow as pa

    return Ids("text", pa.array(values, type=pa.large_string()))


class Source:
    """A table under the name that messages give it."""

    def __init__(self, table: Any, name: str, place: Callable[[int], str] = row_number) -> None:
        """Take a pandas DataFrame, an Arrow table, or anything that hands itself over as one.

        Raises:
            DataError: It is none of these.
        """
        if not hasattr(table, "iloc") and type(table).__module__.partition(".")[0] != "pyarrow":
            if not hasattr(table, "__arrow_c_stream__"):
                raise DataError(
                    f"{name}: must be a pandas DataFrame or an Arrow table, not {type(table).__name__}"
                )
            import pyarrow as pa

            table = pa.table(table)
        self.table, self.name, self.place = table, name, place
        self.columns = [str(c) for c in (table.columns if self._is_pandas else table.column_names)]

    def __len__(self) -> int:
        return len(self.table)

    @property
    def _is_pandas(self) -> bool:
        return hasattr(self.table, "iloc")

    def ids(self, name: str, role: str) -> Ids:
        """Return an id column.

        Raises:
            DataError: No such column, a missing id, ids that are neither integers nor text, or of both kinds.
        """
        import pyarrow as pa

        rule = f"{role} ids must be integers or text"
        column = self._arrow(name, role, rule)
        if isinstance(column, np.ndarray):
            if column.dtype.kind == "u" and column.dtype.itemsize == 8 and column.max(initial=0) >= 2**63:
                self.refuse(name, int(np.argmax(column)), int(column.max()), f"{rule} that fit into int64")
            if column.dtype.kind in "iu":
                return Ids("integers", column)
        elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            self._no_nulls(name, column, f"no {role} id may be missing")
            return Ids("text", column)
        raise self._refuse_type(name, column, f"{rule}, not {_kind_of(column)}", role)

    def numbers(self, name: str, role: str, rule: str, *, whole: bool = False) -> npt.NDArray[Any]:
        """Return a column of finite numbers, of whole ones if so asked, as it is stored.

        Raises:
            DataError: No such column, a missing, infinite or wrong value; the message ends in ``rule``.
        """
        column = self._arrow(name, role, rule)
        kinds = "iu" if whole else "iuf"
        if not isinstance(column, np.ndarray) or column.dtype.kind not in kinds:
            self._refuse_type(name, column, f"{rule}, not {_kind_of(column)}", role)
        if column.dtype.kind == "f":
            for low in range(0, len(column), _CHUNK):
                wrong = ~np.isfinite(column[low : low + _CHUNK])
                if wrong.any():
                    row = low + int(np.argmax(wrong))
                    self.refuse(name, row, column[row].item(), rule)
        return column

    def has(self, name: str) -> bool:
        """Return whether there is such a column."""
        return name in self.columns

    def refuse(self, name: str, row: int, value: object, rule: str) -> NoReturn:
        """Raise the error for a value at a row that breaks a rule."""
        shown = "empty" if value is None else f"{value!r} ({type(value).__name__})"
        raise DataError(f"{self.name}: column {name!r}, {self.place(row)} is {shown}: {rule}")

    def _arrow(self, name: str, role: str, rule: str) -> Any:
        """Return a column as a NumPy array of numbers, or else as one Arrow array."""
        import pyarrow as pa

        if self.columns.count(name) != 1:
            if name in self.columns:
                raise DataError(
                    f"{self.name}: {self.columns.count(name)} columns are called {name!r} ({role})"
                )
            hint = did_you_mean(name, self.columns, noun="columns")
            raise DataError(f"{self.name}: no {role} column {name!r}{hint}")
        position = self.columns.index(name)
        if self._is_pandas:
            series = self.table.iloc[:, position]
            if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
                return series.to_numpy()
            try:
                column = pa.array(series, from_pandas=True)
            except (pa.ArrowException, TypeError, OverflowError, UnicodeError):
                self._refuse_odd(name, series.tolist(), rule)
        else:
            column = self.table.column(position)
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(
            column, pa.ChunkedArray
        ):  # Arrow makes no array of no chunk, nor one beyond 2 GiB of text
            column = pa.concat_arrays(
                [c.cast(pa.large_string()) if pa.types.is_string(c.type) else c for c in column.chunks]
            )
        if pa.types.is_dictionary(column.type):
            words = _plain_text(column.dictionary)
            column = pa.DictionaryArray.from_arrays(column.indices, words).dictionary_decode()
        column = _plain_text(column)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            self._no_nulls(name, column, rule)
            return column.to_numpy(zero_copy_only=False)
        return column

    def _no_nulls(self, name: str, column: pa.Array, rule: str) -> None:
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            self.refuse(name, int(np.argmax(missing)), None, rule)

    def _refuse_odd(self, name: str, values: list[Any], rule: str) -> NoReturn:
        """Refuse the first value that is unlike the first one."""
        for row, value in enumerate(values):
            if value is None or value != value:  # NaN is unlike itself
                self.refuse(name, row, None, rule)
            wanted = (str,) if isinstance(values[0], str) else (int, np.integer)
            if isinstance(value, bool) or not isinstance(value, wanted):
                self.refuse(name, row, value, f"{rule}, all of one type")
        self.refuse(name, 0, values[0], rule)

    def _refuse_type(self, name: str, column: Any, rule: str, role: str) -> NoReturn:
        if not isinstance(column, np.ndarray):
            self._no_nulls(name, column, f"no {role} may be missing")
        first = column[0] if len(column) else None
        value = first.item() if isinstance(first, np.generic) else None if first is None else first.as_py()
        if isinstance(column, np.ndarray) and column.dtype.kind == "f":
            missing = np.flatnonzero(np.isnan(column))
            if len(missing) and (np.isnan(column) | (column == np.floor(column))).all():
                self.refuse(
                    name, int(missing[0]), None, f"no {role} may be missing (this made floats of all)"
                )
            if (column == np.floor(column)).all():
                rule += "; convert the column to integers first"
        self.refuse(name, 0, value, rule)


def _plain_text(column: pa.Array) -> pa.Array:
    """Return text as Arrow's functions take it: there are few for views."""
    import pyarrow as pa

    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _kind_of(column: Any) -> str:
    if isinstance(column, np.ndarray):
        return "floats" if column.dtype.kind == "f" else str(column.dtype)
    return str(column.type)
