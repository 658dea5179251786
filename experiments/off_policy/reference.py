"""Off-policy estimators in NumPy alone, to compare evalplugin with: nothing here is shared with it.

A log has n decisions of k positions. A policy is a list of the pool (n, L), best first, with scores (n, L). What it
would do enters as ratios: its probability of showing what was shown, over the logging policy's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Estimator = Literal["replay", "ips", "clipped", "snips", "dm", "dr", "sndr", "iips", "rips"]
ESTIMATORS: tuple[Estimator, ...] = ("replay", "ips", "clipped", "snips", "dm", "dr", "sndr", "iips", "rips")
PRIOR = 20.0  # rows that the reward model's expectation counts as


@dataclass(frozen=True)
class Log:
    """Decisions of k positions; item -1: nothing was shown there, with reward 0 and propensity 1."""

    item: Ints  # (n, k)
    reward: Floats  # (n, k)
    propensity: Floats  # (n, k), of each position given those above it


@dataclass(frozen=True)
class Policy:
    """Lists of all items of the pool, best first, padded with -1, and how to choose from them."""

    lists: Ints  # (n, L)
    scores: Floats  # (n, L), finite where there is an item
    kind: Literal["greedy", "softmax", "epsilon"] = "greedy"
    temperature: float = 1.0
    epsilon: float = 0.1

    def prefixes(self, item: Ints) -> Floats:
        """Return the probability that the items of positions 1 to p are shown there, for each p (n, k)."""
        if self.kind == "softmax":
            return np.cumprod(self._plackett_luce(item), axis=1)
        greedy = np.logical_and.accumulate(self._agrees(item), axis=1).astype(float)
        if self.kind == "greedy":
            return greedy
        shown = item >= 0
        left = (self.lists >= 0).sum(axis=1)[:, None] - (np.cumsum(shown, axis=1) - shown)
        uniform = np.cumprod(np.where(shown, self._in_pool(item) / np.maximum(left, 1), 1), axis=1)
        return (1 - self.epsilon) * greedy + self.epsilon * uniform

    def marginals(self, item: Ints) -> Floats:
        """Return the probability that the item of each position is shown there, whatever is above it (n, k)."""
        if self.kind == "softmax":
            if item.shape[1] > 1:
                raise ValueError("Plackett-Luce has no closed form of the marginals below position 1")
            return self._plackett_luce(item)
        agrees = self._agrees(item).astype(float)
        if self.kind == "greedy":
            return agrees
        size = (self.lists >= 0).sum(axis=1)[:, None]
        return (1 - self.epsilon) * agrees + self.epsilon * self._in_pool(item) / size

    def expected(self, model: Floats) -> Floats:
        """Return the expected reward at each position (n, k), by a reward model (items, k)."""
        k, listed = model.shape[1], self.lists >= 0
        if self.kind == "softmax":
            if k > 1:
                raise ValueError("Plackett-Luce has no closed form of the marginals below position 1")
            return (self._softmax() * model[self.lists, 0]).sum(axis=1, keepdims=True)
        of_lists = np.where(listed[:, :, None], model[self.lists], 0)  # (n, L, k)
        greedy = np.zeros((len(self.lists), k))
        for position in range(min(k, self.lists.shape[1])):
            greedy[:, position] = of_lists[:, position, position]
        if self.kind == "greedy":
            return greedy
        size = listed.sum(axis=1, keepdims=True)
        uniform = np.where(np.arange(k) < size, of_lists.sum(axis=1) / np.maximum(size, 1), 0)
        return (1 - self.epsilon) * greedy + self.epsilon * uniform

    def _agrees(self, item: Ints) -> npt.NDArray[np.bool_]:
        return (item == self.lists[:, : item.shape[1]]) | (item < 0)

    def _in_pool(self, item: Ints) -> npt.NDArray[np.bool_]:
        return (item[:, :, None] == self.lists[:, None, :]).any(axis=2) | (item < 0)

    def _softmax(self) -> Floats:
        scaled = np.where(self.lists >= 0, self.scores / self.temperature, -np.inf)
        e = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def _plackett_luce(self, item: Ints) -> Floats:
        """Return the probability of each position's item, given those above it (n, k)."""
        p = self._softmax()
        chosen = np.ones(item.shape)
        for position in range(item.shape[1]):
            here = (self.lists == item[:, [position]]) & (item[:, [position]] >= 0)
            chosen[:, position] = np.where(
                item[:, position] < 0, 1, (p * here).sum(axis=1) / np.maximum(p.sum(axis=1), 1e-300)
            )
            p = np.where(here, 0, p)
        return chosen


def reward_model(train: Log, n_items: int) -> Floats:
    """Return the mean reward of items at positions (items, k), shrunk to what item and position say alone."""
    k, rows = train.item.shape[1], train.item >= 0
    item, position, reward = train.item[rows], np.nonzero(rows)[1], train.reward[rows]
    overall = reward.mean()

    def shrunk(cell: Ints, n_cells: int, expected: Floats | float) -> Floats:
        total = np.bincount(cell, weights=reward, minlength=n_cells)
        return (total + PRIOR * expected) / (np.bincount(cell, minlength=n_cells) + PRIOR)

    of_items, of_positions = shrunk(item, n_items, overall), shrunk(position, k, overall)
    expected = np.clip(of_items[:, None] + of_positions - overall, reward.min(), reward.max())
    return shrunk(item * k + position, n_items * k, expected.ravel()).reshape(n_items, k)


def estimate(
    estimator: Estimator, log: Log, policy: Policy, *, bound: float = 10.0, model: Floats | None = None
) -> Floats:
    """Return a value for each decision (n,), whose mean is the estimate of the policy's value.

    Args:
        estimator: One of ``ESTIMATORS``.
        log: What was shown.
        policy: What is valued.
        bound: Largest weight of ``clipped``.
        model: Of rewards (items, k), for ``dm``, ``dr`` and ``sndr``.
    """
    weight = policy.prefixes(log.item) / np.cumprod(log.propensity, axis=1)
    if estimator == "rips":
        return (weight * log.reward).sum(axis=1)
    if estimator == "iips":
        return (policy.marginals(log.item) / log.propensity * log.reward).sum(axis=1)
    w, reward = weight[:, -1], log.reward.sum(axis=1)
    if estimator == "replay":
        return ratio((w > 0) * reward, (w > 0).astype(float))
    if estimator == "ips":
        return w * reward
    if estimator == "clipped":
        return np.minimum(w, bound) * reward
    if estimator == "snips":
        return ratio(w * reward, w)
    assert model is not None
    shown = log.item >= 0
    direct = (policy.expected(model) * shown).sum(axis=1)
    rest = reward - (model[log.item, np.arange(log.item.shape[1])] * shown).sum(axis=1)
    if estimator == "dm":
        return direct
    return direct + (w * rest if estimator == "dr" else ratio(w * rest, w))


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return values (n,) with the mean of a ratio of means, whose spread is that of the ratio (influence values)."""
    if not denominator.any():
        return np.full(len(numerator), np.nan)
    value = numerator.sum() / denominator.sum()
    return value + (numerator - value * denominator) / denominator.mean()
