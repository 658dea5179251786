"""Importance of tuned parameters, by Optuna's PED-ANOVA."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evalplugin.config.tuning import Space
from evalplugin.execution.results import Tuning
from evalplugin.features.tuning.space import SearchSpace, quiet
from evalplugin.metrics import parse

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_LEAST = 20  # trials that importance takes
_TOP = 5  # trials at least that count as the best: fewer have too much in common by chance


def importance(tuning: Tuning) -> dict[str, float] | str:
    """Return the importance of each tuned parameter, by which the best trials differ from the rest, the largest first.

    The best are a tenth of the trials, and five at least. Trials that were dropped are not among them; trials that
    failed, and defaults outside of the space, do not count. With several folds, it is the mean over the folds.

    Returns:
        Shares that add up to 1; or the reason why there are none, in a few words.
    """
    if len(tuning.space) < 2:
        return "only one parameter is tuned"
    by_fold: dict[int, list[dict[str, Any]]] = {}
    for row in tuning.trials.to_pylist():
        by_fold.setdefault(row["fold"], []).append(row)
    shares: dict[str, float] = dict.fromkeys(tuning.space, 0.0)
    for rows in by_fold.values():
        of_fold = _of_fold(rows, tuning)
        if isinstance(of_fold, str):
            return of_fold
        for name, value in of_fold.items():
            shares[name] += value / len(by_fold)
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _of_fold(rows: list[dict[str, Any]], tuning: Tuning) -> dict[str, float] | str:
    # Steps do not matter here.
    spaces = {
        name: Space.model_validate(space).model_copy(update={"step": None})
        for name, space in tuning.space.items()
    }
    asked = SearchSpace(spaces)
    scored = [row for row in rows if row["value"] is not None]
    usable = [(row, told) for row in scored if (told := asked.told(_values(row, spaces))) is not None]
    if len(usable) < _LEAST:
        return f"not known: {len(usable)} trials count, and it takes {_LEAST}"
    quantile = max(0.1, _TOP / len(usable))
    done = sum(row["state"] == "done" for row, _ in usable)
    if done < math.ceil(quantile * len(usable)):
        return f"not known: only {done} of {len(usable)} trials were not dropped"
    return _shares(usable, parse(tuning.metric).direction, quantile)


def _values(row: Mapping[str, Any], spaces: Mapping[str, Space]) -> dict[str, Any]:
    """Return the parameters of a trial; those whose condition is not met are left out."""
    values = {name: row[f"params.{name}"] for name in spaces}
    for name, space in spaces.items():
        if space.choices is not None:  # the table has them as they are, or as text of JSON
            written = values[name]
            values[name] = next((c for c in space.choices if written in (c, json.dumps(c))), written)
    return {name: value for name, value in values.items() if value is not None}


def _shares(
    usable: list[tuple[dict[str, Any], tuple[dict[str, Any], dict[str, BaseDistribution]]]],
    direction: int,
    quantile: float,
) -> dict[str, float]:
    from optuna import create_study, create_trial
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    losses = [-direction * row["value"] for row, _ in usable]
    worst = max(losses) + 1.0
    with quiet():
        study = create_study()
        for (row, (params, distributions)), loss in zip(usable, losses, strict=True):
            value = loss if row["state"] == "done" else worst
            study.add_trial(create_trial(params=params, distributions=distributions, value=value))
        return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(target_quantile=quantile))
