"""Checks of the lists: seen items, short lists, ties at the cutoff, models that list the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from evalplugin.base.arrays import NO_ITEM
from evalplugin.base.numbers import number, share
from evalplugin.data import Split
from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import ModelResult
from evalplugin.execution.runner import jobs_of, results_of
from evalplugin.features.checks.base import Found, SplitResults, result_check
from evalplugin.metrics import parse
from evalplugin.models import MODELS, Recommender, TopN, defines

_SEEN = 0.01  # share of the places
_SHORT = 0.01  # share of the lists
_TIED = 0.2  # share of the lists
_WORTH = 0.25  # of the width of the interval of the primary metric
_SECOND, _SECONDS = 1.0, 5.0  # to make lists again: of one model, of all
_SAME = 0.99  # share of the lists
_NAMED = 5  # models of one finding


@result_check(
    "EV106",
    title="lists with seen items, short ones, or ties at the cutoff",
    rule="Found where more than 1 % of the first k places (k of the primary metric) hold an item that the user has in "
    "the train data, where more than 1 % of the lists (not of `logging-policy`) are shorter than k though there are "
    "items enough (candidates `unseen` or `all`), or where the places k and k + 1 have the same score in more than 20 "
    "% of the lists of users with train data. Quick built-in models list again with two other orders of equal scores: "
    "ties that move the primary metric by less than a quarter of the width of its interval are no finding. Where k is "
    "`recommend.n`, only these show ties.",
    why="A seen item and an empty place cannot be in the truth. Among equal scores an arbitrary order decides: a "
    "hash or, with `recommend: {ties: id}`, the ids, which often follow popularity or age.",
    source="Tamm et al., RecSys 2021; McSherry and Najork, ECIR 2008.",
    remedy="Seen items: `recommend: {candidates: unseen}`. Short lists: let the model fall back, for example on "
    "popularity. Ties: let the model break them by something that it knows; often scores were rounded. Another "
    "`seed` shows what the order of ties is worth.",
)
def _bad_lists(results: SplitResults) -> Iterator[Found]:
    kind = results.config.spec.recommend.candidates
    k = _cutoff(results)
    again = _OtherOrders(results, k)
    for model in results.done:
        if model.lists is None:
            continue
        name, by_fold = model.model, model.lists.by_fold
        lists = sum(len(fold.test.active_users) for fold in results.data.folds)
        if kind == "all" and not (results.data.folds[0].overlap_allowed or results.data.folds[0].repeats):
            seen = _seen(by_fold, k, results.data.folds)
            if seen > _SEEN:
                yield Found(
                    f"{name}: {share(seen)} of the first {k} places hold items that the user has in the train data, "
                    f"which cannot be in the truth; set recommend.candidates: unseen",
                    name,
                )
        if kind in ("unseen", "all") and not MODELS.entry(model.type).cls.is_logging:
            full = sum(int(np.count_nonzero(top_n.item[:, k - 1] != NO_ITEM)) for top_n in by_fold)
            short = _could_be_full(results.data.folds, kind, k) - full
            if short > _SHORT * lists:
                yield Found(
                    f"{name}: {short:,} of {lists:,} lists ({share(short / lists)}) are shorter than {k}, though there "
                    f"are items enough: let the model fall back, for example on popularity",
                    name,
                )
        if (text := _ties(results, model, k, again)) is not None:
            yield Found(f"{name}: {text}", name)


def _cutoff(results: SplitResults) -> int:
    n = results.config.spec.recommend.n
    return min(n, parse(results.comparison.contest.primary).k or n)


def _could_be_full(folds: tuple[Split, ...], kind: str, k: int) -> int:
    """Return how many lists of test users could have k items."""
    lists = 0
    for fold in folds:
        users = fold.test.active_users
        seen = fold.known.rows.counts[users] if kind == "unseen" and fold.offered is None else 0
        n_items = fold.train.n_items if fold.offered is None else int(fold.offered.sum())
        lists += int(np.count_nonzero(np.broadcast_to(n_items - seen >= k, users.shape)))
    return lists


def _seen(by_fold: Sequence[TopN], k: int, folds: Sequence[Split]) -> float:
    """Return the share of the items on the first k places that the user has in the train data."""
    seen = places = 0
    for top_n, fold in zip(by_fold, folds, strict=True):
        item = top_n.item[:, :k]
        pairs = (top_n.user[:, None].astype(np.int64) * fold.train.n_items + item)[item != NO_ITEM]
        seen += int(np.isin(pairs, fold.known.pairs()).sum())
        places += len(pairs)
    return seen / max(1, places)


def _ties(results: SplitResults, model: ModelResult, k: int, again: _OtherOrders) -> str | None:
    """Return a text on the ties across the cutoff and their effect on the primary metric; None if either is small."""
    folds, n = results.data.folds, results.config.spec.recommend.n
    tied = _tied(model, folds, k) if k < n else 0.0
    if k < n and tied <= _TIED:
        return None
    others = again.of(model)
    if k == n and others:
        tied = _tied(others[0], folds, k)
    if tied <= _TIED:
        return None
    primary = results.comparison.contest.primary
    order = (
        "the order of the ids" if results.config.spec.recommend.ties == "id" else "an order drawn by the seed"
    )
    known = "users with train data" if results.data.info.units.noun == "user" else "queries with a history"
    text = (
        f"{share(tied)} of the lists of {known} have the same score on the places {k} and {k + 1}: "
        f"{order} decides what is listed"
    )
    if not others:
        return f"{text}; run again with another seed to see what that is worth"
    means = [model.mean(primary), *(other.mean(primary) for other in others)]
    interval = next(row.cells[primary] for row in results.comparison.models if row.model == model.model)
    if max(means) - min(means) <= _WORTH * (interval.high - interval.low):
        return None
    first, *rest = map(number, means)
    return (
        f"{text}: {primary} is {first}, with two other orders {' and '.join(rest)}{_turned(results, model, means)}; "
        f"break ties in the model"
    )


def _turned(results: SplitResults, model: ModelResult, means: list[float]) -> str:
    """Return a text that the model would lead, or not, by another order of ties; its own mean is the first."""
    primary = results.comparison.contest.primary
    sign = -1 if parse(primary).metric.higher_is_better is False else 1
    rows = [row for row in results.comparison.models if row.model != model.model and primary in row.cells]
    others = [sign * row.cells[primary].mean for row in rows if math.isfinite(row.cells[primary].mean)]
    if not others or parse(primary).metric.higher_is_better is None:
        return ""
    leads, *otherwise = (sign * mean > max(others) for mean in means)
    turned = sum(other != leads for other in otherwise)
    if not turned:
        return ""
    which = "one" if turned < len(otherwise) else "both"
    return f", with {which} of which {model.model} would {'not ' if leads else ''}lead"


def _tied(model: ModelResult, folds: Sequence[Split], k: int) -> float:
    """Return the share of the lists of users with train data that have one score on the places k and k + 1."""
    assert model.lists is not None
    tied = lists = 0
    for top_n, fold in zip(model.lists.by_fold, folds, strict=True):
        has_history = fold.known.rows.counts > 0
        same = top_n.score[:, k - 1] == top_n.score[:, k]  # not where there is no item: NaN
        tied += int(np.count_nonzero(has_history[top_n.user[same]]))
        lists += int(np.count_nonzero(has_history[fold.test.active_users]))
    return tied / max(1, lists)


class _OtherOrders:
    """Lists that are made again with two other orders of equal scores, where that is cheap."""

    def __init__(self, results: SplitResults, k: int) -> None:
        self._results, self._k, self._left = results, k, _SECONDS

    def of(self, model: ModelResult) -> list[ModelResult]:
        """Return two more results of a model; an empty list where that takes too long, or its code is a plugin's."""
        config, costs, entry = self._results.config, model.costs, MODELS.entry(model.type)
        recipe = next((recipe for recipe in config.models if recipe.name == model.model), None)
        if (
            recipe is None
            or recipe.space
            or not entry.is_own
            or defines(entry.cls, Recommender.recommend_task)
        ):
            return []
        if costs is None or costs.seconds > _SECOND or 2 * costs.seconds > self._left:
            return []
        self._left -= 2 * costs.seconds
        (job,) = jobs_of(replace(config, models=(recipe,)), [self._results.data])
        metric = parse(self._results.comparison.contest.primary)
        made = []
        for order in ("again 1", "again 2"):
            tasks = [
                replace(task, ties=(order,), n=max(task.n, self._k + 1), metrics=(metric,))
                for task in job.tasks[: job.folds]
            ]
            again = replace(job, tasks=tasks, seeds=1, done={})
            made += [result for _, result in results_of([again], sequential_executor(Observer()))]
        return [result for result in made if result.error is None]


