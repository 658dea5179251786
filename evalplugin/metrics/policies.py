"""Policies that follow from lists: how likely each shows an item at a position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import NO_ITEM, Floats, Ints
from evalplugin.base.errors import DataError
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.slates import Slates, row_totals

PolicyName: TypeAlias = Annotated[
    Literal["greedy", "softmax", "epsilon", "given"],
    Field(
        description="What a list is shown as: its best item at each position (greedy), items drawn by their scores "
        "(softmax), greedy or else at random (epsilon), or items drawn by probabilities that lists have (given)"
    ),
]
Temperature: TypeAlias = Annotated[
    float, Field(gt=0, description="With policy=softmax: scores are divided by it; towards 0 greedy")
]
Epsilon: TypeAlias = Annotated[
    float, Field(ge=0, le=1, description="With policy=epsilon: the probability of a random order of the list")
]
TEMPERATURE, EPSILON = 1.0, 0.1

_ROUNDING = 1e-6  # by which the probabilities of a list may exceed 1 in sum
Table: TypeAlias = Callable[[int], Floats]  # a position -> a value for each item of the catalogue (n_items,)


@dataclass(frozen=True)
class Policy:
    """A distribution over the slates of a decision, whose items are those of its list."""

    def conditional(self, context: ScoringContext, slates: Slates) -> Floats:
        """Return the probability of each item shown by the log, given those that it shows above: float64 (B, K).

        Where nothing is shown, it is 1. The probability behind an item that the policy never shows has no meaning.
        """
        raise NotImplementedError

    def marginal(self, context: ScoringContext, slates: Slates) -> Floats:
        """Return the probability of each item shown by the log, whatever is shown elsewhere: float64 (B, K).

        It is the same where positions do not depend on each other, and at K = 1.
        """
        return self.conditional(context, slates)

    def expected(self, context: ScoringContext, n_positions: int, table: Table) -> Floats:
        """Return the expectation of a table's value of the item at each position: float64 (B, n_positions).

        Where the policy shows nothing, the value is 0.
        """
        raise NotImplementedError


def policy_of(name: str, temperature: float, epsilon: float) -> Policy:
    """Return the policy of a name.

    Raises:
        ValueError: A parameter of another policy is set.
    """
    if temperature != TEMPERATURE and name != "softmax":
        raise ValueError("temperature goes with policy=softmax only")
    if epsilon != EPSILON and name != "epsilon":
        raise ValueError("epsilon goes with policy=epsilon only")
    policies = {
        "greedy": Greedy(),
        "softmax": Softmax(temperature),
        "epsilon": EpsilonGreedy(epsilon),
        "given": Given(),
    }
    return policies[name]


@dataclass(frozen=True)
class Greedy(Policy):
    """Each list as it is: its first item at the first position, and so on."""

    def conditional(self, context: ScoringContext, slates: Slates) -> Floats:
        """Return 1 where the list has the item at its position, else 0."""
        matches = slates.rank == np.arange(1, slates.rank.shape[1] + 1)
        return np.where(slates.shown, matches, 1.0)

    def expected(self, context: ScoringContext, n_positions: int, table: Table) -> Floats:
        """Return the value of the list's item at each position."""
        expected = np.zeros((context.n_users, n_positions))
        for column in range(min(n_positions, context.n)):
            listed = context.listed[:, column]
            expected[listed, column] = table(column + 1)[context.item[listed, column]]
        return expected


@dataclass(frozen=True)
class Softmax(Policy):
    """Items of the list drawn without replacement, each in proportion to exp(score / temperature) (Plackett-Luce)."""

    temperature: float

    def conditional(self, context: ScoringContext, slates: Slates) -> Floats:
        """Return the probability of drawing each item from those that the log does not show above."""
        drawn = np.where(slates.shown, 0.0, 1.0)
        row = np.flatnonzero(slates.rank[:, 0])
        drawn[row, 0] = self._first(context)[row, slates.rank[row, 0] - 1]
        left = np.where(context.listed, context.score, -np.inf) if drawn.shape[1] > 1 else context.score
        for column in range(1, drawn.shape[1]):
            left[row, slates.rank[row, column - 1] - 1] = -np.inf
            row = np.flatnonzero(slates.rank[:, column])
            draws = self._draws(left if len(row) == len(left) else left[row])
            drawn[row, column] = draws[np.arange(len(row)), slates.rank[row, column] - 1]
        return drawn

    def expected(self, context: ScoringContext, n_positions: int, table: Table) -> Floats:
        """Return the expectation at the first position, for all positions: that at later ones has no closed form."""
        return _repeated(row_totals(self._first(context) * _of_lists(context, table(1))), n_positions)

    def _first(self, context: ScoringContext) -> Floats:
        """Return the probability of each listed item to be drawn first: float64 (B, N), 0 behind the end."""
        return context.once(self, lambda: self._draws(np.where(context.listed, context.score, -np.inf)))

    def _draws(self, score: Floats) -> Floats:
        """Return the probability of each item to be drawn: float64 (B, N); 0 where the score is -inf."""
        best = score.max(axis=1, keepdims=True)
        with np.errstate(over="ignore"):  # far below the best, exp is 0 all the same
            draws = score - np.where(np.isfinite(best), best, 0.0)  # a row may have no item
            draws /= self.temperature
        np.exp(draws, out=draws)
        total = row_totals(draws)[:, None]
        return np.divide(draws, total, out=draws, where=total > 0)


