"""Truth, history and titles that explain one user's lists to a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalplugin.base.arrays import Ints, position_in_row
from evalplugin.base.libraries import pa, pd
from evalplugin.data import Interactions
from evalplugin.data.interactions import rows_by_time

FOLD = "fold"  # the column of the numbers of folds, in tables of several of them
HISTORY = 20  # latest interactions of each user in the train data


@dataclass(frozen=True, eq=False)
class Background:
    """Data that explains users' lists to a reader, with raw ids.

    ``truth``: user, item, rating. ``history``: user, item, rating and, if known, timestamp, of the train data, or of
    what else is known of the user: the latest ``HISTORY`` of each user who has a truth, latest first. Both have the
    column ``fold`` of ``joined_folds``. ``titles``: of items, where the dataset has them.
    """

    truth: pa.Table
    history: pa.Table
    titles: Mapping[Any, str] = field(default_factory=dict)


def background_of(
    full: Interactions, folds: Sequence[tuple[Interactions | None, Interactions]]
) -> Background:
    """Return truth, history and titles.

    Train and test data may have vocabularies of their own, as those of lists from elsewhere do.

    Args:
        full: The data before the split.
        folds: Of each fold what is known of the users, and the test data.
    """
    titles: Mapping[Any, str] = {}
    if full.titles is not None:
        titles = dict(zip(full.items.tolist(), full.titles.tolist(), strict=True))
    return Background(
        truth=joined_folds([_table(test, np.lexsort((test.item, test.user))) for _, test in folds]),
        history=joined_folds(
            [_table(test if train is None else train, _latest(train, test)) for train, test in folds]
        ),
        titles=titles,
    )


def joined_folds(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables of folds as one; of several folds with the column ``fold``, int32, from 1."""
    if len(tables) == 1:
        return tables[0]
    folds = [
        pa.array(np.full(len(table), fold, dtype=np.int32)) for fold, table in enumerate(tables, start=1)
    ]
    return pa.concat_tables([t.append_column(FOLD, fold) for t, fold in zip(tables, folds, strict=True)])


def _latest(train: Interactions | None, test: Interactions) -> Ints:
    """Return the rows of the latest train data of each user of the test data, user by user, latest first."""
    if train is None:
        return np.empty(0, dtype=np.int64)
    tested = np.bincount(test.user, minlength=test.n_users) > 0
    if not np.array_equal(train.users, test.users):
        tested = pd.Index(train.users).isin(test.users[tested])
    start, by_time = rows_by_time(train)
    counts = np.minimum(np.diff(start), HISTORY) * tested
    user = np.repeat(np.arange(train.n_users), counts)
    # Equal times: the later row first.
    rows: Ints = by_time[start[user + 1] - 1 - position_in_row(user, train.n_users)].astype(np.int64)
    return rows


def _table(data: Interactions, rows: Ints) -> pa.Table:
    """Return some rows with raw ids."""
    part = data.select(rows)
    ids = {"user": _ids(part.users, part.user), "item": _ids(part.items, part.item)}
    return pa.table(part.columns() | ids)


def _ids(vocabulary: Any, codes: Any) -> pa.Array:
    """Return raw ids; a column of text ids has its type also where it is empty, as the history of newcomers is."""
    return pa.array(vocabulary[codes], type=pa.array(vocabulary[:1]).type)
