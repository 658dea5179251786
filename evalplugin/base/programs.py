"""Programs of others that are run until they end, with all that they have started."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from evalplugin.base.processes import kill_group
from evalplugin.base.signals import deferred_signals

__all__ = ["find_program", "run_program", "with_output"]

_KEPT = 64 * 2**10  # bytes of the end of the output
_LINES, _WIDTH = 15, 500  # of the output of a program that failed
_SECONDS_TO_READ = 1.0  # what a program has written last, where a process that it has started still runs


def find_program(name: str, folder: Path) -> str | None:
    """Return the path of a program, None if there is none; relative to ``folder`` if its name has a separator."""
    return shutil.which(os.path.abspath(folder / Path(name).expanduser()) if os.sep in name else name)


def run_program(words: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a program in a folder, and return its exit code (-n: ended by signal n) and the end of its output.

    No process of its group is left when it has ended, or when this function is interrupted. In a worker process it is
    in the worker's group, which is ended with the task whatever happens to the worker.

    Raises:
        OSError: It cannot be started.
    """
    has_group = os.name == "posix" and not _in_worker()
    process = None
    end = bytearray()
    try:
        with deferred_signals():  # a program that is not known here yet would go on
            process = subprocess.Popen(
                words,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=has_group,
            )
            reader = threading.Thread(target=_read, args=(process.stdout, end), daemon=True)
            reader.start()
        code = process.wait()
    finally:
        if process is not None:
            if has_group:
                kill_group(process.pid)
            else:
                process.kill()
            process.wait()
            reader.join(_SECONDS_TO_READ)
    return code, bytes(end).decode(errors="backslashreplace")


def with_output(message: str, output: str) -> str:
    """Return a message that ends with the last line of a program's output, below the lines before it."""
    lines = [line.rstrip()[-_WIDTH:] for line in output.splitlines() if line.strip()][-_LINES:]
    if not lines:
        return f"{message}; it printed nothing"
    before = "\n  ".join(["its output ends with", *lines]) + "\n" if len(lines) > 1 else ""
    return f"{before}{message}: {lines[-1].strip()}"


def _in_worker() -> bool:
    """Return whether this is a process of multiprocessing that leads a group, as workers do."""
    return multiprocessing.parent_process() is not None and os.getpgrp() == os.getpid()


def _read(pipe: IO[bytes], end: bytearray) -> None:
    """Read a pipe until its end, keep the last bytes, and close it."""
    with pipe, suppress(OSError):
        while chunk := os.read(pipe.fileno(), _KEPT):
            end += chunk
            del end[:-_KEPT]
