"""The split ``next_item``: every event of a session after the first is a query, whose truth is that event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Codes, Flags, Ints
from evalplugin.base.errors import DataError, ParameterError, Problem, did_you_mean
from evalplugin.base.units import count_text, duration_text, noun_of
from evalplugin.data.attributes import Attributes, as_texts
from evalplugin.data.base import Split, Splitter, split
from evalplugin.data.given import in_one_piece
from evalplugin.data.interactions import Interactions, rows_by_code
from evalplugin.data.parts import FoldParts, folds_of
from evalplugin.data.queries import Clusters, Unit, query_ids
from evalplugin.data.splits import times_of
from evalplugin.data.times import NOT_SECONDS, is_date, time_text

_DAY = 86_400  # seconds
_SHOWN = 3  # sessions in a message


@split("next_item")
@dataclass(frozen=True)
class NextItem(Splitter):
    """Sessions are either train data or tested: each event of a test session after the first makes a query.

    The dataset's user is the session. A query's history are the events of the session before it, its truth is the
    next one alone, and its id is ``SESSION:EVENTS``, with the number of events in the history. Equal times are in the
    order of rows; of sessions that end at the same time, ``n_sessions`` tests those with the larger ids. Models must
    have ``recommend_for``. Means are over queries; intervals and tests take the queries of a session together.

    As in Ludewig and Jannach 2018.
    """

    unit: ClassVar[Unit] = "query"
    new_users: ClassVar[bool] = True
    uses_parts: ClassVar[bool] = True

    test: Annotated[
        Literal["last_day", "n_sessions", "given"],
        Field(
            description="sessions that end within the last day or days, the n_sessions that end last, or those of the "
            "test part of the data"
        ),
    ] = "last_day"
    days: Annotated[
        float | None,
        Field(gt=0, description="length of the last_day, in days of the timestamps; left out: 1"),
    ] = None
    n_sessions: Annotated[
        int | None, Field(ge=1, description="number of sessions to test, with test: n_sessions")
    ] = None
    queries: Annotated[
        Literal["all", "last"],
        Field(description="all events after the first of a session, or the last one alone"),
    ] = "all"
    max_history: Annotated[
        int, Field(ge=1, description="events of a history at most: the latest ones; longer ones are counted")
    ] = 100
    cold: Annotated[
        Literal["keep", "drop"],
        Field(
            description="queries whose truth is an item without train data: keep them, as lists that miss it, or drop "
            "them; both are counted"
        ),
    ] = "keep"

    cluster: Annotated[
        str | None,
        Field(
            min_length=1,
            description="column of the interactions, or of the table of users, that names whose session it is, such "
            "as user: the queries of all these sessions form a cluster; null: those of one session do",
        ),
    ] = None

    def __post_init__(self) -> None:
        if (self.test == "n_sessions") != (self.n_sessions is not None):
            raise ValueError("next_item takes n_sessions with test: n_sessions, and not without it")
        if self.days is not None and self.test != "last_day":
            raise ParameterError(
                [Problem(("days",), f"goes with test: last_day, not with test: {self.test}")]
            )

    @property
    def user_columns(self) -> tuple[str, ...]:
        """The column of clusters, if there is one."""
        return () if self.cluster is None else (self.cluster,)

    def of_train_data(self) -> NextItem:
        """Return the split of the train data for tuning: where test sessions are given, by the last day."""
        return replace(self, test="last_day" if self.test == "given" else self.test, cluster=None)

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return one fold."""
        times_of(data, "next_item")
        if self.test != "given":
            data = in_one_piece(data)
            return [self._fold(data, *self._latest(data))]
        if not data.parts:
            raise DataError(
                "split next_item: test: given needs data that comes in parts, and this comes in one piece: name the "
                "files by path: {train: FILE, test: FILE}, or the column of the part by part",
                parameter="test",
            )
        fold, *others = folds_of(data.parts)
        if others:
            raise DataError(
                f"split next_item: test: given takes one train and one test part, and the data has {1 + len(others)} "
                f"folds; name two files, or test the sessions that end last",
                parameter="test",
            )
        return [self._given(data, fold)]

    def _given(self, data: Interactions, fold: FoldParts) -> Split:
        assert data.part is not None
        role = np.array([2 * (part in fold.test) or part in fold.all for part in data.parts], dtype=int)[
            data.part
        ]
        in_train, in_test = (
            np.bincount(data.user[role == number], minlength=data.n_users) for number in (1, 2)
        )
        train = [part for part in fold.all if part not in fold.test]
        for rows, parts in ((in_train, train), (in_test, fold.test)):
            if not rows.any():
                raise DataError(
                    f"split next_item: the {parts[0]} part has no events; does a filter leave all of them out?",
                    parameter="test",
                )
        if len(both := np.flatnonzero((in_train > 0) & (in_test > 0))):
            first = both[:_SHOWN]
            shown = ", ".join(
                f"{session!r} ({count_text(a, 'event')} and {b:,})"
                for session, a, b in zip(
                    data.users[first].tolist(), in_train[first].tolist(), in_test[first].tolist(), strict=True
                )
            )
            raise DataError(
                f"split next_item: {len(both):,} of {np.count_nonzero(in_train + in_test):,} sessions are in the train "
                f"part and in the test part: {shown}{', ...' * (len(both) > _SHOWN)}. A session is either train data "
                f"or tested: move it to one part, or give different sessions different ids",
                parameter="test",
            )
        data = replace(data.select(role > 0), part=None, parts=())
        return self._fold(data, in_test > 0)

    def _latest(self, data: Interactions) -> tuple[Flags, list[str]]:
        """Return which sessions are tested by the time of their last event, bool (n_users,), and notes."""
        last = np.full(data.n_users, np.iinfo(np.int64).min)
        np.maximum.at(last, data.user, times_of(data, "next_item"))
        has_events = data.rows.counts > 0
        n_there = int(has_events.sum())
        if n_there == 1:
            raise DataError(
                f"split next_item: all {count_text(len(data), 'event')} are of one session, "
                f"{data.users[has_events].tolist()[0]!r}: two are needed at least, one to learn from and one to test; "
                f"the dataset's user is the column of session ids"
            )
        if self.n_sessions is None:
            return has_events & (last >= self._since(data, last[has_events], n_there)), []
        if self.n_sessions >= n_there:
            raise DataError(
                f"split next_item: n_sessions is {self.n_sessions}, but there are {n_there:,} sessions, so that none "
                f"is left to learn from; lower n_sessions",
                parameter="n_sessions",
            )
        tested = np.zeros(data.n_users, dtype=np.bool_)
        tested[np.lexsort((last, has_events))[-self.n_sessions :]] = True
        cut = last[tested].min()
        notes = []
        if tied := int((has_events & ~tested & (last == cut)).sum()):
            notes.append(
                f"{tied:,} train sessions end at the same time as {int((tested & (last == cut)).sum()):,} tested ones: "
                f"of these, those with the larger ids are tested"
            )
        return tested, notes

    def _since(self, data: Interactions, last: Ints, n_sessions: int) -> int:
        """Return the time from which on sessions that end are tested; ``last`` (S,) are the ends of all, in ticks.

        Raises:
            DataError: It is before the end of every session, or the timestamps are not in seconds.
        """
        assert data.timestamp is not None
        days, ticks = 1.0 if self.days is None else self.days, data.ticks_per_second
        largest = int(data.timestamp.max())
        if abs(largest) >= NOT_SECONDS:
            raise DataError(
                f"split next_item: test: last_day takes timestamps in seconds, and these are up to {largest}, perhaps "
                f"milliseconds: store seconds, or choose test: n_sessions",
                parameter="test",
            )
        # Rounded, as 0.7 days are 60479.99999999999 s.
        since = int(last.max()) - int(round(days * _DAY, 6) * ticks)
        if since <= last.min():
            within = "the last day" if days == 1 else f"the last {days:g} days"
            raise DataError(
                f"split next_item: all of the {n_sessions:,} sessions end within {within}, from "
                f"{time_text(int(last.min()) // ticks)} to {time_text(largest)}, so that none is left to learn from; "
                f"lower days, or choose test: n_sessions",
                parameter="test" if self.days is None else "days",
            )
        return since

    def _fold(self, data: Interactions, tested: Flags, notes: Sequence[str] = ()) -> Split:
        """Return the fold that tests some sessions (n_users,), of data in one piece."""
        events = _in_order(data)
        is_test = tested[events.user]
        start, _ = rows_by_code(events.user, events.n_users)
        known = np.arange(len(events)) - start[events.user]  # events of the session before each
        asked = is_test & (known > 0)
        if self.queries == "last":
            asked &= known == (events.rows.counts[events.user] - 1)
        notes = [*notes, *_notes(events, tested, known)]
        if not asked.any():
            raise DataError(
                f"split next_item: there is no query, as no test session has two events ({int(tested.sum()):,} have "
                f"one): test more sessions, and see that the dataset's user is the column of session ids",
                parameter="test",
            )
        is_cold = asked & (np.bincount(events.item[~is_test], minlength=data.n_items) == 0)[events.item]
        if cold := int(is_cold.sum()):
            done = (
                "dropped"
                if self.cold == "drop"
                else "kept: no list of a model that learns from items can have it"
            )
            notes.append(
                f"the truth of {cold:,} of {int(asked.sum()):,} queries is an item without train data; {done}"
            )
            if self.cold == "drop":
                asked &= ~is_cold
                if not asked.any():
                    raise DataError(
                        f"split next_item: the truth of every query ({cold:,}) is an item without train data, and "
                        f"cold: drop leaves none; keep them, or test fewer sessions",
                        parameter="cold",
                    )
        rows = np.flatnonzero(asked)
        if cut := int((known[rows] > self.max_history).sum()):
            notes.append(
                f"{cut:,} histories of more than {self.max_history} events are cut to the latest of them"
            )
        return self._of_rows(events, rows, known, np.flatnonzero(~is_test), notes)

    def _of_rows(self, events: Interactions, rows: Ints, known: Ints, train: Ints, notes: list[str]) -> Split:
        """Return the fold whose queries are before some rows, on a vocabulary of train sessions and queries."""
        lengths = np.minimum(known[rows], self.max_history)
        ends = np.cumsum(lengths)
        # The rows of each history, query by query: those just before the truth.
        history = np.repeat(rows - ends, lengths) + np.arange(ends[-1])
        queries = query_ids(events.users[events.user[rows]], known[rows])
        learnt = np.unique(events.user[train])
        ids = np.concatenate([events.users[learnt].astype(str).astype(object), queries])
        order = np.argsort(ids)
        in_order = ids[order]
        if len(twice := np.flatnonzero(in_order[1:] == in_order[:-1])):
            raise DataError(
                f"split next_item: {in_order[twice[0]]!r} is the id of a session, and of a query of another one "
                f"(SESSION:EVENTS): use session ids that do not end so"
            )
        code = np.empty(len(ids), dtype=np.int32)
        code[order] = np.arange(len(ids), dtype=np.int32)
        session = np.concatenate([learnt, events.user[rows]])[order]
        whole = replace(
            events,
            users=in_order,
            user_attributes=events.user_attributes.select(session),
            user_columns=Attributes(),
            events=True,
        )
        code_of = np.zeros(events.n_users, dtype=np.int32)
        code_of[learnt] = code[: len(learnt)]
        asked = code[len(learnt) :]

        def part(chosen: Ints, user: Codes) -> Interactions:
            return replace(whole.select(chosen), user=user)

        sessions = np.unique(events.user[rows])
        clusters, text = None, f"{len(rows):,} queries of {len(sessions):,} sessions"
        if self.cluster is not None:
            ids = self._clusters(events, sessions)
            text += f" of {count_text(len(set(ids[sessions].tolist())), noun_of(self.cluster))}"
            clusters = Clusters(self.cluster, ids[session])
        notes.append(text)
        return Split(
            part(train, code_of[events.user[train]]),
            part(rows, asked),
            notes=tuple(notes),
            history=part(history, np.repeat(asked, lengths)),
            unit=self.unit,
            clusters=clusters,
        )

    def _clusters(self, events: Interactions, tested: Codes) -> npt.NDArray[np.object_]:
        """Return the id of each session's cluster, text as object (n_users,); None where it is unknown.

        Raises:
            DataError: There is no such column, a tested session has no value, or all have the same.
        """
        assert self.cluster is not None
        columns = {**events.user_attributes, **events.user_columns}
        if self.cluster not in columns:
            near = did_you_mean(self.cluster, list(columns), noun="there are")
            raise DataError(
                f"split next_item: the data has no column {self.cluster!r} of clusters of sessions{near}",
                parameter="cluster",
            )
        ids = as_texts(columns[self.cluster])
        own = ids[tested].tolist()
        if None in own:
            raise DataError(
                f"split next_item: {own.count(None):,} of {len(own):,} tested sessions have no value in the column "
                f"{self.cluster!r}, the first is {events.users[tested].tolist()[own.index(None)]!r}: each must be in a "
                f"cluster",
                parameter="cluster",
            )
        if len(set(own)) < 2:
            raise DataError(
                f"split next_item: column {self.cluster!r} puts all tested sessions into one cluster, {own[0]!r}; an "
                f"interval takes two at least",
                parameter="cluster",
            )
        return ids


