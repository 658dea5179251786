"""Time and memory of scoring top-100 lists, against other libraries on the same input, in one run.

``python metrics.py [--sizes 10000 100000 1000000] [--peers NAME ...] [--out-of-core ROWS]`` writes metrics.csv,
metrics.md and metrics.png to its own folder; ``shapes.py`` times lists of other shapes. ``environments.py`` makes the
peers' environments first; a missing one is left out with a note. Every measurement runs in a process of its own
(``peers.py``).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from environments import HOME, python_of
from sql_work import METRICS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LENGTH, ITEMS, TRUTH = 100, 50_000, 10
KINDS = ("integers", "text")
# Name: environment, and the most users, beyond which it would take minutes.
PEERS: dict[str, tuple[str, int]] = {
    "evalplugin": ("", 10**9),
    "prototype": ("", 10**9),  # one compiled pass on one core, for tables in order
    "ranx typed": ("ranx", 1_000_000),
    "RecTools": ("rectools", 100_000),
    "pytrec_eval": ("pytrec_eval", 100_000),
    "RePlay": ("replay", 100_000),
    "ranx frames": ("ranx", 10_000),
    "recommenders": ("recommenders", 10_000),
    "LensKit": ("lenskit", 10_000),
    "MLflow retriever": ("mlflow", 10_000),
}
TEXT_TOO = ("evalplugin", "RecTools")  # timed on text ids as well


@dataclass
class Result:
    """One library on one input."""

    library: str
    ids: str
    users: int
    imports: float = float("nan")  # seconds
    cold: float = float("nan")
    warm: float = float("nan")
    peak_mb: float = float("nan")  # above the loaded input
    means: dict[str, float] = field(default_factory=dict)
    note: str = ""


def make_input(users: int, folder: Path, ids: str) -> None:
    """Write lists and truth: 100 different items a list, about 10 truth items rated 1 to 5, a third of them listed."""
    rng = np.random.default_rng(0)
    first, step = rng.integers(0, ITEMS, users), rng.integers(1, ITEMS // LENGTH, users)
    item = (first[:, None] + step[:, None] * np.arange(LENGTH)) % ITEMS
    listed = np.take_along_axis(item, rng.integers(0, LENGTH, (users, TRUTH)), axis=1)
    chosen = np.where(rng.random((users, TRUTH)) < 1 / 3, listed, rng.integers(0, ITEMS, (users, TRUTH)))
    user = np.arange(users)
    lists = pd.DataFrame(
        {
            "user": np.repeat(user, LENGTH),
            "item": item.ravel(),
            "rank": np.tile(np.arange(1, LENGTH + 1), users),
        }
    )
    truth = pd.DataFrame({"user": np.repeat(user, TRUTH), "item": chosen.ravel()})
    truth = truth.drop_duplicates(ignore_index=True)
    truth["rating"] = rng.integers(1, 6, len(truth))
    for name, frame in (("lists", lists), ("truth", truth)):
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if ids == "text":
            for position, column in enumerate(("user", "item")):
                texts = pa.array(np.char.mod(f"{column}-%d", frame[column].to_numpy()), pa.large_string())
                table = table.set_column(position, column, texts)
        pq.write_table(table, folder / f"{name}.parquet", compression="none")


def measure(library: str, users: int, ids: str, folder: Path, seconds: float, limit: float) -> Result:
    """Return the costs of a library, or the reason why it was left out."""
    environment, most = PEERS[library]
    result = Result(library, ids, users)
    python = Path(sys.executable) if not environment else python_of(environment)
    if not python.exists():
        result.note = f"no environment {HOME / environment}"
    elif users > most:
        result.note = f"more than {most:,} users"
    if result.note:
        return result
    command = [str(python), str(HERE / "peers.py"), library, str(folder), str(seconds)]
    path = {"PYTHONPATH": str(ROOT)} if not environment else {}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=True, env={**os.environ, **path}
        )
        for name, value in json.loads(done.stdout.splitlines()[-1]).items():
            if name != "runs":
                setattr(result, name, value)
    except subprocess.TimeoutExpired:
        result.note = f"stopped after {limit:.0f} s"
    except subprocess.CalledProcessError as error:
        result.note = (error.stderr.strip().splitlines() or [f"ended with code {error.returncode}"])[-1][:120]
    return result


def agreement(result: Result, ours: Result) -> str:
    """Return a text about the means that agree with ours and those with another definition."""
    same = [name for name, mean in result.means.items() if abs(mean - ours.means[name]) < 1e-6]
    other = [name for name in result.means if name not in same]
    return f"{len(same)} of {len(result.means)} means agree" + (
        f"; other definition: {', '.join(other)}" if other else ""
    )


def make_large(rows: int, folder: Path) -> None:
    """Write a shuffled list file, of which no user's rows are adjacent, and a truth of which a third is listed."""
    rng = np.random.default_rng(1)
    users = rows // LENGTH
    schema = pa.schema([("user", pa.int64()), ("item", pa.int64()), ("rank", pa.int64())])
    with pq.ParquetWriter(folder / "lists.parquet", schema, compression="snappy") as writer:
        for piece in range(LENGTH):  # with one row of every user
            user = rng.permutation(users)
            table = pa.table(
                [user, (user * 7919 + piece * 401) % ITEMS, (piece * 37 + user * 11) % LENGTH + 1], schema
            )
            writer.write_table(table, row_group_size=2**20)
    user = rng.permutation(np.repeat(np.arange(users), TRUTH))
    listed = (user * 7919 + rng.integers(0, LENGTH, len(user)) * 401) % ITEMS
    item = np.where(rng.random(len(user)) < 1 / 3, listed, rng.integers(0, ITEMS, len(user)))
    truth = pd.DataFrame({"user": user, "item": item}).drop_duplicates(ignore_index=True)
    truth["rating"] = rng.integers(1, 6, len(truth))
    truth.to_parquet(folder / "truth.parquet", index=False)


