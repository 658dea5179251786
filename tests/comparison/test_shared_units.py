"""Models with scores of different units: ranked by those that they share, with what each has, in every format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalplugin
from evalplugin.comparison.comparison import Comparison
from evalplugin.features.ranks.ranks import ranks_of
from evalplugin.report.documents import compare_latex, compare_markdown
from evalplugin.report.frames import compare_frame, compare_json, frame_csv
from evalplugin.report.notebook import Comparisons
from evalplugin.report.sentences.units import shared_lines
from evalplugin.report.sentences.verdict import verdict
from evalplugin.report.tables import comparison_tables

N, HARD = 300, 120
LINE = (
    "Means and ranks are over 180 of 300 questions, those with values of all models; without a value: c 120."
)


def table(scores: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return a table with a row for each score; a NaN has no row."""
    wide = pd.DataFrame(scores).rename_axis("question").reset_index()
    return wide.melt("question", var_name="llm", value_name="score").dropna()


def answers() -> dict[str, np.ndarray]:
    """Return the answers of three models to easy and hard questions; c skips the hard ones."""
    right = {"a": (172, 35), "b": (160, 20), "c": (156, 0)}
    scores = {}
    for model, (easy, hard) in right.items():
        scores[model] = np.concatenate([np.arange(N - HARD) < easy, np.arange(HARD) < hard]).astype(float)
    scores["c"][N - HARD :] = np.nan
    return scores


def compare(scores: Mapping[str, np.ndarray], **choices: object) -> Comparisons:
    return evalplugin.compare_scores(table(scores), unit="question", model="llm", **choices)


def leaderboard_note(comparison: Comparison) -> str:
    return " ".join(shared_lines(comparison, comparison.contest.metrics))


def means(comparison: Comparison) -> dict[str, float]:
    return {row.model: row.mean("score") for row in comparison.models}


def test_models_are_ranked_by_means_over_the_units_that_all_have() -> None:
    comparison = compare(answers())[0]
    assert means(comparison) == pytest.approx({"a": 172 / 180, "b": 160 / 180, "c": 156 / 180})
    assert [row.rank for row in comparison.models] == [1, 2, 3]
    assert comparison.may_be_best == ("a",)
    cells = [row.cells["score"] for row in comparison.models]
    counts = [(cell.users, cell.has, cell.lacks) for cell in cells]
    assert counts == [(180, 300, 0), (180, 300, 0), (180, 180, 120)]
    assert [cell.own_mean for cell in cells] == pytest.approx([207 / 300, 180 / 300, 156 / 180])


def test_two_models_differ_by_the_units_that_both_have() -> None:
    pair = compare(answers())[0].pair("score", "a", "b")
    assert (pair.paired.users, pair.paired.interval.mean) == (300, pytest.approx(0.09))


def test_the_verdict_says_how_many_units_it_rests_on() -> None:
    said = str(verdict(compare(answers())[0], "score"))
    assert "It rests on 180 of 300 questions, those with values of all models" in said


def test_every_format_says_who_lacks_how_many(tmp_path: Path) -> None:
    compared = compare(answers(), baseline="b")
    (shown,) = comparison_tables(compared[0])
    assert shown.footnotes[0] == LINE
    assert shown.heads[3] == "own questions"
    assert [(row[3].text, row[3].small, row[3].mark) for row in shown.rows] == [
        ("300", "mean 0.6900", ""),
        ("300", "mean 0.6000", ""),
        ("180", "mean 0.8667", ""),
    ]
    compared.to_html(tmp_path / "page.html")
    for text in (
        compare_markdown(compared.comparisons).replace("\\", ""),
        compare_latex(compared.comparisons),
        compare_json(compared.comparisons),
        compared._repr_html_(),
        (tmp_path / "page.html").read_text(encoding="utf-8"),
    ):
        assert LINE in text
    frame = compared.to_frame().set_index("model")
    assert frame["has"].to_dict() == {"a": 300, "b": 300, "c": 180}
    assert frame["lacks"].to_dict() == {"a": 0, "b": 0, "c": 120}
    rows = json.loads(compare_json(compared.comparisons))[0]["rows"]
    assert {row["model"]: row["lacks"] for row in rows} == {"a": 0, "b": 0, "c": 120}
    assert "lacks" in frame_csv(compare_frame(compared.comparisons)).splitlines()[0]


def test_models_with_the_same_units_have_no_such_words_and_the_same_scores() -> None:
    scores = answers()
    scores["c"] = np.nan_to_num(scores["c"])
    compared = compare(scores)
    assert all(row.mean("score") == row.scores.means["score"] for row in compared[0].models if row.scores)
    assert not re.search("own questions|rests on|without a value", compared._repr_html_())


def test_many_models_that_each_lack_some_units_are_ranked_by_the_few_that_all_have() -> None:
    generator = np.random.default_rng(0)
    ease = generator.random(400)
    scores = {f"s{i:02}": (ease + 0.03 * i > 0.5).astype(float) for i in range(12)}
    for values in scores.values():
        values[generator.random(400) < 0.1] = np.nan
    comparison = compare(scores)[0]
    together = np.isfinite(np.stack(list(scores.values()))).all(axis=0)
    expected = {model: float(values[together].mean()) for model, values in scores.items()}
    assert means(comparison) == pytest.approx(expected)
    assert f"It rests on {together.sum()} of 400 questions" in str(verdict(comparison, "score"))
    (models, _) = comparison_tables(comparison)
    assert all(f"{model} {np.isnan(values).sum()}" in models.footnotes[0] for model, values in scores.items())


