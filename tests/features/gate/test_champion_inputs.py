"""A champion of the registry is compared before reuse too: the inputs that it declares, and where its alias leads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bakeoffs import run_bakeoff
from mlflow import MlflowClient
from samples import TINY, RecordingObserver, small_config

from evalplugin.base.errors import DataError, UnchangedError
from evalplugin.config import CheckedConfig
from evalplugin.features.config import load
from evalplugin.features.gate.champion import with_champion

pytestmark = pytest.mark.usefixtures("no_drawing")

SVD = {"name": "svd", "type": "sklearn.TruncatedSVD", "params": {"n_components": 4}}


def shop(uri: str, models: list[Any]) -> CheckedConfig:
    own = {
        "experiment": "nightly",
        "datasets": [{**TINY, "n_users": 300, "n_items": 120, "n_interactions": 9000}],
        "relevance": {},
        "metrics": ["ndcg@10"],
        "models": ["random", *models],
        "segments": [],
        "gate": {"min_users": 20},
        "register": {"name": "shop"},
        "tracking": {"uri": uri, "board": False},
    }
    return load(small_config(**own))


def test_inputs_that_a_champion_declares_are_not_opened(uri: str) -> None:
    Path("features.bin").write_bytes(b"old")
    run_bakeoff(shop(uri, [{**SVD, "inputs": ["features.bin"]}]))
    with pytest.raises(DataError, match=r'it declares inputs, .*"inputs": \["features.bin"\]'):
        with_champion(shop(uri, ["popularity"]), uri)


@pytest.mark.slow
def test_alias_that_was_moved_by_hand_is_a_change(uri: str) -> None:
    nights = shop(uri, [SVD, "popularity"])
    first = run_bakeoff(nights)
    with pytest.raises(UnchangedError):  # what the bake-off itself has promoted is no change
        run_bakeoff(nights, if_changed=True)
    other = {"popularity": SVD, "svd": {"name": "popularity", "type": "popularity", "params": {}}}[
        str(first.decision.promoted)
    ]
    client = MlflowClient(uri)
    one = client.get_model_version("shop", "1")
    tags = {"model": other["name"], "model_type": other["type"], "model_params": json.dumps(other["params"])}
    tags = one.tags | {f"evalplugin.{key}": str(value) for key, value in tags.items()}
    client.create_model_version("shop", one.source, tags=tags)
    client.set_registered_model_alias("shop", "champion", "2")
    said = RecordingObserver()
    again = run_bakeoff(nights, if_changed=True, observer=said)
    assert any(line.startswith(f"the champion is {other['name']} now; after ") for line in said.lines)
    assert again.decision.champion == other["name"]
