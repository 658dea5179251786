"""Agreement with other implementations on random cases: no ties, short and empty lists, users without truth.

Known differences, each shown by a test below:

- trec_eval gives a user without relevant truth 0; here that user is undefined and counted.
- trec_eval leaves out a user without a list; here that user scores 0.
- trec_eval's ndcg without a cutoff has an ideal list of all relevant items, however long; here the ideal list has
  as many places as the lists, so that it can be reached.
- trec_eval takes level * R + 0.9, rounded down, as the hits that a recall level needs, in floating point: where
  level * R is whole but not exact in binary, it needs one hit fewer. Here the product is taken as whole.
- scikit-learn's ndcg_score gives 0 where no item has gain; here that is undefined.
- scikit-learn's roc_auc_score and scipy's correlations are undefined where a side is constant. Here equal
  predictions for a user whose ratings differ are 0, so that who is undefined does not depend on the model.
- trec_eval and scikit-learn order by score and break ties in their own ways; here a list is its order, so the
  cases get scores that fall by rank.
"""

from __future__ import annotations

from functools import cache
from math import isnan

import numpy as np
import pytest
import pytrec_eval
from scipy.stats import kendalltau, spearmanr
from sklearn.metrics import (
    dcg_score,
    mean_absolute_error,
    ndcg_score,
    precision_recall_curve,
    roc_auc_score,
    root_mean_squared_error,
)

from evalplugin.metrics import evaluate

CUTOFFS = (1, 3, 5, 10, 20)
TREC = {
    "ap": "map",
    "rr": "recip_rank",
    "ndcg": "ndcg_cut_20",
    "r_precision": "Rprec",
    "bpref": "bpref",
    "precision_at_recall(level=0)": "iprec_at_recall_0.00",
    "precision_at_recall(level=0.25)": "iprec_at_recall_0.25",
    "precision_at_recall(level=0.5)": "iprec_at_recall_0.50",
    "precision_at_recall(level=1)": "iprec_at_recall_1.00",
    **{f"precision@{k}": f"P_{k}" for k in CUTOFFS},
    **{f"recall@{k}": f"recall_{k}" for k in CUTOFFS},
    **{f"hit@{k}": f"success_{k}" for k in CUTOFFS},
    **{f"ndcg@{k}": f"ndcg_cut_{k}" for k in CUTOFFS},
    **{f"ap@{k}": f"map_cut_{k}" for k in CUTOFFS},
}
Cases = tuple[list[list[str]], list[dict[str, float]]]


@cache
def cases(seed: int, users: int = 400, n_items: int = 30) -> Cases:
    rng = np.random.default_rng(seed)
    lists, truth = [], []
    for _ in range(users):
        length = int(rng.choice([0, 1, 3, 8, 20]))
        lists.append([f"i{i:02d}" for i in rng.permutation(n_items)[:length]])
        judged = rng.permutation(n_items)[: int(rng.choice([0, 1, 2, 5, 25]))]
        truth.append({f"i{i:02d}": float(rng.integers(0, 5)) for i in judged})
    return lists, truth


@cache
def trec(seed: int) -> dict[str, dict[str, float]]:
    """What trec_eval says of the cases of a seed, all its measures at once."""
    lists, truth = cases(seed)
    evaluator = pytrec_eval.RelevanceEvaluator(
        {f"u{u}": {i: int(r) for i, r in row.items()} for u, row in enumerate(truth) if row},
        {"map", "recip_rank", "Rprec", "P", "recall", "success", "ndcg_cut", "map_cut", "bpref"}
        | {"iprec_at_recall.0.0,0.25,0.5,1.0"}
        | {f"{m}.{','.join(map(str, CUTOFFS))}" for m in ("P", "recall", "success", "ndcg_cut", "map_cut")},
    )
    runs = {f"u{u}": {i: float(-r) for r, i in enumerate(row)} for u, row in enumerate(lists) if row}
    return evaluator.evaluate(runs)


@pytest.mark.parametrize("name", TREC)
def test_trec_eval_agrees(name: str) -> None:
    compared = 0
    for seed in range(3):
        lists, truth = cases(seed)
        theirs = trec(seed)
        for user, ours in enumerate(evaluate(name, lists=lists, truth=truth)):
            if not any(truth[user].values()):
                assert isnan(ours)
                assert theirs.get(f"u{user}", {}).get(TREC[name], 0) == 0
            elif not lists[user]:
                assert ours == 0
                assert f"u{user}" not in theirs
            else:
                assert ours == pytest.approx(theirs[f"u{user}"][TREC[name]], abs=1e-12)
                compared += 1
    assert compared > 600


def rankings(seed: int, users: int = 300, n_items: int = 12) -> tuple[np.ndarray, np.ndarray, Cases]:
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((users, n_items)), axis=1)
    rating = np.where(rng.random((users, n_items)) < 0.5, rng.integers(0, 6, (users, n_items)), 0).astype(
        float
    )
    score = np.empty((users, n_items))
    np.put_along_axis(score, order, -np.arange(n_items, dtype=float)[None].repeat(users, axis=0), axis=1)
    lists = [[f"i{i:02d}" for i in row] for row in order]
    return rating, score, (lists, [{f"i{i:02d}": r for i, r in enumerate(row)} for row in rating.tolist()])


