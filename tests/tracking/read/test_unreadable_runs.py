"""Files and values of a run that cannot be read are one clear error, never a traceback."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pyarrow as pa
import pytest
from mlflow import MlflowClient
from samples import small_config

import evalplugin
from evalplugin.base.errors import TrackingError
from evalplugin.cli import main
from evalplugin.tracking.read.logged import LoggedRun

pytestmark = pytest.mark.usefixtures("no_drawing")

Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory, _empty_store: Path) -> SimpleNamespace:
    """A bake-off in a SQLite store, and the folder of the first model's artifacts."""
    folder = tmp_path_factory.mktemp("store")
    shutil.copy(_empty_store, folder / "mlflow.db")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    evalplugin.run(small_config(), tracking_uri=uri)
    client = MlflowClient(uri)
    (run,) = client.search_runs(["1"], "tags.`evalplugin.model` = 'random'")
    artifacts = Path(unquote(run.info.artifact_uri.removeprefix("file://")))
    return SimpleNamespace(uri=uri, client=client, run_id=run.info.run_id, artifacts=artifacts)


@pytest.fixture
def store(logged: SimpleNamespace) -> SimpleNamespace:
    """The same, whose artifacts may be changed: they are restored after the test."""
    before = {path: path.read_bytes() for path in logged.artifacts.rglob("*") if path.is_file()}
    yield logged
    for path, content in before.items():
        path.write_bytes(content)


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, -1])
def test_a_truncated_table_is_one_clear_error(
    store: SimpleNamespace, keep: float, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store.artifacts / "data" / "per_user.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    assert main(["compare", "--tracking-uri", store.uri]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert f"run random ({store.run_id}): the artifact data/per_user.parquet is damaged" in said
    assert "run the bake-off again" in said


@pytest.mark.parametrize("name", ["segments", "truth", "top_n"])
def test_other_truncated_tables_are_one_clear_error(store: SimpleNamespace, name: str) -> None:
    path = store.artifacts / "data" / f"{name}.parquet"
    path.write_bytes(path.read_bytes()[:100])
    run = LoggedRun(store.client, store.client.get_run(store.run_id))
    with pytest.raises(TrackingError, match=rf"run random .*: the artifact data/{name}.parquet is damaged"):
        _ = run.groups if name == "segments" else run.table(name)


def test_parameters_that_were_not_logged_are_one_clear_error(store: SimpleNamespace) -> None:
    run = store.client.get_run(store.run_id)
    for key in ("eval.ties", "eval.cold_users"):
        text = run.data.params.pop(key)
        with pytest.raises(
            TrackingError, match=rf"run random \(.*\) has no parameter {key}: it was not logged"
        ):
            _ = LoggedRun(store.client, run).rules
        run.data.params[key] = text
