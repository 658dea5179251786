"""Overlap of models' lists: arithmetic, laws, other implementations, tables with holes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import overlap_values

from evalplugin.report import overlap
from evalplugin.report.overlap import overlaps_of


def rows(*lists: list[int], k: int = 0) -> np.ndarray:
    width = max(k, *map(len, lists))
    return np.array([items + [-1] * (width - len(items)) for items in lists], dtype=np.int32)


def table(lists: dict[object, list[object]], fold: int | None = None) -> pa.Table:
    cells = [(user, item, rank) for user, items in lists.items() for rank, item in enumerate(items, 1)]
    columns = dict(zip(("user", "item", "rank"), zip(*cells, strict=True), strict=True))
    made = pa.table({name: list(values) for name, values in columns.items()})
    return made if fold is None else made.append_column("fold", pa.array([fold] * len(made)))


def by_definition(a: list[int], b: list[int], p: float = 0.9) -> float:
    depths = range(1, max(len(a), len(b)) + 1)
    agreement = [len({*a[:d]} & {*b[:d]}) / d for d in depths]
    weights = [p ** (d - 1) for d in depths]
    return sum(w * x for w, x in zip(weights, agreement, strict=True)) / sum(weights)


def test_rbo_and_jaccard_are_arithmetic() -> None:
    p = 0.9
    rbo, jaccard = overlap_values(rows([1, 2, 3], [1, 2, 3], [1, 2]), rows([3, 2, 1], [1, 4, 5], [2, 1]))
    total = 1 + p + p * p
    assert rbo[0] == pytest.approx((0 + p * 1 / 2 + p * p * 3 / 3) / total)  # in common: none, 2, all
    assert rbo[1] == pytest.approx((1 + p * 1 / 2 + p * p * 1 / 3) / total)
    assert rbo[2] == pytest.approx(p / (1 + p))  # lists that end after two places
    assert jaccard.tolist() == [1, 1 / 5, 1]


def test_lists_of_different_lengths_are_compared_to_the_end_of_the_longer_one() -> None:
    rbo, jaccard = overlap_values(rows([7], [], [], k=3), rows([7, 8, 9], [4, 5], [], k=3))
    assert rbo[0] == pytest.approx((1 + 0.9 / 2 + 0.81 / 3) / (1 + 0.9 + 0.81))
    assert rbo[1] == 0
    assert jaccard[:2].tolist() == [1 / 3, 0]
    assert np.isnan([rbo[2], jaccard[2]]).all()  # nothing is listed by either


ranked = st.lists(st.integers(0, 12), unique=True, min_size=1, max_size=8)


@given(ranked, ranked)
def test_overlap_is_symmetric_within_bounds_and_follows_the_definition(a: list[int], b: list[int]) -> None:
    rbo, jaccard = overlap_values(*(rows(items, k=8) for items in (a, b)))
    other, _ = overlap_values(*(rows(items, k=8) for items in (b, a)))
    assert rbo[0] == pytest.approx(by_definition(a, b), abs=1e-12)
    assert rbo[0] == pytest.approx(other[0], abs=1e-12)
    assert 0 <= rbo[0] <= 1 + 1e-12
    assert jaccard[0] == len({*a} & {*b}) / len({*a} | {*b})
    if not {*a} & {*b}:
        assert rbo[0] == 0
    assert overlap_values(rows(a), rows(a))[0][0] == pytest.approx(1)


def test_tables_are_matched_by_user_and_fold_and_cut_at_k() -> None:
    a, b = table({"u": ["x", "y", "z"], "v": ["x"]}), table({"v": ["x", "y"], "w": ["z"]})
    (found,) = overlaps_of({"a": a, "b": b}, 2)
    v = (1 + 0.9 / 2) / 1.9
    assert (found.model, found.against, found.k, found.lists) == ("a", "b", 2, 3)
    assert found.rbo == pytest.approx((0 + v + 0) / 3)  # u and w have a list of one model alone
    assert found.jaccard == pytest.approx((0 + 1 / 2 + 0) / 3)
    (other_fold,) = overlaps_of({"a": table({1: [5]}, fold=1), "b": table({1: [5]}, fold=2)}, None)
    assert (other_fold.lists, other_fold.rbo) == (2, 0)


def test_blocks_and_other_models_change_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    tables = {
        name: table({user: rng.permutation(15)[:6].tolist() for user in range(40)})
        for name in ("a", "b", "c")
    }
    whole = list(overlaps_of(tables, 5))
    assert [(o.model, o.against) for o in whole] == [("a", "b"), ("a", "c"), ("b", "c")]
    monkeypatch.setattr(overlap, "_AT_ONCE", 64)
    for one, other in zip(whole, overlaps_of(tables, 5), strict=True):
        assert other.rbo == pytest.approx(one.rbo)
    (pair,) = overlaps_of({name: tables[name] for name in ("a", "c")}, 5)
    assert (pair.rbo, pair.jaccard) == pytest.approx((whole[1].rbo, whole[1].jaccard))


def test_of_very_many_lists_evenly_spaced_ones_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    same, other = {user: [1, 2] for user in range(100)}, {user: [1, 2] for user in range(50)}
    monkeypatch.setattr(overlap, "_MOST_LISTS", 10)
    (found,) = overlaps_of({"a": table(same), "b": table(other)}, 2)
    assert (found.lists, found.rbo) == (10, pytest.approx(0.5))
    assert found.drawn_from == 100
    (found,) = overlaps_of({"a": table({1: [2]}), "b": table({1: [3]})}, 2)
    assert found.drawn_from is None


def test_one_model_has_no_pairs() -> None:
    assert list(overlaps_of({"a": table({1: [2]})}, 1)) == []
