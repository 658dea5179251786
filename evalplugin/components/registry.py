"""Registries of named components, which installed packages and plugin files extend."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, cast

from evalplugin.base.errors import (
    EvalpluginError,
    MissingPackageError,
    PluginError,
    Problem,
    UnknownNameError,
    did_you_mean,
    how_to_install,
)
from evalplugin.base.text import shorten
from evalplugin.components.parameters import build

T = TypeVar("T", bound="Component")
R = TypeVar("R")
C = TypeVar("C", bound=type)
P = ParamSpec("P")

_MAX_LINE = 1000  # characters
_PLUGIN = "evalplugin_plugin_"  # begins the name of a plugin file as a module
_STANDARD = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}

_loaded: dict[str, bytes] = {}  # module of a plugin file -> its content when it was run
_origin: ContextVar[str | None] = ContextVar("evalplugin_origin", default=None)
_roots: set[str] = set()  # top-level modules and packages that have registered components


def is_own(module: str) -> bool:
    """Return whether a module is part of evalplugin, by its full name."""
    return module.partition(".")[0] == "evalplugin"


def is_plugin(module: str) -> bool:
    """Return whether a module is a plugin file, by its full name."""
    return module.startswith(_PLUGIN)


def is_installed(path: Path) -> bool:
    """Return whether a file or a folder belongs to Python or an installed package, which have versions."""
    path = path.resolve()
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts) or any(
        path.is_relative_to(folder) for folder in _STANDARD
    )


class Component:
    """Base of all components, with defaults of what is optional.

    Attributes:
        requires: Optional packages that are needed.
    """

    requires: ClassVar[tuple[str, ...]] = ()

    def check(self, context: Any) -> list[Problem]:
        """Return the problems found without reading data, such as a missing file; their paths name parameters.

        Args:
            context: A ``LoadContext``: paths are relative to its ``base``.
        """
        return []


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered component: its name, its dataclass, and its origin (a module, a file, a package)."""

    name: str
    cls: type[T]
    origin: str

    @property
    def is_own(self) -> bool:
        """Whether the component is part of evalplugin."""
        return is_own(self.cls.__module__)

    @property
    def summary(self) -> str:
        """The first line of the component's docstring."""
        # A dataclass without a docstring gets its signature as one, which is not a summary.
        text = (self.cls.__doc__ or "").strip()
        return "" if text.startswith(f"{self.cls.__name__}(") else text.partition("\n")[0]


class _Default:
    """A property of a base class that an instance of another class can set for itself."""

    def __init__(self, default: property) -> None:
        self._default = default

    def __get__(self, instance: object, owner: type) -> Any:
        return self._default if instance is None else self._default.__get__(instance)


