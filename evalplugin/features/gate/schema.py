"""The sections ``gate`` and ``register``: the conditions of a promotion, and the registered model."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from evalplugin.config.sections import Closed

FailOn = Literal["keep", "refuse", "never"]
# Of a fold, on average; memory: the highest of the process, in 2**20 bytes.
Cost = Literal["fit_seconds", "recommend_seconds_per_user", "peak_memory_mb"]

_SHARE = r"\d+(\.\d+)?\s*%"
# Of a registered model: MLflow's own rule, less the characters that its filters and models:/ URIs cannot hold.
_NAME = r"[^/:@?'\"`\x00-\x1f\x7f]+"
_ALIAS = "[A-Za-z0-9_-]+"


@dataclass(frozen=True)
class Amount:
    """An amount of a metric: ``value``, or with ``is_share`` that share of the champion's mean."""

    value: float
    is_share: bool = False

    @classmethod
    def of(cls, given: float | str) -> Amount:
        """Parse an amount such as ``0.002`` or ``"1 %"``."""
        if isinstance(given, str):
            return cls(float(given.rstrip("% ")) / 100, is_share=True)
        return cls(float(given))

    def beside(self, mean: float) -> float:
        """Return the amount as a number, given the champion's mean."""
        return self.value * mean if self.is_share else self.value


def _amount(given: Any) -> float | str:
    if isinstance(given, str) and re.fullmatch(_SHARE, given):
        return given
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 <= given < math.inf:
        return float(given)
    raise ValueError(
        f"must be 0 or more, as a number such as 0.002 or as a share of the champion's mean such as 1 %, not {given!r}"
    )


_Amount = Annotated[
    float | str,
    BeforeValidator(_amount),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": f"^{_SHARE}$"}]}
    ),
]
_Confidence = Annotated[float, Field(ge=0.5, lt=1)]


def _is_name(text: str) -> bool:
    return bool(re.fullmatch(_NAME, text)) and text.strip() not in ("", ".", "..")


class ChampionSpec(Closed):
    """A champion from MLflow: its type and parameters are fitted anew, on the data of this bake-off."""

    registry: str = Field(
        json_schema_extra={"pattern": f"^{_NAME}@{_ALIAS}$"},
        description="name@alias of a model that evalplugin registered; until there is one, compare.baseline.",
        examples=["shop-recommender@champion"],
    )

    @field_validator("registry")
    @classmethod
    def _is_registered(cls, registry: str) -> str:
        name, _, alias = registry.partition("@")
        if not (_is_name(name) and re.fullmatch(_ALIAS, alias)):
            raise ValueError(f"must be name@alias, such as shop@champion, not {registry!r}")
        return registry


class CostLimit(Closed):
    """The limit of a challenger's cost."""

    max: float | None = Field(default=None, gt=0, description="Most that is allowed.", examples=[0.05])
    max_ratio: float | None = Field(
        default=None,
        gt=0,
        description="The same as a multiple of the champion's.",
        examples=[1.5],
    )

    @model_validator(mode="after")
    def _some_limit(self) -> CostLimit:
        if self.max is None and self.max_ratio is None:
            raise ValueError("needs max, max_ratio or both")
        return self


class SegmentMargin(Closed):
    """The most that a challenger may lose in any group of users, in the worst group, or between groups."""

    margin: _Amount | None = Field(
        default=None,
        description="Most that may be lost in each group.",
        examples=["10 %"],
    )
    worst: _Amount | None = Field(
        default=None,
        description="Most that may be lost from the champion's worst group to the challenger's.",
        examples=["2 %"],
    )
    gap: _Amount | None = Field(
        default=None,
        description="Most by which the gap between the highest and the lowest mean may grow; a share is of the "
        "champion's gap.",
        examples=[0.01],
    )
    metric: str | None = Field(
        default=None,
        description="Left out: the gate's.",
        examples=["recall@10"],
    )
    min_users: int | None = Field(
        default=None,
        ge=2,
        description="Smaller groups are not judged; left out: the gate's.",
        examples=[100],
    )

    @model_validator(mode="after")
    def _some_margin(self) -> SegmentMargin:
        if self.margin is None and self.worst is None and self.gap is None:
            raise ValueError("needs margin, worst, gap or several of them")
        return self


