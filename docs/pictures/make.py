"""Make the pictures of the comparison page: run a bake-off of the sample shop and take screenshots of its page.

    python docs/pictures/make.py        # needs the test extra and a Chromium

Writes verdict.png, differences.png, groups.png and people.png to its own folder.
"""

from __future__ import annotations

import os
import runpy
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import evalplugin

HERE = Path(__file__).resolve().parent
SHOP = HERE.parents[1] / "examples" / "make_shop.py"
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
PICTURES = {
    "differences": ".differences",
    "groups": ".segments",
    "people": ".people",
}  # by section of the page


def main() -> None:
    """Write the pictures."""
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    if binary is None:
        raise SystemExit("no Chromium found: install Debian's chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.chdir(folder)
        runpy.run_path(str(SHOP))
        evalplugin.compare(evalplugin.run(CONFIG)).to_html("page.html")
        chromium = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": 1000, "height": 760}, device_scale_factor=1.5)
        page.goto((Path(folder) / "page.html").as_uri())
        page.locator(".segments svg.marks path").first.wait_for()
        page.wait_for_timeout(2_000)  # charts are drawn one after another
        page.screenshot(path=HERE / "verdict.png")
        for name, section in PICTURES.items():
            page.locator(section).first.screenshot(path=HERE / f"{name}.png")
        chromium.close()


if __name__ == "__main__":
    main()
