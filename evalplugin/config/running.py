"""What a config may say of how tasks run and where finished steps are kept; it changes no result."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from evalplugin.base.errors import DataError
from evalplugin.base.units import bytes_of

__all__ = ["KeptIn", "TaskLimits"]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _size(value: str) -> str:
    try:
        bytes_of(value, "it")
    except DataError as error:
        raise ValueError(str(error).removeprefix("it ")) from None
    return value


Size = Annotated[str, AfterValidator(_size)]


class KeptIn(_Closed):
    """Where finished steps are kept, so that nothing is computed twice."""

    path: Annotated[
        str | None,
        Field(
            min_length=1,
            description="Folder, relative to the one you start from; left out: EVALPLUGIN_STORE, or else .evalplugin.",
        ),
    ] = None
    max_size: Annotated[
        Size, Field(description="Beyond it, what was not used for the longest time goes.", examples=["5GB"])
    ] = "10GB"


class TaskLimits(_Closed):
    """What a task, one model on one fold, may take; with limits, every task runs in a process of its own."""

    seconds: Annotated[float | None, Field(gt=0, le=1e7, description="How long it may take.")] = None
    memory: Annotated[
        Size | None, Field(description="What its process may allocate, on Linux.", examples=["4GB"])
    ] = None
