"""Download of archives: fetched to a temporary name, checked, unpacked inside one folder only."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError
from urllib.request import urlopen

from evalplugin.base.errors import DataError
from evalplugin.data.files import Report
from evalplugin.data.reading import DAMAGE

__all__ = ["fetch", "fetch_md5", "unpack"]

_TIMEOUT_SECONDS = 30
_CHUNK = 1 << 18


def fetch(url: str, target: Path, *, md5: str, report: Report) -> None:
    """Download ``url`` to ``target``, which must not be read before this returns.

    Raises:
        DataError: The server cannot be reached, the transfer is cut short, or the checksum is wrong.
    """
    done, digest = 0, hashlib.md5(usedforsecurity=False)
    with _opened(url) as response, target.open("wb") as file:
        size = int(response.headers.get("Content-Length") or 0)
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            report(f"downloading {target.name}: {done / 2**20:,.1f} MiB", done / size if size else None)
    if size and done != size:
        raise DataError(f"cannot download {url}: the transfer ended after {done} of {size} bytes")
    if digest.hexdigest() != md5:
        raise DataError(f"{url}: the MD5 checksum of what came is {digest.hexdigest()}, but should be {md5}")


def fetch_md5(url: str) -> str:
    """Return the checksum in a small file such as ``ml-latest.zip.md5``.

    Raises:
        DataError: The file cannot be fetched or holds no checksum.
    """
    with _opened(url) as response:
        text = response.read(4096).decode("ascii", errors="replace")
    checksum = re.search(r"\b[0-9a-fA-F]{32}\b", text)
    if checksum is None:
        raise DataError(f"{url} holds no MD5 checksum, but {text[:80]!r}")
    return checksum[0].lower()


@contextmanager
def _opened(url: str) -> Iterator[HTTPResponse]:
    try:
        with urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            yield response
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        raise DataError(f"cannot download {url}: {error}") from None


def unpack(archive: Path, folder: str, home: Path) -> None:
    """Unpack the top folder ``folder`` of a zip archive as ``home/folder``: the whole of it, or nothing.

    Raises:
        DataError: It is no zip archive or a damaged one, a member would be written outside, the folder is
            missing, or ``home`` cannot be written.
    """
    try:
        with (
            tempfile.TemporaryDirectory(dir=home, prefix=f".{folder}-") as scratch,
            zipfile.ZipFile(archive) as members,
        ):
            _check_members(archive, members.infolist(), shutil.disk_usage(scratch).free)
            members.extractall(scratch)
            unpacked = Path(scratch, folder)
            if not unpacked.is_dir():
                raise DataError(f"{archive} has no folder {folder!r}")
            _publish(unpacked, home / folder)
    except DAMAGE as error:
        raise DataError(
            f"{archive}: cannot be unpacked: {error}; download it again, or unpack it yourself"
        ) from None
    except OSError as error:
        raise DataError(f"{archive}: cannot be unpacked into {home}: {error}") from None


def _check_members(archive: Path, members: Sequence[zipfile.ZipInfo], free: int) -> None:
    """Refuse an archive that is encrypted, too large, or would write a file outside its folder or twice."""
    seen: set[PurePosixPath] = set()
    for member in members:
        # The name up to a NUL is all that ``filename`` has.
        name = member.orig_filename
        path = PurePosixPath(name.replace("\\", "/"))
        problem = None
        if not path.parts or "\0" in name:
            problem = "is no name of a file"
        elif path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            problem = "would be written outside its folder"
        elif path in seen and not member.is_dir():
            problem = "is there twice"
        elif member.flag_bits & 1:
            problem = "is encrypted"
        if problem is not None:
            raise DataError(f"{archive}: refused, as its member {name!r} {problem}")
        seen.add(path)
    if (size := sum(member.file_size for member in members)) > free:
        raise DataError(
            f"{archive}: refused, as it unpacks to {size / 2**30:.1f} GB, but only {free / 2**30:.1f} GB are free"
        )


def _publish(unpacked: Path, final: Path) -> None:
    try:
        os.rename(unpacked, final)
    except OSError:
        # Another process may have been faster: its folder is complete too.
        if not final.is_dir():
            raise
        shutil.rmtree(unpacked)
