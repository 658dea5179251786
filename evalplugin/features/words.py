"""Words of the gate that other features read from runs, send and check."""

from typing import Literal

GateOutcome = Literal["promote", "keep", "cannot_tell", "refuse"]
CHAMPION = "champion"  # the name of a champion from MLflow among the models


def outcome_words(outcome: str) -> str:
    """Return an outcome as it is shown: ``cannot tell`` for ``cannot_tell``."""
    return outcome.replace("_", " ")
