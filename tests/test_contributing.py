"""Each page for contributors shows a change of the code that applies, is small, and passes the checks that it names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "contributing").glob("*.md"))


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def install(folder: Path) -> None:
    """Write the metadata of the package that is imported from a folder, as `pip install -e .` does."""
    points = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]
    info = folder / "evalplugin-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evalplugin\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "\n".join(
            f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in named.items())
            for group, named in points.items()
        )
    )


def test_there_is_a_page_for_each_kind_of_change() -> None:
    assert [page.stem for page in PAGES] == ["engine", "feature", "library", "metric", "split"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_change_touches_at_most_four_files(page: Path) -> None:
    files = re.findall(r"^\+\+\+ b/(.+)$", "".join(blocks(page, "diff")), re.MULTILINE)
    assert 1 < len(files) == len(set(files)) <= 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.cluster] * (page.stem == "engine"), id=page.stem)
        for page in PAGES
    ],
)
def test_a_change_applies_and_passes_its_checks(page: Path, tmp_path: Path) -> None:
    for name in ("evalplugin", "tests", "docs"):
        ignore = shutil.ignore_patterns("_build", "pictures")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    # Outside of any repository: what git applies is relative to the folder.
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}

    def run(*words: str, given: str | None = None) -> None:
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"

    run("git", "apply", "-", given="".join(blocks(page, "diff")))
    install(tmp_path)
    run(sys.executable, "-m", "ruff", "check", "evalplugin", "tests")
    run(sys.executable, "-m", "ruff", "format", "--check", "evalplugin", "tests")
    (commands,) = blocks(page, "sh")
    for command in commands.splitlines():
        if command != "pip install -e .":
            program, *arguments = shlex.split(command)
            assert program == "python"
            run(sys.executable, *arguments)
