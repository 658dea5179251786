"""The contract of every dataset: interactions without duplicates, the same each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from evalplugin.data import DATASETS, DatasetLoader, LoadContext
from evalplugin.testing.assertions import require

__all__ = ["check_dataset"]


def check_dataset(
    dataset: str | Callable[..., DatasetLoader], context: LoadContext | None = None, /, **params: Any
) -> None:
    """Check the contract of a dataset; its files must be there.

    ``check`` finds no problem; ``load`` returns interactions: codes within sorted vocabularies without doubles, finite
    ratings, no pair of user and item twice; loading twice gives the same content.

    Args:
        dataset: A registered name, a class, or any callable that returns a new dataset.
        context: Where data lies; None: relative paths start from the working directory.
        params: Its arguments.

    Raises:
        AssertionError: A law is broken.
        DataError: The data is missing or breaks a rule.
    """
    made = DATASETS.create(dataset, params) if isinstance(dataset, str) else dataset(**params)
    context = LoadContext() if context is None else context
    problems = made.check(context)
    require(not problems, f"check() must find no problem where load() works, but: {problems}")
    data, again = made.load(context), made.load(context)
    require(len(data) > 0, "there must be interactions")
    for name, codes, ids in (("user", data.user, data.users), ("item", data.item, data.items)):
        require(len(codes) == len(data), f"{name} must have one code an interaction")
        require(bool(np.all((codes >= 0) & (codes < len(ids)))), f"codes of {name}s must be within {name}s")
        require(ids.tolist() == sorted(set(ids.tolist())), f"{name}s must be sorted and unique")
    require(bool(np.isfinite(data.rating).all()), "ratings must be finite")
    pairs = data.user.astype(np.int64) * data.n_items + data.item
    require(len(np.unique(pairs)) == len(data), "no pair of user and item may occur twice")
    require(data.digest == again.digest, "loading twice must give the same content")
