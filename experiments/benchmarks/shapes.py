"""Scoring of lists of other shapes than the usual one: nanoseconds a row, and times those of even lists in order.

``python shapes.py [--rows 2000000] [--only NAME ...]`` writes shapes.csv and shapes.md to its own folder. All
shapes have about the same number of rows and are timed in one process, each as the best of several calls after a first
one, which may compile; files are scored in processes of their own, on one core and on all. Processors are those that a
call keeps busy on average: its CPU time by its time.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from evalplugin.api import score  # noqa: E402 - from this checkout
from evalplugin.metrics import METRICS, MetricSpec, parse  # noqa: E402

LENGTH, ITEMS, TRUTH = 100, 50_000, 10
SIX = ("ndcg@10", "recall@10", "precision@10", "ap@100", "rr", "hit@10")
Frames = tuple[pd.DataFrame, pd.DataFrame]


@dataclass
class Row:
    """Time of one shape."""

    group: str
    name: str
    rows: int
    seconds: float
    processors: float  # busy on average
    peak_mb: float = float("nan")  # allocated during a call
    times: float = float("nan")  # the time of a row against that of even lists in order

    @property
    def nanoseconds(self) -> float:
        """Time of a row."""
        return self.seconds / self.rows * 1e9


def frames(lengths: np.ndarray, rng: np.random.Generator) -> Frames:
    """Return lists of these lengths in order of user and rank, and ten truth items a user, a third of them listed."""
    users, rows = len(lengths), int(lengths.sum())
    user = np.repeat(np.arange(users), lengths)
    position = np.arange(rows) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    catalogue = max(ITEMS, 2 * int(lengths.max()))
    first, step = rng.integers(0, catalogue, users), 2 * rng.integers(0, catalogue // 2, users) + 1
    catalogue = 1 << (catalogue - 1).bit_length()  # an odd step repeats no item
    item = (first[user] + step[user] * position) % catalogue
    lists = pd.DataFrame({"user": user, "item": item, "rank": position + 1})
    at = (rng.random((users, TRUTH)) * lengths[:, None]).astype(np.int64)
    listed = (first[:, None] + step[:, None] * at) % catalogue
    chosen = np.where(rng.random((users, TRUTH)) < 1 / 3, listed, rng.integers(0, catalogue, (users, TRUTH)))
    truth = pd.DataFrame({"user": np.repeat(np.arange(users), TRUTH), "item": chosen.ravel()})
    truth = truth.drop_duplicates(ignore_index=True)
    return lists, truth.assign(rating=rng.integers(1, 6, len(truth)))


def as_text(both: Frames, kind: str, text_of: Callable[[str, int], str] = "{}-{}".format) -> Frames:
    """Return users and items as text, of a dtype: str, object or category."""

    def texts(column: pd.Series) -> pd.Series:
        codes, values = pd.factorize(column)
        texts = [text_of(str(column.name), value) for value in values]
        return pd.Series(pd.Categorical.from_codes(codes, texts), name=column.name).astype(kind)

    return tuple(frame.assign(**{name: texts(frame[name]) for name in ("user", "item")}) for frame in both)  # type: ignore[return-value]


def uuid_text(name: str, value: int) -> str:
    """Return the text of a UUID that stands for an id."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name}-{value}"))


def as_integers(both: Frames, id_of: Callable[[pd.Series], pd.Series]) -> Frames:
    """Return users and items as other integers."""
    return tuple(frame.assign(user=id_of(frame["user"]), item=id_of(frame["item"])) for frame in both)  # type: ignore[return-value]


def hashed(ids: pd.Series) -> pd.Series:
    """Return 63-bit hashes of ids."""
    return (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(1)).astype(np.int64)


def as_arrow_dictionaries(both: Frames) -> tuple[pa.Table, ...]:
    """Return Arrow tables with users and items as dictionaries."""
    return tuple(pa.Table.from_pandas(frame, preserve_index=False) for frame in as_text(both, "category"))


