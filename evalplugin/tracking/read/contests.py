"""Contests, read back from the runs of an MLflow store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa, pc
from evalplugin.base.places import DataSplit
from evalplugin.comparison.contest import Contest, with_choice
from evalplugin.data.background import Background
from evalplugin.metrics.given import with_all_bounds
from evalplugin.report.competition import Competition, ModelFacts, Rules, competition_of
from evalplugin.segments import HistoryLengths, Segmentation
from evalplugin.tracking.connection import existing_store
from evalplugin.tracking.read.agreement import agree, same_truths
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import find_runs


def read_contests(
    tracking_uri: str | None = None,
    *,
    bakeoff: str | None = None,
    runs: Sequence[str] = (),
    experiment: str | None = None,
    baseline: str | None = None,
    primary: str | None = None,
    dataset: str | None = None,
    split: str | None = None,
) -> list[Contest]:
    """Return the contests of runs in a store: one for each dataset and split, with notes on the selection.

    Lists, counts of items, truth, history and titles, which only a page shows, are not read: see ``with_lists``.

    Args:
        tracking_uri: The store; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.
        bakeoff: A bake-off's id, or ``latest``: the one that was finished last, which is also the default.
        runs: Ids or names of runs, or names of models: the latest run of each name.
        experiment: The experiment that is searched; by itself: the latest run of each model in it.
        baseline: The model that the others are compared with; None: the runs' own, if they have one.
        primary: The metric that ranks; None: the runs' own.
        dataset, split: Names of the only ones; None: all.

    Raises:
        DataError: Nothing is there by that name, fewer than two models, or runs that cannot be compared.
        TrackingError: The store cannot be reached, or a run lacks logged files or values.
    """
    with existing_store(tracking_uri, "read the runs") as client:
        selected = find_runs(client, bakeoff=bakeoff, runs=runs, experiment=experiment)
        contests, notes = [], [*selected.notes]
        groups = _same_data(selected.runs, named=bool(runs))
        named = {*runs} | ({baseline} if baseline else set())
        for group in _asked(groups, named, dataset, split, notes):
            if len(group) < 2:
                notes.append(f"left out: {group[0].model} is the only model on {group[0].data_split}")
                continue
            contests.append(_contest(selected.name, group, baseline=baseline, primary=primary))
        if not contests:
            raise DataError(f"a comparison takes two models on the same data: {'; '.join(notes)}")
    return [replace(contest, notes=(*notes, *contest.notes)) for contest in contests]


def with_lists(contest: Contest, tracking_uri: str | None = None) -> Contest:
    """Return a contest read from a store, with the models' lists, counts of items, truth, history and titles.

    Raises:
        TrackingError: The store cannot be reached.
    """
    if (competition := competition_of(contest)) is None:  # a table has none of these
        return contest
    facts: dict[str, ModelFacts] = {}
    background: Background | None = None
    with existing_store(tracking_uri, "read the lists") as client:
        for model in contest.models:
            assert model.run_id is not None
            run = LoggedRun(client, client.get_run(model.run_id))
            if background is None or not len(background.history):  # lists from elsewhere have none
                background = run.background or background
            own = competition.facts[model.model]
            lists = None if (table := run.table("top_n")) is None else partial(_first_places, table)
            facts[model.model] = replace(own, lists=lists, items=run.table("per_item"))
    return replace(competition, facts=facts, background=background)


def _first_places(table: pa.Table, k: int | None) -> pa.Table:
    return table if k is None else table.filter(pc.less_equal(table["rank"], k))


def _same_data(runs: Sequence[LoggedRun], *, named: bool) -> list[list[LoggedRun]]:
    """Return the runs by dataset and split; bake-offs that have other names for the same data are one group.

    Lists from elsewhere that were scored by other metrics, and tables of other units, stay by themselves, unless the
    runs were ``named`` one by one.
    """
    by_name: dict[DataSplit, list[LoggedRun]] = {}
    for run in runs:
        by_name.setdefault(run.data_split, []).append(run)
    same = same_truths(runs) if len(by_name) > 1 else {run.rules.test_digest: "" for run in runs}
    groups: list[list[LoggedRun]] = []
    for runs_of_name in by_name.values():
        bakeoffs = {run.bakeoff for run in runs_of_name}
        for group in groups:
            both = [*group, *runs_of_name]
            if bakeoffs & {run.bakeoff for run in group}:
                continue
            are_alike = _on_same_data(group, runs_of_name, same) and (named or _under_same_rules(both))
            if are_alike or (named and all(run.given for run in both)):
                group += runs_of_name
                break
        else:
            groups.append(runs_of_name)
    return groups


def _asked(
    groups: Sequence[list[LoggedRun]],
    names: set[str],
    dataset: str | None,
    split: str | None,
    notes: list[str],
) -> list[list[LoggedRun]]:
    """Return the groups of a dataset and split, of these those that have all named runs, if there is any.

    None: of any dataset, of any split. ``notes`` are added on groups that lack a named run.
    """
    places = [_first(group).data_split for group in groups]
    lacking = []
    for group, place in zip(groups, places, strict=True):
        if place == DataSplit(dataset or place.dataset, split or place.split):
            called = {name for run in group for name in (run.id, run.name, run.model)}
            lacking.append((group, place, sorted(names - called - {*_labels(group)[0]})))
    if groups and not lacking:
        asked = ", ".join(filter(None, (dataset, split)))
        raise DataError(f"nothing was compared on {asked}; there is: {'; '.join(map(str, places))}")
    if all(missing for _, _, missing in lacking):
        return [group for group, _, _ in lacking]
    notes += [f"left out: {place} has no {', '.join(missing)}" for _, place, missing in lacking if missing]
    return [group for group, _, missing in lacking if not missing]


def _first(runs: Sequence[LoggedRun]) -> LoggedRun:
    """Return the first run of a bake-off's model, whose names of data are those of all; else the first."""
    return next((run for run in runs if not run.is_from_elsewhere), runs[0])


