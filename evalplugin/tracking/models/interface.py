"""The interface of a model from MLflow: its input, by its signature, and its answers, lists or scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats, position_in_row
from evalplugin.base.errors import ModelError, did_you_mean
from evalplugin.base.libraries import pd
from evalplugin.data.tables import LARGE
from evalplugin.lists.evaluation import is_list
from evalplugin.metrics.blocks import raw_text
from evalplugin.tracking import mlflow

Takes: TypeAlias = Literal["users", "pairs"]
_NUMBERS = {"long": np.int64, "integer": np.int32, "double": np.float64, "float": np.float32}
_SAY = "say what it takes, by takes: users (it answers with lists) or takes: pairs (it answers with scores)"
_LISTS = "items"  # the column of lists that a recommender of evalplugin's registry answers with


@dataclass(frozen=True)
class Input:
    """The input of a model: its columns and MLflow's name of the type of each; None: any type."""

    takes: Takes
    types: dict[str, str | None]  # of user and, for pairs, item
    tensor: np.dtype[Any] | None = None  # of an array in place of a table

    def of(self, *ids: npt.NDArray[np.generic]) -> Any:
        """Return raw ids, a column each, as the model takes them.

        Raises:
            ModelError: The model takes ids of another type.
        """
        if self.tensor is not None:
            columns = [
                _as_type(column, name, self.tensor.name, self.tensor)
                for name, column in zip(self.types, ids, strict=True)
            ]
            return np.stack(columns, axis=1) if len(columns) > 1 else columns[0]
        return pd.DataFrame(
            {
                name: column if type is None else _as_type(column, name, type, _NUMBERS.get(type))
                for (name, type), column in zip(self.types.items(), ids, strict=True)
            }
        )


def _type_name(type: Any) -> str | None:
    """Return MLflow's name of a column's type; None for one that takes anything."""
    name = str(getattr(type, "name", type))
    return None if name in ("Any", "AnyType") else name


def _as_type(ids: npt.NDArray[np.generic], name: str, wanted: str, dtype: Any) -> npt.NDArray[np.generic]:
    """Return ids as a type of MLflow."""
    is_text = ids.dtype == object
    if is_text and wanted == "string":
        return ids
    if is_text or dtype is None:
        kind = "text" if is_text else "integers"
        raise ModelError(f"the model takes {name!r} as {wanted}, and the ids in the data are {kind}")
    converted = ids.astype(dtype)
    differs = converted.astype(np.int64) != ids
    if differs.any():
        first = ids[int(np.argmax(differs))]
        raise ModelError(f"the model takes {name!r} as {wanted}, which cannot hold the id {first}")
    return converted