def as_polars_categories(both: Frames) -> tuple[Any, ...]:
    """Return frames of polars with users and items as its categories."""
    import polars as pl

    return tuple(
        pl.DataFrame({name: frame[name].to_numpy() for name in frame}).with_columns(
            pl.format("{}-{}", pl.lit(name), pl.col(name)).cast(pl.Categorical).alias(name)
            for name in ("user", "item")
        )
        for frame in both
    )


def with_scores(both: Frames, score_of: Callable[[pd.Series], np.ndarray]) -> Frames:
    """Return lists that have scores in place of ranks."""
    lists, truth = both
    return lists.assign(score=score_of(lists["rank"])).drop(columns="rank"), truth


def shuffled(both: Frames, rng: np.random.Generator) -> Frames:
    """Return the rows of the lists in random order."""
    return both[0].iloc[rng.permutation(len(both[0]))].reset_index(drop=True), both[1]


def reversed_lists(both: Frames) -> Frames:
    """Return each list with its last row first."""
    return both[0].sort_values(["user", "rank"], ascending=[True, False], ignore_index=True), both[1]


def rank_major(both: Frames) -> Frames:
    """Return the rows of the lists by rank and then by user."""
    return both[0].sort_values(["rank", "user"], ignore_index=True), both[1]


def shapes(rows: int) -> Iterator[tuple[str, str, tuple[Any, Any], tuple[str, ...]]]:
    """Yield group, name, tables and metrics of every shape; the first is what the others are compared with."""
    rng = np.random.default_rng(0)
    even = frames(np.full(rows // LENGTH, LENGTH), rng)
    yield "lengths", "even: 100 items each, in order", even, SIX
    short = frames(np.full(rows // 2, 10), rng)
    yield "lengths", "even: 10 items each, 1M users", short, SIX
    yield "lengths", "even: 2 items each, 2M users", frames(np.full(rows, 2), rng), SIX
    blocks = max(1, rows // (20_000 + 199 * 10))
    yield "lengths", "one user in 200 has 20,000, the others 10", frames(
        np.tile(np.r_[np.full(199, 10), 20_000], blocks), rng
    ), SIX  # fmt: skip
    drawn = np.exp(rng.normal(3, 1.2, rows // 20)).astype(np.int64) + 1
    yield "lengths", "log-normal", frames(drawn[np.cumsum(drawn) <= rows], rng), SIX
    drawn = np.minimum(5 * (1 + rng.pareto(1.2, rows // 5)), 20_000).astype(np.int64)
    yield "lengths", "Pareto", frames(drawn[np.cumsum(drawn) <= rows], rng), SIX
    long = frames(np.r_[np.full(10_000, 10), 20_000, np.full(10_000, 10)], rng)
    yield "lengths", "one of 20,000 among 20,000 of 10, coverage@10", long, ("coverage@10",)
    yield "order of rows", "shuffled", shuffled(even, rng), SIX
    yield "order of rows", "by rank, then user", rank_major(even), SIX
    yield "order of rows", "ranks descending", reversed_lists(even), SIX
    yield "ids", "text", as_text(even, "str"), SIX
    yield "ids", "text, shuffled", shuffled(as_text(even, "str"), rng), SIX
    yield "ids", "text, by rank", rank_major(as_text(even, "str")), SIX
    yield "ids", "UUIDs", as_text(even, "str", uuid_text), SIX
    yield "ids", "text as objects", as_text(even, "object"), SIX
    yield "ids", "text as objects, shuffled", shuffled(as_text(even, "object"), rng), SIX
    yield "ids", "integers as objects", as_integers(even, lambda ids: ids.astype(object)), SIX
    yield "ids", "categories", as_text(even, "category"), SIX
    yield "ids", "categories, shuffled", shuffled(as_text(even, "category"), rng), SIX
    yield "ids", "Arrow dictionaries", as_arrow_dictionaries(even), SIX
    if importlib.util.find_spec("polars"):
        yield "ids", "polars categories", as_polars_categories(even), SIX
    far_apart = tuple(f.assign(user=f["user"] * 10**12 + 7, item=f["item"] * 10**11 + 3) for f in even)
    yield "ids", "64-bit integers far apart", far_apart, SIX
    yield "ids", "hashed integers", as_integers(even, hashed), SIX
    yield "ids", "half of the integers huge", as_integers(
        even, lambda ids: ids.where(ids % 2 == 0, ids + 10**15)
    ), SIX  # fmt: skip
    yield "scores", "descending", with_scores(even, lambda rank: 1.0 / rank.to_numpy()), SIX
    yield "scores", "ascending", with_scores(even, lambda rank: rank.to_numpy().astype(np.float64)), SIX
    yield "scores", "in random order", with_scores(even, lambda rank: rng.random(len(rank))), SIX
    yield "scores", "in random order, float32", with_scores(
        even, lambda rank: rng.random(len(rank), dtype=np.float32)
    ), SIX  # fmt: skip
    yield "scores", "shuffled", shuffled(with_scores(even, lambda rank: 1.0 / rank.to_numpy()), rng), SIX
    yield "scores", "all tied", with_scores(even, lambda rank: np.zeros(len(rank))), SIX
    yield "scores", "sparse: 40 above zero", with_scores(
        even, lambda rank: np.where(rank <= 40, rng.random(len(rank)), 0.0)
    ), SIX  # fmt: skip


def timed(call: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Return the seconds and the busy processors of the fastest of several calls after a first one."""
    call()
    found, begun = [], time.perf_counter()
    while not found or time.perf_counter() - begun < seconds:
        start, cpu = time.perf_counter(), time.process_time()
        call()
        took = time.perf_counter() - start
        found.append((took, (time.process_time() - cpu) / took))
    return min(found)


def peak_mb(call: Callable[[], object]) -> float:
    """Return the most memory that NumPy and Python allocate during a call."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def of_shapes(rows: int, seconds: float, chosen: list[str]) -> Iterator[Row]:
    """Yield the time of every shape."""
    for number, (group, name, (lists, truth), metrics) in enumerate(shapes(rows)):
        if number and chosen and not any(word in f"{group}, {name}" for word in chosen):
            continue

        def call(lists: Any = lists, truth: Any = truth, asked: tuple[str, ...] = metrics) -> object:
            return score(lists, truth, asked)

        yield Row(group, name, len(lists), *timed(call, seconds), peak_mb(call))


def of_metrics(rows: int, seconds: float, chosen: list[str]) -> Iterator[Row]:
    """Yield the time of every metric that needs no more than lists and ratings, at a cutoff of 10, on even lists."""
    lists, truth, train = popular(np.full(rows // LENGTH, LENGTH))
    asked = [parse(f"{name}@10" if parse(name).metric.takes_k else name) for name in METRICS.names()]
    for spec in asked:
        # The attributes that metrics read are those of a bake-off's dataset.
        if {"predictions", "pool"} & set(spec.metric.needs) or hasattr(spec.metric, "attribute"):
            continue
        if not chosen or spec.name.partition("@")[0] in chosen:
            yield _alone(spec, spec.name, (lists, truth), train, seconds)
    if not chosen or "diversity" in chosen:
        lists, truth, train = popular(np.full(100_000, 10))
        yield _alone(parse("diversity@10"), "diversity@10, 100,000 users", (lists, truth), train, seconds)


def _alone(spec: MetricSpec, name: str, both: Frames, train: pd.DataFrame, seconds: float) -> Row:
    def call() -> object:
        return score(*both, [spec.name], train=train if "train" in spec.metric.needs else None)

    return Row("each metric alone", name, len(both[0]), *timed(call, seconds), peak_mb(call))


def popular(lengths: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return lists, truth and train data, 50 items a user, in which a few items are popular."""
    rng = np.random.default_rng(0)
    lists, truth = frames(lengths, rng)
    item = (ITEMS * rng.random(50 * len(lengths)) ** 3).astype(np.int64)
    train = pd.DataFrame({"user": rng.integers(0, len(lengths), len(item)), "item": item})
    lists = lists.assign(item=(ITEMS * (lists["item"] / lists["item"].max()) ** 3).astype(np.int64))
    lists = lists.drop_duplicates(["user", "item"], ignore_index=True)
    lists["rank"] = lists.groupby("user").cumcount() + 1
    return lists, truth, train.drop_duplicates(ignore_index=True)


def of_files(rows: int, chosen: list[str]) -> Iterator[Row]:
    """Yield the time of the command on Parquet files: in memory and in partitions, on one core and on all."""
    if chosen and "files" not in chosen:
        return
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        for order, both in (
            ("in order", even := frames(np.full(rows // LENGTH, LENGTH), rng)),
            ("shuffled", shuffled(even, rng)),
        ):
            for name, frame in zip(("lists", "truth"), both, strict=True):
                frame.to_parquet(Path(folder) / f"{name}.parquet", index=False, row_group_size=2**19)
            for memory in (None, "600MB"):
                for cores in dict.fromkeys((1, os.cpu_count() or 1)):
                    where = "in memory" if memory is None else "in partitions"
                    best = min(_command(folder, memory, cores) for _ in range(2))
                    yield Row("files", f"{order}, {where}, {cores} cores", rows, *best)


def _command(folder: str, memory: str | None, cores: int) -> tuple[float, float]:
    """Return the seconds and the busy processors of one score of the folder's files, without the start of Python."""
    code = (
        "import sys, time; from evalplugin.api import score; import pandas, pyarrow.parquet\n"
        "start, cpu = time.perf_counter(), time.process_time()\n"
        "score('lists.parquet', 'truth.parquet', sys.argv[2:], memory=sys.argv[1] or None)\n"
        "took = time.perf_counter() - start\n"
        "print(took, (time.process_time() - cpu) / took)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, memory or "", *SIX], cwd=folder, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(cores)},
    )  # fmt: skip
    seconds, processors = map(float, done.stdout.split())
    return seconds, processors


def markdown(found: list[Row]) -> str:
    """Return the tables in Markdown."""
    lines = [
        "# Scoring lists of other shapes",
        "",
        "Time of a row of the lists, two DataFrames to every user's values of the same six metrics as in "
        "[metrics.md](metrics.md), and times that of even lists in order; best of several calls in one process on "
        f"{os.cpu_count()} processors. Processors are those that are busy on average. Memory is what is allocated "
        "during a call. Files are scored in processes of "
        "their own, without the start of Python.",
    ]
    for group in dict.fromkeys(row.group for row in found):
        lines += [
            "",
            f"## {group[0].upper()}{group[1:]}",
            "",
            "| | rows | ns a row | times | processors | memory |",
        ]
        lines += ["|---|--:|--:|--:|--:|--:|"]
        lines += [
            f"| {r.name} | {r.rows:,} | {r.nanoseconds:.1f} | {r.times:.1f} | {r.processors:.1f} | "
            + ("" if np.isnan(r.peak_mb) else f"{r.peak_mb:,.0f} MB")
            + " |"
            for r in found
            if r.group == group
        ]
    return "\n".join(lines) + "\n"


def run(rows: int, seconds: float, to: Path, chosen: list[str] | None = None) -> None:
    """Measure all shapes, print each, and write the table."""
    chosen, found = chosen or [], []
    for part in (
        of_shapes(rows, seconds, chosen),
        of_metrics(rows // 4, seconds / 2, chosen),
        of_files(5 * rows, chosen),
    ):
        for row in part:
            found.append(row)
            row.times = row.nanoseconds / found[0].nanoseconds
            print(
                f"{row.group}: {row.name}: {row.nanoseconds:.1f} ns a row, {row.times:.1f} times, "
                f"{row.processors:.1f} processors", flush=True,
            )  # fmt: skip
    with (to / "shapes.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(found[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in found)
    (to / "shapes.md").write_text(markdown(found))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=2, help="how long calls of a shape are repeated")
    parser.add_argument(
        "--only", nargs="+", default=[], help="shapes whose name has this text, metrics, or files"
    )
    parser.add_argument("--to", type=Path, default=HERE)
    args = parser.parse_args()
    run(args.rows, args.seconds, args.to, args.only)


if __name__ == "__main__":
    main()
