"""A cache in the user's folder of content that takes seconds to make, such as the page's charts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from evalplugin.files.outputs import written_whole


def cached(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the content of a file of the user's cache folder; made, and put there, if it is missing or damaged.

    Args:
        name: Name of the file, which must depend on all that decides the content.
        make: Makes the content.
    """
    file = _file(name)
    with suppress(OSError):
        digest, _, content = file.read_bytes().partition(b"\n")
        if digest == _digest(content):
            return content
    content = make()
    with suppress(OSError):  # no folder to write to: it is made each time
        file.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(file) as out:
            out.write(_digest(content) + b"\n" + content)
    return content


def _file(name: str) -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("evalplugin", appauthor=False) / name


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
