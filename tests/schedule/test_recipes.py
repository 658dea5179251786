"""Recipes for other schedulers on the page of schedules, checked by the programs that read them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "schedules.md"


def write_recipe(name: str) -> str:
    """Write a file of the page into the working directory; return its name."""
    before = rf"(?::caption: {re.escape(name)}\n|`{re.escape(name)}`:\n\n```)\n"
    block = re.search(before + "(.*?)```", PAGE.read_text(), re.DOTALL)
    file = Path(name).name
    # The programs look for the interpreter and the folder.
    text = (
        block[1].replace("/srv/shop/.venv/bin/python", sys.executable).replace("/srv/shop", str(Path.cwd()))
    )
    Path(file).write_text(text)
    return file


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to be asked")
def test_systemd_accepts_the_units() -> None:
    files = [write_recipe("evalplugin.service"), write_recipe("evalplugin.timer")]
    done = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_github_schema_accepts_the_workflow() -> None:
    file = write_recipe(".github/workflows/nightly.yml")
    linter = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", file]
    done = subprocess.run(linter, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
