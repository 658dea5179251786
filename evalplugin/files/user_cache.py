"""A cache in the user's folder of content that takes seconds to make, such as the page's charts."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from evalplugin.base.processes import start_python
from evalplugin.files.outputs import written_whole

_SECONDS = 60  # to wait for a process that makes something
_processes: dict[str, subprocess.Popen[bytes]] = {}  # by name of the content


def cached(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the content of a file of the user's cache folder; made, and put there, if it is missing or damaged.

    Args:
        name: Name of the file, which must depend on all that decides the content.
        make: Makes the content, where no process makes it in the background.
    """
    if (process := _processes.get(name)) is not None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS)
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


def make_in_background(name: str, module: str, function: str) -> None:
    """Start a process that calls a function, which makes the content ``name``; nothing if it is there."""
    if name in _processes or _file(name).exists():
        return
    process = start_python(f"from {module} import {function}; {function}()")
    if process is not None:  # otherwise it is made when it is needed
        _processes[name] = process


def _file(name: str) -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("evalplugin", appauthor=False) / name


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
