"""Ray with two nodes of one CPU each: the contract, lost nodes, interruptions, what a node lacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from clusters import OBJECT_STORE, RAY_WARNINGS, ray_nodes
from processes import is_running, wait_for
from samples import line_of, small_config, write_config

from evalplugin.base.errors import EngineError
from evalplugin.config.engines import ENGINES
from evalplugin.execution.engines import Call, Needs, remote, run_calls
from evalplugin.execution.engines.ray import Ray
from evalplugin.execution.isolation import TaskFailure
from evalplugin.testing import check_engine

pytestmark = [pytest.mark.slow, pytest.mark.cluster, RAY_WARNINGS]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_nodes() as made:
        yield made


def test_ray_meets_the_contract(cluster: Any) -> None:
    check_engine("ray", workers=None, address=cluster.address)


def noted(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


PLUGIN = """
import os, time
from dataclasses import dataclass
from pathlib import Path
import numpy as np
import evalplugin
from helping_module import FOLDER

@evalplugin.model("noting")
@dataclass(frozen=True)
class Noting:
    fails: bool = False
    number: int = 0

    def fit(self, train, rng):
        object.__setattr__(self, "n_items", train.n_items)
        Path(FOLDER, f"{self.number} {os.getpid()}").touch()
        if self.fails:
            raise ValueError("of the model")
        until = time.monotonic() + 600
        while time.monotonic() < until and not Path(FOLDER, os.pardir, "enough").exists():
            time.sleep(0.05)

    def scores(self, users):
        return np.tile(np.arange(self.n_items, dtype=float), (len(users), 1))
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plugin whose helper is beside it, and that notes each fit in the folder ``fits``; it fits until ``enough``."""
    (tmp_path / "fits").mkdir()
    (tmp_path / "helping_module.py").write_text(f"FOLDER = {str(tmp_path / 'fits')!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "helping_module", raising=False)
    (tmp_path / "noting.py").write_text(PLUGIN)
    return tmp_path / "noting.py"


def noting_config(plugin: Path, *models: dict[str, Any], **changes: Any) -> dict[str, Any]:
    named = [
        {"name": f"noting {n}", "type": "noting", "params": {"number": n, **one}}
        for n, one in enumerate(models)
    ]
    return small_config(plugins=[str(plugin)], models=[*named, "popularity"], compare={}, **changes)


def tasks_of(config: dict[str, Any]) -> tuple[Any, list[Any]]:
    from evalplugin.execution.observer import Observer
    from evalplugin.execution.runner import jobs_of, prepare
    from evalplugin.features.config import load

    checked = load(config)
    return checked, jobs_of(checked, prepare(checked, None, Observer()))


def test_killed_node_costs_only_what_ran_on_it(cluster: Any, plugin: Path, tmp_path: Path) -> None:
    from evalplugin.execution.executor import task_executor
    from evalplugin.execution.observer import Observer

    lost = cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE)
    checked, jobs = tasks_of(noting_config(plugin, {}, {}, {}))
    (tmp_path / "scratch").mkdir()
    said: list[str] = []
    needs = Needs(
        tmp_path / "scratch", plugins=checked.plugins, components=[("model", "noting")], report=said.append
    )
    with Ray(address=cluster.address).open(needs) as session:
        assert said == ["engine ray: 3 nodes with room for 3 tasks at a time"]
        plugin.unlink()  # nodes have a copy, and one of the module that it imports
        (tmp_path / "helping_module.py").unlink()
        tasks = ((n, str(n), job.tasks[0]) for n, job in enumerate(jobs[:3]))
        with closing(task_executor(session, Observer())(tasks)) as results:

            def kill() -> None:
                wait_for(lambda: len(noted(tmp_path / "fits")) == 3)
                cluster.remove_node(lost, allow_graceful=False)
                (tmp_path / "enough").touch()

            killing = threading.Thread(target=kill)
            killing.start()
            found = dict(results)
            killing.join()
    assert not any(isinstance(result, TaskFailure) for result in found.values())
    fits = [name.split()[0] for name in noted(tmp_path / "fits")]
    assert sorted(set(fits)) == ["0", "1", "2"]
    assert len(fits) == 4  # one of them again


def test_node_that_joins_later_takes_its_share(plugin: Path, tmp_path: Path) -> None:
    from evalplugin.execution.executor import task_executor
    from evalplugin.execution.observer import Observer

    checked, jobs = tasks_of(noting_config(plugin, {}, {}, {}, {}))
    (tmp_path / "scratch").mkdir()
    needs = Needs(tmp_path / "scratch", plugins=checked.plugins, components=[("model", "noting")], workers=2)
    found: dict[int, Any] = {}

    def run() -> None:
        tasks = ((n, str(n), job.tasks[0]) for n, job in enumerate(jobs[:4]))
        with closing(task_executor(session, Observer())(tasks)) as results:
            found.update(results)

    def running() -> int:
        return sum(is_running(int(name.split()[1])) for name in noted(tmp_path / "fits"))

    with ray_nodes(1) as small, Ray(address=small.address).open(needs) as session:
        thread = threading.Thread(target=run)  # Ray adds nodes in the main thread alone
        thread.start()
        wait_for(lambda: running() == 1)
        small.add_node(num_cpus=1, object_store_memory=OBJECT_STORE)
        wait_for(lambda: running() == 2)
        (tmp_path / "enough").touch()
        thread.join()
    assert not any(isinstance(result, TaskFailure) for result in found.values())
    assert len(found) == len(noted(tmp_path / "fits")) == 4


def test_failure_of_a_model_is_not_run_again(cluster: Any, plugin: Path, tmp_path: Path) -> None:
    import evalplugin

    engine = {"type": "ray", "address": cluster.address, "retries": 2}
    outcome = evalplugin.run(noting_config(plugin, {"fails": True}, engine=engine))
    failed, popularity = outcome.models
    assert failed.failure == f"noting.py:{line_of('raise', PLUGIN)}: ValueError: of the model"
    assert popularity.error is None
    assert len(noted(tmp_path / "fits")) == 1
    import mlflow

    summary = mlflow.MlflowClient("sqlite:///mlflow.db").get_run(outcome.links.summary_run_id)
    assert json.loads(summary.data.tags["evalplugin.provenance"])["engine"] == "ray on 2 nodes"


def test_trials_of_tuning_run_on_ray(cluster: Any) -> None:
    from evalplugin.features.config import load
    from evalplugin.features.tuning.alone import tune, tuned_yaml
    from evalplugin.workspace import Workspace

    ease = {"type": "ease", "tune": {"l2": {"float": [1, 1000], "log": True}}}
    by_race = {"budget": {"trials": 6}, "prune": "race"}
    config = small_config(models=[ease], compare={}, relevance={}, tune=by_race)
    engine = {"type": "ray", "address": cluster.address}
    found = []
    for given in (config, {**config, "engine": engine}):
        workspace = Workspace.open(load(given), mode="fresh")
        jobs = tune(workspace)
        written = tuned_yaml(workspace.config, jobs).splitlines()[-3:]
        found.append(([(job.model, job.tuning and job.tuning.best) for job in jobs], written))
    assert found[0] == found[1]


def test_other_version_on_a_node_is_refused_with_both(cluster, tmp_path, monkeypatch):
    versions = remote.package_versions()
    monkeypatch.setattr(remote, "package_versions", lambda: {**versions, "numpy": "1.0"})
    refused(rf"node .*: numpy is {versions['numpy']} there and 1\.0 here: install", tmp_path, cluster.address)


def refused(said: str, folder: Path, address: str, **options: Any) -> None:
    with pytest.raises(EngineError, match=said), Ray(address=address, **options).open(Needs(folder)):
        pass


def test_task_that_fits_no_node_is_refused(cluster: Any, tmp_path: Path) -> None:
    said = r"no node has 8 CPUs for a task \(cpus, memory\): the largest of 2 nodes"
    refused(said, tmp_path, cluster.address, cpus=8)


def test_address_that_nobody_answers_at_is_refused_at_once(tmp_path: Path) -> None:
    for address in ("127.0.0.1:9", "ray://127.0.0.1:9", "nowhere.invalid:6379"):
        refused(f"no response from {address} .*describe engine ray", tmp_path, address)
    for address in ("nowhere", "http://127.0.0.1:8265", "127.0.0.1:"):
        said = f"{address} is not an address of a cluster: give HOST:PORT of the head node"
        refused(said, tmp_path, address)


SCRIPT = """
import sys
from evalplugin.cli import main
sys.path.insert(0, {folder!r})
if __name__ == "__main__":
    sys.exit(main(["run", "--engine", "ray", "config.yaml"]))
