from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.api import score
from evalplugin.data.attributes import Attributes
from evalplugin.data.interactions import Interactions
from evalplugin.data.tables import Table
from evalplugin.lists.columns import ListColumns, PairColumns, ScoreRequest
from evalplugin.lists.ranked_lists import RankedLists
from evalplugin.lists.scoring import Scoring
from evalplugin.metrics import METRICS, Blocks, TrainData, UserMetric, loops, matching, parse
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.grouped_rows import GroupedRows, group_by_rank
from evalplugin.metrics.matching import PairTable
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import score_top_n
from evalplugin.models.selection import NO_ITEM, TopN


def drawn(
    seed: int, users: int, n: int, n_items: int, levels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    item = np.argsort(rng.random((users, n_items)), axis=1)[:, :n].astype(np.int32)
    item[np.arange(item.shape[1]) >= rng.integers(0, 2 * n, users)[:, None]] = NO_ITEM
    row, truth = np.nonzero(rng.random((users, n_items)) < rng.choice([0, 0.05, 0.5, 1], (users, 1)))
    return item, row, truth.astype(np.int32), rng.integers(0, levels, len(row)) / 4


def in_lists(
    item: np.ndarray, truth_indptr: np.ndarray, truth: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    listed = item != NO_ITEM
    count = listed.sum(axis=1)
    rank = np.nonzero(listed)[1] + 1
    return loops.match(
        item[listed].astype(np.int64), rank, None, np.cumsum(count) - count, count, truth_indptr, truth
    )


def starts(row: np.ndarray, users: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=users))])


drawn_cases = given(
    seed=st.integers(0, 2**32),
    users=st.sampled_from([1, 2, 9, 300]),
    n=st.integers(1, 15),
    n_items=st.integers(15, 60),
    levels=st.sampled_from([1, 5, 1000]),
)


