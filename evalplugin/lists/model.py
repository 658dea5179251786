"""The model ``lists``: lists that were made elsewhere take part like those of any other model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from evalplugin.base.errors import DataError, Problem
from evalplugin.data import Interactions, LoadContext
from evalplugin.data.files import TableFiles
from evalplugin.lists.columns import ListColumns
from evalplugin.lists.files import Format, open_files
from evalplugin.lists.given import lists_on
from evalplugin.models.base import ListRequest, model
from evalplugin.models.selection import TopN

__all__ = ["GivenLists"]


@model("lists")
@dataclass
class GivenLists:
    """Lists that were made elsewhere, read from files: of another system, another team, another language.

    Items that are no candidates are left out, such as those of the user's train data, and the list is cut at its length
    after that. A user without a list scores 0. Users and items that the data does not have, items that are no
    candidates, short lists and missing users are counted, and shown as warnings.
    """

    path: Annotated[
        str,
        Field(
            min_length=1,
            description="a file (Parquet, CSV, TREC), a pattern or a folder of Parquet files, relative to the config; "
            "{fold} stands for the number of the fold, from 1",
        ),
    ]
    format: Annotated[Format, Field(description="format of the files; auto: by their names")] = "auto"
    user: Annotated[str, Field(description="column of user ids")] = "user"
    item: Annotated[str, Field(description="column of item ids")] = "item"
    rank: Annotated[str | None, Field(description="column of ranks, from 1; null: rank, if there is one")] = (
        None
    )
    score: Annotated[
        str | None, Field(description="column of scores, higher is better; null: score, if there is no rank")
    ] = None
    text_ids: Annotated[bool, Field(description="ids in CSV files that look like integers stay text")] = False
    notes: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Learn nothing."""

    def check(self, context: LoadContext) -> list[Problem]:
        """Return a problem if there is no such file; of several folds, the file of the first."""
        try:
            self._files(context.base, 0)
        except DataError as error:
            return [Problem(("path",), str(error))]
        return []

    def recommend_task(self, request: ListRequest) -> TopN:
        """Return the lists of the files, without items that are no candidates.

        Raises:
            DataError: Files that are missing or break a rule.
        """
        columns = ListColumns(self.user, self.item, self.rank, self.score)
        lists, self.notes = lists_on(request, self._files(request.folder, request.fold), columns)
        return lists

    def _files(self, folder: Path, fold: int) -> TableFiles:
        path = self.path.replace("{fold}", str(fold + 1))
        return open_files(path, "lists", folder=folder, format=self.format, text_ids=self.text_ids)
