"""Large tables in S3, by the protocol: written, read back, refused, lost, slow; credentials are never shown."""

from __future__ import annotations

import re
from typing import Any

import pytest
from mlflow import MlflowClient
from samples import small_config, write_config
from servers import ObjectStorage

from evalplugin.cli import main
from evalplugin.tracking import large
from evalplugin.tracking.read.contests import read_contests, with_lists
from evalplugin.tracking.read.logged import LoggedRun

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_drawing")]


@pytest.fixture(autouse=True)
def many_are_large(s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "LARGE", 1500)


def run(uri: str, folder: str) -> int:
    write_config(small_config(tracking={"large_artifacts": folder}))
    return main(["run", "shop.yaml", "--tracking-uri", uri])


def popularity(uri: str) -> LoggedRun:
    client = MlflowClient(uri)
    (found,) = client.search_runs(["1"], "tags.`evalplugin.model` = 'popularity'")
    return LoggedRun(client, found)


def objects(s3: ObjectStorage) -> list[str]:
    import boto3

    client = boto3.client("s3", endpoint_url=s3.proxy.url)
    return [one["Key"] for one in client.list_objects_v2(Bucket=s3.bucket[5:]).get("Contents", [])]


def test_tables_go_to_the_bucket_and_come_back(uri: str, s3: ObjectStorage, capsys: Any) -> None:
    assert run(uri, f"{s3.bucket}/large") == 0
    found = popularity(uri)
    key = f"large/shop/{found.id}/data/top_n.parquet"
    there = objects(s3)
    assert key in there
    assert not [name for name in there if ".evalplugin-" in name]  # what was tried with is gone
    assert found.json_file("data/top_n.manifest.json")["uri"] == f"{s3.bucket}/{key}"
    (contest,) = read_contests(uri)
    contest = with_lists(contest, uri)
    assert len(contest.models[1].top_n) == found.json_file("data/top_n.manifest.json")["rows"]
    assert main(["compare", "--tracking-uri", uri, "--html", "page.html"]) == 0

    capsys.readouterr()
    for status, words in (
        (403, "no permission"),
        (404, "file not found|does not exist"),
        (500, "failed in 1 attempt"),
    ):
        s3.proxy.add("status", "per_user.parquet", status=status)
        assert main(["compare", "--tracking-uri", uri]) == 1
        said = " ".join(capsys.readouterr().err.split())
        s3.proxy.clear()
        assert re.search(
            r"run \w+ \(\w+\): data/per_user.parquet is outside of the run and cannot be read", said
        )
        assert f"{s3.bucket}/large/shop/" in said
        assert re.search(words, said), said
        assert "Traceback" not in said


@pytest.mark.parametrize(
    ("folder", "fault", "words"),
    [
        ("s3://nowhere/large", None, "there is no bucket 'nowhere'"),
        ("s3://mlflow/large", {"status": 403, "method": "PUT|POST"}, "no permission"),
        ("s3://mlflow/large", {"status": 503}, "failed in 1 attempt"),
    ],
)
def test_a_bucket_that_refuses_is_an_error_before_anything_is_fitted(
    folder: str, fault: dict[str, Any] | None, words: str, uri: str, s3: ObjectStorage, capsys: Any
) -> None:
    if fault is not None:
        s3.proxy.add("status", **fault)
    assert run(uri, folder) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"tracking.large_artifacts: {folder}" in said
    assert words in said
    assert "fit" not in said
    assert not MlflowClient(uri).search_runs(["1"])


def test_a_bake_off_goes_on_where_the_bucket_failed(uri: str, s3: ObjectStorage, capsys: Any) -> None:
    s3.proxy.add("status", "top_n.parquet", status=503)
    assert run(uri, f"{s3.bucket}/again") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "top_n.parquet: the server at" in said
    assert "--resume" in said
    s3.proxy.clear()
    assert main(["run", "shop.yaml", "--tracking-uri", uri, "--resume"]) == 0
    assert popularity(uri).table("top_n") is not None
