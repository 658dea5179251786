"""Input of a model from MLflow, by its signature: users, or pairs of a user and an item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import ModelError, did_you_mean

if TYPE_CHECKING:
    from mlflow.models import ModelSignature
    from mlflow.types import Schema

__all__ = ["Input", "Takes", "input_of"]

Takes: TypeAlias = Literal["users", "pairs"]
_NUMBERS = {"long": np.int64, "integer": np.int32, "double": np.float64, "float": np.float32}
_SAY = "say what it takes, by takes: users (it answers with lists) or takes: pairs (it answers with scores)"


@dataclass(frozen=True)
class Input:
    """The input of a model: its columns, and the type of each, as MLflow names it; None: any."""

    takes: Takes
    types: dict[str, str | None]  # of user and, for pairs, item
    tensor: np.dtype[Any] | None = None  # of an array in place of a table

    def of(self, *ids: npt.NDArray[np.generic]) -> Any:
        """Return raw ids, a column each, as the model takes them.

        Raises:
            ModelError: The model takes ids of another type.
        """
        import pandas as pd

        if self.tensor is not None:
            columns = [
                _as_type(one, name, self.tensor.name, self.tensor)
                for name, one in zip(self.types, ids, strict=True)
            ]
            return np.stack(columns, axis=1) if len(columns) > 1 else columns[0]
        return pd.DataFrame(
            {
                name: _as_type(one, name, str(type), _NUMBERS.get(str(type)) if type is not None else None)
                if type is not None
                else one
                for (name, type), one in zip(self.types.items(), ids, strict=True)
            }
        )


def input_of(
    signature: ModelSignature | None, subject: str, *, takes: Takes | None, user: str, item: str
) -> Input:
    """Return the input of a model.

    Args:
        signature: Of the model.
        subject: The model, for messages.
        takes: What it takes; None: as its signature says.
        user, item: The names of its columns.

    Raises:
        ModelError: The signature does not say what it takes, says something else, or has other columns.
    """
    schema = None if signature is None else signature.inputs
    if schema is None:
        if takes is None:
            raise ModelError(f"{subject} was logged without a signature: {_SAY}")
        return Input(takes, dict.fromkeys([user] if takes == "users" else [user, item]))
    if not schema.has_input_names():
        return _without_names(schema, subject, takes, user, item)
    names = schema.input_names()
    takes = takes or ("pairs" if item in names else "users")
    needed = [user] if takes == "users" else [user, item]
    for role, name in zip(("user", "item"), needed, strict=False):
        if name not in names:
            raise ModelError(
                f"{subject} takes the columns {', '.join(map(repr, names))}, and none of them is {name!r}: name the "
                f"column of {role} ids by {role}: NAME{did_you_mean(name, names, noun=None)}"
            )
    if others := [name for name in schema.required_input_names() if name not in needed]:
        raise ModelError(
            f"{subject} needs the columns {', '.join(map(repr, others))} too, but a bake-off has ids of users and "
            f"items alone: log a model that looks the others up by itself"
        )
    types = dict(zip(names, schema.input_types(), strict=True))
    return Input(takes, {name: _type_name(types[name]) for name in needed})


def _without_names(schema: Schema, subject: str, takes: Takes | None, user: str, item: str) -> Input:
    """Return the input of a model whose columns have no names: an array, or a list by a type hint."""
    tensor: Any = schema.inputs[0] if schema.is_tensor_spec() else None
    width = len(schema.inputs) if tensor is None else (tensor.shape[1] if len(tensor.shape) > 1 else 1)
    if takes is None:
        if tensor is not None or width != 1:
            raise ModelError(f"{subject} has a signature without names of columns, {_shown(schema)}: {_SAY}")
        takes = "users"
    needed = [user] if takes == "users" else [user, item]
    if width != len(needed):
        raise ModelError(
            f"{subject} takes {width} columns without names, {_shown(schema)}; {takes} are {len(needed)}"
        )
    if tensor is not None:
        return Input(takes, dict.fromkeys(needed), tensor.type)
    return Input(takes, dict(zip(needed, map(_type_name, schema.input_types()), strict=True)))


def _type_name(type: Any) -> str | None:
    """Return MLflow's name of a column's type; None for one that takes anything."""
    name = str(getattr(type, "name", type))
    return None if name in ("Any", "AnyType") else name


def _shown(schema: Schema) -> str:
    return " ".join(str(schema).split())


def _as_type(ids: npt.NDArray[np.generic], name: str, wanted: str, dtype: Any) -> npt.NDArray[np.generic]:
    """Return ids as a type of MLflow."""
    is_text = ids.dtype == object
    if is_text and wanted == "string":
        return ids
    if is_text or dtype is None:
        kind = "text" if is_text else "integers"
        raise ModelError(f"the model takes {name!r} as {wanted}, and the ids in the data are {kind}")
    found = ids.astype(dtype)
    if not np.array_equal(found.astype(np.int64), ids):
        first = ids[int(np.argmax(found.astype(np.int64) != ids))]
        raise ModelError(f"the model takes {name!r} as {wanted}, which cannot hold the id {first}")
    return found
