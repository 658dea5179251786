"""The contract of every split: sound folds, repeatable, nothing lost without a note."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from evalplugin.data import SPLITS, Interactions, Split, Splitter
from evalplugin.testing.assertions import require

__all__ = ["check_split"]

_USERS, _ITEMS = 60, 25


def check_split(split: str | Callable[..., Splitter], **params: Any) -> None:
    """Check the contract of a split on small data.

    Every fold has train and test data on the vocabularies of the data, in its order, without a pair in both; folds are
    numbered from 0; what is in neither part is noted; the same generator gives the same folds, whatever
    numpy's global state; the data is not modified.

    Args:
        split: A registered name, a class, or any callable that returns a new split.
        params: Its arguments. The data has 60 users with 3 to 20 interactions each, 25 items, and times from 0 to 999.

    Raises:
        AssertionError: A law is broken.
        DataError: A fold breaks a rule of ``Split``.
    """
    made = SPLITS.create(split, params) if isinstance(split, str) else split(**params)
    for seed in range(2):
        data = _draw(np.random.default_rng(seed))
        before = data.digest
        np.random.seed(seed)  # noqa: NPY002 - the state that must not matter
        folds = made.split(data, np.random.default_rng(seed))
        np.random.seed(seed + 1)  # noqa: NPY002
        again = made.split(data, np.random.default_rng(seed))
        require(len(folds) > 0, "a split must have a fold")
        require([fold.fold for fold in folds] == list(range(len(folds))), "folds must be numbered from 0")
        for fold in folds:
            _check_fold(fold, data)
        law = "the same generator must give the same folds: take all randomness from rng"
        same = [(one.train.digest, one.test.digest) for one in folds]
        require(same == [(other.train.digest, other.test.digest) for other in again], law)
        require(replace(data).digest == before, "the data must stay as it is")


def _check_fold(fold: Split, data: Interactions) -> None:
    train, test = _rows(fold.train, data), _rows(fold.test, data)
    for name, rows in (("train", train), ("test", test)):
        require(bool(np.all(np.diff(rows) > 0)), f"{name} data must be in the order of the data")
    left = len(data) - len(np.union1d(train, test))
    require(not left or bool(fold.notes), f"{left} interactions are in neither part, and no note says so")


def _rows(part: Interactions, data: Interactions) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return which rows of the data a part has: ratings tell them apart."""
    rows = part.rating.astype(np.int64)
    known = (rows >= 0) & (rows < len(data))
    require(bool(known.all()), "ratings must be those of the data")
    same = np.array_equal(part.user, data.user[rows]) and np.array_equal(part.item, data.item[rows])
    require(same, "users, items and ratings must belong together as in the data")
    return rows


def _draw(rng: np.random.Generator) -> Interactions:
    counts = rng.integers(3, 21, _USERS)
    user = np.repeat(np.arange(_USERS), counts)
    item = np.concatenate([rng.permutation(_ITEMS)[:count] for count in counts])
    order = rng.permutation(len(user))
    return Interactions(
        user=user[order].astype(np.int32),
        item=item[order].astype(np.int32),
        rating=np.arange(len(user), dtype=np.float32),
        timestamp=rng.integers(0, 1000, len(user)),
        users=np.arange(_USERS),
        items=np.arange(_ITEMS),
    )
