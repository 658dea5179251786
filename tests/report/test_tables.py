"""The texts of a comparison, read back and computed again by other means."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import Results
from scipy import stats

from evalplugin.comparison.compared import Cell
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.execution.results import Costs, ModelResult
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.competition import competitions_of
from evalplugin.report.documents import compare_latex, compare_markdown, leaderboard_markdown
from evalplugin.report.frames import compare_frame, compare_json, frame_csv, segment_frame
from evalplugin.report.sentences.statistics import no_interval
from evalplugin.report.sentences.verdict import (
    group_sentences,
    to_tell_apart,
    verdict,
)
from evalplugin.report.tables import comparison_tables, mean_cell, models_table, pairs_table, segment_table
from evalplugin.segments import Segmentation

USERS = np.arange(200)
HALVES = Segmentation("half", ("first", "second"), USERS, (USERS >= 100).astype(np.int32))
EVIL = "<b>x</b>|*a*_&%$#{}~^\\"


@pytest.fixture
def comparison(make: SimpleNamespace) -> Comparison:
    """Three models and one that failed, against the first one; two groups of users."""
    (contest,) = competitions_of(*make.whole())
    return compare(replace(contest, segments=(HALVES,)), tests=("t", "wilcoxon"))


def compared(
    make: SimpleNamespace, *models: ModelResult, baseline: str | None = "random", **changes: Any
) -> Comparison:
    """Return the comparison of some models, with changes of their contest."""
    (contest,) = competitions_of(make.bakeoff([m.model for m in models], baseline=baseline), models)
    return compare(replace(contest, **changes))


def values(comparison: Comparison, model: str, metric: str) -> Any:
    return next(r for r in comparison.models if r.model == model).scores.column(metric)


def test_the_frame_has_a_row_for_each_model_and_metric(comparison: Comparison) -> None:
    frame = compare_frame([comparison])
    assert list(frame[frame.metric == "ndcg@10"].model) == ["svd", "knn", "random", "broken"]
    assert list(dict.fromkeys(frame.metric)) == list(comparison.contest.metrics)
    row = frame[(frame.metric == "ndcg@10") & (frame.model == "svd")].iloc[0]
    svd, base = (values(comparison, m, "ndcg@10") for m in ("svd", "random"))
    both = svd - base
    both = both[~np.isnan(both)]
    assert row["mean"] == pytest.approx(np.nanmean(svd), abs=1e-15)
    assert (row["rank"], row.users, row.undefined, row.pairs, row.against) == (1, 197, 3, 197, "random")
    assert row.difference == pytest.approx(both.mean(), abs=1e-15)
    assert row.relative == pytest.approx(both.mean() / np.nanmean(base), abs=1e-12)
    assert row.effect == pytest.approx(both.mean() / both.std(ddof=1), abs=1e-12)
    assert (row.better, row.same, row.worse) == ((both > 0).mean(), (both == 0).mean(), (both < 0).mean())
    assert row.p_t == pytest.approx(stats.ttest_1samp(both, 0).pvalue, rel=1e-9)
    assert row.low < row["mean"] < row.high
    assert row.diff_low < row.difference < row.diff_high
    assert (row.p_holm, row.mark) == (pytest.approx(2 * row.p), "+")
    failed = frame[frame.model == "broken"]
    assert set(failed.error) == {"ValueError: k must be <= 12"}
    assert failed["mean"].isna().all()


def test_a_metric_that_is_one_number_a_model_has_neither_interval_nor_difference(comparison):
    frame = compare_frame([comparison], ["coverage@10"]).set_index("model")
    assert frame.loc["svd", "mean"] == 0.5
    assert frame.loc[["svd", "knn", "random"], ["low", "high", "difference", "p"]].isna().all(axis=None)


def test_csv_and_json_hold_every_digit_of_the_frame(comparison: Comparison) -> None:
    frame = compare_frame([comparison])
    rows = list(csv.DictReader(io.StringIO(frame_csv(compare_frame([comparison])))))
    (read,) = json.loads(compare_json([comparison]))
    assert len(rows) == len(read["rows"]) == len(frame)
    for column in frame.columns:
        for i, value in enumerate(frame[column]):
            from_csv, from_json = rows[i][column], read["rows"][i][column]
            if pd.isna(value):
                assert (from_csv, from_json) == ("", None)
            elif isinstance(value, str):
                assert (from_csv, from_json) == (value, value)
            elif column == "may_be_best":
                assert (from_csv, from_json) == (str(value), value)
            else:
                assert (float(from_csv), from_json) == (value, value)
    assert rows[0]["users"] == "197"


def test_json_has_metrics_baseline_level_and_rules(comparison: Comparison) -> None:
    (read,) = json.loads(compare_json([comparison], ["rr"], "half"))
    assert read["name"] == comparison.contest.name
    assert (read["dataset"], read["primary"], read["baseline"]) == ("toy", "ndcg@10", "random")
    assert (read["metrics"], read["level"], read["pairing"]) == (["rr"], 0.95, "baseline")
    assert read["rules"] == comparison.contest.rules.shown()
    assert set(read["verdicts"]) == {"rr"}
    assert {row["metric"] for row in read["rows"] + read["segments"]} == {"rr"}


def test_groups_are_computed_over_their_users_alone(comparison: Comparison) -> None:
    frame = segment_frame([comparison], "half", ["rr"])
    assert len(frame) == 2 * 3
    row = frame[(frame.group == "second") & (frame.model == "knn")].iloc[0]
    knn, base = (values(comparison, m, "rr")[100:] for m in ("knn", "random"))
    assert (row["mean"], row.users) == (pytest.approx(knn.mean(), abs=1e-15), 100)
    assert row.difference == pytest.approx((knn - base).mean(), abs=1e-15)
    table = segment_table(comparison, "rr", "half")
    assert [r[0].text for r in table.rows] == ["first", "", "", "second", "", ""]
    assert [r[0].small for r in table.rows][::3] == ["97 users", "100 users"]
    assert frame_csv(compare_frame([comparison], ["rr"], "half")).count("\n") == 1 + 6


def test_groups_say_which_models_may_be_the_best_in_each(make: SimpleNamespace) -> None:
    base = make.model_result("base", 0.4)
    mixed = base.per_user.values.copy()
    mixed[3:100] += 0.2
    mixed[100:] -= 0.1
    models = (
        base,
        make.model_result("mixed", scores=replace(base.per_user, values=mixed)),
        make.model_result("same", scores=base.per_user),
    )
    comparison = compared(make, *models, baseline="base", segments=(HALVES,))
    table = segment_table(comparison, "rr", "half")
    assert table.verdict == "first: mixed is the best. second: base and same may be the best."
    # Over both halves mixed leads, which is not so for the second one.
    assert group_sentences(comparison, "rr") == [
        'But in the group "second" of half, base and same may be the best.'
    ]
    frame = segment_frame([comparison], "half", ["rr"]).set_index(["group", "model"])["may_be_best"]
    assert frame["first"].to_dict() == {"mixed": True, "base": False, "same": False}
    assert frame["second"].to_dict() == {"mixed": False, "base": True, "same": True}


def test_groups_made_from_held_out_items_name_no_winner(make: SimpleNamespace) -> None:
    models = (make.model_result("base", 0.4), make.model_result("other", 0.6))
    halves = replace(HALVES, from_truth=True)
    comparison = compared(make, *models, baseline="base", segments=(halves,))
    assert group_sentences(comparison, "rr") == []
    assert not any("group" in sentence for sentence in verdict(comparison).details)
    table = segment_table(comparison, "rr", "half")
    assert table.verdict == (
        "These groups are made from the held-out items, which nobody knows when a list is made: they show where scores "
        "come from, and no winner is named."
    )
    assert len(table.rows) == 4
    assert segment_frame([comparison], "half", ["rr"])["may_be_best"].isna().all()


def lines_of(comparison: Comparison, metric: str) -> tuple[str, ...]:
    """Return the footnotes of the tables of a metric."""
    return tuple(line for table in comparison_tables(comparison, [metric]) for line in table.footnotes)


def test_every_two_models_have_a_row_of_their_own(make: SimpleNamespace) -> None:
    (contest,) = competitions_of(*make.whole())
    comparison = compare(contest, pairs="all")
    frame = compare_frame([comparison], ["rr"])
    pairs = frame[frame.against.notna()][["model", "against"]]
    assert {frozenset(pair) for pair in pairs.itertuples(index=False, name=None)} == {
        frozenset(pair) for pair in (("svd", "knn"), ("svd", "random"), ("knn", "random"))
    }
    assert len(pairs_table(comparison, "rr").rows) == 3
    assert "difference" not in models_table(comparison, "rr").heads
    assert "Holm's correction over 3 comparisons by rr" in " ".join(lines_of(comparison, "rr"))


def test_markdown_reads_back_as_the_numbers(comparison: Comparison) -> None:
    text = compare_markdown([comparison])
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")]
    heads = [head.strip().replace("\\", "") for head in rows[0]]
    svd = dict(zip(heads, (cell.strip().replace("\\", "") for cell in rows[2]), strict=True))
    frame = compare_frame([comparison], ["ndcg@10"]).set_index("model")
    assert svd["model"] == "svd"
    assert svd["mean"].startswith(f"{frame.loc['svd', 'mean']:.4f} ")
    assert svd["difference"].startswith(f"**+{frame.loc['svd', 'difference']:.4f}** ▲ ")
    assert frame.loc["svd", "p_holm"] < 0.0001
    assert svd["p (Holm)"] == "&lt; 0.0001"
    assert [row[1].strip() for row in rows[2:]] == ["svd", "knn", "random (baseline)"]
    assert "broken failed: ValueError: k must be &lt;= 12" in text


def test_headings_say_whether_a_rating_error_is_per_user_or_pooled(make: SimpleNamespace) -> None:
    scores = make.per_user(0.4)
    scores = replace(
        scores, metrics=("rmse", *scores.metrics[1:]), overall={"rmse(pooled=true)": 0.9, "coverage@10": 0.1}
    )
    asked = make.bakeoff(("random", "knn"), metrics=("rmse", "rmse(pooled=true)"), primary="rmse")
    result = Results(asked, tuple(make.model_result(name, scores=scores) for name in asked.models))
    (comparison,) = make.comparisons(result)
    assert models_table(comparison, "rmse").title.endswith("rmse per user, lower is better")
    assert "rmse(pooled=true), lower is better" in models_table(comparison, "rmse(pooled=true)").title
    heads = leaderboard_markdown(asked, [comparison]).splitlines()[6]
    assert heads.startswith(r"|  | model | rmse per user | rmse\(pooled=true\) |")
    assert "it has no interval and no test" in " ".join(lines_of(comparison, "rmse(pooled=true)"))


def test_names_are_inert_in_markdown_and_latex(make: SimpleNamespace) -> None:
    models = (make.model_result("base", 0.1), make.model_result(EVIL, 0.4))
    comparison = compared(make, *models, baseline="base")
    assert "<b>" not in compare_markdown([comparison])
    assert r"&lt;b&gt;x&lt;/b&gt;\|\*a\*\_&amp;%\$\#\{\}\~^\\" in compare_markdown([comparison])
    body = compare_latex([comparison])
    assert (
        r"$<$b$>$x$<$/b$>$$|${*}a{*}\_\&\%\$\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}" in body
    )
    assert not re.search(r"(?<!\\)[%#]", body.partition("\n")[2])


def test_latex_is_a_booktabs_table_with_balanced_columns(comparison: Comparison) -> None:
    text = compare_latex([comparison], ["rr", "recall@10"])
    assert text.startswith("% \\usepackage{booktabs}\n")
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == text.count(r"\begin{table}") == 2
    columns = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", text)
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert {line.count(" & ") + 1 for line in lines} == {len(columns[0])}
    svd = next(line for line in lines if line.startswith("1 & svd"))
    frame = compare_frame([comparison], ["rr"]).set_index("model")
    assert f"& {frame.loc['svd', 'mean']:.4f} {{\\scriptsize " in svd
    assert f"& +{frame.loc['svd', 'difference']:.4f}$^{{+}}$ " in svd


def said(comparison: Comparison, metric: str = "rr") -> str:
    return str(verdict(comparison, metric))


def test_the_verdict_says_what_is_known_for_whom_and_at_what_cost(comparison, make):
    row = compare_frame([comparison], ["ndcg@10"]).iloc[0]
    told = verdict(comparison, "ndcg@10")
    assert told.headline == f"svd is the best: its ndcg@10 is {1 + row.relative:.1f} times that of random."
    whom, costs = told.details
    assert whom == (
        f"Offline test with {row.users} users at 95 % confidence: svd does better for {100 * row.better:.0f} % of "
        f"them, random for {100 * row.worse:.0f} %."
    )
    assert re.fullmatch(r"Training and all lists: svd [\d.]+ s and .* MB; random [\d.]+ s and .* MB\.", costs)
    assert told.next_step == (
        "Next: test svd against random on live traffic; offline scores do not show what people will do."
    )
    assert str(told) == " ".join([told.headline, whom, costs, told.next_step])
    assert told.lines(is_gated=True) == [whom, costs]  # a gate says what happens next
    assert told.evidence[0] == (
        f"svd against random: +{row.difference:.4f} (+{100 * row.relative:.0f} %), 95 % interval {row.diff_low:.4f} to "
        f"{row.diff_high:.4f}; p (Holm) < 0.0001; better for {100 * row.better:.0f} % of users, worse for "
        f"{100 * row.worse:.0f} %."
    )
    assert (
        said(comparison, "coverage@10") == "svd has the best coverage@10, 0.5000: one number, without a test."
    )

    def against(baseline: str | None, *models: Any) -> Comparison:
        return compared(make, *models, baseline=baseline)

    best, poor = make.model_result("best", 0.5), make.model_result("poor", 0.1)
    told = verdict(against("best", best, poor), "rr")
    assert re.fullmatch(
        r"No model beats best: the rr of the next best, poor, is \d\d % lower\.", told.headline
    )
    assert re.match(
        r"best is the best: its rr is \d\.\d times that of poor\. Offline test with 197 users at 95 % confidence\.",
        said(against(None, best, poor)),
    )
    scores = best.per_user
    nudged = scores.values.copy()
    nudged[10:20] += 0.01
    nudged[20:30] -= 0.009
    close = make.model_result("close", scores=replace(scores, values=nudged))
    told = verdict(against("best", best, close), "rr")
    # How many more users would tell them is noise, and no part of a verdict.
    assert re.fullmatch(
        r"No model is shown to beat best: the rr of close is 0\.0 % higher, which may be chance with 197 users\.",
        told.headline,
    )
    (detail,) = to_tell_apart(against("best", best, close).best["rr"], Units(np.empty(0)))
    assert detail.startswith(
        "How many more users tell close from best depends on the true difference, which may be 0: "
    )
    assert re.search(
        r": 197 users show one of 0\.0\d+ in 4 of 5 bake-offs, 788 one of half the size\.$", detail
    )
    assert detail in lines_of(against("best", best, close), "rr")
    assert "may be chance (p (Holm) = " in " ".join(told.evidence)
    assert said(against("close", close, best)).startswith(
        "No model is shown to beat close. best may be as good."
    )
    assert said(against(None, best, close)).startswith(
        "This test cannot tell which of close and best is the best by rr."
    )
    assert said(against(None, best)) == "best is the only model with a value of rr."
    assert said(against(None, make.failed_result("f"))) == "No model has a value of rr."


@pytest.mark.parametrize(
    ("means", "headline"),
    [
        (
            {"ease": 0.5, "als": 0.5},
            "ease and als beat popularity: +67 % and +67 % rr. This test cannot tell which of them is better.",
        ),
        (
            {"ease": 0.5, "als": 0.5, "bpr": 0.5},
            "ease, als and bpr beat popularity: +67 %, +67 % and +67 % rr. This test cannot tell which of them is",
        ),
        ({"ease": 0.3}, "No model is shown to beat popularity. ease may be as good."),
        ({"ease": 0.32}, "ease is the best: its rr is 6.7 % higher than that of popularity."),
    ],
)
def test_several_models_that_beat_the_baseline_are_named_first(make, means, headline):
    base = make.model_result("popularity", 0.3).per_user
    values = {name: np.full_like(base.values, mean) for name, mean in ({"popularity": 0.3} | means).items()}
    models = [make.model_result(n, scores=replace(base, values=v)) for n, v in values.items()]
    assert said(compared(make, *models, baseline="popularity")).startswith(headline)


def near(
    make: SimpleNamespace,
    means: dict[str, float],
    *,
    seconds: float = 4.0,
    noise: dict[str, float] | None = None,
    **changes: Any,
) -> Comparison:
    """Return the comparison of models with these means and some noise, each twice as fast as the one before it."""
    rng = np.random.default_rng(1)
    base, models = rng.uniform(0.1, 0.3, 200), []
    for name, mean in means.items():
        values = base + rng.normal(0, (noise or {}).get(name, 0.05), 200)
        values += mean - values.mean()
        scores = PerUserScores(Units(USERS), values[:, None], ("ndcg@10",))
        models.append(make.model_result(name, scores=scores, costs=Costs(seconds, peak_memory_mb=40.0)))
        seconds /= 2
    return compared(make, *models, **changes)


@pytest.mark.parametrize(
    ("means", "changes", "costs", "next_step"),
    [
        (
            {"als": 0.5, "base": 0.2},
            {"baseline": "base"},
            "Training and all lists: als 4 s and 40 MB; base 2 s and 40 MB.",
            "Next: test als against base on live traffic; offline scores do not show what people will do.",
        ),
        (
            {"als": 0.5, "knn": 0.2},
            {"baseline": None},
            "Training and all lists: als 4 s and 40 MB; knn 2 s and 40 MB.",
            "Next: test als against knn on live traffic; offline scores do not show what people will do.",
        ),
        (
            {"als": 0.501, "knn": 0.5, "base": 0.2},
            {"baseline": "base"},
            "Training and all lists: als 4 s and 40 MB; knn 2 s and 40 MB; base 1 s and 40 MB.",
            "Next: test the fastest of them, knn, on live traffic, or repeat this with more users; with 800, a gap "
            "half as large would show.",
        ),
        (
            {"als": 0.501, "knn": 0.5, "base": 0.2},
            {"baseline": "base", "seconds": math.nan},
            None,
            "Next: repeat this with more users; with 800, a gap half as large would show.",
        ),
        (
            {"als": 0.2, "base": 0.5},
            {"baseline": "base"},
            "Training and all lists: base 2 s and 40 MB; als 4 s and 40 MB.",
            "Next: tune the models.",
        ),
        (
            {"als": 0.201, "base": 0.2},
            {"baseline": "base"},
            "Training and all lists: als 4 s and 40 MB; base 2 s and 40 MB.",
            "Next: repeat this with more users; with 200, only a gap of 0.015 ndcg@10 or more would show.",
        ),
    ],
)
def test_the_verdict_says_what_models_cost_and_what_to_do_next(make, means, changes, costs, next_step):
    told = verdict(near(make, means, **changes))
    assert told.details[1:] == (() if costs is None else (costs,))
    assert told.next_step == next_step


def test_the_gap_that_would_show_is_that_of_the_model_in_the_headline(make: SimpleNamespace) -> None:
    means, noise = {"als": 0.21, "knn": 0.2, "base": 0.2}, {"als": 0.3, "knn": 1e-4, "base": 0.0}
    told = verdict(near(make, means, noise=noise, baseline="base"))
    assert told.headline.startswith("No model is shown to beat base: the ndcg@10 of als is 5.0 % higher, ")
    assert "with 200, only a gap of 0.054 ndcg@10 or more would show." in told.next_step


def test_a_model_that_is_not_shown_to_beat_the_baseline_is_not_the_one_to_test(make: SimpleNamespace) -> None:
    means = {"als": 0.501, "knn": 0.5, "weak": 0.49, "base": 0.2}
    told = verdict(near(make, means, noise={"weak": 4.0}, baseline="base"))
    assert told.headline.endswith(" This test cannot tell which of them is better. weak may be as good.")
    assert told.next_step.startswith("Next: test the fastest of them, knn, on live traffic, ")


COLD = USERS < 150
ACTIVITY = Segmentation("activity", ("no history", "1-5"), USERS, np.where(COLD, 0, 1).astype(np.int32))


def led_by_the_cold(make: SimpleNamespace, activity: Segmentation = ACTIVITY, **changes: Any) -> Comparison:
    """Return the comparison of a model that is best without history and one that is best with it."""
    noise = np.random.default_rng(0).normal(0, 0.01, 200)
    values = {"popularity": np.where(COLD, 0.5, 0.1) + noise, "knn": np.where(COLD, 0.1, 0.4) + noise}
    scores = {n: PerUserScores(Units(USERS), column[:, None], ("ndcg@10",)) for n, column in values.items()}
    models = [make.model_result(name, scores=own, **changes) for name, own in scores.items()]
    return compared(make, *models, segments=(activity,))


def test_the_verdict_says_that_users_without_history_decide_who_leads(make: SimpleNamespace) -> None:
    told = verdict(led_by_the_cold(make))
    assert told.headline.startswith("popularity is the best: ")
    assert told.details[0].endswith(
        "But 150 of these 200 users (75 %) have no history. Among the 50 with history, knn is the best. But in the "
        'group "1-5" of activity, knn is the best.'
    )
    # Where the same model leads among the others, nothing depends on them.
    few = replace(ACTIVITY, group=(USERS >= 10).astype(np.int32))
    assert "have no history" not in said(led_by_the_cold(make, few), "ndcg@10")
    nobody = replace(ACTIVITY, group=np.zeros(200, dtype=np.int32))
    newcomers = "But none of these 200 users has history: models are compared by what they give to newcomers."
    assert newcomers in verdict(led_by_the_cold(make, nobody)).details[0]


def test_with_several_folds_history_is_that_of_the_first_one_of_each_user(make: SimpleNamespace) -> None:
    comparison = led_by_the_cold(make, fold_means=({"ndcg@10": 0.1}, {"ndcg@10": 0.2}))
    told = "But 150 of these 200 users (75 %) have no history in the first fold that tests them."
    assert told in verdict(comparison).details[0]


def test_models_with_equal_scores_are_never_told_apart(make: SimpleNamespace) -> None:
    one = make.model_result("one", 0.5)
    comparison = compared(make, one, make.model_result("twin", scores=one.per_user), baseline="one")
    assert comparison.may_be_best == ("one", "twin")
    assert comparison.best["rr"].users_to_tell is None
    assert "leads" not in said(comparison)  # the baseline does not lead its twin
    assert verdict(comparison, "rr").headline == "No model is shown to beat one. twin may be as good."
    assert "one and twin have equal means." in said(comparison)
    (page,) = json.loads(compare_json([comparison], ["rr"]))
    assert page["may_be_best"] == ["one", "twin"]
    assert page["best"]["rr"] == {
        "may_be_best": ["one", "twin"], "users": 197, "rival": "twin", "users_to_tell": None,
    }  # fmt: skip


def test_folds_are_shown_with_their_spread(make: SimpleNamespace) -> None:
    def model(name: str, *means: float) -> Any:
        return make.model_result(name, means[0], fold_means=tuple({"ndcg@10": m} for m in means))

    comparison = compared(make, model("random", 0.1, 0.2, 0.1), model("knn", 0.3, 0.1, 0.4))
    table = models_table(comparison, "ndcg@10")
    at = table.heads.index("folds")
    knn, random = (row[at] for row in table.rows)
    assert (knn.text, knn.small) == ("0.1000–0.4000", "ahead in 2 of 3")
    assert (random.text, random.small) == ("0.1000–0.2000", "")
    row = compare_frame([comparison], ["ndcg@10"]).iloc[0]
    assert (row.folds, row.fold_low, row.fold_high) == (3, 0.1, 0.4)
    assert any(line.startswith("3 folds: ") for line in lines_of(comparison, "ndcg@10"))


def base_and_better(make: SimpleNamespace, differing: int) -> tuple[ModelResult, ModelResult]:
    """Return two models with different scores of some users; the first three have none by ndcg@10."""
    base = make.model_result("base", 0.5)
    values = base.per_user.values.copy()
    values[3 : 3 + differing] += 0.05
    return base, make.model_result("better", scores=replace(base.per_user, values=values))


@pytest.mark.parametrize(("differing", "is_warned"), [(15, True), (29, True), (30, False)])
def test_a_verdict_by_few_differing_users_says_that_the_test_is_not_reliable(make, differing, is_warned):
    comparison = compared(make, *base_and_better(make, differing), baseline="base")
    pair = comparison.pair("ndcg@10", "better", "base")
    assert pair.mark == "+"
    assert round(pair.paired.above * pair.paired.users) == differing
    told = (
        f"Only {differing} users have different scores with better and base: below 30, a test at 5 % may call equal "
        f"models different in up to 8 %"
    )
    assert (told in said(comparison, "ndcg@10")) == is_warned


def test_a_best_model_by_few_differing_users_and_marks_by_few_say_so(make: SimpleNamespace) -> None:
    models = base_and_better(make, 15)
    few = (
        "Only 15 users have different scores with better and base: below 30, a test at 5 % may call equal models "
        "different in up to 8 %."
    )
    comparison = compared(make, *models, baseline="better")
    for baseline in (None, "base", "better"):
        told = verdict(compared(make, *models, baseline=baseline), "ndcg@10")
        assert told.details[0].count(few) == str(told).count("below 30") == 1
    line = (
        "Fewer than 30 users have different scores: base by ndcg@10. There a test at 5 % may call equal models "
        "different in up to 8 %."
    )
    assert line in lines_of(comparison, "ndcg@10")
    assert "base by ndcg@10" in leaderboard_markdown(make.bakeoff(["base", "better"]), [comparison])


def test_a_mean_without_an_honest_interval_has_a_dash_and_a_reason() -> None:
    cell = Cell("dcg@10", 0.0, method="none", users=50)
    assert mean_cell(cell).small == "–"
    assert no_interval("user") == (
        "–: no interval, as hardly any user differs from all others and the metric has no bounds."
    )


def test_footnotes_name_test_interval_family_users_and_power(comparison: Comparison) -> None:
    intervals, tests, further, users, power, failure = lines_of(comparison, "ndcg@10")
    assert intervals.startswith(
        "Intervals (95 %): of means, bootstrap over users (BCa); of mean differences, "
    )
    assert (
        "paired permutation test, two-sided (bound of all sign flips), Holm's correction over 2 comparisons"
        in tests
    )
    assert "p at most 5 %" in tests
    assert further == "p (Wilcoxon), p (t): two-sided, not corrected."
    assert users == "Users: 197 compared; 3 have no value of ndcg@10."
    found = [p.paired.detectable for p in comparison.pairs if p.metric == "ndcg@10"]
    assert f"{min(found):.4f} to {max(found):.4f}, by model" in power
    assert failure == "broken failed: ValueError: k must be <= 12"
    assert all(math.isfinite(p) for p in found)
