"""Log items: the parameters, tags, metrics, files and datasets of a run, as plain values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Param(NamedTuple):
    """A parameter; ``value`` is a plain value."""

    key: str
    value: object

    @property
    def text(self) -> str:
        """The value as MLflow stores it: text as it is, anything else as JSON."""
        if isinstance(self.value, str):
            return self.value
        return json.dumps(self.value, ensure_ascii=False, default=str)


class Tag(NamedTuple):
    """A tag; a value that is too long for MLflow is shortened when it is logged."""

    key: str
    value: str


class Datum(NamedTuple):
    """A plain value for programs: it becomes a part of the tag ``evalplugin.provenance``, which is JSON."""

    key: str
    value: Any


class OfModel(NamedTuple):
    """The logged model that a metric belongs to besides its run, and the data that it was measured on."""

    model_id: str
    dataset: str
    digest: str


class Metric(NamedTuple):
    """One value of a metric; ``step`` is k, a percentile, a recall in percent or a fold."""

    key: str
    value: float
    step: int = 0
    of: OfModel | None = None


class Artifact(NamedTuple):
    """A file or folder of a run: text (logged without credentials), bytes, or a function that writes it."""

    path: str  # in the run
    content: str | bytes | Callable[[Path], object]


class Dataset(NamedTuple):
    """A dataset that a run used: the fields of MLflow's dataset, and its context."""

    name: str
    digest: str
    source: dict[str, object]
    schema: str
    profile: str
    context: str  # "training" or "evaluation"


Item = Param | Tag | Datum | Metric | Artifact | Dataset
