"""Bake-offs with a gate: champion, decision and registration."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest
import yaml
from bakeoffs import run_bakeoff
from mlflow import MlflowClient
from samples import TINY, RecordingObserver, small_config, write_config

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.cli import main
from evalplugin.features.config import load
from evalplugin.features.gate.champion import recipe_of_registered, with_champion
from evalplugin.tracking.read.logged import LoggedRun

pytestmark = pytest.mark.usefixtures("no_drawing")

SVD = {"name": "svd", "type": "sklearn.TruncatedSVD", "params": {"n_components": 4}}
NMF = {"name": "nmf", "type": "sklearn.NMF", "params": {"n_components": 8}}
NAME = "shop-recommender"


def config(uri: str, models: list[Any], **changes: Any) -> dict[str, Any]:
    guardrails = {"metrics": {"coverage@10": 0.2}, "costs": {"fit_seconds": {"max": 60}}}
    own = {
        "experiment": "nightly",
        "datasets": [{**TINY, "name": "shop", "n_users": 300, "n_items": 120, "n_interactions": 9000}],
        "relevance": {},
        "compare": {"baseline": "popularity"},
        "gate": {"min_users": 300, "guardrails": guardrails},
        "register": {"name": NAME, "n": 7},
        "tracking": {"uri": uri, "board": False},
    }
    return small_config(**{**own, "models": models, **changes})


def night(uri: str, models: list[Any], **changes: Any) -> SimpleNamespace:
    """Run a bake-off; return its outcome, the reports, and the aliases after it."""
    checked = load(config(uri, models, **changes))
    gated = with_champion(checked, uri)
    observer = RecordingObserver()
    outcome = run_bakeoff(checked, observer=observer)
    client = MlflowClient(uri)
    name = checked.section("register").name if checked.section("register") else NAME
    registered = client.search_registered_models(f"name = '{name}'")
    return SimpleNamespace(
        gated=gated,
        decision=outcome.decision,
        links=outcome.links,
        reports=observer.lines,
        aliases={alias: int(n) for one in registered for alias, n in one.aliases.items()},
    )


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory, _empty_store: Path) -> str:
    folder = tmp_path_factory.mktemp("nights")
    shutil.copy(_empty_store, folder / "mlflow.db")
    return f"sqlite:///{folder / 'mlflow.db'}"


@pytest.fixture(scope="module")
def first(uri: str) -> SimpleNamespace:
    """Nobody is registered yet: the baseline stands for the champion, and only the gain and limits are required."""
    return night(uri, ["popularity", SVD])


@pytest.fixture(scope="module")
def second(uri: str, first: SimpleNamespace) -> SimpleNamespace:
    """The champion is in the config no more: it takes part all the same. An equal and a worse model challenge it."""
    return night(uri, ["popularity", {**SVD, "name": "equal", "params": {**SVD["params"], "n_iter": 6}}])


@pytest.fixture(scope="module")
def third(uri: str, second: SimpleNamespace) -> SimpleNamespace:
    return night(uri, ["popularity", NMF, SVD])


def test_baseline_is_champion_while_none_is_registered(uri: str, first: SimpleNamespace) -> None:
    assert first.gated.champion == first.decision.champion == "popularity"
    assert first.decision.notes[0].startswith(
        f"there is no {NAME}@champion in the registry yet: the baseline"
    )
    assert {c.kind for c in first.decision.conditions} == {"gain", "cost"}
    assert first.decision.promoted == "svd"
    assert first.aliases == {"champion": 1}
    assert first.reports[0] == first.decision.notes[0]
    start, _, end = first.reports[-1].partition(f"to serve it: MLFLOW_TRACKING_URI={uri} ")
    assert start == f"svd is registered: version 1 of {NAME}, now its champion; "
    assert end.endswith(f"mlflow models serve -m models:/{NAME}@champion --env-manager local --port 5001")


def test_registered_champion_is_added_to_the_config(uri: str, second: SimpleNamespace) -> None:
    assert [model.name for model in second.gated.config.models] == ["popularity", "equal", "champion"]
    assert second.decision.champion == "champion"
    assert second.decision.notes[0].startswith(
        f"the champion is sklearn.TruncatedSVD, fitted anew, as {NAME}@champion, version 1: svd of bake-off"
    )


def test_neither_an_equal_nor_a_worse_challenger_is_promoted(second: SimpleNamespace) -> None:
    assert second.decision.outcome == "cannot_tell"
    assert second.aliases == {"champion": 1}


def test_better_challenger_replaces_champion(uri: str, third: SimpleNamespace) -> None:
    assert third.gated.champion == "svd"
    assert third.gated.config.models[-1].name == "svd"
    assert (third.decision.promoted, third.aliases) == ("nmf", {"champion": 2, "previous": 1})
    found = recipe_of_registered(uri, f"{NAME}@champion")
    assert found is not None
    assert (found.name, found.type, found.params["n_components"]) == ("nmf", "sklearn.NMF", 8)


def test_the_registered_lists_are_as_long_as_asked_for(uri, third, tmp_path):
    client = MlflowClient(uri)
    version = client.get_model_version(NAME, "2")
    files = Path(mlflow.artifacts.download_artifacts(version.source, dst_path=str(tmp_path)))
    assert (files / "recommender.py").is_file()
    about = yaml.safe_load((files / "MLmodel").read_text())["metadata"]
    assert (about["model"], about["n"], about["users"], about["items"]) == ("nmf", 7, 300, 120)
    assert json.loads(version.tags["evalplugin.metrics"]).keys() == {"ndcg@10", "recall@10", "coverage@10"}


def test_a_version_comes_from_the_logged_model_of_the_winner(uri: str, third: SimpleNamespace) -> None:
    client = MlflowClient(uri)
    version = client.get_model_version(NAME, "2")
    assert version.run_id == third.links.summary_run_id
    model = client.get_logged_model(version.tags["evalplugin.logged_model"])
    assert version.source == model.artifact_location
    assert client.get_run(model.source_run_id).info.run_name == model.name == "nmf"
    assert json.loads(model.tags["mlflow.modelVersions"]) == [{"name": NAME, "version": "2"}]
    means = {metric.key: metric.value for metric in model.metrics}
    assert means["ndcg_at_10"] == json.loads(version.tags["evalplugin.metrics"])["ndcg@10"]


@pytest.mark.slow
def test_register_refresh_updates_lists_of_unchanged_champion(uri: str, third: SimpleNamespace) -> None:
    found = night(uri, ["popularity", SVD], register={"name": NAME, "refresh": True})
    assert (found.decision.outcome, found.decision.champion) == ("keep", "champion")
    assert found.aliases == {"champion": 3, "previous": 1}
    recipe = recipe_of_registered(uri, f"{NAME}@champion")
    # Its name in the bake-off that made the version: there the run is found.
    assert (recipe.name, recipe.type) == ("champion", "sklearn.NMF")
    # The next night finds nothing new.
    found = night(uri, ["popularity", SVD], register={"name": NAME, "refresh": True})
    assert found.aliases == {"champion": 3, "previous": 1}
    assert len(MlflowClient(uri).search_model_versions(f"name = '{NAME}'")) == 3
    assert found.reports[-1].startswith(
        f"champion is not registered again: version 3 of {NAME}, its champion, has the same lists; to serve it: MLFLOW_"
    )
    tags = MlflowClient(uri).get_run(found.links.summary_run_id).data.tags
    assert tags["evalplugin.registered"] == f"{NAME}, version 3"


@pytest.mark.slow
@pytest.mark.parametrize("refresh", [None, False])
def test_a_champion_that_stays_is_renewed_when_the_data_changed_unless_refresh_is_false(refresh, tmp_path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    register = {"name": NAME} if refresh is None else {"name": NAME, "refresh": refresh}
    models = ["popularity", SVD]
    first = night(uri, models, register=register)
    assert (first.decision.promoted, first.aliases) == ("svd", {"champion": 1})
    same = night(uri, models, register=register)
    assert (same.decision.outcome, same.aliases) == ("keep", {"champion": 1})
    (data,) = config(uri, models)["datasets"]
    later = {**data, "n_interactions": data["n_interactions"] + 50}
    fresh = night(uri, models, register=register, datasets=[later])
    assert fresh.decision.outcome == "keep"
    assert fresh.aliases == {"champion": 1 if refresh is False else 2}
    notes = [note for note in fresh.decision.notes if "register.refresh is false" in note]
    assert len(notes) == (refresh is False)
    assert all(f"the lists of {NAME}@champion stay" in note for note in notes)


def test_the_champion_of_a_later_bakeoff_stays(uri, third, monkeypatch):
    before = recipe_of_registered(uri, f"{NAME}@champion")
    monkeypatch.setattr("evalplugin.bakeoff.description.new_id", lambda: "20200101-030000-3f2a")
    asked = {"name": NAME, "n": 3, "refresh": True}
    found = night(uri, ["popularity", NMF], register=asked, experiment="resumed")
    assert recipe_of_registered(uri, f"{NAME}@champion") == before
    number = found.aliases["champion"]
    assert found.reports[-1].startswith(
        f"nmf is not registered: version {number} of {NAME}, its champion, is of the later bake-off "
    )
    assert "evalplugin.registered" not in MlflowClient(uri).get_run(found.links.summary_run_id).data.tags


def test_baseline_in_role_of_champion_is_never_registered(uri: str, third: SimpleNamespace) -> None:
    found = night(uri, ["popularity", "random"], register={"name": "nobody-yet", "refresh": True})
    assert (found.decision.outcome, found.decision.champion) == ("keep", "popularity")
    assert [model.name for model in MlflowClient(uri).search_registered_models()] == [NAME]


def test_a_dry_run_counts_the_champion_too(uri, third, capsys):
    file = Path("nightly.yaml")
    write_config(config(uri, ["popularity", SVD]), file)
    assert main(["run", "--dry-run", str(file)]) == 0
    out, err = capsys.readouterr()
    assert "nightly.yaml: 3 runs in the experiment 'nightly'" in out
    assert "the champion is sklearn.NMF, fitted anew" in err
    assert main(["run", "--dry-run", "--tracking-uri", "sqlite:///new.db", str(file)]) == 0
    assert "2 runs" in capsys.readouterr().out
    assert not Path("new.db").exists()


def test_unknown_alias_is_an_error(uri: str, first: SimpleNamespace) -> None:
    asked = config(uri, ["popularity", SVD], gate={"champion": {"registry": f"{NAME}@champio"}})
    del asked["register"]
    told = rf"the registered model '{NAME}' has no alias 'champio'; did you mean 'champion'\?"
    with pytest.raises(DataError, match=told):
        with_champion(load(asked), uri)


def test_baseline_in_role_of_champion_cannot_be_the_only_challenger(uri: str) -> None:
    asked = config(uri, ["popularity", SVD], register={"name": "nobody-yet"})
    asked["gate"]["challengers"] = ["popularity"]
    with pytest.raises(DataError, match="'popularity' is the only challenger that is named, and is the"):
        with_champion(load(asked), uri)
    asked["gate"]["challengers"] = ["popularity", "svd"]
    assert with_champion(load(asked), uri) is not None


def test_without_a_gate_nothing_changes(uri: str) -> None:
    asked = config(uri, ["popularity"])
    del asked["gate"], asked["register"]
    assert with_champion(load(asked), uri) is None


def test_champion_of_unloaded_plugin_is_an_error(uri, first, monkeypatch):
    from evalplugin.models import MODELS

    recipe = recipe_of_registered(uri, f"{NAME}@champion")  # a night of another test may have promoted it
    assert recipe is not None
    asked = load(config(uri, ["popularity"]))
    monkeypatch.delitem(MODELS._entries, recipe.type)
    with pytest.raises(TrackingError, match=rf"fitted here: unknown model '{recipe.type}'.*its plugin"):
        with_champion(asked, uri)


@pytest.mark.slow
def test_decisions_are_counted_over_the_nights(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    gated = {"min_users": 300, "decisions": 2}
    asked = {"experiment": "counted", "gate": gated, "register": {"name": "counted"}}
    models = ["popularity", SVD]
    nights = [night(uri, models, seed=seed, **asked) for seed in (1, 2, 3)]
    assert [n.decision.outcome for n in nights] == ["promote", "keep", "refuse"]
    assert [n.decision.decisions_left for n in nights] == [1, 0, 0]
    assert "1 of 2 decisions of the gate are left" in nights[1].reports
    assert "all of the 2 decisions of gate.decisions are taken" in nights[2].decision.reason
    client = MlflowClient(uri)
    summaries = [LoggedRun(client, client.get_run(n.links.summary_run_id)) for n in nights]
    assert [run.tag("decisions_left") for run in summaries] == ["1", "0", "0"]
    assert [float(run.tag("error_spent")) for run in summaries] == pytest.approx([0.025, 0.025, 0])
    # Fewer than were taken: before anything is read or fitted.
    file = write_config(config(uri, models, **asked))
    for command in (["run"], ["run", "--dry-run"]):
        assert main([*command, file, "--set", "gate.decisions=1"]) == 2
        assert "gate.decisions is 1, but 2 decisions of this gate have been taken" in capsys.readouterr().err
