"""Results that are remembered as long as a value lives."""

from __future__ import annotations

import gc
import weakref

from evalplugin.base.remembering import remembered


class Value:
    pass


def test_a_result_is_computed_once_for_each_value_and_arguments() -> None:
    calls: list[tuple[Value, int]] = []

    @remembered
    def pair(value: Value, number: int) -> tuple[Value, int]:
        calls.append((value, number))
        return value, number

    first, second = Value(), Value()
    assert [pair(first, 1), pair(first, 1), pair(first, 2), pair(second, 1)] == [
        (first, 1),
        (first, 1),
        (first, 2),
        (second, 1),
    ]
    assert pair(first, number=1) == (first, 1)
    assert calls == [(first, 1), (first, 2), (second, 1), (first, 1)]


def test_a_remembered_value_is_not_kept_alive() -> None:
    @remembered
    def number(value: Value) -> int:
        return 1

    value = Value()
    alive = weakref.ref(value)
    number(value)
    del value
    gc.collect()
    assert alive() is None
