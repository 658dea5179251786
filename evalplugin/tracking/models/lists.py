"""The model ``lists``, which reads files and runs in MLflow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalplugin.base.errors import DataError
from evalplugin.data.tables import Table
from evalplugin.lists.model import GivenLists, LoggedLists
from evalplugin.models.base import ListRequest, model
from evalplugin.tracking.connection import existing_store
from evalplugin.tracking.read.logged import LoggedRun

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Lists"]


@model("lists")
@dataclass
class Lists(GivenLists):
    """Lists that were made elsewhere, from files or from a run in MLflow: of another system, team or language.

    Items that are no candidates are left out, such as those of the user's train data, and the list is cut at its length
    after that. A user without a list scores 0. Users and items that the data does not have, items that are no
    candidates, short lists and missing users are counted, and shown as warnings. Lists of a run are refused if they
    were made from other train data than the fold's.
    """

    def read_run(self, run_id: str, request: ListRequest) -> LoggedLists:
        """Return the lists that a run has logged for the fold of a request.

        Raises:
            DataError: It has none.
            TrackingError: The store cannot be reached, has no such run, or the file is damaged.
        """
        with existing_store(request.tracking_uri, f"read the lists of the run {run_id}") as client:
            run = LoggedRun(client, client.get_run(run_id))
            table = run.table("top_n")
            if table is None:
                raise DataError(
                    f"{run} is {run.status} and has no lists (data/top_n.parquet): name the run of a model that was "
                    f"evaluated and did not fail"
                )
            digests = _train_digests(run, table)
        if "fold" in table.column_names:
            import pyarrow.compute as pc

            table = table.filter(pc.equal(table["fold"], request.fold + 1))
        return LoggedLists(str(run), Table(table, str(run)), digests)


def _train_digests(run: LoggedRun, table: pa.Table) -> list[str] | None:
    """Return the digest of the train data of each fold that lists were made from; None where that is not known."""
    described = (table.schema.metadata or {}).get(b"evalplugin")
    if described is not None:
        try:
            return [str(digest) for digest in json.loads(described)["train_digests"]]
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{run}: the metadata of data/top_n.parquet is damaged") from None
    # Of an earlier version, which logged the digest of the first fold. Lists from elsewhere may be scored with train
    # data, but it is unknown from which data they were made.
    if run.rules.are_given or run.folds > 1 or run.rules.train_digest is None:
        return None
    return [run.rules.train_digest]
