"""What belongs to the code of a plugin: its file, the modules beside it, and your own that are loaded with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evalplugin.base.errors import PluginError
from evalplugin.components.registry import load_plugin_file
from evalplugin.execution.store import versions
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
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def plugin(folder: Path, name: str, source: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"plugin_{name.replace('-', '_')}.py"
    file.write_text(source + MODEL.format(name=name))
    return file


def code(name: str) -> str:
    versions._hash_of_sources.cache_clear()  # it holds for a process
    return str(versions.code_of(MODELS.entry(name)))


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("plugins/own_beside.py", ""),
        ("plugins/own_package/__init__.py", "def late(): import own_package"),
        ("plugins/own_bare/module.py", "def late(): from own_bare import module"),
        ("other/own_elsewhere.py", "import own_elsewhere"),
        ("other/own_library/part.py", "import own_library"),
    ],
    ids=["beside", "package", "folder without init", "elsewhere", "package elsewhere"],
)
def test_modules_beside_a_plugin_and_loaded_with_it_belong_to_its_code(tmp_path, module, statement):
    name, file = f"code-of-{Path(module).parent.name}-{Path(module).stem}", tmp_path / module
    file.parent.mkdir(parents=True)
    file.write_text("X = 1\n")
    (tmp_path / "other").mkdir(exist_ok=True)
    if "library" in module:
        (file.parent / "__init__.py").touch()
    sys.path.append(str(tmp_path / "other"))
    load_plugin_file(plugin(tmp_path / "plugins", name, f"{statement}\n"))
    before = code(name)
    assert code(name) == before
    file.write_text("X = 2\n")
    assert code(name) != before


def test_code_of_a_plugin_leaves_out_what_it_cannot_import(tmp_path: Path) -> None:
    name = "alone"
    load_plugin_file(plugin(tmp_path, name, ""))
    before = code(name)
    for file in ("data/deep/tool.py", ".venv/tool.py", "lib/site-packages/tool.py", "notes.txt"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("X = 1\n")
    assert code(name) == before


def test_other_plugins_do_not_belong_to_the_code_of_a_plugin(tmp_path: Path) -> None:
    load_plugin_file(plugin(tmp_path / "mine", "mine", ""))
    before = code("mine")
    load_plugin_file(plugin(tmp_path / "theirs", "theirs", ""))
    assert code("mine") == before


def test_versions_of_required_packages_belong_to_the_code_of_a_plugin(tmp_path: Path) -> None:
    file = plugin(tmp_path, "requiring", "")
    file.write_text(file.read_text().replace("class Own:", "class Own:\n    requires = ('pluggy',)"))
    load_plugin_file(file)
    assert ", pluggy " in code("requiring")


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
    with pytest.raises(PluginError, match=r"1: the module 'same_helper' that it imports is .*1/same_helper"):
        load_plugin_file(tmp_path / "2/plugin_same_2.py")


def test_a_copy_of_the_module_beside_a_plugin_is_that_module(tmp_path, monkeypatch):
    file = plugin(tmp_path / "plugins", "shipped", "import shipped_helper\n")
    for folder in (file.parent, tmp_path / "modules"):
        folder.mkdir(exist_ok=True)
        (folder / "shipped_helper.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))  # as on a node of an engine
    load_plugin_file(file)
    assert sys.modules["shipped_helper"].__file__ == str(tmp_path / "modules/shipped_helper.py")


@pytest.mark.parametrize(
    ("source", "opens"),
    [
        ("with open('a') as file: pass", True),
        ("Path('a').read_text()", True),
        ("pd.read_parquet('a')", True),
        ("np.load('a.npy')", True),
        ("self.reopen(1); json.loads(text)", False),
    ],
)
def test_source_that_opens_files_is_recognised(tmp_path: Path, source: str, opens: bool) -> None:
    (tmp_path / "plugin.py").write_text(source)
    assert versions.opens_files(tmp_path / "plugin.py") is opens
