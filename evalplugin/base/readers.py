"""Readers of libraries that open files in compiled code, without an audit event of Python: wrapped, to be recorded."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Protocol

__all__ = ["watch_readers"]

# Public functions and classes by module; a name that ends with "*" is a prefix.
_READERS = {
    "pyarrow": ("OSFile", "input_stream", "memory_map"),
    "pyarrow.csv": ("open_csv", "read_csv"),
    "pyarrow.dataset": ("dataset", "parquet_dataset"),
    "pyarrow.feather": ("read_feather", "read_table"),
    "pyarrow.fs": ("LocalFileSystem",),
    "pyarrow.ipc": ("open_file", "open_stream"),
    "pyarrow.json": ("open_json", "read_json"),
    "pyarrow.orc": ("ORCFile", "read_table"),
    "pyarrow.parquet.core": ("ParquetDataset", "ParquetFile"),
    "scipy.io": ("mmread",),
    "polars": ("read_*", "scan_*"),
    "h5py._hl.files": ("File",),
}
_FILE_SYSTEM = ("open_input_file", "open_input_stream")  # methods of a file system
_WRITING = ("w", "w-", "wb", "x", "xb")  # modes
# Names of the first argument.
_SOURCES = ("source", "path", "where", "input_file", "path_or_paths", "file", "name")


class _Note(Protocol):
    def __call__(self, value: object, *, writes: bool = ...) -> None: ...


def watch_readers(note: _Note) -> None:
    """Call ``note`` with the path that a reader is called with, from now on, also of modules not imported yet."""
    for name in _READERS:
        if (module := sys.modules.get(name)) is not None:
            _wrap(module, note)
    sys.meta_path.insert(0, _Finder(note))


class _Finder(MetaPathFinder):
    """Finds modules as Python does, and wraps their readers when they are imported."""

    def __init__(self, note: _Note) -> None:
        self._note = note

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module with readers; None for any other."""
        if fullname not in _READERS or (spec := PathFinder.find_spec(fullname, path)) is None:
            return None
        loader: Any = spec.loader
        run = getattr(loader, "exec_module", None)
        if run is None:
            return None

        def run_and_wrap(module: ModuleType) -> None:
            run(module)
            _wrap(module, self._note)

        loader.exec_module = run_and_wrap
        return spec


def _wrap(module: ModuleType, note: _Note) -> None:
    for pattern in _READERS[module.__name__]:
        for name in [
            n for n in dir(module) if n == pattern or (pattern[-1] == "*" and n.startswith(pattern[:-1]))
        ]:
            reader = getattr(module, name)
            if not isinstance(reader, type):
                setattr(module, name, _noting(reader, note))
            elif name == "LocalFileSystem":
                methods = {m: _noting(getattr(reader, m), note, skip=1) for m in _FILE_SYSTEM}
                setattr(module, name, _subclass(reader, methods))
            elif "__init__" in vars(reader):
                setattr(reader, "__init__", _noting(vars(reader)["__init__"], note, skip=1))  # noqa: B010 - mypy
            else:  # of compiled code, whose constructor cannot be replaced
                setattr(module, name, _subclass(reader, {"__init__": _noting(_no_init, note, skip=1)}))


def _noting(reader: Callable[..., Any], note: _Note, skip: int = 0) -> Callable[..., Any]:
    """Return a function that notes the path that it is called with; ``skip``: 1 for a method, which gets an object."""

    @functools.wraps(reader)
    def noting(*args: Any, **options: Any) -> Any:
        named = [options[name] for name in _SOURCES if name in options]
        source, *rest = [*args[skip:], *named, None]
        mode = options.get("mode", rest[0] if rest else "")
        note(source, writes=mode in _WRITING)
        return reader(*args, **options)

    return noting


def _no_init(self: object, *args: object, **options: object) -> None: ...


def _subclass(cls: type, methods: dict[str, Any]) -> type:
    """Return a subclass with some methods, of which the objects of the class are instances too."""

    class Same(type(cls)):  # type: ignore[misc]
        def __instancecheck__(self, instance: object) -> bool:
            return isinstance(instance, cls)

    return Same(cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__, **methods})
