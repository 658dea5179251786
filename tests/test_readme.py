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
from evalplugin.config import load
from evalplugin.testing import check_recommender

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
    Path("my_model.py").write_text(block("python", "# my_model.py"))
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


@pytest.mark.slow
def test_the_first_command_ends_with_the_output_that_is_shown() -> None:
    first = block("sh", "evalplugin run")
    command = first.strip().rsplit("&& ", 1)[1]
    assert first.startswith("python3 -m venv .venv && .venv/bin/pip install -q . && ")
    assert command == ".venv/bin/python -m evalplugin run configs/knn.yaml"
    printed = subprocess.run(
        [sys.executable, *shlex.split(command)[1:]],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout
    shown, real = numbers(block("text", "item-neighbours")), numbers(printed)
    assert len(shown) == 7 * 5
    real = real[: len(shown)]  # the README leaves out the tables behind the first one
    assert [name for name, _ in shown] == [name for name, _ in real]
    np.testing.assert_allclose([mean for _, mean in shown], [mean for _, mean in real], atol=2e-3)
    ends = [text.strip().splitlines()[-1] for text in (block("text", "item-neighbours"), printed)]
    assert ends[0].startswith("item-neighbours wins by ndcg@10: +")
    words = {re.sub(r"\d+(\.\d+)?", "#", line) for line in ends}
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
    assert len(set(COMMANDS)) >= 6


def test_the_example_config_runs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(example)]) == 0
    out = capsys.readouterr().out
    for model in ("popularity (baseline)", "knn(k=10)", "knn(k=40)", "recent"):
        assert model in out
    assert re.search(
        r"(wins|is ahead|No model beats the baseline popularity) by ndcg@10", out.splitlines()[-1]
    )


def test_the_example_of_a_mistake_is_what_is_told(example: Path) -> None:
    example.write_text(example.read_text().replace("half_life: 30", "halflife: 30"))
    with pytest.raises(ConfigError) as caught:
        load(example)
    assert str(caught.value) == block("text", "did you mean").strip()


def test_the_example_of_segments_is_valid(example: Path) -> None:
    pd.DataFrame({"user_id": range(60), "age": 20}).to_csv("people.csv", index=False)
    example.write_text(example.read_text() + block("yaml", "segments:"))
    assert [s.name for s in load(example).segments] == ["activity", "age"]


def test_the_example_of_a_gate_is_valid(example: Path) -> None:
    example.write_text(example.read_text() + block("yaml", "gate:"))
    spec = load(example).spec
    assert spec.gate is not None
    assert spec.registered is not None and spec.registered.name == "shop-recommender"
    assert spec.schedule is not None and spec.schedule.cron == "0 3 * * *"


@pytest.mark.filterwarnings("ignore::Warning:mlflow")  # of MLflow's own calls
@pytest.mark.filterwarnings("ignore:_ImportHookChainedLoader:ImportWarning")
def test_the_example_of_mlflows_evaluate_works(capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("python", "mlflow.models.evaluate("), {})
    assert "0.5436" in capsys.readouterr().out


def test_the_example_model_keeps_the_contract(example: Path) -> None:
    load(example)
    check_recommender("decayed-popularity")


def test_the_example_from_python_works(capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("python", "evalplugin.run("), {})
    out = capsys.readouterr().out
    assert re.search(r"^knn 0\.\d+$", out, re.MULTILINE)
    assert "viewStateShareKey" in out


def test_what_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.fixture
def lists_and_truth() -> None:
    """The files that the README's examples of scoring name."""
    generator = np.random.default_rng(0)
    user, rank = np.repeat(np.arange(50), 100), np.tile(np.arange(1, 101), 50)
    item = np.concatenate([generator.permutation(300)[:100] for _ in range(50)])
    pd.DataFrame({"user": user, "item": item, "rank": rank}).to_parquet("lists.parquet")
    pd.DataFrame({"user": user, "item": item}).groupby("user").sample(5, random_state=1).to_parquet(
        "truth.parquet"
    )


def test_the_example_of_scoring_from_python_works(
    lists_and_truth: None, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    exec(block("python", "evalplugin.score("), names)
    assert set(names["scores"].means) == {"ndcg@10", "ap(denominator=hits)@100"}  # type: ignore[attr-defined]
    assert "ndcg@10" in capsys.readouterr().out


def test_the_example_of_scoring_from_the_shell_works(
    lists_and_truth: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(block("sh", "evalplugin score"))[3:]) == 0
    assert "ap@100" in capsys.readouterr().out


def test_the_example_of_lists_from_surprise_works() -> None:
    generator = np.random.default_rng(0)
    pairs = generator.permutation(30 * 40)[:500]
    ratings = pd.DataFrame({"user": pairs // 40, "item": pairs % 40, "rating": generator.integers(1, 6, 500)})
    names: dict[str, object] = {"ratings": ratings}
    exec(block("python", "surprise_top_n"), names)
    lists = names["lists"]
    assert list(lists.columns) == ["user", "item", "rank", "score"]  # type: ignore[attr-defined]
    assert len(lists) == 30 * 40 - 500  # type: ignore[arg-type]


def test_the_example_metric_works() -> None:
    from evalplugin.metrics import evaluate

    exec(block("python", "first-hit"), {"__name__": "example"})
    assert evaluate("first-hit@1", lists=[["a", "b"], ["b", "a"]], truth=[{"a": 1.0}, {"a": 1.0}]) == [
        1.0,
        0.0,
    ]


@pytest.mark.parametrize("name", ["METRICS_BENCHMARK", "TOPN_BENCHMARK"])
def test_the_benchmark_numbers_are_those_that_were_measured(name: str) -> None:
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", README, re.DOTALL)
    assert found is not None
    rows = [line for line in found[1].splitlines() if re.match(r"\| .*\d", line)]
    measured = "".join(file.read_text() for file in (ROOT / "experiments" / "benchmarks").glob("*.md"))
    assert len(rows) >= 5
    assert [row for row in rows if f"{row}\n" not in measured] == []


def test_the_page_on_caching_shows_a_valid_config_and_what_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "docs" / "caching.md").read_text()
    (models,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    plugin = """
from dataclasses import dataclass
import evalplugin

@evalplugin.model("vendor-lists")
@dataclass
class VendorLists:
    top: int

    def fit(self, train, rng): ...
    def scores(self, users): ...
"""
    Path("vendor.py").write_text(plugin)
    Path("vendor").mkdir()
    Path("vendor/lists.parquet").write_bytes(b"lists")
    head = (
        "experiment: e\nplugins: [vendor.py]\ndatasets: [blobs]\nsplit: {type: last_n}\nmetrics: [ndcg@10]\n"
    )
    Path("shop.yaml").write_text(head + models)
    assert main(["validate", "shop.yaml"]) == 0
    (vendor,) = load(Path("shop.yaml")).models
    assert vendor.inputs == (
        "vendor/lists.parquet",
        "models:/shop-recommender@champion",
        "env:FEATURES_VERSION",
    )
    assert main(["describe", "model", "vendor-lists", "--plugin", "vendor.py"]) == 0
    assert "(docs/caching.md)" in capsys.readouterr().out
    for command in re.findall(r"`(?:python -m evalplugin )?((?:cache|run) [^`]*)`", page):
        name = command.split()[: 2 if command.startswith("cache") else 1]
        assert main([*name, "--help"]) == 0
        assert all(option in capsys.readouterr().out for option in command.split() if option.startswith("--"))
