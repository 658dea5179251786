"""Spark DataFrames scored by evalplugin and by RePlay: ``python experiments/scale/spark.py [--users 100000 1000000]``.

The same lists of 20 and truths of 5, in local sessions with two cores and the same settings; both tables are cached in
Spark's memory before. Each library and size has a process and a session of its own. Starting the session is not
counted; a first call on other, small lists is (``warm_up``), apart. RePlay computes means, by ``OfflineMetrics``, for
which lists and truth are joined once, and by one call for each metric. evalplugin computes means and every user's
values, whose rows are made, and here counted in, when they are read. Seconds are the least of several calls, CPU
seconds those of Python, Java and the workers in that call.

RePlay needs PySpark 3: its environment is made in experiments/benchmarks/.peers at the first run. Writes
results/spark.csv and results/spark.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
PEER = "replay_spark"
PACKAGES = ["replay-rec==0.22.0", "pyspark>=3.5,<4", "pandas<3", "polars", "psutil", "setuptools"]
LENGTH, TRUTH, ITEMS, K = 20, 5, 20_000, 10
CALLS = {"evalplugin": 3, "RePlay": 1, "RePlay, one metric at a time": 1}  # after the warm-up
# Where definitions agree: RePlay's nDCG and MAP, of truths without ratings.
METRICS = {
    "NDCG": "ndcg", "Recall": "recall", "Precision": "precision", "HitRate": "hit", "MRR": "rr",
    "MAP": "ap(denominator=min)",
}  # fmt: skip
SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
}


def main() -> int:
    """Measure, compare and write the tables; return 1 if a value differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--work", nargs=3, metavar=("LIBRARY", "FOLDER", "ANSWER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        library, folder, answer = args.work
        Path(answer).write_text(json.dumps(measured(library, Path(folder))))
        return 0
    return study(args.users)


def study(sizes: list[int]) -> int:
    """Run all measurements, each in a process of its own."""
    import numpy as np
    import pandas as pd

    import evalplugin

    python = peer()
    rows, differs = [], False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "small", 1000, seed=1)
        for users in sizes:
            write(folder / "lists", users, seed=users)
            tables = [pd.read_parquet(folder / "lists" / f"{table}.parquet") for table in ("lists", "truth")]
            expected = evalplugin.score(*tables, metrics=list(names().values()))
            found = {
                lib: run(sys.executable if lib == "evalplugin" else python, lib, folder) for lib in CALLS
            }
            per_user = pd.read_parquet(folder / "lists" / "per_user").set_index("user").sort_index()
            same = found["evalplugin"]["means"] == expected.means and np.array_equal(
                per_user.to_numpy(), expected.per_user.to_numpy(), equal_nan=True
            )
            gap = max(
                abs(one["means"][f"{theirs}@{K}"] - expected.means[name])
                for library, one in found.items()
                for theirs, name in names().items()
                if library != "evalplugin"
            )
            differs |= not same or gap > 1e-12
            for library, one in found.items():
                rows.append(
                    {
                        "library": library,
                        "users": users,
                        "rows": users * LENGTH,
                        "metrics": len(METRICS),
                        "seconds": round(one["seconds"], 2),
                        "cpu_seconds": round(one["cpu"], 1),
                        "warm_up": round(one["warm_up"], 1),
                        "identical": ("yes" if same else "no")
                        if library == "evalplugin"
                        else f"to {gap:.0e}",
                    }
                )
                print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    RESULTS.mkdir(exist_ok=True)
    table.to_csv(RESULTS / "spark.csv", index=False)
    (RESULTS / "spark.md").write_text(markdown(table))
    return int(differs)


