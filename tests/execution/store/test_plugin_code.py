"""What belongs to the code of a plugin: modules by whatever way they are loaded, and environment variables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evalplugin.base.errors import PluginError
from evalplugin.components.registry import load_plugin_file
from evalplugin.execution.store import versions
from evalplugin.files import recording
from evalplugin.models import MODELS

MODEL = """
import dataclasses
import evalplugin
@evalplugin.model({name!r})
@dataclasses.dataclass
class Own:
    def fit(self, train, rng): ...
    def scores(self, users): ...
"""


@pytest.fixture(autouse=True)
def process_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave other tests neither the paths of these plugins nor the modules that they change after the import."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(recording, "_carried", {})


def plugin(folder: Path, name: str, source: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"plugin_{name.replace('-', '_')}.py"
    file.write_text(source + MODEL.format(name=name))
    return file


def code(name: str) -> str:
    versions._code_of_file.cache_clear()  # it holds for a process
    return str(versions.code_of(MODELS.entry(name)))


@pytest.mark.parametrize("way", ["import", "path", "path for a while", "computed name", "finder"])
def test_modules_belong_to_a_plugin_in_whatever_way_it_loads_them(tmp_path: Path, way: str) -> None:
    name = f"own_{way.replace(' ', '_')}"
    beside, other = tmp_path / "plugins", tmp_path / "other"
    other.mkdir()
    statements = {
        "import": f"import {name}",
        "path": f"import sys; sys.path.insert(0, {str(other)!r}); import {name}",
        "path for a while": f"import sys; sys.path.insert(0, {str(other)!r}); import {name}; del sys.path[0]",
        "computed name": f"import importlib; importlib.import_module('own_' + {name[4:]!r})",
        # As in setuptools' editable installs of packages without a src folder.
        "finder": "import sys, importlib.util\nclass Finder:\n  @classmethod\n  def find_spec(cls, name, *_):\n"
        f"    if name == {name!r}:\n"
        f"      return importlib.util.spec_from_file_location(name, {str(other / name / '__init__.py')!r})\n"
        f"sys.meta_path.append(Finder)\nimport {name}",
    }
    module = (other if "path" in way else beside) / f"{name}.py"
    if way == "finder":
        module = other / name / "__init__.py"
        module.parent.mkdir()
    file = plugin(beside, name, statements[way] + "\n")
    module.write_text("X = 1\n")
    load_plugin_file(file)
    before = code(name)
    assert code(name) == before
    module.write_text("X = 2\n")
    assert code(name) != before


@pytest.mark.parametrize("is_loaded", [True, False])
def test_folders_without_an_init_file_belong_to_a_plugin_too(tmp_path: Path, is_loaded: bool) -> None:
    name = f"bare_{is_loaded}".lower()
    statement = f"from {name}.inner import module"
    file = plugin(tmp_path, name, f"{statement}\n" if is_loaded else f"def late():\n    {statement}\n")
    module = tmp_path / name / "inner/module.py"
    module.parent.mkdir(parents=True)
    module.write_text("X = 1\n")
    load_plugin_file(file)
    before = code(name)
    module.write_text("X = 2\n")
    assert code(name) != before


def test_a_folder_with_the_name_of_a_package_is_not_that_package(tmp_path: Path) -> None:
    file = plugin(tmp_path, "namesake", "import pluggy\n")
    (tmp_path / "pluggy").mkdir()
    load_plugin_file(file)
    assert "pluggy " in code("namesake")


def test_a_module_beside_a_plugin_is_imported_wherever_one_starts(tmp_path: Path) -> None:
    file = plugin(tmp_path / "plugins", "beside", "import beside_helper\n")
    (file.parent / "beside_helper.py").write_text("import beside_second\n")
    (file.parent / "beside_second.py").write_text("")
    command = Path(sys.executable).with_name("evalplugin")
    done = subprocess.run(
        [command, "describe", "model", "beside", "--plugin", file],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_module_of_the_same_name_elsewhere_is_no_silent_substitute(tmp_path: Path) -> None:
    for number in (1, 2):
        file = plugin(tmp_path / str(number), f"same-{number}", "import same_helper\n")
        (file.parent / "same_helper.py").write_text(f"NUMBER = {number}\n")
    load_plugin_file(tmp_path / "1/plugin_same_1.py")
    with pytest.raises(
        PluginError, match=r"line 1: the module 'same_helper' that it imports is .*1/same_helper"
    ):
        load_plugin_file(tmp_path / "2/plugin_same_2.py")


def test_a_copy_of_the_module_beside_a_plugin_is_that_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = plugin(tmp_path / "plugins", "shipped", "import shipped_helper\n")
    for folder in (file.parent, tmp_path / "modules"):
        folder.mkdir(exist_ok=True)
        (folder / "shipped_helper.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))  # as on a node of an engine
    load_plugin_file(file)
    assert sys.modules["shipped_helper"].__file__ == str(tmp_path / "modules/shipped_helper.py")


@pytest.mark.parametrize(
    "read",
    [
        "os.environ['TASTE']", "os.environ.get('TASTE')", "os.getenv('TASTE', 'sweet')", "'TASTE' in os.environ",
        "os.getenv(key='TASTE')", "system.environ['TASTE']", "os.environ.setdefault('TASTE', 'sweet')",
        "os.environ.pop('TASTE')",
    ],
)  # fmt: skip
def test_environment_variables_that_a_plugin_reads_belong_to_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    monkeypatch.setenv("TASTE", "secret-1")
    name = f"taste-{abs(hash(read))}"
    load_plugin_file(plugin(tmp_path, name, f"import os, os as system\ndef taste(): return {read}\n"))
    entry = MODELS.entry(name)
    before, without = code(name), versions.code_of(entry, environment=False)
    assert "env:TASTE " in before
    assert "secret" not in before
    monkeypatch.setenv("TASTE", "secret-2")
    assert code(name) != before
    assert versions.code_of(entry, environment=False) == without


def test_a_variable_that_a_plugin_only_sets_is_none_of_its_inputs(tmp_path: Path) -> None:
    load_plugin_file(plugin(tmp_path, "setter", "import os\ndef work(): os.environ['TASTE'] = 'sweet'\n"))
    assert "TASTE" not in code("setter")


@pytest.mark.parametrize(
    ("statements", "readers"),
    [
        ("import pyarrow.parquet", ["pyarrow"]),
        ("from scipy.io import mmread", ["scipy.io"]),
        ("from scipy import io", ["scipy.io"]),
        ("import own_reader", ["h5py", "polars"]),
        ("import pandas\ndef read(): return pandas.read_parquet('a')", ["read_parquet"]),
        ("from pandas import read_parquet", ["read_parquet"]),
        ("import pandas, scipy.sparse, pyarrow_extras\ndef read(): return pandas.read_csv('a')", []),
    ],
)
def test_plugins_readers_whose_files_cannot_be_recorded(
    tmp_path: Path, statements: str, readers: list[str]
) -> None:
    (tmp_path / "own_reader.py").write_text("def read():\n    import polars\n    from h5py import File\n")
    (tmp_path / "plugin.py").write_text(statements)
    assert versions.unrecorded_readers(tmp_path / "plugin.py") == readers