@dataclass(frozen=True)
class EpsilonGreedy(Policy):
    """The list as it is, but with probability epsilon its items in random order instead."""

    epsilon: float

    def conditional(self, context: ScoringContext, slates: Slates) -> Floats:
        """Return the share that each item leaves of the probability of the items above."""
        greedy = Greedy().conditional(context, slates)
        above: Ints = np.cumsum(slates.shown, axis=1) - slates.shown  # items shown above
        left = np.maximum(context.n_listed[:, None] - above, 1)
        at_random = np.where(slates.shown, (slates.rank > 0) / left, 1.0)
        together = (1 - self.epsilon) * np.cumprod(greedy, axis=1)
        together += self.epsilon * np.cumprod(at_random, axis=1)
        before = np.concatenate([np.ones((len(together), 1)), together[:, :-1]], axis=1)
        left_over: Floats = np.divide(together, before, out=np.zeros(together.shape), where=before > 0)
        return left_over

    def marginal(self, context: ScoringContext, slates: Slates) -> Floats:
        """Return the probability of each item at its position: greedy and random orders together."""
        at_random = (slates.rank > 0) / np.maximum(context.n_listed[:, None], 1)
        marginal = (1 - self.epsilon) * Greedy().marginal(context, slates) + self.epsilon * at_random
        return np.where(slates.shown, marginal, 1.0)

    def expected(self, context: ScoringContext, n_positions: int, table: Table) -> Floats:
        """Return the expectation at each position: of the list's item, and of all items with equal probability."""
        expected = (1 - self.epsilon) * Greedy().expected(context, n_positions, table)
        n_listed = np.maximum(context.n_listed, 1)
        for column in range(n_positions):
            # A random order that is shorter than the slate leaves the last positions empty.
            has_item = context.n_listed > column
            mean = row_totals(_of_lists(context, table(column + 1))) / n_listed
            expected[:, column] += np.where(has_item, self.epsilon * mean, 0.0)
        return expected


@dataclass(frozen=True)
class Given(Policy):
    """Items drawn for the first position by the probabilities that lists have."""

    def conditional(self, context: ScoringContext, slates: Slates) -> Floats:
        """Return the given probability of each item."""
        assert slates.rank.shape[1] == 1, "check_cutoff refuses others"
        rank = slates.rank[:, 0]
        listed = self._probability(context)[np.arange(len(rank)), np.maximum(rank, 1) - 1]
        return np.where(slates.shown, np.where(rank > 0, listed, 0.0)[:, None], 1.0)

    def expected(self, context: ScoringContext, n_positions: int, table: Table) -> Floats:
        """Return the expectation at the first position."""
        values = self._probability(context) * _of_lists(context, table(1))
        return _repeated(row_totals(values), n_positions)

    def _probability(self, context: ScoringContext) -> Floats:
        """Return the probability of each listed item: float64 (B, N), 0 behind the end.

        Raises:
            DataError: One is below 0, or those of a decision exceed 1 in sum.
        """
        probability = np.where(context.listed, context.score, 0.0)
        if (probability < 0).any():
            raise DataError(
                f"the lists have the probability {probability.min():g}: probabilities are 0 to 1, and those of a "
                f"decision's items add up to 1"
            )
        total = row_totals(probability)
        if (total > 1 + _ROUNDING).any():
            raise DataError(
                f"the probabilities of the items of {int((total > 1 + _ROUNDING).sum()):,} decisions exceed 1 in sum, "
                f"up to {total.max():g}: they must add up to 1"
            )
        return probability


def _of_lists(context: ScoringContext, values: Floats) -> Floats:
    """Return the value of each listed item: float64 (B, N), 0 behind the end."""
    of_lists = values.take(context.item, mode="wrap")  # NO_ITEM is the last, until it is masked
    return of_lists if context.listed.all() else np.where(context.item == NO_ITEM, 0.0, of_lists)


def _repeated(values: Floats, n_positions: int) -> Floats:
    return np.broadcast_to(values[:, None], (len(values), n_positions))
