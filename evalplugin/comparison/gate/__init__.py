"""The gate: the decision whether a challenger replaces the champion."""

from evalplugin.comparison.gate.decide import (
    check_challengers,
    choose_contest,
    decide,
    first_gate,
    nobody_yet,
)
from evalplugin.comparison.gate.decision import Condition, Decision

__all__ = [
    "Condition",
    "Decision",
    "check_challengers",
    "choose_contest",
    "decide",
    "first_gate",
    "nobody_yet",
]