class Registry(Generic[T]):
    """Components of one kind by name. Names are unique; installed packages add theirs by entry points, lazily."""

    def __init__(
        self,
        kind: str,
        *methods: str,
        base: type = Component,
        check: Callable[[type], str | None] = lambda cls: None,
    ) -> None:
        """Make an empty registry of one ``kind``.

        Args:
            kind: What its components are, such as ``model``.
            methods: Methods that a class needs, such as ``load(context)``.
            base: The class with the defaults of what is optional.
            check: Returns why a class cannot be such a component, or None.
        """
        self.kind = kind
        self.group = f"evalplugin.{kind}s"
        self._methods, self._base, self._check = methods, base, check
        self._entries: dict[str, Entry[T]] = {}

    def register(self, name: str) -> Callable[[C], C]:
        """Return a class decorator that registers a dataclass under ``name``.

        Raises:
            PluginError: The name is taken, or the class is not a dataclass or lacks methods of this kind.
        """

        def decorate(cls: C) -> C:
            origin = _origin.get() or cls.__module__
            if not dataclasses.is_dataclass(cls):
                raise PluginError(
                    f"{origin}: {self.kind} {name!r}: {cls.__name__} must be a dataclass "
                    f"(put @dataclass below the decorator that registers it)"
                )
            lacking = [m for m in self._methods if not self._defines(cls, m.partition("(")[0])]
            lack = f"has no method {lacking[0]}" if lacking else self._check(cls)
            if lack is not None:
                raise PluginError(f"{origin}: {self.kind} {name!r}: {cls.__name__} {lack}")
            taken = self._entries.get(name)
            # The same file may be loaded again (a second config, a worker): that is not a collision.
            if taken is not None and (taken.origin, taken.cls.__qualname__) != (origin, cls.__qualname__):
                raise PluginError(f"{origin}: {self.kind} {name!r} is already registered by {taken.origin}")
            self.adopt(cls)
            self._entries[name] = Entry(name, cast(type[T], cls), origin)
            _roots.add(cls.__module__.partition(".")[0])
            return cls

        return decorate

    def adopt(self, cls: type) -> None:
        """Give a class that does not derive from the base of its kind the defaults that it lacks.

        The class itself gets them: another class in its place would not be the one that pickles and ``super`` name.
        """
        if issubclass(cls, self._base):
            return
        for name in dir(self._base):
            if not name.startswith("_") and not hasattr(cls, name):
                default = inspect.getattr_static(self._base, name)
                setattr(cls, name, _Default(default) if isinstance(default, property) else default)

    def _defines(self, cls: type, method: str) -> bool:
        own = getattr(cls, method, None)
        return callable(own) and own is not getattr(self._base, method, None)

    def __iter__(self) -> Iterator[Entry[T]]:
        """Yield all entries in the order of their names, including entries of installed packages."""
        for name in self.names():
            yield self.entry(name)

    def names(self) -> list[str]:
        """Return all names, sorted, without importing any installed plugin."""
        return sorted({*self._entries, *self._entry_points()})

    def entry(self, name: str) -> Entry[T]:
        """Return the entry of a name, importing the installed package that offers it if necessary.

        Raises:
            UnknownNameError: No entry has the name; the message has the nearest one.
            PluginError: The package that offers the name cannot be loaded or does not register it.
        """
        if name not in self._entries:
            points = self._entry_points()
            if name not in points:
                hint = did_you_mean(name, sorted({*self._entries, *points}))
                raise UnknownNameError(f"unknown {self.kind} {name!r}{hint}")
            self._load_entry_point(name, points[name])
        return self._entries[name]

    def has_own(self, name: str) -> bool:
        """Return whether a name is one of evalplugin's own components; no installed plugin is imported."""
        if name in self._entries:
            return self._entries[name].is_own
        point = self._entry_points().get(name)
        return point is not None and is_own(point.module)

    def create(self, name: str, params: Mapping[str, Any] | None = None) -> T:
        """Return a component made from checked parameters.

        Raises:
            UnknownNameError: No entry has the name.
            MissingPackageError: A package that it needs is not installed.
            ParameterError: Unknown, missing or wrong parameters.
        """
        entry = self.entry(name)
        for package in entry.cls.requires:
            if importlib.util.find_spec(package) is None:
                # An extra of evalplugin has the name of its package.
                how = how_to_install(package, package) if entry.is_own else f"pip install {package}"
                raise MissingPackageError(
                    f"{name} needs the package {package}, which is not installed: {how}"
                )
        return build(entry.cls, params or {}, owner=name)

    def _entry_points(self) -> dict[str, Any]:
        points: dict[str, Any] = {}
        for point in _installed_points(*sys.path).select(group=self.group):
            if point.name in points and points[point.name].value != point.value:
                raise PluginError(
                    f"two installed packages offer the {self.kind} {point.name!r}: "
                    f"{points[point.name].value} and {point.value}; uninstall one of them"
                )
            points[point.name] = point
        return points

    def _load_entry_point(self, name: str, point: Any) -> None:
        origin = f"package {point.dist.name}" if point.dist is not None else f"entry point {point.value}"
        if self.has_own(name):
            origin = point.module
        with _with_origin(origin):
            try:
                cls = point.load()
            except EvalpluginError:
                raise
            except Exception as error:
                raise PluginError(
                    f"{origin}: cannot load {self.kind} {name!r} from {point.value}: {error!r}"
                ) from error
            if name not in self._entries:
                self.register(name)(cls)


