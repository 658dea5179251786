"""The nightly example: a better challenger is promoted, a worse and an equal one are not."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mlflow import MlflowClient

from evalplugin.cli import main

NIGHTS = Path(__file__).parents[1] / "experiments" / "nightly" / "nights.py"


@pytest.fixture
def nights(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, whose nights are run in this process."""
    spec = importlib.util.spec_from_file_location("nights", NIGHTS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(folder: Path, challenger: dict[str, object]) -> dict[str, Any]:
        Path("outcome.jsonl").unlink(missing_ok=True)
        argv = ["schedule", "--once", "--if-changed", "--set", f"models.1={json.dumps(challenger)}"]
        assert main([*argv, "--outcome", "outcome.jsonl", "nightly.yaml"]) == 0
        return dict(json.loads(Path("outcome.jsonl").read_text()))

    monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(sys, "argv", ["nights.py", "."])
    return module


@pytest.mark.slow
def test_only_the_better_challenger_is_promoted(nights, capsys):
    assert nights.main() == 0
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("night ")]
    outcomes = [line.split(": ")[1].split(" in ")[0] for line in printed]
    assert outcomes == ["promote", "keep", "keep", "unchanged"]
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    # The champion stays for two nights of fresh data, with lists made from it each night.
    versions = client.search_model_versions("name='shop-recommender'")
    logged = {int(one.version): one.tags["evalplugin.outcome"] for one in versions}
    assert logged == {1: "promote", 2: "keep", 3: "keep"}
    assert len({one.tags["evalplugin.model_params"] for one in versions}) == 1
    assert str(client.get_model_version_by_alias("shop-recommender", "champion").version) == "3"
    assert "replaces popularity" in Path("notifications.txt").read_text()
    summaries = client.search_runs(
        [client.get_experiment_by_name("nightly").experiment_id], "tags.`evalplugin.role` = 'summary'"
    )
    page = Path(client.download_artifacts(summaries[0].info.run_id, "comparison.html")).read_text("utf-8")
    assert "The latest 3 bake-offs of this experiment" in page
    assert '<p class="status">Gate: keep</p>' in page
    assert main(["history", "--experiment", "nightly"]) == 0
    assert "promote" in capsys.readouterr().out
