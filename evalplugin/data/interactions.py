"""``Interactions``: pairs of user and item, encoded once at the boundary and immutable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Flags, Ints, ReadOnlyArrays, row_blocks
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pd, sparse
from evalplugin.data.attributes import Attributes
from evalplugin.data.parts import PART, folds_of
from evalplugin.data.queries import Unit
from evalplugin.data.tables import Table, check_roles, columns_problem, ids_of, is_cluster
from evalplugin.data.times import DATETIME_UNITS
from evalplugin.data.vocabulary import encode, unicode_notes

DuplicatePolicy = Literal["error", "last", "mean", "max", "keep"]
_POLICIES: tuple[DuplicatePolicy, ...] = ("error", "last", "mean", "max", "keep")
_MOST_PARTS = 100
_ROW_FIELDS = ("user", "item", "rating", "timestamp", "fraction", "part", "count", "position", "propensity")


@dataclass(frozen=True, eq=False, repr=False)
class Rows(ReadOnlyArrays):
    """Items of each user as compressed sparse rows, sorted by item code (which may repeat); read-only.

    ``indptr`` int64 (n_users + 1,); ``item`` int32 (m,); ``rating`` float32 (m,).
    """

    indptr: npt.NDArray[np.int64]
    item: npt.NDArray[np.int32]
    rating: npt.NDArray[np.float32]

    def __getitem__(self, user: int) -> Codes:
        """Return the item codes of one user, ascending."""
        return self.item[self.indptr[user] : self.indptr[user + 1]]

    @property
    def counts(self) -> Ints:
        """Number of items of each user: int64 (n_users,)."""
        return np.diff(self.indptr)


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(ReadOnlyArrays):
    """Interactions of users with items, as codes into two vocabularies of raw ids; arrays are read-only.

    A pair occurs once, unless the data ``repeats``. Train and test data of a split share both vocabularies.

    ``user``, ``item`` int32 (m,): codes into ``users`` and ``items``, sorted raw ids: int64, or text as object.
    ``rating`` float32 (m,), 1.0 throughout without ratings. ``timestamp`` int64 (m,): whole seconds since 1970 or any
    other order, or None. ``titles`` (n_items,) or None. ``item_attributes``, ``user_attributes`` of tables. ``notes``
    on reading, which are logged. ``events``: whether it is a log. ``count`` int32 (m,): events of each pair of a log
    that was merged, else None.
    """

    user: npt.NDArray[np.int32]  # (m,) codes into users
    item: npt.NDArray[np.int32]  # (m,) codes into items
    rating: npt.NDArray[np.float32]  # (m,) finite; 1.0 throughout when the data is purely implicit
    timestamp: npt.NDArray[np.int64] | None  # (m,) whole seconds since 1970 or any other order, or None
    users: npt.NDArray[np.generic]  # (n_users,) sorted raw ids: int64, or str as object
    items: npt.NDArray[np.generic]  # (n_items,) the catalogue: sorted raw ids: int64, or str as object
    titles: npt.NDArray[np.object_] | None = None  # (n_items,) a title for each item, for people to read
    item_attributes: Attributes = field(default_factory=Attributes)  # of a table of items; empty without one
    user_attributes: Attributes = field(default_factory=Attributes)  # of a table of users; empty without one
    notes: tuple[str, ...] = field(default=())  # decisions taken while reading, for people; they are logged
    # Columns of its table that a split needs, as text; no model sees them, and they are no part of the content.
    user_columns: Attributes = field(default_factory=Attributes)
    # Columns of its table that look like ratings or times, where none was named for them: (rating, stars).
    unused: tuple[tuple[Literal["rating", "timestamp"], str], ...] = ()
    part: npt.NDArray[np.int8] | None = None  # (m,) positions in ``parts``; None: the data is in one piece
    parts: tuple[str, ...] = ()  # names of the parts that the data comes in, such as train and test
    events: bool = False  # whether it is a log of events: each counts, and a pair may occur again and again
    # (m,) number of events of each pair, where a log of events was merged; None: the data was no log, or still is one.
    count: npt.NDArray[np.int32] | None = None
    # (m,) ticks after ``timestamp``; None: all times are whole seconds.
    fraction: npt.NDArray[np.int32] | None = None
    ticks_per_second: int = field(default=1, repr=False)  # the resolution of ``time``
    # Of a log of what was shown, whose users are decisions: where each row was shown, from 1, and its probability.
    position: npt.NDArray[np.int32] | None = None  # (m,)
    propensity: npt.NDArray[np.float64] | None = None  # (m,) above 0, at most 1
    marginal: bool = False  # whether propensities are those whatever is shown above, not given what is
    assumed: str | None = None  # how the propensities were assumed, in words; None: they are those of the log

    def __len__(self) -> int:
        return len(self.user)

    @property
    def n_users(self) -> int:
        """Number of users in the vocabulary."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        return len(self.items)

    @property
    def repeats(self) -> bool:
        """Whether a pair may occur again, in several events or parts."""
        return self.events or self.part is not None

    @property
    def is_log(self) -> bool:
        """Whether it is a log of what was shown, whose users are decisions and whose ratings are rewards."""
        return self.position is not None

    @property
    def time(self) -> Ints | None:
        """The exact times, in ticks: int64 (m,), or None."""
        if self.timestamp is None or self.fraction is None:
            return self.timestamp
        return self.timestamp * self.ticks_per_second + self.fraction

    @cached_property
    def rating_scale(self) -> tuple[float, float]:
        """The lowest and the highest rating."""
        return float(self.rating.min()), float(self.rating.max())

    @cached_property
    def rows(self) -> Rows:
        """The interactions by user, each user's items in ascending order of code."""
        if not self.repeats:
            matrix = self._by_pair(self.rating)
            return Rows(
                matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data
            )
        order = self.by_pair()
        ends = np.cumsum(np.bincount(self.user, minlength=self.n_users), dtype=np.int64)
        return Rows(np.r_[0, ends], self.item[order], self.rating[order])

    def forget_rows(self) -> None:
        """Free the memory of ``rows``, which are made again when they are asked for."""
        vars(self).pop("rows", None)

    def by_pair(self) -> Ints:
        """Return row numbers by user, item, rating and time, int64 (m,): the same for any order of the rows."""
        if self.repeats:
            time = () if (times := self.time) is None else (times,)
            return np.lexsort((*time, self.rating, self.item, self.user))
        order: Ints = self._by_pair(np.arange(len(self))).data
        return order

    def _by_pair(self, values: npt.NDArray[Any]) -> Any:
        """Return values of the pairs, each of which occurs once, as a sparse matrix of users and items, in order."""
        # Building it is a counting sort: several times faster than sorting by user and item.
        shape = (self.n_users, self.n_items)
        matrix = sparse.coo_array((values, (self.user, self.item)), shape=shape).tocsr()
        matrix.sort_indices()
        return matrix

    def pairs(self) -> Ints:
        """Return user and item of every interaction as one number, user * n_items + item, ascending: int64 (m,)."""
        user = np.repeat(np.arange(self.n_users, dtype=np.int64), self.rows.counts)
        return user * self.n_items + self.rows.item

    @cached_property
    def item_counts(self) -> Ints:
        """Interactions of each item, its popularity: int64 (n_items,)."""
        return np.bincount(self.item, minlength=self.n_items)

    @cached_property
    def active_users(self) -> Codes:
        """The users with interactions, ascending: int32 codes."""
        return np.flatnonzero(np.bincount(self.user, minlength=self.n_users)).astype(np.int32)

    @property
    def from_events(self) -> bool:
        """Whether it is a log of events, or pairs that were made of one."""
        return self.events or self.count is not None

    @property
    def n_events(self) -> int:
        """Number of events: of interactions, unless a log of events was merged."""
        return len(self) if self.count is None else int(self.count.sum())

    @cached_property
    def item_events(self) -> Ints:
        """Events of each item: int64 (n_items,)."""
        return self._events_of(self.item, self.n_items)

    @cached_property
    def user_events(self) -> Ints:
        """Events of each user: int64 (n_users,)."""
        return self._events_of(self.user, self.n_users)

    def _events_of(self, codes: Codes, n: int) -> Ints:
        return np.bincount(codes, weights=self.count, minlength=n).astype(np.int64, copy=False)

    @cached_property
    def digest(self) -> str:
        """A hash of the content and its order."""
        content = hashlib.sha256()
        for name in ("user", "item", "rating", "timestamp", "users", "items"):
            _add(content, name, getattr(self, name))
        for name, attributes in (("items", self.item_attributes), ("users", self.user_attributes)):
            if attributes:
                content.update(f"{name} {attributes.digest}".encode())
        if self.part is not None:
            content.update(f"parts {json.dumps(self.parts)}".encode())
            content.update(np.ascontiguousarray(self.part).data)
        if self.fraction is not None:
            content.update(f"fraction {self.ticks_per_second}".encode())
            content.update(np.ascontiguousarray(self.fraction).data)
        if self.events:
            content.update(b"events")
        for name, array in (
            ("count", self.count),
            ("position", self.position),
            ("propensity", self.propensity),
        ):
            if array is not None:
                content.update(name.encode() + np.ascontiguousarray(array).data)
        return content.hexdigest()[:32]

    @cached_property
    def pairs_digest(self) -> str:
        """A hash of the pairs of user and item by raw id, which names random streams: 32 hexadecimal digits.

        Neither the order of rows counts nor ratings, times, attributes, titles and ids without interactions, so that
        none of them changes what is drawn.
        """
        content, counts = hashlib.sha256(), self.rows.counts
        item, items = _renumbered(self.rows.item, self.n_items)
        _add(content, "users", self.users[counts > 0])
        _add(content, "items", self.items[items])
        _add(content, "counts", counts[counts > 0])
        _add(content, "item", item)
        return content.hexdigest()[:32]

    def select(self, mask: npt.NDArray[np.bool_ | np.integer[Any]]) -> Interactions:
        """Return the interactions of a ``mask`` (m,) or of row numbers, on the same vocabularies."""
        rows: dict[str, Any] = {
            name: None if (array := getattr(self, name)) is None else array[mask] for name in _ROW_FIELDS
        }
        return replace(self, **rows)

    def restrict(self, mask: Flags) -> Interactions:
        """Return the interactions of a ``mask`` (m,), on vocabularies of their users and items alone."""
        user, users = _renumbered(self.user[mask], self.n_users)
        item, items = _renumbered(self.item[mask], self.n_items)
        return replace(
            self.select(mask),
            user=user,
            item=item,
            users=self.users[users],
            items=self.items[items],
            titles=None if self.titles is None else self.titles[items],
            item_attributes=self.item_attributes.select(items),
            user_attributes=self.user_attributes.select(users),
            user_columns=self.user_columns.select(users),
        )

    def in_order(self) -> Interactions:
        """Return the interactions with each user's in order of time, at the places that this user's rows have."""
        if self.timestamp is None:
            return self
        order = np.empty(len(self), dtype=np.int64)
        order[rows_by_code(self.user, self.n_users)[1]] = rows_by_time(self)[1]
        return self.select(order)

    def merged(self, *, first: bool = False) -> Interactions:
        """Return each pair once, in one piece.

        Ratings of a pair's events are added up; without ratings, that is their number. The time is that of the latest
        event, or of the ``first``. Of a pair in several parts, the last row stays.
        """
        if not self.repeats:
            return self
        whole = replace(self, part=None, parts=(), events=False)
        if not self.events:
            groups = _Groups.of(whole)
            return whole if groups is None else groups.merged(whole, "last")
        if (time := self.time) is not None:
            order = np.argsort(-time if first else time, kind="stable")
            whole = whole.select(order)
        whole = replace(whole, count=np.ones(len(self), dtype=np.int32))
        groups = _Groups.of(whole)
        return whole if groups is None else groups.merged(whole, "sum")

    def on_catalogue(self, ids: npt.NDArray[np.generic]) -> Interactions:
        """Return the interactions on a catalogue of their items and more, with a note on those without interactions.

        ``ids``: of the same type as those of the items.
        """
        items = np.union1d(self.items, ids)
        if len(items) == self.n_items:
            return self
        code = np.searchsorted(items, self.items).astype(np.int32)
        note = f"{len(items) - self.n_items:,} of {len(items):,} items of the catalogue have no interactions"
        return replace(self, item=code[self.item], items=items).noting(note)

    def noting(self, *notes: str) -> Interactions:
        """Return the same interactions with more notes."""
        return replace(self, notes=(*self.notes, *notes)) if notes else self

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return columns with raw ids: user, item, rating and, if known, timestamp.

        Timestamps are int64 seconds, or with fractions datetimes (UTC) in ms, us or ns.
        """
        columns = {"user": self.users[self.user], "item": self.items[self.item], "rating": self.rating}
        if (time := self.time) is not None:
            unit = DATETIME_UNITS[self.ticks_per_second]
            columns["timestamp"] = time if self.fraction is None else time.astype(f"datetime64[{unit}]")
        return columns

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with the columns of ``columns``."""
        return pd.DataFrame(self.columns())

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        user: str = "user",
        item: str = "item",
        rating: str | None = None,
        timestamp: str | None = None,
        duplicates: DuplicatePolicy = "error",
        source: str = "data",
    ) -> Interactions:
        """Return the rows of a DataFrame as interactions, checked.

        Args:
            frame: One row an interaction; ids are integers or text.
            user: Name of the column of user ids.
            item: Name of the column of item ids.
            rating: Name of the rating column; None: every rating is 1.0.
            timestamp: Name of the time column: numbers, or datetimes, which become seconds since 1970 (UTC if they
                have no time zone) and keep fractions; None: no time.
            duplicates: A repeated pair: refuse it, take the ``last`` row, or the ``mean`` or ``max`` rating (at the
                last time), or ``keep`` all, as events.
            source: Name of the data in messages.

        Raises:
            DataError: No rows, a missing column, a null id, ids of mixed types, a rating that is not finite, a
                duplicate pair.
        """
        roles = {"user": user, "item": item, "rating": rating, "timestamp": timestamp}
        named = {role: name for role, name in roles.items() if name is not None}
        return interactions_from(Table(frame, source), named, duplicates)


