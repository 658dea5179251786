"""Bake-offs with a gate: champion, decision and registration; and the command that decides later."""

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
from evalplugin.features.gate.champion import recipe_of_registered, recipe_of_run, with_champion
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


@pytest.fixture(scope="module")
def without_gate(uri: str) -> SimpleNamespace:
    """A bake-off that decides nothing, in an experiment of its own."""
    asked = config(uri, ["popularity", SVD], experiment="by hand")
    del asked["gate"], asked["register"]
    return SimpleNamespace(links=run_bakeoff(load(asked)).links)


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


def test_unknown_alias_is_an_error(uri, third, capsys):
    assert gate(uri, "--bakeoff", bakeoff_of(uri, third), "--champion", f"{NAME}@champio") == 2
    told = f"the registered model '{NAME}' has no alias 'champio'; did you mean 'champion'?"
    assert told in capsys.readouterr().err


def test_a_run_may_be_the_champion(uri: str, first: SimpleNamespace) -> None:
    recipe = recipe_of_run(uri, "svd")
    assert (recipe.name, recipe.type, recipe.params["n_components"]) == ("svd", "sklearn.TruncatedSVD", 4)
    asked = config(uri, ["popularity", NMF], gate={"champion": {"run": "svd"}})
    del asked["register"]
    gated = with_champion(load(asked), uri)
    assert gated.champion == "champion"
    assert [model.name for model in gated.config.models] == ["popularity", "nmf", "champion"]
    with pytest.raises(DataError, match="has no run with results called 'svdd'; did you mean 'svd'"):
        with_champion(load({**asked, "gate": {"champion": {"run": "svdd"}}}), uri)


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

    monkeypatch.delitem(MODELS._entries, "sklearn.TruncatedSVD")
    asked = config(uri, ["popularity"], gate={"champion": {"run": "svd"}})
    del asked["register"]
    with pytest.raises(
        TrackingError, match=r"fitted here: unknown model 'sklearn\.TruncatedSVD'.*its plugin"
    ):
        with_champion(load(asked), uri)


# The command


def gate(uri: str, *options: str) -> int:
    fewest = [] if "--min-users" in options else ["--min-users", "300"]
    return main(["gate", "--tracking-uri", uri, *fewest, *options])


def bakeoff_of(uri: str, found: SimpleNamespace) -> str:
    return str(MlflowClient(uri).get_run(found.links.summary_run_id).data.tags["evalplugin.bakeoff"])


def test_gate_command_decides_as_the_bake_off_did(uri, third, capsys):
    found = bakeoff_of(uri, third)
    champion = ["--champion", "svd"]
    asked = ["--config", write_config(config(uri, ["popularity", NMF, SVD])), *champion]
    assert gate(uri, "--bakeoff", found, *asked, "--format", "json", "--dry-run") == 0
    decision = json.loads(capsys.readouterr().out)
    assert decision["conditions"] == json.loads(third.decision.to_json())["conditions"]
    assert decision["promoted"] == "nmf"


def test_the_decision_is_logged_on_the_summary_run(uri, without_gate, capsys, tmp_path):
    client, run = MlflowClient(uri), without_gate.links.summary_run_id
    asked = ["--bakeoff", bakeoff_of(uri, without_gate), "--champion", "svd"]
    assert gate(uri, *asked) == 0
    out, err = capsys.readouterr()
    assert out.startswith("KEEP: The champion svd stays\nsvd stays: popularity: gain ")
    assert f"logged on the run {run}: decision.md, decision.json\n" in err
    tags = (logged_run := client.get_run(run)).data.tags
    logged = {key: tags[f"evalplugin.{key}"] for key in ("outcome", "champion", "promoted")}
    assert logged == {"outcome": "keep", "champion": "svd", "promoted": ""}
    decision = json.loads(Path(client.download_artifacts(run, "decision.json", str(tmp_path))).read_text())
    assert decision["reason"] == LoggedRun(client, logged_run).tag("reason")
    assert "# KEEP" in Path(client.download_artifacts(run, "decision.md", str(tmp_path))).read_text()


