"""Files that URIs name, as far as no server is needed."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path

import pytest

from evalplugin.base.errors import DataError
from evalplugin.base.secrets import redact_message
from evalplugin.files.outputs import check_writable, open_output
from evalplugin.files.remote import RemoteFile, matches_pattern
from evalplugin.files.stores import store_of, store_reason
from evalplugin.files.uris import is_remote, local_path


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("b/*.parquet", ["b/a.parquet"], ["b/c/a.parquet", "b/.a.parquet", "b/a.parquet.gz"]),
        ("b/**/*.csv", ["b/a.csv", "b/c/a.csv", "b/c/d/a.csv"], ["b/.tmp/a.csv", "ba.csv"]),
        ("b/**", ["b/a", "b/c/a"], ["b/.a", "c/a"]),
        (
            "b/day=2026-0[1-3]/a?.csv",
            ["b/day=2026-02/a1.csv"],
            ["b/day=2026-04/a1.csv", "b/day=2026-02/a/.csv"],
        ),
        ("b/[!x]+(1).csv", ["b/y+(1).csv"], ["b/x+(1).csv", "b//+(1).csv"]),
    ],
)
def test_patterns_match_names_as_glob_does(pattern: str, matching: list[str], others: list[str]) -> None:
    assert [name for name in [*matching, *others] if matches_pattern(name, pattern)] == matching


@pytest.mark.parametrize(
    ("uri", "secret"),
    [
        ("s3://AKIAKEY:s3cr3t/with+slash@bucket/key.csv", "s3cr3t"),
        ("s3://AKIAKEYALONE@bucket/key.csv", "AKIAKEYALONE"),
        ("s3://bucket:s3cr3t9/key.csv", "s3cr3t9"),
        ("s3a://user:s3cr3ta@bucket/key.csv", "s3cr3ta"),
        ("gs://token123456@bucket/key", "token123456"),
        ("abfs://container:s3cr3tb@account.dfs.core.windows.net/key", "s3cr3tb"),
        ("sftp://user:s3cr3tc@host/file.csv", "s3cr3tc"),
        ("s3://bucket/key.csv?secret_key=s3cr3td", "s3cr3td"),
        ("https://host/key.csv?X-Amz-Signature=s3cr3te", "s3cr3te"),
    ],
)
def test_credentials_in_a_uri_are_refused_and_never_shown(uri: str, secret: str) -> None:
    with pytest.raises(DataError, match="has credentials in it") as caught:
        store_of(uri)
    assert secret not in str(caught.value)
    assert secret not in redact_message(f"another library says: {secret}/x")


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("runs:/abc/lists.parquet", "is a URI of MLflow"),
        ("s3://", "names no bucket"),
        ("s3:///key", "names no bucket"),
    ],
)
def test_a_uri_of_no_store_is_refused(uri: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        store_of(uri)


def test_only_uris_of_other_machines_are_remote() -> None:
    names = [
        "s3://b/k",
        "hdfs:///k",
        "S3://b/k",
        "file:///tmp/a",
        "/tmp/a",
        "a/b.csv",
        r"C:\a.csv",
        "C:/a.csv",
    ]
    assert [is_remote(name) for name in names] == [True, True, True, *[False] * 5]
    assert local_path("file:///tmp/a%20b.csv") == Path("/tmp/a b.csv")
    for host in ("host", "[host"):
        with pytest.raises(DataError, match="names a machine or a user; a file of this machine is file:///"):
            local_path(f"file://{host}/a.csv")
    with pytest.raises(DataError, match=r"^file://\*\*\*@/a.csv: names a machine or a user"):
        local_path("file://ann:hunter2pass@/a.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: The specified", "there is no bucket 'b'"),
        (
            "AWS Error UNKNOWN (HTTP status 502) during HeadObject operation: No",
            "the server at http://h:1 failed in up to 7 attempts: status 502, HeadObject: No; see AWS_ENDPOINT_URL",
        ),
        (
            "AWS Error EXPIRED_TOKEN during GetObject operation: old",
            r"no permission \(403, GetObject, EXPIRED_TOKEN\) at http://h:1: give credentials",
        ),
        ("AWS Error NO_SUCH_KEY during GetObject operation: gone", "^file not found$"),
    ],
)
def test_errors_of_s3_say_what_to_do(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://h:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
    found = store_reason(OSError(f"When doing something: {text}"), "s3://b/k")
    assert re.search(message, found)
    assert store_reason(OSError("disk full"), "s3://b/k") is None
    azure = OSError(
        "Check failed: AuthenticationException. Failed to get token from DefaultAzureCredential. See"
    )
    assert "no credentials: set AZURE_TENANT_ID" in str(
        store_reason(azure, "abfs://c@a.dfs.core.windows.net/k")
    )


def test_a_remote_file_is_named_like_a_path_and_can_be_pickled() -> None:
    file = RemoteFile("s3://b/day=1/a.csv.gz", 5, 0)
    assert (file.name, file.suffix, file.parent) == ("a.csv.gz", ".gz", "s3://b/day=1")
    assert pickle.loads(pickle.dumps(file)) == file
    assert str(file) == "s3://b/day=1/a.csv.gz"


def test_an_output_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("before")
    target.chmod(0o640)

    def write_half() -> None:
        with open_output(target) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert target.read_text() == "before"
    with open_output(f"file://{target}") as file:
        file.write(b"after")
        assert target.read_text() == "before"
    assert target.read_text() == "after"
    assert target.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out.csv"]


def test_an_output_through_a_link_changes_its_target(tmp_path: Path) -> None:
    link, target = tmp_path / "link.csv", tmp_path / "folder" / "real.csv"
    target.parent.mkdir()
    link.symlink_to(target)
    with open_output(link) as file:
        file.write(b"text")
    assert link.is_symlink()
    assert target.read_bytes() == b"text"


def test_an_output_may_be_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(pipe) as file:
        file.write(b"text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)


def test_an_output_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    check_writable(tmp_path / "new.html")
    with pytest.raises(DataError, match="there is no folder"):
        check_writable(tmp_path / "missing" / "new.html")
    with pytest.raises(DataError, match="has credentials in it"):
        check_writable("s3://key:secret@bucket/new.html")
