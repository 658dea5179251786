"""Values of policies as an assumption on propensities varies: no model runs again, lists are only scored again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evalplugin.base.arrays import Floats
from evalplugin.comparison.comparison import Comparison
from evalplugin.data import Interactions
from evalplugin.execution.runner import Job
from evalplugin.execution.tasks import TaskResult, score_state
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.moments import mean_of_defined

ETAS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
_TURNS = "The order of {a} and {b} turns at eta = {eta:.2g}."
_STAYS = "{a} stays ahead of {b} from eta = 0.5 to 2."


@dataclass(frozen=True)
class Sweep:
    """The values of models as propensities are the assumed ones to the power of ``etas``; 1: as assumed."""

    dataset: str
    split: str
    metric: str  # canonical name
    etas: tuple[float, ...]
    values: dict[str, tuple[float, ...]]  # by model, NaN where undefined
    sentence: str  # on the two best models whose values the log can tell; empty without them


def bent_propensities(log: Interactions, eta: float) -> Floats:
    """Return the propensities of a log to the power of eta: float64 (m,), above 0 and at most 1.

    Those of the items at a position become more equal below 1 and less above; their sum over the items stays 1, as far
    as the rows show it: the mean of ``p ** (eta - 1)`` over rows that are shown with probability p is the sum of
    ``p ** eta``.
    """
    assert log.propensity is not None and log.position is not None
    if eta == 1:
        return log.propensity
    _, place = np.unique(log.position, return_inverse=True)
    sums = np.bincount(place, weights=log.propensity ** (eta - 1)) / np.bincount(place)
    bent = log.propensity**eta / sums[place]
    return np.clip(bent, np.finfo(np.float64).tiny, 1.0)


def sweep_of(comparison: Comparison, metric: str, jobs: Sequence[Job]) -> Sweep:
    """Return the sweep of a comparison's models by a value.

    Args:
        comparison: The comparison.
        metric: Canonical name of the value.
        jobs: Those of its models, with their results.
    """
    spec = comparison.contest.spec(metric)
    values = {
        job.model.name: tuple(_mean(job, spec, eta) for eta in ETAS)
        for job in jobs
        if job.done and all(isinstance(result, TaskResult) for result in job.done.values())
    }
    best = comparison.best.get(metric)
    pair = () if best is None else told_pair([m for m in best.compared if m in values], best.doubts)
    sentence = order_sentence(pair[0], pair[1], *(values[model] for model in pair)) if pair else ""
    return Sweep(comparison.contest.dataset, comparison.contest.split, metric, ETAS, values, sentence)


def told_pair(models: Sequence[str], doubts: Sequence[str]) -> tuple[str, ...]:
    """Return the two best of models, the best one first, whose values are not in ``doubts``; empty without two."""
    told = [model for model in models if model not in doubts]
    return tuple(told[:2]) if len(told) > 1 else ()


def order_sentence(leader: str, rival: str, of_leader: Sequence[float], of_rival: Sequence[float]) -> str:
    """Return whether the order of two models stays the same over ``ETAS``, or the eta nearest to 1 where it turns."""
    gaps = np.subtract(of_leader, of_rival)
    before = np.flatnonzero(gaps[:-1] * gaps[1:] < 0)
    if not len(before):
        return _STAYS.format(a=leader, b=rival)
    etas, gap, later = np.array(ETAS), gaps[before], gaps[before + 1]
    turns = etas[before] + (etas[before + 1] - etas[before]) * gap / (gap - later)  # on a straight line
    return _TURNS.format(a=leader, b=rival, eta=turns[np.argmin(np.abs(np.log(turns)))])


def _mean(job: Job, spec: MetricSpec, eta: float) -> float:
    """Return the mean of a value over the decisions of all folds, by the lists of the first seed."""
    of_folds = []
    for number, task in enumerate(job.tasks[: job.folds]):
        result, test = job.done[number], task.split.test
        assert isinstance(result, TaskResult)
        split = replace(task.split, test=replace(test, propensity=bent_propensities(test, eta)))
        state = score_state(replace(task, split=split, metrics=(spec,)), result.lists, curves=False)
        of_folds.append(state.scores().means[spec.name])
    return mean_of_defined(np.array(of_folds))
