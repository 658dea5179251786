from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from evalplugin.execution.results import Bakeoff


def bakeoff(**changes: Any) -> Bakeoff:
    plain: dict[str, Any] = {field.name: "" for field in dataclasses.fields(Bakeoff)}
    return Bakeoff(**{**plain, "datasets": ("ml",), "splits": ("last",), **changes})


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "knn"),
        ({"datasets": ("ml", "own")}, "knn · ml"),
        ({"splits": ("last", "random")}, "knn · last"),
        ({"datasets": ("ml", "own"), "splits": ("last", "random")}, "knn · ml · last"),
    ],
)
def test_a_run_is_named_after_its_model_and_what_else_there_are_several_of(
    changes: dict[str, Any], name: str
) -> None:
    assert bakeoff(**changes).run_name("ml", "last", "knn") == name
