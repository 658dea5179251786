"""Shared parameters of scikit-surprise algorithms, with the nested ``sim_options`` and ``bsl_options``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

__all__ = ["BslOptions", "Epochs", "SimOptions"]

Epochs = Annotated[int, Field(ge=0, description="passes over the ratings")]


@dataclass(frozen=True)
class SimOptions:
    """The similarity of users or of items; null marks an option that does not apply."""

    name: Annotated[
        Literal["cosine", "msd", "pearson", "pearson_baseline"], Field(description="the similarity measure")
    ] = "msd"
    user_based: Annotated[bool, Field(description="similarities of users (true) or of items (false)")] = True
    min_support: Annotated[
        int, Field(ge=1, description="fewest common items, or users, for a similarity that is not zero")
    ] = 1
    shrinkage: Annotated[
        float | None,
        Field(ge=0, description="pearson_baseline only: how strongly few ratings shrink it; 100 if null"),
    ] = None

    def __post_init__(self) -> None:
        if self.name == "pearson_baseline":
            object.__setattr__(self, "shrinkage", 100.0 if self.shrinkage is None else self.shrinkage)
        elif self.shrinkage is not None:
            raise ValueError(f"shrinkage goes with the name 'pearson_baseline', not with {self.name!r}")


_DEFAULTS: dict[str, dict[str, float]] = {
    "als": {"reg_i": 10.0, "reg_u": 15.0, "n_epochs": 10},
    "sgd": {"reg": 0.02, "learning_rate": 0.005, "n_epochs": 20},
}


@dataclass(frozen=True)
class BslOptions:
    """The fit of the biases of users and items; null marks an option that the method does not take."""

    method: Annotated[
        Literal["als", "sgd"], Field(description="alternating least squares, or stochastic gradient descent")
    ] = "als"
    reg_i: Annotated[
        float | None, Field(ge=0, description="als only: regularisation of items; 10 if null")
    ] = None
    reg_u: Annotated[
        float | None, Field(ge=0, description="als only: regularisation of users; 15 if null")
    ] = None
    n_epochs: Annotated[
        int | None, Field(ge=0, description="passes over the ratings; if null, 10 for als and 20 for sgd")
    ] = None
    reg: Annotated[float | None, Field(ge=0, description="sgd only: regularisation; 0.02 if null")] = None
    learning_rate: Annotated[
        float | None, Field(ge=0, description="sgd only: learning rate; 0.005 if null")
    ] = None

    def __post_init__(self) -> None:
        defaults = _DEFAULTS[self.method]
        for option in ("reg_i", "reg_u", "n_epochs", "reg", "learning_rate"):
            if option in defaults:
                if getattr(self, option) is None:
                    object.__setattr__(self, option, defaults[option])
            elif getattr(self, option) is not None:
                raise ValueError(
                    f"{option} is no option of the method {self.method!r}; it takes {', '.join(defaults)}"
                )
