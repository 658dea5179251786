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

from evalplugin.base.errors import TrackingError
from evalplugin.tracking.connection import connect, whole_creation

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
