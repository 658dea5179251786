"""New SQLite stores: copied from an empty one that MLflow has made once, as its migrations take seconds."""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from evalplugin.base.fingerprint import digest
from evalplugin.files.user_cache import cached, make_in_background
from evalplugin.tracking.location import sqlite_path


def prepare_store(uri: str) -> None:
    """Start a process that makes the tables of a new SQLite store, unless the store or the tables exist."""
    if _missing_file(uri) is not None:
        make_in_background(_name(), __name__, "tables")


def create_store(uri: str) -> None:
    """Create a SQLite store that does not exist, with all tables; nothing for another store, or if it exists.

    The file appears under its name when it is whole: MLflow cannot use one whose creation was interrupted.

    Raises:
        OSError: The file cannot be written.
    """
    file = _missing_file(uri)
    if file is None:
        return
    content = tables()
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}-{secrets.token_hex(8)}")
    try:
        partial.write_bytes(content)
        with suppress(FileExistsError):  # another process was faster: its store may have runs by now
            try:
                os.link(partial, file)
            except OSError:  # the file is there, or the file system has no hard links
                if not file.exists():
                    partial.rename(file)
    finally:
        partial.unlink(missing_ok=True)


def tables() -> bytes:
    """Return the content of a SQLite store with MLflow's tables and nothing in them."""
    return cached(_name(), _make)


def _missing_file(uri: str) -> Path | None:
    """Return the file of a SQLite store that does not exist yet; None for any other store."""
    file = sqlite_path(uri)
    return None if file is None or "?" in uri or file.exists() else file


@cache
def _name() -> str:
    makers = [version(package) for package in ("mlflow", "alembic", "sqlalchemy")]
    own = Path(__file__).read_text(encoding="utf-8")
    return f"store-{digest([*makers, sqlite3.sqlite_version, own])[:16]}.db"


def _make() -> bytes:
    from mlflow.store.db import utils

    untyped: Any = utils
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
        file = Path(folder, "mlflow.db")
        engine = untyped.create_sqlalchemy_engine(f"sqlite:///{file}")
        try:
            # Private: MLflow's public ways to a new store also add the experiment Default, with the location of its
            # artifacts, which depends on the store's own path. Held by test_a_new_store_is_one_that_mlflow_makes.
            untyped._initialize_tables(engine)
        finally:
            engine.dispose()
        return file.read_bytes()
