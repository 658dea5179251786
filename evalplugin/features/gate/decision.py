"""A decision on promotion, as plain values: every condition with its numbers, and the outcome."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Literal

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED
from evalplugin.base.numbers import signed
from evalplugin.data.queries import Unit
from evalplugin.features.gate.schema import FailOn
from evalplugin.features.words import GateOutcome

FORMAT = 2  # of the JSON
NEAR = 30  # a difference so many times smaller than the detectable one has no useful number of users
_ROUNDING = 1e-12  # of sums of errors

ConditionKind = Literal["result", "users", "gain", "metric", "cost", "segment"]


@dataclass(frozen=True)
class Condition:
    """One requirement on a challenger, and the value that was measured.

    For ``gain``, ``metric`` and ``segment`` the measured value is the difference from the champion, positive where the
    challenger is better, and its lower ``bound`` at ``confidence`` must be above ``limit``. For ``users`` the measured
    value must be at least ``limit``, for ``cost`` at most. Values that do not apply or were not measured are None.
    """

    challenger: str
    kind: ConditionKind
    name: str  # such as ndcg@10, fit_seconds, activity: 1-20 interactions
    passed: bool
    required: str  # in words
    limit: float | None = None
    measured: float | None = None
    bound: float | None = None
    confidence: float | None = None  # of the bound, one-sided; of a gain with Holm's correction
    p: float | None = None  # one-sided, of a true value above the limit
    p_holm: float | None = None  # of a gain: corrected for the number of challengers
    users: int | None = None  # number of users measured
    note: str = ""
    upper: float | None = None  # of a gain: the upper bound
    upper_confidence: float | None = None  # of the upper bound, one-sided; it needs no correction
    # Of a gain: by how much it must be above the limit to be found 4 times in 5.
    detectable: float | None = None
    # Of a gain that is neither shown nor excluded: with how many users it would be, 4 times in 5, if the true gain is
    # ``sought`` away from the limit: as far as no gain is from min_gain, or as the measured one where that is nearer.
    users_needed: int | None = None
    sought: float | None = None

    @property
    def is_undecided(self) -> bool:
        """Whether a gain above the limit is neither shown nor excluded by the upper bound."""
        if self.passed or self.upper is None or self.limit is None:
            return False
        return self.upper > self.limit

    @property
    def is_at_limit(self) -> bool:
        """Whether ``sought`` is so small that ``NEAR``**2 times as many users would not find it."""
        return (
            self.sought is not None and self.detectable is not None and self.sought * NEAR < self.detectable
        )

    @property
    def measured_text(self) -> str:
        """The measured value as text."""
        if self.measured is None:
            return "not measured"
        if self.kind == "users":
            return f"{self.measured:,.0f}"
        return f"{self.measured:.3g}" if self.kind == "cost" else signed(self.measured)


@dataclass(frozen=True)
class DecisionBudget:
    """The error of a gate that is spent over a number of decisions, as it was before one of them."""

    decisions: int  # ``gate.decisions``
    taken: int = 0  # before this one
    spent: float = 0.0  # of the error, 1 - ``gate.confidence``, by those

    @property
    def left(self) -> int:
        """The number of decisions that are left, this one included."""
        return max(0, self.decisions - self.taken)

    def error(self, confidence: float) -> float:
        """Return the error of this decision, the same for all that are left; 0 where all is spent.

        That is (1 - confidence) / decisions, unless ``decisions`` was changed on the way. The sum over all decisions is
        at most 1 - confidence, and so is the probability of any false promotion, however the decisions depend on each
        other.
        """
        unspent = 1 - confidence - self.spent
        return unspent / self.left if self.left and unspent > _ROUNDING else 0.0


@dataclass(frozen=True)
class Decision:
    """The outcome of a gate, and its reasons.

    - ``promote``: ``promoted`` passed every condition; if several did, it is the one with the largest gain;
    - ``keep``: challengers were judged, and each fails a guardrail or has a gain whose upper bound is at most
      ``min_gain``;
    - ``cannot_tell``: none passed, and the upper bound of a gain is above ``min_gain``: too few users to find out;
    - ``refuse``: none could be judged, for the ``reason`` given.
    """

    outcome: GateOutcome
    promoted: str | None
    champion: str
    reason: str  # one sentence
    metric: str  # canonical name of the deciding metric
    confidence: float
    challengers: tuple[str, ...]
    conditions: tuple[Condition, ...]  # by challenger
    contest: str  # the bake-off or the experiment
    dataset: str
    split: str
    notes: tuple[str, ...] = ()  # on the champion's origin, and on conditions that were not judged
    budget: DecisionBudget | None = None  # with ``gate.decisions``
    unit: Unit = "user"

    @property
    def error(self) -> float:
        """The probability, at most, that this decision promotes a challenger whose gain is not above the minimum."""
        return 1 - self.confidence if self.budget is None else self.budget.error(self.confidence)

    @property
    def error_spent(self) -> float:
        """The part of the error that this decision uses; 0 for a refusal."""
        return 0.0 if self.outcome == "refuse" else self.error

    @property
    def champion_stays(self) -> bool:
        """Whether challengers were judged, and none replaces the champion."""
        return self.outcome in ("keep", "cannot_tell")

    @property
    def decisions_left(self) -> int | None:
        """The number of decisions that are left after this one; None without ``gate.decisions``."""
        if self.budget is None:
            return None
        return self.budget.left - (self.outcome != "refuse")

    def of(self, challenger: str) -> tuple[Condition, ...]:
        """Return the conditions of one challenger."""
        return tuple(c for c in self.conditions if c.challenger == challenger)

    @property
    def ranked(self) -> list[str]:
        """The challengers, those with the largest gain first, those without one last."""
        gains = {
            c.challenger: c.measured for c in self.conditions if c.kind == "gain" and c.measured is not None
        }
        return sorted(self.challengers, key=lambda name: -gains.get(name, -math.inf))

    def passed(self, challenger: str) -> bool:
        """Return whether a challenger passed every condition."""
        conditions = self.of(challenger)
        return bool(conditions) and all(c.passed for c in conditions)

    def is_undecided(self, challenger: str) -> bool:
        """Return whether nothing but too few users stands against a challenger."""
        gains = [c for c in self.of(challenger) if not c.passed]
        return bool(gains) and all(c.kind == "gain" and c.is_undecided for c in gains)

    def exit_code(self, fail_on: FailOn) -> int:
        """Return 1 for an outcome to fail on, else 0.

        ``refuse`` fails if nothing could be judged; ``keep`` then too, and if no challenger is promoted,
        ``cannot_tell`` included.
        """
        failing = {"refuse": ("refuse",), "keep": ("refuse", "keep", "cannot_tell"), "never": ()}[fail_on]
        return EXIT_FAILED if self.outcome in failing else EXIT_DONE

    def to_json(self) -> str:
        """Return the decision as JSON text."""
        values = {"format": FORMAT, **asdict(self)}
        return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
