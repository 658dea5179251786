"""Every command and example of the README does what the README says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evalplugin.base.errors import ConfigError
from evalplugin.cli import main
from evalplugin.features.config import load

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def block(language: str, holding: str) -> str:
    (found,) = [text for text in blocks(language) if holding in text]
    return found


@pytest.fixture(autouse=True)
def _clone() -> None:
    """What the README's commands find in a clone of the repository."""
    shutil.copytree(ROOT / "configs", "configs")


@pytest.fixture
def example() -> Path:
    """The README's config, with the files that it names."""
    (model,) = re.findall(
        r":caption: half_life.py\n\n(.*?)^```",
        (ROOT / "docs" / "howto" / "model.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    Path("half_life.py").write_text(model)
    Path("ratings").mkdir()
    generator = np.random.default_rng(0)
    pairs = generator.permutation(60 * 150)[:3000]
    ratings = pd.DataFrame(
        {"user_id": pairs // 150, "item_id": pairs % 150, "stars": generator.integers(1, 6, 3000)}
    )
    ratings["time"] = generator.integers(1_600_000_000, 1_700_000_000, 3000)
    ratings[:2000].to_csv("ratings/a.csv", index=False)
    ratings[2000:].to_csv("ratings/b.csv", index=False)
    file = Path("mine.yaml")
    file.write_text(block("yaml", "experiment: my-bake-off"))
    return file


def numbers(text: str) -> list[tuple[str, float]]:
    """Return the models of the result tables and the means behind them, leaving out what takes time or memory."""
    found = []
    for line in text.splitlines():
        if row := re.match(r" *\d+ +(\S+)(?: \(baseline\))? +(?=[0-9–])(.*)", line):
            if " s " in line:
                continue
            means = re.findall(r"(?<![\d.–])(\d\.\d{4})(?!\d*–)", row[2])
            found += [(row[1], float(mean)) for mean in means]
    return found


def test_it_fits_on_a_few_screens() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.slow
def test_the_first_command_ends_with_the_output_that_is_shown() -> None:
    first = block("sh", "evalplugin run")
    command = first.strip().rsplit("&& ", 1)[1]
    assert first.startswith("python3 -m venv .venv && .venv/bin/pip install . && ")
    assert command == ".venv/bin/python -m evalplugin run configs/knn.yaml"
    command, environment = (
        [sys.executable, *shlex.split(command)[1:]],
        {**os.environ, "PYTHONPATH": str(ROOT)},
    )
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    shown, real = numbers(block("text", "item-neighbours")), numbers(printed)
    assert len(shown) == 7 * 4
    assert [name for name, _ in shown] == [name for name, _ in real]
    np.testing.assert_allclose([mean for _, mean in shown], [mean for _, mean in real], atol=2e-3)
    ends = [text.strip().splitlines()[-5:-1] for text in (block("text", "item-neighbours"), printed)]
    assert ends[0][0].startswith("item-neighbours is the best: its ndcg@10 is ")
    words = {re.sub(r"\d+(\.\d+)?", "#", "\n".join(lines)) for lines in ends}
    assert len(words) == 1


def test_the_second_command_runs_the_tests() -> None:
    second = block("sh", "pytest")
    assert second.strip().endswith(
        ".venv/bin/pip install -q -e '.[test]' && .venv/bin/python -m pytest -q -n 2"
    )


COMMANDS = re.findall(r"`python -m (evalplugin [^`]*)`", README)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, no_drawing: None) -> Path:
    """A clone in which the first command was run, on less data than the config of that command has."""
    clone = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "configs", clone / "configs")
    file = clone / "configs" / "knn.yaml"
    size = "n_users: 1000, n_items: 1700, n_interactions: 100000"
    assert size in file.read_text()
    file.write_text(file.read_text().replace(size, "n_users: 100, n_items: 170, n_interactions: 5000"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(clone)
        assert main(["run", "configs/knn.yaml"]) == 0
    return clone


@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_a_command_works(command: str, clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # In a folder where the first command was run: what it computed is not computed again.
    shutil.copytree(clone, ".", dirs_exist_ok=True)
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out


def test_there_are_commands_to_test() -> None:
    assert len(set(COMMANDS)) >= 4


def test_the_example_config_runs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(example)]) == 0
    out = capsys.readouterr().out
    for model in ("popularity (baseline)", "knn(k=10)", "knn(k=40)", "recent"):
        assert model in out
    assert re.search(r"is the best|[Nn]o model|beats? popularity", out)
    assert out.splitlines()[-1].startswith("page     python -m evalplugin open ")


def test_the_example_of_a_mistake_is_what_is_told(example: Path) -> None:
    example.write_text(example.read_text().replace("days: 30", "day: 30"))
    with pytest.raises(ConfigError) as caught:
        load(example)
    assert str(caught.value) == block("text", "did you mean").strip()


def test_the_example_from_python_works(capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("python", "evalplugin.run("), {})
    out = capsys.readouterr().out
    assert re.search(r"^0 +ndcg@10 +knn +0\.\d+", out, re.MULTILINE)
    assert "viewStateShareKey" in out


def test_the_headline_numbers_are_those_that_were_measured() -> None:
    found = re.search(r"<!-- HEADLINES -->\n(.*?)<!-- end -->", README, re.DOTALL)
    rows = [line for line in found[1].splitlines() if " s " in line]
    assert len(rows) == 5
    tables = [(ROOT / f"experiments/benchmarks/{name}.md").read_text() for name in ("metrics", "topn")]
    large = (ROOT / "experiments/benchmarks/scale.md").read_text().partition("## large")[2]
    own, by_hand = re.search(r"\*\*total\*\* \| (\d+) [^|]*\| (\d+) ", large).groups()
    common, rectools = re.search(r"that RecTools lacks\*\* \| (\d+) [^|]*\|[^|]*\| (\d+) ", large).groups()
    assert f"| {common} s | {rectools} s by RecTools" in rows.pop()
    assert f"| {own} s | {by_hand} s by a script" in rows.pop()
    lines = "\n".join(tables).splitlines()
    # A row of a library, and the three above it: evalplugin's own is among them.
    measured = [set(re.findall(r"[\d.,]+", " ".join(lines[end - 4 : end]))) for end in range(4, len(lines))]
    for row in rows:
        seconds = re.findall(r"([\d.]+) s", row) + re.findall(r"([\d.]+) \|$", row)
        assert any(set(seconds) <= numbers for numbers in measured), row
