from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import coded

from evalplugin.models import NO_ITEM, TopN, limit_threads, select_top_n, selection
from evalplugin.models.selection import rank_entries


def by_full_sort(scores, n, tie_rank=None):
    item = np.full((len(scores), n), NO_ITEM, dtype=np.int32)
    score = np.full((len(scores), n), np.nan)
    for row, values in enumerate(scores):
        places = np.arange(len(values)) if tie_rank is None else tie_rank
        best = [code for code in np.lexsort((places, -values)) if values[code] > -np.inf][:n]
        item[row, : len(best)] = best
        score[row, : len(best)] = values[best]
    return item, score


@st.composite
def blocks(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_items = draw(st.sampled_from([1, 5, 40, 150, 700, 3000]))
    shape = (draw(st.integers(1, 6)), n_items)
    levels = draw(st.sampled_from([1, 2, 5, 50, 10**9]))
    scores = rng.integers(0, levels, shape).astype(np.float64)
    if draw(st.booleans()):
        scores = np.sort(scores, axis=1)[:, :: draw(st.sampled_from([1, -1]))].copy()
    masked = draw(st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]))
    scores[rng.random(shape) < masked] = -np.inf
    if draw(st.booleans()):
        # Everything high is in one group of items, or everywhere else.
        groups = draw(st.sampled_from([2, 5, 16, 41, 47, 64, 241]))
        scores[:, (np.arange(n_items) % groups == 1) ^ draw(st.booleans())] += 10**10
    return scores


@given(blocks(), st.integers(1, 60), st.integers(0, 2**32))
def test_equal_scores_are_ordered_by_their_rank(scores, n, seed):
    tie_rank = np.random.default_rng(seed).permutation(scores.shape[1])
    expected = by_full_sort(scores, n, tie_rank)
    np.testing.assert_array_equal(select_top_n(scores, n, tie_rank), expected)
    row, code = np.nonzero(scores > -np.inf)
    entries = rank_entries(row, code, scores[row, code], (len(scores), n), tie_rank)
    np.testing.assert_array_equal(entries, expected)


def shapes(n_rows, n_items):
    """Scores on which a threshold from some items, or a sort of all that reach it, fails."""
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((n_rows, n_items))
    few = np.zeros((n_rows, n_items))
    few[:, rng.choice(n_items, 40, replace=False)] = rng.random((n_rows, 40)) + 1
    strided = normal.copy()
    strided[:, ::16] -= 100
    return {
        "40 above zero, the rest tied": few,
        "40 above zero, the rest excluded": np.where(few > 0, few, -np.inf),
        "all equal": np.ones((n_rows, n_items)),
        "every 16th worse": strided,
        "every 16th better": -strided,
        "ascending": np.sort(normal, axis=1),
        "descending": -np.sort(-normal, axis=1),
        "five values": rng.integers(1, 6, (n_rows, n_items)).astype(np.float64),
        "two values, the higher one last": (np.arange(n_items) >= n_items - 50) * np.ones((n_rows, 1)),
        "a random walk": normal.cumsum(axis=1),
    }


