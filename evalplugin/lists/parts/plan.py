"""The parts of lists and truth in Parquet files: in memory, larger than memory, or on several machines."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path, PurePath
from shutil import disk_usage
from typing import TypeAlias

from evalplugin.base.errors import DataError
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Table
from evalplugin.execution.engines import Session
from evalplugin.lists.columns import ListInput, PairColumns, Role, ScoreRequest
from evalplugin.lists.parts.packed import BYTES_PER_PLACE, PackedLists
from evalplugin.lists.parts.ranges import bounds_of, joined, split
from evalplugin.lists.parts.row_groups import RowGroup, column_types, n_bytes, read_run, row_groups, runs_of
from evalplugin.lists.parts.run import Report, Run, score_all
from evalplugin.lists.parts.spread import Spread, SpreadTask, slices_of, spread
from evalplugin.lists.parts.work import Part, PartWork, check_later_rows, without_places
from evalplugin.lists.scoring import Scoring
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.states import check_mergeable
from evalplugin.models.threads import in_threads, thread_count

_BASE_BYTES = 500 * 2**20  # memory of Python, its libraries and a batch, before any list is read
# Peak memory of scoring a part as a multiple of its columns, as 64-bit numbers: measured on shuffled rows.
_GROWTH = 5
_MAX_PARTS = 500
# Of an engine: the least number of parts, and rows of lists in a part.
_LEAST_PARTS, _PART_ROWS = 16, 2**22
_SAMPLE = 1000  # rows that show whether ids are integers or text
_MOST_READ = 2.0  # row groups that are read, of those there are: beyond, rows are spread over partitions
_MAX_THREADS = 4
# In memory, on as many threads as rows are moved by.
_LEAST_ROWS = 2**21  # of lists; fewer are scored at once
_RANGE_ROWS = 2**19  # of lists in a range of users, which is scored by one thread
_MOST_RANGES = 2**10
_READ_ROWS = 2**20  # rows that are decoded at a time
_PACKED_ROWS = 2**17  # where they are packed, so that they stay in the processor's cache
_RANGE_THREADS = 8
_SHUFFLED_PARTS = 8  # of rows in no order, most of these would read all row groups
_MOST_PLACES = 2  # of a packed row

# Opens a session whose calls read the given files, beside lists and truth.
OpenEngine: TypeAlias = Callable[[Sequence[Path]], AbstractContextManager[Session | None]]
Groups: TypeAlias = Mapping[Role, Sequence[RowGroup]]


def parts_for(
    lists: TableFiles | Table,
    truth: TableFiles | Table,
    request: ScoreRequest,
    memory: int,
    threads: int | None = None,
) -> int:
    """Return the number of parts that limits memory to ``memory`` bytes; 1: everything fits at once.

    Args:
        lists, truth: The tables; only files are divided.
        request: The names of the columns.
        memory: Limit in bytes.
        threads: Threads that work in one process, each on a part of its own; None: as many as there are.
    """
    sources: dict[Role, TableFiles | Table] = {"lists": lists, "truth": truth}
    needed = sum(
        _GROWTH * n_bytes(source, request.columns.of(role, source.name, source.columns).values())
        for role, source in sources.items()
        if isinstance(source, TableFiles)
    )
    if needed + _BASE_BYTES <= memory:
        return 1
    available = max(memory - _BASE_BYTES, memory // 4) // (threads or min(_MAX_THREADS, thread_count()))
    return min(max(2, -(-needed // available)), _MAX_PARTS)


def score_in_memory(lists: TableFiles, truth: TableFiles, request: ScoreRequest) -> PerUserScores | None:
    """Return the scores of Parquet files that fit in memory; None: they are few rows, or cannot be divided by user.

    Users are divided into ranges of ids, by what files say of their row groups. Rows in any order are packed, or else
    moved to their range as they are read, so that what follows stays in the processor's cache.

    Raises:
        DataError: A value, a list or a truth that breaks a rule; its row in the files may not be named.
    """
    if not all(spec.is_own for spec in request.specs):  # metrics of plugins may depend on the order of users
        return None
    work, groups = _opened(lists, truth, request)
    rows = sum(group.rows for group in groups["lists"])
    if rows < _LEAST_ROWS or not groups["truth"] or any(_is_wide(work, role) for role in groups):
        return None
    bounds = bounds_of(groups["lists"], min(max(2, rows // _RANGE_ROWS), _MOST_RANGES))
    if not bounds or isinstance(bounds[0], str):  # text is encoded faster at once: ranges share most items
        return None
    _check_kinds(work, groups, request)
    run = Run(min(_RANGE_THREADS, thread_count()))
    if _ranges(groups, _SHUFFLED_PARTS) is None:
        packed = _packed(run, work, groups, _MOST_PLACES * rows)
        if packed is not None:
            return score_all(run, work, packed, request.history)
    pieces = {role: _moved(run, work, role, groups[role], bounds) for role in groups}

    def part(number: int) -> Part:
        own = {role: joined(of_ranges[number]) for role, of_ranges in pieces.items()}
        for of_ranges in pieces.values():
            of_ranges[number] = []
        return Part(own["lists"], own["truth"])

    parts = list(in_threads(part, range(len(bounds) + 1), run.threads))
    return score_all(run, work, parts, request.history)


def score_in_parts(
    lists: TableFiles,
    truth: TableFiles,
    request: ScoreRequest,
    n_parts: int | None,
    *,
    report: Report,
    memory: int = 0,
    engine: OpenEngine | None = None,
) -> PerUserScores:
    """Return the same scores, to the last bit, as if all lists had been in memory.

    Where row groups hold ranges of users, as in files in the order of users, each part reads its own from the files.
    Other rows are packed into memory if they fit. If not, they are written to partitions by a hash of the user, in a
    temporary folder that is always removed; then each partition is read back and scored. The train data stays in
    memory.

    Args:
        lists, truth: Parquet files.
        request: The metrics, the train data and the columns.
        n_parts: Number of parts; None: each file of the lists is a part, and no user is in two of them.
        report: Callback for progress.
        memory: Limit in bytes, within which rows may be packed.
        engine: Opens a session of the engine that scores parts, which reads some files on every node; None: threads of
            this process score them.

    Raises:
        DataError: As for lists in memory; or the disk is too small for the partitions.
    """
    check_mergeable(request.specs)
    work, groups = _opened(lists, truth, request)
    for role, source in work.files.items():
        if not groups[role]:
            raise DataError(f"{source.name}: there are no rows")
    _check_kinds(work, groups, request)
    rows = sum(group.rows for group in groups["lists"])
    serial = not all(spec.is_own for spec in request.specs)
    run = Run(1 if serial else min(_MAX_THREADS, thread_count()), report=report)
    open_engine: OpenEngine = engine or (lambda files: nullcontext())
    if n_parts is None:
        parts, work = _parts_of_files(work, groups)
        with open_engine([]) as session:
            return score_all(replace(run, session=session), work, parts, request.history, partitioned=True)
    if engine is not None:
        n_parts = min(max(n_parts, _LEAST_PARTS, rows // _PART_ROWS), _MAX_PARTS)
    if (ranges := _ranges(groups, n_parts)) is not None:
        with open_engine([]) as session:
            return score_all(replace(run, session=session), work, ranges, request.history)
    if engine is None:
        beside = _BASE_BYTES + 2 * n_bytes(truth, work.names["truth"].values())
        packed = _packed(run, work, groups, (memory - beside) // BYTES_PER_PLACE)
        if packed is not None:
            return score_all(run, work, packed, request.history)
    with tempfile.TemporaryDirectory(prefix="evalplugin-parts-") as folder:
        probe = Path(folder) / "probe"
        probe.write_text(folder)
        with open_engine([probe]) as session:
            run = replace(run, session=session)
            return score_all(run, work, _spread(run, work, groups, Path(folder), n_parts), request.history)


def _opened(lists: TableFiles, truth: TableFiles, request: ScoreRequest) -> tuple[PartWork, Groups]:
    """Return files with the names of their columns, and their row groups with the range of users in each."""
    files: dict[Role, TableFiles] = {"lists": lists, "truth": truth}
    names = {role: request.columns.of(role, source.name, source.columns) for role, source in files.items()}
    groups = {role: row_groups(source, names[role]["user"]) for role, source in files.items()}
    return PartWork(files, names, Scoring(request.for_workers)), groups


def _is_wide(work: PartWork, role: Role) -> bool:
    """Return whether the columns of the files differ in type."""
    return len(column_types(work.files[role], work.names[role].values())) > 1


def _check_kinds(work: PartWork, groups: Groups, request: ScoreRequest) -> None:
    """Refuse tables with integer ids beside tables with text ids, by the first rows of each."""
    samples = {}
    for role, (first, *_) in groups.items():
        batches = work.files[role].row_groups(
            first.file, [first.number], first.start, work.names[role], _SAMPLE
        )
        with closing(batches):
            samples[role] = PairColumns.read(next(batches), role, request.columns)
    ListInput.of(samples["lists"], samples["truth"], request.history)


def _ranges(groups: Groups, n_parts: int) -> list[Part] | None:
    """Return parts that read their own row groups; None if most would be read by several parts."""
    bounds = bounds_of(groups["lists"], n_parts)
    if not bounds or any(g.low is None for g in groups["truth"]):
        return None
    if type(groups["truth"][0].low) is not type(bounds[0]):
        return None  # ids of two kinds, which is refused where they are read
    parts, read = [], []
    for low, high in zip([None, *bounds], [*bounds, None], strict=True):
        own = {
            role: tuple(
                group
                for group in of_role
                if (low is None or group.high >= low) and (high is None or group.low < high)
            )
            for role, of_role in groups.items()
        }
        read.append(sum(group.rows for of_role in own.values() for group in of_role))
        parts.append(Part(own["lists"], own["truth"], low, high))
    most = _MOST_READ * sum(group.rows for of_role in groups.values() for group in of_role)
    return parts if sum(read) <= most and max(read) <= 2 * most / n_parts else None


def _parts_of_files(work: PartWork, groups: Groups) -> tuple[list[Part], PartWork]:
    """Return a part for each file of the lists.

    Where the truth has a file of the same name for each, it has the truth of the file's users. Otherwise the truth is
    in memory, and each part takes the rows of its users.
    """
    names = {role: [PurePath(str(file)).name for file in work.files[role].files] for role in groups}
    by_file = {
        role: [tuple(g for g in groups[role] if g.file == at) for at in range(len(of_role))]
        for role, of_role in names.items()
    }
    if len(names["lists"]) > 1 and sorted(names["lists"]) == sorted(set(names["truth"])):
        truth_of = dict(zip(names["truth"], by_file["truth"], strict=True))
        same_names = zip(names["lists"], by_file["lists"], strict=True)
        return [Part(lists, truth_of[name]) for name, lists in same_names], work
    truth = PairColumns.read(
        work.files["truth"].read(work.names["truth"]), "truth", work.scoring.request.columns
    )
    return [Part(lists, None) for lists in by_file["lists"]], replace(work, truth=without_places(truth))


def _spread(run: Run, work: PartWork, groups: Groups, folder: Path, n_parts: int) -> list[Part]:
    """Write all rows to files of a folder, by a hash of the user, and return their parts."""
    free = disk_usage(folder).free
    needed = sum(n_bytes(work.files[role], work.names[role].values()) for role in groups)
    if needed > free:
        raise DataError(
            f"{folder}: the partitions need {needed / 2**30:.1f} GB, but only {free / 2**30:.1f} GB are free; "
            f"set TMPDIR to a folder on another disk"
        )
    written: dict[Role, list[Spread]] = {}
    for role, of_role in groups.items():
        run.report(f"spreading {role} over {n_parts} partitions")
        most, wide = sum(group.rows for group in of_role) / run.n_tasks, _is_wide(work, role)
        tasks = [
            SpreadTask(role, tuple(of_task), folder / f"{role}-{number}.arrow", n_parts, wide)
            for number, of_task in enumerate(runs_of(of_role, most))
        ]
        spreads = dict(run.each(work, spread, tasks))
        written[role] = [spreads[number] for number in range(len(tasks))]
        for rows in spreads.values():
            check_later_rows(spreads[0].sample, rows.sample)
    return [
        Part(slices_of(number, written["lists"]), slices_of(number, written["truth"]))
        for number in range(n_parts)
    ]


def _packed(run: Run, work: PartWork, groups: Groups, most: int) -> list[Part] | None:
    """Return the parts of lists that are packed into at most so many places, with their truth; None if they do not fit.

    None too if ranks are repeated: the other way names the rows.

    Raises:
        DataError: A value that breaks a rule; the message names file and row.
    """
    source, names, columns = work.files["lists"], work.names["lists"], work.scoring.request.columns
    lists = PackedLists.empty(source, names, groups["lists"], most)
    if lists is None:
        return None
    run.report("packing lists into memory")
    rows = sum(group.rows for group in groups["lists"])

    def write(run_of_groups: list[RowGroup]) -> bool:
        first, numbers = run_of_groups[0], [group.number for group in run_of_groups]
        batches = source.row_groups(first.file, numbers, first.start, names, _PACKED_ROWS)
        return all(lists.write(PairColumns.read(batch, "lists", columns)) for batch in batches)

    written = in_threads(write, runs_of(groups["lists"], _READ_ROWS), run.threads)
    if not all(written) or lists.n_rows < rows:
        return None
    truth = in_threads(joined, _moved(run, work, "truth", groups["truth"], lists.bounds), run.threads)
    return [Part(*of_range) for of_range in zip(lists.ranges(), truth, strict=True)]


def _moved(
    run: Run, work: PartWork, role: Role, groups: Sequence[RowGroup], bounds: Sequence[int]
) -> list[list[PairColumns]]:
    """Read all rows of a table into memory, and return the pieces of each range of users."""

    def read(run_of_groups: list[RowGroup]) -> list[PairColumns]:
        table = read_run(work.files[role], run_of_groups, work.names[role])
        pairs = PairColumns.read(table, role, work.scoring.request.columns)
        return split(pairs.without_table(), bounds)

    of_tasks = in_threads(read, runs_of(groups, _READ_ROWS), run.threads)
    return [list(of_range) for of_range in zip(*of_tasks, strict=True)]
