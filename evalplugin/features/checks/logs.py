"""Checks of the users in the data: copies, machines, constant raters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.numbers import share
from evalplugin.base.seeding import hashed_ids, mixed
from evalplugin.config import CheckedConfig
from evalplugin.data import Interactions, in_one_piece
from evalplugin.execution.runner import PreparedData
from evalplugin.features.checks.base import Found, data_check
from evalplugin.features.checks.settings import kind_of_values

_COPIES = 0.01  # share of the users
_LEAST = 10  # interactions of a user who is looked at
_HEAVY, _HEAVY_SHARE = 50, 0.05  # times the median number of interactions, share of all interactions
_WHOLE, _WHOLE_SHARE = 0.9, 0.05  # shares of the catalogue, and of all interactions
_LARGE = 100  # items of a catalogue that no person has whole
_SPARSE = 0.1  # share of the catalogue that the median user has
_CONSTANT = 0.05  # share of the users


@data_check(
    "EV110",
    title="duplicates, bots, constant raters",
    rule="Found where more than 1 % of the users are copies of another one: the same 10 or more items, at most half "
    "of the catalogue, with the same ratings, or at the same times where there are no ratings. Also found where users "
    "with more than 50 times the median number of interactions, or with 90 % of a catalogue of 100 or more items of "
    "which the median user has at most a tenth, have more than 5 % of all interactions, or where more than 5 % of the "
    "users with 10 or more explicit ratings give the same to every item.",
    why="A copy in the train data answers for its twin in the test. Machines decide what is popular and who is whose "
    "neighbour. A constant rating hides taste.",
    source="Gunes et al., Artificial Intelligence Review 2014; Basaran et al., SDM 2017.",
    remedy="Keep one of each copy, and no machines, where the data comes from. Where the users are real, ignore it "
    "(`checks.ignore`) and say who they are.",
)
def _unlikely_users(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    full = in_one_piece(data.info.full)
    counts = full.rows.counts
    users = int(np.count_nonzero(counts))
    pairs = full.merged()  # a log of events has an item of a user again and again
    yield from map(Found, _copies(pairs, users))
    median = float(np.median(counts[counts > 0]))
    heavy = counts > _HEAVY * median
    if (taken := int(counts[heavy].sum())) > _HEAVY_SHARE * len(full):
        first = full.users[int(counts.argmax())]
        yield Found(
            f"{int(heavy.sum()):,} of {users:,} users, with more than {_HEAVY} times the median of {median:g} "
            f"interactions, have {share(taken / len(full))} of all; the most, {int(counts.max()):,}, has user "
            f"{first}: look whether they are people"
        )
    least = math.ceil(_WHOLE * full.n_items)
    whole = (pairs.rows.counts >= least) & ~heavy
    is_sparse = full.n_items >= _LARGE and median <= _SPARSE * full.n_items
    if is_sparse and (taken := int(counts[whole].sum())) > _WHOLE_SHARE * len(full):
        yield Found(
            f"{int(whole.sum()):,} of {users:,} users have all or nearly all of the {full.n_items:,} items ({least:,} "
            f"or more), and so {share(taken / len(full))} of all interactions, where the median user has {median:g}: "
            f"look whether they are people, and no crawlers, imports or test accounts"
        )
    several = counts >= _LEAST
    if full.rating_scale[0] < full.rating_scale[1]:
        start = full.rows.indptr[:-1][counts > 0]
        low, high = (bound.reduceat(full.rows.rating, start) for bound in (np.minimum, np.maximum))
        constant = int(np.count_nonzero(several[counts > 0] & (low == high)))
        if constant > _CONSTANT * several.sum() and kind_of_values(full) == "ratings":
            yield Found(
                f"{constant:,} of {int(several.sum()):,} users with {_LEAST} or more ratings "
                f"({share(constant / several.sum())}) give the same to every item: these ratings tell nothing of taste"
            )


def _copies(data: Interactions, users: int) -> Iterator[str]:
    """Yield a line on users who have the same items as an earlier one with the same ratings, or else times."""
    columns = (("ratings", data.rating), ("times", data.time))
    kinds = [(name, values) for name, values in columns if values is not None and np.ptp(values)]
    copies = _count_copies(data, kinds[0][1] if kinds else None)
    if copies <= _COPIES * users:
        return
    found = f"{copies:,} of {users:,} users ({share(copies / users)})"
    if kinds:
        yield (
            f"{found} are copies of another one, with the same {_LEAST} or more items and {kinds[0][0]}: look at some, "
            f"and keep one of each"
        )
    else:
        yield (
            f"{found} have exactly the {_LEAST} or more items of another one, and the data has no ratings or times to "
            f"tell whether they are copies: look at some, and keep one of each if they are"
        )


def _count_copies(data: Interactions, values: npt.NDArray[Any] | None) -> int:
    """Return how many users have the items of an earlier one with the same values, in linear time.

    Users with fewer than ``_LEAST`` items are left out, and users with more than half of the catalogue, who have the
    same items by chance.

    Args:
        data: Unique pairs.
        values: Of each pair (n,); None: items alone are compared.
    """
    counts = data.rows.counts
    looked_at = np.flatnonzero((counts >= _LEAST) & (2 * counts <= data.n_items))
    entry = hashed_ids(np.arange(data.n_items), 0, "EV110")[data.item]
    if values is not None:
        entry = mixed(entry ^ mixed(values.astype(np.float64).view(np.uint64)))
    # Equal sums of random numbers mean the same entries.
    total = np.zeros(data.n_users, dtype=np.uint64)
    np.add.at(total, data.user, entry)
    return len(looked_at) - len(np.unique(total[looked_at]))
