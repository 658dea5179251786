"""Calibration and diversity of categories: golden vectors, another implementation, data without categories."""

from __future__ import annotations

from math import isnan, log, log2, nan

import numpy as np
import pytest
from samples import coded
from scipy.stats import entropy

from evalplugin.base.errors import DataError
from evalplugin.data.attributes import Attributes
from evalplugin.metrics import Blocks, evaluate, parse
from evalplugin.metrics.scoring import check_request, score_top_n
from evalplugin.metrics.train_data import ItemCategories
from evalplugin.models.selection import NO_ITEM, TopN

GENRES = {"a": "Action", "b": "Comedy", "c": "Action|Comedy", "d": "Drama|War|Action", "e": None}
TRAIN = [{"a", "c", "e"}, {"b"}, {"e"}, set()]  # user 0: Action 3/4, Comedy 1/4


def values(name: str, lists: list[list[str]], **more: object) -> list[float]:
    given = {"truth": [{}] * len(lists), "train": TRAIN, "item_attributes": {"category": GENRES}} | more
    return evaluate(name, lists=lists, **given)


def close(*expected: float) -> object:
    return pytest.approx(list(expected), rel=1e-14, abs=1e-15, nan_ok=True)


def test_calibration() -> None:
    def divergence(q: list[float], p: list[float], alpha: float) -> float:
        return sum(b * log(b / ((1 - alpha) * a + alpha * b)) for a, b in zip(q, p, strict=True) if b)

    p = [3 / 4, 1 / 4]
    assert values("calibration", [["a", "b"]]) == close(divergence([1 / 2, 1 / 2], p, 0.01))
    assert values("calibration(smoothing=0.2)", [["b", "e"]]) == close(divergence([0, 1], p, 0.2))
    # d has a third of its weight in Action; the other thirds are in categories that the user never had.
    assert values("calibration@2", [["d", "a", "b"]]) == close(divergence([2 / 3, 0], p, 0.01))
    assert values("calibration", [["a", "c"], ["b"]]) == close(0, 0)
    # A list with none of the user's categories, or with none at all, has the highest value.
    assert values("calibration", [["e"], ["d", "a"]]) == close(-log(0.01), -log(0.01))


def test_calibration_is_undefined_without_a_list_or_a_categorised_history() -> None:
    assert values("calibration", [[], ["a"], ["a"], ["a"]]) == close(nan, -log(0.01), nan, nan)


def test_category_coverage_and_entropy() -> None:
    lists = [["a", "c"], ["d", "b"], ["e"], []]
    assert values("category_coverage", lists) == close(2 / 4, 4 / 4, 0, nan)
    thirds = -(3 * (1 / 6) * log2(1 / 6) + (1 / 2) * log2(1 / 2))
    assert values("category_entropy", lists) == close(
        -(3 / 4 * log2(3 / 4) + 1 / 4 * log2(1 / 4)), thirds, 0, nan
    )
    assert values("category_entropy@1", lists[:2]) == close(0, log2(3))
    assert values("category_coverage@1", lists[:2]) == close(1 / 4, 3 / 4)


def test_an_attribute_of_numbers_makes_a_category_of_each() -> None:
    prices = {"price": {"a": 1.0, "b": 2.0, "c": 2.0, "d": nan}}
    found = values("category_coverage(attribute=price)", [["b", "c"], ["d"]], item_attributes=prices)
    assert found == close(1 / 2, 0)


def test_empty_and_repeated_parts_of_a_text_do_not_count() -> None:
    texts = np.array(["Action|| Action |Comedy", "|", None, "Comedy"], dtype=object)
    categories = ItemCategories.of(texts)
    assert categories.n == 2
    assert np.diff(categories.indptr).tolist() == [2, 0, 0, 1]
    assert categories.weight.tolist() == [0.5, 0.5, 1.0]


@pytest.mark.parametrize("n_categories", [3, 40])
def test_calibration_and_entropy_are_those_of_scipy(n_categories: int) -> None:
    rng = np.random.default_rng(n_categories)
    users, items, k = 50, 60, 8
    flags = rng.random((items, n_categories)) < 2 / n_categories
    texts = np.array(["|".join(f"c{j}" for j in np.flatnonzero(row)) or None for row in flags], dtype=object)
    weights = flags / np.maximum(flags.sum(axis=1, keepdims=True), 1)
    has = rng.random((users, items)) < 0.15
    user, item = np.nonzero(has)
    train = coded(user, item, users=users, items=items, item_attributes=Attributes({"genres": texts}))  # fmt: skip
    listed = np.argsort(rng.random((users, items)), axis=1)[:, :k].astype(np.int32)
    listed[np.arange(k) >= rng.integers(0, 2 * k, users)[:, None]] = NO_ITEM
    names = [f"calibration(attribute=genres)@{k}", f"category_entropy(attribute=genres)@{k}"]
    top_n = TopN(np.arange(users, dtype=np.int32), listed, np.zeros(listed.shape))
    found = score_top_n(Blocks.of(top_n, train, train=train), [parse(name) for name in names]).values

    for row in range(users):
        chosen = listed[row][listed[row] != NO_ITEM]
        p, q = (weights[index].sum(axis=0) for index in (has[row], chosen))
        p, q = (part / max(part.sum(), 1e-300) for part in (p, q))
        defined = len(chosen) > 0 and p.sum() > 0
        assert isnan(found[row, 0]) != defined
        if defined:
            assert found[row, 0] == pytest.approx(entropy(p, 0.99 * q + 0.01 * p), rel=1e-10)
        if len(chosen) and q.sum():
            assert found[row, 1] == pytest.approx(entropy(q, base=2), rel=1e-10, abs=1e-12)


def test_an_attribute_that_the_items_lack_names_the_nearest_one() -> None:
    specs = [parse("calibration(attribute=genre)@10")]
    with pytest.raises(DataError) as caught:
        check_request(specs, True, (), Attributes({"genres": np.array(["x"], dtype=object)}))
    assert str(caught.value) == (
        "metric calibration(attribute=genre)@10: the items of the dataset: no column 'genre'; did you mean 'genres'?"
    )
    with pytest.raises(DataError, match="these have no attributes: name a table of them in the dataset"):
        check_request(specs, True, (), Attributes())
    with pytest.raises(DataError, match="which lists that were made elsewhere do not have"):
        check_request(specs, True)
