"""Lists x truth -> every user's scores -> summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PerUserScores"]


@dataclass(frozen=True, eq=False)
class PerUserScores:
    """One row a user, one float64 column a metric; NaN means undefined for that user, never zero.

    ``users`` (U,) raw ids; ``values`` float64 (U, M); ``metrics`` canonical names of the M columns.
    ``overall`` holds the metrics that are one number a model (``coverage@10``), by canonical name.
    ``at_k`` holds the curve of each metric family over the cutoff: ``{"ndcg": {1: 0.1, 2: 0.15, ...}}``, means.
    """

    users: npt.NDArray[np.generic]
    values: npt.NDArray[np.float64]
    metrics: tuple[str, ...]
    overall: Mapping[str, float] = field(default_factory=dict)
    at_k: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    def column(self, metric: str) -> npt.NDArray[np.float64]:
        """Return one metric's value for every user: float64 (U,), NaN where undefined."""
        return self.values[:, self.metrics.index(metric)]

    def to_frame(self) -> pd.DataFrame:
        """Return the scores as a DataFrame indexed by raw user id, one column a metric."""
        import pandas as pd

        return pd.DataFrame(self.values, index=pd.Index(self.users, name="user"), columns=list(self.metrics))
