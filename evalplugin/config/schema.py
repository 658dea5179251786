"""The schema of a config. Names and parameters of components are checked against the registries in ``load``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    create_model,
    field_validator,
    model_validator,
)

from evalplugin.config.components import ComponentSpec, DatasetSpec, EngineSpec, InlineSpec, in_one_line
from evalplugin.config.sections import (
    Closed,
    Compare,
    Recommend,
    Schedule,
    StoreSpec,
    TaskLimits,
    Tracking,
)
from evalplugin.config.spaces import Space
from evalplugin.metrics.relevance import Relevance

Effect = Literal[
    "scores",  # lists, per-user scores, and all that follows from them
    "comparison",  # ranks and differences of models
    "groups",  # scores by group of users
    "decision",  # the gate's
    "failures",  # which tasks end without a result
    "nothing",  # only the time and speed of the run, the stores and the notifications
]


@dataclass(frozen=True)
class Decides:
    """The effect of a section of the config: the most that it can change in the results of a bake-off.

    Stored steps, ``--if-changed`` and ``--resume`` compare fingerprints of the sections that matter to them.
    """

    effect: Effect


class SegmentSpec(InlineSpec):
    """A segment: a type, a name, and the type's own parameters."""

    @model_validator(mode="after")
    def _name_is_not_user(self) -> SegmentSpec:
        if self.name == "user":
            raise ValueError("a segment cannot be called 'user': it stands beside the users in tables")
        return self


class EnvironmentInput(Closed):
    """An environment variable that results depend on."""

    env: str = Field(description="Its name, such as FEATURES_VERSION.", examples=["FEATURES_VERSION"])

    @field_validator("env")
    @classmethod
    def _is_name(cls, value: str) -> str:
        if not value.isidentifier():
            raise ValueError(f"must be the name of an environment variable, not {value!r}")
        return value


