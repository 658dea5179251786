"""New SQLite stores: whole under their name, or not there at all."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from evalplugin.base.errors import TrackingError
from evalplugin.tracking import new_store
from evalplugin.tracking.connection import connect


def schema(file: Path) -> dict[str, list[str]]:
    """The definition of each table and index; lines are sorted, as constraints are in no fixed order."""
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute("select name, sql from sqlite_master where sql is not null")
        return {name: sorted(line.strip(" \t,") for line in sql.splitlines()) for name, sql in found}


def test_interrupted_creation_leaves_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic.operations import Operations

    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / "cache")
    monkeypatch.setattr(
        Operations, "batch_alter_table", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    file = tmp_path / "new" / "mlflow.db"
    with pytest.raises(KeyboardInterrupt):
        connect(f"sqlite:///{file}")
    assert not file.exists()
    monkeypatch.undo()
    connect(f"sqlite:///{file}")
    assert file.exists()


def test_interrupted_copy_leaves_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.link", interrupt)
    with pytest.raises(KeyboardInterrupt):
        connect(f"sqlite:///{tmp_path}/mlflow.db")
    assert list(tmp_path.iterdir()) == []


def test_a_new_store_is_one_that_mlflow_makes(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    theirs = MlflowClient(f"sqlite:///{tmp_path}/theirs.db").search_experiments()
    ours = connect(f"sqlite:///{tmp_path}/ours.db").search_experiments()
    assert schema(tmp_path / "ours.db") == schema(tmp_path / "theirs.db")
    assert [(e.experiment_id, e.name, e.artifact_location) for e in ours] == [
        (e.experiment_id, e.name, e.artifact_location) for e in theirs
    ]


@pytest.mark.slow
def test_processes_that_create_one_store_share_it(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    code = (
        "import sys; from evalplugin.tracking.connection import connect\n"
        "print(connect(sys.argv[1]).create_experiment(sys.argv[2]))"
    )

    def create(name: str) -> str:
        command = [sys.executable, "-c", code, uri, name]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout

    with ThreadPoolExecutor() as pool:
        assert len(set(pool.map(create, ["a", "b"]))) == 2
    assert {one.name for one in connect(uri).search_experiments()} == {"Default", "a", "b"}
    assert [file.name for file in tmp_path.iterdir()] == ["mlflow.db"]


@pytest.mark.parametrize("taken", [True, False])
def test_a_file_system_without_links_is_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    file = tmp_path / "mlflow.db"

    def refuse(*_: object) -> None:
        if taken:
            file.write_bytes(b"theirs")
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", refuse)
    new_store.create_store(f"sqlite:///{file}")
    assert (file.read_bytes() == b"theirs") == taken
    assert [one.name for one in tmp_path.iterdir()] == ["mlflow.db"]


def test_a_store_that_cannot_be_written_is_an_error_of_tracking(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackingError, match="cannot reach it"):
        connect(f"sqlite:///{tmp_path}/file/mlflow.db")
