"""The config that ``new bakeoff`` writes: what files of interactions hold, and the text for it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import yaml
from evalplugin.cli.shared import print_diagnostic
from evalplugin.data import DATASETS, Interactions, LoadContext
from evalplugin.data.datasets.tables import guessed_roles
from evalplugin.data.files import find_files
from evalplugin.data.formats import CsvFormat, JsonLines, ParquetFormat, format_by_name
from evalplugin.data.reading import readable
from evalplugin.data.tables import check_roles, columns_problem
from evalplugin.execution.observer import Observer
from evalplugin.files.uris import is_remote

ROLES = ("user", "item", "rating", "timestamp")  # in the order of MovieLens' own files, which have no header
_HEADERLESS = (".data", ".dat")
_SEPARATORS = (",", "::", "\t", ";", "|")
_SCALES = {5.0: 4.0, 10.0: 8.0, 100.0: 80.0}  # highest rating -> the rating from which on an item is liked
_LONG = 20  # interactions of the median user that leave enough train data behind five of them
_NO_RATINGS = "# relevance: there are no ratings, so every item of the truth is relevant"


@dataclass(frozen=True)
class Source:
    """Files of interactions: the keys of a dataset that reads them, and the columns, some with a role by their name."""

    keys: dict[str, Any]  # type, path and, as needed, separator and columns
    names: list[str]
    roles: dict[str, str] = field(default_factory=dict)

    def check(self, roles: Mapping[str, str]) -> None:
        """Check that each role has a column of its own.

        Raises:
            DataError: A column is not there, or has two roles.
        """
        if problem := columns_problem(roles, self.names):
            raise DataError(f"{self.keys['path']}: {problem}")
        check_roles(self.keys["path"], roles)


def source_of(path: str) -> Source:
    """Return the source of a file, a pattern or a URI.

    Raises:
        DataError: No such file, one that cannot be read, without names of columns, or with a single column.
    """
    first = find_files(Path(), path, "*.parquet").files[0]
    with readable(first):
        form = format_by_name(first, CsvFormat())
        if isinstance(form, CsvFormat):
            form = CsvFormat(max(_SEPARATORS, key=lambda mark: len(CsvFormat(mark).names(first))))
        names = form.names(first)
    if len(names) < 2:
        count = "a single column" if names else "no columns"
        raise DataError(f"{path}: has {count}: interactions need a column of users and one of items")
    kind = {CsvFormat: "csv", ParquetFormat: "parquet", JsonLines: "json"}[type(form)]
    keys: dict[str, Any] = {"type": kind, "path": path}
    if isinstance(form, CsvFormat):
        keys |= {"separator": form.separator} if form.separator != "," else {}
        if any(re.fullmatch(r"-?\d+(\.\d+)?", name) for name in names):
            if not path.endswith(_HEADERLESS) or len(names) > len(ROLES):
                shown = form.separator.join(names)
                raise DataError(
                    f"{path}: line 1 is {shown!r}, and not the names of the columns: add such a line"
                )
            keys["columns"] = names = list(ROLES[: len(names)])
    return Source(keys, names, guessed_roles(names))


def config_text(
    file: Path, source: Source, roles: Mapping[str, str], models: Sequence[str], observer: Observer
) -> str:
    """Return the text of a config, with a split and a relevance that suit the data, which is read.

    Args:
        file: Where the config will be.
        source: The data.
        roles: Its columns by role.
        models: Names of models.
        observer: Told of the reading.

    Raises:
        DataError: The data cannot be read as these roles say.
    """
    keys, path = {**source.keys, **roles}, str(source.keys["path"])
    with observer.progress(f"read {path}"):
        options = {key: value for key, value in keys.items() if key != "type"}
        data = DATASETS.create(keys["type"], {**options, "duplicates": "keep"}).load(LoadContext())
    pairs = len(np.unique(data.user.astype(np.int64) * data.n_items + data.item))
    print_diagnostic(f"{len(data):,} interactions of {data.n_users:,} users with {data.n_items:,} items")
    if pairs < len(data):
        keys["duplicates"] = "last"
        print_diagnostic(
            f"{len(data) - pairs:,} repeat a user and an item: the last one counts (duplicates: last)"
        )
    if not (is_remote(path) or Path(path).is_absolute()):
        keys["path"] = os.path.relpath(path, file.parent)
    words = {
        "file": file.name,
        "experiment": _flow({"experiment": file.stem})[1:-1],
        "dataset": _flow({"name": file.stem, **keys}),
        "split": _split(data),
        "relevance": _relevance(data) if "rating" in roles else _NO_RATINGS,
        "models": "\n".join(f"  - {model}" for model in models),
        "baseline": "popularity" if "popularity" in models else models[0],
    }
    template = (files("evalplugin.cli") / "templates" / "bakeoff.txt").read_text("utf-8")
    return Template(template).substitute(words)


def _flow(value: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True
    )
    return text.strip()


def _split(data: Interactions) -> str:
    """Return the split as YAML: by time if there are times."""
    if data.timestamp is None:
        return "split: holdout   # the truth: a fifth of each user's interactions, at random, as there are no times"
    n = 5 if np.median(np.bincount(data.user)) >= _LONG else 1
    return f"split: {{type: last_n, n: {n}}}   # the truth: each user's latest {'five' if n == 5 else 'interaction'}"


def _relevance(data: Interactions) -> str:
    """Return the rating from which on an item is relevant, as YAML; a comment where the scale tells none."""
    threshold = _SCALES.get(data.rating_scale[1])
    if threshold is None:
        return "# relevance: {threshold: ...}   # the rating that makes an item relevant; without it, all above 0"
    share = np.mean(data.rating >= threshold)
    return (
        f"relevance: {{threshold: {threshold:g}}}   # ratings that make an item relevant: {share:.0%} of them"
    )
