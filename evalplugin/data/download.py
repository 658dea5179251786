"""Downloads, verified by their checksums."""

from __future__ import annotations

import hashlib
from pathlib import Path

from evalplugin.base.errors import DataError
from evalplugin.data.files import Report

_TIMEOUT_SECONDS = 30
_CHUNK = 2**18  # bytes at a time


def download(url: str, target: Path, md5: str | None, report: Report) -> None:
    """Download ``url`` to ``target``, which must not be read before this returns.

    Args:
        url: What to fetch.
        target: The file.
        md5: The checksum of the file; None: it is not known.
        report: Receives the progress.

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
