"""MovieLens on disk, in an archive, and from a server that may misbehave."""

from __future__ import annotations

import hashlib
import io
import os
import re
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from samples import refusal

from evalplugin.base.errors import DataError
from evalplugin.data import DATASETS, Interactions, LoadContext, MovieLens
from evalplugin.data.datasets import movielens as module

CSV = {
    "ratings.csv": b"userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n2,10,4.0,835355493\n",
    "movies.csv": 'movieId,title,genres\n10,"Goldeneye, The (1995)",Action\n31,Am\u00e9lie (2001),Drama\n'.encode(),
}
GENRES_100K = {10: (1, 16), 31: (0,)}  # flags of Action and Thriller, and of unknown
RATINGS = b"1::31::2::1260759144\n2::10::4::835355493\n"
MOVIES = "10::Goldeneye, The (1995)::Action\n31::Am\u00e9lie (2001)::Drama\n"
U_ITEM = "10|Goldeneye, The (1995)|1-Jan-1995||\n31|Am\u00e9lie (2001)|x||\n"
FOLDERS: dict[str, tuple[str, dict[str, bytes]]] = {
    "100k": ("ml-100k", {"u.data": RATINGS.replace(b"::", b"\t"), "u.item": U_ITEM.encode("latin-1")}),
    "1m": ("ml-1m", {"ratings.dat": RATINGS, "movies.dat": MOVIES.encode("latin-1")}),
    "10m": ("ml-10M100K", {"ratings.dat": RATINGS.replace(b"4:", b"4.0:"), "movies.dat": MOVIES.encode()}),
    **{name: (f"ml-{name}", CSV) for name in ("20m", "25m", "32m", "latest-small", "latest")},
}
FILES = {name: (folder, f"ml-{name}.zip", files) for name, (folder, files) in FOLDERS.items()}


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def damaged(archive: bytes) -> bytes:
    return archive[:45] + bytes(255 - byte for byte in archive[45:60]) + archive[60:]


def archive_of(version: str) -> bytes:
    folder, _, files = FILES[version]
    return zipped({f"{folder}/{name}": content for name, content in files.items()})


def lay_out(home: Path, folder: str, files: dict[str, bytes]) -> None:
    (home / folder).mkdir()
    for name, content in files.items():
        (home / folder / name).write_bytes(content)


def load(version: Any, home: Path) -> Interactions:
    return MovieLens(version).load(LoadContext(data_home=home))


def is_right(data: Interactions) -> bool:
    return (
        data.to_frame()[["user", "item"]].to_numpy().tolist() == [[1, 31], [2, 10]]
        and data.titles.tolist() == ["Goldeneye, The (1995)", "Am\u00e9lie (2001)"]
        and data.timestamp is not None
        and data.timestamp.tolist() == [1260759144, 835355493]
        and data.rating[1] == 4.0
    )


