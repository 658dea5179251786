"""The contract of every metric: name, shape, bounds, undefined users, relabelling, blocks, merging."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np

from evalplugin.base.arrays import NO_ITEM, Floats, Ints, position_in_row
from evalplugin.data.attributes import Attributes
from evalplugin.data.interactions import Interactions
from evalplugin.metrics.base import Metric, OverallMetric, is_mergeable, is_overall
from evalplugin.metrics.blocks import Blocks
from evalplugin.metrics.example import apply
from evalplugin.metrics.names import MetricSpec, parse
from evalplugin.metrics.relevance import ABOVE_0, Relevance
from evalplugin.models.selection import TopN
from evalplugin.testing.cases import N_ITEMS, N_USERS, interactions, require

_N = 12
_RELEVANT = (ABOVE_0, Relevance(threshold=3.0))
_CATEGORIES = np.array(["Action", "Action|Comedy", "Comedy|Drama|War", "Western", None], dtype=object)


def check_metric(name: str, *, seed: int = 0) -> None:
    """Check the contract of a registered metric on random lists of items, which have the attribute ``category``.

    Values are float64, one a user, within the bounds; who is undefined depends on the truth alone (of a metric of
    lists: on their lengths); neither relabelling, nor items below rank k, nor the size of the blocks change a value;
    ``merge`` gives the same in any order and grouping.

    Raises:
        UnknownNameError: No metric has the name.
        ParameterError: The name cannot be parsed.
    """
    spec = parse(name)
    require(parse(spec.name) == spec, f"{spec.name}: the name read back means another metric")
    cutoffs = [spec.k] if spec.k is not None or not spec.metric.takes_k else [None, 1, 3, _N, _N + 5]
    for round_ in range(2):
        case = _Case.draw(np.random.default_rng((seed, round_)))
        for relevance in _RELEVANT:
            for k in cutoffs:
                _check(spec.at(k), replace(case, relevance=relevance))


@dataclass(frozen=True)
class _Case:
    """Lists, truth, predictions and train data on the same vocabularies; items have the attribute ``category``.

    Scores are the probabilities of a list's items; the truth is a log of decisions, after an earlier ``log``.
    """

    top_n: TopN
    truth: Interactions
    train: Interactions
    log: Interactions
    predictions: Floats
    relevance: Relevance = ABOVE_0

    @classmethod
    def draw(cls, rng: np.random.Generator) -> _Case:
        """Return a random case with short and empty lists, and users without truth or without relevant truth."""
        item = np.argsort(rng.random((N_USERS, N_ITEMS)), axis=1)[:, :_N].astype(np.int32)
        item[np.arange(_N) >= rng.integers(0, 2 * _N, N_USERS)[:, None]] = NO_ITEM
        user_of_train, item_of_train = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.3)
        density = rng.choice([0, 0.04, 0.2, 0.6], (N_USERS, 1))
        user, truth_item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < density)
        truth = _shown(interactions(user, truth_item, rng.integers(0, 11, len(user)) / 2), rng)
        train = interactions(user_of_train, item_of_train, np.ones(len(user_of_train)))
        category = rng.choice(_CATEGORIES, N_ITEMS)
        train = replace(train, item_attributes=Attributes({"category": category}))
        score = -np.sort(-np.where(item == NO_ITEM, 0.0, rng.uniform(0.1, 1, item.shape)), axis=1)
        score = np.where(item == NO_ITEM, np.nan, score / np.maximum(score.sum(axis=1, keepdims=True), 0.1))
        top_n = TopN(np.arange(N_USERS, dtype=np.int32), item, score)
        log = _shown(replace(train, rating=rng.integers(0, 11, len(train)).astype(np.float32)), rng)
        return cls(top_n, truth, train, log, rng.uniform(0, 1, len(truth)))

    def values(self, spec: MetricSpec, size: int | None = None) -> Floats:
        return apply(spec, self.blocks(size))

    def blocks(self, size: int | None = None) -> Blocks:
        blocks = Blocks.of(
            self.top_n,
            self.truth,
            train=self.train,
            relevance=self.relevance,
            predictions=self.predictions,
            shown=self.log,
        )
        return replace(blocks, size=size)

    def relabelled(self, rng: np.random.Generator) -> tuple[_Case, Ints]:
        """Return the case under other codes, and the new code of each user."""
        new_user, new_item = rng.permutation(N_USERS), rng.permutation(N_ITEMS)
        item = np.where(self.top_n.item == NO_ITEM, NO_ITEM, new_item[self.top_n.item]).astype(np.int32)
        order = np.argsort(new_user)
        top_n = replace(self.top_n, item=item[order], score=self.top_n.score[order])
        truth, train, log = (
            replace(
                data,
                user=new_user[data.user].astype(np.int32),
                item=new_item[data.item].astype(np.int32),
            )
            for data in (self.truth, self.train, self.log)
        )
        category = self.train.item_attributes["category"][np.argsort(new_item)]
        train = replace(train, item_attributes=Attributes({"category": category}))
        return replace(self, top_n=top_n, truth=truth, train=train, log=log), new_user

    def shuffled_below(self, k: int, rng: np.random.Generator) -> _Case:
        """Return the case with every list replaced below k by other items, of full length."""
        rest = np.ones((N_USERS, N_ITEMS), dtype=np.bool_)
        item = self.top_n.item.copy()
        row, column = np.nonzero(item[:, :k] != NO_ITEM)
        rest[row, item[row, column]] = False
        order = np.argsort(np.where(rest, rng.random(rest.shape), 2.0), axis=1)[:, : max(0, _N - k)]
        full = (item[:, :k] != NO_ITEM).all(axis=1)
        item[full, k:] = order[full]
        return replace(self, top_n=replace(self.top_n, item=item))


def _shown(data: Interactions, rng: np.random.Generator) -> Interactions:
    """Return interactions as a log of decisions, a user's items at the first positions in random order."""
    order = np.lexsort((rng.random(len(data)), data.user))
    position = np.empty(len(data), dtype=np.int32)
    position[order] = position_in_row(data.user[order], data.n_users) + 1
    return replace(data, position=position, propensity=rng.uniform(0.05, 1, len(data)))


