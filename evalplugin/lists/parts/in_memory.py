"""Parquet files in memory: row groups are decoded, and ranges of users scored, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Thread
from typing import Any, NoReturn, TypeVar

from evalplugin.base.errors import DataError
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Table
from evalplugin.data.vocabulary import encode
from evalplugin.lists.catalogue import Catalogue, PartContents, catalogue_of_parts
from evalplugin.lists.columns import ListInput, PairColumns, Role
from evalplugin.lists.parts.ranges import bounds_of, joined, split
from evalplugin.lists.parts.row_groups import RowGroup, column_types, read_groups, row_groups
from evalplugin.lists.request import ScoreRequest
from evalplugin.lists.scoring import TruthRows, blocks_of, need_catalogue, state_of
from evalplugin.metrics import Blocks
from evalplugin.metrics.compilation import worth_compiling
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import check_request
from evalplugin.metrics.states import ScorerState
from evalplugin.models.threads import in_threads, thread_count

__all__ = ["score_by_ranges"]

_LEAST_ROWS = 2**21  # of lists; fewer are scored at once
_PART_ROWS = 2**19  # of lists in a range of users, which is scored by one thread
_MOST_PARTS = 2**10
_READ_ROWS = 2**20  # rows that are decoded at a time
_MAX_THREADS = 8

T = TypeVar("T")
R = TypeVar("R")


def score_by_ranges(lists: TableFiles, truth: TableFiles, request: ScoreRequest) -> PerUserScores | None:
    """Return the scores of Parquet files that fit in memory; None: they are few rows, or cannot be divided by user.

    Users are divided into ranges of ids, by what files say of their row groups. Rows in any order are moved to their
    range as they are read, so that what follows stays in the processor's cache.

    Raises:
        DataError: A value, a list or a truth that breaks a rule; its row in the files may not be named.
    """
    check_request(request.specs, request.train is not None)
    if not all(spec.is_own for spec in request.specs):  # metrics of plugins may depend on the order of users
        return None
    columns = request.columns
    files: dict[Role, TableFiles] = {"lists": lists, "truth": truth}
    names = {role: columns.of(role, source.name, source.columns) for role, source in files.items()}
    groups = {role: row_groups(source, names[role]["user"]) for role, source in files.items()}
    rows = sum(group.rows for group in groups["lists"])
    same_types = all(len(column_types(files[role], names[role].values())) == 1 for role in files)
    if rows < _LEAST_ROWS or not groups["truth"] or not same_types:
        return None
    bounds = bounds_of(groups["lists"], min(max(2, rows // _PART_ROWS), _MOST_PARTS))
    if not bounds or isinstance(bounds[0], str):  # text is encoded faster at once: ranges share most items
        return None

    def read(task: tuple[Role, list[RowGroup]]) -> list[PairColumns] | None:
        role, some = task
        tables = read_groups(files[role], some, names[role])
        unnamed = _UnnamedRows(files[role].name)
        pairs = [PairColumns.read(table, role, columns)._replace(table=unnamed) for table in tables]
        pieces = [split(one, bounds) for one in pairs]
        return None if None in pieces else [joined(of_part) for of_part in zip(*pieces, strict=True)]

    compiled = worth_compiling(rows)
    if compiled:
        Thread(target=_import_loops).start()
    pieces: dict[Role, list[list[PairColumns]]] = {}
    for role in files:
        tasks = [(role, some) for some in _tasks(groups[role])]
        found = list(_run(read, tasks))
        if None in found:
            return None
        pieces[role] = [list(of_part) for of_part in zip(*found, strict=True)]
    return _scores(pieces, request, compiled)


def _scores(
    pieces: dict[Role, list[list[PairColumns]]], request: ScoreRequest, compiled: bool
) -> PerUserScores:
    n_parts = len(pieces["lists"])
    samples = {role: of_parts[0][0] for role, of_parts in pieces.items()}
    ListInput.of(samples["lists"], samples["truth"], request.history)
    catalogue = _catalogue(pieces, request.history) if need_catalogue(request.specs) else None

    def group(part: int) -> Blocks | None:
        of_lists, of_truth = (joined(pieces[role][part]) for role in ("lists", "truth"))
        pieces["lists"][part] = pieces["truth"][part] = []
        if not len(of_lists.user) and not len(of_truth.user):
            return None
        return blocks_of(of_lists, TruthRows.of(of_truth), request.threshold, catalogue, compiled=compiled)

    blocks = [part for part in _run(group, range(n_parts)) if part is not None]
    n = max(part.n for part in blocks)
    states = _run(lambda part: state_of(part, request, catalogue, n), blocks)
    return ScorerState.merge(states).scores()


def _catalogue(pieces: dict[Role, list[list[PairColumns]]], train: PairColumns | None) -> Catalogue:
    def look(part: int) -> PartContents:
        rows = [pairs for of_parts in pieces.values() for pairs in of_parts[part]]
        return PartContents(
            encode([pairs.user for pairs in rows])[0], encode([pairs.item for pairs in rows])[0], 0
        )

    found = _run(look, range(len(pieces["lists"])))
    return catalogue_of_parts([part for part in found if len(part.users)], None, train)


class _UnnamedRows(Table):
    """A table that keeps no rows in memory: an error in them is found again where all are read at once."""

    def __init__(self, name: str) -> None:
        import pyarrow as pa

        super().__init__(pa.table({}), name)

    def refuse(self, name: str, row: int, rule: str, **more: Any) -> NoReturn:
        """Raise the error for a value, without its row."""
        raise DataError(f"{self.name}: column {name!r}: {rule}")


def _import_loops() -> None:
    """Import the compiled loops while other threads decode files without the interpreter's lock."""
    import evalplugin.metrics.loops  # noqa: F401


def _run(work: Callable[[T], R], inputs: Sequence[T]) -> Iterator[R]:
    return in_threads(work, inputs, min(_MAX_THREADS, thread_count()))


def _tasks(groups: Sequence[RowGroup]) -> list[list[RowGroup]]:
    """Return row groups by what is decoded at a time."""
    tasks: list[list[RowGroup]] = [[]]
    for group in groups:
        if tasks[-1] and sum(g.rows for g in tasks[-1]) + group.rows > _READ_ROWS:
            tasks.append([])
        tasks[-1].append(group)
    return tasks
