"""Digests of a run's values in a tag, by which tags, parameters and metrics that were changed are named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evalplugin.base.fingerprint import digest
from evalplugin.tracking.names import MAX_TAG

if TYPE_CHECKING:
    from mlflow.entities import Run

__all__ = ["VALUES", "changed_values", "digests_of_values"]

VALUES = "evalplugin.values"  # the tag
_DIGITS = 6  # hexadecimal, of the digest of a key or of a value
_PAIR = re.compile(rf"([0-9a-f]{{{_DIGITS}}})([0-9a-f]{{{_DIGITS}}})")
# Tags that are read back, and do not change once a model's results are logged.
_TAGS = (
    "role", "bakeoff", "model", "model_type", "dataset", "split", "place", "metrics_hash", "definitions", "warnings",
    "checksums",
)  # fmt: skip


def digests_of_values(run: Run) -> str:
    """Return the digests of what a model's run has: data, tags and parameters, and as many metrics as fit a tag."""
    pairs = (_digest(key) + _digest(value) for key, value in _values(run))
    return "".join(pairs)[: MAX_TAG - MAX_TAG % (2 * _DIGITS)]


def changed_values(run: Run) -> list[str]:
    """Return the values that are not those that were logged, in words; none for a run without digests.

    A value of which only the digest is left cannot be named: it is counted.
    """
    text = run.data.tags.get(VALUES)
    if text is None:
        return []
    logged = dict(_PAIR.findall(text))
    if len(text) % (2 * _DIGITS) or not _PAIR.match(text):
        return [f"the tag {VALUES} = {_shown(text)}"]
    changed = []
    for key, value in _values(run):
        if (expected := logged.pop(_digest(key), None)) is not None and expected != _digest(value):
            changed.append(f"{key} = {_shown(value)}")
    if logged:
        changed.append(f"{len(logged)} lost {'value' if len(logged) == 1 else 'values'}")
    return changed


def _values(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the values of a run by what they are called in messages."""
    for given in run.inputs.dataset_inputs if run.inputs else ():
        context = next((tag.value for tag in given.tags if tag.key == "mlflow.data.context"), "")
        yield f"the digest of the {context} data", given.dataset.digest
    for key in _TAGS:
        if (text := run.data.tags.get(f"evalplugin.{key}")) is not None:
            yield f"the tag evalplugin.{key}", text
    for key, text in sorted(run.data.params.items()):
        yield f"the parameter {key}", text
    for key, number in sorted(run.data.metrics.items()):
        if not key.startswith("vs_baseline/"):  # which are logged when all models are compared
            yield f"the metric {key}", repr(float(number))


def _digest(text: str) -> str:
    return digest(text)[:_DIGITS]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
