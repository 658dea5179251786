"""Lists and truth in memory, as columns of raw ids, scored user by user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.data.interactions import Interactions
from evalplugin.data.tables import Ids
from evalplugin.data.vocabulary import codes_end, codes_in, encode
from evalplugin.lists.arrange import Arranged, ListBlocks, arrange, place_by_rank
from evalplugin.lists.catalogue import Catalogue, catalogue_of, interactions_on
from evalplugin.lists.columns import ListInput
from evalplugin.metrics import Blocks, MetricSpec
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import Scorer, check_request, is_built_in
from evalplugin.models.selection import NO_ITEM, TopN

__all__ = ["blocks_of", "blocks_on", "need_catalogue", "score_in_memory", "top_n_on"]


def score_in_memory(
    inputs: ListInput,
    specs: Sequence[MetricSpec],
    threshold: float | None,
    *,
    curve_ks: Callable[[int], Sequence[int]] = lambda n: (),
) -> PerUserScores:
    """Return the scores of everybody who has a list or a truth, by raw user id ascending.

    Raises:
        DataError: A list or a truth with an item twice, ranks that are not 1, 2, 3 and so on.
    """
    check_request(specs, inputs.train is not None)
    if need_catalogue(specs):
        catalogue = catalogue_of(inputs)
        coded = blocks_on(catalogue, inputs, threshold)
        blocks: Blocks | ListBlocks = coded
        users = catalogue.users[coded.user]
    else:
        free = blocks_of(inputs, threshold)
        blocks, users = free, free.users
    scorer = Scorer(specs, len(blocks), blocks.n, blocks.n_items, curve_ks=curve_ks(blocks.n))
    scorer.add(blocks)
    return scorer.result(users)


def blocks_of(inputs: ListInput, threshold: float | None, n: int = 0) -> ListBlocks:
    """Return lists and truth in blocks, with items under codes that mean nothing beyond equality and order."""
    lists, rating = inputs.lists, inputs.truth.values
    # Both look once at all of a long column, and can do so at the same time.
    with ThreadPoolExecutor(1) as pool:
        coding = pool.submit(_item_codes, inputs)
        starts = inputs.lists.user.run_starts(), inputs.truth.user.run_starts()
        item, truth_item, raw_item, n_items = coding.result()
    users, (run_user, truth_run_user) = encode(
        [inputs.lists.user.take(starts[0]), inputs.truth.user.take(starts[1])]
    )
    placed = (
        place_by_rank(starts[0], run_user, len(users), item, lists.values) if lists.kind == "rank" else None
    )
    rated = (truth_item,) if rating is None else (truth_item, rating)
    return ListBlocks(
        users=users,
        lists=placed or arrange(starts[0], run_user, len(users), (item, lists.values), len(item)),
        order="none" if placed else inputs.lists.kind,
        truth=arrange(starts[1], truth_run_user, len(users), rated, len(truth_item)),
        threshold=threshold,
        n_items=n_items,
        raw_item=raw_item,
        refuse=inputs.lists.refuse,
        n=n,
    )


def need_catalogue(specs: Sequence[MetricSpec]) -> bool:
    """Return whether any of the metrics reads the catalogue or the train data; one of a plugin may.

    All others compare listed items with the truth, for which any codes of the items will do.
    """
    return any({"catalogue", "train"} & set(spec.metric.needs) or not is_built_in(spec) for spec in specs)


def _item_codes(inputs: ListInput) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Any, int]:
    ours, theirs = inputs.lists.item, inputs.truth.item
    if ours.kind == "integers" and (end := codes_end(ours.values, theirs.values)) is not None:
        return ours.values, theirs.values, int, end
    vocabulary, (item, truth_item) = encode([ours, theirs])
    return item, truth_item, lambda code: vocabulary[code], len(vocabulary)


def blocks_on(catalogue: Catalogue, inputs: ListInput, threshold: float | None, n: int = 0) -> Blocks:
    """Return lists and truth in blocks, under the catalogue's codes."""
    users, items = catalogue.users, catalogue.items
    item = codes_in(inputs.lists.item, items)
    truth = interactions_on(users, items, inputs.truth)
    user = codes_in(inputs.lists.user, users)
    starts = Ids("integers", user).run_starts()
    empty = Arranged(np.zeros(len(users), np.int64), np.zeros(len(users), np.int64), (item[:0],), True, None)
    lists = ListBlocks(
        users=users,
        lists=arrange(starts, user[starts], len(users), (item, inputs.lists.values), len(item)),
        order=inputs.lists.kind,
        truth=empty,
        threshold=threshold,
        n_items=len(items),
        raw_item=lambda code: items[code],
        refuse=inputs.lists.refuse,
        n=n,
    )
    listed = np.flatnonzero(lists.lists.count)
    listed_items = np.full((len(listed), lists.n), NO_ITEM, dtype=np.int32)
    row_of = np.cumsum(lists.lists.count > 0) - 1
    for low, high in lists.cuts():
        block, has_list = lists.context(low, high).item, lists.lists.count[low:high] > 0
        listed_items[row_of[low:high][has_list], : block.shape[1]] = block[has_list]
    no_score = np.broadcast_to(np.float64(np.nan), listed_items.shape)
    top_n = TopN(listed.astype(np.int32), listed_items, no_score)
    return Blocks.of(top_n, truth, train=catalogue.train, threshold=threshold)


def top_n_on(catalogue: Catalogue, inputs: ListInput) -> tuple[TopN, Interactions, Interactions | None]:
    """Return lists with their scores (ranks with the sign turned), truth and train data, on the catalogue's codes."""
    blocks = blocks_on(catalogue, inputs, None)
    n_items = len(catalogue.items)
    pair = codes_in(inputs.lists.user, catalogue.users) * np.int64(n_items) + codes_in(
        inputs.lists.item, catalogue.items
    )
    order = np.argsort(pair)
    by = (
        inputs.lists.values if inputs.lists.kind == "score" else -inputs.lists.values.astype(np.int64)
    ).astype(np.float64)[order]
    lists = blocks.top_n
    place = np.searchsorted(pair[order], lists.user[:, None] * np.int64(n_items) + lists.item)
    score = np.where(lists.item == NO_ITEM, np.nan, by[np.minimum(place, len(by) - 1)])
    return TopN(lists.user, lists.item, score), blocks.truth, catalogue.train
