"""Champions and lists of runs, from a real MLflow server on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import small_config
from servers import ObjectStorage, mlflow_server

from evalplugin.bakeoff.flow import run_bakeoff
from evalplugin.config import load
from evalplugin.tracking.connection import connect


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.usefixtures("no_drawing")
def test_a_champion_and_lists_of_a_server_are_evaluated(tmp_path: Path, storage: ObjectStorage) -> None:
    database = f"sqlite:///{tmp_path}/server.db"
    connect(database)
    with mlflow_server(
        tmp_path, database, storage, ["--artifacts-destination", str(tmp_path / "files")]
    ) as server:
        gate = {"gate": {"min_users": 20}, "register": {"name": "shop"}}
        first = run_bakeoff(load(small_config(**gate)), tracking_uri=server.url)
        models = [
            "random",
            {"name": "deployed", "type": "mlflow", "params": {"model": "models:/shop@champion"}},
            {"name": "again", "type": "lists", "params": {"run": first.links.compared[1]}},
        ]
        second = run_bakeoff(load(small_config(models=models, experiment="again")), tracking_uri=server.url)
    _, deployed, again = second.result.models
    assert (deployed.error, again.error) == (None, None)
    assert deployed.notes[0].startswith("evaluated is version 1 of shop, popularity of the bake-off ")
    assert again.per_user.means in [model.per_user.means for model in first.result.models]
