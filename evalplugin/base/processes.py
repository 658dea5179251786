"""Other processes: groups that are killed whole, and programs that are run until they end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from evalplugin.base.signals import deferred_signals

_KEPT = 64 * 2**10  # bytes of the end of the output
_LINES, _WIDTH = 15, 500  # of the output of a program that failed
_SECONDS_TO_READ = 1.0  # the last output, where a process that the program has started still runs

is_task = False  # whether this process runs one task, and its group is killed at the end


def kill_group(pid: int) -> None:
    """Kill a process that leads a group, and the rest of its group; the process alone where there are no groups."""
    with suppress(OSError):  # it has ended
        if os.name == "posix":
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)


def ended_by_signal(code: int) -> str:
    """Return how a process ended, by its negative exit code: ``was ended by SIGTERM``."""
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"was ended by {name}{', which systems send when memory runs out' * (name == 'SIGKILL')}"


def find_program(name: str, folder: Path) -> str | None:
    """Return the path of a program or None; relative to ``folder`` if its name has a separator."""
    return shutil.which(os.path.abspath(folder / Path(name).expanduser()) if os.sep in name else name)


def run_program(words: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a program in a folder, and return its exit code (-n: ended by signal n) and the end of its output.

    No process of its group is left when it has ended, or when this function is interrupted. In the process of a task it
    is in the task's group, which is killed with the task whatever happens to its process.

    Raises:
        OSError: It cannot be started.
    """
    has_group = os.name == "posix" and not is_task
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


def _read(pipe: IO[bytes], end: bytearray) -> None:
    """Read a pipe until its end, keep the last bytes, and close it."""
    with pipe, suppress(OSError):
        while chunk := os.read(pipe.fileno(), _KEPT):
            end += chunk
            del end[:-_KEPT]
