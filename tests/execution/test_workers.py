"""Tasks in processes of their own: the same results, and each failing alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import is_running, wait_for
from samples import line_of, small_config

from evalplugin.base.errors import EvalpluginError, StoreError
from evalplugin.config import CheckedConfig
from evalplugin.execution.engines import Needs
from evalplugin.execution.engines import local as workers_module
from evalplugin.execution.engines.local import Processes
from evalplugin.execution.executor import sequential_executor, task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import ModelResult
from evalplugin.execution.runner import jobs_of, prepare, results_of
from evalplugin.execution.worker import Limits
from evalplugin.features.config import load

ROOT = Path(__file__).parents[2]

PLUGIN = """
import ctypes, os, signal, sys, time
from dataclasses import dataclass
import numpy as np
import evalplugin

@evalplugin.model("bad")
@dataclass
class Bad:
    how: str = "raise"

    def fit(self, train, rng):
        {
            "raise": lambda: 1 / 0,
            "exit": lambda: os._exit(3),
            "sys.exit": lambda: sys.exit("enough"),
            "abort": os.abort,
            "segfault": lambda: ctypes.string_at(0),
            "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "hang": lambda: time.sleep(600),
            "hang in C": lambda: ctypes.PyDLL(None).sleep(600),
            "memory": lambda: np.ones(2**30),
            "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
            "print": lambda: print("learning rate 0.1"),
            }[self.how]()

    def scores(self, users): ...

