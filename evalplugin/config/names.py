"""Names that one section of a config may use and another defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evalplugin.base.errors import KeyPath, Problem, did_you_mean
from evalplugin.metrics import MetricSpec

CHAMPION = "champion"  # the name of a champion from MLflow among the models


@dataclass(frozen=True)
class ConfigNames:
    """The names that a config defines. A kind that is malformed defines none: any name may be one of its own."""

    models: Sequence[str]
    metrics: Sequence[MetricSpec]
    datasets: Sequence[str]
    splits: Sequence[str]
    segments: Sequence[str]
    baseline: str | None
    knows_champion: bool  # False where a section that determines the champion is malformed


def unknown_name(
    kind: str, name: str, names: Sequence[str], path: KeyPath, *, at_key: bool = False
) -> Iterator[Problem]:
    """Yield a problem if a name is not among the names of its kind.

    Args:
        kind: The kind, such as ``model``.
        name: The name that the config uses.
        names: The names that the config defines; empty if they are unknown, as the section is malformed.
        path: The place of the name.
        at_key: Whether the name is a key and not a value.
    """
    if names and name not in names:
        near = did_you_mean(name, names, noun=f"{kind}s")
        yield Problem(path, f"no {kind} is named {name!r}{near}", at_key)


def unlisted_metric(
    metric: MetricSpec, metrics: Iterable[MetricSpec], path: KeyPath, *, at_key: bool = False
) -> Iterator[Problem]:
    """Yield a problem if a metric is not in the list of metrics; see ``unknown_name``."""
    names = [listed.name for listed in metrics]
    if names and metric.name not in names:
        near = did_you_mean(metric.name, names, noun="metrics")
        yield Problem(path, f"{metric.name!r} is not in the list of metrics{near}", at_key)
