"""Values that a log cannot tell: the rules, and what the verdict and the gate then say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.doubt import doubt_of, weights_of
from evalplugin.features.gate.decide import decide
from evalplugin.features.gate.schema import Gate
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.competition import Competition, Rules
from evalplugin.report.frames import compare_frame
from evalplugin.report.page.data import _metric
from evalplugin.report.page.examples import examples
from evalplugin.report.sentences.verdict import verdict
from evalplugin.report.tables import models_table
from evalplugin.segments import Segmentation

N = 2000
RNG = np.random.default_rng(0)
EQUAL = np.ones(N)
HALF = np.where(np.arange(N) % 2, 2.0, 0.0)  # every second decision counts
PEAKED = np.where(np.arange(N) % 50, 0.0, 50.0)  # one of 50 counts
GOOD, BAD = (RNG.random(N) < 0.6).astype(float), (RNG.random(N) < 0.4).astype(float)

Values = npt.NDArray[np.float64]


def scores(weight: Values, reward: Values, unsupported: float = 0.0, *, ratio: float = 1.0) -> PerUserScores:
    weighted = weight * reward
    mean = weight.mean() * ratio
    value = weighted.sum() / weight.sum()
    columns = {
        "value@1": value + (weighted - value * weight) / mean,
        "value(estimator=ips)@1": weighted,
        "weight@1": weight,
        "unsupported@1": np.full(len(weight), unsupported),
    }
    return PerUserScores(
        Units(np.arange(len(weight)), "user"), np.stack([*columns.values()], 1), tuple(columns)
    )


def contest(**models: PerUserScores) -> Contest:
    rows = tuple(ComparedModel(name, own) for name, own in models.items())
    return Contest("log", "feed", "", rows, ("value@1",), "logging", 1, "digest")


def compared(**models: PerUserScores) -> Comparison:
    return compare(contest(**models))


def reasons(own: PerUserScores, metric: str = "value@1") -> str:
    doubt = doubt_of(own, metric)
    return "" if doubt is None else "; ".join(reason.text for reason in doubt.reasons)


def test_enough_decisions_leave_no_doubt() -> None:
    assert reasons(scores(HALF, GOOD)) == ""
    assert reasons(scores(EQUAL, GOOD)) == ""
    weights = weights_of(scores(HALF, GOOD), "value@1")
    assert weights is not None
    assert weights.effective == pytest.approx(1000)
    assert weights.largest == pytest.approx(2 / N)
    assert weights.low < 1 < weights.high


def test_too_few_effective_decisions_say_how_many_are_needed() -> None:
    own = scores(PEAKED, GOOD)
    assert "40 effective decisions of 2,000 (100 or more are needed)" in reasons(own)
    doubt = doubt_of(own, "value@1")
    assert doubt is not None and doubt.needed == 5000


def test_one_decision_with_much_weight() -> None:
    weight = HALF.copy()
    weight[1] = 200.0
    text = reasons(scores(weight, GOOD))
    assert "one decision has 9.1 % of all weight (1 % or less is allowed)" in text


def test_mean_weight_that_is_not_1() -> None:
    assert "decisions weigh 0.5000 on average" in reasons(scores(HALF / 2, GOOD))
    # What has no support is missing in the mean.
    assert "on average" not in reasons(scores(HALF * 0.6, GOOD, unsupported=0.4))
    assert "on average" in reasons(scores(HALF * 1.4, GOOD, unsupported=0.4))


def test_weights_without_an_interval_must_be_1() -> None:
    # No decision matches: all weigh what epsilon leaves.
    assert "decisions weigh 0.2000 on average, not 1" in reasons(scores(0.2 * EQUAL, GOOD))
    # Four decisions match: too few for an interval.
    few = np.where(np.arange(N) < 4, 250.0, 0.0)
    assert "on average" not in reasons(scores(few, GOOD))


def test_few_rewards() -> None:
    rare = np.zeros(N)
    rare[1:11:2] = 1
    assert "5 effective users with a reward (20 or more are needed)" in reasons(scores(HALF, rare))
    # Of the logging policy too, whose weights are all 1.
    assert reasons(scores(EQUAL, rare)) == "5 effective users with a reward (20 or more are needed)"


def test_no_support() -> None:
    assert reasons(scores(HALF, GOOD, 0.06)) == (
        "6 % of what it shows is never shown in the log (5 % or less is allowed)"
    )


def test_the_same_weights_without_any_decision_that_counts() -> None:
    doubt = doubt_of(scores(np.r_[np.full(3, 1e-300), np.zeros(50)], np.ones(53)), "value@1")
    assert doubt is not None
    none = scores(HALF, GOOD)
    empty = PerUserScores(
        none.units, np.where(np.isin(none.metrics, ["weight@1"]), 0.0, none.values), none.metrics
    )
    doubt = doubt_of(empty, "value@1")
    assert doubt is not None and doubt.needed is None
    assert doubt.reasons[0].text.startswith("0 effective decisions of 2,000")


def test_other_metrics_have_no_doubt() -> None:
    own = PerUserScores(Units(np.arange(2)), np.ones((2, 1)), ("ndcg@10",))
    assert doubt_of(own, "ndcg@10") is None
    alone = PerUserScores(Units(np.arange(2)), np.ones((2, 1)), ("value@1",))
    assert doubt_of(alone, "value@1") is None


def test_no_winner_is_named_where_the_leader_is_in_doubt() -> None:
    comparison = compared(mine=scores(PEAKED, np.ones(N)), logging=scores(EQUAL, BAD))
    said = verdict(comparison)
    assert (said.status, said.label) == ("several", "Cannot tell")
    assert said.headline == (
        "This log cannot tell what mine is worth: 40 effective decisions of 2,000 (100 or more are needed); about "
        "5,000 decisions like these would do."
    )
    assert "5,000 decisions or more" in said.next_step
    assert comparison.may_be_best == ("mine", "logging")
    assert [pair.mark for pair in comparison.pairs] == [""]


def test_models_without_doubt_are_still_compared() -> None:
    comparison = compared(mine=scores(PEAKED, BAD), good=scores(HALF, GOOD), logging=scores(EQUAL, BAD))
    said = verdict(comparison)
    assert said.status == "several"
    assert said.headline.startswith("This log cannot tell what mine is worth")
    assert "good beats logging: " in said.headline
    assert "best" not in said.headline and "best" not in said.name
    assert set(comparison.may_be_best) == {"good", "mine"}


def test_several_doubts_are_told_one_by_one() -> None:
    said = verdict(
        compared(mine=scores(PEAKED, GOOD), other=scores(HALF / 2, GOOD), logging=scores(EQUAL, BAD))
    )
    assert "Nor can it tell what" in said.headline
    assert "other: decisions weigh 0.5000 on average" in " ".join(said.details)


def test_nothing_is_said_of_single_decisions_by_ratios() -> None:
    group = Segmentation("age", ("young", "old"), np.arange(N), np.arange(N, dtype=np.int32) % 2)
    rows = {"good": scores(HALF, np.ones(N)), "logging": scores(EQUAL, BAD)}
    models = tuple(ComparedModel(name, own) for name, own in rows.items())
    metrics = ("value@1", "value(estimator=ips)@1", "weight@1")
    comparison = compare(Contest("log", "feed", "", models, metrics, "logging", 1, "digest", (group,)))
    said = verdict(comparison)
    assert said.headline.startswith("good is the best")
    assert said.details[0].startswith("Offline test with 2,000 users at 95 % confidence.")
    assert not any("better for" in text for text in (*said.details, *said.evidence))
    by_ips = verdict(comparison, "value(estimator=ips)@1")
    assert "good does better for" in by_ips.details[0]

    def shares(metric: str) -> list[str]:
        table = models_table(comparison, metric)
        return [table.rows[0][table.heads.index(head)].text for head in ("better / same / worse", "d_z")]

    assert shares("value@1") == ["– / – / –", "–"]
    assert "–" not in "".join(shares("value(estimator=ips)@1"))
    frame = (
        compare_frame([comparison])
        .dropna(subset="against")
        .set_index("metric")[["effect", "better", "same", "worse"]]
    )
    assert frame.loc["value@1"].isna().all()
    assert frame.loc["value(estimator=ips)@1"].notna().all()
    # Means of groups are contributions to the value.
    assert {cell.metric for cell in comparison.segments} == set(metrics[1:])
    assert comparison.best_in_groups("age", "value@1") == ()
    page = _metric(comparison, {"good": 0, "logging": 1}, "value@1")["pairs"][0]
    assert [page[key] for key in ("above", "equal", "below", "effect")] == [None] * 4
    sample = examples(comparison)
    assert sample is not None and sample["metric"] == "value(estimator=ips)@1"


def test_a_single_value_says_that_no_decision_shows_what_others_would() -> None:
    rows = {"mine": scores(EQUAL, GOOD), "logging": scores(EQUAL, GOOD)}
    for name in ("value", "value@3"):
        models = []
        for model, own in rows.items():
            values = np.full((N, 1), np.nan) if model == "mine" else own.values[:, :1]
            models.append(ComparedModel(model, PerUserScores(own.units, values, (name,))))
        said = verdict(compare(Contest("log", "feed", "", tuple(models), (name,), None, 1, "digest")))
        assert said.headline == (
            f"logging is the only model with a value of {name}. No decision of the log shows what another one would, "
            f"position by position: take fewer positions (@1), or a policy that is nearer to what was shown."
        )


def test_a_model_alone_is_told_too() -> None:
    said = verdict(compared(mine=scores(PEAKED, GOOD)))
    assert (said.status, said.label) == ("none", "Cannot tell")


def test_the_gate_cannot_tell() -> None:
    models = {"mine": scores(PEAKED, np.ones(N)), "logging": scores(EQUAL, BAD)}
    gate = Gate(champion="logging", min_users=10)
    decision = decide(contest(**models), gate, "logging")
    assert (decision.outcome, decision.promoted) == ("cannot_tell", None)
    assert decision.reason.startswith("logging stays: this log cannot tell what mine is worth: 40 effective")
    (condition,) = decision.conditions
    assert condition.note == "few decisions"
    # A champion in doubt is nothing to beat.
    decision = decide(contest(**models), Gate(champion="mine", min_users=10), "mine")
    assert decision.outcome == "cannot_tell"
    # Another challenger is judged all the same.
    decision = decide(contest(**models, good=scores(HALF, GOOD)), gate, "logging")
    assert (decision.outcome, decision.promoted) == ("promote", "good")


def test_the_gate_refuses_assumed_propensities() -> None:
    rows = tuple(
        ComparedModel(name, own)
        for name, own in {"good": scores(HALF, GOOD), "logging": scores(EQUAL, BAD)}.items()
    )
    rules = Rules(None, "digest", 10, "all", None, "hash")
    assumed = Competition(
        assumed="position ** -1, whatever was shown",
        name="log", dataset="feed", split="", models=rows, metrics=("value@1",), baseline="logging", seed=1,
        digest="digest", rules=rules,
    )  # fmt: skip
    decision = decide(assumed, Gate(champion="logging", min_users=10), "logging")
    assert decision.outcome == "refuse"
    assert decision.reason == (
        "the gate cannot decide: The propensities are assumed: position ** -1, whatever was shown; to decide by them "
        "all the same, set gate: {accept: assumed}"
    )
    decision = decide(assumed, Gate(champion="logging", min_users=10, accept="assumed"), "logging")
    assert decision.promoted == "good"
    assert "The propensities are assumed: position ** -1, whatever was shown." in decision.notes
    assert "The propensities are assumed" in " ".join(verdict(compare(assumed)).details)


def test_rewards_are_counted_by_users() -> None:
    clusters = Segmentation("user", tuple("abcdefghij"), np.arange(N), np.arange(N, dtype=np.int32) // 200)
    own = scores(HALF, GOOD)
    by_user = replace(own, units=Units(own.units.ids, "decision", clusters))
    assert "10 effective users with a reward (20 or more are needed)" in reasons(by_user)


def single(metric: str, **columns: Values) -> PerUserScores:
    columns = {metric: np.ones(N), "unsupported@1": np.zeros(N), **columns}
    return PerUserScores(Units(np.arange(N)), np.stack([*columns.values()], 1), tuple(columns))


def test_the_direct_method_never_tells() -> None:
    own = single("value(estimator=dm)@1")
    assert "take dr" in reasons(own, "value(estimator=dm)@1")


def test_clipped_weights_must_average_1() -> None:
    metric = "value(estimator=clipped, bound=2)@1"
    weight = np.where(np.arange(N) % 5, 0.0, 5.0)
    own = single(metric, **{"weight@1": weight})
    assert "clipped weights are 0.4000 on average" in reasons(own, metric)
    assert "on average" not in reasons(single(metric, **{"weight@1": HALF}), metric)


def test_replay_needs_a_uniform_log() -> None:
    metric = "value(estimator=replay)@1"
    match = (np.arange(N) % 2).astype(float)
    columns = {"value(estimator=matches)@1": match * GOOD, "weight(ratio=match)@1": match}
    assert reasons(single(metric, **columns, **{"weight@1": HALF}), metric) == ""
    unequal = np.where(np.arange(N) < 100, HALF * 2, HALF)
    assert "same probability" in reasons(single(metric, **columns, **{"weight@1": unequal}), metric)
