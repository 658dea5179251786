"""What a metric is, and the registry of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from evalplugin.errors import PluginError
from evalplugin.metrics.context import ScoringContext
from evalplugin.registry import Registry

__all__ = ["CONVENTIONS_VERSION", "METRICS", "Metric", "Need", "OverallMetric", "UserMetric", "metric"]

C = TypeVar("C", bound=type)
Need: TypeAlias = Literal["predictions", "train"]

# Raised when a convention that all metrics share changes: relevance, gain, who is undefined, ties.
CONVENTIONS_VERSION = 1
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)


class Metric:
    """What every metric states about itself. Subclass ``UserMetric`` or ``OverallMetric``, not this."""

    higher_is_better: ClassVar[bool | None]  # None: neither is better by itself
    bounds: ClassVar[tuple[float, float]]  # lowest and highest value possible
    scope: ClassVar[Literal["user", "overall"]]
    needs: ClassVar[tuple[Need, ...]] = ()  # beyond lists and truth: predicted ratings, the train data
    takes_k: ClassVar[bool] = True  # whether the name may end in @k
    version: ClassVar[int] = 1  # raised by hand whenever the definition changes


class UserMetric(Metric):
    """One value a user: a pure function of the context, so that blocks may come in any size and order."""

    scope: ClassVar[Literal["user", "overall"]] = "user"

    def __call__(self, context: ScoringContext, k: int, /) -> npt.NDArray[np.float64]:
        """Return float64 (B,), NaN where undefined. Without @k in the name ``k`` is the lists' length."""
        raise NotImplementedError


class OverallMetric(Metric):
    """One value for all lists together, from an array of state that takes in block after block."""

    scope: ClassVar[Literal["user", "overall"]] = "overall"

    def start(self, n_items: int) -> npt.NDArray[np.generic]:
        """Return the state before the first block."""
        raise NotImplementedError

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Take a block into the state, in place."""
        raise NotImplementedError

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the value once every block is in; NaN where it is undefined."""
        raise NotImplementedError


def _lack(cls: type) -> str | None:
    if not issubclass(cls, (UserMetric, OverallMetric)):
        return "must subclass evalplugin.metrics.UserMetric or OverallMetric"
    needed = ("__call__",) if issubclass(cls, UserMetric) else ("start", "update", "finish")
    base = UserMetric if issubclass(cls, UserMetric) else OverallMetric
    for name in needed:
        if getattr(cls, name) is getattr(base, name):
            return f"does not define {name}"
    for name in ("higher_is_better", "bounds"):
        if not hasattr(cls, name):
            return f"does not state {name} (a ClassVar)"
    return None


METRICS: Registry[Metric] = Registry("metric", check=_lack)


def metric(name: str) -> Callable[[C], C]:
    """Return a decorator that registers a dataclass as the metric ``name``.

    Raises:
        PluginError: The name could not be written in a metric list, or the class is no metric.
    """
    if not _NAME.fullmatch(name):
        raise PluginError(f"metric {name!r}: a name is a letter followed by letters, digits and _ . -")
    return METRICS.register(name)
