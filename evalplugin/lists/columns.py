"""The request of a score, and the columns of its lists, truth and train data: named, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.libraries import pc
from evalplugin.data.decisions import DECISION
from evalplugin.data.files import TableFiles
from evalplugin.data.queries import QUERY_IDS, Unit, first_other_id
from evalplugin.data.tables import Ids, Table, check_roles, columns_problem
from evalplugin.data.vocabulary import check_kinds, unicode_notes
from evalplugin.execution.tasks import curve_ks
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.blocks import Role as Role
from evalplugin.metrics.relevance import ABOVE_0, Relevance

# ``TableFiles``, ``Table`` or a DataFrame of Spark by role; None for train data and a pool that are not given.
Sources: TypeAlias = Mapping[Role, Any]


@dataclass(frozen=True)
class ListColumns:
    """Names of columns. None: the column of the usual name (rank, score, rating), if present."""

    user: str = "user"
    item: str = "item"
    rank: str | None = None
    score: str | None = None
    rating: str | None = None
    truth_user: str | None = None  # None: the same as in the lists
    truth_item: str | None = None
    query: str | None = None  # of ids of queries, in place of ``user``

    def __post_init__(self) -> None:
        for role, name in vars(self).items():
            if not isinstance(name, str) and (name is not None or role in ("user", "item")):
                raise DataError(f"{role} must be the name of a column, as text, not {name!r}")
        if self.query is not None and self.user != type(self).user:
            raise DataError(
                f"query names the column of ids in place of user: leave out {self.query!r} (query) or {self.user!r} "
                f"(user)"
            )

    @property
    def unit(self) -> Unit:
        """What has a list: a user, or a query, whose id names the session, as of ``queries.query_ids``."""
        return "user" if self.query is None else "query"

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ListColumns:
        """Return the columns of a mapping by role, such as ``{"user": "customer", "item": "sku"}``.

        Raises:
            DataError: It is no mapping, has another key, or a value that is no name.
        """
        if not isinstance(given, Mapping):
            raise DataError(f"columns must be a mapping such as {{'user': 'customer'}}, not {given!r}")
        roles = list(cls.__dataclass_fields__)
        for role in given:
            if role not in roles:
                raise DataError(
                    f"columns: {role!r} is not a role of a column{did_you_mean(str(role), roles)}"
                )
        return cls(**given)

    def to_read(self, role: Role, name: str, columns: Sequence[str]) -> dict[str, str]:
        """Return the columns to read from a table: ``user``, ``item``, and ``rank``, ``score`` or ``rating``.

        Raises:
            DataError: Lists that have neither rank nor score, or for which both are named; one column for two roles.
        """
        user = self.user if self.query is None else self.query
        if user == type(self).user and user not in columns and DECISION in columns:
            user = DECISION
        if role == "lists":
            order, by = self._order(name, columns)
            named = {"user": user, "item": self.item, order: by}
        else:
            named = {"user": self.truth_user or user, "item": self.truth_item or self.item}
        if role in ("truth", "train"):
            # The named rating column is optional in train data.
            if self.rating is not None and (role == "truth" or self.rating in columns):
                named["rating"] = self.rating
            elif "rating" in columns:
                named["rating"] = "rating"
        check_roles(name, named)
        by_noun = {self.noun(role) if key == "user" else key: column for key, column in named.items()}
        if problem := columns_problem(by_noun, columns):
            raise DataError(f"{name}: {problem}")
        return named

    def noun(self, role: Role) -> Unit:
        """Return the noun of the users of a table; those of the train data are sessions where others are queries."""
        return "user" if role == "train" else self.unit

    def _order(self, name: str, columns: Sequence[str]) -> tuple[str, str]:
        if self.rank is not None and self.score is not None:
            raise DataError(
                f"{name}: lists are ranked by a rank or by a score: "
                f"name {self.rank!r} or {self.score!r}, not both"
            )
        if self.rank is not None:
            return "rank", self.rank
        if self.score is not None:
            return "score", self.score
        for order in ("rank", "score", "probability"):
            if order in columns:
                return "rank" if order == "rank" else "score", order
        raise DataError(
            f"{name}: no column says how lists are ordered: "
            f"there must be one called 'rank' or 'score', or one that is named as such"
        )


class PairColumns(NamedTuple):
    """Pairs of user and item as columns of a table, optionally with a rank, a score or a rating each."""

    name: str  # of the table
    user: Ids
    item: Ids
    kind: str  # of the values: rank, score, rating; none
    values: Any  # (m,) array: ranks are integers, scores floats; None if ``kind`` is none
    notes: Sequence[str]  # on ids that may stand for missing values

    @classmethod
    def read(cls, table: Table, role: Role, columns: ListColumns, *, coded: bool = False) -> PairColumns:
        """Return the columns of a table; ``coded``: ids that are categories or dictionaries keep their codes.

        Raises:
            DataError: A missing column, a value that breaks a rule.
        """
        names = columns.to_read(role, table.name, table.columns)
        user = table.ids(names["user"], columns.noun(role), coded=coded)
        if columns.noun(role) == "query":
            _refuse_other_ids(table, names["user"], user)
        item = table.ids(names["item"], "item", coded=coded)
        kind, column = list(names.items())[2] if len(names) > 2 else ("none", "")
        values: Any = None if kind == "none" else table.numbers(column, kind)
        if kind == "score" and values.dtype.kind != "f":
            values = values.astype(np.float64)
        return cls(table.name, user, item, kind, values, tuple(table.notes))

    @classmethod
    def read_all(cls, source: TableFiles | Table, role: Role, columns: ListColumns) -> PairColumns:
        """Return the columns of a table, or of files, that must have rows.

        Raises:
            DataError: A file that cannot be read, no rows, a missing column, a value that breaks a rule.
        """
        names = columns.to_read(role, source.name, source.columns)
        table = source.read(names) if isinstance(source, TableFiles) else source
        if not len(table):
            raise DataError(f"{table.name}: there are no rows")
        return cls.read(table, role, columns, coded=True)

    def rows(self, rows: npt.NDArray[np.int64]) -> PairColumns:
        """Return some of the rows."""
        user, item = (Ids(ids.kind, ids.values.take(rows)) for ids in (self.user, self.item))
        values = None if self.values is None else self.values[rows]
        return self._replace(user=user, item=item, values=values)

    def no_rows(self) -> PairColumns:
        """Return none of the rows."""
        return self.rows(np.empty(0, dtype=np.int64))


def _refuse_other_ids(table: Table, name: str, ids: Ids) -> None:
    """Refuse an id that is not one of a query."""
    if ids.kind != "text":
        if len(ids):
            table.refuse(name, 0, QUERY_IDS)
        return
    texts = ids.values if ids.codes is None else ids.values.dictionary_decode()
    wrong = first_other_id(pc.unique(texts).to_numpy(zero_copy_only=False))
    if wrong is not None:
        table.refuse(name, pc.index(texts, wrong).as_py(), QUERY_IDS)


class ListInput(NamedTuple):
    """Lists, truth and train data, checked, with raw ids."""

    lists: PairColumns
    truth: PairColumns
    train: PairColumns | None

    @classmethod
    def of(cls, lists: PairColumns, truth: PairColumns, train: PairColumns | None = None) -> ListInput:
        """Return the input, whose ids are all integers or all text.

        Raises:
            DataError: Ids that are integers in one table and text in another.
        """
        check_same_kinds(lists=lists, truth=truth, train=train)
        return cls(lists, truth, train)

    @classmethod
    def read(cls, sources: Sources, columns: ListColumns) -> ListInput:
        """Return the columns of lists, truth and train data.

        Raises:
            DataError: No rows, a missing column, a value that breaks a rule.
        """
        lists, truth = (PairColumns.read_all(sources[role], role, columns) for role in ("lists", "truth"))
        return cls.of(lists, truth, read_train(sources, columns))

    @property
    def notes(self) -> list[str]:
        """Sentences on ids that may stand for missing values, or be other ids in another form."""
        tables = [pairs for pairs in self if pairs is not None]
        return [
            *(note for pairs in tables for note in pairs.notes),
            *unicode_notes("user", *(pairs.user for pairs in tables)),
            *unicode_notes("item", *(pairs.item for pairs in tables)),
        ]


def read_train(sources: Sources, columns: ListColumns) -> PairColumns | None:
    """Return the columns of the train data, if there is any.

    Raises:
        DataError: No rows, a missing column, a value that breaks a rule.
    """
    train = sources["train"]
    return None if train is None else PairColumns.read_all(train, "train", columns)


class _WithIds(Protocol):
    @property
    def user(self) -> Ids: ...

    @property
    def item(self) -> Ids: ...


def check_same_kinds(**tables: _WithIds | None) -> None:
    """Refuse tables with integer ids beside tables with text ids; messages name them by keyword.

    Raises:
        DataError: They differ.
    """
    given = {name: table for name, table in tables.items() if table is not None}
    check_kinds("user", **{name: table.user for name, table in given.items()})
    check_kinds("item", **{name: table.item for name, table in given.items()})


@dataclass(frozen=True, eq=False)
class ScoreRequest:
    """The metrics to compute and the rules that decide their values: what all parts of the users share."""

    specs: Sequence[MetricSpec]
    relevance: Relevance = ABOVE_0
    columns: ListColumns = field(default_factory=ListColumns)
    curves: bool = False  # whether metrics are computed at the cutoffs of curves too

    def curve_ks(self, n: int) -> tuple[int, ...]:
        """Return the cutoffs of curves for lists of length ``n``; none without curves."""
        return tuple(curve_ks(n, self.specs)) if self.curves else ()
