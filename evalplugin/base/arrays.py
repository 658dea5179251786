"""Types of arrays, by the dtype of their elements."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Codes", "Flags", "Floats", "Ints"]

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]  # of users or items: positions in a vocabulary
Flags: TypeAlias = npt.NDArray[np.bool_]
