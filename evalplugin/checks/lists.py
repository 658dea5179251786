"""Checks of the lists: seen items, short lists, ties at the cutoff, models that list the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evalplugin.base.numbers import share
from evalplugin.checks.base import Found, Results, result_check
from evalplugin.data import Split
from evalplugin.metrics import parse

if TYPE_CHECKING:
    import pyarrow as pa

__all__: list[str] = []

_SEEN = 0.01  # share of the places
_SHORT = 0.01  # share of the lists
_TIED = 0.2  # share of the lists
_SAME = 0.99  # share of the lists
_GLANCE = 1000  # rows that are compared first: most models differ there


@result_check(
    "EV106",
    title="lists with seen items, short ones, or ties at the cutoff",
    rule="Looks at the first k places, with the k of the primary metric. Found where more than 1 % of them hold an "
    "item that the user has in the train data, where more than 1 % of the lists are shorter than k though there are "
    "items enough (with the candidates `unseen` or `all`), or where the places k and k + 1 have the same score in more "
    "than 20 % of the lists. One per cent is within the interval of most means. A few ties are usual; those of "
    "`popularity` are equal counts, and left out; the last of a long list (k = `recommend.n`) is not looked at.",
    why="A seen item cannot be in the truth, and an empty place neither: both are lost for a reason that is not taste. "
    "Among equal scores the order of the ids decides what is listed, and another library would score differently.",
    source="Tamm, Damdinov and Vasilev: Quality Metrics in Recommender Systems: Do We Calculate Metrics Consistently? "
    "RecSys 2021. McSherry and Najork: Computing Information Retrieval Performance Measures Efficiently in the "
    "Presence of Tied Scores. ECIR 2008.",
    remedy="Seen items: `recommend: {candidates: unseen}`. Short lists: let the model fall back, for example on "
    "popularity. Ties: let it break them by something that it knows; often scores were rounded.",
)
def _bad_lists(results: Results) -> Iterator[Found]:
    kind = results.config.spec.recommend.candidates
    k = _cutoff(results)
    for model in results.done:
        if model.top_n is None:
            continue
        name, rank = model.model, np.asarray(model.top_n["rank"])
        lists = sum(len(np.unique(fold.test.user)) for fold in results.data.folds)
        if kind == "all" and not results.data.folds[0].overlap_allowed:
            seen = _seen(model.top_n, rank <= k, results.data.folds)
            if seen > _SEEN:
                yield Found(
                    f"{name}: {share(seen)} of the first {k} places hold items that the user has in the train data, "
                    f"which cannot be in the truth; set recommend.candidates: unseen",
                    name,
                )
        if kind in ("unseen", "all"):
            short = _could_be_full(results.data.folds, kind, k) - int(np.count_nonzero(rank == k))
            if short > _SHORT * lists:
                yield Found(
                    f"{name}: {short:,} of {lists:,} lists ({share(short / lists)}) are shorter than {k}, though there "
                    f"are items enough: let the model fall back, for example on popularity",
                    name,
                )
        tied = 0 if model.type == "popularity" else _tied(model.top_n, rank, k)
        if tied > _TIED * lists:
            yield Found(
                f"{name}: {share(tied / lists)} of the lists have the same score on the places {k} and {k + 1}: the "
                f"order of the ids decides what is listed; break ties in the model",
                name,
            )


def _cutoff(results: Results) -> int:
    n = results.config.spec.recommend.n
    return min(n, parse(results.comparison.contest.primary).k or n)


def _could_be_full(folds: tuple[Split, ...], kind: str, k: int) -> int:
    """Return how many lists of test users could have k items."""
    found = 0
    for fold in folds:
        users = np.unique(fold.test.user)
        seen = fold.train.rows.counts[users] if kind == "unseen" else 0
        found += int(np.count_nonzero(np.broadcast_to(fold.train.n_items - seen >= k, users.shape)))
    return found


def _seen(top_n: pa.Table, rows: npt.NDArray[np.bool_], folds: tuple[Split, ...]) -> float:
    """Return the share of the listed items in some rows that the user has in the train data."""
    listed = top_n.filter(rows)
    fold_of = (
        np.asarray(listed["fold"]) - 1 if "fold" in listed.column_names else np.zeros(len(listed), np.int32)
    )
    found = 0
    for number, fold in enumerate(folds):
        here = listed.filter(fold_of == number)
        train = fold.train
        user, item = (
            np.searchsorted(ids, here[name].to_numpy(zero_copy_only=False))
            for name, ids in (("user", train.users), ("item", train.items))
        )
        keys = train.user.astype(np.int64) * train.n_items + train.item
        found += int(np.isin(user * train.n_items + item, keys).sum())
    return found / max(1, len(listed))


def _tied(top_n: pa.Table, rank: npt.NDArray[np.int32], k: int) -> int:
    """Return how many lists have the same score on the places k and k + 1; a list's rows are in order of rank."""
    after = np.flatnonzero(rank == k + 1)
    score = np.asarray(top_n["score"])
    return int(np.count_nonzero(score[after] == score[after - 1]))


@result_check(
    "EV111",
    title="two models give the same lists",
    rule="Found for each two models whose first k places (the k of the primary metric) are the same for at least 99 % "
    "of the users, item by item. Two models that differ at all differ for more of them.",
    why="There is nothing to compare: usually a parameter has no effect, a name is misspelt inside of a plugin, or "
    "both fall back on the same list. In a gate the twin costs confidence all the same.",
    source="Dodge, Gururangan, Card, Schwartz and Smith: Show Your Work: Improved Reporting of Experimental Results. "
    "EMNLP 2019 (on what was really varied).",
    remedy="Look at the parameters of both in MLflow; leave one of them out.",
)
def _same_lists(results: Results) -> Iterator[Found]:
    k = _cutoff(results)
    first = {}
    for model in results.done:
        if model.top_n is not None:
            first[model.model] = model.top_n.filter(np.asarray(model.top_n["rank"]) <= k)
    for (one, a), (other, b) in combinations(first.items(), 2):
        same = _share_of_same(a, b)
        if same >= _SAME:
            yield Found(
                f"{one} and {other} list the same {k} items in the same order for {share(same)} of the users: there is "
                f"nothing to compare"
            )


def _share_of_same(a: pa.Table, b: pa.Table) -> float:
    """Return the share of the lists that two tables with the same users have in common; 0 where the users differ."""
    if len(a) != len(b) or not len(a):
        return 0.0
    for size in (min(_GLANCE, len(a)), len(a)):
        here, there = a.slice(0, size), b.slice(0, size)
        if not (here["user"].equals(there["user"]) and here["rank"].equals(there["rank"])):
            return 0.0
        items = [one["item"].to_numpy(zero_copy_only=False) for one in (here, there)]
        starts = np.flatnonzero(np.asarray(here["rank"]) == 1)
        same = float(np.logical_and.reduceat(items[0] == items[1], starts).mean())
        if same < _SAME / 2:
            return same
    return same
