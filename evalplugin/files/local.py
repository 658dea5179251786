"""Files of this machine: written whole or not at all, and digests."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["check_digest", "file_digest", "partial_path", "written_whole"]


def file_digest(path: str | Path) -> str:
    """Return the 64 hexadecimal digits of the SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def partial_path(path: Path) -> Path:
    """Return the path beside a file where it is written until it is whole."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def check_digest(file: Path, logged: str) -> None:
    """Compare the digest of a file with the one that was logged.

    Raises:
        ValueError: They differ; the message continues "the artifact ...".
    """
    if (digest := file_digest(file)) != logged:
        size = file.stat().st_size
        raise ValueError(
            f"({size:,} bytes) is not what was logged: its SHA-256 begins with {digest[:12]}, not {logged[:12]}"
        )


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces the one at ``path`` when all is written, and is removed after an error.

    It is written beside its place. Devices and pipes are written to directly.
    """
    if path.exists() and not path.is_file():  # such as /dev/stdout
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))  # a link stays one
    partial = partial_path(target)
    try:
        with partial.open("wb") as file:
            yield file
        if target.exists():
            shutil.copymode(target, partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
