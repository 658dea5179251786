"""Lists and truth in memory, as columns of raw ids, scored user by user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM, search
from evalplugin.base.errors import DataError
from evalplugin.data.interactions import Interactions, Rows
from evalplugin.data.tables import Ids, ids_of
from evalplugin.data.vocabulary import codes_end, codes_in, codes_of, encode
from evalplugin.lists.catalogue import Catalogue, interactions_on
from evalplugin.lists.columns import ListInput, PairColumns, ScoreRequest
from evalplugin.lists.ranked_lists import RankedLists
from evalplugin.metrics import Blocks, MetricSpec
from evalplugin.metrics.grouped_rows import group_by_rank, group_rows
from evalplugin.metrics.scoring import score_blocks
from evalplugin.metrics.states import Request, ScorerState
from evalplugin.models.selection import TopN
from evalplugin.models.threads import thread_count

_FEW = 2**19  # rows up to which starting a thread takes a notable part of a call


@dataclass(frozen=True, eq=False)
class Scoring:
    """Scoring of lists, or of any part of them: the one path from rows to a state."""

    request: ScoreRequest
    catalogue: Catalogue | None = None  # None: no metric reads it
    n: int | None = None  # length of the longest list of all users; None: of these lists
    pool: PairColumns | None = None  # what lists were chosen from, whose items the catalogue has

    def state(self, lists: PairColumns, truth: PairColumns) -> ScorerState:
        """Return the contribution of the users of some lists and truth to the scores.

        Raises:
            DataError: A list or a truth with an item twice, ranks that are not 1, 2, 3 and so on.
        """
        blocks = self.blocks(lists, truth)
        unit = self.request.columns.unit
        n = blocks.n if self.n is None else self.n
        n_items = 0 if self.catalogue is None else len(self.catalogue.items)
        request = Request(tuple(self.request.specs), n, n_items, self.request.curve_ks(n), unit)
        state = score_blocks(blocks, request, blocks.users)
        return replace(state, unlisted=int(np.count_nonzero(blocks.lists.lengths == 0)))

    def blocks(self, lists: PairColumns, truth: PairColumns) -> Blocks:
        """Return lists and truth in blocks, over all users with a list or a truth.

        Without a catalogue, codes of items only preserve equality and order.
        """
        catalogue = self.catalogue
        # Items are encoded while users are.
        threads = thread_count()
        with ThreadPoolExecutor(1) as pool:
            task = partial(_item_codes, lists.item, truth.item, catalogue)
            coding = pool.submit(task).result if threads > 1 and len(lists.user) > _FEW else task
            starts = lists.user.run_starts(threads)
            truth_starts = truth.user.run_starts(threads)
            runs = lists.user.take(starts), truth.user.take(truth_starts)
            users, (run_user, truth_run_user) = encode(runs)
            item, truth_item, raw_item, n_items = coding()
        rows = None
        if lists.kind == "rank":
            rows = group_by_rank(starts, run_user, len(users), item, lists.values)
        columns = {"item": item, lists.kind: lists.values}
        rows = rows or group_rows(starts, run_user, len(users), columns)
        rated = {"item": truth_item} | ({} if truth.values is None else {"rating": truth.values})
        truth_rows = group_rows(truth_starts, truth_run_user, len(users), rated)
        user = None if catalogue is None else catalogue.user_codes(users)
        pool_rows = None if self.pool is None else self.pool_rows(lists, users)
        return Blocks(
            users=users,
            lists=RankedLists(users, rows),
            truth=truth_rows,
            n=max(int(rows.count.max(initial=0)), 1),
            n_items=n_items,
            raw_item=raw_item,
            relevance=self.request.relevance,
            user=user,
            train=None if catalogue is None else catalogue.train_data,
            n_candidates=None if pool_rows is None or user is None else pool_rows.counts[user],
            pool=pool_rows,
        )

    def pool_rows(self, lists: PairColumns, users: npt.NDArray[np.generic]) -> Rows:
        """Return the pool by the codes of the users to score.

        Raises:
            DataError: A list has an item that is not in the pool of its user.
        """
        assert self.pool is not None
        assert self.catalogue is not None
        known = users if self.catalogue.train is None else self.catalogue.users
        distinct, (position,) = encode([self.pool.user])
        user = codes_of(distinct, known)[position]
        item = codes_in(self.pool.item, self.catalogue.items)
        pairs = np.unique((user.astype(np.int64) * len(self.catalogue.items) + item)[user >= 0])
        listed = codes_in(lists.user, known) * np.int64(len(self.catalogue.items))
        listed += codes_in(lists.item, self.catalogue.items)
        outside = np.flatnonzero(~search(pairs, listed)[1])
        if len(outside):
            first = divmod(int(listed[outside[0]]), len(self.catalogue.items))
            names = [
                ids[[code]].tolist()[0]
                for ids, code in zip((known, self.catalogue.items), first, strict=True)
            ]
            raise DataError(
                f"{self.pool.name}: {len(outside):,} of {len(listed):,} listed items are not in the pool of "
                f"their user, such as item {names[1]!r} of user {names[0]!r}: name the pool that the lists were chosen "
                f"from, or leave it out"
            )
        user, item = np.divmod(pairs, len(self.catalogue.items))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=len(known)))])
        return Rows(indptr, item.astype(np.int32), np.ones(len(item), dtype=np.float32))


def need_longest(specs: Sequence[MetricSpec]) -> bool:
    """Return whether any of the metrics may read the length of the longest list, as those without a cutoff do."""
    return any(spec.k is None and (spec.metric.takes_k or not spec.is_own) for spec in specs)


def need_catalogue(specs: Sequence[MetricSpec]) -> bool:
    """Return whether any of the metrics reads the catalogue or the train data; metrics of plugins may.

    All others compare listed items with the truth, which any codes of the items allow.
    """
    return any({"catalogue", "train"} & set(spec.needs) or not spec.is_own for spec in specs)


def _item_codes(
    listed: Ids, held_out: Ids, catalogue: Catalogue | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Callable[[int], object], int]:
    """Return the codes of the items of lists and truth, the raw id of a code, and the number of codes."""
    if listed.kind == "integers" and catalogue is None:
        end = codes_end(listed.values, held_out.values)
        if end is not None:
            return listed.values, held_out.values, int, end
    if catalogue is not None:
        vocabulary = catalogue.items
        item, truth_item = codes_in(listed, vocabulary), codes_in(held_out, vocabulary)
    else:
        vocabulary, (item, truth_item) = encode([listed, held_out])
    return item, truth_item, lambda code: vocabulary[code], len(vocabulary)


def top_n_on(inputs: ListInput) -> tuple[TopN, Interactions, Interactions | None]:
    """Return lists with their scores (or negated ranks), truth and train data, on common codes."""
    given, truth, train = inputs
    every = [pairs for pairs in (given, truth, train) if pairs is not None]
    users, items = encode([pairs.user for pairs in every])[0], encode([pairs.item for pairs in every])[0]
    catalogue = Catalogue.on(users, items, train)
    blocks = Scoring(ScoreRequest(()), catalogue).blocks(given, truth)
    listed = np.flatnonzero(blocks.lists.lengths)
    item = np.full((len(blocks), blocks.n), NO_ITEM, dtype=np.int32)
    for rows, context in blocks:
        item[rows, : context.n] = context.item
    user, item = codes_in(ids_of(blocks.users[listed]), users).astype(np.int32, copy=False), item[listed]
    pair = codes_in(given.user, users) * np.int64(len(items)) + codes_in(given.item, items)
    order = np.argsort(pair)
    by = given.values if given.kind == "score" else -given.values.astype(np.int64)
    by = by.astype(np.float64)[order]
    position = np.searchsorted(pair[order], user[:, None] * np.int64(len(items)) + item)
    score = np.where(item == NO_ITEM, np.nan, by[np.minimum(position, len(by) - 1)])
    return TopN(user, item, score), interactions_on(users, items, truth), catalogue.train
