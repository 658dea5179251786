"""Lists and truth, checked and cut into blocks of users that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.data.candidates import Candidates
from evalplugin.data.interactions import Interactions
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.train_data import TrainData
from evalplugin.models.selection import NO_ITEM, TopN

__all__ = ["Blocks", "raw_text"]

# List places a block: its few temporaries of 4 and 8 bytes a place stay in the second-level cache.
_PLACES = 2**18


@dataclass(frozen=True, eq=False)
class Blocks:
    """The users to score, in blocks: made by ``of``; iterating yields (place in ``user``, context)."""

    user: npt.NDArray[np.int64]  # (U,) codes, ascending: everybody who has a list or a truth
    size: int  # users a block
    top_n: TopN
    list_row: npt.NDArray[np.int64]  # (U,) row in top_n, -1 for a user without a list
    indptr: npt.NDArray[np.int64]  # (U + 1,) where each user's truth starts
    item: npt.NDArray[np.int32]  # (m,) the truth by user
    rating: npt.NDArray[np.float64]  # (m,)
    relevant: npt.NDArray[np.bool_]  # (m,)
    predictions: npt.NDArray[np.float64] | None  # (m,)
    train: TrainData | None
    n_candidates: npt.NDArray[np.int64] | None  # (U,)
    truth: Interactions

    @classmethod
    def of(
        cls,
        top_n: TopN,
        truth: Interactions,
        *,
        train: Interactions | None = None,
        threshold: float | None = None,
        predictions: npt.NDArray[np.floating[Any]] | None = None,
        candidates: Candidates | None = None,
        size: int | None = None,
    ) -> Blocks:
        """Return blocks over everybody who has a list or a truth. A user without a list has an empty one.

        ``threshold``: ratings from it on are relevant; None: ratings above 0 are. ``predictions``
        (len(truth),). ``candidates``: what the lists were chosen from; None: the whole catalogue.

        Raises:
            DataError: Lists without a place, users of the lists that are not ascending or unknown, an item
                that stands twice in a user's truth, predictions of the wrong number or not finite.
        """
        _check_users(top_n, truth)
        order = _by_user(truth)
        if predictions is not None:
            predictions = _checked_predictions(predictions, truth)[order]
        counts = np.bincount(truth.user, minlength=truth.n_users)
        takes_part = counts > 0
        takes_part[top_n.user] = True
        user = np.flatnonzero(takes_part)
        list_row = np.full(truth.n_users, -1, dtype=np.int64)
        list_row[top_n.user] = np.arange(len(top_n))
        rating = truth.rating[order].astype(np.float64)
        return cls(
            user=user,
            size=size or max(1, _PLACES // max(1, top_n.n)),
            top_n=top_n,
            list_row=list_row[user],
            indptr=np.concatenate([[0], np.cumsum(counts[user])]),
            item=truth.item[order],
            rating=rating,
            # Ratings are float32: what a person wrote as 3.3 must reach a threshold of 3.3.
            relevant=rating > 0 if threshold is None else rating >= np.float64(np.float32(threshold)),
            predictions=predictions,
            train=None if train is None else TrainData(train),
            n_candidates=None if candidates is None else _n_candidates(candidates, truth)[user],
            truth=truth,
        )

    def __len__(self) -> int:
        """How many users there are, U."""
        return len(self.user)

    @property
    def n(self) -> int:
        """Length of the lists."""
        return self.top_n.n

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.truth.n_items

    def __iter__(self) -> Iterator[tuple[slice, ScoringContext]]:
        """Yield each block's place and context.

        Raises:
            DataError: A list with an item twice, with an unknown item, or with a hole.
        """
        for low, high in self.cuts():
            yield slice(low, high), self.context(low, high)

    def cuts(self) -> list[tuple[int, int]]:
        """Return the first user of each block and the one behind its last."""
        return [(low, min(low + self.size, len(self))) for low in range(0, len(self), self.size)]

    def context(self, low: int, high: int) -> ScoringContext:
        """Return lists and truth of the users ``low`` to ``high - 1``.

        Raises:
            DataError: A list with an item twice, with an unknown item, or with a hole.
        """
        rows = slice(int(self.indptr[low]), int(self.indptr[high]))
        return ScoringContext(
            item=self._lists(low, high),
            truth_indptr=self.indptr[low : high + 1] - self.indptr[low],
            truth_item=self.item[rows],
            truth_rating=self.rating[rows],
            truth_relevant=self.relevant[rows],
            n_items=self.truth.n_items,
            predictions=None if self.predictions is None else self.predictions[rows],
            train=self.train,
            user=self.user[low:high],
            n_candidates=None if self.n_candidates is None else self.n_candidates[low:high],
        )

    def _lists(self, start: int, stop: int) -> npt.NDArray[np.int32]:
        row = self.list_row[start:stop]
        if row[0] >= 0 and row[-1] - row[0] == len(row) - 1:  # rows ascend, so this is all of them
            item = self.top_n.item[row[0] : row[-1] + 1]
        else:
            item = np.full((len(row), self.top_n.n), NO_ITEM, dtype=np.int32)
            item[row >= 0] = self.top_n.item[row[row >= 0]]
        self._check_lists(item, start)
        return item

    def _check_lists(self, item: npt.NDArray[np.int32], start: int) -> None:
        ordered = np.sort(item, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_ITEM)
        if twice.any():
            row, column = np.argwhere(twice)[0]
            raise DataError(
                f"the list of user {self._user(start + row)} "
                f"has item {self._item(ordered[row, column])} twice"
            )
        low, high = ordered[:, 0], ordered[:, -1]
        if low.min() < NO_ITEM or high.max() >= self.truth.n_items:
            row = int(np.flatnonzero((low < NO_ITEM) | (high >= self.truth.n_items))[0])
            code = low[row] if low[row] < NO_ITEM else high[row]
            raise DataError(
                f"the list of user {self._user(start + row)} has item code {code}, which is none of the "
                f"catalogue's codes 0 to {self.truth.n_items - 1}"
            )
        if low.min() == NO_ITEM:
            hole = (item[:, 1:] != NO_ITEM) & (item[:, :-1] == NO_ITEM)
            if hole.any():
                row = int(np.argwhere(hole)[0][0])
                raise DataError(
                    f"the list of user {self._user(start + row)} has a hole: "
                    f"an item stands behind {NO_ITEM} (no item)"
                )

    def _user(self, position: int) -> str:
        return raw_text(self.truth.users[self.user[position]])

    def _item(self, code: int) -> str:
        return raw_text(self.truth.items[code])


def _n_candidates(candidates: Candidates, truth: Interactions) -> npt.NDArray[np.int64]:
    if candidates.included is not None:
        return candidates.included.counts
    everything = np.full(truth.n_users, truth.n_items, dtype=np.int64)
    return everything if candidates.excluded is None else everything - candidates.excluded.counts


def _check_users(top_n: TopN, truth: Interactions) -> None:
    user = top_n.user
    if top_n.n < 1:
        raise DataError("the lists have no place: n must be at least 1")
    if len(user) and (user.min() < 0 or user.max() >= truth.n_users):
        wrong = user[(user < 0) | (user >= truth.n_users)][0]
        raise DataError(
            f"the lists have user code {wrong}, which is none of the truth's codes 0 to {truth.n_users - 1}"
        )
    fall = np.flatnonzero(user[1:] <= user[:-1])
    if len(fall):
        raise DataError(
            f"the users of the lists must be ascending, each once: "
            f"code {user[fall[0] + 1]} follows code {user[fall[0]]}"
        )


def _by_user(truth: Interactions) -> npt.NDArray[np.int64] | slice:
    """Return how to order the truth by user and item, once it is sure that no pair stands twice."""
    pair = truth.user.astype(np.int64) * truth.n_items + truth.item
    if (pair[1:] > pair[:-1]).all():
        return slice(None)
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    twice = np.flatnonzero(pair[1:] == pair[:-1])
    if len(twice):
        row = order[twice[0]]
        user, item = truth.users[truth.user[row]], truth.items[truth.item[row]]
        raise DataError(f"the truth of user {raw_text(user)} has item {raw_text(item)} twice")
    return order


def raw_text(identifier: object) -> str:
    """Return a raw id as messages show it."""
    return repr(identifier.item() if isinstance(identifier, np.generic) else identifier)


def _checked_predictions(
    predictions: npt.NDArray[np.floating[Any]], truth: Interactions
) -> npt.NDArray[np.float64]:
    checked: npt.NDArray[np.float64] = np.asarray(predictions, dtype=np.float64)
    if predictions.shape != (len(truth),):
        raise DataError(
            f"predictions must be one for each of the truth's {len(truth)} rows, "
            f"not of shape {predictions.shape}"
        )
    wrong = np.flatnonzero(~np.isfinite(checked))
    if len(wrong):
        user, item = truth.users[truth.user[wrong[0]]], truth.items[truth.item[wrong[0]]]
        raise DataError(
            f"the rating predicted for user {raw_text(user)} and item {raw_text(item)} must be finite, "
            f"not {checked[wrong[0]]}"
        )
    return checked
