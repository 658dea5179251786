"""Four nights of the nightly bake-off on synthetic data, in a folder of their own.

A better challenger is promoted, a worse and an equal one are not, and a night without fresh data costs nothing:

    python experiments/nightly/nights.py [FOLDER]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from evalplugin.data import DATASETS, LoadContext

HERE = Path(__file__).parent
# Each night: its name, the challenger, the known share of each user's history, the expected outcome.
NIGHTS = (
    ("better", {"type": "sklearn.NearestNeighbors"}, 0.80, "promote"),
    ("worse", {"type": "surprise.SVD"}, 0.87, "keep"),
    ("equal", {"type": "sklearn.NearestNeighbors", "params": {"n_neighbors": 41}}, 0.94, "keep"),
    ("nothing new", {"type": "sklearn.NearestNeighbors", "params": {"n_neighbors": 41}}, 0.94, "unchanged"),
)


def main() -> int:
    """Run the nights and return 0 if every outcome is as expected."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="nightly-"))
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("nightly.yaml", "notify.py"):
        shutil.copy(HERE / name, folder)
    data = ratings()
    print(f"in {folder}: python -m evalplugin history --experiment nightly")
    as_expected = True
    for number, (name, challenger, share, expected) in enumerate(NIGHTS, start=1):
        data[data["known"] <= share].drop(columns="known").to_csv(folder / "ratings.csv", index=False)
        start = time.perf_counter()
        outcome = run(folder, {"name": "challenger", **challenger})
        seconds = time.perf_counter() - start
        as_expected &= outcome["outcome"] == expected
        reason = (outcome["decision"] or {}).get("reason", "")
        print(f"night {number}, {name}: {outcome['outcome']} in {seconds:.1f} s. {reason}")
    return 0 if as_expected else 1


def ratings() -> pd.DataFrame:
    """Return ratings of a synthetic shop, and for each the share of its user's history up to it (``known``)."""
    made = DATASETS.create("synthetic", {"n_users": 800, "n_items": 900, "n_interactions": 60_000})
    data = made.load(LoadContext())
    frame = pd.DataFrame(
        {
            "user": data.users[data.user],
            "item": data.items[data.item],
            "rating": data.rating,
            "time": data.timestamp,
        }
    ).sort_values(["user", "time"])
    position = frame.groupby("user").cumcount() + 1
    return frame.assign(known=position / frame.groupby("user")["item"].transform("size"))


def run(folder: Path, challenger: dict[str, object]) -> dict[str, object]:
    """Run one night as a scheduler would and return its outcome."""
    (folder / "outcome.jsonl").unlink(missing_ok=True)
    command = [sys.executable, "-m", "evalplugin", "schedule", "--once", "--if-changed"]
    command += ["--set", f"models.1={json.dumps(challenger)}", "--outcome", "outcome.jsonl", "nightly.yaml"]
    with (folder / "log.txt").open("a") as log:
        subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=False)
    return dict(json.loads((folder / "outcome.jsonl").read_text()))


if __name__ == "__main__":
    sys.exit(main())
