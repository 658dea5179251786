"""Agreement with values that other libraries computed themselves: experiments/metrics/libraries.py.

Elliot 0.3.1, RecBole 1.2.1, RecTools 0.19.0, WarpRec 2.2.8 and torchmetrics 1.9.0. WarpRec and torchmetrics compute in
single precision, so that six digits agree. Each difference of definitions has a test that says how large it is.

Elliot and WarpRec divide items that are as popular as the last one of the head by their order, and ours are all in the
head: the drawn data have none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from samples import overlap_values

from evalplugin.metrics import evaluate

Rated = list[dict[int, float]]
Values = npt.NDArray[np.float64]
GIVEN: dict[str, Any] = json.loads(Path(__file__).with_name("libraries.json").read_text())
K, POWER = GIVEN["k"], GIVEN["power"]
SINGLE = 1e-6  # relative difference of values in single precision


def rated(rows: list[list[float]]) -> Rated:
    return [dict(enumerate(row)) for row in rows]


def of_judged(name: str, which: str) -> list[float]:
    truth, predictions = (rated(GIVEN[which][part]) for part in ("truth", "predictions"))
    return evaluate(name, lists=[[]] * len(truth), truth=truth, predictions=predictions)


def of_lists(name: str, truth: list[list[int]] = GIVEN["truth"], **more: Any) -> Values:
    known = {"train": [set(items) for items in GIVEN["train"]], "catalogue": range(GIVEN["items"])}
    return np.array(
        evaluate(name, lists=GIVEN["lists"], truth=[set(items) for items in truth], **known, **more)
    )


def theirs(library: str, name: str) -> Values:
    return np.array(GIVEN[library][name], dtype=np.float64)


def weights() -> Values:
    """Return the inverse propensities of the items."""
    users = np.bincount(np.concatenate(GIVEN["train"]), minlength=GIVEN["items"])
    return np.maximum(users, 1) ** -POWER


BIAS = {
    "aplt": "APLT",
    "aclt": "ACLT",
    "popularity_opportunity": "PopREO",
    "popularity_parity": "PopRSP",
}.items()


@pytest.mark.parametrize(("ours", "name"), BIAS)
def test_elliot_agrees_on_popularity_bias(ours: str, name: str) -> None:
    assert of_lists(f"{ours}@{K}").mean() == pytest.approx(theirs("elliot", name), rel=1e-12)


@pytest.mark.parametrize(("ours", "name"), BIAS)
def test_warprec_agrees_on_popularity_bias(ours: str, name: str) -> None:
    np.testing.assert_allclose(of_lists(f"{ours}@{K}"), np.atleast_1d(theirs("warprec", name)), rtol=SINGLE)


def test_warprec_agrees_on_popularity_and_counts_an_item_without_train_data_as_one_users() -> None:
    known = set(np.concatenate(GIVEN["train"]).tolist())
    unknown = np.array([sum(item not in known for item in row[:K]) for row in GIVEN["lists"]])
    assert unknown.any()
    np.testing.assert_allclose(
        of_lists(f"popularity@{K}") + unknown / K, theirs("warprec", "ARP"), rtol=SINGLE
    )


@pytest.mark.parametrize(("ours", "name"), [("popularity_opportunity", "REO"), ("popularity_parity", "RSP")])
def test_warprec_agrees_on_groups_of_items_by_an_attribute(ours: str, name: str) -> None:
    genre = {item: "abc"[item % 3] for item in range(GIVEN["items"])}
    (value,) = of_lists(f"{ours}(groups=genre)@{K}", item_attributes={"genre": genre})
    assert value == pytest.approx(theirs("warprec", name), rel=SINGLE)


def test_warprec_agrees_on_weighted_recall() -> None:
    recall = of_lists(f"recall(propensity=popularity, power={POWER})@{K}")
    np.testing.assert_allclose(recall, theirs("warprec", "SNIPSRecall"), rtol=SINGLE)


def test_warprec_divides_weighted_dcg_by_the_weights_and_not_by_the_best_list() -> None:
    ndcg = of_lists(f"ndcg(propensity=popularity, power={POWER})@{K}")
    of_truth = [np.sort(weights()[items])[::-1] for items in GIVEN["truth"]]
    best = np.array([row @ (1 / np.log2(np.arange(2, len(row) + 2))) for row in of_truth])
    np.testing.assert_allclose(
        ndcg * best, theirs("warprec", "SNIPSDCG") * [*map(sum, of_truth)], rtol=SINGLE
    )
    assert (
        theirs("warprec", "SNIPSDCG").sum() < 0.9 * ndcg.sum()
    )  # a perfect list of several items is below 1


def test_recbole_agrees_on_log_loss() -> None:
    assert of_judged("logloss(pooled=true)", "judged") == [
        pytest.approx(GIVEN["recbole"]["logloss"], rel=1e-12)
    ]


def test_warprec_agrees_on_the_log_loss_of_each_user() -> None:
    np.testing.assert_allclose(of_judged("logloss", "judged"), theirs("warprec", "LogLoss"), rtol=SINGLE)


def test_recbole_agrees_on_gauc_where_users_have_the_same_share_of_relevant_pairs() -> None:
    assert of_judged("gauc", "balanced") == [pytest.approx(GIVEN["recbole"]["balanced gauc"], rel=1e-12)]


def auc_of_users() -> Values:
    truth, predictions = (rated(GIVEN["judged"][part]) for part in ("truth", "predictions"))
    return np.array(
        [
            evaluate("gauc", lists=[[]], truth=[row], predictions=[predicted])[0]
            for row, predicted in zip(truth, predictions, strict=True)
        ]
    )


def test_recbole_weighs_users_by_their_relevant_pairs() -> None:
    truth = GIVEN["judged"]["truth"]
    of_relevant, of_all = (
        np.average(auc_of_users(), weights=[of(row) for row in truth]) for of in (sum, len)
    )
    assert of_relevant == pytest.approx(GIVEN["recbole"]["gauc"], rel=1e-12)
    assert of_judged("gauc", "judged") == [pytest.approx(of_all, rel=1e-12)]
    assert abs(of_relevant - of_all) > 1e-3


def test_warprec_counts_one_more_non_relevant_pair_in_the_auc_of_a_user() -> None:
    """Its GAUC is a plain mean over users too, and orders equal predictions by the sort, so users have none here."""
    truth, predictions = GIVEN["judged"]["truth"], GIVEN["judged"]["predictions"]
    distinct = np.array([len(set(row)) == len(row) for row in predictions])
    other = np.array([len(row) - sum(row) for row in truth])
    expected = 1 - (1 - auc_of_users()) * other / (other + 1)
    assert distinct.sum() > 5
    np.testing.assert_allclose(theirs("warprec", "GAUC")[distinct], expected[distinct], rtol=SINGLE)


@pytest.mark.parametrize("bins", [7, 13])
def test_torchmetrics_agrees_on_calibration(bins: int) -> None:
    assert of_judged(f"ece(bins={bins})", "judged") == [
        pytest.approx(GIVEN["torchmetrics"][str(bins)], rel=SINGLE)
    ]


def test_torchmetrics_counts_a_probability_on_a_boundary_in_the_upper_bin() -> None:
    differ = 0
    for relevant, p, value in zip(
        *GIVEN["judged"].values(), GIVEN["torchmetrics"]["4 of users"], strict=True
    ):
        upper, lower = (calibration(relevant, p, number) for number in (np.floor, np.ceil))
        (ours,) = evaluate(
            "ece(bins=4)", lists=[[]], truth=[dict(enumerate(relevant))], predictions=[dict(enumerate(p))]
        )
        assert (ours, value) == (pytest.approx(lower, abs=1e-15), pytest.approx(upper, abs=SINGLE))
        differ += abs(upper - lower) > 1e-3
    assert differ > 10


def calibration(relevant: list[float], p: list[float], rounded: np.ufunc) -> float:
    """Return the calibration error of 4 bins, which a function numbers."""
    number, gap = rounded(np.array(p) * 4), np.subtract(relevant, p)
    return float(sum(abs(gap[number == bin_].sum()) for bin_ in range(5)) / len(p))


def test_rectools_agrees_on_popularity_and_divides_it_by_all_interactions_if_asked() -> None:
    popularity = of_lists(f"popularity@{K}")
    np.testing.assert_allclose(popularity, theirs("rectools", "AvgRecPopularity"), rtol=1e-12)
    share = popularity / sum(map(len, GIVEN["train"]))
    np.testing.assert_allclose(share, theirs("rectools", "AvgRecPopularity(normalize=True)"), rtol=1e-12)


def test_jaccard_follows_from_the_intersection_of_rectools() -> None:
    """It divides by the items of one list, not of either: of lists of k items, jaccard = x / (2 - x)."""
    lists = np.array(GIVEN["lists"], dtype=np.int32)[:, :K]
    _, jaccard = overlap_values(lists, np.roll(lists, -1, axis=0))
    x = theirs("rectools", "Intersection")
    np.testing.assert_allclose(jaccard, x / (2 - x), rtol=1e-12)
    assert 0 < x.mean() < 1


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        ("recall", "Recall"),
        ("ap", "MAP"),
        ("ndcg(gain=binary)", "NDCG(divide_by_achievable=True)"),
        ("hit", "HitRate"),
    ],
)
def test_rectools_debiases_by_leaving_out_truth_and_agrees_on_what_it_keeps(ours: str, name: str) -> None:
    kept = GIVEN["rectools"]["kept"]
    values = np.array(GIVEN["rectools"]["debiased"][name], dtype=np.float64)
    np.testing.assert_allclose(of_lists(f"{ours}@{K}", kept), values, rtol=1e-12)
    assert 0 < sum(map(len, kept)) < sum(map(len, GIVEN["truth"]))
    assert np.nanmax(abs(values - of_lists(f"{ours}@{K}"))) > 0.04
