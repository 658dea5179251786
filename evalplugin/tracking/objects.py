"""Files of a run that are outside of it, in a folder or an object store: written, copied here, removed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import IO

from evalplugin.base.remote import RemoteFile, open_output, store_errors
from evalplugin.base.stores import is_remote, local_path, store_of

__all__ = ["copy_object", "remove_object", "uri_below", "write_object"]

_CHUNK = 2**23  # bytes


def uri_below(folder: str, *names: str) -> str:
    """Return the URI of a file below a folder, which may be a path: it is made absolute."""
    if not is_remote(folder):
        folder = local_path(folder).expanduser().absolute().as_uri()
    return "/".join([folder.rstrip("/"), *names])


def write_object(file: Path, uri: str) -> None:
    """Write a file to a URI, whole or not at all; folders that are missing are made.

    Raises:
        DataError: It cannot be written.
    """
    with store_errors(uri):
        if not is_remote(uri):
            local_path(uri).parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as source, open_output(uri) as target:
            shutil.copyfileobj(source, target, _CHUNK)


def copy_object(uri: str, file: Path) -> None:
    """Copy what is at a URI to a file.

    Raises:
        DataError: It is not there, or cannot be read.
    """
    with store_errors(uri), _opened(uri) as source, file.open("wb") as target:
        shutil.copyfileobj(source, target, _CHUNK)


def remove_object(uri: str) -> None:
    """Remove the file at a URI.

    Raises:
        DataError: It cannot be removed.
    """
    with store_errors(uri):
        if is_remote(uri):
            store = store_of(uri)
            store.files.delete_file(store.path_of(uri))
        else:
            local_path(uri).unlink()


def _opened(uri: str) -> IO[bytes]:
    opened: IO[bytes] = RemoteFile(uri, 0, 0).stream() if is_remote(uri) else local_path(uri).open("rb")
    return opened