"""


def started(plugin: Path, folder: Path, address: str) -> subprocess.Popen[str]:
    """Run a bake-off of two models, which take ten minutes, in a process; return it when both are being fitted."""
    config = noting_config(plugin, {}, {}, engine={"type": "ray", "address": address})
    write_config(config, folder / "config.yaml")
    (folder / "script.py").write_text(SCRIPT.format(folder=str(folder)))
    running = subprocess.Popen(
        [sys.executable, "script.py"], cwd=folder, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    wait_for(lambda: len(noted(folder / "fits")) == 2)
    return running


def test_interruption_leaves_nothing_running(cluster: Any, plugin: Path, tmp_path: Path) -> None:
    running = started(plugin, tmp_path, cluster.address)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert "to go on: " in said
    pids = [int(name.split()[1]) for name in noted(tmp_path / "fits")]
    wait_for(lambda: not any(is_running(pid) for pid in pids))


def test_ray_starts_on_this_machine_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray gives such a cluster tokens; the next one in this process may have none."""
    import ray

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # where Ray writes the token
    monkeypatch.setattr("ray._private.ray_constants.DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", OBJECT_STORE)

    def answer(address: str) -> list[tuple[int, Any]]:
        with ENGINES.create("ray", {"address": address}).open(Needs(tmp_path / "needs")) as session:
            calls = [Call(n, dict, [session.put({"a": 1})], {"b": n}) for n in range(4)]
            return sorted(run_calls(session, calls))

    (tmp_path / "needs").mkdir()
    expected = [(n, {"a": 1, "b": n}) for n in range(4)]
    assert answer("local") == expected
    assert not ray.is_initialized()
    assert (tmp_path / ".ray" / "auth_token").is_file()
    with ray_nodes() as other:
        assert answer(other.address) == expected
