from __future__ import annotations

from math import isnan

import numpy as np
import pytest
from samples import coded

from evalplugin.data import Candidates, Interactions
from evalplugin.metrics import Blocks, parse
from evalplugin.metrics.example import apply
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scores import average_folds
from evalplugin.metrics.scoring import score_top_n
from evalplugin.metrics.separation import RECALL_PERCENT, precision_recall_curve
from evalplugin.models import TopN

LEVELS = [parse(f"precision_at_recall(level={percent / 100})") for percent in RECALL_PERCENT]


def drawn(seed: int) -> tuple[TopN, Interactions]:
    rng = np.random.default_rng(seed)
    item = np.argsort(rng.random((200, 30)), axis=1)[:, :20].astype(np.int32)
    user, truth = np.nonzero(rng.random((200, 30)) < rng.choice([0, 0.1, 0.5], (200, 1)))
    top_n = TopN(np.arange(200, dtype=np.int32), item, np.zeros(item.shape))
    return top_n, coded(user, truth, rng.integers(0, 6, len(user)), users=200, items=30)


@pytest.mark.parametrize("threshold", [None, 3.0])
def test_precision_recall_curve_equals_precision_at_recall(threshold: float | None) -> None:
    blocks = Blocks.of(*drawn(1), relevance=Relevance(threshold=threshold))
    curve = np.concatenate([precision_recall_curve(context) for _, context in blocks])
    single = np.column_stack([apply(spec, blocks) for spec in LEVELS])
    assert np.array_equal(curve, single, equal_nan=True)
    assert (np.diff(curve[~np.isnan(curve[:, 0])], axis=1) <= 0).all()


def test_scores_hold_the_mean_curve_where_curves_are_asked_for() -> None:
    top_n, truth = drawn(2)
    scores = score_top_n(Blocks.of(top_n, truth, relevance=Relevance(threshold=3)), LEVELS, (1, 5))
    assert list(scores.pr_curve) == list(range(0, 101, 10))
    for spec, value in zip(LEVELS, scores.pr_curve.values(), strict=True):
        assert value == pytest.approx(scores.means[spec.name], rel=1e-12)
    assert score_top_n(Blocks.of(top_n, truth, relevance=Relevance(threshold=3)), LEVELS).pr_curve == {}


def test_average_folds_averages_the_precision_recall_curve() -> None:
    folds = [score_top_n(Blocks.of(*drawn(seed)), LEVELS, (1,)) for seed in (3, 4)]
    for percent, value in average_folds(folds).pr_curve.items():
        assert value == pytest.approx((folds[0].pr_curve[percent] + folds[1].pr_curve[percent]) / 2)


def test_auc_uses_the_number_of_candidates() -> None:
    truth, train = (coded([0] * len(items), items, users=200, items=3) for items in ([0, 1], [2]))
    top_n = TopN(np.array([0], dtype=np.int32), np.array([[0, 1]], dtype=np.int32), np.zeros((1, 2)))
    auc = parse("auc")

    def value(candidates: Candidates | None) -> float:
        scores = score_top_n(Blocks.of(top_n, truth, candidates=candidates), [auc])
        return float(scores.column("auc")[0])

    assert value(None) == value(Candidates("all")) == 1  # item 2 could have been listed
    assert isnan(value(Candidates("unseen", excluded=train.rows)))
    assert isnan(value(Candidates("judged", included=truth.rows)))