@dataclass
class Large:
    """Scoring of a file that is larger than the memory, in one of several ways."""

    way: str
    seconds: list[float] = field(default_factory=list)  # of the whole process, imports included
    peak_mb: float = 0.0
    means: dict[str, float] = field(default_factory=dict)


def out_of_core(rows: int, memory: str, repeats: int) -> dict[str, Any]:
    """Return the costs of the command on a shuffled list file that is larger than its memory, and those of SQL.

    All ways are measured in turn. SQL is left out where DuckDB has no environment.
    """
    threads = len(os.sched_getaffinity(0))
    score = [
        sys.executable,
        "-m",
        "evalplugin",
        "score",
        "--lists",
        "lists.parquet",
        "--truth",
        "truth.parquet",
    ]
    score += [part for name in METRICS for part in ("-m", name)]
    score += ["--memory", memory, "--out", "per_user.parquet", "--format", "json"]
    commands = {"evalplugin": score}
    if (python := python_of("duckdb")).exists():
        sql = [str(python), str(HERE / "sql_work.py"), ".", memory, str(threads)]
        commands |= {"DuckDB, without checks": sql, "DuckDB, with checks": [*sql, "--checks"]}
    # A forked process counts its parent's memory until exec, so a small process starts and measures the command.
    small = (
        "import os, resource, subprocess, sys; r = subprocess.run(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024); sys.exit(r.returncode)"
    )
    ways = [Large(way) for way in commands]
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        # In a process of its own, whose memory is freed.
        subprocess.run([sys.executable, __file__, "--make-large", str(rows), name], check=True)
        for _ in range(repeats):
            for way in ways:
                start = time.perf_counter()
                done = subprocess.run(
                    [sys.executable, "-S", "-c", small, *commands[way.way]], cwd=folder, stdout=subprocess.PIPE,
                    text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
                )  # fmt: skip
                way.seconds.append(time.perf_counter() - start)
                text, _, peak = done.stdout.rstrip().rpartition("\n")
                way.peak_mb = max(way.peak_mb, float(peak))
                found = json.loads(text)
                way.means = {m: v["mean"] if isinstance(v, dict) else v for m, v in found.items()}
                print(f"{way.way}: {way.seconds[-1]:.1f} s", flush=True)
        per_user = pq.read_metadata(folder / "per_user.parquet").num_rows
        size = (folder / "lists.parquet").stat().st_size
    for way in ways[1:]:
        assert all(abs(way.means[m] - ways[0].means[m]) < 1e-6 for m in METRICS), (ways[0].means, way.means)
    return {"rows": rows, "users": per_user, "file_mb": size / 2**20, "memory": memory, "ways": ways}


def large_table(ways: list[Large]) -> list[str]:
    """Return the table of a file that is larger than the memory; times are the median of those of each turn."""
    lines = ["| | seconds | memory | times |", "|---|--:|--:|--:|"]
    for way in ways:
        times = median(a / b for a, b in zip(way.seconds, ways[0].seconds, strict=True))
        lines.append(f"| {way.way} | {median(way.seconds):.1f} s | {way.peak_mb:,.0f} MB | {times:.2f} |")
    return lines


