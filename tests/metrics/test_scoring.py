from __future__ import annotations

from dataclasses import replace
from math import isnan, log2, nan

import numpy as np
import pytest
from samples import coded

from evalplugin.base.errors import DataError, PluginError
from evalplugin.data.interactions import Interactions
from evalplugin.metrics import Blocks, MetricSpec, parse
from evalplugin.metrics.distribution import Distribution
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scores import Counts, PerUserScores, Units, average_folds
from evalplugin.metrics.scoring import score_top_n
from evalplugin.models.selection import NO_ITEM, TopN

USERS = np.array(["ann", "bob", "cat", "dan"], dtype=object)
ITEMS = np.arange(100, 106)


def truth_of(*rows: tuple[int, int, float]) -> Interactions:
    user, item, rating = zip(*rows, strict=True) if rows else ((), (), ())
    return coded(user, item, rating, users=USERS, items=ITEMS)


def lists_of(users: list[int], *lists: list[int]) -> TopN:
    item = np.array(lists, dtype=np.int32).reshape(len(users), -1)
    return TopN(np.array(users, dtype=np.int32), item, np.zeros(item.shape))


def specs(*names: str) -> list[MetricSpec]:
    return [parse(name) for name in names]


FROM_3, FROM_4 = Relevance(threshold=3), Relevance(threshold=4)
# bob's rows come first, cat has no relevant truth at a threshold of 4, dan has truth and no list
TRUTH = truth_of((1, 4, 5.0), (0, 0, 5.0), (0, 2, 3.0), (2, 1, 2.0), (3, 5, 4.0), (1, 3, 4.0))
LISTS = lists_of([0, 1, 2], [0, 1, 2], [1, 3, NO_ITEM], [1, 2, 3])


def test_everybody_with_a_list_or_a_truth_is_scored_by_raw_id() -> None:
    scores = score_top_n(Blocks.of(LISTS, TRUTH), specs("precision@2", "ndcg@3"))
    assert scores.users.tolist() == ["ann", "bob", "cat", "dan"]
    assert scores.metrics == ("precision@2", "ndcg@3")
    assert scores.column("precision@2").tolist() == [1 / 2, 1 / 2, 1 / 2, 0]
    assert scores.column("ndcg@3") == pytest.approx(
        [(5 + 3 / 2) / (5 + 3 / log2(3)), (4 / log2(3)) / (5 + 4 / log2(3)), 1, 0]
    )
    assert scores.means["precision@2"] == (1 / 2 + 1 / 2 + 1 / 2 + 0) / 4
    assert scores.to_frame().loc["bob", "precision@2"] == 1 / 2
    assert scores.to_frame().index.name == "user"


def test_a_threshold_makes_users_undefined_and_they_are_counted() -> None:
    scores = score_top_n(Blocks.of(LISTS, TRUTH, relevance=FROM_4), specs("recall@3", "ndcg@3"))
    assert scores.column("recall@3")[[0, 1, 3]].tolist() == [1, 1 / 2, 0]
    assert isnan(scores.column("recall@3")[2])
    assert isnan(scores.column("ndcg@3")[2])
    assert scores.means["recall@3"] == (1 + 1 / 2 + 0) / 3
    assert scores.counts == {"recall@3": Counts(users=3, undefined=1), "ndcg@3": Counts(3, 1)}


def test_overall_metrics_are_separate_from_user_columns() -> None:
    scores = score_top_n(Blocks.of(LISTS, TRUTH), specs("coverage@1", "rr", "coverage"))
    assert scores.metrics == ("rr",)
    assert scores.overall == {"coverage@1": 2 / 6, "coverage": 4 / 6}
    assert set(scores.means) == {"rr", "coverage@1", "coverage"}
    assert scores.means["coverage"] == 4 / 6


def test_rating_errors_follow_the_rows_of_the_truth() -> None:
    predictions = TRUTH.rating + np.array([1, 2, -4, 0, 0.5, 3])
    scores = score_top_n(
        Blocks.of(LISTS, TRUTH, relevance=FROM_4, predictions=predictions), specs("mae", "rmse")
    )
    assert scores.column("mae").tolist() == [(2 + 4) / 2, (1 + 3) / 2, 0, 0.5]
    assert scores.column("rmse") == pytest.approx([((4 + 16) / 2) ** 0.5, ((1 + 9) / 2) ** 0.5, 0, 0.5])


