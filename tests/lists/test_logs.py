"""Lists from anywhere, scored on a log of decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import refusal

import evalplugin
from evalplugin.base.errors import ConfigError
from evalplugin.cli import main
from evalplugin.report.sentences.verdict import verdict

FRAME = pd.DataFrame(
    {
        "decision": ["a", "a", "b", "b", "c", "c"],
        "who": [1, 1, 2, 2, 1, 1],
        "item": [3, 4, 3, 5, 4, 5],
        "slot": [1, 2, 1, 2, 1, 2],
        "reward": [True, False, False, True, True, False],
        "propensity": [0.5, 0.2, 0.5, 0.1, 0.2, 0.3],
    }
)
LISTS = pd.DataFrame(
    {"decision": ["a", "a", "b", "b", "z"], "item": [4, 3, 3, 9, 3], "rank": [1, 2, 1, 2, 1]}
)
EARLIER = FRAME.assign(decision=["x", "x", "y", "y", "w", "w"])
POOL = pd.DataFrame({"decision": list("aaaabbbbcccc"), "item": [3, 4, 5, 9] * 3})


def log(frame: pd.DataFrame = FRAME) -> Any:
    return evalplugin.impressions(frame, user="who", position="slot")


def test_lists_are_scored_decision_by_decision() -> None:
    scored = evalplugin.score(LISTS, log(), ["recall@2", "hit@1"])
    assert scored.scores.users.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(scored.scores.values, [[1, 0], [0, 0], [0, 0]])
    units = scored.scores.units
    assert (units.noun, units.clusters.name, units.codes.tolist()) == ("decision", "user", [0, 1, 0])
    assert scored.unlisted == 1
    assert scored.notes == (
        "left out: 1 decision that the data does not have, such as 'z'",
        "1 of 3 decisions without a list, such as 'c': they score 0",
    )
    by_user = evalplugin.score(LISTS.rename(columns={"decision": "user"}), log(), ["recall@2", "hit@1"])
    np.testing.assert_array_equal(by_user.scores.values, scored.scores.values)


def test_an_earlier_log_is_the_train_data() -> None:
    means = evalplugin.score(LISTS, log(), ["coverage@2", "novelty@1"], train=log(EARLIER)).means
    assert means["coverage@2"] == pytest.approx(3 / 4)
    # Of two users one was rewarded for item 3, and the other for item 5; the second decision of the first for 4.
    assert means["novelty@1"] == pytest.approx(1)


def test_pools_and_systems() -> None:
    assert evalplugin.score(LISTS, log(), ["pool_recall"], pool=POOL).means["pool_recall"] == 1
    scores = LISTS.assign(score=1.0 / LISTS["rank"]).drop(columns="rank")
    compared = evalplugin.score({"ranks": LISTS, "scores": scores}, log(), ["hit@2", "recall@2"])
    assert compared[0].contest.units.noun == "decision"
    assert compared[0].contest.units.clusters.name == "user"


def large() -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Return a log of one item of 20 a decision, and lists of two systems: the best item, and another one."""
    rng, n = np.random.default_rng(3), 1200
    item = rng.integers(20, size=n)
    frame = pd.DataFrame(
        {
            "decision": [f"d{number}" for number in range(n)],
            "who": np.arange(n),
            "item": item,
            "slot": 1,
            "reward": rng.random(n) < np.where(item == 7, 0.9, 0.2),
            "propensity": 1 / 20,
        }
    )
    lists = frame[["decision"]].assign(rank=1)
    return frame, {"good": lists.assign(item=7), "other": lists.assign(item=3)}


def test_systems_are_compared_by_values_of_policies() -> None:
    frame, systems = large()
    metrics = ["value@1", "value(estimator=ips)@1"]
    (compared,) = evalplugin.score(systems, log(frame), metrics).comparisons
    assert compared.contest.primary == "value@1"
    assert {"weight@1", "unsupported@1"} < set(compared.contest.metrics)
    assert not any(name.startswith("effective_decisions") for name in compared.contest.metrics)
    # About 60 of 1,200 decisions show what a system would.
    said = verdict(compared)
    assert said.label == "Cannot tell"
    assert said.headline.startswith("This log cannot tell what good is worth: ")
    message = refusal(evalplugin.score, systems, log(frame), ["effective_decisions@1"])
    assert "a number for all lists together has no differences by user" in message


def test_a_value_that_the_log_cannot_tell_is_noted() -> None:
    frame, systems = large()
    scored = evalplugin.score(systems["good"], log(frame), ["value(estimator=ips)@1", "hit@1"])
    (note,) = scored.notes
    assert note.startswith("lists: this log cannot tell value(estimator=ips)@1: ")
    assert "effective decisions of 1,200 (100 or more are needed); about " in note
    # Not of the values that accompany another one.
    (note,) = evalplugin.score(systems["good"], log(frame), ["value@1"]).notes
    assert "cannot tell value@1" in note
    earlier = frame.assign(decision=frame["decision"] + "x")
    (note,) = evalplugin.score(
        systems["good"], log(frame), ["value(estimator=sndr)@1"], train=log(earlier)
    ).notes
    assert "cannot tell value(estimator=sndr)@1" in note


