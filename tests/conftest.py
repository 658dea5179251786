"""What every test stands on: repeatable examples, no network, no state left behind."""

from __future__ import annotations

import os

# Set before anything imports MLflow: it would look for its newest version and report its use otherwise.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"
os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "2"

import gc
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from servers import S3_CLIENT, ObjectStorage, Server, mlflow_server, object_storage, postgresql

from evalplugin.base.costs import cheap_collections

settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    max_examples=60,
    print_blob=False,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# For the fuzzers of tests/robustness, which the suite runs on a few examples only.
settings.register_profile("nightly", settings.get_profile("suite"), max_examples=3000)
settings.load_profile("suite")

# Collecting thousands of tests makes no garbage, and a third of its time was the search for some.
gc.disable()


def pytest_collection_finish() -> None:
    """Search for garbage again."""
    gc.enable()


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A suite that runs in the background of a shell ignores Ctrl-C, and so would every program that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _cheap_collections() -> Iterator[None]:
    """Each model that is fitted starts garbage collections, which take long with the libraries of all tests."""
    with cheap_collections():
        yield


@pytest.fixture(scope="module", autouse=True)
def _cheap_imports() -> None:
    """What earlier modules have imported is left out of garbage collections too."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def _empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite store to copy: making its tables anew takes longer than most tests."""
    from mlflow.store.db import utils

    store = tmp_path_factory.mktemp("empty") / "mlflow.db"
    engine = utils.create_sqlalchemy_engine(f"sqlite:///{store}")
    utils._initialize_tables(engine)
    engine.dispose()
    return store


@pytest.fixture(scope="session", autouse=True)
def _copied_stores(request: pytest.FixtureRequest) -> Iterator[None]:
    """A SQLite store that this process would create is a copy of the empty one; other processes create theirs."""
    from evalplugin.tracking import connection, location

    def copied(uri: str) -> AbstractContextManager[None]:
        file = location.sqlite_path(uri)
        if file is not None and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(request.getfixturevalue("_empty_store"), file)
        return nullcontext()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "whole_creation", copied)
        yield


@pytest.fixture(scope="session", autouse=True)
def _unsynced_stores() -> Iterator[None]:
    """MLflow's SQLite stores need not survive a power cut: each of a bake-off's commits would wait for the disk."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def leave_to_the_system(connection: Any, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            with suppress(sqlite3.DatabaseError):  # a file that is no database: MLflow is to find that
                connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", leave_to_the_system)
    yield
    event.remove(Engine, "connect", leave_to_the_system)


@pytest.fixture(scope="session")
def _folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tests' folders: pytest reads all names beside a new one, which takes long with thousands."""
    return tmp_path_factory.mktemp("folders")


@pytest.fixture(autouse=True)
def _own_folder(_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts in an empty folder, with no tracking server of the user's in sight."""
    monkeypatch.chdir(tempfile.mkdtemp(dir=_folders))
    for name in ("TRACKING_URI", "REGISTRY_URI", "RUN_ID", "EXPERIMENT_NAME", "EXPERIMENT_ID"):
        monkeypatch.delenv(f"MLFLOW_{name}", raising=False)


@pytest.fixture(autouse=True)
def _own_mlflow() -> Iterator[None]:
    """The store and the experiment that a test sets for MLflow as a whole are gone after it."""
    yield
    if (mlflow := sys.modules.get("mlflow")) is not None:
        mlflow.set_tracking_uri(None)
        mlflow.tracking.fluent._active_experiment_id = None


@pytest.fixture(autouse=True)
def _own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test's config keeps secret is no secret to the next."""
    from evalplugin.base import secrets as redaction

    monkeypatch.setattr(redaction, "_registered", set())


@contextmanager
def _restored_registries() -> Iterator[None]:
    from evalplugin.cli.list import COMPONENT_KINDS, registry_of

    registries = [registry_of(kind) for kind in COMPONENT_KINDS]
    before = [dict(registry._entries) for registry in registries]
    modules = set(sys.modules)
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry._entries.clear()
        registry._entries.update(entries)
    for name in set(sys.modules) - modules:
        if name.startswith("evalplugin_plugin_"):
            del sys.modules[name]


@pytest.fixture(autouse=True, scope="module")
def _registries_of_a_module() -> Iterator[None]:
    """What a module's fixtures register is gone after it, so that another module may use the same names."""
    with _restored_registries():
        yield


@pytest.fixture(autouse=True)
def _own_registries() -> Iterator[None]:
    """What a test registers is gone after it, so that another test may use the same names."""
    with _restored_registries():
        yield


@pytest.fixture
def store(_own_folder: None, _empty_store: Path) -> Path:
    """An empty SQLite store in the working directory."""
    return Path(shutil.copy(_empty_store, Path.cwd() / "mlflow.db"))


@pytest.fixture(scope="module")
def no_drawing() -> Iterator[None]:
    """Runs have an empty file for each picture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalplugin.report.charts.pictures.png_of", lambda spec: b"")
        yield


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """Everything that makes a sample bake-off."""
    import samples

    return samples


@pytest.fixture
def evaluations(tmp_path: Path, store: Path) -> str:
    """The store that MLflow's evaluations are logged to, other than that of the working directory."""
    import mlflow

    uri = f"sqlite:///{shutil.copy(store, tmp_path / 'theirs.db')}"
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("evaluations")
    return uri


@pytest.fixture
def uri(tmp_path: Path, _empty_store: Path) -> str:
    """An empty SQLite store of its own, in a folder whose name needs quoting."""
    folder = tmp_path / "störe 1"
    folder.mkdir()
    shutil.copy(_empty_store, folder / "mlflow.db")
    return f"sqlite:///{folder / 'mlflow.db'}"


@pytest.fixture(scope="session")
def storage() -> Iterator[ObjectStorage]:
    """One S3 server for all tests."""
    with object_storage() as running:
        yield running


@pytest.fixture
def s3(storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStorage]:
    """The S3 server, to which the environment leads."""
    for name, value in {**S3_CLIENT, "AWS_ENDPOINT_URL": storage.proxy.url}.items():
        monkeypatch.setenv(name, value)
    yield storage
    storage.proxy.clear()


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """One PostgreSQL server for all tests."""
    with postgresql() as uri:
        yield uri


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, database: str, storage: ObjectStorage
) -> Iterator[Server]:
    """One MLflow server for all tests, over PostgreSQL and S3."""
    with mlflow_server(tmp_path_factory.mktemp("elsewhere"), database, storage) as running:
        yield running
