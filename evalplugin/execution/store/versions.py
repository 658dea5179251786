"""Versions and hashes of the code that a cached result depends on."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import json
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distributions, version
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

from evalplugin._version import __version__
from evalplugin.components.registry import Entry, modules_loaded_by
from evalplugin.files.inputs import ENV, fingerprint_of
from evalplugin.files.user_cache import cached

_FOLDER = Path(__file__).parents[2]
_ROOT = "execution/tasks.py"  # the module that computes a result, which depends on all its imports too
_OF_TASK = ("data", "metrics", "models")  # packages whose components are all among its imports
_MODULE, _PACKAGE = 1, 5  # in modulefinder's numbers
# Packages and functions of pandas that open files in compiled code, of which no audit event of Python tells.
_COMPILED_READERS = ("duckdb", "h5py", "polars", "pyarrow", "safetensors", "scipy.io", "tables")
_COMPILED_FUNCTIONS = {"read_hdf", "read_parquet"}
_INSTALLED = [Path(path).resolve() for path in sysconfig.get_paths().values()]
_LIBRARIES = ("numba", "numpy", "scikit-learn", "scikit-surprise", "scipy")


@functools.cache
def own_code() -> str:
    """Return the versions of evalplugin and of the libraries it computes with, and a hash of the code of a task.

    The hash covers edits of the code between two versions.
    """
    libraries = ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
    return f"evalplugin {__version__} ({_hash_from(_ROOT)}), {libraries}"


@functools.cache
def package_versions() -> dict[str, str]:
    """Return the versions that two machines must share to compute the same, by name; evalplugin's has a code hash."""
    return {
        "Python": platform.python_version(),
        "evalplugin": f"{__version__} (code {_hash_of_all()})",
        **{name: _version(name) for name in _LIBRARIES},
    }


@functools.cache
def _hash_from(root: str) -> str:
    """Return a hash of a module of evalplugin, by its path in the package, and of all modules that it may import."""
    return _hash_of(task_modules(root))


@functools.cache
def _hash_of_all() -> str:
    """Return a hash of all modules of evalplugin."""
    return _hash_of(_files())


def _files() -> list[Path]:
    return sorted(_FOLDER.rglob("*.py"))


def _hash_of(files: Iterable[Path]) -> str:
    content = hashlib.sha256()
    for file in files:
        content.update(f"{file.relative_to(_FOLDER).as_posix()}\n".encode() + file.read_bytes())
    return content.hexdigest()[:12]


def task_modules(root: str = _ROOT) -> list[Path]:
    """Return the modules of evalplugin that a task may import, directly or indirectly, sorted.

    Imports are read from the source, so that those inside functions count, as of kernels; those for type checkers do
    not. ``root`` is where to begin.
    """
    # Parsing takes half a second; what the sources import depends on nothing else.
    imports = json.loads(cached(f"imports-{_hash_of_all()}.json", _imports_of_all))
    modules: set[str] = set()
    pending = [root]
    while pending:
        if (module := pending.pop()) not in modules:
            modules.add(module)
            pending += imports[module]
    return sorted(_FOLDER / module for module in modules)


def _imports_of_all() -> bytes:
    """Return for each module of evalplugin the modules that it imports, as JSON; all are paths in the package."""

    def relative(file: Path) -> str:
        return file.relative_to(_FOLDER).as_posix()

    return json.dumps({relative(file): [*map(relative, _imports(file))] for file in _files()}).encode()


def _imports(file: Path) -> Iterator[Path]:
    """Yield the files of the modules of evalplugin that a module imports, and of their packages."""
    for name in _imported_names(ast.parse(file.read_bytes()).body):
        parts = name.split(".")
        if parts[0] == _FOLDER.name:
            for end in range(2, len(parts) + 1):
                path = _FOLDER.joinpath(*parts[1:end])
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


