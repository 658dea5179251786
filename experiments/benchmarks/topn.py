"""Fit and top-100 of every scikit-surprise algorithm: ``python topn.py [--out FOLDER] [--only TEXT]``.

Compares evalplugin with the documented way (``build_anti_testset``, ``test``, sort), which is timed on some users and
extrapolated to all by the number of pairs, and with other libraries on a job of the same size, with models of their
own. Every row is measured in its own process. Writes topn.csv, topn.md and topn.png.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import environments
import numpy as np

HERE = Path(__file__).parent
environments.PEERS.setdefault("implicit", ["implicit"])
environments.PEERS.setdefault("skrecsys", ["skrecsys"])

USER, ITEM = {"user_based": True}, {"user_based": False}
ALGORITHMS: list[tuple[str, str, dict[str, Any]]] = [
    ("KNNBasic msd user", "KNNBasic", {"sim_options": {"name": "msd", **USER}}),
    ("KNNBasic msd item", "KNNBasic", {"sim_options": {"name": "msd", **ITEM}}),
    ("KNNBasic cosine item", "KNNBasic", {"sim_options": {"name": "cosine", **ITEM}}),
    ("KNNWithMeans cosine user", "KNNWithMeans", {"sim_options": {"name": "cosine", **USER}}),
    ("KNNWithZScore pearson user", "KNNWithZScore", {"sim_options": {"name": "pearson", **USER}}),
    ("KNNWithMeans pearson item", "KNNWithMeans", {"sim_options": {"name": "pearson", **ITEM}}),
    (
        "KNNBaseline pearson_baseline item",
        "KNNBaseline",
        {"sim_options": {"name": "pearson_baseline", **ITEM}},
    ),
    ("SVD", "SVD", {"random_state": 0}),
    ("SVDpp, 1 epoch", "SVDpp", {"random_state": 0, "n_epochs": 1, "cache_ratings": True}),
    ("NMF", "NMF", {"random_state": 0}),
    ("SlopeOne", "SlopeOne", {}),
    ("CoClustering", "CoClustering", {"random_state": 0}),
    ("BaselineOnly", "BaselineOnly", {}),
]
SLOW = ("KNNBasic", "KNNWithMeans", "KNNWithZScore", "KNNBaseline", "SVDpp", "SlopeOne")  # slow pair by pair
PEERS = [
    ("evalplugin", "neighbours.item: cosine", {"type": "neighbours.item", "params": {"k": 40}}),
    ("evalplugin", "graph.rp3beta", {"type": "graph.rp3beta", "params": {"k": 40}}),
    ("evalplugin", "ease", {"type": "ease", "params": {}}),
    ("implicit", "cosine of items", {"type": "CosineRecommender"}),
    ("implicit", "ALS", {"type": "ALS"}),
    ("rectools", "cosine of items", {"type": "ItemKNN"}),
    ("rectools", "EASE", {"type": "EASE"}),
    ("skrecsys", "cosine of items", {"type": "ItemKNNRecommender", "params": {"n_neighbors": 40}}),
    ("skrecsys", "RP3beta", {"type": "RP3Beta", "params": {"n_neighbors": 40}}),
    ("skrecsys", "EASE", {"type": "EASE", "params": {}}),
    ("sklearn", "cosine of items", {}),
    ("lenskit", "item neighbours", {"users": 100}),
]


def datasets(folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield name, file and number of sampled users of each dataset."""
    from evalplugin.data import DATASETS, LoadContext

    home = os.environ.get("EVALPLUGIN_DATA_HOME")
    context = LoadContext(Path(home) if home else None, HERE, lambda text, fraction: None)
    chosen = {
        "synthetic 100k": ("synthetic", {"n_users": 943, "n_items": 1682, "n_interactions": 100_000}, 50),
        "synthetic 1M": ("synthetic", {"n_users": 6040, "n_items": 3706, "n_interactions": 1_000_000}, 10),
    }
    if home:
        chosen = {"MovieLens latest-small": ("movielens", {"version": "latest-small"}, 10), **chosen}
    for name, (kind, params, users) in chosen.items():
        data = DATASETS.create(kind, params).load(context)
        rows = np.lexsort((data.item, data.user))  # sorted by user and item, as evalplugin does for Surprise
        path = folder / f"{name.replace(' ', '-')}.npz"
        ratings = {"user": data.user[rows], "item": data.item[rows], "rating": data.rating[rows]}
        np.savez(path, **ratings, n_users=data.n_users, n_items=data.n_items)
        yield name, path, users


