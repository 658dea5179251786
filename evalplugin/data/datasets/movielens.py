"""The dataset ``movielens``: GroupLens' ratings of films, from disk or downloaded once."""

from __future__ import annotations

import csv
import hashlib
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal, TextIO

import numpy as np
from pydantic import Field

from evalplugin.base.errors import DataError, Problem
from evalplugin.base.libraries import pa
from evalplugin.data.attributes import Attributes
from evalplugin.data.base import DatasetLoader, LoadContext, dataset
from evalplugin.data.files import Report
from evalplugin.data.interactions import Interactions, interactions_from
from evalplugin.data.reading import DAMAGE, readable
from evalplugin.data.tables import Table

_TIMEOUT_SECONDS = 30
_CHUNK = 2**18  # bytes of a download at a time
_SERVER = "https://files.grouplens.org/datasets/movielens"


@dataclass(frozen=True)
class _Edition:
    folder: str  # in the archive, and in the data home
    md5: str | None  # None: the data changes over time
    ratings: str = "ratings.csv"
    movies: str = "movies.csv"
    encoding: str = "utf-8"


_EDITIONS = {
    "100k": _Edition("ml-100k", "0e33842e24a9c977be4e0107933c0723", "u.data", "u.item", "latin-1"),
    "1m": _Edition("ml-1m", "c4d9eecfca2ab87c1945afe126590906", "ratings.dat", "movies.dat", "latin-1"),
    "10m": _Edition("ml-10M100K", "ce571fd55effeba0271552578f2648bd", "ratings.dat", "movies.dat"),
    "20m": _Edition("ml-20m", "cd245b17a1ae2cc31bb14903e1204af3"),
    "25m": _Edition("ml-25m", "6b51fb2759a8657d3bfcbfc42b592ada"),
    "32m": _Edition("ml-32m", "d472be332d4daa821edc399621853b57"),
    "latest-small": _Edition("ml-latest-small", None),
    "latest": _Edition("ml-latest", None),
}


_NO_GENRES = ("", "unknown", "(no genres listed)")
# The genres that the flags of u.item mean, in their order; the later editions write names.
_GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip


@dataset("movielens")
@dataclass(frozen=True)
class MovieLens(DatasetLoader):
    """MovieLens: ratings of films by users of movielens.org, with times and titles, by GroupLens.

    Taken from the data home (``--data-home``, ``EVALPLUGIN_DATA_HOME``, or else ``evalplugin`` in the user's cache),
    as a folder such as ``ml-1m`` or ``ml-1m.zip``, or else downloaded from files.grouplens.org and checked (MD5).
    ``latest`` and ``latest-small`` change over time: do not publish results on them.

    Source: Harper and Konstan 2015, https://doi.org/10.1145/2827872; the README of each has its licence.
    """

    version: Annotated[
        Literal["100k", "1m", "10m", "20m", "25m", "32m", "latest-small", "latest"],
        Field(description="which of the datasets, by its name at GroupLens"),
    ]
    genres: Annotated[
        bool, Field(description="read the genres of the films too, as the attribute `genres` of the items")
    ] = False

    def check(self, context: LoadContext) -> list[Problem]:
        """Return a problem for each required file that is missing from an existing folder."""
        edition, home = _EDITIONS[self.version], context.home
        folder = home / edition.folder
        try:
            with readable(folder):
                if not folder.exists():
                    return []
                missing = [
                    name for name in (edition.ratings, edition.movies) if not (folder / name).is_file()
                ]
        except DataError as error:
            return [Problem(("version",), str(error))]
        return [Problem(("version",), f"file not found: {folder / name}") for name in missing]

    def load(self, context: LoadContext) -> Interactions:
        """Return the ratings in the order of the file, titles included."""
        edition = _EDITIONS[self.version]
        with readable(context.home):
            folder = self._folder(edition, context)
        if problems := self.check(context):
            raise DataError("; ".join(problem.message for problem in problems))
        context.report(f"reading {folder.name}", None)
        ratings, movies = folder / edition.ratings, folder / edition.movies
        with readable(ratings):
            table = Table(_ratings(ratings), str(ratings))
        data = interactions_from(table, {name: name for name in table.columns}, "error")
        with readable(movies):
            films = _films(movies, edition.encoding, genres=self.genres)
        ids = data.items.tolist()
        if untitled := sum(item not in films for item in ids):
            data = data.noting(
                f"{untitled} items have no title in {edition.movies}: their ids are shown instead"
            )
        listed = [films.get(item, (str(item), None)) for item in ids]
        if self.genres:
            genres = np.array([genres for _, genres in listed], dtype=object)
            data = replace(data, item_attributes=Attributes({"genres": genres}))
        return replace(data, titles=np.array([title for title, _ in listed], dtype=object))

    def _folder(self, edition: _Edition, context: LoadContext) -> Path:
        home = context.home
        folder, archive = home / edition.folder, home / f"ml-{self.version}.zip"
        if folder.is_dir():
            return folder
        if archive.is_file():
            context.report(f"unpacking {archive.name}", None)
            _unpack(archive, edition.folder, home)
            return folder
        url = f"{_SERVER}/{archive.name}"
        try:
            home.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home, prefix=f".{archive.name}-") as scratch:
                fetched = Path(scratch, archive.name)
                _download(url, fetched, edition.md5, context.report)
                _unpack(fetched, edition.folder, home)
        except OSError as error:
            raise DataError(f"cannot write to the data home {home}: {error}") from None
        except DataError as error:
            raise DataError(
                f"MovieLens {self.version} is not in {home}: {error}. "
                f"Put the folder {folder} (with {edition.ratings} and {edition.movies}) or the archive "
                f"{archive} there (from {url}), or name another folder by --data-home or EVALPLUGIN_DATA_HOME"
            ) from None
        return folder


