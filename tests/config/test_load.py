from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from samples import write_config

from evalplugin.bakeoff.description import fingerprints_of, inputs_of
from evalplugin.base.errors import ConfigError
from evalplugin.config.json_schema import json_schema
from evalplugin.config.schema import Decides
from evalplugin.features.config import Config, load

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft202012Validator(json_schema(Config))
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def small(**changes: Any) -> dict[str, Any]:
    return {
        "experiment": "e",
        "datasets": ["synthetic"],
        "split": {"type": "last_n", "n": 5},
        "metrics": ["ndcg@10"],
        "models": ["random"],
        **changes,
    }


def test_component_shorthand_is_its_type() -> None:
    config = load(small())
    assert [(d.name, d.type) for d in config.datasets] == [("synthetic", "synthetic")]
    assert [(s.name, s.type) for s in config.splits] == [("last_n", "last_n")]
    assert [(m.name, m.type) for m in config.models] == [("random", "random")]
    assert config.primary.name == "ndcg@10"


def test_grid_expands_to_a_model_for_each_combination() -> None:
    grid = {"k": [10, 40], "sim_options.name": ["msd", "cosine"]}
    config = load(
        small(models=[{"name": "knn", "type": "surprise.KNNBasic", "params": {"min_k": 2}, "grid": grid}])
    )
    names = [f"knn(k={k}, sim_options.name={name})" for k in (10, 40) for name in ("msd", "cosine")]
    assert [m.name for m in config.models] == names
    last = config.models[-1].params
    assert (last["k"], last["min_k"], last["sim_options"]["name"]) == (40, 2, "cosine")


def test_grid_below_a_parameter_that_is_no_mapping_is_a_config_error() -> None:
    knn = {
        "type": "surprise.KNNBasic",
        "params": {"sim_options": 3},
        "grid": {"sim_options.name": ["msd", "cosine"]},
    }
    with pytest.raises(ConfigError) as caught:
        load(small(models=[knn]))
    assert caught.value.lines == (
        "python: models[0].params.sim_options: must be a mapping with the keys name, user_based, min_support, "
        "shrinkage, not 3",
    )


def test_parameters_are_resolved_with_their_defaults() -> None:
    config = load(small(models=[{"type": "surprise.KNNBasic"}]))
    assert config.models[0].params["k"] == 40
    assert config.models[0].params["sim_options"]["user_based"] is True


def test_resolved_config_loads_to_the_same_config() -> None:
    config = load(
        small(models=["random", {"name": "knn", "type": "surprise.KNNBasic", "grid": {"k": [10, 40]}}])
    )
    again = load(yaml.safe_load(config.resolved_yaml))
    assert again.resolved == config.resolved
    assert again.hash == config.hash


def test_config_hash_covers_exactly_the_sections_that_decide_scores() -> None:
    first = load(small()).hash
    assert load(small(experiment="f", tracking={"uri": "sqlite:///other.db"})).hash == first
    assert load(small(seed=1)).hash != first
    assert load(small(models=["popularity"])).hash != first


def test_every_section_declares_what_it_decides() -> None:
    for name, field in Config.model_fields.items():
        assert len([item for item in field.metadata if isinstance(item, Decides)]) == 1, name


def test_sections_of_each_effect() -> None:
    scores = "seed seeds plugins datasets split relevance recommend metrics models tune"
    assert Config.sections("scores") == scores.split()
    assert Config.sections("comparison", "groups", "failures") == ["compare", "segments", "limits"]
    assert Config.sections("decision") == ["gate", "register", "checks"]
    nothing = "experiment tracking schedule workers engine store notify"
    assert Config.sections("nothing") == nothing.split()


def test_config_fingerprints_are_stable_between_versions() -> None:
    config = load(ROOT / "configs" / "knn.yaml")
    asked = fingerprints_of(config, [], experiment="x", tracking="y")
    assert config.hash == "6b15adecd13bf1d9"
    assert asked["config"] == "2fd1eb1d88684e1e"
    assert inputs_of(config, asked)["config"] == "cb22338cd87eaa19"


def test_declared_inputs_change_the_hash_and_are_resolved() -> None:
    Path("w.bin").write_bytes(b"x")
    plain = load(small(models=["random", {"type": "popularity", "inputs": []}]))
    assert plain.hash == load(small(models=["random", "popularity"])).hash
    assert "inputs" not in plain.resolved["models"][1]
    declared = ["w.bin", {"env": "FEATURES"}, "models:/shop@champion"]
    config = load(small(models=["random", {"type": "popularity", "inputs": declared}]))
    assert config.hash != plain.hash
    assert config.resolved["models"][1]["inputs"] == declared
    assert load(yaml.safe_load(config.resolved_yaml)).models == config.models


def test_default_segments_and_segments_do_not_change_the_hash() -> None:
    config = load(small())
    assert [(s.name, s.type) for s in config.segments] == [(n, n) for n in ("activity", "popularity", "cold")]
    assert config.resolved["segments"][0] == {"name": "activity", "type": "activity", "groups": 3}
    named = load(small(segments=["cold", {"name": "busy", "type": "activity", "groups": 2}]))
    assert [(s.name, s.type) for s in named.segments] == [("cold", "cold"), ("busy", "activity")]
    assert load(small(segments=[])).segments == ()
    assert named.hash == config.hash


def test_several_splits_and_datasets() -> None:
    config = load(
        small(
            datasets=["synthetic", {"name": "small", "type": "synthetic", "n_interactions": 5000}],
            split=[{"name": "a", "type": "last_n", "n": 1}, {"name": "b", "type": "holdout"}],
        )
    )
    assert [d.name for d in config.datasets] == ["synthetic", "small"]
    assert [s.name for s in config.splits] == ["a", "b"]


