"""A config in which all is right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evalplugin.base.parameters import as_mapping
from evalplugin.config.schema import (
    Config,
)
from evalplugin.data import DatasetLoader, Splitter
from evalplugin.metrics import MetricSpec
from evalplugin.segments import Segmenter

__all__ = ["CheckedConfig", "NamedDataset", "NamedModel", "NamedSegment", "NamedSplit"]


@dataclass(frozen=True)
class NamedDataset:
    """A dataset under its name in the config."""

    name: str
    type: str
    loader: DatasetLoader


@dataclass(frozen=True)
class NamedSplit:
    """A split under its name in the config."""

    name: str
    type: str
    splitter: Splitter


@dataclass(frozen=True)
class NamedSegment:
    """A segment under its name in the config."""

    name: str
    type: str
    segmenter: Segmenter


@dataclass(frozen=True)
class NamedModel:
    """A model, or one point of a model's grid: what is needed to make it anew in any process."""

    name: str
    type: str
    params: Mapping[str, Any]  # every parameter, defaults included


@dataclass(frozen=True)
class CheckedConfig:
    """A config in which every name is known, every parameter is checked and every grid is expanded."""

    spec: Config
    name: str
    text: str
    folder: Path  # what relative paths are relative to
    datasets: tuple[NamedDataset, ...]
    splits: tuple[NamedSplit, ...]
    models: tuple[NamedModel, ...]
    metrics: tuple[MetricSpec, ...]
    primary: MetricSpec
    segments: tuple[NamedSegment, ...]

    @property
    def plugins(self) -> tuple[Path, ...]:
        """The plugin files."""
        return tuple(self.folder / path for path in self.spec.plugins)

    @property
    def resolved(self) -> dict[str, Any]:
        """The config as plain values, with every default filled in and every grid expanded."""
        spec = self.spec
        return {
            "experiment": spec.experiment,
            "seed": spec.seed,
            "plugins": list(spec.plugins),
            "datasets": [{"name": d.name, "type": d.type, **as_mapping(d.loader)} for d in self.datasets],
            "split": [{"name": s.name, "type": s.type, **as_mapping(s.splitter)} for s in self.splits],
            "relevance": spec.relevance.model_dump(),
            "recommend": spec.recommend.model_dump(),
            "metrics": [m.name for m in self.metrics],
            "models": [{"name": m.name, "type": m.type, "params": dict(m.params)} for m in self.models],
            "segments": [{"name": s.name, "type": s.type, **as_mapping(s.segmenter)} for s in self.segments],
            "compare": {"baseline": spec.compare.baseline, "primary": self.primary.name},
            "tracking": spec.tracking.model_dump(),
            **{
                name: part.model_dump()
                for name, part in (
                    ("gate", spec.gate),
                    ("register", spec.registered),
                    ("schedule", spec.schedule),
                    ("notify", spec.notify),
                )
                if part is not None
            },
            "workers": spec.workers,
            "limits": spec.limits.model_dump(),
            "store": spec.store.model_dump(),
        }

    @property
    def resolved_yaml(self) -> str:
        """``resolved`` as YAML text."""
        return yaml.safe_dump(self.resolved, sort_keys=False, allow_unicode=True)

    @property
    def hash(self) -> str:
        """A hash of all that can change a score: the same for two configs that differ in tracking or segments alone."""
        shown = ("experiment", "segments", "compare", "gate", "register", "tracking", "schedule", "notify")
        how = ("workers", "limits", "store")
        plain = {k: v for k, v in self.resolved.items() if k not in shown + how}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
