"""Simulated logs of decisions whose policies' true values are known exactly.

Users have a type; expected rewards, logging policy and valued policies are tables of types and items, so that true
values are sums over tables and a log of 50,000 decisions takes milliseconds. The even and the odd item of a pair earn
the same (*twins*): a policy and the one that shows each item's twin in its place have the same value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TYPES = 40
LOGGING = ("uniform", "mild", "peaked", "floor", "narrow", "hidden")
EXAMINED = np.array([1.0, 0.7, 0.5])  # reward of a position over that of the first
EFFECTS = np.array([0.25, 0.25, 0.5, 3.0])  # of users on their rewards; their mean is 1
MILD_EFFECTS = np.array([0.5, 1.5])  # where rewards are frequent
SIZES, SIZE_SHARES = (
    np.array([1, 2, 4, 8, 32]),
    np.array([0.3, 0.25, 0.25, 0.15, 0.05]),
)  # decisions of a user
LOWEST = -18.0  # score below the best one: what is less likely would be lost in the sum of the rest
LARGEST = 0.33  # expected reward of any decision of a user without effect
LARGEST_MILD = 0.66


@dataclass(frozen=True)
class Cell:
    """What kind of log is simulated."""

    decisions: int
    items: int
    logging: str
    rewards: str  # "0.3 %", "3 %", "30 %", "revenue": 3 % with log-normal amounts
    users: bool  # several decisions a user, who differ in their rewards
    positions: int = 1

    @property
    def name(self) -> str:
        """Identity in seeds and tables."""
        users = "users" if self.users else "independent"
        return f"{self.positions}/{self.decisions}/{self.items}/{self.logging}/{self.rewards}/{users}"


@dataclass(frozen=True, eq=False)
class Table:
    """A policy as probabilities: of position 1 for each type, and without those above it below (Plackett-Luce)."""

    p: Floats  # (T, N)

    def prefixes(self, types: Ints, shown: Ints) -> Floats:
        """Return the probability of the first p items shown (n, k)."""
        each = self.p[types[:, None], shown]
        above = np.cumsum(each, axis=1) - each
        return np.cumprod(each / np.maximum(1 - above, 1e-300), axis=1)

    @cached_property
    def marginals(self) -> Floats:
        """The probability that an item is shown at positions 1 to 3 (3, T, N)."""
        p, n = self.p, self.p.shape[1]
        rest = np.maximum(1 - p, 1e-300)
        first = p / rest
        second = p * (first.sum(axis=1, keepdims=True) - first)
        if n < 3:
            return np.stack([p, second, np.zeros_like(p)])
        left = 1 - p[:, :, None] - p[:, None, :]
        pairs = np.where(left > 1e-14, first[:, :, None] * p[:, None, :] / np.where(left > 1e-14, left, 1), 0)
        pairs[:, np.arange(n), np.arange(n)] = 0
        third = p * (pairs.sum(axis=(1, 2))[:, None] - pairs.sum(axis=1) - pairs.sum(axis=2))
        return np.stack([p, second, third])

    def swapped(self, twin: Ints) -> Table:
        """Return the policy that shows each item's twin in its place."""
        return Table(self.p[:, twin])


@dataclass(frozen=True, eq=False)
class Greedy:
    """The items of a list (T, N), and a uniform slate with a chance of ``epsilon``."""

    lists: Ints
    epsilon: float = 0.0

    def prefixes(self, types: Ints, shown: Ints) -> Floats:
        """Return the probability of the first p items shown (n, k)."""
        k, n = shown.shape[1], self.lists.shape[1]
        agrees = np.logical_and.accumulate(self.lists[types, :k] == shown, axis=1)
        return (1 - self.epsilon) * agrees + self.epsilon / np.cumprod(n - np.arange(k))

    @cached_property
    def marginals(self) -> Floats:
        """The probability that an item is shown at positions 1 to 3 (3, T, N)."""
        t, n = self.lists.shape
        m = np.full((3, t, n), self.epsilon / n)
        for position in range(min(3, n)):
            m[position, np.arange(t), self.lists[:, position]] += 1 - self.epsilon
        return m

    def swapped(self, twin: Ints) -> Greedy:
        """Return the policy that shows each item's twin in its place."""
        return Greedy(twin[self.lists], self.epsilon)


