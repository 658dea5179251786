"""Configs whose model needs a package that is not installed."""

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

    def fit(self, train, rng): ...

    def scores(self, users): ...
"""


@pytest.mark.parametrize("command", ["data", "validate", "run"])
def test_a_model_whose_package_is_missing_is_refused(command, capsys):
    Path("absent.py").write_text(MISSING)
    config = write_config(small_config(plugins=["absent.py"], models=["random", "absent"], compare={}))
    assert main([command, config]) == 2
    assert "absent needs the package no_such_package" in " ".join(capsys.readouterr().err.split())
