"""Base classes of metrics, and their registry."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeGuard, TypeVar, overload

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import PluginError
from evalplugin.components.registry import Component, Registry
from evalplugin.metrics.context import ScoringContext

if TYPE_CHECKING:
    from evalplugin.metrics.names import MetricSpec

C = TypeVar("C", bound=type)
MetricFunction: TypeAlias = Callable[..., Floats]
F = TypeVar("F", bound=MetricFunction)
Need: TypeAlias = Literal[
    "catalogue",
    "item_attributes",
    "log",  # a truth with the positions and propensities at which its items were shown
    "negatives",
    "pool",
    "predictions",
    "probabilities",  # lists whose scores are the probabilities of items
    "scores",  # lists with the score of each item
    "train",
]

# Raised when a convention of all metrics changes: relevance, gain, undefined users, ties.
CONVENTIONS_VERSION = 1
_DECLARED = ("higher_is_better", "bounds", "needs", "about", "version")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)


class Metric(Component):
    """Declared properties of a metric. Subclass ``UserMetric`` or ``OverallMetric``, not this."""

    higher_is_better: ClassVar[bool | None]  # None: neither is better by itself
    bounds: ClassVar[tuple[float, float]]  # lowest and highest value possible
    scope: ClassVar[Literal["user", "overall"]]
    needs: ClassVar[tuple[Need, ...]] = ()  # inputs beyond lists and truth
    about: ClassVar[Literal["truth", "lists"]] = "truth"  # lists: over all users with a list
    takes_k: ClassVar[bool] = True  # whether the name may end in @k
    version: ClassVar[int] = 1  # raised by hand whenever the definition changes

    @property
    def unit(self) -> str:
        """A word that headers add to the name where it is needed to tell two conventions apart, such as "per user"."""
        return ""

    @property
    def reads_whole_list(self) -> bool:
        """Whether items of the lists below k count."""
        return False

    def companions(self, k: int | None) -> tuple[MetricSpec, ...]:
        """Return the metrics that are shown beside this one wherever it is requested at a cutoff."""
        return ()

    def check_cutoff(self, k: int | None) -> None:
        """Check the cutoff of a name; None is the whole list.

        Raises:
            ValueError: The metric is not defined at it.
        """

    def check_ratings(self, lowest: float, highest: float) -> None:
        """Check the range of the truth's ratings, before any model is fitted.

        Raises:
            DataError: The metric is not defined on such ratings.
        """

    def check_attributes(self, items: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Check the attributes of the items, by name, before any model is fitted.

        Raises:
            DataError: One that the metric reads is missing.
        """


class UserMetric(Metric):
    """One value a user: a pure function of the context, independent of the size and order of blocks."""

    scope: ClassVar[Literal["user", "overall"]] = "user"

    def __call__(self, context: ScoringContext, k: int, /) -> Floats:
        """Return float64 (B,), NaN where undefined. Without @k in the name ``k`` is the lists' length."""
        raise NotImplementedError

    def sources(self, k: int | None) -> tuple[MetricSpec, ...]:
        """Return the metrics whose values of all users this one is derived from; none: it is computed block by block.

        Such a metric is not called: its values follow by ``derive`` once the values of all users are known.
        """
        return ()

    def derive(self, *values: Floats) -> Floats:
        """Return the value of each of all users, float64 (U,), from those of the ``sources``, float64 (U,) each."""
        raise NotImplementedError


class OverallMetric(Metric):
    """One value for all lists together, from an array of state that is updated block by block.

    With ``merge`` it can be computed where users are divided over processes or machines.
    """

    scope: ClassVar[Literal["user", "overall"]] = "overall"

    def start(self, n_items: int) -> npt.NDArray[np.generic]:
        """Return the state before the first block."""
        raise NotImplementedError

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Update the state by a block, in place."""
        raise NotImplementedError

    def merge(self, a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return the state of both, to the last bit the same in any order; optional.

        Sums of floats do not merge exactly.
        """
        raise NotImplementedError

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the value after the last block; NaN where it is undefined."""
        raise NotImplementedError


class SummedMetric(OverallMetric):
    """An overall metric whose state is an array of exact sums or counts."""

    def merge(self, a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return the sums of both."""
        total: npt.NDArray[np.generic] = np.add(a, b)
        return total


def is_overall(metric: Metric) -> TypeGuard[OverallMetric]:
    """Return whether a metric has one value for all lists together; that may depend on its parameters."""
    return metric.scope == "overall"


def is_mergeable(metric: OverallMetric) -> bool:
    """Return whether the states of two groups of users can be merged: whether the metric defines ``merge``."""
    return type(metric).merge is not OverallMetric.merge


