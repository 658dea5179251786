"""Champions and lists of runs, from a real MLflow server on SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from bakeoffs import run_bakeoff
from samples import small_config
from servers import mlflow_server

from evalplugin.features.config import load
from evalplugin.tracking.connection import connect


@pytest.fixture
def webhook() -> Iterator[tuple[str, Queue[Any]]]:
    """The address of a server on this machine, and the JSON that is sent to it."""
    calls: Queue[Any] = Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            calls.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", calls
        server.shutdown()


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.usefixtures("no_drawing")
def test_a_champion_and_lists_of_a_server_are_evaluated(tmp_path, storage, webhook):
    receiver, calls = webhook
    database = f"sqlite:///{tmp_path}/server.db"
    connect(database)
    with mlflow_server(
        tmp_path, database, storage, ["--artifacts-destination", str(tmp_path / "files")]
    ) as server:
        client = connect(server.url)
        client.create_webhook("told", receiver, ["model_version_alias.created"])
        gate = {"gate": {"min_users": 20, "confidence": 0.6}, "register": {"name": "shop"}}
        first = run_bakeoff(load(small_config(**gate)), tracking_uri=server.url)
        models = [
            "random",
            {"name": "deployed", "type": "mlflow", "params": {"model": "models:/shop@champion"}},
            {"name": "again", "type": "lists", "params": {"run": first.links.compared[1]}},
        ]
        second = run_bakeoff(load(small_config(models=models, experiment="again")), tracking_uri=server.url)
        version = client.get_model_version("shop", "1")
        assert version.source.startswith("mlflow-artifacts:")
        model = client.get_logged_model(version.tags["evalplugin.logged_model"])
        assert model.source_run_id in first.links.compared
        assert model.name == "popularity"
    called = calls.get(timeout=60)
    assert (called["entity"], called["action"]) == ("model_version_alias", "created")
    told = called["data"]
    assert (told["name"], told["alias"], told["version"]) == ("shop", "champion", "1")
    _, deployed, again = second.models
    assert (deployed.error, again.error) == (None, None)
    assert deployed.notes[0].startswith("evaluated is version 1 of shop, popularity of the bake-off ")
    assert again.per_user.means in [model.per_user.means for model in first.models]
