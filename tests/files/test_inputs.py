"""Fingerprints of files, folders, patterns, variables and URIs; inputs that values name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from servers import ObjectStorage

from evalplugin.base.errors import DataError
from evalplugin.files import inputs
from evalplugin.files.inputs import CHANGED, changed_input, fingerprint_of, inputs_named_in
from evalplugin.files.uri_fingerprints import uri_fingerprint


def named(value: object, *folders: Path) -> list[str]:
    return list(inputs_named_in(value, folders or (Path.cwd(),)))


def of(name: str) -> str:
    return fingerprint_of(name, uri_fingerprint)


def test_values_name_files_folders_patterns_and_uris(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    for file in ("lists/a.csv", "lists/b.csv", "w.npy"):
        (tmp_path / file).write_bytes(b"x")
    at = str(tmp_path)
    assert named("w.npy", tmp_path) == [f"{at}/w.npy"]
    assert named("lists", tmp_path) == named("lists/", tmp_path) == [f"{at}/lists/"]
    files = [f"{at}/lists/a.csv", f"{at}/lists/b.csv"]
    assert named("lists/*.csv", tmp_path) == [f"glob:{at}/lists/*.csv", *files]
    nested = {"a": [1, {"w.npy": None}], "b": ("lists/a.csv", 2.5, True)}
    assert named(nested, tmp_path) == [f"{at}/w.npy", files[0]]
    assert named(f"file://{at}/w.npy") == [f"{at}/w.npy"]
    uris = "models:/shop@champion runs:/0a/model mlflow-artifacts:/1/x https://a.org/w s3://b/w"
    for uri in uris.split():
        assert named(uri) == [uri]


def test_bytecode_that_python_writes_changes_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    before = of(f"glob:{tmp_path}/*"), of(f"glob:{tmp_path}/**/*.*")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "model.cpython-311.pyc").touch()
    assert (of(f"glob:{tmp_path}/*"), of(f"glob:{tmp_path}/**/*.*")) == before
    (tmp_path / "other.py").touch()
    assert of(f"glob:{tmp_path}/*") != before[0]


def test_files_relative_to_the_config_and_to_the_working_directory_both_count(tmp_path: Path) -> None:
    (tmp_path / "w.npy").write_bytes(b"config's")
    Path("w.npy").write_bytes(b"own")
    assert named("w.npy", tmp_path, Path.cwd()) == [f"{tmp_path}/w.npy", f"{Path.cwd()}/w.npy"]


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "/", "~", "cosine", "a\0b", "x" * 5000, "cuda:0", "a/*.csv", "[", "sqlite:///a.db"],
)
def test_texts_that_name_no_input(text: str) -> None:
    assert named(text) == []


def test_fingerprint_of_a_file_changes_with_its_content_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path("w.bin").absolute()
    name = str(file)
    assert of(name) == "missing"
    file.write_bytes(b"one")
    first = of(name)
    os.utime(file, (1, 1))
    assert of(name) == first
    file.write_bytes(b"two")
    os.utime(file, (1, 1))  # the same size and time, as a copy may have that keeps times
    assert of(name) != first
    opened = 0

    def count(*args: object, **options: object) -> None:
        nonlocal opened
        opened += 1

    monkeypatch.setattr(inputs.hashlib, "file_digest", count)
    assert of(name) != first
    assert opened == 0  # read once until it changes


def test_fingerprint_of_a_folder_covers_names_and_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("d").absolute()
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(b"1")
    (folder / "sub/b").write_bytes(b"2")
    seen = {of(f"{folder}/")}
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/c.pyc").write_bytes(b"3")
    assert of(f"{folder}/") in seen
    for change in (
        lambda: (folder / "sub/b").write_bytes(b"3"),
        lambda: (folder / "sub/b").rename(folder / "sub/c"),
        lambda: (folder / "new").write_bytes(b""),
        lambda: (folder / "a").unlink(),
    ):
        change()
        seen.add(of(f"{folder}/"))
    assert len(seen) == 5
    monkeypatch.setattr(inputs, "_MAX_FILES", 1)  # of files beyond, size and time count
    before = of(f"{folder}/")
    (folder / "sub/c").write_bytes(b"longer")
    assert of(f"{folder}/") != before


def test_hidden_files_and_folders_that_are_linked_count(tmp_path: Path) -> None:
    folder, other = tmp_path / "program", tmp_path / "other"
    for one in (folder, folder / ".git", other):
        one.mkdir()
    (folder / "data").symlink_to(other)
    (other / "back").symlink_to(folder)  # a circle
    found = set()
    for file in (folder / "run", folder / ".env", other / "weights"):
        file.write_bytes(b"1")
        found.add(of(f"{folder}/"))
    assert len(found) == 3
    (folder / ".git/index").write_bytes(b"1")
    assert of(f"{folder}/") in found


def test_special_files_are_not_read() -> None:
    os.mkfifo("pipe")
    assert of(str(Path("pipe").absolute())) == "special"
    Path("locked").write_bytes(b"")
    assert named("pipe") == []


def test_fingerprint_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEATURES", raising=False)
    assert of("env:FEATURES") == "unset"
    monkeypatch.setenv("FEATURES", "hunter2")
    value = of("env:FEATURES")
    assert "hunter2" not in value
    monkeypatch.setenv("FEATURES", "hunter3")
    assert of("env:FEATURES") != value


def test_changed_input_names_the_first_difference() -> None:
    file = str(Path("w.bin").absolute())
    Path(file).write_bytes(b"x")
    now = of(file)
    assert changed_input({}, {}) is None
    assert changed_input({file: now}, {}) is None
    assert changed_input({file: "other"}, {}) == file
    assert changed_input({file: "missing"}, {}) == file
    assert changed_input({file: CHANGED}, {}) == file
    assert changed_input({}, {file: now}) == file  # the parameter names it since it exists
    assert changed_input({"models:/a@b": "version 1"}, {"models:/a@b": "version 1"}) is None
    assert changed_input({"models:/a@b": "version 1"}, {"models:/a@b": "version 2"}) == "models:/a@b"
    assert changed_input({"models:/a@b": "version 1"}, {}) == "models:/a@b"


@pytest.fixture
def address() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            found = {"/tag": ("ETag", '"7"'), "/time": ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")}
            self.send_response(404 if self.path == "/none" else 200)
            if self.path in found:
                self.send_header(*found[self.path])
            self.send_header("Content-Length", "5")
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_fingerprint_of_an_address_is_what_its_server_says(address: str) -> None:
    assert of(f"{address}/tag") == '"7"'
    assert of(f"{address}/time") == "Sat, 21 Nov 2026 10:00:00 GMT, 5 bytes"
    for path, reason in (("plain", "neither ETag nor Last-Modified"), ("none", "404")):
        with pytest.raises(DataError, match=f"cannot be known whether its content has changed: .*{reason}"):
            of(f"{address}/{path}")
    with pytest.raises(DataError, match="cannot be known") as caught:
        of("http://me:hunter2@127.0.0.1:9/x")
    assert "hunter2" not in str(caught.value)


@pytest.mark.slow
def test_fingerprint_of_objects_is_their_sizes_and_times(s3: ObjectStorage) -> None:
    import boto3

    client, bucket = boto3.client("s3", endpoint_url=s3.proxy.url), s3.bucket.removeprefix("s3://")
    client.put_object(Bucket=bucket, Key="w/a.bin", Body=b"one")
    file, folder = (of(f"{s3.bucket}/{key}") for key in ("w/a.bin", "w"))
    assert of(f"{s3.bucket}/absent") == "missing"
    client.put_object(Bucket=bucket, Key="w/b.bin", Body=b"two")
    assert of(f"{s3.bucket}/w") != folder
    assert of(f"{s3.bucket}/w/a.bin") == file
    client.put_object(Bucket=bucket, Key="w/a.bin", Body=b"other")
    assert of(f"{s3.bucket}/w/a.bin") != file
