"""Recording of the files that code reads, by Python's audit events."""

from __future__ import annotations

import functools
import glob
import inspect
import os
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from evalplugin.files.inputs import CHANGED, WRITTEN, Signature, fingerprint_of, signature_of
from evalplugin.files.uris import GLOB

# Code that looks for modules and their sources, which are not inputs of a result.
_IMPORTING = ("importlib", "zipimport", "pkgutil", "pkg_resources", "tokenize", "linecache", "inspect")
_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/run", "/usr/lib", "/usr/share", "/lib", "/lib64")
_EVENTS = {
    *("open", "os.listdir", "os.scandir", "os.mkdir", "os.rename"),
    *("glob.glob", "pathlib.Path.glob", "pathlib.Path.rglob"),
}
# Functions of pathlib that list folders for a pattern, which is an event of its own.
_GLOBBING = {("pathlib", name) for name in ("_scandir", "_iterate_directories", "scandir", "_select_from")}
_COARSE = 10_000_000  # nanoseconds: the clock of a file system may lag behind

_active: list[_Recording] = []
_ignored: list[str] = []  # folders
_carried: dict[str, str] = {}  # what plugins have read in this process, and may have in memory


@dataclass(eq=False)
class _Recording:
    """Reads and writes while it is active; a file that is written first is a product, not an input."""

    reads: dict[str, Signature | None] = field(default_factory=dict)  # at the first attempt; None: missing
    listed: set[str] = field(default_factory=set)  # inputs: opened folders, and patterns of names
    products: set[str] = field(default_factory=set)  # files and folders
    written: set[str] = field(default_factory=set)  # products, and files that were changed
    started: int = field(default_factory=time.time_ns)

    def read(self, path: str) -> None:
        if path in self.reads or self._is_product(path):
            return
        if os.path.isdir(path):
            self.listed.add(f"{path}/")
        else:
            self.reads[path] = signature_of(path)

    def change(self, path: str) -> None:
        self.written.add(path)

    def create(self, path: str) -> None:
        self.written.add(path)
        if path not in self.reads:
            self.products.add(path)

    def list_names(self, pattern: str) -> None:
        if not self._is_product(os.path.dirname(pattern)):
            self.listed.add(f"{GLOB}{pattern}")

    def _is_product(self, path: str) -> bool:
        return path in self.products or any(str(folder) in self.products for folder in Path(path).parents)

    def inputs(self) -> dict[str, str]:
        """Return the fingerprints of all that was read."""
        inputs = {}
        for path, before in self.reads.items():
            now = signature_of(path)
            if before is None:
                inputs[path] = "missing"
            elif now == before:
                inputs[path] = _fingerprint(path)
            elif now is not None or before[2] < self.started - _COARSE:
                inputs[path] = CHANGED
            # Else it was made after the start and is gone: a temporary file of compiled code.
        return inputs | {name: _fingerprint(name) for name in self.listed}

    def has_written(self, name: str) -> bool:
        """Return whether a file, or anything in a folder, was written."""
        return name in self.written or (name.endswith("/") and any(p.startswith(name) for p in self.written))


@contextmanager
def recorded_inputs(
    named: Collection[str] = (), *, carry: bool = False, imports: bool = True
) -> Generator[dict[str, str]]:
    """Yield a mapping that holds, at the end, the inputs that were read inside, with fingerprints.

    Files that Python code opens, lists or imports are recorded, but not files of Python, its packages and the system,
    nor files that were written first. Reads of compiled code, of other processes, over the network and from databases
    are unknown.

    Args:
        named: Inputs that are known to be in use; those that were written to are in the result, as ``WRITTEN``.
        carry: Whether the code may hold in memory what other such code has read in this process, apart from what
            was named there: those inputs are in the result too.
        imports: Whether modules count.
    """
    _install()
    recording, inputs = _Recording(), dict[str, str]()
    modules = set(sys.modules)
    _active.append(recording)
    try:
        yield inputs
    finally:
        # Where a module was compiled before, its source is not opened.
        for name in set(sys.modules) - modules if imports else ():
            if isinstance(file := getattr(sys.modules.get(name), "__file__", None), str):
                _note(_Recording.read, file)
        _active.remove(recording)
        inputs |= recording.inputs()
        if carry:
            unnamed = {name: value for name, value in inputs.items() if not _is_within(name, named)}
            inputs |= {name: value for name, value in _carried.items() if name not in inputs}
            _carried.update(unnamed)
        inputs |= {name: WRITTEN for name in named if recording.has_written(name) and name not in inputs}


