"""Ratings of a scikit-surprise trainset as arrays, and a trainset from arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalplugin.data import Interactions
    from evalplugin.models.kernels.compiled import Entries

from evalplugin.base.arrays import Codes, Flags, Floats, Ints
from evalplugin.base.libraries import np, surprise


@dataclass(frozen=True, eq=False)
class RatingLists:
    """The ratings of each user, or of each item, in the order of Surprise's lists, which breaks ties."""

    indptr: Ints  # (n + 1,)
    other: Codes  # (m,) inner ids of the other side
    rating: Floats  # (m,)

    @classmethod
    def of(cls, lists: Mapping[int, list[tuple[int, float]]], n: int) -> RatingLists:
        """Return the lists of a trainset (``ur`` or ``ir``) as arrays, which are made when they are used."""
        return _TrainsetLists([lists[inner] for inner in range(n)])

    @property
    def arrays(self) -> Entries:
        """The lists as compiled loops take them."""
        from evalplugin.models.kernels.compiled import Entries

        return Entries(self.indptr, self.other, self.rating)

    @cached_property
    def own(self) -> Codes:
        """The inner id of each rating's list: int32 (m,)."""
        return np.repeat(np.arange(len(self.indptr) - 1, dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def ascending(self) -> bool:
        """Whether every list ascends by inner id."""
        rises = self.other[1:] > self.other[:-1]
        return bool((rises | (self.own[1:] != self.own[:-1])).all())

    def transposed(self, n: int) -> RatingLists:
        """Return the lists of the n others (the transpose), each in ascending order."""
        order = np.argsort(self.other, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(self.other, minlength=n))]).astype(np.int64)
        return RatingLists(indptr, self.own[order], self.rating[order])

    def to_surprise(self) -> defaultdict[int, list[tuple[int, float]]]:
        """Return the lists as Surprise stores them."""
        lists: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        # Tuples share their numbers: a trainset of a million ratings is 130 MB smaller, and faster to make.
        levels, level = np.unique(self.rating, return_inverse=True)
        ids = np.arange(self.other.max(initial=-1) + 1).astype(object)[self.other].tolist()
        pairs = list(zip(ids, levels.astype(object)[level].tolist(), strict=True))
        for inner, (start, stop) in enumerate(pairwise(self.indptr.tolist())):
            lists[inner] = pairs[start:stop]
        return lists


class _TrainsetLists(RatingLists):
    """Lists of a trainset: reading a million tuples takes longer than most estimates, and few algorithms need all."""

    _rows: list[list[tuple[int, float]]]

    def __init__(self, rows: list[list[tuple[int, float]]]) -> None:
        self.__dict__["_rows"] = rows  # the class is frozen

    @cached_property
    def indptr(self) -> Ints:
        return np.concatenate([[0], np.cumsum([len(row) for row in self._rows])]).astype(np.int64)

    @cached_property
    def other(self) -> Codes:
        return np.fromiter(self._numbers(0), dtype=np.int32, count=int(self.indptr[-1]))

    @cached_property
    def rating(self) -> Floats:
        return np.fromiter(self._numbers(1), dtype=np.float64, count=int(self.indptr[-1]))

    def _numbers(self, place: int) -> Iterator[Any]:
        return map(itemgetter(place), chain.from_iterable(self._rows))  # no loop in Python touches them


@dataclass(frozen=True, eq=False)
class Ratings:
    """All ratings by user and by item, under Surprise's inner ids."""

    by_user: RatingLists
    by_item: RatingLists

    @classmethod
    def of(cls, trainset: surprise.Trainset) -> Ratings:
        """Return the ratings of a trainset, whatever the order of its lists."""
        return cls(
            RatingLists.of(trainset.ur, trainset.n_users), RatingLists.of(trainset.ir, trainset.n_items)
        )

    @property
    def n_users(self) -> int:
        """Number of users with ratings."""
        return len(self.by_user.indptr) - 1

    @property
    def n_items(self) -> int:
        """Number of items with ratings."""
        return len(self.by_item.indptr) - 1

    def sides(self, user_based: bool) -> tuple[RatingLists, RatingLists]:
        """Return the lists of the side that has similarities, and of the other one."""
        return (self.by_user, self.by_item) if user_based else (self.by_item, self.by_user)


@dataclass(frozen=True, eq=False)
class TrainsetArrays:
    """The users and items that have train data, under Surprise's inner ids, and their ratings.

    An inner id is the rank of the code among the codes with train data, so both ascend together; all lists ascend.
    """

    user_codes: Ints  # (n_known_users,) code of each inner id
    item_codes: Ints  # (n_known_items,)
    inner_user: Ints  # (n_users,) inner id of each code, -1 without train data
    inner_item: Ints  # (n_items,)
    ratings: Ratings
    rating_scale: tuple[float, float]

    @classmethod
    def of(cls, train: Interactions) -> TrainsetArrays:
        """Return the arrays of train data."""
        rows = train.rows
        inner_user, user_codes = _ranks(rows.counts > 0)
        inner_item, item_codes = _ranks(train.item_counts > 0)
        indptr = np.concatenate([[0], np.cumsum(rows.counts[user_codes])])
        by_user = RatingLists(indptr, inner_item.astype(np.int32)[rows.item], rows.rating.astype(np.float64))
        ratings = Ratings(by_user, by_user.transposed(len(item_codes)))
        return cls(user_codes, item_codes, inner_user, inner_item, ratings, train.rating_scale)

    def trainset(self) -> surprise.Trainset:
        """Return a Surprise trainset of these ratings; its raw ids are user and item codes."""
        trainset: Any = surprise.Trainset(
            self.ratings.by_user.to_surprise(),
            self.ratings.by_item.to_surprise(),
            len(self.user_codes),
            len(self.item_codes),
            len(self.ratings.by_user.rating),
            self.rating_scale,
            {code: inner for inner, code in enumerate(self.user_codes.tolist())},
            {code: inner for inner, code in enumerate(self.item_codes.tolist())},
        )
        # Surprise would compute it by a loop over all ratings at the first access.
        trainset._global_mean = np.mean(self.ratings.by_user.rating)
        return trainset


def _ranks(present: Flags) -> tuple[Ints, Ints]:
    codes = np.flatnonzero(present)
    inner = np.full(len(present), -1, dtype=np.int64)
    inner[codes] = np.arange(len(codes))
    return inner, codes
