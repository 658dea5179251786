"""Search spaces: what they hold, and what Optuna is told and suggests."""

from __future__ import annotations

from typing import Any

import optuna
import pytest
from pydantic import TypeAdapter

from evalplugin.config.spaces import Space
from evalplugin.features.tuning.space import SearchSpace


def spaces(**written: Any) -> SearchSpace:
    return SearchSpace({key: TypeAdapter(Space).validate_python(value) for key, value in written.items()})


def drawn(space: SearchSpace, n: int = 60) -> list[dict[str, Any]]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    return [space.suggest(study.ask()) for _ in range(n)]


@pytest.mark.parametrize(
    ("written", "inside", "outside"),
    [
        ([1, True, "1", None, [2, 3]], [1, 1.0, True, "1", None, [2, 3]], [2, False, "2", [2]]),
        ({"int": [5, 9]}, [5, 9, 7.0], [4, 10, 7.5, True, "7", None]),
        ({"int": [5, 12], "step": 3}, [5, 8, 11], [6, 12]),
        ({"float": [0.1, 0.4], "step": 0.1}, [0.1, 0.2, 0.3, 0.4], [0.25, 0.5]),
        ({"float": [1, 2]}, [1, 1.5, 2.0], [0.999, True, "1", float("nan")]),
    ],
)
def test_what_a_space_holds(written: Any, inside: list[Any], outside: list[Any]) -> None:
    space = spaces(x=written).spaces["x"]
    assert [space.holds(value) for value in inside] == [True] * len(inside)
    assert [space.holds(value) for value in outside] == [False] * len(outside)


def test_values_of_every_kind_are_drawn_from_the_whole_space() -> None:
    space = spaces(
        choice=[True, 1, "a", None], whole={"int": [1, 3]}, step={"int": [2, 9], "step": 3},
        decimal={"float": [0.1, 0.4], "step": 0.1}, number={"float": [0.01, 100], "log": True},
    )  # fmt: skip
    found = drawn(space)
    assert {repr(values["choice"]) for values in found} == {"True", "1", "'a'", "None"}
    assert {values["whole"] for values in found} == {1, 2, 3}
    assert {values["step"] for values in found} == {2, 5, 8}
    assert {values["decimal"] for values in found} == {0.1, 0.2, 0.3, 0.4}
    below = sum(values["number"] < 1 for values in found)
    assert 15 < below < 45
    assert all(list(values) == list(space.spaces) for values in found)
    for values in found:
        assert all(space.spaces[key].holds(value) for key, value in values.items())


def test_points_are_all_of_a_space_and_the_ends_of_a_range_without_a_step() -> None:
    space = spaces(
        kind=["a", "b"], step={"float": [0.1, 0.3], "step": 0.1}, x={"float": [1, 100], "log": True}
    )
    found = [tuple(point.values()) for point in space.points()]
    assert found == [(kind, step, x) for kind in "ab" for step in (0.1, 0.2, 0.3) for x in (1, 100)]


def test_what_optuna_is_told_of_values_is_what_it_suggests() -> None:
    space = spaces(choice=["a", "b"], step={"int": [2, 9], "step": 3}, number={"float": [1, 2]})
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    trial = study.ask()
    values = space.suggest(trial)
    told = space.told(values)
    assert told is not None
    params, distributions = told
    assert params == trial.params
    assert distributions == trial.distributions
    assert space.told({**values, "number": 3.0}) is None


def test_defaults_are_found_under_dotted_names() -> None:
    space = spaces(**{"options.name": ["a", "b"], "k": [1, 2], "absent.key": [1]})
    assert space.defaults({"k": 1, "options": {"name": "b"}}) == {
        "options.name": "b",
        "k": 1,
        "absent.key": None,
    }
