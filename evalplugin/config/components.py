"""Components as a config names them: by a type, a name and parameters."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from evalplugin.config.sections import Closed


def in_one_line(name: str) -> str:
    """Return a name, which stands in lines of tables and messages."""
    if "\n" in name:
        raise ValueError(f"must be one line, not {name!r}")
    return name


class ComponentSpec(Closed):
    """A component: a type, and a name in results. Plain text is short for its type alone."""

    type: str = Field(description="Registered type, see `evalplugin list`.", examples=["popularity"])
    name: Annotated[str, AfterValidator(in_one_line)] = Field(
        default="", min_length=1, description="Name in results; the type when left out.", examples=["shop"]
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {"type": value}
        if isinstance(value, dict) and "name" not in value and isinstance(value.get("type"), str):
            value = {**value, "name": value["type"]}
        return value


class FilterSpec(Closed):
    """A filter of a dataset: a type and the type's own parameters. Plain text is short for its type alone."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="Registered type, see `evalplugin list filters`.", examples=["k_core"])

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value

    @property
    def name(self) -> str:
        """The type: a filter has no name of its own."""
        return self.type

    @property
    def params(self) -> dict[str, Any]:
        """The parameters."""
        return dict(self.model_extra or {})


class EngineSpec(FilterSpec):
    """Where tasks run: a type and the type's own parameters. Plain text is short for its type alone."""

    type: str = Field(description="Registered type, see `evalplugin list engines`.", examples=["local"])


class InlineSpec(ComponentSpec):
    """A dataset, split or segment: its parameters are inline, at the level of its type."""

    model_config = ConfigDict(extra="allow")

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the component."""
        return dict(self.model_extra or {})


class DatasetSpec(InlineSpec):
    """A dataset: a type, a name, the type's own parameters, and filters."""

    filters: list[FilterSpec] = Field(
        default_factory=list,
        description="Steps that leave interactions out before the split, in this order.",
        examples=[[{"type": "k_core", "k": 5}]],
    )
