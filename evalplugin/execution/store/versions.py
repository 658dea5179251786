"""Which code a component is: what a stored result depends on beside data and parameters."""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

from evalplugin.base.registry import Entry

__all__ = ["code_of", "own_code"]

# What changes results when it changes; the rest of evalplugin shows and logs them.
_PARTS = ("data", "metrics", "models", "base/seeding.py", "execution/tasks.py")
_LIBRARIES = ("numba", "numpy", "scikit-learn", "scikit-surprise", "scipy")


@functools.cache
def own_code() -> str:
    """Return the versions of evalplugin and of the libraries it computes with; files count too, for who edits them."""
    from evalplugin._version import __version__

    folder = Path(__file__).parents[2]
    content = hashlib.sha256()
    for part in _PARTS:
        files = [folder / part] if part.endswith(".py") else sorted((folder / part).rglob("*.py"))
        for file in files:
            content.update(f"{file.relative_to(folder).as_posix()}\n".encode() + file.read_bytes())
    libraries = ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
    return f"evalplugin {__version__} ({content.hexdigest()[:12]}), {libraries}"


def code_of(entry: Entry[Any]) -> str | None:
    """Return which code a component is: the version of its package, a hash of its file; None if it has neither.

    To a plugin file belongs what it imports, at any place and from files to files: a hash of those of your own, the
    versions of packages. What it imports by a name that is computed is not seen.
    """
    name = entry.cls.__module__
    if name.partition(".")[0] == "evalplugin":
        return own_code()
    file = getattr(sys.modules.get(name), "__file__", None)
    parts = []
    if entry.origin.startswith("package "):
        package = entry.origin.removeprefix("package ")
        parts.append(f"{package} {_version(package)}")
    if file is not None and Path(file).is_file():
        parts.append(_code_of_file(Path(file), Path(file).stat().st_mtime_ns))
    return ", ".join(parts) or None


@functools.cache
def _code_of_file(file: Path, changed: int) -> str:
    """Return a hash of a file and of those of your own that it imports, and the versions of packages it imports."""
    roots = [Path(path or ".").resolve() for path in sys.path]
    # Packages have versions; the standard library is Python's.
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    own = [str(root) for root in roots if not any(root.is_relative_to(place) for place in installed)]
    finder = ModuleFinder(path=own, excludes=["evalplugin"])
    finder.run_script(str(file))
    content = hashlib.sha256()
    for name, found in sorted(finder.modules.items()):
        if (source := getattr(found, "__file__", None)) is not None:
            content.update(f"{name}\n".encode() + Path(source).read_bytes())
    names = {name.partition(".")[0] for name in finder.badmodules} - sys.stdlib_module_names - {"evalplugin"}
    owners = packages_distributions() if names else {}
    packages = sorted({owner for name in names for owner in owners.get(name, ())})
    return ", ".join([f"{file.name} {content.hexdigest()[:16]}", *(f"{p} {_version(p)}" for p in packages)])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