def code_of(entry: Entry[Any], *, environment: bool = True) -> str | None:
    """Return the version of a component's package and a hash of its file; None if it has neither.

    Packages that a component of evalplugin requires count with their versions. The direct and indirect imports of a
    plugin file belong to its code: by a hash of the user's own files, and by the versions of packages; with
    ``environment`` also the values, as hashes, of environment variables that these files read by constant names. An
    import by a computed name is found if it was made while the plugin was loaded; later ones are recorded inputs.
    """
    if entry.is_own:
        parts = [own_code(), *(f"{name} {_version(name)}" for name in getattr(entry.cls, "requires", ()))]
        module = entry.cls.__module__.split(".")[1:]
        if module[0] not in _OF_TASK:  # a model of a higher layer, which a task imports by its entry point
            parts.append(f"{'.'.join(module)} {_hash_from('/'.join(module) + '.py')}")
        return ", ".join(parts)
    parts = []
    if entry.origin.startswith("package "):
        package = entry.origin.removeprefix("package ")
        parts.append(f"{package} {_version(package)}")
    if (file := source_of(entry)) is not None:
        code, variables = _code_of_file(file, file.stat().st_mtime_ns)
        parts.append(code)
        if environment:
            parts += [f"{name} {fingerprint_of(name, str)}" for name in variables]
    return ", ".join(parts) or None


def source_of(entry: Entry[Any]) -> Path | None:
    """Return the file in which a component is defined; None if it is not defined in one."""
    file = getattr(sys.modules.get(entry.cls.__module__), "__file__", None)
    return None if file is None or not Path(file).is_file() else Path(file)


def unrecorded_readers(file: Path) -> list[str]:
    """Return the readers that a plugin file or its modules use and whose files cannot be recorded, sorted."""
    readers = set()
    for source in {file, *imported_files(file).values()}:
        tree = ast.parse(source.read_bytes())
        imported = set(_imported_names(tree.body))
        names = {name.rpartition(".")[2] for name in imported}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        readers |= names & _COMPILED_FUNCTIONS
        readers |= {
            reader for reader in _COMPILED_READERS for name in imported if f"{name}.".startswith(f"{reader}.")
        }
    return sorted(readers)


@functools.cache
def _code_of_file(file: Path, changed: int) -> tuple[str, list[str]]:
    """Return the code of a file as text, and the environment variables that it reads, as names of inputs.

    The text has a hash of the file and of the user's own files that it imports, and the versions of imported packages.
    ``changed``, the time of the file's last change, makes the cache compute a changed file anew.
    """
    finder = _finder_of(file)
    variables: set[str] = set()
    content = hashlib.sha256()
    for name, module in sorted(finder.modules.items()):
        if (source := getattr(module, "__file__", None)) is not None:
            code = Path(source).read_bytes()
            content.update(f"{name}\n".encode() + code)
            variables |= _variables_read_by(code) if source.endswith(".py") else set()
    names = {name.partition(".")[0] for name in finder.badmodules} - sys.stdlib_module_names - {"evalplugin"}
    packages = [f"{package} {_version(package)}" for package in _packages_of(names)]
    code_text = ", ".join([f"{file.name} {content.hexdigest()[:16]}", *packages])
    return code_text, [f"{ENV}{name}" for name in sorted(variables)]


def _variables_read_by(code: bytes) -> set[str]:
    """Return the environment variables that code reads by constant names."""
    variables = set()
    for node in ast.walk(ast.parse(code)):
        name: ast.expr | None = None
        match node:
            case ast.Subscript(ctx=ast.Load()) if _ends(node.value, "environ"):
                name = node.slice
            case ast.Compare() if _ends(node.comparators[0], "environ"):
                name = node.left
            case ast.Call() if _ends(node.func, "getenv", "environ.get", "environ.pop", "environ.setdefault"):
                name = next(
                    iter([*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "key")]),
                    None,
                )
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            variables.add(name.value)
    return variables


def _ends(function: ast.expr, *ends: str) -> bool:
    """Return whether a dotted name ends with one of these, by whatever name its module was imported."""
    return f".{ast.unparse(function)}".endswith(tuple(f".{end}" for end in ends))


