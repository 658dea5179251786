"""Values of policies by a log of decisions: golden vectors as arithmetic, laws, a reference one decision at a time."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import small_config

from evalplugin.base.errors import DataError, ParameterError
from evalplugin.config import ModelRecipe
from evalplugin.config.sections import Recommend
from evalplugin.data import Candidates, Split
from evalplugin.data.interactions import Interactions, Rows
from evalplugin.execution.data_checks import check_policies
from evalplugin.execution.results import Costs
from evalplugin.execution.tasks import Task, TaskLists, score_state
from evalplugin.features.config import load
from evalplugin.lists.scores import specs_of
from evalplugin.metrics import Blocks, TrainData, evaluate, parse
from evalplugin.metrics.example import apply
from evalplugin.metrics.names import with_companions
from evalplugin.metrics.off_policy import check_propensities
from evalplugin.metrics.relevance import ABOVE_0
from evalplugin.metrics.rewards import RewardModel
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import check_request, score_part
from evalplugin.metrics.states import ScorerState
from evalplugin.models import MODELS
from evalplugin.models.selection import NO_ITEM, TopN

Row = tuple[int, int, int, float, float]  # decision, item, position, propensity, reward

ESTIMATORS = ("ips", "clipped", "snips", "dm", "dr", "sndr", "iips", "rips", "replay", "matches")
POLICIES = ("greedy", "softmax", "epsilon", "given")
_PARAMETERS = {"softmax": ", temperature=0.7", "epsilon": ", epsilon=0.3"}


def log_of(rows: Sequence[Row], *, decisions: int, items: int) -> Interactions:
    decision, item, position, propensity, reward = (np.array(column) for column in zip(*rows, strict=True))
    return Interactions(
        user=decision.astype(np.int32),
        item=item.astype(np.int32),
        rating=reward.astype(np.float32),
        timestamp=None,
        users=np.arange(decisions),
        items=np.arange(items),
        position=position.astype(np.int32),
        propensity=propensity.astype(np.float64),
    )


def lists_of(lists: Sequence[Sequence[int]], scores: Sequence[Sequence[float]] | None = None) -> TopN:
    shape = len(lists), max(map(len, lists))
    item, score = np.full(shape, NO_ITEM, dtype=np.int32), np.full(shape, np.nan)
    for row, listed in enumerate(lists):
        item[row, : len(listed)] = listed
        if scores is not None:
            score[row, : len(listed)] = scores[row]
    return TopN(np.arange(len(lists), dtype=np.int32), item, score)


class Expectations(TrainData):
    """Train data whose model of rewards is a table: a row for each position, a column for each item."""

    def __init__(self, table: npt.ArrayLike) -> None:
        self.table = np.asarray(table, dtype=np.float64)

    def rewards_at(self, position: int) -> npt.NDArray[np.float64]:
        return self.table[position - 1]


def values(name: str, lists: TopN, log: Interactions, q: npt.ArrayLike | None = None) -> list[float]:
    blocks = Blocks.of(lists, log)
    found: list[float] = apply(
        parse(name), replace(blocks, train=None if q is None else Expectations(q))
    ).tolist()
    return found


# Three decisions of two positions each, on items A, B and C. Weights of the lists as they are: D0 shows the first two
# of its list, 1 / (1/2) * 1 / (1/4) = 8; D1 too, 1 / (1/4) * 1 / 1 = 4; D2 shows another second item, 0.
A, B, C = range(3)
LOG = log_of(
    [
        (0, A, 1, 1 / 2, 1), (0, B, 2, 1 / 4, 2),
        (1, B, 1, 1 / 4, 0), (1, C, 2, 1, 1),
        (2, A, 1, 1 / 2, 1), (2, C, 2, 1 / 2, 2),
    ],
    decisions=3,
    items=3,
)  # fmt: skip
SCORES = [[math.log(2), 0.0, 0.0]] * 3  # the first item is drawn with 2/4, each other one with 1/4
LISTS = lists_of([[A, B, C], [B, C, A], [A, B, C]], SCORES)
GIVEN = lists_of([[A, B, C], [B, C, A], [A, B, C]], [[1 / 2, 1 / 4, 1 / 4]] * 3)
# Expected rewards at both positions of A, B, C. Shown: 1/2 + 1, 1/4 + 1/2, 1/2 + 1/2.
Q = [[1 / 2, 1 / 4, 0], [0, 1, 1 / 2]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("weight@2", [8, 4, 0]),
        ("weight(ratio=position)@2", [(2 + 4) / 2, (4 + 1) / 2, (2 + 0) / 2]),
        ("weight(ratio=match)@2", [1, 1, 0]),
        ("weight@1", [2, 4, 2]),
        ("value(estimator=ips)@2", [8 * 3, 4 * 1, 0]),
        ("value(estimator=ips)@1", [2 * 1, 4 * 0, 2 * 1]),
        ("value(estimator=clipped, bound=5)@2", [5 * 3, 4 * 1, 0]),
        # V = (24 + 4) / 12 = 7/3, the mean weight 4: 7/3 + (24 - 7/3 * 8) / 4, 7/3 + (4 - 7/3 * 4) / 4, 7/3
        ("value@2", [11 / 3, 1, 7 / 3]),
        ("value(estimator=rips)@2", [2 * 1 + 8 * 2, 4 * 0 + 4 * 1, 2 * 1 + 0 * 2]),
        ("value(estimator=iips)@2", [2 * 1 + 4 * 2, 4 * 0 + 1 * 1, 2 * 1 + 0 * 2]),
        ("value(estimator=matches)@2", [3, 1, 0]),
        # V = (3 + 1) / 2 = 2, the mean match 2/3: 2 + (3 - 2) / (2/3), 2 + (1 - 2) / (2/3), 2
        ("value(estimator=replay)@2", [7 / 2, 1 / 2, 2]),
        ("value(estimator=dm)@2", [1 / 2 + 1, 1 / 4 + 1 / 2, 1 / 2 + 1]),
        ("value(estimator=dr)@2", [3 / 2 + 8 * (3 - 3 / 2), 3 / 4 + 4 * (1 - 3 / 4), 3 / 2]),
        # 13/12 = (12 + 1) / 12: + (12 - 13/12 * 8) / 4, + (1 - 13/12 * 4) / 4, + 0
        ("value(estimator=sndr)@2", [3 / 2 + 13 / 12 + 5 / 6, 3 / 4 + 13 / 12 - 5 / 6, 3 / 2 + 13 / 12]),
        # Softmax: 2/4 * 1/2 of D0 over 1/8; 2/4 * 1/2 of D1 over 1/4; 2/4 * 1/2 of D2 over 1/4.
        ("weight(policy=softmax)@2", [2, 1, 1]),
        ("value(estimator=ips, policy=softmax)@2", [2 * 3, 1 * 1, 1 * 3]),
        ("value(estimator=rips, policy=softmax)@2", [1 * 1 + 2 * 2, 2 * 0 + 1 * 1, 1 * 1 + 1 * 2]),
        # At a temperature of 1/2, 4 : 1 : 1.
        ("weight(policy=softmax, temperature=0.5)@1", [4 / 6 * 2, 4 / 6 * 4, 4 / 6 * 2]),
        ("value(estimator=iips, policy=softmax)@1", [1 / 2 * 2, 0, 1 / 2 * 2]),
        ("value(estimator=dm, policy=softmax)@1", [2 / 8 + 1 / 16, 2 / 16 + 1 / 8, 2 / 8 + 1 / 16]),
        ("value(estimator=dr, policy=softmax)@1", [5 / 16 + 1 * 1 / 2, 1 / 4 + 2 * -1 / 4, 5 / 16 + 1 * 1 / 2]),
        # Epsilon 1/2: 1/2 of the list and 1/2 of each of six orders; single positions 1/2 + 1/2 * 1/3, or 1/6.
        ("weight(policy=epsilon, epsilon=0.5)@2", [7 / 12 * 8, 7 / 12 * 4, 1 / 12 * 4]),
        ("value(estimator=iips, policy=epsilon, epsilon=0.5)@2", [4 / 3 + 8 / 3 * 2, 2 / 3, 4 / 3 + 1 / 3 * 2]),
        ("value(estimator=rips, policy=epsilon, epsilon=0.5)@2", [4 / 3 + 14 / 3 * 2, 7 / 3, 4 / 3 + 1 / 3 * 2]),
        # Means of Q: 1/4 and 1/2.
        ("value(estimator=dm, policy=epsilon, epsilon=0.5)@2", [3 / 4 + 3 / 8, 3 / 8 + 3 / 8, 3 / 4 + 3 / 8]),
    ],
)  # fmt: skip
def test_golden_vectors(name: str, expected: list[float]) -> None:
    assert values(name, LISTS, LOG, Q) == pytest.approx(expected, abs=1e-15)


def test_golden_vectors_of_given_probabilities() -> None:
    assert values("value(estimator=ips, policy=given)@1", GIVEN, LOG) == [1 / 2 * 2, 0, 1 / 2 * 2]
    dm = [1 / 4 + 1 / 16, 1 / 8 + 1 / 8, 1 / 4 + 1 / 16]
    assert values("value(estimator=dm, policy=given)@1", GIVEN, LOG, Q) == pytest.approx(dm)


def test_golden_vectors_of_all_decisions() -> None:
    assert values("effective_decisions@2", LISTS, LOG) == [pytest.approx(12**2 / (8**2 + 4**2))]
    assert values("largest_weight@2", LISTS, LOG) == [pytest.approx(8 / 12)]
    none = lists_of([[C, A, B]] * 3)
    assert values("effective_decisions@2", none, LOG) == [0]
    assert all(map(math.isnan, values("largest_weight@2", none, LOG)))
    assert all(map(math.isnan, values("value@2", none, LOG)))
    assert values("value(estimator=ips)@2", none, LOG) == [0, 0, 0]


def test_unsupported_is_the_probability_of_items_that_no_decision_shows() -> None:
    log = log_of([(0, A, 1, 0.5, 1), (0, B, 2, 0.5, 1), (1, B, 1, 0.5, 0)], decisions=2, items=3)
    lists = lists_of([[C, A], [B, C]], [[math.log(3), 0.0]] * 2)
    assert values("unsupported@2", lists, log) == [1 / 2, 0]  # D1 shows one position
    assert values("unsupported(policy=softmax)@1", lists, log) == pytest.approx([3 / 4, 1 / 4])
    assert values("unsupported(policy=epsilon, epsilon=0.5)@1", lists, log) == [1 / 2 + 1 / 4, 1 / 4]


def test_a_decision_that_shows_nothing_down_to_the_cutoff_is_undefined_and_biases_no_mean() -> None:
    log = log_of([(0, A, 1, 0.5, 1), (1, B, 2, 0.5, 1), (2, A, 1, 0.5, 0)], decisions=3, items=2)
    lists = lists_of([[A, B]] * 3)
    for name in ("value(estimator=ips)@1", "value@1", "weight@1", "unsupported@1"):
        assert [math.isnan(value) for value in values(name, lists, log)] == [False, True, False]
    assert values("effective_decisions@1", lists, log) == [2]
    assert values("weight@2", lists, log) == [2, 2, 2]  # a position without an item has no part in the weight


def test_a_position_with_two_items_is_refused() -> None:
    log = log_of([(0, A, 1, 0.5, 1), (0, B, 1, 0.5, 1)], decisions=1, items=2)
    with pytest.raises(DataError, match=r"1 positions of a decision show two items, the first is position 1"):
        values("value@1", lists_of([[A, B]]), log)


# A reference: one decision, one position and one item at a time.


@dataclass(frozen=True)
class Decision:
    listed: list[int]
    scores: list[float]
    shown: list[Row]  # by position

    def slates(self, policy: str, length: int) -> dict[tuple[int, ...], float]:
        """Return the probability of each slate of a length."""
        of = dict.fromkeys(permutations(self.listed, min(length, len(self.listed))), 0.0)
        for slate in of:
            if policy == "epsilon":
                own = slate == tuple(self.listed[:length])
                of[slate] = 0.7 * own + 0.3 / len(of)
            elif policy == "greedy":
                of[slate] = float(slate == tuple(self.listed[:length]))
            else:
                weight = dict(zip(self.listed, self.scores, strict=True))
                if policy == "softmax":
                    weight = {item: math.exp(score / 0.7) for item, score in weight.items()}
                left, of[slate] = sum(weight.values()) if policy == "softmax" else 1.0, 1.0
                for item in slate:
                    of[slate] *= weight[item] / left
                    left -= weight[item]
        return of

    def value(self, estimator: str, policy: str, q: npt.NDArray[np.float64]) -> float:
        """Return the estimate by the definition, from the probabilities of all slates."""
        if not self.shown:
            return math.nan
        length = len(self.shown)  # positions are 1, 2 and so on
        slates = self.slates(policy, length)
        prefixes, singles = [], []
        for position in range(1, length + 1):
            items = tuple(row[1] for row in self.shown[:position])
            prefixes.append(sum(p for slate, p in slates.items() if slate[:position] == items))
            singles.append(
                sum(p for slate, p in slates.items() if slate[position - 1 : position] == items[-1:])
            )
        propensity, reward = [row[3] for row in self.shown], [row[4] for row in self.shown]
        total, weight = math.fsum(reward), prefixes[-1] / math.prod(propensity)
        model = math.fsum(
            p * q[place, item] for slate, p in slates.items() for place, item in enumerate(slate)
        )
        shown = math.fsum(q[place, row[1]] for place, row in enumerate(self.shown))
        return {
            "weight": weight,
            "ips": weight * total,
            "clipped": min(weight, 10) * total,
            "matches": total * (prefixes[-1] > 0),
            "iips": math.fsum(s / e * r for s, e, r in zip(singles, propensity, reward, strict=True)),
            "rips": math.fsum(
                p / math.prod(propensity[: place + 1]) * reward[place] for place, p in enumerate(prefixes)
            ),
            "dm": model,
            "dr": model + weight * (total - shown),
        }[estimator]


def drawn(
    rng: np.random.Generator, n: int, items: int = 5, k: int = 3
) -> tuple[list[Decision], Interactions, TopN]:
    """Return random decisions, their log and lists; many lists begin as the log does."""
    decisions = []
    for number in range(n):
        pool = rng.permutation(items)[: rng.integers(k, items + 1)]
        shown = pool[: rng.integers(1, k + 1)]
        listed = (pool if rng.random() < 0.5 else rng.permutation(pool)).tolist()
        scores = sorted(rng.dirichlet(np.ones(len(listed))).tolist(), reverse=True)
        rows = [
            (number, int(item), place + 1, float(rng.uniform(0.1, 1)), float(rng.integers(-1, 3)))
            for place, item in enumerate(shown)
        ]
        decisions.append(Decision(listed, scores, rows))
    rows = [row for decision in decisions for row in decision.shown]
    rng.shuffle(rows)
    lists = lists_of([d.listed for d in decisions], [d.scores for d in decisions])
    return decisions, log_of([tuple(row) for row in rows], decisions=n, items=items), lists


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("estimator", ["ips", "clipped", "matches", "iips", "rips", "dm", "dr", "weight"])
def test_values_are_those_of_the_definition(estimator: str, policy: str) -> None:
    of_policy = f"policy={policy}{_PARAMETERS.get(policy, '')}"
    name = f"weight({of_policy})" if estimator == "weight" else f"value(estimator={estimator}, {of_policy})"
    for k in (1, 3):
        try:
            spec = parse(f"{name}@{k}")
        except ParameterError:
            continue  # the estimator is not defined for the policy, or not at this cutoff
        rng = np.random.default_rng(k)
        decisions, log, lists = drawn(rng, 60, k=k)
        q = rng.normal(size=(k, 5))
        expected = [decision.value(estimator, policy, q) for decision in decisions]
        np.testing.assert_allclose(values(spec.name, lists, log, q), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("policy", ["greedy", "softmax", "epsilon"])
def test_weights_of_all_slates_are_a_distribution(policy: str) -> None:
    slates = list(permutations(range(4), 3))
    rows = [(d, item, p + 1, 1.0, 0.0) for d, slate in enumerate(slates) for p, item in enumerate(slate)]
    lists = lists_of([[2, 0, 3, 1]] * len(slates), [[3.0, 1.0, 0.5, 0.1]] * len(slates))
    log = log_of(rows, decisions=len(slates), items=4)
    weights = values(f"weight(policy={policy}{_PARAMETERS.get(policy, '')})@3", lists, log)
    assert math.fsum(weights) == pytest.approx(1)


# Laws


def names(k: int = 1, policies: Sequence[str] = POLICIES) -> list[str]:
    """Return the values by all estimators of all policies that are defined at a cutoff."""
    found = []
    for policy in policies:
        for estimator in ESTIMATORS:
            try:
                name = f"value(estimator={estimator}, policy={policy}{_PARAMETERS.get(policy, '')})@{k}"
                found.append(parse(name).name)
            except ParameterError:
                continue
    return found


@pytest.mark.parametrize("k", [1, 3])
def test_the_logging_policy_has_the_mean_reward_by_every_estimator(k: int) -> None:
    _, log, lists = drawn(np.random.default_rng(0), 50)
    rewards = np.bincount(log.user, weights=np.where(log.position <= k, log.rating, 0))
    specs = with_companions([parse(name) for name in names(k)])
    blocks = Blocks.of(lists, log, train=log, shown=log, is_logging=True)
    for spec in specs:
        expected = {
            "value": rewards,
            "weight": np.ones(50),
            "unsupported": np.zeros(50),
            "effective_decisions": [50],
            "largest_weight": [1 / 50],
        }[spec.family]
        np.testing.assert_allclose(apply(spec, blocks), expected, atol=1e-12)


@dataclass(frozen=True)
class Simulation:
    """Logs of a Plackett-Luce policy on four items, and what each item earns at each position.

    Rewards of a position do not depend on other positions, so that every estimator's assumption holds.
    """

    logs: int = 2000
    decisions: int = 20
    length: int = 2

    def run(self, seed: int) -> tuple[TopN, Interactions, npt.NDArray[np.float64], dict[str, float]]:
        """Return lists, the rows of all logs, the mean rewards and the true value of each policy."""
        rng, n = np.random.default_rng(seed), self.logs * self.decisions
        weight, mean = np.array([4.0, 3, 2, 1]), rng.uniform(0.1, 0.9, (self.length, 4))
        order = np.argsort(rng.exponential(size=(n, 4)) / weight, axis=1)[:, : self.length]  # Plackett-Luce
        left = 10 - np.concatenate([np.zeros((n, 1)), np.cumsum(weight[order], axis=1)[:, :-1]], axis=1)
        reward = rng.random(order.shape) < mean[np.arange(self.length), order]
        listed, scores = [2, 0, 3, 1], [1.0, 0.6, 0.5, 0.0]
        rows = [
            np.repeat(np.arange(n), self.length),
            order.ravel(),
            np.tile(np.arange(1, self.length + 1), n),
            (weight[order] / left).ravel(),
            reward.ravel(),
        ]
        lists = TopN(
            np.arange(n, dtype=np.int32), np.tile(np.int32(listed), (n, 1)), np.tile(np.array(scores), (n, 1))
        )
        one = Decision(listed, scores, [])
        truth = {
            policy: math.fsum(
                p * math.fsum(mean[place, item] for place, item in enumerate(slate))
                for slate, p in one.slates(policy, self.length).items()
            )
            for policy in ("greedy", "softmax", "epsilon")
        }
        return lists, _columns(rows, n), mean, truth

    def check(self, values: npt.NDArray[np.float64], truth: float) -> None:
        """Check that the mean of the logs' estimates is the truth within their Monte Carlo error."""
        estimates = values.reshape(self.logs, self.decisions).mean(axis=1)
        assert abs(estimates.mean() - truth) < 4 * estimates.std() / math.sqrt(self.logs) + 1e-12


