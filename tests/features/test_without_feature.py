"""A bake-off without one of its features: the rest of the package does not need it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from samples import small_config, write_config

import evalplugin
from evalplugin.features import FEATURES, modules
from evalplugin.features.base import Feature

PACKAGE = Path(evalplugin.__file__).parent
SECTIONS = {
    module.__name__.split(".")[-2]: [section.key for section in module.SECTIONS]
    for module in modules("section")
}
COMMANDS = {module.__name__.split(".")[-2]: module.COMMAND.name for module in modules("cli")}


def test_every_folder_of_features_is_a_feature() -> None:
    folders = {path.parent.name for path in (PACKAGE / "features").glob("*/__init__.py")}
    assert folders == set(FEATURES)
    assert all(issubclass(module.FEATURE, Feature) for module in modules("feature"))


@pytest.mark.slow
@pytest.mark.parametrize("name", FEATURES)
def test_bakeoff_runs_without_a_feature(tmp_path: Path, name: str) -> None:
    copy = tmp_path / "evalplugin"
    shutil.copytree(PACKAGE, copy)  # with its compiled modules
    shutil.rmtree(copy / "features" / name)
    features = copy / "features" / "__init__.py"
    features.write_text(features.read_text().replace(f'    "{name}",\n', ""))
    own = SECTIONS.get(name, ())
    config = small_config(tracking={"uri": "sqlite:///mlflow.db"})
    write_config({key: value for key, value in config.items() if key not in own}, tmp_path / "config.yaml")
    done = evalplugin_in(tmp_path, "run", "config.yaml")
    assert done.returncode == 0, done.stderr
    assert "popularity" in done.stdout
    for key in own:
        write_config({**config, key: {}}, tmp_path / "config.yaml")
        refused = evalplugin_in(tmp_path, "validate", "config.yaml")
        assert refused.returncode == 2
        assert f"unknown key {key!r}" in refused.stderr
    if name in COMMANDS:
        refused = evalplugin_in(tmp_path, COMMANDS[name], "--help")
        assert refused.returncode == 2
        assert "No such command" in refused.stderr
    assert not (copy / "features" / name).exists()


def evalplugin_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run evalplugin of a folder, which comes first on the path as the working directory."""
    # Called as a function, the command logs in its own process, which takes half the time of two.
    call = f"import sys; from evalplugin.cli import main; sys.exit(main({list(arguments)}))"
    return subprocess.run([sys.executable, "-c", call], cwd=folder, capture_output=True, text=True)
