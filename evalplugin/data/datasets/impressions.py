"""The dataset ``impressions``: a log of what was shown, where, with which probability, and what it earned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats, Ints
from evalplugin.base.errors import DataError, Problem
from evalplugin.base.units import count_text
from evalplugin.data.attributes import Attributes, Separator
from evalplugin.data.base import DATASETS, DatasetLoader, LoadContext, dataset
from evalplugin.data.datasets.sql import Sql
from evalplugin.data.datasets.tables import ColumnOptions, DataFrame, FileDataset, ItemTable, PartPaths
from evalplugin.data.formats import CsvFormat, FileFormat, format_by_name
from evalplugin.data.interactions import Interactions, parts_of
from evalplugin.data.tables import Table, ids_of
from evalplugin.data.vocabulary import encode, unicode_notes
from evalplugin.files.remote import File

_LARGEST = 2**31 - 1  # a position


@dataclass(frozen=True)
class AssumedPropensity:
    """A rule that propensities are assumed to follow, where the log has none."""

    estimate: Annotated[
        Literal["item-position"],
        Field(description="the share of an item among all shown at a position, each counted once more"),
    ]


@dataset("impressions")
@dataclass(frozen=True, eq=False, kw_only=True)
class Impressions(DatasetLoader):
    """A log of decisions: what was shown to whom, where and with which probability, and what it earned.

    A row is an item that a decision has shown. Decisions are the units that have a list and a score, and those of a
    user depend on each other. Models learn from the rows with a reward of the decisions that the split gives them;
    splits take all rows of a decision together. Rows come from files (CSV, Parquet or JSON lines, by the ending of the
    path), from a database (``url`` and ``query``), or in Python from a table (``frame``).
    """

    is_log: ClassVar[bool] = True
    duplicates = "keep"  # users meet items again

    path: Annotated[
        str | PartPaths | None,
        Field(
            description="a file, a pattern such as log/*.parquet, a folder of Parquet files, or a URI; or for `split: "
            "given` one for each part: {train, test}"
        ),
    ] = None
    decision: Annotated[str, Field(description="name of the column of ids of decisions")] = "decision"
    item: Annotated[str, Field(description="name of the column of ids of what was shown")] = "item"
    reward: Annotated[
        str, Field(description="name of the column of what a row earned: a finite number, true or false")
    ] = "reward"
    propensity: Annotated[
        str | AssumedPropensity,
        Field(
            description="name of the column of probabilities with which rows were shown; or an assumption: "
            "{estimate: item-position}, the share of an item among all shown at a position, which is marginal"
        ),
    ] = "propensity"
    propensities: Annotated[
        Literal["conditional", "marginal"],
        Field(
            description="what propensities at later positions are: of the item given those above (conditional), or "
            "whatever is above (marginal). Beyond @1 the estimator iips needs marginal ones; ips, clipped, snips, "
            "rips, dr and sndr need conditional ones"
        ),
    ] = "conditional"
    position: Annotated[
        str | None,
        Field(description="name of the column of positions, from 1; null: each decision has shown one item"),
    ] = None
    user: Annotated[
        str | None,
        Field(description="name of the column of users or sessions; null: decisions are independent"),
    ] = None
    timestamp: Annotated[str | None, Field(description="name of the column of times of decisions")] = None
    part: Annotated[
        str | None,
        Field(description="name of the column of the part or the fold of each decision, for `split: given`"),
    ] = None
    items: Annotated[
        ItemTable | None,
        Field(
            description="a table of items, with titles and attributes: {path, item, title, columns, separator}"
        ),
    ] = None
    separator: Separator = ","
    ids: Annotated[
        Literal["auto", "text"], Field(description="what ids in CSV files are read as; see the dataset csv")
    ] = "auto"
    url: Annotated[str | None, Field(description="of a database; see the dataset sql")] = None
    query: Annotated[str | None, Field(description="a SELECT that returns the columns named here")] = None
    frame: InitVar[Any] = None  # as of the dataset dataframe

    def __post_init__(self, frame: Any) -> None:
        sources = (self.path is not None, self.url is not None or self.query is not None, frame is not None)
        if sum(sources) != 1 or (self.url is None) != (self.query is None):
            raise ValueError("impressions takes one source: path, or url and query; in Python also frame")
        object.__setattr__(self, "_reader", self._reader_of(frame))

    def _reader_of(self, frame: Any) -> ColumnOptions:
        """Return the reader of the files, the database or the table."""
        options: dict[str, Any] = {name: getattr(self, name) for name in ("timestamp", "part", "items")}
        options["rating"] = self.reward
        reader: _OfLog
        if self.path is not None:
            reader = _FilesOfLog(path=self.path, **options)
        elif frame is not None:
            reader = _FrameOfLog(frame=frame, **options)
        else:
            reader = _SqlOfLog(url=self.url or "", query=self.query or "", **options)
        reader.log = self
        return reader

    @property
    def new_users(self) -> bool:
        """Whether users are known, whose rows in the train data are the history of their later decisions."""
        return self.user is not None

    @property
    def roles(self) -> dict[str, str]:
        """The columns by role."""
        names = ("decision", "item", "reward", "propensity", "position", "user", "timestamp", "part")
        roles = {name: getattr(self, name) for name in names}
        return {role: name for role, name in roles.items() if isinstance(name, str)}

    def check(self, context: LoadContext) -> list[Problem]:
        """Return the problems of the source and of the table of items."""
        return self._reader.check(context)  # type: ignore[attr-defined,no-any-return]

    def load(self, context: LoadContext) -> Interactions:
        """Return the rows, whose users are decisions, whose ratings are rewards, with positions and propensities.

        Raises:
            DataError: A file or a column is missing, or a row breaks a rule: the message names it.
        """
        data: Interactions = self._reader.load(context)  # type: ignore[attr-defined]
        return data


def impressions(
    log: Any,
    *,
    decision: str = "decision",
    item: str = "item",
    reward: str = "reward",
    propensity: str | Mapping[str, Any] = "propensity",
    position: str | None = None,
    user: str | None = None,
    **options: Any,
) -> Impressions:
    """Return a log of decisions, as the truth or the train data of ``evalplugin.score``; its rows are read there.

    Args:
        log: A table of pandas, polars or Arrow with a row for each item that a decision has shown; or a path or URI.
        decision, item: Columns of ids.
        reward: Column of what a row has earned: a finite number, true or false.
        propensity: Column of the probabilities with which rows were shown, or the assumption ``{"estimate":
            "item-position"}``.
        position: Column of positions, from 1; None: each decision has shown one item.
        user: Column of users or sessions, whose decisions depend on each other; None: decisions are independent.
        options: Other parameters of the dataset ``impressions``, such as ``propensities="marginal"``.

    Raises:
        ParameterError: Unknown options, or values that are not allowed.
    """
    source = {"path": str(log)} if isinstance(log, str | Path) else {"frame": log}
    named = {"decision": decision, "item": item, "reward": reward, "position": position, "user": user}
    loader = DATASETS.create("impressions", {**source, **named, "propensity": propensity, **options})
    assert isinstance(loader, Impressions)
    return loader


class _OfLog(ColumnOptions):
    """A reader of tables whose rows are those of a log."""

    log: Impressions

    @property
    def roles(self) -> dict[str, str]:
        """The columns by role."""
        return self.log.roles

    def rows(self, table: Table, roles: Mapping[str, str]) -> Interactions:
        """Return the rows of a table as a log."""
        return _rows_of(table, roles, self.log)


class _FilesOfLog(FileDataset, _OfLog):
    _inside = "*.parquet"

    def _format(self, first: File) -> FileFormat:
        text = ("decision", "user", "item") if self.log.ids == "text" else ()
        return format_by_name(first, CsvFormat(self.log.separator, text=text))


class _FrameOfLog(DataFrame, _OfLog): ...


class _SqlOfLog(Sql, _OfLog): ...


def _rows_of(table: Table, roles: Mapping[str, str], log: Impressions) -> Interactions:
    """Return the rows of a log, checked."""
    if not len(table):
        raise DataError(f"{table.name}: there are no rows")
    decisions, (decision,) = encode([table.ids(roles["decision"], "decision")])
    items, (item,) = encode([table.ids(roles["item"], "item")])
    part, parts = (None, ()) if "part" not in roles else parts_of(table, roles["part"])
    seconds = None if "timestamp" not in roles else table.seconds(roles["timestamp"])
    rows = _Rows(table, roles, decision.astype(np.int32), decisions)
    position = rows.positions()
    rows.check_distinct(item, items)
    data = Interactions(
        user=rows.decision,
        item=item.astype(np.int32),
        rating=rows.rewards().astype(np.float32),
        timestamp=None if seconds is None else seconds.whole,
        fraction=None if seconds is None else seconds.fraction,
        ticks_per_second=1 if seconds is None else seconds.ticks,
        users=decisions,
        items=items,
        part=part,
        parts=parts,
        position=position,
        marginal=log.propensities == "marginal" or not isinstance(log.propensity, str),
        user_columns=rows.users(),
    )
    if (time := data.time) is not None:
        rows.check_one("timestamp", time)
    if part is not None:
        rows.check_one("part", part)
    notes = [
        *table.notes,
        *unicode_notes("decision", ids_of(decisions)),
        *unicode_notes("item", ids_of(items)),
    ]
    if isinstance(log.propensity, str):
        logged = rows.propensities()
        return replace(data, propensity=logged).noting(*notes, *_notes(logged, data.n_items))
    values, assumed = _item_shares(data)
    return replace(data, propensity=values, assumed=assumed).noting(
        *notes, f"assumed propensities: {assumed}"
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a table by decision, and the checks of their columns."""

    table: Table
    roles: Mapping[str, str]
    decision: Codes  # (m,)
    decisions: npt.NDArray[np.generic]  # raw ids

    def rewards(self) -> Floats:
        """Return the rewards: float64 (m,), finite as float32, not all 0."""
        name = self.roles["reward"]
        rewards = self.table.scores(name, "reward")
        with np.errstate(over="ignore"):
            beyond = np.flatnonzero(~np.isfinite(rewards.astype(np.float32)))
        if len(beyond):
            row, missing = int(beyond[0]), bool(np.isnan(rewards[beyond[0]]))
            rule = "no reward may be missing" if missing else "rewards must be finite numbers (float32)"
            self.table.refuse(name, row, rule, count=len(beyond), missing=missing)
        if not rewards.any():
            raise DataError(
                f"{self.table.name}: no row has a reward: all {len(rewards):,} of column {name!r} are 0, so that every "
                f"policy is worth 0; is it the column of what rows have earned?"
            )
        return rewards

    def propensities(self) -> Floats:
        """Return the propensities: float64 (m,), above 0 and at most 1."""
        name = self.roles["propensity"]
        values: Floats = self.table.numbers(name, "propensity").astype(np.float64)
        if len(wrong := np.flatnonzero(~((values > 0) & (values <= 1)))):
            rule = "the probability with which a row was shown is above 0 and at most 1"
            self.table.refuse(name, int(wrong[0]), rule, count=len(wrong))
        return values

    def positions(self) -> Codes:
        """Return the positions: int32 (m,), from 1; without a column each decision must have one row."""
        if (name := self.roles.get("position")) is None:
            if (twice := _first_repeated(self.decision.astype(np.int64))) is not None:
                raise DataError(
                    f"{self._of(twice[1])} has several rows, {self._rows(*twice)}, and the dataset names no position: "
                    f"name the column of positions by position, or give each decision an id of its own"
                )
            return np.ones(len(self.decision), dtype=np.int32)
        values = self.table.numbers(name, "position")
        if len(wrong := np.flatnonzero((values < 1) | (values > _LARGEST))):
            rule = f"positions are whole numbers from 1 (the first) to {_LARGEST}"
            self.table.refuse(name, int(wrong[0]), rule, count=len(wrong))
        positions: Codes = values.astype(np.int32)
        key = self.decision.astype(np.int64) * (int(positions.max()) + 1) + positions
        if (twice := _first_repeated(key)) is not None:
            raise DataError(
                f"{self._of(twice[1])} has two items at position {positions[twice[1]]}: {self._rows(*twice)}; a "
                f"position of a decision shows one item"
            )
        return positions

    def check_distinct(self, item: npt.NDArray[np.integer[Any]], items: npt.NDArray[np.generic]) -> None:
        """Refuse an item that a decision has shown twice."""
        twice = _first_repeated(self.decision.astype(np.int64) * len(items) + item)
        if twice is not None:
            shown = items[item[[twice[1]]]].tolist()[0]
            raise DataError(
                f"{self._of(twice[1])} shows item {shown!r} twice: {self._rows(*twice)}; a decision shows an item once"
            )

    def users(self) -> Attributes:
        """Return the user of each decision, as text."""
        if (name := self.roles.get("user")) is None:
            return Attributes()
        users, (user,) = encode([self.table.ids(name, "user")])
        self.check_one("user", user)
        first = np.empty(len(self.decisions), dtype=np.int64)
        first[self.decision] = user
        return Attributes({"user": users.astype(str).astype(object)[first]})

    def check_one(self, role: str, values: npt.NDArray[Any]) -> None:
        """Refuse a decision whose rows have several values (m,)."""
        first = np.empty(len(self.decisions), dtype=np.int64)
        # Of several rows, the last one written stays.
        first[self.decision[::-1]] = np.arange(len(values) - 1, -1, -1)
        differs = np.flatnonzero(values != values[first[self.decision]])
        if len(differs):
            row = int(differs[0])
            others = len(np.unique(self.decision[differs])) - 1
            more = f" (and {count_text(others, 'decision')} more)" if others else ""
            raise DataError(
                f"{self._of(row)} has two {role}s{more}: {self._rows(int(first[self.decision[row]]), row)} differ in "
                f"column {self.roles[role]!r}; all rows of a decision have one {role}"
            )

    def _of(self, row: int) -> str:
        return f"{self.table.name}: decision {self.decisions[self.decision[[row]]].tolist()[0]!r}"

    def _rows(self, first: int, second: int) -> str:
        return f"{self.table.row_name(first)} and {self.table.row_name(second)}"


