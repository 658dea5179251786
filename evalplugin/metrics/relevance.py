"""Which ratings of the truth are relevant."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from evalplugin.base.arrays import Flags
from evalplugin.base.errors import DataError


class Relevance(BaseModel):
    """Relevance in the truth. The gain of an item stays its rating."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)

    threshold: float | None = Field(
        default=None,
        description="Lowest rating that is relevant; left out: every rating above 0.",
        examples=[4.0],
    )

    @classmethod
    def starting_at(cls, lowest: object) -> Relevance:
        """Return the relevance of ratings from ``lowest`` on, which a caller gives as ``threshold``.

        Raises:
            DataError: It is neither a finite number nor None.
        """
        if lowest is None:
            return ABOVE_0
        if not (isinstance(lowest, Real) and math.isfinite(lowest)):
            raise DataError(
                f"threshold must be a finite number, from which ratings are relevant, not {lowest!r}"
            )
        return cls(threshold=float(lowest))

    def of(self, rating: npt.NDArray[np.floating[Any]]) -> Flags:
        """Return whether ratings are relevant, bool of the same shape."""
        # Ratings are float32: a rating of 3.3 in the data must reach a threshold of 3.3.
        return rating > 0 if self.threshold is None else rating >= np.float32(self.threshold)


ABOVE_0 = Relevance()
