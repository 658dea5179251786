"""The winner that cannot be registered: what is known of the models is neither lost nor computed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from samples import line_of, write_config

from evalplugin.base.errors import StoreError, TrackingError
from evalplugin.cli import main
from evalplugin.features.gate import feature

PLUGIN = """
import time
from dataclasses import dataclass
import numpy as np
import evalplugin

@evalplugin.model("upright")
@dataclass
class Upright:
    on_all: str = "fit"

    def fit(self, train, rng):
        with open("fits.txt", "a") as file:
            file.write(f"{len(train)}\\n")
        if len(train) == 6000:  # nothing is held out
            {"fit": lambda: None, "raise": lambda: 1 / 0, "wait": lambda: time.sleep(600)}[self.on_all]()
        self.counts = np.bincount(train.item, minlength=train.n_items).astype(float)

    def scores(self, users):
        return np.tile(self.counts, (len(users), 1))
"""

DIVIDES = f"plugin.py:{line_of('1 / 0', PLUGIN)}"

pytestmark = pytest.mark.usefixtures("no_drawing", "store")


def config(on_all: str, **changes: Any) -> str:
    Path("plugin.py").write_text(PLUGIN)
    data = {
        "experiment": "nightly",
        "plugins": ["plugin.py"],
        "datasets": [{"type": "synthetic", "n_users": 300, "n_items": 200, "n_interactions": 6000}],
        "split": {"type": "last_n", "n": 2},
        "recommend": {"n": 10},
        "metrics": ["ndcg@10"],
        "models": ["random", {"name": "upright", "type": "upright", "params": {"on_all": on_all}}],
        "segments": [],
        "compare": {"baseline": "random"},
        "gate": {"min_users": 20},
        "register": {"name": "shop"},
        "tracking": {"uri": f"sqlite:///{Path.cwd()}/mlflow.db", "board": False},
    }
    write_config({**data, **changes}, "config.yaml")
    return "config.yaml"


def client() -> MlflowClient:
    return MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")


def summary() -> Run:
    home = client().get_experiment_by_name("nightly")
    return client().search_runs([home.experiment_id], "tags.`evalplugin.role` = 'summary'")[0]


def fits() -> list[str]:
    return Path("fits.txt").read_text().split()


def journals() -> list[Path]:
    return list(Path(".evalplugin/bakeoffs").glob("*.jsonl"))


@pytest.mark.parametrize(
    ("on_all", "limits", "why"),
    [
        ("raise", {}, f"{DIVIDES}: ZeroDivisionError: division by zero"),
        pytest.param(
            "raise",
            {"seconds": 60},
            f"{DIVIDES}: ZeroDivisionError: division by zero",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "wait",
            {"seconds": 15},
            "stopped: the task took more than 15 s, its limit (limits.seconds)",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_failed_refit_of_the_winner_is_reported_with_the_results(on_all, limits, why, capsys):
    told = {"command": ["tee", "told.json"], "on": ["failure"]}
    assert main(["run", config(on_all, limits=limits, notify=told)]) == 1
    out, err = capsys.readouterr()
    assert json.loads(Path("told.json").read_text())["error"].endswith(why)
    assert "PROMOTE: upright replaces the champion " in out
    assert f"error: upright cannot be registered: fitted on all data, it failed: {why}\n" in err
    assert "Traceback" not in err
    tags = summary().data.tags
    assert tags["evalplugin.registered"].startswith("failed: upright cannot be registered")
    assert client().search_registered_models() == []
    assert journals() == []
    assert (
        main(["history", "--experiment", "nightly", "--tracking-uri", f"sqlite:///{Path.cwd()}/mlflow.db"])
        == 0
    )
    assert "not registered" in capsys.readouterr().out
    # It is tried again, although nothing has changed.
    assert main(["schedule", "--once", "--if-changed", "config.yaml"]) == 1
    assert "nothing to do" not in capsys.readouterr().out


def test_unreachable_registry_loses_no_results(capsys, monkeypatch):
    def away(*args: object, **more: object) -> None:
        raise TrackingError("MLflow at x: cannot register upright as shop: it is away")

    with monkeypatch.context() as patch:
        patch.setattr(feature, "register_lists", away)
        assert main(["run", config("fit")]) == 1
    out, err = capsys.readouterr()
    assert "PROMOTE: upright replaces the champion " in out
    assert "it is away; to go on: python -m evalplugin run --resume config.yaml\n" in err
    first = summary()
    assert len(journals()) == 1

    # Nothing has changed since, and yet there is something to do.
    assert main(["schedule", "--once", "--if-changed", "config.yaml"]) == 0
    again = summary()
    assert again.info.run_id == first.info.run_id
    assert again.data.tags["evalplugin.registered"] == "shop, version 1"
    assert str(client().get_model_version_by_alias("shop", "champion").version) == "1"
    assert fits() == ["5400", "6000", "6000"]
    assert journals() == []


def test_full_disk_while_registering_loses_no_results(capsys, monkeypatch):
    def full(*args: object, **more: object) -> None:
        raise StoreError("cannot write shared, which a worker process needs: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(feature, "run_calls", full)
        assert main(["run", config("fit", limits={"seconds": 60})]) == 1
    out, err = capsys.readouterr()
    assert "PROMOTE: upright replaces the champion " in out
    assert "No space left on device; to go on: python -m evalplugin run --resume config.yaml" in err
    assert summary().data.tags["evalplugin.registered"].startswith("failed: cannot write")