def _long_sessions(events: Interactions) -> list[str]:
    """Return a note on sessions of more than a day, which may be several sessions with one id."""
    assert events.timestamp is not None
    if not (is_date(int(events.timestamp.min())) and is_date(int(events.timestamp.max()))):
        return []
    time, ticks = times_of(events, "next_item"), events.ticks_per_second
    first, last = (np.zeros(events.n_users, dtype=np.int64) for _ in range(2))
    first[events.user[::-1]], last[events.user] = time[::-1], time
    length = last - first
    long = np.flatnonzero(length > _DAY * ticks)
    if not len(long):
        return []
    longest = np.argmax(length)
    return [
        f"{len(long):,} of {int((events.rows.counts > 0).sum()):,} sessions last longer than a day, the longest, "
        f"{events.users[[longest]].tolist()[0]!r}, {duration_text(int(length[longest]) / ticks)}: see that no two "
        f"sessions, such as those of two users, have the same id"
    ]


def _in_order(data: Interactions) -> Interactions:
    """Return the events session by session, in order of time, and of the rows where times are equal."""
    return data.select(np.lexsort((times_of(data, "next_item"), data.user)))


def _notes(events: Interactions, tested: Flags, known: Ints) -> list[str]:
    """Return sentences on sessions of one event, and on sessions whose order is that of the rows."""
    notes = []
    counts = events.rows.counts
    if single := int((tested & (counts == 1)).sum()):
        notes.append(f"{single:,} of {int(tested.sum()):,} test sessions have one event, and so no query")
    learnt = ~tested & (counts > 0)
    if single := int((learnt & (counts == 1)).sum()):
        notes.append(
            f"{single:,} of {int(learnt.sum()):,} train sessions have one event: no item follows another one in them"
        )
    notes += _long_sessions(events)
    equal = np.flatnonzero((np.diff(times_of(events, "next_item")) == 0) & (known[1:] > 0))
    if len(equal):
        sessions = len(np.unique(events.user[equal]))
        notes.append(
            f"{len(equal):,} events of {sessions:,} sessions have the time of the event before: these are in the order "
            f"of the rows"
        )
    return notes
