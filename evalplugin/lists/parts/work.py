"""One part of the users: its rows are read, and scored, wherever the call runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from evalplugin.base.errors import DataError, EvalpluginError
from evalplugin.base.libraries import pa, pc
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Ids, Table, arrow_numbers, ids_of
from evalplugin.data.vocabulary import encode
from evalplugin.lists.catalogue import NO_IDS, PartContents
from evalplugin.lists.columns import ListInput, PairColumns, Role, check_same_kinds
from evalplugin.lists.parts.packed import PackedRange
from evalplugin.lists.parts.ranges import joined, rows_within
from evalplugin.lists.parts.row_groups import RowGroup, read_run, runs_of
from evalplugin.lists.scoring import Scoring, need_catalogue
from evalplugin.metrics.blocks import Broken, BrokenRowsError
from evalplugin.metrics.states import ScorerState
from evalplugin.models.threads import limit_threads

T = TypeVar("T")
R = TypeVar("R")


class Slice(NamedTuple):
    """Some rows of an Arrow file, a record batch of their own."""

    file: Path
    batch: int


# In Parquet files, in Arrow files, or in memory.
Rows: TypeAlias = tuple[RowGroup, ...] | tuple[Slice, ...] | PairColumns | PackedRange


@dataclass(frozen=True)
class Part:
    """The places of the rows of some users."""

    lists: Rows
    truth: Rows | None  # None: of the truth that all parts share
    low: Any = None  # the first of its users; None: the first of all
    high: Any = None  # the first user behind them; None: they are the last


@dataclass(frozen=True, eq=False)
class PartWork:
    """The values that all parts share."""

    files: Mapping[Role, TableFiles]
    names: Mapping[Role, Mapping[str, str]]  # columns by role, for lists and truth
    scoring: Scoring
    truth: PairColumns | None = None  # of all parts

    def read(self, part: Part) -> ListInput | None:
        """Return lists and truth of the part's users; None: there are none.

        Raises:
            DataError: A value that breaks a rule.
        """
        lists = self.rows("lists", part.lists, part)
        truth = self.truth_of(lists.user) if part.truth is None else self.rows("truth", part.truth, part)
        inputs = ListInput.of(lists, truth)
        return inputs if len(lists.user) or len(truth.user) else None

    def truth_of(self, users: Ids, *, others: bool = False) -> PairColumns:
        """Return the shared truth of some users, or of all ``others``."""
        assert self.truth is not None
        held_out, known = self.truth.user, encode([users])[0]
        if held_out.kind == "integers":
            inside = np.isin(held_out.values.astype(np.int64, copy=False), known)
        else:
            texts = pa.array(known, held_out.values.type)
            inside = pc.is_in(held_out.values, value_set=texts).to_numpy(zero_copy_only=False)
        return self.truth.rows(np.flatnonzero(inside != others))

    def rows(self, role: Role, rows: Rows, part: Part) -> PairColumns:
        """Return the rows of one table that belong to a part.

        Raises:
            DataError: A value that breaks a rule.
        """
        if isinstance(rows, PackedRange):
            rows = rows.pairs()
        if isinstance(rows, PairColumns):
            return without_places(rows)
        source, names = self.files[role], self.names[role]
        groups = [group for group in rows if isinstance(group, RowGroup)]
        slices = [piece for piece in rows if isinstance(piece, Slice)]
        if slices:
            tables = [_of_slices(slices, source.name)]
        else:
            tables = [read_run(source, run, names) for run in runs_of(groups) or [[]]]
        pieces = [PairColumns.read(table, role, self.scoring.request.columns) for table in tables]
        for piece in pieces[1:]:
            check_later_rows(pieces[0], piece)
        return without_places(joined([rows_within(piece, part.low, part.high) for piece in pieces]))


def check_later_rows(first: PairColumns, later: PairColumns) -> None:
    """Refuse rows whose ids are of another kind than in the first rows.

    Raises:
        DataError: They differ.
    """
    check_same_kinds(**{"first rows": first, "rows behind them": later})


def look_at_part(work: PartWork, part: Part) -> PartContents | None:
    """Return the length of a part's longest list and, where metrics read the catalogue, its users and items."""
    if isinstance(part.lists, PackedRange) and not need_catalogue(work.scoring.request.specs):
        return PartContents(ids_of(NO_IDS), ids_of(NO_IDS), part.lists.longest)
    inputs = work.read(part)
    if inputs is None:
        return None
    lists, truth, _ = inputs
    if not need_catalogue(work.scoring.request.specs):
        nothing = ids_of(NO_IDS)
        return PartContents(nothing, nothing, _longest(lists))
    users, (user, _) = encode([lists.user, truth.user])
    items = encode([lists.item, truth.item])[0]
    return PartContents(ids_of(users), ids_of(items), int(np.bincount(user).max(initial=0)))


def _longest(lists: PairColumns) -> int:
    """Return the length of the longest list."""
    if (
        lists.kind == "rank"
    ):  # from 1 to the length of the list; other ranks are refused where they are scored
        return int(min(lists.values.max(initial=0), len(lists.user)))
    starts = lists.user.run_starts()
    _, (run_user,) = encode([lists.user.take(starts)])
    return int(np.bincount(run_user, np.diff(starts, append=len(lists.user))).max(initial=0))


def score_part(work: PartWork, part: Part) -> ScorerState | None:
    """Return the contribution of a part's users to the scores; None: it has no users."""
    inputs = work.read(part)
    return None if inputs is None else work.scoring.state(inputs.lists, inputs.truth)


@dataclass(frozen=True)
class Refused:
    """An input error that crosses the process boundary as text."""

    message: str
    broken: Broken | None = None

    def error(self) -> DataError:
        """Return the error in this process."""
        return DataError(self.message) if self.broken is None else BrokenRowsError(self.broken, self.message)


def call_alone(function: Callable[..., R], *args: Any) -> R | Refused:
    """Return what a function returns on one thread, as where each core has a process; an input error is a value."""
    try:
        with limit_threads(1):
            return function(*args)
    except EvalpluginError as error:
        return Refused(str(error), error.broken if isinstance(error, BrokenRowsError) else None)


def call_parts(work: Any, function: Callable[[Any, T], R], parts: Sequence[T]) -> list[R] | Refused:
    """Return what a function returns for each of some parts, one after the other: a call of an engine."""
    return call_alone(lambda: [function(work, part) for part in parts])


def without_places(pairs: PairColumns) -> PairColumns:
    """Return pairs with a table of the values alone, whose places in the files are not known."""
    columns = {} if pairs.values is None else {pairs.column: arrow_numbers(pairs.values)}
    return pairs._replace(table=Table(pa.table(columns), pairs.table.name, _some_row))


def _some_row(row: int) -> str:
    return "a row"


def _of_slices(slices: Sequence[Slice], name: str) -> Table:
    batches: dict[Path, list[int]] = {}
    for part in slices:
        batches.setdefault(part.file, []).append(part.batch)
    tables = []
    for file, numbers in batches.items():
        # Not mapped into memory: systems map far more than is read.
        with pa.OSFile(str(file)) as raw, pa.ipc.open_file(raw) as opened:
            tables.append(
                pa.Table.from_batches([opened.get_batch(number) for number in numbers], opened.schema)
            )
    return Table(pa.concat_tables(tables), name, _some_row)
