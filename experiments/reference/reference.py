"""Run the reference bake-offs, and compare what they log with what another version of the package has logged.

``python reference.py make`` writes ``values.json.gz`` beside this file; ``python reference.py compare`` runs the
bake-offs again and names every value that differs. Numbers are equal to the bit on one kind of processor; on another
one, ``--tolerance 1e-9``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BAKEOFFS = ("folds", "gate", "given", "new", "sessions")
MEASURED = ("cost/", "tune/seconds")  # seconds and memory differ from run to run
# The same in sentences, and the model that they choose.
MEASURED_WORDS = re.compile(r"\b\d+(\.\d+)? (s|min|h|MB|GB)\b|(?<=the fastest of them, )[^,]+")


def make_data() -> None:
    """Write the tables that the configs read into the working directory."""
    subprocess.run([sys.executable, ROOT / "examples" / "make_shop.py"], check=True)
    ratings = (
        pd.read_csv("ratings.csv").drop_duplicates(["user_id", "item_id"]).sort_values("time", kind="stable")
    )
    last = ratings.groupby("user_id").cumcount(ascending=False)
    ratings["part"] = np.select([last < 3, last < 6], ["test", "validation"], "train")
    ratings.to_csv("parts.csv", index=False)
    best = ratings.groupby("item_id")["stars"].sum().sort_values(ascending=False, kind="stable").index[:40]
    users = ratings["user_id"].drop_duplicates().sort_values()[5:]
    lists = pd.DataFrame({"user": users.repeat(len(best)), "item": [*best] * len(users)})
    lists["rank"] = lists.groupby("user").cumcount() + 1
    lists.to_csv("vendor.csv", index=False)
    _clicks().to_csv("clicks.csv", index=False)
    shutil.copy(ROOT / "examples" / "programs" / "popular.sh", ".")


def _clicks() -> pd.DataFrame:
    """Return clicks of sessions in which items lead to others and visitors go back to what they have seen."""
    rng = np.random.default_rng(0)
    following = rng.integers(0, 120, (120, 3))
    rows = []
    for session, start in enumerate(np.sort(rng.integers(1.76e9, 1.7609e9, 1200))):
        returns = rng.beta(0.5, 1.5)
        seen = [int(rng.zipf(1.4) % 120)]
        for _ in range(min(rng.geometric(0.25), 30)):
            draw = rng.random()
            if draw < returns:
                seen.append(int(rng.choice(seen)))
            elif draw < (1 + returns) / 2:
                seen.append(int(rng.choice(following[seen[-1]])))
            else:
                seen.append(int(rng.zipf(1.4) % 120))
        rows += [(session, int(200 * returns**0.5), item, start + 20 * i) for i, item in enumerate(seen)]
    return pd.DataFrame(rows, columns=["session", "visitor", "item", "time"])


def measure() -> dict[str, Any]:
    """Run all bake-offs in a folder of their own; return what they have logged, by the names of runs and values."""
    values: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_data()
        for name in BAKEOFFS:
            for file in (f"{name}.yaml", "half_life.py"):
                shutil.copy(HERE / file, ".")
            command = [sys.executable, "-m", "evalplugin", "run", f"{name}.yaml"]
            uri = f"sqlite:///{folder}/{name}.db"
            environment = os.environ | {"EVALPLUGIN_STORE": f"{folder}/store"}
            done = subprocess.run(
                [*command, "--tracking-uri", uri], env=environment, stdout=subprocess.PIPE, text=True
            )
            values[f"{name}: exit code"] = done.returncode
            values |= {f"{name}: {key}": value for key, value in logged(uri, name).items()}
        os.chdir(HERE)
    return values


def logged(uri: str, experiment: str) -> dict[str, Any]:
    """Return metrics with all steps, tables and verdicts of an experiment's runs."""
    import mlflow

    client = mlflow.MlflowClient(uri)
    values: dict[str, Any] = {}
    for run in client.search_runs([client.get_experiment_by_name(experiment).experiment_id]):
        tags = run.data.tags
        place = "/".join(tags.get(f"evalplugin.{tag}", "") for tag in ("dataset", "split", "model")).strip(
            "/"
        )
        name = place or tags["evalplugin.role"]
        for metric in run.data.metrics:
            if not metric.startswith(MEASURED):
                history = client.get_metric_history(run.info.run_id, metric)
                values[f"{name}: {metric}"] = [value.value for value in sorted(history, key=lambda v: v.step)]
        values[f"{name}: may be best"] = tags.get("evalplugin.may_be_best")
        folder = Path(client.download_artifacts(run.info.run_id, ""))
        for file in sorted(folder.rglob("*.parquet")):
            for column, digest in table_digests(pd.read_parquet(file)).items():
                if not column.endswith("_seconds"):
                    values[f"{name}: {file.relative_to(folder)}: {column}"] = digest
        if (board := folder / "leaderboard.md").exists():
            verdict = MEASURED_WORDS.sub("#", board.read_text().partition("# Bake-off")[0])
            values[f"{name}: verdict"] = verdict.split("\n\n")
    return values


def table_digests(table: pd.DataFrame) -> dict[str, str]:
    """Return a hash of each column's values in their order, numbers with all their digits."""
    return {
        str(column): hashlib.sha256(json.dumps(values.tolist(), default=str).encode()).hexdigest()[:16]
        for column, values in table.items()
    }


def differences(before: dict[str, Any], now: dict[str, Any], tolerance: float) -> list[str]:
    """Return a line for each value that differs."""
    lines = [f"missing: {key}" for key in before if key not in now]
    lines += [f"new: {key}" for key in now if key not in before]
    for key in before.keys() & now.keys():
        if not _equal(before[key], now[key], tolerance):
            lines.append(f"differs: {key}: {before[key]} -> {now[key]}"[:300])
    return sorted(lines)


def _equal(before: Any, now: Any, tolerance: float) -> bool:
    numbers = isinstance(before, list) and all(isinstance(value, float) for value in before)
    if not numbers or not isinstance(now, list) or len(before) != len(now):
        return bool(before == now)
    return all(
        math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance) for a, b in zip(before, now, strict=True)
    )


def main() -> int:
    """Make or compare the reference; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", choices=["make", "compare"])
    parser.add_argument("--values", type=Path, default=HERE / "values.json.gz")
    parser.add_argument("--tolerance", type=float, default=0.0)
    asked = parser.parse_args()
    file = asked.values.resolve()
    now = json.loads(json.dumps(measure()))
    if asked.do == "make":
        file.write_bytes(gzip.compress(json.dumps(now, indent=0, sort_keys=True).encode(), mtime=0))
        print(f"{len(now):,} values in {file}")
        return 0
    lines = differences(json.loads(gzip.decompress(file.read_bytes())), now, asked.tolerance)
    print(*lines, f"{len(now):,} values, {len(lines):,} differ", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
