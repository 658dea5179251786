"""Agreement of runs on data, rules and clusters, and the metrics that they have in common.

The truths of runs are compared by content: the order of rows and times do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa
from evalplugin.base.units import plural
from evalplugin.comparison.compared import ComparedModel
from evalplugin.data.background import FOLD
from evalplugin.data.queries import Unit
from evalplugin.lists.scoring import need_catalogue
from evalplugin.metrics import definitions_hash
from evalplugin.report.competition import AS_LISTED, Rules
from evalplugin.tracking.read.logged import LoggedRun

_TRUTH = ["user", "item", "rating", FOLD]


def _train_data(run: LoggedRun) -> str:
    return (run.rules.train_digest or "none")[:12]


# What must agree: of all runs, and of those whose lists were made by a bake-off.
_RULES: dict[str, Callable[[LoggedRun], Any]] = {
    "folds": lambda run: run.folds,
    "relevance threshold": lambda run: run.rules.threshold,
    "units": lambda run: run.tag("unit") or "user",
}
_RULES_OF_LISTS: dict[str, Callable[[LoggedRun], Any]] = {
    "train data": _train_data,
    "length of the lists": lambda run: run.rules.n,
    "candidates": lambda run: run.rules.candidates,
    "pool of candidates": lambda run: run.rules.pool,
    "order of equal scores": lambda run: run.rules.ties or AS_LISTED,
    "users without train data": lambda run: run.rules.cold_users or AS_LISTED,
}


@dataclass(frozen=True, eq=False)
class Agreed:
    """Models that can be compared by these metrics, and notes on omissions."""

    models: tuple[ComparedModel, ...]
    metrics: tuple[str, ...]
    rules: Rules
    notes: tuple[str, ...] = ()


def agree(runs: Sequence[LoggedRun]) -> Agreed:
    """Return the results of runs on the same data under the same rules, by the metrics that all have.

    These are the metrics of the same name and definition. Lists from elsewhere have no candidates, train data and
    length that must agree: metrics that depend on these are left out where they differ. Of runs with other users, such
    as lists for some of them, the metrics over all lists and the curves are left out. Notes name what is left out.

    Raises:
        DataError: Runs that do not agree; the message has what differs and both values.
    """
    made = [run for run in runs if not run.is_from_elsewhere]
    first = (made or runs)[0]
    models = [run.result for run in runs]
    scored = [run for run, model in zip(runs, models, strict=True) if model.scores is not None]
    same = same_truths(runs)
    other_rules = [
        *_differing(_RULES, runs),
        # Tables are compared on the units that both have.
        *_differing(
            {"test data": lambda run: same[run.rules.test_digest][:12]}, [r for r in runs if not r.given]
        ),
        *_differing(_RULES_OF_LISTS, made),
        *_differing({"ids of users": _kind_of_ids}, scored),
        *_differing({"clusters": _clusters}, [r for r in scored if r.given or not r.is_from_elsewhere]),
        *_differing_clusters(models),
    ]
    if other_rules:
        lines = "\n  ".join(["these runs cannot be compared:", *other_rules])
        raise DataError(
            f"{lines}\nrun the models, or score the lists, again under the same rules, or take one bake-off with "
            f"--bakeoff ID"
        )
    models = _with_clusters(models)
    every = dict.fromkeys(m for run in runs for m in run.definitions)
    common = [m for m in every if len({run.definitions.get(m) for run in runs}) == 1]
    notes = []
    if left_out := [m for m in every if m not in common]:
        notes.append(
            f"metrics in common: {len(common)} of {len(every)}; left out, as not all runs have them by the same "
            f"definition: {', '.join(left_out)}"
        )
    reasons = _dependent(runs)
    others = _common_users(scored)
    if others is not None:
        notes.append(others)
        of_users = {m for model in models if model.scores is not None for m in model.scores.metrics}
        overall = [m for m in common if m not in of_users]
        reasons = {f"they are one number over all {plural(_unit(runs))} of a run": overall, **reasons}
    for reason, metrics in reasons.items():
        if dropped := [m for m in common if m in metrics]:
            notes.append(f"left out, as {reason}: {', '.join(dropped)}")
        common = [m for m in common if m not in metrics]
    if not common:
        raise DataError("; ".join(["the runs have no metric in common", *notes]))
    if not notes:
        return Agreed(tuple(models), tuple(first.definitions), first.rules)
    rules = replace(first.rules, metrics_hash=definitions_hash(first.spec(m) for m in common))
    families = {first.spec(m).at(None).name for m in common}
    if others is not None:
        models, families = [replace(m, fold_means=()) for m in models], set()
    return Agreed(tuple(_only(m, common, families) for m in models), tuple(common), rules, tuple(notes))


def _with_clusters(models: Sequence[ComparedModel]) -> list[ComparedModel]:
    """Return models with the clusters that some of them have, such as lists from elsewhere do not have."""
    clusters = next((m.scores.units.column for m in models if m.scores and m.scores.units.column), None)
    if clusters is None:
        return [*models]
    scored = ((m, m.scores) for m in models)
    return [
        m if own is None else replace(m, scores=replace(own, units=replace(own.units, clusters=clusters)))
        for m, own in scored
    ]


def _kind_of_ids(run: LoggedRun) -> str:
    assert run.result.scores is not None
    return "text" if run.result.scores.users.dtype == object else "integers"


def _clusters(run: LoggedRun) -> str:
    scores = run.result.scores
    return "none" if scores is None or scores.units.column is None else scores.units.column.name


def _differing_clusters(models: Sequence[ComparedModel]) -> Iterator[str]:
    """Yield a line on a unit that is in other clusters in another table; nothing where there is none."""
    clusterings = [m.scores.units.column for m in models if m.scores and m.scores.units.column]
    for other in clusterings[1:]:
        first = clusterings[0]
        units = np.intersect1d(first.users, other.users)
        labels, other_labels = (np.array(c.labels, dtype=object)[c.of(units)] for c in (first, other))
        if (differs := labels != other_labels).any():
            row = int(np.argmax(differs))
            yield f"clusters: {units[row]!s} is in {labels[row]!r} and in {other_labels[row]!r}"
            return


def _dependent(runs: Sequence[LoggedRun]) -> dict[str, list[str]]:
    """Return the shared metrics that depend on a difference between lists from elsewhere and other runs, by reason.

    Such a difference is in the train data, and so the catalogue, or in the length of the lists.
    """
    specs = [runs[0].spec(m) for m in runs[0].definitions if all(m in run.definitions for run in runs)]
    dependent: dict[str, list[str]] = {}
    if len(set(map(_train_data, runs))) > 1:
        dependent["they depend on the train data, which differs"] = [
            spec.name for spec in specs if need_catalogue([spec])
        ]
    if len(lengths := {run.rules.n for run in runs}) > 1:
        dependent["they depend on the length of the lists, which differs"] = [
            spec.name for spec in specs if spec.k is None or spec.k > min(lengths)
        ]
    return dependent


def _differing(
    values_of: Mapping[str, Callable[[LoggedRun], Any]], runs: Sequence[LoggedRun]
) -> Iterator[str]:
    """Yield a line for each value in which runs differ: its name, and each value with the runs that have it."""
    for name, value_of in values_of.items():
        if len({value_of(run) for run in runs}) > 1:
            yield f"{name}: {_by_value(value_of, runs)}"


def _by_value(value_of: Callable[[LoggedRun], Any], runs: Sequence[LoggedRun]) -> str:
    having: dict[Any, list[LoggedRun]] = {}
    for run in runs:
        having.setdefault(value_of(run), []).append(run)
    return "; ".join(f"{value} in {_names(some, runs)}" for value, some in having.items())


def _names(some: Sequence[LoggedRun], every: Sequence[LoggedRun]) -> str:
    """Return the names of some of the runs, by bake-off where there are several of them."""
    if len({run.bakeoff for run in every}) == 1:
        return ", ".join(run.model for run in some)
    names: dict[str, list[str]] = {}
    for run in some:
        names.setdefault(run.bakeoff, []).append(run.model)
    return " and ".join(f"{', '.join(models)} of bake-off {bakeoff}" for bakeoff, models in names.items())


def _common_users(runs: Sequence[LoggedRun]) -> str | None:
    """Return a sentence on the users that runs with scores have in common; None where all have the same.

    Models of tables may lack some units: the comparison counts these.
    """
    users = [run.result.scores.users for run in runs if run.result.scores is not None]
    if all(run.given for run in runs) or all(np.array_equal(ids, users[0]) for ids in users):
        return None
    common, counts = reduce(np.intersect1d, users), _by_value(_n_users, runs)
    if not len(common):
        raise DataError(f"the runs have no {_unit(runs)} in common: {counts}")
    return f"{plural(_unit(runs))} in common: {len(common):,} of {counts}"


def _only(model: ComparedModel, metrics: Sequence[str], families: Collection[str]) -> ComparedModel:
    """Return a model with the scores by some metrics, and the curves of some families, alone."""
    if (scores := model.scores) is None:
        return model
    names = tuple(m for m in metrics if m in scores.metrics)
    only = replace(
        scores,
        values=scores.values[:, [scores.metrics.index(m) for m in names]],
        metrics=names,
        overall={m: value for m, value in scores.overall.items() if m in metrics},
        at_k={family: curve for family, curve in scores.at_k.items() if family in families},
        pr_curve=scores.pr_curve if families else {},
    )
    return replace(model, scores=only)


def _unit(runs: Sequence[LoggedRun]) -> Unit:
    """Return the noun of the units in runs; ``user`` where runs differ."""
    units: set[Unit] = {run.result.scores.units.noun for run in runs if run.result.scores is not None}
    return units.pop() if len(units) == 1 else "user"


def _n_users(run: LoggedRun) -> str:
    assert run.result.scores is not None
    return f"{len(run.result.scores.users):,}"


def same_truths(runs: Sequence[LoggedRun]) -> dict[str, str]:
    """Return the digest of each run's test data, mapped to the first digest of test data with the same content.

    A digest depends on the whole catalogue and the order of rows, so that a file of the truth has another one. The
    truth is read only where digests differ.
    """
    by_digest: dict[str, list[LoggedRun]] = {}
    for run in runs:
        by_digest.setdefault(run.rules.test_digest, []).append(run)
    same = {digest: digest for digest in by_digest}
    if len(same) == 1:
        return same
    truths: dict[str, pa.Table] = {}
    for digest, having in by_digest.items():
        if (truth := _truth(having)) is not None:
            same[digest] = next((d for d, other in truths.items() if _are_equal(other, truth)), digest)
            truths.setdefault(same[digest], truth)
    return same


def _truth(runs: Sequence[LoggedRun]) -> pa.Table | None:
    """Return user, item, rating and fold of runs on the same test data; None where no run has logged all of it."""
    for run in runs:
        table = run.table("truth")
        if table is not None and FOLD not in table.column_names and run.folds == 1:
            table = table.append_column(FOLD, pa.repeat(pa.scalar(1, pa.int32()), len(table)))
        if table is not None and FOLD in table.column_names:
            return table.select(_TRUTH)
    return None


def _are_equal(first: pa.Table, second: pa.Table) -> bool:
    order = [(name, "ascending") for name in (FOLD, "user", "item")]
    return bool(first.sort_by(order).equals(second.sort_by(order)))
