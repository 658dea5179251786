from __future__ import annotations

import pytest

from evalplugin.base.errors import ModelError
from evalplugin.models import limit_threads, thread_count
from evalplugin.models.threads import for_ranges


def test_thread_count_follows_limit_and_environment(monkeypatch):
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    assert thread_count() >= 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert thread_count() == 3
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    assert thread_count() == 2
    with limit_threads(1):
        assert thread_count() == 1
    monkeypatch.setenv("NUMBA_NUM_THREADS", "many")
    with pytest.raises(ModelError, match="NUMBA_NUM_THREADS must be a whole number from 1, not 'many'"):
        thread_count()


def test_an_error_in_a_thread_is_raised():
    def work(start, stop):
        raise ValueError(f"in {start}")

    with limit_threads(2), pytest.raises(ValueError, match="in 0"):
        for_ranges(work, 10, 5)
