"""Hit rates by the popularity of items: whether a model only finds what is popular."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evalplugin.base.arrays import Ints
from evalplugin.base.libraries import pa
from evalplugin.base.remembering import remembered
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.competition import facts_of
from evalplugin.segments.groups import by_quantile

_GROUPS = 5


@dataclass(frozen=True)
class HitRates:
    """The relevant held-out items in groups by popularity, and how many of them each model lists.

    Groups have about as many items each, from the least to the most popular; items that are equally popular stay
    together. An item counts once for each user in whose truth it is relevant.
    """

    labels: tuple[str, ...]  # lowest and highest number of interactions in the train data, such as ``1-18``
    items: tuple[int, ...]  # different items of each group
    truth: tuple[int, ...]  # relevant held-out items of each group
    hits: Mapping[str, tuple[int, ...]]  # by model: those of them that are in the user's list


@remembered
def hit_rates(comparison: Comparison) -> HitRates | None:
    """Return the models' hit rates by popularity of items; None where the counts of items are not at hand.

    Those of logged runs are read for the page alone.
    """
    counts = {row.model: facts_of(comparison.contest, row.model).items for row in comparison.scored}
    return hit_rates_of({model: table for model, table in counts.items() if table is not None})


def hit_rates_of(tables: Mapping[str, pa.Table]) -> HitRates | None:
    """Return the hit rates of models; None without a table, or where the models' truths differ.

    Args:
        tables: By model, as of ``execution.per_item``.
    """
    columns = {model: _relevant(table) for model, table in tables.items()}
    if not columns:
        return None
    train, truth, _ = next(iter(columns.values()))
    if not len(train) or not all(
        np.array_equal(train, other) and np.array_equal(truth, count) for other, count, _ in columns.values()
    ):
        return None
    groups = by_quantile(train.astype(np.float64), _GROUPS)

    def sums(counts: Ints) -> tuple[int, ...]:
        return tuple(np.bincount(groups.group, counts).astype(np.int64).tolist())

    return HitRates(
        labels=groups.labels,
        items=sums(np.ones_like(truth)),
        truth=sums(truth),
        hits={model: sums(hit) for model, (_, _, hit) in columns.items()},
    )


def _relevant(table: pa.Table) -> tuple[Ints, Ints, Ints]:
    """Return train, truth and hit of the items with a relevant truth, least popular first: int64 (m,) each."""
    train, truth, hit = (table[name].to_numpy() for name in ("train", "truth", "hit"))
    rows = np.flatnonzero(truth)
    rows = rows[np.lexsort((truth[rows], train[rows]))]
    return train[rows], truth[rows], hit[rows]
