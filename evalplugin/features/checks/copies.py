"""Users who are copies of another user: of the same items, ratings and times, or nearly so."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Flags, row_entries
from evalplugin.base.seeding import generator, hashed_ids, mixed
from evalplugin.data import Interactions

__all__ = ["LEAST", "NEAR_COPY", "Copies", "find_copies"]

LEAST = 10  # interactions of a user who is looked at
NEAR_COPY = 0.8  # share of the entries of the longer of two histories that near copies have in common
_BANDS, _ROWS = 10, 3  # signatures of a user, and minimal hashes in each

Hashes = npt.NDArray[np.uint64]


class Copies(NamedTuple):
    """Numbers of users with a twin before them; each is counted once, under the first that applies."""

    whole: int = 0  # the same items, ratings and times, as far as the data has them
    at_other_times: int = 0  # the same items and ratings
    near: int = 0  # most items with the same rating, or at the same time where there are no ratings
    of_items: int = 0  # the same items alone


def find_copies(data: Interactions) -> Copies:
    """Return how many users are copies of an earlier one, in time linear in the interactions.

    Users with fewer than ``LEAST`` items are not looked at, nor those with more than half of the catalogue, who have
    the same ones by chance.
    """
    counts = data.rows.counts
    looked_at = (counts >= LEAST) & (2 * counts <= data.n_items)
    if np.count_nonzero(looked_at) < 2:
        return Copies()
    totals, repeated = [counts.astype(np.uint64)], []
    times = data.timestamp if data.timestamp is not None and np.ptp(data.timestamp) else None
    ratings = data.rating if data.rating_scale[0] < data.rating_scale[1] else None
    entries = [hashed_ids(np.arange(data.n_items), 0, "EV110")[data.item]]
    for values in (ratings, times):
        if values is not None:
            entries.append(mixed(entries[-1] ^ mixed(values.astype(np.float64).view(np.uint64))))
    for hashes in entries:
        total = np.zeros(data.n_users, dtype=np.uint64)
        np.add.at(total, data.user, hashes)  # equal sums of random numbers: the same entries
        totals.append(total)
        repeated.append(_repeated(np.stack(totals, axis=1), looked_at))
    near = np.zeros(data.n_users, dtype=np.bool_)
    told_by = times if ratings is None else ratings
    if told_by is not None:
        near = _near_copies(data, entries[1], told_by, looked_at) & ~repeated[1]
    # With both, the second sums are of items and ratings; else the last ones are all that the data has.
    same_ratings = repeated[1] if len(entries) == 3 else repeated[-1]
    return Copies(
        whole=int(repeated[-1].sum()),
        at_other_times=int((same_ratings & ~repeated[-1]).sum()),
        near=int(near.sum()),
        of_items=int((repeated[0] & ~same_ratings & ~near).sum()),
    )


def _repeated(totals: Hashes, looked_at: Flags) -> Flags:
    """Return which users looked at have the same row of totals as an earlier one."""
    users = np.flatnonzero(looked_at)
    _, first = np.unique(totals[users], axis=0, return_index=True)
    repeated = looked_at.copy()
    repeated[users[first]] = False
    return repeated


def _near_copies(data: Interactions, entry: Hashes, values: npt.NDArray[Any], looked_at: Flags) -> Flags:
    """Return which users share at least ``NEAR`` of their entries with an earlier one, beyond chance.

    Users who have the same signature, of a few minimal hashes of their entries, are compared (Broder 1997): each with
    the next one in the order of signatures, so that the work stays linear.
    """
    kept = np.flatnonzero(looked_at[data.user])
    kept = kept[np.argsort(data.user[kept], kind="stable")]
    # Half of the bits suffice for a pair of users, and take half of the time.
    hashes, users = (entry[kept] >> np.uint64(32)).astype(np.uint32), np.flatnonzero(looked_at)
    counts = data.rows.counts[users]
    indptr = np.append(0, np.cumsum(counts))
    # Ratings of chance agree on k items with probability alike ** k; it is below 1 over all pairs of users.
    _, times = np.unique(values[kept], return_counts=True)
    alike = float(np.sum((times / len(kept)) ** 2))
    least = 2 * np.log(len(users)) / -np.log(alike) if alike < 1 else np.inf
    factors = (
        generator(0, "checks", "EV110", "near").integers(0, 2**31, (_BANDS, _ROWS), dtype=np.uint32) * 2 + 1
    )
    near = np.zeros(len(users), dtype=np.bool_)
    for band in factors:
        signature = np.zeros(len(users), dtype=np.uint64)
        for factor in band:
            signature = mixed(signature ^ np.minimum.reduceat(hashes * factor, indptr[:-1]).astype(np.uint64))
        order = np.argsort(signature, kind="stable")
        pairs = np.flatnonzero(signature[order[1:]] == signature[order[:-1]])
        first, second = order[pairs], order[pairs + 1]  # the first comes earlier in the vocabulary
        first, second = first[~near[second]], second[~near[second]]
        common = _common(hashes, indptr, first, second)
        near[second[(common >= NEAR_COPY * np.maximum(counts[first], counts[second])) & (common > least)]] = (
            True
        )
    found = np.zeros(data.n_users, dtype=np.bool_)
    found[users[near]] = True
    return found


def _common(
    hashes: npt.NDArray[np.uint32], indptr: npt.NDArray[np.int64], first: Any, second: Any
) -> npt.NDArray[np.int64]:
    """Return the number of entries that the rows of each pair share: int64 (len(first),)."""
    sides = [row_entries(indptr, rows) for rows in (first, second)]
    entry = np.concatenate([hashes[entries] for entries, _ in sides])
    pair = np.concatenate([row for _, row in sides])
    order = np.lexsort((entry, pair))
    entry, pair = entry[order], pair[order]
    same = (entry[1:] == entry[:-1]) & (pair[1:] == pair[:-1])
    return np.bincount(pair[1:][same], minlength=len(first))
