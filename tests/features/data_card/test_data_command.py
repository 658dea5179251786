"""`evalplugin data`: table, JSON, findings; sizes in logged bake-offs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from samples import TINY, small_config, write_config

from evalplugin.base.errors import TrackingError
from evalplugin.cli import main
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import prepare
from evalplugin.features.config import load
from evalplugin.features.data_card import feature as module
from evalplugin.features.data_card.card import DataCard, DescribedData
from evalplugin.features.data_card.feature import cards_of, describe_data, sizes_since
from evalplugin.workspace import Workspace


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{Path.cwd()}/none.db")


def written(**changes: Any) -> str:
    write_config(small_config(**changes))
    return "shop.yaml"


def cards(**changes: Any) -> tuple[DataCard, ...]:
    config = load(small_config(**changes))
    return cards_of(prepare(config, None, Observer()))


def test_data_shows_cards_splits_notes_and_findings(capsys: pytest.CaptureFixture[str]) -> None:
    file = written(
        datasets=[{**TINY, "filters": [{"type": "k_core", "k": 8}]}],
        split=[{"type": "last_n"}, {"type": "temporal", "quantile": 0.8}],
        relevance={},
    )
    assert main(["data", file]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("tiny (synthetic): ")
    assert "filter k_core (k: 8): " in out
    rows = [line.split()[0] for line in out.splitlines() if line.startswith((" last_n", " temporal"))]
    assert rows == ["last_n", "temporal"]
    assert "bake-off" not in out  # no store is opened to compare with one
    assert "warning: EV114 tiny" in err
    assert "warning: EV117 tiny" in err
    assert not Path("none.db").exists()


def test_data_prints_json_with_datasets_and_checks(capsys: pytest.CaptureFixture[str]) -> None:
    file = written(relevance={})
    assert main(["data", file, "--format", "json", "--set", "datasets.0.n_users=50"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["config", "datasets", "checks"]
    assert found["datasets"][0]["users"] == 50
    assert [one["code"] for one in found["checks"]] == ["EV114"]
    assert main(["data", file, file, "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_a_filter_that_leaves_nothing_ends_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    file = written(datasets=[{**TINY, "filters": [{"type": "rating", "min": 9}]}])
    assert main(["data", file]) == 2
    told = "dataset tiny: filter rating (min: 9) leaves nothing: there are 1,500 interactions"
    assert told in capsys.readouterr().err


def test_ev117_counts_what_the_train_data_alone_would_not_keep() -> None:
    def codes(*filters: Any) -> list[str]:
        split = {"type": "last_n", "n": 1, "min_train": 5}
        config = load(small_config(datasets=[{**TINY, "filters": list(filters)}], split=split))
        return [one.code for one in describe_data(Workspace.open(config)).findings]

    assert codes({"type": "min_count", "users": 15}) == ["EV117"]
    assert codes({"type": "min_count", "users": 2}) == []  # train data alone would keep everything
    assert codes({"type": "rating", "min": 2}) == []


class Run(SimpleNamespace):
    """A summary run with a card, or without one."""

    def json_file(self, path: str) -> Any:
        assert path == "data/card.json"
        if isinstance(self.content, Exception):
            raise self.content
        return self.content


def run(bakeoff: str, content: Any, status: str = "FINISHED") -> Run:
    return Run(bakeoff=bakeoff, status=status, started=datetime(2026, 11, 1, 3, tzinfo=UTC), content=content)


def test_sizes_then_and_now_are_those_of_the_latest_earlier_bakeoff_with_a_card(monkeypatch):
    (now,) = cards()
    (smaller,) = cards(datasets=[{**TINY, "n_users": 40, "n_interactions": 1000}])
    (other,) = cards(datasets=[{**TINY, "name": "other"}])

    def plain(card: DataCard) -> Any:
        return json.loads(json.dumps(DescribedData((card,)).as_mapping()))

    def sizes(*runs: Run) -> dict[str, str]:
        monkeypatch.setattr(module, "search_runs", lambda *args, **options: runs)
        return sizes_since(cast(Any, None), "1", [now], bakeoff="me")

    unreadable = [run("x", content) for content in (None, {"datasets": [{}]}, [], TrackingError("damaged"))]
    assert sizes(
        run("me", plain(now)),
        run("cut", plain(now), "KILLED"),
        *unreadable,
        run("a", plain(smaller)),
        run("older", plain(now)),
    ) == {
        "tiny": f"{smaller.interactions:,} interactions of {smaller.users} users with {smaller.items} items "
        f"in the bake-off a of 2026-11-01; now {now.interactions:,} interactions of {now.users} users with "
        f"{now.items} items"
    }
    assert sizes() == sizes(*unreadable) == sizes(run("b", plain(other))) == {}
