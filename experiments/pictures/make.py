"""Make the README's pictures: run configs/knn.yaml and take screenshots of it in MLflow.

    python experiments/pictures/make.py        # needs the test extra and a Chromium

Writes board.png, compare.png and page.png to its own folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SIZE = {"width": 1700, "height": 890}
PAGE_SIZE = {"width": 1400, "height": 1560}


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        output = evalplugin(folder, "run", "--wide", str(ROOT / "configs" / "knn.yaml"))
        evalplugin(folder, "compare", "--html", "page.html")
        links = dict(
            line.split(maxsplit=1) for line in output.splitlines() if line.startswith(("board", "compare"))
        )
        with mlflow_ui(Path(folder) / "mlflow.db") as base, browser() as page:
            for name, link in links.items():
                shown = three_runs(link) if name == "compare" else link
                page.goto(shown.replace("http://127.0.0.1:5000", base))
                screenshot(page, name)
            page.set_viewport_size(PAGE_SIZE)
            page.goto((Path(folder) / "page.html").as_uri())
            page.locator("svg.marks path").first.wait_for()
            page.wait_for_timeout(2_000)  # charts are drawn one after another
            page.screenshot(path=str(HERE / "page.png"))


def evalplugin(folder: str, *arguments: str) -> str:
    """Run a command in a folder and return its stdout."""
    return subprocess.run(
        [sys.executable, "-m", "evalplugin", *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


def screenshot(page: Page, name: str) -> None:
    """Wait until a page is drawn, and write its screenshot."""
    if name == "board":
        page.locator(".js-plotly-plot .barlayer path").first.wait_for()
    else:
        # One artifact at a time is shown for all runs: choose the distribution over users.
        page.get_by_text("per_user_ndcg_at_10.png", exact=True).first.dispatch_event("click")
        page.wait_for_function(
            "new Set([...document.images].filter(i => i.naturalWidth > 500).map(i => i.src)).size >= 3"
        )
        heading = page.get_by_text("Artifacts", exact=True).first
        heading.evaluate("heading => heading.scrollIntoView({block: 'center'})")
    page.wait_for_timeout(3_000)  # until the animation of charts ends
    page.screenshot(path=str(HERE / f"{name}.png"))


def three_runs(link: str) -> str:
    """Return a compare link with the best, the third and the last model alone, as more would be too small."""
    runs = re.search(r"runs=([^&]+)", link)
    assert runs is not None
    every = json.loads(unquote(runs[1]))
    return link.replace(runs[1], quote(json.dumps([every[0], every[2], every[-1]])))


@contextlib.contextmanager
def mlflow_ui(store: Path) -> Iterator[str]:
    """Serve MLflow's pages for a store on a free port; yields their address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "ui"]
    command += ["--backend-store-uri", f"sqlite:///{store}", "--port", str(port)]
    server = subprocess.Popen(command, cwd=store.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{base}/health", timeout=1)
                break
            time.sleep(0.5)
        yield base
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """Open a page in the Chromium of this machine."""
    from playwright.sync_api import sync_playwright

    binary = shutil.which("chromium") or shutil.which("google-chrome")
    if binary is None:
        raise SystemExit("no Chromium found: install Debian's chromium")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        chromium = playwright.chromium.launch(executable_path=binary, args=arguments)
        page = chromium.new_page(viewport=SIZE)
        page.set_default_timeout(60_000)
        # MLflow opens a panel of its own on the first visit.
        page.add_init_script("localStorage['mlflow.assistant.fab.autoOpenedOnFirstLoad_v1'] = 'true'")
        yield page
        chromium.close()


if __name__ == "__main__":
    main()
