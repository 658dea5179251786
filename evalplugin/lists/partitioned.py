"""Scores of Parquet files partition by partition: out of core, or on an engine."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from shutil import disk_usage
from typing import TypeAlias, TypeVar

import numpy as np

from evalplugin.base.errors import DataError, EvalpluginError
from evalplugin.data.files import TableFiles
from evalplugin.data.reading import path_text
from evalplugin.data.tables import ids_of
from evalplugin.data.vocabulary import check_kinds
from evalplugin.execution.engines import Call, Engine, Needs, Session, run_calls
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.shared import private_folder
from evalplugin.files.inputs import fingerprint_of
from evalplugin.lists.catalogue import Catalogue
from evalplugin.lists.columns import (
    ListColumns,
    PairColumns,
    Role,
    ScoreRequest,
    Sources,
    check_same_kinds,
    read_train,
)
from evalplugin.lists.partition import (
    Partition,
    PartitionWork,
    Refused,
    call_alone,
    look_at_partition,
    score_partition,
)
from evalplugin.lists.partition_files import MOST_PARTITIONS, first_rows, size_in_memory, write_partitions
from evalplugin.lists.scoring import Scoring, need_catalogue, need_longest
from evalplugin.metrics.blocks import raw_text
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.states import ScorerState, check_mergeable
from evalplugin.models.threads import in_threads, thread_count

_BASE_BYTES = 500 * 2**20  # memory of Python, its libraries and some batches, before any partition is read
# Peak memory of scoring a partition as a multiple of its columns as 64-bit numbers: measured on shuffled rows.
_GROWTH = 5
_MAX_THREADS = 4
# Of an engine: the least number of partitions, and rows of lists in one.
_LEAST, _ROWS = 16, 2**22
_PARTITIONED: tuple[Role, ...] = ("lists", "truth")  # files that are partitioned by user

Report: TypeAlias = Callable[[str], None]
R = TypeVar("R")


def partitions_within(memory: int, sources: Sources, columns: ListColumns, threads: int) -> int:
    """Return the number of partitions by which scoring needs at most ``memory`` bytes; 1: everything fits at once.

    Args:
        memory: Limit in bytes.
        sources: The tables; only files are partitioned.
        columns: The names of their columns.
        threads: Partitions that a process scores at a time.
    """
    needed = _GROWTH * sum(
        size_in_memory(sources[role], role, columns).bytes
        for role in _PARTITIONED
        if isinstance(sources[role], TableFiles)
    )
    if needed + _BASE_BYTES <= memory:
        return 1
    available = max(memory - _BASE_BYTES, memory // 4) // threads
    return min(max(2, -(-needed // available)), MOST_PARTITIONS)


def threads_for(request: ScoreRequest) -> int:
    """Return the number of partitions that this process scores at a time: one with metrics of plugins."""
    return min(_MAX_THREADS, thread_count()) if all(spec.is_own for spec in request.specs) else 1


def score_partitioned(
    sources: Sources,
    request: ScoreRequest,
    n: int,
    *,
    report: Report,
    engine: Engine | None = None,
) -> PerUserScores:
    """Return the same scores, to the last bit, as if all rows had been in memory.

    Rows are written to ``n`` partitions by a hash of the user, in a temporary folder that is always removed; then each
    partition is scored as tables in memory are. The train data stays in memory.

    Args:
        sources: Parquet files of lists and truth, and the train data.
        request: The metrics and the columns.
        n: Number of partitions; an engine may have more.
        report: Callback for progress.
        engine: Where partitions are scored; None: on threads of this process.

    Raises:
        DataError: As for lists in memory; or the disk is too small for the partitions.
    """
    first, history, work = _prepared(sources, request)
    with tempfile.TemporaryDirectory(prefix="evalplugin-partitions-") as name:
        folder, probe = Path(name), Path(name) / "probe"
        probe.write_text(name)
        with _open_session(engine, sources, report, probe) as session:
            size = {role: size_in_memory(sources[role], role, request.columns) for role in _PARTITIONED}
            if session is not None:
                n = min(max(n, _LEAST, size["lists"].rows // _ROWS), MOST_PARTITIONS)
            _check_disk(folder, sum(of_role.bytes for of_role in size.values()))
            report(f"writing rows to {n} partitions by {request.columns.unit}")
            written = {
                role: write_partitions(sources[role], role, request.columns, first[role], folder, n)
                for role in _PARTITIONED
            }
            if (last_rank := written["lists"][1]) is not None:
                # Ranks beyond the number of rows are refused where they are scored.
                longest = max(1, min(last_rank, size["lists"].rows))
                work = replace(work, scoring=replace(work.scoring, n=longest))
            run = _Run(threads_for(request), session, report)
            partitions = list(map(Partition, *(written[role][0] for role in _PARTITIONED)))
            _, states = _states(run, work, partitions, history)
    return ScorerState.merge(states).scores()


def score_files(
    sources: Sources, request: ScoreRequest, *, report: Report, engine: Engine | None = None
) -> PerUserScores:
    """Return the same scores as ``score_partitioned``, of lists whose files are partitions: no user is in two of them.

    Where the truth has a file of the same name for each, it has the truth of the file's users. Otherwise the truth is
    in memory, and each partition takes the rows of its users.

    Raises:
        DataError: As ``score_partitioned``; a user in two of the files.
    """
    first, history, work = _prepared(sources, request)
    lists, truth = sources["lists"], sources["truth"]
    of_lists, of_truth = _each_file(lists), _each_file(truth)
    names = [name for name, _ in of_lists]
    if len(names) > 1 and sorted(names) == sorted(name for name, _ in of_truth):
        truth_of = dict(of_truth)
        partitions = [Partition(file, truth_of[name]) for name, file in of_lists]
    else:
        shared = PairColumns.read_all(truth, "truth", request.columns)
        partitions, work = [Partition(file, None) for _, file in of_lists], replace(work, truth=shared)
    with _open_session(engine, sources, report) as session:
        run = _Run(threads_for(request), session, report)
        scoring, states = _states(run, work, partitions, history)
    users = [state.values[0].users for state in states]
    check_kinds("user", **{file.name: ids_of(own) for (_, file), own in zip(of_lists, users, strict=True)})
    every, number = np.concatenate(users), np.repeat(np.arange(len(users)), list(map(len, users)))
    first_row = np.unique(every, return_index=True)[1]
    if len(first_row) < len(every):
        again = every[np.delete(np.arange(len(every)), first_row)[0]]
        first_file, other_file = (lists.files[at] for at in number[every == again][:2])
        unit = request.columns.unit
        raise DataError(
            f"{unit} {raw_text(again)} is in {first_file} and in {other_file} (or in the truth of these "
            f"files), but files that are partitioned by {unit} have all rows of a {unit} in one of "
            f"them; without --partitioned (partitioned=True), rows are brought together by {unit}"
        )
    if work.truth is not None:  # of users who are in no file of the lists
        rest = work.truth_of(ids_of(every), others=True)
        if len(rest.user):
            states.append(scoring.state(first["lists"].no_rows(), rest))
    return ScorerState.merge(states).scores()


@contextmanager
def _open_session(
    engine: Engine | None, sources: Sources, report: Report, *others: Path
) -> Generator[Session | None]:
    """Yield a session whose nodes all have the same first file of lists and truth, and other files; None: no engine.

    Raises:
        EngineError: The engine cannot run calls, or a node lacks a file.
    """
    if engine is None:
        yield None
        return
    firsts = [sources[role].files[0] for role in _PARTITIONED]
    files = [*(file for file in firsts if isinstance(file, Path)), *others]
    inputs = {str(file): fingerprint_of(str(file), lambda uri: "") for file in files}
    with private_folder() as folder, engine.open(Needs(folder, inputs=inputs, report=report)) as session:
        yield session


def _prepared(
    sources: Sources, request: ScoreRequest
) -> tuple[dict[Role, PairColumns], PairColumns | None, PartitionWork]:
    """Return the first rows of the files, the train data, and the work of the partitions, after checks of all."""
    check_mergeable(request.specs)
    first = {role: first_rows(sources[role], role, request.columns) for role in _PARTITIONED}
    history = read_train(sources, request.columns)
    check_same_kinds(lists=first["lists"], truth=first["truth"], train=history)
    return first, history, PartitionWork(Scoring(request))


def _each_file(source: TableFiles) -> list[tuple[str, TableFiles]]:
    """Return the name of each file, and the file as a table of its own."""
    return [
        (
            PurePath(str(file)).name,
            replace(source, name=path_text(file), files=(file,), partitions=source.partitions[at : at + 1]),
        )
        for at, file in enumerate(source.files)
    ]


def _check_disk(folder: Path, needed: int) -> None:
    """Refuse to write more bytes than are free."""
    free = disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{folder}: the partitions need {needed / 2**30:.1f} GB, but only {free / 2**30:.1f} GB are free; "
            f"set TMPDIR to a folder on another disk"
        )


@dataclass(frozen=True)
class _Run:
    """Threads of this process, or an engine."""

    threads: int
    session: Session | None  # of the engine
    report: Report

    _numbers: Iterator[int] = field(default_factory=itertools.count)  # of calls: each once in a session

    def each(
        self,
        verb: str,
        function: Callable[[PartitionWork, Partition], R],
        work: PartitionWork,
        partitions: Sequence[Partition],
    ) -> list[R]:
        """Return the results of a function for all partitions; ``verb`` is what it does, for progress."""
        results: dict[int, R] = {}
        with closing(self._results(function, work, partitions)) as ended:
            for number, result in ended:
                results[number] = result
                done, n = len(results), len(partitions)
                if done * 10 // n != (done - 1) * 10 // n:  # ten reports at most
                    self.report(f"{verb} partition {done} of {n}")
        return [results[number] for number in range(len(partitions))]

    def _results(
        self,
        function: Callable[[PartitionWork, Partition], R],
        work: PartitionWork,
        partitions: Sequence[Partition],
    ) -> Generator[tuple[int, R]]:
        if self.session is None:
            yield from enumerate(in_threads(partial(function, work), partitions, self.threads))
            return
        shared = self.session.put({"work": work})
        number_of = dict(zip(self._numbers, range(len(partitions)), strict=False))
        calls = (
            Call(call, call_alone, [shared], {"function": function, "partition": partitions[number]})
            for call, number in number_of.items()
        )
        with closing(run_calls(self.session, calls)) as ended:
            for call, result in ended:
                if isinstance(result, Refused):
                    raise DataError(result.message)
                if isinstance(result, TaskFailure):  # of the process or of the code
                    raise EvalpluginError(
                        f"a partition of the lists could not be scored:\n{result.error.strip()}"
                    )
                yield number_of[call], result


def _states(
    run: _Run, work: PartitionWork, partitions: Sequence[Partition], history: PairColumns | None
) -> tuple[Scoring, list[ScorerState]]:
    """Return the scoring that all partitions share, and the state of each.

    Raises:
        DataError: A value, a list or a truth that breaks a rule.
    """
    scoring, request = work.scoring, work.scoring.request
    needs_catalogue = need_catalogue(request.specs)
    needs_longest = request.curves or need_longest(request.specs)
    if needs_catalogue or (needs_longest and scoring.n is None):
        contents = run.each("looking at", look_at_partition, work, partitions)
        scoring = replace(scoring, n=max(1, *(part.n for part in contents)))
        if needs_catalogue:
            shared = [] if work.truth is None else [work.truth]
            scoring = replace(scoring, catalogue=Catalogue.of([*contents, *shared], history))
    elif not needs_longest:
        scoring = replace(scoring, n=1)
    return scoring, run.each("scoring", score_partition, replace(work, scoring=scoring), partitions)
