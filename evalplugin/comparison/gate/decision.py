"""A decision on promotion, as plain values: every condition with its numbers, and the outcome."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED, DataError
from evalplugin.base.numbers import percent, signed
from evalplugin.config.gate import FailOn

__all__ = ["FORMAT", "Condition", "Decision", "Kind"]

FORMAT = 1  # of the JSON

Kind = Literal["result", "users", "gain", "metric", "cost", "segment"]


@dataclass(frozen=True)
class Condition:
    """One requirement on a challenger, and the value that was measured.

    For ``gain``, ``metric`` and ``segment`` the measured value is the difference from the champion, positive where the
    challenger is better, and its lower ``bound`` at ``confidence`` must be above ``limit``. For ``users`` the measured
    value must be at least ``limit``, for ``cost`` at most. Values that do not apply or were not measured are None.
    """

    challenger: str
    kind: Kind
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

    @property
    def measured_text(self) -> str:
        """The measured value as text."""
        if self.measured is None:
            return "not measured"
        if self.kind == "users":
            return f"{self.measured:,.0f}"
        return f"{self.measured:.3g}" if self.kind == "cost" else signed(self.measured)

    @property
    def bound_text(self) -> str:
        """The lower bound and its confidence as text; empty without a bound."""
        if self.bound is None or self.confidence is None:
            return ""
        return f"{signed(self.bound)} ({percent(self.confidence)})"


@dataclass(frozen=True)
class Decision:
    """The outcome of a gate, and its reasons.

    - ``promote``: ``promoted`` passed every condition; if several did, it is the one with the largest gain;
    - ``keep``: challengers were judged and none passed;
    - ``refuse``: none could be judged, for the ``reason`` given.
    """

    outcome: Literal["promote", "keep", "refuse"]
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

    def exit_code(self, fail_on: FailOn) -> int:
        """Return 1 for an outcome to fail on, else 0.

        ``refuse`` fails if nothing could be judged; ``keep`` then too, and if no challenger is promoted.
        """
        failing = {"refuse": ("refuse",), "keep": ("refuse", "keep"), "never": ()}[fail_on]
        return EXIT_FAILED if self.outcome in failing else EXIT_DONE

    def to_json(self) -> str:
        """Return the decision as JSON text; ``from_json`` reads it back."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Decision:
        """Return the decision that ``to_json`` wrote.

        Raises:
            DataError: The text is something else, or of another format.
        """
        try:
            values: dict[str, Any] = json.loads(text)
            found = values.pop("format")
            if found != FORMAT:
                raise DataError(f"a decision of format {found}; this version reads format {FORMAT}")
            conditions = tuple(Condition(**one) for one in values.pop("conditions"))
            values |= {name: tuple(values[name]) for name in ("challengers", "notes")}
            return cls(**values, conditions=conditions)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"this is no decision of evalplugin: {error!r}") from None
