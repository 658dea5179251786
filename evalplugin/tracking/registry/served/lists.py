"""The lists of a registered recommender, from a model that is fitted again on all data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evalplugin.base.seeding import generator, hashed_ranks
from evalplugin.data import Candidates, Interactions
from evalplugin.models import MODELS, TopN, one_blas_thread, recommend, select_top_n

__all__ = ["ServedLists", "make_lists"]

ListedItems = Literal["unseen", "all"]


@dataclass(frozen=True, eq=False)
class ServedLists:
    """A top-N list for every user of the data, and one for unknown users."""

    users: npt.NDArray[np.generic]  # (U,) raw ids, sorted: those who have a list
    items: npt.NDArray[np.generic]  # the catalogue: sorted raw ids
    top_n: TopN  # (U, N) of all users; item codes are positions in ``items``
    popular: TopN  # (1, N), for unknown users: items and how many users met them
    candidates: ListedItems  # whether items that a user has met are listed

    def save(self, path: Path) -> None:
        """Write an ``npz`` file of numbers and text alone, which ``recommender.py`` reads."""
        arrays: dict[str, Any] = {
            **_ids("users", self.users),
            **_ids("catalogue", self.items),
            "item": self.top_n.item,
            "score": self.top_n.score,
            "popular_item": self.popular.item[0],
            "popular_score": self.popular.score[0],
        }
        np.savez_compressed(path, **arrays)


def make_lists(
    type: str,
    params: Mapping[str, Any],
    data: Interactions,
    *,
    seed: int,
    stream: tuple[str, ...],
    n: int,
    candidates: ListedItems,
    ties: Literal["hashed", "id"],
    folder: Path = Path(),
    progress: Callable[[int], None] | None = None,
) -> ServedLists:
    """Return the lists of a model fitted on all interactions, those that a bake-off holds out included.

    Args:
        type, params: Of the model.
        data: All interactions.
        seed, stream: The seed of the bake-off, and the name of the random stream: the digest of ``data``.
        n: Length of the lists; no more than there are items.
        candidates: ``unseen``: less what the user has met in ``data``; ``all``: the whole catalogue.
        ties: Order of items with equal scores, as ``recommend.ties``.
        folder: Base of relative paths, for a model that runs a program.
        progress: Called after each block of users with their number.

    Raises:
        ModelError: The model broke its contract, or cannot be fitted on the data.
    """
    n = min(n, data.n_items)
    users = np.unique(data.user)
    tie_rank = hashed_ranks(data.items, seed, "ties") if ties == "hashed" else None
    allowed = Candidates(candidates, data.rows if candidates == "unseen" else None, tie_rank=tie_rank)
    with one_blas_thread():  # as in a bake-off's task: how it rounds must not depend on the machine
        model = MODELS.create(type, params)
        model.fit(data, generator(seed, *stream, type, json.dumps(params, sort_keys=True)))
        top_n = recommend(model, users, n, allowed, data.n_items, data=data, folder=folder, progress=progress)
    item, score = select_top_n(data.item_counts[None].astype(np.float64), n, tie_rank)
    return ServedLists(
        users=data.users[users],
        items=data.items,
        top_n=top_n,
        popular=TopN(np.zeros(1, dtype=np.int32), item, score),
        candidates=candidates,
    )


def _ids(name: str, ids: npt.NDArray[np.generic]) -> dict[str, npt.NDArray[Any]]:
    """Return raw ids as arrays that hold no objects: text as UTF-8 bytes, and the position where each one ends."""
    if ids.dtype != object:
        return {name: ids}
    encoded = [text.encode() for text in ids.tolist()]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {name: np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}_ends": ends}
