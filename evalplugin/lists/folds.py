"""Folds of lists and truth from elsewhere: a column ``fold``, as in the files of a bake-off's runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.data.background import FOLD
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Table
from evalplugin.data.vocabulary import encode
from evalplugin.lists.columns import ListColumns, Role

_REMEDY = f"give every table the column {FOLD!r}, or keep the rows of one fold in each"


def by_fold(sources: Mapping[Role, Any], columns: ListColumns) -> list[Mapping[Role, Any]]:
    """Return the tables of each fold in memory, ascending; of a single one the sources as they are.

    Args:
        sources: ``Table`` or ``TableFiles`` by role; None for train data that is not given.
        columns: The names of their columns.

    Raises:
        DataError: A table has no column of folds, or lacks one of the folds.
    """
    folds = folds_of(sources)
    if not folds:
        return [sources]
    tables = {
        role: _in_memory(source, role, columns) for role, source in sources.items() if source is not None
    }
    return [{**sources, **{role: _rows(table, fold) for role, table in tables.items()}} for fold in folds]


def rows_of_fold(source: TableFiles | Table, columns: ListColumns, fold: int) -> TableFiles | Table:
    """Return the rows of one fold of lists; all without a column of folds.

    Raises:
        DataError: There are none.
    """
    if not (folds := _values(source)):
        return source
    if fold not in folds:
        raise DataError(
            f"{source.name}: no rows of fold {fold} (column {FOLD!r}, from 1), but of {_shown(folds)}"
        )
    return _rows(_in_memory(source, "lists", columns), fold)


def folds_of(sources: Mapping[Role, Any]) -> list[Any]:
    """Return the folds of lists and truth, which may be DataFrames of Spark; none where there is only one.

    Raises:
        DataError: A table has no column of folds, or lacks one of the folds.
    """
    folds_in = {role: _values(source) for role, source in sources.items() if source is not None}
    folds = set().union(*(folds_in[role] for role in ("lists", "truth") if role in folds_in))
    if len(folds) < 2:
        return []
    for role, own in folds_in.items():
        if not own:
            raise DataError(f"{role}: no column {FOLD!r}, and there are the folds {_shown(folds)}: {_REMEDY}")
        if missing := folds - own:
            raise DataError(f"{role}: no rows of fold {_shown(missing)}, but of {_shown(own)}: {_REMEDY}")
    return sorted(folds)


def refuse_folds(sources: Mapping[Role, Any], options: str) -> None:
    """Refuse several folds, as for ``folds_of``, where ``options`` take one.

    Raises:
        DataError: There are several.
    """
    if folds := folds_of(sources):
        raise DataError(
            f"{options}: of one fold at a time, and there are the folds {_shown(folds)} (column {FOLD!r}): keep the "
            f"rows of one in each table"
        )


def longest_list(tables: Iterable[Table], columns: ListColumns) -> int:
    """Return the length of the longest list of several folds."""
    users = (t.ids(columns.of("lists", t.name, t.columns)["user"], columns.unit) for t in tables)
    return max(int(np.bincount(encode([ids])[1][0]).max()) for ids in users)


def _values(source: Any) -> set[Any]:
    if FOLD not in source.columns:
        return set()
    if not isinstance(source, TableFiles | Table):  # a DataFrame of Spark
        return {row[0] for row in source.select(FOLD).distinct().collect()}
    pieces = source.pieces({FOLD: FOLD}) if isinstance(source, TableFiles) else [source]
    return {fold for piece in pieces for fold in encode([piece.ids(FOLD, FOLD)])[0].tolist()}


def _in_memory(source: TableFiles | Table, role: Role, columns: ListColumns) -> Table:
    if isinstance(source, Table):
        return source
    return source.read({**columns.of(role, source.name, source.columns), FOLD: FOLD})


def _rows(table: Table, fold: Any) -> Table:
    known, (code,) = encode([table.ids(FOLD, FOLD)])
    return table.filter(known[code] == fold)


def _shown(folds: Any) -> str:
    return ", ".join(map(str, sorted(folds, key=str)))
