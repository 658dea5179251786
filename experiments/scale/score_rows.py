"""Measure scoring up to a billion list rows from Parquet files on this machine, in memory and out of core.

    python experiments/scale/score_rows.py [--rows 1000000000] [--memory 2GB]

Lists of 100 items, in the order of users, as int32 columns in files of ten million rows, and a truth of ten items a
user. A hundredth, a tenth and all of the rows are scored out of core; the two smaller ones in memory too, and the first
with its rows shuffled. Each score runs in a process of its own, which reports its seconds without imports, and its peak
memory, files that are mapped into it included. A billion rows take 4 GB of disk, and no partition is written.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

import evalplugin
from evalplugin.models.threads import thread_count

RESULTS = Path(__file__).resolve().parent / "results"
METRICS = ["ndcg@10", "recall@10", "hit@1"]
LENGTH, ITEMS, TRUTH = 100, 100_003, 10
USERS_PER_FILE, USERS_PER_GROUP = 100_000, 10_000


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--score", nargs=2, help=argparse.SUPPRESS)
    choices = parser.parse_args()
    if choices.score:
        score(*choices.score)
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="evalplugin-rows-") as folder:
        for n in (choices.rows // 100, choices.rows // 10, choices.rows):
            users = n // LENGTH
            write(Path(folder) / str(n), users)
            # A hundredth would fit into the memory.
            ways = [("out of core", "1GB" if n < choices.rows // 10 else choices.memory), ("in memory", "")]
            if n == choices.rows // 100:
                write(Path(folder) / f"{n} shuffled", users, shuffle=True)
                ways.append(("out of core, shuffled", "1GB"))
            means = []
            for way, memory in ways[: 1 if n == choices.rows else 3]:
                found = measured(f"{folder}/{n}{' shuffled' * ('shuffled' in way)}", memory)
                means.append(found.pop("means"))
                rows.append({"way": way, "workers": thread_count(), "rows": n, "users": users, **found})
                print(rows[-1], flush=True)
            assert all(one == means[0] for one in means), means
            for file in Path(folder).glob(f"{n}*/*/*"):
                file.unlink()
    table = pd.DataFrame(rows)
    table["rows_per_second"] = (table.rows / table.seconds).astype(int)
    scored = table[table.way == "out of core"]
    slope, start = np.polyfit(scored.rows, scored.seconds, 1)
    fitted = start + slope * scored.rows
    print(f"out of core: {start:.2f} s and {slope * 1e9:.1f} ns a row; "
          f"off by at most {(np.abs(fitted / scored.seconds - 1)).max():.0%}")  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "score_rows.md").write_text(table.to_markdown(index=False) + "\n")
    table.drop(columns="rows_per_second").to_csv(RESULTS / "score_rows.csv", index=False)


def write(folder: Path, n_users: int, *, shuffle: bool = False) -> None:
    """Write lists and truth of as many users."""
    for name in ("lists", "truth"):
        (folder / name).mkdir(parents=True)
    for number, first in enumerate(range(0, n_users, USERS_PER_FILE)):
        user = np.arange(first, min(first + USERS_PER_FILE, n_users), dtype=np.int32)
        rng = np.random.default_rng(number)
        begin = rng.integers(0, ITEMS, len(user), dtype=np.int32)[:, None]
        items = begin + np.int32(7919) * np.arange(LENGTH, dtype=np.int32)
        items %= np.int32(ITEMS)
        lists = {
            "user": np.repeat(user, LENGTH),
            "item": items.ravel(),
            "rank": np.tile(np.arange(1, LENGTH + 1, dtype=np.int32), len(user)),
        }
        held_out = (begin + 7919 * rng.integers(0, 2 * LENGTH, 1) + 7919 * 17 * np.arange(TRUTH)) % ITEMS
        truth = {"user": np.repeat(user, TRUTH), "item": held_out.astype(np.int32).ravel()}
        for name, table in (("lists", pa.table(lists)), ("truth", pa.table(truth))):
            rows = table.take(pa.array(rng.permutation(len(table)))) if shuffle else table
            file = folder / name / f"part-{number:04d}.parquet"
            size = USERS_PER_GROUP * (LENGTH if name == "lists" else TRUTH)
            parquet.write_table(rows, file, compression="zstd", row_group_size=size)


def measured(folder: str, memory: str) -> dict[str, Any]:
    """Return what a process that scores reports."""
    command = [sys.executable, __file__, "--score", folder, memory]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def score(folder: str, memory: str) -> None:
    """Score once, and print seconds, peak memory and means."""
    small = pa.table({"user": [1], "item": [1], "rank": [1]})
    evalplugin.score(small, small, METRICS)  # imports
    start = time.perf_counter()
    scores = evalplugin.score(f"{folder}/lists", f"{folder}/truth", METRICS, memory=memory or None)
    means = scores.means
    seconds = time.perf_counter() - start
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({"seconds": round(seconds, 2), "worker_mb": peak // 1024, "means": means}))


if __name__ == "__main__":
    main()
