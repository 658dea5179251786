"""Folds of lists and truth from elsewhere: a column ``fold``, as in the files of a bake-off's runs."""

from __future__ import annotations

from typing import Any

from evalplugin.base.errors import DataError
from evalplugin.data.background import FOLD
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Table
from evalplugin.data.vocabulary import encode
from evalplugin.lists.columns import ListColumns, Role, Sources


def by_fold(sources: Sources, columns: ListColumns, *, option: str = "") -> list[Sources]:
    """Return the tables of each fold in memory, ascending; of a single fold the sources.

    Raises:
        DataError: A table lacks one of the folds, or there are several with an ``option`` that takes a single fold.
    """
    given = {role: source for role, source in sources.items() if source is not None}
    folds_in = {role: _folds(source) for role, source in given.items()}
    folds = set().union(*(folds_in.get(role, ()) for role in ("lists", "truth")))
    if len(folds) < 2:
        return [sources]
    remedy = f"the folds are {_shown(folds)} (column {FOLD!r}): keep the rows of one fold in each table"
    if option:
        raise DataError(f"{option}: takes a single fold; {remedy}")
    for role, own in folds_in.items():
        if missing := folds - own:
            raise DataError(f"{role}: no rows of fold {_shown(missing)}: {remedy}, or all folds in each")
    tables = {role: _in_memory(source, role, columns) for role, source in given.items()}
    return [{**sources, **{r: _rows(table, fold) for r, table in tables.items()}} for fold in sorted(folds)]


def rows_of_fold(source: TableFiles | Table, columns: ListColumns, fold: int) -> TableFiles | Table:
    """Return the rows of one fold of lists; all without a column of folds.

    Raises:
        DataError: There are none.
    """
    if not (folds := _folds(source)):
        return source
    if fold not in folds:
        raise DataError(
            f"{source.name}: no rows of fold {fold}: the folds are {_shown(folds)} (column {FOLD!r})"
        )
    return _rows(_in_memory(source, "lists", columns), fold)


def _folds(source: Any) -> set[Any]:
    if FOLD not in source.columns:
        return set()
    if not isinstance(source, TableFiles | Table):  # a DataFrame of Spark
        return {row[0] for row in source.select(FOLD).distinct().collect()}
    pieces = source.pieces({FOLD: FOLD}) if isinstance(source, TableFiles) else [source]
    return {fold for piece in pieces for fold in encode([piece.ids(FOLD, FOLD)])[0].tolist()}


def _in_memory(source: TableFiles | Table, role: Role, columns: ListColumns) -> Table:
    if isinstance(source, Table):
        return source
    return source.read({**columns.to_read(role, source.name, source.columns), FOLD: FOLD})


def _rows(table: Table, fold: Any) -> Table:
    known, (code,) = encode([table.ids(FOLD, FOLD)])
    return table.filter(known[code] == fold)


def _shown(folds: set[Any]) -> str:
    return ", ".join(map(str, sorted(folds, key=str)))