def _columns(rows: list[npt.NDArray[np.generic]], decisions: int) -> Interactions:
    return replace(
        log_of([(0, 0, 1, 1.0, 0.0)], decisions=decisions, items=4),
        user=rows[0].astype(np.int32),
        item=rows[1].astype(np.int32),
        position=rows[2].astype(np.int32),
        propensity=rows[3].astype(np.float64),
        rating=rows[4].astype(np.float32),
    )


@pytest.mark.parametrize("policy", ["greedy", "softmax", "epsilon"])
def test_estimates_are_unbiased_over_simulated_logs(policy: str) -> None:
    simulation = Simulation()
    lists, log, mean, truth = simulation.run(1)
    wrong, train = np.full(mean.shape, 0.3), np.ones(mean.shape)
    of_policy = f"policy={policy}{_PARAMETERS.get(policy, '')}"
    for estimator in ("ips", "rips"):
        name = f"value(estimator={estimator}, {of_policy})@2"
        simulation.check(np.array(values(name, lists, log, train)), truth[policy])
    if policy != "softmax":
        propensity = np.where(log.position == 1, 0.25, 0.5)  # wrong
        dr = f"value(estimator=dr, {of_policy})@2"
        simulation.check(np.array(values(dr, lists, log, wrong)), truth[policy])
        simulation.check(
            np.array(values(dr, lists, replace(log, propensity=propensity), mean)), truth[policy]
        )
        assert np.mean(values(dr.replace("dr", "dm"), lists, log, mean)) == pytest.approx(truth[policy])


