"""``configs/tuned.yaml``: models of several kinds, tuned within one budget, beside a baseline without parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

import evalplugin
from evalplugin.features.config import load

CONFIG = Path(__file__).parents[3] / "configs" / "tuned.yaml"

pytestmark = pytest.mark.usefixtures("no_drawing", "store")


@pytest.mark.slow
def test_tuned_models_run_in_one_bakeoff_and_beat_the_baseline() -> None:
    result = evalplugin.run(CONFIG)
    tuned = {model.model: model.tuning for model in result.models if model.tuning is not None}
    assert sorted(tuned) == sorted(model.name for model in load(CONFIG).models if model.space)
    assert len(tuned) == 3
    assert not result.failed
    for tuning in tuned.values():
        assert len(tuning.trials) == 20
        assert tuning.validation >= tuning.defaults
    assert sum(tuning.count("dropped") for tuning in tuned.values()) > 5
    means = {model.model: model.per_user.means["ndcg@10"] for model in result.models if model.per_user}
    assert all(means[name] > means["popularity"] + 0.05 for name in tuned)
    assert not any("tuned" in one.text for model in result.models for one in model.data.findings)
