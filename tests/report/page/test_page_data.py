"""What the page holds is what the comparison says: numbers, words, chosen users, and nothing that runs."""

from __future__ import annotations

import dataclasses
import json
import re
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from colours import contrast

from evalplugin.base.errors import DataError
from evalplugin.base.text import escape_controls
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.report import overlap
from evalplugin.report.charts.palette import BASELINE_COLOUR, IN_THE_DARK, PALETTE
from evalplugin.report.charts.specs import chart_specs
from evalplugin.report.charts.theme import DARK, LIGHT
from evalplugin.report.competition import facts_of
from evalplugin.report.hit_rates import hit_rates
from evalplugin.report.leaderboard import leaderboard
from evalplugin.report.page import comparison_page
from evalplugin.report.page import examples as examples_module
from evalplugin.report.page.data import contest_data
from evalplugin.report.sentences.verdict import MAY_ERR, verdict
from evalplugin.report.tables import overlap_table

MODELS = ("knn", "base", "svd")  # best first


@pytest.fixture(scope="module")
def comparison(contests: SimpleNamespace) -> Comparison:
    return compare(contests.contest(), pairs="all", tests=("wilcoxon", "t"))


@pytest.fixture(scope="module")
def data(comparison: Comparison) -> dict[str, Any]:
    return contest_data(comparison)