def interactions_from(
    table: Table, columns: Mapping[str, str], duplicates: DuplicatePolicy, *, unit: Unit = "user"
) -> Interactions:
    """Return the rows of a table as interactions, given its columns by role; see ``Interactions.from_frame``.

    Columns with the role ``cluster`` become ``user_columns``. Messages name the column of users for its ``unit``.
    """
    if duplicates not in _POLICIES:
        raise DataError(f"{table.name}: duplicates must be one of {', '.join(_POLICIES)}, not {duplicates!r}")
    if not len(table):
        raise DataError(f"{table.name}: there are no rows")
    check_roles(table.name, columns)
    if problem := columns_problem(columns, table.columns):
        raise DataError(f"{table.name}: {problem}")
    rating, timestamp = columns.get("rating"), columns.get("timestamp")
    users, (user_code,) = encode([table.ids(columns["user"], unit)])
    items, (item_code,) = encode([table.ids(columns["item"], "item")])
    ratings = np.ones(len(table)) if rating is None else table.numbers(rating, "rating")
    seconds = None if timestamp is None else table.seconds(timestamp)
    part, parts = (None, ()) if "part" not in columns else _parts(table, columns["part"])
    data = Interactions(
        user=user_code.astype(np.int32, copy=False),
        item=item_code.astype(np.int32, copy=False),
        rating=ratings.astype(np.float32),
        timestamp=None if seconds is None else seconds.whole,
        fraction=None if seconds is None else seconds.fraction,
        ticks_per_second=1 if seconds is None else seconds.ticks,
        users=users,
        items=items,
        part=part,
        parts=parts,
        events=duplicates == "keep",
        user_columns=Attributes(
            {
                name: _of_users(table, name, columns["user"], user_code, users)
                for role, name in columns.items()
                if is_cluster(role)
            }
        ),
    )
    data = data.noting(
        *table.notes, *unicode_notes(unit, ids_of(users)), *unicode_notes("item", ids_of(items))
    )
    if seconds is not None and seconds.rounded:
        unit = DATETIME_UNITS[seconds.ticks]
        data = data.noting(f"rounded {seconds.rounded} timestamps to 1 {unit} (column {timestamp!r})")
    return data if duplicates == "keep" else _without_duplicates(data, duplicates, table)