def test_a_model_with_nearly_nothing_is_not_ranked_and_decides_nothing() -> None:
    scores = answers()
    scores["d"] = np.where(np.arange(N) < 3, 1.0, np.nan)
    alone, beside = compare(answers())[0], compare(scores)[0]
    assert [(row.model, row.rank) for row in beside.models] == [("a", 1), ("b", 2), ("c", 3), ("d", None)]
    d = beside.models[-1].cells["score"]
    assert np.isnan(d.mean)
    assert (d.has, d.own_mean, d.lacks) == (3, 1.0, 297)
    assert {m: mean for m, mean in means(beside).items() if m != "d"} == means(alone)
    assert beside.may_be_best == ("a",)
    (models, _) = comparison_tables(beside)
    told = "Not ranked, with values of fewer than half as many questions as others: d (3)."
    assert models.footnotes[1] == told
    assert "those with values of all ranked models" in str(verdict(beside, "score"))


def test_models_without_a_unit_in_common_are_not_ranked() -> None:
    halves = {"a": np.where(np.arange(N) < 150, 1.0, np.nan), "b": np.where(np.arange(N) < 150, np.nan, 0.5)}
    compared = compare(halves)
    assert [row.rank for row in compared[0].models] == [None, None]
    none = "No question has values of all models"
    assert str(verdict(compared[0], "score")) == f"{none}: none is ranked by score."
    told = f"{none}, so that none is ranked; without a value: a 150, b 150."
    assert told in compared._repr_html_()


def test_groups_of_units_have_means_over_the_units_that_all_have() -> None:
    frame = table(answers()).assign(topic=lambda rows: np.where(rows["question"] < 240, "law", "art"))
    asked = {"unit": "question", "model": "llm", "segments": "topic", "baseline": "b"}
    comparison = evalplugin.compare_scores(frame, **asked)[0]
    cells = {(cell.label, cell.model): cell.interval for cell in comparison.segments}
    assert cells["law", "a"].n == cells["law", "c"].n == 180
    assert cells["law", "a"].mean == pytest.approx(172 / 180)
    assert cells["art", "a"].n == 0


def test_ranks_over_datasets_are_those_of_shared_units() -> None:
    moved = table(answers()).assign(question=lambda rows: rows["question"] + N)
    comparisons = [
        evalplugin.compare_scores(rows, unit="question", model="llm", name=name)[0]
        for name, rows in (("one", table(answers())), ("two", moved))
    ]
    (ranks,) = ranks_of(comparisons)
    assert {row.model: row.ranks for row in ranks.models} == {"a": (1, 1), "b": (2, 2), "c": (3, 3)}


def test_units_are_shared_metric_by_metric() -> None:
    frame = table({model: np.nan_to_num(values) for model, values in answers().items()})
    frame["points"] = frame["score"].where((frame["llm"] != "a") | (frame["question"] >= 10))
    compared = evalplugin.compare_scores(frame, unit="question", model="llm", value=["score", "points"])
    cells = compared[0].models[0].cells
    assert (cells["score"].users, cells["points"].users) == (300, 290)
    assert "points: Means and ranks are over 290 of 300" in leaderboard_note(compared[0])


def test_rank_in_the_frame_is_that_of_its_own_metric() -> None:
    frame = table(answers()).assign(seconds=lambda rows: rows["llm"].map({"a": 3.0, "b": 2.0, "c": 1.0}))
    values = {"value": ["score", "seconds"], "lower_is_better": "seconds"}
    compared = evalplugin.compare_scores(frame, unit="question", model="llm", baseline="b", **values)
    by_metric = compared.to_frame().groupby("metric")
    ranks = {metric: dict(zip(own["model"], own["rank"], strict=True)) for metric, own in by_metric}
    assert ranks == {"score": {"a": 1, "b": 2, "c": 3}, "seconds": {"a": 3, "b": 2, "c": 1}}


def test_a_logged_comparison_is_ranked_by_shared_units_and_names_who_lacks_some(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    logged = compare(answers(), baseline="b", log=True, tracking_uri=uri)
    read = evalplugin.compare(tracking_uri=uri)
    assert frame_csv(compare_frame(read.comparisons)) == frame_csv(compare_frame(logged.comparisons))
    assert logged.links is not None
    client = MlflowClient(uri)
    summary = client.get_run(logged.links.summary_run_id)
    assert LINE in summary.data.tags["mlflow.note.content"].replace("\\", "")
    runs = [client.get_run(run).data.metrics for run in logged.links.compared]
    assert [run["shared/score"] for run in runs] == pytest.approx([172 / 180, 160 / 180, 156 / 180])
    assert [run["score"] for run in runs] == pytest.approx([207 / 300, 180 / 300, 156 / 180])
