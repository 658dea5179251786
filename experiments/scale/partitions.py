"""Rows of lists partitioned by user, by DuckDB and by pyarrow: ``python experiments/scale/partitions.py [--rows N]``.

The rows are those of ``experiments/benchmarks/metrics.py --make-large``: shuffled, lists of 100 items. Each way reads
the file, writes files of partitions by a hash of the user, and reads these back one by one as Arrow tables, in a
process of its own with two threads and ``--memory``. Writes results/partitions.md: the medians of the seconds and of
the CPU seconds of several runs, the largest peak memory, and the lines of the function that writes.
"""

from __future__ import annotations

import argparse
import inspect
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import parquet

HERE = Path(__file__).resolve().parent
MAKE = HERE.parent / "benchmarks" / "metrics.py"
THREADS = 2
FACTOR = np.uint64(0x9E3779B97F4A7C15)


def duckdb_file(source: Path, out: Path, parts: int, memory: str) -> None:
    """Let DuckDB read and write Parquet."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit = '{memory}'; SET threads = {THREADS}")
        connection.execute(f"SET preserve_insertion_order = false; SET temp_directory = '{out}-spilled'")
        rows = f"SELECT *, (hash(user) % {parts})::INT AS part FROM '{source}'"
        connection.execute(f"COPY ({rows}) TO '{out}' (FORMAT parquet, PARTITION_BY (part))")


def duckdb_batches(source: Path, out: Path, parts: int, memory: str) -> None:
    """Let DuckDB write the batches that pyarrow reads, as from stores and formats that DuckDB does not read."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit = '{memory}'; SET threads = {THREADS}")
        connection.execute(f"SET preserve_insertion_order = false; SET temp_directory = '{out}-spilled'")
        rows = pa.RecordBatchReader.from_batches(schema_of(source), batches_of(source))  # noqa: F841 - of the SQL
        query = f"SELECT *, (hash(user) % {parts})::INT AS part FROM rows"
        connection.execute(f"COPY ({query}) TO '{out}' (FORMAT parquet, PARTITION_BY (part))")


def dataset_arrow(source: Path, out: Path, parts: int, memory: str) -> None:
    """Let pyarrow's dataset writer write Arrow files."""
    schema = schema_of(source).append(pa.field("part", pa.int32()))
    reader = pa.RecordBatchReader.from_batches(schema, with_part(source, parts))
    by_part = ds.partitioning(pa.schema([("part", pa.int32())]), flavor="hive")
    ds.write_dataset(
        reader, out, format="ipc", partitioning=by_part, max_partitions=parts, max_open_files=parts
    )


def dataset_parquet(source: Path, out: Path, parts: int, memory: str) -> None:
    """Let pyarrow's dataset writer write Parquet, in row groups of many rows."""
    schema = schema_of(source).append(pa.field("part", pa.int32()))
    reader = pa.RecordBatchReader.from_batches(schema, with_part(source, parts))
    by_part = ds.partitioning(pa.schema([("part", pa.int32())]), flavor="hive")
    ds.write_dataset(
        reader, out, format="parquet", partitioning=by_part, max_partitions=parts, max_open_files=parts,
        min_rows_per_group=2**15, max_rows_per_group=2**20,
        file_options=ds.ParquetFileFormat().make_write_options(
            use_dictionary=False, compression="none", write_statistics=False
        ),
    )  # fmt: skip


def arrow_writers(source: Path, out: Path, parts: int, memory: str) -> None:
    """Sort the rows of a batch by partition, and write each partition's to a file of its own."""
    out.mkdir()
    schema = schema_of(source)
    writers = [pa.ipc.new_file(str(out / f"{part}.arrow"), schema) for part in range(parts)]
    for batch in with_part(source, parts):
        part = batch.column("part").to_numpy()
        order = np.argsort(part.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=parts)).tolist()
        rows = batch.drop_columns(["part"]).take(pa.array(order))
        for writer, low, high in zip(writers, [0, *ends], ends, strict=False):
            writer.write_batch(rows.slice(low, high - low))
    for writer in writers:
        writer.close()


