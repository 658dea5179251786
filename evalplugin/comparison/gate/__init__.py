"""The gate: the decision whether a challenger replaces the champion."""

from evalplugin.comparison.gate.decide import (
    check_challengers,
    check_decisions,
    choose_contest,
    decide,
    gate_without_champion,
    no_champion_note,
)
from evalplugin.comparison.gate.decision import Budget, Condition, Decision, Outcome

__all__ = [
    "Budget",
    "Condition",
    "Decision",
    "Outcome",
    "check_challengers",
    "check_decisions",
    "choose_contest",
    "decide",
    "gate_without_champion",
    "no_champion_note",
]