@evalplugin.model("noting")
@dataclass
class Noting:
    folder: str
    wait: float = 0.0

    def fit(self, train, rng):
        self.n_items = train.n_items
        from threadpoolctl import threadpool_info
        threads = [os.environ.get(name, "-") for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")]
        threads += sorted({str(lib["num_threads"]) for lib in threadpool_info() if lib["user_api"] == "blas"})
        with open(f"{self.folder}/{os.getpid()}", "w") as file:
            file.write(" ".join(threads))

    def scores(self, users):
        time.sleep(self.wait)
        return np.tile(np.arange(self.n_items, dtype=float), (len(users), 1))

@evalplugin.metric("first", higher_is_better=True, bounds=(0, 1))
def first(context, k):
    return context.undefined_without_relevant(context.n_hits(1).astype(float))
"""


def config(folder: Path, **changes: Any) -> CheckedConfig:
    plugin = folder / "bad.py"
    plugin.write_text(PLUGIN)
    data = {
        "plugins": [str(plugin)],
        "split": {"type": "kfold", "k": 2},
        "relevance": {},
        "metrics": ["ndcg@10", "coverage@10", "rmse", "first@5"],
        "models": ["random", {"type": "sklearn.TruncatedSVD", "params": {"n_components": 8}}],
        "compare": {},
    }
    return load(small_config(**{**data, **changes}))


def in_this_process(checked: CheckedConfig) -> list[ModelResult]:
    jobs = jobs_of(checked, prepare(checked, None, Observer()))
    return [result for _, result in results_of(jobs, sequential_executor(Observer()))]


def results(
    checked: CheckedConfig, folder: Path, workers: int, limits: Limits | None = None, observer: Any = None
) -> list[ModelResult]:
    folder = folder / f"scratch-{workers}"
    folder.mkdir()
    jobs = jobs_of(checked, prepare(checked, None, Observer()))
    needs = Needs(workers=workers, limits=limits or Limits(), plugins=checked.plugins, folder=folder)
    with closing(Processes(needs)) as session:
        execute = task_executor(session, observer or Observer())
        return [result for _, result in sorted(results_of(jobs, execute), key=lambda pair: pair[0])]


def assert_same(a: ModelResult, b: ModelResult) -> None:
    assert (a.error, b.error) == (None, None)
    np.testing.assert_array_equal(a.per_user.users, b.per_user.users)
    assert a.per_user.values.tobytes() == b.per_user.values.tobytes()
    for name in ("overall", "at_k", "pr_curve"):  # every digit; and NaN is not equal to itself
        assert repr(getattr(a.per_user, name)) == repr(getattr(b.per_user, name))
    assert repr(a.fold_means) == repr(b.fold_means)
    assert a.top_n.equals(b.top_n)
    assert a.items.equals(b.items)


def test_ids_that_are_text_and_data_without_times_reach_the_workers(tmp_path: Path) -> None:
    import pandas as pd

    rng = np.random.default_rng(0)
    pairs = rng.permutation(20 * 30)[:300]
    frame = pd.DataFrame({"user": [f"u{p // 30:02d}" for p in pairs], "item": [f"é{p % 30}" for p in pairs]})
    mine = {"name": "mine", "type": "dataframe", "frame": frame}
    given = {"datasets": [mine], "split": "holdout", "models": ["random", "popularity"]}
    sampled = {"n": 10, "candidates": "sampled", "negatives": 5}
    checked = config(tmp_path, recommend=sampled, **given)
    for a, b in zip(in_this_process(checked), results(checked, tmp_path, 2), strict=True):
        assert_same(a, b)


HOWS = {
    "raise": f"bad.py:{line_of('1 / 0', PLUGIN)}: ZeroDivisionError: division by zero",
    "exit": "the process of the task ended with exit code 3 before the task was done",
    "sys.exit": f"bad.py:{line_of('sys.exit(', PLUGIN)}: SystemExit: enough",
    "abort": "the process of the task was ended by SIGABRT",
    "segfault": "the process of the task was ended by SIGSEGV",
    "kill": "the process of the task was ended by SIGKILL, which systems send when memory runs out",
}


def test_crashed_task_fails_alone_with_exit_reason(tmp_path: Path) -> None:
    models = [{"name": how, "type": "bad", "params": {"how": how}} for how in HOWS]
    checked = config(tmp_path, models=["random", *models, "popularity"], split={"type": "last_n", "n": 2})
    found = {r.model: r for r in results(checked, tmp_path, 2)}
    assert {how: found[how].failure for how in HOWS} == HOWS
    assert found["random"].error is None
    assert found["popularity"].error is None
    # A crash tells where the program was.
    assert 'bad.py", line' in (found["abort"].error or "")
    assert "Fatal Python error: Segmentation fault" in (found["segfault"].error or "")


@pytest.mark.slow
def test_time_limit_stops_hanging_task_with_traceback(tmp_path: Path) -> None:
    models = [{"name": how, "type": "bad", "params": {"how": how}} for how in ("hang", "hang in C")]
    checked = config(tmp_path, models=models, split={"type": "last_n", "n": 2})
    for found in results(checked, tmp_path, 2, Limits(seconds=6.0)):
        assert found.failure == "stopped: the task took more than 6 s, its limit (limits.seconds)"
        assert 'bad.py", line' in (found.error or "")


@pytest.mark.slow
def test_stopped_process_is_killed_after_grace_period(tmp_path: Path) -> None:
    stopped = {"name": "stopped", "type": "bad", "params": {"how": "stop"}}
    checked = config(tmp_path, models=[stopped], split={"type": "last_n", "n": 2})
    (found,) = results(checked, tmp_path, 1, Limits(seconds=1.0))
    assert found.failure == "stopped: the task took more than 1 s, its limit (limits.seconds)"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can bound the memory of a process")
def test_memory_limit_fails_task_alone(tmp_path: Path) -> None:
    greedy = {"name": "greedy", "type": "bad", "params": {"how": "memory"}}
    checked = config(tmp_path, models=[greedy, "popularity"], split={"type": "last_n", "n": 2})
    greedy_result, other = results(checked, tmp_path, 2, Limits(memory=2**30))
    assert "MemoryError: Unable to allocate 8.00 GiB" in (greedy_result.error or "")
    said = "out of memory: the process of the task may allocate 1.0 GB (limits.memory)"
    assert greedy_result.failure == said
    assert other.error is None


def test_memory_limit_is_refused_outside_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    needs = Needs(workers=1, limits=Limits(memory=10), plugins=[], folder=tmp_path)
    with pytest.raises(EvalpluginError, match=r"limits\.memory: only Linux can bound the memory"):
        task_executor(Processes(needs), Observer())


def test_failed_fold_ends_its_model_with_first_failure(tmp_path: Path) -> None:
    models = [{"name": "bad", "type": "bad"}, "popularity"]
    bad, popularity = results(config(tmp_path, models=models, split={"type": "kfold", "k": 4}), tmp_path, 2)
    assert bad.failure == HOWS["raise"]
    assert popularity.error is None


def test_every_task_has_a_process_of_its_own_with_its_share_of_the_threads(tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "seen").mkdir()
    noting = {"type": "noting", "params": {"folder": str(tmp_path / "seen")}}
    results(config(tmp_path, models=[noting]), tmp_path, 2)
    seen = {file.name: file.read_text().split() for file in (tmp_path / "seen").iterdir()}
    assert len(seen) == 2
    share = str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert list(seen.values()) == [[share, share, "1"]] * 2


def test_blas_has_one_thread_in_this_process_too(tmp_path: Path) -> None:
    noting = {"type": "noting", "params": {"folder": str(tmp_path)}}
    checked = config(tmp_path, models=[noting])
    in_this_process(checked)
    assert (tmp_path / str(os.getpid())).read_text().split()[2:] == ["1"]


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_workers
if __name__ == "__main__":
    folder = Path({folder!r})
    waiting = {{"type": "noting", "params": {{"folder": str(folder / "seen"), "wait": 600.0}}}}
    test_workers.results(test_workers.config(folder, models=[waiting]), folder, 2)
"""


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), folder=str(tmp_path)))
    parent = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    )
    while len(list(seen.iterdir())) < 2:
        assert parent.poll() is None
        time.sleep(0.05)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    workers = [int(file.name) for file in seen.iterdir()]
    wait_for(lambda: not any(is_running(pid) for pid in workers))