class Server:
    """A server of files by path; what is ``cut`` is announced whole and sent by half."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                content = server.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if self.path in server.cut else content)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(module, "_SERVER", server.url)
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def offer(
    server: Server, version: str, monkeypatch: pytest.MonkeyPatch, archive: bytes | None = None
) -> bytes:
    archive = archive_of(version) if archive is None else archive
    edition, md5 = module._EDITIONS[version], hashlib.md5(archive).hexdigest()
    server.files[f"/{FILES[version][1]}"] = archive
    if edition.md5 is not None:
        monkeypatch.setitem(module._EDITIONS, version, replace(edition, md5=md5))
    return archive


@pytest.mark.parametrize("version", FILES)
def test_an_archive_is_unpacked_and_read(version: Any, tmp_path: Path) -> None:
    folder, archive, files = FILES[version]
    (tmp_path / archive).write_bytes(archive_of(version))
    assert is_right(load(version, tmp_path))
    assert sorted(p.name for p in (tmp_path / folder).iterdir()) == sorted(files)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([folder, archive])


@pytest.mark.parametrize("version", FILES)
def test_absent_dataset_is_downloaded_once(version, tmp_path, server, monkeypatch):
    offer(server, version, monkeypatch)
    home, told = tmp_path / "new" / "home", []
    assert MovieLens(version).check(LoadContext(data_home=home)) == []
    data = MovieLens(version).load(LoadContext(data_home=home, report=lambda *what: told.append(what)))
    assert is_right(data)
    assert (f"downloading {FILES[version][1]}: 0.0 MiB", 1.0) in told
    asked = list(server.asked)
    assert is_right(load(version, home))
    assert server.asked == asked
    assert [p.name for p in home.iterdir()] == [FILES[version][0]]


def test_data_home_defaults_to_the_user_cache(tmp_path, server, monkeypatch):
    offer(server, "1m", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert is_right(MovieLens("1m").load(LoadContext()))
    assert (tmp_path / "evalplugin" / "ml-1m" / "ratings.dat").is_file()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert LoadContext().home == tmp_path / "home" / ".cache" / "evalplugin"


def test_published_checksums_are_required(tmp_path: Path, server: Server) -> None:
    server.files["/ml-1m.zip"] = archive = archive_of("1m")
    message = refusal(load, "1m", tmp_path)
    was = hashlib.md5(archive).hexdigest()
    assert f"checksum of the download is {was}, but should be c4d9eecfca2ab87c1945afe126590906" in message
    assert list(tmp_path.iterdir()) == []


def test_a_transfer_that_is_cut_short_leaves_nothing(tmp_path, server, monkeypatch):
    size = len(offer(server, "1m", monkeypatch))
    server.cut.add("/ml-1m.zip")
    assert f"the transfer ended after {size // 2} of {size} bytes" in refusal(load, "1m", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_offline_and_absent_says_where_to_put_which_file(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SERVER", "http://127.0.0.1:1")
    message = refusal(load, "1m", tmp_path)
    for part in (
        f"MovieLens 1m is not in {tmp_path}: cannot download http://127.0.0.1:1/ml-1m.zip: ",
        f"Put the folder {tmp_path}/ml-1m (with ratings.dat and movies.dat) or the archive {tmp_path}/ml-1m.zip there",
        "--data-home or EVALPLUGIN_DATA_HOME",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (b"no zip at all", "File is not a zip file; download it again"),
        (zipped({"other/ratings.dat": b""}), "ml-1m.zip has no folder 'ml-1m'"),
        (archive_of("1m")[:-30], "File is not a zip file; download it again"),
        (damaged(archive_of("1m")), "ml-1m.zip: cannot be unpacked into "),
        (zipped({"ml-1m": b"x"}), "ml-1m.zip has no folder 'ml-1m'"),
    ],
)
def test_a_bad_archive_is_refused_and_leaves_no_folder(archive: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "ml-1m.zip").write_bytes(archive)
    with pytest.raises(DataError, match=re.escape(message)):
        load("1m", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["ml-1m.zip"]


def test_a_folder_that_lacks_a_file_is_found_before_loading(tmp_path: Path) -> None:
    lay_out(tmp_path, "ml-1m", {"ratings.dat": RATINGS})
    [problem] = MovieLens("1m").check(LoadContext(data_home=tmp_path))
    assert problem.path == ("version",)
    assert problem.message == f"file not found: {tmp_path}/ml-1m/movies.dat"
    assert refusal(load, "1m", tmp_path) == problem.message


def test_a_data_home_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = refusal(load, "1m", tmp_path / "file/home")
    assert f"cannot write to the data home {tmp_path}/file/home: " in message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ratings.dat", b"1::x::3::4\n", "ratings.dat: cannot be read as user, item, rating, timestamp: "),
        ("movies.dat", b"Toy Story\n", "movies.dat: cannot be read as films with id and title: "),
    ],
)
def test_damaged_files_are_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    folder, _, files = FILES["1m"]
    lay_out(tmp_path, folder, files | {name: content})
    assert message in refusal(load, "1m", tmp_path)


def test_items_without_title_show_their_ids_and_are_noted(tmp_path: Path) -> None:
    lay_out(tmp_path, "ml-latest", CSV | {"movies.csv": b"movieId,title,genres\n10,Goldeneye,x\n"})
    data = load("latest", tmp_path)
    assert data.titles.tolist() == ["Goldeneye", "31"]
    assert data.notes == ("1 items have no title in movies.csv: their ids are shown instead",)


@pytest.mark.skipif(
    "EVALPLUGIN_DATA_HOME" not in os.environ, reason="EVALPLUGIN_DATA_HOME is not set: no real ratings"
)
def test_the_real_ratings_are_read() -> None:
    data = load("latest-small", Path(os.environ["EVALPLUGIN_DATA_HOME"]))
    assert len(data) > 100_000
    assert data.rating_scale == (0.5, 5.0)
    assert data.titles[0] == "Toy Story (1995)"
    assert data.notes == ()


@pytest.mark.parametrize("version", FILES)
def test_genres_are_read_where_they_are_asked_for(version: str, tmp_path: Path) -> None:
    folder, _, files = FILES[version]
    flags = {n: "|".join("1" if at in on else "0" for at in range(19)) for n, on in GENRES_100K.items()}
    u_item = "".join(f"{number}|x|1-Jan-1995|||{rest}\n" for number, rest in flags.items()).encode()
    lay_out(tmp_path, folder, files | ({"u.item": u_item} if version == "100k" else {}))
    context = LoadContext(data_home=tmp_path)
    assert MovieLens(version).check(context) == []
    assert not load(version, tmp_path).item_attributes
    data = DATASETS.create("movielens", {"version": version, "genres": True}).load(context)
    expected = ["Action|Thriller", None] if version == "100k" else ["Action", "Drama"]
    assert data.item_attributes["genres"].tolist() == expected


def test_films_without_genres_are_named_where_genres_are_asked_for(tmp_path: Path) -> None:
    lay_out(tmp_path, "ml-latest", CSV | {"movies.csv": b"movieId,title\n10,Goldeneye\n"})
    context = LoadContext(data_home=tmp_path)
    with pytest.raises(DataError, match=r"movies\.csv: cannot be read as films with id, title and genres"):
        DATASETS.create("movielens", {"version": "latest", "genres": True}).load(context)
