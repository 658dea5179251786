"""Script: run a bake-off of bad models without MLflow, and print what became of each as JSON.

Arguments: the number of worker processes (0: in this process), the model type, then its behaviours.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from samples import small_config

from evalplugin.base.signals import interrupt_on_signals
from evalplugin.execution.engines import Needs
from evalplugin.execution.engines.local import Processes
from evalplugin.execution.executor import sequential_executor, task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, prepare, results_of
from evalplugin.execution.worker import Limits
from evalplugin.features.config import load


def main() -> None:
    interrupt_on_signals()
    workers, kind, behaviours = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    bad = [{"name": how, "type": kind, "params": {"how": how}} for how in behaviours]
    plugins = [str(Path(__file__).with_name("bad_models.py"))]
    config = load(small_config(plugins=plugins, models=["random", *bad, "popularity"], segments=[]))
    jobs = jobs_of(config, prepare(config, None, Observer()))
    execute = sequential_executor(Observer())
    if workers:
        folder = Path("scratch").absolute()
        folder.mkdir()
        execute = task_executor(
            Processes(Needs(workers=workers, limits=Limits(), plugins=config.plugins, folder=folder)),
            Observer(),
        )
    found = {result.model: [result.failure, result.error] for _, result in results_of(jobs, execute)}
    Path("found.json").write_text(json.dumps(found))
    os._exit(0)  # without waiting for what the models have left running


if __name__ == "__main__":
    main()
