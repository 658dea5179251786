"""The engine of a config: its name, its parameters, what is missing for it."""

from __future__ import annotations

import importlib.util

import pytest
from samples import small_config

from evalplugin.base.errors import ConfigError
from evalplugin.cli import main
from evalplugin.config.engines import ENGINES
from evalplugin.features.config import load


def test_engine_changes_no_hash_and_keeps_its_parameters() -> None:
    config = load(small_config(engine={"type": "local", "users_per_task": 7}))
    assert config.hash == load(small_config()).hash
    assert config.resolved["engine"] == {"type": "local", "users_per_task": 7}
    assert "engine" not in load(small_config()).resolved


def test_option_wins_over_the_config_and_keeps_the_parameters_of_its_type() -> None:
    config = small_config(engine={"type": "local", "users_per_task": 7})
    assert load(config, engine="local").resolved["engine"] == {"type": "local", "users_per_task": 7}
    assert load(small_config(), engine="local").resolved["engine"]["type"] == "local"
    with pytest.raises(
        ConfigError, match=r"--engine locl: engine: unknown engine 'locl'; did you mean 'local'\?"
    ):
        load(config, engine="locl")


def test_engine_without_its_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "ray" else found(name, *a)
    )
    with pytest.raises(
        ConfigError, match=r"ray needs the package ray, .* pip install ray \(in a clone of evalplugin: "
    ):
        load(small_config(engine="ray"))


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ({"type": "ray", "cpus": 0}, "cpus"),
        ({"type": "ray", "memory": "much"}, "must be a size such as 2GB or 500MB"),
        ({"type": "ray", "adress": "auto"}, "did you mean 'address'?"),
        ({"type": "executor"}, "factory"),
        ({"type": "executor", "factory": "pool"}, "factory"),
    ],
)
def test_wrong_parameters_are_refused(engine, said, monkeypatch):
    monkeypatch.setattr(ENGINES.entry("ray").cls, "requires", ())  # it may not be installed
    with pytest.raises(ConfigError) as caught:
        load(small_config(engine=engine))
    assert said in str(caught.value)


def test_ray_is_described_without_being_imported(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    before = "ray" in sys.modules
    assert main(["describe", "engine", "ray"]) == 0
    assert main(["list", "engines"]) == 0
    out = capsys.readouterr().out
    for word in ("address: auto", "ray://", "KubeRay", "ray job submit", "setup_ray_cluster", "symmetric-run",
                 "RAY_AUTH_TOKEN", "pip install ray"):  # fmt: skip
        assert word in out
    assert ("ray" in sys.modules) is before
