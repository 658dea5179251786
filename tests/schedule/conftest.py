"""An empty tracking store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def store(_empty_store: Path) -> Path:
    """An empty SQLite store in the working directory."""
    return Path(shutil.copy(_empty_store, Path.cwd() / "mlflow.db"))
