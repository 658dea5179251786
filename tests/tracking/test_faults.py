"""Bake-offs on PostgreSQL and S3: whole, and while the tracking server or the object storage fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from fault_proxy import FaultProxy, fault_proxy
from mlflow import MlflowClient
from samples import small_config
from servers import Server

from evalplugin.cli import main
from evalplugin.tracking.read.contests import read_contests, with_lists

pytestmark = pytest.mark.server


@pytest.fixture
def tracking(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """A proxy in front of the MLflow server; MLflow's client gives up soon."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    for name, value in server.storage.environment.items():
        monkeypatch.setenv(name, value)
    with fault_proxy(server.url) as proxy:
        yield proxy
    server.storage.proxy.clear()


def write_config(experiment: str, **changes: Any) -> str:
    Path("c.yaml").write_text(yaml.safe_dump(small_config(experiment=experiment, **changes)))
    return "c.yaml"


def direct(client: MlflowClient, server: Server, experiment: str) -> None:
    """Make an experiment whose artifacts the client itself writes to S3."""
    client.create_experiment(experiment, f"{server.storage.bucket}/{experiment}")


def models_of(capsys: pytest.CaptureFixture[str], uri: str, experiment: str) -> set[str]:
    """Return the models that `compare` finds in an experiment."""
    capsys.readouterr()
    assert main(["compare", "--format", "json", "--tracking-uri", uri, "--experiment", experiment]) == 0
    return {row["model"] for one in json.loads(capsys.readouterr().out) for row in one["rows"]}


def test_a_bake_off_on_postgresql_and_s3_is_logged_and_read_whole(
    server: Server, tracking: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    server.storage.proxy.clear()
    config = write_config("whole")
    assert main(["run", config, "--tracking-uri", tracking.url]) == 0
    client = MlflowClient(server.url)
    home = client.get_experiment_by_name("whole")
    assert home is not None
    runs = client.search_runs([home.experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}
    stored = [path for method, path in server.storage.proxy.requests if method == "PUT"]
    assert sum("per_user.parquet" in path for path in stored) == 2
    (contest,) = read_contests(tracking.url, experiment="whole")
    assert [model.model for model in contest.models] == ["random", "popularity"]
    assert all(np.isfinite(model.scores.values).any() for model in contest.models if model.scores)
    assert with_lists(contest, tracking.url).models[0].top_n is not None
    assert models_of(capsys, tracking.url, "whole") == {"random", "popularity"}


def test_when_object_storage_fails_all_models_are_computed_and_sync_logs_them(
    server: Server, tracking: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    direct(MlflowClient(server.url), server, "no storage")
    config = write_config("no storage")
    server.storage.proxy.add("status", "top_n.parquet", status=500)
    assert main(["run", config, "--tracking-uri", tracking.url]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "[2 of 2]" in said
    last = said.strip().splitlines()[-1]
    assert "not logged: random, popularity" in last
    assert "python -m evalplugin run --resume c.yaml" in last

    server.storage.proxy.clear()
    assert main(["sync"]) == 0
    assert "[2 of 2]" in capsys.readouterr().err
    assert models_of(capsys, tracking.url, "no storage") == {"random", "popularity"}


def test_when_object_storage_cannot_be_read_compare_is_one_clear_error(
    server: Server, tracking: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    direct(MlflowClient(server.url), server, "unread")
    assert main(["run", write_config("unread"), "--tracking-uri", tracking.url]) == 0
    server.storage.proxy.add("reset", "per_user.parquet", method="GET|HEAD")
    capsys.readouterr()
    assert main(["compare", "--tracking-uri", tracking.url, "--experiment", "unread"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "per_user.parquet" in said