@pytest.mark.parametrize("policy", ["greedy", "softmax", "epsilon"])
def test_snips_ignores_the_scale_of_weights_and_follows_shifted_rewards(policy: str) -> None:
    _, log, lists = drawn(np.random.default_rng(2), 80, k=1)
    name = f"value(policy={policy}{_PARAMETERS.get(policy, '')})@1"
    snips = values(name, lists, log)
    scaled = values(name, lists, replace(log, propensity=log.propensity / 8))
    shifted = values(name, lists, replace(log, rating=log.rating + np.float32(2)))
    assert scaled == pytest.approx(snips, rel=1e-12)
    assert np.mean(shifted) == pytest.approx(np.mean(snips) + 2)


@pytest.mark.parametrize("estimator", ["dr", "sndr"])
def test_with_the_true_rewards_estimates_are_those_of_the_model(estimator: str) -> None:
    rng = np.random.default_rng(3)
    _, log, lists = drawn(rng, 80)
    q = np.float32(rng.uniform(size=(3, 5)))
    log = replace(log, rating=q[log.position - 1, log.item])
    for policy in ("greedy", "epsilon"):
        model, found = (
            values(f"value(estimator={e}, policy={policy})@3", lists, log, q) for e in ("dm", estimator)
        )
        assert found == pytest.approx(model, abs=1e-12)


