"""Make the pictures of the documentation: run bake-offs and take screenshots of their pages.

    python docs/pictures/make.py              # needs the extras test and lenskit, and a Chromium
    python docs/pictures/make.py shop tuned   # some of shop, tuned and libraries

Writes to its own folder. shop: verdict.png, differences.png, groups.png, hit_rates.png, people.png and data.png of the
page, and of MLflow run.png, board.png, side_by_side.png and models.png, which is the tab Models; tuned and libraries:
the head of the page of the config of this name, and of tuned the pictures of the study of one model.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

import mlflow
from playwright.sync_api import Page, sync_playwright

import evalplugin

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLUMNS = {"user": "user_id", "item": "item_id", "rating": "stars", "timestamp": "time"}
CONFIG = {
    "experiment": "shop",
    "datasets": [
        {
            "name": "shop", "type": "csv", "path": "ratings.csv", **COLUMNS,
            "items": {"path": "items.csv", "item": "item_id", "title": "name"},
        }
    ],
    "split": {"type": "last_n", "n": 3},
    "relevance": {"threshold": 4},
    "recommend": {"n": 20},
    "metrics": ["ndcg@10", "recall@10"],
    "models": ["random", "popularity", {"name": "neighbours", "type": "sklearn.NearestNeighbors"}],
    "compare": {"baseline": "popularity"},
}  # fmt: skip
ui = runpy.run_path(str(ROOT / "experiments" / "pictures" / "make.py"))["mlflow_ui"]
PICTURES = {
    "differences": ".differences",
    "groups": ".segments",
    "hit_rates": ".hit-rates",
    "people": ".people",
    "data": ".card",
}  # by part of the page


def main() -> None:
    """Write the pictures."""
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    if binary is None:
        raise SystemExit("no Chromium found: install Debian's chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.chdir(folder)
        chromium = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": 1000, "height": 760}, device_scale_factor=1.5)
        page.set_default_timeout(240_000)
        # MLflow opens a panel of its own on the first visit.
        page.add_init_script("localStorage['mlflow.assistant.fab.autoOpenedOnFirstLoad_v1'] = 'true'")
        for name in sys.argv[1:] or ["shop", "tuned", "libraries"]:
            shop(page) if name == "shop" else of_config(name, page)
        chromium.close()


def shop(page: Page) -> None:
    """Write the sections of the page of the sample shop."""
    runpy.run_path(str(ROOT / "examples" / "make_shop.py"))
    outcome = evalplugin.run(CONFIG)
    show(outcome.to_html("page.html"), page)
    page.screenshot(path=HERE / "verdict.png")
    for name, part in PICTURES.items():
        if name != "differences":
            page.locator(f"{part} > summary").click()
            page.wait_for_timeout(2_000)  # charts are drawn one after another
        page.locator(part).first.screenshot(path=HERE / f"{name}.png")

    with ui(Path("mlflow.db")) as address:
        size = page.viewport_size
        page.set_viewport_size({"width": 1280, "height": 800})
        links = outcome.links
        page.goto(f"{address}/#/experiments/1/runs/{links.compared[0]}?workflowType=machine_learning")
        page.get_by_text("evalplugin.model").first.wait_for()
        page.wait_for_timeout(3_000)
        page.screenshot(path=HERE / "run.png")
        page.goto(links.board_url.replace("http://127.0.0.1:5000", address))
        page.locator(".js-plotly-plot .scatterlayer path.js-line").first.wait_for()
        page.wait_for_timeout(3_000)  # until the animation of charts ends
        page.screenshot(path=HERE / "board.png", clip={"x": 0, "y": 0, "width": 1280, "height": 690})
        page.goto(links.compare_url.replace("http://127.0.0.1:5000", address))
        # One artifact at a time is shown for all runs.
        page.get_by_text("per_user_ndcg_at_10.png", exact=True).first.dispatch_event("click")
        page.wait_for_function(
            "new Set([...document.images].filter(i => i.naturalWidth > 500).map(i => i.src)).size >= 3"
        )
        heading = page.get_by_text("Artifacts", exact=True).first
        heading.evaluate("heading => heading.scrollIntoView()")
        page.wait_for_timeout(1_000)
        page.screenshot(path=HERE / "side_by_side.png", clip={"x": 0, "y": 0, "width": 1280, "height": 310})

        page.set_viewport_size({"width": 1500, "height": 380})
        page.goto(f"{address}/#/experiments/1/models?workflowType=machine_learning")
        page.get_by_text("Ready").first.wait_for()
        page.wait_for_timeout(3_000)  # the columns come one after another
        scroll = "document.querySelectorAll('.ag-body-horizontal-scroll-viewport').forEach(e => e.scrollLeft = 605)"
        page.evaluate(scroll)  # to the columns of metrics
        page.wait_for_timeout(1_000)
        page.screenshot(path=HERE / "models.png")
        page.set_viewport_size(size)


def of_config(name: str, page: Page) -> None:
    """Write the head of the page of a config, and the pictures of the study of its first tuned model."""
    outcome = evalplugin.run(ROOT / "configs" / f"{name}.yaml", tracking_uri="sqlite:///mlflow.db")
    show(outcome.to_html(f"{name}.html"), page)
    page.screenshot(path=HERE / f"{name}.png")
    if all(result.tuning is None for result in outcome.models):
        return
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    tuned = "metrics.`tune/seconds` > 0"
    runs = mlflow.search_runs(experiment_names=[name], filter_string=tuned, order_by=["start_time"])
    for picture in ("tune_history.png", "tune_importance.png"):
        mlflow.artifacts.download_artifacts(
            run_id=runs["run_id"][0], artifact_path=picture, dst_path=str(HERE)
        )


def show(file: str | Path, page: Page) -> None:
    """Open a comparison page, and wait until its charts are drawn."""
    page.goto(Path(file).resolve().as_uri())
    page.locator(".differences svg.marks path").first.wait_for()
    page.wait_for_timeout(2_000)  # one after another


if __name__ == "__main__":
    main()
