"""Search spaces in the terms of Optuna: values that it suggests, and values that it is told."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
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

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """Return a value of each parameter, as Optuna suggests."""
        return {key: _suggest(space, trial, key) for key, space in self.spaces.items()}

    def defaults(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a model's parameters that are tuned."""
        return {key: parameter_at(params, key) for key in self.spaces}

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield the points of the space in order; of a range with infinitely many values, its ends alone."""
        for point in product(*map(_values, self.spaces.values())):
            yield dict(zip(self.spaces, point, strict=True))

    def told(
        self, values: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, optuna.distributions.BaseDistribution]] | None:
        """Return values as Optuna has them, and their distributions; None if a value is outside of its space."""
        if not all(self.spaces[key].holds(value) for key, value in values.items()):
            return None
        theirs = {key: _told(self.spaces[key], value) for key, value in values.items()}
        return theirs, {key: _distribution(self.spaces[key]) for key in values}


def _suggest(space: Space, trial: optuna.Trial, key: str) -> Any:
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


def _values(space: Space) -> Iterable[Any]:
    """Return the values of a space in order; of a range of floats without a step, its ends."""
    if (listed := space.listed()) is not None:
        return listed
    if space.integers is not None:
        return range(space.integers[0], space.integers[1] + 1)
    return dict.fromkeys(space.ends)


def _distribution(space: Space) -> optuna.distributions.BaseDistribution:
    if space.choices is not None:
        return optuna.distributions.CategoricalDistribution(list(range(len(space.choices))))
    if space.step is not None:
        return optuna.distributions.IntDistribution(0, space.n_steps - 1)
    if space.integers is not None:
        return optuna.distributions.IntDistribution(space.integers[0], space.integers[1], log=space.log)
    assert space.floats is not None
    return optuna.distributions.FloatDistribution(space.floats[0], space.floats[1], log=space.log)
