"""The scores of all parts, on threads of this process or on an engine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np

from evalplugin.base.errors import DataError, EvalpluginError
from evalplugin.data.tables import ids_of
from evalplugin.data.vocabulary import check_kinds
from evalplugin.execution.engines import Call, Session, run_calls
from evalplugin.lists.catalogue import Catalogue
from evalplugin.lists.columns import PairColumns
from evalplugin.lists.parts.work import Part, PartWork, Refused, call_parts, look_at_part, score_part
from evalplugin.lists.scoring import need_catalogue
from evalplugin.metrics.blocks import raw_text
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.states import ScorerState
from evalplugin.models.threads import in_threads

_CALLS_PER_SLOT = 4

Report = Callable[[str], None]
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Run:
    """Calls of one function for many parts, on threads of this process or on an engine."""

    threads: int
    session: Session | None = None  # of the engine; None: threads of this process
    report: Report = lambda text: None  # callback for progress
    _numbers: Iterator[int] = field(default_factory=itertools.count)  # of calls: each once in a session

    @property
    def n_tasks(self) -> int:
        """Number of tasks that keep all threads or slots of the engine busy to the end."""
        return _CALLS_PER_SLOT * (self.threads if self.session is None else self.session.slots)

    def each(
        self, work: PartWork, function: Callable[[PartWork, T], R], parts: Sequence[T]
    ) -> Iterator[tuple[int, R]]:
        """Yield the position of each part and its result, in the order of the parts, or on an engine in any order."""
        if self.session is None:
            yield from enumerate(in_threads(partial(function, work), parts, self.threads))
            return
        shared = self.session.put({"work": work})
        size = max(1, len(parts) // self.n_tasks)
        first = {next(self._numbers): at for at in range(0, len(parts), size)}
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


def score_all(
    run: Run, work: PartWork, parts: Sequence[Part], history: PairColumns | None, *, partitioned: bool = False
) -> PerUserScores:
    """Return the scores of all parts.

    Args:
        run: The threads or the engine.
        work: The values that all parts share.
        parts: The parts.
        history: The train data.
        partitioned: Each part is a file of the lists, which must have all rows of its users.

    Raises:
        DataError: A value, a list or a truth that breaks a rule; a user in two of the partitioned files.
    """
    specs = work.scoring.request.specs
    n, catalogue = max(spec.k or 1 for spec in specs), None
    needs_catalogue = need_catalogue(specs)
    if needs_catalogue or work.scoring.request.curves or any(spec.k is None for spec in specs):
        run.report("looking for users and items")
        contents = [part for _, part in run.each(work, look_at_part, parts) if part is not None]
        n = max((part.n for part in contents), default=1)
        if needs_catalogue:
            shared = [] if work.truth is None else [work.truth]
            catalogue = Catalogue.of([*contents, *shared], history)
    work = replace(work, scoring=replace(work.scoring, n=max(n, 1), catalogue=catalogue))
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
    """Refuse a user who is in two of the files, or a query.

    Raises:
        DataError: Names the user and both files.
    """
    files, unit = work.files["lists"].files, work.scoring.request.unit
    users = [(number, part.users) for number, state in states for part in state.values]
    check_kinds("user", **{files[number].name: ids_of(known) for number, known in users})
    every = np.concatenate([known for _, known in users])
    part = np.repeat([number for number, _ in users], [len(known) for _, known in users])
    order = np.argsort(every, kind="stable")
    twice = np.flatnonzero(every[order][1:] == every[order][:-1])
    if len(twice):
        first, second = order[twice[0] : twice[0] + 2]
        raise DataError(
            f"{unit} {raw_text(every[first])} is in {files[part[first]]} and in {files[part[second]]} (or in the truth "
            f"of these files), but files that are partitioned by {unit} have all rows of a {unit} in one of them; "
            f"without --partitioned (partitioned=True), rows are brought together by {unit}"
        )


def _rest_of_truth(
    work: PartWork, states: Sequence[tuple[int, ScorerState]]
) -> Iterator[tuple[int, ScorerState]]:
    """Yield the state of the users of the shared truth who are in no file of the lists."""
    if work.truth is None:
        return
    listed = np.concatenate([part.users for _, state in states for part in state.values])
    rest = work.truth_of(ids_of(listed), others=True)
    if len(rest.user):
        no_lists = work.rows("lists", (), Part((), None))
        yield len(work.files["lists"].files), work.scoring.state(no_lists, rest)
