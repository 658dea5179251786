"""Agreement with values that Elliot 0.3.1 and RecBole 1.2.1 computed themselves: experiments/metrics/libraries.py.

Elliot divides items that are as popular as the last one of the head by their order, and ours are all in the head: the
drawn data have none. RecBole weighs the AUC of a user by the number of relevant pairs in place of all pairs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalplugin.metrics import evaluate

Rated = list[dict[int, float]]
GIVEN: dict[str, Any] = json.loads(Path(__file__).with_name("libraries.json").read_text())


def rated(rows: list[list[float]]) -> Rated:
    return [dict(enumerate(row)) for row in rows]


def of_judged(name: str, which: str) -> list[float]:
    truth, predictions = (rated(GIVEN[which][part]) for part in ("truth", "predictions"))
    return evaluate(name, lists=[[]] * len(truth), truth=truth, predictions=predictions)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("aplt", "APLT"),
        ("aclt", "ACLT"),
        ("popularity_opportunity", "PopREO"),
        ("popularity_parity", "PopRSP"),
    ],
)
def test_elliot_agrees_on_popularity_bias(ours: str, theirs: str) -> None:
    values = evaluate(
        f"{ours}@{GIVEN['k']}",
        lists=GIVEN["lists"],
        truth=[set(items) for items in GIVEN["truth"]],
        train=[set(items) for items in GIVEN["train"]],
        catalogue=range(GIVEN["items"]),
    )
    assert np.mean(values) == pytest.approx(GIVEN["elliot"][theirs], rel=1e-12)


def test_recbole_agrees_on_log_loss() -> None:
    assert of_judged("logloss(pooled=true)", "judged") == [
        pytest.approx(GIVEN["recbole"]["logloss"], rel=1e-12)
    ]


def test_recbole_agrees_on_gauc_where_users_have_the_same_share_of_relevant_pairs() -> None:
    assert of_judged("gauc", "balanced") == [pytest.approx(GIVEN["recbole"]["balanced gauc"], rel=1e-12)]


def test_recbole_weighs_users_by_their_relevant_pairs() -> None:
    truth, predictions = (rated(GIVEN["judged"][part]) for part in ("truth", "predictions"))
    auc = [
        evaluate("gauc", lists=[[]], truth=[row], predictions=[predicted])[0]
        for row, predicted in zip(truth, predictions, strict=True)
    ]
    weights = {name: [of(row.values()) for row in truth] for name, of in (("relevant", sum), ("all", len))}
    theirs, ours = (np.average(auc, weights=weights[name]) for name in ("relevant", "all"))
    assert theirs == pytest.approx(GIVEN["recbole"]["gauc"], rel=1e-12)
    assert of_judged("gauc", "judged") == [pytest.approx(ours, rel=1e-12)]
    assert abs(theirs - ours) > 1e-3