SCRIPT_OF_A_USER = """
import sys
from dataclasses import dataclass
import numpy as np
import evalplugin

@evalplugin.model("of-script")
@dataclass
class OfScript:
    def fit(self, train, rng):
        self.counts = train.item_counts.astype(float)

    def scores(self, users):
        return np.tile(self.counts, (len(users), 1))

print("for stdout")
config = {{"experiment": "e", "datasets": ["blobs"], "split": {{"type": "holdout", "fraction": 0.3}},
          "models": {models}, "metrics": ["rr"], "recommend": {{"n": 5}}, "segments": [],
          "tracking": {{"uri": {uri!r}}}}}
if {guard}:
    sys.exit(len(evalplugin.run(config, workers=2).failed))
"""


def run_script(folder: Path, *, guard: str, models: list[str], by_stdin: bool = False) -> Any:
    text = SCRIPT_OF_A_USER.format(guard=guard, models=models, uri=f"sqlite:///{folder}/mlflow.db")
    (folder / "script.py").write_text(text)
    command = [sys.executable, "-" if by_stdin else "script.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, input=text if by_stdin else "", cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_script_without_main_guard_is_an_error(tmp_path: Path) -> None:
    done = run_script(tmp_path, guard="True", models=["random"])
    assert done.returncode == 1
    said = "EvalpluginError: a worker process imports the script that started it, and this script starts a bake-off"
    assert done.stderr.count("Traceback") == 1
    assert said in done.stderr
    assert 'put the call below `if __name__ == "__main__":`' in done.stderr


@pytest.mark.slow
def test_script_may_define_a_model(tmp_path: Path) -> None:
    done = run_script(tmp_path, guard='__name__ == "__main__"', models=["of-script", "random"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "for stdout\n"


@pytest.mark.slow
def test_script_from_stdin_needs_no_guard(tmp_path: Path) -> None:
    done = run_script(tmp_path, guard="True", models=["random"], by_stdin=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("workers", [0, 2])
def test_model_output_goes_to_stderr(tmp_path: Path, workers: int, capfd: pytest.CaptureFixture[str]) -> None:
    talking = {"name": "talking", "type": "bad", "params": {"how": "print"}}
    checked = config(tmp_path, models=[talking], split={"type": "last_n", "n": 2})
    results(checked, tmp_path, workers) if workers else in_this_process(checked)
    out, err = capfd.readouterr()
    assert out == ""
    assert "learning rate 0.1" in err


def test_full_disk_is_a_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(workers_module, "write_value", full)
    with pytest.raises(StoreError, match=r"shared-\w+, which a worker process needs: No space left on"):
        results(config(tmp_path, models=["random"]), tmp_path, 2)
