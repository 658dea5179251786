"""The winner in a real model registry: its lists, versions and aliases, how it is served, how it comes back."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from evalplugin.data import Candidates, Interactions
from evalplugin.errors import TrackingError
from evalplugin.models import MODELS, recommend
from evalplugin.parameters import as_mapping
from evalplugin.seeding import generator
from evalplugin.served import ServedLists, make_lists
from evalplugin.tracking.registry import Evidence, recipe_of_registered, register_lists

NAME = "toy-recommender"
EVIDENCE = Evidence(
    bakeoff="20260101-120000-3f2a",
    model="knn",
    type="surprise.KNNBasic",
    params={"k": 40, "sim_options": {"name": "cosine", "user_based": True}},
    dataset="toy",
    data_digest="d" * 32,
    outcome="promote",
    reason="knn takes the place of random",
    metrics={"ndcg@10": 0.25, "rr": float("nan")},
    description="# PROMOTE: knn is promoted",
)


def interactions(*, text_ids: bool = False) -> Interactions:
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((30, 20)) < 0.3 + 0.4 * (np.arange(20) < 5))
    users, items = np.arange(100, 130), np.arange(20) * 10
    if text_ids:
        # What arrays of text in a file would cut: a zero at the end.
        users = np.array([f"ü{i:02}\0" if i % 2 else f"ü{i:02}" for i in range(30)], dtype=object)
        items = np.array([f"item {i:02}" for i in range(20)], dtype=object)
    rating = rng.integers(1, 6, len(user)).astype(np.float32)
    return Interactions(user.astype(np.int32), item.astype(np.int32), rating, None, users, items)


def lists(data: Interactions | None = None, type: str = "popularity", **asked: Any) -> ServedLists:
    params = as_mapping(MODELS.create(type, asked.pop("params", {})))
    asked = {"n": 4, "candidates": "unseen", "seed": 1, "stream": ("s",), **asked}
    return make_lists(type, params, data or interactions(), **asked)


def answers(served: ServedLists, folder: Path) -> Any:
    """The registered recommender with these lists, without a registry around it."""
    from evalplugin.served.recommender import LISTS, ListRecommender

    served.save(folder / "lists.npz")
    recommender = ListRecommender()
    recommender.load_context(SimpleNamespace(artifacts={LISTS: str(folder / "lists.npz")}))
    return lambda users, **params: recommender.predict(None, pd.DataFrame({"user": users}), params)


def run_in(uri: str) -> str:
    client = MlflowClient(tracking_uri=uri)
    home = client.get_experiment_by_name("toy")
    return str(client.create_run(home.experiment_id if home else client.create_experiment("toy")).info.run_id)


def register(uri: str, served: ServedLists | None = None, **changes: Any) -> Any:
    evidence = dataclasses.replace(EVIDENCE, **changes)
    return register_lists(uri, NAME, served or lists(), evidence, run_id=run_in(uri))


def aliases(uri: str) -> dict[str, int]:
    return {alias: int(n) for alias, n in MlflowClient(uri).get_registered_model(NAME).aliases.items()}


# What is served


@pytest.fixture
def backwards() -> str:
    """A plugin's model, which makes lists itself: the catalogue from its end."""

    @MODELS.register("backwards")
    @dataclass
    class Backwards:
        _n: int = field(default=0, init=False)

        def fit(self, train: Interactions, rng: np.random.Generator) -> None:
            self._n = train.n_items

        def recommend(self, users: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
            items = np.arange(self._n - 1, self._n - 1 - n, -1)
            return np.tile(items, (len(users), 1)), np.tile(np.arange(n, 0, -1.0), (len(users), 1))

    return "backwards"


@pytest.mark.parametrize("text_ids", [False, True])
@pytest.mark.parametrize(
    "type", ["popularity", "random", "surprise.KNNBasic", "sklearn.TruncatedSVD", "backwards"]
)
def test_every_kind_of_model_is_served_as_it_recommends(
    type: str, text_ids: bool, tmp_path: Path, backwards: str
) -> None:
    data = interactions(text_ids=text_ids)
    params = {"n_components": 3} if type.startswith("sklearn") else {}
    found = answers(lists(data, type, params=params), tmp_path)(data.users.tolist())

    fitted = MODELS.create(type, params)
    fitted.fit(data, generator(1, "s", type, json.dumps(as_mapping(fitted), sort_keys=True)))
    users = np.arange(30, dtype=np.int32)
    expected = recommend(fitted, users, 4, Candidates("unseen", excluded=data.rows), 20)
    assert found["source"].eq("model").all()
    for row, answer in enumerate(found.itertuples()):
        listed = expected.item[row] >= 0
        assert answer.items == data.items[expected.item[row][listed]].tolist()
        assert answer.scores == expected.score[row][listed].tolist()


def test_nothing_is_served_that_the_user_has_met_unless_all_is_asked_for(tmp_path: Path) -> None:
    data = interactions()
    met = {user: set(data.items[data.rows[code]].tolist()) for code, user in enumerate(data.users.tolist())}
    unseen = answers(lists(data), tmp_path)(data.users.tolist())
    assert all(not met[row.user] & set(row.items) for row in unseen.itertuples())
    everything = answers(lists(data, candidates="all"), tmp_path)(data.users.tolist())
    assert everything["items"].map(tuple).nunique() == 1


def test_an_unknown_user_gets_the_most_popular_items_and_is_told_so(tmp_path: Path) -> None:
    data = interactions()
    found = answers(lists(data, "random"), tmp_path)([7, 100]).to_dict("records")
    order = np.argsort(-data.item_counts, kind="stable")[:4]
    assert found[0] == {
        "user": 7,
        "items": data.items[order].tolist(),
        "scores": data.item_counts[order].tolist(),
        "source": "popularity",
    }
    assert found[1]["source"] == "model"


def test_a_short_list_ends_where_it_ends(tmp_path: Path) -> None:
    data = interactions()
    full = answers(lists(data, n=20), tmp_path)(data.users.tolist())
    assert full["items"].map(len).tolist() == (20 - data.rows.counts).tolist()


def test_a_client_may_ask_for_fewer_items(tmp_path: Path) -> None:
    ask = answers(lists(), tmp_path)
    assert ask([100], n=2)["items"][0] == ask([100])["items"][0][:2]
    for n in (0, 5):
        with pytest.raises(MlflowException, match=f"n must be from 1 to 4, the length of the lists, not {n}"):
            ask([100], n=n)


@pytest.mark.parametrize("user", [3, None, ["ü00"]])
def test_an_id_of_another_kind_is_no_unknown_user(user: Any, tmp_path: Path) -> None:
    ask = answers(lists(interactions(text_ids=True)), tmp_path)
    with pytest.raises(MlflowException, match="ids of users are text, unlike"):
        ask(pd.Series([user], dtype=object))


# Versions and aliases


def test_a_promoted_model_becomes_the_champion_and_the_one_before_it_previous(uri: str) -> None:
    first = register(uri)
    assert (first.name, first.version, first.previous) == (NAME, "1", None)
    assert aliases(uri) == {"champion": 1}
    second = register(uri, bakeoff="b2")
    assert (second.version, second.previous) == ("2", "1")
    assert aliases(uri) == {"champion": 2, "previous": 1}
    # One that stays, with newer lists, is no other model: the way back leads to the one before it.
    assert register(uri, bakeoff="b3", outcome="keep").previous == "1"
    assert aliases(uri) == {"champion": 3, "previous": 1}
    register(uri, bakeoff="b4")
    assert aliases(uri) == {"champion": 4, "previous": 3}


def test_a_bakeoff_has_one_version_however_often_it_is_registered(uri: str) -> None:
    first = register(uri)
    assert register(uri) == first
    register(uri, bakeoff="b2")
    # A bake-off that is resumed late does not take the place of a later one.
    assert register(uri).version == "2"
    assert aliases(uri) == {"champion": 2, "previous": 1}
    assert len(MlflowClient(uri).search_model_versions(f"name = '{NAME}'")) == 2


def test_a_version_holds_its_evidence(uri: str) -> None:
    registered = register(uri)
    assert registered.uri == f"models:/{NAME}@champion"
    version = MlflowClient(uri).get_model_version(NAME, "1")
    tags = {key.removeprefix("evalplugin."): value for key, value in version.tags.items()}
    assert tags["bakeoff"] == EVIDENCE.bakeoff
    assert (tags["model"], tags["model_type"]) == ("knn", "surprise.KNNBasic")
    assert json.loads(tags["model_params"]) == EVIDENCE.params
    assert (tags["outcome"], tags["reason"]) == ("promote", "knn takes the place of random")
    assert json.loads(tags["metrics"]) == {"ndcg@10": 0.25}
    assert version.description == "# PROMOTE: knn is promoted"


def test_parameters_with_a_credential_are_not_registered(uri: str) -> None:
    with pytest.raises(TrackingError, match="knn is not registered: its parameters hold a credential"):
        register(uri, params={"api_key": "hunter2"})


@pytest.mark.parametrize("text_ids", [False, True])
def test_the_champion_is_loaded_without_pickles(
    uri: str, text_ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = interactions(text_ids=text_ids)
    register(uri, lists(data))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    champion = mlflow.pyfunc.load_model(f"models:/{NAME}@champion")
    found = champion.predict(pd.DataFrame({"user": data.users[:2].tolist()}), params={"n": 3})
    assert list(found.columns) == ["user", "items", "scores", "source"]
    assert found["items"].map(len).tolist() == [3, 3]

    kind = "string" if text_ids else "long"
    assert champion.metadata.get_input_schema().to_dict() == [
        {"type": kind, "name": "user", "required": True}
    ]
    assert [c["name"] for c in champion.metadata.get_output_schema().to_dict()] == list(found.columns)
    about = champion.metadata.metadata
    assert about["unknown_users"].startswith("the items that most users met")
    assert about["fitted_on"] == f"all interactions of toy, digest {'d' * 32}"
    (files,) = (Path(p) for p in [mlflow.artifacts.download_artifacts(f"models:/{NAME}@champion")])
    held = {path.relative_to(files).as_posix() for path in files.rglob("*") if path.is_file()}
    assert {"recommender.py", "artifacts/lists.npz", "input_example.json", "requirements.txt"} <= held
    assert not [path for path in held if path.endswith((".pkl", ".pickle"))]
    needed = (files / "requirements.txt").read_text().split()
    assert sorted(line.partition("==")[0] for line in needed) == ["mlflow", "numpy", "pandas"]


# How a champion is made anew


def test_a_registered_champion_is_found_by_name_and_alias(uri: str) -> None:
    assert recipe_of_registered(uri, f"{NAME}@champion") is None
    register(uri)
    recipe = recipe_of_registered(uri, f"{NAME}@champion")
    assert recipe is not None
    assert (recipe.model, recipe.type, recipe.params) == ("knn", EVIDENCE.type, EVIDENCE.params)
    assert recipe.origin == f"{NAME}@champion, version 1: knn of bake-off {EVIDENCE.bakeoff}"
    assert recipe_of_registered(uri, f"{NAME}@live") is None


def test_a_version_of_somebody_else_is_no_champion(uri: str) -> None:
    client = MlflowClient(uri)
    client.create_registered_model("theirs")
    client.create_model_version("theirs", f"runs:/{run_in(uri)}/model")
    client.set_registered_model_alias("theirs", "champion", "1")
    with pytest.raises(
        TrackingError, match="version 1 of the registered model 'theirs', its champion, was not registered by"
    ):
        recipe_of_registered(uri, "theirs@champion")


# Over HTTP


@pytest.fixture
def served(uri: str) -> Iterator[str]:
    """The address of `mlflow models serve`, as a user starts it."""
    registered = register(uri)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", *shlex.split(registered.command), "--port", str(port)]
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(f"{url}/ping", process)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # its session is ours alone
        process.communicate(timeout=20)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    process.kill()
    raise RuntimeError(
        f"the model is not served:\n{process.communicate()[0].decode(errors='replace')[-3000:]}"
    )


def ask(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"{url}/invocations", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["predictions"]


@pytest.mark.server
def test_the_champion_answers_over_http(served: str) -> None:
    data = interactions()
    order = data.items[np.argsort(-data.item_counts, kind="stable")].tolist()
    known, unknown = ask(served, {"dataframe_records": [{"user": 100}, {"user": 7}], "params": {"n": 2}})
    assert (unknown["user"], unknown["items"], unknown["source"]) == (7, order[:2], "popularity")
    met = set(data.items[data.rows[0]].tolist())
    assert (known["user"], known["source"]) == (100, "model")
    assert known["items"] == [item for item in order if item not in met][:2]
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(served, {"dataframe_records": [{"user": 100}], "params": {"n": 5}})
    assert "n must be from 1 to 4" in json.load(caught.value)["message"]