WAYS: dict[str, Callable[[Path, Path, int, str], None]] = {
    "DuckDB, its own reader": duckdb_file,
    "DuckDB, batches of pyarrow": duckdb_batches,
    "pyarrow, dataset writer, Arrow": dataset_arrow,
    "pyarrow, dataset writer, Parquet": dataset_parquet,
    "pyarrow, a writer a partition": arrow_writers,
}


def schema_of(source: Path) -> pa.Schema:
    """Return the columns of a Parquet file."""
    return parquet.read_schema(source)


def batches_of(source: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file."""
    yield from parquet.ParquetFile(source).iter_batches(2**20, use_threads=False)


def with_part(source: Path, parts: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file with their partitions."""
    for batch in batches_of(source):
        hashed = batch.column("user").to_numpy().view(np.uint64) * FACTOR >> np.uint64(40)
        yield batch.append_column("part", pa.array((hashed % np.uint64(parts)).astype(np.int32)))


def read(out: Path, parts: int) -> int:
    """Return the number of rows of all partitions, read one by one."""
    rows = 0
    for part in range(parts):
        folder = out / f"part={part}"
        if folder.exists():
            table = ds.dataset(
                folder, format="parquet" if any(folder.glob("*.parquet")) else "ipc"
            ).to_table()
        else:
            with pa.OSFile(str(out / f"{part}.arrow")) as raw, pa.ipc.open_file(raw) as opened:
                table = opened.read_all()
        rows += len(table.combine_chunks())
    return rows


def work(way: str, source: Path, parts: int, memory: str) -> None:
    """Partition and read once, and print what it took."""
    pa.set_cpu_count(THREADS)
    with tempfile.TemporaryDirectory(prefix="evalplugin-partitions-") as folder:
        out, start = Path(folder) / "parts", time.perf_counter()
        WAYS[way](source, out, parts, memory)
        written = time.perf_counter()
        size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
        rows = read(out, parts)
        end = time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_SELF)
    result = {
        "write": written - start, "read": end - written, "cpu": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss // 1024, "disk_mb": size // 2**20, "rows": rows,
    }  # fmt: skip
    print(json.dumps(result))


def main() -> None:
    """Measure all ways in turn, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--memory", default="1GB", help="of DuckDB; the other ways have no limit")
    parser.add_argument("--parts", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--lists", type=Path, help="a file of such rows; otherwise it is made")
    parser.add_argument("--work", choices=list(WAYS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work, args.lists, args.parts, args.memory)
        return
    with tempfile.TemporaryDirectory(prefix="evalplugin-partitions-") as folder:
        source = args.lists
        if source is None:
            source = Path(folder) / "lists.parquet"
            subprocess.run([sys.executable, MAKE, "--make-large", str(args.rows), folder], check=True)
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in args.ways}
        for _ in range(args.repeats):
            for way in args.ways:
                command = [sys.executable, __file__, "--work", way, "--lists", str(source)]
                command += ["--parts", str(args.parts), "--memory", args.memory]
                text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                found[way].append(json.loads(text))
                print(way, text.strip(), flush=True)
        rows = parquet.read_metadata(source).num_rows
    assert all(run["rows"] == rows for runs in found.values() for run in runs)
    lines = [
        f"{rows:,} shuffled rows of three columns of int64, {args.parts} partitions, {THREADS} threads; "
        f"`python experiments/scale/partitions.py`.",
        "",
        "| way | write, s | read, s | CPU, s | peak, MB | on disk, MB | lines |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for way, runs in found.items():
        middle = {key: median(run[key] for run in runs) for key in ("write", "read", "cpu", "disk_mb")}
        peak, n = max(run["peak_mb"] for run in runs), len(inspect.getsource(WAYS[way]).splitlines()) - 1
        lines.append(
            f"| {way} | {middle['write']:.1f} | {middle['read']:.1f} | {middle['cpu']:.1f} | {peak:,.0f} | "
            f"{middle['disk_mb']:,.0f} | {n} |"
        )
    (HERE / "results" / "partitions.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
