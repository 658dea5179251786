"""Tables above a size leave the run: a manifest leads to them, and whatever reads the run follows it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient
from samples import small_config

import evalplugin
from evalplugin.base.errors import ConfigError, DataError, TrackingError
from evalplugin.cli import main
from evalplugin.data import Candidates
from evalplugin.models.base import ListRequest
from evalplugin.tracking import large
from evalplugin.tracking.models.lists import Lists
from evalplugin.tracking.read.contests import read_contests, with_lists
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.write.tracker import MlflowTracker

pytestmark = pytest.mark.usefixtures("no_drawing")


def config(uri: str | Path | None, **changes: Any) -> dict[str, Any]:
    return small_config(
        experiment="a shop/test", tracking={"large_artifacts": str(uri)} if uri else {}, **changes
    )


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


@pytest.fixture(scope="module", autouse=True)
def small_sizes() -> Iterator[None]:
    """Files of more than 1,500 bytes are large, and samples have ten users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "LARGE", 1500)
        patch.setattr(large, "SAMPLE_USERS", 10)
        yield


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory, _empty_store: Path) -> SimpleNamespace:
    """A bake-off whose large tables are in a folder."""
    folder = tmp_path_factory.mktemp("größe 1")
    shutil.copy(_empty_store, folder / "mlflow.db")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    outcome = evalplugin.run(config(folder / "big ones"), tracking_uri=uri)
    client = MlflowClient(uri)
    (run,) = client.search_runs([outcome.links.experiment_id], "tags.`evalplugin.model` = 'popularity'")
    return SimpleNamespace(
        uri=uri, client=client, run=run, run_id=run.info.run_id, folder=folder, outcome=outcome
    )


def manifest(logged: SimpleNamespace, name: str) -> dict[str, Any]:
    file = logged.client.download_artifacts(logged.run_id, f"data/{name}.manifest.json")
    found: dict[str, Any] = json.loads(Path(file).read_bytes())
    return found


def files_in(logged: SimpleNamespace) -> set[str]:
    return {file.path for file in logged.client.list_artifacts(logged.run_id, "data")}


