"""Tables of scores from any evaluation: their shapes, what is said of them, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.base.units import noun_of
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.frames import compare_frame, frame_csv
from evalplugin.report.sentences.units import shared_lines
from evalplugin.report.users import users_frame

N = 60


@pytest.fixture
def table() -> pd.DataFrame:
    generator = np.random.default_rng(1)
    ease = generator.normal(size=N)
    scores = np.concatenate([ease + shift + generator.normal(size=N) for shift in (0.0, 1.0)])
    return pd.DataFrame(
        {
            "question_id": [f"q{i}" for i in range(N)] * 2,
            "llm": np.repeat(["small", "large"], N),
            "points": scores,
            "text": np.tile(np.arange(N) // 4, 2),
            "subject": np.tile(np.where(np.arange(N) % 3, "law", "art"), 2),
        }
    )


def compare(table: Any, **choices: Any) -> Comparison:
    given = {"unit": "question_id", "model": "llm", "value": "points"} | choices
    return evalplugin.compare_scores(table, **given)[0]


def numbers(comparison: Comparison) -> str:
    return frame_csv(compare_frame([comparison]))


def test_differences_are_those_of_a_paired_t_test(table: pd.DataFrame) -> None:
    (pair,) = compare(table, tests=["t"]).pairs
    small, large = table["points"][:N].to_numpy(), table["points"][N:].to_numpy()
    expected = stats.ttest_rel(large, small)
    assert (pair.model, pair.against) == ("large", "small")
    assert pair.paired.interval.mean == pytest.approx((large - small).mean())
    assert pair.paired.p["t"] == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval(0.95)
    assert (pair.paired.interval.low, pair.paired.interval.high) == pytest.approx((low, high))


def test_0_1_scores_have_the_exact_test_of_mcnemar() -> None:
    first, second = np.array([1] * 8 + [0] * 2 + [1] * 5), np.array([0] * 8 + [1] * 2 + [1] * 5)
    table = pd.DataFrame({"question_id": range(15), "a": first, "b": second})
    (pair,) = evalplugin.compare_scores(table, unit="question_id", wide=True)[0].pairs
    assert pair.p == pytest.approx(stats.binomtest(8, 10).pvalue)  # of the 10 that differ


def test_every_kind_of_table_gives_the_same(table: pd.DataFrame, tmp_path: Path) -> None:
    arrow = pa.Table.from_pandas(table)
    table.to_csv(tmp_path / "scores.csv", index=False)
    pq.write_table(arrow, tmp_path / "scores.parquet")
    sources = [arrow, pl.from_pandas(table), tmp_path / "scores.csv", str(tmp_path / "scores.parquet")]
    expected = numbers(compare(table, cluster="text"))
    for source in sources:
        assert numbers(compare(source, cluster="text", name="scores")) == expected


def test_rows_in_any_order_give_the_same(table: pd.DataFrame) -> None:
    shuffled = table.sample(frac=1, random_state=0)
    assert numbers(compare(shuffled, baseline="small")) == numbers(compare(table, baseline="small"))


def test_every_shape_gives_the_same(table: pd.DataFrame) -> None:
    wide = table.pivot(index="question_id", columns="llm", values="points")[["small", "large"]].reset_index()
    narrow = table.assign(what="points")
    expected = numbers(compare(table))
    assert numbers(compare(wide, model=None, wide=True)) == expected
    assert numbers(compare(narrow, metric="what")) == expected


def test_several_metrics_are_columns_or_rows(table: pd.DataFrame) -> None:
    columns = table.assign(seconds=-table["points"])
    rows = columns.melt(["question_id", "llm"], ["points", "seconds"], "what", "n")
    of_columns = compare(columns, value=["points", "seconds"], lower_is_better="seconds")
    of_rows = compare(rows, metric="what", value="n", lower_is_better="seconds")
    assert of_columns.contest.metrics == of_rows.contest.metrics == ("points", "seconds")
    assert numbers(of_columns) == numbers(of_rows)
    assert {pair.mark for pair in of_columns.pairs} == {"+"}


def test_scores_in_a_column_called_so_need_no_name(table: pd.DataFrame) -> None:
    assert compare(table.rename(columns={"points": "value"}), value=()).contest.metrics == ("value",)


def test_lower_is_better_by_the_name_of_a_known_metric(table: pd.DataFrame) -> None:
    comparison = compare(table.rename(columns={"points": "rmse"}), value="rmse")
    assert comparison.may_be_best == ("small",)


def test_a_name_that_often_means_lower_is_better_is_said(table: pd.DataFrame) -> None:
    renamed = table.rename(columns={"points": "val_loss"})
    (note,) = compare(renamed, value="val_loss").contest.notes
    assert note.endswith("say so: --lower-is-better val_loss")
    assert compare(renamed, value="val_loss", lower_is_better="val_loss").contest.notes == ()


def test_the_column_of_units_names_the_unit(table: pd.DataFrame) -> None:
    comparison = compare(table, cluster="text")
    assert (comparison.contest.units.noun, comparison.contest.units.independent) == ("question", "text")
    text = evalplugin.compare_scores(
        table, unit="question_id", model="llm", value="points", cluster="text", baseline="small"
    )._repr_html_()
    assert "60 of 15 texts compared" in text
    assert "user" not in text


@pytest.mark.parametrize(
    ("column", "noun"),
    [
        ("question", "question"), ("question_id", "question"), ("query-id", "query"), ("docId", "doc"),
        ("Test case", "test case"), ("id", "id"),
    ],
)  # fmt: skip
def test_the_noun_of_a_column_has_no_id(column: str, noun: str) -> None:
    assert noun_of(column) == noun


def test_units_called_queries_are_not_taken_for_those_of_sessions(table: pd.DataFrame) -> None:
    comparison = compare(table.rename(columns={"question_id": "query"}), unit="query")
    assert comparison.contest.units.noun == "query"
    assert comparison.models[0].scores is not None
    assert comparison.models[0].scores.units.codes is None
    assert "session" not in users_frame(comparison, "small", "large").columns


def test_clusters_widen_the_interval_of_questions_that_are_alike() -> None:
    text = np.repeat(np.arange(20), 10)
    gain = np.random.default_rng(0).normal(size=20)[text]
    table = pd.DataFrame({"question": range(200), "text": text, "a": 0.0, "b": gain})
    alone, together = (
        evalplugin.compare_scores(table.drop(columns=drop), unit="question", wide=True, cluster=cluster)[0]
        for drop, cluster in (("text", None), ([], "text"))
    )
    widths = [c.pairs[0].paired.interval.high - c.pairs[0].paired.interval.low for c in (alone, together)]
    assert widths[1] > 2 * widths[0]


@pytest.mark.parametrize(
    ("sizes", "is_told"),
    [([300, 200, *[1] * 90], True), ([4] * 20, False), ([1] * 200, False), ([20, 15] * 200, False)],
)
def test_few_large_clusters_are_told(sizes: list[int], is_told: bool) -> None:
    text = np.repeat(np.arange(len(sizes)), sizes)
    scores = np.random.default_rng(0).random((len(text), 2))
    table = pd.DataFrame({"question": range(len(text)), "text": text, "a": scores[:, 0], "b": scores[:, 1]})
    (comparison,) = evalplugin.compare_scores(table, unit="question", wide=True, cluster="text")
    told = [note for note in comparison.contest.notes if "a few of" in note]
    assert bool(told) == is_told
    if told:
        assert told[0].startswith(
            "a few of 92 texts have most questions: means vary like those of 3 texts of one size; below 100, "
        )


def test_segments_are_groups_of_units(table: pd.DataFrame) -> None:
    comparison = compare(table, segments=["subject", "text"], baseline="small")
    cells = {(cell.segment, cell.label): cell.interval.n for cell in comparison.segments}
    assert cells["subject", "law"] == 40
    assert cells["subject", "art"] == 20
    assert sum(n for (segment, _), n in cells.items() if segment == "text") == N


def test_missing_units_are_counted_and_pairs_are_the_common_ones(table: pd.DataFrame) -> None:
    comparison = compare(table.drop(index=[0, 1, N + 5]))
    assert shared_lines(comparison, ["points"]) == [
        "Means and ranks are over 57 of 60 questions, those with values of all models; without a value: large 1, small "
        "2."
    ]
    assert comparison.pairs[0].paired.users == 57


def test_missing_scores_are_counted_and_left_out(table: pd.DataFrame) -> None:
    table.loc[3, "points"] = np.nan
    comparison = compare(table)
    assert comparison.contest.notes == ("left out, as the score is empty or NaN: questions of small 1",)
    assert comparison.pairs[0].paired.users == 59


def test_constant_scores_are_said(table: pd.DataFrame) -> None:
    table.loc[table["llm"] == "small", "points"] = 0.5
    assert compare(table).contest.notes == ("the same score for all questions: small",)


@pytest.mark.parametrize(
    ("change", "choices", "message"),
    [
        (lambda t: t, {"unit": "question"}, "no unit column 'question'; did you mean 'question_id'?"),
        (lambda t: t, {"model": None}, "name the column of models' names"),
        (lambda t: t, {"wide": True}, "name either wide or model and metric"),
        (lambda t: t, {"value": ()}, "no column is called score or value: name the columns of scores"),
        (lambda t: t, {"value": "llm"}, "column 'llm' cannot be both model and scores llm"),
        (lambda t: t, {"value": "subject"}, "column 'subject', row 1 (counted from 1) is 'art' (str)"),
        (lambda t: t, {"lower_is_better": "loss"}, "there is no metric 'loss' of which lower is better"),
        (lambda t: t, {"baseline": "smal"}, "no model is called 'smal' to be the baseline; did you mean 'small'?"),
        (lambda t: t[:N], {}, "a comparison takes two models; there is one: small"),
        (lambda t: t[:0], {}, "there are no rows"),
        (
            lambda t: pd.concat([t, t[2:3]]),
            {},
            "'q2' has two scores of 'small' by 'points': row 3 (counted from 1) and row 121 (counted from 1)",
        ),
        (lambda t: t.replace({"points": {t["points"][4]: np.inf}}), {}, "row 5 (counted from 1) is inf (float)"),
        (
            lambda t: t.assign(points=t["points"].astype(object).where(t.index != 7, "n/a")),
            {},
            "column 'points', row 8 (counted from 1) is 'n/a' (str)",
        ),
        (lambda t: t.assign(text=range(2 * N)), {"cluster": "text"}, "the rows of question 'q0' contradict each other"),
        (lambda t: t.assign(text=None), {"cluster": "text"}, "every question must be in a cluster"),
        (lambda t: t.assign(text=1), {"cluster": "text"}, "puts all questions into one cluster"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_with_the_place(table, change, choices, message):
    with pytest.raises(DataError) as error:
        compare(change(table), **choices)
    assert message in str(error.value)


def test_the_page_speaks_of_units_alone(table: pd.DataFrame, tmp_path: Path) -> None:
    comparisons = evalplugin.compare_scores(
        table, unit="question_id", model="llm", value="points", cluster="text", segments="subject"
    )
    comparisons.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    words = page[page.index("<body>") : page.index('<script type="application/json" id="charts">')]
    shown = re.sub("<[^>]*>", "", words[: words.index('<script type="application/json" class="data">')])
    assert "Every question" in shown
    assert "Question by question" in shown
    for word in ("user", "item", "recommend", "truth", "history", "cutoff", "held-out", "along the list"):
        assert word not in re.sub("--users", "", shown.lower())