def _under_same_rules(runs: Sequence[LoggedRun]) -> bool:
    """Return whether lists from elsewhere were scored by the metrics and the threshold of the others."""
    rules = {(run.rules.threshold, run.rules.metrics_hash) for run in runs}
    return len(rules) == 1 or not any(run.is_from_elsewhere for run in runs)


def _on_same_data(first: Sequence[LoggedRun], second: Sequence[LoggedRun], same: Mapping[str, str]) -> bool:
    """Return whether runs are on the same data; lists from elsewhere need only the same truth."""
    both = first, second
    truths, other_truths = ({(same[run.rules.test_digest], run.folds) for run in runs} for runs in both)
    trains, other_trains = (
        {run.rules.train_digest for run in runs if not run.is_from_elsewhere} for runs in both
    )
    return truths == other_truths and (trains == other_trains or not (trains and other_trains))


def _contest(name: str, runs: Sequence[LoggedRun], *, baseline: str | None, primary: str | None) -> Contest:
    labels, notes = _labels(runs)
    agreed = agree(runs)
    notes += [*agreed.notes, *(note for run in runs for note in run.notes)]
    names = dict.fromkeys(str(run.data_split) for run in runs)
    first = _first(runs)
    if len(names) > 1:
        notes.append(f"data under several names: {'; '.join(names)}")
    numbers = Contest(
        name=name,
        dataset=first.tag("dataset"),
        split=first.tag("split"),
        models=tuple(replace(model, model=label) for model, label in zip(agreed.models, labels, strict=True)),
        metrics=agreed.metrics,
        baseline=None,
        seed=first.seed,
        digest=agreed.rules.test_digest,
        segments=_segments(runs, notes),
        given=with_all_bounds([run.given for run in runs]),
        assumed=first.param("eval.assumed"),
    )
    contest = numbers if all(run.given for run in runs) else _competition(numbers, runs, agreed.rules)
    contest = with_choice(
        contest,
        baseline=baseline or _baseline(runs, labels, notes),
        primary=primary or _primary(runs, agreed.metrics, notes),
    )
    return replace(contest, notes=tuple(dict.fromkeys(notes)))


