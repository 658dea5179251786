"""A bake-off of up to twenty million interactions, by evalplugin, by a script by hand and by RecTools, stage by stage.

``python scale.py [--sizes small middle large wide tall] [--contestants evalplugin hand rectools]`` makes the data and
writes scale.md. ``environments.py hand rectools`` makes the environments of the other two first. Each runs in a process
of its own (``scale_work.py``) that tells when a step begins and ends, and this one takes wall and CPU seconds as the
lines arrive. CPU is that of all processes, so it has the logging that runs beside a fit. The fastest of several
runs counts. ``--against`` measures another checkout too, in turn.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from checkouts import add_against, checkouts_of, environment, machine
from environments import python_of
from scale_work import DONE

HERE = Path(__file__).resolve()
WORK = HERE.with_name("scale_work.py")
WARM_UP = "warm-up"  # compiles bytecode and loops, fills caches, and is not counted
SIZES = {  # rows, users, items
    "small": (800_000, 6_000, 4_000),
    "middle": (5_000_000, 40_000, 14_000),
    "large": (18_700_000, 140_000, 27_000),
    "wide": (20_000_000, 1_000_000, 10_000),
    "tall": (20_000_000, 200_000, 200_000),
    WARM_UP: (100_000, 1_000, 2_000),
}
CONTESTANTS = ("evalplugin", "hand", "rectools")
GROWING = ("small", "middle", "large")  # sizes of one shape, which have exponents
CONFIG = """
experiment: scale
seed: 1
datasets: [{{name: shop, type: parquet, path: {path}, timestamp: timestamp, rating: rating}}]
split: {{type: last_n, n: 5}}
recommend: {{n: 100}}
metrics: [ndcg@10, recall@10, ap@100, coverage@10]
models:
{models}
compare: {{baseline: popularity}}
tracking: {{uri: "sqlite:///mlflow.db"}}
"""
MODELS = {
    "popularity": "{name: popularity, type: popularity}",
    "item-knn": "{name: item-knn, type: neighbours.item, params: {k: 100}}",
    "tsvd": "{name: tsvd, type: sklearn.TruncatedSVD, params: {n_components: 64}}",
    "als": "{name: als, type: implicit.AlternatingLeastSquares, params: {factors: 64}}",
    "ease": "{name: ease, type: ease}",
    "svd": "{name: svd, type: surprise.SVD}",
}
SMALL_ONLY = ("ease", "svd")
NOT_RECTOOLS = ("als", "svd")
METRICS = ("ndcg@10", "recall@10", "ap@100", "coverage@10")
START, UNLABELLED = "start", "*between labelled steps*"
LEAST_SECONDS = 0.2
NOTES = f"""\
Seconds of wall time, in brackets of CPU time of all processes, the fastest run. "{START}" is what happens before the
first step, mostly imports; "{UNLABELLED.strip("*")}" is the time that the progress has no label for, with the end of
the process. The peak of all processes is looked at five times a second and counts shared memory again. Stages below
{LEAST_SECONDS} s have no exponent. Threads of BLAS wait by spinning: on a busy machine they take more CPU time.

RecTools has no ALS here and no SVD of Surprise; it tests users of fewer than six interactions too, its ndcg@10 ignores
ratings, its EASE takes ratings and multiplies by the transposed weights. Its item neighbours and the script's, by
implicit, are those of a user's items, evalplugin's those of a candidate.

