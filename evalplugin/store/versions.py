"""Which code a component is: what a stored result depends on beside data and parameters."""

from __future__ import annotations

import functools
import hashlib
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from evalplugin.registry import Entry

__all__ = ["code_of", "own_code"]

# What changes results when it changes; the rest of evalplugin shows and logs them.
_PARTS = ("data", "metrics", "models", "scoring.py", "seeding.py", "tasks.py")
_LIBRARIES = ("numba", "numpy", "scikit-learn", "scikit-surprise", "scipy")


@functools.cache
def own_code() -> str:
    """Return the versions of evalplugin and of the libraries it computes with; files count too, for who edits them."""
    from evalplugin import __version__

    folder = Path(__file__).parents[1]
    content = hashlib.sha256()
    for part in _PARTS:
        files = [folder / part] if part.endswith(".py") else sorted((folder / part).rglob("*.py"))
        for file in files:
            content.update(f"{file.relative_to(folder).as_posix()}\n".encode() + file.read_bytes())
    libraries = ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
    return f"evalplugin {__version__} ({content.hexdigest()[:12]}), {libraries}"


def code_of(entry: Entry[Any]) -> str | None:
    """Return which code a component is: the version of its package, a hash of its file; None if it has neither.

    What a plugin file imports from files beside it is not seen.
    """
    module = entry.cls.__module__
    if module.partition(".")[0] == "evalplugin":
        return own_code()
    file = getattr(sys.modules.get(module), "__file__", None)
    parts = []
    if entry.origin.startswith("package "):
        name = entry.origin.removeprefix("package ")
        parts.append(f"{name} {_version(name)}")
    if file is not None and Path(file).is_file():
        parts.append(f"{Path(file).name} {hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]}")
    return ", ".join(parts) or None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
