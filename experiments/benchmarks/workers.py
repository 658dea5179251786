"""What a second worker gains: bake-offs and studies of small and of long tasks, with `--workers 1` and `--workers 2`.

Each measurement is a command of its own, in an empty folder, or in one where everything is cached. Linear algebra and
compiled loops have one thread in all of them, so that two workers use two processors and one worker uses one.
"tasks" are the seconds from the first to the last task, logging between them included; "all" are those of the command.
`--against` measures another checkout too, in turn; the fastest of several runs counts. Writes workers.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkouts import add_against, checkouts_of, environment, machine

HERE = Path(__file__).resolve()
CONFIG = """
experiment: workers
seed: 10
split: {type: last_n, n: 5}
relevance: {threshold: 4.0}
recommend: {n: 20}
metrics: [ndcg@10, recall@10, rr, coverage@10]
compare: {baseline: popularity}
checks: {ignore: [EV101]}
tracking: {uri: "sqlite:///mlflow.db"}
"""
SMALL = """
datasets: [{name: small, type: synthetic, n_users: 300, n_items: 500, n_interactions: 20000}]
models:
  - popularity
  - {name: user, type: surprise.KNNBasic, grid: {k: [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]}}
  - name: item
    type: surprise.KNNBasic
    params: {sim_options: {user_based: false}}
    grid: {k: [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]}
"""
LONG = """
datasets: [{name: middle, type: synthetic, n_users: 1000, n_items: 1700, n_interactions: 100000}]
models:
  - popularity
  - name: factors
    type: surprise.SVD
    params: {n_epochs: 100}
    grid: {n_factors: [100, 101, 102, 103, 104, 105, 106, 107]}
"""
SMALL_TRIALS = """
datasets: [{name: middle, type: synthetic, n_users: 1000, n_items: 1700, n_interactions: 100000}]
models: [popularity, {name: chance, type: random, tune: {legacy_seed: {int: [1, 100000]}}}]
tune: {metric: ndcg@10, budget: {trials: 200}}
"""
LONG_TRIALS = """
datasets: [{name: middle, type: synthetic, n_users: 1000, n_items: 1700, n_interactions: 100000}]
models:
  - popularity
  - {name: factors, type: surprise.SVD, params: {n_epochs: 100}, tune: {n_factors: {int: [90, 110]}}}
tune: {metric: ndcg@10, budget: {trials: 8}, prune: none}
"""
CASES = {  # command, config, whether everything is cached
    "21 small models": ("run", SMALL, False),
    "8 models of a second and more": ("run", LONG, False),
    "200 small trials": ("tune", SMALL_TRIALS, False),
    "8 trials of a second and more": ("tune", LONG_TRIALS, False),
    "21 small models, cached": ("run", SMALL, True),
}


def record(out: str, *command: str) -> None:
    """Run a command of evalplugin in this process, and write the seconds of its tasks."""
    from evalplugin.bakeoff import flow
    from evalplugin.cli import main as evalplugin
    from evalplugin.features.tuning import alone as studies

    seconds = 0.0

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal seconds
            begin = time.perf_counter()
            result = function(*args, **kwargs)
            seconds += time.perf_counter() - begin
            return result

        return call

    vars(flow)["run_tasks"] = timed(flow.run_tasks)
    vars(studies)["run_studies"] = timed(studies.run_studies)
    assert evalplugin(list(command)) == 0
    Path(out).write_text(json.dumps(seconds))


def measure(checkout: Path, case: str, workers: int) -> tuple[float, float]:
    """Return the seconds of the tasks, and of the whole command, by a checkout."""
    command, models, cached = CASES[case]
    variables = environment(checkout) | {"MLFLOW_DISABLE_TELEMETRY": "true"}
    variables |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "workers.yaml").write_text(CONFIG + models)
        for _ in range(2 if cached else 1):
            begin = time.perf_counter()
            subprocess.run(
                [
                    sys.executable,
                    str(HERE),
                    "--record",
                    "tasks.json",
                    command,
                    "workers.yaml",
                    "--workers",
                    str(workers),
                ],
                cwd=folder,
                env=variables,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            everything = time.perf_counter() - begin
        return json.loads(Path(folder, "tasks.json").read_text()), everything


def main() -> None:
    """Measure the cases in turn and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_against(parser)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--cases", nargs="*", type=int, default=range(1, len(CASES) + 1), help="by number, from 1"
    )
    parser.add_argument("--record", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record(*options.record)
        return
    checkouts = checkouts_of(options)
    cases = [list(CASES)[number - 1] for number in options.cases]
    best: dict[tuple[str, str, int], tuple[float, float]] = defaultdict(lambda: (math.inf, math.inf))
    load = os.getloadavg()[0]
    for number in range(options.runs):
        for case in cases:
            for name, checkout in checkouts.items():
                for workers in (1, 2):
                    measured = measure(checkout, case, workers)
                    key = case, name, workers
                    best[key] = min(best[key], measured, key=lambda seconds: seconds[1])
                    print(f"{number + 1}: {case}, {name}, {workers}: {measured[1]:.1f} s", file=sys.stderr)
    lines = [
        "| | checkout | tasks: 1 worker, s | 2, s | times as fast | all: 1 worker, s | 2, s | times as fast |",
        "|---|---|" + "--:|" * 6,
    ]
    for case in cases:
        for name in checkouts:
            columns = zip(best[case, name, 1], best[case, name, 2], strict=True)
            texts = [f"{one:.2f} | {two:.2f} | {one / two:.2f}" for one, two in columns]
            lines.append(f"| {case} | {name} | {' | '.join(texts)} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if len(cases) == len(CASES):
        HERE.with_suffix(".md").write_text(
            f"# One worker and two\n\nWall seconds, the fastest of {options.runs}; one thread a process. "
            f"{machine(load)}\n\n{text}"
        )


if __name__ == "__main__":
    main()
