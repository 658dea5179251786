"""Processes for tasks: none is started where nothing is computed."""

from __future__ import annotations

import pytest
from bakeoffs import run_bakeoff
from samples import small_config

from evalplugin.execution.engines import local
from evalplugin.features.config import load

pytestmark = pytest.mark.usefixtures("no_drawing", "store")


def test_no_process_is_started_where_all_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(small_config())
    computed = run_bakeoff(config)
    monkeypatch.setattr(local, "Server", None)
    again = run_bakeoff(config, workers=2)
    means = [[model.fold_means for model in outcome.models] for outcome in (computed, again)]
    assert means[0] == means[1]
