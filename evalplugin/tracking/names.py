"""Keys and values as MLflow accepts them: names without collisions, flattened parameters, shortened texts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from evalplugin.base.errors import TrackingError

CHAMPION_ALIAS, PREVIOUS_ALIAS = "champion", "previous"  # of versions of a registered model
MAX_KEY_LENGTH, MAX_PARAM, MAX_TAG = 250, 6000, 8000  # characters; MLflow cuts longer values
MAX_RUN_NAME = 60  # characters; MLflow's pages cut longer ones
DATA_TAG = "evalplugin.provenance"  # of a run: JSON with all that programs read
DATA_FILE = "data/provenance.json"  # what is too long for that tag
IN_FILE = "in_file"  # key in that tag: the names of what is in the file, joined by commas
# Keys of counts that are logged next to the metrics.
_RESERVED = frozenset({"users", "users_undefined"})

_SPELLING = (("(", "_"), (", ", "_"), (",", "_"), ("=", "-"), (")", ""), ("+", ""), ("@", "_at_"), ("/", "_"))
_ALPHABET = re.compile(r"[A-Za-z0-9_\-. ]+")
# ":" is left out although MLflow takes it on most systems: on Windows it does not.
_ALLOWED_KEY = re.compile(r"[/\w.\- ]+")
_SUFFIX_ROOM = 40  # "per_user_quantile/" before a metric's name, ".zero_share" behind it


def metric_name(canonical: str) -> str:
    """Return a metric's name in MLflow: ``ndcg(gain=exp2)@10`` becomes ``ndcg_gain-exp2_at_10``.

    Raises:
        TrackingError: The name holds a character that MLflow refuses, is too long, or is reserved for a count.
    """
    name = canonical
    for sign, spelled in _SPELLING:
        name = name.replace(sign, spelled)
    if (bad := _ALPHABET.sub("", name)) or not name:
        raise TrackingError(
            f"metric {canonical!r}: MLflow cannot store the name: {bad[:1]!r} is not allowed; "
            f"allowed: letters a-z, digits, '_', '-', '.', '/', blanks and the signs of ndcg(gain=exp2)@10"
        )
    if len(name) > MAX_KEY_LENGTH - _SUFFIX_ROOM:
        raise TrackingError(
            f"metric {canonical[:60]!r}...: the name has {len(name)} characters in MLflow; "
            f"at most {MAX_KEY_LENGTH - _SUFFIX_ROOM} are possible"
        )
    if not is_allowed(name):
        raise TrackingError(
            f"metric {canonical!r}: MLflow would read the name {name!r} as a path that changes"
        )
    if name in _RESERVED:
        raise TrackingError(f"metric {canonical!r}: MLflow's {name!r} already holds the count of users")
    return name


def metric_names(canonical: Iterable[str]) -> dict[str, str]:
    """Return the MLflow name of each canonical name, in order.

    Raises:
        TrackingError: Two of them map to one name, or one of them is refused (see ``metric_name``).
    """
    names: dict[str, str] = {}
    taken: dict[str, str] = {}
    for metric in canonical:
        name = metric_name(metric)
        # Compared without case: on some systems names become files that differ in nothing else.
        first = taken.setdefault(name.casefold(), metric)
        if first != metric:
            raise TrackingError(
                f"metrics {first!r} and {metric!r} would both be {name!r} in MLflow; leave one of them out"
            )
        names[metric] = name
    return names


def model_keys(models: Iterable[str]) -> dict[str, str]:
    """Return a unique part of a metric's key for each model's name."""
    keys: dict[str, str] = {}
    taken: set[str] = set()
    for model in models:
        base = re.sub(r"[^\w.\- ]", "_", model.replace("=", "-"))[:80].strip(" ./") or "model"
        key, number = base, 2
        while key.casefold() in taken:
            key, number = f"{base}-{number}", number + 1
        taken.add(key.casefold())
        keys[model] = key
    return keys


def shorten_value(text: str, length: int = MAX_TAG) -> str:
    """Return a text of at most ``length`` characters; a hash replaces the rest, so that texts stay different."""
    if len(text) <= length:
        return text
    return f"{text[: length - 14]}... {hashlib.sha256(text.encode()).hexdigest()[:10]}"


def is_allowed(key: str) -> bool:
    """Return whether MLflow takes a key for a metric, parameter or tag on every system."""
    if not _ALLOWED_KEY.fullmatch(key) or len(key) > MAX_KEY_LENGTH:
        return False
    # Keys may become files: MLflow refuses those that would resolve to another path.
    return not key.startswith("/") and all(part not in ("", ".", "..") for part in key.split("/"))


def flatten(prefix: str, values: Mapping[str, Any], *, taken: Iterable[str] = ()) -> dict[str, Any]:
    """Return nested mappings as one with dotted keys; a mapping whose keys MLflow refuses stays whole.

    A key that is in ``taken`` gets ``param.`` before it.
    """
    flat: dict[str, Any] = {}
    reserved = set(taken)
    for name, value in values.items():
        key = f"{prefix}.param.{name}" if f"{prefix}.{name}" in reserved else f"{prefix}.{name}"
        if isinstance(value, Mapping) and value and _all_plain(value):
            flat.update(flatten(key, value))
        else:
            flat[key] = value
    return flat


def _all_plain(value: Mapping[Any, Any]) -> bool:
    return all(
        isinstance(k, str)
        and not {".", "/"} & {*k}
        and is_allowed(k)
        and (not isinstance(v, Mapping) or _all_plain(v))
        for k, v in value.items()
    )
