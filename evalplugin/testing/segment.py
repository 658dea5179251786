"""The contract of every segment: one value a user, equal values in one group, the first fold counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Flags
from evalplugin.data import Interactions, LoadContext, Split
from evalplugin.data.interactions import joined
from evalplugin.segments.base import SEGMENTS, Segmenter, segmentation
from evalplugin.segments.groups import Groups
from evalplugin.testing.cases import N_ITEMS, N_USERS, created, interactions, require, require_plain


def check_segment(segment: str | Callable[..., Segmenter], **params: Any) -> None:
    """Check the contract of a segment on small data.

    Every test user has one value, whatever the other users, the order of interactions or the codes of items; equal
    values are in one group.

    Users are 0 to 59; a segment of queries is given 00:1, 00:2, 00:3, 01:1 and so on.

    Raises:
        PluginError: It does not return one value and one group a user.
    """
    name = segment if isinstance(segment, str) else getattr(segment, "__name__", "segment")
    segmenter = created(SEGMENTS, segment, params)
    require_plain(segmenter, params)
    for round_ in range(2):
        rng = np.random.default_rng(round_)
        folds = [_draw(rng, 0), _draw(rng, 1)]
        if segmenter.unit == "query":
            folds = [_of_queries(fold, rng) for fold in folds]
        for fold in folds:
            _check_fold(name, segmenter, fold, rng)
        _check_folds(name, segmenter, folds)


def _check_fold(name: str, segmenter: Segmenter, fold: Split, rng: np.random.Generator) -> None:
    before = fold.train.digest, fold.test.digest
    users = np.unique(fold.test.user)
    values = segmenter.measure(fold, users, LoadContext())
    _same(users, values, segmenter.measure(fold, users, LoadContext()), "measuring twice must give the same")
    some = rng.random(len(users)) < 0.5
    alone = segmenter.measure(fold, users[some], LoadContext())
    _same(users[some], values[some], alone, "a user's value must not depend on the other users of the call")
    moved = replace(fold, train=_moved(fold.train, rng), test=_moved(fold.test, rng))
    law = "neither the order of interactions nor the codes of items may change a value"
    _same(users, values, segmenter.measure(moved, users, LoadContext()), law)

    groups = segmentation(name, segmenter, [fold], LoadContext()).group
    order = rng.permutation(len(users))
    shuffled: Groups = segmenter.divide(values[order])
    _same(users[order], groups[order], shuffled.group, "the order of the users must not change a group")
    _, first, value = np.unique(_plain(values), return_index=True, return_inverse=True)
    _same(users, groups[first][value], groups, "users with equal values must be in one group")
    after = replace(fold.train).digest, replace(fold.test).digest
    require(before == after, "the data must stay as it is")


def _check_folds(name: str, segmenter: Segmenter, folds: list[Split]) -> None:
    tested = [np.unique(fold.test.user) for fold in folds]
    late = np.setdiff1d(tested[1], tested[0])
    parts = zip(folds, (tested[0], late), strict=True)
    values = np.concatenate([segmenter.measure(fold, part, LoadContext()) for fold, part in parts])
    users = np.concatenate([tested[0], late])
    order = np.argsort(users)
    divided = segmentation(name, segmenter, folds, LoadContext())
    law = "a user must be in the group of the first fold that tests the user"
    _same(
        users[order],
        segmenter.divide(values[order]).group,
        divided.of(folds[0].test.users[users[order]]),
        law,
    )


def _draw(rng: np.random.Generator, fold: int) -> Split:
    """Return a fold where some users have no train data, some no test data, and many have equal counts."""
    in_train = rng.random((N_USERS, N_ITEMS)) < rng.choice([0, 0.1, 0.1, 0.4], (N_USERS, 1))
    held_out = (rng.random((N_USERS, N_ITEMS)) < 0.1) & ~in_train & (np.arange(N_USERS) % 7 > 0)[:, None]
    return Split(_interactions(in_train, rng), _interactions(held_out, rng), fold)


def _of_queries(fold: Split, rng: np.random.Generator) -> Split:
    """Return a fold whose users are queries, three of a session, of which some have a known item as their truth."""
    ids = np.array([f"{user // 3:02d}:{user % 3 + 1}" for user in range(N_USERS)], dtype=object)
    repeats = fold.train.select(rng.random(len(fold.train)) < 0.1)
    test = replace(joined(fold.test, repeats), users=ids)
    return replace(fold, train=replace(fold.train, users=ids), test=test, unit="query", repeats=True)


def _interactions(cells: Flags, rng: np.random.Generator) -> Interactions:
    user, item = np.nonzero(cells)
    return interactions(user, item, rng.integers(1, 6, len(user)), rng.integers(0, 1000, len(user)))


def _moved(data: Interactions, rng: np.random.Generator) -> Interactions:
    """Return the data with its rows shuffled and the codes of its items reversed."""
    shuffled = data.select(rng.permutation(len(data)))
    return replace(shuffled, item=N_ITEMS - 1 - shuffled.item)


def _plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return sortable values: objects, such as missing text, by their repr."""
    return values if values.dtype != object else np.array([f"{v!r}" for v in values.tolist()])


def _same(users: Codes, before: npt.NDArray[Any], after: npt.NDArray[Any], law: str) -> None:
    differ = np.flatnonzero(_plain(np.asarray(before)).astype(str) != _plain(np.asarray(after)).astype(str))
    if len(differ):
        first = int(differ[0])
        raise AssertionError(f"{law}, but user {users[first]} has {before[first]} and then {after[first]}")
