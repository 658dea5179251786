"""``Candidates``: the items that may be listed for each user."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from evalplugin.base.arrays import Ints, search
from evalplugin.base.errors import DataError
from evalplugin.data.base import Split
from evalplugin.data.interactions import Rows

CandidateKind = Literal["unseen", "all", "judged", "sampled"]  # that a split determines, with a seed

_BLOCK_CELLS = 4_000_000  # negatives drawn at a time: 32 MB of numbers


@dataclass(frozen=True, eq=False)
class Candidates:
    """The items that may be listed: the whole catalogue less ``excluded``, or ``included`` alone.

    - ``unseen``: the items that are not known of the user, by train data or history (those are ``excluded``);
    - ``all``: the whole catalogue (both are None);
    - ``judged``: the items of the user's truth (``included``);
    - ``sampled``: the user's truth and some items from neither train nor truth (``included``);
    - ``given``: the items that a table names (``included``): see ``evalplugin.data.pool``;
    - ``offered``: in place of unseen and all, the items that the split offers (``included``), such as new ones.

    Rows are by user code, items ascending. Users without truth have no included items. ``tie_rank`` int64 (n_items,) is
    the place of each item among those with equal scores; None: in order of item code.
    """

    kind: CandidateKind | Literal["given", "offered"]
    excluded: Rows | None = None
    included: Rows | None = None
    tie_rank: Ints | None = None

    @cached_property
    def digest(self) -> str:
        """The kind, with a hash of the included items if the train and test data do not determine these."""
        if self.kind not in ("sampled", "given", "offered"):
            return self.kind
        assert self.included is not None
        content = hashlib.sha256()
        for array in (self.included.indptr, self.included.item):
            content.update(np.ascontiguousarray(array).data)
        return f"{self.kind} {content.hexdigest()}"

    @classmethod
    def of(
        cls, kind: CandidateKind, split: Split, rng: np.random.Generator, *, n_negatives: int = 100
    ) -> Candidates:
        """Return the candidates of one kind for a split.

        Args:
            kind: See the class.
            split: Train data and truth.
            rng: Source of the negatives of ``sampled``; the other kinds draw nothing.
            n_negatives: Number of negatives of each user, drawn without replacement; all if there are fewer.
        """
        if split.offered is not None:
            if kind == "sampled":
                raise DataError(
                    "recommend.candidates: sampled draws from the whole catalogue, and the split offers some items "
                    "alone; set it to unseen"
                )
            if kind != "judged":
                return cls("offered", included=_offered(split, unseen=kind == "unseen"))
        match kind:
            case "unseen":
                return cls(kind, excluded=split.known.rows)
            case "all":
                return cls(kind)
            case "judged":
                return cls(kind, included=split.test.rows)
            case "sampled":
                return cls(kind, included=_with_negatives(split, rng, n_negatives))


def _offered(split: Split, *, unseen: bool) -> Rows:
    """Return the items that are offered to each test user, without those that are known of the user if ``unseen``."""
    assert split.offered is not None
    users = np.unique(split.test.user).astype(np.int64)
    items = np.flatnonzero(split.offered)
    pairs = (users[:, None] * split.test.n_items + items).ravel()
    if unseen:
        pairs = pairs[~search(split.known.pairs(), pairs)[1]]
    user, item = np.divmod(pairs, split.test.n_items)
    indptr = np.searchsorted(user, np.arange(split.test.n_users + 1))
    return Rows(indptr, item.astype(np.int32), np.zeros(len(item), dtype=np.float32))


def _with_negatives(split: Split, rng: np.random.Generator, n: int) -> Rows:
    truth, n_users, n_items = split.test.rows, split.test.n_users, split.test.n_items
    users = np.flatnonzero(truth.counts)
    true = split.test.pairs()
    # All pairs of train and truth, each once, as sorted numbers.
    known = np.sort(np.concatenate([split.known.pairs(), true]))
    known = known[np.r_[True, known[1:] != known[:-1]]]
    start = np.searchsorted(known, np.arange(n_users + 1, dtype=np.int64) * n_items)
    free = n_items - np.diff(start)[users]
    # The r-th unknown item is r + (known items before it): those whose code less their own position is <= r.
    shifted = known - (np.arange(len(known)) - start[known // n_items])
    parts = []
    block = max(1, _BLOCK_CELLS // max(n, 1))
    for first in range(0, len(users), block):
        block_users, pool = users[first : first + block], free[first : first + block]
        drawn = _distinct(rng, pool, n)
        row, column = np.nonzero(drawn >= 0)
        rank, user = drawn[row, column], block_users[row]
        before = np.searchsorted(shifted, user * n_items + rank, side="right") - start[user]
        positives = true[truth.indptr[block_users[0]] : truth.indptr[block_users[-1] + 1]]
        part = np.concatenate([positives, user * n_items + rank + before])
        part.sort()
        parts.append(part)
    included = np.concatenate(parts)
    rating = np.zeros(len(included), dtype=np.float32)
    rating[np.searchsorted(included, true)] = truth.rating
    user, item = np.divmod(included, n_items)
    return Rows(np.searchsorted(user, np.arange(n_users + 1)), item.astype(np.int32), rating)


def _distinct(rng: np.random.Generator, pool: Ints, n: int) -> Ints:
    """Return n distinct numbers below each pool size, or all if it is smaller: int64 (B, n), padded with -1."""
    drawn = np.full((len(pool), n), -1, dtype=np.int64)
    dense = pool < 2 * n
    width = int(pool[dense].max(initial=0))
    if width:
        # Small pools: shuffle all numbers by random keys.
        key = rng.random((int(dense.sum()), width))
        key[np.arange(width) >= pool[dense, None]] = np.inf
        number = np.argsort(key, axis=1)[:, :n]
        number[np.take_along_axis(key, number, axis=1) == np.inf] = -1
        drawn[dense, : number.shape[1]] = number
    sparse = np.flatnonzero(~dense)
    # Large pools: draw, and redraw repeated numbers. At most half of a pool is drawn, so few rounds are needed.
    while len(sparse):
        values = drawn[sparse]
        again = values < 0
        values[again] = rng.integers(0, np.broadcast_to(pool[sparse, None], values.shape)[again])
        values.sort(axis=1)
        values[:, 1:][values[:, 1:] == values[:, :-1]] = -1
        drawn[sparse] = values
        sparse = sparse[(values < 0).any(axis=1)]
    return drawn
