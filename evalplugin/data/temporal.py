"""The temporal split: one cut in time, or several train and test periods that roll on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Annotated

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Ints
from evalplugin.base.errors import DataError, ParameterError, Problem
from evalplugin.base.units import duration_text, seconds_of
from evalplugin.data.base import Split, Splitter, split
from evalplugin.data.interactions import Interactions
from evalplugin.data.splits import ColdRule, held_out, times_of
from evalplugin.data.times import NOT_SECONDS, moment_text, number_text, timestamp_of

_LENGTHS = ("every", "window", "gap")  # parameters that are lengths of time


def _whole_seconds(value: int | str) -> int:
    """Return a length of time in seconds; numbers stay as they are."""
    try:
        seconds = seconds_of(value, "it") if isinstance(value, str) else value
    except DataError:
        raise ValueError(
            f"must be a time such as 7d, 12h or 2w, or a number of seconds, not {value!r}"
        ) from None
    if seconds != int(seconds):
        raise ValueError(f"must be whole seconds, not {value!r}")
    return int(seconds)


@split("temporal")
@dataclass(frozen=True)
class Temporal(Splitter):
    """Interactions before a point in time are train data, those at it or after it are the truth.

    The point is ``cutoff``, or the time of the first interaction behind the ``quantile`` of all. A date without a
    time zone is UTC; dates need timestamps in seconds since 1970.

    With ``every``, ``folds`` test periods of that length follow each other, and models are fitted before each. The
    last one ends with the last interaction, or with ``cutoff`` or ``quantile`` the first one begins there. The train
    data of a fold is the ``window`` before its test period, less the ``gap``. ``7d``, ``12h`` and ``2w`` need
    timestamps in seconds; numbers are in their unit.
    """

    cutoff: Annotated[
        int | str | None, Field(description="first time that is test data: a timestamp, or an ISO 8601 date")
    ] = None
    quantile: Annotated[
        float | None, Field(gt=0, lt=1, description="share of the interactions that lies before the cut")
    ] = None
    cold: ColdRule = "keep"
    folds: Annotated[int, Field(ge=1, description="number of test periods, one after another")] = 1
    every: Annotated[
        int | str | None,
        Field(description="length of a test period, such as 7d, 12h or 2w; null: until the last interaction"),
    ] = None
    window: Annotated[
        int | str | None,
        Field(description="length of the train period, such as 90d; null: all before the test period"),
    ] = None
    gap: Annotated[
        int | str,
        Field(
            description="time between train and test period, such as 1d: how old a model is when it is used"
        ),
    ] = 0

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
        """Return the problem of a length of time, or None."""
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
        self._check_unit(data)
        cut = self._cut(time, data.ticks_per_second)
        every, window, gap = self._lengths(data.ticks_per_second)
        if every is None and window is None and not gap:
            return [self._one_cut(data, time, cut)]
        self._check_span(time, cut, data.ticks_per_second)
        return [self._fold(data, time, fold, cut + fold * (every or 0)) for fold in range(self.folds)]

    def of_train_data(self) -> Temporal:
        """Return the split of a fold's train data for tuning: the last test period in it is the validation data."""
        if self.every is None:
            return self
        return replace(self, cutoff=None, quantile=None, folds=1, window=None)

    def newest(self, data: Interactions) -> Interactions:
        """Return the train data of a model that is to be registered: the last window of the data."""
        if self.window is None:
            return data
        time = times_of(data, "temporal")
        return data.select(time > int(time.max()) - _whole_seconds(self.window) * data.ticks_per_second)

    def _lengths(self, ticks: int) -> tuple[int | None, int | None, int]:
        """Return the lengths of test and train periods (None: no bound) and of the gap, given the ticks a second."""
        every, window = (None if t is None else _whole_seconds(t) * ticks for t in (self.every, self.window))
        return every, window, _whole_seconds(self.gap) * ticks

    def _cut(self, time: Ints, ticks: int) -> int:
        """Return the first time that is test data; times here and below are in ticks."""
        if self.quantile is not None:
            position = int(self.quantile * len(time))
            return int(np.partition(time, position)[position])
        if self.cutoff is not None:
            return ceil(timestamp_of(self.cutoff, "cutoff") * ticks)
        return int(time.max()) + 1 - self.folds * (self._lengths(ticks)[0] or 0)

    def _one_cut(self, data: Interactions, time: Ints, cut: int) -> Split:
        test = time >= cut
        at, low, high = (
            number_text(moment, data.ticks_per_second) for moment in (cut, int(time.min()), int(time.max()))
        )
        if test.all() or not test.any():
            side = "before" if test.all() else "at or after"
            text = f"no interaction is {side} the cut {at}; timestamps are from {low} to {high}"
            raise _error(text, "cutoff" if self.quantile is None else "quantile")
        return held_out(data, test, self.cold, notes=[f"the temporal cut is at {at}"])

    def _check_span(self, time: Ints, first: int, ticks: int) -> None:
        """Refuse periods that do not fit into the time span of the data; the first test period begins at ``first``."""
        (every, _, gap), low, high = self._lengths(ticks), int(time.min()), int(time.max())
        moment, length = partial(moment_text, ticks_per_second=ticks), partial(self._text, ticks=ticks)
        span = f"the interactions are from {moment(low)} to {moment(high)}, {length(high - low + 1)}"
        periods = "a test period" if self.folds == 1 else f"{self.folds} folds"
        if self.cutoff is None and self.quantile is None:
            assert every is not None
            room = high - gap - low  # for test periods, behind one interaction and the gap
            if self.folds * every > room:
                gaps = f" and a gap of {length(gap)}" if gap else ""
                leave = "leave" if self.folds > 1 else "leaves"
                raise _error(
                    f"{periods} of {length(every)}{gaps} {leave} no train data: {span}; "
                    f"{_fitting(max(0, room // every))}, or make every at most "
                    f"{self._exact(max(0, room // self.folds // ticks))}",
                    "folds" if self.folds > 1 else "every",
                )
            return
        name = "cutoff" if self.quantile is None else "quantile"
        if first - gap <= low:
            before = f"the cut {moment(first)}"
            before = f"{moment(first - gap)}, which is {before} less the gap" if gap else before
            raise _error(f"no interaction is before {before}; {span}", name)
        if first > high:
            raise _error(f"no interaction is at or after the cut {moment(first)}; {span}", name)
        if every is not None and first + (self.folds - 1) * every > high:
            raise _error(
                f"{periods} of {length(every)} from {moment(first)} on do not fit: {span}; "
                f"{_fitting((high - first) // every + 1)}",
                "folds",
            )

    def _fold(self, data: Interactions, time: Ints, number: int, cut: int) -> Split:
        """Return the fold whose test period begins at ``cut``."""
        ticks = data.ticks_per_second
        (every, window, gap), moment = self._lengths(ticks), partial(moment_text, ticks_per_second=ticks)
        until, end = cut - gap, None if every is None else cut + every
        low, high = int(time.min()), int(time.max())
        first, last = low if window is None else until - window, high + 1 if end is None else end
        before, after = time < until, time >= cut
        train, test = before & (time >= first), after & (time < last)
        which = f"fold {number + 1} of {self.folds}: " if self.folds > 1 else ""
        if not train.any():
            latest = int(time[before].max())  # the first fold has an interaction before it, as all others do
            raise _error(
                f"{which}no interaction is in the window from {moment(first)} until {moment(until)}; the last one "
                f"before it is at {moment(latest)}, which a window of at least "
                f"{self._exact(-((latest - until) // ticks))} reaches",
                "window",
            )
        if not test.any():
            later = time[after]
            next_time = f"; the next one is at {moment(int(later.min()))}" if len(later) else ""
            raise _error(
                f"{which}no interaction is in the test period from {moment(cut)} until {moment(last)}{next_time}; make "
                f"every longer, or lower folds",
                "every",
            )
        short = " (before the data)" if first < low else ""
        over = f", the last interaction is at {moment(high)}" if last > high + 1 else ""
        notes = [
            f"train from {moment(first)}{short} until {moment(until)}, test from {moment(cut)} until "
            f"{moment(last)}{over}"
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

    def _check_unit(self, data: Interactions) -> None:
        second, text = data.timestamp, self._given_as_text
        assert second is not None
        if text is not None and int(np.abs(second).max()) >= NOT_SECONDS:
            raise _error(
                f"{text} is {getattr(self, text)!r}, and timestamps up to {int(second.max())} are not in seconds, "
                f"perhaps in milliseconds: give {text} as a number in their unit, or store seconds",
                text,
            )

    @property
    def _given_as_text(self) -> str | None:
        """The first parameter that is text, such as 7d; None: all lengths are numbers."""
        return next((name for name in _LENGTHS if isinstance(getattr(self, name), str)), None)

    def _text(self, amount: int, ticks: int) -> str:
        """Return a length as it is given: as text, rounded, or as a number in the unit of the timestamps."""
        return duration_text(amount / ticks) if self._given_as_text else number_text(amount, ticks)

    def _exact(self, amount: int) -> str:
        """Return a length in seconds to copy into the config."""
        return f"{amount}s" if self._given_as_text else str(amount)


def _error(text: str, parameter: str) -> DataError:
    return DataError(f"split temporal: {text}", parameter=parameter)


def _fitting(folds: int) -> str:
    return f"{folds} {'folds fit' if folds != 1 else 'fold fits'}" if folds else "not even one fits"
