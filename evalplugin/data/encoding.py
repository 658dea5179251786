"""A DataFrame -> ``Interactions``: every rule on what may come in stands here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.data.interactions import DuplicatePolicy, Interactions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["encode", "row_number"]

_POLICIES: tuple[DuplicatePolicy, ...] = ("error", "last", "mean", "max")
# Codes are int32, and -1 means "no item".
_MOST_CODES = 2**31 - 1


def row_number(row: int) -> str:
    """Return how a row is called in messages where nothing better is known about its place."""
    return f"row {row + 1} (counted from 1)"


def encode(
    frame: pd.DataFrame,
    *,
    user: str,
    item: str,
    rating: str | None,
    timestamp: str | None,
    duplicates: DuplicatePolicy,
    source: str,
    place: Callable[[int], str] = row_number,
) -> Interactions:
    """Return the rows of a DataFrame as interactions; see ``Interactions.from_frame``.

    ``place`` says in words where a row stands, given its position from 0.
    """
    if duplicates not in _POLICIES:
        raise DataError(f"{source}: duplicates must be one of {', '.join(_POLICIES)}, not {duplicates!r}")
    if not len(frame):
        raise DataError(f"{source}: there are no rows")
    column = _Columns(frame, source, place)
    users, user_code = column.ids(user, "user")
    items, item_code = column.ids(item, "item")
    ratings = np.ones(len(frame), dtype=np.float32) if rating is None else column.ratings(rating)
    time, notes = (None, []) if timestamp is None else column.times(timestamp)
    data = Interactions(user_code, item_code, ratings, time, users, items, notes=tuple(notes))
    return _without_duplicates(data, duplicates, source, place)


class _Columns:
    """Reads the columns of one frame, each checked on its own."""

    def __init__(self, frame: pd.DataFrame, source: str, place: Callable[[int], str]) -> None:
        self.frame, self.source, self.place = frame, source, place

    def ids(self, name: str, role: str) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.int32]]:
        """Return the sorted vocabulary of an id column, and each row's code into it."""
        import pandas as pd
        from pandas.api import types

        column = self._present(name, role)
        rule = f"{role} ids must be integers or text"
        if types.is_float_dtype(column.dtype):
            missing = np.flatnonzero(column.isna())
            values = column.dropna().to_numpy(dtype=np.float64)
            whole = bool(np.isfinite(values).all() and (values == np.floor(values)).all())
            if len(missing) and whole:
                self._refuse(
                    name, int(missing[0]), None, f"no {role} id may be missing (this made floats of all ids)"
                )
            why = "; convert the column to integers first" if whole else ""
            self._refuse(name, 0, float(column.iloc[0]), f"{rule}, not floats{why}")
        self._no_nulls(name, column, f"no {role} id may be missing")
        kind = types.infer_dtype(column, skipna=False)
        if kind == "integer":
            try:
                # In two steps: unsigned numbers beyond int64 must be refused and not wrap round.
                values = column.to_numpy()
                signed = values.astype(np.int64)
                fits = bool((signed == values).all())
            except OverflowError:
                fits = False
            if not fits:
                big = int(np.flatnonzero(np.asarray([abs(int(v)) >= 2**63 for v in column]))[0])
                self._refuse(name, big, int(column.iloc[big]), f"{role} ids must fit into 64 bits with sign")
            codes, found = pd.factorize(signed)
            order = np.argsort(found)
            vocabulary: npt.NDArray[np.generic] = found[order]
        elif kind == "string":
            codes, texts = pd.factorize(column)
            unsorted = np.empty(len(texts), dtype=object)
            unsorted[:] = [str(text) for text in texts]
            self._encodable(name, column, unsorted)
            order = np.argsort(unsorted, kind="stable")
            vocabulary = unsorted[order]
        else:
            self._refuse_type(name, column, rule)
        if len(vocabulary) > _MOST_CODES:
            raise DataError(f"{self.source}: {len(vocabulary)} different {role}s are more than {_MOST_CODES}")
        code_of = np.empty(len(order), dtype=np.int32)
        code_of[order] = np.arange(len(order), dtype=np.int32)
        return vocabulary, code_of[codes]

    def ratings(self, name: str) -> npt.NDArray[np.float32]:
        """Return a rating column as float32, all of it finite."""
        from pandas.api import types

        column = self._present(name, "rating")
        if not types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype):
            self._no_nulls(name, column, "no rating may be missing")
            if types.infer_dtype(column, skipna=False) not in ("integer", "floating", "mixed-integer-float"):
                self._refuse_type(name, column, "ratings must be numbers", (int, float, np.number))
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        with np.errstate(over="ignore"):
            ratings = values.astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(ratings))
        if len(bad):
            row = int(bad[0])
            self._refuse(
                name, row, float(values[row]), "ratings must be finite numbers (float32)", count=len(bad)
            )
        return ratings

    def times(self, name: str) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Return a time column as whole seconds, and a note where fractions were cut off."""
        from pandas.api import types

        column = self._present(name, "timestamp")
        self._no_nulls(name, column, "no timestamp may be missing")
        if types.is_datetime64_any_dtype(column.dtype):
            utc = column if getattr(column.dtype, "tz", None) is None else column.dt.tz_convert(None)
            moments = utc.to_numpy()
            whole = moments.astype("datetime64[s]")
            seconds, cut = whole.astype(np.int64), int(np.count_nonzero(whole != moments))
        elif types.is_integer_dtype(column.dtype):
            if int(column.max()) >= 2**63:
                row = int(np.argmax(column.to_numpy()))
                self._refuse(name, row, int(column.iloc[row]), "timestamps must fit into 64 bits with sign")
            seconds, cut = column.to_numpy(dtype=np.int64), 0
        elif types.is_float_dtype(column.dtype):
            values = column.to_numpy(dtype=np.float64)
            bad = np.flatnonzero(~(np.abs(values) < 2.0**63))
            if len(bad):
                row = int(bad[0])
                self._refuse(
                    name, row, float(values[row]), "timestamps must be finite and fit into 64 bits with sign"
                )
            seconds = np.floor(values).astype(np.int64)
            cut = int(np.count_nonzero(seconds != values))
        else:
            self._refuse_type(
                name,
                column,
                "timestamps must be numbers or datetimes (pandas.to_datetime makes them of text)",
                (),
            )
        notes = [f"rounded {cut} timestamps down to whole seconds (column {name!r})"] if cut else []
        return seconds, notes

    def _encodable(self, name: str, column: pd.Series[Any], texts: npt.NDArray[np.object_]) -> None:
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            for text in texts:
                if any("\ud800" <= letter <= "\udfff" for letter in text):
                    row = int(np.argmax((column == text).to_numpy()))
                    self._refuse(name, row, text, "text ids must be valid Unicode")

    def _present(self, name: str, role: str) -> pd.Series[Any]:
        columns = [str(c) for c in self.frame.columns]
        if name not in columns:
            hint = did_you_mean(name, columns, noun="columns")
            raise DataError(f"{self.source}: no {role} column {name!r}{hint}")
        if columns.count(name) > 1:
            raise DataError(f"{self.source}: {columns.count(name)} columns are called {name!r} ({role})")
        column = self.frame.iloc[:, columns.index(name)]
        categories = getattr(column.dtype, "categories", None)
        return column if categories is None else column.astype(categories.dtype)

    def _no_nulls(self, name: str, column: pd.Series[Any], rule: str) -> None:
        missing = np.flatnonzero(column.isna())
        if len(missing):
            self._refuse(name, int(missing[0]), None, rule, count=len(missing))

    def _refuse_type(
        self, name: str, column: pd.Series[Any], rule: str, allowed: tuple[type, ...] | None = None
    ) -> NoReturn:
        """Refuse the first value of a type that is not allowed; with None, the first unlike the first one."""
        if allowed is None:
            first = column.iloc[0]
            base = str if isinstance(first, str) else (int, np.integer)
            allowed = base if isinstance(base, tuple) else (base,)
            rule += ", all of one type"
        for row, value in enumerate(column):
            if not isinstance(value, allowed) or isinstance(value, (bool, np.bool_)):
                self._refuse(name, row, value, rule)
        self._refuse(name, 0, column.iloc[0], rule)

    def _refuse(self, name: str, row: int, value: object, rule: str, *, count: int = 1) -> NoReturn:
        shown = "empty" if value is None else f"{value!r} ({type(value).__name__})"
        more = f", and {count - 1} more rows" if count > 1 else ""
        raise DataError(f"{self.source}: column {name!r}, {self.place(row)} is {shown}{more}: {rule}")


def _without_duplicates(
    data: Interactions, policy: DuplicatePolicy, source: str, place: Callable[[int], str]
) -> Interactions:
    pair = data.user.astype(np.int64) * data.n_items + data.item
    ordered = np.sort(pair)
    if not (ordered[1:] == ordered[:-1]).any():
        return data
    # From here on the order of the rows matters too.
    order = np.argsort(pair, kind="stable")
    ordered = pair[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    last = order[np.r_[starts[1:], len(order)] - 1]
    surplus = len(order) - len(starts)
    if policy == "error":
        repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
        second = repeated[np.argmin(order[repeated + 1])]
        before, after = int(order[second]), int(order[second + 1])
        raise DataError(
            f"{source}: user {_raw(data.users, data.user[after])!r} meets item "
            f"{_raw(data.items, data.item[after])!r} more than once: {place(before)} and {place(after)} "
            f"({surplus} surplus rows in all); set duplicates to last, mean or max to merge such rows"
        )
    rating = data.rating.copy()
    if policy == "max":
        rating[last] = np.maximum.reduceat(data.rating[order], starts)
    elif policy == "mean":
        sums = np.add.reduceat(data.rating[order].astype(np.float64), starts)
        rating[last] = sums / np.diff(np.r_[starts, len(order)])
    keep = np.zeros(len(data), dtype=np.bool_)
    keep[last] = True
    note = f"merged {surplus} duplicate user-item pairs (policy {policy})"
    merged = Interactions(
        data.user, data.item, rating, data.timestamp, data.users, data.items, notes=(*data.notes, note)
    )
    return merged.select(keep)


def _raw(vocabulary: npt.NDArray[np.generic], code: np.int32) -> int | str:
    value = vocabulary[code]
    return value if isinstance(value, str) else int(value)
