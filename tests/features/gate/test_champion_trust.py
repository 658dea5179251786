"""What MLflow names as the champion runs no program, reads no file and loads no model, unless the config says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from bakeoffs import run_bakeoff
from mlflow import MlflowClient
from samples import TINY, small_config, write_config

from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.components.registry import load_plugin_file
from evalplugin.features.config import load
from evalplugin.features.gate.champion import with_champion

pytestmark = pytest.mark.usefixtures("no_drawing")

PLUGIN = '''
from dataclasses import dataclass, field
from pathlib import Path

from evalplugin.models import model


@model("reader")
@dataclass(frozen=True)
class Reader:
    """Opens the file that it is given."""

    path: str = "opened"
    size: int = 1
    how: str = "up"
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        Path(self.path).touch()

    def fit(self, train, rng):
        pass

    def scores(self, users):
        raise NotImplementedError
'''


def shop(uri: str, *models: Any, **changes: Any) -> dict[str, Any]:
    own = {
        "experiment": "nightly",
        "seed": 11,  # popularity is better than random beyond chance
        "datasets": [{**TINY, "n_users": 80, "n_items": 40, "n_interactions": 1200}],
        "split": {"type": "last_n", "n": 2},
        "relevance": {},
        "recommend": {"n": 10},
        "metrics": ["ndcg@10"],
        "segments": [],
        "gate": {"min_users": 20},
        "register": {"name": "shop"},
        "tracking": {"uri": uri, "board": False},
    }
    return small_config(**{**own, "models": ["random", "popularity", *models], **changes})


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory, _empty_store: Path, no_drawing: None) -> str:
    """A store whose champion is popularity."""
    folder = tmp_path_factory.mktemp("store")
    uri = f"sqlite:///{shutil.copy(_empty_store, folder / 'mlflow.db')}"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_bakeoff(load(shop(uri)))
    return uri


@pytest.fixture
def attack() -> dict[str, Any]:
    """A recipe whose program leaves a file; all parameters, as a bake-off logs them."""
    command = {"command": ["sh", "-c", "touch marker; exit 1 # {out}"], "version": "1"}
    config = load(shop("sqlite:///x.db", {"name": "mine", "type": "command", "params": command}))
    return dict(config.models[-1].params)


def tamper(uri: str, type: str, params: dict[str, Any]) -> None:
    """Write another recipe into the version that the champion is."""
    client = MlflowClient(uri)
    version = client.get_model_version_by_alias("shop", "champion")
    changed = {"model_type": type, "model_params": json.dumps(params)}
    for key, value in changed.items():
        client.set_model_version_tag("shop", version.version, f"evalplugin.{key}", value)


def test_a_program_that_a_tag_names_is_not_run(uri, attack, capsys):
    tamper(uri, "command", attack)
    write_config(shop(uri))
    assert main(["run", "shop.yaml"]) == 2
    said = capsys.readouterr().err
    assert "command runs a program, reads files or loads a deployed model" in said
    assert "touch marker; exit 1" in said  # the recipe
    assert "add this model to `models`" in said
    assert not Path("marker").exists()
    # The program runs where the config has the same model.
    gated = with_champion(load(shop(uri, {"name": "mine", "type": "command", "params": attack})), uri)
    (champion,) = (model for model in gated.config.models if model.name == gated.champion)
    assert (champion.type, champion.params["command"]) == ("command", attack["command"])


@pytest.mark.parametrize(
    ("type", "params"),
    [
        ("lists", {"path": "/etc/passwd"}),
        ("mlflow", {"model": "models:/evil/1"}),
        ("reader", {"path": "opened"}),
    ],
)
def test_files_plugins_and_deployed_models_that_a_tag_names_are_not_opened(uri, type, params):
    Path("plugin.py").write_text(PLUGIN)
    load_plugin_file(Path("plugin.py"))
    tamper(uri, type, params)
    with pytest.raises(DataError, match=rf"is not fitted: whoever may write .* {type} "):
        with_champion(load(shop(uri)), uri)
    assert not Path("opened").exists()


@pytest.mark.parametrize(
    ("params", "is_fitted"),
    [
        ({"size": 2}, True),  # what a search of this config may end with
        ({"size": 9}, True),  # or might, when it had another range
        ({"size": 2, "how": "down", "options": {"way": "b"}}, True),
        ({"size": 2, "path": "opened"}, False),
        ({"size": "opened"}, False),
        ({"size": 2, "how": "opened"}, False),
        ({"size": 2, "options": {"way": "opened"}}, False),
        ({"size": 2, "options": {"way": "b", "path": "opened"}}, False),
    ],
)
def test_a_tuned_champion_has_texts_of_the_search_of_the_config_alone(uri, params, is_fitted):
    Path("plugin.py").write_text(PLUGIN)
    load_plugin_file(Path("plugin.py"))
    fixed = {"path": "mine", "options": {"way": "a"}}
    params = {"how": "up", **fixed, **params}
    tamper(uri, "reader", params)
    search = {"size": [1, 2, 3], "how": ["left", "down"], "options.way": ["a", "b"]}
    config = load(shop(uri, {"name": "mine", "type": "reader", "params": fixed, "tune": search}))
    if is_fitted:
        gated = with_champion(config, uri)
        assert gated.config.models[-1].params == params
    else:
        with pytest.raises(DataError, match=r"is not fitted: whoever may write .* reader "):
            with_champion(config, uri)
    assert not Path("opened").exists()
