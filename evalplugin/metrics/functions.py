"""Metric classes from plain functions, whose keyword parameters become the metric's parameters."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import PluginError
from evalplugin.metrics.context import ScoringContext

__all__ = ["MetricFunction", "dataclass_of"]

MetricFunction = Callable[..., Floats]


def dataclass_of(
    function: MetricFunction,
    base: type,
    stated: Mapping[str, object],
    rebuild: Callable[[Mapping[str, Any]], Any],
) -> type:
    """Return a frozen dataclass below ``base`` that computes ``function(context[, k], **parameters)``.

    Args:
        function: Takes the context and, unless the metric takes no k, k; further parameters have annotations.
        base: The base class.
        stated: The class variables.
        rebuild: A function from parameters to an equal instance, for pickling.

    Raises:
        PluginError: The function takes other parameters.
    """
    where = f"{function.__module__}: metric function {function.__qualname__}"
    kinds = inspect.Parameter
    positional, named = [], {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
            raise PluginError(f"{where}: its parameters must be named, not {parameter}")
        if parameter.kind is kinds.KEYWORD_ONLY:
            if parameter.annotation is kinds.empty:
                raise PluginError(f"{where}: parameter {name} needs an annotation, such as {name}: float")
            named[name] = parameter
        else:
            positional.append(name)
    if not 1 <= len(positional) <= 2:
        raise PluginError(
            f"{where} must take (context, k) or (context), and its own parameters behind a *; "
            f"it takes ({', '.join(positional)})"
        )
    takes_k = len(positional) == 2

    def call(self: Any, context: ScoringContext, k: int) -> Floats:
        given = {name: getattr(self, name) for name in named}
        return function(context, k, **given) if takes_k else function(context, **given)

    def reduce(self: Any) -> tuple[Any, ...]:
        return rebuild, ({name: getattr(self, name) for name in named},)

    # Only the parameters' annotations are resolved: others may be there for type checkers alone.
    annotations = {name: parameter.annotation for name, parameter in named.items()}
    holder = type(function.__name__, (), {"__annotations__": annotations, "__module__": function.__module__})
    hints = typing.get_type_hints(holder, globalns=function.__globals__, include_extras=True)
    cls = dataclasses.make_dataclass(
        function.__name__,
        [
            (name, hints[name])
            if parameter.default is kinds.empty
            else (name, hints[name], dataclasses.field(default=parameter.default))
            for name, parameter in named.items()
        ],
        bases=(base,),
        namespace={**stated, "takes_k": takes_k, "__call__": call, "__reduce__": reduce},
        frozen=True,
        kw_only=True,
    )
    cls.__doc__ = function.__doc__
    cls.__module__, cls.__qualname__ = function.__module__, function.__qualname__
    return cls
