"""``surprise_top_n``: the best items of each user from any fitted scikit-surprise algorithm."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM, Floats, Ints
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import pd, surprise
from evalplugin.models.recommend import BLOCK_BYTES, user_blocks
from evalplugin.models.selection import select_top_n
from evalplugin.models.surprise import factors, knn, simple
from evalplugin.models.surprise.base import SurpriseModel
from evalplugin.models.surprise.trainset import matrix_of_lists

_MODELS: tuple[type[SurpriseModel], ...] = (
    simple.BaselineOnly,
    simple.CoClustering,
    simple.SlopeOne,
    *(knn.KNNBaseline, knn.KNNBasic, knn.KNNWithMeans, knn.KNNWithZScore),
    *(factors.NMF, factors.SVD, factors.SVDpp),
)
_METHODS = ("estimate", "predict", "default_prediction", "switch")  # the methods behind an estimate


class SlowEstimates(UserWarning):
    """Warning that the estimates of an unknown kind of algorithm are computed pair by pair."""


def surprise_top_n(
    algorithm: Any,
    n: int = 100,
    *,
    users: Iterable[Any] | None = None,
    exclude_seen: bool = True,
    block_bytes: int = BLOCK_BYTES,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Return the n best items of each user: user and item (raw ids), rank (from 1) and score, best first.

    The lists of ``algorithm.predict(user, item, clip=False).est`` of every item of the trainset, but for items whose
    scores are equal within 1e-9, in bounded memory. Scores are not clipped to the rating scale; equal ones are in the
    trainset's order of items.

    An algorithm with an ``estimate`` of its own is called pair by pair, with a SlowEstimates warning.

    Args:
        algorithm: A fitted scikit-surprise algorithm; it is not changed.
        n: Length of the lists, at least 1.
        users: Raw ids, in order; None: all of the trainset.
        exclude_seen: Whether items of the user's train data are left out.
        block_bytes: Memory of one block of scores.
        progress: Called after each block with the number of users in it.

    Raises:
        ModelError: Not a fitted Surprise algorithm, an unknown user, n below 1, an estimate that is not finite.
    """
    trainset = _trainset(algorithm)
    if n < 1:
        raise ModelError(f"n must be at least 1, not {n}")
    inner_users = _inner(trainset, users)
    rated = matrix_of_lists(trainset.ur, (trainset.n_users, trainset.n_items))
    items = np.empty((len(inner_users), min(n, trainset.n_items)), dtype=np.int32)
    scores = np.empty(items.shape)
    done = 0
    for block, estimates in _blocks(algorithm, inner_users, block_bytes):
        _refuse_undefined(algorithm, block, estimates)
        if exclude_seen:
            estimates[rated[block].nonzero()] = -np.inf
        rows = slice(done, done + len(block))
        items[rows], scores[rows] = select_top_n(estimates, items.shape[1])
        done += len(block)
        if progress is not None:
            progress(len(block))
    row, column = np.nonzero(items != NO_ITEM)
    raw_user = _raw(trainset.to_raw_uid, trainset.n_users)
    raw_item = _raw(trainset.to_raw_iid, trainset.n_items)
    return pd.DataFrame(
        {
            "user": raw_user[inner_users[row]],
            "item": raw_item[items[row, column]],
            "rank": (column + 1).astype(np.int32),
            "score": scores[row, column],
        }
    ).infer_objects()


def _blocks(algorithm: Any, users: Ints, block_bytes: int) -> Iterator[tuple[Ints, Floats]]:
    kind, n_items = type(algorithm), algorithm.trainset.n_items
    for model in _MODELS:
        if _estimates_like(algorithm, getattr(surprise, model.name)):
            adopted = model()
            adopted.adopt(algorithm)
            for block in user_blocks(users, n_items, block_bytes):
                yield block, adopted.block(block)
            return
    warnings.warn(
        f"{kind.__module__}.{kind.__qualname__} estimates in a way of its own, so that it is asked for each of "
        f"{len(users) * n_items:,} pairs: expect it to take as long as its test() does",
        SlowEstimates,
        stacklevel=3,
    )
    trainset = algorithm.trainset
    raw_items = [trainset.to_raw_iid(item) for item in range(n_items)]
    for block in users[:, None]:
        user = trainset.to_raw_uid(int(block[0]))
        row = [float(algorithm.predict(user, item, clip=False).est) for item in raw_items]
        yield block, np.array([row])


def _estimates_like(algorithm: Any, known: type) -> bool:
    """Return whether an algorithm is a ``known`` one, possibly a subclass, whose estimates run its code unchanged."""
    own = vars(algorithm)
    return isinstance(algorithm, known) and all(
        name not in own and getattr(type(algorithm), name, None) is getattr(known, name, None)
        for name in _METHODS
    )


def _trainset(algorithm: Any) -> Any:
    if not isinstance(algorithm, surprise.AlgoBase):
        raise ModelError(f"surprise_top_n takes a scikit-surprise algorithm, not {type(algorithm).__name__}")
    trainset = getattr(algorithm, "trainset", None)
    if trainset is None:
        raise ModelError(f"{type(algorithm).__name__} is not fitted; call its fit(trainset) first")
    return trainset


def _inner(trainset: Any, users: Iterable[Any] | None) -> Ints:
    if users is None:
        return np.arange(trainset.n_users, dtype=np.int64)
    inner = []
    for user in users:
        try:
            inner.append(trainset.to_inner_uid(user))
        except ValueError:
            raise ModelError(
                f"user {user!r} is not in the trainset that the algorithm was fitted on"
            ) from None
    return np.array(inner, dtype=np.int64)


def _raw(to_raw: Callable[[int], Any], n: int) -> npt.NDArray[np.object_]:
    """Return all raw ids, in order of inner id."""
    return np.fromiter(map(to_raw, range(n)), dtype=np.object_, count=n)


def _refuse_undefined(algorithm: Any, users: Ints, estimates: Floats) -> None:
    finite = np.isfinite(estimates)
    if not finite.all():
        row, item = (int(axis[0]) for axis in np.nonzero(~finite))
        trainset = algorithm.trainset
        raise ModelError(
            f"{type(algorithm).__name__} estimates {estimates[row, item]} for user "
            f"{trainset.to_raw_uid(int(users[row]))!r} and item {trainset.to_raw_iid(item)!r}; it must be finite"
        )
