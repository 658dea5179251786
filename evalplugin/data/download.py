"""Downloads, checked by the checksum of what came."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.base.errors import DataError
from evalplugin.data.files import Report

if TYPE_CHECKING:
    from http.client import HTTPResponse

_TIMEOUT_SECONDS = 30
_CHUNK = 2**18  # bytes at a time


def download(url: str, target: Path, *, report: Report, **checksum: str) -> None:
    """Download ``url`` to ``target``, which must not be read before this returns.

    Args:
        url: What to fetch.
        target: The file.
        report: Receives the progress.
        checksum: One checksum by the name of its algorithm: ``md5`` or ``sha256``.

    Raises:
        DataError: It does not come, or not whole, or something else comes.
    """
    ((algorithm, wanted),) = checksum.items()
    done, digest = 0, hashlib.new(algorithm, usedforsecurity=False)
    with open_url(url) as response, target.open("wb") as file:
        size = int(response.headers.get("Content-Length") or 0)
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            report(f"downloading {target.name}: {done / 2**20:,.1f} MiB", done / size if size else None)
    if size and done != size:
        raise DataError(f"cannot download {url}: the transfer ended after {done} of {size} bytes")
    if digest.hexdigest() != wanted:
        raise DataError(
            f"{url}: the {algorithm.upper()} checksum of what came is {digest.hexdigest()}, but should be {wanted}"
        )


@contextmanager
def open_url(url: str) -> Iterator[HTTPResponse]:
    """Open an address.

    Raises:
        DataError: It cannot be had.
    """
    # Not at the top, as modules for the web are slow to import.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            yield response
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        raise DataError(f"cannot download {url}: {error}") from None
