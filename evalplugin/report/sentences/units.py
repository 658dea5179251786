"""Users, queries or other units behind the numbers: how many have values, and whom means and ranks are over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from evalplugin.base.numbers import count_range, number
from evalplugin.base.units import count_text
from evalplugin.comparison.compared import Cell
from evalplugin.comparison.comparison import Comparison

_COMPARED = "{nouns}: {counts} compared."
_COUNTED = "{nouns}: {counts} counted."
_COMPARED_SOME = "{nouns}: {counts} compared; {undefined} have no value of {metric}."
_COUNTED_SOME = "{nouns}: {counts} counted; {undefined} have no value of {metric}."
_OVER_ALL = "{metric} is one number over all {units.nouns}: it has no interval and no test."
_DESIGN_EFFECT = (
    "Design effect: {times} (the variance of a mean of {metric}, against that of independent {units.nouns})."
)
_MEAN_OVER_CLUSTERS = "Mean of {metric} if each {units.independent} counts once: {means}."

_RANKED_BY = "{users} of {all}, those with values of all models"
_RANKED_BY_SOME = "{users} of {all}, those with values of all ranked models"
_BASIS = "Means and ranks are over {basis}; without a value: {lacking}."
_NO_BASIS = "No {units.noun} has values of all models, so that none is ranked; without a value: {lacking}."
_NOT_RANKED = "Not ranked, with values of fewer than half as many {units.nouns} as others: {models}."


def counted_lines(comparison: Comparison, metric: str) -> Iterator[str]:
    """Yield lines on the numbers of users with a value of a metric, and on the clusters that they are in.

    Where the metric has pairs of models, the users of those are counted.
    """
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    units = comparison.contest.units
    # A model that predicts no ratings has no value for any user, and is no reason to count them as undefined.
    cells = [cell for cell in _cells(comparison, metric) if cell.users]
    if not cells:
        return
    if all(cell.summary is None for cell in cells):
        yield _OVER_ALL.format(metric=metric, units=units)
        return
    undefined = max(cell.undefined for cell in cells)
    counts = count_range([pair.paired.users for pair in pairs] or [cell.users for cell in cells])
    clusters = [cell.clusters for cell in cells if cell.clusters is not None]
    if clusters:
        counts += f" of {count_range(clusters)} {units.independents}"
    whole, some = (_COMPARED, _COMPARED_SOME) if pairs else (_COUNTED, _COUNTED_SOME)
    yield (some if undefined else whole).format(
        nouns=units.nouns.capitalize(), counts=counts, undefined=f"{undefined:,}", metric=metric
    )
    effects = [cell.design_effect for cell in cells if cell.clusters is not None]
    if texts := [f"{effect:.1f}" for effect in sorted(filter(math.isfinite, effects))]:
        times = texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"
        yield _DESIGN_EFFECT.format(times=times, metric=metric, units=units)
    means = [
        f"{row.model} {number(mean.mean)} ({number(mean.low)}–{number(mean.high)})"
        for row in comparison.scored
        if metric in row.cells and (mean := row.cells[metric].over_clusters) is not None
    ]
    if means:
        yield _MEAN_OVER_CLUSTERS.format(metric=metric, units=units, means=", ".join(means))


def shared_lines(comparison: Comparison, metrics: Sequence[str]) -> list[str]:
    """Return lines on the users that means and ranks are over, and on who lacks how many; empty where nobody does.

    ``metrics`` are canonical names; a line that is not about all of them begins with its own.
    """
    metrics_of: dict[str, list[str]] = {}
    for metric in metrics:
        for line in _shared_lines(comparison, metric):
            metrics_of.setdefault(line, []).append(metric)
    return [
        line if len(of) == len(metrics) else f"{', '.join(of)}: {line}" for line, of in metrics_of.items()
    ]


def ranking_basis(comparison: Comparison, metric: str) -> str | None:
    """Return the users that models are ranked by: ``180 of 300 questions, those with values of all models``.

    Empty where all models have values for the same users, None where no user has values of all.
    """
    cells = [cell for cell in _cells(comparison, metric) if cell.has]
    if not any(cell.lacks for cell in cells):
        return ""
    if not (users := max(cell.users for cell in cells)):
        return None
    template = _RANKED_BY if all(cell.users for cell in cells) else _RANKED_BY_SOME
    every = count_text(cells[0].has + cells[0].lacks, comparison.contest.units.noun)
    return template.format(users=f"{users:,}", all=every)


def _shared_lines(comparison: Comparison, metric: str) -> Iterator[str]:
    cells = {row.model: row.cells[metric] for row in comparison.scored if metric in row.cells}
    lacking = ", ".join(f"{model} {cell.lacks:,}" for model, cell in cells.items() if cell.has and cell.lacks)
    if not lacking:
        return
    units = comparison.contest.units
    if (basis := ranking_basis(comparison, metric)) is None:
        yield _NO_BASIS.format(units=units, lacking=lacking)
        return
    yield _BASIS.format(basis=basis, lacking=lacking)
    few = [f"{model} ({cell.has:,})" for model, cell in cells.items() if cell.has and not cell.users]
    if few:
        yield _NOT_RANKED.format(units=units, models=", ".join(few))


def _cells(comparison: Comparison, metric: str) -> list[Cell]:
    return [row.cells[metric] for row in comparison.scored if metric in row.cells]