def test_softmax_is_greedy_as_the_temperature_falls() -> None:
    _, log, lists = drawn(np.random.default_rng(4), 80)
    for estimator in ("ips", "snips", "rips"):
        cold = values(f"value(estimator={estimator}, policy=softmax, temperature=1e-9)@3", lists, log)
        assert cold == pytest.approx(values(f"value(estimator={estimator})@3", lists, log), rel=1e-9)
    # Far scores neither overflow nor lose what is left once the best item is drawn.
    far = lists_of([[A, B, C]], [[1e308, 0.0, -1e308]])
    log = log_of([(0, A, 1, 1, 1), (0, B, 2, 1, 1), (0, C, 3, 1, 1)], decisions=1, items=3)
    assert values("weight(policy=softmax, temperature=1e-9)@3", far, log) == [1]
    assert values("weight(policy=softmax)@3", far, log) == [1]


def test_replay_is_snips_where_items_were_shown_uniformly() -> None:
    _, log, lists = drawn(np.random.default_rng(5), 80, k=1)
    log = replace(log, propensity=np.full(len(log), 0.2))
    replay = values("value(estimator=replay)@1", lists, log)
    assert replay == pytest.approx(values("value@1", lists, log), rel=1e-12)


# Parts


def state_of(
    lists: TopN, log: Interactions, decisions: npt.NDArray[np.int64], specs: list[str]
) -> ScorerState:
    part = TopN(lists.user[decisions], lists.item[decisions], lists.score[decisions])
    kept = log.select(np.isin(log.user, decisions))
    blocks = Blocks.of(part, kept, train=log, shown=log, log=log)
    return score_part(blocks, with_companions([parse(name) for name in specs]), [1, 2])


