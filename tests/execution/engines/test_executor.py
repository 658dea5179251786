"""Executors of concurrent.futures: processes and Dask by the contract, and what is wrong with a factory."""

from __future__ import annotations

import os
import sys
from concurrent.futures import Executor as AnyExecutor
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from samples import small_config

from evalplugin.base.errors import ConfigError, EngineError
from evalplugin.execution.engines import Call, Needs, run_calls
from evalplugin.execution.engines.executor import Executor
from evalplugin.features.config import load
from evalplugin.testing import check_engine

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.slow
def test_processes_meet_the_contract() -> None:
    params = {"max_workers": 2}
    check_engine("executor", factory="concurrent.futures:ProcessPoolExecutor", params=params)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning")
def test_example_for_dask_meets_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    check_engine("executor", factory="dask_executor:local_dask", params={"workers": 2})


class Losing(AnyExecutor):
    """An executor that loses its worker with the second call."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        future: Future[Any] = Future()
        if self.calls == 1:
            future.set_result(("ok", None, "here"))
        else:
            future.set_exception(OSError("connection lost"))
        return future


def test_lost_worker_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "losing", type("module", (), {"Losing": Losing}))
    with (
        pytest.raises(EngineError, match="a worker was lost, or cannot run a task: OSError: connection lost"),
        Executor("losing:Losing").open(Needs(tmp_path, workers=1)) as session,
    ):
        list(run_calls(session, [Call(0, os.getpid)]))


def test_factory_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "factories.py").write_text("def number():\n    return 3\n\ndef broken():\n    return 1 / 0\n")
    for factory, said in {
        "factories.py:number": "factories.py:number returns int, which is not an executor of concurrent.futures",
        "factories.py:broken": "factories.py:broken fails: ZeroDivisionError: division by zero",
        "factories.py:other": "factories.py has no function other",
        "no_such_module:other": "no_such_module:other fails: ModuleNotFoundError: No module named 'no_such_module'",
    }.items():
        with (
            pytest.raises(EngineError, match=said),
            Executor(factory).open(Needs(tmp_path, workers=1, base=tmp_path)),
        ):
            pass
    with (
        pytest.raises(EngineError, match="workers: must be given, by the config or by --workers"),
        Executor("os:getpid").open(Needs(tmp_path)),
    ):
        pass


def test_file_of_a_factory_is_looked_for_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match=r"engine\.factory|no such file: .*missing\.py"):
        load(small_config(engine={"type": "executor", "factory": "missing.py:pool"}))
