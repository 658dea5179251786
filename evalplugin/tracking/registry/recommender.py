"""The registered recommender. MLflow loads this file with its lists; it imports nothing of evalplugin."""

from __future__ import annotations

from typing import Any

import mlflow
import numpy as np
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.pyfunc.model import PythonModel, PythonModelContext

LISTS = "lists"  # name of the file of arrays among the model's artifacts


class ServedRecommender(PythonModel):
    """Serves precomputed lists; unknown users get the most popular items."""

    def load_context(self, context: PythonModelContext) -> None:
        """Read the arrays: numbers and text, no objects."""
        with np.load(context.artifacts[LISTS], allow_pickle=False) as arrays:
            held = {name: arrays[name] for name in arrays.files}
        users = held["users"].tolist()
        self.row_of = {user: row for row, user in enumerate(users)}
        self.id_type = type(users[0])
        self.catalogue = held["catalogue"].astype(object)
        self.item, self.score = held["item"], held["score"]  # (U, N), -1 and NaN behind the end of a list
        self.popular_item, self.popular_score = held["popular_item"], held["popular_score"]

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Return one row for each of ``user``: its ``items``, best first, their ``scores``, and their ``source``.

        ``source`` is ``model`` for a user of the data that the model was fitted on, and ``popularity`` for any other:
        these get the items that most users met, with how many met them as scores. ``params["n"]`` is how many items;
        left out or None: all there are.
        """
        users = model_input["user"].tolist()
        if len(users) == 1 and isinstance(users[0], list):
            users = users[0]  # what MLflow makes of {"user": [...]} where the ids are text
        for user in users:
            if not isinstance(user, self.id_type) or isinstance(user, bool):
                words = "text" if self.id_type is str else "whole numbers"
                raise MlflowException.invalid_parameter_value(f"ids of users are {words}, unlike {user!r}")
        longest = self.item.shape[1]
        n = (params or {}).get("n")
        if n is None:
            n = longest
        if not 1 <= n <= longest:
            raise MlflowException.invalid_parameter_value(
                f"n must be from 1 to {longest}, the length of the lists, not {n}"
            )
        rows = [self.row_of.get(user) for user in users]
        lists = [self._list(row, n) for row in rows]
        return pd.DataFrame(
            {
                "user": users,
                "items": [items for items, _ in lists],
                "scores": [scores for _, scores in lists],
                "source": ["popularity" if row is None else "model" for row in rows],
            }
        )

    def _list(self, row: int | None, n: int) -> tuple[list[Any], list[float]]:
        item = self.popular_item if row is None else self.item[row]
        score = self.popular_score if row is None else self.score[row]
        listed = item[:n] >= 0
        return self.catalogue[item[:n][listed]].tolist(), score[:n][listed].tolist()


mlflow.models.set_model(ServedRecommender())