def markdown(results: list[Result], large: dict[str, Any] | None) -> str:
    """Return the tables of all inputs in Markdown."""
    lines = [
        "# Scoring top-100 lists: time and memory",
        "",
        "Two pandas DataFrames (lists: user, item, rank; truth: user, item, rating) to every user's values and the "
        "means of ndcg@10, recall@10, precision@10, ap@100, rr and hit@10; 50,000 items, about 10 truth items a user. "
        f"All in one run on {os.cpu_count()} processors, each in its own process; warm is the best of several calls, "
        "cold the first one after the imports; memory is the peak above the loaded input; times is warm against "
        "evalplugin's.",
    ]
    for ids in KINDS:
        for users in sorted({r.users for r in results if r.ids == ids}):
            group = [r for r in results if (r.ids, r.users) == (ids, users)]
            ours = next(r for r in group if r.library == "evalplugin")
            lines += ["", f"## {users:,} users, ids are {ids}", ""]
            lines += [
                "| library | warm | cold | imports | memory | times | |",
                "|---|--:|--:|--:|--:|--:|---|",
            ]
            for r in group:
                if np.isnan(r.warm):
                    continue
                remark = "" if r is ours else agreement(r, ours)
                if r.library in ("recommenders", "LensKit", "MLflow retriever"):
                    remark += f"; only {len(r.means)} of the 6 metrics are there" if len(r.means) < 6 else ""
                lines.append(
                    f"| {r.library} | {r.warm:.3g} s | {r.cold:.3g} s | {r.imports:.2g} s | {r.peak_mb:,.0f} MB "
                    f"| {r.warm / ours.warm:.1f} | {remark} |"
                )
            if missing := [f"{r.library} ({r.note})" for r in group if np.isnan(r.warm)]:
                lines += ["", f"Left out: {', '.join(missing)}."]
    lines += [
        "",
        "Means that do not agree have another definition: nDCG of RecTools, RePlay and MLflow takes every item as "
        "worth 1 (and RecTools divides by that of a list full of hits); that of LensKit does not discount the second "
        "rank. All others agree to six digits.",
    ]
    if large is not None:
        lines += [
            "",
            "## Larger than memory",
            "",
            f"The six metrics of a shuffled Parquet file of {large['rows']:,} rows ({large['file_mb']:,.0f} MB on "
            f"disk, {large['users']:,} users) within {large['memory']}, whole processes: `python -m evalplugin score`, "
            "and DuckDB's SQL (`sql_work.py`) on as many threads, with and without the checks that evalplugin makes: "
            "ranks are 1, 2, 3 and so on, and no list or truth has an item twice. All in turn; seconds are the median, "
            "memory is the highest peak, times is against evalplugin's. Means agree to six digits.",
            "",
            *large_table(large["ways"]),
        ]
    return "\n".join(lines) + "\n"


def picture(results: list[Result], path: Path) -> None:
    """Draw warm seconds over users."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    for library in PEERS:
        on_integers = [r for r in results if r.library == library and r.ids == "integers"]
        points = [(r.users, r.warm) for r in on_integers if not np.isnan(r.warm)]
        if not points:
            continue
        width, colour = (3, "#1F6F50") if library == "evalplugin" else (1.3, None)
        axes.plot(*zip(*points, strict=True), marker="o", linewidth=width, color=colour, label=library)
    axes.set(xscale="log", yscale="log", xlabel="users, 100 items each", ylabel="seconds, warm")
    axes.set_title("Two DataFrames to per-user values and means of six metrics", loc="left", fontsize=11)
    axes.grid(color="#E4E4E4", which="major")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path)


def runs(sizes: list[int], peers: list[str], seconds: float, limit: float) -> Iterator[Result]:
    """Yield every measurement: all libraries on one input, then the next input."""
    for ids in KINDS:
        for users in sizes:
            chosen = [p for p in peers if ids == "integers" or (p in TEXT_TOO and users == 100_000)]
            if not chosen:
                continue
            with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
                # In a process of its own, whose memory is freed.
                subprocess.run([sys.executable, __file__, "--make", str(users), folder, ids], check=True)
                for library in chosen:
                    yield measure(library, users, ids, Path(folder), seconds, limit)


def main() -> None:
    """Measure, and write table, text and picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--seconds", type=float, default=4, help="how long warm calls are repeated")
    parser.add_argument("--limit", type=float, default=240, help="seconds after which a library is stopped")
    parser.add_argument(
        "--out-of-core", type=int, default=100_000_000, metavar="ROWS", help="0: leave it out"
    )
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--repeats", type=int, default=3, help="how often each way out of core is measured")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--make-large", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--to", type=Path, default=HERE)
    args = parser.parse_args()
    if args.make:
        make_input(int(args.make[0]), Path(args.make[1]), args.make[2])
        return
    if args.make_large:
        make_large(int(args.make_large[0]), Path(args.make_large[1]))
        return
    results = []
    for result in runs(args.sizes, args.peers, args.seconds, args.limit):
        results.append(result)
        print(
            f"{result.library}, {result.users:,} users, {result.ids}: {result.warm:.3g} s {result.note}",
            flush=True,
        )
    large = out_of_core(args.out_of_core, args.memory, args.repeats) if args.out_of_core else None
    with (args.to / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [f for f in asdict(results[0]) if f != "means"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: v for k, v in asdict(r).items() if k != "means"} for r in results)
    (args.to / "metrics.md").write_text(markdown(results, large))
    picture(results, args.to / "metrics.png")


if __name__ == "__main__":
    main()
