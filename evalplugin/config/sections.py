"""The sections of a config that name no component."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from evalplugin.base.errors import EvalpluginError
from evalplugin.base.tracking_uri import check_tracking_uri
from evalplugin.base.units import bytes_of
from evalplugin.config.cron import check_cron, check_timezone
from evalplugin.data import PoolTable

_POOL_KEYS = ("path", "validation", "seen", "user", "item", "separator")


class Closed(BaseModel):
    """A section of a config: strict types, and no keys but its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


def accepted_by(check: Callable[[str], object]) -> AfterValidator:
    """Return a validator that turns the error of a check into a mistake of the config."""

    def validate(value: str) -> str:
        try:
            check(value)
        except EvalpluginError as error:
            raise ValueError(str(error).lstrip()) from None
        return value

    return AfterValidator(validate)


class Recommend(Closed):
    """The lists that models make."""

    n: int = Field(default=100, ge=1, description="Length of the lists.", examples=[20])
    candidates: Literal["unseen", "all", "judged", "sampled", "given"] = Field(
        default="unseen",
        description="Items that may be listed: those the user has not met in the train data (unseen), all, the user's "
        "held-out items (judged), those and some drawn at random (sampled), or those of a table (given). With a log "
        "of events (`duplicates: keep`) the default is all.",
        examples=["all"],
    )
    negatives: int | None = Field(
        default=None,
        ge=1,
        description="With `candidates: sampled`, items to draw for each user.",
        examples=[99],
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        description="With `candidates: given`, the pool: a table of users and items, .parquet, .jsonl, or CSV, "
        "relative to this file, or a URI. {dataset}, {split} and {fold} (from 1) stand for these.",
        examples=["pool.csv"],
    )
    validation: str | None = Field(
        default=None,
        min_length=1,
        description="The pool for tuning; left out: that of `path`, if it has half of the truth that models are tuned "
        "on.",
        examples=["pool-validation.csv"],
    )
    seen: Literal["keep", "drop"] | None = Field(
        default=None,
        description="Items of a pool that are in the user's train data; left out: drop, with a log of events keep.",
        examples=["keep"],
    )
    user: str = Field(
        default="user", min_length=1, description="The pool's column of user ids.", examples=["uid"]
    )
    item: str = Field(
        default="item", min_length=1, description="The pool's column of item ids.", examples=["iid"]
    )
    separator: str = Field(
        default=",",
        min_length=1,
        max_length=2,
        description="Of a CSV file of the pool.",
        examples=[";"],
    )
    ties: Literal["hashed", "id"] = Field(
        default="hashed",
        description="Order of items with equal scores: by a hash of the seed and the item, the same for all users and "
        "models (hashed), or ascending ids (id), as in most libraries; ids often follow age or popularity.",
        examples=["id"],
    )
    cold_users: Literal["model", "popularity", "skip"] = Field(
        default="model",
        description="Test users without train data get what each model answers (model), the list of `popularity`, or "
        "are left out of the truth of all models, and counted (skip).",
        examples=["popularity"],
    )

    @model_validator(mode="after")
    def _negatives_with_sampled(self) -> Recommend:
        if self.candidates == "sampled" and self.negatives is None:
            raise ValueError("candidates: sampled needs negatives: how many items to draw for each user")
        if self.candidates != "sampled" and self.negatives is not None:
            raise ValueError(f"negatives goes with candidates: sampled, not with {self.candidates}")
        return self

    @model_validator(mode="after")
    def _path_with_given(self) -> Recommend:
        if self.candidates == "given" and self.path is None:
            raise ValueError("candidates: given needs path: a table of users and the items to rank for each")
        named = [k for k in _POOL_KEYS if k in self.model_fields_set and getattr(self, k) is not None]
        if self.candidates != "given" and named:
            raise ValueError(f"{named[0]} goes with candidates: given, not with {self.candidates}")
        return self

    @model_serializer(mode="wrap")
    def _without_unused(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the section without the keys of a pool where there is none: hashes of before they existed stay."""
        values: dict[str, Any] = serialize(self)
        unused = _POOL_KEYS if self.path is None else ()
        return {key: value for key, value in values.items() if key not in unused}

    def pools(self) -> dict[str, PoolTable]:
        """Return the tables of given candidates, by the key that names each."""
        paths = {"path": self.path, "validation": self.validation}
        return {
            key: PoolTable(path, self.user, self.item, self.separator, self.seen == "keep")
            for key, path in paths.items()
            if path is not None
        }


class Compare(Closed):
    """The comparison of models."""

    baseline: str | None = Field(
        default=None,
        description="The model that the others are compared with.",
        examples=["popularity"],
    )
    primary: str | None = Field(
        default=None, description="Metric that ranks; left out: the first.", examples=["ndcg@10"]
    )


class Tracking(Closed):
    """The logging of results to MLflow."""

    uri: Annotated[str, accepted_by(check_tracking_uri)] | None = Field(
        default=None,
        description="MLflow tracking URI; left out: MLFLOW_TRACKING_URI, or else sqlite:///mlflow.db.",
        examples=["http://127.0.0.1:5000"],
    )
    board: bool = Field(
        default=True, description="Whether to save a chart board in the MLflow UI.", examples=[False]
    )


class Schedule(Closed):
    """The times at which `evalplugin schedule` runs the bake-off."""

    cron: Annotated[str, accepted_by(check_cron)] = Field(
        description="Five fields: minute, hour, day of month, month, day of week; 0 3 * * * is nightly.",
        examples=["0 3 * * *"],
    )
    timezone: Annotated[str, accepted_by(check_timezone)] = Field(
        default="UTC",
        description="Time zone of the fields, such as Europe/Berlin.",
        examples=["Europe/Berlin"],
    )
    catch_up_hours: float = Field(
        default=12.0,
        gt=0,
        le=8760,
        description="How late a missed run may start; of several only one does.",
        examples=[6],
    )


Size = Annotated[str, accepted_by(lambda size: bytes_of(size, ""))]


class StoreSpec(Closed):
    """The store of finished steps, so that nothing is computed twice."""

    path: str | None = Field(
        default=None,
        min_length=1,
        description="Folder, relative to the working directory; left out: EVALPLUGIN_STORE, or else .evalplugin.",
        examples=["/var/cache/evalplugin"],
    )
    max_size: Size = Field(
        default="10GB",
        description="Beyond it, what was unused for the longest time is removed.",
        examples=["5GB"],
    )


class TaskLimits(Closed):
    """Limits of a task, one model on one fold; with limits, every task runs in a process of its own."""

    seconds: float | None = Field(
        default=None, gt=0, le=1e7, description="How long it may take.", examples=[3600]
    )
    memory: Size | None = Field(
        default=None, description="What its process may allocate, on Linux.", examples=["4GB"]
    )
