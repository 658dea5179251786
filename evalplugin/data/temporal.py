"""The temporal split: one cut in time, or several train and test periods that roll on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Ints
from evalplugin.base.errors import DataError, ParameterError, Problem
from evalplugin.base.units import duration_text, seconds_of
from evalplugin.components.parameters import OMITTED_IF_DEFAULT
from evalplugin.data.base import Split, split
from evalplugin.data.interactions import Interactions
from evalplugin.data.splits import ColdRule, held_out, times_of
from evalplugin.data.times import timestamp_of

__all__ = ["Temporal"]

_LENGTHS = ("every", "window", "gap")  # parameters that are lengths of time
_NOT_SECONDS = 10**11  # as seconds it is the year 5138; milliseconds of today are above


def _whole_seconds(value: int | str) -> int:
    """Return a time in seconds; a number is as it is.

    Raises:
        ValueError: It is no time, or no whole number of seconds.
    """
    try:
        seconds = seconds_of(value, "it") if isinstance(value, str) else value
    except DataError:
        raise ValueError(
            f"must be a time such as 7d, 12h or 2w, or a number of seconds, not {value!r}"
        ) from None
    if seconds != int(seconds):
        raise ValueError(f"must be whole seconds, not {value!r}")
    return int(seconds)


class _Periods(NamedTuple):
    """The periods of a fold; each begins with its first time and ends before its second. None: no bound."""

    first: int | None  # train
    until: int
    cut: int  # test
    end: int | None


@split("temporal")
@dataclass(frozen=True)
class Temporal:
    """Interactions before a point in time are train data, those at it or after it are the truth.

    The point is ``cutoff``, or else the time of the first interaction behind the ``quantile`` of all
    interactions in order of time. A date without a time zone is UTC; dates are compared with timestamps in
    seconds since 1970.

    With ``every``, the truth is a period of that length, and ``folds`` such periods follow each other: the
    model is fitted anew before each, as in production. The last one ends with the last interaction; with
    ``cutoff`` or ``quantile``, the first one begins there. The train data of a fold is the ``window`` before
    its test period, less the ``gap``; without a window, all before. What is in neither is noted. Times such
    as ``7d``, ``12h`` and ``2w`` need timestamps in seconds; numbers are in the unit of the timestamps.
    """

    cutoff: Annotated[
        int | str | None, Field(description="first time that is test data: a timestamp, or an ISO 8601 date")
    ] = None
    quantile: Annotated[
        float | None, Field(gt=0, lt=1, description="share of the interactions that lies before the cut")
    ] = None
    cold: ColdRule = "keep"
    folds: Annotated[int, Field(ge=1, description="number of test periods, one after another")] = field(
        default=1, metadata=OMITTED_IF_DEFAULT
    )
    every: Annotated[
        int | str | None,
        Field(description="length of a test period, such as 7d, 12h or 2w; null: until the last interaction"),
    ] = field(default=None, metadata=OMITTED_IF_DEFAULT)
    window: Annotated[
        int | str | None,
        Field(description="length of the train period, such as 90d; null: all before the test period"),
    ] = field(default=None, metadata=OMITTED_IF_DEFAULT)
    gap: Annotated[
        int | str,
        Field(
            description="time between train and test period, such as 1d: how old a model is when it is used"
        ),
    ] = field(default=0, metadata=OMITTED_IF_DEFAULT)

    def __post_init__(self) -> None:
        problems = [
            Problem((name,), text) for name in _LENGTHS if (text := self._problem_of(name)) is not None
        ]
        if self.folds > 1 and self.every is None:
            text = f"{self.folds} folds need every, the length of a test period, such as 7d"
            problems.append(Problem(("folds",), text))
        if problems:
            raise ParameterError(problems)
        if self.cutoff is not None and self.quantile is not None:
            raise ValueError("temporal takes exactly one of cutoff and quantile")
        if self.cutoff is None and self.quantile is None and self.every is None:
            raise ValueError(
                "temporal takes exactly one of cutoff and quantile, or every: the length of the last period"
            )
        if isinstance(self.cutoff, str):
            timestamp_of(self.cutoff, "cutoff")

    def _problem_of(self, name: str) -> str | None:
        """Return what is wrong with a length of time, if anything."""
        value = getattr(self, name)
        if value is None:
            return None
        try:
            seconds = _whole_seconds(value)
        except ValueError as error:
            return str(error)
        if name == "gap":
            return f"must not be negative, not {value!r}" if seconds < 0 else None
        return f"must be at least 1s, not {value!r}" if seconds < 1 else None

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return the folds, in order of time."""
        time = times_of(data, "temporal")
        self._check_unit(time)
        if not self._has_periods:
            return [self._one_cut(data, time)]
        return [self._fold(data, time, *numbered) for numbered in enumerate(self._periods(time))]

    def of_train_data(self) -> Temporal:
        """Return the split of a fold's train data for tuning: the last test period in it is the validation data."""
        if self.every is None:
            return self
        return replace(self, cutoff=None, quantile=None, folds=1, window=None)

    def newest(self, data: Interactions) -> Interactions:
        """Return what a model learns from that is fitted to be used from now on: the last window of the data."""
        if self.window is None:
            return data
        time = times_of(data, "temporal")
        return data.select(time > int(time.max()) - _whole_seconds(self.window))

    @property
    def _has_periods(self) -> bool:
        return self.every is not None or self.window is not None or _whole_seconds(self.gap) > 0

    def _cut(self, time: Ints) -> int:
        """Return the first time that is test data."""
        if self.quantile is not None:
            position = int(self.quantile * len(time))
            return int(np.partition(time, position)[position])
        if self.cutoff is not None:
            return timestamp_of(self.cutoff, "cutoff")
        return int(time.max()) + 1 - self.folds * self._every

    @property
    def _every(self) -> int:
        assert self.every is not None
        return _whole_seconds(self.every)

    def _one_cut(self, data: Interactions, time: Ints) -> Split:
        cut = self._cut(time)
        test = time >= cut
        if test.all() or not test.any():
            side = "before" if test.all() else "at or after"
            raise DataError(
                f"split temporal: no interaction is {side} the cut {cut}; "
                f"timestamps are from {time.min()} to {time.max()}",
                parameter="cutoff" if self.quantile is None else "quantile",
            )
        return held_out(data, test, self.cold, notes=[f"the temporal cut is at {cut}"])

    def _periods(self, time: Ints) -> list[_Periods]:
        """Return the periods of each fold.

        Raises:
            DataError: They do not fit into the time span of the data.
        """
        first, gap = self._cut(time), _whole_seconds(self.gap)
        window = None if self.window is None else _whole_seconds(self.window)
        every = None if self.every is None else self._every
        self._check_span(time, first, every, gap)
        cuts = [first + number * (every or 0) for number in range(self.folds)]
        return [
            _Periods(
                first=None if window is None else cut - gap - window,
                until=cut - gap,
                cut=cut,
                end=None if every is None else cut + every,
            )
            for cut in cuts
        ]

    def _check_span(self, time: Ints, first: int, every: int | None, gap: int) -> None:
        low, high = int(time.min()), int(time.max())
        span = f"the interactions are from {_moment(low)} to {_moment(high)}, {self._text(high - low + 1)}"
        if self.cutoff is None and self.quantile is None:
            assert every is not None
            room = high - gap - low  # for test periods, behind one interaction and the gap
            if self.folds * every > room:
                gaps = f" and a gap of {self._text(gap)}" if gap else ""
                leave = "leave" if self.folds > 1 else "leaves"
                raise DataError(
                    f"split temporal: {self._folds_text} of {self._text(every)}{gaps} {leave} no train data: {span}; "
                    f"{self._fitting(max(0, room // every))}, or make every at most "
                    f"{self._exact(max(0, room // self.folds))}",
                    parameter="folds" if self.folds > 1 else "every",
                )
            return
        name = "cutoff" if self.quantile is None else "quantile"
        if first - gap <= low:
            before = f"before {_moment(first - gap)}, which is the cut {_moment(first)} less the gap"
            raise DataError(
                f"split temporal: no interaction is {before if gap else f'before the cut {_moment(first)}'}; {span}",
                parameter=name,
            )
        if first > high:
            raise DataError(
                f"split temporal: no interaction is at or after the cut {_moment(first)}; {span}",
                parameter=name,
            )
        if every is not None and first + (self.folds - 1) * every > high:
            raise DataError(
                f"split temporal: {self._folds_text} of {self._text(every)} from {_moment(first)} on do not fit: "
                f"{span}; {self._fitting((high - first) // every + 1)}",
                parameter="folds",
            )

    @property
    def _folds_text(self) -> str:
        return "a test period" if self.folds == 1 else f"{self.folds} folds"

    def _fitting(self, folds: int) -> str:
        return f"{folds} {'folds fit' if folds != 1 else 'fold fits'}" if folds else "not even one fits"

    def _fold(self, data: Interactions, time: Ints, number: int, periods: _Periods) -> Split:
        """Return one fold.

        Raises:
            DataError: A period has no interactions.
        """
        first, until, cut, end = periods
        before, after = time < until, time >= cut
        train = before if first is None else before & (time >= first)
        test = after if end is None else after & (time < end)
        which = f"fold {number + 1} of {self.folds}: " if self.folds > 1 else ""
        if not train.any():
            latest = int(time[before].max())  # the first fold has an interaction before it, as all others do
            needed = self._exact(until - latest)
            raise DataError(
                f"split temporal: {which}no interaction is in the window from {_moment(first)} until "
                f"{_moment(until)}; the last one before it is at {_moment(latest)}, which a window of at least "
                f"{needed} reaches",
                parameter="window",
            )
        if not test.any():
            later = time[after]
            there = f"; the next one is at {_moment(int(later.min()))}" if len(later) else ""
            raise DataError(
                f"split temporal: {which}no interaction is in the test period from {_moment(cut)} until "
                f"{_moment(end)}{there}; make every longer, or lower folds",
                parameter="every",
            )
        low, high = int(time.min()), int(time.max())
        begin = _moment(low if first is None else first)
        short = " (before the data)" if first is not None and first < low else ""
        over = f", the last interaction is at {_moment(high)}" if end is not None and end > high + 1 else ""
        notes = [
            f"train from {begin}{short} until {_moment(until)}, test from {_moment(cut)} until "
            f"{_moment(high + 1 if end is None else end)}{over}"
        ]
        if left := int((~train & ~test).sum()):
            parts = {
                "before the window": before & ~train,
                "in the gap": ~before & ~after,
                "after the test period": after & ~test,
            }
            named = ", ".join(f"{int(mask.sum()):,} {where}" for where, mask in parts.items() if mask.any())
            notes.append(f"{left:,} interactions are in neither: {named}")
        return held_out(data, test, self.cold, train=train, fold=number, notes=notes)

    def _check_unit(self, time: Ints) -> None:
        text = self._given_as_text
        if text is not None and int(np.abs(time).max()) >= _NOT_SECONDS:
            raise DataError(
                f"split temporal: {text} is {getattr(self, text)!r}, and timestamps up to {int(time.max())} are not in "
                f"seconds, perhaps in milliseconds: give {text} as a number in their unit, or store seconds",
                parameter=text,
            )

    @property
    def _given_as_text(self) -> str | None:
        """The first parameter that is text, such as 7d; None: all lengths are numbers."""
        return next((name for name in _LENGTHS if isinstance(getattr(self, name), str)), None)

    def _text(self, amount: int) -> str:
        """Return a length as it is given: as text, rounded, or as a number in the unit of the timestamps."""
        return duration_text(amount) if self._given_as_text else str(amount)

    def _exact(self, amount: int) -> str:
        """Return a length to copy into the config."""
        return f"{amount}s" if self._given_as_text else str(amount)


def _moment(time: int | None) -> str:
    """Return a timestamp as a date and time in UTC; one that is not in seconds as it is."""
    assert time is not None
    if abs(time) >= _NOT_SECONDS:
        return str(time)
    return datetime.fromtimestamp(time, UTC).isoformat().replace("+00:00", "Z")
