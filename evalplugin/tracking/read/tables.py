"""Files of a run, read and checked: tables as raw ids and groups of users, configs, parameters of tuned models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import yaml

from evalplugin.base.libraries import pa, pc, pq
from evalplugin.base.text import json_of
from evalplugin.config import ModelRecipe
from evalplugin.files.inputs import ENV
from evalplugin.segments import HistoryLengths, Segmentation, clustering

# The columns of each table that must be there: of ids, and of numbers.
_COLUMNS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "per_user": (("user",), ()),
    "segments": (("user",), ()),
    "truth": (("user", "item"), ("rating",)),
    "history": (("user", "item"), ("rating",)),
    "titles": (("item",), ()),
    "top_n": (("user", "item"), ("rank",)),
    "per_item": (("item",), ("train", "truth", "listed", "hit")),
}
_SEGMENTS = b"evalplugin"  # key of the metadata that describes the columns of labels


def read_table(path: Path, name: str) -> pa.Table:
    """Return the table that a run holds under a name: of a Parquet file, or of a folder of parts.

    Raises:
        ValueError: It is no Parquet file, or has other columns; the message continues "the artifact ...".
    """
    ids, numbers = _COLUMNS[name]
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"cannot be read as Parquet: {' '.join(str(error).split())[:300]}") from None
    if missing := [column for column in (*ids, *numbers) if column not in table.column_names]:
        raise ValueError(f"has no column {missing[0]!r}; it has {', '.join(table.column_names) or 'none'}")
    if name == "per_user":  # a column of scores for each metric
        numbers = tuple(column for column in table.column_names if column not in ids)
    for column in ids:
        kind = table.schema.field(column).type
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise ValueError(f"holds {kind} in the column {column!r}; allowed: integers or text")
    for column in numbers:
        kind = table.schema.field(column).type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            raise ValueError(f"holds {kind} in the column {column!r}; allowed: numbers")
    if name == "segments":
        _described(table)
    return table


def raw_ids(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return raw ids: integers, or text as objects."""
    return (
        column.to_numpy() if pa.types.is_integer(column.type) else np.array(column.to_pylist(), dtype=object)
    )


def segments_of(table: pa.Table) -> tuple[Segmentation, ...]:
    """Return the segmentations that a table has: a column ``user``, and one of labels each."""
    users, described = raw_ids(table.column("user")), _described(table)
    segments = []
    for name, labels in described.labels.items():
        index = pc.index_in(table.column(name), value_set=pa.array(labels, pa.string()))
        group = pc.fill_null(index, -1).to_numpy().astype(np.int32)
        segments.append(Segmentation(name, tuple(labels), users, group, name in described.from_truth))
    return tuple(segments)


def histories_of(table: pa.Table) -> HistoryLengths | None:
    """Return the lengths of histories in a table of segments; None where they are not known."""
    if (name := _described(table).history) is None:
        return None
    return HistoryLengths(raw_ids(table.column("user")), table.column(name).to_numpy())


def clustering_of(table: pa.Table) -> Segmentation | None:
    """Return the clusters of units in a table of segments; None where units are independent."""
    if (clusters := _described(table).clusters) is None:
        return None
    name, column = clusters
    return clustering(name, raw_ids(table.column(column)), raw_ids(table.column("user")))


class _Described(NamedTuple):
    """What the metadata of a table of segments says of its columns."""

    labels: dict[str, list[str]]  # of each segmentation, in their order
    from_truth: frozenset[str]  # names of the segmentations made from held-out items
    history: str | None  # the column of lengths of histories
    clusters: tuple[str, str] | None  # the noun and the column of the clusters of units


def _described(table: pa.Table) -> _Described:
    try:
        described = json_of((table.schema.metadata or {})[_SEGMENTS])
        labels = {str(name): list(map(str, texts)) for name, texts in described["segments"].items()}
        from_truth = frozenset(map(str, described["from_truth"]))
        history = described.get("history")  # left out for lists from elsewhere
        of_clusters = described.get("clusters")
        clusters = None if of_clusters is None else (str(of_clusters["name"]), str(of_clusters["column"]))
    except (KeyError, ValueError, TypeError, AttributeError):
        raise ValueError("does not describe its groups of users in its metadata") from None
    names = [*labels, *([history] if "history" in described else []), *(clusters or ())[1:]]
    if missing := [name for name in names if name not in table.column_names]:
        raise ValueError(f"has no column {missing[0]!r}, which its metadata describes")
    return _Described(labels, from_truth, history, clusters)


def params_of(file: Path) -> dict[str, Any]:
    """Return the parameters of a tuned model."""
    try:
        return dict(json_of(file.read_bytes()))
    except (ValueError, TypeError):
        raise ValueError("is not a mapping of parameters") from None


def models_of(file: Path) -> dict[str, ModelRecipe]:
    """Return the models of a resolved config by name, without their search spaces."""

    def text_of(path: object) -> str:
        return f"{ENV}{path['env']}" if isinstance(path, dict) else str(path)

    models = {}
    try:
        for model in yaml.safe_load(file.read_text(encoding="utf-8"))["models"]:
            name = str(model["name"])
            inputs = tuple(map(text_of, model.get("inputs", ())))
            models[name] = ModelRecipe(name, str(model["type"]), dict(model["params"]), inputs)
        return models
    except (yaml.YAMLError, RecursionError, ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("is not a resolved config with models") from None