def _check(spec: MetricSpec, case: _Case) -> None:
    rng = np.random.default_rng(1)
    metric, per_user = spec.metric, spec.metric.scope == "user"
    before = case.top_n.item.copy(), case.truth.rating.copy()
    values = case.values(spec)

    _check_shape_and_range(spec.name, metric, values)
    if per_user:
        (_check_about_truth if metric.about == "truth" else _check_about_lists)(spec, case, values)
    moved, new_user = case.relabelled(rng)
    relabelled = moved.values(spec)
    _same(spec, "relabelling must change nothing", values, relabelled[new_user] if per_user else relabelled)
    if spec.k is not None and not metric.reads_whole_list:
        below = case.shuffled_below(spec.k, rng).values(spec)
        _same(spec, "what lies below k must change nothing", values, below)
    for size in (1, 7, N_USERS):
        resized = case.values(spec, size)
        _same(spec, "the size of a block must change nothing", values, resized, exact=True)
    if is_overall(metric) and is_mergeable(metric):
        merged = _merged(spec, metric, case.blocks(7), rng)
        _same(spec, "the merged states of parts must give the value of all", values, merged, exact=True)
    unchanged = np.array_equal(before[0], case.top_n.item) and np.array_equal(before[1], case.truth.rating)
    require(unchanged, f"{spec.name}: the inputs must stay as they are")


def _merged(spec: MetricSpec, metric: OverallMetric, blocks: Blocks, rng: np.random.Generator) -> Floats:
    """Return the value, float64 (1,), from a state of each block, merged in a random order and tree."""
    states = []
    for _, context in blocks:
        state = metric.start(blocks.n_items)
        metric.update(state, context, blocks.n if spec.k is None else spec.k)
        states.append(pickle.loads(pickle.dumps(state)))  # as a worker returns it
    while len(states) > 1:
        a, b = (states.pop(rng.integers(len(states))) for _ in range(2))
        before = pickle.dumps((a, b))
        states.append(metric.merge(a, b))
        require(pickle.dumps((a, b)) == before, f"{spec.name}: merging must change neither state")
    return np.array([metric.finish(states[0])])


def _check_about_truth(spec: MetricSpec, case: _Case, values: Floats) -> None:
    without_truth = np.bincount(case.truth.user, minlength=N_USERS) == 0
    undefined = bool(np.isnan(values[without_truth]).all())
    require(undefined, f"{spec.name}: a user without truth must be undefined (NaN)")
    lists = _Case.draw(np.random.default_rng(1)).top_n
    other = replace(case, top_n=lists, predictions=np.ones(len(case.truth))).values(spec)
    law = "who is undefined must depend on the truth alone"
    if spec.sources and (np.isnan(values).all() or np.isnan(other).all()):
        return  # a ratio without a denominator
    _same(spec, law, np.isnan(values) * 1.0, np.isnan(other) * 1.0)


def _check_about_lists(spec: MetricSpec, case: _Case, values: Floats) -> None:
    empty = (case.top_n.item == NO_ITEM).all(axis=1)
    undefined = bool(np.isnan(values[empty]).all())
    require(undefined, f"{spec.name}: a user without a list must be undefined (NaN)")
    truth = interactions(case.truth.user, (case.truth.item + 1) % N_ITEMS, 5.5 - case.truth.rating)
    other = replace(case, truth=truth).values(spec)
    _same(spec, "what is true must change nothing", values, other, exact=True)
    item = np.where(case.top_n.item == NO_ITEM, NO_ITEM, (case.top_n.item + 1) % N_ITEMS).astype(np.int32)
    other = replace(case, top_n=replace(case.top_n, item=item)).values(spec)
    law = "who is undefined must depend on the length of the list alone"
    _same(spec, law, np.isnan(values) * 1.0, np.isnan(other) * 1.0)


def _check_shape_and_range(name: str, metric: Metric, values: Floats) -> None:
    shape = (N_USERS,) if metric.scope == "user" else (1,)
    right = values.shape == shape and values.dtype == np.float64
    require(right, f"{name}: must return float64 {shape}, not {values.dtype} {values.shape}")
    low, high = metric.bounds
    defined = values[~np.isnan(values)]
    outside = defined[(defined < low) | (defined > high)]
    if len(outside):
        raise AssertionError(f"{name}: {outside[0]} lies outside the bounds {low} to {high}")


def _same(spec: MetricSpec, law: str, a: Floats, b: Floats, *, exact: bool = False) -> None:
    differs = ~np.isclose(a, b, rtol=0 if exact else 1e-12, atol=0, equal_nan=True)
    if differs.any():
        first = int(np.flatnonzero(differs)[0])
        raise AssertionError(f"{spec.name}: {law}, but value {first} is {a[first]} and then {b[first]}")
