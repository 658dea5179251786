from __future__ import annotations

import pytest

from evalplugin.cli.show import observer, progress


def test_progress_without_terminal_is_plain_lines_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    shown = observer()
    shown.report("read [bold]data[/bold]")
    with shown.progress("fit knn", 10) as advance:
        advance(10)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "read [bold]data[/bold]\nfit knn ...\n"


def test_progress_lines_report_counts_of_long_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with observer().progress("recommend knn", 4_000) as advance:
        for _ in range(4):
            now[0] += 6.0
            advance(1_000)
    assert capsys.readouterr().err.splitlines() == ["recommend knn ...", "recommend knn: 2,000 of 4,000"]