@dataclass(frozen=True, eq=False)
class Mixture:
    """One policy with a chance of ``share``, otherwise another one."""

    a: AnyPolicy
    b: AnyPolicy
    share: float

    def prefixes(self, types: Ints, shown: Ints) -> Floats:
        """Return the probability of the first p items shown (n, k)."""
        return self.share * self.a.prefixes(types, shown) + (1 - self.share) * self.b.prefixes(types, shown)

    @cached_property
    def marginals(self) -> Floats:
        """The probability that an item is shown at positions 1 to 3 (3, T, N)."""
        return self.share * self.a.marginals + (1 - self.share) * self.b.marginals


AnyPolicy = Table | Greedy | Mixture


@dataclass(frozen=True, eq=False)
class Log:
    """Decisions (n,) of k positions."""

    types: Ints
    user: Ints | None  # None: every decision has its own
    shown: Ints  # (n, k)
    reward: Floats  # (n, k)
    propensity: Floats  # (n, k), of each position given those above it
    marginal: Floats  # (n, k), of each position, whatever is above it


@dataclass(frozen=True, eq=False)
class World:
    """Types, rewards and policies, from which any number of logs can be drawn."""

    cell: Cell
    share: Floats  # (T,) of decisions
    earns: Floats  # (T, N), expected reward at position 1
    logging: Table
    policies: dict[str, AnyPolicy]
    twin: Ints  # (N,)
    effects: Floats = field(default_factory=lambda: EFFECTS)

    @classmethod
    def drawn(cls, cell: Cell, rng: np.random.Generator) -> World:
        """Return a random world."""
        n, t = cell.items, TYPES
        twin = np.arange(n)
        twin[: n // 2 * 2] = np.arange(n // 2 * 2) ^ 1
        appeal = rng.standard_normal(n) * 0.6 + 0.8 * _affinity(t, n, rng)
        appeal = (appeal + appeal[:, twin]) / np.sqrt(2)  # twins alike
        share = rng.dirichlet(np.full(t, 1.0))
        noisy = 0.5 * appeal + rng.standard_normal((t, n)) * 0.7 + 0.4 * rng.standard_normal(n)
        logging = _logging(cell, noisy, rng)
        rate = {"0.3 %": 0.003, "3 %": 0.03, "30 %": 0.3, "revenue": 0.03}[cell.rewards]
        frequent = cell.rewards == "30 %"
        earns = np.exp(appeal)
        largest = LARGEST_MILD if frequent else LARGEST
        for _ in range(20):  # the logging policy earns the rate, as far as the largest rewards allow it
            earns = np.minimum(earns * rate / (share @ (logging.p * earns).sum(axis=1)), largest)
        good, near = appeal + 0.5 * rng.standard_normal((t, n)), noisy + 0.3 * rng.standard_normal((t, n))
        bad = rng.standard_normal((t, n))
        policies: dict[str, AnyPolicy] = {
            "near soft": Table(_softmax(near)),
            "good soft": Table(_softmax(good)),
            "good sharp": Table(_softmax(4 * good)),
            "good greedy": Greedy(_order(good)),
            "good epsilon": Greedy(_order(good), 0.2),
            "bad greedy": Greedy(_order(bad)),
            "bad soft": Table(_softmax(bad)),
        }
        return cls(cell, share, earns, logging, policies, twin, MILD_EFFECTS if frequent else EFFECTS)

    @property
    def examined(self) -> Floats:
        """The reward of each position over that of the first (k,)."""
        return EXAMINED[: self.cell.positions]

    def value(self, policy: AnyPolicy) -> float:
        """Return the expected sum of rewards of a decision."""
        m = policy.marginals[: self.cell.positions]
        return float(np.einsum("k,t,kti,ti->", self.examined, self.share, m, self.earns))

    def worth_the_logging(self, best: AnyPolicy, worst: AnyPolicy) -> Mixture | None:
        """Return the mixture of two policies that has the logging policy's value; None if there is none."""
        high, low, value = self.value(best), self.value(worst), self.value(self.logging)
        if high == low or not 0 < (share := (value - low) / (high - low)) < 1:
            return None
        return Mixture(best, worst, share)

    def log(self, rng: np.random.Generator, decisions: int | None = None) -> Log:
        """Return a log of new users."""
        n, k = decisions or self.cell.decisions, self.cell.positions
        if self.cell.users:
            sizes = rng.choice(SIZES, size=n, p=SIZE_SHARES)
            user = np.repeat(np.arange(n), sizes)[:n]
            own = rng.choice(TYPES, size=user[-1] + 1, p=self.share)
            types = np.where(rng.random(n) < 0.7, own[user], rng.choice(TYPES, size=n, p=self.share))
            effect = rng.choice(self.effects, size=user[-1] + 1)[user]
        else:
            user, effect = None, np.ones(n)
            types = rng.choice(TYPES, size=n, p=self.share)
        shown = _draw(self.logging.p, types, k, rng)
        earns = self.earns[types[:, None], shown] * self.examined * effect[:, None]
        reward = (rng.random((n, k)) < earns).astype(np.float64)
        if self.cell.rewards == "revenue":
            reward *= np.exp(rng.standard_normal((n, k)) - 0.5)
        prefix = self.logging.prefixes(types, shown)
        propensity = prefix / np.hstack([np.ones((n, 1)), prefix[:, :-1]])
        marginal = propensity if k == 1 else self.logging.marginals[np.arange(k), types[:, None], shown]
        return Log(types, user, shown, reward, propensity, marginal)


def _affinity(types: int, items: int, rng: np.random.Generator) -> Floats:
    return rng.standard_normal((types, 3)) @ rng.standard_normal((3, items)) / np.sqrt(3)


def _softmax(scores: Floats) -> Floats:
    below = scores - scores.max(axis=1, keepdims=True)
    e = np.where(np.isneginf(scores), 0, np.exp(np.maximum(below, LOWEST)))
    return e / e.sum(axis=1, keepdims=True)


def _order(scores: Floats) -> Ints:
    return np.argsort(-scores, axis=1)


def _logging(cell: Cell, scores: Floats, rng: np.random.Generator) -> Table:
    t, n = scores.shape
    if cell.logging == "uniform":
        return Table(np.full((t, n), 1 / n))
    if cell.logging == "mild":
        return Table(_softmax(scores))
    if cell.logging == "peaked":
        return Table(_softmax(3 * scores))
    if cell.logging == "floor":
        top = np.zeros((t, n))
        top[np.arange(t), scores.argmax(axis=1)] = 1
        return Table(0.9 * top + 0.1 / n)
    if cell.logging == "narrow":  # only the better half of the items, for each type
        kept = _order(_order(scores)) < max(2, cell.positions, n // 2)
        return Table(_softmax(np.where(kept, scores, -np.inf)))
    # Nobody is shown a fifth of the items.
    hidden = rng.permutation(n) < (n // 5 if n - n // 5 >= cell.positions else 0)
    return Table(_softmax(np.where(hidden, -np.inf, scores)))


def _draw(p: Floats, types: Ints, k: int, rng: np.random.Generator) -> Ints:
    """Return k different items of each decision (n, k), each chosen from those that are left."""
    if k == 1:
        ends = np.cumsum(p, axis=1)
        ends[:, -1] = 1
        # One sorted array for all types: those of type t end between t and t + 1.
        at = np.searchsorted(
            (ends + np.arange(len(p))[:, None]).ravel(), types + rng.random(len(types)), "right"
        )
        return (np.minimum(at, p.size - 1) % p.shape[1])[:, None]
    with np.errstate(divide="ignore"):
        keys = np.log(p)[types] + rng.gumbel(size=(len(types), p.shape[1]))
    return np.argsort(-keys, axis=1)[:, :k]