def test_plugin_path_is_relative_to_the_config(tmp_path: Path) -> None:
    (tmp_path / "first_items.py").write_text(
        "from dataclasses import dataclass\n"
        "import numpy as np\n"
        "import evalplugin\n"
        "@evalplugin.model('first-items')\n"
        "@dataclass\n"
        "class FirstItems:\n"
        "    step: int = 1\n"
        "    def fit(self, train, rng):\n"
        "        self.n_items = train.n_items\n"
        "    def scores(self, users):\n"
        "        return np.tile(-np.arange(self.n_items) * float(self.step), (len(users), 1))\n"
    )
    file = tmp_path / "config.yaml"
    models = [{"name": "mine", "type": "first-items", "params": {"step": 2}}]
    write_config(small(plugins=["./first_items.py"], models=models), file)
    assert load(file).models[0].params == {"step": 2}
    models[0]["params"] = {"stp": 2}
    write_config(small(plugins=["./first_items.py"], models=models), file)
    with pytest.raises(ConfigError, match=r"unknown parameter 'stp' of first-items; did you mean 'step'\?"):
        load(file)


def test_errors_of_python_configs_have_no_location() -> None:
    with pytest.raises(
        ConfigError, match=r"^python: models\[0\]: unknown model 'randm'; did you mean 'random'"
    ):
        load(small(models=["randm"]))


def test_overrides_are_validated() -> None:
    with pytest.raises(ConfigError) as caught:
        load(ROOT / "configs" / "knn.yaml", overrides=["models.2.params.kk=20"])
    assert str(caught.value) == (
        "--set models.2.params.kk=20: models[2].params.kk: "
        "unknown parameter 'kk' of surprise.KNNBasic; did you mean 'k'?"
    )
    changed = load(ROOT / "configs" / "knn.yaml", overrides=["models.2.params.k=20"])
    assert changed.models[2].params["k"] == 20


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_shipped_configs_are_valid_and_match_the_json_schema(file, monkeypatch):
    # Valid where the optional packages are installed.
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: name)
    load(file)
    VALIDATOR.validate(yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(
    "changes",
    [
        {"modles": []},
        {"seed": "x"},
        {"models": [{"type": "surprise.KNNBasic", "params": {"kk": 1}}]},
        {"models": [{"type": "surprise.KNNBasic", "params": {"sim_options": {"nme": 1}}}]},
        {"split": {"type": "last_n", "m": 1}},
        {"datasets": [{"type": "synthetic", "n_users": 0}]},
        {"segments": "activity"},
        {"segments": [{"type": "activity", "grups": 3}]},
        {"segments": [{"type": "attribute", "file": "a.csv"}]},
        {"datasets": [{"type": "csv", "path": {"train": "a.csv", "tset": "b.csv"}}]},
        {"datasets": [{"type": "pairs", "path": {"train": "a", "test": "b"}, "format": "adjacancy"}]},
        {"split": {"type": "given", "overlap": "leave"}},
    ],
)
def test_json_schema_refuses_invalid_configs(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        load(small(**changes))
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(small(**changes))


@pytest.mark.parametrize(
    "part",
    [
        {"datasets": [{"type": "csv", "path": {"train": "a.csv", "validation": "b.csv", "test": "c.csv"}}]},
        {"datasets": [{"type": "parquet", "path": "all.parquet", "part": "fold"}]},
        {"datasets": [{"type": "pairs", "path": {"train": "a.txt", "test": "b.txt"}, "format": "adjacency"}]},
        {"models": [{"type": "popularity", "inputs": ["lists.parquet", {"env": "FEATURES_VERSION"}]}]},
    ],
)
def test_json_schema_takes_data_in_parts_and_the_inputs_of_any_model(part: dict[str, Any]) -> None:
    VALIDATOR.validate(small(**{"split": "given", **part}))


def test_json_schema_is_valid_draft_2020_12() -> None:
    VALIDATOR.check_schema(json_schema(Config))
    json.dumps(json_schema(Config))


def test_missing_files_are_among_all_mistakes() -> None:
    asked = small(
        plugins=["nowhere.py"],
        datasets=[{"name": "log", "type": "csv", "path": "log.csv", "usr": "u"}, {"type": "of_the_plugin"}],
        split={"type": "last_n", "nn": 3},
        recommend={"candidates": "given", "path": "pool.csv"},
        metrics=["ndcg@10", "of_the_plugin@10"],
        models=[
            {"name": "theirs", "type": "lists", "params": {"path": "lists.csv", "usr": "u"}},
            "of_the_plugin",
        ],
        compare={"primary": "of_the_plugin@10", "baseline": "of_the_plugin"},
    )
    with pytest.raises(ConfigError) as caught:
        load(asked)
    folder = Path.cwd()
    assert sorted(str(caught.value).splitlines()) == [
        f"python: datasets[0].path: file not found: {folder / 'log.csv'}",
        "python: datasets[0].usr: unknown parameter 'usr' of csv; did you mean 'user'?",
        f"python: models[0].params.path: file not found: {folder / 'lists.csv'}",
        "python: models[0].params.usr: unknown parameter 'usr' of lists; did you mean 'user'?",
        f"python: plugins[0]: plugin file not found: {folder / 'nowhere.py'}",
        f"python: recommend.path: file not found: {folder / 'pool.csv'}",
        "python: split.nn: unknown parameter 'nn' of last_n; did you mean 'n'?",
    ]
