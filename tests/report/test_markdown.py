"""Markdown for people."""

from __future__ import annotations

import html
import re
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from samples import Results

from evalplugin.base.text import escape_controls
from evalplugin.report.documents import leaderboard_markdown
from evalplugin.report.render.markdown import escape
from evalplugin.report.run_summary import note_markdown, summary_markdown


@given(st.text())
def test_escaped_text_stays_on_one_line_and_keeps_its_words(text: str) -> None:
    escaped = escape(text)
    assert "\n" not in escaped
    assert "<" not in escaped
    assert html.unescape(re.sub(r"\\([\\`*_{}\[\]()#+!|~$])", r"\1", escaped)) == html.unescape(
        html.escape(escape_controls(" ".join(text.split())), quote=False)
    )


def test_a_name_cannot_break_out_of_a_table() -> None:
    assert escape("a|b <script>") == r"a\|b &lt;script&gt;"


def test_summary_has_metrics_costs_params_and_data(make: SimpleNamespace) -> None:
    result, asked = make.model_result("knn|<i>", 0.3), make.bakeoff()
    cells = make.headline_of(asked, result)
    text = summary_markdown(asked, result, cells, notes=["per_user.json holds a sample"])
    assert text.startswith("# knn\\|&lt;i&gt;\n")
    for part in (
        f"| ndcg@10 | {cells['ndcg@10'].mean:.4f} |",
        "| 197 | 3 |",
        "| 1.50 s | 0.25 s | 0.12 s | 512 MB |",
        "- k: 40",
        "- list length: 20",
        "- relevant: rating &gt;= 4",
        "- 2 duplicate pairs: the last one counts",
        f"| {result.data.train.digest[:12]} |",
        "- per\\_user.json holds a sample",
        "Intervals of means: bootstrap over users \\(BCa\\).",
    ):
        assert part in text


def test_every_row_of_a_table_has_as_many_cells_as_its_head(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("random", "knn|x"))
    result = Results(asked, (make.model_result("random", 0.1), make.model_result("knn|x", 0.4)))
    text = leaderboard_markdown(asked, make.comparisons(result))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


def test_the_summary_of_a_failed_model_shows_what_it_raised(make: SimpleNamespace) -> None:
    result = make.failed_result("broken")
    for text in (summary_markdown(make.bakeoff(), result, {}), note_markdown(make.bakeoff(), result, {})):
        assert "ValueError: k must be &lt;= 12" in text
        assert "traceback.txt" in text


def test_the_leaderboard_marks_what_differs_from_the_baseline_and_lists_failures(make):
    result = make.whole()
    text = leaderboard_markdown(result.plan, make.comparisons(result))
    lines = text.splitlines()
    assert next(line for line in lines if "| svd |" in line).count("▲") == 3
    assert any("random (baseline)" in line and "▲" not in line for line in lines)
    assert any(line.startswith("|  | broken | failed |") for line in lines)
    assert "broken failed: ValueError: k must be &lt;= 12" in text
    assert "▲ better, ▼ worse than the baseline random" in text


def test_a_leaderboard_without_a_baseline_explains_no_marks(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("knn",), baseline=None)
    text = leaderboard_markdown(asked, make.comparisons(Results(asked, (make.model_result("knn"),))))
    assert "▲" not in text
