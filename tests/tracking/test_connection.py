"""The creation of SQLite stores: by MLflow, not interrupted, shared by processes."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.tracking.connection import check_stored_uri, connect, whole_creation
from evalplugin.tracking.read.evaluations import read_evaluations
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.uris import uri_version

CREATE = (
    "import sys; from evalplugin.tracking.connection import connect\n"
    "print(connect(sys.argv[1]).create_experiment(sys.argv[2]))"
)


def test_an_interruption_waits_until_a_new_store_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "new" / "mlflow.db"

    def write(content: str) -> None:
        with whole_creation(f"sqlite:///{file}"):
            signal.raise_signal(signal.SIGINT)
            file.write_text(content)

    with pytest.raises(KeyboardInterrupt):
        write("whole")
    assert [path.name for path in file.parent.iterdir()] == ["mlflow.db"]
    with pytest.raises(KeyboardInterrupt):
        write("of a store that exists")
    assert file.read_text() == "whole"


def test_a_store_whose_creation_was_cut_off_is_named(store: Path) -> None:
    with closing(sqlite3.connect(store)) as tables:
        tables.execute("DELETE FROM alembic_version")
        tables.execute("DROP TABLE tags")
        tables.commit()
    with pytest.raises(TrackingError, match=f"the creation of its tables was cut off.*delete {store}"):
        connect(f"sqlite:///{store}")


def test_a_store_that_cannot_be_written_is_an_error_of_tracking(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackingError, match="cannot reach it"):
        connect(f"sqlite:///{tmp_path}/file/mlflow.db")


@pytest.mark.slow
def test_processes_that_create_one_store_share_it(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/new/mlflow.db"

    def create(name: str) -> str:
        command = [sys.executable, "-c", CREATE, uri, name]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout

    with ThreadPoolExecutor() as pool:
        assert len(set(pool.map(create, ["a", "b"]))) == 2
    assert {e.name for e in connect(uri).search_experiments()} == {"Default", "a", "b"}
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["mlflow.db"]


OTHER = "as credentials of this machine would be sent to another host"


@pytest.mark.parametrize("name", ["USERNAME", "TOKEN", "AUTH", "CLIENT_CERT_PATH"])
def test_artifacts_at_another_host_are_not_read_with_credentials(name, monkeypatch):
    tracking = "https://mlflow.example.org:5000/team"
    other = [
        "http://evil.example.net/x",
        "mlflow-artifacts://evil.example.net:5000/1",
        "https://u:p@evil.example.net/x",
    ]
    own = [
        "mlflow-artifacts:/1/a", "mlflow-artifacts://mlflow.example.org:7000/1", "https://MLflow.example.org/api",
        "s3://bucket/x", "gs://bucket/x", "dbfs:/x", "hdfs://namenode:8020/x", "file:///x", "/x",
        "abfss://c@account.dfs.core.windows.net/x", "wasbs://c@account.blob.core.windows.net/x",
    ]  # fmt: skip
    for uri in [*other, *own]:
        assert check_stored_uri(uri, tracking) == uri  # without credentials
    monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", "secret")
    for uri in own:
        assert check_stored_uri(uri, tracking) == uri
    for uri in other:
        with pytest.raises(TrackingError, match=OTHER):
            check_stored_uri(uri, tracking)
    with pytest.raises(TrackingError, match=OTHER):
        check_stored_uri(other[0], "sqlite:////mlflow.db")


@pytest.mark.parametrize(
    "uri", ["abfss://c@account.evil.net/x", "wasbs://c@account.blob.windows.net.evil.net/x"]
)
def test_artifacts_at_a_host_that_is_not_azures_are_not_read(uri: str) -> None:
    with pytest.raises(TrackingError, match=OTHER):
        check_stored_uri(uri, "https://mlflow.example.org")
    with pytest.raises(TrackingError, match="is malformed"):
        check_stored_uri("http://[x/y", "https://mlflow.example.org")


def test_runs_whose_files_are_at_another_host_are_named_and_not_read(store, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    uri = f"sqlite:///{store}"
    client = MlflowClient(uri)
    experiment = client.create_experiment("theirs", "http://127.0.0.1:9/evil")
    run = client.create_run(experiment, tags={"evalplugin.role": "model"})
    with pytest.raises(TrackingError, match=OTHER):
        LoggedRun(client, run).table("top_n")
    with pytest.raises(TrackingError, match=OTHER):
        read_evaluations([run.info.run_id], unit="inputs", tracking_uri=uri)
    with pytest.raises(DataError, match=OTHER):
        uri_version(f"runs:/{run.info.run_id}/model", tracking_uri=uri)
