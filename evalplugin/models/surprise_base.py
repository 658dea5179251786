"""How a scikit-surprise algorithm is fitted on interactions and asked for whole blocks of users."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evalplugin.data import Interactions
from evalplugin.errors import ModelError
from evalplugin.models.recommend import user_blocks

if TYPE_CHECKING:
    import surprise

__all__ = ["Known", "SurpriseModel", "dot_products", "draw_seed", "refuse_if_too_large"]

Scores = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Known:
    """The users and items that have train data, under Surprise's inner ids, and their ratings.

    An inner id is the rank of the code among those with train data, so both ascend together.
    """

    user_codes: npt.NDArray[np.int64]  # (n_known_users,) code of each inner id
    item_codes: npt.NDArray[np.int64]  # (n_known_items,)
    inner_user: npt.NDArray[np.int64]  # (n_users,) inner id of each code, -1 without train data
    inner_item: npt.NDArray[np.int64]  # (n_items,)
    user: npt.NDArray[np.int64]  # (m,) inner ids, ratings in order of user, then item
    item: npt.NDArray[np.int64]  # (m,)
    rating: npt.NDArray[np.float64]  # (m,)
    indptr: npt.NDArray[np.int64]  # (n_known_users + 1,) where each user's ratings start
    rating_scale: tuple[float, float]

    @classmethod
    def of(cls, train: Interactions) -> Known:
        """Return what a model knows after ``train``."""
        rows = train.rows
        inner_user, user_codes = _ranks(rows.counts > 0)
        inner_item, item_codes = _ranks(train.item_counts > 0)
        counts = rows.counts[user_codes]
        return cls(
            user_codes,
            item_codes,
            inner_user,
            inner_item,
            np.repeat(np.arange(len(user_codes)), counts),
            inner_item[rows.item],
            rows.rating.astype(np.float64),
            np.concatenate([[0], np.cumsum(counts)]),
            train.rating_scale,
        )

    def trainset(self) -> surprise.Trainset:
        """Return the same as a Surprise trainset; its raw ids are user and item codes."""
        from surprise import Trainset

        of_user: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        of_item: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for inner in range(len(self.item_codes)):
            of_item[inner] = []
        for user, item, rating in zip(
            self.user.tolist(), self.item.tolist(), self.rating.tolist(), strict=True
        ):
            of_user[user].append((item, rating))
            of_item[item].append((user, rating))
        return Trainset(
            of_user,
            of_item,
            len(self.user_codes),
            len(self.item_codes),
            len(self.rating),
            self.rating_scale,
            {code: inner for inner, code in enumerate(self.user_codes.tolist())},
            {code: inner for inner, code in enumerate(self.item_codes.tolist())},
        )


@dataclass
class SurpriseModel:
    """A scikit-surprise algorithm. A subclass names it, and repeats its estimates for blocks of users.

    Everything is done in the order in which Surprise does it, so that scores that are equal there are equal here:
    ``scores`` is ``algorithm.predict(user, item, clip=False).est``, ``predict`` the same clipped to the rating scale.
    """

    name: ClassVar[str]  # of the class in the package surprise

    algorithm: Any = field(default=None, init=False, repr=False, compare=False)
    _known: Known | None = field(default=None, init=False, repr=False, compare=False)

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Fit ``algorithm``, a genuine Surprise object whose raw ids are user and item codes.

        Raises:
            ModelError: The fit needs more memory than there is, or the algorithm is undefined on this data.
        """
        import surprise

        known = Known.of(train)
        self._check(known)
        algorithm = getattr(surprise, self.name)(**self._arguments(rng))
        self.algorithm = algorithm.fit(known.trainset())
        self._known = known
        self._prepare()

    def scores(self, users: Codes) -> Scores:
        """Return the unclipped estimate of every item's rating: float64 (len(users), n_items)."""
        known = self.known
        inner = known.inner_user[users]
        rows = np.flatnonzero(inner >= 0)
        n_items = len(known.inner_item)
        if len(rows) == len(users) and len(known.item_codes) == n_items:
            return self._estimates(inner)
        scores = np.empty((len(users), n_items))
        scores[:] = self._strangers(users)
        if len(rows):
            scores[np.ix_(rows, known.item_codes)] = self._estimates(inner[rows])
        return scores

    def predict(self, users: Codes, items: Codes) -> Scores:
        """Return the estimated rating of each pair, clipped to the rating scale: float64 (len(users),)."""
        known = self.known
        estimates = np.empty(len(users))
        distinct, row = np.unique(users, return_inverse=True)
        order = np.argsort(row, kind="stable")
        ends = np.searchsorted(row[order], np.arange(len(distinct) + 1))
        first = 0
        for block in user_blocks(distinct, len(known.inner_item)):
            pairs = order[ends[first] : ends[first + len(block)]]
            estimates[pairs] = self.scores(block)[row[pairs] - first, items[pairs]]
            first += len(block)
        return estimates.clip(*known.rating_scale)

    @property
    def known(self) -> Known:
        """Users and items that have train data."""
        assert self._known is not None, "fit comes first"
        return self._known

    @property
    def mean(self) -> float:
        """Mean of all ratings, which Surprise answers where it cannot tell."""
        return float(self.algorithm.trainset.global_mean)

    def _arguments(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return the algorithm's arguments; all objects in it are new, as Surprise changes those it gets."""
        return {}

    def _check(self, known: Known) -> None:
        """Refuse data that the algorithm cannot be fitted on."""

    def _prepare(self) -> None:
        """Set up what ``_estimates`` needs, after the fit."""

    def _estimates(self, inner: npt.NDArray[np.int64]) -> Scores:
        """Return the estimates for users with train data and all items with train data: (len(inner), n_known_items)."""
        raise NotImplementedError

    def _strangers(self, users: Codes) -> Scores | float:
        """Return what is estimated where user or item has no train data: broadcasts to (len(users), n_items)."""
        return self.mean

    def _biased(self, users: Codes) -> Scores:
        """Return (mean + user bias) + item bias, a bias being zero without train data: (len(users), n_items)."""
        known = self.known
        user_bias, item_bias = np.zeros(len(known.inner_user)), np.zeros(len(known.inner_item))
        user_bias[known.user_codes] = self.algorithm.bu
        item_bias[known.item_codes] = self.algorithm.bi
        biased: Scores = (self.mean + user_bias[users])[:, None] + item_bias
        return biased


def dot_products(left: Scores, right: Scores) -> Scores:
    """Return all dot products of the rows of two matrices, each to the bit what ``numpy.dot`` of the two rows is.

    A matrix product is faster, but its rounding depends on the place in the block, which decides ties by chance.
    """
    products: Scores = np.vecdot(left[:, None, :], right[None, :, :])
    return products


def draw_seed(random_state: int | None, rng: np.random.Generator) -> int:
    """Return the seed of an algorithm: its ``random_state``, or else one from ``rng``."""
    return int(rng.integers(2**31)) if random_state is None else random_state


def refuse_if_too_large(needed: int, what: str, instead: str) -> None:
    """Refuse a fit that needs more memory than there is.

    Raises:
        ModelError: Says how much is needed for what, how much there is, and what to do instead.
    """
    available = _memory()
    if available is not None and needed > available:
        raise ModelError(
            f"{what} needs {needed:,} bytes ({needed / 2**30:.1f} GiB) of memory, and there are {available:,} "
            f"({available / 2**30:.1f} GiB); {instead}"
        )


def _memory() -> int | None:
    """Return the bytes of memory of this machine or its container; None where that cannot be known."""
    if not hasattr(os, "sysconf"):
        return None
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else "max"
    return total if text == "max" else min(total, int(text))


def _ranks(present: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    codes = np.flatnonzero(present)
    inner = np.full(len(present), -1, dtype=np.int64)
    inner[codes] = np.arange(len(codes))
    return inner, codes
