"""Commands that fit nothing, where the package of a model is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import small_config, write_config

from evalplugin.cli import main

MISSING = """
from dataclasses import dataclass
from typing import ClassVar
import evalplugin

@evalplugin.model("absent")
@dataclass
class Absent:
    requires: ClassVar = ("no_such_package",)
    k: int = 1

    def fit(self, train, rng): ...

    def scores(self, users): ...
"""


def config(k: object = 2) -> str:
    Path("absent.py").write_text(MISSING)
    absent = {"type": "absent", "params": {"k": k}}
    return write_config(small_config(plugins=["absent.py"], models=["random", "popularity", absent]))


@pytest.mark.parametrize("argv", [["data"], ["validate"], ["validate", "--data"]])
def test_a_model_whose_package_is_missing_is_said_and_left_out(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argv[0], config(), *argv[1:]]) == 0
    message = "the model absent is left out: absent needs the package no_such_package"
    assert message in " ".join(capsys.readouterr().err.split())


def test_parameters_of_such_a_model_are_checked_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", config("many")]) == 2
    assert "models[2].params.k" in capsys.readouterr().err


def test_a_run_refuses_such_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", config()]) == 2
    assert "needs the package no_such_package" in " ".join(capsys.readouterr().err.split())
