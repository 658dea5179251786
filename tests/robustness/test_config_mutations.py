"""Mutations of the shipped configs: each is valid and can be planned, or is refused with exit code 2 and its place."""

from __future__ import annotations

import contextlib
import copy
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from evalplugin.cli import main

ROOT = Path(__file__).parents[2]
SHIPPED = {file.name: yaml.safe_load(file.read_text()) for file in sorted((ROOT / "configs").glob("*.yaml"))}
DATA = {"name": "tiny", "type": "synthetic", "n_users": 30, "n_items": 40, "n_interactions": 500}
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e308, 1e-308, 2**63, 2**64, -(2**63), float("inf"), float("nan"), "",
    " ",
    "random", "popularity", "ndcg@10", "0", "1e3", "\x1b[31m", "\u202e", "${HOME}", "${}", "../x", "/", "~", "a" * 5000,
    "\n",
    [], {}, [[]], [None], {"": None}, {"type": "random"}, {"name": "x"}, [{"type": "last_n", "n": 1}], {"max": 1},
    "1 %", "10GB",
]  # fmt: skip


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, child in inner for deeper in paths_of(child, (*path, key)))]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A shipped config on small data, with one to three mutations."""
    config = copy.deepcopy(SHIPPED[draw(st.sampled_from(sorted(SHIPPED)))])
    config |= {"datasets": [dict(DATA)]}
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(paths_of(config)[1:] or [()]))
        if not path:
            break
        owner, key = at(config, path[:-1]), path[-1]
        how = draw(st.sampled_from(["drop", "replace", "copy", "rename", "wrap", "unwrap", "double", "add"]))
        if how == "drop":
            del owner[key]
        elif how == "replace":
            owner[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
        elif how == "copy":
            owner[key] = copy.deepcopy(at(config, draw(st.sampled_from(paths_of(config)))))
        elif how == "rename" and isinstance(owner, dict):
            owner[draw(st.sampled_from([f"{key}s", str(key)[:-1], "x", "", "name", "type"]))] = owner.pop(key)
        elif how == "wrap":
            owner[key] = draw(st.sampled_from([lambda v: [v], lambda v: {"type": v}, lambda v: {"x": v}]))(
                owner[key]
            )
        elif how == "unwrap" and isinstance(owner[key], (list, dict)) and owner[key]:
            owner[key] = next(iter(owner[key].values() if isinstance(owner[key], dict) else owner[key]))
        elif how == "double" and isinstance(owner, list):
            owner.append(copy.deepcopy(owner[key]))
        elif how == "add" and isinstance(owner, dict):
            owner[
                draw(
                    st.sampled_from(["gate", "register", "x", "workers", "limits", "seed", "grid", "params"])
                )
            ] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return config


def called(*arguments: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, err.getvalue()


def assert_valid_or_refused(config: object, *, plan: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "c.yaml"
        file.write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
        code, err = called("validate", str(file))
        assert code in (0, 2), err
        assert "Traceback" not in err
        if code == 2:
            lines = err.removeprefix("error: ").splitlines()
            assert lines
            assert all(line.startswith(f"{file}:") for line in lines if not line.startswith(" ")), err
        elif plan:
            code, err = called("run", str(file), "--dry-run")
            assert code in (0, 2), err
            assert "Traceback" not in err


def test_names_with_line_breaks_are_listed_in_one_line() -> None:
    config = {
        "datasets": ["synthetic"],
        "split": "last_n",
        "metrics": ["ndcg@10"],
        "models": ["\n", "popularity"],
        "compare": {"baseline": "random"},
    }
    assert_valid_or_refused(config, plan=False)


@settings(max_examples=settings.default.max_examples // 4)
@given(mutated())
def test_mutated_config_is_valid_or_refused_with_its_place(config: dict[str, Any]) -> None:
    assert_valid_or_refused(config, plan=False)


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 4)
@given(mutated())
def test_mutated_config_that_is_valid_can_be_planned(config: dict[str, Any]) -> None:
    assert_valid_or_refused(config, plan=True)