SHAPES = shapes(6, 20_000)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_selection_is_exact_and_frugal_on_scores_of_any_shape(shape, dtype, monkeypatch):
    scores = SHAPES[shape].astype(dtype)
    widths = []

    def spy(values, *arguments):
        widths.append(values.shape[1])
        return ascending(values, *arguments)

    ascending = selection.lowest
    monkeypatch.setattr(selection, "lowest", spy)
    tracemalloc.start()
    item, score = select_top_n(scores, 100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected_item, expected_score = by_full_sort(scores, 100)
    np.testing.assert_array_equal(item, expected_item)
    np.testing.assert_array_equal(score, expected_score)
    # Items of at most 100 of 401 groups are sorted, and the few that are in no group.
    assert max(widths) <= 100 * 49 + 400
    assert peak < 4 * scores.size  # one flag a score, the best of groups, and lists


@given(blocks(), st.sampled_from([1, 2, 3, 10, 25, 4000]), st.sampled_from([np.float64, np.float32]))
def test_selection_equals_a_full_sort(scores, n, dtype):
    scores = scores.astype(dtype)
    scores.flags.writeable = False
    expected_item, expected_score = by_full_sort(scores, n)
    item, score = select_top_n(scores, n)
    assert item.dtype == np.int32
    assert score.dtype == np.float64
    np.testing.assert_array_equal(item, expected_item)
    np.testing.assert_array_equal(score, expected_score)


@pytest.mark.parametrize("n", [1, 5, 50])
def test_selection_is_exact_where_few_groups_have_all_that_is_high(n):
    groups = max(4 * n, 50) | 1
    one = np.where(np.arange(3200) % groups == 3, np.arange(3200.0), -1.0)
    last = np.where(np.arange(3200) >= 3200 // groups * groups, 1.0, 0.0)  # in no group
    scores = np.stack([one, -one, last, -last, np.arange(3200.0)])
    np.testing.assert_array_equal(select_top_n(scores, n)[0], by_full_sort(scores, n)[0])


def test_listed_zeros_keep_their_sign():
    scores = np.array([[0.0, -0.0, 1.0, -0.0, 0.0, -1.0]])
    for n in (2, 3, 5, 6):
        item, score = select_top_n(scores, n)
        np.testing.assert_array_equal(np.signbit(score[0]), np.signbit(scores[0, item[0]]))


def test_threads_and_chunks_make_the_same_lists(monkeypatch):
    scores = np.random.default_rng(0).integers(0, 30, (50, 900)).astype(np.float32)
    expected = by_full_sort(scores, 10)
    for cells in (900, 7 * 900, 10**6):
        monkeypatch.setattr(selection, "_CHUNK_CELLS", cells)
        for threads in (1, 3):
            with limit_threads(threads):
                item, score = select_top_n(scores, 10)
            np.testing.assert_array_equal(item, expected[0])
            np.testing.assert_array_equal(score, expected[1])


def test_equal_scores_stand_in_catalogue_order_across_zero_signs():
    item, _ = select_top_n(np.array([[0.0, -0.0, 1.0, -0.0, 0.0]]), 5)
    assert item.tolist() == [[2, 0, 1, 3, 4]]


def test_selection_of_no_rows_is_empty():
    item, score = select_top_n(np.empty((0, 1000)), 3)
    assert item.shape == score.shape == (0, 3)


@given(blocks(), st.sampled_from([1, 3, 10]), st.integers(0, 2**32))
def test_ranking_entries_equals_selection_from_rows(scores, n, seed):
    row, code = np.nonzero(np.ones_like(scores))
    order = np.random.default_rng(seed).permutation(len(row))
    item, score = rank_entries(row[order], code[order], scores[row, code][order], (len(scores), n))
    expected_item, expected_score = select_top_n(scores, n)
    np.testing.assert_array_equal(item, expected_item)
    np.testing.assert_array_equal(score, expected_score)


@pytest.mark.parametrize("raw", [np.array([10, 20, 30]), np.array(["a", "b", "c"], dtype=object)])
def test_table_has_raw_ids_and_ranks_from_one(raw):
    data = coded([0], [0], users=raw, items=raw)
    top = TopN(
        np.array([0, 2], dtype=np.int32),
        np.array([[2, 1], [0, NO_ITEM]], dtype=np.int32),
        np.array([[3.0, 2.0], [1.0, np.nan]]),
    )
    assert top.to_table(data).to_pylist() == [
        {"user": raw[0], "item": raw[2], "rank": 1, "score": 3.0},
        {"user": raw[0], "item": raw[1], "rank": 2, "score": 2.0},
        {"user": raw[2], "item": raw[0], "rank": 1, "score": 1.0},
    ]


def test_long_text_ids_come_in_pieces_that_arrow_can_hold(monkeypatch):
    # Taking more than 2 GiB of text from an array of Arrow wraps its offsets without an error.
    monkeypatch.setattr(selection, "_TEXT_BYTES", 40)
    ids = np.array(["a", "é", "日本"], dtype=object)
    item = np.arange(12, dtype=np.int32).reshape(4, 3) % 3
    table = TopN(np.zeros(4, np.int32), item, np.zeros(item.shape)).to_table(
        coded([0], [0], users=ids, items=ids)
    )
    assert table["item"].num_chunks == 3
    assert table["item"].to_pylist() == ["a", "é", "日本"] * 4


def test_lists_are_read_only():
    top = TopN(np.zeros(1, np.int32), np.zeros((1, 2), np.int32), np.zeros((1, 2)))
    assert (len(top), top.n) == (1, 2)
    with pytest.raises(ValueError, match="read-only"):
        top.item[0, 0] = 1
