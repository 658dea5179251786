"""Make the README's picture: run configs/knn.yaml and take a screenshot of its page.

    python experiments/pictures/make.py        # needs the test extra and a Chromium

Writes page.png to its own folder.
"""

from __future__ import annotations

import contextlib
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

import evalplugin

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SIZE = {"width": 1400, "height": 1560}


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), browser() as page:
        outcome = evalplugin.run(ROOT / "configs" / "knn.yaml", tracking_uri="sqlite:///mlflow.db")
        page.goto(outcome.to_html(Path(folder) / "page.html").as_uri())
        page.locator("svg.marks path").first.wait_for()
        page.wait_for_timeout(2_000)  # charts are drawn one after another
        page.screenshot(path=str(HERE / "page.png"))


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
