"""Truth of runs, compared by content: the order of rows, times, and the type of equal ids do not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.tables import with_ids_of_one_kind

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["same_truths", "users_of_same_truth"]


def same_truths(runs: Sequence[LoggedRun]) -> dict[str, str]:
    """Return the digest of each run's test data, mapped to the first digest of test data with the same content.

    A digest depends on the whole catalogue and the order of rows, so that of a file of the truth is another one. The
    truth is read only where digests differ. Only that of the first fold was logged: a run with several folds has the
    same test data only under the same digest.
    """
    by_digest: dict[str, list[LoggedRun]] = {}
    for run in runs:
        by_digest.setdefault(run.rules.test_digest, []).append(run)
    if len(by_digest) == 1:
        return {digest: digest for digest in by_digest}
    same: dict[str, str] = {}
    truths: dict[str, pa.Table] = {}
    for digest, having in by_digest.items():
        truth = _truth(having)
        same[digest] = digest
        if truth is not None:
            same[digest] = next((d for d, other in truths.items() if _are_equal(other, truth)), digest)
            truths.setdefault(same[digest], truth)
    return same


def users_of_same_truth(runs: Sequence[LoggedRun]) -> npt.NDArray[np.generic]:
    """Return the users whose held-out items and ratings are the same in all runs.

    Raises:
        DataError: A run has not logged its truth, or that of its first fold alone.
    """
    tables = []
    for run in runs:
        table = _truth([run])
        if table is None:
            why = "several folds" if run.folds > 1 else "no data/truth.parquet"
            raise DataError(
                f"the test data of the runs differ, so only users whose truth is the same could be compared, but "
                f"{run.model} has {why} to tell them by"
            )
        tables.append(table)
    first, *others = (table.to_pandas() for table in with_ids_of_one_kind(tables))
    sizes = first.groupby("user").size()
    for other in others:
        shared = first.merge(other, on=["user", "item", "rating"]).groupby("user").size()
        theirs = other.groupby("user").size()
        sizes = sizes[(shared.reindex(sizes.index) == sizes) & (theirs.reindex(sizes.index) == sizes)]
    users: npt.NDArray[np.generic] = sizes.index.to_numpy()
    return users


def _truth(runs: Sequence[LoggedRun]) -> pa.Table | None:
    """Return user, item and rating of runs on the same test data; None if none of them has logged all of it."""
    for run in runs:
        if run.folds == 1 and (table := run.table("truth")) is not None:
            return table.select(["user", "item", "rating"])
    return None


def _are_equal(one: pa.Table, other: pa.Table) -> bool:
    if len(one) != len(other):
        return False
    order = [("user", "ascending"), ("item", "ascending")]
    one, other = (table.sort_by(order) for table in with_ids_of_one_kind([one, other]))
    return bool(one.equals(other))
