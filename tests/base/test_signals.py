from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from evalplugin.base.signals import deferred_signals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Put the handlers back that a test replaces."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_deferred_signals_arrive_at_the_end_once() -> None:
    order: list[Any] = []
    signal.signal(signal.SIGTERM, lambda number, frame: order.append(signal.Signals(number)))
    with deferred_signals():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        order.append("work")
    assert order == ["work", signal.SIGTERM]
    signal.raise_signal(signal.SIGTERM)
    assert order == ["work", signal.SIGTERM, signal.SIGTERM]


def test_deferred_signals_leave_out_those_that_are_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with deferred_signals():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