def test_wrong_input_is_refused() -> None:
    def message(lists: Any = LISTS, **changes: Any) -> str:
        return refusal(evalplugin.score, lists, log(), ["hit@1"], **changes)

    assert "the train data is an earlier log" in message(train=LISTS)
    assert "3 decisions in both logs, such as 'a'" in message(train=log())
    assert "in memory, row by row" in message(memory="2GB")
    assert "decision ids are integers in the lists" in message(LISTS.assign(decision=[1, 1, 2, 2, 3]))
    assert "none is of a decision of the log, which has such as 'a'" in message(LISTS[4:])
    lacking = "the pool lacks 2 of 6 items that the log has shown: the first is item 4 of decision 'a'"
    assert lacking in message(LISTS[2:], pool=POOL.query("item != 4"))
    assert "1 listed item not in the pool, such as 9 of decision 'b'" in message(pool=POOL.query("item != 9"))
    probabilities = LISTS.drop(columns="rank").assign(probability=[0.7, 0.6, 0.5, 0.2, 1.0])
    given = ["value(policy=given)@1"]
    assert "1 decisions exceed 1 in sum, up to 1.3" in refusal(evalplugin.score, probabilities, log(), given)
    assert evalplugin.score(probabilities.assign(probability=0.4), log(), ["hit@1"]).means["hit@1"] == 1 / 3


def test_policies_read_scores_or_probabilities() -> None:
    def value(policy: str, **columns: Any) -> Any:
        lists = LISTS[:4].drop(columns="rank").assign(**columns)
        return evalplugin.score(lists, log(), [f"value(estimator=ips, policy={policy})@1"]).means

    # Decision a showed item 3 with 0.5, and earned 1; b earned nothing; c is not listed.
    name = "value(estimator=ips, policy=given)@1"
    assert value("given", probability=[0.6, 0.4, 0.5, 0.5])[name] == pytest.approx(0.4 / 0.5 / 3)
    whole = POOL[POOL["decision"] != "c"]
    metrics = ["value(estimator=ips, policy=softmax)@1"]
    softmax = evalplugin.score(whole.assign(score=np.log([1, 3, 2, 2] * 2)), log(), metrics)
    assert softmax.means[metrics[0]] == pytest.approx(1 / 8 / 0.5 / 3)
    message = refusal(evalplugin.score, whole.assign(rank=[1, 2, 3, 4] * 2), log(), metrics)
    assert "needs the scores of listed items, and these lists have ranks" in message
    message = refusal(value, "given", rank=[1, 2, 1, 2])
    assert "needs the probabilities of listed items, and these lists have ranks" in message


@pytest.mark.parametrize("pool", [None, POOL])
def test_policies_that_may_show_any_item_need_whole_lists(pool: pd.DataFrame | None) -> None:
    short = LISTS.assign(score=1.0 / LISTS["rank"]).drop(columns="rank")
    for policy in ("softmax", "epsilon"):
        message = refusal(evalplugin.score, short, log(), [f"value(policy={policy})@1"], pool=pool)
        assert "a pool has 4 items, and lists are 2 long" in message


def test_propensities_are_of_the_kind_that_a_metric_needs() -> None:
    metrics = ["value(estimator=iips)@2"]
    assert "needs marginal propensities" in refusal(evalplugin.score, LISTS, log(), metrics)
    marginal = evalplugin.impressions(FRAME, user="who", position="slot", propensities="marginal")
    assert evalplugin.score(LISTS, marginal, metrics).means[metrics[0]] == 0
    assert "needs conditional propensities" in refusal(evalplugin.score, LISTS, marginal, ["value@2"])


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_the_command_reads_a_log_from_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    FRAME.to_csv("feed.csv", index=False)
    LISTS.to_csv("lists.csv", index=False)
    Path("log.yaml").write_text("path: feed.csv\nuser: who\nposition: slot\n")
    asked = [
        "score",
        "--lists",
        "lists.csv",
        "--truth",
        "log.yaml",
        "-m",
        "hit@1",
        "--format",
        "csv",
        "--log",
    ]
    assert main([*asked, "--tracking-uri", "sqlite:///mlflow.db"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("metric,mean,low,high,users,undefined\nhit@1,0.0,")
    Path("log.yaml").write_text("path: feed.csv\nslot: slot\n")
    with pytest.raises(ConfigError, match=r"log\.yaml:2:1: slot: unknown parameter 'slot' of impressions"):
        evalplugin.score("lists.csv", "log.yaml", ["hit@1"])