def _of_users(
    table: Table, column: str, of: str, user: npt.NDArray[np.integer[Any]], users: npt.NDArray[np.generic]
) -> npt.NDArray[Any]:
    """Return each user's value in a column as text: object (n_users,).

    Args:
        table: The rows of interactions.
        column: The column.
        of: The column of users.
        user: Code of each row's user (m,).
        users: Raw ids (n_users,), each of which has a row.

    Raises:
        DataError: A missing value, or rows of a user that differ.
    """
    values, (code,) = encode([table.ids(column, "cluster")])
    first = np.empty(len(users), dtype=np.int64)
    first[user[::-1]] = np.arange(len(user) - 1, -1, -1)  # of several rows, the last one written stays
    differs = np.flatnonzero(code != code[first[user]])
    if len(differs):
        row = int(differs[0])
        before = int(first[user[row]])
        name, (first_value, other) = users[user[[row]]].tolist()[0], values[code[[before, row]]].tolist()
        count = len(np.unique(user[differs]))
        more = f" (and for {count - 1:,} more)" if count > 1 else ""
        raise DataError(
            f"{table.name}: column {column!r} has two values for {of} {name!r}, {first_value!r} in "
            f"{table.row_name(before)} and {other!r} in {table.row_name(row)}{more}: a cluster has "
            f"all rows of a session"
        )
    texts: npt.NDArray[Any] = values.astype(str).astype(object)[code[first]]
    return texts


