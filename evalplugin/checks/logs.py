"""Checks of the users in the data: copies, machines, and people who rate everything alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evalplugin.base.numbers import share
from evalplugin.base.seeding import generator
from evalplugin.checks.base import Found, data_check
from evalplugin.checks.settings import kind_of_values
from evalplugin.config import CheckedConfig
from evalplugin.data import Interactions
from evalplugin.execution.runner import PreparedData

__all__: list[str] = []

_LEAST = 10  # interactions of a user who is looked at
_COPIES = 0.01  # share of the users
_HEAVY, _HEAVY_SHARE = 50, 0.05  # times the median number of interactions, share of all interactions
_CONSTANT = 0.05  # share of the users


@data_check(
    "EV110",
    title="duplicates, bots, constant raters",
    rule="Found where more than 1 % of the users are copies of another one (the same 10 or more items, at most half of "
    "the catalogue), where users with more than 50 times the median number of interactions have more than 5 % of all, "
    "or where more than 5 % of the users with 10 or more explicit ratings give the same to every item. Ten items or "
    "ratings are hardly ever the same by chance; a long tail of active people reaches some 20 times the median.",
    why="A copy in the train data answers for its twin in the test. Machines decide what is popular and who is whose "
    "neighbour. A constant rating says nothing about taste, and hides it from models of ratings.",
    source="Gunes, Kaleli, Bilge and Polat: Shilling Attacks against Recommender Systems. Artificial Intelligence "
    "Review 2014. Basaran, Ntoutsi and Zimek: Redundancies in Data and their Effect on the Evaluation of "
    "Recommendation Systems. SDM 2017.",
    remedy="Remove them where they come from, or by filters of the dataset. Where they are real, put the code under "
    "`checks.ignore` and say who they are.",
)
def _unlikely_users(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    full = data.info.full
    counts = full.rows.counts
    users = int(np.count_nonzero(counts))
    if (copies := _copies(full)) > _COPIES * users:
        yield Found(
            f"{copies:,} of {users:,} users ({share(copies / users)}) are copies of another one, with the same "
            f"{_LEAST} or more items: keep one of each"
        )
    median = float(np.median(counts[counts > 0]))
    heavy = counts > _HEAVY * median
    if (taken := int(counts[heavy].sum())) > _HEAVY_SHARE * len(full):
        first = full.users[int(counts.argmax())]
        yield Found(
            f"{int(heavy.sum()):,} of {users:,} users, with more than {_HEAVY} times the median of {median:g} "
            f"interactions, have {share(taken / len(full))} of all; the most, {int(counts.max()):,}, has user "
            f"{first}: look whether they are people"
        )
    several = counts >= _LEAST
    if full.rating_scale[0] < full.rating_scale[1]:
        low, high = np.full(full.n_users, np.inf), np.full(full.n_users, -np.inf)
        np.minimum.at(low, full.user, full.rating)
        np.maximum.at(high, full.user, full.rating)
        constant = int(np.count_nonzero(several & (low == high)))
        if constant > _CONSTANT * several.sum() and kind_of_values(full) == "ratings":
            yield Found(
                f"{constant:,} of {int(several.sum()):,} users with {_LEAST} or more ratings "
                f"({share(constant / several.sum())}) give the same to every item: these ratings tell nothing of taste"
            )


def _copies(data: Interactions) -> int:
    """Return how many users with enough items have exactly those of an earlier user."""
    weight = generator(0, "checks", "EV110").integers(0, 2**63, data.n_items, dtype=np.uint64)
    total = np.zeros(data.n_users, dtype=np.uint64)
    np.add.at(total, data.user, weight[data.item])  # equal sums of random numbers: the same items
    counts = data.rows.counts
    # In dense data, where users have most of the items, the same ones are no coincidence.
    looked_at = (counts >= _LEAST) & (2 * counts <= data.n_items)
    found = np.stack([counts.astype(np.uint64), total], axis=1)[looked_at]
    return len(found) - len(np.unique(found, axis=0))
