"""Neighbours of sessions against session-rec: ``python sessions.py --session-rec CLONE [--out FOLDER]``.

Both list items after every event of the test sessions of yoochoose-clicks-100k: evalplugin by ``session.knn``,
session-rec by a call of ``predict_next`` an event. Writes sessions.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import checkouts
import environments

HERE = Path(__file__).parent
environments.PEERS.setdefault("session_rec", ["numpy<2", "pandas<3", "pympler", "psutil"])

S_KNN = {"similarity": "cosine", "weighting": "same", "weighting_score": "same"}
TUNED = {
    "k": 500,
    "sample_size": 5000,
    "weighting": "quadratic",
    "weighting_score": "div",
    "idf_weighting": 5,
}
CASES: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("V-S-kNN, k 100, sample 1000", {}, "vsknn.VMContextKNN", {"k": 100}),
    ("V-S-kNN, k 500, sample 5000, rare items weigh more", TUNED, "vsknn.VMContextKNN", TUNED),
    (
        "S-kNN, k 100, sample 1000",
        S_KNN,
        "sknn.ContextKNN",
        {"k": 100, "sample_size": 1000, "similarity": "cosine"},
    ),
]


def run(python: str | Path, *arguments: str | Path) -> dict[str, float]:
    """Return the costs of a job, or end with what it printed."""
    command = [str(python), str(HERE / "sessions_work.py"), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=checkouts.environment(checkouts.ROOT)
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> int:
    """Measure all cases; return 1 if session-rec's environment cannot be made."""
    home = Path(os.environ.get("EVALPLUGIN_DATA_HOME", "."))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--session-rec", type=Path, required=True, help="a clone of github.com/rn5l/session-rec"
    )
    parser.add_argument("--clicks", type=Path, default=home / "published" / "rsc15-100k")
    parser.add_argument(
        "--home", type=Path, default=environments.HOME, help="folder of the peers' environments"
    )
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    if problem := environments.make("session_rec", options.home):
        print(f"session-rec's environment does not install: {problem}", file=sys.stderr)
        return 1
    peer, load = environments.python_of("session_rec", options.home), os.getloadavg()[0]
    lines = []
    for case, params, name, theirs in CASES:
        ours = run(sys.executable, "evalplugin", options.clicks, json.dumps(params))
        reference = run(peer, name, options.clicks, json.dumps(theirs), options.session_rec)
        cells = [case, f"{ours['queries']:,.0f}"]
        cells += [
            f"{cost:,.2f}" for cost in (ours["fit"], reference["fit"], ours["lists"], reference["lists"])
        ]
        cells += [f"{reference['lists'] / ours['lists']:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    text = [
        "# Neighbours of sessions",
        "",
        "Seconds for the lists after every event of the test sessions of yoochoose-clicks-100k (70,278 clicks to "
        "train). evalplugin: lists of 20 items by `session.knn`, on all processors, best of three. session-rec: its "
        "`predict_next`, event by event, without the sort of its scores. Made by "
        "`python experiments/benchmarks/sessions.py`. " + checkouts.machine(load),
        "",
        "| model | queries | fit | session-rec | lists | session-rec | times |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *lines,
    ]
    (options.out / "sessions.md").write_text("\n".join(text) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
