from __future__ import annotations

import numpy as np

from evalplugin.metrics.grouped_rows import GroupedRows, group_by_rank


def test_shuffled_rows_are_written_to_their_ranks() -> None:
    rng = np.random.default_rng(0)
    count = rng.integers(0, 9, 500)
    user = np.repeat(np.arange(500), count)
    rank = np.arange(len(user)) - np.repeat(np.cumsum(count) - count, count) + 1
    item = rng.permutation(len(user)).astype(np.int32)
    order = rng.permutation(len(user))
    rows = np.arange(len(user))

    def grouped(ranks: np.ndarray) -> GroupedRows | None:
        return group_by_rank(rows, user[order].astype(np.int32), 500, item[order], ranks)

    by_rank = grouped(rank[order])
    np.testing.assert_array_equal(by_rank.columns["item"], item)
    np.testing.assert_array_equal(by_rank.count, count)
    for wrong in (0, 10, rank[order][0] + 1):  # the last is a repeated rank, or beyond the end
        ranks = rank[order].copy()
        ranks[0] = wrong
        assert grouped(ranks) is None
