"""The texts of a bake-off of queries: terminal, Markdown, LaTeX, notebook, page, tables of queries, notices."""

from __future__ import annotations

import json
import re
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import samples as make
from samples import small_config

import evalplugin
from evalplugin.base.units import count_text, plural
from evalplugin.cli import main
from evalplugin.cli.show.tables import show_bakeoff
from evalplugin.comparison.compared import metric_cells
from evalplugin.comparison.comparison import compare
from evalplugin.features.gate.decide import decide
from evalplugin.features.gate.report import decision_markdown
from evalplugin.features.gate.schema import Gate
from evalplugin.features.power.power import PowerReport, PowerTest, solved, spreads_of
from evalplugin.metrics import parse
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.documents import compare_latex, compare_markdown, leaderboard_markdown
from evalplugin.report.frames import compare_frame
from evalplugin.report.page import comparison_page
from evalplugin.report.page.data import contest_data
from evalplugin.report.run_summary import summary_markdown

pytestmark = pytest.mark.usefixtures("no_drawing")

DAY = 86_400
N_TESTED = 12
LENGTH = 4  # events of each session
# Sentences with users in the sense of the dataset, and names of options.
OF_THE_DATASET = re.compile(r"users per item|--users|^- user: session$")


def sessions() -> pd.DataFrame:
    """40 sessions of four events among 8 items on one day, and 12 two days later, the last of which repeats an item."""
    rng = np.random.default_rng(5)
    rows = [
        (session, item, (session >= 40) * 2 * DAY + 10 * session + place)
        for session in range(40 + N_TESTED)
        for place, item in enumerate(rng.permutation(8)[:LENGTH].tolist())
    ]
    last = [(51, item, 2 * DAY + 510 + place) for place, item in enumerate((3, 4, 3, 5))]
    return pd.DataFrame([*rows[:-LENGTH], *last], columns=["session", "item", "time"])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A bake-off of 36 queries of 12 sessions."""
    folder = tmp_path_factory.mktemp("queries")
    file = folder / "sessions.csv"
    sessions().to_csv(file, index=False)
    columns = {"user": "session", "item": "item", "timestamp": "time", "duplicates": "keep"}
    config = small_config(
        datasets=[{"name": "shop", "type": "csv", "path": str(file), **columns}],
        split={"type": "next_item"},
        relevance={},
        recommend={"n": 5},
        metrics=["hit@3", "rr@5", "coverage@5"],
        models=["popularity", {"name": "knn", "type": "neighbours.item"}],
        compare={"baseline": "popularity"},
        checks={"ignore": ["EV101", "EV109"]},
    )
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    return SimpleNamespace(outcome=evalplugin.run(config, tracking_uri=uri), uri=uri, folder=folder)


def no_users(text: str) -> None:
    """Check that nothing but a dataset has users."""
    words = (OF_THE_DATASET.sub("", line) for line in text.splitlines())
    assert not [line for line in words if re.search(r"\busers?\b", line, re.I)]


def test_nouns_are_counted_in_words() -> None:
    assert [plural(noun) for noun in ("user", "query", "day")] == ["users", "queries", "days"]
    assert [count_text(n, "query") for n in (0, 1, 1200)] == ["0 queries", "1 query", "1,200 queries"]


def test_notices_of_the_run_count_queries(ran: SimpleNamespace) -> None:
    notes = ran.outcome.models[0].data.notes
    assert "36 queries of 12 sessions" in notes
    assert "segment cold is not shown: all 36 test queries are in one group (with history)" in notes


def test_the_terminal_counts_queries_of_sessions(ran, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    show_bakeoff(ran.outcome, wide=True)
    shown = capsys.readouterr().out
    assert "Queries: 36 of 12 sessions compared." in shown
    assert re.search(
        r"Design effect: \d\.\d( to \d\.\d)? \(the variance of a mean of \S+, against that", shown
    )
    over_sessions = r"Mean of \S+ if each session counts once: \S+ \d\.\d{4} \(\d\.\d{4}–\d\.\d{4}\), \S+ "
    assert re.search(over_sessions, shown)
    no_users(shown)
    assert main(["compare", "--tracking-uri", ran.uri, "--segment", "position"]) == 0
    compared = capsys.readouterr().out
    assert re.search(over_sessions, compared)
    assert "Queries: 36 of 12 sessions compared." in compared
    assert "over the same queries" in compared
    assert "12 queries" in compared  # of a group
    assert "Student's t over sessions" in compared
    no_users(compared)


def test_reports_speak_of_queries(ran: SimpleNamespace) -> None:
    plan, comparisons = ran.outcome.plan, ran.outcome.comparisons
    leaderboard = leaderboard_markdown(plan, comparisons)
    assert "means over queries with" in leaderboard
    assert "Queries: 36 of 12 sessions compared." in leaderboard
    [comparison] = comparisons
    row = next(row for row in comparison.models if row.model == "knn")
    model = next(model for model in ran.outcome.models if model.model == "knn")
    summary = summary_markdown(plan, model, row.cells)
    assert "are over the queries for which a metric is defined; undefined queries are counted" in summary
    assert "| queries at 0 | queries | undefined |" in summary
    assert "hit@3 by group of queries:" in summary
    assert "- test queries: 36" in summary
    for text in (leaderboard, summary, compare_markdown(comparisons), compare_latex(comparisons)):
        no_users(text)
    no_users(evalplugin.compare(tracking_uri=ran.uri)._repr_html_())


def test_means_over_sessions_are_in_json_and_in_the_summary(ran, capsys):
    """They have names of their own beside the means over queries."""
    [comparison] = ran.outcome.comparisons
    assert main(["compare", "--tracking-uri", ran.uri, "--format", "json"]) == 0
    [shown] = json.loads(capsys.readouterr().out)
    for values in shown["rows"]:
        row = next(row for row in comparison.models if row.model == values["model"])
        over = row.cells[values["metric"]].over_clusters
        names = ("clusters", "cluster_mean", "cluster_mean_low", "cluster_mean_high")
        expected = (None,) * 4 if over is None else (N_TESTED, over.mean, over.low, over.high)
        assert tuple(values[name] for name in names) == expected
        assert (over is None) == (values["metric"] == "coverage@5")
    result = next(model for model in ran.outcome.models if model.model == "knn")
    cells = next(row.cells for row in comparison.models if row.model == "knn")
    over = cells["rr@5"].over_clusters
    summary = summary_markdown(ran.outcome.plan, result, cells)
    assert "If each session counts once, by the mean of its queries:" in summary
    row = f"| rr@5 | {over.mean:.4f} | {over.low:.4f}–{over.high:.4f} | {N_TESTED} |"
    assert row in summary.replace("\\", "")
    assert "coverage" not in summary.partition("| mean over sessions |")[2].partition("##")[0]
    no_users(summary)


def test_means_over_clusters_are_left_out_where_users_are_independent() -> None:
    result = make.whole()
    assert not [name for name in compare_frame(make.comparisons(result)) if "cluster" in name]
    model = result.models[0]
    summary = summary_markdown(result.plan, model, make.headline_of(result.plan, model))
    assert "counts once" not in summary


def test_the_page_speaks_of_queries(ran: SimpleNamespace) -> None:
    [comparison] = ran.outcome.comparisons
    page = comparison_page([comparison])
    body = re.sub(r"(?s)<(script|style).*?</\1>", "", page)
    assert "<h3>Query by query</h3>" in body
    assert "<h3>Groups of queries " in body
    assert "Queries for which it is better, the same, worse" in body
    assert "36 queries · ranked by hit@3" in body
    assert "Recommending, per query" in body
    no_users(re.sub(r'class="user"|which-users-lost', "", body))
    data = contest_data(comparison)
    assert [data["unit"], data["units"], data["whom"]] == ["query", "queries", "which"]


def test_the_page_shows_a_query_with_its_session_in_order(ran: SimpleNamespace) -> None:
    [comparison] = ran.outcome.comparisons
    held = contest_data(comparison)["examples"]
    assert held["users"] == [f"{s}:{p}" for s, p in zip(held["sessions"], held["positions"], strict=True)]
    events = {str(session): rows["item"].tolist() for session, rows in sessions().groupby("session")}
    for row, session in enumerate(held["sessions"]):
        items = [int(held["items"][code][0]) for code in held["history"]["items"][row]]
        assert items == events[session][: held["positions"][row]]


def test_the_background_has_repeated_events_latest_first(ran: SimpleNamespace) -> None:
    history = ran.outcome.models[0].data.background.history.to_pandas()
    assert history[history["user"] == "51:3"]["item"].tolist() == [3, 4, 3]


def test_queries_of_two_models_come_with_session_and_position(ran, capsys, monkeypatch):
    table = evalplugin.compare(tracking_uri=ran.uri).users("knn", "popularity")
    names = ["dataset", "split", "user", "session", "position", "metric"]
    assert [*table][: len(names)] == names
    assert (table["session"] + ":" + table["position"].astype(str) == table["user"]).all()
    assert sorted(table["position"].unique()) == [1, 2, 3]
    monkeypatch.chdir(ran.folder)
    monkeypatch.setenv("COLUMNS", "200")
    asked = ["compare", "--tracking-uri", ran.uri, "--users", "knn", "popularity"]
    assert main([*asked, "--out", "queries.csv"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"hit@3 of knn is worse than that of popularity for \d+ queries, better for", shown)
    assert re.search(r"^ session +position +knn +popularity +difference +history", shown, re.MULTILINE)
    assert "first 20 of 36 queries; all of them: --out queries.csv; history: events of the session" in shown
    no_users(shown)
    assert [*pd.read_csv(ran.folder / "queries.csv", nrows=0)] == [*table]


def test_sessions_are_counted_where_queries_have_values() -> None:
    ids = np.array(["a:1", "a:2", "b:1", "b:2", "c:1"], dtype=object)
    values = np.array([[1.0], [0.5], [1.0], [0.0], [np.nan]])
    of_queries = PerUserScores(Units.of_lists(ids, "query"), values, ("rr",))
    assert metric_cells(of_queries, [parse("rr")], 0)["rr"].clusters == 2
    assert metric_cells(replace(of_queries, units=Units(ids)), [parse("rr")], 0)["rr"].clusters is None


@pytest.mark.parametrize("gate", [{"min_users": 100}, {"min_users": 5, "min_gain": 0.5}])
def test_the_gate_decides_on_queries(ran: SimpleNamespace, gate: dict[str, Any]) -> None:
    [comparison] = ran.outcome.comparisons
    asked = Gate(champion="popularity", **gate)
    decision = decide(comparison.contest, asked, champion="popularity")
    text = decision_markdown(decision)
    assert "query by query" in text
    assert "| queries |" in text
    # What is independent is counted: a session has several queries.
    assert ("knn: sessions 12 (needed: at least 100" in decision.reason) == (asked.min_users == 100)
    no_users(text)
    assert json.loads(decision.to_json())["unit"] == "query"


def test_power_speaks_of_queries(ran: SimpleNamespace) -> None:
    [comparison] = ran.outcome.comparisons
    spreads = spreads_of(comparison.contest, comparison.contest.primary)
    rows = tuple(solved(PowerTest(), replace(row, gain=0.1)) for row, _ in spreads)
    [line] = PowerReport(PowerTest(), rows).sentences()
    assert "with 36 queries, a true gain of" in line
    assert "spread of queries' gains" in line


def test_one_bakeoff_of_users_and_queries_counts_both(ran, capsys):
    [comparison] = ran.outcome.comparisons
    contest = comparison.contest
    models = tuple(replace(m, scores=replace(m.scores, units=Units(m.scores.users))) for m in contest.models)
    of_users = compare(replace(contest, split="last_n", models=models))
    outcome = copy(ran.outcome)
    outcome.comparisons = (comparison, of_users)
    show_bakeoff(outcome, wide=True)
    lines = capsys.readouterr().out.splitlines()
    assert "Queries: 36 of 12 sessions compared." in lines
    assert "Users: 36 compared." in lines
    text = leaderboard_markdown(ran.outcome.plan, [comparison, of_users])
    assert "means over queries and users with" in text
