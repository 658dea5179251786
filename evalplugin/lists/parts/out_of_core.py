"""Lists larger than memory, or on several machines: scored part by part, each part with some of the users."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from shutil import disk_usage
from typing import TypeAlias, TypeVar

import numpy as np

from evalplugin.base.errors import DataError, EvalpluginError
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Table, ids_of
from evalplugin.data.vocabulary import check_kinds
from evalplugin.execution.engines import Call, Session, run_calls
from evalplugin.lists.catalogue import catalogue_of_parts
from evalplugin.lists.columns import ListColumns, ListInput, PairColumns, Role
from evalplugin.lists.parts.ranges import bounds_of
from evalplugin.lists.parts.row_groups import RowGroup, column_types, n_bytes, row_groups
from evalplugin.lists.parts.spread import Spread, SpreadTask, slices_of, spread, tasks_of
from evalplugin.lists.parts.work import (
    Part,
    PartWork,
    Refused,
    anywhere,
    call_parts,
    check_later_rows,
    look_at_part,
    score_part,
)
from evalplugin.lists.request import ScoreRequest
from evalplugin.lists.scoring import need_catalogue
from evalplugin.metrics.blocks import raw_text
from evalplugin.metrics.compilation import worth_compiling
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import check_request
from evalplugin.metrics.states import ScorerState, check_mergeable
from evalplugin.models.threads import in_threads, thread_count

__all__ = ["parts_for", "score_in_parts"]

_BASE_BYTES = 500 * 2**20  # memory of Python, its libraries and a batch, before any list is read
# Peak memory of scoring a part as a multiple of its columns, as 64-bit numbers: measured on shuffled rows.
_GROWTH = 5
_MAX_PARTS = 500
# Of an engine: the least number of parts, and rows of lists in a part.
_LEAST_PARTS, _PART_ROWS = 16, 2**22
_SAMPLE = 1000  # rows that show whether ids are integers or text
_MOST_READ = 2.0  # row groups that are read, of those there are: beyond, rows are spread over partitions
_CALLS_PER_SLOT = 4
_MAX_THREADS = 4

Report = Callable[[str], None]
# Opens a session whose calls read the given files, beside those of lists and truth.
OpenEngine: TypeAlias = Callable[[Sequence[Path]], AbstractContextManager[Session]]
T = TypeVar("T")
R = TypeVar("R")


def parts_for(
    sources: Mapping[Role, TableFiles | Table], columns: ListColumns, memory: int, threads: int | None = None
) -> int:
    """Return the number of parts that limits memory to ``memory`` bytes; 1: everything fits at once.

    ``threads``: that work in one process, each on a part of its own; None: as many as there are.
    """
    needed = 0
    for role in ("lists", "truth"):
        source, names = sources[role], columns.of(role, sources[role].name, sources[role].columns)
        if isinstance(source, TableFiles):
            needed += _GROWTH * n_bytes(source, names.values())
    if needed + _BASE_BYTES <= memory:
        return 1
    available = max(memory - _BASE_BYTES, memory // 4) // (threads or _threads())
    return min(max(2, -(-needed // available)), _MAX_PARTS)


def score_in_parts(
    lists: TableFiles,
    truth: TableFiles,
    request: ScoreRequest,
    n_parts: int,
    *,
    report: Report,
    partitioned: bool = False,
    engine: OpenEngine | None = None,
) -> PerUserScores:
    """Return the same scores, to the last bit, as if all lists had been in memory.

    Where row groups hold ranges of users, as in files in the order of users, each part reads its own from the files.
    Other rows are written to partitions by a hash of the user, in a temporary folder that is always removed; then each
    partition is read back and scored. The train data stays in memory.

    Args:
        lists, truth: Parquet files.
        request: The metrics, the train data and the columns.
        n_parts: Number of parts.
        report: Callback for progress.
        partitioned: Each file of the lists is a part: no user is in two of them.
        engine: Opens a session of the engine that scores parts, which reads some files on every node; None: threads of
            this process score them.

    Raises:
        DataError: As for lists in memory; or the disk is too small for the partitions.
    """
    check_request(request.specs, request.train is not None)
    check_mergeable(request.specs)
    files: dict[Role, TableFiles] = {"lists": lists, "truth": truth}
    names = {role: request.columns.of(role, source.name, source.columns) for role, source in files.items()}
    groups = {role: row_groups(source, names[role]["user"]) for role, source in files.items()}
    for role, source in files.items():
        if not groups[role]:
            raise DataError(f"{source.name}: there are no rows")
    _check_kinds(files, names, groups, request)
    rows = sum(group.rows for group in groups["lists"])
    work = PartWork(files, names, request.for_workers, worth_compiling(rows))
    parts: list[Part] | None
    serial = not all(spec.is_own for spec in request.specs)
    if engine is not None:
        n_parts = min(max(n_parts, _LEAST_PARTS, rows // _PART_ROWS), _MAX_PARTS)
    if partitioned:
        parts, work = _parts_of_files(work, groups)
    else:
        parts = _ranges(groups, n_parts)
    if parts is not None:
        with nullcontext() if engine is None else engine([]) as session:
            run = _Run(session, serial=serial, report=report)
            return _score(run, work, parts, request.history, partitioned=partitioned)
    with tempfile.TemporaryDirectory(prefix="evalplugin-parts-") as folder:
        probe = Path(folder) / "probe"
        probe.write_text(folder)
        with nullcontext() if engine is None else engine([probe]) as session:
            run = _Run(session, serial=serial, report=report)
            parts = _spread(run, work, groups, Path(folder), n_parts)
            return _score(run, work, parts, request.history)


def _check_kinds(
    files: Mapping[Role, TableFiles],
    names: Mapping[Role, Mapping[str, str]],
    groups: Mapping[Role, Sequence[RowGroup]],
    request: ScoreRequest,
) -> None:
    """Refuse tables of which one has integer ids and another text, by the first rows of each."""
    samples = {}
    for role, (first, *_) in groups.items():
        batches = files[role].row_group_batches(first.file, [first.number], first.start, names[role], _SAMPLE)
        with closing(batches):
            samples[role] = PairColumns.read(next(batches), role, request.columns)
    ListInput.of(samples["lists"], samples["truth"], request.history)


class _Run:
    """Calls of one function for many parts, on threads of this process or on an engine."""

    def __init__(self, session: Session | None, *, serial: bool, report: Report) -> None:
        self.session, self.report = session, report
        self.threads = 1 if serial else _threads()

    @property
    def slots(self) -> int:
        """Number of parts that are worked on at a time."""
        return self.threads if self.session is None else self.session.slots

    def each(
        self, work: PartWork, function: Callable[[PartWork, T], R], parts: Sequence[T]
    ) -> Iterator[tuple[int, R]]:
        """Yield the position of each part and its result, in the order of the parts, or on an engine in any order."""
        if self.session is None:
            yield from enumerate(in_threads(partial(function, work), parts, self.threads))
            return
        shared = self.session.put({"work": work})
        size = max(1, len(parts) // (self.session.slots * _CALLS_PER_SLOT))
        first = {next(_numbers): at for at in range(0, len(parts), size)}
        calls = (
            Call(number, call_parts, [shared], {"function": function, "parts": parts[at : at + size]})
            for number, at in first.items()
        )
        with closing(run_calls(self.session, calls)) as results:
            for number, result in results:
                if isinstance(result, Refused):
                    raise result.error()
                if not isinstance(result, list):  # a failure of the process or of the code
                    raise EvalpluginError(f"a part of the lists could not be scored:\n{result.error.strip()}")
                yield from enumerate(result, first[number])


_numbers = itertools.count()  # of calls, which a session must not have twice


def _ranges(groups: Mapping[Role, Sequence[RowGroup]], n_parts: int) -> list[Part] | None:
    """Return parts that read their own row groups; None if most would be read by several parts."""
    bounds = bounds_of(groups["lists"], n_parts)
    if not bounds or any(g.low is None for g in groups["truth"]):
        return None
    if type(groups["truth"][0].low) is not type(bounds[0]):
        return None  # ids of two kinds, which is refused where they are read
    parts, read = [], 0
    for low, high in zip([None, *bounds], [*bounds, None], strict=True):
        own: dict[str, tuple[RowGroup, ...]] = {
            role: tuple(
                group
                for group in of_role
                if (low is None or group.high >= low) and (high is None or group.low < high)
            )
            for role, of_role in groups.items()
        }
        read += sum(group.rows for of_role in own.values() for group in of_role)
        parts.append(Part(own["lists"], own["truth"], low, high))
    total = sum(group.rows for of_role in groups.values() for group in of_role)
    largest = max(sum(group.rows for group in (*part.lists, *(part.truth or ()))) for part in parts)
    return parts if read <= _MOST_READ * total and largest <= 2 * _MOST_READ * total / n_parts else None


def _parts_of_files(work: PartWork, groups: Mapping[Role, Sequence[RowGroup]]) -> tuple[list[Part], PartWork]:
    """Return a part for each file of the lists.

    Where the truth has a file of the same name for each, that is the truth of the file's users. Otherwise the truth is
    in memory, and each part takes that of its users.
    """
    by_file = {
        role: {
            position: tuple(group for group in of_role if group.file == position)
            for position in range(len(work.files[role].files))
        }
        for role, of_role in groups.items()
    }
    names = {role: [PurePath(str(file)).name for file in work.files[role].files] for role in groups}
    if len(names["lists"]) > 1 and sorted(names["lists"]) == sorted(set(names["truth"])):
        place = {name: position for position, name in enumerate(names["truth"])}
        return [
            Part(by_file["lists"][position], by_file["truth"][place[name]])
            for position, name in enumerate(names["lists"])
        ], work
    truth = PairColumns.read(work.files["truth"].read(work.names["truth"]), "truth", work.request.columns)
    parts = [Part(some, None) for some in by_file["lists"].values()]
    return parts, replace(work, truth=truth._replace(table=anywhere(truth)))


def _spread(
    run: _Run,
    work: PartWork,
    groups: Mapping[Role, Sequence[RowGroup]],
    folder: Path,
    n_parts: int,
) -> list[Part]:
    free = disk_usage(folder).free
    needed = sum(n_bytes(work.files[role], work.names[role].values()) for role in groups)
    if needed > free:
        raise DataError(
            f"{folder}: the partitions need {needed / 2**30:.1f} GB, but only {free / 2**30:.1f} GB are free; "
            f"set TMPDIR to a folder on another disk"
        )
    written: dict[Role, tuple[list[SpreadTask], list[Spread]]] = {}
    for role, of_role in groups.items():
        run.report(f"spreading {role} over {n_parts} partitions")
        wide = len(column_types(work.files[role], work.names[role].values())) > 1
        tasks = tasks_of(role, of_role, folder, n_parts, _CALLS_PER_SLOT * run.slots, wide=wide)
        spreads = dict(run.each(work, spread, tasks))
        written[role] = tasks, [spreads[number] for number in range(len(tasks))]
        for one in written[role][1]:
            check_later_rows(spreads[0].sample, one.sample)
    return [
        Part(slices_of(number, *written["lists"]), slices_of(number, *written["truth"]))
        for number in range(n_parts)
    ]


def _score(
    run: _Run,
    work: PartWork,
    parts: Sequence[Part],
    history: PairColumns | None,
    *,
    partitioned: bool = False,
) -> PerUserScores:
    specs, needs_catalogue = work.request.specs, need_catalogue(work.request.specs)
    if needs_catalogue or work.request.curves or any(spec.k is None for spec in specs):
        run.report("looking for users and items")
        look = partial(look_at_part, items=needs_catalogue)
        found = [one for _, one in run.each(work, look, parts) if one is not None]
        n = max((one.n for one in found), default=1)
        catalogue = catalogue_of_parts(found, work.truth, history) if needs_catalogue else None
        work = replace(work, n=max(n, 1), catalogue=catalogue)
    else:
        work = replace(work, n=max(spec.k or 1 for spec in specs))
    states: list[tuple[int, ScorerState]] = []
    for done, (number, state) in enumerate(run.each(work, score_part, parts)):
        if done * 10 // len(parts) != (done - 1) * 10 // len(parts):  # ten reports at most
            run.report(f"scoring partition {done + 1} of {len(parts)}")
        if state is not None:
            states.append((number, state))
    if partitioned:
        _check_one_file_each(work, states)
        states.extend(_rest_of_truth(work, states))
    return ScorerState.merge(state for _, state in sorted(states, key=lambda pair: pair[0])).scores()


def _check_one_file_each(work: PartWork, states: Sequence[tuple[int, ScorerState]]) -> None:
    """Refuse a user who is in two of the files.

    Raises:
        DataError: Names the user and both files.
    """
    users = [(number, part.users) for number, state in states for part in state.values]
    if not users:
        return
    check_kinds("user", **{work.files["lists"].files[n].name: ids_of(known) for n, known in users})
    every = np.concatenate([known for _, known in users])
    part = np.repeat([number for number, _ in users], [len(known) for _, known in users])
    order = np.argsort(every, kind="stable")
    twice = np.flatnonzero(every[order][1:] == every[order][:-1])
    if len(twice):
        first, second = order[twice[0]], order[twice[0] + 1]
        one, other = (str(work.files["lists"].files[int(part[row])]) for row in (first, second))
        raise DataError(
            f"user {raw_text(every[first])} is in {one} and in {other} (or in the truth of these files), but files "
            f"that are partitioned by user have all rows of a user in one of them; without --partitioned "
            f"(partitioned=True), rows are brought together by user"
        )


def _rest_of_truth(
    work: PartWork, states: Sequence[tuple[int, ScorerState]]
) -> list[tuple[int, ScorerState]]:
    """Return the state of the users of the shared truth who are in no file of the lists."""
    if work.truth is None:
        return []
    known = [part.users for _, state in states for part in state.values]
    listed = work.truth
    if known:
        users = ids_of(np.concatenate(known))
        listed = work.truth_of(work.truth._replace(user=users), others=True)
    if not len(listed.user):
        return []
    number = len(work.files["lists"].files)
    nothing = work.rows("lists", (), Part((), None))
    return [(number, work.score(ListInput(nothing, listed, None)))]


def _threads() -> int:
    return min(_MAX_THREADS, thread_count())
