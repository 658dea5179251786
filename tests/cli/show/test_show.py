from __future__ import annotations

import io
import re
import time
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace

import pytest
from rich.console import Console
from samples import Results, filled

from evalplugin.cli.show import console, observer, progress
from evalplugin.cli.show.console import Terminal, show_table
from evalplugin.cli.show.tables import show_bakeoff
from evalplugin.report.table import Table, numbers, text_rows, words


def test_progress_without_terminal_is_plain_lines_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    shown = observer()
    shown.report("read [bold]data[/bold]")
    with shown.progress("fit knn", 10) as advance:
        advance(10)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "read [bold]data[/bold]\nfit knn ...\n"


def wait_for_lines(capsys: pytest.CaptureFixture[str], n: int) -> list[str]:
    lines: list[str] = []
    for _ in range(2000):
        lines += capsys.readouterr().err.splitlines()
        if len(lines) >= n:
            return lines
        time.sleep(0.01)
    raise AssertionError(lines)


def test_long_steps_without_terminal_report_how_far_they_are(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.05)
    shown = observer()
    with shown.progress("compute 7 tasks", 7) as advance, shown.progress("fit knn, fold 2 of 5"):
        advance(3)
        lines = wait_for_lines(capsys, 3)
    assert lines[0] == "compute 7 tasks ..."  # its parts have lines if they take long
    assert set(lines[1:]) == {"fit knn, fold 2 of 5: for 0 s; compute 7 tasks: 3 of 7, for 0 s"}
    time.sleep(0.15)
    assert capsys.readouterr().err == ""  # nothing runs, nothing is said


def test_short_steps_without_terminal_are_one_line(capsys, monkeypatch):
    shown = observer()
    with shown.progress("recommend knn", 4_000) as advance:
        advance(4_000)
    with shown.progress("score knn"):
        pass
    assert capsys.readouterr().err.splitlines() == ["recommend knn ...", "score knn ..."]


def test_terminal_shows_all_running_steps_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    shown = progress._Bars(Console(file=screen, force_terminal=True, width=120))
    with ExitStack() as first, ExitStack() as second:
        advance = first.enter_context(shown.progress("compute 7 tasks", 7))
        advance(3)
        second.enter_context(shown.progress("fit [knn]"))
        shown.bars.refresh()
        first.close()  # steps of worker processes end in any order
        shown.bars.refresh()
        assert [task.description for task in shown.bars.tasks] == [r"fit \[knn]"]
    assert "3/7" in screen.getvalue()
    assert "left" in screen.getvalue()
    assert "fit [knn]" in screen.getvalue()
    assert shown.bars.tasks == []
    with shown.progress("compare"):
        assert [task.description for task in shown.bars.tasks] == ["compare"]


def test_a_label_that_changes_is_shown_as_it_is_now(capsys, monkeypatch):
    best = ["tune 2 models"]
    screen = io.StringIO()
    shown = progress._Bars(Console(file=screen, force_terminal=True, width=120))
    with shown.progress(lambda: best[-1], 60) as advance:
        best.append("tune 2 models, the latest gain: knn, ndcg@10 0.21 [bold]")
        advance(4)
        shown.bars.refresh()
    assert "tune 2 models, the latest gain: knn, ndcg@10 0.21 [bold]" in screen.getvalue()

    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.05)
    with observer().progress(lambda: best[0], 60) as advance:
        best[0] = "tune 2 models, more"
        advance(4)
        lines = wait_for_lines(capsys, 2)
    assert lines[:2] == ["tune 2 models ...", "tune 2 models, more: 4 of 60, for 0 s"]


def test_narrow_terminal_cuts_no_number_of_a_table(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(console, "Terminal", partial(Terminal, file=screen, force_terminal=True, width=80))
    columns = (*words("model"), *numbers(*(f"metric {i}" for i in range(8))))
    rows = text_rows([("x" * 100, *(f"+0.{i}280 to +0.{i}680" for i in range(8)))])
    show_table(Table("", columns, rows))
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in screen.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    assert all(f"+0.{i}280 to +0.{i}680" in "".join(lines) for i in range(8))
    assert "".join(lines).count("x") == 800  # in each of eight parts


@pytest.mark.parametrize("n_models", [20, 21])
def test_a_long_leaderboard_leaves_intervals_to_wide(n_models, make, capsys):
    names = [f"model{i:02}" for i in range(n_models)]
    results = Results(make.bakeoff(names, baseline=names[0]), [make.model_result(n, 0.3) for n in names])
    bakeoff = filled(results, make.comparisons(results))
    show_bakeoff(bakeoff, wide=False)
    out = capsys.readouterr().out
    is_long = n_models > 20
    assert ("Not shown: intervals, " in out) == is_long
    assert ("95 % interval" in out) == (not is_long)
    assert len(out.splitlines()) < 60
    show_bakeoff(bakeoff, wide=True)
    assert "95 % interval" in capsys.readouterr().out


def test_verdicts_of_several_splits_stand_apart(
    make: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [
        make.model_result(n, 0.3, info=make.data_info("toy", split)) for split in "ab" for n in ("x", "y")
    ]
    results = Results(make.bakeoff(["x", "y"], baseline="x", splits=("a", "b")), models)
    show_bakeoff(filled(results, make.comparisons(results)), wide=False)
    lines = capsys.readouterr().out.splitlines()
    (second,) = [i for i, line in enumerate(lines) if line.startswith("toy, b: ")]
    assert lines[second - 1] == ""
