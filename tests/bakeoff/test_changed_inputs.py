"""Results are computed again when a file, folder, URI or variable that decided them has changed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from samples import small_config

from evalplugin.config import load
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, load_cached, prepare, results_of, sequential_executor
from evalplugin.execution.store import Store
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.worker import Limits
from evalplugin.execution.workers import process_executor

# A model whose scores are the numbers that its code reads.
VENDOR = """
import functools, glob, json, os, pathlib
from dataclasses import dataclass, field
from typing import Any
import numpy as np
import evalplugin

{top}

def opened(file):
    with open(file) as text:
        import io
        return io.StringIO(text.read())

def low_level(file):
    number = os.open(file, os.O_RDONLY)
    try:
        return os.read(number, 10**6)
    finally:
        os.close(number)

@evalplugin.model("vendor")
@dataclass
class Vendor:
    file: str = "none"
    options: dict[str, Any] = field(default_factory=dict)

    def fit(self, train, rng):
        with open("fits.txt", "a") as log:
            log.write("fit\\n")
        values = np.resize(np.asarray({read}, dtype=float), train.n_items)
        self.values = np.tile(values, (train.n_users, 1))

    def scores(self, users):
        return self.values[users]
"""


def plugin(read: str, top: str = "") -> str:
    Path("vendor.py").write_text(VENDOR.format(read=read, top=top))
    return "vendor.py"


def vendor(
    read: str, top: str = "", *, params: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    model = {"name": "vendor", "type": "vendor", "params": params or {}, **changes.pop("model", {})}
    data = small_config(plugins=[plugin(read, top)], models=["random", model], segments=[], **changes)
    Path("shop.yaml").write_text(yaml.safe_dump(data))
    return data


def fits() -> int:
    """How often the model was fitted so far."""
    return len(Path("fits.txt").read_text().splitlines()) if Path("fits.txt").exists() else 0


def forget_plugins() -> None:
    for name in [name for name in sys.modules if name.startswith("evalplugin_plugin_")]:
        del sys.modules[name]


def compute(*, workers: bool = False, resolve: Callable[[str], str] | None = None) -> list[str]:
    """Run the tasks of shop.yaml with the cache in a process that starts with it; return the lines reported."""
    forget_plugins()
    said: list[str] = []
    config = load(Path("shop.yaml"))
    store = Store(Path(".evalplugin").absolute(), report=said.append)
    cache = StepCache(store, **({} if resolve is None else {"resolve": resolve}))
    jobs = jobs_of(config, prepare(config, None, Observer(), cache))
    load_cached(jobs, cache)
    with store.scratch() as folder:
        execute = sequential_executor(Observer())
        if workers:
            execute = process_executor(
                Observer(), workers=1, limits=Limits(), plugins=config.plugins, folder=folder, total=2
            )
        for _, result in results_of(jobs, execute, cache):
            assert result.error is None, result.error
    return said


def write_numbers(file: str, seed: int) -> None:
    Path(file).parent.mkdir(exist_ok=True, parents=True)
    Path(file).write_text(json.dumps(np.random.default_rng(seed).random(80).tolist()))


def why(lines: list[str]) -> list[str]:
    """What has changed, by the lines that a run reports."""
    pattern = "store: vendor is computed again: (.*) has changed since"
    return [
        found[1].replace(f"{Path.cwd()}/", "") for line in lines if (found := re.fullmatch(pattern, line))
    ]


FIXED = "json.loads(pathlib.Path('v.json').read_text())"


@pytest.mark.parametrize("workers", [False, True])
def test_file_that_a_model_opens_is_compared_before_reuse(workers: bool) -> None:
    write_numbers("v.json", 1)
    vendor(FIXED)
    assert compute(workers=workers) == []
    assert compute(workers=workers) == []
    assert fits() == 1
    write_numbers("v.json", 2)
    assert why(compute(workers=workers)) == ["v.json"]
    assert fits() == 2
    Path("v.json").touch()  # the same content at another time
    assert compute(workers=workers) == []
    assert fits() == 2
