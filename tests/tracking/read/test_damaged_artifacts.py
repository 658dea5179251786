"""Artifacts that were damaged since they were logged are one clear error, never a traceback and never a number."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient
from samples import small_config

import evalplugin
from evalplugin.base.errors import TrackingError
from evalplugin.cli import main
from evalplugin.tracking.read.contests import read_contests, with_lists
from evalplugin.tracking.read.logged import VALUES, LoggedRun

pytestmark = pytest.mark.usefixtures("no_drawing")

Change = Callable[[pa.Table], pa.Table]

SEALS = {"evalplugin.checksums", VALUES}  # tags that earlier versions did not have


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
    tags = logged.client.get_run(logged.run_id).data.tags
    yield logged
    for path, content in before.items():
        path.write_bytes(content)
    for key in SEALS:
        logged.client.set_tag(logged.run_id, key, tags[key])


def as_logged_by_an_earlier_version(store: SimpleNamespace) -> None:
    for key in SEALS & store.client.get_run(store.run_id).data.tags.keys():
        store.client.delete_tag(store.run_id, key)


def rewrite(store: SimpleNamespace, name: str, change: Change) -> None:
    path = store.artifacts / "data" / f"{name}.parquet"
    pq.write_table(change(pq.read_table(path)), path)


def test_checksums_of_the_files_for_programs_are_logged(store: SimpleNamespace) -> None:
    checksums = json.loads(store.client.get_run(store.run_id).data.tags["evalplugin.checksums"])
    assert set(checksums) == {f"data/{path.name}" for path in (store.artifacts / "data").iterdir()}
    assert all(len(checksum) == 64 for checksum in checksums.values())


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, -1])
def test_a_truncated_table_is_one_clear_error(
    store: SimpleNamespace, keep: float, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store.artifacts / "data" / "per_user.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    for checked in (True, False):
        if not checked:
            as_logged_by_an_earlier_version(store)
        assert main(["compare", "--tracking-uri", store.uri]) == 1
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert f"run random ({store.run_id}): the artifact data/per_user.parquet" in said
        assert ("is not what was logged" if checked else "cannot be read as Parquet") in said
        assert "run the bake-off again" in said


def test_one_changed_value_is_found_by_the_checksum(store: SimpleNamespace) -> None:
    def better(table: pa.Table) -> pa.Table:
        values = table.column("ndcg@10").to_numpy().copy()
        values[np.flatnonzero(np.isfinite(values))[0]] = 0.75
        return table.set_column(1, "ndcg@10", pa.array(values))

    rewrite(store, "per_user", better)
    with pytest.raises(TrackingError, match=r"data/per_user.parquet \([\d,]+ bytes\) is not what was logged"):
        read_contests(store.uri)
    as_logged_by_an_earlier_version(store)
    read_contests(store.uri)  # nothing tells it from another run's scores


def doubled(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table.slice(0, 1)])


def infinite(column: str) -> Change:
    def change(table: pa.Table) -> pa.Table:
        values = table.column(column).to_numpy().astype(np.float64)
        values[3] = np.inf
        return table.set_column(table.column_names.index(column), column, pa.array(values))

    return change


def without(column: str) -> Change:
    return lambda table: table.drop_columns([column])


def as_text(column: str) -> Change:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(
            table.column_names.index(column), column, table.column(column).cast(pa.string())
        )

    return change


def anonymous(table: pa.Table) -> pa.Table:
    users = pa.array([None, *table.column("user").to_pylist()[1:]])
    return table.set_column(0, "user", users)


def undescribed(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata({"evalplugin": b"[1, 2"})


def of_another_format(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata({"evalplugin": json.dumps({"segments": {}})})


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("per_user", doubled, r"has several rows of user \d+"),
        ("per_user", infinite("ndcg@10"), r"has inf in the column 'ndcg@10' for user \d+ \(1 such rows\)"),
        ("per_user", as_text("ndcg@10"), "holds string in the column 'ndcg@10'; allowed: numbers"),
        ("per_user", without("user"), "has no column 'user'; it has ndcg@10, recall@10"),
        (
            "per_user",
            without("recall@10"),
            "has scores of ndcg@10, but the run's metrics of users are ndcg@10",
        ),
        ("per_user", anonymous, "has 1 rows without a value in the column 'user'"),
        ("segments", doubled, r"has several rows of user \d+"),
        ("segments", undescribed, "does not describe its groups of users"),
        ("segments", of_another_format, "does not describe its groups of users"),
        ("truth", doubled, r"has several rows of user \d+, item \d+"),
        ("truth", infinite("rating"), "has inf in the column 'rating'"),
        ("history", without("item"), "has no column 'item'"),
        ("top_n", without("rank"), "has no column 'rank'"),
        ("per_item", without("hit"), "has no column 'hit'"),
        ("per_item", infinite("hit"), r"has inf in the column 'hit' for item \d+ \(1 such rows\)"),
    ],
)
def test_wrong_content_is_one_clear_error_in_runs_without_checksums(
    store: SimpleNamespace, name: str, change: Change, words: str
) -> None:
    as_logged_by_an_earlier_version(store)
    rewrite(store, name, change)
    run = LoggedRun(store.client, store.client.get_run(store.run_id))
    with pytest.raises(TrackingError, match=rf"run random .*: the artifact data/{name}.parquet {words}"):
        _ = run.result if name == "per_user" else run.table(name)


def test_undefined_scores_and_runs_without_checksums_are_read(store: SimpleNamespace) -> None:
    as_logged_by_an_earlier_version(store)
    (contest,) = read_contests(store.uri)
    scores = contest.models[0].scores
    assert scores is not None
    assert np.isnan(scores.values).any()


def test_a_logged_table_that_is_missing_is_an_error_and_one_never_logged_is_not(
    store: SimpleNamespace,
) -> None:
    (contest,) = read_contests(store.uri)
    (store.artifacts / "data" / "top_n.parquet").unlink()
    with pytest.raises(TrackingError, match=r"data/top_n.parquet is missing, though it was logged"):
        with_lists(contest, store.uri)
    as_logged_by_an_earlier_version(store)
    assert with_lists(contest, store.uri).models[0].top_n is None


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"models: [1, 2", b"models: 3"])
def test_a_damaged_config_is_one_clear_error(store: SimpleNamespace, content: bytes) -> None:
    (store.artifacts / "data" / "config_resolved.yaml").write_bytes(content)
    for words in ("is not what was logged", "is not a resolved config with models"):
        run = LoggedRun(store.client, store.client.get_run(store.run_id))
        with pytest.raises(TrackingError, match=rf"data/config_resolved.yaml .*{words}"):
            _ = run.recipe
        as_logged_by_an_earlier_version(store)


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
