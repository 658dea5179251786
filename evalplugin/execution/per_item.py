"""Counts by item: how often a model lists it, how often it is in the truth, and how often it is found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evalplugin.base.arrays import NO_ITEM, search
from evalplugin.base.libraries import pa, pd
from evalplugin.data import Split
from evalplugin.metrics.relevance import Relevance
from evalplugin.models.selection import TopN

_LISTS = 2**12  # that are looked through at a time


def items_table(lists: Sequence[TopN], splits: Sequence[Split], relevance: Relevance) -> pa.Table:
    """Return one row for each item that a list or a relevant truth has, in the order of ids, as int64 counts.

    Columns: ``item``; ``train``, its interactions in the train data; ``truth``, the users in whose truth it is
    relevant; ``listed``, the lists that have it; ``hit``, those of users in whose truth it is relevant. With several
    folds, ``train`` is of the first fold that knows the item, whatever the lists have, and the others are sums.

    Args:
        lists: Of each fold.
        splits: The folds.
        relevance: Of the truth.
    """
    folds = [_counts(top_n, split, relevance) for top_n, split in zip(lists, splits, strict=True)]
    frame = folds[0]
    if len(folds) > 1:
        sums = dict.fromkeys(("truth", "listed", "hit"), "sum")
        frame = pd.concat(folds).groupby("item", sort=True, as_index=False).agg({"train": "first"} | sums)
    frame = frame[frame["listed"] + frame["truth"] > 0]
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


def _counts(top_n: TopN, split: Split, relevance: Relevance) -> pd.DataFrame:
    """Return the counts of one fold, of all items that it knows."""
    n_items, test = split.train.n_items, split.test.select(np.flatnonzero(relevance.of(split.test.rating)))
    row, has_list = search(top_n.user, test.user)
    found = [  # pairs of the truth
        some[(top_n.item[row[some]] == test.item[some, None]).any(axis=1)]
        for some in np.array_split(np.flatnonzero(has_list), len(test) // _LISTS + 1)
    ]
    hit = test.item[np.concatenate(found)]
    truth, hits = (np.bincount(items, minlength=n_items) for items in (test.item, hit))
    listed = np.zeros(n_items + 1, dtype=np.int64)  # 0: of no item
    for some in range(0, len(top_n), _LISTS):
        listed += np.bincount(top_n.item[some : some + _LISTS].ravel() - NO_ITEM, minlength=n_items + 1)
    counts = {"train": split.train.item_counts, "truth": truth, "listed": listed[1:], "hit": hits}
    columns = {name: of_items.astype(np.int64) for name, of_items in counts.items()}
    return pd.DataFrame({"item": split.train.items, **columns})
