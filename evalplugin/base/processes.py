"""Other processes: Python processes that work beside this one, and programs that are run until they end."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from evalplugin.base.signals import deferred_signals

_SECONDS_TO_END = 0.3  # less than this process has to end when it is interrupted
_KEPT = 64 * 2**10  # bytes of the end of the output
_LINES, _WIDTH = 15, 500  # of the output of a program that failed
_SECONDS_TO_READ = 1.0  # the last output, where a process that the program has started still runs
_running: list[subprocess.Popen[bytes]] = []

is_task = False  # whether this process runs one task, and its group is killed at the end


def start_python(
    code: str, *, stdin: IO[bytes] | int = subprocess.DEVNULL, stdout: IO[bytes] | int = subprocess.DEVNULL
) -> subprocess.Popen[bytes] | None:
    """Start a process that runs code, with the modules of this one; None if none can be started.

    It is ended with this process at the latest.
    """
    if not sys.executable:
        return None
    interruptible = "from evalplugin.base.signals import interrupt_on_signals; interrupt_on_signals()"
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"{interruptible}\n{code}"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process, which then ends it
        )
    except OSError:
        return None
    _running.append(process)
    return process


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a process, if it has not ended yet, and close its pipes."""
    with suppress(ValueError):
        _running.remove(process)
    process.terminate()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # what it has not read
                pipe.close()


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


def kill_processes() -> None:
    """Kill all that are running, without waiting for their end."""
    for process in _running:
        process.kill()


@atexit.register
def _end_all() -> None:
    for process in _running:
        process.terminate()
    for process in [*_running]:
        end_process(process)


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