def _parts(table: Table, column: str) -> tuple[npt.NDArray[np.int8], tuple[str, ...]]:
    """Return the part of each row, and the names of the parts."""
    names, (code,) = encode([table.ids(column, "part")])
    if len(names) > _MOST_PARTS:
        raise DataError(
            f"{table.name}: {len(names):,} parts, such as {names[0]!r}, in column {column!r}: parts and folds are at "
            f"most {_MOST_PARTS}"
        )
    parts = tuple(map(str, names.tolist()))
    try:
        folds_of(parts)
    except DataError as error:
        place = "" if column == PART else f"column {column!r}: "
        raise DataError(f"{table.name}: {place}{error}") from None
    return code.astype(np.int8), parts


@dataclass(frozen=True, eq=False)
class _Groups:
    """The rows of the same pair (in the same part), where there are any such rows."""

    order: Ints  # (m,) row numbers, those of a pair together, in their order
    start: Ints  # (groups,) where each pair starts

    @classmethod
    def of(cls, data: Interactions) -> _Groups | None:
        """Return the groups of the rows; None if each is a pair of its own."""
        if data.part is None and len(data.rows.item) == len(data):  # a sparse matrix has each pair once
            return None
        # The cheap check found duplicates; from here on the order of the rows matters too.
        pair = data.user.astype(np.int64) * len(data.items) + data.item
        if data.part is not None:
            pair = pair * len(data.parts) + data.part
        order = np.argsort(pair, kind="stable")
        ordered = pair[order]
        start = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        return cls(order, start) if len(start) < len(order) else None

    @property
    def surplus(self) -> int:
        """The number of rows beyond the first of each pair."""
        return len(self.order) - len(self.start)

    def first_repetition(self) -> tuple[int, int]:
        """Return the rows of the repetition that comes first."""
        again = np.ones(len(self.order), dtype=np.bool_)
        again[self.start] = False
        place = np.flatnonzero(again)
        place = place[np.argmin(self.order[place])]
        return int(self.order[place - 1]), int(self.order[place])

    def merged(self, data: Interactions, policy: Literal["last", "mean", "max", "sum"]) -> Interactions:
        """Return one row a pair: the last, with the rating that the policy makes of all."""
        end = np.r_[self.start[1:], len(self.order)]
        last, rating = self.order[end - 1], data.rating.copy()
        if policy == "max":
            rating[last] = np.maximum.reduceat(data.rating[self.order], self.start)
        elif policy != "last":
            sums = np.add.reduceat(data.rating[self.order].astype(np.float64), self.start)
            rating[last] = sums / (end - self.start) if policy == "mean" else sums
        counted = data
        if data.count is not None:
            count = data.count.copy()
            count[last] = np.add.reduceat(data.count[self.order], self.start)
            counted = replace(data, count=count)
        return replace(counted, rating=rating).select(np.sort(last))