From middle to large, rows grow by 3.74, but the pairs of items that users have in common, which item-knn's fit adds up,
by 4.10 (exponent 1.07), and users x items, of which lists are the best, by 6.75 (1.45): item-knn's lists are between
the two, and its fit takes 2.3 ns a pair in place of 1.8, probably as its arrays of 32 bytes an item (0.9 MB a thread,
not 0.4) fill the cache of a core.
"""

Seconds = tuple[float, float]  # wall, CPU


@dataclass
class Run:
    """One contestant on one size."""

    stages: dict[str, Seconds]
    megabytes: dict[str, float]
    means: dict[str, dict[str, float]]

    def rows(self) -> dict[str, Seconds]:
        """Return the seconds of stages, and sums of them."""
        rows = dict(self.stages)
        for verb in ("fit", "lists", "score", "log"):
            own = [rows[f"{verb} {model}"] for model in MODELS if f"{verb} {model}" in rows]
            rows |= {f"*{verb}, all models*": total(own)} if own else {}
        rows["**all but the fits**"] = total(rows[row] for row in self.stages if not row.startswith("fit "))
        common = [row for row in self.stages if model_of(row) not in NOT_RECTOOLS]
        rows["**without the models that RecTools lacks**"] = total(rows[row] for row in common)
        return rows | {"**total**": total(self.stages.values())}


def model_of(row: str) -> str:
    """Return the model of a stage, such as that of ``fit als``; another word where it has none."""
    return row.rpartition(" ")[2]


def total(seconds: Iterable[Seconds]) -> Seconds:
    """Return the sums of wall and CPU seconds."""
    wall, cpu = zip((0.0, 0.0), *seconds, strict=True)
    return sum(wall), sum(cpu)


def make(path: Path, rows: int, n_users: int, n_items: int) -> None:
    """Write interactions, no pair twice: a power law of items, a log-normal activity of users, random ratings."""
    rng = np.random.default_rng(0)
    activity = rng.lognormal(0.0, 1.0, n_users)
    weight = 1.0 / np.arange(10, n_items + 10) ** 0.9
    cumulative = np.cumsum(weight / weight.sum())
    code_of = rng.permutation(n_items)

    def draw(count: int) -> Any:
        user = rng.choice(n_users, count, p=activity / activity.sum())
        item = code_of[np.searchsorted(cumulative, rng.random(count)).clip(max=n_items - 1)]
        return user * np.int64(n_items) + item

    pairs = np.unique(draw(int(rows * 1.05)))
    while len(pairs) < rows:
        pairs = np.unique(np.concatenate([pairs, draw(int((rows - len(pairs)) * 1.5) + 1000)]))
    user, item = np.divmod(rng.permutation(pairs)[:rows], n_items)
    rating = rng.integers(1, 6, rows).astype(np.float32)
    timestamp = rng.integers(1_500_000_000, 1_700_000_000, rows)
    pq.write_table(pa.table({"user": user, "item": item, "rating": rating, "timestamp": timestamp}), path)


def usage(root: int) -> Seconds:
    """Return the CPU seconds and the resident MB of a process and its descendants."""
    processes = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        ticks = sum(map(int, fields[11:15]))  # its own, and of children that it has waited for
        processes[int(stat.parent.name)] = int(fields[1]), ticks, int(fields[21])
    family, youngest = set[int](), {root} & processes.keys()
    while youngest:
        family |= youngest
        youngest = {pid for pid, (parent, *_) in processes.items() if parent in youngest}
    ticks, pages = (sum(processes[pid][field] for pid in family) for field in (1, 2))
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def stage_of(label: str) -> str:
    """Return the row of a step."""
    if label.startswith("compute "):  # around the steps of all tasks
        return UNLABELLED
    label = re.sub(r"^(read|split) shop.*", r"\1", re.sub(r" \(.*", "", label))
    return re.sub("^recommend ", "lists ", label)


def measure(contestant: str, checkout: Path | None, data: Path, models: list[str]) -> Run:
    """Run a contestant in an empty folder; ``checkout`` is that of an evalplugin."""
    python, arguments = str(python_of(contestant)), [contestant, str(data), *models]
    if checkout is not None:
        python, arguments = sys.executable, ["evalplugin", "scale.yaml"]
    with tempfile.TemporaryDirectory(prefix="scale-") as folder, Path(folder, "out").open("w+") as out:
        config = CONFIG.format(path=data, models="\n".join(f"  - {MODELS[name]}" for name in models))
        Path(folder, "scale.yaml").write_text(config)
        begin = time.perf_counter()
        process = subprocess.Popen(
            [python, str(WORK), *arguments],
            cwd=folder,
            env=environment(checkout or HERE.parent) | {"MLFLOW_DISABLE_TELEMETRY": "true"},
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            stages, megabytes = follow(process, begin)
        finally:
            if process.returncode is None:  # interrupted
                os.killpg(process.pid, signal.SIGKILL)
        if checkout is None:
            out.seek(0)
            return Run(stages, megabytes, json.loads(out.readlines()[-1]))
        for name in ("mlflow.db", "mlartifacts", ".evalplugin"):
            files = [Path(folder, name), *Path(folder, name).rglob("*")]
            megabytes[name] = sum(file.stat().st_size for file in files if file.is_file()) / 2**20
        return Run(stages, megabytes, logged_means(folder))


def follow(process: subprocess.Popen[str], begin: float) -> tuple[dict[str, Seconds], dict[str, float]]:
    """Return the seconds of each stage of a process that began at ``begin``, and its peaks of memory.

    Raises:
        RuntimeError: It failed.
    """
    peak, ended, stages, lines = 0.0, threading.Event(), defaultdict[str, Seconds](lambda: (0.0, 0.0)), [""]
    steps, before = [START], (begin, 0.0)

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.2):
            peak = max(peak, usage(process.pid)[1])

    def count(cpu: float) -> None:
        nonlocal before
        now = time.perf_counter(), cpu
        stages[steps[-1]] = total([stages[steps[-1]], (now[0] - before[0], now[1] - before[1])])
        before = now

    threading.Thread(target=watch, daemon=True).start()
    assert process.stderr is not None
    for line in map(str.rstrip, process.stderr):
        lines.append(line)
        if line == DONE:
            count(usage(process.pid)[0])
            steps.pop()
        elif line.endswith(" ..."):
            count(usage(process.pid)[0])
            steps = [UNLABELLED, *steps[1:], stage_of(line.removesuffix(" ..."))]
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    ended.set()
    count(used.ru_utime + used.ru_stime)
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {lines[-1]}")
    return stages, {"peak of the largest process": used.ru_maxrss / 1024, "peak of all processes": peak}


def logged_means(folder: str) -> dict[str, dict[str, float]]:
    """Return the means of all models that evalplugin has logged."""
    query = "SELECT name, key, value FROM latest_metrics JOIN runs USING (run_uuid)"
    keys, means = {metric.replace("@", "_at_"): metric for metric in METRICS}, defaultdict[str, Any](dict)
    with sqlite3.connect(Path(folder, "mlflow.db")) as store:
        for model, key, value in store.execute(query):
            if model in MODELS and key in keys:
                means[model][keys[key]] = value
    return means


def cell(seconds: Seconds) -> str:
    """Return wall and CPU seconds."""
    return "{} ({})".format(
        *(f"{s:.2f}" if s < 10 else f"{s:.1f}" if s < 100 else f"{s:.0f}" for s in seconds)
    )


def table(head: str, columns: dict[str, dict[str, str]]) -> str:
    """Return a table in Markdown of texts by column and row, the rows of sums last."""
    rows = sorted(dict.fromkeys(chain(*columns.values())), key=lambda row: row.startswith("*"))
    texts = [[row, *(column.get(row, "") for column in columns.values())] for row in rows]
    lines = [f"| {head} | {' | '.join(columns)} |", "|---|" + "--:|" * len(columns)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in texts if any(row[1:]))]) + "\n"


def section(size: str, runs: dict[str, Run]) -> str:
    """Return the stages, peaks and means of all contestants on one size."""
    seconds = {name: {row: cell(pair) for row, pair in run.rows().items()} for name, run in runs.items()}
    memory = {name: {row: f"{mb:,.0f}" for row, mb in run.megabytes.items()} for name, run in runs.items()}
    means = {
        name: {
            model: " / ".join(f"{of[metric]:.4f}" for metric in METRICS) for model, of in run.means.items()
        }
        for name, run in runs.items()
    }
    tables = table("seconds", seconds), table("MB", memory), table(f"means: {', '.join(METRICS)}", means)
    rows, n_users, n_items = SIZES[size]
    title = f"\n## {size}: {rows:,} rows, {n_users:,} users, {n_items:,} items\n"
    return "\n".join([title, *tables]) + agreement(runs)


def agreement(runs: dict[str, Run]) -> str:
    """Return whether evalplugin and the script agree on popularity, whose lists are the same up to ties."""
    if not {"this", "hand"} <= runs.keys():
        return ""
    ours, theirs = (runs[name].means["popularity"] for name in ("this", "hand"))
    apart = max(abs(ours[metric] / theirs[metric] - 1) for metric in METRICS)
    verdict = "agree" if apart < 0.01 else "DISAGREE"
    return f"\nevalplugin and the script {verdict} on popularity: means at most {100 * apart:.2g} % apart.\n"


def exponents(measured: dict[str, dict[str, Run]]) -> str:
    """Return the exponents of the seconds in rows between the sizes of one shape, for the models of all sizes."""

    def rows_of(run: Run) -> dict[str, Seconds]:
        stages = run.stages.items()
        return replace(run, stages=dict(s for s in stages if model_of(s[0]) not in SMALL_ONLY)).rows()

    columns: dict[str, dict[str, str]] = {}
    for smaller, larger in pairwise(size for size in GROWING if size in measured):
        growth = math.log(SIZES[larger][0] / SIZES[smaller][0])
        for name in [name for name in measured[smaller] if name in measured[larger]]:
            before, after = (rows_of(measured[size][name]) for size in (smaller, larger))
            column = columns[f"{name}, {smaller} to {larger}"] = dict.fromkeys(before, "")
            for row in before:
                if row in after and min(*before[row], *after[row]) >= LEAST_SECONDS:
                    pairs = zip(before[row], after[row], strict=True)
                    column[row] = "{:.2f} ({:.2f})".format(*(math.log(b / a) / growth for a, b in pairs))
    return f"\n## Exponents in rows\n\n{table('of the seconds', columns)}" if columns else ""


def main() -> None:
    """Measure the contestants in turn and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", nargs="+", choices=[*GROWING, "wide", "tall"], default=GROWING)
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "evalplugin-scale"))
    parser.add_argument("--out", type=Path, default=HERE.with_suffix(".md"))
    add_against(parser)
    options = parser.parse_args()
    contestants: dict[str, Path | None] = {}
    for name in options.contestants:
        if name == "evalplugin":
            contestants |= checkouts_of(options)
        elif python_of(name).exists():
            contestants[name] = None
        else:
            print(f"{name} is left out: it has no environment", file=sys.stderr)
    options.data.mkdir(parents=True, exist_ok=True)
    load, measured = os.getloadavg()[0], defaultdict[str, dict[str, Run]](dict)
    for size in (WARM_UP, *options.sizes):
        data = options.data.resolve() / f"{'-'.join(map(str, SIZES[size]))}.parquet"
        if not data.exists():
            make(data, *SIZES[size])
        models = [name for name in MODELS if size in (WARM_UP, "small") or name not in SMALL_ONLY]
        for name, checkout in list(contestants.items()) * (1 if size == WARM_UP else options.runs):
            try:
                run = measure(name, checkout, data, models)
            except RuntimeError as error:
                print(f"{size}: {name}: {error}", file=sys.stderr)
                continue
            print(f"{size}: {name}: {cell(run.rows()['**total**'])} s", file=sys.stderr)
            best = measured[size].setdefault(name, run)
            measured[size][name] = min(best, run, key=lambda each: each.rows()["**total**"])
    measured.pop(WARM_UP, None)
    sections = "".join(section(size, runs) for size, runs in measured.items())
    text = f"# The main job at scale\n\n{machine(load)} {NOTES}{sections}{exponents(measured)}"
    options.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
