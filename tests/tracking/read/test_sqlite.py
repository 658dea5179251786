"""What is read from a SQLite store without MLflow is what MLflow reads from it."""

from __future__ import annotations

import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException

from evalplugin.base.errors import TrackingError
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import MODEL_RUNS, SUMMARY_RUNS, models_filter
from evalplugin.tracking.read.sqlite import SqliteReader, readable_store

FILTERS = (
    "",
    MODEL_RUNS,
    models_filter("2026-1"),
    f"{SUMMARY_RUNS} and attributes.status = 'FINISHED'",
    f"{SUMMARY_RUNS} and attributes.status = 'FINISHED' and tags.`evalplugin.inputs` LIKE '%abc%'",
    f'{MODEL_RUNS} and attributes.run_name = "it\'s"',
    f"{MODEL_RUNS} and attributes.run_name = 'störe'",
    f"{MODEL_RUNS} and tags.`evalplugin.model` LIKE 'a_b'",
    f"{MODEL_RUNS} and tags.`evalplugin.model` LIKE 'A_B'",
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, _empty_store: Path) -> MlflowClient:
    """A store with two experiments, a deleted one, and runs that differ in all that is read."""
    file = tmp_path_factory.mktemp("störe 1") / "mlflow.db"
    shutil.copy(_empty_store, file)
    client = MlflowClient(f"sqlite:///{file}")
    ids = [
        client.create_experiment(name, f"file://{file.parent}/{name}") for name in ("shop", "other", "gone")
    ]
    for number, (model, name, status) in enumerate(
        [("a'b", "it's", "FINISHED"), ('a"b', "störe", "FAILED"), ("A-B", "x", "KILLED"), ("c", "x", None)]
    ):
        tags = {"mlflow.runName": name, "evalplugin.role": "model", "evalplugin.model": model}
        tags |= {"evalplugin.bakeoff": f"2026-{number % 2}"}
        # Two runs that start at the same time are in the order of their ids.
        run = client.create_run(ids[0], start_time=1000 + number // 2, tags=tags).info.run_id
        values = [("ndcg", 0.5, 0), ("ndcg", math.nan, 1), ("cost", math.inf, 0), ("low", -0.1 / 3, 2)]
        client.log_batch(
            run,
            metrics=[Metric(key, value, 7, step) for key, value, step in values],
            params=[Param("seed", "1"), Param("none", "null")],
        )
        for context in ("training", "evaluation"):
            data = Dataset(f"ml {context}", f"{context}{number}", "local", "{}")
            client.log_inputs(run, [DatasetInput(data, [InputTag("mlflow.data.context", context)])])
        if status is not None:
            client.set_terminated(run, status, 2000)
    for number, inputs in enumerate(("abc", "ABC", "xabcx")):
        run = client.create_run(
            ids[number % 2], start_time=3000 + number, tags={"evalplugin.role": "summary"}
        )
        client.log_batch(run.info.run_id, tags=[RunTag("evalplugin.inputs", inputs)])
        client.set_terminated(run.info.run_id, "FINISHED")
    client.delete_run(run.info.run_id)
    client.delete_experiment(ids[2])
    return client


@pytest.fixture
def reader(client: MlflowClient) -> SqliteReader:
    reader = SqliteReader.of(client.tracking_uri)
    assert reader is not None
    return reader


def plain(run: Any) -> tuple[Any, ...]:
    """What is used of a run; NaN as text, since it does not equal itself."""
    info, inputs = run.info, run.inputs.dataset_inputs
    return (
        (info.run_id, info.run_name, str(info.status), info.start_time, info.end_time, info.artifact_uri),
        (info.experiment_id, info.lifecycle_stage),
        (run.data.tags, run.data.params, {key: repr(value) for key, value in run.data.metrics.items()}),
        sorted((given.dataset.digest, tag.key, tag.value) for given in inputs for tag in given.tags),
    )


@pytest.mark.parametrize("query", FILTERS)
@pytest.mark.parametrize("view", [ViewType.ACTIVE_ONLY, ViewType.ALL])
def test_searches_find_what_mlflow_finds(
    client: MlflowClient, reader: SqliteReader, query: str, view: int
) -> None:
    order = ["attributes.start_time DESC"]
    ids = [str(e.experiment_id) for e in client.search_experiments()]
    found = []
    for source in client, reader:
        pages, token = [], None
        while not pages or token:
            page = source.search_runs(ids, query, view, 2, order, token)
            pages.append([plain(run) for run in page])
            token = page.token
        found.append(pages)
    assert found[0] == found[1]
    assert any(found[0])


def test_single_runs_experiments_and_histories_are_those_of_mlflow(
    client: MlflowClient, reader: SqliteReader
) -> None:
    for name in ("shop", "gone"):
        theirs, ours = (source.get_experiment_by_name(name) for source in (client, reader))
        assert (ours.experiment_id, ours.name, ours.lifecycle_stage) == (
            theirs.experiment_id, theirs.name, theirs.lifecycle_stage,
        )  # fmt: skip
    assert reader.get_experiment_by_name("nothing") is None
    names = [[e.name for e in source.search_experiments()] for source in (client, reader)]
    assert names[0] == names[1]
    for run in client.search_runs(["1", "2"], run_view_type=ViewType.ALL):
        assert plain(reader.get_run(run.info.run_id)) == plain(client.get_run(run.info.run_id))
        for key in [*run.data.metrics, "nothing"]:
            histories = [
                [(point.step, repr(point.value)) for point in source.get_metric_history(run.info.run_id, key)]
                for source in (client, reader)
            ]
            assert histories[0] == histories[1]
    with pytest.raises(MlflowException) as error:
        reader.get_run("0" * 32)
    assert error.value.error_code == "RESOURCE_DOES_NOT_EXIST"


def test_the_tables_of_this_mlflow_are_known(store: Path) -> None:
    """A new MLflow: look whether its migrations change what is read, and add them."""
    assert SqliteReader.of(f"sqlite:///{store}") is not None


def test_a_filter_of_another_kind_is_refused(reader: SqliteReader) -> None:
    with pytest.raises(ValueError, match=r"cannot read the filter 'metrics.x > 1' from position 0"):
        reader.search_runs(["1"], "metrics.x > 1", 1, 10, ["attributes.start_time DESC"])


@pytest.mark.parametrize("change", ["migration", "workspace", "text", "variable"])
def test_mlflow_reads_a_store_that_is_not_known(
    store: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{store}"
    with closing(sqlite3.connect(store)) as connection:
        if change == "migration":
            connection.execute("UPDATE alembic_version SET version_num = '000000000000'")
        if change == "workspace":
            connection.execute("UPDATE experiments SET workspace = 'team'")
        connection.commit()
    if change == "text":
        store.write_text("no database, but text that is longer than its header would be" * 10)
    if change == "variable":
        monkeypatch.setenv("MLFLOW_WORKSPACE", "team")
    assert SqliteReader.of(uri) is None
    if change in ("migration", "text"):
        with pytest.raises(TrackingError, match="cannot reach it"), readable_store(uri, "read"):
            pass


def test_a_store_that_is_damaged_meanwhile_is_an_error_that_names_it(store: Path) -> None:
    uri = f"sqlite:///{store}"

    def read() -> None:
        with readable_store(uri, "read the runs") as runs:
            store.write_bytes(b"")
            runs.get_experiment_by_name("x")

    with pytest.raises(TrackingError, match=r"mlflow.db: cannot read the runs: no such table"):
        read()


def test_files_of_a_run_on_this_machine_are_read_in_place(client: MlflowClient, tmp_path: Path) -> None:
    (run,) = client.search_runs(["1"], "attributes.run_name = 'störe'")
    file = tmp_path / "card.json"
    file.write_text('{"a": 1}')
    client.log_artifact(run.info.run_id, str(file), "data")
    logged = LoggedRun(client, run)
    assert logged.json_file("data/card.json") == {"a": 1}
    (folder,) = Path(client.tracking_uri.removeprefix("sqlite:///")).parent.glob(f"shop/{run.info.run_id}")
    (folder / "artifacts" / "data" / "card.json").unlink()
    with pytest.raises(TrackingError, match=r"cannot read the artifact data/card.json of run störe"):
        logged.json_file("data/card.json")