def imported_files(file: Path) -> dict[str, Path]:
    """Return the user's own files that a plugin file imports, directly or indirectly, by paths from their root.

    A module ``a.b`` is ``a/b.py``, or ``a/b/__init__.py`` if it is a package.
    """
    files = {}
    modules: dict[str, Any] = _finder_of(file).modules
    for name, module in modules.items():
        if name != "__main__" and getattr(module, "__file__", None) is not None:
            suffix = "/__init__.py" if module.__path__ else ".py"
            files[name.replace(".", "/") + suffix] = Path(module.__file__)
    return files


def _finder_of(file: Path) -> ModuleFinder:
    """Return a finder that has looked for the user's own modules that a file imports."""
    roots = [Path(path or ".").resolve() for path in (*sys.path, str(file.resolve().parent))]
    finder = _OwnModules([str(root) for root in dict.fromkeys(roots) if not _is_installed(root)])
    finder.run_script(str(file))
    source: str | None
    for name in sorted(modules_loaded_by(file)):
        source = getattr(sys.modules.get(name), "__file__", None)
        if source is not None and name not in finder.modules and not _is_installed(Path(source).resolve()):
            with suppress(ImportError):
                finder.import_hook(name)
    return finder


class _OwnModules(ModuleFinder):
    """A finder of modules outside the installed packages: those that are loaded, or else would be."""

    def __init__(self, path: list[str]) -> None:
        super().__init__(path=path, excludes=["evalplugin"])

    def find_module(self, name: str, path: Any, parent: Any = None) -> Any:
        full = name if parent is None else f"{parent.__name__}.{name}"
        if full in self.excludes:
            raise ImportError(name)
        if folders := _namespace(full, path):
            return None, folders, ("", "", _PACKAGE)
        if (source := _own_source(full, top_level=parent is None)) is None:
            try:
                return super().find_module(name, path, parent)
            except AttributeError:  # a folder that is no package, but has the name of one
                raise ImportError(name) from None
        if source.name == "__init__.py":
            return None, str(source.parent), ("", "", _PACKAGE)
        return source.open("rb"), str(source), (".py", "rb", _MODULE)

    def load_package(self, fqname: str, pathname: Any) -> Any:
        if isinstance(pathname, str):
            return super().load_package(fqname, pathname)
        module: Any = self.add_module(fqname)
        module.__path__ = pathname
        return module


def _namespace(name: str, path: Sequence[str] | None) -> list[str]:
    """Return the user's folders of a package without an ``__init__.py``; for any other module, an empty list."""
    spec = None
    with suppress(ImportError, ValueError, AttributeError):
        if name in sys.modules:
            spec = sys.modules[name].__spec__
        elif path is None:
            spec = importlib.util.find_spec(name)
        else:  # by its own name: a search by the full one needs the packages around it, imported
            spec = PathFinder.find_spec(name.rpartition(".")[2], path)
    if spec is None or spec.origin is not None:
        return []
    folders = spec.submodule_search_locations or ()
    return [folder for folder in folders if not _is_installed(Path(folder).resolve())]


def _own_source(name: str, *, top_level: bool) -> Path | None:
    """Return the user's file of a module that is loaded, or that an import hook finds, as of an editable install."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None and top_level and name not in sys.stdlib_module_names:
        with suppress(ImportError, ValueError, AttributeError):
            file = getattr(importlib.util.find_spec(name), "origin", None)
    source = None if file is None else Path(file).resolve()
    is_own = source is not None and source.suffix == ".py" and source.is_file() and not _is_installed(source)
    return source if is_own else None


def _is_installed(path: Path) -> bool:
    """Return whether a path belongs to Python or an installed package, which have versions."""
    return any(path.is_relative_to(folder) for folder in _INSTALLED)


def _packages_of(names: Set[str]) -> list[str]:
    """Return the installed packages that provide top-level modules, sorted.

    ``importlib.metadata.packages_distributions`` asks for each file of each package whether it is there, which takes
    a second. The lists of the files are enough.
    """
    packages = set()
    for package in distributions() if names else ():
        provided = (package.read_text("top_level.txt") or "").split()
        if not provided:
            provided = re.findall(
                r'^"?(\w+)(?:/|\.(?:py|\S*so|\S*pyd),)', package.read_text("RECORD") or "", re.MULTILINE
            )
        if not names.isdisjoint(provided):
            packages.add(package.metadata["Name"])
    return sorted(packages)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
