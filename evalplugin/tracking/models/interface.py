"""The interface of a model from MLflow: its input, by its signature, and its answers, lists or scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import ModelError, did_you_mean
from evalplugin.base.libraries import pd
from evalplugin.data.tables import LARGE
from evalplugin.lists.evaluation import is_list, rows_of_lists
from evalplugin.metrics.blocks import raw_text
from evalplugin.tracking import mlflow

Takes: TypeAlias = Literal["users", "pairs"]
# By the names of MLflow and of NumPy.
_NUMBERS = {
    "long": np.int64, "integer": np.int32, "double": np.float64, "float": np.float32,
    "int64": np.int64, "int32": np.int32, "float64": np.float64, "float32": np.float32,
}  # fmt: skip
_SAY = "say what it takes, by takes: users (it answers with lists) or takes: pairs (it answers with scores)"
_LISTS = "items"  # the column of lists that a recommender of evalplugin's registry answers with


@dataclass(frozen=True)
class Interface:
    """The names of columns in the input and the answers of a model."""

    subject: str  # the model, in messages
    user: str
    item: str
    rank: str | None
    score: str | None

    def takes(self, schema: mlflow.types.Schema | None) -> Takes:
        """Return what the model takes by the input of its signature.

        Raises:
            ModelError: There is no signature, or it has no names of columns, and takes more than one.
        """
        names = [] if schema is None else schema.input_names() if schema.has_input_names() else []
        if names:
            return "pairs" if self.item in names else "users"
        if schema is None or schema.is_tensor_spec() or len(schema.inputs) != 1:
            raise ModelError(f"{self.subject} was logged without a signature with names of columns: {_SAY}")
        return "users"  # by a type hint

    def input(self, schema: mlflow.types.Schema | None, *ids: npt.NDArray[np.generic]) -> Any:
        """Return raw ids of users or of pairs, a column each, as the model takes them.

        Integers are of the type in its signature where that can hold them; MLflow refuses all else that differs.

        Raises:
            ModelError: The signature lacks a column.
        """
        needed = [self.user, self.item][: len(ids)]
        if schema is None:
            return pd.DataFrame(dict(zip(needed, ids, strict=True)))
        if not schema.has_input_names() and schema.is_tensor_spec():
            table = np.stack(ids, axis=1) if len(ids) > 1 else ids[0]
            return _as_type(table, schema.inputs[0].type)
        names = [str(name) for name in schema.input_names()] if schema.has_input_names() else needed
        for role, name in zip(("user", "item"), needed, strict=False):
            if name not in names:
                raise ModelError(
                    f"{self.subject} takes the columns {', '.join(map(repr, names))}, and none of them is {name!r}: "
                    f"name the column of {role} ids by {role}: NAME{did_you_mean(name, names, noun=None)}"
                )
        types = dict(zip(names, schema.input_types(), strict=False))
        return pd.DataFrame(
            {name: _as_type(column, types[name]) for name, column in zip(needed, ids, strict=True)}
        )

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
        return rows_of_lists(users, rows)

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


def _as_type(ids: npt.NDArray[np.generic], type: Any) -> npt.NDArray[np.generic]:
    """Return integer ids as numbers of a type of MLflow or NumPy that can hold them; else as they are."""
    dtype = _NUMBERS.get(getattr(type, "name", ""))
    if dtype is None or ids.dtype == object:
        return ids
    converted = ids.astype(dtype)
    return converted if np.array_equal(converted.astype(np.int64), ids) else ids


def _shape(answer: Any) -> str:
    """Return the type and shape of an answer in words."""
    if isinstance(answer, pd.DataFrame):
        return f"a table of {len(answer):,} rows with the columns {', '.join(map(repr, answer.columns)) or 'none'}"
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} of shape {answer.shape}"
    kind = type(answer).__name__
    return f"{kind} of {len(answer):,} values" if isinstance(answer, list | tuple | pd.Series) else kind
