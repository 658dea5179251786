"""A bake-off without one of its features: the rest of the package does not need it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from samples import small_config, write_config

import evalplugin
from evalplugin.bakeoff.flow import FEATURES

PACKAGE = Path(evalplugin.__file__).parent
# The sections of the config that belong to a feature, by their names in the schema.
SECTIONS = {
    "gate": ("gate", "registered"),
    "tuning": ("tune",),
    "checks": ("checks",),
    "notifications": ("notify",),
}
# Where each is, below `features/`; power has no moment of a bake-off.
PLACES = {kind: kind.__module__.removeprefix("evalplugin.features.").partition(".")[0] for kind in FEATURES}


def test_every_feature_of_a_bakeoff_has_a_place_of_its_own() -> None:
    assert len(set(PLACES.values())) == len(FEATURES)


@pytest.mark.slow
@pytest.mark.parametrize("place", [*PLACES.values(), "power"])
def test_bakeoff_runs_without_a_feature(tmp_path: Path, place: str) -> None:
    copy = tmp_path / "evalplugin"
    shutil.copytree(PACKAGE, copy)  # with its compiled modules
    removed = copy / "features" / place
    if removed.is_dir():
        shutil.rmtree(removed)
    else:
        removed.with_suffix(".py").unlink()
    flow = copy / "bakeoff" / "flow.py"
    source = re.sub(rf" *from evalplugin\.features\.{place}\b.*\n", "", flow.read_text())
    for kind, name in PLACES.items():
        if name == place:
            source = source.replace(f"\n    {kind.__name__},", "")
    flow.write_text(source)
    cut_sections(copy / "config", place)
    config = small_config(tracking={"uri": "sqlite:///mlflow.db"}, checks=None)
    write_config({key: value for key, value in config.items() if value}, tmp_path / "config.yaml")
    # Called as a function, the command logs in its own process, which takes half the time of two.
    call = "import sys; from evalplugin.cli import main; sys.exit(main(['run', 'config.yaml']))"
    done = subprocess.run(
        [sys.executable, "-c", call],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )  # the copy comes first on the path, as the working directory
    assert done.returncode == 0, done.stderr
    assert "popularity" in done.stdout
    assert not (tmp_path / "evalplugin" / "features" / place).exists()


def cut_sections(config: Path, place: str) -> None:
    """Take the sections of a feature out of the schema, with the modules that only they need."""
    schema, load = config / "schema.py", config / "load.py"
    source = schema.read_text().replace("import Annotated,", "import Annotated, ClassVar,")
    for section in SECTIONS.get(place, ()):
        # Who asks a config for it finds None.
        source, n = re.subn(rf"(    {section}): Annotated\[.+", r"\1: ClassVar[None] = None", source)
        assert n == 1
        source = source.replace(f', "{section}"', "").replace(f'"{section}", ', "")
    if place == "gate":
        for module in config.glob("gate*.py"):
            module.unlink()
        source = re.sub(r"from evalplugin\.config\.gate\b.*\n", "", source)
        load.write_text(re.sub(r".*\b(gate_checks|check_gate)\b.*\n", "", load.read_text()))
    schema.write_text(source)
