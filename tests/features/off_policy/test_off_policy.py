"""What a log can tell: values by clip bound, tables, and the sweep over assumed propensities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.comparison.contest import Contest
from evalplugin.data import Interactions
from evalplugin.features.off_policy.diagnostics import BOUNDS, clipped_means, diagnostics_of
from evalplugin.features.off_policy.report import diagnostics_table
from evalplugin.features.off_policy.sweep import ETAS, bent_propensities, order_sentence, told_pair
from evalplugin.metrics import parse
from evalplugin.metrics.scores import PerUserScores, Units

WEIGHT = np.array([0.0, 0.5, 1.0, 8.0])
REWARD = np.array([1.0, 0.0, 1.0, 1.0])


def scores(metric: str, **more: np.ndarray) -> PerUserScores:
    columns = {"weight@1": WEIGHT, "unsupported@1": np.zeros(4), **more}
    columns = {metric: columns.pop("value"), **{name.replace("_", "@"): own for name, own in columns.items()}}
    return PerUserScores(Units(np.arange(4)), np.stack([*columns.values()], axis=1), tuple(columns))


def comparison(n: int = 900) -> Comparison:
    rng = np.random.default_rng(1)
    weight = rng.lognormal(-0.125, 0.5, n)
    reward = (rng.random(n) < 0.5).astype(float)
    ips = "value(estimator=ips)@1"
    rows = [
        ComparedModel(
            name,
            PerUserScores(
                Units(np.arange(n)),
                np.stack([w * reward, w, 0 * w], axis=1),
                (ips, "weight@1", "unsupported@1"),
            ),
        )
        for name, w in {"mine": weight, "logging": np.ones(n)}.items()
    ]
    return compare(Contest("log", "feed", "", tuple(rows), (ips,), "logging", 1, "digest"))


def clipped(own: PerUserScores, metric: str) -> dict[int, float]:
    return dict(zip(BOUNDS, clipped_means(own, parse(metric)), strict=True))


def test_a_value_by_clip_bound_ends_at_the_value() -> None:
    metric = "value(estimator=ips)@1"
    by_bound = clipped(scores(metric, value=WEIGHT * REWARD), metric)
    assert by_bound[1] == pytest.approx((0 + 0 + 1 + 1) / 4)
    assert by_bound[10] == pytest.approx((0 + 0 + 1 + 8) / 4)


def test_a_ratio_by_clip_bound_is_one_of_bounded_weights() -> None:
    own = scores("value@1", value=np.zeros(4), **{"value(estimator=ips)_1": WEIGHT * REWARD})
    by_bound = clipped(own, "value@1")
    assert by_bound[1] == pytest.approx((1 + 1) / (0 + 0.5 + 1 + 1))
    assert by_bound[10] == pytest.approx((1 + 8) / (0 + 0.5 + 1 + 8))


def test_a_clipped_value_is_known_beyond_its_bound() -> None:
    metric = "value(estimator=clipped, bound=2)@1"
    assert clipped(scores(metric, value=np.minimum(WEIGHT, 2) * REWARD), metric)[10] == pytest.approx(
        (1 + 8) / 4
    )


def test_estimators_without_a_weight_have_no_bounds() -> None:
    spec = parse("value(estimator=dr)@1")
    assert clipped_means(scores(spec.name, value=REWARD), spec) == ()


def test_the_table_of_diagnostics() -> None:
    (found,) = diagnostics_of(comparison())
    table = diagnostics_table(found, "The propensities are assumed: so.")
    assert table.heads == (
        "model", "value", "effective decisions", "largest weight", "mean weight", "unsupported", "doubt",
        "w ≤ 1", "w ≤ 2", "w ≤ 5", "w ≤ 10", "w ≤ 50",
    )  # fmt: skip
    by_model = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert by_model["logging"][2:7] == ["900", "0.11 %", "1.0000", "0 %", ""]
    assert by_model["logging"][7:] == [by_model["logging"][1]] * 5  # no weight is above 1
    assert by_model["mine"][7] < by_model["mine"][-1] == by_model["mine"][1]
    assert table.verdict == "This log can tell the values of all these models, as far as their weights show."
    assert table.footnotes[-1] == "The propensities are assumed: so."


def test_other_comparisons_have_no_diagnostics() -> None:
    rows = (ComparedModel("a", PerUserScores(Units(np.arange(3)), np.ones((3, 1)), ("ndcg@10",))),)
    assert diagnostics_of(compare(Contest("log", "feed", "", rows, ("ndcg@10",), None, 1, "digest"))) == ()


def test_each_value_has_diagnostics_except_those_that_accompany_another() -> None:
    one = comparison()
    metrics = ("value(estimator=rips)@1", "value@1", "value(estimator=ips)@1")
    rows = tuple(
        replace(
            row,
            scores=PerUserScores(
                row.scores.units,
                row.scores.values[:, [0, 0, 0, 1, 2]],
                (*metrics, "weight@1", "unsupported@1"),
            ),
        )
        for row in one.contest.models
        if row.scores is not None
    )
    found = diagnostics_of(compare(replace(one.contest, models=rows, metrics=metrics)))
    assert [own.metric for own in found] == ["value(estimator=rips)@1", "value@1"]


def test_an_order_is_told_of_models_whose_values_the_log_can_tell() -> None:
    assert told_pair(("a", "b", "c"), ()) == ("a", "b")
    assert told_pair(("a", "b", "c"), ("b",)) == ("a", "c")
    assert told_pair(("a", "b"), ("b",)) == ()


def log(position: list[int], propensity: list[float]) -> Interactions:
    n = len(position)
    return Interactions(
        user=np.arange(n, dtype=np.int32), item=np.zeros(n, dtype=np.int32), rating=np.ones(n, dtype=np.float32),
        timestamp=None, users=np.arange(n), items=np.arange(1), position=np.array(position, dtype=np.int32),
        propensity=np.array(propensity),
    )  # fmt: skip


def test_shares_of_items_still_sum_to_1() -> None:
    # Two items at one position, shown in 3 of 4 decisions and in one.
    shares = log([1] * 4, [0.75, 0.75, 0.75, 0.25])
    bent = bent_propensities(shares, 2)
    assert bent.tolist() == pytest.approx([0.9, 0.9, 0.9, 0.1])


def test_where_an_order_turns() -> None:
    values = [1.0] * len(ETAS)
    assert order_sentence("a", "b", values, [0.5] * len(ETAS)) == "a stays ahead of b from eta = 0.5 to 2."
    rising = [eta - 0.1 for eta in ETAS]
    assert order_sentence("a", "b", values, rising) == "The order of a and b turns at eta = 1.1."
