"""The summary of one model's studies: trials, best parameters, notes, and the importance of parameters."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evalplugin.base.libraries import optuna, pa
from evalplugin.base.numbers import share
from evalplugin.base.units import count_text, plural
from evalplugin.config.spaces import Space, value_text, values_text
from evalplugin.execution.isolation import last_line
from evalplugin.execution.results import Costs, Tuning
from evalplugin.features.tuning.space import SearchSpace, quiet
from evalplugin.features.tuning.study import Study, Trial
from evalplugin.metrics import parse
from evalplugin.metrics.moments import mean_of_defined

_LEAST = 20  # trials that importance takes
_TOP = 5  # trials at least that count as the best: fewer have too much in common by chance


def tuning_of(studies: Sequence[Study]) -> Tuning:
    """Return the summary of a model's studies: one for each fold, each with a best trial."""
    best = [trial for study in studies if (trial := study.best) is not None]
    return Tuning(
        metric=studies[0].plan.metric.name,
        best=tuple(trial.values for trial in best),
        validation=mean_of_defined(np.array([trial.value for trial in best])),
        trials=_table(studies),
        settings=studies[0].settings,
        space={key: space.as_mapping() for key, space in studies[0].space.spaces.items()},
        notes=tuple(_notes(studies, [trial.values for trial in best])),
    )


def _table(studies: Sequence[Study]) -> pa.Table:
    trials = [(study, trial) for study in studies for trial in study.told]
    failures = [trial.failure for _, trial in trials]
    columns = {
        "fold": pa.array([study.fold + 1 for study, _ in trials], pa.int32()),
        "trial": pa.array([trial.number for _, trial in trials], pa.int32()),
        "state": pa.array([trial.state for _, trial in trials], pa.string()),
        "value": pa.array([None if t.state == "failed" else t.value for _, t in trials], pa.float64()),
        "users": pa.array([trial.users for _, trial in trials], pa.int64()),
        **{name: pa.array([getattr(t.costs, name) for _, t in trials], pa.float64()) for name in Costs.WORK},
        "cached": pa.array([trial.cached for _, trial in trials], pa.bool_()),
        "best": pa.array([trial is study.best for study, trial in trials], pa.bool_()),
        "error": pa.array([failure and last_line(failure.error) for failure in failures], pa.string()),
    }
    for key in studies[0].space.spaces:
        columns[f"params.{key}"] = _column([trial.values[key] for _, trial in trials])
    return pa.table(columns)


def _column(values: Sequence[Any]) -> pa.Array:
    """Return values as integers, floats or text; as text of JSON where they are neither, or of several kinds."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int}:
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array(values, pa.float64())
    if kinds <= {str}:
        return pa.array(values, pa.string())
    return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())


def _notes(studies: Sequence[Study], best: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    outside = {
        key: value
        for key, value in studies[0].defaults.items()
        if not studies[0].space.spaces[key].holds(value)
    }
    if outside:
        allowed = "; ".join(_allowed(studies[0].space.spaces[key]) for key in outside)
        yield (
            f"the defaults are outside of the search space ({values_text(outside)}, allowed: {allowed}), and are the "
            f"first trial all the same"
        )
    several = len(studies) > 1
    for study in studies:
        prefix = f"fold {study.fold + 1}: " if several else ""
        if (trial := study.best) is not None:
            yield from (f"{prefix}{note}" for note in _notes_on_best(study, trial))
        if study.is_exhausted or study.only_fails:
            tried = "all points of the search space have been tried"
            why = tried if study.is_exhausted else "the last ones failed"
            yield f"{prefix}the study ended after {count_text(len(study.trials), 'trial')}: {why}"
    if any(dict(values) != dict(best[0]) for values in best):
        chosen = "; ".join(f"fold {number}: {values_text(values)}" for number, values in enumerate(best, 1))
        yield f"folds chose different parameters ({chosen}); those of the last fold are shown and registered"
    told = [trial for study in studies for trial in study.told]
    failed = [trial.failure for trial in told if trial.failure is not None]
    if failed:
        reason, _ = Counter(last_line(failure.error) for failure in failed).most_common(1)[0]
        yield f"{len(failed)} of {count_text(len(told), 'trial')} failed, most often by: {reason}"
    yield from _notes_on_race(studies)


def _notes_on_best(study: Study, trial: Trial) -> Iterator[str]:
    if trial.number == 0 and len(study.trials) > 1:
        yield "no trial was better than the defaults on validation data"
    for key, value in trial.values.items():
        if study.space.spaces[key].is_at_end(value):
            low, high = map(value_text, study.space.spaces[key].ends)
            yield (
                f"the best {key}, {value_text(value)}, is at an end of its range, {low} to {high}: a wider range may "
                f"hold a better one"
            )


def _allowed(space: Space) -> str:
    if space.choices is not None:
        return ", ".join(map(value_text, space.choices))
    low, high = map(value_text, space.ends)
    return f"{low} to {high}" if space.step is None else f"{low} to {high} by {value_text(space.step)}"


def _notes_on_race(studies: Sequence[Study]) -> Iterator[str]:
    trials = dropped = lists = saved = 0
    for study in studies:
        unseen = [study.n_users - trial.users for trial in study.told if trial.state == "dropped"]
        trials += len(study.told)
        dropped += len(unseen)
        lists += study.n_users * len(study.told)
        saved += sum(unseen)
    if dropped:
        yield (
            f"race: {dropped} of {count_text(trials, 'trial')} {'were' if dropped > 1 else 'was'} dropped early, which "
            f"saved {share(saved / lists)} of the {plural(studies[0].base.split.unit)}' lists"
        )


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
    usable = [
        (row, in_optuna) for row in scored if (in_optuna := asked.told(_values(row, spaces))) is not None
    ]
    if len(usable) < _LEAST:
        return f"not known: {len(usable)} trials count, and it takes {_LEAST}"
    quantile = max(0.1, _TOP / len(usable))
    done = sum(row["state"] == "done" for row, _ in usable)
    if done < math.ceil(quantile * len(usable)):
        return f"not known: only {done} of {len(usable)} trials were not dropped"
    return _shares(usable, parse(tuning.metric).direction, quantile)


def _values(row: Mapping[str, Any], spaces: Mapping[str, Space]) -> dict[str, Any]:
    """Return the parameters of a trial; those that are null are left out."""
    values = {name: row[f"params.{name}"] for name in spaces}
    for name, space in spaces.items():
        if space.choices is not None:  # the table has them as they are, or as text of JSON
            written = values[name]
            values[name] = next((c for c in space.choices if written in (c, json.dumps(c))), written)
    return {name: value for name, value in values.items() if value is not None}


def _shares(
    usable: list[
        tuple[dict[str, Any], tuple[dict[str, Any], dict[str, optuna.distributions.BaseDistribution]]]
    ],
    direction: int,
    quantile: float,
) -> dict[str, float]:
    losses = [-direction * row["value"] for row, _ in usable]
    worst = max(losses) + 1.0
    with quiet():
        study = optuna.create_study()
        for (row, (params, distributions)), loss in zip(usable, losses, strict=True):
            value = loss if row["state"] == "done" else worst
            study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=value))
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=quantile)
        return optuna.importance.get_param_importances(study, evaluator=evaluator)
