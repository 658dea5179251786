"""The request of a score: metrics, relevance, train data and columns, the same for all lists and all parts of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any

from evalplugin.base.errors import DataError
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Table
from evalplugin.execution.tasks import curve_ks
from evalplugin.lists.columns import ListColumns, ListInput, PairColumns
from evalplugin.metrics import MetricSpec

__all__ = ["ScoreRequest"]


@dataclass(frozen=True, eq=False)
class ScoreRequest:
    """The metrics to compute and the rules that decide their values.

    Raises:
        DataError: The threshold is not a finite number.
    """

    specs: Sequence[MetricSpec]
    threshold: float | None = None  # ratings from it on are relevant; None: ratings above 0 are
    train: Any = None  # TableFiles, Table or a DataFrame of Spark
    columns: ListColumns = field(default_factory=ListColumns)
    curves: bool = False  # whether metrics are computed at the cutoffs of curves too

    def __post_init__(self) -> None:
        threshold: object = self.threshold
        if threshold is not None and not (isinstance(threshold, Real) and math.isfinite(threshold)):
            raise DataError(
                f"threshold must be a finite number, from which ratings are relevant, not {threshold!r}"
            )

    @cached_property
    def history(self) -> PairColumns | None:
        """The train data, read at its first use.

        Raises:
            DataError: No rows, a missing column, a value that breaks a rule.
        """
        return None if self.train is None else PairColumns.read_all(self.train, "train", self.columns)

    def read(self, lists: TableFiles | Table, truth: TableFiles | Table) -> ListInput:
        """Return the columns of lists, truth and train data.

        Raises:
            DataError: No rows, a missing column, a value that breaks a rule.
        """
        return ListInput.of(
            PairColumns.read_all(lists, "lists", self.columns),
            PairColumns.read_all(truth, "truth", self.columns),
            self.history,
        )

    @property
    def for_workers(self) -> ScoreRequest:
        """The request without the train data, which reaches other processes as part of the catalogue."""
        return replace(self, train=None)

    def curve_ks(self, n: int) -> tuple[int, ...]:
        """Return the cutoffs of curves for lists of length ``n``; none without curves."""
        return tuple(curve_ks(n, self.specs)) if self.curves else ()
