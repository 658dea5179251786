"""Checks of search spaces and of ``tune:`` against the models, the splits and the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalplugin.base.errors import EvalpluginError, KeyPath, ParameterError, Problem, did_you_mean
from evalplugin.config.components import InlineSpec
from evalplugin.config.grid import params_at
from evalplugin.config.names import unlisted_metric
from evalplugin.config.schema import ModelSpec
from evalplugin.config.tuning import Space, Tune
from evalplugin.metrics import MetricSpec, is_overall, parse
from evalplugin.models import MODELS

__all__ = ["chosen_metric", "problems_of_section", "problems_of_spaces"]

_NO_TEST = "none"  # the split whose test data is the train data


def problems_of_spaces(spec: ModelSpec, written: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with the search space of a model whose parameters are right; paths are below the model's.

    The model is created at each end of a range and with each value of a list, the others at their defaults. ``written``
    has the spaces as the config has them, which may be lists alone.
    """
    if spec.grid:
        yield Problem(
            ("tune",), "tune and grid of one model exclude each other: name the model twice, or keep one"
        )
        return
    conditions = [*_conditions(spec.tune)]
    yield from conditions
    if conditions:
        return
    for key, space in spec.tune.items():
        is_list = isinstance(written[key], list)
        for path, value in _values(space):
            yield from _refused(spec, key, ("tune", key, *path[is_list:]), value)


def _conditions(spaces: Mapping[str, Space]) -> Iterator[Problem]:
    for key, space in spaces.items():
        for other, allowed in space.when.items():
            path = ("tune", key, "when", other)
            if other not in spaces:
                near = did_you_mean(other, list(spaces), noun="tuned")
                yield Problem(path, f"{other!r} is not tuned{near}", at_key=True)
                continue
            values = allowed if isinstance(allowed, list) else [allowed]
            if not values:
                yield Problem(path, "names no value")
            for value in values:
                if not spaces[other].holds(value):
                    yield Problem(
                        path, f"{value!r} is no value of {other}, so that {key} would never be tuned"
                    )
        if key in _needed(key, spaces):
            yield Problem(("tune", key, "when"), f"depends on {key} itself: conditions must not form a cycle")


def _needed(key: str, spaces: Mapping[str, Space]) -> set[str]:
    """Return the parameters that the condition of one depends on, directly or indirectly."""
    found: set[str] = set()
    pending = [*spaces[key].when]
    while pending:
        other = pending.pop()
        if other not in found and other in spaces:
            found.add(other)
            pending += spaces[other].when
    return found


def _values(space: Space) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the values of a list or the ends of a range, each with its path below the space."""
    if space.choices is not None:
        yield from ((("choices", number), value) for number, value in enumerate(space.choices))
    else:
        kind = "int" if space.integers is not None else "float"
        yield from (((kind, number), value) for number, value in enumerate(space.ends))


def _refused(spec: ModelSpec, key: str, path: KeyPath, value: Any) -> Iterator[Problem]:
    chosen = {**_met(key, spec.tune), key: value}
    try:
        MODELS.create(spec.type, params_at(spec.params, chosen))
    except ParameterError as error:
        for problem in error.problems:
            name = ".".join(map(str, problem.path))
            # What concerns several parameters may be right for other values of theirs: such a trial fails, if any.
            if name and (key == name or name.startswith(f"{key}.") or key.startswith(f"{name}.")):
                yield Problem(("tune", key) if problem.at_key else path, problem.message, problem.at_key)


def _met(key: str, spaces: Mapping[str, Space]) -> dict[str, Any]:
    """Return values with which the condition of a parameter is met."""
    values: dict[str, Any] = {}
    for other, allowed in spaces[key].when.items():
        values |= {**_met(other, spaces), other: allowed[0] if isinstance(allowed, list) else allowed}
    return values


def chosen_metric(
    tune: Tune, metrics: Sequence[MetricSpec], primary: MetricSpec | None
) -> tuple[MetricSpec | None, list[Problem]]:
    """Return the metric to tune for, None if there is none, and what is wrong with it."""
    path: KeyPath = ("tune", "metric")
    if tune.metric is None:
        metric, name = primary, "" if primary is None else f"the primary metric, {primary.name}, "
    else:
        name = f"{tune.metric!r} "
        try:
            metric = parse(tune.metric)
        except EvalpluginError as error:
            return None, [Problem(path, str(error))]
        if problems := [*unlisted_metric(metric, metrics, path)]:
            return None, problems
    if metric is None:
        return None, []
    if not metric.direction:
        return None, [Problem(path, f"{name}has no better direction, so that nothing can be tuned for it")]
    if tune.prune == "race" and is_overall(metric.metric):
        text = f"{name}has one value for all users together, and a race compares users: set prune: none"
        return None, [Problem(path, text)]
    return metric, []


def problems_of_section(
    tune: Tune | None, tuned: Sequence[KeyPath], splits: Sequence[InlineSpec]
) -> Iterator[Problem]:
    """Yield what is wrong with the section beside its metric; ``tuned`` are the paths of the models that are tuned."""
    if tune is not None and not tuned:
        yield Problem(
            ("tune",), "no model is tuned: give one `tune: {parameter: values}`, or leave this section out"
        )
    if tuned and any(split.type == _NO_TEST for split in splits):
        text = f"cannot be tuned on the split {_NO_TEST}, whose test data is the train data: the test would be seen"
        yield from (Problem((*path, "tune"), text) for path in tuned)
    if tune is not None and tune.split is not None and tune.split.type == _NO_TEST:
        yield Problem(("tune", "split"), f"{_NO_TEST} has no validation data apart from the train data")
