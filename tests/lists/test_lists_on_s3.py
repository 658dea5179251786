"""Lists and truth in S3, by the protocol: read as local files are, written whole, errors named, requests retried."""

from __future__ import annotations

import gzip
import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers import S3_CLIENT, ObjectStorage, free_port

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.data.files import TableFiles, find_files
from evalplugin.data.formats import ParquetFormat
from evalplugin.files import stores
from evalplugin.files.outputs import open_output
from evalplugin.lists.files import open_files

pytestmark = pytest.mark.slow

METRICS = ["ndcg@10", "recall@5", "hit@3"]
SECRET = "an-aws-secret-of-32-characters-xx"


@pytest.fixture(autouse=True)
def secret(s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(4)
    users = np.repeat(np.arange(300), 10)
    items = np.concatenate([rng.choice(80, 10, replace=False) for _ in range(300)])
    lists = pd.DataFrame({"user": users, "item": items, "rank": np.tile(np.arange(1, 11), 300)})
    truth = pd.DataFrame(
        {"user": np.repeat(np.arange(20, 310), 4), "item": np.tile(np.array([3, 9, 27, 70]), 290)}
    )
    return {"lists": lists, "truth": truth}


@pytest.fixture(scope="module")
def folder(storage: ObjectStorage, tables: dict[str, pd.DataFrame]) -> str:
    """Lists by shard, and truth in several formats, as URIs start."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in (S3_CLIENT | {"AWS_ENDPOINT_URL": storage.proxy.url}).items():
            environment.setenv(name, value)
        root = f"{storage.bucket}/scored"
        lists, truth = tables["lists"], tables["truth"]
        for shard, rows in lists.groupby(lists["user"] % 3):
            with open_output(f"{root}/lists/shard={shard}/part-0.parquet") as file:
                pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), file, row_group_size=100)
        csv = truth.to_csv(index=False).encode()
        with open_output(f"{root}/truth.csv") as file:
            file.write(csv)
        with open_output(f"{root}/truth.csv.gz") as file:
            file.write(gzip.compress(csv))
        with open_output(f"{root}/truth.parquet") as file:
            pq.write_table(pa.table(truth), file)
        qrels = "".join(f"{user} 0 {item} 1\n" for user, item in truth.to_numpy().tolist())
        with open_output(f"{root}/truth.qrels") as file:
            file.write(qrels.encode())
    return root


@pytest.mark.parametrize("lists", ["lists", "lists/**/*.parquet", "lists/shard=[012]/part-?.parquet"])
@pytest.mark.parametrize("truth", ["truth.csv", "truth.csv.gz", "truth.parquet"])
def test_scores_are_those_of_tables_in_memory(folder, tables, lists, truth):
    expected = evalplugin.score(tables["lists"], tables["truth"], METRICS)
    found = evalplugin.score(f"{folder}/{lists}", f"{folder}/{truth}", METRICS)
    assert found.means == expected.means
    pd.testing.assert_frame_equal(found.per_user, expected.per_user, check_exact=True)


def test_scores_out_of_core_are_the_same(folder: str, tables: dict[str, pd.DataFrame]) -> None:
    expected = evalplugin.score(tables["lists"], tables["truth"], METRICS)
    found = evalplugin.score(f"{folder}/lists", f"{folder}/truth.parquet", METRICS, memory="1MB")
    assert found.means == expected.means
    pd.testing.assert_frame_equal(found.per_user, expected.per_user, check_exact=True)


def test_trec_files_are_read(folder: str, tables: dict[str, pd.DataFrame]) -> None:
    truth = open_files(f"{folder}/truth.qrels", "truth", format="trec").read(
        {"user": "user", "rating": "rating"}
    )
    assert len(truth) == len(tables["truth"])


def test_only_the_columns_and_row_groups_that_are_read_are_fetched(s3: ObjectStorage) -> None:
    uri = f"{s3.bucket}/wide.parquet"
    wide = pa.table({f"c{i}": np.random.default_rng(i).random(20_000) for i in range(20)})
    with open_output(uri) as file:
        pq.write_table(wide, file, row_group_size=5_000)
    found = find_files(Path(), uri)
    s3.proxy.clear()
    rows = 0
    for number, batch in enumerate(TableFiles(uri, found.files, ParquetFormat()).pieces({"x": "c3"}, 1000)):
        rows += len(batch)
        if number == 0:
            first = s3.proxy.received
    assert rows == 20_000
    assert s3.proxy.received < found.files[0].size / 8
    assert first < s3.proxy.received  # later row groups came later


def test_columns_that_folders_name_are_read(folder: str) -> None:
    source = open_files(f"{folder}/lists", "lists")
    assert source.columns == ["user", "item", "rank", "shard"]
    table = source.read({"user": "user", "score": "shard"})
    assert (table.ids("user", "user").values % 3).tolist() == table.arrow("shard").to_pylist()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("truht.csv", r"file not found: .*/scored/truht\.csv; did you mean 'truth\.csv'"),
        ("*.tsv", r"no file matches .*/scored/\*\.tsv"),
        ("lists/shard=7", "file not found: .*/lists/shard=7$"),  # three are equally near
    ],
)
def test_a_missing_object_is_named(folder: str, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evalplugin.score(f"{folder}/{name}", f"{folder}/truth.csv", METRICS)


def test_a_missing_bucket_is_named(s3: ObjectStorage) -> None:
    with pytest.raises(DataError, match=f"there is no bucket 'nowhere' at {s3.proxy.url}"):
        evalplugin.score("s3://nowhere/lists.csv", "s3://nowhere/truth.csv", METRICS)
    with (
        pytest.raises(DataError, match="there is no bucket 'nowhere'"),
        open_output("s3://nowhere/a.csv") as file,
    ):
        file.write(b"text")


def test_no_permission_is_named_with_the_request(s3: ObjectStorage, folder: str) -> None:
    s3.proxy.add("status", status=403)
    with pytest.raises(
        DataError, match=r"truth\.csv: no permission \(403, HeadObject.*\) at http.*: give credentials that"
    ) as caught:
        evalplugin.score(f"{folder}/truth.csv", f"{folder}/truth.csv", METRICS)
    assert SECRET not in str(caught.value)


def test_a_server_that_nobody_runs_is_refused_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    with pytest.raises(
        DataError,
        match=r"the server at http://127.* failed in up to 2 attempts: NETWORK_CONNECTION, .*Failed to connect",
    ):
        evalplugin.score("s3://bucket/lists.csv", "s3://bucket/truth.csv", METRICS)


def test_a_server_of_another_kind_is_named(s3: ObjectStorage, folder: str) -> None:
    s3.proxy.add("garbage")
    with pytest.raises(DataError, match=f"the server at {s3.proxy.url}"):
        evalplugin.score(f"{folder}/lists/*.parquet", f"{folder}/truth.csv", METRICS)


@pytest.mark.parametrize(
    ("kind", "choices"),
    [
        ("status", {"status": 500}),
        ("status", {"status": 503}),
        ("reset", {}),
        ("cut", {}),
        ("slow", {"seconds": 2}),
    ],
)
def test_requests_that_fail_twice_are_repeated(s3, folder, tables, monkeypatch, kind, choices):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "4")
    monkeypatch.setattr(stores, "_SILENT_SECONDS", 1.0 if kind == "slow" else 60.0)
    stores._opened.cache_clear()
    s3.proxy.add(kind, path=r"truth\.parquet", method="GET", count=2, **choices)
    found = evalplugin.score(tables["lists"], f"{folder}/truth.parquet", METRICS)
    assert len(s3.proxy.broken) == 2
    assert found.means == evalplugin.score(tables["lists"], tables["truth"], METRICS).means


@pytest.mark.parametrize(
    ("kind", "choices", "message"),
    [
        ("status", {"status": 500}, r"the server at http.* failed in up to 2 attempts: INTERNAL_FAILURE"),
        (
            "status",
            {"status": 503},
            r"the server at http.* failed in up to 2 attempts: SERVICE_UNAVAILABLE, GetObject",
        ),
        ("reset", {}, r"the server at http.* failed in up to 2 attempts: NETWORK_CONNECTION, "),
        ("cut", {}, r"the server at http.* failed in up to 2 attempts: .*bytes missing"),
        ("slow", {"seconds": 2}, r"the server at http.* failed in up to 2 attempts: .*too slow"),
    ],
)
def test_a_server_that_keeps_failing_is_named_with_the_attempts(
    s3: ObjectStorage,
    folder: str,
    tables: dict[str, pd.DataFrame],
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    choices: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    monkeypatch.setattr(stores, "_SILENT_SECONDS", 1.0 if kind == "slow" else 60.0)
    stores._opened.cache_clear()
    s3.proxy.add(kind, path=r"truth\.csv", method="GET", **choices)
    with pytest.raises(DataError, match=rf"truth\.csv: {message}"):
        evalplugin.score(tables["lists"], f"{folder}/truth.csv", METRICS)
    # The HTTP client itself repeats a request once where the connection was used before and is reset.
    assert len(s3.proxy.broken) == 2 + (kind == "reset")


def test_an_output_appears_whole_or_not_at_all(s3: ObjectStorage) -> None:
    uri = f"{s3.bucket}/written/big.bin"
    content = np.random.default_rng(0).bytes(11 * 2**20)  # several parts

    def write(*, failing: bool) -> None:
        with open_output(uri) as file:
            file.write(content)
            if failing:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(failing=True)
    s3.proxy.add("status", path="partNumber=2", method="PUT", status=500)
    with pytest.raises(DataError, match=r"the server .* failed in 1 attempt: INTERNAL_FAILURE, UploadPart"):
        write(failing=False)
    s3.proxy.clear()
    with pytest.raises(DataError, match="file not found"):
        find_files(Path(), uri)
    write(failing=False)
    (file,) = find_files(Path(), uri).files
    assert file.open().read() == content


def test_the_command_reads_and_writes_uris(s3, folder, tables, capsys):
    arguments = ["score", "--lists", f"{folder}/lists", "--truth", f"{folder}/truth.csv", "-m", "ndcg@10"]
    for ending in ("parquet", "csv"):
        out = f"{s3.bucket}/out/per_user.{ending}"
        assert main([*arguments, "--format", "json", "--out", out]) == 0
        (file,) = find_files(Path(), out).files
        local = Path(f"local.{ending}")
        assert main([*arguments, "--format", "json", "--out", str(local)]) == 0
        assert file.open().read() == local.read_bytes()
    assert not list(Path().glob("s3*"))
    assert json.loads(capsys.readouterr().out.partition("}\n}")[0] + "}}")["ndcg@10"]["users"] == 290


@pytest.mark.parametrize(
    "arguments",
    [
        ["--lists", "s3://AKIAKEY:the-secret-key@bucket/lists.csv", "--truth", "t.csv"],
        ["--lists", "l.csv", "--truth", "t.csv", "--out", "s3://AKIAKEY:the-secret-key@bucket/out.csv"],
        ["--lists", "s3://nowhere/lists.csv", "--truth", "t.csv"],
        ["--lists", "s3:/mlflow/missing.csv", "--truth", "t.csv"],
        ["--lists", "s4://bucket/lists.csv", "--truth", "t.csv"],
        ["--lists", "l.csv", "--truth", "t.csv", "--out", "s3://nowhere/out.csv"],
    ],
)
@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_errors_end_with_exit_code_2_and_without_credentials(arguments, debug, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    assert main(["score", *arguments, "-m", "ndcg@10", *debug]) == 2
    shown = capsys.readouterr()
    everything = shown.out + shown.err + caplog.text
    assert ("Traceback" in everything) == bool(debug)
    for secret in ("the-secret-key", "AKIAKEY", SECRET):
        assert secret not in everything
    if not debug:
        assert len(re.findall(r"\n", shown.err)) == 1


def test_other_schemes_are_read_by_fsspec() -> None:
    import fsspec

    with fsspec.open("memory://shop/lists/shard=1/a.csv", "w") as file:
        file.write("user,item,rank\n1,2,1\n")
    with open_output("memory://shop/truth.csv") as out:
        out.write(b"user,item\n1,2\n")
    found = evalplugin.score("memory://shop/lists/*/a.csv", "memory://shop/truth.csv", ["hit@1"])
    assert found.means == {"hit@1": 1.0}
    assert [str(file) for file in find_files(Path(), "memory://shop/*.csv").files] == [
        "memory://shop/truth.csv"
    ]
    with pytest.raises(DataError, match=r"a package for sftp is not installed: .*paramiko"):
        find_files(Path(), "sftp://host/a.csv")
    with pytest.raises(DataError, match="'hfds' is not a kind of URI that can be read; did you mean 'hdfs'"):
        find_files(Path(), "hfds://host/a.csv")