def test_rating_errors_of_a_model_that_predicts_none_are_undefined() -> None:
    scores = score_top_n(Blocks.of(LISTS, TRUTH), specs("rmse", "rr"))
    assert isnan(scores.means["rmse"])
    assert scores.counts["rmse"] == Counts(users=0, undefined=4)
    assert scores.counts["rr"] == Counts(users=4, undefined=0)


def test_curves_hold_every_family_that_takes_k() -> None:
    asked = specs("ndcg(gain=exp2)@2", "ndcg@3", "ndcg@1", "rr", "coverage@2", "r_precision")
    scores = score_top_n(Blocks.of(LISTS, TRUTH), asked, (1, 2, 3))
    assert list(scores.at_k) == ["ndcg(gain=exp2)", "ndcg", "rr", "coverage"]
    assert all(list(curve) == [1, 2, 3] for curve in scores.at_k.values())
    assert scores.at_k["ndcg"][3] == scores.means["ndcg@3"]
    assert scores.at_k["rr"][1] == (1 + 0 + 1 + 0) / 4
    assert scores.at_k["rr"][3] == scores.means["rr"]
    assert scores.at_k["coverage"] == {1: 2 / 6, 2: 4 / 6, 3: 4 / 6}
    alone = score_top_n(Blocks.of(LISTS, TRUTH), specs("ndcg@2"))
    assert scores.at_k["ndcg"][2] == pytest.approx(alone.means["ndcg@2"], rel=1e-15)
    assert alone.at_k == {}


def test_nobody_to_score_has_no_means() -> None:
    empty = TopN(np.empty(0, np.int32), np.empty((0, 3), np.int32), np.empty((0, 3)))
    scores = score_top_n(Blocks.of(empty, truth_of()), specs("rr", "coverage"), (1,))
    assert (len(scores.users), scores.values.shape) == (0, (0, 1))
    assert isnan(scores.means["rr"])
    assert isnan(scores.at_k["rr"][1])
    assert scores.overall == {"coverage": 0}


def test_the_size_of_a_block_changes_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    users, n, items = 300, 20, 50
    item = np.argsort(rng.random((users, items)), axis=1)[:, :n].astype(np.int32)
    kept = np.flatnonzero(rng.random(users) < 0.8).astype(np.int32)
    row, column = np.nonzero(rng.random((users, items)) < 0.1)
    shuffled = rng.permutation(len(row))
    truth = coded(row[shuffled], column[shuffled], rng.integers(1, 6, len(row)), users=users, items=items)
    top_n = TopN(kept, item[kept], np.zeros((len(kept), n)))
    asked = specs("ndcg@10", "ap", "rr@3", "rbp", "f1@5", "mae", "coverage@3")
    predictions = rng.normal(size=len(row))
    given = {"train": truth, "relevance": FROM_3, "predictions": predictions}
    once = score_top_n(Blocks.of(top_n, truth, **given), asked, (1, 5))
    monkeypatch.setattr("evalplugin.metrics.blocks._CELLS", n * 7)
    again = score_top_n(Blocks.of(top_n, truth, **given), asked, (1, 5))
    assert len(list(Blocks.of(top_n, truth))) > 40
    np.testing.assert_array_equal(once.values, again.values)
    assert once.means == again.means
    assert once.at_k["ndcg"] == pytest.approx(again.at_k["ndcg"], rel=1e-13)


def test_invalid_requests_raise_data_error() -> None:
    with pytest.raises(DataError, match=r"^metric ndcg@3 is requested twice$"):
        score_top_n(Blocks.of(LISTS, TRUTH), specs("ndcg@3", "ndcg(gain=linear)@3"))
    with pytest.raises(DataError, match=r"^a curve's cutoffs start at 1, not at 0$"):
        score_top_n(Blocks.of(LISTS, TRUTH), specs("rr"), (0,))


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (np.zeros(5), "predictions must be one for each of the truth's 6 rows, not of shape (5,)"),
        (
            np.array([1, 1, nan, 1, 1, 1]),
            "the rating predicted for user 'ann' and item 102 must be finite, not nan",
        ),
    ],
)
def test_invalid_predictions_raise_data_error(predictions: np.ndarray, message: str) -> None:
    with pytest.raises(DataError) as caught:
        score_top_n(Blocks.of(LISTS, TRUTH, predictions=predictions), specs("rmse"))
    assert str(caught.value) == message