def _lack(cls: type) -> str | None:
    if not issubclass(cls, (UserMetric, OverallMetric)):
        return "must subclass evalplugin.metrics.UserMetric or OverallMetric"
    base: type = UserMetric if issubclass(cls, UserMetric) else OverallMetric
    for name in ("__call__",) if base is UserMetric else ("start", "update", "finish"):
        if getattr(cls, name) is getattr(base, name):
            return f"does not define {name}"
    for name in ("higher_is_better", "bounds"):
        if not hasattr(cls, name):
            return f"does not state {name} (a ClassVar)"
    return None


METRICS: Registry[Metric] = Registry("metric", check=_lack)


def _create(name: str, params: Mapping[str, Any]) -> Metric:
    # A pickle holds the name alone; the registry of the process that reads it creates the metric.
    return METRICS.create(name, params)


@overload
def metric(name: str) -> Callable[[C], C]: ...


@overload
def metric(
    name: str,
    *,
    higher_is_better: bool | None,
    bounds: tuple[float, float],
    needs: tuple[Need, ...] = (),
    about: Literal["truth", "lists"] = "truth",
    version: int = 1,
) -> Callable[[F], F]: ...


def metric(name: str, **stated: Any) -> Callable[[Any], Any]:
    """Return a decorator that registers a dataclass, or a plain function, as the metric ``name``.

    A dataclass has its properties as class variables, a function in the decorator::

        @metric("first_is_relevant", higher_is_better=True, bounds=(0, 1))
        def first_is_relevant(context, k, *, weight: float = 1.0):
            return context.undefined_without_relevant(weight * context.n_hits(1))

    The function takes a ``ScoringContext`` of B users, and k unless the metric has none, and returns float64 (B,),
    NaN where it is undefined. Its keyword parameters are the metric's.

    Args:
        name: The name in configs and reports.
        stated: For a function: ``higher_is_better`` (None: neither) and ``bounds``, if need be ``needs``, ``about``
            and ``version``.

    Raises:
        PluginError: The name breaks the grammar or is taken, or the decorated object is no metric.
    """
    if not NAME.fullmatch(name):
        raise PluginError(f"metric {name!r}: a name is a letter followed by letters, digits and _ . -")
    if unknown := sorted(stated.keys() - _DECLARED):
        allowed = ", ".join(_DECLARED)
        raise PluginError(
            f"metric {name!r}: {unknown[0]!r} is not a property of a metric; allowed: {allowed}"
        )

    def decorate(target: Any) -> Any:
        if isinstance(target, type):
            if stated:
                raise PluginError(
                    f"metric {name!r}: the class {target.__name__} states {', '.join(stated)} itself"
                )
            return METRICS.register(name)(target)
        for needed in ("higher_is_better", "bounds"):
            if needed not in stated:
                raise PluginError(
                    f"metric {name!r}: a function needs {needed}: @metric({name!r}, {needed}=...)"
                )
        METRICS.register(name)(_class_of(name, target, stated))
        return target

    return decorate


def _class_of(name: str, function: MetricFunction, stated: Mapping[str, object]) -> type:
    """Return a frozen dataclass, a UserMetric, that computes ``function(context[, k], **parameters)``.

    Raises:
        PluginError: The function takes other parameters.
    """
    where = f"{function.__module__}: metric function {function.__qualname__}"
    kinds = inspect.Parameter
    positional, named = [], {}
    for own, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
            raise PluginError(f"{where}: its parameters must be named, not {parameter}")
        if parameter.kind is kinds.KEYWORD_ONLY:
            if parameter.annotation is kinds.empty:
                raise PluginError(f"{where}: parameter {own} needs an annotation, such as {own}: float")
            named[own] = parameter
        else:
            positional.append(own)
    if not 1 <= len(positional) <= 2:
        raise PluginError(
            f"{where} must take (context, k) or (context), and its own parameters behind a *; "
            f"it takes ({', '.join(positional)})"
        )
    takes_k = len(positional) == 2

    def call(self: Any, context: ScoringContext, k: int) -> Floats:
        given = {own: getattr(self, own) for own in named}
        return function(context, k, **given) if takes_k else function(context, **given)

    def reduce(self: Any) -> tuple[Any, ...]:
        return _create, (name, {own: getattr(self, own) for own in named})

    # Only the parameters' annotations are resolved: others may be there for type checkers alone.
    annotations = {own: parameter.annotation for own, parameter in named.items()}
    holder = type(function.__name__, (), {"__annotations__": annotations, "__module__": function.__module__})
    hints = typing.get_type_hints(holder, globalns=function.__globals__, include_extras=True)
    cls = dataclasses.make_dataclass(
        function.__name__,
        [
            (own, hints[own])
            if parameter.default is kinds.empty
            else (own, hints[own], dataclasses.field(default=parameter.default))
            for own, parameter in named.items()
        ],
        bases=(UserMetric,),
        namespace={**stated, "takes_k": takes_k, "__call__": call, "__reduce__": reduce},
        frozen=True,
        kw_only=True,
    )
    cls.__doc__ = function.__doc__
    cls.__module__, cls.__qualname__ = function.__module__, function.__qualname__
    return cls
