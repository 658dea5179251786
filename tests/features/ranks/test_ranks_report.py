"""Ranks over several datasets in words, in the leaderboard, on the page and as a picture."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from math import nan

import pytest
from samples import comparisons, whole

from evalplugin.cli.show.console import show_table
from evalplugin.features.ranks.feature import (
    rank_png,
    rank_sections,
    rank_svg,
    ranks_headline,
    ranks_lines,
    ranks_table,
)
from evalplugin.features.ranks.ranks import Ranks, rank_models
from evalplugin.report.documents import compare_markdown
from evalplugin.report.notebook import Comparisons


def ranked(n: int, models: str, **more: list[float]) -> Ranks:
    """Return the ranks of models in the same order on each of n datasets."""
    means = {model: [0.5 - 0.1 * i - 0.001 * i * d for d in range(n)] for i, model in enumerate(models)}
    return rank_models("ndcg@10", [f"d{d}" for d in range(n)], means | more, split="last")


def test_words_on_few_datasets() -> None:
    ranks = ranked(3, "abc", broken=[0.1, nan, 0.1])
    assert ranks_headline(ranks) == (
        "a has the best average rank, 1.00, over 3 datasets; no two models are shown to differ."
    )
    lines = list(ranks_lines(ranks))
    assert lines[0] == (
        "3 datasets prove little: even a model that is ahead on all of them could not be shown to differ; with 3 "
        "models that takes at least 7 datasets."
    )
    assert lines[-1] == "broken is left out: it has no value of ndcg@10, or too few, on d1."
    assert any("Friedman's test, p = 0.02" in line for line in lines)
    assert "Friedman's test needs three models" in " ".join(ranks_lines(ranked(2, "ab")))


def test_words_on_enough_datasets() -> None:
    assert ranks_headline(ranked(8, "abc")).endswith(
        "over 8 datasets; it is shown to differ from each of the others (95 % confidence)."
    )
    assert not any("prove little" in line for line in ranks_lines(ranked(8, "abc")))
    near = [0.5 + 0.01 * (-1) ** d for d in range(9)]
    assert "it is shown to differ from b, c (95 % confidence)" in ranks_headline(ranked(9, "abc", a2=near))


def test_words_where_nothing_can_be_said() -> None:
    alone = ranked(2, "a")
    assert ranks_headline(alone) == (
        "Nothing is ranked over 2 datasets: fewer than two models have a value of ndcg@10 on each."
    )
    assert not list(ranks_lines(alone))
    twins = rank_models("ndcg@10", ["x", "y"], {"a": [0.1, 0.2], "b": [0.1, 0.2], "c": [0.1, 0.2]})
    assert ranks_headline(twins) == "The 3 models have the same average rank over 2 datasets."
    assert "nan" not in " ".join(ranks_lines(twins)).lower()
    assert json.loads(json.dumps(asdict(twins), allow_nan=False))["friedman"] == {"statistic": 0.0, "p": 1.0}
    share = ranks_headline(rank_models("ndcg@10", ["x", "y"], {"a": [2, 1], "b": [1, 2], "c": [0, 0]}))
    assert share.startswith("a and b share the best average rank, 1.50, over 2 datasets; ")


def test_table_has_ranks_and_no_means_over_datasets() -> None:
    table = ranks_table(ranked(2, "ab"))
    assert table.title == "Ranks over 2 datasets (last) by ndcg@10"
    assert table.heads == ("model", "average rank", "d0", "d1")
    rows = [" ".join(cell.text for cell in row) for row in table.rows]
    assert rows == ["a 1.00 1 1", "b 2.00 2 2"]


@pytest.mark.parametrize(("n", "models"), [(2, "ab"), (3, "abcdefghijklmnopqrstuvwxyz"), (8, "abc")])
def test_pictures_show_every_model(n: int, models: str) -> None:
    ranks = ranked(n, models)
    svg = rank_svg(ranks, dict.fromkeys(models, "var(--m0)"))
    for row in ranks.models:
        assert f">{row.model}  {row.mean:.2f}</text>" in svg
    assert svg.count("<polyline") == 1 + len(models) * 2 + len(ranks.cliques)


def test_picture_is_png_and_names_are_escaped() -> None:
    ranks = ranked(2, "ab")
    png = rank_png([ranks, ranks], {"a": "#0072B2"})  # b has no colour of its own
    assert png.startswith(b"\x89PNG")
    odd = rank_models(
        "ndcg@10", ["x", "y"], {"<b>$a$": [1, 2], "a name that is much longer than the picture": [0, 0]}
    )
    svg = rank_svg(odd, {})
    assert "&lt;b&gt;$a$" in svg
    assert "<b>" not in svg
    assert "a name that is much lon...  2.00" in svg


def test_notebook_terminal_and_markdown_show_ranks_of_several_datasets_alone(capsys):
    (one,) = comparisons(whole())
    other = replace(one, contest=replace(one.contest, dataset="other", digest="another"))
    title = "Ranks over 2 datasets by ndcg@10"
    assert title in Comparisons((one, other), rank_sections)._repr_html_()
    assert title not in Comparisons((one,), rank_sections)._repr_html_()
    (table,) = Comparisons((one, other), rank_sections).tables
    assert title in compare_markdown((one, other), tables=[table])
    assert not Comparisons((one,), rank_sections).tables
    show_table(table)
    assert title in capsys.readouterr().out
