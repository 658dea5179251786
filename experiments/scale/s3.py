"""Measure scoring lists in an S3 server, against the same lists in local files.

    python experiments/scale/s3.py [--rows 100000000]

Lists of ten items and truth are Parquet files of a million list rows each. The server is moto's, in a process of its
own on this machine: it keeps objects in memory and is written in Python, so what it takes is part of the seconds.
Each score runs in a process of its own, which reports its seconds without imports, and its peak memory. In memory:
a tenth of the rows; in partitions, within 2 GB: a tenth, and all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

import evalplugin
from evalplugin.files.outputs import open_output
from evalplugin.models.threads import thread_count

RESULTS = Path(__file__).resolve().parent / "results"
METRICS = ["ndcg@10", "recall@10", "hit@1"]
LENGTH, ITEMS = 10, 100_003
USERS_PER_FILE = 100_000
MEMORY = "2GB"
_SERVER = """
import sys, logging
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").disabled = True
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--score", nargs=3, help=argparse.SUPPRESS)
    choices = parser.parse_args()
    if choices.score:
        score(*choices.score)
        return
    rows = []
    with tempfile.TemporaryDirectory(prefix="evalplugin-s3-") as folder, s3_server():
        for n in sorted({max(choices.rows // 10, 10 * USERS_PER_FILE), choices.rows}):
            write(folder, n)
            write("s3://lists", n)
            for way in (
                ("in memory", "in partitions") if n < choices.rows or n <= 10**7 else ("in partitions",)
            ):
                local, remote = measured(folder, n, way), measured("s3://lists", n, way)
                same = "yes" if local.pop("digest") == remote.pop("digest") else "no"
                for source, found in (("local Parquet", local), ("S3", remote)):
                    rows.append({"source": source, "way": way, "workers": thread_count(), "rows": n,
                                 "users": n // LENGTH, **found, "identical": same})  # fmt: skip
                    print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "s3.md").write_text(table.to_markdown(index=False) + "\n")
    table[table.source == "S3"].drop(columns="source").to_csv(RESULTS / "s3.csv", index=False)


@contextmanager
def s3_server() -> Iterator[None]:
    """Run the server with a bucket, and lead the environment to it."""
    import boto3

    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        os.environ |= {
            "AWS_ACCESS_KEY_ID": "study", "AWS_SECRET_ACCESS_KEY": "study", "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": url,
        }  # fmt: skip
        boto3.client("s3").create_bucket(Bucket="lists")
        yield
    finally:
        server.kill()
        server.wait()


def write(folder: str, rows: int) -> None:
    """Write lists and truth of as many list rows, in files of a million."""
    for number, first in enumerate(range(0, rows // LENGTH, USERS_PER_FILE)):
        users = np.arange(first, min(first + USERS_PER_FILE, rows // LENGTH))
        begin = np.random.default_rng(number).integers(0, ITEMS, len(users))[:, None]
        items = (begin + 7919 * np.arange(LENGTH)) % ITEMS
        lists = {
            "user": np.repeat(users, LENGTH),
            "item": items.ravel(),
            "rank": np.tile(np.arange(1, LENGTH + 1), len(users)),
        }
        hits = np.stack([items[:, 1], items[:, 6], (begin[:, 0] + 5) % ITEMS], axis=1)
        truth = {"user": np.repeat(users, 3), "item": hits.ravel()}
        for name, table in (("lists", lists), ("truth", truth)):
            uri = f"{folder}/{rows}/{name}/part-{number:04d}.parquet"
            if "://" not in uri:
                Path(uri).parent.mkdir(parents=True, exist_ok=True)
            with open_output(uri) as file:
                parquet.write_table(pa.table(table), file, compression="zstd", row_group_size=250_000)


def measured(folder: str, rows: int, way: str) -> dict[str, Any]:
    """Return what a process that scores reports."""
    command = [sys.executable, __file__, "--score", folder, str(rows), way]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def score(folder: str, rows: str, way: str) -> None:
    """Score once, and print seconds, peak memory and means."""
    memory = MEMORY if way == "in partitions" else None
    small = pa.table({"user": [1], "item": [1], "rank": [1]})
    evalplugin.score(small, small, METRICS)  # imports
    start = time.perf_counter()
    scores = evalplugin.score(f"{folder}/{rows}/lists", f"{folder}/{rows}/truth", METRICS, memory=memory)
    seconds = time.perf_counter() - start
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    values = hashlib.sha256(repr(scores.means).encode())
    for column in (scores.per_user.index, *scores.per_user.to_numpy().T):
        values.update(np.ascontiguousarray(column).tobytes())
    print(json.dumps({"seconds": round(seconds, 2), "worker_mb": peak // 1024, "digest": values.hexdigest()}))


if __name__ == "__main__":
    main()
