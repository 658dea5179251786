"""The model ``lists``: lists from files or from a run in MLflow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.errors import DataError, Problem
from evalplugin.base.libraries import pa
from evalplugin.base.text import json_of
from evalplugin.base.units import count_text
from evalplugin.files import Format
from evalplugin.files.uris import MLFLOW_SCHEMES, is_remote, scheme_of
from evalplugin.models.base import ListRequest, Recommender, model

if TYPE_CHECKING:
    from evalplugin.data import Interactions, LoadContext
    from evalplugin.data.files import TableFiles
    from evalplugin.lists.columns import ListColumns
    from evalplugin.models.selection import TopN
    from evalplugin.tracking.read.logged import LoggedRun

_OF_FILES = ("format", "user", "item", "rank", "score", "text_ids")


@model("lists")
@dataclass
class Lists(Recommender):
    """Lists that were made elsewhere, from files or from a run in MLflow: of another system, team or language.

    Items that are no candidates are left out before the list is cut at its length. A user without a list scores 0.
    Unknown ids, items left out, short lists and missing users are counted. Lists of a run must come from the fold's
    train data.
    """

    path: Annotated[
        str | None,
        Field(
            min_length=1,
            description="a file (Parquet, CSV, TREC), a pattern or a folder of Parquet files, relative to the config, "
            "or a URI such as s3://bucket/lists; {fold} is the number of the fold, from 1, as a column fold is; path "
            "or run is needed",
        ),
    ] = None
    run: Annotated[
        str | None,
        Field(
            pattern="^[0-9a-f]{32}$",
            description="id of a model's run in the bake-off's tracking store",
        ),
    ] = None
    format: Annotated[
        Format, Field(description="format of the files, or the tool that wrote them; auto: by their names")
    ] = "auto"
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

    learns = False
    stochastic = False
    takes_history: ClassVar[bool] = True
    lists_new_items: ClassVar[bool] = True
    cold_users: ClassVar[str] = "their list, if there is one"

    def __post_init__(self) -> None:
        if (self.path is None) == (self.run is None):
            raise ValueError("give a path or a run" + ("" if self.path is None else ", not both"))
        if self.run is not None:
            defaults = type(self).__dataclass_fields__
            for name in _OF_FILES:
                if getattr(self, name) != defaults[name].default:
                    raise ValueError(
                        f"{name} is for files (path); the lists of a run have columns of their own"
                    )

    @property
    def uris(self) -> dict[str, str]:
        """The lists of the run, to be looked up before anything is fitted."""
        return {} if self.run is None else {"run": f"runs:/{self.run}/data/top_n.parquet"}

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Learn nothing."""

    def check(self, context: LoadContext) -> list[Problem]:
        """Return a problem if there is no such file; of several folds, the file of the first."""
        if self.path is None:
            return []
        if scheme_of(self.path) in MLFLOW_SCHEMES:
            text = "is a URI of MLflow: lists that a bake-off has logged are named by run: ID"
            return [Problem(("path",), f"{self.path} {text}")]
        try:
            self._files(context.base, 0)
        except DataError as error:
            return [Problem(("path",), str(error))]
        return []

    def own_inputs(self, folder: Path) -> list[str]:
        """Return the URI of the files, as only reads from this machine are recorded."""
        if self.path is None or not is_remote(self.path):
            return []
        return [self.path.replace("{fold}", "*")]

    def recommend_task(self, request: ListRequest) -> TopN:
        """Return the lists, without items that are no candidates.

        Raises:
            DataError: Files that are missing or break a rule; a run without lists, or with lists from other train data.
            TrackingError: The store cannot be reached, or its files are damaged.
        """
        from evalplugin.data.tables import Table
        from evalplugin.lists.columns import ListColumns
        from evalplugin.lists.given import lists_on
        from evalplugin.tracking.connection import existing_store
        from evalplugin.tracking.read.logged import LoggedRun

        if self.run is None:
            lists, self.notes = lists_on(request, *self._files(request.folder, request.fold))
            return lists
        with existing_store(request.tracking_uri, f"read the lists of the run {self.run}") as client:
            run = LoggedRun(client, client.get_run(self.run))
            table = run.table("top_n")
            if table is None:
                raise DataError(
                    f"{run} is {run.status} and has no lists (data/top_n.parquet): name the run of a model that was "
                    f"evaluated and did not fail"
                )
        notes = list(_check_train(run, table, request))
        lists, left_out = lists_on(request, Table(table, str(run)), ListColumns())
        self.notes = notes + left_out
        return lists

    def _files(self, folder: Path, fold: int) -> tuple[TableFiles, ListColumns]:
        """Return the files of a fold, and the names of their columns."""
        from evalplugin.lists.columns import ListColumns
        from evalplugin.lists.files import open_files
        from evalplugin.lists.foreign import check_columns, columns_of

        assert self.path is not None
        path = self.path.replace("{fold}", str(fold + 1))
        columns = columns_of(ListColumns(self.user, self.item, self.rank, self.score), self.format)
        files = open_files(path, "lists", folder=folder, format=self.format, text_ids=self.text_ids)
        check_columns(files, "lists", columns, self.format)
        return files, columns


def _check_train(run: LoggedRun, table: pa.Table, request: ListRequest) -> Iterator[str]:
    """Check that a run's lists were made from the train data of the fold; yield a sentence where that is not known."""
    digests, number = _train_digests(table), request.fold + 1
    if digests is None:
        yield (
            f"{run} does not say from which train data its lists were made; if it was more than that of this "
            f"split, their scores are too high"
        )
    elif number > len(digests):
        raise DataError(
            f"{run} has lists of {count_text(len(digests), 'fold')}, and none of fold {number} of this split"
        )
    elif digests[request.fold] != request.train.digest:
        fold = f"fold {number} of " if len(digests) > 1 or number > 1 else ""
        raise DataError(
            f"{run}: its lists were made from other train data than that of {fold}this split (digest "
            f"{digests[request.fold][:12]}, not {request.train.digest[:12]}), perhaps from what is held out here; name "
            f"the run of a bake-off with the same data, split and seed"
        )


def _train_digests(table: pa.Table) -> list[str] | None:
    """Return the digest of each fold's train data that a run's lists were made from; None: unknown."""
    described = (table.schema.metadata or {}).get(b"evalplugin")
    # Lists from elsewhere may be scored with train data, but it is unknown from which data they were made.
    if described is None:
        return None
    digests: list[str] = json_of(described)["train_digests"]
    return digests
