"""The winner in a real model registry: its lists, versions and aliases, how it is served, how it comes back."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sysconfig
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

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.base.seeding import generator
from evalplugin.components.parameters import as_mapping
from evalplugin.config import ModelRecipe
from evalplugin.config.sections import Recommend
from evalplugin.data import Candidates, Interactions
from evalplugin.features.gate.champion import recipe_of_registered
from evalplugin.models import MODELS, recommend
from evalplugin.models.base import ListRequest
from evalplugin.tracking.registry.registration import Evidence, Registered, register_lists
from evalplugin.tracking.registry.served import ServedLists, make_lists

NAME = "toy-recommender"
EVIDENCE = Evidence(
    bakeoff="20260101-120000-3f2a",
    model=ModelRecipe(
        "knn", "surprise.KNNBasic", {"k": 40, "sim_options": {"name": "cosine", "user_based": True}}
    ),
    dataset="toy",
    data_digest="d" * 32,
    outcome="promote",
    reason="knn replaces random",
    metrics={"ndcg@10": 0.25, "rr": float("nan")},
    description="# PROMOTE: knn is promoted",
)


def interactions(*, text_ids: bool = False) -> Interactions:
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((30, 20)) < 0.3 + 0.4 * (np.arange(20) < 5))
    users, items = np.arange(100, 130), np.arange(20) * 10
    if text_ids:
        users = np.array([f"ü{i:02}" for i in range(30)], dtype=object)
        items = np.array([f"item {i:02}" for i in range(20)], dtype=object)
    rating = rng.integers(1, 6, len(user)).astype(np.float32)
    return Interactions(user.astype(np.int32), item.astype(np.int32), rating, None, users, items)


def lists(
    data: Interactions | None = None, type: str = "popularity", *, seed: int = 1, **asked: Any
) -> ServedLists:
    model = ModelRecipe(type, type, as_mapping(MODELS.create(type, asked.pop("params", {}))))
    recommend = Recommend(**{"n": 4, "ties": "id", **asked})
    return make_lists(model, data or interactions(), recommend, seed=seed)


def answers(served: ServedLists, folder: Path) -> Any:
    """The registered recommender with these lists, without a registry around it."""
    from evalplugin.tracking.registry.recommender import LISTS, ServedRecommender

    served.save(folder / "lists.npz")
    recommender = ServedRecommender()
    recommender.load_context(SimpleNamespace(artifacts={LISTS: str(folder / "lists.npz")}))
    return lambda users, **params: recommender.predict(None, pd.DataFrame({"user": users}), params)


def run_in(uri: str) -> str:
    client = MlflowClient(tracking_uri=uri)
    home = client.get_experiment_by_name("toy")
    return str(client.create_run(home.experiment_id if home else client.create_experiment("toy")).info.run_id)


def register(uri: str, served: ServedLists | None = None, **changes: Any) -> Registered:
    recipe = {key: changes.pop(key) for key in ("type", "params") if key in changes}
    model = dataclasses.replace(EVIDENCE.model, **recipe)
    evidence = dataclasses.replace(EVIDENCE, model=model, **changes)
    return register_lists(uri, NAME, served or lists(), evidence, run_id=run_in(uri))


def versions(uri: str) -> int:
    return len(MlflowClient(uri).search_model_versions(f"name = '{NAME}'"))


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


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
def test_every_kind_of_model_is_served_as_it_recommends(type, text_ids, tmp_path, backwards):
    data = interactions(text_ids=text_ids)
    params = {"n_components": 3} if type.startswith("sklearn") else {}
    found = answers(lists(data, type, params=params), tmp_path)(data.users.tolist())

    fitted = MODELS.create(type, params)
    fitted.fit(data, generator(1, data.pairs_digest, type, json.dumps(as_mapping(fitted), sort_keys=True)))
    users = np.arange(30, dtype=np.int32)
    expected = recommend(fitted, ListRequest(data, users, 4, Candidates("unseen", excluded=data.rows)))
    assert found["source"].eq("model").all()
    for row, answer in enumerate(found.itertuples()):
        listed = expected.item[row] >= 0
        assert answer.items == data.items[expected.item[row][listed]].tolist()
        assert answer.scores == expected.score[row][listed].tolist()


def test_seen_items_are_served_only_with_candidates_all(tmp_path: Path) -> None:
    data = interactions()
    met = {user: set(data.items[data.rows[code]].tolist()) for code, user in enumerate(data.users.tolist())}
    unseen = answers(lists(data), tmp_path)(data.users.tolist())
    assert all(not met[row.user] & set(row.items) for row in unseen.itertuples())
    everything = answers(lists(data, candidates="all"), tmp_path)(data.users.tolist())
    assert everything["items"].map(tuple).nunique() == 1


def test_unknown_user_gets_popular_items_with_source_popularity(tmp_path: Path) -> None:
    data = interactions()
    found = answers(lists(data, "random"), tmp_path)([7, 100]).to_dict("records")
    order = np.argsort(-data.item_counts, kind="stable")[:4]
    items, scores = data.items[order].tolist(), data.item_counts[order].tolist()
    assert found[0] == {"user": 7, "items": items, "scores": scores, "source": "popularity"}
    assert found[1]["source"] == "model"


def test_short_lists_are_not_padded(tmp_path: Path) -> None:
    data = interactions()
    full = answers(lists(data, n=20), tmp_path)(data.users.tolist())
    assert full["items"].map(len).tolist() == (20 - data.rows.counts).tolist()


def test_a_client_may_ask_for_fewer_items(tmp_path: Path) -> None:
    ask = answers(lists(), tmp_path)
    assert ask([100], n=2)["items"][0] == ask([100])["items"][0][:2]
    assert ask([100], n=None).equals(ask([100]))
    for n in (0, 5):
        with pytest.raises(MlflowException, match=f"n must be from 1 to 4, the length of the lists, not {n}"):
            ask([100], n=n)


def test_lists_are_no_longer_than_there_are_items(tmp_path: Path) -> None:
    served = lists(n=100_000, candidates="all")
    assert served.top_n.n == served.popular.n == 20
    assert answers(served, tmp_path)([100, 7])["items"].map(len).tolist() == [20, 20]


@pytest.mark.parametrize(
    ("text_ids", "user"),
    [(True, 3), (True, None), (True, [["ü00"]]), (False, "100"), (False, 0.5), (False, True)],
)
def test_user_id_of_another_type_is_an_error(text_ids: bool, user: Any, tmp_path: Path) -> None:
    ask = answers(lists(interactions(text_ids=text_ids)), tmp_path)
    with pytest.raises(MlflowException, match=f"users are {'text' if text_ids else 'whole numbers'}, unlike"):
        ask(pd.Series([user], dtype=object))


# Versions and aliases


def test_a_promoted_model_becomes_the_champion_and_the_one_before_it_previous(uri: str) -> None:
    first = register(uri)
    assert (first.name, first.version) == (NAME, "1")
    assert aliases(uri) == {"champion": 1}
    second = register(uri, lists(n=3), bakeoff="b2")
    assert second.version == "2"
    assert aliases(uri) == {"champion": 2, "previous": 1}
    # One that stays, with newer lists, is no other model: the way back leads to the one before it.
    register(uri, lists(n=2), bakeoff="b3", outcome="keep")
    assert aliases(uri) == {"champion": 3, "previous": 1}
    register(uri, lists(n=3), bakeoff="b4")
    assert aliases(uri) == {"champion": 4, "previous": 3}


def test_a_bakeoff_has_one_version_however_often_it_is_registered(uri: str) -> None:
    first = register(uri)
    assert register(uri) == first
    assert (first.later, first.is_same) == (None, False)
    assert versions(uri) == 1


@pytest.mark.parametrize("is_registered", [True, False])
def test_late_resumed_bakeoff_does_not_replace_a_later_champion(uri: str, is_registered: bool) -> None:
    if is_registered:
        register(uri)
    later = register(uri, lists(n=3), bakeoff="20260102-030000-77aa")
    before = aliases(uri)
    found = register(uri)
    assert (found.version, found.later) == (later.version, "20260102-030000-77aa")
    assert aliases(uri) == before
    assert versions(uri) == int(later.version)
    # Of two that began in the same second, neither is later.
    same_second = register(uri, lists(n=4), bakeoff="20260102-030000-0001")
    assert (same_second.later, int(same_second.version)) == (None, int(later.version) + 1)


def test_version_registered_before_an_interruption_gets_the_alias_after_it(uri, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "set_registered_model_alias", interrupt)
        with pytest.raises(KeyboardInterrupt):
            register(uri)
    assert aliases(uri) == {}
    assert register(uri).version == "1"
    assert aliases(uri) == {"champion": 1}


def test_newer_champion_of_another_process_stays(uri: str) -> None:
    register(uri)
    client = MlflowClient(uri)
    client.create_model_version(NAME, f"runs:/{run_in(uri)}/model")
    client.set_registered_model_alias(NAME, "champion", "2")
    assert register(uri).version == "2"
    assert aliases(uri) == {"champion": 2}


def test_the_same_lists_are_not_registered_again(uri: str) -> None:
    first = register(uri)
    again = register(uri, bakeoff="b2", outcome="keep", reason="knn stays")
    assert again == dataclasses.replace(first, is_same=True)
    assert (versions(uri), aliases(uri)) == (1, {"champion": 1})
    changed: list[tuple[ServedLists | None, dict[str, Any]]] = [
        (lists(n=3), {}),
        (None, {"data_digest": "e" * 32}),
        (None, {"params": {"k": 10}}),
        (None, {"type": "surprise.KNNBaseline"}),
    ]
    for number, (served, changes) in enumerate(changed, 2):
        assert not register(uri, served, bakeoff=f"b{number}", outcome="keep", **changes).is_same
        assert versions(uri) == number


def test_another_version_of_evalplugin_registers_the_same_lists_again(uri, monkeypatch):
    register(uri)
    monkeypatch.setattr("evalplugin.tracking.registry.registration.__version__", "99.0")
    assert register(uri, bakeoff="b2", outcome="keep").version == "2"


def test_a_version_holds_its_evidence(uri: str) -> None:
    assert f"mlflow models serve -m models:/{NAME}@champion " in register(uri).command
    version = MlflowClient(uri).get_model_version(NAME, "1")
    tags = {key.removeprefix("evalplugin."): value for key, value in version.tags.items()}
    assert tags["bakeoff"] == EVIDENCE.bakeoff
    assert (tags["model"], tags["model_type"]) == ("knn", "surprise.KNNBasic")
    assert json.loads(tags["model_params"]) == EVIDENCE.model.params
    assert (tags["outcome"], tags["reason"]) == ("promote", "knn replaces random")
    assert json.loads(tags["metrics"]) == {"ndcg@10": 0.25}
    assert version.description == "# PROMOTE: knn is promoted"


def test_parameters_with_a_credential_are_not_registered(uri: str) -> None:
    with pytest.raises(TrackingError, match="knn is not registered: its parameters hold a credential"):
        register(uri, params={"api_key": "hunter2"})


@pytest.mark.parametrize("text_ids", [False, True])
def test_the_champion_is_loaded_without_pickles(uri, text_ids, monkeypatch):
    data = interactions(text_ids=text_ids)
    register(uri, lists(data))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    champion = mlflow.pyfunc.load_model(f"models:/{NAME}@champion")
    found = champion.predict(pd.DataFrame({"user": data.users[:2].tolist()}), params={"n": 3})
    assert list(found.columns) == ["user", "items", "scores", "source"]
    assert found["items"].map(len).tolist() == [3, 3]
    alike = champion.predict({"user": data.users[:2].tolist()}, params={"n": None})
    assert alike["user"].tolist() == data.users[:2].tolist()
    assert alike["items"].map(len).tolist() == [4, 4]

    kind = "string" if text_ids else "long"
    assert champion.metadata.get_input_schema().to_dict() == [
        {"type": kind, "name": "user", "required": True}
    ]
    assert [c["name"] for c in champion.metadata.get_output_schema().to_dict()] == list(found.columns)
    about = champion.metadata.metadata
    assert about["unknown_users"].startswith("the items that most users met")
    assert about["user_ids"].startswith(
        "text" if text_ids else "whole numbers; MLflow makes one of whatever else"
    )
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
    assert (recipe.name, recipe.type, recipe.params) == ("knn", EVIDENCE.model.type, EVIDENCE.model.params)
    assert recipe.origin == f"{NAME}@champion, version 1: knn of bake-off {EVIDENCE.bakeoff}"
    with pytest.raises(DataError, match="has no alias 'live'; there are: champion"):
        recipe_of_registered(uri, f"{NAME}@live")


@pytest.mark.parametrize(
    "held",
    [
        {},
        {"model_type": "random", "model_params": "{}"},
        {"model": "a", "bakeoff": "b", "model_type": "random", "model_params": "{oops"},
        {"model": "a", "bakeoff": "b", "model_type": "random", "model_params": "[1]"},
    ],
)
def test_foreign_model_version_is_no_champion(uri: str, held: dict[str, str]) -> None:
    client = MlflowClient(uri)
    client.create_registered_model("theirs")
    tags = {f"evalplugin.{key}": value for key, value in held.items()}
    client.create_model_version("theirs", f"runs:/{run_in(uri)}/model", tags=tags)
    client.set_registered_model_alias("theirs", "champion", "1")
    said = "version 1 of the registered model 'theirs', its champion, was not registered by evalplugin: its tags do"
    with pytest.raises(TrackingError, match=said):
        recipe_of_registered(uri, "theirs@champion")


# A registry that is not the tracking store


@pytest.fixture
def registry(uri: str, _empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    shutil.copy(_empty_store, tmp_path / "their registry.db")
    registry = f"sqlite:///{tmp_path / 'their registry.db'}"
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", registry)
    return registry


def test_serve_command_names_a_separate_registry(uri, registry, monkeypatch):
    registered = register(uri)
    *stores, mlflow_, models, serve = shlex.split(registered.command)[:5]
    assert stores == [f"MLFLOW_TRACKING_URI={uri}", f"MLFLOW_REGISTRY_URI={registry}"]
    assert [mlflow_, models, serve] == ["mlflow", "models", "serve"]
    monkeypatch.delenv("MLFLOW_REGISTRY_URI")
    assert recipe_of_registered(uri, f"{NAME}@champion") is None
    assert recipe_of_registered(registry, f"{NAME}@champion") is not None
    assert "MLFLOW_REGISTRY_URI" not in register(uri).command


def test_relative_registry_uri_becomes_absolute(uri, registry, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", "sqlite:///their registry.db")
    assert register(uri).registry_uri == registry
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", uri)
    assert register(uri).registry_uri is None


def test_a_champion_is_found_in_a_registry_whose_tracking_store_is_new(uri, registry, tmp_path):
    register(uri)
    found = recipe_of_registered(f"sqlite:///{tmp_path / 'new.db'}", f"{NAME}@champion")
    assert found is not None
    assert not (tmp_path / "new.db").exists()


def test_unreachable_registry_is_an_error_within_seconds(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}"
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", nowhere)
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    with pytest.raises(
        TrackingError, match=f"^MLflow at {nowhere}: cannot look up the registered model {NAME}@champ"
    ):
        recipe_of_registered(uri, f"{NAME}@champion")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match=f"^MLflow at {nowhere}: cannot register knn as {NAME}"):
        register(uri)


# Over HTTP


@pytest.fixture
def served(uri: str, registry: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of `mlflow models serve`, as it is printed."""
    monkeypatch.setenv("PATH", f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}")
    registered = register(uri)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["sh", "-c", f"{registered.command} --port {port}"]
    environment = {**os.environ, "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(f"{url}/ping", process)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # its session is ours alone
        process.communicate(timeout=60)


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
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["predictions"]


@pytest.mark.slow
@pytest.mark.server
def test_the_champion_answers_over_http(served: str) -> None:
    data = interactions()
    order = data.items[np.argsort(-data.item_counts, kind="stable")].tolist()
    known, unknown = ask(served, {"dataframe_records": [{"user": 100}, {"user": 7}], "params": {"n": 2}})
    assert (unknown["user"], unknown["items"], unknown["source"]) == (7, order[:2], "popularity")
    met = set(data.items[data.rows[0]].tolist())
    assert (known["user"], known["source"]) == (100, "model")
    assert known["items"] == [item for item in order if item not in met][:2]
    (whole,) = ask(served, {"dataframe_records": [{"user": 100}], "params": {"n": None}})
    assert len(whole["items"]) == 4
    # MLflow makes whole numbers of other values before the model sees them: the answer says whose list it is.
    assert [row["user"] for row in ask(served, {"inputs": {"user": [True, 100.5]}})] == [1, 100]
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(served, {"dataframe_records": [{"user": 100}], "params": {"n": 5}})
    assert "n must be from 1 to 4" in json.load(caught.value)["message"]
