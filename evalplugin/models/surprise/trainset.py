"""A scikit-surprise trainset from train data, and its lists of ratings as sparse matrices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalplugin.data import Interactions

import numpy as np

from evalplugin.base.arrays import Flags, Ints
from evalplugin.base.libraries import sparse, surprise

Pairs = list[tuple[int, float]]  # inner id of the other side, and rating


@dataclass(frozen=True, eq=False)
class InnerIds:
    """Surprise's inner ids of the users and items with train data: ranks of their codes, so both ascend together."""

    user_codes: Ints  # (n_known_users,) code of each inner id
    item_codes: Ints  # (n_known_items,)
    user: Ints  # (n_users,) inner id of each code, -1 without train data
    item: Ints  # (n_items,)

    @classmethod
    def of(cls, train: Interactions) -> InnerIds:
        """Return the inner ids of the users and items of train data."""
        user_codes, user = _ranks(train.rows.counts > 0)
        item_codes, item = _ranks(train.item_counts > 0)
        return cls(user_codes, item_codes, user, item)

    def trainset(self, train: Interactions) -> surprise.Trainset:
        """Return the train data as a Surprise trainset, whose raw ids are codes; all its lists ascend."""
        user, item = self.user[train.user], self.item[train.item]
        rating = train.rating.astype(np.float64)
        trainset: Any = surprise.Trainset(
            _lists(user, item, rating),
            _lists(item, user, rating),
            len(self.user_codes),
            len(self.item_codes),
            len(train),
            train.rating_scale,
            {code: inner for inner, code in enumerate(self.user_codes.tolist())},
            {code: inner for inner, code in enumerate(self.item_codes.tolist())},
        )
        return trainset


def _ranks(present: Flags) -> tuple[Ints, Ints]:
    codes = np.flatnonzero(present)
    inner = np.full(len(present), -1, dtype=np.int64)
    inner[codes] = np.arange(len(codes))
    return codes, inner


def _lists(own: Ints, other: Ints, rating: Any) -> defaultdict[int, Pairs]:
    """Return the ratings of each inner id as Surprise stores them, ascending by the other inner id."""
    order = np.lexsort((other, own))
    pairs = list(zip(other[order].tolist(), rating[order].tolist(), strict=True))
    starts = np.append(0, np.bincount(own).cumsum()).tolist()
    lists: defaultdict[int, Pairs] = defaultdict(list)
    lists.update({inner: pairs[start:stop] for inner, (start, stop) in enumerate(pairwise(starts))})
    return lists


def matrix_of_lists(lists: Mapping[int, Pairs], shape: tuple[int, int]) -> sparse.csr_array:
    """Return the lists of a trainset (``ur`` or ``ir``) as rows of a float64 matrix, entries in their order."""
    rows = [lists[inner] for inner in range(shape[0])]
    indptr = np.append(0, np.cumsum([len(row) for row in rows]))

    def column(place: int, dtype: type) -> Any:
        numbers: Iterable[Any] = map(itemgetter(place), chain.from_iterable(rows))
        return np.fromiter(numbers, dtype=dtype, count=int(indptr[-1]))

    return sparse.csr_array((column(1, np.float64), column(0, np.int32), indptr), shape=shape)
