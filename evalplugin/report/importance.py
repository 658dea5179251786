"""Importance of tuned parameters, by Optuna's PED-ANOVA."""

from __future__ import annotations

import json
import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evalplugin.execution.results import Tuning
from evalplugin.metrics import parse

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

__all__ = ["importance"]

_LEAST = 20  # trials that importance takes
_TOP = 5  # trials at least that count as the best: fewer have too much in common by chance


def importance(tuning: Tuning) -> dict[str, float] | str:
    """Return the share of each tuned parameter in what sets the best trials apart, the largest first.

    The best are a tenth of the trials, and five at least. Trials that were dropped are not among them; trials that
    failed, and defaults outside of the space, do not count. With several folds, it is the mean over the folds.

    Returns:
        Shares that add up to 1; or why they are not known, in a few words.
    """
    if len(tuning.space) < 2:
        return "only one parameter is tuned"
    by_fold: dict[int, list[dict[str, Any]]] = {}
    for row in tuning.trials.to_pylist():
        by_fold.setdefault(row["fold"], []).append(row)
    shares: dict[str, float] = dict.fromkeys(tuning.space, 0.0)
    for rows in by_fold.values():
        found = _of_fold(rows, tuning)
        if isinstance(found, str):
            return found
        for name, value in found.items():
            shares[name] += value / len(by_fold)
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _of_fold(rows: list[dict[str, Any]], tuning: Tuning) -> dict[str, float] | str:
    usable = [(row, params) for row in rows if (params := _params(row, tuning.space)) is not None]
    if len(usable) < _LEAST:
        return f"not known: {len(usable)} trials count, and it takes {_LEAST}"
    quantile = max(0.1, _TOP / len(usable))
    done = sum(row["state"] == "done" for row, _ in usable)
    if done < math.ceil(quantile * len(usable)):
        return f"not known: only {done} of {len(usable)} trials were not dropped"
    space = {name: _distribution(one) for name, one in tuning.space.items()}
    return _shares(_trials(usable, space, parse(tuning.metric).direction), quantile)


def _params(row: Mapping[str, Any], space: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the parameters of a trial, categories by their position; None: the trial does not count.

    Parameters whose condition is not met are left out.
    """
    if row["value"] is None:
        return None
    params: dict[str, Any] = {}
    for name, one in space.items():
        value = row[f"params.{name}"]
        if value is None:
            continue
        match one:
            case {"int": [low, high]} | {"float": [low, high]}:
                if not low <= value <= high:
                    return None
            case {"choices": choices} | choices:
                # As it is, or text of JSON.
                value = next((i for i, c in enumerate(choices) if value in (c, json.dumps(c))), None)
                if value is None:
                    return None
        params[name] = value
    return params


def _trials(
    usable: list[tuple[dict[str, Any], dict[str, Any]]], space: Mapping[str, BaseDistribution], direction: int
) -> Iterator[FrozenTrial]:
    from optuna.trial import create_trial

    losses = [-direction * row["value"] for row, _ in usable]
    worst = max(losses) + 1.0
    for (row, params), loss in zip(usable, losses, strict=True):
        distributions = {name: space[name] for name in params}
        value = loss if row["state"] == "done" else worst
        yield create_trial(params=params, distributions=distributions, value=value)


def _shares(trials: Iterator[FrozenTrial], quantile: float) -> dict[str, float]:
    from optuna import create_study
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    with _silent():
        study = create_study()
        study.add_trials(trials)
        return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(target_quantile=quantile))


def _distribution(space: Any) -> BaseDistribution:
    """Return the space of a parameter as Optuna has it; without steps, which do not matter here."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    match space:
        case {"int": [low, high]}:
            return IntDistribution(low, high, log=space.get("log", False))
        case {"float": [low, high]}:
            return FloatDistribution(low, high, log=space.get("log", False))
        case {"choices": choices} | choices:
            return CategoricalDistribution(range(len(choices)))
    raise AssertionError(space)


@contextmanager
def _silent() -> Iterator[None]:
    """Silence what Optuna says of a new study and of few trials."""
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