def metric(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(m for m in data["metrics"] if m["name"] == name)


def rounded(value: float) -> float:
    return float(f"{value:.6g}")


def test_models_are_numbered_best_first_without_those_that_failed(data: dict[str, Any]) -> None:
    assert tuple(m["name"] for m in data["models"]) == MODELS
    assert data["models"][data["baseline"]]["name"] == "base"


def test_means_and_quantiles_are_those_of_the_cells(data: dict[str, Any], comparison: Comparison) -> None:
    for place, model in enumerate(MODELS):
        row = next(s for s in comparison.models if s.model == model)
        for name, cell in row.cells.items():
            shown = metric(data, name)
            mean, low, high, users, undefined = shown["means"][place]
            assert mean == rounded(cell.mean)
            assert (users, undefined) == (cell.users, cell.undefined)
            if cell.summary is None:
                assert (low, high) == (None, None)
                assert shown["quantiles"][place] is None
            else:
                assert (low, high) == (rounded(cell.low), rounded(cell.high))
                assert shown["quantiles"][place] == [rounded(q) for q in cell.summary.quantiles.tolist()]
                assert shown["spread"][place][1] == rounded(cell.summary.zero_share)


def test_pairs_are_those_of_the_comparison(data: dict[str, Any], comparison: Comparison) -> None:
    held = {
        (m["name"], MODELS[p["model"]], MODELS[p["against"]]): p for m in data["metrics"] for p in m["pairs"]
    }
    assert len(held) == len(comparison.pairs) == 4 * 3
    for pair in comparison.pairs:
        shown = held[pair.metric, pair.model, pair.against]
        interval = pair.paired.interval
        assert shown["difference"] == rounded(interval.mean)
        assert (shown["low"], shown["high"]) == (rounded(interval.low), rounded(interval.high))
        assert (shown["p"], shown["holm"], shown["bh"]) == tuple(
            map(rounded, (pair.p, pair.p_holm, pair.p_bh))
        )
        assert shown["tests"] == {name: rounded(pair.paired.p[name]) for name in ("wilcoxon", "t")}
        assert shown["above"] + shown["equal"] + shown["below"] == pytest.approx(1, abs=1e-5)
        assert (shown["mark"], shown["users"]) == (pair.mark, pair.paired.users)


def test_curves_and_costs_are_those_of_the_models(data: dict[str, Any]) -> None:
    assert data["curves"]["ndcg"]["ks"] == [1, 5, 10, 20]
    assert data["curves"]["ndcg"]["values"][0] == [rounded(0.5 * k / 20) for k in (1, 5, 10, 20)]
    assert data["curves"]["recall"]["values"][0] == [0.5, None]
    assert data["precision"]["recall"] == list(range(0, 101, 10))
    assert data["precision"]["values"][1][10] == rounded(0.3 * (1 - 100 / 200))
    fit, recommend, memory = data["costs"]
    assert fit["values"] == [4.0, 1.0, 2.0]
    assert recommend["values"] == [1000 * 8 / 40, 1000 * 2 / 40, 1000 * 4 / 40]
    assert memory["values"] == [400.0, 100.0, 200.0]


def test_cost_frontier_holds_undominated_models(data: dict[str, Any]) -> None:
    # base is cheapest, knn is best; svd is dearer than base and worse.
    assert [MODELS[i] for i in data["costs"][0]["frontier"]] == ["base", "knn"]


def test_equal_models_are_both_on_the_frontier(contests: SimpleNamespace) -> None:
    users = np.arange(100, 140)
    models = [contests.compared_model(name, 0.4, users, cost=3.0) for name in ("a", "b")]
    data = contest_data(compare(contests.contest(models, baseline=None)))
    assert data["costs"][0]["frontier"] == [0, 1]


def test_of_a_metric_that_is_better_when_lower_the_frontier_is_too(contests: SimpleNamespace) -> None:
    comparison = compare(contests.edges()["lower is better"])
    data = contest_data(comparison)
    assert [m["name"] for m in data["models"]] == ["knn", "base"]
    assert data["costs"][0]["frontier"] == [0]  # as cheap as the other, with the smaller error


def test_segments_are_those_of_the_comparison(data: dict[str, Any], comparison: Comparison) -> None:
    (activity,) = data["segments"]
    assert (activity["labels"], activity["users"]) == (["few", "many"], [20, 20])
    for cell in comparison.segments:
        shown = activity["metrics"][cell.metric][["few", "many"].index(cell.label)][MODELS.index(cell.model)]
        assert shown["mean"] == rounded(cell.interval.mean)
        assert shown["users"] == cell.interval.n
        if cell.difference is not None:
            assert shown["difference"] == rounded(cell.difference.paired.interval.mean)
            assert (shown["holm"], shown["mark"]) == (rounded(cell.difference.p_holm), cell.difference.mark)
        else:
            assert "difference" not in shown


# Users one by one


def worst(comparison: Comparison, first: str, second: str) -> list[str]:
    """Users the first model loses most on, largest loss first."""
    values = {c.model: c.scores.column("ndcg@10") for c in comparison.contest.models if c.scores is not None}
    users = next(c.scores.users for c in comparison.contest.models if c.scores is not None)
    loss = values[second] - values[first]
    order = np.argsort(-loss, kind="stable")
    return [str(users[i]) for i in order if loss[i] > 0]


@pytest.mark.parametrize("places", [120_000, 500])
def test_of_every_pair_the_largest_losses_are_held_without_a_gap(contests, places, monkeypatch):
    monkeypatch.setattr(examples_module, "MAX_ROWS", places)
    comparison = compare(contests.contest())
    held = contest_data(comparison)["examples"]
    for a, b in permutations(range(3), 2):
        depth = held["depth"][a][b]
        expected = worst(comparison, MODELS[a], MODELS[b])
        assert set(expected[:depth]) <= set(held["users"])
        if depth < min(len(expected), examples_module.MAX_PER_PAIR):
            assert expected[depth] not in held["users"]
    if places == 500:  # 3 lists of 10, 30 of the truth and 20 of the history a user
        assert len(held["users"]) == 500 // (3 * 10 + 30 + 20)
    else:
        assert held["depth"][0][1] == len(worst(comparison, "knn", "base"))
        assert held["depth"][1][0] == 20


def test_lists_are_cut_and_hits_and_ranks_are_those_of_the_truth(data: dict[str, Any]) -> None:
    held = data["examples"]
    items = [title for _, title in held["items"]]
    row = next(i for i, user in enumerate(held["users"]) if 100 < int(user) < 120)
    u = int(held["users"][row]) - 100  # holds out items u, u + 7 and u + 14, rated 5, 4 and 2
    base = held["lists"][1]
    assert [items[i] for i in base["items"][row]] == [f"Title {i}" for i in range(u, u + 10)]
    assert base["scores"][row][:2] == [1.0, 0.95]
    assert held["hits"][1][row] == [1, 8]  # the item rated 2 is not relevant
    assert [items[i] for i in held["truth"]["items"][row]] == [f"Title {u + i}" for i in (0, 7, 14)]
    assert held["truth"]["ratings"][row] == [5.0, 4.0, 2.0]
    assert held["truth"]["ranks"][1][row] == [1, 8, 15]
    assert held["truth"]["ranks"][0][row] == [0, 3, 10]  # knn lists from item u + 5 on
    assert [items[i] for i in held["history"]["items"][row]] == [f"Title {u + i}" for i in (30, 31)]
    assert held["groups"][row] == [f"activity: {'many' if u % 2 else 'few'}"]


def test_lists_are_of_the_first_fold(contests: SimpleNamespace) -> None:
    with_folds = contest_data(compare(contests.edges()["folds"]))["examples"]
    assert with_folds["lists"][1]["items"][0] != [0] * 10
    assert len(with_folds["lists"][1]["items"][0]) == 10


def test_only_users_whose_truth_is_known_are_chosen(contests: SimpleNamespace) -> None:
    contest = contests.contest()
    few = contests.background(np.arange(100, 110))
    held = contest_data(compare(dataclasses.replace(contest, background=few)))["examples"]
    assert held["of"] == 10
    assert set(held["users"]) <= {str(u) for u in range(100, 110)}


def test_long_truths_are_cut_and_counted_but_all_hits_are_marked(contests: SimpleNamespace) -> None:
    users = np.arange(100, 104)
    models = [contests.compared_model("base", 0.3, users), contests.compared_model("knn", 0.5, users, seed=1)]
    contest = contests.contest(models, n_users=4)
    user, item = np.repeat(users, 50), np.tile(np.arange(50), 4)
    truth = pa.table({"user": user, "item": item, "rating": np.full(200, 5.0)})
    contest = dataclasses.replace(contest, background=dataclasses.replace(contest.background, truth=truth))
    held = contest_data(compare(contest))["examples"]
    assert {len(items) for items in held["truth"]["items"]} == {30}
    assert set(held["truth"]["counts"]) == {50}
    assert held["hits"][1][0] == list(range(1, 11))


def test_the_sample_is_bounded_however_many_users(contests: SimpleNamespace) -> None:
    users = np.arange(5000)
    models = [contests.compared_model(f"m{i}", 0.2 + 0.05 * i, users, seed=i) for i in range(6)]
    models[0] = contests.compared_model("base", 0.2, users)
    contest = contests.contest(models, n_users=5000, segments=(), background=contests.background(users))
    held = contest_data(compare(contest))["examples"]
    # No more than 20 users for each of 6 x 5 ordered pairs.
    assert 100 < len(held["users"]) <= 6 * 5 * 20
    assert min(held["depth"][a][b] for a, b in permutations(range(6), 2)) == 20


def test_the_size_stays_far_below_the_limit(contests: SimpleNamespace) -> None:
    """10 models x 10 metrics as in a large bake-off; users beyond the sample cost nothing."""
    names = [f"{name}@{k}" for name in ("ndcg", "recall", "precision", "ap", "hit") for k in (5, 10)]
    users = np.arange(1200)
    rng = np.random.default_rng(0)
    models = []
    for i in range(10):
        own = contests.scores(rng.random((1200, 10)) * (rng.random((1200, 10)) < 0.3), names, users)
        models.append(contests.compared_model(f"m{i}", 0.5, users, seed=i, scores=own))
    background = contests.background(users, {i: f"A title of ordinary length {i}" for i in range(60)})
    asked = {"metrics": tuple(names), "baseline": "m0", "background": background}
    page = comparison_page([compare(contests.contest(models, n_users=1200, **asked))])
    assert len(page.encode()) < 3_500_000


# The whole page


def own_part(page: str) -> str:
    """The page without the chart library."""
    before, _, rest = page.partition("/* Vega, Vega-Lite")
    return before + rest.partition("</script>")[2]


@pytest.mark.slow
def test_every_edge_makes_a_page_of_numbers(contests: SimpleNamespace) -> None:
    comparisons = [compare(contest) for contest in contests.edges().values()]
    page = comparison_page(comparisons)
    blocks = re.findall(r'<script type="application/json" class="data">(.*?)</script>', page, re.S)
    assert len(blocks) == len(comparisons)
    for block in blocks:
        json.loads(block, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_the_same_comparison_makes_the_same_page(contests: SimpleNamespace) -> None:
    first, second = (comparison_page([compare(contests.contest())]) for _ in range(2))
    assert first == second


def test_names_ids_and_titles_are_inert(contests: SimpleNamespace) -> None:
    page = own_part(comparison_page([compare(contests.odd())]))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "{{ 7 * 7 }}" in page
    assert "49" not in re.findall(r"<h2>(.*?)</h2>", page)[0]
    plain_page = own_part(comparison_page([compare(contests.contest())]))
    assert page.count("<script") == plain_page.count("<script")
    assert page.count("</script") == plain_page.count("</script")
    block = re.findall(r'<script type="application/json" class="data">(.*?)</script>', page, re.S)[0]
    assert not set(block) & set("<>&\u2028\u2029")
    assert not set(page) & set("\u2028\u202e")
    assert {m["name"] for m in json.loads(block)["models"]} == {*map(escape_controls, contests.ODD)}


def test_nothing_is_fetched(contests: SimpleNamespace) -> None:
    page = own_part(comparison_page([compare(contests.contest())]))
    assert "default-src 'none'" in page
    assert not re.search(r"<(link|img|iframe|script[^>]*\ssrc)", page)


def test_the_title_is_experiment_and_data_or_the_bakeoffs_name(contests: SimpleNamespace) -> None:
    named = compare(dataclasses.replace(contests.contest(), name="R&D"))
    assert f"<title>{named.contest.place}</title>" in comparison_page([named])
    assert "<title>R&amp;D</title>" in comparison_page([named, named])
    known = compare(dataclasses.replace(contests.contest(), experiment="shop"))
    assert f"<title>shop: {known.contest.place}</title>" in comparison_page([known])
    both = comparison_page([known, known])
    assert "<title>shop</title>" in both
    assert both.count(f"<li><b>toy · last_n</b>: {verdict(known).headline}</li>") == 2  # the overview
    assert 'class="overview"' not in comparison_page([known])


def test_a_page_without_comparisons_is_an_error() -> None:
    with pytest.raises(DataError, match="a page needs at least one comparison"):
        comparison_page([])


def test_the_leaderboard_lists_all_metrics_and_what_failed(comparison: Comparison) -> None:
    page = comparison_page([comparison]).replace("<wbr>", "")
    button = r'<th scope="col" class="\w+" data-first="\w+"[^>]*><button type="button">([^<]+)</button>'
    head = re.findall(button, page)
    assert head[: head.index("start")] == ["#", "model", *leaderboard(comparison).heads[2:-5]]
    assert '<span class="name">broken</span>' in page
    assert "broken failed: ValueError: k must be &lt;= 12" in page
    assert "lower is better" in page
    cell = comparison.models[0].cells["ndcg@10"]
    assert f">{cell.mean:.4f}<" in page
    assert f"{cell.low:.4f}–{cell.high:.4f}" in page


def test_the_spread_over_folds_is_shown(contests: SimpleNamespace) -> None:
    page = comparison_page([compare(contests.edges()["folds"])])
    assert "Spread over folds" in page
    assert "0.1000–0.3000" in page
    assert "Lists and truth are of the first fold" in page
    assert "Spread over folds" not in comparison_page([compare(contests.contest())])


# What it says


def test_a_leader_that_is_shown_to_be_the_best(comparison: Comparison) -> None:
    told = verdict(comparison)
    assert (told.status, told.label) == ("one", "Decided")
    assert re.fullmatch(r"knn is the best: its ndcg@10 is \d+ % higher than that of base\.", told.headline)
    pair = comparison.pair("ndcg@10", "knn", "base")
    against, others = told.evidence
    gain = pair.paired
    assert against.startswith(f"knn against base: +{gain.interval.mean:.4f} (+{100 * gain.relative:.0f} %)")
    assert f"p (Holm) < 0.0001; better for {100 * pair.better:.0f} % of users" in against
    assert others == "It is better than the baseline by recall@10, rmse too."


def _few(models: str) -> str:
    return f"Only 29 users have different scores with {models}: below 30, {MAY_ERR}."


@pytest.mark.parametrize(
    ("edge", "status", "headline"),
    [
        ("no baseline", "one", "knn is the best: its ndcg@10 is 68 % higher than that of base."),
        ("one model", "none", "base is the only model with a value of ndcg@10."),
        ("no model", "none", "No model has a value of ndcg@10."),
        ("baseline leads", "one", "No model beats base: the ndcg@10 of the next best, knn, is 37 % lower."),
        (
            "lower is better",
            "one",
            "knn is the best: its rmse is 12 % lower than that of base (lower is better).",
        ),
        (
            "neither is better",
            "none",
            "Neither high nor low is better by popularity@10: no model wins by it.",
        ),
        ("overall only", "none", "knn has the best coverage@10, 0.7500: one number, without a test."),
        ("undefined for all", "none", "base is the only model with a value of ndcg@10."),
    ],
)
def test_verdict_of_each_edge_case(contests: SimpleNamespace, edge: str, status: str, headline: str) -> None:
    told = verdict(compare(contests.edges()[edge]))
    assert (told.status, told.headline) == (status, headline)


def test_few_users_and_a_leading_baseline_are_said(contests: SimpleNamespace) -> None:
    edges = contests.edges()
    assert verdict(compare(edges["no baseline"])).details[0].endswith(_few("knn and base"))
    assert verdict(compare(edges["baseline leads"])).details[0].endswith(_few("base and knn"))


def test_the_page_compares_every_two_models_and_opens_on_the_leader_and_its_rival(contests):
    users = np.arange(100, 140)
    means = [("base", 0.2), ("a", 0.5), ("b", 0.4)]
    models = [contests.compared_model(m, v, users, seed=i) for i, (m, v) in enumerate(means)]
    comparison = compare(contests.contest(models))
    data = contest_data(comparison)
    assert [model["name"] for model in data["models"]] == ["a", "b", "base"]
    assert data["opening"] == [0, 1]
    pairs = {(pair["model"], pair["against"]): pair for pair in data["metrics"][0]["pairs"]}
    assert set(pairs) == {(0, 2), (1, 2), (0, 1)}
    every = compare(contests.contest(models), pairs="all")
    pair = every.pair("ndcg@10", "a", "b")
    assert pairs[0, 1]["difference"] == pytest.approx(pair.paired.interval.mean, rel=1e-5)
    # Those with the baseline are those of the leaderboard's marks.
    own = comparison.pair("ndcg@10", "a", "base")
    assert pairs[0, 2]["holm"] == pytest.approx(own.p_holm, rel=1e-5)


# How it looks


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("text", ["ink", "quiet", "accent", "better", "worse"])
@pytest.mark.parametrize("behind", ["surface", "sunken"])
def test_text_is_readable_in_both_themes(theme: dict[str, str], text: str, behind: str) -> None:
    assert contrast(theme[text], theme[behind]) >= 4.5


@pytest.mark.parametrize("colour", [*PALETTE, BASELINE_COLOUR])
def test_models_can_be_seen_in_the_dark(colour: str) -> None:
    assert contrast(IN_THE_DARK.get(colour, colour), DARK["surface"]) >= 4


def test_charts_hold_no_colour_of_their_own() -> None:
    assert not re.search(r"#[0-9A-Fa-f]{6}", json.dumps(chart_specs()).replace("https://vega.github.io", ""))


def test_overlap_is_shown_of_every_two_models(comparison: Comparison) -> None:
    table = overlap_table(comparison)
    shown = {frozenset(cell.text for cell in row[:2]): (row[2].text, row[3].text) for row in table.rows}
    assert shown == {
        frozenset((pair.model, pair.against)): (f"{pair.rbo:.4f}", f"{pair.jaccard:.4f}")
        for pair in overlap.overlaps(comparison)
    }
    scrolled = '<div class="scroll" tabindex="0" role="group" aria-label="Overlap of lists">'
    assert scrolled in comparison_page([comparison])


def test_the_footnote_says_of_how_many_lists_those_compared_were_drawn(contests, monkeypatch):
    monkeypatch.setattr(overlap, "_MOST_LISTS", 7)
    some = compare(contests.contest())
    top_n = facts_of(some.contest, some.scored[0].model).top_n
    n_lists = len(top_n["user"].unique())
    (footnote,) = overlap_table(some).footnotes
    assert f"places of 7 lists of users, evenly drawn from {n_lists}. rbo:" in footnote


def test_models_without_lists_are_named_and_fewer_than_two_have_no_overlap(contests: SimpleNamespace) -> None:
    contest = contests.contest()
    some = compare(contests.without(contest, "lists", "base"))
    assert [[cell.text for cell in row[:2]] for row in overlap_table(some).rows] == [["knn", "svd"]]
    assert overlap_table(some).footnotes[-1] == "Without lists: base."
    none = compare(contests.without(contest, "lists", *contest.facts))
    assert not overlap_table(none).rows
    assert "<h3>Overlap of lists</h3>" not in comparison_page([none])


def test_hit_rates_are_those_of_the_comparison(comparison: Comparison, data: dict[str, Any]) -> None:
    rates, held = hit_rates(comparison), data["hitRates"]
    assert (held["labels"], held["items"], held["truth"]) == (rates.labels, rates.items, rates.truth)
    assert held["hits"] == [rates.hits[name] for name in MODELS]
    assert held["labels"] == ("2-22", "26-46", "50-70", "74-94", "98-118")
    page = comparison_page([comparison])
    assert "<h3>Hit rate by popularity of items</h3>" in page
    assert "lists, which have 20 items at most. Items are in 5 groups of about as many each" in page


def test_models_without_counts_of_items_are_named_and_without_any_there_are_no_hit_rates(contests):
    contest = contests.contest()
    some = compare(contests.without(contest, "items", "base"))
    held = contest_data(some)["hitRates"]
    assert held["hits"][1] is None
    assert all(held["hits"][::2])
    assert "Without counts of items: base." in comparison_page([some])
    none = compare(contests.without(contest, "items", *contest.facts))
    assert contest_data(none)["hitRates"] is None
    assert "Hit rate by popularity" not in comparison_page([none])
