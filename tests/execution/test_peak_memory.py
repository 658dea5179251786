"""Peak memory is that of a model, whatever ran before it in the process, and in a worker process too."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from samples import small_config

from evalplugin.execution.engines import Needs
from evalplugin.execution.engines.local import Processes
from evalplugin.execution.executor import sequential_executor, task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, prepare, results_of
from evalplugin.execution.worker import Limits
from evalplugin.features.config import load

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux keeps a peak of memory that can be reset"
)

PLUGIN = """
from dataclasses import dataclass
import numpy as np
import evalplugin

HELD = []

@evalplugin.model("needy")
@dataclass
class Needy:
    mb: int = 0
    hold_mb: int = 0
    small: int = 0

    def fit(self, train, rng):
        self.me = self  # a cycle: garbage until it is collected
        self.n_items = train.n_items
        self.large = np.ones(self.mb * 2**17)
        self.many = [bytearray(1000) for _ in range(self.small)]
        HELD.append(np.ones(self.hold_mb * 2**17))

    def scores(self, users):
        return np.tile(np.arange(self.n_items, dtype=float), (len(users), 1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_peak_memory_does_not_depend_on_the_place_in_the_config(tmp_path: Path, workers: int) -> None:
    (tmp_path / "needy.py").write_text(PLUGIN)

    def needy(name: str, **params: int) -> dict[str, object]:
        return {"name": name, "type": "needy", "params": params}

    models = [
        needy("first", mb=64),
        needy("garbage", mb=200, small=100_000),
        needy("holding", hold_mb=100),
        needy("last", mb=64),
    ]
    plugins = [str(tmp_path / "needy.py")]
    config = load(small_config(plugins=plugins, models=["popularity", *models], compare={}))
    jobs = jobs_of(config, prepare(config, None, Observer()))
    execute = sequential_executor(Observer())
    with ExitStack() as opened:
        if workers:
            needs = Needs(workers=workers, limits=Limits(), plugins=config.plugins, folder=tmp_path)
            execute = task_executor(opened.enter_context(closing(Processes(needs))), Observer())
        found = {r.model: r.costs.peak_memory_mb for _, r in results_of(jobs, execute) if r.costs is not None}
    assert found["popularity"] < 16
    assert found["first"] == pytest.approx(64, abs=16)
    assert found["last"] == pytest.approx(found["first"], abs=8)
    assert 290 < found["garbage"] < 340
    assert found["holding"] == pytest.approx(100, abs=16)
