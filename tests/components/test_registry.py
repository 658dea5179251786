from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalplugin.base.errors import ParameterError, PluginError, UnknownNameError
from evalplugin.components.registry import Registry, call_component, line_in_plugin, load_plugin_file
from evalplugin.models import MODELS


@pytest.fixture
def shapes() -> Registry[Any]:
    registry: Registry[Any] = Registry("shape")

    @registry.register("square")
    @dataclass(frozen=True)
    class Square:
        """A square."""

        side: float = 1.0

    @registry.register("circle")
    @dataclass(frozen=True)
    class Circle:
        radius: float = 1.0

    return registry


def test_registry_creates_component_with_checked_parameters(shapes: Registry[Any]) -> None:
    assert shapes.create("square", {"side": 2}).side == 2.0  # type: ignore[attr-defined]
    with pytest.raises(ParameterError, match=r"unknown parameter 'sid' of square; did you mean 'side'\?"):
        shapes.create("square", {"sid": 2})


def test_unknown_name_suggests_nearest_name(shapes: Registry[Any]) -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown shape 'sqare'; did you mean 'square'\?$"):
        shapes.entry("sqare")
    with pytest.raises(UnknownNameError, match=r"^unknown shape 'xyz'; allowed: circle, square$"):
        shapes.entry("xyz")


def test_registry_names_are_sorted_and_summaries_are_first_docstring_lines(shapes: Registry[Any]) -> None:
    assert [(entry.name, entry.summary) for entry in shapes] == [("circle", ""), ("square", "A square.")]


def test_duplicate_registration_names_both_origins(shapes: Registry[Any]) -> None:
    with pytest.raises(PluginError, match=r"'square' is already registered by .*test_registry"):

        @shapes.register("square")
        @dataclass
        class Other:
            pass


def test_registry_refuses_class_that_is_no_dataclass(shapes: Registry[Any]) -> None:
    with pytest.raises(PluginError, match="Plain must be a dataclass"):

        @shapes.register("plain")
        class Plain:
            pass


def test_registry_refuses_class_without_required_methods() -> None:
    registry: Registry[Any] = Registry(
        "shape", check=lambda cls: None if hasattr(cls, "area") else "has no area()"
    )
    with pytest.raises(PluginError, match=r"shape 'line': Line has no area\(\)"):

        @registry.register("line")
        @dataclass
        class Line:
            pass


def test_a_class_without_the_base_gets_the_defaults_that_it_lacks_and_stays_the_same_class() -> None:
    @dataclass
    class Duck:
        cold_users: str  # without a default, so that the class has no such attribute
        sequential = True

        def fit(self, train: object, rng: object) -> None:
            self.notes = ["learnt"]

        def scores(self, users: object) -> None: ...
        def recommend_for(self, users: object, history: object) -> None: ...

    assert MODELS.register("duck")(Duck) is Duck
    model = MODELS.create("duck", {"cold_users": "bread"})
    assert type(model) is Duck
    assert (model.cold_users, model.sequential, model.takes_history) == ("bread", True, True)
    assert (model.stochastic, model.uses_ratings, model.learns, model.notes) == (True, False, True, ())
    assert (model.requires, model.uris, model.check(None), model.own_inputs(Path())) == ((), {}, [], [])
    model.fit(None, None)  # type: ignore[arg-type]
    assert model.notes == ["learnt"]


def test_plugin_file_is_the_origin_and_can_be_loaded_twice(tmp_path: Path) -> None:
    from evalplugin.models import MODELS

    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "import evalplugin\n"
        "@evalplugin.model('mine-for-test')\n"
        "@dataclass\n"
        "class Mine:\n"
        "    def fit(self, train, rng): ...\n"
        "    def scores(self, users): ...\n"
    )
    load_plugin_file(file)
    load_plugin_file(file)
    assert MODELS.entry("mine-for-test").origin == str(file)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("raises.py", "1 / 0", "plugin cannot be loaded: raises.py:1: ZeroDivisionError: division by zero"),
        ("syntax.py", "def", "plugin cannot be loaded: SyntaxError"),
        ("notes.txt", "", r"a plugin is a Python file \(.py\), not 'notes.txt'"),
    ],
)
def test_plugin_file_load_error_names_the_cause(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(PluginError, match=message):
        load_plugin_file(tmp_path / name)
    assert not [module for module in sys.modules if module.startswith("evalplugin_plugin_raises")]


def test_missing_plugin_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=f"plugin file not found: {tmp_path}/none.py"):
        load_plugin_file(tmp_path / "none.py")


def test_installed_package_registers_models_by_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalplugin.models import MODELS

    (tmp_path / "acme_recs.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Acme:\n"
        "    '''Recommends anvils.'''\n"
        "    def fit(self, train, rng): ...\n"
        "    def scores(self, users): ...\n"
    )
    info = tmp_path / "acme_recs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-recs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[evalplugin.models]\nacme = acme_recs:Acme\nbroken-acme = acme_recs:Nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "acme" in MODELS.names()
    assert "acme_recs" not in sys.modules  # listing names imports nothing
    assert (MODELS.entry("acme").origin, MODELS.entry("acme").summary) == (
        "package acme-recs",
        "Recommends anvils.",
    )
    with pytest.raises(
        PluginError, match="package acme-recs: cannot load model 'broken-acme' from acme_recs:Nothing"
    ):
        MODELS.entry("broken-acme")


def error_of(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("nothing was raised")


def test_an_error_is_located_at_the_innermost_line_of_the_users_code() -> None:
    def solve() -> None:
        np.linalg.inv(np.zeros((2, 2)))

    line = solve.__code__.co_firstlineno + 1
    expected = f"test_registry.py:{line}: numpy.linalg.LinAlgError: Singular matrix"
    assert line_in_plugin(error_of(solve)) == expected
    with pytest.raises(PluginError, match=f"^split mine: {expected}$") as raised:
        call_component("split mine", solve)
    assert isinstance(raised.value.__cause__, np.linalg.LinAlgError)


def test_errors_of_evalplugin_and_of_libraries_are_not_located() -> None:
    error = error_of(lambda: np.linalg.inv(np.zeros((2, 2)))).with_traceback(None)
    assert line_in_plugin(error) is None
    with pytest.raises(UnknownNameError):
        call_component("split mine", MODELS.entry, "nowhere")


def test_an_error_of_an_installed_package_is_located_if_it_has_components() -> None:
    library = types.ModuleType("acme_ranking")
    exec(compile("def fail():\n    raise KeyError('price')", np.__file__, "exec"), vars(library))
    error = error_of(library.fail)
    error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)  # without this file
    assert line_in_plugin(error) is None

    @dataclass
    class Acme:
        def fit(self, train: object, rng: object) -> None: ...
        def scores(self, users: object) -> None: ...

    Acme.__module__ = "acme_ranking.models"
    MODELS.register("acme ranking")(Acme)
    assert line_in_plugin(error) == "__init__.py:2: KeyError: 'price'"
