"""The command ``open``: the page of a bake-off from the store, without a server."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import pytest
from samples import small_config

import evalplugin
from evalplugin.cli import main


def test_open_shows_the_latest_page_or_that_of_a_bake_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    store = f"sqlite:///{tmp_path}/mlflow.db"
    first, second = (evalplugin.run(small_config(), tracking_uri=store) for _ in range(2))

    def opens(*arguments: str) -> tuple[int, Any]:
        code = main(["open", *arguments, "--tracking-uri", store])
        return code, capsys.readouterr()

    code, said = opens()
    assert code == 0
    page = Path(said.out.strip())
    assert opened == [page.as_uri()]
    assert second.plan.id in page.read_text()
    code, said = opens(first.plan.id)
    assert first.plan.id in Path(said.out.strip()).read_text()
    assert first.links.open_command == f"python -m evalplugin open {first.plan.id} --tracking-uri {store}"
    code, said = opens("20200101-000000-abcd")
    assert code == 2
    assert "has no bake-off '20200101-000000-abcd'; latest: " in said.err
    code, said = opens("--experiment", "another")
    assert code == 2
    assert "has no experiment 'another'" in said.err