def test_a_decision_that_was_made_before_is_not_replaced(uri, third, capsys, tmp_path):
    client, summary = MlflowClient(uri), third.links.summary_run_id
    before = client.get_run(summary).data.tags
    assert before["evalplugin.promoted"] == "nmf"
    assert gate(uri, "--bakeoff", bakeoff_of(uri, third), "--champion", "nmf") == 0
    err = capsys.readouterr().err
    run = client.get_run(err.split("logged on the run ")[1][:32])
    assert f"; the summary run {summary} keeps the decision that it has" in err
    tags = {key: run.data.tags[f"evalplugin.{key}"] for key in ("role", "outcome", "champion", "promoted")}
    assert tags == {"role": "decision", "outcome": "keep", "champion": "nmf", "promoted": ""}
    assert client.get_run(summary).data.tags == before
    text = Path(client.download_artifacts(summary, "decision.json", str(tmp_path))).read_text()
    assert text == third.decision.to_json()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--champion", "nmf"], 0),
        (["--champion", "nmf", "--fail-on", "keep"], 1),
        (["--champion", "nmf", "--min-users", "301"], 1),
        (["--champion", "nmf", "--min-users", "301", "--fail-on", "never"], 0),
        (["--champion", "svd", "--fail-on", "keep"], 0),
        (["--champion", "svd", "--fail-on", "keep", "--min-gain", "500 %"], 1),
        (["--champion", "svd", "--challenger", "popularity", "--fail-on", "keep"], 1),
    ],
)
def test_gate_exit_code_follows_decision(uri, third, options, code):
    assert gate(uri, "--bakeoff", bakeoff_of(uri, third), "--dry-run", *options) == code


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--champion", "swd"], "has no run with results called 'swd'; did you mean 'svd'?"),
        (["--challenger", "swd"], "no model is called 'swd' to be a challenger; did you mean 'svd'?"),
        (
            ["--champion", "popularity", "--challenger", "popularity"],
            "'popularity' is the only challenger that is named, and is the champion",
        ),
        (["--set", "gate.min_users=50"], "--set sets a value of the config: give it with --config"),
        (["--metric", "ndcgs@10"], "unknown metric 'ndcgs'; did you mean 'ndcg'?"),
        (["--metric", "rr"], "there is no metric 'rr' to rank by"),
        (["--metric", "coverage@10"], "the gate cannot decide by 'coverage@10'"),
        (
            ["--min-gain", "1 percent"],
            "--min-gain: must be 0 or more, as a number such as 0.002 or as a share",
        ),
        (["--confidence", "95"], "--confidence: must be less than 1, not 95.0"),
        (["--dataset", "shops"], "is to decide on shops, where nothing was compared; there is: shop"),
        (["--config", "nightly.yml"], "nightly.yml: no such file"),
    ],
)
def test_wrong_gate_options_are_errors(uri, third, options, told, capsys):
    assert gate(uri, "--bakeoff", bakeoff_of(uri, third), *options) == 2
    assert told in capsys.readouterr().err


def test_gate_command_refuses_config_without_gate(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = config(uri, ["popularity"])
    del asked["gate"], asked["register"]
    write_config(asked, "plain.yaml")
    assert main(["gate", "--config", "plain.yaml"]) == 2
    assert "plain.yaml: has no gate" in capsys.readouterr().err


def test_the_champion_may_be_a_run_of_another_bakeoff(uri, third, second, capsys):
    asked = ["--bakeoff", bakeoff_of(uri, third), "--champion", "equal", "--format", "json"]
    assert gate(uri, *asked) == 0
    out, err = capsys.readouterr()
    decision = json.loads(out)
    assert (decision["champion"], decision["promoted"]) == ("equal", "nmf")
    assert any(note.startswith("the champion is the run equal") for note in decision["notes"])
    # The challengers are of one bake-off: its summary run has the decision.
    assert third.links.summary_run_id in err


def test_models_of_several_bakeoffs_get_a_run_for_their_decision(uri, third, capsys):
    assert gate(uri, "--experiment", "nightly", "--champion", "svd", "--format", "markdown") == 0
    out, err = capsys.readouterr()
    assert out.startswith("# PROMOTE: nmf replaces the champion svd\n")
    run = MlflowClient(uri).get_run(err.split("logged on the run ")[1][:32])
    assert run.data.tags["evalplugin.role"] == "decision"
    assert run.info.status == "FINISHED"


def test_a_registered_champion_is_found_among_logged_models(uri, third, second, capsys):
    asked = ["--config", write_config(config(uri, ["popularity", NMF, SVD])), "--dry-run", "--format", "json"]
    assert gate(uri, "--bakeoff", bakeoff_of(uri, third), *asked) == 0
    decision = json.loads(capsys.readouterr().out)
    assert (decision["champion"], decision["outcome"]) == ("nmf", "keep")
    assert gate(uri, "--bakeoff", bakeoff_of(uri, second), *asked) == 2
    assert (
        "popularity, equal, champion; a bake-off whose config has this gate fits it anew"
        in capsys.readouterr().err
    )


def test_a_registered_champion_may_be_named_on_the_command_line(uri, third, capsys):
    asked = ["--bakeoff", bakeoff_of(uri, third), "--dry-run", "--format", "json"]
    assert gate(uri, *asked, "--champion", f"{NAME}@champion") == 0
    assert json.loads(capsys.readouterr().out)["champion"] == "nmf"
    assert gate(uri, *asked, "--champion", "nobody-yet@champion") == 0
    decision = json.loads(capsys.readouterr().out)
    assert decision["champion"] == "popularity"
    assert decision["notes"][-1].startswith(
        "there is no nobody-yet@champion in the registry yet: the baseline"
    )


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
    # By hand, on a bake-off that has a decision: it does not count itself.
    file = write_config(config(uri, models, **asked))
    again = ["--config", file, "--bakeoff", bakeoff_of(uri, nights[0]), "--experiment", "counted"]
    assert gate(uri, *again, "--dry-run", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["budget"]["taken"] == 1
    # Fewer than were taken: before anything is read or fitted.
    for command in (["run"], ["run", "--dry-run"]):
        assert main([*command, file, "--set", "gate.decisions=1"]) == 2
        assert "gate.decisions is 1, but 2 decisions of this gate have been taken" in capsys.readouterr().err