class Guardrails(Closed):
    """Limits of losses and costs."""

    confidence: _Confidence | None = Field(
        default=None,
        description="One-sided, that no more than the margin is lost; left out: the gate's confidence.",
        examples=[0.9],
    )
    metrics: dict[str, _Amount] = Field(
        default={},
        description="By metric the most that may be lost: a number, or a share such as 1 %.",
        examples=[{"recall@10": "2 %"}],
    )
    costs: dict[Cost, CostLimit] = Field(
        default={},
        description="By cost the most that is allowed, a fold on average. peak_memory_mb is what the model adds to "
        "the process.",
        examples=[{"recommend_seconds_per_user": {"max": 0.05}}],
    )
    segments: dict[str, SegmentMargin] = Field(
        default={},
        description="By segment the most that may be lost.",
        examples=[{"activity": {"margin": "10 %"}}],
    )


class Gate(Closed):
    """The conditions under which a challenger is promoted: only on evidence."""

    champion: str | ChampionSpec | None = Field(
        default=None,
        description="A model of this config, or a registered model; left out: the model that `register` names "
        "(beside which no other can be the champion), or else compare.baseline.",
        examples=["popularity"],
    )
    challengers: list[str] | None = Field(
        default=None,
        min_length=1,
        description="Models that may be promoted; left out: all but the champion. Each makes it harder for all.",
        examples=[["knn"]],
    )
    metric: str | None = Field(
        default=None, description="What decides; left out: compare.primary.", examples=["ndcg@10"]
    )
    dataset: str | None = Field(
        default=None, description="Needed where there are several.", examples=["shop"]
    )
    split: str | None = Field(
        default=None, description="Split to decide on; needed where there are several.", examples=["last_n"]
    )
    min_gain: _Amount = Field(
        default=0.0,
        description="What the gain must be above: a number, or a share of the champion's mean such as 1 %.",
        examples=["1 %"],
    )
    confidence: _Confidence = Field(
        default=0.95,
        description="One-sided, that the gain is above min_gain, for all challengers together: in one decision, or in "
        "all `decisions`. Without these, 30 independent decisions at 0.95 have an error with a chance of about 78 %.",
        examples=[0.99],
    )
    decisions: int | None = Field(
        default=None,
        ge=1,
        description="Over how many decisions, such as nights, the confidence holds; left out: for each alone. Those "
        "taken are counted in the experiment, by dataset and split; after the last the gate refuses. Where most "
        "scores are 0, it takes min_users of some thousands.",
        examples=[90],
    )
    min_users: int = Field(
        default=500,
        ge=2,
        description="Fewer users are no evidence.",
        examples=[200],
    )
    guardrails: Guardrails = Guardrails()
    accept: Literal["assumed"] | None = Field(
        default=None,
        description="assumed: decide although the propensities of the log are assumed; left out: refuse then.",
        examples=["assumed"],
    )
    fail_on: FailOn = Field(
        default="refuse",
        description="When the exit code is 1: where the gate cannot judge (refuse), where nothing is promoted (keep), "
        "or never.",
        examples=["keep"],
    )

    @property
    def least_gain(self) -> Amount:
        """``min_gain`` as an amount."""
        return Amount.of(self.min_gain)


class Register(Closed):
    """The model in the MLflow Model Registry that promoted challengers become versions of."""

    name: str = Field(
        min_length=1, description="Name of the registered model.", examples=["shop-recommender"]
    )
    n: int | None = Field(
        default=None, ge=1, description="Length of the lists; left out: recommend.n.", examples=[50]
    )
    refresh: bool = Field(
        default=True,
        description="Whether a champion that stays is registered again, with new lists, where the data has changed.",
        examples=[False],
    )

    @field_validator("name")
    @classmethod
    def _name_for_mlflow(cls, name: str) -> str:
        if not _is_name(name):
            raise ValueError(
                f"the name of a registered model holds no /, :, @, ?, quotes or control characters and is neither . "
                f"nor .., unlike {name!r}"
            )
        return name
