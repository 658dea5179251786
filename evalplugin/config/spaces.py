"""Search spaces: the values that a tuned parameter of a model may take."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from pydantic import Field, model_validator

from evalplugin.config.sections import Closed

_EDGE = 0.02  # share of a range of floats that counts as its end


class Space(Closed):
    """The values that a parameter may take while it is tuned: a list, or a range with both ends."""

    choices: list[Any] | None = Field(
        default=None,
        description="Values without an order; a list alone is short for it.",
        examples=[["rating", "binary"]],
    )
    integers: list[int] | None = Field(
        default=None, alias="int", description="Lowest and highest whole number.", examples=[[5, 300]]
    )
    floats: list[float] | None = Field(
        default=None, alias="float", description="Lowest and highest number.", examples=[[0.001, 0.1]]
    )
    log: bool = Field(
        default=False,
        description="Whether values are drawn evenly on a logarithmic scale.",
        examples=[True],
    )
    step: float | None = Field(
        default=None,
        gt=0,
        description="Distance between the values of a range.",
        examples=[5],
    )

    @model_validator(mode="before")
    @classmethod
    def _list_of_choices(cls, value: Any) -> Any:
        return {"choices": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _holds_values(self) -> Space:
        given = [values for values in (self.choices, self.integers, self.floats) if values is not None]
        if len(given) != 1:
            raise ValueError("must be a list of values, or have exactly one of int, float and choices")
        (values,) = given
        if not values:
            raise ValueError("holds no value: the list is empty")
        if values is self.choices:
            self._check_choices(values)
        else:
            self._check_range(values)
        return self

    def _check_choices(self, values: list[Any]) -> None:
        for key in ("log", "step"):
            if getattr(self, key):
                raise ValueError(f"{key} goes with a range, not with a list of values")
        texts = [json.dumps(value, sort_keys=True) for value in values]
        twice = next((text for number, text in enumerate(texts) if text in texts[:number]), None)
        if twice is not None:
            raise ValueError(f"has the value {twice} twice")

    def _check_range(self, values: list[Any]) -> None:
        if len(values) != 2:
            raise ValueError(f"a range has two numbers, the lowest and the highest value, not {len(values)}")
        low, high = values
        if low > high:
            raise ValueError(f"holds no value: the lowest, {low:g}, is above the highest, {high:g}")
        if self.log and low <= 0:
            raise ValueError(f"a logarithmic range starts above 0, not at {low:g}")
        if self.step is None:
            return
        if self.log:
            raise ValueError("log and step exclude each other: keep one")
        if self.integers is not None and self.step != int(self.step):
            raise ValueError(f"the step of a range of whole numbers is a whole number, not {self.step:g}")
        if self.step > high - low:
            raise ValueError(f"the step, {self.step:g}, is larger than the range, {low:g} to {high:g}")

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value of a range."""
        low, high = self.integers or self.floats or (0, 0)
        return (low, high) if self.step is None else (low, self.at_step(self.n_steps - 1))

    @property
    def n_steps(self) -> int:
        """The number of values of a range with a step."""
        low, high = (Decimal(str(end)) for end in self.integers or self.floats or (0, 0))
        return int((high - low) / Decimal(str(self.step))) + 1

    def at_step(self, number: int) -> float:
        """Return a value of a range with a step, from 0: as decimals are written, without a rounding error."""
        low, _ = self.integers or self.floats or (0, 0)
        value = Decimal(str(low)) + number * Decimal(str(self.step))
        return int(value) if self.integers is not None else float(value)

    def listed(self) -> Iterator[Any] | None:
        """Return the values of a list or of a range with a step, in order; None for a range without a step."""
        if self.choices is not None:
            return iter(self.choices)
        return None if self.step is None else map(self.at_step, range(self.n_steps))

    def holds(self, value: Any) -> bool:
        """Return whether the space has a value."""
        if (listed := self.listed()) is not None:
            return any(is_same(value, other) for other in listed)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        low, high = self.ends
        return bool(low <= value <= high and (self.integers is None or value == int(value)))

    def is_at_end(self, value: Any) -> bool:
        """Return whether a value is at an end of a range, or, of floats, within 2 % of it."""
        if self.choices is not None or isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        low, high = self.ends
        if low == high or not low <= value <= high:
            return False
        if self.floats is None or self.step is not None:
            return is_same(value, low) or is_same(value, high)
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return bool(min(value - low, high - value) <= _EDGE * (high - low))

    def as_mapping(self) -> dict[str, Any]:
        """Return the space as a config names it, without defaults."""
        return self.model_dump(by_alias=True, exclude_defaults=True)


def is_same(value: object, other: object) -> bool:
    """Return whether two plain values are the same: 1 is 1.0, and not true."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def values_text(values: Mapping[str, Any]) -> str:
    """Return values of parameters as ``k=40, sim_options.name=cosine``."""
    return ", ".join(f"{key}={value_text(value)}" for key, value in values.items())


def value_text(value: Any) -> str:
    """Return a value of a parameter for people."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)
