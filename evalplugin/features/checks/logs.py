"""Checks of the users in the data: copies, machines, constant raters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Flags, Ints, row_blocks, row_entries
from evalplugin.base.numbers import share
from evalplugin.base.seeding import generator, hashed_ids, mixed
from evalplugin.config import CheckedConfig
from evalplugin.data import Interactions, in_one_piece
from evalplugin.data.interactions import rows_by_code
from evalplugin.execution.runner import PreparedData
from evalplugin.features.checks.base import Found, data_check
from evalplugin.features.checks.settings import kind_of_values

_COPIES = 0.01  # share of the users
_LEAST = 10  # interactions of a user who is looked at
_NEAR_COPY = 0.8  # share of the entries of the longer of two histories that near copies have in common
_BANDS, _ROWS = 10, 3  # signatures of a user, and minimal hashes in each
_HEAVY, _HEAVY_SHARE = 50, 0.05  # times the median number of interactions, share of all interactions
_WHOLE, _WHOLE_SHARE = 0.9, 0.05  # shares of the catalogue, and of all interactions
_LARGE = 100  # items of a catalogue that no person has whole
_SPARSE = 0.1  # share of the catalogue that the median user has
_CONSTANT = 0.05  # share of the users

_Hashes: TypeAlias = "npt.NDArray[np.uint64]"


@data_check(
    "EV110",
    title="duplicates, bots, constant raters",
    rule="Found where more than 1 % of the users are copies of another one: the same 10 or more items, at most half "
    "of the catalogue, with the same ratings (and times). Near copies count: 80 % of the items of both with the same "
    "rating, or at the same time where there are no ratings, if these are more than chance gives; min-hash signatures "
    "find 95 % of such pairs, and none in data without ratings and times. Also found where users with more than 50 "
    "times the median number of interactions, or with 90 % of a catalogue of 100 or more items of which the median "
    "user has at most a tenth, have more than 5 % of all interactions, or where more than 5 % of the users with 10 or "
    "more explicit ratings give the same to every item.",
    why="A copy in the train data answers for its twin in the test. Machines decide what is popular and who is whose "
    "neighbour. A constant rating hides taste.",
    source="Gunes et al., Artificial Intelligence Review 2014; Basaran et al., SDM 2017.",
    remedy="Keep one of each copy, and no machines, where the data comes from. Users with the same items and other "
    "ratings are counted apart, and are no copies. Where the users are real, ignore it (`checks.ignore`) and say who "
    "they are.",
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
    """Yield a line on users who are copies of others, and a line on users who only have the same items, with advice."""
    numbers = _find_copies(data)
    columns = (("ratings", data.rating), ("times", data.time))
    kinds = [name for name, values in columns if values is not None and np.ptp(values)]
    copies = numbers.whole + numbers.at_other_times + numbers.near
    if not kinds and copies > _COPIES * users:
        yield (
            f"{copies:,} of {users:,} users ({share(copies / users)}) have exactly the {_LEAST} or more items of "
            f"another one, and the data has no ratings or times to tell whether they are copies: look at some, and "
            f"keep one of each if they are"
        )
    elif copies > _COPIES * users:
        compared = ", ".join(["items", *kinds[:-1]])
        parts = [
            (numbers.whole, f"with the same {_LEAST} or more {compared} and {kinds[-1]}"),
            (numbers.at_other_times, "with the same items and ratings at other times"),
            (
                numbers.near,
                f"near copies, with the same {kinds[0][:-1]} of {share(_NEAR_COPY)} or more of their items",
            ),
        ]
        counted = ", ".join(f"{count:,} {text}" for count, text in parts if count)
        advice = "keep one of each" if copies == numbers.whole else "look at some, and keep one of each"
        yield f"{copies:,} of {users:,} users ({share(copies / users)}) are copies of another one: {counted}: {advice}"
    if numbers.of_items > _COPIES * users:
        other = "with other ratings" if "ratings" in kinds else "at other times"
        copied = f"; {copies:,} more {'are copies' if copies > 1 else 'is a copy'}" if copies else ""
        yield (
            f"{numbers.of_items:,} of {users:,} users ({share(numbers.of_items / users)}) have exactly the {_LEAST} "
            f"or more items of another one, {other}: they are no copies, keep them; look where their items come from "
            f"(a form, a bundle, a default), as models that see items alone cannot tell such users apart{copied}"
        )


class _Copies(NamedTuple):
    """Numbers of users with a twin before them; each is counted once, under the first that applies."""

    whole: int = 0  # the same items, ratings and times, if the data has them
    at_other_times: int = 0  # the same items and ratings
    near: int = 0  # most items with the same rating, or at the same time where there are no ratings
    of_items: int = 0  # the same items alone


def _find_copies(data: Interactions) -> _Copies:
    """Return how many users are copies of an earlier one, in time linear in the interactions.

    Users with fewer than ``_LEAST`` items are left out, and users with more than half of the catalogue, who have the
    same items by chance.
    """
    counts = data.rows.counts
    looked_at = (counts >= _LEAST) & (2 * counts <= data.n_items)
    if np.count_nonzero(looked_at) < 2:
        return _Copies()
    time = data.time
    times = time if time is not None and np.ptp(time) else None
    ratings = data.rating if data.rating_scale[0] < data.rating_scale[1] else None
    columns = [values for values in (ratings, times) if values is not None]
    item_hash = hashed_ids(np.arange(data.n_items), 0, "EV110")
    totals = [counts.astype(np.uint64), _sums(data.user, item_hash[data.item], data.n_users)]
    repeated = [_repeated(totals, looked_at)]
    # Only users with the items of another one can be whole copies.
    looked_at_again = looked_at & np.isin(totals[1], totals[1][repeated[0]])
    some = np.flatnonzero(looked_at_again[data.user])
    entry = item_hash[data.item[some]]
    for values in columns:
        entry = _with(entry, values[some])
        totals.append(_sums(data.user[some], entry, data.n_users))
        repeated.append(_repeated(totals, looked_at_again))
    near = np.zeros(data.n_users, dtype=np.bool_)
    if columns:
        item, values = data.rows.item, data.rows.rating
        if ratings is None:
            _, rows = rows_by_code(data.user, data.n_users)
            item, values = data.item[rows], columns[0][rows]
        near = _near_copies(data.rows.indptr, item_hash, item, values, looked_at) & ~repeated[1]
    # The second sums are of items and ratings, if the data has times too; else the last sums have all columns.
    same_ratings = repeated[1] if len(columns) == 2 else repeated[-1]
    return _Copies(
        whole=int(repeated[-1].sum()),
        at_other_times=int((same_ratings & ~repeated[-1]).sum()),
        near=int(near.sum()),
        of_items=int((repeated[0] & ~same_ratings & ~near).sum()),
    )


def _with(entry: _Hashes, values: npt.NDArray[Any]) -> _Hashes:
    """Return hashes of entries together with a further value of each."""
    return mixed(entry ^ mixed(values.astype(np.float64).view(np.uint64)))


def _sums(user: Codes, hashes: _Hashes, n_users: int) -> _Hashes:
    """Return the sum of each user's hashes: equal sums of random numbers mean the same entries."""
    total = np.zeros(n_users, dtype=np.uint64)
    np.add.at(total, user, hashes)
    return total