@drawn_cases
def test_matches_are_those_of_the_hash_table(
    seed: int, users: int, n: int, n_items: int, levels: int
) -> None:
    item, row, truth, _ = drawn(seed, users, n, n_items, levels)
    expected = PairTable.of(row, truth, users).match(item)
    found = in_lists(item, starts(row, users), truth)
    assert found is not None
    for ours, theirs in zip(found, (expected.row, expected.rank, expected.truth), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@drawn_cases
def test_the_best_list_is_that_of_a_sort(seed: int, users: int, n: int, n_items: int, levels: int) -> None:
    item, row, truth, rating = drawn(seed, users, n, n_items, levels)
    whole = [
        ScoringContext(
            lambda: item, starts(row, users), truth, rating, rating > 1, n_items, compiled=compiled
        ).ideal
        for compiled in (False, True)
    ]
    for name in ("row", "rank", "gain", "relevant"):
        np.testing.assert_array_equal(*(getattr(ideal, name) for ideal in whole))


@pytest.mark.parametrize(
    ("item", "truth"),
    [
        ([[4, 5, 6], [1, 2, 1]], [7, 8]),
        ([[4, 5, 6], [1, 2, 3]], [7, 7]),
        ([[4, 7, 7], [1, 2, 3]], [7, 8]),  # in the truth and twice in the list
    ],
)
def test_a_repeated_item_is_noticed(item: list[list[int]], truth: list[int]) -> None:
    arrays = np.array(item, dtype=np.int32), np.array([0, 2, 2]), np.array(truth, dtype=np.int32)
    assert in_lists(*arrays) is None


@pytest.mark.parametrize("factor", [0, 2**31])
def test_repetition_is_exact_where_hashes_collide(factor: int) -> None:
    """Codes that are multiples of a power of two share most bytes of the table."""
    item = (np.arange(2000, dtype=np.int64) * (factor or 1) % 2**31).astype(np.int32)[None]
    item = np.unique(item)[None]
    found = in_lists(item, np.array([0, 1]), item[0, -1:].copy())
    assert found is not None
    assert found[1].tolist() == [item.shape[1]]
    assert in_lists(np.append(item, item[:, :1], axis=1), np.array([0, 0]), item[0, :0].copy()) is None


@drawn_cases
def test_rows_of_a_user_are_matched_in_any_order(
    seed: int, users: int, n: int, n_items: int, levels: int
) -> None:
    item, row, truth, _ = drawn(seed, users, n, n_items, levels)
    expected = PairTable.of(row, truth, users).match(item)
    rng = np.random.default_rng(seed)
    user, column = np.nonzero(item != NO_ITEM)
    order = np.lexsort([rng.random(len(user)), user])
    listed, rank = item[user, column].astype(np.int64)[order], column[order] + 1
    count = np.bincount(user, minlength=users)
    places = np.cumsum(count) - count, count, starts(row, users), truth
    found = loops.match(listed, rank, None, *places)
    assert found is not None
    np.testing.assert_array_equal(found, expected)
    # By score, equal ones by item.
    score = rng.integers(0, levels, len(user)) / 4
    by_score = np.full_like(item, NO_ITEM)
    by_score[user, column] = listed[np.lexsort([listed, -score, user])]
    found = loops.match(listed, None, score, *places)
    assert found is not None
    np.testing.assert_array_equal(found, PairTable.of(row, truth, users).match(by_score))


def test_lists_with_many_matches_are_sorted_by_score_first() -> None:
    item, score = np.arange(1000), np.arange(1000.0)
    truth = np.array([0, 1000]), np.arange(1000, dtype=np.int32)
    place = np.array([0]), np.array([1000])
    assert loops.match(item, None, score, *place, *truth) is None
    found = loops.match(item, None, -score, *place, *truth)
    assert found is not None
    assert found.truth.tolist() == item.tolist()
    lists = pd.DataFrame({"user": 1, "item": item, "score": score})
    known = pd.DataFrame({"user": 1, "item": item[:500]})
    scoring = Scoring(ScoreRequest([parse("rr"), parse("hit@500")]), compiled=True)
    tables = (
        PairColumns.read(Table(lists, "a"), "lists", ListColumns()),
        PairColumns.read(Table(known, "b"), "truth", ListColumns()),
    )
    state = scoring.state(*tables)
    assert state.scores().means == {"rr": 1 / 501, "hit@500": 0}


@pytest.mark.parametrize("rank", [[1, 1], [0, 1], [1, 3], [2**40, 1]])
def test_ranks_that_are_not_1_2_3_are_noticed(rank: list[int]) -> None:
    rows = np.array([5, 6]), np.array(rank), None, np.array([0]), np.array([2])
    assert loops.match(*rows, np.array([0, 1]), np.array([6], dtype=np.int32)) is None


@pytest.mark.parametrize("item", [np.int64, np.int32])
@pytest.mark.parametrize("by", ["rank", "int8 rank", "score", "float32 score"])
@pytest.mark.parametrize("order", ["lists", "lists reversed", "by rank", "shuffled"])
def test_lists_are_matched_in_place_and_read_only_by_metrics_that_need_them(
    item: type, by: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    listed, _, _, _ = drawn(0, 200, 12, 60, 9)
    user, column = np.nonzero(listed != NO_ITEM)
    dtype, _, name = by.rpartition(" ")
    value = column + 1 if name == "rank" else rng.integers(0, 5, len(user)) / 4
    lists = pd.DataFrame({"user": user, "item": listed[user, column].astype(item), name: value})
    lists = lists.astype({name: dtype or value.dtype})
    row, known = np.nonzero(rng.random((200, 60)) < 0.1)
    truth = pd.DataFrame({"user": row, "item": known, "rating": rng.integers(1, 6, len(row))})
    if order == "shuffled":
        lists = lists.sample(frac=1, random_state=0)
    elif order != "lists":
        sorted_by = [name, "user"] if order == "by rank" else ["user", name]
        lists = lists.sort_values(sorted_by, ascending=order == "by rank")
    read = []
    block = RankedLists.block
    monkeypatch.setattr(RankedLists, "block", lambda self, users: read.append(1) or block(self, users))

    def values(metrics: list[str], compiled: bool) -> np.ndarray:
        read.clear()
        for module in ("lists.scoring", "metrics.blocks"):
            monkeypatch.setattr(f"evalplugin.{module}.worth_compiling", lambda n_rows: compiled)
        return score(lists, truth, metrics).scores.values

    of_matches, of_lists = ["ndcg@10", "ap", "hit@3"], ["ndcg@10", "auc"]
    for metrics in (of_matches, of_lists):
        np.testing.assert_array_equal(values(metrics, True), values(metrics, False))
    values(of_matches, True)
    assert not read
    values(of_lists, True)
    assert read


@pytest.mark.parametrize(("seed", "threshold"), [(0, None), (1, 1.0), (2, 1.0)])
def test_scores_are_the_same_to_the_last_bit(
    seed: int, threshold: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    item, row, truth, rating = drawn(seed, 200, 12, 60, 9)
    known = Interactions(
        user=row.astype(np.int32), item=truth, rating=rating.astype(np.float32), timestamp=None,
        users=np.arange(200), items=np.arange(60), item_attributes=Attributes({"category": np.arange(60.0) % 7}),
    )  # fmt: skip
    names = [
        *METRICS.names(),
        *(f"{name}(propensity=popularity, power=0.5)@5" for name in ("recall", "ap", "ndcg")),
    ]
    names += ["recall(truth=repeat)@5", "ndcg(truth=explore)@5", "auc(truth=repeat)", "ap(truth=explore)"]
    specs = [parse(name) for name in names if parse(name).needs not in (("predictions",), ("pool",))]

    def scores() -> PerUserScores:
        return score_top_n(
            Blocks.of(
                TopN(np.arange(200, dtype=np.int32), item, np.zeros(item.shape)),
                known,
                train=known.select(np.arange(len(row)) % 2 == 0),
                relevance=Relevance(threshold=threshold),
            ),
            specs,
            (1, 5),
        )

    monkeypatch.setattr("evalplugin.metrics.blocks.worth_compiling", lambda n_rows: False)
    without = scores()
    monkeypatch.setattr("evalplugin.metrics.blocks.worth_compiling", lambda n_rows: True)
    monkeypatch.setattr("evalplugin.metrics.matching.PairTable.of", None)  # nothing else matches
    compiled = scores()
    np.testing.assert_array_equal(without.values, compiled.values)
    np.testing.assert_equal(without.at_k, compiled.at_k)
    assert without.pr_curve == compiled.pr_curve


def test_loops_are_loaded_once_many_rows_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "evalplugin.metrics.loops")
    monkeypatch.setattr(matching, "_scored", 0)
    small, large = 10**5, 10**7
    assert [matching.worth_compiling(large) for _ in range(5)] == [False, False, False, True, True]
    assert not matching.worth_compiling(100)
    monkeypatch.setattr(matching, "_scored", 0)
    assert not matching.worth_compiling(small)
    monkeypatch.setitem(sys.modules, "evalplugin.metrics.loops", loops)
    assert matching.worth_compiling(small)


@pytest.mark.parametrize("k", [9, 40])
@pytest.mark.parametrize("n_users", [3, 64, 700])
def test_sums_of_cosines_are_those_of_numpy(n_users: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(n_users)
    item, _, _, _ = drawn(n_users, 60, k + 3, 50, 1)
    user, known = np.nonzero(
        rng.random((n_users, 50)) < np.linspace(0, 0.9, 50) ** 2
    )  # rare and frequent items
    train = Interactions(
        user=user.astype(np.int32), item=known.astype(np.int32), rating=np.ones(len(user), dtype=np.float32),
        timestamp=None, users=np.arange(n_users), items=np.arange(50),
    )  # fmt: skip
    context = ScoringContext(
        lambda: item, np.zeros(61, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0), np.empty(0, dtype=bool),
        50, train=TrainData(train),
    )  # fmt: skip
    diversity = parse("diversity").metric
    assert isinstance(diversity, UserMetric)
    without = diversity(context, k)
    monkeypatch.setattr("evalplugin.metrics.novelty_diversity.worth_compiling", lambda n_rows: True)
    monkeypatch.setattr(TrainData, "cosine", None)
    for _ in range(2):  # the second time with cached pairs
        np.testing.assert_array_equal(diversity(context, k), without)


@pytest.mark.parametrize("compiled", [False, True])
def test_shuffled_rows_are_written_to_their_ranks(compiled: bool) -> None:
    rng = np.random.default_rng(0)
    count = rng.integers(0, 9, 500)
    user = np.repeat(np.arange(500), count)
    rank = np.arange(len(user)) - np.repeat(np.cumsum(count) - count, count) + 1
    item = rng.permutation(len(user)).astype(np.int32)
    order = rng.permutation(len(user))
    rows = np.arange(len(user))

    def grouped(ranks: np.ndarray) -> GroupedRows | None:
        return group_by_rank(rows, user[order].astype(np.int32), 500, item[order], ranks, compiled=compiled)

    found = grouped(rank[order])
    assert found is not None
    np.testing.assert_array_equal(found.columns["item"], item)
    np.testing.assert_array_equal(found.count, count)
    for wrong in (0, 10, rank[order][0] + 1):  # the last is a repeated rank, or beyond the end
        ranks = rank[order].copy()
        ranks[0] = wrong
        assert grouped(ranks) is None
