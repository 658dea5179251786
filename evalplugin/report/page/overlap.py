"""The page's overlap of lists: a matrix of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalplugin.base.numbers import number
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.sentences.lists import overlap_lines, overlap_sentence


def overlap_matrix(comparison: Comparison, models: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return sentences and a row for each model that has lists; None without two of them.

    A row has a cell for each model: rbo above the diagonal, jaccard below, each as ``text`` and as the ``strength`` of
    its tint in percent; None on the diagonal.
    """
    values: dict[tuple[str, str], float] = {}
    for pair in comparison.overlaps:
        values[pair.model, pair.against] = pair.rbo
        values[pair.against, pair.model] = pair.jaccard
    having = [model for model in models if any(model["name"] in pair for pair in values)]
    if not having:
        return None
    rows = [
        {"model": model, "cells": [_cell(values.get((model["name"], other["name"]))) for other in having]}
        for model in having
    ]
    return {
        "sentence": overlap_sentence(comparison),
        "legend": list(overlap_lines(comparison)),
        "models": having,
        "rows": rows,
    }


def _cell(value: float | None) -> dict[str, Any] | None:
    return None if value is None else {"text": number(value, 2), "strength": round(60 * value)}
