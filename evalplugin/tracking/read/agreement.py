"""Agreement of runs on data, rules, metrics and users, and the results that they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.contest import Rules
from evalplugin.metrics import definitions_hash, parse
from evalplugin.metrics.scores import PerUserScores
from evalplugin.tracking.read.logged import LoggedRun

__all__ = ["Agreed", "agree"]


@dataclass(frozen=True, eq=False)
class Agreed:
    """Models that can be compared by these metrics, and notes on what was left out."""

    models: tuple[ComparedModel, ...]
    metrics: tuple[str, ...]
    rules: Rules
    notes: tuple[str, ...] = ()


def agree(runs: Sequence[LoggedRun], *, intersect: bool) -> Agreed:
    """Return the comparable results: all where the runs agree, else, with ``intersect``, those they have in common.

    In common are the metrics of the same name and definition, and the users. Where the test data differ, only users
    whose truth is the same in all runs are in common. What was made under other rules has nothing in common.

    Raises:
        DataError: Runs that do not agree; the message has what differs and both values.
    """
    other_rules = [line for what, of in _RULES.items() if (line := _differing(what, of, runs))]
    other_data = [line for what, of in _DATA.items() if (line := _differing(what, of, runs))]
    other_scores = [line for line in (_differing_metrics(runs), _differing_users(runs)) if line]
    if other_rules or (not intersect and (other_data or other_scores)):
        what_to_do = (
            "run the models again under the same rules, or take one bake-off with --bakeoff ID"
            if other_rules
            else "take what they have in common with --intersect (in Python: intersect=True), or one bake-off with "
            "--bakeoff ID"
        )
        lines = [*other_rules, *other_data, *other_scores]
        raise DataError("\n  ".join(["these runs cannot be compared:", *lines]) + f"\n{what_to_do}")
    models = [run.result for run in runs]
    if not (other_data or other_scores):
        return Agreed(tuple(models), tuple(runs[0].definitions), runs[0].rules)
    common, notes = _common_metrics(runs)
    users, said = _common_users(runs)
    notes += [f"differs: {line}" for line in other_data] + said
    if users is not None:
        kept = [m for m in common if any(c.scores and m in c.scores.metrics for c in models)]
        if dropped := [m for m in common if m not in kept]:
            notes.append(f"left out, as they are one number over all users of a run: {', '.join(dropped)}")
        common = kept
    if not common:
        raise DataError("; ".join(["the runs have no metric in common", *notes]))
    rules = replace(runs[0].rules, metrics_hash=definitions_hash(parse(m) for m in common))
    return Agreed(tuple(_only(c, common, users) for c in models), tuple(common), rules, tuple(notes))


_RULES: dict[str, Callable[[LoggedRun], Any]] = {
    "folds": lambda run: run.folds,
    "length of the lists": lambda run: run.rules.n,
    "candidates": lambda run: run.rules.candidates,
    "relevance threshold": lambda run: run.rules.threshold,
}
_DATA: dict[str, Callable[[LoggedRun], Any]] = {
    "test data": lambda run: run.rules.test_digest[:12],
    "train data": lambda run: (run.rules.train_digest or "none")[:12],
}


def _differing(what: str, of: Callable[[LoggedRun], Any], runs: Sequence[LoggedRun]) -> str | None:
    """Return a line about a value in which runs differ, with every value and who has it; None where all agree."""
    return f"{what}: {_by_value(of, runs)}" if len({of(run) for run in runs}) > 1 else None


def _by_value(of: Callable[[LoggedRun], Any], runs: Sequence[LoggedRun]) -> str:
    who: dict[Any, list[LoggedRun]] = {}
    for run in runs:
        who.setdefault(of(run), []).append(run)
    return "; ".join(f"{value} in {_names(have, runs)}" for value, have in who.items())


def _names(some: Sequence[LoggedRun], every: Sequence[LoggedRun]) -> str:
    """Return how some of the runs are called, by bake-off where there are several of them."""
    names: dict[str, list[str]] = {}
    for run in some:
        names.setdefault(run.bakeoff, []).append(run.model)
    if len({run.bakeoff for run in every}) == 1:
        return ", ".join(run.model for run in some)
    return " and ".join(f"{', '.join(models)} of bake-off {bakeoff}" for bakeoff, models in names.items())


def _differing_metrics(runs: Sequence[LoggedRun]) -> str | None:
    if len({run.rules.metrics_hash for run in runs}) == 1:
        return None
    lines = []
    for metric in dict.fromkeys(m for run in runs for m in run.definitions):
        without = [run for run in runs if metric not in run.definitions]
        if without:
            lines.append(f"{metric} is not in {_names(without, runs)}")
        elif line := _differing(f"definition of {metric}", partial(_definition, metric), runs):
            lines.append(line)
    return "metrics: " + "; ".join(lines or ["they were defined by another version"])


def _definition(metric: str, run: LoggedRun) -> str:
    return run.definitions[metric]


def _differing_users(runs: Sequence[LoggedRun]) -> str | None:
    done = [run for run in runs if run.result.scores is not None]
    users = [_users(run) for run in done]
    if all(np.array_equal(these, users[0]) for these in users):
        return None
    return _differing("users", lambda run: f"{len(_users(run)):,}", done) or "users: as many, but others"


def _common_metrics(runs: Sequence[LoggedRun]) -> tuple[list[str], list[str]]:
    every = dict.fromkeys(m for run in runs for m in run.definitions)
    common = [m for m in every if len({run.definitions.get(m) for run in runs}) == 1]
    left_out = [m for m in every if m not in common]
    if not left_out:
        return common, []
    return common, [
        f"metrics in common: {len(common)} of {len(every)}; left out, as not all runs have them by the same "
        f"definition: {', '.join(left_out)}"
    ]


def _common_users(runs: Sequence[LoggedRun]) -> tuple[npt.NDArray[np.generic] | None, list[str]]:
    """Return the users that all runs have, with the same truth; None: everybody."""
    done = [run for run in runs if run.result.scores is not None]
    sets = [_users(run) for run in done]
    if not sets:
        return None, []
    truths = {run.rules.test_digest: run for run in done}
    same_truth = len(truths) > 1
    if not same_truth and all(np.array_equal(users, sets[0]) for users in sets):
        return None, []
    if len({users.dtype.kind for users in sets}) > 1:
        raise DataError("the runs have no user in common: the ids of some are integers, of others text")
    common = reduce(np.intersect1d, sets)
    if same_truth:
        common = np.intersect1d(common, _users_of_same_truth(truths.values()))
    counts = _by_value(lambda run: f"{len(_users(run)):,}", done)
    words = " with the same truth" if same_truth else ""
    if not len(common):
        raise DataError(f"the runs have no user in common{words}: {counts}")
    return common, [f"users in common{words}: {len(common):,} of {counts}"]


def _users_of_same_truth(runs: Iterable[LoggedRun]) -> npt.NDArray[np.generic]:
    """Return the users whose held-out items and ratings are the same in all runs."""
    import pandas as pd

    frames = []
    for run in runs:
        table = run.table("truth")
        if run.folds > 1 or table is None:
            why = "several folds" if run.folds > 1 else "no data/truth.parquet"
            raise DataError(
                f"the test data of the runs differ, so only users whose truth is the same could be compared, but "
                f"{run.model} has {why} to tell them by"
            )
        frames.append(table.select(["user", "item", "rating"]).to_pandas())
    first, *others = frames
    sizes: pd.Series[int] = first.groupby("user").size()
    for other in others:
        shared = first.merge(other, on=["user", "item", "rating"]).groupby("user").size()
        theirs = other.groupby("user").size()
        sizes = sizes[(shared.reindex(sizes.index) == sizes) & (theirs.reindex(sizes.index) == sizes)]
    return sizes.index.to_numpy()


def _only(
    model: ComparedModel, metrics: Sequence[str], users: npt.NDArray[np.generic] | None
) -> ComparedModel:
    """Return a model with some metrics and users alone; without its curves where these were over more users."""
    scores = model.scores
    if scores is None:
        return model
    own = [m for m in metrics if m in scores.metrics]
    columns = [scores.metrics.index(m) for m in own]
    if users is None:
        families = {parse(m).at(None).name for m in metrics}
        cut = replace(
            scores,
            values=scores.values[:, columns],
            metrics=tuple(own),
            overall={m: value for m, value in scores.overall.items() if m in metrics},
            at_k={family: curve for family, curve in scores.at_k.items() if family in families},
        )
        return replace(model, scores=cut)
    rows = np.flatnonzero(np.isin(scores.users, users))
    cut = PerUserScores(scores.users[rows], scores.values[rows][:, columns], tuple(own))
    return replace(model, scores=cut, fold_means=())


def _users(run: LoggedRun) -> npt.NDArray[np.generic]:
    assert run.result.scores is not None
    return run.result.scores.users
