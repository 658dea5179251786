"""Agreement of runs on data, rules, metrics and users, and the results that they have in common.

The truths of runs are compared by content: the order of rows and times do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa, pd
from evalplugin.base.units import plural
from evalplugin.comparison.compared import ComparedModel
from evalplugin.data.background import FOLD
from evalplugin.data.queries import Unit
from evalplugin.lists.scoring import need_catalogue
from evalplugin.metrics import definitions_hash
from evalplugin.metrics.scores import PerUserScores
from evalplugin.report.competition import AS_LISTED, Rules
from evalplugin.tracking.read.logged import LoggedRun

_Users: TypeAlias = npt.NDArray[np.generic]

_LENGTH = "length of the lists"
_TRUTH = ["user", "item", "rating", FOLD]
# What must agree: of all runs, and of those whose lists were made by a bake-off.
_RULES: dict[str, Callable[[LoggedRun], Any]] = {
    "folds": lambda run: run.folds,
    "relevance threshold": lambda run: run.rules.threshold,
    "units": lambda run: run.tag("unit") or "user",
}
_RULES_OF_LISTS: dict[str, Callable[[LoggedRun], Any]] = {
    _LENGTH: lambda run: run.rules.n,
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


def agree(runs: Sequence[LoggedRun], *, intersect: bool) -> Agreed:
    """Return the comparable results: all where the runs agree, else, with ``intersect``, those they have in common.

    In common are the metrics of the same name and definition, and the users. Where the test data differ, only users
    whose truth is the same in all runs are in common. Runs under other rules have nothing in common.

    Lists from elsewhere have no candidates, train data and length that must agree: metrics that depend on these are
    then not in common.

    Raises:
        DataError: Runs that do not agree; the message has what differs and both values.
    """
    made = [run for run in runs if not run.is_from_elsewhere]
    first = (made or runs)[0]
    models = [run.result for run in runs]
    scored = [run for run, model in zip(runs, models, strict=True) if model.scores is not None]
    users = [model.scores.users for model in models if model.scores is not None]
    same = same_truths(runs)
    dependent = _dependent(runs)
    other_rules = [
        *_differing(_RULES, runs),
        *_differing(_RULES_OF_LISTS, made),
        *_differing({"ids of users": _kind_of_ids}, scored),
        *_differing({"clusters": _clusters}, [r for r in scored if r.given or not r.is_from_elsewhere]),
        *_differing_clusters(models),
    ]
    models = _with_clusters(models)
    every = dict.fromkeys(m for run in runs for m in run.definitions)
    differences = [
        *_differing({"test data": lambda run: same[run.rules.test_digest][:12]}, runs),
        *_differing({"train data": _train_data}, runs if "train data" in dependent else made),
        *_differing({_LENGTH: _RULES_OF_LISTS[_LENGTH]}, runs if _LENGTH in dependent else []),
    ]
    of_scores = [
        line for m in every for line in _differing({f"definition of {m}": partial(_definition, m)}, runs)
    ]
    same_users = all(np.array_equal(ids, users[0]) for ids in users)
    # Two models of a table are compared on the units that both have.
    if not (same_users or all(run.given for run in runs)):
        of_scores += _differing({plural(_unit(runs)): _users}, scored)
    if other_rules or (not intersect and (differences or of_scores)):
        lines = "\n  ".join(["these runs cannot be compared:", *other_rules, *differences, *of_scores])
        remedy = (
            "run the models, or score the lists, again under the same rules"
            if other_rules
            else "take what they have in common with --intersect (in Python: intersect=True)"
        )
        raise DataError(f"{lines}\n{remedy}, or take one bake-off with --bakeoff ID")
    if not (differences or of_scores):
        return Agreed(tuple(models), tuple(first.definitions), first.rules)
    common = [m for m in every if len({run.definitions.get(m) for run in runs}) == 1]
    notes = []
    if left_out := [m for m in every if m not in common]:
        notes.append(
            f"metrics in common: {len(common)} of {len(every)}; left out, as not all runs have them by the same "
            f"definition: {', '.join(left_out)}"
        )
    in_common, note = _common_users(scored, users, same)
    notes += [f"differs: {line}" for line in differences] + note
    reasons = {
        f"they depend on the {reason}, which differs": metrics for reason, metrics in dependent.items()
    }
    if in_common is not None:
        of_users = {m for model in models if model.scores is not None for m in model.scores.metrics}
        overall = [m for m in common if m not in of_users]
        reasons = {f"they are one number over all {plural(_unit(runs))} of a run": overall, **reasons}
    for reason, metrics in reasons.items():
        if dropped := [m for m in common if m in metrics]:
            notes.append(f"left out, as {reason}: {', '.join(dropped)}")
        common = [m for m in common if m not in metrics]
    if not common:
        raise DataError("; ".join(["the runs have no metric in common", *notes]))
    rules = replace(first.rules, metrics_hash=definitions_hash(first.spec(m) for m in common))
    families = {first.spec(m).at(None).name for m in common}
    models = [m if m.scores is None else _only(m, m.scores, common, in_common, families) for m in models]
    return Agreed(tuple(models), tuple(common), rules, tuple(notes))


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


def _definition(metric: str, run: LoggedRun) -> str:
    return run.definitions.get(metric, "none")


def _users(run: LoggedRun) -> str:
    assert run.result.scores is not None
    return f"{_n_users(run)} ({run.result.scores.units.digest[:6]})"


def _train_data(run: LoggedRun) -> str:
    return (run.rules.train_digest or "none")[:12]


def _dependent(runs: Sequence[LoggedRun]) -> dict[str, list[str]]:
    """Return the shared metrics that depend on a difference of runs: train data and catalogue, or the length."""
    specs = [runs[0].spec(m) for m in runs[0].definitions if all(m in run.definitions for run in runs)]
    dependent: dict[str, list[str]] = {}
    if len(set(map(_train_data, runs))) > 1:
        dependent["train data"] = [spec.name for spec in specs if need_catalogue([spec])]
    if len(lengths := {run.rules.n for run in runs}) > 1 and any(run.is_from_elsewhere for run in runs):
        dependent[_LENGTH] = [spec.name for spec in specs if spec.k is None or spec.k > min(lengths)]
    return {reason: metrics for reason, metrics in dependent.items() if metrics}


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


def _common_users(
    runs: Sequence[LoggedRun], users: Sequence[_Users], same: Mapping[str, str]
) -> tuple[_Users | None, list[str]]:
    """Return the users of runs, of those whose truths differ the ones with the same truth; None: all have the same.

    Models that lack some of them are compared as those of a table are.
    """
    # The units of tables are the same if their ids are.
    truths = {same[run.rules.test_digest]: run for run in runs if not run.given}
    if len(truths) < 2 and all(np.array_equal(ids, users[0]) for ids in users):
        return None, []
    common, every, words = reduce(np.intersect1d, users), reduce(np.union1d, users), ""
    if len(truths) > 1:
        of_same_truth = users_of_same_truth(list(truths.values()))
        common, every = (np.intersect1d(users, of_same_truth) for users in (common, every))
        words = " with the same truth"
    counts = _by_value(_n_users, runs)
    if not len(common):
        raise DataError(f"the runs have no {_unit(runs)} in common{words}: {counts}")
    return every, [f"{plural(_unit(runs))} in common{words}: {len(common):,} of {counts}"]


def _only(
    model: ComparedModel,
    scores: PerUserScores,
    metrics: Sequence[str],
    users: _Users | None,
    families: Collection[str],
) -> ComparedModel:
    """Return a model with some metrics, their families and users alone; without curves that were over more users."""
    names = tuple(m for m in metrics if m in scores.metrics)
    values = scores.values[:, [scores.metrics.index(m) for m in names]]
    if users is not None:
        rows = np.isin(scores.users, users)
        model, values = replace(model, fold_means=()), values[rows]
        scores = replace(scores, units=scores.units.only(rows), overall={}, at_k={}, pr_curve={})
    only = replace(
        scores,
        values=values,
        metrics=names,
        overall={m: value for m, value in scores.overall.items() if m in metrics},
        at_k={family: curve for family, curve in scores.at_k.items() if family in families},
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


def users_of_same_truth(runs: Sequence[LoggedRun]) -> _Users:
    """Return the users whose held-out items and ratings are the same in all runs.

    Raises:
        DataError: A run has not logged its truth of all folds.
    """
    tables = []
    for run in runs:
        table = _truth([run])
        if table is None:
            raise DataError(
                f"the test data of the runs differ, so only users whose truth is the same could be compared, but "
                f"{run.model} has no data/truth.parquet{' of all folds' * (run.folds > 1)} to tell them by"
            )
        tables.append(table)
    rows = pd.concat([table.to_pandas() for table in tables])
    runs_with_row = rows.groupby(_TRUTH).size()  # no run has a row twice
    fewest = runs_with_row.groupby("user").min()
    users: _Users = fewest.index[fewest == len(runs)].to_numpy()
    return users


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