def test_the_run_has_a_manifest_and_a_sample_in_place_of_a_large_table(logged: SimpleNamespace) -> None:
    files = files_in(logged)
    for name in ("per_user", "top_n", "history"):
        assert f"data/{name}.parquet" not in files
        assert {f"data/{name}.manifest.json", f"data/{name}.sample.parquet"} <= files
    described = manifest(logged, "top_n")
    file = path_of(described["uri"])
    assert file == logged.folder / "big ones" / "a-shop-test" / logged.run_id / "data" / "top_n.parquet"
    table = pq.read_table(file)
    assert described["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (described["size"], described["rows"]) == (file.stat().st_size, len(table))
    assert described["columns"] == {field.name: str(field.type) for field in table.schema}
    assert table.equals(logged.outcome.result.models[1].top_n)
    assert table.schema.metadata[b"evalplugin"]  # the digests of the train data
    checksums = json.loads(logged.run.data.tags["evalplugin.checksums"])
    assert set(checksums) == files


def test_a_sample_has_all_rows_of_the_same_users_in_every_table(logged: SimpleNamespace) -> None:
    users = []
    for name in ("per_user", "top_n", "history"):
        described = manifest(logged, name)
        sample = pd.read_parquet(logged.client.download_artifacts(logged.run_id, described["sample"]))
        whole = pd.read_parquet(path_of(described["uri"]))
        users.append(set(sample.user))
        expected = whole[whole.user.isin(users[-1])].reset_index(drop=True)
        pd.testing.assert_frame_equal(sample, expected)
        assert (described["sample_users"], described["sample_rows"]) == (10, len(sample))
    assert users[0] == users[1] == users[2]


def test_tables_are_read_back_as_if_they_were_in_the_run(logged: SimpleNamespace) -> None:
    (contest,) = read_contests(logged.uri)
    for model, result in zip(contest.models, logged.outcome.result.models, strict=True):
        assert model.scores.values.tobytes() == result.per_user.values.tobytes()
    contest = with_lists(contest, logged.uri)
    assert contest.models[1].top_n.to_pylist() == logged.outcome.result.models[1].top_n.to_pylist()
    assert contest.background is not None
    assert len(contest.background.history)


def test_the_model_lists_takes_those_of_the_run(logged: SimpleNamespace) -> None:
    result = logged.outcome.result.models[1]
    users = np.unique(result.data.test.user)
    request = ListRequest(result.data.train, users, 100, Candidates("all"), tracking_uri=logged.uri)
    top_n = Lists(run=logged.run_id).recommend_task(request)
    assert np.count_nonzero(top_n.item >= 0) == len(result.top_n)


def lost(file: Path) -> None:
    file.unlink()


def changed(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"p", b"q", 1))


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lost, "data/per_user.parquet is outside of the run and cannot be read: file:.*No such file"),
        (
            changed,
            r"the artifact data/per_user.manifest.json leads to file:.*, which \([\d,]+ bytes\) is not "
            r"what was logged: its SHA-256 begins with \w{12}, not \w{12}",
        ),
        (truncated, r"\(100 bytes\) is not what was logged"),
    ],
)
def test_a_table_that_is_no_longer_what_was_logged_is_one_clear_error(
    logged: SimpleNamespace, damage: Callable[[Path], None], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = path_of(manifest(logged, "per_user")["uri"])
    before = file.read_bytes()
    damage(file)
    try:
        assert main(["compare", "--tracking-uri", logged.uri]) == 1
        said = capsys.readouterr().err
    finally:
        file.write_bytes(before)
    assert f"run popularity ({logged.run_id}): " in said
    assert file.name in said
    assert re.search(words, said)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{}", "is not a manifest of a table"),
        (b"\xff", "is not a manifest of a table"),
        (None, "has the format 2 of a later version of evalplugin"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_one_clear_error(
    logged: SimpleNamespace, content: bytes | None, words: str, tmp_path: Path
) -> None:
    content = content or json.dumps({**manifest(logged, "top_n"), "format": 2}).encode()
    run = LoggedRun(logged.client, logged.client.get_run(logged.run_id))
    run.checksums.clear()  # as if the run were of another version
    file = path_of(logged.run.info.artifact_uri) / "data" / "top_n.manifest.json"
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        with pytest.raises(TrackingError, match=f"data/top_n.manifest.json {words}"):
            run.table("top_n")
    finally:
        file.write_bytes(before)


def test_without_the_key_large_tables_stay_and_one_warning_names_it(make: SimpleNamespace, uri: str) -> None:
    result, warnings = make.whole(), []
    tracker = MlflowTracker.open(result.bakeoff, uri, large=large.LargeTables(warn=warnings.append))
    for model in result.models[:2]:
        tracker.start_model(model.data, model.model, model.type)
        tracker.finish_model(model)
        files = {file.path for file in tracker.runs.client.list_artifacts(tracker.run_id(model), "data")}
        assert {"data/per_user.parquet", "data/top_n.parquet"} <= files
    (warning,) = warnings
    assert "tracking: {large_artifacts: s3://bucket/folder}" in warning


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_fitted(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("taken").write_text("a file")
    monkeypatch.setattr(
        "evalplugin.workspace.Workspace.prepare", lambda *_, **__: pytest.fail("data is read")
    )
    with pytest.raises(DataError, match=r"tracking.large_artifacts: .*taken"):
        evalplugin.run(config("taken/below"), tracking_uri=uri)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("https://host/folder", "nothing is written to https:"),
        ("runs:/1234/data", "nothing is written to runs:"),
        ("s3://key:secret@bucket/folder", "has credentials in it"),
        (" s3://bucket", "has white space around it"),
        ("${BUCKET}/folder", "variables are not filled in here"),
    ],
)
def test_a_uri_that_names_no_folder_is_a_mistake_of_the_config(value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        evalplugin.run(config(value))
    assert "secret" not in str(error.value)
