"""The command ``power``."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from samples import small_config, write_config

from evalplugin.cli import main
from evalplugin.comparison.statistics import detectable_gain, users_needed
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import prepare
from evalplugin.features.config import load
from evalplugin.features.power.cli import show_power
from evalplugin.features.power.power import (
    ASSUMED,
    PowerReport,
    PowerTest,
    power_of_config,
    solved,
    spreads_of,
)
from evalplugin.tracking.read.contests import read_contests
from evalplugin.tracking.write.items import Tag
from evalplugin.tracking.write.tracker import MlflowTracker
from evalplugin.workspace import Workspace


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["shop.yaml", "--gain", "0"], "the gain to be found must be above 0, not 0"),
        (["shop.yaml", "--power", "1"], "power must be at least 0.6 and below 1, not 1"),
        (["a.yaml"], "a.yaml: no such file"),
    ],
)
def test_bad_input_is_an_error(asked: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(small_config())
    assert main(["power", *asked]) == 2
    assert told in capsys.readouterr().err


def config(uri: str, **gate: object) -> dict[str, object]:
    return small_config(
        experiment="nightly",
        datasets=[{"name": "shop", "type": "synthetic", "n_users": 40, "n_items": 30, "n_interactions": 600}],
        split={"type": "last_n", "n": 2},
        relevance={},
        metrics=["ndcg@10"],
        models=["popularity", "random", {"name": "other", "type": "random"}],
        compare={"baseline": "popularity"},
        tracking={"uri": uri},
        **({"gate": gate} if gate else {}),
    )


def test_spreads_are_logged_ones_only_where_they_are_asked_for(uri, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write_config(config(uri))
    assert main(["run", file, "--experiment", "nightly"]) == 0
    capsys.readouterr()
    assert main(["power", file, "--format", "json"]) == 0
    assert {row["origin"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"assumed"}
    assert main(["power", file, "--experiment", "nightly", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {row["origin"] for row in report["rows"]} == {"logged"}
    assert {row["users"] for row in report["rows"]} == {40}
    assert main(["power", file, "--experiment", "nights"]) == 2
    assert "has no experiment 'nights'; did you mean 'nightly'?" in capsys.readouterr().err


def test_spreads_are_assumed_and_that_is_said(uri: str) -> None:
    checked = load(config(uri, min_gain=0.01, decisions=30))
    data = prepare(checked, None, Observer())
    found = power_of_config(Workspace.open(checked), data)
    assert found.test == PowerTest(0.95, one_sided=True, comparisons=2, decisions=30)
    assert [(row.origin, row.sd, row.users, row.gain) for row in found.rows] == [
        ("assumed", sd, 40, 0.02) for sd in ASSUMED
    ]
    level = 1 - 0.05 / 60
    assert found.rows[0].detectable == 0.01 + detectable_gain(0.1, 40, level=level, one_sided=True)
    assert found.rows[0].users_needed == users_needed(0.1, 0.01, level=level, one_sided=True)
    assert "spreads of 0.1, 0.2, 0.3 are assumed" in found.notes[0]
    (sentence,) = found.sentences()
    assert sentence.startswith("shop, last_n: with 40 users, a true gain of at least 0.0")
    plain = power_of_config(Workspace.open(load(config(uri))), data)
    assert plain.test == PowerTest(0.95, comparisons=2)
    share = power_of_config(Workspace.open(load(config(uri, min_gain="1 %"))), data)
    assert "min_gain is a share of a mean that is not known yet: gains are above 1 %" in share.notes


def test_a_share_of_a_decision_is_needed_for_a_logged_spread(make, uri, capsys):
    asked = make.bakeoff(("random", "knn"), experiment="nightly")
    tracker = MlflowTracker.open(asked, uri)
    results = [make.model_result("random", 0.2), make.model_result("knn", 0.5)]
    for result in results:
        tracker.start_model(result.data, result.model, result.type)
        tracker.finish_model(result)
    summary = tracker.writer.start("summary", [Tag("evalplugin.role", "summary"), *tracker.common_tags])
    tracker.writer.end(summary, "FINISHED")
    contests = list(read_contests(uri, experiment="nightly", bakeoff="latest"))
    test = PowerTest(comparisons=2, decisions=45, one_sided=True)
    ((spread, _),) = spreads_of(contests[0], "ndcg@10")
    row = solved(test, replace(spread, gain=0.01))
    knn, random = (r.per_user.column("ndcg@10") for r in reversed(results))
    difference = (knn - random)[~np.isnan(knn - random)]
    assert (row.model, row.against, row.users) == ("knn", "random", len(difference))
    assert (row.sd, row.measured) == pytest.approx((difference.std(ddof=1), difference.mean()))
    level = test.confidence
    assert level == pytest.approx(1 - 0.05 / 90)
    assert row.users_needed == users_needed(row.sd, 0.01, level=level, one_sided=True)
    assert row.detectable == detectable_gain(row.sd, row.users, level=level, one_sided=True)
    show_power(PowerReport(test, (row,)))
    out = capsys.readouterr().out
    assert f"{row.users_needed:,} users" in out
    assert "one-sided at 95 % for 2 comparisons in 45 decisions, so 99.944 % each" in out
    # A measured gain may be chance: how many users it needs is no result.
    by_measured = solved(test, replace(spread, gain=spread.measured))
    assert by_measured.users_needed == users_needed(row.sd, row.measured or 0, level=level, one_sided=True)
    show_power(PowerReport(test, (by_measured,)))
    printed = capsys.readouterr().out
    assert " users\n" not in printed
    assert "--gain tells what a gain needs; a measured one may be chance." in printed
