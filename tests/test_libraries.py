"""``configs/libraries.yaml``: models of several libraries in one bake-off, with the numbers that its page shows."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import evalplugin
from evalplugin.cli import main
from evalplugin.features.config import load

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "libraries.yaml"
PAGE = ROOT / "docs" / "howto" / "libraries.md"
MOVIELENS = "datasets=[{name: ml-latest-small, type: movielens, version: latest-small}]"
HAS_LENSKIT = importlib.util.find_spec("lenskit") is not None


def means_of(config: object, **options: Any) -> dict[str, float]:
    result = evalplugin.run(config, **options)
    assert not result.failed
    return {model.model: model.per_user.means["ndcg@10"] for model in result.models if model.per_user}


def on_page(command: str) -> dict[str, float]:
    """Return the column ndcg@10 of the table that follows a command on the page."""
    text = PAGE.read_text()
    table = text[text.index(command) :].partition("```text\n")[2].partition("```")[0]
    rows = re.findall(r"^ \d +([\w-]+)(?: \(baseline\))? +(\d\.\d+)", table, re.MULTILINE)
    return {name: float(value) for name, value in rows}


def test_a_library_that_is_missing_is_one_error_with_the_command(monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "lenskit" else found(name, *rest)
    )
    assert main(["run", str(CONFIG)]) == 2
    assert re.search(
        r"libraries.yaml:\d+:\d+: models\[4\].type: lenskit.ItemKNNScorer needs the package lenskit, "
        r"which is not installed: pip install lenskit \(in a clone of evalplugin: pip install -e '\.\[lenskit\]'\)",
        " ".join(capsys.readouterr().err.split()),
    )


@pytest.mark.slow
@pytest.mark.skipif(not HAS_LENSKIT, reason="needs LensKit: nox -s lenskit")
def test_models_of_all_libraries_run_in_one_bakeoff():
    means = means_of(CONFIG)
    assert len(means) == len(load(CONFIG).models)
    # Other processors round otherwise; a difference beyond this would be one of the models.
    assert means == pytest.approx(on_page("run configs/libraries.yaml\n"), abs=0.003)


@pytest.mark.slow
@pytest.mark.skipif(
    "EVALPLUGIN_DATA_HOME" not in os.environ,
    reason="EVALPLUGIN_DATA_HOME is not set: no real ratings to test on",
)
def test_on_real_ratings_the_order_of_models_is_that_of_the_literature():
    config = yaml.safe_load(CONFIG.read_text())
    config["models"] = [
        model for model in config["models"] if HAS_LENSKIT or "lenskit" not in yaml.safe_dump(model)
    ]
    means = means_of(config, overrides=[MOVIELENS])
    for name in ("ease", "als", "item-neighbours"):
        assert means[name] > 1.3 * means["popularity"], name
    assert means["svd"] < 0.6 * means["popularity"]
    shown = on_page(f"--set '{MOVIELENS}'")
    assert means == pytest.approx({name: shown[name] for name in means}, abs=0.005)
