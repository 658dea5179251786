"""The engine of this machine, and the loop over calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalplugin.execution.engines import Call, Needs, run_calls
from evalplugin.execution.engines.local import InProcess, Local
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.worker import Limits
from evalplugin.testing import check_engine


@pytest.mark.slow
def test_engine_of_this_machine_meets_the_contract() -> None:
    check_engine("local")


def test_one_worker_without_limits_is_this_process(tmp_path: Path) -> None:
    for workers, limits, here in ((None, Limits(), True), (1, Limits(), True), (2, Limits(), False),
                                  (1, Limits(seconds=9), False)):  # fmt: skip
        with Local().open(Needs(tmp_path, workers=workers, limits=limits)) as session:
            assert session.in_process is here
            assert session.slots == (workers or 1)


class Recorded(InProcess):
    """A session of several slots that notes what is asked of it."""

    in_process = False
    slots = 2

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Any] = []

    def submit(self, call: Call) -> None:
        self.said.append(call.number)
        super().submit(call)

    def close(self) -> None:
        self.said.append("close")
        super().close()


def test_calls_are_asked_for_as_they_can_start_and_one_may_follow_from_another() -> None:
    session, followers = Recorded(), [Call(9, max, rest={})]
    running = [0]

    def calls() -> Iterator[Call | None]:
        for number in range(3):
            running[0] += 1
            yield Call(number, dict, rest={"n": number})
        while running[0]:
            yield followers.pop() if followers and running[0] == 1 else None

    found = []
    for number, value in run_calls(session, calls()):
        found.append(number)
        running[0] -= 1
        if number == 9:
            running[0] = 0
            assert isinstance(value, TaskFailure)  # max() without arguments
        else:
            assert value == {"n": number}
    assert found == [0, 1, 2, 9]


def test_closing_the_loop_closes_the_session() -> None:
    session = Recorded()
    ended = run_calls(session, (Call(number, dict) for number in range(9)))
    next(ended)
    ended.close()
    assert session.said == [0, 1, 2, "close"]
