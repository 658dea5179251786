"""Checks of the users in the data: copies, machines, and people who rate everything alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.numbers import share
from evalplugin.config import CheckedConfig
from evalplugin.data import Interactions
from evalplugin.execution.runner import PreparedData
from evalplugin.features.checks.base import Found, data_check
from evalplugin.features.checks.copies import LEAST, NEAR_COPY, find_copies
from evalplugin.features.checks.settings import kind_of_values

__all__: list[str] = []

_COPIES = 0.01  # share of the users
_HEAVY, _HEAVY_SHARE = 50, 0.05  # times the median number of interactions, share of all interactions
_WHOLE, _WHOLE_SHARE = 0.9, 0.05  # shares of the catalogue, and of all interactions
_LARGE, _SPARSE = 100, 0.1  # items of a catalogue that nobody has whole; share of it that the median user has
_CONSTANT = 0.05  # share of the users


@data_check(
    "EV110",
    title="duplicates, bots, constant raters",
    rule="Found where more than 1 % of the users are copies of another one: the same 10 or more items, at most half of "
    "the catalogue, with the same ratings (and times, which are told apart). Near copies count: 80 % of the items of "
    "both with the same rating, or at the same time where there are no ratings, if these are more than chance gives. "
    "Users with the same items and other ratings are counted apart. Near copies are looked for among users with equal "
    "min-hash signatures, ten of three hashes each. This finds 95 % of the pairs that share 80 %, and all that share "
    "90 %; it finds none that share less, and none in data without ratings and times. Also found where users with "
    "more than 50 times the median number of interactions, or with 90 % of a catalogue of 100 or more items of which "
    "the median user has at most a tenth, have more than 5 % of all interactions, or where more than 5 % of the users "
    "with 10 or more explicit ratings give the same to every item. Ten items or ratings are hardly ever the same by "
    "chance; a long tail of active people reaches some 20 times the median.",
    why="A copy in the train data answers for its twin in the test. Machines decide what is popular and who is whose "
    "neighbour. A constant rating says nothing about taste, and hides it from models of ratings.",
    source="Gunes, Kaleli, Bilge and Polat: Shilling Attacks against Recommender Systems. Artificial Intelligence "
    "Review 2014. Basaran, Ntoutsi and Zimek: Redundancies in Data and their Effect on the Evaluation of "
    "Recommendation Systems. SDM 2017.",
    remedy="Keep one of each copy, and none of the machines, where the data comes from. Users with the same items and "
    "other ratings are no copies: keep them. Where the users are real, put the code under `checks.ignore` and say who "
    "they are.",
)
def _unlikely_users(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    full = data.info.full
    counts = full.rows.counts
    users = int(np.count_nonzero(counts))
    yield from map(Found, _copies(full, users))
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
    whole = (counts >= least) & ~heavy
    is_sparse = full.n_items >= _LARGE and median <= _SPARSE * full.n_items
    if is_sparse and (taken := int(counts[whole].sum())) > _WHOLE_SHARE * len(full):
        yield Found(
            f"{int(whole.sum()):,} of {users:,} users have all or nearly all of the {full.n_items:,} items ({least:,} "
            f"or more), and so {share(taken / len(full))} of all interactions, where the median user has {median:g}: "
            f"look whether they are people, and no crawlers, imports or test accounts"
        )
    several = counts >= LEAST
    if full.rating_scale[0] < full.rating_scale[1]:
        low, high = np.full(full.n_users, np.inf), np.full(full.n_users, -np.inf)
        np.minimum.at(low, full.user, full.rating)
        np.maximum.at(high, full.user, full.rating)
        constant = int(np.count_nonzero(several & (low == high)))
        if constant > _CONSTANT * several.sum() and kind_of_values(full) == "ratings":
            yield Found(
                f"{constant:,} of {int(several.sum()):,} users with {LEAST} or more ratings "
                f"({share(constant / several.sum())}) give the same to every item: these ratings tell nothing of taste"
            )


def _copies(data: Interactions, users: int) -> Iterator[str]:
    """Yield what was found of users who are copies of others, with advice that follows from it."""
    found = find_copies(data)
    kinds = [
        name
        for name, is_there in (("ratings", _varies(data.rating)), ("times", _varies(data.timestamp)))
        if is_there
    ]
    copies = found.whole + found.at_other_times + found.near
    if not kinds and copies > _COPIES * users:
        yield (
            f"{copies:,} of {users:,} users ({share(copies / users)}) have exactly the {LEAST} or more items of "
            f"another one, and the data has no ratings or times to tell whether they are copies: look at some, and "
            f"keep one of each if they are"
        )
    elif copies > _COPIES * users:
        compared = ", ".join(["items", *kinds[:-1]])
        parts = [
            (found.whole, f"with the same {LEAST} or more {compared} and {kinds[-1]}"),
            (found.at_other_times, "with the same items and ratings at other times"),
            (
                found.near,
                f"near copies, with the same {kinds[0][:-1]} of {share(NEAR_COPY)} or more of their items",
            ),
        ]
        counted = ", ".join(f"{count:,} {text}" for count, text in parts if count)
        advice = "keep one of each" if copies == found.whole else "look at some, and keep one of each"
        yield f"{copies:,} of {users:,} users ({share(copies / users)}) are copies of another one: {counted}: {advice}"
    if found.of_items > _COPIES * users:
        other = "with other ratings" if "ratings" in kinds else "at other times"
        copied = f"; {copies:,} more {'are copies' if copies > 1 else 'is a copy'}" if copies else ""
        yield (
            f"{found.of_items:,} of {users:,} users ({share(found.of_items / users)}) have exactly the {LEAST} or more "
            f"items of another one, {other}: they are no copies, keep them; look where their items come from "
            f"(a form, a bundle, a default), as models that see items alone cannot tell such users apart"
            f"{copied}"
        )


def _varies(values: npt.NDArray[Any] | None) -> bool:
    return values is not None and bool(np.ptp(values))
