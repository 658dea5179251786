"""Versions and hashes of the code that a cached result depends on."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from evalplugin._version import __version__
from evalplugin.base.fingerprint import file_digest
from evalplugin.components.registry import Entry, is_installed, is_own, is_plugin

_FOLDER = Path(__file__).parents[2]
_OPENS_FILES = re.compile(rb"\bopen\(|\bread_\w+\(|\b(?:np|numpy|joblib|torch)\.load\w*\(")
_LIBRARIES = ("numba", "numpy", "scikit-learn", "scikit-surprise", "scipy")


@functools.cache
def own_code() -> str:
    """Return the versions of evalplugin, with a hash of its code, and of the libraries it computes with.

    The hash covers edits of the code between two versions.
    """
    return ", ".join(f"{name} {number}" for name, number in package_versions().items() if name != "Python")


@functools.cache
def package_versions() -> dict[str, str]:
    """Return the versions that two machines must share to compute the same, by name; evalplugin's has a code hash."""
    code = _hash_of({file.relative_to(_FOLDER).as_posix(): file for file in _FOLDER.rglob("*.py")})
    return {
        "Python": platform.python_version(),
        "evalplugin": f"{__version__} (code {code})",
        **{name: _version(name) for name in _LIBRARIES},
    }


def code_of(entry: Entry[Any], *, modules: bool = True) -> str | None:
    """Return the versions of the packages of a component and a hash of its sources; None if it has neither.

    The packages are those that it is part of or names in ``requires``. Of evalplugin's own components, all sources
    are in ``own_code``. ``modules``: whether the ``local_sources`` of a plugin count, beside its own file.
    """
    requires = [f"{name} {_version(name)}" for name in entry.cls.requires]
    if entry.is_own:
        return ", ".join([own_code(), *requires])
    parts = []
    if entry.origin.startswith("package "):
        package = entry.origin.removeprefix("package ")
        parts.append(f"{package} {_version(package)}")
    if (file := source_of(entry)) is not None:
        content = _hash_of_sources(file, file.stat().st_mtime_ns) if modules else _hash_of({file.name: file})
        parts.append(f"{file.name} {content}")
    return ", ".join([*parts, *requires]) if parts else None


def source_of(entry: Entry[Any]) -> Path | None:
    """Return the file in which a component is defined; None if it is not defined in one."""
    file = getattr(sys.modules.get(entry.cls.__module__), "__file__", None)
    return None if file is None or not Path(file).is_file() else Path(file)


def opens_files(file: Path) -> bool:
    """Return whether the source of a plugin looks as if it opened files; a hint alone."""
    return _OPENS_FILES.search(file.read_bytes()) is not None


@functools.cache
def _hash_of_sources(file: Path, changed: int) -> str:
    """Return a hash of a plugin file and its ``local_sources``, as they were when it was loaded.

    ``changed``, the time of the file's last change, makes the cache compute a changed file anew.
    """
    return _hash_of({"": file, **local_sources(file)})


def local_sources(file: Path) -> dict[str, Path]:
    """Return the user's own Python files that a plugin file may import, by paths from the folder of their import.

    These are the files in its folder, and in the folders below it that hold Python files, and the modules and whole
    packages that are loaded in this process. Installed packages have versions instead.
    """
    if is_installed(file):
        return {}
    sources: dict[str, Path] = {}
    for name, module in list(sys.modules.items()):
        if "." in name or name == "__main__" or is_own(name) or is_plugin(name):
            continue
        facts = getattr(module, "__dict__", {})
        folders = [Path(folder) for folder in facts.get("__path__", ())]
        for folder in folders:
            sources |= {f"{name}/{below}": source for below, source in _sources_below(folder)}
        source = Path(facts.get("__file__") or "")
        if not folders and source.suffix == ".py" and source.is_file() and not is_installed(source):
            sources[f"{name}.py"] = source
    return sources | dict(_sources_below(file.resolve().parent))


def _sources_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the Python files of a folder, and of the folders below it that hold some, by paths from the folder."""
    if is_installed(folder):
        return
    for at, folders, files in os.walk(folder):
        sources = [name for name in files if name.endswith(".py") and os.path.isfile(os.path.join(at, name))]
        # Where no file is imported from, such as a user's home, there may be millions of files.
        folders[:] = [name for name in folders if name.isidentifier()] if sources or at == str(folder) else []
        for name in sources:
            yield Path(at, name).relative_to(folder).as_posix(), Path(at, name)


def _hash_of(sources: Mapping[str, Path]) -> str:
    """Return a hash of the names and the contents of source files."""
    content = hashlib.sha256()
    for name, file in sorted(sources.items()):
        content.update(f"{name} {file_digest(file)}\n".encode())
    return content.hexdigest()[:16]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
