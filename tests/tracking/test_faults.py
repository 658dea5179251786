"""Bake-offs on PostgreSQL and S3: whole, and while the tracking server or the object storage fails."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import numpy as np
import pytest
from fault_proxy import FaultProxy, fault_proxy
from mlflow import MlflowClient
from samples import small_config, write_config
from servers import Server, mlflow_server

from evalplugin.cli import main
from evalplugin.report.competition import facts_of
from evalplugin.tracking.read.contests import read_contests, with_lists

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("no_drawing")]


@pytest.fixture
def tracking(
    server: Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[FaultProxy]:
    """A proxy in front of the MLflow server; MLflow's client gives up soon on slow answers."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "4" if "slow" in request.node.name else "60")
    for name, value in server.storage.environment.items():
        monkeypatch.setenv(name, value)
    with fault_proxy(server.url) as proxy:
        yield proxy
    server.storage.proxy.clear()


def direct(client: MlflowClient, server: Server, experiment: str) -> None:
    """Make an experiment whose artifacts the client itself writes to S3."""
    client.create_experiment(experiment, f"{server.storage.bucket}/{experiment}")


def models_of(capsys: pytest.CaptureFixture[str], uri: str, experiment: str) -> set[str]:
    """Return the models that `compare` finds in an experiment."""
    capsys.readouterr()
    assert main(["compare", "--format", "json", "--tracking-uri", uri, "--experiment", experiment]) == 0
    return {row["model"] for one in json.loads(capsys.readouterr().out) for row in one["rows"]}


@pytest.mark.slow
def test_a_bake_off_on_postgresql_and_s3_is_logged_and_read_whole(server, tracking, capsys):
    server.storage.proxy.clear()
    config = write_config(small_config(experiment="whole"))
    assert main(["run", config, "--tracking-uri", tracking.url]) == 0
    client = MlflowClient(server.url)
    home = client.get_experiment_by_name("whole")
    runs = client.search_runs([home.experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}
    stored = [path for method, path in server.storage.proxy.requests if method == "PUT"]
    assert sum("per_user.parquet" in path for path in stored) == 2
    (contest,) = read_contests(tracking.url, experiment="whole")
    assert [model.model for model in contest.models] == ["random", "popularity"]
    assert all(np.isfinite(model.scores.values).any() for model in contest.models if model.scores)
    assert facts_of(with_lists(contest, tracking.url), "random").top_n is not None
    assert models_of(capsys, tracking.url, "whole") == {"random", "popularity"}


@pytest.mark.slow
def test_when_object_storage_fails_all_models_are_computed_and_resume_logs_them(server, tracking, capsys):
    direct(MlflowClient(server.url), server, "no storage")
    config = write_config(small_config(experiment="no storage"))
    server.storage.proxy.add("status", "top_n.parquet", status=500)
    assert main(["run", config, "--tracking-uri", tracking.url]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "[2 of 2]" in said
    last = said.strip().splitlines()[-1]
    assert "not logged: random, popularity" in last
    assert "python -m evalplugin run --resume shop.yaml" in last

    server.storage.proxy.clear()
    assert main(["run", "--resume", config, "--tracking-uri", tracking.url]) == 0
    assert "[2 of 2]" in capsys.readouterr().err
    assert models_of(capsys, tracking.url, "no storage") == {"random", "popularity"}


@pytest.fixture(scope="module")
def unserved(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Server]:
    """An MLflow server whose clients read and write artifacts themselves."""
    options = ["--no-serve-artifacts", "--default-artifact-root", f"{server.storage.bucket}/unserved"]
    folder = tmp_path_factory.mktemp("unserved")
    with mlflow_server(folder, server.database, server.storage, options) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "403", "503", "reset"])
def test_a_server_that_serves_no_artifacts(unserved, tracking, capsys, kind):
    storage, experiment = unserved.storage.proxy, f"unserved {kind}"
    config = write_config(small_config(experiment=experiment))
    there = ["--tracking-uri", unserved.url]
    storage.clear()
    if kind != "none":
        break_requests(storage, kind, r"per_user\.parquet|comparison\.html", "PUT", None)
    code = main(["run", config, *there])
    said = capsys.readouterr().err
    assert "Traceback" not in said
    written = {path.partition("?")[0] for method, path in storage.requests if method == "PUT"}
    assert any(path.startswith("/mlflow/unserved/") for path in written)
    if kind != "none":
        assert code == 1
        assert "[2 of 2]" in said
        assert "to go on: python -m evalplugin run --resume" in said.strip().splitlines()[-1]
        storage.clear()
        code = main(["run", "--resume", config, *there])
    assert code == 0
    assert models_of(capsys, unserved.url, experiment) == {"random", "popularity"}
    # Objects that cannot be read, or are not there, end a command with one message.
    for broken in ("404", "500", "garbage"):
        storage.clear()
        break_requests(storage, broken, "per_user.parquet", "GET|HEAD", None)
        assert main(["compare", *there, "--experiment", experiment]) == 1
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert "per_user.parquet" in said


