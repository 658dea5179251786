"""Scores of lists in Spark DataFrames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalplugin.lists.scores import ListScores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SparkScores"]


@dataclass(frozen=True, eq=False, repr=False)
class SparkScores(ListScores):
    """Scores of lists in Spark DataFrames; ``per_user`` is one as well, cached on Spark.

    It has one row a user, in no order: ``user``, and one double column a metric, NaN where undefined.
    """

    cached: DataFrame | None = None  # what ``per_user`` is selected from

    def unpersist(self) -> None:
        """Free what Spark has cached of ``per_user``, which is computed again when it is read."""
        if self.cached is not None:
            self.cached.unpersist()
