"""The parameters ``propensity`` and ``power`` of metrics that weight relevant items by inverse propensity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Protocol, TypeAlias

from pydantic import Field

if TYPE_CHECKING:
    from evalplugin.base.arrays import Floats
    from evalplugin.metrics.context import ScoringContext

Propensity: TypeAlias = Annotated[
    Literal["equal", "popularity"],
    Field(description="Chance that a relevant item is observed: equal, or as popularity^power"),
]
Power: TypeAlias = Annotated[
    float | None, Field(ge=0, le=10, description="Power of the popularity, with propensity=popularity")
]

_USABLE = "recall, ap and ndcg can be weighted, as in recall(propensity=popularity, power=0.5)"
_REASONS = {
    "hit": "a mean over relevant items of whether they are listed is recall, so weighted it would be that",
    "precision": "hits are divided by k, not by the weights of the relevant items, so that it could exceed 1",
    "rr": "the first relevant item that was observed need not be the first relevant one, which no weight corrects",
}
_REASON = "weights have no scale, so that they cancel only where they are divided by those of the user's relevant items"


class _Weighted(Protocol):
    @property
    def propensity(self) -> str: ...
    @property
    def power(self) -> float | None: ...


def check_propensity(metric: _Weighted, **only: object) -> None:
    """Check the two parameters of a metric that is made, and declare that it needs train data where it is weighted.

    ``only``: other parameters, each with the value that weights go with.

    Raises:
        ValueError: Parameters that do not go together.
    """
    if metric.propensity == "equal":
        if metric.power is not None:
            raise ValueError("power goes with propensity=popularity only")
        return
    if metric.power is None:
        raise ValueError("propensity=popularity needs power, for example power=0.5")
    for name, value in only.items():
        if getattr(metric, name) != value:
            raise ValueError(f"propensity=popularity goes with {name}={value} only")
    object.__setattr__(metric, "needs", ("train",))


def inverse_propensity(context: ScoringContext, power: float) -> Floats:
    """Return the weight of each item of the catalogue, known up to a factor: float64 (n_items,)."""
    assert context.train is not None, "`needs` says so"
    return context.train.inverse_propensity(power)


def why_not_weighted(family: str) -> str:
    """Return why a metric takes no propensity, as a sentence."""
    return f"{family} takes no propensity: {_REASONS.get(family, _REASON)}; {_USABLE}"