@settings(max_examples=20, deadline=None)
@given(part=st.lists(st.integers(0, 3), min_size=40, max_size=40), order=st.randoms(use_true_random=False))
def test_parts_merged_in_any_order_give_the_same_bits(part: list[int], order: random.Random) -> None:
    _, log, lists = drawn(np.random.default_rng(6), 40)
    specs = [*names(1, POLICIES[:3]), *names(3, POLICIES[:3])]
    whole = state_of(lists, log, np.arange(40), specs).scores()
    states = [state_of(lists, log, np.flatnonzero(np.array(part) == n), specs) for n in sorted(set(part))]
    order.shuffle(states)
    merged = ScorerState.merge(states).scores()
    assert merged.metrics == whole.metrics
    assert merged.values.tobytes() == whole.values.tobytes()
    assert merged.overall == whole.overall


def scores_of(names: Sequence[str], lists: TopN, log: Interactions) -> PerUserScores:
    return score_part(Blocks.of(lists, log), [parse(name) for name in names]).scores()


def test_what_a_value_is_derived_from_follows_it() -> None:
    alone = scores_of(["value@2"], LISTS, LOG)
    assert alone.metrics == ("value@2", "value(estimator=ips)@2", "weight@2")
    assert alone.means["value@2"] == pytest.approx(7 / 3)
    both = scores_of(["weight@2", "value@2"], LISTS, LOG)
    assert both.metrics[:2] == ("weight@2", "value@2")
    assert both.means["weight@2"] == 4