@cache
def _installed_points(*path: str) -> Any:
    """Return the entry points of all packages that are found on a path like ``sys.path``."""
    from importlib.metadata import entry_points

    return entry_points()


def load_plugin_file(path: Path, *, origin: Path | None = None) -> None:
    """Run a plugin file as a module of its own, so that the components that it registers can be used by name.

    A file that was run before is run again only if it has changed. Modules beside it can be imported from then on,
    from wherever one starts; installed packages come first. ``origin`` is the resolved path that names the
    module. For a copy, it is the path of the original on another machine, so that pickles from there can be read here.

    Raises:
        PluginError: The file does not exist, is not a Python file, or raises; or it imports a module beside it and
            gets another of that name.
    """
    try:
        path = path.resolve()
        if not path.is_file():
            raise PluginError(f"plugin file not found: {path}")
    except (OSError, RuntimeError, ValueError) as error:
        # Too long a path, links in a circle, a NUL character.
        raise PluginError(f"plugin file cannot be read: {error}") from None
    if path.suffix != ".py":
        raise PluginError(f"a plugin is a Python file (.py), not {path.name!r}")
    # The path is part of the name: two folders may each hold a my_model.py.
    origin = origin or path
    name = f"{_PLUGIN}{origin.stem}_{hashlib.sha256(str(origin).encode()).hexdigest()[:8]}"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PluginError(f"{path}: plugin cannot be read: {error.strerror or error}") from None
    # In a notebook or a scheduler the code in memory would be older than the file that results are stored under.
    if name in sys.modules and _loaded.get(name) == content:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    with _with_origin(str(origin)):
        try:
            spec.loader.exec_module(module)
            _check_imports(path, content)
            _loaded[name] = content
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            if isinstance(error, EvalpluginError):
                raise
            line = line_in_plugin(error) or f"{type(error).__name__}: {error}"
            raise PluginError(f"{path}: plugin cannot be loaded: {line}") from error


def _check_imports(path: Path, content: bytes) -> None:
    """Raise if a module that a plugin imports and that lies beside it is another one in this process."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
        else:
            continue
        for name in {name.partition(".")[0] for name in names}:
            loaded = getattr(sys.modules.get(name), "__file__", None)
            beside = [path.parent / f"{name}.py", path.parent / name / "__init__.py"]
            files = [file for file in beside if file.is_file()]
            # By content, as nodes of an engine have copies.
            if loaded and files and Path(loaded).read_bytes() not in [file.read_bytes() for file in files]:
                raise PluginError(
                    f"{path}: line {node.lineno}: the module {name!r} that it imports is {loaded}, not the one beside "
                    f"the plugin: rename the latter"
                )


def call_component(component: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a function returns that may be a plugin's; ``component`` is the kind and the name for messages.

    Raises:
        PluginError: Code of a plugin has raised an exception; its error names the file and the line.
    """
    try:
        return function(*args, **kwargs)
    except (EvalpluginError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if (line := line_in_plugin(error)) is None:
            raise
        raise PluginError(f"{component}: {line}") from error


def line_in_plugin(error: BaseException) -> str | None:
    """Return an exception and the innermost place in code of a plugin, such as ``mine.py:15: KeyError: 'a'``.

    None: no such code was running: code of the user, or of a package with components.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[-1]
    places = [
        f"{Path(file).name}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_of_plugin(frame.f_globals.get("__name__") or "", file := frame.f_code.co_filename)
    ]
    text = " ".join("".join(traceback.format_exception_only(error)).split())
    return f"{places[-1]}: {shorten(text, _MAX_LINE)}" if places else None


def _is_of_plugin(module: str, file: str) -> bool:
    if is_own(module) or file.startswith("<"):
        return False
    return module.partition(".")[0] in _roots or not is_installed(Path(file))


@contextmanager
def _with_origin(origin: str) -> Iterator[None]:
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)
