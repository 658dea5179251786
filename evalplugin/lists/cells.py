"""Columns of lists and truth from tables with a list in each cell, or with a scored pair in each row."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import position_in_row
from evalplugin.base.errors import DataError
from evalplugin.data.tables import Table, column_problem
from evalplugin.lists.columns import ListColumns, ListInput
from evalplugin.lists.request import ScoreRequest
from evalplugin.metrics.blocks import raw_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Cells", "column_of", "input_of_lists", "input_of_pairs", "is_list"]

_ITEM = "item"  # name of the item column in the train data, where lists are in cells
_PAIRS = "; scored pairs need the item column named"


class Cells(NamedTuple):
    """The values of a column, one a row, and its name in messages."""

    name: str
    values: Sequence[Any] | npt.NDArray[Any]


def column_of(frame: pd.DataFrame, name: str, role: str, source: str = "data") -> pd.Series[Any]:
    """Return a column under a fresh index; messages call it by ``role``, and its table by ``source``.

    Raises:
        DataError: No column has that name, or several have.
    """
    names = [str(column) for column in frame.columns]
    if problem := column_problem(name, names, role):
        raise DataError(f"{source}: {problem}")
    return frame.iloc[:, names.index(name)].reset_index(drop=True)


def input_of_lists(users: pd.Series[Any], lists: Cells, truth: Cells, train: Any = None) -> ListInput:
    """Return the columns of a table with one row a user.

    Args:
        users: Unique ids of users; the column of users in the train data has the same name.
        lists: For each user a list, a tuple or an array of items, best first.
        truth: For each user the held-out items: a list, a tuple or an array, or a mapping to ratings.
        train: The train data: users, ``item`` and, optionally, ``rating``.

    Raises:
        DataError: A user with two rows, a cell without a list, ids or ratings that break a rule.
    """
    user = str(users.name)
    Table(users.to_frame(user), "data").ids(user, "user")
    twice = np.flatnonzero(users.duplicated())
    if len(twice):
        first, again = np.flatnonzero(users == users[twice[0]])[:2]
        raise DataError(
            f"data: user {raw_text(users[again])} stands in rows {first + 1} and {again + 1} (counted from 1), but "
            f"lists take one row a user{_PAIRS}"
        )
    held_out, ratings = _truth(users, truth)
    return _request(train, ListColumns(user=user, item=_ITEM, rank="rank")).read(
        _one_row_an_item(users, lists, _checked_lists(users, lists)),
        _one_row_an_item(users, truth, held_out, ratings),
    )


def input_of_pairs(
    users: pd.Series[Any], items: pd.Series[Any], scores: Cells, ratings: Cells, train: Any = None
) -> ListInput:
    """Return the columns of a table of scored pairs, one row each: every pair is a candidate with a rating.

    Raises:
        DataError: Ids, scores or ratings that break a rule.
    """
    import pandas as pd

    user, item = str(users.name), str(items.name)
    columns = [users, items, pd.Series(scores.values), pd.Series(ratings.values)]
    pairs = Table(pd.concat(columns, axis=1, keys=[user, item, scores.name, ratings.name]), "data")
    names = ListColumns(user=user, item=item, score=scores.name, rating=ratings.name)
    return _request(train, names).read(pairs, pairs)


def _request(train: Any, columns: ListColumns) -> ScoreRequest:
    return ScoreRequest((), train=None if train is None else Table(train, "train"), columns=columns)


def _checked_lists(users: pd.Series[Any], lists: Cells) -> list[Any]:
    for user, cell in zip(users, lists.values, strict=True):
        if not is_list(cell):
            hint = _PAIRS if isinstance(cell, float | np.floating) else ""
            raise DataError(
                f"{lists.name}: for user {raw_text(user)} there must be a list of items, best first, not "
                f"{_shown(cell)}{hint}"
            )
    return list(lists.values)


def _truth(users: pd.Series[Any], truth: Cells) -> tuple[list[Any], list[Any] | None]:
    """Return each user's items, and their ratings where the cells are mappings."""
    rated = any(isinstance(cell, Mapping) for cell in truth.values)
    items: list[Any] = []
    for user, cell in zip(users, truth.values, strict=True):
        if not (isinstance(cell, Mapping) or is_list(cell)):
            raise DataError(
                f"{truth.name}: for user {raw_text(user)} there must be a list of relevant items, or a dict of "
                f"ratings by item, not {_shown(cell)}"
            )
        if rated and len(cell) and not isinstance(cell, Mapping):
            raise DataError(
                f"{truth.name}: for user {raw_text(user)} there are no ratings, but for others there are: "
                f"every cell must be a dict of ratings by item, or none"
            )
        items.append(cell if is_list(cell) else list(cell))
    if not rated:
        return items, None
    return items, list(chain.from_iterable(cell.values() for cell in truth.values if len(cell)))


def _one_row_an_item(
    users: pd.Series[Any], cells: Cells, items: list[Any], ratings: list[Any] | None = None
) -> Table:
    """Return each user's items as a table with one row an item: user, item, rank from 1 and, if given, rating."""
    import pandas as pd

    row_of = np.repeat(np.arange(len(users)), np.fromiter(map(len, items), np.int64, len(items)))
    if not len(row_of):
        raise DataError(f"{cells.name}: there is no item in any of the {len(users)} rows")
    rank = 1 + position_in_row(row_of, len(users))
    user = users.iloc[row_of].reset_index(drop=True)
    columns = [user, pd.Series(_flat(items)), pd.Series(rank)]
    names = [str(users.name), _ITEM, "rank"]
    if ratings is not None:
        columns.append(pd.Series(ratings))
        names.append("rating")

    def row_name(row: int) -> str:
        return f"place {rank[row]} of user {raw_text(user[row])}"

    return Table(pd.concat(columns, axis=1, keys=names), cells.name, row_name)


def _flat(items: list[Any]) -> Any:
    if all(isinstance(cell, np.ndarray) and cell.dtype.kind == "i" for cell in items):
        return np.concatenate(items)
    # Arrays of several types would be converted to one that holds them all: text, for example.
    return list(chain.from_iterable(c.tolist() if isinstance(c, np.ndarray) else c for c in items))


def is_list(cell: Any) -> bool:
    """Return whether a cell of a table is a list of items."""
    return isinstance(cell, list | tuple) or (isinstance(cell, np.ndarray) and cell.ndim == 1)


def _shown(value: object) -> str:
    plain = value.item() if isinstance(value, np.generic) else value
    return "an empty cell" if plain is None else f"{reprlib.repr(plain)} ({type(plain).__name__})"
