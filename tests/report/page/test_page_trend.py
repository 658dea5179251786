"""What the page says of the bake-offs before, and of the gate."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.features.gate.decision import Decision
from evalplugin.features.gate.report import decision_statement
from evalplugin.features.history.chart import history_tab
from evalplugin.features.history.feature import trend_section
from evalplugin.features.history.past import PastBakeoff
from evalplugin.report.charts.palette import SHAPES
from evalplugin.report.page import comparison_page
from evalplugin.report.page.data import contest_data
from evalplugin.report.sections import Section


@pytest.fixture(scope="module")
def comparison(contests: SimpleNamespace) -> Comparison:
    return compare(contests.contest())


def shown(comparison: Comparison, past: list[PastBakeoff]) -> dict[str, Any] | None:
    return history_tab(comparison, past, contest_data(comparison)["models"])


def test_trend_colours_current_models_and_greys_past_ones(comparison, contests):
    past = contests.past({"base": 0.3, "old": 0.2}, {"base": 0.31, "knn": 0.5})
    past[1] = replace(past[1], outcome="promote", champion="base", promoted="knn")
    drawn = shown(comparison, past)
    looks = {m["name"]: (m["colour"], m["shape"]) for m in contest_data(comparison)["models"]}
    models = {m["name"]: (m["colour"], m["shape"]) for m in drawn["models"]}
    assert list(models) == ["knn", "base", "old"]
    assert (models["knn"], models["base"]) == (looks["knn"], looks["base"])
    assert models["old"] == ("var(--quiet)", SHAPES[0])
    rows = drawn["figure"]["rows"]
    assert [(row["model"], row["mean"], row["low"], row["high"], row["sign"]) for row in rows] == [
        ("base", 0.3, 0.28, 0.32, ""),
        ("old", 0.2, 0.18, 0.22, ""),
        ("base", 0.31, 0.29, 0.33, ""),
        ("knn", 0.5, 0.48, 0.52, "★"),
    ]
    newest = drawn["figure"]["numbers"][0]["cells"]
    assert newest[:5] == ["bake-off-2", "2026-11-02 03:00", "promote", "knn", "★ promoted"]
    assert newest[5] == {"value": 0.5, "content": ["0.5000"]}
    assert "☆ champion" in rows[2]["text"]


@pytest.mark.parametrize(
    "what", ["nothing", "one bake-off", "another dataset", "another metric", "failed models"]
)
def test_less_than_two_bake_offs_make_no_trend(what, comparison, contests):
    two = contests.past({"base": 0.3}, {"base": 0.4})
    elsewhere = replace(two[0].models[0], dataset="other")
    past = {
        "nothing": [],
        "one bake-off": two[:1],
        "another dataset": [replace(two[0], models=(elsewhere,)), two[1]],
        "another metric": [replace(b, models=tuple(replace(m, values={}) for m in b.models)) for b in two],
        "failed models": contests.past({"base": None}, {"base": 0.4}),
    }[what]
    assert shown(comparison, past) is None
    assert "From one bake-off to the next" not in comparison_page([comparison], [trend_section(lambda: past)])


def test_lines_end_where_others_begin_and_what_was_decided_elsewhere_is_not_shown(comparison, contests):
    past = contests.past({"base": 0.3, "knn": 0.5}, {"base": 0.3, "knn": 0.5})
    other = replace(past[1].models[1], settings="n=20, k=9")
    decided = {"outcome": "promote", "champion": "base", "promoted": "knn"}
    past[1] = replace(past[1], models=(past[1].models[0], other), decided=("other", "last_n"), **decided)
    drawn = shown(comparison, past)
    rows = drawn["figure"]["rows"]
    assert [row["line"] for row in rows if row["model"] == "knn"] == [0, 1]
    assert [row["line"] for row in rows if row["model"] == "base"] == [0, 0]
    assert {(cells[2], cells[4]) for cells in (row["cells"] for row in drawn["figure"]["numbers"])} == {
        ("", "baseline"),
        ("", ""),
    }


def test_the_note_explains_only_what_is_shown(comparison: Comparison, contests: SimpleNamespace) -> None:
    same = {"base": 0.3, "knn": 0.5}
    plain = shown(comparison, contests.past(same, same))
    signs = shown(comparison, contests.past(same, same, outcome="promote", champion="base", promoted="knn"))
    assert plain["note"] == (
        "The latest 2 bake-offs of this experiment on this dataset and split; the data may differ. "
        "Shaded: 95 % interval of the mean."
    )
    assert signs["note"].removeprefix(plain["note"]) == " ★ promoted then."


def test_page_shows_the_gate_decision_on_its_dataset(contests: SimpleNamespace) -> None:
    here, there = (compare(contests.contest(dataset=name)) for name in ("toy", "other"))
    decision = Decision(
        "keep", None, "base", "base stays: <b>", "ndcg@10", 0.95, ("knn",), (), "b", "toy", "last_n"
    )
    gate = Section(statement=decision_statement(decision))
    pages = [comparison_page([comparison], [gate]) for comparison in (here, there)]
    assert "<h2>The champion base stays</h2>" in pages[0]
    assert '<p class="why">base stays: &lt;b&gt;</p>' in pages[0]
    assert '<p class="why">knn is the best: its ndcg@10 is 68 % higher than that of base.</p>' in pages[0]
    assert "The champion base stays" not in pages[1]
    assert (
        "<h2>knn is the best: its ndcg@10 is 68\N{NO-BREAK SPACE}% higher than that of base.</h2>" in pages[1]
    )
    assert "Next: test knn against base on live traffic" not in pages[0]  # the gate says what is next
    assert "Next: test knn against base on live traffic; offline scores do not" in pages[1]