class ModelSpec(ComponentSpec):
    """A model: a type, a name, parameters, values of parameters to compare or to tune, and further inputs."""

    params: dict[str, Any] = Field(
        default={},
        description="Parameters of the model, see `evalplugin describe model`.",
        examples=[{"k": 20}],
    )
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default={},
        description="Values for each parameter: every combination is a model, scored on the test data. The best of "
        "many has luck in its score.",
        examples=[{"k": [10, 40]}],
    )
    tune: dict[str, Space] = Field(
        default={},
        min_length=1,
        description="Parameters to tune, each with a list of values or a range. The defaults are the first trial.",
        examples=[{"k": {"int": [5, 300], "log": True}, "sim_options.name": ["msd", "cosine"]}],
    )
    inputs: list[Annotated[str, Field(min_length=1)] | EnvironmentInput] = Field(
        default=[],
        description="What else decides its results: files, folders and patterns, relative to this file, URIs such "
        "as models:/name@alias or https://..., and environment variables as {env: NAME}.",
        examples=[["vendor/lists.parquet", {"env": "FEATURES_VERSION"}]],
    )

    def points(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the name and the chosen values of each point of the grid; without one the model itself."""
        for point in itertools.product(*self.grid.values()):
            chosen = dict(zip(self.grid, point, strict=True))
            label = ", ".join(
                f"{key}={value if isinstance(value, str) else json.dumps(value)}"
                for key, value in chosen.items()
            )
            yield f"{self.name}({label})" if chosen else self.name, chosen


def _not_empty(value: Any) -> Any:
    if value is None:
        raise ValueError("is empty: leave it out, or write {} for what is the default")
    return value


class CheckedSection(Protocol):
    """A feature's section after its check, with all names looked up."""

    def as_mapping(self) -> dict[str, Any]:
        """Return the section as a config has it, with every default."""
        ...

    def codes(self) -> Iterator[str]:
        """Yield the versions and hashes of the code that applies it."""
        ...


@dataclass(frozen=True)
class FeatureSection:
    """A section of the config that belongs to a feature of bake-offs."""

    key: str  # at the top level
    model: type[Closed]
    effect: Effect
    may_be_empty: bool = False  # whether the key alone, without a value, is the same as nothing
    # Returns the names of segments that are shown even where all users are in one group.
    segments: Callable[[Any], Collection[str]] = lambda section: ()
    # A note on why the section holds only for all models of the config; None: it holds for a part of them too.
    of_all_models: str | None = None

    @property
    def field(self) -> str:
        """The name of the field in the schema: the key, or another one where pydantic has a method of that name."""
        return f"{self.key}_" if hasattr(BaseModel, self.key) else self.key


class Config(Closed):
    """A bake-off: models x datasets x splits, scored by the same metrics."""

    SECTIONS: ClassVar[tuple[FeatureSection, ...]] = ()  # of features, see ``root_schema``

    experiment: Annotated[str, Decides("nothing"), AfterValidator(in_one_line)] = Field(
        min_length=1, description="Name of the MLflow experiment.", examples=["shop"]
    )
    seed: Annotated[int, Decides("scores")] = Field(
        default=0, ge=0, description="Root of all randomness.", examples=[10]
    )
    seeds: Annotated[int, Decides("scores")] = Field(
        default=1,
        ge=1,
        description="How often a model that draws random numbers is fitted, each time with others. Users' scores are "
        "averaged, and intervals and tests take in the seeds.",
        examples=[5],
    )
    plugins: Annotated[list[str], Decides("scores")] = Field(
        default=[],
        description="Python files with components of your own, relative to this file.",
        examples=[["my_model.py"]],
    )
    datasets: Annotated[list[DatasetSpec], Decides("scores")] = Field(
        min_length=1,
        description="The datasets.",
        examples=[
            [{"name": "shop", "type": "csv", "path": "ratings.csv", "user": "user_id", "item": "item_id"}]
        ],
    )
    split: Annotated[list[InlineSpec], Decides("scores")] = Field(
        min_length=1,
        description="One split, or a list of several.",
        examples=[{"name": "latest", "type": "last_n", "n": 3}],
    )
    relevance: Annotated[Relevance, Decides("scores")] = Relevance()
    recommend: Annotated[Recommend, Decides("scores")] = Recommend()
    metrics: Annotated[list[str], Decides("scores")] = Field(
        min_length=1, description="Metric names such as ndcg@10.", examples=[["ndcg@10", "recall@10"]]
    )
    models: Annotated[list[ModelSpec], Decides("scores")] = Field(
        min_length=1,
        description="The models.",
        examples=[["popularity", {"name": "knn", "type": "surprise.KNNBasic"}]],
    )
    segments: Annotated[list[SegmentSpec], Decides("groups")] = Field(
        default=[SegmentSpec(type=name) for name in ("activity", "popularity", "cold")],
        description="Ways to divide the test users into groups, each with means of its own; left out: activity, "
        "popularity and cold, less any that puts all users into one group.",
        examples=[["activity", {"name": "quarters", "type": "popularity", "groups": 4}]],
    )
    compare: Annotated[Compare, Decides("comparison")] = Compare()
    tracking: Annotated[Tracking, Decides("nothing")] = Tracking()
    schedule: Annotated[Schedule | None, Decides("nothing")] = None
    workers: Annotated[int, Decides("nothing")] = Field(
        default=1,
        ge=1,
        description="Tasks at a time; 1: in this process. On several machines the default is as many as there is room "
        "for.",
        examples=[4],
    )
    engine: Annotated[EngineSpec | None, Decides("nothing")] = Field(
        default=None,
        description="Where tasks run; left out: on this machine. Results are the same on each engine.",
        examples=[{"type": "local", "users_per_task": 50_000}],
    )
    limits: Annotated[TaskLimits, Decides("failures")] = TaskLimits()
    store: Annotated[StoreSpec, Decides("nothing")] = StoreSpec()

    @field_validator("split", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]

    @classmethod
    def sections(cls, *effects: Effect) -> list[str]:
        """Return the top-level keys with one of some effects, in the order of the effects and then of the schema."""
        return [
            field.alias or name
            for effect in effects
            for name, field in cls.model_fields.items()
            if Decides(effect) in field.metadata
        ]


def root_schema(sections: Sequence[FeatureSection]) -> type[Config]:
    """Return the schema of configs with the sections of features."""
    fields: dict[str, Any] = {}
    for section in sections:
        kind: Any = Annotated[section.model | None, Decides(section.effect)]
        if not section.may_be_empty:
            kind = Annotated[kind, BeforeValidator(_not_empty)]
        fields[section.field] = (kind, Field(default=None, alias=section.key))
    schema = create_model("Config", __base__=Config, __doc__=Config.__doc__, **fields)
    schema.SECTIONS = tuple(sections)
    return schema
