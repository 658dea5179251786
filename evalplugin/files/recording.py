"""Recording of the files that code reads, by Python's audit events."""

from __future__ import annotations

import functools
import glob
import inspect
import os
import sys
import sysconfig
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from evalplugin.files.inputs import CHANGED, WRITTEN, Signature, fingerprint_of, signature_of
from evalplugin.files.uris import GLOB

__all__ = ["ignore_folder", "recorded_inputs"]

# Code that looks for modules and their sources, and no input of a result.
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
_installed = False
_ignored: list[str] = []  # folders
_carried: dict[str, str] = {}  # what plugins have read in this process, and may have in memory


@dataclass(eq=False)
class _Recording:
    """What is read and written while it is active; a file that is written first is a product, and no input."""

    reads: dict[str, Signature | None] = field(default_factory=dict)  # at the first attempt; None: missing
    folders: set[str] = field(default_factory=set)  # read as a whole
    patterns: set[str] = field(default_factory=set)  # whose matching names were asked for
    products: set[str] = field(default_factory=set)  # files and folders
    written: set[str] = field(default_factory=set)  # products, and files that were changed
    started: int = field(default_factory=time.time_ns)

    def read(self, path: str) -> None:
        if path in self.reads or self._is_product(path):
            return
        if os.path.isdir(path):
            self.folders.add(path)
        else:
            self.reads[path] = signature_of(path)

    def write(self, path: str, *, is_new: bool) -> None:
        self.written.add(path)
        if is_new and path not in self.reads:
            self.products.add(path)

    def list_names(self, pattern: str) -> None:
        if not self._is_product(os.path.dirname(pattern)):
            self.patterns.add(pattern)

    def _is_product(self, path: str) -> bool:
        return path in self.products or any(str(folder) in self.products for folder in Path(path).parents)

    def inputs(self) -> dict[str, str]:
        """Return the fingerprints of all that was read."""
        found = {}
        for path, before in self.reads.items():
            now = signature_of(path)
            if now == before or before is None:
                found[path] = _fingerprint(path) if before is not None else "missing"
            elif now is not None or before[2] < self.started - _COARSE:
                found[path] = CHANGED
            # Else it was made after the start and is gone: a temporary file of compiled code.
        names = [f"{folder}/" for folder in self.folders] + [f"{GLOB}{pattern}" for pattern in self.patterns]
        return found | {name: _fingerprint(name) for name in names}

    def has_written(self, name: str) -> bool:
        """Return whether a file, or anything in a folder, was written."""
        return name in self.written or (name.endswith("/") and any(p.startswith(name) for p in self.written))


@contextmanager
def recorded_inputs(
    named: Collection[str] = (), *, carry: bool = False, imports: bool = True
) -> Generator[dict[str, str]]:
    """Yield a mapping that holds, at the end, the inputs that were read inside, with fingerprints.

    What Python code opens, lists or imports is recorded; not the files of Python, its packages and the system, nor
    those that were written first. What compiled code or another process reads, and what comes over the network or from
    a database, is not known.

    Args:
        named: Inputs that are known to be in use; those that were written to are in the result, as ``WRITTEN``.
        carry: Whether the code may hold in memory what other such code has read in this process, apart from what
            was named there: those inputs are in the result too.
        imports: Whether modules count.
    """
    _install()
    recording, found = _Recording(), dict[str, str]()
    modules = set(sys.modules)
    _active.append(recording)
    try:
        yield found
    finally:
        if imports:
            _note_modules(set(sys.modules) - modules)
        _active.remove(recording)
        found |= recording.inputs()
        if carry:
            unnamed = {name: value for name, value in found.items() if not _is_within(name, named)}
            found |= {name: value for name, value in _carried.items() if name not in found}
            _carried.update(unnamed)
        found |= {name: WRITTEN for name in named if recording.has_written(name) and name not in found}


def _note(path: str | bytes | os.PathLike[str], *, writes: bool = False, is_new: bool = True) -> None:
    full = os.path.abspath(os.fsdecode(path))
    if not _is_foreign(full):
        for recording in _active:
            if writes:
                recording.write(full, is_new=is_new)
            else:
                recording.read(full)


def _note_names(pattern: str) -> None:
    full = os.path.abspath(pattern)
    if not _is_foreign(full):
        for recording in _active:
            recording.list_names(full)


def _note_modules(names: Collection[str]) -> None:
    """Record the sources of modules: where one was compiled before, its source is not opened."""
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(file, str):
            _note(file)


def _is_within(name: str, named: Collection[str]) -> bool:
    return name in named or any(name.startswith(one) for one in named if one.endswith("/"))


def _is_foreign(path: str) -> bool:
    """Return whether a file is the system's, or of Python and its packages, whose versions count."""
    is_archive = path.endswith(".zip") and path in sys.path  # of modules
    is_foreign = path.startswith((*_foreign_folders(), *_ignored))
    return is_archive or is_foreign or "__pycache__" in path


def ignore_folder(folder: Path) -> None:
    """Take the files of a folder for those of a package from now on: what they are is known by other means."""
    _ignored.append(f"{folder}{os.sep}")


@functools.cache
def _foreign_folders() -> tuple[str, ...]:
    own = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    folders = [*_SYSTEM, *own, *packages, str(Path(__file__).parents[1])]
    return tuple(
        {f"{form(folder)}{os.sep}" for folder in folders for form in (os.path.abspath, os.path.realpath)}
    )


def _fingerprint(name: str) -> str:
    return fingerprint_of(name, lambda uri: CHANGED)


def _install() -> None:
    """Listen to Python's audit events from now on: a process cannot stop, but it costs next to nothing."""
    global _installed
    if not _installed:
        _installed = True
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
        is_new = bool(flags & (os.O_TRUNC | os.O_EXCL))
        if is_new or flags & os.O_WRONLY:
            _note(args[0], writes=True, is_new=is_new)
        else:
            _note(args[0])
            if flags & os.O_RDWR:
                _note(args[0], writes=True, is_new=False)
    elif event == "os.mkdir":
        _note(args[0], writes=True)
    elif event == "os.rename":
        _note(args[1], writes=True)
    elif event == "glob.glob":
        _note_names(os.fsdecode(args[0]))
    elif event.startswith("pathlib"):
        below = "**" if event.endswith("rglob") else ""
        _note_names(os.path.join(glob.escape(str(args[0])), below, str(args[1])))
    elif module != "glob" and (module.partition(".")[0], caller.f_code.co_name) not in _GLOBBING:
        _note_names(os.path.join(glob.escape(os.fsdecode(args[0] or ".")), "*"))
