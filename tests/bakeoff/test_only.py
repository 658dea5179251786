"""A part of the models of a config: run alone, or computed anew beside the stored ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from samples import CHANCE, RecordingObserver, small_config, write_config

import evalplugin
from evalplugin.bakeoff.flow import run_bakeoff
from evalplugin.cli import main
from evalplugin.features.config import load
from evalplugin.workspace import Workspace

pytestmark = pytest.mark.usefixtures("no_drawing", "store")
COUNTED = """
from dataclasses import dataclass
import numpy as np
import evalplugin

@evalplugin.model("counted")
@dataclass
class Counted:
    '''Popularity, which adds a line to a file whenever it is fitted.'''

    k: int = 1

    def fit(self, train, rng):
        with open("fits.txt", "a") as file:
            file.write(f"{self.k}\\n")
        self.popularity = train.item_counts.astype(float)

    def scores(self, users):
        return np.tile(self.popularity, (len(users), 1))
"""
GATE = {"gate": {"guardrails": {"metrics": {"recall@10": 0.5}}}}


def fits() -> list[int]:
    file = Path("fits.txt")
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def shop() -> str:
    """A config of a baseline and two models that count their fits, one of them a grid."""
    Path("counted.py").write_text(COUNTED)
    many = {"name": "many", "type": "counted", "grid": {"k": [2, 3]}}
    models = ["random", {"name": "one", "type": "counted"}, many]
    return write_config(small_config(plugins=["counted.py"], models=models))


def names(outcome: Any) -> list[str]:
    return [model.model for model in outcome.models]


def test_only_runs_the_named_models_and_the_points_of_a_named_grid(shop: str) -> None:
    assert names(evalplugin.run(shop, only="one")) == ["one"]
    assert fits() == [1]
    assert names(evalplugin.run(shop, only=["many", "random"])) == ["random", "many(k=2)", "many(k=3)"]
    assert names(evalplugin.run(shop, only=["many(k=3)"])) == ["many(k=3)"]
    assert fits() == [1, 2, 3]


def test_models_that_were_run_apart_are_compared_in_the_store(shop: str) -> None:
    evalplugin.run(shop, only=["one"])
    evalplugin.run(shop, only=["random"])
    (comparison,) = evalplugin.compare("one", "random", baseline="random").comparisons
    assert {row.model for row in comparison.models} == {"one", "random"}


def test_a_baseline_that_is_not_run_is_said_and_nothing_is_compared_with_it(shop: str) -> None:
    said = RecordingObserver()
    workspace = Workspace.open(load(Path(shop)), observer=said, only=["one"])
    assert workspace.config.spec.compare.baseline is None
    assert said.lines == ["shop.yaml: the baseline random is not run: no model is compared with it"]
    both = Workspace.open(load(Path(shop)), observer=said, only=["one", "random"])
    assert both.config.spec.compare.baseline == "random"
    assert len(said.lines) == 1


def test_a_gate_does_not_decide_about_a_part_of_the_models() -> None:
    config = write_config(small_config(models=["random", "popularity", CHANCE], **GATE))
    said = RecordingObserver()
    part = Workspace.open(load(Path(config)), observer=said, only=["popularity", "random"])
    assert run_bakeoff(part).decision is None
    assert said.has("the gate decides nothing: this is a part of the models of the config")
    whole = Workspace.open(load(Path(config)), only=["popularity", "random", "chance"])
    assert run_bakeoff(whole).decision is not None


def test_a_part_is_another_config_for_if_changed(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", shop]) == 0
    assert main(["run", shop, "--only", "one", "--if-changed"]) == 0
    assert "nothing to do" not in capsys.readouterr().out
    for argv in (["run", shop, "--only", "one", "--if-changed"], ["run", shop, "--if-changed"]):
        assert main(argv) == 0
        assert "nothing to do" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_alone_is_computed_anew_and_used_beside_the_others_from_then_on(shop: str) -> None:
    first = evalplugin.run(shop)
    assert fits() == [1, 2, 3]
    alone = evalplugin.run(shop, only="many", fresh=True)
    assert fits() == [1, 2, 3, 2, 3]
    again = evalplugin.run(shop)
    assert fits() == [1, 2, 3, 2, 3]
    assert again.models[1].costs == first.models[1].costs
    assert [model.costs for model in again.models[2:]] == [model.costs for model in alone.models]


def test_command_line_names_models_by_repeated_options(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", shop]) == 0
    assert main(["run", shop, "--only", "one", "--only", "random", "--fresh"]) == 0
    assert fits() == [1, 2, 3, 1]
    capsys.readouterr()
    assert main(["run", shop, "--only", "many", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "many(k=3)" in out
    assert "random" not in out


def test_resumed_part_remembers_that_it_was_to_be_computed_anew(shop, capsys, monkeypatch):
    assert main(["run", shop]) == 0
    with monkeypatch.context() as patched:
        patched.setattr("evalplugin.bakeoff.flow.compare", interrupt)
        assert main(["run", shop, "--only", "one", "--only", "many(k=2)", "--fresh"]) == 130
    assert "run --resume shop.yaml --only one --only 'many(k=2)'" in capsys.readouterr().err
    assert main(["run", "--resume", shop, "--only", "one", "--only", "many(k=2)"]) == 0
    assert "continuing the bake-off" in capsys.readouterr().err
    assert fits() == [1, 2, 3, 1, 2]


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--only", "onee"], "shop.yaml: only: no model is named 'onee'; did you mean 'one'?"),
        (["--only", "x", "--only", "y"], "no model is named 'y'; models: random, one, many(k=2), many(k=3), many"),
        (["--fresh", "one"], "one is not a config; is it a model? --only one runs it alone, with --fresh anew"),
        (["--only", "one", "many"], "many is not a config; is it a model? --only many runs it alone"),
        (["--if-changed", "--fresh"], "asks for work all the same: choose one"),
    ],
)  # fmt: skip
def test_a_model_that_is_not_in_the_config_is_refused_before_any_work(argv, expected, shop, capsys):
    assert main(["run", shop, *argv]) == 2
    assert expected in " ".join(capsys.readouterr().err.split())
    assert fits() == []
