"""Workspaces of an MLflow server: two teams with one experiment name, and links that lead into one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mlflow import MlflowClient
from samples import small_config
from servers import ObjectStorage, Server, mlflow_server

import evalplugin
from evalplugin.base.errors import TrackingError
from evalplugin.features.base import Bakeoff

pytestmark = [pytest.mark.server, pytest.mark.slow]

CONFIG = small_config(gate={"min_users": 20, "confidence": 0.6}, register={"name": "shop-recommender"})


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory, storage: ObjectStorage) -> Iterator[Server]:
    """A server that has the workspaces of team-a and team-b."""
    folder = tmp_path_factory.mktemp("workspaces")
    options = ["--enable-workspaces", "--artifacts-destination", str(folder / "artifacts")]
    with mlflow_server(folder, f"sqlite:///{folder}/store.db", storage, options) as server:
        for team in ("team-a", "team-b"):
            MlflowClient(server.url).create_workspace(team)
        yield server


def run(server: Server, **changes: Any) -> Bakeoff:
    return evalplugin.run({**CONFIG, "tracking": {"uri": server.url}, **changes})


def test_a_bake_off_stays_in_its_workspace(workspaces: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, team in enumerate(("team-a", "team-b", "team-a")):
        monkeypatch.setenv("MLFLOW_WORKSPACE", team)
        run(workspaces, seed=number)
    found = {}
    for team in ("team-a", "team-b", "default"):
        monkeypatch.setenv("MLFLOW_WORKSPACE", team)
        client = MlflowClient(workspaces.url)
        experiments = {each.name: each.experiment_id for each in client.search_experiments()}
        runs = client.search_runs([experiments["shop"]]) if "shop" in experiments else []
        models = [model.name for model in client.search_registered_models()]
        found[team] = (len(runs), models)
    ours = ["shop-recommender"]
    assert found == {"team-a": (6, ours), "team-b": (3, ours), "default": (0, [])}
    monkeypatch.setenv("MLFLOW_WORKSPACE", "team-a")
    assert len(evalplugin.history("shop", tracking_uri=workspaces.url).bakeoffs) == 2
    compared = evalplugin.compare(experiment="shop", tracking_uri=workspaces.url)
    assert set(compared.to_frame()["model"]) == {"popularity", "random"}


def test_links_name_the_workspace(workspaces: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_WORKSPACE", "team-b")
    links = run(workspaces, experiment="links").links
    for url in (links.page_url, links.board_url, links.compare_url):
        assert url.endswith("&workspace=team-b")


def test_an_unknown_workspace_is_named_before_anything_is_fitted(workspaces, monkeypatch):
    monkeypatch.setenv("MLFLOW_WORKSPACE", "team-x")
    with pytest.raises(TrackingError, match=r"'team-x' not found \(MLFLOW_WORKSPACE of the environment"):
        run(workspaces)
