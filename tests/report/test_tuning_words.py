"""How reports say which models were tuned."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from samples import Results

from evalplugin.comparison.comparison import Comparison
from evalplugin.report.documents import compare_markdown, leaderboard_markdown
from evalplugin.report.page import comparison_page
from evalplugin.report.sentences.fits import tuning_lines


@pytest.fixture
def result(make: SimpleNamespace) -> Results:
    models = (
        make.model_result("random", 0.1),
        make.model_result("knn", 0.3, tuning=make.tuning(24, level=0.35)),
        make.model_result("svd", 0.4, tuning=make.tuning(24, level=0.45)),
    )
    return Results(make.bakeoff(("random", "knn", "svd")), models)


@pytest.fixture
def comparison(make: SimpleNamespace, result: Results) -> Comparison:
    (comparison,) = make.comparisons(result)
    return comparison


def test_all_renderers_say_what_was_tuned(result: Results, comparison: Comparison) -> None:
    optimism = {m.model: m.optimism for m in result.models if m.tuning}
    tuned, others = tuning_lines(comparison)
    assert tuned == (
        "Tuned by ndcg@10 within the train data, last_n(n=1); budget: 24 trials each. Optimism, validation against "
        f"test: svd {optimism['svd']:+.4f}, knn {optimism['knn']:+.4f}."
    )
    assert others == "Not tuned: random."
    for text in (compare_markdown([comparison]), leaderboard_markdown(result.plan, [comparison])):
        assert "Tuned by ndcg@10 within the train data" in text
        assert "Not tuned: random" in text
    page = comparison_page([comparison])
    assert page.count('title="24 trials">tuned</span>') == 2
    assert tuned in page


def test_runs_that_were_tuned_otherwise_have_a_line_of_their_own(make: SimpleNamespace) -> None:
    settings = {"split": {"type": "random"}, "metric": "rr", "budget": {"trials": None, "seconds": 600.0}}
    models = (
        make.model_result("knn", 0.3, tuning=make.tuning(24)),
        make.model_result("svd", 0.4, tuning=make.tuning(24, settings=settings, metric="rr")),
    )
    (comparison,) = make.comparisons(Results(make.bakeoff(("knn", "svd"), baseline=None), models))
    lines = tuning_lines(comparison)
    assert len(lines) == 2
    assert lines[0].startswith("Tuned by rr within the train data, random; budget: 600 s. Optimism")
    assert "each" not in lines[0]


def test_nothing_is_said_where_nothing_was_tuned(make: SimpleNamespace) -> None:
    whole = make.whole()
    comparisons = make.comparisons(whole)
    assert tuning_lines(comparisons[0]) == []
    assert ">tuned</span>" not in comparison_page(comparisons)
    assert "uned" not in leaderboard_markdown(whole.plan, comparisons)
