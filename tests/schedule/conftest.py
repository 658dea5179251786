"""A tracking store to start with: making its tables anew takes longer than most tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def _empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from evalplugin.tracking.connection import connect

    store = tmp_path_factory.mktemp("empty") / "mlflow.db"
    connect(f"sqlite:///{store}")
    return store


@pytest.fixture
def store(_empty_store: Path) -> Path:
    """An empty SQLite store in the working directory."""
    return Path(shutil.copy(_empty_store, Path.cwd() / "mlflow.db"))
