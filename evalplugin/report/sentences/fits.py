"""Sentences on the fits of models: folds, seeds, tuning and failures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from evalplugin.base.numbers import UNDEFINED, memory, number, percent, share, signed
from evalplugin.base.units import spoken_time
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.competition import facts_of

_COSTS = "Training and all lists: {costs}."
_COST = "{model} {time} and {memory}"
_COST_TIME = "{model} {time}"
_COST_RANGE = "training and all lists: {least} ({cheapest}) to {most} ({dearest})"
_TUNED = (
    "Tuned by {metric} within the train data, {split}; budget: {budget}. Optimism, validation against test: "
    "{models}."
)
_TUNED_EACH = (
    "Tuned by {metric} within the train data, {split}; budget: {budget} each. Optimism, validation against test: "
    "{models}."
)
_NOT_TUNED = "Not tuned: {models}."
_SEEDS = (
    "Fitted with {seeds} seeds: {models}. Means are over all of them; intervals and tests take in what other seeds "
    "give."
)
_ONE_SEED = "Fitted once, as no random numbers decide them, or always the same: {models}."
_SPREAD = "{metric} from seed to seed (standard deviation): {models}."
_SMALLER = "Smaller than what another seed gives ({level}, one fit of each): {pairs}."
_FOLDS = "{folds} folds: each {units.noun}'s scores are averaged before anything is compared."
_FOLDS_COLUMN = (
    "{folds} folds: each {units.noun}'s scores are averaged before anything is compared. The column: lowest to highest "
    "mean of a fold."
)
_FAILED = "{model} failed: {error}"


def seconds_taken(comparison: Comparison) -> dict[str, float]:
    """Return the seconds of fit and lists of each model of which they are known."""
    known = {row.model: facts_of(comparison.contest, row.model).costs for row in comparison.scored}
    return {
        model: total
        for model, costs in known.items()
        if costs is not None and math.isfinite(total := costs.fit_seconds + costs.recommend_seconds)
    }


def costs_of(comparison: Comparison, models: Iterable[str]) -> str:
    """Return the time and memory of fit and lists of some models; empty where they are not known."""
    taken = seconds_taken(comparison)
    costs = [_cost(comparison, model, taken[model]) for model in models if model in taken]
    return _COSTS.format(costs="; ".join(costs)) if costs else ""


def costs_line(comparison: Comparison) -> str:
    """Return the cheapest and the dearest model by the seconds of fit and lists; nothing where they are not known."""
    taken = seconds_taken(comparison)
    if len(taken) < 2:
        return ""
    cheapest, dearest = min(taken, key=taken.__getitem__), max(taken, key=taken.__getitem__)
    least, most = spoken_time(taken[cheapest]), spoken_time(taken[dearest])
    return _COST_RANGE.format(cheapest=cheapest, least=least, dearest=dearest, most=most)


def fit_lines(comparison: Comparison, *, has_folds: bool = False) -> Iterator[str]:
    """Yield lines on folds, seeds, tuning and failures; ``has_folds``: the table has a column of folds."""
    if comparison.n_folds > 1:
        template = _FOLDS_COLUMN if has_folds else _FOLDS
        yield template.format(folds=comparison.n_folds, units=comparison.contest.units)
    yield from seed_lines(comparison)
    yield from tuning_lines(comparison)
    yield from (_FAILED.format(model=row.model, error=row.error) for row in comparison.failed)


def tuning_lines(comparison: Comparison) -> list[str]:
    """Return lines on tuned models, with metric, split, budget and optimism; empty if no model was tuned."""
    tuned: dict[tuple[str, str, str], list[str]] = {}
    for row in comparison.scored:
        if (how := facts_of(comparison.contest, row.model).tuned) is not None:
            text = f"{row.model} {signed(how.optimism)}"
            tuned.setdefault((how.metric, how.split, how.budget), []).append(text)
    lines = [
        (_TUNED_EACH if len(models) > 1 else _TUNED).format(
            metric=metric, split=split, budget=budget, models=", ".join(models)
        )
        for (metric, split, budget), models in tuned.items()
    ]
    if tuned and (
        others := [
            row.model for row in comparison.scored if facts_of(comparison.contest, row.model).tuned is None
        ]
    ):
        lines.append(_NOT_TUNED.format(models=", ".join(others)))
    return lines


def seed_lines(comparison: Comparison) -> list[str]:
    """Return lines on models with several seeds, models fitted once and small differences; empty for one seed."""
    if comparison.n_seeds == 1:
        return []
    rows, metric = comparison.scored, comparison.contest.primary
    repeated = ", ".join(row.model for row in rows if row.seed_means)
    lines = [_SEEDS.format(seeds=comparison.n_seeds, models=repeated)]
    if once := ", ".join(row.model for row in rows if not row.seed_means):
        lines[0] += f" {_ONE_SEED.format(models=once)}"
    if spreads := ", ".join(filter(None, (_spread(row, metric) for row in rows))):
        lines.append(_SPREAD.format(metric=metric, models=spreads))
    small = ", ".join(
        f"{pair.model} against {pair.against} (±{number(pair.seed_range)})"
        for pair in comparison.pairs
        if pair.metric == metric and pair.is_within_seeds
    )
    if small:
        lines.append(_SMALLER.format(level=percent(comparison.level), pairs=small))
    return lines


def _spread(row: ComparedModel, metric: str) -> str:
    cell = row.cells.get(metric)
    if cell is None or cell.seeds is None:
        return ""
    spread = f"{row.model} {number(cell.seeds.sd)}"
    if not math.isfinite(cell.seed_share):
        return spread
    return f"{spread}, {share(cell.seed_share)} of the variance of its mean"


def _cost(comparison: Comparison, model: str, seconds: float) -> str:
    costs = facts_of(comparison.contest, model).costs
    shown = memory(None if costs is None else costs.peak_memory_mb)
    template = _COST_TIME if shown == UNDEFINED else _COST
    return template.format(model=model, time=spoken_time(seconds), memory=shown)
