"""Evaluation of a metric on literal lists, for scorers, docstrings, tests and notebooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM, Floats
from evalplugin.data.attributes import Attributes
from evalplugin.data.candidates import Candidates
from evalplugin.data.interactions import Interactions
from evalplugin.metrics.base import UserMetric, is_overall
from evalplugin.metrics.blocks import Blocks
from evalplugin.metrics.names import MetricSpec, parse
from evalplugin.metrics.relevance import Relevance
from evalplugin.models.selection import TopN


def evaluate(
    name: str,
    *,
    lists: Sequence[Sequence[Any]],
    truth: Sequence[Mapping[Any, float] | Collection[Any]],
    predictions: Sequence[Mapping[Any, float]] | None = None,
    train: Sequence[Collection[Any]] | None = None,
    pool: Sequence[Collection[Any]] | None = None,
    shown: Sequence[Mapping[Any, tuple[int, float]]] | None = None,
    scores: Sequence[Sequence[float]] | None = None,
    threshold: float | None = None,
    catalogue: Collection[Any] = (),
    item_attributes: Mapping[str, Mapping[Any, str | float | None]] | None = None,
) -> list[float]:
    """Return a metric's value for each user; of a metric over all lists, its one value.

    Args:
        name: The metric, such as ``ndcg@10``.
        lists: Each user's list, best first; items are integers or text.
        truth: Each user's held-out items: ``{item: rating}``, or the items alone, rated 1.
        predictions: For each user ``{item: predicted rating}``, for all of the user's truth.
        train: Each user's items in the train data; it may have more users than ``lists``.
        pool: Each user's given candidates.
        shown: For each user, who is a decision, ``{item: (position, propensity)}``, for all of the truth.
        scores: The score of each listed item; None: lists have none.
        threshold: Ratings from it on are relevant; None: ratings above 0 are.
        catalogue: Further items, neither listed nor rated.
        item_attributes: For each attribute ``{item: value}``, of further items too; needs ``train``.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("precision@2", lists=[[1, 2], [4, 5]], truth=[{1}, {4, 5}])
    [0.5, 1.0]
    """
    spec = parse(name)
    rated = [dict(t) if isinstance(t, Mapping) else dict.fromkeys(t, 1.0) for t in truth]
    known = train or ()
    described = (item_attributes or {}).values()
    rows_of_items = (row for rows in (lists, rated, known, pool or (), described) for row in rows)
    items = sorted({*catalogue, *(item for row in rows_of_items for item in row)})
    code = {item: position for position, item in enumerate(items)}
    item = np.full((len(lists), max(1, *map(len, lists)) if lists else 1), NO_ITEM, dtype=np.int32)
    for row, listed in enumerate(lists):
        item[row, : len(listed)] = [code[i] for i in listed]
    score = np.full(item.shape, np.nan)
    for row, given in enumerate(scores or ()):
        score[row, : len(given)] = given
    user = np.arange(len(lists), dtype=np.int32)
    pairs = [(u, i, r) for u, row in enumerate(rated) for i, r in row.items()]
    vocabulary = np.array(items, dtype=object if items and isinstance(items[0], str) else np.int64)

    def interactions(rows: Sequence[tuple[int, Any, float]]) -> Interactions:
        return Interactions(
            user=np.array([u for u, _, _ in rows], dtype=np.int32),
            item=np.array([code[i] for _, i, _ in rows], dtype=np.int32),
            rating=np.array([r for _, _, r in rows], dtype=np.float32),
            timestamp=None,
            users=np.arange(max(len(lists), len(known))),
            items=vocabulary,
            item_attributes=Attributes(
                {
                    name: _column([values.get(i) for i in items])
                    for name, values in (item_attributes or {}).items()
                }
            ),
        )

    data = interactions(pairs)
    if shown is not None:
        where = [shown[u][i] for u, i, _ in pairs]
        position, propensity = (np.array([row[column] for row in where]) for column in (0, 1))
        data = replace(data, position=position.astype(np.int32), propensity=propensity.astype(np.float64))
    blocks = Blocks.of(
        TopN(user, item, score),
        data,
        train=None
        if train is None
        else interactions([(u, i, 1) for u, row in enumerate(known) for i in row]),
        relevance=Relevance(threshold=threshold),
        candidates=None
        if pool is None
        else Candidates(
            "given", included=interactions([(u, i, 0) for u, row in enumerate(pool) for i in row]).rows
        ),
        predictions=None if predictions is None else np.array([predictions[u][i] for u, i, _ in pairs]),
    )
    values: list[float] = apply(spec, blocks).tolist()
    return values


def _column(values: Sequence[str | float | None]) -> Floats | npt.NDArray[np.object_]:
    """Return values as a table of items has them: float64, or text as object."""
    text = any(isinstance(value, str) for value in values)
    return np.array(values, dtype=object if text else np.float64)


def apply(spec: MetricSpec, blocks: Blocks) -> Floats:
    """Return one metric's value for each user, float64 (U,); of a metric over all lists, float64 (1,).

    ``blocks`` have consecutive users, as ``Blocks.of`` makes them.
    """
    k = blocks.n if spec.k is None else spec.k
    metric = spec.metric
    if is_overall(metric):
        state = metric.start(blocks.n_items)
        for _, context in blocks:
            metric.update(state, context, k)
        return np.array([metric.finish(state)])
    if spec.sources:
        assert isinstance(metric, UserMetric)
        return metric.derive(*(apply(own, blocks) for own in spec.sources))
    values = [spec.of(context, k) for _, context in blocks]
    return np.concatenate(values) if values else np.empty(0)
