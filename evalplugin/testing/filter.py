"""The contract of every filter: a mask of the data, the same each time, and honest about what it looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from evalplugin.data import FILTERS, Filter, Interactions
from evalplugin.testing.assertions import require

__all__ = ["check_filter"]

_USERS, _ITEMS = 60, 25


def check_filter(filter: str | Callable[..., Filter], **params: Any) -> None:
    """Check the contract of a filter on small data.

    ``keep`` returns one bool for each interaction, the same each time, whatever numpy's global state; the data is not
    modified; the order of rows does not matter; a filter whose ``depends_on_others`` is false decides on each
    interaction by itself, so that it cannot leak the test data.

    Args:
        filter: A registered name, a class, or any callable that returns a new filter.
        params: Its arguments. The data has 60 users with 1 to 20 interactions each, 25 items, ratings from 1 to 5, and
            times from 0 to 999.

    Raises:
        AssertionError: A law is broken.
    """
    made = FILTERS.create(filter, params) if isinstance(filter, str) else filter(**params)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data = _draw(rng)
        before = data.digest
        np.random.seed(seed)  # noqa: NPY002 - the state that must not matter
        kept = made.keep(data)
        np.random.seed(seed + 1)  # noqa: NPY002
        again = made.keep(data)
        law = f"the mask must be bool ({len(data)},), one value for each interaction"
        require(kept.mask.shape == (len(data),) and kept.mask.dtype == np.bool_, law)
        require(bool(np.array_equal(kept.mask, again.mask)), "the same data must give the same mask")
        require(replace(data).digest == before, "the data must stay as it is")
        order = rng.permutation(len(data))
        moved = made.keep(_reordered(data, order)).mask
        require(bool(np.array_equal(moved, kept.mask[order])), "the order of rows must not matter")
        if not getattr(made, "depends_on_others", False):
            part = rng.random(len(data)) < 0.5
            alone = made.keep(data.select(part)).mask
            law = (
                "what is kept depends on other interactions: declare depends_on_others: ClassVar[bool] = True"
            )
            require(bool(np.array_equal(alone, kept.mask[part])), law)


def _reordered(data: Interactions, order: np.ndarray[Any, np.dtype[np.int64]]) -> Interactions:
    assert data.timestamp is not None
    return replace(
        data,
        user=data.user[order],
        item=data.item[order],
        rating=data.rating[order],
        timestamp=data.timestamp[order],
    )


def _draw(rng: np.random.Generator) -> Interactions:
    counts = rng.integers(1, 21, _USERS)
    chance = np.arange(1, _ITEMS + 1) ** -1.0
    item = [rng.choice(_ITEMS, count, replace=False, p=chance / chance.sum()) for count in counts]
    return Interactions(
        user=np.repeat(np.arange(_USERS), counts).astype(np.int32),
        item=np.concatenate(item).astype(np.int32),
        rating=rng.integers(1, 6, counts.sum()).astype(np.float32),
        timestamp=rng.integers(0, 1000, counts.sum()),
        users=np.arange(_USERS),
        items=np.arange(_ITEMS),
    )
