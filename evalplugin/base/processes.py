"""Python processes of our own that work beside this one; the end of processes."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO

__all__ = ["end_process", "ended_by_signal", "kill_group", "kill_processes", "start_python"]

_SECONDS_TO_END = 0.3  # less than this process has to end when it is interrupted
_running: list[subprocess.Popen[bytes]] = []


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
    """Kill a process that leads a group, and what is left of its group; the process alone where there are no groups."""
    with suppress(OSError):  # nothing is left of it
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
