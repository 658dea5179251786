"""Search spaces in the terms of Optuna: values that it suggests, and values that it is told."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from evalplugin.base.libraries import optuna
from evalplugin.config.components import parameter_at
from evalplugin.config.spaces import Space, is_same


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Optuna's log, and warnings such as those on experimental features, inside."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)


@dataclass(frozen=True)
class SearchSpace:
    """The search space of a model: a space for each tuned parameter, under dotted names.

    In Optuna, a value of a list is its position, and one of a range with a step the number of its step.
    """

    spaces: Mapping[str, Space]

    @property
    def is_conditional(self) -> bool:
        """Whether some parameters are tuned only with certain values of others."""
        return any(space.when for space in self.spaces.values())

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """Return a value of each parameter whose condition is met, as Optuna suggests."""
        return self._chosen(lambda key: self._suggest(trial, key))

    def defaults(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a model's parameters that are tuned and whose condition is met."""
        return self._chosen(partial(parameter_at, params))

    def _chosen(self, value_of: Callable[[str], Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key in self._order():
            if self._is_met(key, values):
                values[key] = value_of(key)
        return {key: values[key] for key in self.spaces if key in values}

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield the points of the space in order, without end if a range without a step has infinitely many values."""
        return self._points(self._order(), {})

    def _points(self, order: Sequence[str], values: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not order:
            yield values
        elif not self._is_met(order[0], values):
            yield from self._points(order[1:], values)
        else:
            for value in _values(self.spaces[order[0]]):
                yield from self._points(order[1:], {**values, order[0]: value})

    def told(
        self, values: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, optuna.distributions.BaseDistribution]] | None:
        """Return values as Optuna has them, and their distributions; None if a value is outside of its space."""
        if not all(self.spaces[key].holds(value) for key, value in values.items()):
            return None
        theirs = {key: _told(self.spaces[key], value) for key, value in values.items()}
        return theirs, {key: _distribution(self.spaces[key]) for key in values}

    def _order(self) -> list[str]:
        """Return the names, each behind those that its condition depends on."""
        order: list[str] = []
        while len(order) < len(self.spaces):
            order += [
                key
                for key, space in self.spaces.items()
                if key not in order and set(space.when) <= set(order)
            ]
        return order

    def _is_met(self, key: str, values: Mapping[str, Any]) -> bool:
        return all(
            other in values and any(is_same(values[other], value) for value in allowed)
            for other, allowed in self.spaces[key].conditions.items()
        )

    def _suggest(self, trial: optuna.Trial, key: str) -> Any:
        space = self.spaces[key]
        if space.choices is not None:
            return space.choices[trial.suggest_categorical(key, list(range(len(space.choices))))]
        if space.step is not None:
            return space.at_step(trial.suggest_int(key, 0, space.n_steps - 1))
        if space.integers is not None:
            return trial.suggest_int(key, *space.integers, log=space.log)
        assert space.floats is not None
        return trial.suggest_float(key, *space.floats, log=space.log)


def _told(space: Space, value: Any) -> Any:
    """Return a value of a space as Optuna has it."""
    listed = space.listed()
    return value if listed is None else next(n for n, other in enumerate(listed) if is_same(value, other))


def _values(space: Space) -> Iterator[Any]:
    """Yield the values of a space; of a range without a step its middle, the middles of its halves, and so on."""
    if (listed := space.listed()) is not None:
        yield from listed
    elif space.integers is not None:
        yield from range(space.integers[0], space.integers[1] + 1)
    elif space.ends[0] == space.ends[1]:
        yield space.ends[0]
    else:
        low, high = map(math.log, space.ends) if space.log else space.ends
        for parts in (2**level for level in count(1)):
            values = (low + (high - low) * odd / parts for odd in range(1, parts, 2))
            yield from map(math.exp, values) if space.log else values


def _distribution(space: Space) -> optuna.distributions.BaseDistribution:
    if space.choices is not None:
        return optuna.distributions.CategoricalDistribution(list(range(len(space.choices))))
    if space.step is not None:
        return optuna.distributions.IntDistribution(0, space.n_steps - 1)
    if space.integers is not None:
        return optuna.distributions.IntDistribution(space.integers[0], space.integers[1], log=space.log)
    assert space.floats is not None
    return optuna.distributions.FloatDistribution(space.floats[0], space.floats[1], log=space.log)
