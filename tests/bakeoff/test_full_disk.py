"""A disk that is full under SQLite's file while runs are logged: one message, and the bake-off goes on later."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from samples import small_config, write_config
from sqlalchemy import event
from sqlalchemy.pool import Pool

from evalplugin.cli import main
from evalplugin.execution.results import ModelResult
from evalplugin.tracking.write.tracker import MlflowTracker

pytestmark = pytest.mark.usefixtures("no_drawing")
NO_LIMIT = 2**30


@pytest.fixture
def disk() -> Iterator[SimpleNamespace]:
    """The number of pages that SQLite may write, which then raises what it raises on a full disk."""
    limit = SimpleNamespace(pages=NO_LIMIT)

    def set_limit(connection: Any, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count={limit.pages}")

    event.listen(Pool, "checkout", set_limit)
    yield limit
    event.remove(Pool, "checkout", set_limit)


@pytest.mark.parametrize("model", ["random", "popularity"])
def test_a_full_disk_is_one_message_and_the_bakeoff_goes_on_later(disk, model, capfd, monkeypatch):
    write_config(small_config(tracking={"uri": "sqlite:///mlflow.db"}))
    finish = MlflowTracker.finish_model

    def fill_disk(self: MlflowTracker, result: ModelResult, *more: Any) -> None:
        if result.model == model:
            with sqlite3.connect("mlflow.db") as database:
                disk.pages = database.execute("PRAGMA page_count").fetchone()[0]
        finish(self, result, *more)

    monkeypatch.setattr(MlflowTracker, "finish_model", fill_disk)
    assert main(["run", "shop.yaml"]) == 1
    shown = "".join(capfd.readouterr())
    assert "Traceback" not in shown
    assert "INSERT INTO" not in shown
    told = shown.splitlines()[-1]
    assert f"cannot log {model}: no space is left on the disk of {Path.cwd()}: make room there" in told
    assert "to go on: python -m evalplugin run --resume shop.yaml" in told
    monkeypatch.setattr(MlflowTracker, "finish_model", finish)
    disk.pages = NO_LIMIT
    assert main(["run", "--resume", "shop.yaml"]) == 0
    with sqlite3.connect("mlflow.db") as database:
        runs = database.execute("SELECT name, status FROM runs ORDER BY name").fetchall()
    assert [status for _, status in runs] == ["FINISHED"] * 3
