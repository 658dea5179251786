from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import evalplugin
from evalplugin.execution.store import versions
from evalplugin.models import MODELS

PACKAGE = Path(evalplugin.__file__).parent


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package's source that may be edited."""
    copy = tmp_path_factory.mktemp("source") / "evalplugin"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def fingerprint(package: Path, monkeypatch: pytest.MonkeyPatch, model: str | None = None) -> str:
    monkeypatch.setattr(versions, "_FOLDER", package)
    held = versions.own_code, versions._hash_from, versions._hash_of_all  # for a process
    try:
        for cached in held:
            cached.cache_clear()
        return str(versions.own_code() if model is None else versions.code_of(MODELS.entry(model)))
    finally:
        for cached in held:
            cached.cache_clear()


def test_all_modules_that_decide_a_result_belong_to_the_code_of_a_task() -> None:
    modules = {file.relative_to(PACKAGE).as_posix() for file in versions.task_modules()}
    describing = {"metrics/example.py"}  # it decides nothing
    assert not describing & modules
    for part in ("data", "metrics", "models"):
        every = {file.relative_to(PACKAGE).as_posix() for file in (PACKAGE / part).rglob("*.py")}
        assert every - describing <= modules
    assert {"base/seeding.py", "base/costs.py", "components/registry.py", "execution/tasks.py"} <= modules
    layers = {name.split("/")[0] for name in modules}
    assert not layers & {"config", "comparison", "report", "tracking", "bakeoff", "cli", "schedule"}


@pytest.mark.slow
def test_a_changed_module_changes_the_code_of_a_task(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = (
        "base/seeding.py",
        "data/datasets/movielens.py",
        "data/splits.py",
        "execution/tasks.py",
        "metrics/gain.py",
        "models/kernels/neighbours.py",  # imported inside functions
        "models/surprise/knn.py",
    )
    before = fingerprint(package, monkeypatch)
    for module in modules:
        file = package / module
        source = file.read_text()
        file.write_text(source + "# edited\n")
        assert fingerprint(package, monkeypatch) != before, file
        file.write_text(source)
    assert fingerprint(package, monkeypatch) == before


def test_code_that_shows_results_does_not_belong_to_the_code_of_a_task(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(package, monkeypatch)
    for module in ("report/text.py", "cli/run.py", "bakeoff/flow.py", "execution/runner.py"):
        with (package / module).open("a") as file:
            file.write("# edited\n")
    assert fingerprint(package, monkeypatch) == before


def test_code_of_a_model_of_a_higher_layer_belongs_to_it_alone(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(package, monkeypatch), fingerprint(package, monkeypatch, "mlflow")
    with (package / "lists/given.py").open("a") as file:
        file.write("# edited\n")
    after = fingerprint(package, monkeypatch), fingerprint(package, monkeypatch, "mlflow")
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_version_of_an_optional_package_belongs_to_its_models() -> None:
    assert ", implicit " in str(versions.code_of(MODELS.entry("implicit.AlternatingLeastSquares")))
