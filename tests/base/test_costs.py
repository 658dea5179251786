from __future__ import annotations

import math
import sys

import numpy as np
import pyarrow as pa
import pytest

from evalplugin.base import costs
from evalplugin.base.costs import Stopwatch, give_back_memory, peak_memory


def test_stopwatch_sums_seconds_per_name() -> None:
    watch = Stopwatch()
    for _ in range(2):
        with watch.time("work"):
            pass
    with pytest.raises(ZeroDivisionError), watch.time("broken"):
        _ = 1 / 0
    assert set(watch.seconds) == {"work", "broken"}
    assert all(seconds > 0 for seconds in watch.seconds.values())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a peak of memory that can be reset")
def test_peak_memory_includes_freed_memory_and_resets_before_each_measurement() -> None:
    with peak_memory() as idle:
        pass
    with peak_memory() as peak:
        block = np.ones(200 * 2**20, dtype=np.uint8)
        del block
    with peak_memory() as after:
        pass
    assert 190 < peak.mb - idle.mb < 300
    assert after.mb < peak.mb - 150


def test_memory_that_arrow_has_freed_is_given_back() -> None:
    # Its pool keeps it, so that work inside would seem to need less, and reading data to need it for ever.
    pool = pa.default_memory_pool()
    buffers = [pa.allocate_buffer(2**20) for _ in range(200)]
    for buffer in buffers:
        np.frombuffer(buffer, dtype=np.uint8)[:] = 1
    del buffers, buffer
    kept = resident_mb()
    give_back_memory()
    assert pool.bytes_allocated() < 2**20
    assert resident_mb() < kept - 50


def resident_mb() -> float:
    return costs._status_mb("VmRSS")


def test_peak_memory_is_nan_without_a_resettable_maximum(monkeypatch, tmp_path):
    monkeypatch.setattr(costs, "_CLEAR", costs.Path(f"{tmp_path}/none/clear_refs"))
    with peak_memory() as peak:
        pass
    assert math.isnan(peak.mb)
