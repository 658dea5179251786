"""The gate: the decision whether a challenger replaces the champion."""

from evalplugin.comparison.gate.decide import (
    check_challengers,
    check_decisions,
    choose_contest,
    decide,
    gate_without_champion,
    no_champion_note,
)
from evalplugin.comparison.gate.decision import Condition, Decision, DecisionBudget, GateOutcome

__all__ = [
    "Condition",
    "Decision",
    "DecisionBudget",
    "GateOutcome",
    "check_challengers",
    "check_decisions",
    "choose_contest",
    "decide",
    "gate_without_champion",
    "no_champion_note",
]
