"""The parameters of a logged model, and how they were tuned."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalplugin.base.inputs import ENV
from evalplugin.comparison.compared import Tuned, budget_text, split_text

__all__ = ["models_of", "params_of", "tuned_of"]


def tuned_of(params: Mapping[str, str], metrics: Mapping[str, float]) -> Tuned | None:
    """Return how a model was tuned, from its run's parameters and metrics; None where it was not.

    Raises:
        ValueError: A number of its budget is none.
    """
    if (metric := params.get("tune.metric")) is None:
        return None
    split, budget = (
        {name.removeprefix(prefix): value for name, value in params.items() if name.startswith(prefix)}
        for prefix in ("tune.split.", "tune.budget.")
    )
    return Tuned(
        metric=metric,
        split=split_text(split),
        budget=budget_text({name: _number(name, value) for name, value in budget.items() if value != "null"}),
        validation=metrics.get("tune/validation", math.nan),
        optimism=metrics.get("tune/optimism", math.nan),
    )


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"the parameter tune.budget.{name} is {text!r}, not a number") from None


def params_of(file: Path) -> dict[str, Any]:
    """Return the parameters of a tuned model."""
    try:
        return dict(json.loads(file.read_bytes()))
    except (ValueError, TypeError):
        raise ValueError("is no mapping of parameters") from None


def models_of(file: Path) -> list[dict[str, Any]]:
    """Return the models of a resolved config."""
    import yaml

    try:
        resolved = yaml.safe_load(file.read_text(encoding="utf-8"))
        return [
            {
                "name": str(model["name"]),
                "params": dict(model["params"]),
                "inputs": [
                    f"{ENV}{one['env']}" if isinstance(one, dict) else str(one)
                    for one in model.get("inputs", ())
                ],
            }
            for model in resolved["models"]
        ]
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError):
        raise ValueError("is no resolved config with models") from None