def test_values_have_no_curve() -> None:
    scores = score_part(Blocks.of(LISTS, LOG), [parse("value@2"), parse("hit@2")], [1, 2]).scores()
    assert set(scores.at_k) == {"hit"}


def test_each_value_brings_its_diagnostics() -> None:
    def companions(name: str) -> list[str]:
        return [spec.name for spec in specs_of([name])][1:]

    weights = ["weight@3", "effective_decisions@3", "largest_weight@3", "unsupported@3"]
    assert companions("value(estimator=ips)@3") == weights
    assert companions("value@3") == ["value(estimator=ips)@3", *weights]
    assert companions("value(estimator=dm)@3") == ["unsupported@3"]
    assert companions("value(estimator=sndr)@3") == [
        "value(estimator=dm)@3",
        "value(estimator=dr)@3",
        *weights,
    ]
    assert companions("value(estimator=replay)@3")[:2] == [
        "value(estimator=matches)@3",
        "weight(ratio=match)@3",
    ]
    assert companions("value(estimator=iips)@3")[0] == "weight(ratio=position)@3"
    assert companions("value(estimator=ips, policy=softmax, temperature=0.1)@3")[0] == (
        "weight(policy=softmax, temperature=0.1)@3"
    )
    assert [s.name for s in specs_of(["weight@3", "value@3"])][:3] == [
        "weight@3",
        "value@3",
        "value(estimator=ips)@3",
    ]


