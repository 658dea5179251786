"""On real ratings: MovieLens latest-small, where EVALPLUGIN_DATA_HOME has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import evalplugin

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    "EVALPLUGIN_DATA_HOME" not in os.environ,
    reason="EVALPLUGIN_DATA_HOME is not set: no real ratings to test on",
)


@pytest.mark.slow
def test_the_movielens_config_runs_and_what_learns_beats_chance_by_far() -> None:
    result = evalplugin.run(ROOT / "configs" / "movielens.yaml")
    assert not result.failed
    ndcg = {
        model.model: model.per_user.means["ndcg@10"] for model in result.models if model.per_user is not None
    }
    for name in ("knn-user", "knn-item", "svd", "popularity", "truncated-svd", "item-neighbours"):
        assert ndcg[name] > 5 * ndcg["random"], name