def run(python: str | Path, tool: str, path: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Return the costs of a job, or {"error": the last line of its stderr}."""
    command = [str(python), str(HERE / "topn_work.py"), tool, str(path), json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def measure(only: str) -> list[dict[str, Any]]:
    """Return a row for each model of each tool on each dataset."""
    rows: list[dict[str, Any]] = []

    def add(data: str, tool: str, model: str, cost: dict[str, Any], note: str = "") -> None:
        row = {
            "data": data,
            "tool": tool,
            "model": model,
            "start_s": cost.get("cold"),
            "fit_s": cost.get("fit"),
            "top100_s": cost.get("lists"),
            "peak_mb": cost.get("extrapolated_mb", cost.get("peak_mb")),
            "sampled_users": cost.get("sampled"),
            "note": cost.get("error", note),
        }
        rows.append(row)
        cells = [f"{v:.2f}" if isinstance(v, float) else str(v or "") for v in row.values()]
        print(" | ".join(cells), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        for data, path, users in datasets(Path(folder)):
            if only not in data:
                continue
            for model, name, params in ALGORITHMS:
                sampled = users * (1 if name in SLOW else 10)
                job = {"type": f"surprise.{name}", "params": params, "users": sampled}
                add(data, "evalplugin", model, run(sys.executable, "evalplugin", path, job))
                cost = run(sys.executable, "surprise", path, job)
                same = f"{cost.get('same')} of {cost.get('compared')} lists with equal scores"
                add(data, "documented way", model, cost, same)
            for tool, model, job in PEERS:
                if tool in ("evalplugin", "sklearn"):
                    python: str | Path = sys.executable
                elif problem := environments.make(tool):
                    add(data, tool, model, {"error": f"does not install: {problem}"})
                    continue
                else:
                    python = environments.python_of(tool)
                add(data, tool, model, run(python, tool, path, job))
    return rows


def as_markdown(rows: list[dict[str, Any]]) -> str:
    """Return the tables of all datasets."""
    text = [
        "# Fit and top-100 for every user",
        "",
        "Seconds. The documented way is `build_anti_testset`, `test` and a sort; it is timed on some users and "
        "extrapolated to all (`~`), as is its memory. *times* is documented / evalplugin: for the lists alone, the "
        "fit (which starts from a table of ratings), and both. Where evalplugin leaves the fit to Surprise, both fits "
        "are the same work. Start is what imports and loading compiled code cost once a process. Made by "
        "`python experiments/benchmarks/topn.py`.",
    ]
    for data in dict.fromkeys(row["data"] for row in rows):
        of_data = [row for row in rows if row["data"] == data]
        text += [
            "",
            f"## {data}",
            "",
            "| model | fit | top-100 | peak MB | start | documented fit | documented top-100 | peak MB "
            "| times lists | times fit | times in all |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        documented = {row["model"]: row for row in of_data if row["tool"] == "documented way"}
        for row in of_data:
            if row["tool"] != "evalplugin" or row["model"] not in documented:
                continue
            other = documented[row["model"]]
            if row["fit_s"] is None or other["fit_s"] is None:
                text.append(f"| {row['model']} | {row['note']} | {other['note']} " + "| " * 8 + "|")
                continue
            text.append(
                f"| {row['model']} | {row['fit_s']:.2f} | {row['top100_s']:.2f} | {row['peak_mb']:.0f} "
                f"| {row['start_s']:.1f} | {other['fit_s']:.1f} | ~{other['top100_s']:.0f} | ~{other['peak_mb']:.0f} "
                f"| {other['top100_s'] / row['top100_s']:.0f} | {other['fit_s'] / row['fit_s']:.1f} "
                f"| {(other['fit_s'] + other['top100_s']) / (row['fit_s'] + row['top100_s']):.0f} |"
            )
        text += [
            "",
            "| models other than Surprise's | fit | top-100 | peak MB |",
            "|---|--:|--:|--:|",
        ]
        for row in of_data:
            if row["model"] in documented:
                continue
            if row["fit_s"] is None:
                text.append(f"| {row['tool']}: {row['model']} | {row['note']} | | |")
                continue
            about = "~" if row["sampled_users"] else ""
            text.append(
                f"| {row['tool']}: {row['model']} | {row['fit_s']:.2f} | {about}{row['top100_s']:.2f} "
                f"| {row['peak_mb']:.0f} |"
            )
    return "\n".join(text) + "\n"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw fit and top-100 of the largest dataset, both ways and other libraries."""
    from matplotlib.figure import Figure

    from evalplugin.models import thread_count

    data = rows[-1]["data"]
    measured = [row for row in rows if row["data"] == data and row["fit_s"] is not None]
    models = [row["model"] for row in measured if row["tool"] == "evalplugin"]
    peers = [row for row in measured if row["tool"] not in ("evalplugin", "documented way")]
    figure = Figure(figsize=(9, 0.46 * (len(models) + len(peers)) + 1.4), layout="constrained")
    axes = figure.add_subplot()
    labels = []
    colours = {"evalplugin": "#0072B2", "documented way": "#D55E00"}

    def bar(y: float, row: dict[str, Any], colour: str, label: str | None) -> None:
        seconds = row["fit_s"] + row["top100_s"]
        axes.barh(y, seconds, height=0.36, color=colour, label=label)
        axes.text(seconds * 1.08, y, f"{seconds:,.1f} s", va="center", fontsize=7)

    for y, model in enumerate(models):
        labels.append(model)
        for tool, shift in (("documented way", -0.19), ("evalplugin", 0.19)):
            for row in measured:
                if row["model"] == model and row["tool"] == tool:
                    bar(y + shift, row, colours[tool], tool if y == 0 else None)
    for y, row in enumerate(peers, start=len(models)):
        labels.append(f"{row['tool']}: {row['model']}")
        bar(y, row, "#7F7F7F", "other libraries, models of their own" if y == len(models) else None)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.12, y=0.01)
    axes.set_xlim(left=0.5)
    axes.set_xlabel("seconds for fit and top-100 of every user (log scale)")
    title = f"{data}, {thread_count()} cores; the documented way extrapolated from some users"
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--only", default="", help="only datasets whose name contains this")
    args = parser.parse_args()
    rows = measure(args.only)
    with (args.out / "topn.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (args.out / "topn.md").write_text(as_markdown(rows))
    draw(rows, args.out / "topn.png")


if __name__ == "__main__":
    main()
