"""What a config may hold. Names and parameters of components are checked against the registries in ``load``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from evalplugin.base.errors import DataError
from evalplugin.config.cron import Cron
from evalplugin.config.gate import Gate, Register
from evalplugin.config.running import KeptIn, TaskLimits

__all__ = [
    "Compare",
    "Config",
    "DatasetSpec",
    "InlineSpec",
    "ModelSpec",
    "Notify",
    "Recommend",
    "Relevance",
    "Schedule",
    "SegmentSpec",
    "SplitSpec",
    "Tracking",
]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _checked(check: Callable[[str], None], value: str) -> str:
    try:
        check(value)
    except DataError as error:
        raise ValueError(str(error)) from None
    return value


def _with_name(value: Any) -> Any:
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, dict) and "name" not in value and isinstance(value.get("type"), str):
        value = {**value, "name": value["type"]}
    return value


def _names_host(address: str) -> bool:
    try:
        return bool(urlsplit(address).hostname)
    except ValueError:
        return False


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


class SegmentSpec(InlineSpec):
    """A segment: a type, a name, and the type's own parameters. A plain word stands for its type alone."""

    @model_validator(mode="after")
    def _beside_the_user(self) -> SegmentSpec:
        if self.name == "user":
            raise ValueError("a segment cannot be called 'user': it stands beside the users in tables")
        return self


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


class Schedule(_Closed):
    """When `evalplugin schedule` runs the bake-off."""

    cron: Annotated[
        str,
        Field(
            description="Five fields: minute, hour, day of month, month, day of week; 0 3 * * * is nightly."
        ),
    ]
    timezone: Annotated[str, Field(description="Time zone of the fields, such as Europe/Berlin.")] = "UTC"
    catch_up_hours: Annotated[
        float,
        Field(
            gt=0,
            le=8760,
            description="How late a run may start that was missed, since the machine slept or another run took so "
            "long; later than that it is left out. Of several that were missed only one is made up for.",
        ),
    ] = 12.0

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, value: str) -> str:
        return _checked(Cron.check_expression, value)

    @field_validator("timezone")
    @classmethod
    def _is_timezone(cls, value: str) -> str:
        return _checked(Cron.check_timezone, value)


class Notify(_Closed):
    """Who hears what came of a bake-off: a command on its standard input, or an address by POST; as JSON.

    `${NAME}` in either is replaced by an environment variable, whose value is shown nowhere.
    """

    command: Annotated[
        list[str] | None,
        Field(min_length=1, description="The program and its arguments; no shell is involved."),
    ] = None
    url: Annotated[str | None, Field(description="Where the JSON is posted, such as ${WEBHOOK_URL}.")] = None
    on: Annotated[
        list[Literal["promote", "keep", "refuse", "done", "failure", "interrupted"]],
        Field(
            min_length=1,
            description="What is told: what the gate decided; done: a bake-off without a gate has ended; failure: it "
            "could not be run, a model failed, or the winner was not registered; interrupted, which is told only "
            "where it is named here: it was ended by Ctrl-C or a signal.",
        ),
    ] = ["promote", "keep", "refuse", "done", "failure"]
    tries: Annotated[int, Field(ge=1, le=10, description="How often it is tried until it works.")] = 3
    timeout_seconds: Annotated[float, Field(gt=0, le=600, description="How long each try may take.")] = 30.0

    @field_validator("command")
    @classmethod
    def _is_command(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and not value[0].strip():
            raise ValueError(f"must begin with the name of a program, not with {value[0]!r}")
        if value is not None and "\0" in "".join(value):
            raise ValueError("must not hold the character NUL, which no program can be given")
        return value

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is None or value.startswith("${"):
            return value
        if not value.startswith(("http://", "https://")):
            raise ValueError("must be an address that begins with https://, http:// or ${NAME}")
        if not _names_host(value):
            raise ValueError("must name a host, such as https://example.org/hook")
        return value

    @property
    def texts(self) -> list[str]:
        """What may hold `${NAME}`."""
        return self.command or [self.url or ""]

    @model_validator(mode="after")
    def _command_or_url(self) -> Notify:
        if (self.command is None) == (self.url is None):
            raise ValueError("needs a command or a url, one of them")
        return self


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
    segments: Annotated[
        list[SegmentSpec],
        Field(
            description="Ways to divide the test users into groups, each with means of its own; left out: activity, "
            "popularity and cold, less any that puts all users into one group."
        ),
    ] = [SegmentSpec(type=name) for name in ("activity", "popularity", "cold")]
    compare: Compare = Compare()
    gate: Gate | None = None
    registered: Annotated[Register | None, Field(alias="register")] = None
    tracking: Tracking = Tracking()
    schedule: Schedule | None = None
    notify: Notify | None = None
    workers: Annotated[
        int,
        Field(
            ge=1, description="How many tasks run at a time, each in a process of its own; 1: in this one."
        ),
    ] = 1
    limits: TaskLimits = TaskLimits()
    store: KeptIn = KeptIn()

    @field_validator("gate", "registered", mode="before")
    @classmethod
    def _not_empty(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("is empty: leave it out, or write {} for what is the default")
        return value

    @field_validator("split", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]
