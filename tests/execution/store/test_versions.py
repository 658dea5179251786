from __future__ import annotations

import shutil
from pathlib import Path

import evalplugin
from evalplugin.execution.store import versions
from evalplugin.models import MODELS


def test_an_edited_module_changes_the_code_of_evalplugin(tmp_path, monkeypatch):
    package = tmp_path / "evalplugin"
    shutil.copytree(Path(evalplugin.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(versions, "_FOLDER", package)
    # Without their caches, which hold for a process.
    monkeypatch.setattr(versions, "package_versions", versions.package_versions.__wrapped__)
    own_code = versions.own_code.__wrapped__
    before = own_code()
    assert own_code() == before
    with (package / "models/kernels/neighbours.py").open("a") as file:
        file.write("# edited\n")
    assert own_code() != before


def test_version_of_an_optional_package_belongs_to_its_models() -> None:
    assert ", implicit " in str(versions.code_of(MODELS.entry("implicit.AlternatingLeastSquares")))
