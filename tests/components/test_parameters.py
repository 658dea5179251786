from __future__ import annotations

from dataclasses import InitVar, dataclass, field, make_dataclass
from typing import Annotated, Literal

import pytest
from pydantic import Field

from evalplugin.base.errors import ParameterError
from evalplugin.components.parameters import as_mapping, build, parameters_of, schema_of


@dataclass(frozen=True)
class Options:
    name: Literal["msd", "cosine"] = "msd"
    shrinkage: float = 100


@dataclass(frozen=True)
class Model:
    k: Annotated[int, Field(ge=1, description="Neighbours.")] = 40
    options: Options = field(default_factory=Options)
    seed: int | None = None
    scale: tuple[float, ...] = ()
    cut: int | str = 0

    def __post_init__(self) -> None:
        if self.k == 13:
            raise ValueError("k=13 brings bad luck")


@dataclass(frozen=True)
class Named:
    path: str


def messages(cls: type, **params: object) -> list[tuple[str, str]]:
    with pytest.raises(ParameterError) as caught:
        build(cls, params, owner="it")
    return [(".".join(map(str, p.path)), p.message) for p in caught.value.problems]


def test_build_fills_nested_options_and_defaults() -> None:
    made = build(Model, {"k": 3, "options": {"shrinkage": 1}, "scale": [1, 5]}, owner="it")
    assert made == Model(k=3, options=Options(shrinkage=1.0), scale=(1.0, 5.0))


def test_as_mapping_and_build_round_trip() -> None:
    made = Model(k=3, options=Options("cosine"), seed=7)
    assert build(Model, as_mapping(made), owner="it") == made
    assert as_mapping(made)["options"] == {"name": "cosine", "shrinkage": 100}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"kk": 1}, [("kk", "unknown parameter 'kk' of it; did you mean 'k'?")]),
        ({"zzz": 1}, [("zzz", "unknown parameter 'zzz' of it; allowed: k, options, seed, scale, cut")]),
        ({"k": "3"}, [("k", "must be an integer, not '3'")]),
        ({"k": True}, [("k", "must be an integer, not True")]),
        ({"k": 0}, [("k", "must be greater than or equal to 1, not 0")]),
        ({"k": 13}, [("", "k=13 brings bad luck")]),
        ({"sale": 1}, [("sale", "unknown parameter 'sale' of it; did you mean 'scale'?")]),
        ({"dead": 1}, [("dead", "unknown parameter 'dead' of it; allowed: k, options, seed, scale, cut")]),
        ({"options": {"nme": 1}}, [("options.nme", "unknown parameter 'nme' of it; did you mean 'name'?")]),
        (
            {"options": {"name": "cosin"}},
            [("options.name", "must be 'msd' or 'cosine', not 'cosin'; did you mean 'cosine'?")],
        ),
        ({"options": 3}, [("options", "must be a mapping with the keys name, shrinkage, not 3")]),
        ({"seed": "x"}, [("seed", "must be an integer, not 'x'")]),
        ({"cut": 1.5}, [("cut", "must be an integer or text, not 1.5")]),
        ({"scale": [1, "x"]}, [("scale.1", "must be a number, not 'x'")]),
        (
            {"k": 0, "seed": "x"},
            [("k", "must be greater than or equal to 1, not 0"), ("seed", "must be an integer, not 'x'")],
        ),
    ],
)
def test_parameter_errors_list_every_path(params: dict[str, object], expected: list[tuple[str, str]]) -> None:
    assert messages(Model, **params) == expected


def test_missing_parameter_is_named() -> None:
    assert messages(Named) == [("path", "missing parameter 'path' of it")]


def test_parameters_must_be_plain_values() -> None:
    assert messages(Named, path=object())[0][1].startswith("parameters of it must be plain values")


def test_parameters_of_lists_nested_options_after_their_parent() -> None:
    described = [(p.name, p.type, p.default, p.description) for p in parameters_of(Model)]
    assert described == [
        ("k", "integer >= 1", 40, "Neighbours."),
        ("options", "mapping", "", ""),
        ("options.name", '"msd" | "cosine"', "msd", ""),
        ("options.shrinkage", "number", 100, ""),
        ("seed", "integer | null", None, ""),
        ("scale", "tuple[float, ...]", (), ""),
        ("cut", "integer | text", 0, ""),
    ]
    assert parameters_of(Named)[0].required


def test_bounds_inside_a_union_are_shown() -> None:
    positive = Annotated[float, Field(gt=0)]
    cls = make_dataclass("Damped", [("damping", positive | dict[Literal["user", "item"], positive], 5.0)])
    assert parameters_of(cls)[0].type == 'number > 0 | mapping of "user" | "item" to number > 0'


def test_component_schema_forbids_unknown_parameters() -> None:
    assert schema_of(Model)["additionalProperties"] is False
    assert set(schema_of(Model)["properties"]) == {"k", "options", "seed", "scale", "cut"}


@dataclass
class Living:
    thing: InitVar[object] = None
    k: int = 1

    def __post_init__(self, thing: object) -> None:
        self.kept = thing


def test_init_var_objects_are_passed_unchanged() -> None:
    thing = object()
    made = build(Living, {"thing": thing, "k": 2}, owner="it")
    assert (made.kept, made.k) == (thing, 2)
    assert as_mapping(made) == {"k": 2}
    assert [p.name for p in parameters_of(Living)] == ["k"]


def test_a_default_that_is_written_out_is_the_default() -> None:
    written = build(Options, {"shrinkage": 100}, owner="it")
    assert repr(as_mapping(written)) == repr(as_mapping(Options())) == "{'name': 'msd', 'shrinkage': 100}"
    assert (
        repr(as_mapping(build(Options, {"shrinkage": 1}, owner="it"))) == "{'name': 'msd', 'shrinkage': 1.0}"
    )
