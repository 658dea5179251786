"""The provenance of a run: process, user, commit, packages."""

from __future__ import annotations

import functools
import getpass
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path

from evalplugin.tracking.write.items import Datum, Tag

_GIT_SECONDS = 10


def process_data() -> dict[str, str]:
    """Return what identifies this process: host, process id, and its namespace of process ids."""
    # Containers may share a host name; their process ids count in another namespace.
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return {"host": socket.gethostname(), "pid": str(os.getpid()), "pid_namespace": namespace}


def is_gone(named: Callable[[str], str]) -> bool:
    """Return whether the process that a run names ran on this machine and has ended; ``named`` gives what it says.

    A process that cannot be seen from here (another host, another container) is never gone.
    """
    own = process_data()
    same = all(named(key) == own[key] for key in ("host", "pid_namespace"))
    pid = named("pid")
    if not (same and pid.isascii() and pid.isdigit()) or sys.platform == "win32":
        return False  # on Windows, signal 0 would end the process
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass  # of another user
    return False


def user_name() -> str:
    """Return the name of the person who runs this, or ``unknown`` where the system has none for the user id."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def git_items(folder: Path) -> Iterator[Tag | Datum]:
    """Yield MLflow's tags for the commit checked out in a folder, and whether files differ from it."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return
    yield Tag("mlflow.source.git.commit", commit)
    if (changed := _git(folder, "status", "--porcelain")) is not None:
        yield Datum("git_dirty", "true" if changed else "false")
    if branch := _git(folder, "branch", "--show-current"):
        yield Tag("mlflow.source.git.branch", branch)
    if url := _git(folder, "config", "--get", "remote.origin.url"):
        yield Tag("mlflow.source.git.repoURL", url)


@functools.cache
def environment_text() -> str:
    """Return the Python version, the platform and every installed package with its version, one a line."""
    packages = {package.name.lower(): package.version for package in distributions()}
    head = [
        f"# Python {sys.version.split()[0]} ({platform.python_implementation()})",
        f"# {platform.platform()}",
        f"# {os.cpu_count()} processors",
    ]
    return "\n".join([*head, *(f"{name}=={packages[name]}" for name in sorted(packages)), ""])


def _git(folder: Path, *args: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *args],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_SECONDS,
            check=False,
            # Never ask for anything, and leave the index alone.
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
