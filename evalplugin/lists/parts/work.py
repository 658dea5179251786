"""One part of the users: its rows are read, and scored, wherever the call runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError, EvalpluginError
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Table
from evalplugin.data.vocabulary import encode
from evalplugin.lists.catalogue import Catalogue, PartContents
from evalplugin.lists.columns import ListInput, PairColumns, Role, check_same_kinds
from evalplugin.lists.parts.ranges import joined, rows_within
from evalplugin.lists.parts.row_groups import RowGroup, read_groups
from evalplugin.lists.request import ScoreRequest
from evalplugin.lists.scoring import TruthRows, blocks_of, state_of
from evalplugin.metrics.blocks import Broken, BrokenRowsError
from evalplugin.metrics.states import ScorerState
from evalplugin.models.threads import limit_threads

__all__ = [
    "Part",
    "PartWork",
    "Refused",
    "Slice",
    "anywhere",
    "call_alone",
    "call_parts",
    "check_later_rows",
    "look_at_part",
    "score_part",
]

T = TypeVar("T")
R = TypeVar("R")


class Slice(NamedTuple):
    """Some rows of an Arrow file, a record batch of their own."""

    file: Path
    batch: int


Rows: TypeAlias = tuple[RowGroup, ...] | tuple[Slice, ...]


@dataclass(frozen=True)
class Part:
    """Where the rows of some users are."""

    lists: Rows
    truth: Rows | None  # None: of the truth that all parts share
    low: Any = None  # the first of its users; None: the first of all
    high: Any = None  # the first user behind them; None: they are the last


@dataclass(frozen=True, eq=False)
class PartWork:
    """What is the same for all parts."""

    files: Mapping[Role, TableFiles]
    names: Mapping[Role, Mapping[str, str]]  # columns by role, for lists and truth
    request: ScoreRequest
    compiled: bool
    truth: PairColumns | None = None  # of all parts
    n: int = 1  # length of the longest list
    catalogue: Catalogue | None = None

    def read(self, part: Part) -> ListInput | None:
        """Return lists and truth of the part's users; None: there are none.

        Raises:
            DataError: A value that breaks a rule.
        """
        lists = self.rows("lists", part.lists, part)
        truth = self.truth_of(lists) if part.truth is None else self.rows("truth", part.truth, part)
        inputs = ListInput.of(lists, truth)
        return inputs if len(lists.user) or len(truth.user) else None

    def truth_of(self, lists: PairColumns, *, others: bool = False) -> PairColumns:
        """Return the shared truth of the users of some lists, or of all ``others``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        assert self.truth is not None
        if self.truth.user.kind == "integers":
            users: npt.NDArray[np.int64] = self.truth.user.values.astype(np.int64, copy=False)
            inside = np.isin(users, encode([lists.user])[0])
        else:
            known = pa.array(encode([lists.user])[0], self.truth.user.values.type)
            inside = pc.is_in(self.truth.user.values, value_set=known).to_numpy(zero_copy_only=False)
        return self.truth.rows(np.flatnonzero(inside != others))

    def score(self, inputs: ListInput) -> ScorerState:
        """Return what some users contribute to the scores.

        Raises:
            DataError: A list or a truth that breaks a rule.
        """
        truth, threshold = TruthRows.of(inputs.truth), self.request.threshold
        blocks = blocks_of(inputs.lists, truth, threshold, self.catalogue, self.n, compiled=self.compiled)
        return state_of(blocks, self.request, self.catalogue, self.n)

    def rows(self, role: Role, rows: Rows, part: Part) -> PairColumns:
        """Return the rows of one table that belong to a part.

        Raises:
            DataError: A value that breaks a rule.
        """
        source, names = self.files[role], self.names[role]
        if not rows:
            return PairColumns.read(source.row_groups(0, [], 0, names), role, self.request.columns)
        slices = [one for one in rows if isinstance(one, Slice)]
        if slices:
            return PairColumns.read(_of_slices(slices, source.name), role, self.request.columns)
        tables = read_groups(source, [one for one in rows if isinstance(one, RowGroup)], names)
        pieces = [PairColumns.read(table, role, self.request.columns) for table in tables]
        for piece in pieces[1:]:
            check_later_rows(pieces[0], piece)
        rows_of_part = joined([rows_within(piece, part.low, part.high) for piece in pieces])
        return rows_of_part._replace(table=anywhere(rows_of_part))


def check_later_rows(first: PairColumns, later: PairColumns) -> None:
    """Refuse rows whose ids are of another kind than those of the first ones.

    Raises:
        DataError: They differ.
    """
    check_same_kinds(**{"first rows": first, "rows behind them": later})


def look_at_part(work: PartWork, part: Part, *, items: bool) -> PartContents | None:
    """Return the users of a part, its items if they are needed, and the length of its longest list."""
    inputs = work.read(part)
    if inputs is None:
        return None
    users, (code, _) = encode([inputs.lists.user, inputs.truth.user])
    listed = encode([inputs.lists.item, inputs.truth.item])[0] if items else users[:0]
    return PartContents(users, listed, int(np.bincount(code).max(initial=0)))


def score_part(work: PartWork, part: Part) -> ScorerState | None:
    """Return what the users of a part contribute to the scores; None: it has no users."""
    inputs = work.read(part)
    return None if inputs is None else work.score(inputs)


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


def anywhere(pairs: PairColumns) -> Table:
    """Return the table of the values alone, whose rows are somewhere in the files."""
    import pyarrow as pa

    columns = {} if pairs.values is None else {pairs.column: pa.array(pairs.values)}
    return Table(pa.table(columns), pairs.table.name, _some_row)


def _some_row(row: int) -> str:
    return "a row"


def _of_slices(slices: Sequence[Slice], name: str) -> Table:
    import pyarrow as pa

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
