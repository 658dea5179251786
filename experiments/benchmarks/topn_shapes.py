"""Top-N lists in odd shapes: ``python topn_shapes.py [--out FOLDER] [--only TEXT]``.

Scores that tie, Surprise algorithms fitted by the user, 10 million ratings, neighbours of many items: each against a
reference in the same run, in processes of their own. Writes topn_shapes.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import environments
import topn

HERE = Path(__file__).parent
environments.PEERS.setdefault("implicit", ["implicit"])
environments.PEERS.setdefault("torch", ["torch", "numpy"])

KNN = {"verbose": False}
OWN_MODELS: list[tuple[str, str, dict[str, Any], int]] = [
    ("KNNBasic msd user", "KNNBasic", {**KNN, "sim_options": {"name": "msd", **topn.USER}}, 10),
    ("KNNBasic msd item", "KNNBasic", {**KNN, "sim_options": {"name": "msd", **topn.ITEM}}, 10),
    (
        "KNNWithMeans pearson item",
        "KNNWithMeans",
        {**KNN, "sim_options": {"name": "pearson", **topn.ITEM}},
        10,
    ),
    ("SVD", "SVD", {"random_state": 0}, 100),
    ("NMF", "NMF", {"random_state": 0}, 100),
    ("BaselineOnly", "BaselineOnly", {"verbose": False}, 100),
]
ITEM_KNN = {"sim_options": {"name": "msd", "user_based": False}}


class Row(NamedTuple):
    """One line of a table: seconds of evalplugin and of the reference."""

    case: str
    ours: float
    reference: str
    theirs: float | None
    note: str = ""

    def cells(self) -> list[str]:
        """Return the cells of the line."""
        theirs = "" if self.theirs is None else f"{self.theirs:,.3f}"
        ratio = "" if self.theirs is None else f"{self.theirs / self.ours:,.2f}"
        return [self.case, f"{self.ours:,.3f}", self.reference, theirs, ratio, self.note]


def run(job: str, *arguments: str, python: str | Path = sys.executable) -> dict[str, float]:
    """Return the seconds of a job, or end with what it printed."""
    command = [str(python), str(HERE / "topn_shapes_work.py"), job, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{job} {' '.join(arguments)} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def selection() -> Iterator[Row]:
    """Time the selection of 100 items for 1,024 users."""
    problem = environments.make("torch")
    name, job = ("torch.topk", "select_torch") if problem is None else ("numpy argpartition", "select_numpy")
    python = environments.python_of("torch") if problem is None else sys.executable
    note = "" if problem is None else f"torch does not install: {problem}"
    for n_items in (50_000, 2_000):
        for dtype in ("float32", "float64"):
            ours = run("select_evalplugin", str(n_items), dtype)
            for case, seconds in run(job, str(n_items), dtype, python=python).items():
                yield Row(f"{n_items:,} items, {dtype}: {case}", ours[case], name, seconds, note)


def own_models() -> Iterator[Row]:
    """Time surprise_top_n on models that the user fitted on rows in random order."""
    with tempfile.TemporaryDirectory() as folder:
        for data, path, _ in topn.datasets(Path(folder)):
            if not data.startswith("synthetic"):
                continue
            for case, name, params, users in OWN_MODELS:
                seconds = run("own_model", str(path), name, json.dumps(params), str(users))
                note = f"extrapolated from {users} users"
                yield Row(
                    f"{case}, {data.removeprefix('synthetic ')}",
                    seconds["evalplugin"],
                    "documented way",
                    seconds["documented way"],
                    note,
                )


def fits() -> Iterator[Row]:
    """Time the fits of models of other libraries, and of the libraries alone."""
    with tempfile.TemporaryDirectory() as folder:
        for data, path, _ in topn.datasets(Path(folder)):
            if data == "synthetic 1M":
                for model in ("sklearn.TruncatedSVD", "implicit.BayesianPersonalizedRanking"):
                    seconds = run("fit_alone", str(path), model)
                    yield Row(model, seconds["evalplugin"], "the library alone", seconds["alone"])


def ten_million() -> Iterator[Row]:
    """Time the lists of 70,000 users for 10 million ratings, of item neighbours for some of them."""
    for model in ("popularity", "random"):
        seconds = run("ten_million", model, "{}", "0", "1")
        yield Row(model, seconds["lists"], "lists from scores that cost nothing", seconds["any scores"])
    seconds = run("ten_million", "surprise.KNNBasic", json.dumps(ITEM_KNN), "2", "8")
    note = f"extrapolated from one user in 8, the documented way from 2 users; the fit took {seconds['fit']:.0f} s"
    yield Row("KNNBasic msd item", seconds["lists"], "documented way", seconds["documented lists"], note)


def neighbours() -> Iterator[Row]:
    """Time the 40 nearest of 17,632 items."""
    for metric in ("cosine", "euclidean"):
        ours = run("neighbours_evalplugin", metric)["fit"]
        yield Row(metric, ours, "scikit-learn", run("neighbours_sklearn", metric)["fit"])
        if metric == "cosine":
            problem = environments.make("implicit")
            theirs = None
            if problem is None:
                python = environments.python_of("implicit")
                theirs = run("neighbours_implicit", metric, python=python)["fit"]
            yield Row(metric, ours, "implicit", theirs, f"does not install: {problem}" if problem else "")


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "Top-100 for 1,024 users": selection,
    "`surprise_top_n` on a fitted algorithm, rows in random order": own_models,
    "Fits at a million ratings": fits,
    "10 million ratings of 70,000 users and 10,700 items: top-100 lists": ten_million,
    "The 40 nearest of 17,632 items (1,892 users, 92,834 entries)": neighbours,
}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--only", default="", help="only parts whose title contains this")
    args = parser.parse_args()
    text = [
        "# Top-N lists in odd shapes",
        "",
        "Seconds, start-up not counted. *times* is reference / evalplugin: above 1, evalplugin is faster. Made by "
        "`python experiments/benchmarks/topn_shapes.py`.",
    ]
    for title, part in PARTS.items():
        if args.only not in title:
            continue
        print(f"\n{title}", flush=True)
        text += ["", f"## {title}", "", "| case | evalplugin | reference | seconds | times | note |"]
        text += ["|---|--:|---|--:|--:|---|"]
        for row in part():
            text.append(f"| {' | '.join(row.cells())} |")
            print(" | ".join(row.cells()), flush=True)
    (args.out / "topn_shapes.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
