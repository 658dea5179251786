"""Checks of the results: a leading popularity, best parameters at an edge, too few users, a group that loses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.base.numbers import about, number, p_equals, signed
from evalplugin.base.units import count_text
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.comparison import compare
from evalplugin.comparison.contest import Contest, with_choice
from evalplugin.comparison.statistics.clusters import independent_units
from evalplugin.comparison.statistics.pairs import paired_difference, standard_deviation
from evalplugin.comparison.statistics.power import detectable_gain, users_needed, users_of_units
from evalplugin.config.spaces import Space, values_text
from evalplugin.features.checks.base import Found, SplitResults, result_check
from evalplugin.features.words import CHAMPION
from evalplugin.metrics import parse
from evalplugin.report.competition import facts_of

_BASELINES = ("random", "popularity", "logging-policy")  # types that learn no taste
_LEAST_VALUES = 3  # of two values, each is at an end


@result_check(
    "EV103",
    title="popularity leads every learned model",
    rule="Found where `popularity` has a better mean by the primary metric than every other model but `random` and "
    "`logging-policy`, unless a learned model leads among the users with train data, or no user has any.",
    why="Nothing personal was shown to help: the learned models are wrong for the data or set wrongly, or the test "
    "asks what is popular (a short time, one interaction a user, only hits).",
    source="Cremonesi et al., RecSys 2010; Ji et al., SIGIR 2020.",
    remedy="Tune the learned models; look at `novelty`, `coverage` and groups of users by popularity; ask whether "
    "the split tests tastes. Where popularity is hard to beat, that is a result.",
)
def _popularity_leads(results: SplitResults) -> Iterator[Found]:
    ranked = [row for row in results.comparison.models if row.rank is not None]
    types = {row.model: facts_of(results.comparison.contest, row.model).type for row in ranked}
    popular = [row for row in ranked if types[row.model] == "popularity"]
    learned = [row for row in ranked if types[row.model] not in _BASELINES]
    primary = results.comparison.contest.primary
    if not popular or not learned:
        return
    best, second = popular[0], learned[0]
    if best.cells[primary].mean == second.cells[primary].mean or ranked.index(best) > ranked.index(second):
        return
    known = results.comparison.best_with_history(primary)
    if results.comparison.is_of_newcomers(primary) or (
        known and known.leader in {row.model for row in learned}
    ):
        return  # the verdict says it
    yield Found(
        f"{best.model} leads {'all ' if len(learned) > 1 else ''}{count_text(len(learned), 'learned model')}: "
        f"{number(best.cells[primary].mean)} {primary} against {number(second.cells[primary].mean)} of {second.model}: "
        f"nothing personal was shown to help; tune them, and ask whether the test is one of taste"
    )


@result_check(
    "EV104",
    title="the best parameter is at the edge of its range",
    rule="Found for each parameter of a `tune` or a `grid` whose best value is the lowest or the highest of its "
    "range or of three numbers at least; in a range of fractions, within 2 % of its end. Of a `tune`, the best trial "
    "on any fold counts; of a `grid`, the best point by the primary metric.",
    why="A wider range may hold a better value: the model is compared below what it can do.",
    source="Rendle et al. 2019, arXiv:1905.01395.",
    remedy="Widen the range at that end and run again. Where the end is one of nature (a share of 0 or 1), ignore it "
    "(`checks.ignore`).",
)
def _at_edge(results: SplitResults) -> Iterator[Found]:
    spaces = {model.name: model.space for model in results.config.models if model.space}
    for model in results.done:
        if model.tuning is None or model.model not in spaces:
            continue
        best = model.tuning.best
        for key, space in spaces[model.model].items():
            at_end = [values[key] for values in best if _is_at_end(space, values[key])]
            if at_end:
                where = f" (on {len(at_end)} of {len(best)} folds)" if len(best) > 1 else ""
                ends = space.ends if space.choices is None else _ends(space.choices)
                yield _edge(model.model, {key: at_end[-1]}, ends, where)
    yield from _grid_edges(results)


def _grid_edges(results: SplitResults) -> Iterator[Found]:
    ranks = {row.model: i for i, row in enumerate(results.comparison.models) if row.rank is not None}
    for spec in results.config.spec.models:
        points = [(name, values) for name, values in spec.points() if name in ranks]
        if not spec.grid or not points:
            continue
        name, values = min(points, key=lambda point: ranks[point[0]])
        for key, choices in spec.grid.items():
            if values[key] in (ends := _ends(choices)):
                yield _edge(name, {key: values[key]}, ends)


def _is_at_end(space: Space, value: Any) -> bool:
    return space.is_at_end(value) if space.choices is None else value in _ends(space.choices)


def _ends(choices: Sequence[Any]) -> tuple[float, ...]:
    """Return the lowest and the highest of some numbers; an empty tuple for few values or other ones."""
    are_numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in choices)
    return (min(choices), max(choices)) if are_numbers and len(choices) >= _LEAST_VALUES else ()


def _edge(model: str, value: Mapping[str, Any], ends: tuple[float, ...], where: str = "") -> Found:
    low, high = ends
    return Found(
        f"{model}: the best {values_text(value)} is at an edge of its range, {low:g} to {high:g}{where}: a wider one "
        f"may hold a better value",
        model,
    )


@result_check(
    "EV108",
    title="too few users for min_gain",
    rule="Found where the gate asks for a `min_gain` above 0, and the gain that a one-sided test at its confidence "
    "(corrected for the number of challengers) finds 4 times in 5 is larger than that for every challenger; not "
    "after a promotion.",
    why="A model that is better by what you ask for would hardly ever be promoted.",
    source="Sakai, SIGIR Forum 2014.",
    remedy="Test more users: more of each user's data, several folds, a longer time. Or ask for a gain that these "
    "users can show.",
)
def _too_few_users(results: SplitResults) -> Iterator[Found]:
    gate, contest, champion = results.config.section("gate"), results.comparison.contest, _champion(results)
    if gate is None or champion is None or gate.least_gain.value <= 0 or results.promoted:
        return
    metric = contest.primary if gate.metric is None else parse(gate.metric).name
    challengers = [
        row
        for row in results.comparison.scored
        if row.scores is not None
        and row is not champion
        and (gate.challengers is None or row.model in gate.challengers)
    ]
    gain = gate.least_gain.beside(abs(champion.cells[metric].mean))
    level = 1 - (1 - gate.confidence) / max(1, len(challengers))
    powers = [_power(contest, champion, row, metric, gain, level) for row in challengers]
    known = [power for power in powers if power is not None]
    if not known:
        return
    detectable, users, needed, name = min(known)
    units = contest.units.nouns
    if detectable > gain:
        yield Found(
            f"gate.min_gain is {number(gain)} {metric}, and {users:,} {units} are too few to find a true gain below "
            f"{number(detectable)} in 4 of 5 bake-offs ({name} against {champion.model}): a true gain of "
            f"{number(gain)} takes {about(needed - users)} more {units}"
        )


def _champion(results: SplitResults) -> ComparedModel | None:
    """Return the champion if a gate decides on this dataset and split: a model with scores, or else the baseline."""
    gate, contest = results.config.section("gate"), results.comparison.contest
    if gate is None or gate.dataset not in (None, contest.dataset) or gate.split not in (None, contest.split):
        return None
    rows = {row.model: row for row in results.comparison.scored if row.scores is not None}
    named = [CHAMPION, gate.champion if isinstance(gate.champion, str) else None, contest.baseline]
    return next((rows[name] for name in named if name in rows), None)


def _power(
    contest: Contest,
    champion: ComparedModel,
    challenger: ComparedModel,
    metric: str,
    gain: float,
    level: float,
) -> tuple[float, int, int, str] | None:
    """Return the detectable gain, the users, the users needed, the challenger; None where it has no spread."""
    assert champion.scores is not None and challenger.scores is not None
    if metric not in champion.scores.metrics or metric not in challenger.scores.metrics:
        return None
    values = contest.values([challenger, champion], metric)
    both = np.asarray(~np.isnan(values).any(axis=1))
    difference = paired_difference(*values[both].T)
    gains, _ = independent_units(difference, contest.units.only(both).codes)
    if len(gains) < 2:
        return None
    sd, users = standard_deviation(gains), len(difference)
    try:
        detectable = detectable_gain(sd, len(gains), level=level, one_sided=True)
        needed = users_needed(sd, gain, level=level, one_sided=True)
        return detectable, users, users_of_units(needed, users, len(gains)), challenger.model
    except DataError:  # no spread: the models are equal
        return None


@result_check(
    "EV122",
    title="a few large clusters decide the means",
    rule="Found where scores are in clusters, such as the queries of sessions, whose effective number, (sum n)^2 / "
    "sum n^2 over the numbers n of each cluster's scores, is below 100 and below half of their number.",
    why="Where large clusters are served better or worse than small ones, 95 % intervals of means held in as few as "
    "54 % of simulated bake-offs (from 100 on, in 93 % or more), and tests at 5 % erred in up to 18 % "
    "(experiments/statistics, unequal_clusters.md).",
    source="Carter et al., Review of Economics and Statistics 2017.",
    remedy="Test more sessions or visitors. Look at the mean over clusters. Find out whether the largest are people: "
    "robots and shared accounts have no taste.",
)
def _few_clusters(results: SplitResults) -> Iterator[Found]:
    if text := results.comparison.contest.few_clusters:
        yield Found(text)


@result_check(
    "EV119",
    title="the leader is worse for a group",
    rule="Found where in a group of users the leader by the primary metric has a worse mean than the gate's "
    "champion, or the baseline where there is no gate, by the paired permutation test at 5 %, corrected for all "
    "models and groups of the segment (Holm) and for the number of segments (Bonferroni). Segments that are made "
    "from held-out items, such as `popularity`, are left out.",
    why="The mean over all users hides who pays for it: the leader may serve newcomers worse than before.",
    source="Ekstrand et al., FAT* 2018.",
    remedy="Look at the group on the page and by `evalplugin compare --segment`. Serve it by the other model, or let "
    "a gate refuse the leader: `guardrails: {segments: {activity: {margin: 2 %}}}`.",
)
def _loses_in_group(results: SplitResults) -> Iterator[Found]:
    comparison, champion = results.comparison, _champion(results)
    contest, best = comparison.contest, comparison.best.get(comparison.contest.primary)
    now = contest.baseline if champion is None else champion.model
    segments = [s.name for s in contest.segments if not s.from_truth]
    if best is None or now in (None, best.leader) or not segments:
        return
    if now != contest.baseline:
        primary = replace(contest, metrics=(contest.primary,))
        comparison = compare(with_choice(primary, baseline=now), level=comparison.level)
    allowed = (1 - comparison.level) / len(segments)
    for segment in segments:
        worse = [
            (cell.label, cell.difference)
            for cell in comparison.segments
            if (cell.segment, cell.metric, cell.model) == (segment, contest.primary, best.leader)
            and cell.difference is not None
            and cell.difference.mark == "-"
            and cell.difference.p_holm <= allowed
        ]
        if worse:
            named = "; ".join(
                f"{label}: {signed(pair.paired.interval.mean)} {contest.primary} over {pair.paired.users:,} "
                f"{contest.units.nouns} ({p_equals(pair.p_holm, 'Holm')})"
                for label, pair in worse
            )
            yield Found(
                f"{best.leader} leads, and is worse than {now} for "
                f"{count_text(len(worse), 'group')} of {segment}: {named}",
                best.leader,
            )