def carried_inputs() -> dict[str, str]:
    """Return what plugins have read in this process so far, and may have in memory, with fingerprints."""
    return dict(_carried)


def _is_within(name: str, named: Collection[str]) -> bool:
    return name in named or any(name.startswith(folder) for folder in named if folder.endswith("/"))


def ignore_folder(folder: Path) -> None:
    """Record no files of a folder from now on, as of a package: their content is known by other means."""
    _ignored.append(f"{folder}{os.sep}")


def _fingerprint(name: str) -> str:
    return fingerprint_of(name, lambda uri: CHANGED)


@functools.cache
def _install() -> None:
    """Listen to Python's audit events from now on: a process cannot stop, but it costs next to nothing."""
    sys.addaudithook(_hear)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _active and event in _EVENTS:
        # An exception here would fail the code that is recorded.
        with suppress(TypeError, ValueError, OSError):
            if (frame := inspect.currentframe()) is not None and frame.f_back is not None:
                _note_event(event, args, frame.f_back)


def _note_event(event: str, args: tuple[Any, ...], caller: FrameType) -> None:
    module = str(caller.f_globals.get("__name__"))
    if module.startswith(_IMPORTING) or isinstance(args[0], int):
        return
    if event == "open":
        flags = args[2]
        if flags & getattr(os, "O_DIRECTORY", 0):
            return
        if flags & (os.O_TRUNC | os.O_EXCL):
            _note(_Recording.create, args[0])
        elif flags & os.O_WRONLY:
            _note(_Recording.change, args[0])
        else:
            _note(_Recording.read, args[0])
            if flags & os.O_RDWR:
                _note(_Recording.change, args[0])
    elif event == "os.mkdir":
        _note(_Recording.create, args[0])
    elif event == "os.rename":
        _note(_Recording.create, args[1])
    elif event == "glob.glob":
        _note(_Recording.list_names, args[0])
    elif event.startswith("pathlib"):
        below = "**" if event.endswith("rglob") else ""
        _note(_Recording.list_names, os.path.join(glob.escape(str(args[0])), below, str(args[1])))
    elif module != "glob" and (module.partition(".")[0], caller.f_code.co_name) not in _GLOBBING:
        _note(_Recording.list_names, os.path.join(glob.escape(os.fsdecode(args[0] or ".")), "*"))


def _note(record: Callable[[_Recording, str], None], path: str | bytes | os.PathLike[str]) -> None:
    """Record a path or a pattern, unless it is the system's, or of Python and its packages, whose versions count."""
    full = os.path.abspath(os.fsdecode(path))
    is_archive = full.endswith(".zip") and full in sys.path  # of modules
    if is_archive or full.startswith((*foreign_folders(), *_ignored)) or "__pycache__" in full:
        return
    for recording in _active:
        record(recording, full)


@functools.cache
def foreign_folders() -> tuple[str, ...]:
    """Return the folders of the system, of Python, its packages and evalplugin, each with a separator at its end."""
    own = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    folders = [*_SYSTEM, *own, *packages, str(Path(__file__).parents[1])]
    return tuple(
        {f"{form(folder)}{os.sep}" for folder in folders for form in (os.path.abspath, os.path.realpath)}
    )
