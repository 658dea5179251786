"""The contracts of datasets, filters and splits: sound data, the same each time, nothing lost without a note."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from evalplugin.base.arrays import Ints
from evalplugin.data import (
    DATASETS,
    FILTERS,
    SPLITS,
    DatasetLoader,
    Filter,
    Interactions,
    LoadContext,
    Split,
    Splitter,
)
from evalplugin.data.queries import Unit
from evalplugin.testing.cases import N_ITEMS, N_USERS, created, interactions, require

PARTS = ("train", "validation", "test")

R = TypeVar("R")


def check_dataset(
    dataset: str | Callable[..., DatasetLoader], context: LoadContext | None = None, /, **params: Any
) -> None:
    """Check the contract of a dataset; its files must be there.

    ``load`` returns sorted vocabularies, finite ratings, no pair twice (in a part), and the same each time.

    Args:
        context: Where data lies; None: relative paths start from the working directory.

    Raises:
        DataError: The data is missing or breaks a rule.
    """
    loader = created(DATASETS, dataset, params)
    context = LoadContext() if context is None else context
    problems = loader.check(context)
    require(not problems, f"check() must find no problem where load() works, but: {problems}")
    data, again = loader.load(context), loader.load(context)
    require(len(data) > 0, "there must be interactions")
    for name, codes, ids in (("user", data.user, data.users), ("item", data.item, data.items)):
        require(len(codes) == len(data), f"{name} must have one code an interaction")
        require(bool(np.all((codes >= 0) & (codes < len(ids)))), f"codes of {name}s must be within {name}s")
        require(ids.tolist() == sorted(set(ids.tolist())), f"{name}s must be sorted and unique")
    require(bool(np.isfinite(data.rating).all()), "ratings must be finite")
    part = np.zeros(len(data), np.int8) if data.part is None else data.part
    require(
        bool(np.all((part >= 0) & (part < max(1, len(data.parts))))), "codes of parts must be within parts"
    )
    rows = np.stack([data.user, data.item, part])
    unique = data.events or np.unique(rows, axis=1).shape[1] == len(data)
    require(unique, "no pair of user and item may occur twice (in the same part)")
    require(data.digest == again.digest, "loading twice must give the same content")


def check_filter(filter: str | Callable[..., Filter], **params: Any) -> None:
    """Check the contract of a filter on 60 users with 1 to 20 interactions, 25 items, ratings 1 to 5, times 0 to 999.

    ``keep`` returns a bool for each interaction, the same each time and in any order of rows; without
    ``depends_on_others`` it decides on each by itself.
    """
    tested = created(FILTERS, filter, params)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data = _data_to_filter(rng)
        before = data.digest
        kept, again = _twice(lambda data=data: tested.keep(data))  # type: ignore[misc]
        law = f"the mask must be bool ({len(data)},), one value for each interaction"
        require(kept.mask.shape == (len(data),) and kept.mask.dtype == np.bool_, law)
        require(bool(np.array_equal(kept.mask, again.mask)), "the same data must give the same mask")
        require(replace(data).digest == before, "the data must stay as it is")
        order = rng.permutation(len(data))
        moved = tested.keep(data.select(order)).mask
        require(bool(np.array_equal(moved, kept.mask[order])), "the order of rows must not matter")
        if not tested.depends_on_others:
            part = rng.random(len(data)) < 0.5
            alone = tested.keep(data.select(part)).mask
            law = (
                "what is kept depends on other interactions: declare depends_on_others: ClassVar[bool] = True"
            )
            require(bool(np.array_equal(alone, kept.mask[part])), law)


def check_split(split: str | Callable[..., Splitter], **params: Any) -> None:
    """Check the contract of a split on 60 users with 3 to 20 interactions, 25 items, times from 0 to 999.

    Every fold has train and test data on the vocabularies of the data, in its order, without a pair in both; folds
    are numbered from 0; what is left out is noted; the same generator gives the same folds.

    Raises:
        DataError: A fold breaks a rule of ``Split``.
    """
    splitter = created(SPLITS, split, params)
    for seed in range(2):
        data = _data_to_split(np.random.default_rng(seed))
        if splitter.uses_parts:
            data = replace(data, part=(np.arange(len(data)) % 3).astype(np.int8), parts=PARTS)
        before = data.digest
        folds, again = _twice(
            lambda data=data, seed=seed: splitter.split(data, np.random.default_rng(seed))  # type: ignore[misc]
        )
        require(len(folds) > 0, "a split must have a fold")
        require([fold.fold for fold in folds] == list(range(len(folds))), "folds must be numbered from 0")
        for fold in folds:
            _check_fold(fold, data)
        law = "the same generator must give the same folds: take all randomness from rng"
        digests = [[[part.digest for part in _parts(fold)] for fold in result] for result in (folds, again)]
        require(digests[0] == digests[1], law)
        require(replace(data).digest == before, "the data must stay as it is")


def _check_fold(fold: Split, data: Interactions) -> None:
    parts = [_rows(part, data, fold.unit) for part in _parts(fold)]
    if fold.unit == "user":
        for name, rows in zip(("train data", "test data", "the history"), parts, strict=False):
            require(bool(np.all(np.diff(rows) > 0)), f"{name} must be in the order of the data")
    else:
        both = set(data.user[parts[0]].tolist()) & set(data.user[parts[1]].tolist())
        require(not both, "a session must not have both train data and queries")
    left = len(data) - len(np.unique(np.concatenate(parts)))
    require(not left or bool(fold.notes), f"{left} interactions are in neither part, and no note says so")


def _parts(fold: Split) -> list[Interactions]:
    """Return train data, test data and, if there is one, the history."""
    return [fold.train, fold.test, *([] if fold.history is None else [fold.history])]


def _rows(part: Interactions, data: Interactions, unit: Unit) -> Ints:
    """Return the row in the data of each interaction of a part: ratings tell rows apart."""
    rows = part.rating.astype(np.int64)
    known = (rows >= 0) & (rows < len(data))
    require(bool(known.all()), "ratings must be those of the data")
    if unit == "user":
        same_user = np.array_equal(part.user, data.user[rows])
    else:  # a train session has its own id, a query one that begins with it
        texts, own = part.users[part.user].tolist(), data.users[data.user[rows]].tolist()
        same_user = all(
            text.partition(":")[0] == str(session) for text, session in zip(texts, own, strict=True)
        )
    require(
        same_user and np.array_equal(part.item, data.item[rows]),
        "users, items and ratings must belong together as in the data",
    )
    return rows


def _twice(call: Callable[[], R]) -> list[R]:
    """Return the results of two calls, under different states of numpy's global generator, which must not matter."""
    results = []
    for seed in range(2):
        np.random.seed(seed)  # noqa: NPY002
        results.append(call())
    return results


def _data_to_filter(rng: np.random.Generator) -> Interactions:
    counts = rng.integers(1, 21, N_USERS)
    chance = np.arange(1, N_ITEMS + 1) ** -1.0
    item = [rng.choice(N_ITEMS, count, replace=False, p=chance / chance.sum()) for count in counts]
    rating, time = rng.integers(1, 6, counts.sum()), rng.integers(0, 1000, counts.sum())
    return interactions(np.repeat(np.arange(N_USERS), counts), np.concatenate(item), rating, time)


def _data_to_split(rng: np.random.Generator) -> Interactions:
    """Return data whose rows have a rating of their own."""
    counts = rng.integers(3, 21, N_USERS)
    item = np.concatenate([rng.permutation(N_ITEMS)[:count] for count in counts])
    order = rng.permutation(len(item))
    user = np.repeat(np.arange(N_USERS), counts)
    return interactions(user[order], item[order], np.arange(len(item)), rng.integers(0, 1000, len(item)))