@result_check(
    "EV111",
    title="models give the same lists",
    rule="Found where the first k places (the k of the primary metric) of a model are those of an earlier one for at "
    "least 99 % of the users, item by item.",
    why="Usually a parameter has no effect, or all fall back on the same list. In a gate the twin costs confidence.",
    source="Dodge et al., EMNLP 2019 (on what was really varied).",
    remedy="Look at the parameters of these models in MLflow; leave all but one of them out.",
)
def _same_lists(results: SplitResults) -> Iterator[Found]:
    k, units = _cutoff(results), results.data.info.units.nouns
    # Lists, the models that have them, what they share.
    groups: list[tuple[Sequence[TopN], list[str], list[float]]] = []
    for model in results.done:
        if model.lists is None:
            continue
        for lists, models, shares in groups:
            same = _share_of_same(lists, model.lists.by_fold, k)
            if same >= _SAME:
                models.append(model.model)
                shares.append(same)
                break
        else:
            groups.append((model.lists.by_fold, [model.model], []))
    for _, models, shares in groups:
        if shares:
            more = len(models) - _NAMED
            *others, last = models if more <= 0 else [*models[: _NAMED - 1], f"{more + 1} more"]
            of_users = f"{'at least ' if len(shares) > 1 else ''}{share(min(shares))} of the {units}"
            yield Found(
                f"{', '.join(others)} and {last} list the same {k} items in the same order for {of_users}: there is "
                f"nothing to compare"
            )


def _share_of_same(a: Sequence[TopN], b: Sequence[TopN], k: int) -> float:
    """Return the share of the lists that two models have in common up to k; 0 where users or lengths differ."""
    part = 0.0
    for depth in (1, k):  # most models differ in the first place
        same = []
        for one, other in zip(a, b, strict=True):
            first, second = one.item[:, :depth], other.item[:, :depth]
            if not (
                np.array_equal(one.user, other.user) and np.array_equal(first == NO_ITEM, second == NO_ITEM)
            ):
                return 0.0
            same.append((first == second).all(axis=1)[first[:, 0] != NO_ITEM])
        part = float(np.concatenate(same).mean()) if any(map(len, same)) else 0.0
        if part < _SAME:
            break
    return part
