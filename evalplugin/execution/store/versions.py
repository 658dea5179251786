"""Versions and hashes of the code that a cached result depends on."""

from __future__ import annotations

import ast
import functools
import hashlib
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Set
from importlib.metadata import PackageNotFoundError, distributions, version
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

from evalplugin.base.registry import Entry

__all__ = ["code_of", "imported_files", "own_code", "package_versions", "task_modules"]

_ROOT = "execution/tasks.py"  # the module that computes a result, which depends on all its imports too
_OF_TASK = ("data", "metrics", "models")  # packages whose components are all among its imports
_LIBRARIES = ("numba", "numpy", "scikit-learn", "scikit-surprise", "scipy")


@functools.cache
def own_code() -> str:
    """Return the versions of evalplugin and of the libraries it computes with, and a hash of the code of a task.

    The hash covers edits of the code between two versions.
    """
    from evalplugin._version import __version__

    libraries = ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
    return f"evalplugin {__version__} ({_hash_from(_ROOT)}), {libraries}"


@functools.cache
def package_versions() -> dict[str, str]:
    """Return the versions of all that two machines must share to compute the same: by name.

    That of evalplugin has a hash of all its code.
    """
    from evalplugin._version import __version__

    folder = Path(__file__).parents[2]
    content = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        content.update(f"{file.relative_to(folder).as_posix()}\n".encode() + file.read_bytes())
    return {
        "Python": platform.python_version(),
        "evalplugin": f"{__version__} (code {content.hexdigest()[:12]})",
        **{name: _version(name) for name in _LIBRARIES},
    }


@functools.cache
def _hash_from(root: str) -> str:
    """Return a hash of a module of evalplugin, by its path in the package, and of all modules that it may import."""
    folder = Path(__file__).parents[2]
    content = hashlib.sha256()
    for file in task_modules(folder, root):
        content.update(f"{file.relative_to(folder).as_posix()}\n".encode() + file.read_bytes())
    return content.hexdigest()[:12]


def task_modules(folder: Path, root: str = _ROOT) -> list[Path]:
    """Return the modules of the package in ``folder`` that a task may import, directly or indirectly, sorted.

    Imports are read from the source, so that those inside functions count, as of kernels; those for type checkers do
    not. ``root`` is where to begin.
    """
    found: set[Path] = set()
    pending = [folder / root]
    while pending:
        file = pending.pop()
        if file not in found:
            found.add(file)
            pending += _imports(file, folder)
    return sorted(found)


def _imports(file: Path, folder: Path) -> Iterator[Path]:
    """Yield the files of the modules in ``folder`` that a module imports, and of their packages."""
    for name in _imported_names(ast.parse(file.read_bytes()).body):
        parts = name.split(".")
        if parts[0] == folder.name:
            for end in range(2, len(parts) + 1):
                path = folder.joinpath(*parts[1:end])
                yield from (p for p in (path / "__init__.py", path.with_suffix(".py")) if p.is_file())


def _imported_names(statements: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the dotted names that statements import, nested ones included; ``from a import b`` yields a.b."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING":
            for block in ("body", "handlers", "orelse", "finalbody", "cases"):
                yield from _imported_names(getattr(node, block, ()))


def code_of(entry: Entry[Any]) -> str | None:
    """Return the version of a component's package and a hash of its file; None if it has neither.

    Packages that a component of evalplugin requires count with their versions. The direct and indirect imports of a
    plugin file belong to its code: by a hash of the user's own files, and by the versions of packages. Imports by a
    computed name are not found.
    """
    if entry.is_own:
        parts = [own_code(), *(f"{name} {_version(name)}" for name in getattr(entry.cls, "requires", ()))]
        module = entry.cls.__module__.split(".")[1:]
        if module[0] not in _OF_TASK:  # a model of a higher layer, which a task imports by its entry point
            parts.append(f"{'.'.join(module)} {_hash_from('/'.join(module) + '.py')}")
        return ", ".join(parts)
    file = getattr(sys.modules.get(entry.cls.__module__), "__file__", None)
    parts = []
    if entry.origin.startswith("package "):
        package = entry.origin.removeprefix("package ")
        parts.append(f"{package} {_version(package)}")
    if file is not None and Path(file).is_file():
        parts.append(_code_of_file(Path(file), Path(file).stat().st_mtime_ns))
    return ", ".join(parts) or None


@functools.cache
def _code_of_file(file: Path, changed: int) -> str:
    """Return a hash of a file and of the user's own files that it imports, and the versions of imported packages.

    ``changed``, the time of the file's last change, makes the cache compute a changed file anew.
    """
    finder = _finder_of(file)
    content = hashlib.sha256()
    for name, found in sorted(finder.modules.items()):
        if (source := getattr(found, "__file__", None)) is not None:
            content.update(f"{name}\n".encode() + Path(source).read_bytes())
    names = {name.partition(".")[0] for name in finder.badmodules} - sys.stdlib_module_names - {"evalplugin"}
    packages = [f"{package} {_version(package)}" for package in _packages_of(names)]
    return ", ".join([f"{file.name} {content.hexdigest()[:16]}", *packages])


def imported_files(file: Path) -> dict[str, Path]:
    """Return the user's own files that a plugin file imports, directly or indirectly, by paths from their root.

    A module ``a.b`` is ``a/b.py``, or ``a/b/__init__.py`` if it is a package. Data files are none.
    """
    found = {}
    for name, module in _finder_of(file).modules.items():
        if name != "__main__" and getattr(module, "__file__", None) is not None:
            suffix = "/__init__.py" if module.__path__ else ".py"
            found[name.replace(".", "/") + suffix] = Path(module.__file__)
    return found


def _finder_of(file: Path) -> Any:
    """Return a finder that has looked for the user's own modules that a file imports."""
    roots = [Path(path or ".").resolve() for path in sys.path]
    # Packages have versions; the standard library is Python's.
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    own = [str(root) for root in roots if not any(root.is_relative_to(path) for path in installed)]
    finder = ModuleFinder(path=own, excludes=["evalplugin"])
    finder.run_script(str(file))
    return finder


def _packages_of(names: Set[str]) -> list[str]:
    """Return the installed packages that provide top-level modules, sorted.

    ``importlib.metadata.packages_distributions`` asks for each file of each package whether it is there, which takes
    a second. The lists of the files are enough.
    """
    found = set()
    for package in distributions() if names else ():
        provided = (package.read_text("top_level.txt") or "").split()
        if not provided:
            provided = re.findall(
                r'^"?(\w+)(?:/|\.(?:py|\S*so|\S*pyd),)', package.read_text("RECORD") or "", re.MULTILINE
            )
        if not names.isdisjoint(provided):
            found.add(package.metadata["Name"])
    return sorted(found)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