@dataclass(frozen=True)
class Interface:
    """The names of columns in the input and the answers of a model."""

    subject: str  # the model, in messages
    user: str
    item: str
    rank: str | None
    score: str | None

    def input(self, signature: mlflow.models.ModelSignature | None, takes: Takes | None) -> Input:
        """Return the input of the model; ``takes`` None: as its signature says.

        Raises:
            ModelError: The signature is missing, differs from ``takes``, or has other columns.
        """
        schema = None if signature is None else signature.inputs
        if schema is None:
            if takes is None:
                raise ModelError(f"{self.subject} was logged without a signature: {_SAY}")
            return Input(takes, dict.fromkeys(self._columns(takes)))
        if not schema.has_input_names():
            return self._input_without_names(schema, takes)
        names = schema.input_names()
        takes = takes or ("pairs" if self.item in names else "users")
        needed = self._columns(takes)
        for role, name in zip(("user", "item"), needed, strict=False):
            if name not in names:
                raise ModelError(
                    f"{self.subject} takes the columns {', '.join(map(repr, names))}, and none of them is {name!r}: "
                    f"name the column of {role} ids by {role}: NAME{did_you_mean(name, names, noun=None)}"
                )
        if others := [name for name in schema.required_input_names() if name not in needed]:
            raise ModelError(
                f"{self.subject} needs the columns {', '.join(map(repr, others))} too, but a bake-off has ids of users "
                f"and items alone: log a model that looks the others up by itself"
            )
        types = dict(zip(names, schema.input_types(), strict=True))
        return Input(takes, {name: _type_name(types[name]) for name in needed})

    def _columns(self, takes: Takes) -> list[str]:
        return [self.user] if takes == "users" else [self.user, self.item]

    def _input_without_names(self, schema: mlflow.types.Schema, takes: Takes | None) -> Input:
        """Return the input of a model whose columns have no names: an array, or a list by a type hint."""
        tensor: Any = schema.inputs[0] if schema.is_tensor_spec() else None
        width = len(schema.inputs) if tensor is None else (tensor.shape[1] if len(tensor.shape) > 1 else 1)
        shown = " ".join(str(schema).split())
        if takes is None and (tensor is not None or width != 1):
            raise ModelError(f"{self.subject} has a signature without names of columns, {shown}: {_SAY}")
        takes = takes or "users"
        needed = self._columns(takes)
        if width != len(needed):
            raise ModelError(
                f"{self.subject} takes {width} columns without names, {shown}; {takes} are {len(needed)}"
            )
        if tensor is not None:
            return Input(takes, dict.fromkeys(needed), tensor.type)
        return Input(takes, dict(zip(needed, map(_type_name, schema.input_types()), strict=True)))

    def lists(self, answer: Any, users: npt.NDArray[np.generic]) -> pd.DataFrame:
        """Return an answer as a table with a row for each listed item: user, item, and rank or score.

        ``users``: (B,) raw ids of the users that the model was asked for.

        Raises:
            ModelError: Its shape is not allowed, or it is about other users.
        """
        if isinstance(answer, pd.DataFrame):
            names = [str(name) for name in answer.columns]
            answer = answer.set_axis(names, axis=1)
            if len(set(names)) < len(names):
                self._refuse_lists(answer, users)
            whose = answer[self.user] if self.user in names else None
            column = next((name for name in (self.item, _LISTS) if name in names), None)
            if column is None and len(names) == 1:
                column = names[0]
            if column is None or (whose is None and len(answer) != len(users)):
                self._refuse_lists(answer, users)
            if whose is not None:
                self._check_users(whose, users)
            if whose is None or any(map(is_list, answer[column])):
                return self._from_rows(answer, answer[column].tolist(), users if whose is None else whose)
            return self._long(answer, users)
        is_array = isinstance(answer, np.ndarray) and answer.ndim in (1, 2)
        if not (is_array or isinstance(answer, pd.Series | list | tuple)) or len(answer) != len(users):
            self._refuse_lists(answer, users)
        return self._from_rows(answer, list(answer), users)

    def scores(self, answer: Any, n_pairs: int) -> Floats:
        """Return a score for each pair, float64 (n_pairs,).

        Raises:
            ModelError: The answer has another shape, or holds other values than numbers.
        """
        scores, wanted = answer, self.score or "score"
        if isinstance(scores, pd.DataFrame):
            names = [str(name) for name in scores.columns]
            if len(names) == 1 or names.count(wanted) == 1:
                scores = scores.iloc[:, 0 if len(names) == 1 else names.index(wanted)]
        if isinstance(scores, pd.Series | list | tuple):
            scores = np.asarray(scores)
        if isinstance(scores, np.ndarray) and scores.ndim == 2 and scores.shape[1] == 1:
            scores = scores[:, 0]
        if not isinstance(scores, np.ndarray) or scores.shape != (n_pairs,) or scores.dtype.kind not in "iuf":
            raise ModelError(
                f"{self.subject} answers {n_pairs:,} pairs with {_shape(answer)}; allowed: as many numbers (an array, "
                f"a Series or a list of them), or a table with the column {wanted!r}, one row a pair"
            )
        if scores.dtype.kind != "f" and (large := (scores >= 2**53) | (scores <= -(2**53))).any():
            raise ModelError(f"{self.subject} answers with {scores[large][0]}: {LARGE}")
        return scores.astype(np.float64)

    def _from_rows(self, answer: Any, rows: Sequence[Any], users: Any) -> pd.DataFrame:
        """Return the table of a list for each user; None in place of a list is an empty list."""
        rows = [
            () if row is None or row is pd.NA or (isinstance(row, float) and np.isnan(row)) else row
            for row in rows
        ]
        for row in rows:
            if not is_list(row):
                self._refuse_lists(answer, users, f", and the list of one is {row!r:.80}")
        row_of = np.repeat(np.arange(len(rows)), np.fromiter(map(len, rows), np.int64, len(rows)))
        items = list(chain.from_iterable(rows))
        # As Python's values: NumPy would make text of numbers among text.
        column = pd.Series([item.item() if isinstance(item, np.generic) else item for item in items])
        rank = 1 + position_in_row(row_of, len(rows))
        return pd.DataFrame({"user": np.asarray(users)[row_of], "item": column, "rank": rank})

    def _long(self, answer: pd.DataFrame, users: npt.NDArray[np.generic]) -> pd.DataFrame:
        """Return a table with a row for each listed item, under the usual names."""
        named = {"rank": self.rank, "score": self.score}
        kinds = [kind for kind, name in named.items() if name is not None] or [*named]
        kind = next((kind for kind in kinds if (named[kind] or kind) in answer), None)
        if kind is None or self.item not in answer:
            self._refuse_lists(answer, users)
        columns = {self.user: "user", self.item: "item", named[kind] or kind: kind}
        return answer[[*columns]].rename(columns=columns)

    def _check_users(self, whose: pd.Series, users: npt.NDArray[np.generic]) -> None:
        unasked = ~pd.Index(whose).isin(users)
        if unasked.any():
            first = np.asarray(whose)[int(np.argmax(unasked))]
            raise ModelError(
                f"{self.subject} answers for user {raw_text(first)}, for whom it was not asked, "
                f"but for {len(users):,} users such as {raw_text(users[0])}"
            )

    def _refuse_lists(self, answer: Any, users: Any, more: str = "") -> NoReturn:
        order = repr(self.rank or self.score or "rank") + ("" if self.rank or self.score else " or 'score'")
        raise ModelError(
            f"{self.subject} answers {len(users):,} users with {_shape(answer)}{more}; allowed: a list of items for "
            f"each user, in their order (a list of lists, an array, a Series or a column {_LISTS!r}), or a table with "
            f"the columns {self.user!r}, {self.item!r} and {order}, one row a listed item"
        )


def _shape(answer: Any) -> str:
    """Return the type and shape of an answer in words."""
    if isinstance(answer, pd.DataFrame):
        return f"a table of {len(answer):,} rows with the columns {', '.join(map(repr, answer.columns)) or 'none'}"
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} of shape {answer.shape}"
    kind = type(answer).__name__
    return f"{kind} of {len(answer):,} values" if isinstance(answer, list | tuple | pd.Series) else kind