@pytest.mark.parametrize("k", [1, 3, 7, 12])
def test_scikit_learn_agrees(k: int) -> None:
    rating, score, (lists, truth) = rankings(k)
    ndcg = evaluate(f"ndcg@{k}", lists=lists, truth=truth)
    dcg = evaluate(f"dcg@{k}", lists=lists, truth=truth)
    for user in range(len(lists)):
        theirs = ndcg_score(rating[user : user + 1], score[user : user + 1], k=k, ignore_ties=True)
        if rating[user].any():
            assert ndcg[user] == pytest.approx(theirs, abs=1e-12)
            assert dcg[user] == pytest.approx(
                dcg_score(rating[user : user + 1], score[user : user + 1], k=k, ignore_ties=True), abs=1e-12
            )
        else:
            assert theirs == 0
            assert isnan(ndcg[user])


def test_scikit_learn_agrees_on_exponential_gain() -> None:
    rating, score, (lists, truth) = rankings(7)
    ours = evaluate("ndcg(gain=exp2)@5", lists=lists, truth=truth)
    for user in np.flatnonzero(rating.any(axis=1)):
        theirs = ndcg_score(2 ** rating[user : user + 1] - 1, score[user : user + 1], k=5, ignore_ties=True)
        assert ours[user] == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("level", [0.1, 0.3, 0.7, 0.9])
def test_trec_eval_reads_recall_at_inexact_levels_one_hit_early(level: float) -> None:
    lists, truth = cases(5)
    evaluator = pytrec_eval.RelevanceEvaluator(
        {f"u{u}": {i: int(r) for i, r in row.items()} for u, row in enumerate(truth) if row},
        {f"iprec_at_recall.{level}"},
    )
    runs = {f"u{u}": {i: float(-r) for r, i in enumerate(row)} for u, row in enumerate(lists) if row}
    theirs = {u: row[f"iprec_at_recall_{level:.2f}"] for u, row in evaluator.evaluate(runs).items()}
    ours = evaluate(f"precision_at_recall(level={level})", lists=lists, truth=truth)
    for user, value in enumerate(ours):
        relevant = sum(rating > 0 for rating in truth[user].values())
        exact = int(level * relevant + 0.9) == -(-round(level * 10) * relevant // 10)
        if relevant and lists[user] and exact:
            assert value == pytest.approx(theirs[f"u{user}"], abs=1e-12)


def test_scikit_learn_agrees_on_auc_of_a_list_of_all_items() -> None:
    compared = 0
    rating, score, (lists, truth) = rankings(0)
    for user, ours in enumerate(evaluate("auc", lists=lists, truth=truth, threshold=3)):
        relevant = rating[user] >= 3
        if 0 < relevant.sum() < len(relevant):
            assert ours == pytest.approx(roc_auc_score(relevant, score[user]), abs=1e-12)
            compared += 1
        else:
            assert isnan(ours)
    assert compared > 200


def test_scikit_learn_agrees_on_interpolated_precision() -> None:
    rating, score, (lists, truth) = rankings(3)
    percents = range(0, 101, 10)
    names = [f"precision_at_recall(level={percent / 100})" for percent in percents]
    ours = [evaluate(name, lists=lists, truth=truth, threshold=3) for name in names]
    for user in np.flatnonzero((rating >= 3).any(axis=1)):
        precision, recall, _ = precision_recall_curve(rating[user] >= 3, score[user])
        for percent, values in zip(percents, ours, strict=True):
            reached = recall[:-1] >= percent / 100 - 1e-9  # the last point is no rank
            assert values[user] == pytest.approx(precision[:-1][reached].max(), abs=1e-12), percent


@pytest.mark.parametrize(("name", "theirs"), [("spearman", spearmanr), ("kendall", kendalltau)])
@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_scipy_agrees_on_rank_correlation(name: str, theirs: object, levels: int) -> None:
    rng = np.random.default_rng(levels)
    truth, predictions = [], []
    for _ in range(400):
        items = rng.permutation(40)[: int(rng.choice([0, 1, 2, 3, 8, 40]))].tolist()
        truth.append(
            dict(zip(items, rng.integers(1, levels + 1, len(items)).astype(float).tolist(), strict=True))
        )
        predictions.append(
            dict(zip(items, rng.integers(0, levels, len(items)).astype(float).tolist(), strict=True))
        )
    ours = evaluate(name, lists=[[]] * len(truth), truth=truth, predictions=predictions)
    compared = 0
    for value, true, predicted in zip(ours, truth, predictions, strict=True):
        if len(set(true.values())) < 2:
            assert isnan(value)
        elif len(set(predicted.values())) < 2:
            assert value == 0
        else:
            assert value == pytest.approx(
                theirs(list(true.values()), list(predicted.values())).statistic, abs=1e-12
            )
            compared += 1
    assert compared > 100


@pytest.mark.parametrize(
    ("name", "theirs"), [("rmse", root_mean_squared_error), ("mae", mean_absolute_error)]
)
def test_pooled_rating_errors_agree_with_sklearn_and_per_user_ones_do_not(name, theirs):
    rng = np.random.default_rng(4)
    truth = [{item: float(rng.integers(1, 6)) for item in range(rng.integers(1, 20))} for _ in range(300)]
    predictions = [{item: float(rng.uniform(1, 5)) for item in row} for row in truth]
    given = {"lists": [[]] * 300, "truth": truth, "predictions": predictions}
    rated = [rating for row in truth for rating in row.values()]
    predicted = [rating for row in predictions for rating in row.values()]
    assert evaluate(f"{name}(pooled=true)", **given) == [pytest.approx(theirs(rated, predicted), rel=1e-12)]
    assert np.mean(evaluate(name, **given)) != pytest.approx(theirs(rated, predicted), rel=1e-3)