KINDS = ("500", "503", "reset", "lost", "slow", "cut", "garbage")


def break_requests(proxy: FaultProxy, kind: str, path: str, method: str, count: int | None) -> None:
    if kind.isdigit():
        proxy.add("status", path, method=method, count=count, status=int(kind))
    else:
        proxy.add(kind, path, method=method, count=count, seconds=6.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "path", "method"),
    [
        *((kind, "runs/log-batch", "POST") for kind in KINDS),
        # A server that answers 200 and stores nothing is noticed when the file is read.
        *((kind, "mlflow-artifacts/artifacts", "PUT") for kind in KINDS if kind != "garbage"),
    ],
)
def test_a_bake_off_outlives_every_fault_of_the_tracking_server(server, tracking, capsys, kind, path, method):
    experiment = f"{kind} {path}"
    config = write_config(small_config(experiment=experiment))
    break_requests(tracking, kind, path, method, None)
    code = main(["run", config, "--tracking-uri", tracking.url])
    assert tracking.broken
    check_mended(capsys, tracking, code, tracking.url, experiment)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", ["server", "evalplugin"])
def test_a_bake_off_outlives_every_fault_of_object_storage(server, tracking, capsys, kind, client):
    experiment = f"{kind} s3 {client}"
    if client == "evalplugin":
        direct(MlflowClient(server.url), server, experiment)
    config = write_config(small_config(experiment=experiment))
    break_requests(server.storage.proxy, kind, r"per_user\.parquet|comparison\.html", "PUT", None)
    code = main(["run", config, "--tracking-uri", tracking.url])
    assert server.storage.proxy.broken
    check_mended(capsys, server.storage.proxy, code, tracking.url, experiment)


@pytest.mark.slow
def test_one_fault_after_another_is_mended_by_resuming(server, tracking, capsys):
    """Each attempt breaks at a later request, until none is left; nothing is logged twice."""
    config = write_config(small_config(experiment="one by one"))
    arguments = ["run", config, "--tracking-uri", tracking.url]
    tracking.add("lost", "runs/create", count=1)  # starts a run twice
    tracking.add("reset", "runs/log-batch", skip=1, count=2)
    tracking.add("cut", "runs/search", skip=1, count=2)
    codes = [main(arguments)]
    while codes[-1] and len(codes) < 8:
        codes.append(main([*arguments, "--resume"]))
    assert codes[-1] == 0
    assert len(codes) > 1
    assert models_of(capsys, tracking.url, "one by one") == {"random", "popularity"}
    client = MlflowClient(server.url)
    home = client.get_experiment_by_name("one by one")
    runs = client.search_runs([home.experiment_id])
    finished = [run.data.tags.get("evalplugin.model", "") for run in runs if run.info.status == "FINISHED"]
    assert sorted(finished) == ["", "popularity", "random"]
    assert not any(run.info.status == "RUNNING" for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("command", "path"), [("compare", "artifacts"), ("history", "runs/search")])
def test_reading_commands_end_with_one_clear_error(server, tracking, capsys, kind, command, path):
    config = write_config(small_config(experiment="read"))
    if MlflowClient(server.url).get_experiment_by_name("read") is None:
        assert main(["run", config, "--tracking-uri", server.url]) == 0
    capsys.readouterr()
    break_requests(tracking, kind, path, "", None)
    code = main([command, "--experiment", "read", "--tracking-uri", tracking.url])
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert tracking.broken
    assert code == 1, said
    assert "error:" in said


def check_mended(
    capsys: pytest.CaptureFixture[str], proxy: FaultProxy, code: int, uri: str, experiment: str
) -> None:
    """Check that a broken bake-off said what to do, and that doing it without the fault logs all of it."""
    said = capsys.readouterr().err
    assert "Traceback" not in said
    proxy.clear()
    if code:
        assert code == 1
        assert "[2 of 2]" in said
        last = said.strip().splitlines()[-1]
        assert "to go on: python -m evalplugin run --resume" in last
        assert main(shlex.split(last.partition("python -m evalplugin ")[2])) == 0, capsys.readouterr().err
    assert models_of(capsys, uri, experiment) == {"random", "popularity"}
