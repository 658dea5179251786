"""Packages that are not installed: of a model, and the one that draws pictures."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient
from samples import small_config, write_config

from evalplugin.cli import main
from evalplugin.report.charts import pictures

MISSING = """
from dataclasses import dataclass
from typing import ClassVar
import evalplugin

@evalplugin.model("absent")
@dataclass
class Absent:
    requires: ClassVar = ("no_such_package",)

    def fit(self, train, rng): ...

    def scores(self, users): ...
"""


@pytest.mark.parametrize("command", ["data", "validate", "run"])
def test_a_model_whose_package_is_missing_is_refused(command, capsys):
    Path("absent.py").write_text(MISSING)
    config = write_config(small_config(plugins=["absent.py"], models=["random", "absent"], compare={}))
    assert main([command, config]) == 2
    assert "absent needs the package no_such_package" in " ".join(capsys.readouterr().err.split())


def test_without_the_extra_pictures_a_bake_off_says_what_it_lacks(store, capsys, monkeypatch) -> None:
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    config = small_config(tracking={"uri": "sqlite:///mlflow.db"})
    assert main(["run", write_config(config)]) == 0
    assert "note: runs in MLflow have no pictures" in (said := capsys.readouterr().err)
    assert "pip install vl-convert-python (in a clone of evalplugin: pip install -e '.[pictures]')" in said
    client = MlflowClient("sqlite:///mlflow.db")
    runs = client.search_runs(["1"], "tags.`evalplugin.role` = 'model'")
    assert runs
    for run in runs:
        files = {file.path for file in client.list_artifacts(run.info.run_id)}
        assert not [file for file in files if file.endswith(".png")]
        summary = Path(client.download_artifacts(run.info.run_id, "summary.md")).read_text()
        assert "vl-convert-python, which is not installed" in summary


def test_without_the_extra_pictures_a_chart_of_the_history_is_refused(capsys, monkeypatch) -> None:
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    assert main(["history", "--experiment", "toy", "--chart", "trend.png"]) == 2
    assert "trend.png: pictures (PNG, SVG) need the package vl-convert-python" in capsys.readouterr().err
