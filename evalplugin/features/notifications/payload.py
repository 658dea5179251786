"""Notification payloads: the outcome of a bake-off as values that JSON can hold, without credentials."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from evalplugin._version import __version__
from evalplugin.base.errors import EvalpluginError
from evalplugin.base.secrets import redact_values
from evalplugin.comparison.comparison import Comparison
from evalplugin.config import ConfigHeader
from evalplugin.features.base import Results

Payload = dict[str, Any]


def payload_of(header: ConfigHeader, results: Results) -> Payload:
    """Return the payload of a bake-off that was run to its end.

    Under ``failed`` each model that failed is listed once for every dataset and split on which it did: ``dataset``,
    ``split``, ``model``, ``error``. Why the winner could not be registered becomes ``error``, and so does a finding
    that the config declares to be an error.
    """
    result, links, decision = results.result, results.links, results.values.get("decision")
    wrong = next((finding.line for finding in results.findings if finding.is_error), None)
    ended = "failure" if result.failed else "done"
    return payload_with(
        header,
        outcome=ended if decision is None else decision.outcome,
        bakeoff=result.bakeoff.id,
        decision=None if decision is None else json.loads(decision.to_json()),
        standings=[_standings(comparison) for comparison in results.comparisons],
        failed=[
            {
                "dataset": model.data.dataset,
                "split": model.data.split,
                "model": model.model,
                "error": model.failure,
            }
            for model in result.failed
        ],
        checks=[asdict(finding) for finding in results.findings],
        error=results.values.get("unregistered") or wrong,
        links={}
        if links is None
        else {"store": links.tracking_uri, "board": links.board_url, "compare": links.compare_url},
    )


def failure_payload(header: ConfigHeader, error: BaseException, *, bakeoff: str | None = None) -> Payload:
    """Return the payload of a bake-off that was cut short by an error; the same keys as ``payload_of``."""
    text = str(error) if isinstance(error, EvalpluginError) else f"{type(error).__name__}: {error}"
    return payload_with(header, outcome="failure", error=text, bakeoff=bakeoff)


def payload_with(header: ConfigHeader, **known: Any) -> Payload:
    """Return a payload with the values that are known, and defaults for the rest."""
    payload: Payload = {
        "evalplugin": __version__,
        "outcome": "failure",
        "config": header.name,
        "experiment": header.experiment,
        "bakeoff": None,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "decision": None,
        "standings": [],
        "failed": [],
        "checks": [],
        "error": None,
        "links": {},
    }
    return redact_values(_finite(payload | known))


def _standings(comparison: Comparison) -> dict[str, Any]:
    contest = comparison.contest
    models = []
    for row in comparison.models:
        cell = row.cells.get(contest.primary)
        numbers = {} if cell is None else {"mean": cell.mean, "low": cell.low, "high": cell.high}
        models.append({"model": row.model, "rank": row.rank, **numbers})
    return {
        "dataset": contest.dataset,
        "split": contest.split,
        "metric": contest.primary,
        "baseline": contest.baseline,
        "may_be_best": comparison.may_be_best,
        "models": models,
    }


def _finite(value: Any) -> Any:
    """Return a value with null in place of NaN and infinity, which JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