def _ratings(path: Path) -> pa.Table:
    """Return the table user, item, rating, timestamp of the ratings file of any edition."""
    from pyarrow import csv

    types = {"user": pa.int64(), "item": pa.int64(), "rating": pa.float64(), "timestamp": pa.int64()}
    read = csv.ReadOptions(column_names=list(types), skip_rows=1 if path.suffix == ".csv" else 0)
    parse = csv.ParseOptions(delimiter="\t" if path.suffix == ".data" else ",")
    # The .dat files separate numbers by two colons, but a separator must be one character.
    source = BytesIO(path.read_bytes().replace(b"::", b",")) if path.suffix == ".dat" else path
    try:
        return csv.read_csv(source, read, parse, csv.ConvertOptions(column_types=types))
    except pa.ArrowException as error:
        raise DataError(f"{path}: cannot be read as user, item, rating, timestamp: {error}") from None


def _films(path: Path, encoding: str, *, genres: bool) -> dict[int, tuple[str, str | None]]:
    """Return title and, if wanted, genres of each film by id; genres are such as ``Action|Comedy``, or None."""
    films = {}
    try:
        with path.open(encoding=encoding, newline="") as file:
            for number, title, *rest in _fields(file, path.suffix):
                films[int(number)] = title, _genres(rest) if genres else None
    except (ValueError, KeyError, csv.Error) as error:
        wanted = "id, title and genres" if genres else "id and title"
        raise DataError(f"{path}: cannot be read as films with {wanted}: {error!r}") from None
    return films


def _fields(file: TextIO, suffix: str) -> Iterator[list[str]]:
    """Yield the fields of each film: id and title first."""
    if suffix == ".csv":
        columns = ("movieId", "title", "genres")
        yield from ([row[name] for name in columns if name in row] for row in csv.DictReader(file))
    else:
        separator = "::" if suffix == ".dat" else "|"
        yield from (line.rstrip("\r\n").split(separator) for line in file)


def _genres(fields: list[str]) -> str | None:
    """Return the genres, given the fields behind the title: names in one field, or flags behind three others."""
    genres, *others = fields
    if others:
        flags = zip(_GENRES_100K, fields[3:], strict=True)
        genres = "|".join(genre for genre, flag in flags if flag == "1")
    return None if genres in _NO_GENRES else genres


def _download(url: str, target: Path, md5: str | None, report: Report) -> None:
    """Download a file, and check its MD5 checksum unless it is None.

    Raises:
        DataError: It does not come, or not whole, or something else comes.
    """
    # Not at the top, as modules for the web are slow to import.
    from http.client import HTTPException
    from urllib.request import urlopen

    done, digest = 0, hashlib.md5(usedforsecurity=False)
    try:
        with urlopen(url, timeout=_TIMEOUT_SECONDS) as response, target.open("wb") as file:
            size = int(response.headers.get("Content-Length") or 0)
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                report(f"downloading {target.name}: {done / 2**20:,.1f} MiB", done / size if size else None)
    except (OSError, HTTPException) as error:
        raise DataError(f"cannot download {url}: {error}") from None
    if size and done != size:
        raise DataError(f"cannot download {url}: the transfer ended after {done} of {size} bytes")
    if md5 is not None and digest.hexdigest() != md5:
        raise DataError(
            f"{url}: the MD5 checksum of the download is {digest.hexdigest()}, but should be {md5}"
        )


def _unpack(archive: Path, folder: str, home: Path) -> None:
    """Unpack the top folder ``folder`` of a zip archive as ``home/folder``: the whole of it, or nothing."""
    try:
        with (
            tempfile.TemporaryDirectory(dir=home, prefix=f".{folder}-") as scratch,
            zipfile.ZipFile(archive) as members,
        ):
            members.extractall(scratch)
            unpacked = Path(scratch, folder)
            if not unpacked.is_dir():
                raise DataError(f"{archive} has no folder {folder!r}")
            try:
                unpacked.rename(home / folder)
            except OSError:
                # Another process may have been faster: its folder is complete too.
                if not (home / folder).is_dir():
                    raise
    except (OSError, *DAMAGE) as error:
        raise DataError(
            f"{archive}: cannot be unpacked into {home}: {error}; download it again, or unpack it yourself"
        ) from None
