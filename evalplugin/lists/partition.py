"""A partition of lists and truth: the rows of some users, scored as tables in memory are, wherever the call runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from evalplugin.base.errors import EvalpluginError
from evalplugin.base.libraries import pa
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Ids, Table, ids_of
from evalplugin.data.vocabulary import encode
from evalplugin.lists.catalogue import NO_IDS, PartContents
from evalplugin.lists.columns import ListInput, PairColumns, Role
from evalplugin.lists.scoring import Scoring, need_catalogue
from evalplugin.metrics.states import ScorerState
from evalplugin.models.threads import limit_threads

R = TypeVar("R")


class Partition(NamedTuple):
    """The rows of some users: in Parquet files, or in Arrow files that were written for this purpose."""

    lists: TableFiles | Path
    truth: TableFiles | Path | None  # None: in the truth that all partitions share


@dataclass(frozen=True, eq=False)
class PartitionWork:
    """The values that all partitions share."""

    scoring: Scoring
    truth: PairColumns | None = None  # of all partitions

    def read(self, partition: Partition) -> ListInput:
        """Return lists and truth of the partition's users.

        Raises:
            DataError: A file that cannot be read, a value that breaks a rule.
        """
        lists = self._pairs("lists", partition.lists)
        if partition.truth is None:
            return ListInput.of(lists, self.truth_of(lists.user))
        return ListInput.of(lists, self._pairs("truth", partition.truth))

    def truth_of(self, users: Ids, *, others: bool = False) -> PairColumns:
        """Return the shared truth of some users, or of all ``others``."""
        assert self.truth is not None
        known, (wanted, row) = encode([users, self.truth.user])
        inside = np.zeros(len(known), dtype=np.bool_)
        inside[wanted] = True
        return self.truth.rows(np.flatnonzero(inside[row] != others))

    def _pairs(self, role: Role, source: TableFiles | Path) -> PairColumns:
        columns = self.scoring.request.columns
        if isinstance(source, TableFiles):
            table = source.read(columns.to_read(role, source.name, source.columns))
        else:
            # Not mapped into memory: systems map far more than is read.
            with pa.OSFile(str(source)) as raw, pa.ipc.open_file(raw) as opened:
                table = Table(opened.read_all(), role)
        return PairColumns.read(table, role, columns)


def score_partition(work: PartitionWork, partition: Partition) -> ScorerState:
    """Return the state of scoring of a partition's users."""
    lists, truth, _ = work.read(partition)
    return work.scoring.state(lists, truth)


def look_at_partition(work: PartitionWork, partition: Partition) -> PartContents:
    """Return the length of a partition's longest list and, where metrics read the catalogue, its users and items."""
    lists, truth, _ = work.read(partition)
    users, (user, _) = encode([lists.user, truth.user])
    longest = int(np.bincount(user).max(initial=0))
    if not need_catalogue(work.scoring.request.specs):
        return PartContents(ids_of(NO_IDS), ids_of(NO_IDS), longest)
    return PartContents(ids_of(users), ids_of(encode([lists.item, truth.item])[0]), longest)


@dataclass(frozen=True)
class Refused:
    """An input error that crosses the process boundary as text."""

    message: str


def call_alone(function: Callable[..., R], *args: Any, **kwargs: Any) -> R | Refused:
    """Return what a function returns on one thread, as where each core has a process; an input error is a value."""
    try:
        with limit_threads(1):
            return function(*args, **kwargs)
    except EvalpluginError as error:
        return Refused(str(error))