def markdown(table: Any) -> str:
    """Return the table as Markdown, with times as multiples of ours."""
    ours = table[table.library == "evalplugin"].set_index("users")
    lines = [
        "<!-- python experiments/scale/spark.py -->",
        "| library | users | list rows | metrics | seconds | times evalplugin's | CPU seconds | times evalplugin's "
        "| warm-up, s | equal to memory |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in table.itertuples():
        by_time = row.seconds / ours.seconds[row.users]
        by_cpu = row.cpu_seconds / ours.cpu_seconds[row.users]
        lines.append(
            f"| {row.library} | {row.users:,} | {row.rows:,} | {row.metrics} | {row.seconds} | {by_time:.1f} | "
            f"{row.cpu_seconds} | {by_cpu:.1f} | {row.warm_up} | {row.identical} |"
        )
    return "\n".join(lines) + "\n"


def names() -> dict[str, str]:
    """Return RePlay's names of metrics with ours."""
    return {theirs: f"{ours}@{K}" for theirs, ours in METRICS.items()}


def peer() -> Path:
    """Return the interpreter of RePlay's environment, which is made if it is missing."""
    sys.path.insert(0, str(HERE.parent / "benchmarks"))
    import environments

    environments.PEERS[PEER] = PACKAGES
    if problem := environments.make(PEER):
        raise SystemExit(f"{PEER}: {problem}")
    return Path(environments.python_of(PEER))


def write(folder: Path, users: int, *, seed: int) -> None:
    """Write lists with scores that differ within a user, and truths, in shuffled rows."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    for name, length in (("lists", LENGTH), ("truth", TRUTH)):
        # Popular items more often: hits are as frequent as in real lists. Equal ones in a row are left out.
        item = np.sort((ITEMS * rng.random((users, length)) ** 4).astype(np.int64), axis=1)
        kept = np.append(np.full((users, 1), True), item[:, 1:] != item[:, :-1], axis=1)
        score = np.argsort(rng.random((users, length)), axis=1).astype(np.float64)
        user = np.repeat(np.arange(users), length).reshape(users, length)
        frame = pd.DataFrame({"user": user[kept], "item": item[kept], "score": score[kept]})
        frame = frame.sample(frac=1, random_state=seed) if name == "lists" else frame.drop(columns="score")
        frame.to_parquet(folder / f"{name}.parquet", index=False)


def run(python: Path | str, library: str, folder: Path) -> dict[str, Any]:
    """Return what a library's process measured."""
    answer = folder / "answer.json"
    command = [str(python), __file__, "--work", library, str(folder), str(answer)]
    environment = {**os.environ, "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(command, check=False, env=environment, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{library} failed:\n{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(answer.read_text())
    return found


def measured(library: str, folder: Path) -> dict[str, Any]:
    """Return means, seconds of the warm-up, and seconds and CPU seconds of the best call."""
    import warnings

    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")
    builder = SparkSession.builder.master("local[2]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    score = {
        "evalplugin": evalplugin_scores,
        "RePlay": replay_scores,
        "RePlay, one metric at a time": replay_scores_one_by_one,
    }[library]

    def tables(name: str) -> list[Any]:
        found = [
            session.read.parquet(str(folder / name / f"{t}.parquet")).cache() for t in ("lists", "truth")
        ]
        for table in found:
            table.count()
        return found

    small, given, best = tables("small"), tables("lists"), (float("inf"), 0.0)
    warm_up = timed(lambda: score(*small))[1]
    for _ in range(CALLS[library]):
        before = cpu_seconds()
        found, seconds = timed(lambda: score(*given))
        best = min(best, (seconds, cpu_seconds() - before))
        if library == "evalplugin":
            found.unpersist()  # the next call would find its rows in Spark's cache
    means = found.means if library == "evalplugin" else found
    if library == "evalplugin":
        found.per_user.write.mode("overwrite").parquet(str(folder / "lists" / "per_user"))
    session.stop()
    return {"means": means, "warm_up": warm_up, "seconds": best[0], "cpu": best[1]}


def evalplugin_scores(lists: Any, truth: Any) -> Any:
    """Return the scores by evalplugin, after the values of all users have been read."""
    import evalplugin

    scores = evalplugin.score(lists, truth, list(names().values()))
    scores.per_user.write.format("noop").mode("overwrite").save()
    return scores


REPLAY_COLUMNS = {"query_column": "user", "item_column": "item", "rating_column": "score"}


def replay_scores(lists: Any, truth: Any) -> Any:
    """Return the means by RePlay, all metrics of the lists joined once, as its documentation advises."""
    from replay import metrics

    every = metrics.OfflineMetrics([getattr(metrics, name)(K) for name in METRICS], **REPLAY_COLUMNS)
    return {name: float(value) for name, value in every(lists, truth).items()}


def replay_scores_one_by_one(lists: Any, truth: Any) -> Any:
    """Return the means by RePlay, each metric called alone."""
    from replay import metrics

    found = {}
    for name in METRICS:
        found |= getattr(metrics, name)(K, **REPLAY_COLUMNS)(lists, truth)
    return {name: float(value) for name, value in found.items()}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what ``work`` returns, and its seconds."""
    start = time.perf_counter()
    value = work()
    return value, time.perf_counter() - start


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its descendants: Java, and Spark's Python workers."""
    import psutil

    this = psutil.Process()
    total = 0.0
    for process in [this, *this.children(recursive=True)]:
        try:
            used = process.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total


if __name__ == "__main__":
    sys.exit(main())