def fold(users: list[str], values: list[list[float]], coverage: float, curve: float) -> PerUserScores:
    return PerUserScores(
        units=Units(np.array(users, dtype=object)),
        values=np.array(values, dtype=np.float64),
        metrics=("rr", "ap"),
        overall={"coverage": coverage},
        at_k={"rr": {1: curve}},
    )


def test_average_folds_ignores_undefined_values() -> None:
    one = fold(["ann", "cat"], [[1, 0.5], [0, nan]], 0.2, 0.1)
    two = fold(["bob", "cat"], [[0.25, 1], [1, nan]], 0.4, nan)
    both = average_folds([one, two])
    assert both.users.tolist() == ["ann", "bob", "cat"]
    assert both.column("rr").tolist() == [1, 0.25, (0 + 1) / 2]
    assert both.column("ap")[:2].tolist() == [0.5, 1]
    assert isnan(both.column("ap")[2])
    assert both.overall == {"coverage": pytest.approx(0.3)}
    assert both.at_k == {"rr": {1: 0.1}}
    assert both.metrics == ("rr", "ap")


def test_average_folds_of_one_fold_is_that_fold() -> None:
    one = fold(["ann"], [[1, 0.5]], 0.2, 0.1)
    assert average_folds([one]) is one


def test_average_folds_refuses_different_metrics() -> None:
    one = fold(["ann"], [[1, 0.5]], 0.2, 0.1)
    with pytest.raises(DataError, match=r"^there is no fold to average$"):
        average_folds([])
    with pytest.raises(
        DataError, match=r"^fold 1 was scored by rr, f1, coverage, but fold 0 by rr, ap, coverage$"
    ):
        average_folds([one, replace(one, metrics=("rr", "f1"))])


def test_a_summary_leaves_out_and_counts_what_is_undefined() -> None:
    summary = Distribution.of(np.array([0, nan, 0, 1, 3])).summary
    assert (summary.n, summary.undefined, summary.mean, summary.zero_share) == (4, 1, 1, 2 / 4)
    assert summary.std == pytest.approx(((1 + 1 + 0 + 4) / 3) ** 0.5)
    assert (summary.p10, summary.p50, summary.p90) == (0, 0.5, pytest.approx(1 + 0.7 * 2))
    assert summary.quantiles.shape == (101,)
    assert (summary.quantiles[0], summary.quantiles[50], summary.quantiles[100]) == (0, 0.5, 3)


def test_summary_of_too_few_values_is_nan() -> None:
    one, none = (Distribution.of(np.array([value])).summary for value in (2.0, nan))
    assert (one.n, one.mean, one.p50) == (1, 2, 2)
    assert isnan(one.std)
    assert (none.n, none.undefined) == (0, 1)
    assert all(map(isnan, (none.mean, none.std, none.p10, none.zero_share, none.quantiles[7])))


def test_metric_that_needs_train_data_gets_it_or_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = specs("rr")
    monkeypatch.setattr(type(spec.metric), "needs", ("train",))
    with pytest.raises(DataError, match=r"^metric rr needs the train data$"):
        score_top_n(Blocks.of(LISTS, TRUTH), [spec])
    ((_, context),) = Blocks.of(LISTS, TRUTH, train=truth_of((0, 1, 1.0), (1, 1, 1.0), (1, 5, 1.0)))
    assert context.train.counts.tolist() == [0, 2, 0, 0, 0, 1]


def test_a_metric_of_the_wrong_shape_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = specs("rr")
    monkeypatch.setattr(type(spec.metric), "__call__", lambda self, context, k: np.zeros(2))
    with pytest.raises(
        PluginError, match=r"^metric rr must return float64 \(4,\), one value a user, not float64 \(2,\)$"
    ):
        score_top_n(Blocks.of(LISTS, TRUTH), [spec])
