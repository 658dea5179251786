"""Files and values of a run that cannot be read are one clear error, never a traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
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


def rewrite(store: SimpleNamespace, name: str, change: Change) -> None:
    path = store.artifacts / "data" / f"{name}.parquet"
    pq.write_table(change(pq.read_table(path)), path)


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
    assert (
        f"run random ({store.run_id}): the artifact data/per_user.parquet cannot be read as Parquet" in said
    )
    assert "run the bake-off again" in said


def without(column: str) -> Change:
    return lambda table: table.drop_columns([column])


def as_text(column: str) -> Change:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(
            table.column_names.index(column), column, table.column(column).cast(pa.string())
        )

    return change


def undescribed(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata({"evalplugin": b"[1, 2"})


def of_another_format(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata({"evalplugin": json.dumps({"segments": {}})})


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("per_user", as_text("ndcg@10"), "holds string in the column 'ndcg@10'; allowed: numbers"),
        ("per_user", without("user"), "has no column 'user'; it has ndcg@10, recall@10"),
        (
            "per_user",
            without("recall@10"),
            "has scores of ndcg@10, but the run's metrics of users are ndcg@10",
        ),
        ("segments", undescribed, "does not describe its groups of users"),
        ("segments", of_another_format, "does not describe its groups of users"),
        ("truth", as_text("rating"), "holds string in the column 'rating'; allowed: numbers"),
        ("history", without("item"), "has no column 'item'"),
        ("top_n", without("rank"), "has no column 'rank'"),
        ("per_item", without("hit"), "has no column 'hit'"),
    ],
)
def test_wrong_content_is_one_clear_error(
    store: SimpleNamespace, name: str, change: Change, words: str
) -> None:
    rewrite(store, name, change)
    run = LoggedRun(store.client, store.client.get_run(store.run_id))
    with pytest.raises(TrackingError, match=rf"run random .*: the artifact data/{name}.parquet {words}"):
        _ = run.result if name == "per_user" else run.table(name)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"models: [1, 2", b"models: 3"])
def test_a_damaged_config_is_one_clear_error(store: SimpleNamespace, content: bytes) -> None:
    (store.artifacts / "data" / "config_resolved.yaml").write_bytes(content)
    run = LoggedRun(store.client, store.client.get_run(store.run_id))
    with pytest.raises(
        TrackingError, match=r"data/config_resolved.yaml .*is not a resolved config with models"
    ):
        _ = run.recipe


def test_parameters_and_tags_that_were_overwritten_are_one_clear_error(store: SimpleNamespace) -> None:
    run = store.client.get_run(store.run_id)
    run.data.params["eval.n"] = "many"
    with pytest.raises(TrackingError, match=r"the parameter eval.n is 'many', not a whole number"):
        _ = LoggedRun(store.client, run).rules
    run.data.params["eval.n"] = "20"
    for key in ("eval.ties", "eval.cold_users"):
        text = run.data.params.pop(key)
        with pytest.raises(
            TrackingError, match=rf"run random \(.*\) has no parameter {key}: it was not logged"
        ):
            _ = LoggedRun(store.client, run).rules
        run.data.params[key] = text
    run.data.tags["evalplugin.definitions"] = "[1]"
    assert LoggedRun(store.client, run).definitions["ndcg@10"].startswith("unknown")


def test_values_of_another_run_are_checked_where_they_enter() -> None:
    def run(params: dict[str, str] | None = None, start: int | None = 0, **tags: str) -> LoggedRun:
        info = SimpleNamespace(
            run_id="1",
            run_name="theirs",
            status="FINISHED",
            experiment_id="1",
            start_time=start,
            end_time=None,
        )
        data = SimpleNamespace(
            params=params or {}, metrics={}, tags={f"evalplugin.{key}": text for key, text in tags.items()}
        )
        return LoggedRun(cast(Any, None), cast(Any, SimpleNamespace(info=info, data=data, inputs=None)))

    assert run(start=None).started.year == 1970
    deep = "[" * 5000
    assert run(place="x").place == 0
    for text in (deep, "5", '"text"', "{}"):
        assert run(warnings=text).warnings == run(notes=text).notes == run(checks=text).findings == ()
    for text in (deep, "5", "[]"):
        assert run(definitions=text).mapping("definitions") == {}
        with pytest.raises(TrackingError, match=r"run theirs .1. does not say which way is better"):
            _ = run(given=text).given
    for text in ("-1", "1.5", "x"):
        with pytest.raises(TrackingError, match=r"theirs .1.: the parameter split.folds is .* not a whole"):
            _ = run({"split.folds": text}).folds