def _competition(contest: Contest, runs: Sequence[LoggedRun], rules: Rules) -> Competition:
    """Return a contest of recommenders with what their runs say beside the scores."""
    return Competition(
        **{field.name: getattr(contest, field.name) for field in fields(contest)},
        rules=rules,
        facts={model.model: run.facts for model, run in zip(contest.models, runs, strict=True)},
        histories=_histories(runs),
        findings=tuple(dict.fromkeys(finding for run in runs for finding in run.findings)),
        warnings=tuple(dict.fromkeys(warning for run in runs for warning in run.warnings)),
    )


def _labels(runs: Sequence[LoggedRun]) -> tuple[list[str], list[str]]:
    """Return a different name for each run, its model's where it can be, and notes on the others."""
    models = [run.model for run in runs]
    twice = dict.fromkeys(model for model in models if models.count(model) > 1)
    if not twice:
        return models, []
    options: tuple[Callable[[LoggedRun], str], ...] = (
        lambda run: run.name,
        lambda run: f"{run.model} · {run.bakeoff}",
        lambda run: f"{run.model} · {run.id}",
    )
    for option in options:
        labels = [option(run) if run.model in twice else run.model for run in runs]
        if len(set(labels)) == len(labels):
            break
    notes = []
    for model in twice:
        same = [label for label, run in zip(labels, runs, strict=True) if run.model == model]
        notes.append(f"{len(same)} runs are of {model}: they are called {', '.join(same)}")
    return labels, notes


def _baseline(runs: Sequence[LoggedRun], labels: Sequence[str], notes: list[str]) -> str | None:
    """Return the label of the bake-offs' baseline; None unless exactly one of the runs is a baseline."""
    named = list(dict.fromkeys(filter(None, (run.param("eval.baseline") for run in runs))))
    labels_of_named = [label for label, run in zip(labels, runs, strict=True) if run.model in named]
    if len(labels_of_named) == 1:
        return labels_of_named[0]
    if named:
        why = (
            f"there are several: {', '.join(labels_of_named)}"
            if labels_of_named
            else f"{' and '.join(named)} is not among the runs"
        )
        notes.append(f"no model is the baseline ({why}); --baseline MODEL chooses one")
    return None


def _primary(runs: Sequence[LoggedRun], metrics: Sequence[str], notes: list[str]) -> str:
    """Return the metric that ranked the models of the bake-offs; of several, the first among ``metrics``."""
    named = list(dict.fromkeys(run.primary for run in runs))
    primary = next((name for name in named if name in metrics), metrics[0])
    if named != [primary]:
        notes.append(
            f"ranked by {primary}; the bake-offs were by {' and '.join(named)}; --primary METRIC chooses"
        )
    return primary


def _histories(runs: Sequence[LoggedRun]) -> HistoryLengths | None:
    """Return the lengths of users' histories, from the latest run that has them."""
    latest_first = sorted(runs, key=lambda run: run.started, reverse=True)
    return next((run.groups.histories for run in latest_first if run.groups.histories is not None), None)


def _segments(runs: Sequence[LoggedRun], notes: list[str]) -> tuple[Segmentation, ...]:
    """Return the groups of users, from one run of each bake-off; of segmentations with one name, the latest."""
    latest: dict[str, LoggedRun] = {}
    for run in sorted(runs, key=lambda run: run.started, reverse=True):
        if run.bakeoff not in latest and run.groups.segments:  # a run that failed has none
            latest[run.bakeoff] = run
    segments: dict[str, Segmentation] = {}
    for run in latest.values():
        for segmentation in run.groups.segments:
            first = segments.setdefault(segmentation.name, segmentation)
            if not (
                first.labels == segmentation.labels
                and np.array_equal(first.users, segmentation.users)
                and np.array_equal(first.group, segmentation.group)
            ):
                notes.append(f"groups by {first.name}: the bake-offs differ, the latest one's are shown")
    return tuple(segments.values())
