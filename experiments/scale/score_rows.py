"""Measure scoring up to a billion list rows from Parquet files on this machine, in memory and out of core.

    python experiments/scale/score_rows.py [--rows 1000000000] [--memory 2GB]

Lists of 100 items, in the order of users, as int32 columns in files of ten million rows, and a truth of ten items a
user. A hundredth, a tenth, three tenths and all of the rows are scored out of core; the two smallest in memory too, and
the first with its rows shuffled. Each score runs in a process of its own, which reports its seconds without imports,
and its peak memory, files that are mapped into it included; the table has the median seconds of three, and the most
memory. A billion rows take 4 GB of disk, and no partition is written.
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
from statistics import median
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
CALLS = 3
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
        for part in (100, 10, 10 / 3, 1):
            n = round(choices.rows / part)
            users = n // LENGTH
            write(Path(folder) / str(n), users)
            # A hundredth would fit into the memory.
            ways = [("out of core", "1GB" if part == 100 else choices.memory)]
            if part >= 10:
                ways.append(("in memory", ""))
            if part == 100:
                write(Path(folder) / f"{n} shuffled", users, shuffle=True)
                ways.append(("out of core, shuffled", "1GB"))
            means = []
            for way, memory in ways:
                found = measured(f"{folder}/{n}{' shuffled' * ('shuffled' in way)}", memory)
                means.append(found.pop("means"))
                rows.append({"way": way, "workers": thread_count(), "rows": n, "users": users, **found})
                print(rows[-1], flush=True)
            assert all(one == means[0] and min(one.values()) > 0 for one in means), means
            for file in Path(folder).glob(f"{n}*/*/*"):
                file.unlink()
    table = pd.DataFrame(rows)
    table["rows_per_second"] = (table.rows / table.seconds).astype(int)
    # A hundredth is mostly the start of the process, and is no part of the line.
    scored = table[(table.way == "out of core") & (table.rows > table.rows.min())]
    slope, start = np.polyfit(scored.rows, scored.seconds, 1)
    fitted = start + slope * scored.rows
    print(f"out of core, from {scored.rows.min():,} rows on: {start:.2f} s and {slope * 1e9:.1f} ns a row; "
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
        # Every 17th item from one of the list or beyond it: the first ten have a hit of about every tenth user.
        first_held_out = rng.integers(0, 2 * LENGTH, (len(user), 1))
        held_out = (begin + 7919 * (first_held_out + 17 * np.arange(TRUTH))) % ITEMS
        truth = {"user": np.repeat(user, TRUTH), "item": held_out.astype(np.int32).ravel()}
        for name, table in (("lists", pa.table(lists)), ("truth", pa.table(truth))):
            rows = table.take(pa.array(rng.permutation(len(table)))) if shuffle else table
            file = folder / name / f"part-{number:04d}.parquet"
            size = USERS_PER_GROUP * (LENGTH if name == "lists" else TRUTH)
            parquet.write_table(rows, file, compression="zstd", row_group_size=size)


def measured(folder: str, memory: str) -> dict[str, Any]:
    """Return what processes that score report."""
    command = [sys.executable, __file__, "--score", folder, memory]
    found: list[dict[str, Any]] = [
        json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        for _ in range(CALLS)
    ]
    assert all(one["means"] == found[0]["means"] for one in found)
    return {
        "seconds": median(one["seconds"] for one in found),
        "worker_mb": max(one["worker_mb"] for one in found),
        "means": found[0]["means"],
    }


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
