"""What a night costs as nights add up: CPU seconds of each bake-off of one process, in one experiment.

    python experiments/nightly/growth.py [--nights 300] [--out experiments/nightly/growth.csv]

A small bake-off with a gate over 365 decisions and a page of trends is run night after night on a little more data each
time; the store is a SQLite file. CPU time does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import evalplugin

SPAN = 10  # nights of which a row of the summary is the median


def config(night: int) -> dict[str, object]:
    """Return the config of a night: the same but for its data, which grow by a hundredth of a percent."""
    return {
        "experiment": "nightly",
        "datasets": [{"type": "synthetic", "n_users": 600, "n_items": 80, "n_interactions": 9_000 + night}],
        "split": {"type": "last_n", "n": 2},
        "relevance": {"threshold": 4.0},
        "recommend": {"n": 10},
        "metrics": ["ndcg@10", "recall@10"],
        "models": ["popularity", "random"],
        "compare": {"baseline": "popularity", "primary": "ndcg@10"},
        "gate": {"champion": "popularity", "decisions": 365, "min_users": 100},
        "checks": {"ignore": ["EV101"]},
    }


def main() -> int:
    """Run the nights, write one row for each, and print medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nights", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="growth-") as folder, given.out.open("w", newline="") as file:
        os.chdir(folder)
        writer = csv.writer(file)
        writer.writerow(["night", "cpu_seconds"])
        for night in range(1, given.nights + 1):
            start = time.process_time()
            evalplugin.run(config(night), tracking_uri="sqlite:///mlflow.db")
            rows.append(time.process_time() - start)
            writer.writerow([night, f"{rows[-1]:.3f}"])
            file.flush()
    for last in sorted({SPAN, 100, 200, 300, 1000, given.nights}):
        if SPAN <= last <= len(rows):
            print(
                f"nights {last - SPAN + 1}-{last}: {median(rows[last - SPAN : last]):.2f} s of CPU (median)"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
