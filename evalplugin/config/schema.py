"""What a config may hold. Names and parameters of components are checked against the registries in ``load``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = [
    "Compare",
    "Config",
    "DatasetSpec",
    "InlineSpec",
    "ModelSpec",
    "Recommend",
    "Relevance",
    "SplitSpec",
    "Tracking",
]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class InlineSpec(BaseModel):
    """A component whose parameters stand beside its type."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)

    type: Annotated[str, Field(description="Registered type, see `evalplugin list`.")]
    name: Annotated[str, Field(min_length=1, description="Name in results; the type when left out.")] = ""

    @model_validator(mode="before")
    @classmethod
    def _fill_name(cls, value: Any) -> Any:
        return _with_name(value)

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the component."""
        return dict(self.model_extra or {})


class DatasetSpec(InlineSpec):
    """A dataset: a type, a name, and the type's own parameters. A plain word stands for its type alone."""


class SplitSpec(InlineSpec):
    """A split: a type, a name, and the type's own parameters. A plain word stands for its type alone."""


class ModelSpec(_Closed):
    """A model: a type, a name, parameters, and a grid of parameters to try. A plain word stands for its type alone."""

    type: Annotated[str, Field(description="Registered type, see `evalplugin list models`.")]
    name: Annotated[str, Field(min_length=1, description="Name in results; the type when left out.")] = ""
    params: Annotated[
        dict[str, Any], Field(description="Parameters of the model, see `evalplugin describe model`.")
    ] = {}
    grid: Annotated[
        dict[str, Annotated[list[Any], Field(min_length=1)]],
        Field(description="Values to try for each parameter; every combination is a model of its own."),
    ] = {}

    @model_validator(mode="before")
    @classmethod
    def _fill_name(cls, value: Any) -> Any:
        return _with_name(value)


class Relevance(_Closed):
    """What counts as relevant in the truth. The gain of an item stays its rating."""

    threshold: Annotated[
        float | None, Field(description="Lowest rating that is relevant; left out: every rating above 0.")
    ] = None


class Recommend(_Closed):
    """What lists are made."""

    n: Annotated[int, Field(ge=1, description="Length of the lists.")] = 100
    candidates: Annotated[
        Literal["unseen", "all", "judged", "sampled"],
        Field(
            description="Items that may be listed: all the user has not met in the train data (unseen), all, only the "
            "user's held-out items (judged), or those and some drawn at random (sampled)."
        ),
    ] = "unseen"
    negatives: Annotated[
        int | None,
        Field(ge=1, description="How many items to draw for each user; with `candidates: sampled` only."),
    ] = None

    @model_validator(mode="after")
    def _negatives_with_sampled(self) -> Recommend:
        if self.candidates == "sampled" and self.negatives is None:
            raise ValueError("candidates: sampled needs negatives: how many items to draw for each user")
        if self.candidates != "sampled" and self.negatives is not None:
            raise ValueError(f"negatives goes with candidates: sampled, not with {self.candidates}")
        return self


class Compare(_Closed):
    """How models are compared."""

    baseline: Annotated[
        str | None, Field(description="Name of the model that the others are compared with.")
    ] = None
    primary: Annotated[
        str | None, Field(description="Metric that ranks the models; left out: the first.")
    ] = None


class Tracking(_Closed):
    """Where results are logged."""

    uri: Annotated[
        str | None,
        Field(description="MLflow tracking URI; left out: MLFLOW_TRACKING_URI, or else sqlite:///mlflow.db."),
    ] = None
    board: Annotated[bool, Field(description="Whether to save a chart board in the MLflow UI.")] = True


class Config(_Closed):
    """A bake-off: models x datasets x splits, scored by the same metrics."""

    experiment: Annotated[str, Field(min_length=1, description="Name of the MLflow experiment.")]
    seed: Annotated[int, Field(ge=0, description="Root of all randomness.")] = 0
    plugins: Annotated[
        list[str], Field(description="Python files with components of your own, relative to this file.")
    ] = []
    datasets: Annotated[list[DatasetSpec], Field(min_length=1)]
    split: Annotated[list[SplitSpec], Field(min_length=1, description="One split, or a list of several.")]
    relevance: Relevance = Relevance()
    recommend: Recommend = Recommend()
    metrics: Annotated[list[str], Field(min_length=1, description="Metric names such as ndcg@10.")]
    models: Annotated[list[ModelSpec], Field(min_length=1)]
    compare: Compare = Compare()
    tracking: Tracking = Tracking()

    @field_validator("split", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]


def _with_name(value: Any) -> Any:
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, dict) and "name" not in value and isinstance(value.get("type"), str):
        value = {**value, "name": value["type"]}
    return value
