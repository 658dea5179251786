"""Arrays of stored entries: any array comes back as it was."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis.extra.numpy import array_shapes, arrays
from hypothesis.strategies import sampled_from

from evalplugin.execution.store.contents import _array, _read_array

DTYPES = sampled_from(["i1", "i4", "i8", "f4", "f8", "?"])


@given(arrays(DTYPES, array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=30)))
def test_arrays_come_back_to_the_bit(array: npt.NDArray[np.generic]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "a"
        for written in (array, array[::2], array.T):
            with file.open("wb") as out:
                _array(written)(out)
            read = _read_array(file)
            assert (read.dtype, read.shape) == (written.dtype, written.shape)
            assert read.tobytes() == written.tobytes()
