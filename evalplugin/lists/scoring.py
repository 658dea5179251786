"""Lists and truth in memory, as columns of raw ids, scored user by user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.data.interactions import Interactions
from evalplugin.data.tables import Ids, ids_of
from evalplugin.data.vocabulary import codes_end, codes_in, encode
from evalplugin.lists.catalogue import Catalogue, catalogue_of, interactions_on
from evalplugin.lists.columns import ListInput
from evalplugin.lists.ranked_lists import RankedLists
from evalplugin.lists.request import ScoreRequest
from evalplugin.metrics import Blocks, MetricSpec
from evalplugin.metrics.compilation import worth_compiling
from evalplugin.metrics.grouped_rows import group_by_rank, group_rows
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import check_request, is_built_in, score_blocks
from evalplugin.metrics.states import Request, ScorerState
from evalplugin.models.selection import NO_ITEM, TopN
from evalplugin.models.threads import thread_count

__all__ = ["blocks_of", "need_catalogue", "score_in_memory", "state_of", "top_n_on"]


def score_in_memory(inputs: ListInput, request: ScoreRequest) -> PerUserScores:
    """Return the scores of all users with a list or a truth, by raw user id ascending.

    Raises:
        DataError: A list or a truth with an item twice, ranks that are not 1, 2, 3 and so on.
    """
    check_request(request.specs, inputs.train is not None)
    catalogue = catalogue_of(inputs) if need_catalogue(request.specs) else None
    blocks = blocks_of(inputs, request.threshold, catalogue)
    return state_of(blocks, request, blocks.n, catalogue).scores()


def state_of(blocks: Blocks, request: ScoreRequest, n: int, catalogue: Catalogue | None) -> ScorerState:
    """Return what the users of some blocks contribute to the scores.

    Args:
        blocks: Lists and truth of the users.
        request: The metrics.
        n: Length of the longest list of all users.
        catalogue: The catalogue of the blocks; None where no metric reads it.
    """
    n_items = 0 if catalogue is None else len(catalogue.items)
    scored = Request(tuple(request.specs), n, n_items, tuple(request.curve_ks(n)))
    return score_blocks(blocks, scored, blocks.users)


def blocks_of(
    inputs: ListInput,
    threshold: float | None,
    catalogue: Catalogue | None = None,
    n: int = 0,
    *,
    compiled: bool | None = None,
) -> Blocks:
    """Return lists and truth in blocks, over all users with a list or a truth.

    Args:
        inputs: Lists and truth.
        threshold: Ratings from it on are relevant; None: ratings above 0 are.
        catalogue: Codes of users and items, and the train data; None: any codes that preserve
            equality and order.
        n: Length of the longest list of all, if these are a part of the lists.
        compiled: Whether to use compiled loops; None: if these rows and those before them are worth it.

    Raises:
        DataError: A list or a truth with an item twice, ranks that are not 1, 2, 3 and so on.
    """
    lists, truth = inputs.lists, inputs.truth
    if compiled is None:
        compiled = worth_compiling(len(lists.user))
    # Items are encoded while users are.
    threads = thread_count()
    with ThreadPoolExecutor(1) as pool:
        task = partial(_item_codes, lists.item, truth.item, catalogue, compiled)
        coding = pool.submit(task).result if threads > 1 else task
        starts = [ids.run_starts(threads) for ids in (lists.user, truth.user)]
        runs = lists.user.take(starts[0]), truth.user.take(starts[1])
        users, (run_user, truth_run_user) = encode(runs)
        item, truth_item, raw_item, n_items = coding()
    rows = None
    if lists.kind == "rank":
        rows = group_by_rank(starts[0], run_user, len(users), item, lists.values, compiled=compiled)
    rows = rows or group_rows(starts[0], run_user, len(users), {"item": item, lists.kind: lists.values})
    rated = {"item": truth_item} | ({} if truth.values is None else {"rating": truth.values})
    truth_rows = group_rows(starts[1], truth_run_user, len(users), rated)
    return Blocks(
        users=users,
        # Not the method of ``lists``, which would keep all columns in memory.
        lists=RankedLists(users, rows, partial(lists.table.refuse, lists.column)),
        truth=truth_rows,
        n=max(n, int(rows.count.max(initial=0)), 1),
        n_items=n_items,
        raw_item=raw_item,
        threshold=threshold,
        user=None if catalogue is None else codes_in(ids_of(users), catalogue.users).astype(np.int64),
        train=None if catalogue is None else catalogue.train_data,
        compiled=compiled,
    )


def need_catalogue(specs: Sequence[MetricSpec]) -> bool:
    """Return whether any of the metrics reads the catalogue or the train data; those of plugins may.

    All others compare listed items with the truth, which any codes of the items allow.
    """
    return any({"catalogue", "train"} & set(spec.metric.needs) or not is_built_in(spec) for spec in specs)


def _item_codes(
    listed: Ids, held_out: Ids, catalogue: Catalogue | None, compiled: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Callable[[int], object], int]:
    """Return the codes of two columns of items, the raw id of a code, and the number of codes."""
    if catalogue is not None:
        items = catalogue.items
        return codes_in(listed, items), codes_in(held_out, items), lambda code: items[code], len(items)
    if listed.kind == "integers" and (end := codes_end(listed.values, held_out.values)) is not None:
        return listed.values, held_out.values, int, end
    if listed.kind == "text" and compiled:
        from evalplugin.lists.text_codes import compiled_dictionary

        vocabulary, (item, truth_item) = encode([listed, held_out], compiled_dictionary)
    else:
        vocabulary, (item, truth_item) = encode([listed, held_out])
    return item, truth_item, lambda code: vocabulary[code], len(vocabulary)


def top_n_on(catalogue: Catalogue, inputs: ListInput) -> tuple[TopN, Interactions, Interactions | None]:
    """Return lists with their scores (or negated ranks), truth and train data, on the catalogue's codes."""
    blocks, given, n_items = blocks_of(inputs, None, catalogue), inputs.lists, len(catalogue.items)
    assert blocks.user is not None
    listed = np.flatnonzero(blocks.lists.lengths)
    item = np.full((len(blocks), blocks.n), NO_ITEM, dtype=np.int32)
    for rows, context in blocks:
        item[rows, : context.n] = context.item
    user, item = blocks.user[listed].astype(np.int32), item[listed]
    pair = codes_in(given.user, catalogue.users) * np.int64(n_items) + codes_in(given.item, catalogue.items)
    order = np.argsort(pair)
    by = given.values if given.kind == "score" else -given.values.astype(np.int64)
    by = by.astype(np.float64)[order]
    position = np.searchsorted(pair[order], user[:, None] * np.int64(n_items) + item)
    score = np.where(item == NO_ITEM, np.nan, by[np.minimum(position, len(by) - 1)])
    truth = interactions_on(catalogue.users, catalogue.items, inputs.truth)
    return TopN(user, item, score), truth, catalogue.train
