"""The config that ``new bakeoff`` writes: what files of interactions hold, and the text for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from evalplugin.data.tables import column_problem

_COLUMNS = ["user", "item", "rating", "timestamp"]  # of MovieLens' own files, which have no header
_SEPARATORS = (",", "::", "\t", ";", "|")
_SCALES = {5.0: 4, 10.0: 8, 100.0: 80}  # highest rating -> the rating from which on an item is liked
_LONG = 20  # interactions of the median user that leave enough train data behind five of them


@dataclass(frozen=True)
class Source:
    """Files of interactions: the keys of a dataset that reads them, and the columns, some with a role by their name."""

    keys: dict[str, Any]  # type, path and, as needed, separator and columns
    names: list[str]
    roles: dict[str, str]

    def column(self, role: str, name: str) -> str | None:
        """Return the name of a column; None for ``-``, where a role needs none.

        Raises:
            DataError: There is no such column.
        """
        if name == "-" and role not in ("user", "item"):
            return None
        if problem := column_problem(name, self.names, role):
            raise DataError(problem)
        return name


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
            if not path.endswith((".data", ".dat")) or len(names) > len(_COLUMNS):
                shown = form.separator.join(names)
                raise DataError(
                    f"{path}: line 1 is {shown!r}, and not the names of the columns: add such a line"
                )
            keys["columns"] = names = _COLUMNS[: len(names)]
    return Source(keys, names, guessed_roles(names))


def config_text(file: Path, source: Source, models: Sequence[str]) -> str:
    """Return the text of a config for a file, with a split and a relevance that suit the data, which is read.

    Raises:
        DataError: The data cannot be read as the roles of its columns say.
    """
    keys = {**source.keys, **source.roles}
    options = {key: value for key, value in keys.items() if key != "type"}
    data = DATASETS.create(keys["type"], {**options, "duplicates": "keep"}).load(LoadContext())
    print_diagnostic(f"{len(data):,} interactions of {data.n_users:,} users with {data.n_items:,} items")
    if repeated := len(data) - len(np.unique(data.user.astype(np.int64) * data.n_items + data.item)):
        keys["duplicates"] = "last"
        print_diagnostic(f"{repeated:,} repeat a user and an item: the last one counts (duplicates: last)")
    words = {
        "file": file.name,
        "experiment": _flow({"experiment": file.stem})[1:-1],
        "dataset": _flow({"name": file.stem, **keys}),
        "split": _split(data),
        "relevance": _relevance(data, has_ratings="rating" in source.roles),
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
    if data.timestamp is None:
        return "split: holdout   # the truth: a fifth of each user's interactions, at random, as there are no times"
    n = 5 if np.median(np.bincount(data.user)) >= _LONG else 1
    return f"split: {{type: last_n, n: {n}}}   # the truth: each user's latest {'five' if n == 5 else 'interaction'}"


def _relevance(data: Interactions, *, has_ratings: bool) -> str:
    if not has_ratings:
        return "# relevance: there are no ratings, so every item of the truth is relevant"
    threshold = _SCALES.get(data.rating_scale[1])
    if threshold is None:
        return "# relevance: {threshold: ...}   # the rating that makes an item relevant; without it, all above 0"
    share = np.mean(data.rating >= threshold)
    return (
        f"relevance: {{threshold: {threshold}}}   # ratings that make an item relevant: {share:.0%} of them"
    )