# The model of rewards


def test_rewards_are_shrunk_to_the_means_of_item_and_position() -> None:
    rows = [(d, A if d < 30 else B, 1 + d % 2, 1.0, float(d < 15)) for d in range(40)]
    model = RewardModel.of(log_of(rows, decisions=40, items=3))
    # 15 of 40 earn 1. A: 15 of 30; B: 0 of 10; C: none. Position 1: 8 of 20; position 2: 7 of 20.
    mean = 15 / 40
    items = [(15 + 20 * mean) / 50, (0 + 20 * mean) / 30, mean]
    for position, (reward, shown) in enumerate([((8, 0, 0), (15, 5, 0)), ((7, 0, 0), (15, 5, 0))], start=1):
        of_position = (sum(reward) + 20 * mean) / 40
        expected = [
            (r + 20 * (item + of_position - mean)) / (n + 20)
            for r, n, item in zip(reward, shown, items, strict=True)
        ]
        assert model.at(position).tolist() == pytest.approx(expected)
    assert model.at(9).tolist() == pytest.approx([(20 * item) / 20 for item in items])  # never shown there


def test_expected_rewards_stay_in_the_range_of_the_rewards() -> None:
    rows = [(d, d % 2, 1 + d // 500, 1.0, float(d % 2 == 0 and d < 500)) for d in range(1000)]
    model = RewardModel.of(log_of(rows, decisions=1000, items=2))
    assert model.at(1).max() <= 1
    assert model.at(2).min() >= 0


# What is refused


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("value(estimator=dr, policy=softmax)@3", "estimator=dr of policy=softmax goes with @1 only"),
        ("value(estimator=iips, policy=softmax)", "estimator=iips of policy=softmax goes with @1 only"),
        ("value(policy=given)@2", "policy=given goes with @1 only"),
        ("weight(policy=softmax, ratio=position)@2", "ratio=position of policy=softmax goes with @1 only"),
        ("weight(policy=softmax, ratio=match)@2", "ratio=match goes with policy=greedy only"),
        ("value(estimator=replay, policy=epsilon)@2", "estimator=replay goes with policy=greedy only"),
        ("value(temperature=2)@1", "temperature goes with policy=softmax only"),
        ("value(epsilon=0.5)@1", "epsilon goes with policy=epsilon only"),
        ("value(estimator=ips, bound=3)@1", "bound goes with estimator=clipped only"),
        ("value(truth=repeat)@1", "value takes no truth: it values whole decisions"),
        ("value(policy=softmax, temperature=0)@1", "temperature: must be greater than 0"),
    ],
)
def test_names_that_mean_no_value_are_refused(name: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        parse(name)


def test_lists_without_what_the_policy_reads_are_refused() -> None:
    softmax, given_, greedy = (parse(f"value(policy={p})@1") for p in ("softmax", "given", "greedy"))
    check_request([softmax, greedy], False, has_log=True)
    check_request([given_, greedy], False, has_log=True)
    with pytest.raises(DataError, match=r"needs a log of what was shown, with positions and propensities"):
        check_request([greedy], True)
    with pytest.raises(DataError, match=r"needs an earlier log of decisions too"):
        check_request([parse("value(estimator=dr)@1")], False, has_log=True)
    with pytest.raises(DataError, match=r"needs the scores of listed items, and these lists have ranks"):
        check_request([softmax], False, has_log=True, has_scores=False)
    with pytest.raises(
        DataError, match=r"needs the probabilities of listed items, and these lists have ranks"
    ):
        check_request([given_], False, has_log=True, has_scores=False)
    with pytest.raises(DataError, match=r"9 listed items have no finite score"):
        values("weight(policy=softmax)@1", lists_of([[A, B, C]] * 3), LOG)


def test_propensities_of_the_other_kind_are_refused_beyond_the_first_position() -> None:
    joint = ["value@2", "value(estimator=rips)", "value(estimator=dr)@2", "weight@2", "effective_decisions@2"]
    single = ["value(estimator=iips)@2", "largest_weight(ratio=position)@2"]
    either = ["value@1", "value(estimator=iips)@1", "value(estimator=dm)@2", "value(estimator=replay)@2"]
    first = LOG.select(LOG.position == 1)
    for refused, allowed, log, message in (
        (
            single,
            joint,
            LOG,
            r"needs marginal .* log are conditional, .* say propensities: marginal",
        ),
        (joint, single, replace(LOG, marginal=True), r"needs conditional .* take @1 or iips"),
    ):
        check_propensities(with_companions([parse(name) for name in [*allowed, *either]]), log)
        for name in refused:
            with pytest.raises(DataError, match=message):
                check_propensities([parse(name)], log)
            check_propensities([parse(name)], replace(first, marginal=log.marginal))


def test_probabilities_that_are_none_are_refused() -> None:
    for given_, message in (
        ([0.8, 0.4, 0.1], "exceed 1 in sum, up to 1.3"),
        ([0.8, 0.4, -0.2], "probability -0.2"),
    ):
        with pytest.raises(DataError, match=message):
            values("weight(policy=given)@1", lists_of([[A, B, C]] * 3, [given_] * 3), LOG)


def test_lists_that_are_shorter_than_a_pool_are_refused_where_any_item_may_be_shown() -> None:
    pool = Rows(
        np.array([0, 3, 6, 9]), np.tile(np.arange(3, dtype=np.int32), 3), np.ones(9, dtype=np.float32)
    )
    lists = lists_of([[A, B]] * 3, [[1.0, 0.0]] * 3)
    blocks = Blocks.of(lists, LOG, candidates=Candidates("given", included=pool))
    score_part(blocks, [parse("value@2")])
    with pytest.raises(DataError, match=r"a pool has 3 items, and lists are 2 long; set recommend.n to 3"):
        score_part(blocks, [parse("value(policy=softmax)@2")])


def test_ratios_are_refused_where_values_of_users_are_left_out() -> None:
    with pytest.raises(DataError, match=r"^value@2: follow from the values of all users together"):
        score_part(Blocks.of(LISTS, LOG), [parse("value@2")]).totals()
    ips = parse("value(estimator=ips)@2")
    assert score_part(Blocks.of(LISTS, LOG), [ips]).totals().means[ips.name] == pytest.approx(28 / 3)


# Lists from elsewhere


def test_evaluate_takes_positions_propensities_and_scores() -> None:
    found = evaluate(
        "weight(policy=softmax)@1",
        lists=[["a", "b"]],
        scores=[[0.0, 0.0]],
        truth=[{"a": 1}],
        shown=[{"a": (1, 0.5)}],
    )
    assert found == [1]


# In a bake-off


@pytest.mark.parametrize("is_logging", [False, True])
def test_tasks_pass_the_earlier_log_and_whether_the_model_made_the_log(
    is_logging: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODELS.entry("popularity").cls, "is_logging", is_logging)
    rows = [(3, A, 1, 1.0, 1.0), (3, B, 2, 1.0, 0.0)]
    shown = log_of(rows, decisions=4, items=3)
    test = replace(LOG, users=np.arange(4))
    train = replace(shown.select(shown.rating > 0), position=None, propensity=None)
    names = ["value(estimator=dr)@2", "value(estimator=dm)@2", "value(estimator=ips)@2", "unsupported@2"]
    task = Task(
        model=ModelRecipe("mine", "popularity", {}),
        split=Split(train, test, shown=shown),
        candidates=Candidates("all"),
        seed=0,
        stream=(),
        n=3,
        metrics=tuple(parse(name) for name in names),
        relevance=ABOVE_0,
    )
    scores = score_state(task, TaskLists(LISTS, None, Costs())).scores()
    if is_logging:
        assert scores.values.tolist() == [[3, 3, 3, 0], [1, 1, 1, 0], [3, 3, 3, 0]]
    else:
        model = RewardModel.of(shown)
        first, second = model.at(1), model.at(2)
        dm = [first[A] + second[B], first[B] + second[C], first[A] + second[B]]
        assert scores.column("value(estimator=dm)@2") == pytest.approx(dm)
        assert scores.column("value(estimator=ips)@2").tolist() == [24, 4, 0]
        dr = [dm[0] + 8 * (3 - dm[0]), dm[1] + 4 * (1 - dm[1]), dm[2]]
        assert scores.column("value(estimator=dr)@2") == pytest.approx(dr)


def test_a_bake_off_with_lists_shorter_than_the_pool_is_refused_before_models_are_fitted() -> None:
    config = load(small_config(metrics=["hit@3"], recommend={"n": 3, "candidates": "all"}))
    config = replace(config, metrics=(parse("value(policy=softmax)@2"),))
    log = replace(LOG, users=np.arange(4))
    train = replace(log_of([(3, A, 1, 1.0, 1.0)], decisions=4, items=3), position=None, propensity=None)
    fold = Split(train, log)
    check_policies(config, [fold], [Candidates("all")])
    short = replace(config, spec=config.spec.model_copy(update={"recommend": Recommend(n=2)}))
    with pytest.raises(DataError, match=r"a pool has 3 items, and lists are 2 long; set recommend\.n to 3"):
        check_policies(short, [fold], [Candidates("all")])
