"""Errors that evalplugin raises on purpose, with the exit code of each."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import PurePath

from evalplugin.base.secrets import redact_message

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def did_you_mean(value: str, allowed: Sequence[str], *, noun: str | None = "allowed") -> str:
    """Return ``; did you mean 'x'?`` for the nearest allowed names, or else the list of all, if it has a noun."""
    if near := _nearest(value, {name: nearness(value, name) for name in allowed}):
        return f"; did you mean {near}?"
    shown = (name if name.isprintable() else repr(name)[1:-1] for name in allowed)  # in one line
    return f"; {noun}: {', '.join(shown)}" if allowed and noun else ""


def did_you_mean_file(name: str, beside: Sequence[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest of the files in a folder that has such a suffix."""
    given = PurePath(name)
    near = _nearest(
        name,
        {
            str(other): nearness(given.stem, other.stem)  # all suffixes of a kind are alike
            for other in map(PurePath, beside)
            if not given.suffix or given.suffix in other.suffixes or nearness(given.suffix, other.suffix)
        },
    )
    return f"; did you mean {near}?" if near else ""


def _nearest(given: str, nearness_of: Mapping[str, float]) -> str:
    """Return the nearest name, or two equally near ones as long as the given one; empty if none is near."""
    most = max(nearness_of.values(), default=0.0)
    names = sorted(name for name, ratio in nearness_of.items() if ratio == most > 0)
    is_clear = len(names) == 1 or (len(names) == 2 and all(len(name) == len(given) for name in names))
    return " or ".join(map(repr, names)) if is_clear else ""


def nearness(given: str, name: str) -> float:
    """Return how near two spellings are, from 0 to 1; 0 if the given one is unlikely to be a typo of the name.

    Words that begin with another letter are hardly ever typos: ``train`` is not meant as ``rating``.
    """
    given, name = given.casefold(), name.casefold()
    ratio = SequenceMatcher(None, given, name).ratio()
    shorter, longer = sorted((given, name), key=len)
    is_part = len(shorter) > 3 and shorter in longer
    return ratio if is_part or ratio >= (0.65 if given[:1] == name[:1] else 0.75) else 0.0


def how_to_install(package: str, extra: str) -> str:
    """Return the command that installs an optional package, and the one for a clone of evalplugin."""
    quoted = f"'{package}'" if "[" in package else package
    return f"pip install {quoted} (in a clone of evalplugin: pip install -e '.[{extra}]')"


def is_disk_full(error: BaseException) -> bool:
    """Return whether nothing more can be written: the disk or the user's share of it is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


class EvalpluginError(Exception):
    """Root of all: one clear message, without credentials."""

    exit_code = EXIT_FAILED

    def __init__(self, message: str = "") -> None:
        super().__init__(redact_message(message))


class UsageError(EvalpluginError):
    """A mistake in the input: a config, a name, a parameter, data, a plugin."""

    exit_code = EXIT_USAGE


# The path of a value in nested input: keys and positions from the root on.
KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """A mistake in nested input: its path, and a message."""

    path: KeyPath
    message: str
    at_key: bool = False  # whether the key is wrong, not its value: the location is the key's


class ParameterError(UsageError):
    """Parameters that a component does not take, or values that it does not allow."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [f"{'.'.join(map(str, p.path))}: {p.message}" if p.path else p.message for p in problems]
        super().__init__("; ".join(lines))


class UnknownNameError(UsageError):
    """A name that no registry entry has."""


class MissingPackageError(UsageError):
    """A component needs a package that is not installed."""


class PluginError(UsageError):
    """A plugin that cannot be loaded, is refused by a registry, or raises an exception."""

    lists: object = None  # of a task that a metric of a plugin was to score


class ConfigError(UsageError):
    """All mistakes of a config, one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(map(redact_message, lines))
        super().__init__("\n".join(lines))


class DataError(UsageError):
    """Input data that is missing or breaks a rule.

    ``parameter`` is the component's parameter that does not suit the data, if any.
    """

    def __init__(self, message: str = "", *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class EngineError(UsageError):
    """An engine is not reachable, or a node lacks a package, a plugin or a file."""


class ModelError(EvalpluginError):
    """A model that broke its contract (wrong shape, NaN scores, excluded items) or does not support a setting."""


class TrackingError(EvalpluginError):
    """A tracking store that cannot be reached or refuses a request."""


class TrackingUriError(TrackingError):
    """A tracking URI that names no store."""

    exit_code = EXIT_USAGE


class StoreError(EvalpluginError):
    """A store of results that cannot be used, or that lacks results to log."""


class UnchangedError(EvalpluginError):
    """Nothing to do: the results would be the same as of the last bake-off."""

    exit_code = EXIT_DONE

    def __init__(self, message: str, *, bakeoff: str) -> None:
        super().__init__(message)
        self.bakeoff = bakeoff
