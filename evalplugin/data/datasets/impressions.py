"""The dataset ``impressions``: a log of what was shown, where, with which probability, and what it earned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NoReturn

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Codes, Ints
from evalplugin.base.errors import DataError, Problem
from evalplugin.base.libraries import pd
from evalplugin.data.attributes import Attributes, Separator
from evalplugin.data.base import DATASETS, DatasetLoader, LoadContext, dataset
from evalplugin.data.datasets.sql import Sql
from evalplugin.data.datasets.tables import ColumnOptions, DataFrame, FileDataset, ItemTable, PartPaths
from evalplugin.data.files import FoundFiles
from evalplugin.data.formats import CsvFormat, FileFormat, format_by_name
from evalplugin.data.interactions import Interactions, interactions_from
from evalplugin.data.tables import Table
from evalplugin.data.vocabulary import encode
from evalplugin.files.remote import File

_LARGEST = 2**31 - 1  # a position
_SMALLEST = 5e-324  # a propensity


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
        object.__setattr__(self, "_reader", reader)

    @property
    def new_users(self) -> bool:
        """Whether users are known, whose rows in the train data are the history of their later decisions."""
        return self.user is not None

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


def impressions(log: Any = None, **options: Any) -> Impressions:
    """Return a log of decisions, as the truth or the train data of ``evalplugin.score``; its rows are read there.

    Args:
        log: A table of pandas, polars or Arrow with a row for each item that a decision has shown; or a path or URI;
            None: the options name a database.
        options: Parameters of the dataset ``impressions``: the names of the columns ``decision``, ``item``, ``reward``,
            ``propensity``, and of ``position`` and ``user`` where there are any; ``propensities="marginal"``; and so
            on.

    Raises:
        ParameterError: Unknown options, or values that are not allowed.
    """
    source = {} if log is None else {"path": str(log)} if isinstance(log, str | Path) else {"frame": log}
    loader = DATASETS.create("impressions", {**source, **options})
    assert isinstance(loader, Impressions)
    return loader


class _OfLog(ColumnOptions):
    """A reader of tables whose rows are those of a log."""

    log: Impressions

    @property
    def roles(self) -> dict[str, str]:
        """The columns by role, with the part of each file where there is a path for each part."""
        names = ("decision", "item", "reward", "propensity", "position", "user", "timestamp")
        roles = {name: getattr(self.log, name) for name in names} | {"part": super().roles.get("part")}
        return {role: name for role, name in roles.items() if isinstance(name, str)}

    def rows(self, table: Table, roles: Mapping[str, str]) -> Interactions:
        """Return the rows of a table as a log."""
        return _LogTable(table, roles, self.log).rows()


class _FilesOfLog(_OfLog, FileDataset):
    _inside = "*.parquet"
    first: File

    def _find(self, context: LoadContext) -> FoundFiles:
        found = super()._find(context)
        self.first = found.files[0]
        return found

    def _format(self) -> FileFormat:
        text = ("decision", "user", "item") if self.log.ids == "text" else ()
        return format_by_name(self.first, CsvFormat(self.log.separator, text=text))


class _FrameOfLog(_OfLog, DataFrame): ...


class _SqlOfLog(_OfLog, Sql): ...


@dataclass(frozen=True, eq=False)
class _LogTable:
    """A table of a log, whose rows are checked as they become interactions."""

    table: Table
    roles: Mapping[str, str]
    log: Impressions

    def rows(self) -> Interactions:
        """Return the rows, whose users are decisions.

        Raises:
            DataError: A row breaks a rule.
        """
        table, roles = self.table, self.roles
        columns = {role: roles[role] for role in ("item", "timestamp", "part") if role in roles}
        data = interactions_from(table, {"user": roles["decision"], **columns}, "keep", unit="decision")
        marginal = self.log.propensities == "marginal" or "propensity" not in roles
        data = replace(
            data, events=False, rating=self._rewards(), position=self._positions(len(data)), marginal=marginal
        )
        assert data.position is not None
        unit = data.user.astype(np.int64)
        rule = "a position of a decision shows one item"
        if "position" not in roles:
            rule = "name the column of positions by position, or give each decision an id of its own"
        self._refuse_repeated(data, unit * (int(data.position.max()) + 1) + data.position, "position", rule)
        rule = "a decision shows an item once"
        self._refuse_repeated(data, unit * data.n_items + data.item, "item", rule)
        of_decisions: dict[str, npt.NDArray[Any] | None] = {"timestamp": data.time, "part": data.part}
        if "user" in roles:
            users, (user,) = encode([table.ids(roles["user"], "user")])
            of_decisions["user"] = user
        first = np.unique(data.user, return_index=True)[1]
        for role, values in of_decisions.items():
            if values is not None and len(other := np.flatnonzero(values != values[first[data.user]])):
                rows = int(first[data.user[other[0]]]), int(other[0])
                self._refuse(data, rows, f"has two {role}s", f"all rows of a decision have one {role}")
        if "user" in roles:
            owners = users.astype(str).astype(object)[user[first]]
            data = replace(data, user_columns=Attributes({"user": owners}))
        return self._with_propensities(data)

    def _rewards(self) -> npt.NDArray[np.float32]:
        """Return the rewards (m,), finite, not all 0."""
        name = self.roles["reward"]
        given = self.table.scores(name, "reward")
        with np.errstate(over="ignore"):
            rewards = given.astype(np.float32)
        if len(wrong := np.flatnonzero(~np.isfinite(rewards))):
            missing = bool(np.isnan(given[wrong[0]]))
            rule = "no reward may be missing" if missing else "rewards must be finite numbers (float32)"
            self.table.refuse(name, int(wrong[0]), rule, count=len(wrong), missing=missing)
        if not rewards.any():
            raise DataError(
                f"{self.table.name}: no row has a reward: all {len(rewards):,} of column {name!r} are 0, so that every "
                f"policy is worth 0; is it the column of what rows have earned?"
            )
        return rewards

    def _positions(self, n: int) -> Codes:
        """Return the positions of n rows: int32 (m,), from 1; without a column all are 1."""
        if (name := self.roles.get("position")) is None:
            return np.ones(n, dtype=np.int32)
        rule = f"positions are whole numbers from 1 (the first) to {_LARGEST}"
        return self._within(name, "position", rule, 1, _LARGEST).astype(np.int32)

    def _within(self, name: str, role: str, rule: str, low: float, high: float) -> npt.NDArray[Any]:
        """Return a column of numbers that all are in a range, ends included."""
        values = self.table.numbers(name, role)
        if len(wrong := np.flatnonzero(~((values >= low) & (values <= high)))):
            self.table.refuse(name, int(wrong[0]), rule, count=len(wrong))
        return values

    def _refuse_repeated(self, data: Interactions, keys: Ints, role: str, rule: str) -> None:
        """Refuse a row whose key (m,), of its decision and its position or item, is that of an earlier row."""
        again = np.flatnonzero(pd.Series(keys).duplicated())
        if len(again):
            row = int(again[0])
            first = int(np.flatnonzero(keys == keys[row])[0])
            shown = data.items[data.item[[row]]].tolist()[0]
            place = f"has two items at position {data.position[row]}"  # type: ignore[index]
            problem = f"shows item {shown!r} twice" if role == "item" else place
            self._refuse(data, (first, row), problem, rule)

    def _refuse(self, data: Interactions, rows: tuple[int, int], problem: str, rule: str) -> NoReturn:
        """Raise the error for two rows of a decision."""
        decision = data.users[data.user[[rows[1]]]].tolist()[0]
        named = " and ".join(map(self.table.row_name, rows))
        raise DataError(f"{self.table.name}: decision {decision!r} {problem}: {named}; {rule}")

    def _with_propensities(self, data: Interactions) -> Interactions:
        """Return the rows with the propensities of their column, above 0 and at most 1, or with assumed ones."""
        if (name := self.roles.get("propensity")) is None:
            frame = pd.DataFrame({"position": data.position, "item": data.item})
            of_item = frame.groupby(["position", "item"])["item"].transform("size").to_numpy()
            of_position = frame.groupby("position")["item"].transform("size").to_numpy()
            # Laplace's rule: each item counts once more at each position.
            shares = (of_item + 1) / (of_position + data.n_items)
            places = frame["position"].nunique()
            assumed = f"the share of an item among all shown at a position ({places:,} positions), smoothed"
            return replace(data, propensity=shares, assumed=assumed).noting(
                f"assumed propensities: {assumed}"
            )
        rule = "the probability with which a row was shown is above 0 and at most 1"
        values = self._within(name, "propensity", rule, _SMALLEST, 1).astype(np.float64)
        data, constant = replace(data, propensity=values), float(values[0])
        if (values == constant).all() and abs(constant * data.n_items - 1) > 1e-3:
            return data.noting(
                f"all propensities are {constant:g}, as of a random choice among {1 / constant:,.6g} items, and the "
                f"log shows {data.n_items:,}: see that they are the probabilities with which rows were shown"
            )
        return data
