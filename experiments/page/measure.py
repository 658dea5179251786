"""Measure the comparison page of a large bake-off: seconds to make it, its size, seconds to draw it.

    python experiments/page/measure.py [MODELS USERS METRICS]      # 10 100000 10; needs the test extra and a Chromium

Prints one table. The scores and lists are random: nothing is fitted.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.comparison import compare
from evalplugin.data.background import Background
from evalplugin.execution.results import Costs
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.competition import Competition, ModelFacts, Rules
from evalplugin.report.page import comparison_page
from evalplugin.segments import Segmentation

FAMILIES = ("ndcg", "recall", "precision", "ap", "hit", "rr", "f1", "dcg")
N, N_ITEMS, TRUTH, HISTORY = 10, 20_000, 5, 20


def main(models: int, users: int, metrics: int) -> None:
    """Print the measurements."""
    contest = random_contest(models, users, metrics)
    started = time.perf_counter()
    comparison = compare(contest)
    _ = comparison.segments
    compared = time.perf_counter()
    page = comparison_page([comparison])
    made = time.perf_counter()
    print(f"{models} models x {users:,} users x {metrics} metrics")
    print(f"  compare        {compared - started:6.2f} s")
    print(f"  make the page  {made - compared:6.2f} s")
    print(f"  size           {len(page.encode()) / 1e6:6.2f} MB")
    print(f"  open and draw  {opening_seconds(page):6.2f} s (median of 5, in a warm Chromium)")


def random_contest(models: int, users: int, metrics: int, seed: int = 0) -> Competition:
    """Return a contest with skewed scores, many of them 0, and lists that hold some of the truth."""
    rng = np.random.default_rng(seed)
    names = [f"{family}@{k}" for k in (10, 5, 1) for family in FAMILIES][:metrics]
    ids = np.arange(users)
    truth = rng.integers(0, N_ITEMS, (users, TRUTH)) // TRUTH * TRUTH + np.arange(TRUTH)  # no item twice
    models, facts = [], {}
    for number in range(models):
        strength = rng.beta(1, 3, (users, 1)) * (0.6 + 0.05 * number)
        nonzero = rng.random((users, metrics)) < 0.4
        values = np.where(nonzero, rng.beta(2, 4, (users, metrics)) * strength, 0.0)
        values[rng.random(users) < 0.05] = np.nan
        few = users <= N_ITEMS
        first = rng.permutation(N_ITEMS)[:users, None] if few else rng.integers(0, N_ITEMS, (users, 1))
        lists = (first + np.arange(N) * 7) % N_ITEMS
        found = rng.random(users) < 0.3
        lists[found, 0] = truth[found, 0]
        scores = PerUserScores(
            units=Units(ids),
            values=values,
            metrics=tuple(names),
            at_k={family: {k: 0.01 * k * (1 + number) for k in (1, 3, 5, 10)} for family in FAMILIES},
            pr_curve={p: (1 + number) / (10 + p) for p in range(0, 101, 10)},
        )
        top_n = pa.table(
            {
                "user": np.repeat(ids, N),
                "item": lists.ravel(),
                "rank": np.tile(np.arange(1, N + 1), users),
                "score": rng.random(users * N),
            }
        )
        costs = Costs(2.0**number, 3.0 + number, 1.0, 500.0 + 100 * number)
        models.append(ComparedModel(f"model-{number}", scores, (scores.means,)))
        facts[f"model-{number}"] = ModelFacts("random", costs, partial(pa.Table.slice, top_n))
    groups = Segmentation("activity", ("low", "middle", "high"), ids, (ids % 3).astype(np.int32))
    return Competition(
        name="measured",
        dataset="random",
        split="",
        models=tuple(models),
        metrics=tuple(names),
        baseline="model-0",
        seed=seed,
        digest="t" * 64,
        facts=facts,
        rules=Rules(None, "t" * 64, N, "all", 4.0, "m" * 64),
        segments=(groups,),
        background=Background(
            truth=rated(ids, truth, rng),
            history=rated(ids, rng.integers(0, N_ITEMS, (users, HISTORY)), rng),
            titles={i: f"The title of item {i}, a film of {1950 + i % 70}" for i in range(N_ITEMS)},
        ),
    )


def rated(ids: np.ndarray, items: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """Return items of users with ratings of 1 to 5."""
    return pa.table(
        {
            "user": np.repeat(ids, items.shape[1]),
            "item": items.ravel(),
            "rating": rng.integers(1, 6, items.size).astype(np.float32),
        }
    )


def opening_seconds(page: str) -> float:
    """Return the seconds that Chromium takes from opening the file until everything is drawn."""
    from playwright.sync_api import sync_playwright

    binary = shutil.which("chromium") or shutil.which("google-chrome")
    if binary is None:
        raise SystemExit("no Chromium found: install Debian's chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "comparison.html"
        file.write_text(page, encoding="utf-8")
        chromium = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox", "--disable-gpu"])
        seconds = []
        for _ in range(6):
            tab = chromium.new_page(viewport={"width": 1400, "height": 900})
            started = time.perf_counter()
            tab.goto(file.as_uri())
            tab.locator("html[data-ready=yes]").wait_for()
            seconds.append(time.perf_counter() - started)
            tab.close()
        chromium.close()
    return float(np.median(seconds[1:]))


if __name__ == "__main__":
    main(*(map(int, sys.argv[1:]) if len(sys.argv) == 4 else (10, 100_000, 10)))
