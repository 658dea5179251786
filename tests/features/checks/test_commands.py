from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from samples import small_config, write_config

import evalplugin
from evalplugin.cli import main

TWINS = ["random", "popularity", {"name": "again", "type": "popularity"}]


def write(**changes: Any) -> str:
    write_config(small_config(**changes))
    return "shop.yaml"


def test_validate_reads_no_data_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    config = write(relevance={}, checks={"error": ["EV114"]})
    assert main(["validate", config]) == 0
    assert "EV114" not in capsys.readouterr().out


def test_validate_shows_what_checks_find_and_fails_on_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--data", write()]) == 0
    assert "shop.yaml: checks found nothing\n" in capsys.readouterr().out
    assert main(["validate", "--data", write(relevance={})]) == 0
    assert "shop.yaml: warning: EV114 tiny: relevance.threshold is not set" in capsys.readouterr().out
    assert main(["validate", "--data", write(relevance={}, checks={"error": ["EV114"]})]) == 2
    assert "shop.yaml: error: EV114 tiny: relevance.threshold is not set" in capsys.readouterr().out


def test_an_error_in_the_data_ends_a_run_before_anything_is_logged(capsys):
    config = write(relevance={}, checks={"error": ["EV114"]}, tracking={"uri": "sqlite:///mlflow.db"})
    assert main(["run", config]) == 2
    assert "error: EV114 tiny: relevance.threshold is not set" in capsys.readouterr().err
    assert main(["run", config, "--dry-run"]) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("store", "no_drawing")
def test_an_error_in_the_results_is_logged_and_registers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    from mlflow import MlflowClient

    checks = {"ignore": ["EV101"], "error": ["EV111"]}
    gated = {"gate": {"min_users": 2, "confidence": 0.5}, "register": {"name": "shop"}}
    config = write(models=TWINS, checks=checks, tracking={"uri": "sqlite:///mlflow.db"}, **gated)
    assert main(["run", config, "--outcome", "outcome.jsonl"]) == 1
    assert "nothing is registered: EV111 tiny: popularity and again list the same" in capsys.readouterr().err
    payload = json.loads(Path("outcome.jsonl").read_text())
    assert payload["outcome"] == "promote"
    assert [(one["code"], one["severity"]) for one in payload["checks"]] == [("EV111", "error")]
    assert "EV111" in payload["error"]
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    assert client.search_registered_models() == []
    (comparison,) = evalplugin.compare(tracking_uri="sqlite:///mlflow.db").comparisons
    assert [finding.code for finding in comparison.contest.findings] == ["EV111"]
