"""The section ``tune``, and its checks, and those of search spaces, against models, splits and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.metadata import version
from operator import getitem
from typing import Any, Literal

from pydantic import Field, model_validator

from evalplugin.base.errors import KeyPath, ParameterError, Problem
from evalplugin.config.checked import ModelRecipe, Named
from evalplugin.config.checks import Checks
from evalplugin.config.components import InlineSpec, is_related, params_at
from evalplugin.config.new_checks import check_new
from evalplugin.config.schema import FeatureSection, ModelSpec
from evalplugin.config.sections import Closed
from evalplugin.config.spaces import Space
from evalplugin.data import SPLITS, Splitter
from evalplugin.metrics import MetricSpec, is_overall, parse
from evalplugin.models import MODELS

_NO_TEST = "none"  # the split whose test data is the train data


class Budget(Closed):
    """What each tuned model may spend on each fold, the same for all: a number of trials, seconds, or both."""

    trials: int | None = Field(
        default=None,
        ge=1,
        description="Trials, the defaults included; fewer if the space has no more points.",
        examples=[40],
    )
    seconds: float | None = Field(
        default=None,
        gt=0,
        description="Of fitting, recommending and scoring, all trials together. What has begun is finished.",
        examples=[600],
    )

    @model_validator(mode="after")
    def _not_empty(self) -> Budget:
        if self.trials is None and self.seconds is None:
            raise ValueError("needs trials, seconds, or both")
        return self


class Tune(Closed):
    """The tuning of the models that have a `tune` of their own, inside the train data of each fold."""

    split: InlineSpec | None = Field(
        default=None,
        description="Its first fold is the validation data; left out: as the data is split.",
        examples=[{"type": "last_n", "n": 2}],
    )
    metric: str | None = Field(
        default=None,
        description="One of `metrics`; left out: the primary one.",
        examples=["ndcg@10"],
    )
    budget: Budget = Field(
        default=Budget(trials=30),
        description="What each tuned model may spend on each fold.",
        examples=[{"trials": 40, "seconds": 600}],
    )
    prune: Literal["race", "none"] = Field(
        default="race",
        description="race: a trial is dropped that is worse than the best one beyond chance on a part of the users; "
        "none: every trial sees all users.",
        examples=["none"],
    )


@dataclass(frozen=True)
class TuningPlan:
    """How models are tuned: the same for all of them."""

    split: Named[Splitter] | None  # of the train data; None: the split of the data
    metric: MetricSpec
    budget: Budget  # of each model on each fold
    prune: Literal["race", "none"]

    def as_mapping(self) -> dict[str, Any]:
        """Return the plan as a config names it."""
        return {
            "split": None if self.split is None else self.split.as_mapping(),
            "metric": self.metric.name,
            "budget": self.budget.model_dump(exclude_none=True),
            "prune": self.prune,
        }

    def codes(self) -> Iterator[str]:
        """Yield the version of the sampler, and the versions and hash of the split's code."""
        from evalplugin.execution.store.versions import code_of  # sections are imported to check any config

        yield f"optuna {version('optuna')}"
        if self.split is not None:
            yield str(code_of(SPLITS.entry(self.split.type)))


def check_tuning(
    checks: Checks, models: Sequence[ModelRecipe], primary: MetricSpec | None
) -> TuningPlan | None:
    """Return how models are tuned, None without a tuned model; report problems of ``tune`` and of search spaces.

    ``models`` are those whose parameters are right; ``primary`` is the metric that ranks the models.
    """
    tune = checks.section("tune", Tune)
    tuned = [(path, spec) for path, spec in checks.parts("models", ModelSpec) if spec.tune]
    right = {model.path for model in models}
    for path, spec in tuned:
        if path in right:
            written = reduce(getitem, (*path, "tune"), checks.data)
            # Values of a list share mistakes: each is reported once.
            checks.extend(dict.fromkeys(_problems_of_spaces(spec, written)), path)
    if not checks.malformed & {"models", "tune"}:
        _check_section(checks, tune, [path for path, _ in tuned])
    if not tuned or "tune" in checks.malformed:
        return None
    tune = tune or Tune()
    split = None if tune.split is None else checks.component(("tune", "split"), tune.split, SPLITS)
    if split is not None and split.component.user_columns:
        text = "cluster is for intervals and tests, and trials are compared by their means: leave it out"
        checks.add(checks.nested(("tune", "split"), "cluster"), text)
    if split is not None:
        check_new(checks, [split], models, tuning=True)
    metric = _metric(checks, tune, primary)
    return None if metric is None else TuningPlan(split, metric, tune.budget, tune.prune)


def _check_section(checks: Checks, tune: Tune | None, tuned: Sequence[KeyPath]) -> None:
    if tune is not None and not tuned:
        checks.add(
            ("tune",), "no model is tuned: give one `tune: {parameter: values}`, or leave this section out"
        )
    if any(split.type == _NO_TEST for _, split in checks.parts("split", InlineSpec)):
        text = f"cannot be tuned on the split {_NO_TEST}, whose test data is the train data: the test would be seen"
        for path in tuned:
            checks.add((*path, "tune"), text)
    if tune is not None and tune.split is not None and tune.split.type == _NO_TEST:
        checks.add(("tune", "split"), f"{_NO_TEST} has no validation data apart from the train data")


def _metric(checks: Checks, tune: Tune, primary: MetricSpec | None) -> MetricSpec | None:
    """Return the metric to tune for; None without a metric, or with an unsuitable one."""
    metric, path = primary, ("tune", "metric")
    if tune.metric is not None:
        metric = checks.attempt(path, parse, tune.metric)
        if metric is not None and not checks.is_listed(metric, path):
            return None
    if metric is None:
        return None
    if not metric.direction:
        problem = "has no better direction, so that nothing can be tuned for it"
    elif tune.prune == "race" and is_overall(metric.metric):
        problem = "has one value for all users together, and a race compares users: set prune: none"
    else:
        return metric
    name = f"the primary metric, {metric.name}," if tune.metric is None else repr(tune.metric)
    checks.add(path, f"{name} {problem}")
    return None


def _problems_of_spaces(spec: ModelSpec, written: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of the search space of a model whose parameters are right; paths are below the model's.

    The model is created at each end of a range and with each value of a list, the other parameters at their defaults.
    ``written`` has the spaces as the config has them, which may be lists alone.
    """
    if spec.grid:
        yield Problem(
            ("tune",), "tune and grid of one model exclude each other: name the model twice, or keep one"
        )
        return
    for key, space in spec.tune.items():
        is_list = isinstance(written[key], list)
        for path, value in _values(space):
            yield from _refused(spec, key, ("tune", key, *path[is_list:]), value)


def _values(space: Space) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the values of a list or the ends of a range, each with its path below the space."""
    if space.choices is not None:
        yield from ((("choices", number), value) for number, value in enumerate(space.choices))
    else:
        kind = "int" if space.integers is not None else "float"
        yield from (((kind, number), value) for number, value in enumerate(space.ends))


def _refused(spec: ModelSpec, key: str, path: KeyPath, value: Any) -> Iterator[Problem]:
    try:
        MODELS.create(spec.type, params_at(spec.params, {key: value}))
    except ParameterError as error:
        for problem in error.problems:
            name = ".".join(map(str, problem.path))
            # What concerns several parameters may be right for other values of theirs: such a trial fails, if any.
            if is_related(key, name):
                yield Problem(("tune", key) if problem.at_key else path, problem.message, problem.at_key)


SECTIONS = (FeatureSection("tune", Tune, "scores"),)
CHECKS = {"tune": check_tuning}