def _without_duplicates(
    data: Interactions, policy: Literal["error", "last", "mean", "max"], table: Table
) -> Interactions:
    groups = _Groups.of(data)
    if groups is None:
        return data
    if policy == "error":
        before, after = groups.first_repetition()
        user, item = data.users[data.user[[after]]], data.items[data.item[[after]]]
        raise DataError(
            f"{table.name}: user {user.tolist()[0]!r} meets item {item.tolist()[0]!r} more than once: "
            f"{table.row_name(before)} and {table.row_name(after)} "
            f"({groups.surplus} surplus rows in all); set duplicates to last, mean or max to merge such rows, or to "
            f"keep if each is an event of its own"
        )
    merged = groups.merged(data, policy)
    return merged.noting(f"merged {groups.surplus} duplicate user-item pairs (policy {policy})")


def joined(first: Interactions, second: Interactions) -> Interactions:
    """Return the interactions of both, which are on the same vocabularies and share no pair."""
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in _ROW_FIELDS}
    rows: dict[str, Any] = {
        name: None if any(array is None for array in both) else np.concatenate(both)
        for name, both in pairs.items()
    }
    return replace(first, **rows)


def _add(content: hashlib._Hash, name: str, array: npt.NDArray[np.generic] | None) -> None:
    """Add an array with its name to a hash."""
    content.update(name.encode())
    if array is None:
        return
    if array.dtype == object:
        content.update(json.dumps(array.tolist()).encode())
    else:
        content.update(str(array.dtype).encode())
        content.update(np.ascontiguousarray(array).data)