def _repeated(totals: Sequence[_Hashes], looked_at: Flags) -> Flags:
    """Return which users looked at have the same totals as an earlier one."""
    users = np.flatnonzero(looked_at)
    users = users[np.lexsort([total[users] for total in totals])]
    ordered = np.stack([total[users] for total in totals])
    repeated = np.zeros(len(looked_at), dtype=np.bool_)
    repeated[users[1:]] = (ordered[:, 1:] == ordered[:, :-1]).all(axis=0)
    return repeated


def _near_copies(
    indptr: Ints, item_hash: _Hashes, item: Codes, values: npt.NDArray[Any], looked_at: Flags
) -> Flags:
    """Return which users share at least ``_NEAR_COPY`` of their entries with an earlier one, beyond chance.

    An entry is an item with a value, such as its rating. Users who have the same signature, of a few minimal hashes of
    their entries, are compared (Broder 1997): each with the next one in the order of signatures, so that the work stays
    linear.
    """
    counts = np.diff(indptr)
    # Ratings of chance agree on k items with probability alike ** k; it is below 1 over all pairs of users.
    kept = values if looked_at.all() else values[np.repeat(looked_at, counts)]
    _, times = np.unique(kept, return_counts=True)
    alike = float(np.sum((times / len(kept)) ** 2))
    users = np.flatnonzero(looked_at)
    least = 2 * np.log(len(users)) / -np.log(alike) if alike < 1 else np.inf
    factors = (
        generator(0, "checks", "EV110", "near").integers(0, 2**31, (_BANDS, _ROWS), dtype=np.uint32) * 2 + 1
    )
    hashes = np.empty(len(item), dtype=np.uint32)
    signatures = np.zeros((_BANDS, len(counts)), dtype=np.uint64)
    for low, high in row_blocks(indptr):
        some = low + np.flatnonzero(counts[low:high])
        start, end = indptr[[low, high]]
        # Half of the bits suffice for a pair of users, and take half of the time.
        hashes[start:end] = _with(item_hash[item[start:end]], values[start:end]) >> np.uint64(32)
        for signature, band in zip(signatures, factors, strict=True):
            for factor in band:
                least_hash = np.minimum.reduceat(hashes[start:end] * factor, indptr[some] - start)
                signature[some] = mixed(signature[some] ^ least_hash.astype(np.uint64))
    near = np.zeros(len(counts), dtype=np.bool_)
    for signature in signatures:
        order = users[np.argsort(signature[users], kind="stable")]
        pairs = np.flatnonzero(signature[order[1:]] == signature[order[:-1]])
        first, second = order[pairs], order[pairs + 1]  # the first comes earlier in the vocabulary
        needed = np.maximum(
            _NEAR_COPY * np.maximum(counts[first], counts[second]), np.nextafter(least, np.inf)
        )
        can_be = ~near[second] & (np.minimum(counts[first], counts[second]) >= needed)
        first, second, needed = first[can_be], second[can_be], needed[can_be]
        near[second[_common(hashes, indptr, first, second) >= needed]] = True
    return near


def _common(hashes: npt.NDArray[np.uint32], indptr: Ints, first: Any, second: Any) -> Ints:
    """Return the number of entries that the rows of each pair share: int64 (len(first),)."""
    sides = [row_entries(indptr, rows) for rows in (first, second)]
    entry = np.concatenate([hashes[entries] for entries, _ in sides])
    pair = np.concatenate([row for _, row in sides])
    order = np.lexsort((entry, pair))
    entry, pair = entry[order], pair[order]
    same = (entry[1:] == entry[:-1]) & (pair[1:] == pair[:-1])
    return np.bincount(pair[1:][same], minlength=len(first))
