"""The summary of the studies of one model: its table of trials, its best parameters, and notes on them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evalplugin.base.numbers import share
from evalplugin.base.units import count_text
from evalplugin.config.tuning import Space, value_text, values_text
from evalplugin.execution.isolation import last_line
from evalplugin.execution.results import Costs, Tuning
from evalplugin.features.tuning.study import Study, Trial, TrialOutcome
from evalplugin.metrics.moments import mean_of_defined

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["tuning_of"]


def tuning_of(studies: Sequence[Study]) -> Tuning:
    """Return how the parameters of a model were found; ``studies`` are those of its folds, each with a best trial."""
    best = [(study, trial, outcome) for study in studies for trial, outcome in _best(study)]
    return Tuning(
        metric=studies[0].plan.metric.name,
        best=tuple(trial.values for _, trial, _ in best),
        validation=mean_of_defined(np.array([o.value for _, _, o in best], dtype=np.float64)),
        trials=_table(studies),
        settings=studies[0].settings,
        space={key: space.as_mapping() for key, space in studies[0].space.spaces.items()},
        notes=tuple(_notes(studies)),
    )


def _best(study: Study) -> Iterator[tuple[Trial, TrialOutcome]]:
    if (trial := study.best) is not None and trial.outcome is not None:
        yield trial, trial.outcome


def _table(studies: Sequence[Study]) -> pa.Table:
    import pyarrow as pa

    rows = [(study, trial, trial.outcome) for study in studies for trial in study.trials]
    told = [(study, trial, outcome) for study, trial, outcome in rows if outcome is not None]
    columns = {
        "fold": pa.array([study.fold + 1 for study, _, _ in told], pa.int32()),
        "trial": pa.array([trial.number for _, trial, _ in told], pa.int32()),
        "state": pa.array([outcome.state for _, _, outcome in told], pa.string()),
        "value": pa.array([outcome.value for _, _, outcome in told], pa.float64()),
        "users": pa.array([outcome.users for _, _, outcome in told], pa.int64()),
    }
    for name in Costs.WORK:
        columns[name] = pa.array([getattr(outcome.costs, name) for _, _, outcome in told], pa.float64())
    columns["cached"] = pa.array([outcome.cached for _, _, outcome in told], pa.bool_())
    columns["best"] = pa.array([trial is study.best for study, trial, _ in told], pa.bool_())
    errors = [outcome.failure for _, _, outcome in told]
    columns["error"] = pa.array([f and last_line(f.error) for f in errors], pa.string())
    for key in studies[0].space.spaces:
        columns[f"params.{key}"] = _column([trial.values.get(key) for _, trial, _ in told])
    return pa.table(columns)


def _column(values: Sequence[Any]) -> pa.Array:
    """Return values as integers, floats or text; as text of JSON where they are neither, or of several kinds."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int}:
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array(values, pa.float64())
    if kinds <= {str}:
        return pa.array(values, pa.string())
    return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())


def _notes(studies: Sequence[Study]) -> Iterator[str]:
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
        for trial, _ in _best(study):
            yield from (f"{prefix}{note}" for note in _notes_on_best(study, trial))
        if study.is_exhausted or study.only_fails:
            why = (
                "all points of the search space have been tried"
                if study.is_exhausted
                else "the last ones failed"
            )
            yield f"{prefix}the study ended after {count_text(len(study.trials), 'trial')}: {why}"
    found = [trial.values for study in studies for trial, _ in _best(study)]
    if any(dict(values) != dict(found[0]) for values in found):
        chosen = "; ".join(f"fold {number + 1}: {values_text(values)}" for number, values in enumerate(found))
        yield f"folds chose different parameters ({chosen}); those of the last fold are shown and registered"
    outcomes = [trial.outcome for study in studies for trial in study.trials if trial.outcome is not None]
    failed = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    if failed:
        reason, _ = Counter(last_line(failure.error) for failure in failed).most_common(1)[0]
        yield f"{len(failed)} of {count_text(len(outcomes), 'trial')} failed, most often by: {reason}"
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
    low, high = space.ends
    return f"{value_text(low)} to {value_text(high)}" + (
        f" by {value_text(space.step)}" if space.step is not None else ""
    )


def _notes_on_race(studies: Sequence[Study]) -> Iterator[str]:
    trials = dropped = lists = saved = 0
    for study in studies:
        outcomes = [trial.outcome for trial in study.trials if trial.outcome is not None]
        trials += len(outcomes)
        dropped += sum(outcome.state == "dropped" for outcome in outcomes)
        lists += study.n_users * len(outcomes)
        saved += sum(study.n_users - outcome.users for outcome in outcomes if outcome.state == "dropped")
    if dropped:
        yield (
            f"race: {dropped} of {count_text(trials, 'trial')} {'were' if dropped > 1 else 'was'} dropped early, which "
            f"saved {share(saved / lists)} of the users' lists"
        )