def _first_repeated(keys: Ints) -> tuple[int, int] | None:
    """Return the first row whose key is that of an earlier row, behind that row; None: all keys differ."""
    ordered = np.sort(keys)  # several times faster than the order
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(np.diff(keys[order]) == 0)
    place = again[np.argmin(order[again + 1])]
    return int(order[place]), int(order[place + 1])


def _notes(propensity: Floats, n_items: int) -> Iterator[str]:
    """Yield a sentence on propensities that are all the same."""
    constant = float(propensity[0])
    if (propensity != constant).any():
        return
    if constant == 1:
        yield (
            "all propensities are 1: what was shown was certain, as of a greedy logging policy; only overlap can be "
            "valued, where a model shows what the log shows"
        )
    elif abs(constant * n_items - 1) > 1e-3:
        yield (
            f"all propensities are {constant:g}, as of a random choice among {1 / constant:,.6g} items, and the log "
            f"shows {n_items:,}: see that they are the probabilities with which rows were shown"
        )


def _item_shares(data: Interactions) -> tuple[Floats, str]:
    """Return propensities that are assumed: float64 (m,), and the assumption in words."""
    assert data.position is not None
    places, place = np.unique(data.position, return_inverse=True)
    _, row = np.unique(place * data.n_items + data.item, return_inverse=True)
    shown, of_place = np.bincount(row), np.bincount(place)
    # Laplace's rule: each item counts once more at each position.
    values = (shown[row] + 1) / (of_place[place] + data.n_items)
    return values, f"the share of an item among all shown at a position ({len(places):,} positions), smoothed"