def _renumbered(codes: Codes, n: int) -> tuple[Codes, Flags]:
    """Return codes without gaps (m,), and which of the ``n`` codes occur: bool (n,)."""
    occurs = np.bincount(codes, minlength=n) > 0
    return (np.cumsum(occurs, dtype=np.int32) - 1).astype(np.int32)[codes], occurs


def rows_by_code(codes: Codes, n: int) -> tuple[Ints, npt.NDArray[np.integer[Any]]]:
    """Return where each of ``n`` codes starts, int64 (n + 1,), in the row numbers (m,) by code, which follow."""
    # Building a sparse matrix is a counting sort.
    row: Any = np.arange(len(codes), dtype=np.int32 if len(codes) < 2**31 else np.int64)
    matrix = sparse.coo_array(
        (np.ones(len(codes), dtype=np.bool_), (codes, row)), shape=(n, len(codes))
    ).tocsr()
    return matrix.indptr.astype(np.int64), matrix.indices


def rows_by_time(
    data: Interactions,
    tied: Callable[[npt.NDArray[np.integer[Any]]], tuple[npt.NDArray[Any], ...]] | None = None,
) -> tuple[Ints, npt.NDArray[np.integer[Any]]]:
    """Return where each user starts, int64 (n_users + 1,), in the row numbers (m,) by user and time, which follow.

    Args:
        data: With times; without, each user's rows are in their order.
        tied: Returns keys, the last one first, of rows whose users and times are equal; None: they are in their order.
    """
    start, rows = rows_by_code(data.user, data.n_users)
    if (times := data.time) is None:
        return start, rows
    for low, high in (start[[*users]] for users in row_blocks(start)):
        of_block = rows[low:high]
        user, time = data.user[of_block].astype(np.int64), times[of_block]
        user -= user[0]
        earliest = int(time.min())
        span = int(time.max()) - earliest + 1
        if span * (int(user[-1]) + 1) < 2**63:
            key = user * span + (time - earliest)
        else:  # their places in order take fewer bits
            key = user * len(time) + np.unique(time, return_inverse=True)[1]
        order = np.argsort(key, kind="stable")
        of_block, key = of_block[order], key[order]
        again = key[1:] == key[:-1]
        if tied is not None and again.any():
            equal = np.flatnonzero(np.r_[False, again] | np.r_[again, False])
            among = of_block[equal]
            of_block[equal] = among[np.lexsort((*tied(among), key[equal]))]
        rows[low:high] = of_block
    return start, rows
