"""``compare-scores`` as a user types it: formats, the page, users of a pair, and options that do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evalplugin.cli import main

TABLE = ["compare-scores", "scores.csv", "--unit", "question_id", "--model", "llm", "--value", "points"]


@pytest.fixture(autouse=True)
def table() -> None:
    generator = np.random.default_rng(0)
    points = np.concatenate([generator.normal(shift, 1, 80) for shift in (0.0, 1.0)]).round(3)
    names = np.repeat(["01", "02"], 80)  # models whose names look like numbers
    kinds = ["law", "art"] * 80
    frame = pd.DataFrame({"question_id": [*range(80)] * 2, "llm": names, "points": points, "subject": kinds})
    frame.to_csv("scores.csv", index=False)


def test_json_has_the_comparison_of_a_bake_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TABLE, "--baseline", "01", "--segment", "subject", "--format", "json"]) == 0
    (comparison,) = json.loads(capsys.readouterr().out)
    assert (comparison["may_be_best"], comparison["baseline"]) == (["02"], "01")
    assert {row["group"] for row in comparison["segments"]} == {"law", "art"}


@pytest.mark.parametrize("shown", ["table", "csv", "markdown", "latex"])
def test_every_format_names_the_models(shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TABLE, "--format", shown]) == 0
    out = capsys.readouterr().out
    assert "02" in out
    assert shown == "csv" or "question" in out


def test_the_page_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TABLE, "--html", "page.html"]) == 0
    assert "Question by question" in Path("page.html").read_text(encoding="utf-8")


def test_two_models_are_shown_question_by_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TABLE, "--users", "01", "02", "--out", "questions.csv"]) == 0
    assert "questions, better for" in " ".join(capsys.readouterr().out.split())
    frame = pd.read_csv("questions.csv")
    assert len(frame) == 80
    assert "question" in frame


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare-scores", "scores.csv"], "--unit COLUMN"),
        ([*TABLE, "--runs", "1"], "name a table or runs, not both"),
        ([*TABLE, "--experiment", "llms"], "--experiment goes with --log"),
        ([*TABLE, "--tracking-uri", "sqlite:///x.db"], "--tracking-uri goes with --runs or --log"),
        ([*TABLE, "--wide"], "name either wide or model and metric"),
        ([*TABLE, "--html", "scores.csv"], "scores.csv"),
        ([*TABLE, "--primary", "point"], "there is no metric 'point'; did you mean 'points'?"),
        ([*TABLE, "--segment", "subjct"], "scores.csv: no segment column 'subjct'; did you mean 'subject'?"),
        ([*TABLE, "--pairs", "baseline"], "no baseline is named (baseline); models: 01, 02"),
        (["compare-scores", "scores.txt", *TABLE[2:]], "name the file .csv, .tsv, .jsonl or .parquet"),
    ],
)
def test_options_that_do_not_fit_end_with_exit_code_2(arguments, message, capsys):
    before = Path("scores.csv").read_text()
    Path("scores.txt").write_text("[]")
    assert main(arguments) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert message in said
    assert "--truth-format" not in said
    assert Path("scores.csv").read_text() == before


def test_every_value_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.read_csv("scores.csv", dtype={"llm": str})
    frame.assign(style=-frame["points"], tone=1 - frame["points"]).to_csv("scores.csv", index=False)
    more = [*TABLE, "--value", "style", "--value", "tone", "--primary", "style"]
    assert main(more) == 0
    out = capsys.readouterr().out
    titles = [line for line in out.splitlines() if "higher is better" in line]
    assert [title.split(": ")[1].split(",")[0] for title in titles] == ["style", "points", "tone"]
    assert main([*more, "--users", "01", "02"]) == 0
    assert "style of 01" in capsys.readouterr().out
