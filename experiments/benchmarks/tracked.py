"""What logging to MLflow costs: one run of 1,000 to 1,000,000 users, and bake-offs of many small models.

A run is logged to a new SQLite store in a temporary folder, in a process that has logged one before. The bake-offs are
commands, in an empty folder and then again with everything cached; their seconds for each model are those beyond a
bake-off of two models. `--against` measures another checkout too, in turn; the fastest of several runs counts. Prints
Markdown. The stages of configs/knn.yaml, with and without the cache, come from run.py.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from checkouts import ROOT, add_against, checkouts_of, environment

HERE = Path(__file__).resolve()
USERS = (1_000, 100_000, 1_000_000)
MODELS = 200
LISTED = 10  # items a user
METRICS = ("ndcg@10", "recall@10", "precision@10", "rr", "ap@10", "coverage@10")
CUTOFFS = (1, 2, 3, 5, 10)
CONFIG = """
experiment: many
seed: 10
datasets: [{name: synthetic-100k, type: synthetic, n_users: 1000, n_items: 1700, n_interactions: 100000}]
split: {type: last_n, n: 5}
relevance: {threshold: 4.0}
recommend: {n: 20}
metrics: [ndcg@10, recall@10, rr, coverage@10]
models: [popularity, {name: chance, type: random, grid: {legacy_seed: SEEDS}}]
compare: {baseline: popularity}
checks: {ignore: [EV101]}
tracking: {uri: "sqlite:///mlflow.db"}
"""


def log_run(users: int) -> float:
    """Return the fewest seconds in which this process logs a run: its start, its results and its end."""
    import numpy as np

    from evalplugin.data import Interactions
    from evalplugin.execution.results import Costs, DataInfo, FoldLists, ModelResult, Plan
    from evalplugin.metrics.relevance import Relevance
    from evalplugin.metrics.scores import PerUserScores, Units
    from evalplugin.models import TopN
    from evalplugin.tracking.write.tracker import MlflowTracker

    rng = np.random.default_rng(0)
    names = [f"model {number}" for number in range(4)]
    bakeoff = Plan(
        id="20260101-000000-0000",
        experiment="runs",
        seed=1,
        n=LISTED,
        candidates="unseen",
        relevance=Relevance(threshold=4.0),
        metrics=METRICS,
        primary=METRICS[0],
        baseline=names[0],
        models=tuple(names),
        config_name="many.yaml",
        config_text=CONFIG,
        config_resolved=CONFIG,
        config_dir=".",
        config_hash="c" * 64,
        metrics_hash="d" * 64,
    )
    row = np.arange(2 * users)
    data = Interactions(
        user=(row // 2).astype(np.int32),
        item=(row % 1000).astype(np.int32),
        rating=np.full(len(row), 4.0, dtype=np.float32),
        timestamp=row,
        users=np.arange(users),
        items=np.arange(1000),
    )
    train, test = data.select(row % 2 == 0), data.select(row % 2 == 1)
    info = DataInfo(
        dataset="shop",
        type="csv",
        params={},
        split_type="last_n",
        split_params={"n": 1},
        full=data,
        train=train,
        test=test,
        n_folds=1,
        counts={"test_users": users},
    )

    def result(name: str) -> ModelResult:
        values = np.where(rng.random((users, 5)) < 0.6, 0.0, rng.random((users, 5)).round(3))
        curves = {family.partition("@")[0]: {k: k / 100 for k in CUTOFFS} for family in METRICS}
        scores = PerUserScores(Units(np.arange(users)), values, METRICS[:5], {"coverage@10": 0.3}, curves)
        item = rng.integers(0, 1000, (users, LISTED), dtype=np.int32)
        lists = TopN(np.arange(users, dtype=np.int32), item, rng.random(item.shape))
        costs = Costs(1.5, 0.2, 0.1, 5.0, 0.5)
        return ModelResult(info, name, "random", {"k": 40}, costs, scores, lists=FoldLists((lists,), (test,)))

    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tracker = MlflowTracker.open(bakeoff, f"sqlite:///{folder}/mlflow.db")
        for model in map(result, names):
            begin = time.perf_counter()
            tracker.start_model(model.data, model.model, model.type)
            tracker.finish_model(model)
            seconds.append(time.perf_counter() - begin)
        os.chdir(HERE.parent)
    return min(seconds[1:])


def call(checkout: Path, folder: str, *command: str) -> str:
    """Return the output of a Python command that uses a checkout."""
    variables = environment(checkout) | {"MLFLOW_DISABLE_TELEMETRY": "true"}
    arguments = [sys.executable, *command]
    return subprocess.run(
        arguments, cwd=folder, env=variables, check=True, text=True, capture_output=True
    ).stdout


def bakeoffs(checkout: Path, models: int) -> dict[str, float]:
    """Return the seconds of a bake-off of so many small models, in an empty folder and with everything cached."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "many.yaml").write_text(CONFIG.replace("SEEDS", str(list(range(1, models)))))
        seconds = {}
        for name in ("fresh", "cached"):
            begin = time.perf_counter()
            call(checkout, folder, "-m", "evalplugin", "run", "many.yaml")
            seconds[name] = time.perf_counter() - begin
    return seconds


def main() -> None:
    """Measure the checkouts in turn and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_against(parser)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--users", type=int, nargs="*", default=USERS)
    parser.add_argument("--log", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.log is not None:
        print(log_run(options.log))
        return
    checkouts = checkouts_of(options)
    best: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(checkouts, math.inf))

    def note(what: str, name: str, seconds: float) -> None:
        best[what][name] = min(best[what][name], seconds)

    for _ in range(options.runs):
        for name, checkout in checkouts.items():
            for users in options.users:
                logged = call(checkout, str(ROOT), str(HERE), "--log", str(users))
                note(f"log a run of {users:,} users", name, float(logged))
            if options.models > 2:
                few, many = (bakeoffs(checkout, models) for models in (2, options.models))
                for state in few:
                    each = (many[state] - few[state]) / (options.models - 2)
                    note(f"each of {options.models} small models, {state}", name, each)
    print("| seconds | " + " | ".join(checkouts) + " |\n|---|" + "--:|" * len(checkouts))
    for what, seconds in best.items():
        print(f"| {what} | " + " | ".join(f"{seconds[name]:.3f}" for name in checkouts) + " |")


if __name__ == "__main__":
    main()
