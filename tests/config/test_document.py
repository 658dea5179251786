from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.base.errors import ConfigError, Problem
from evalplugin.config.document import format_path, parse_document, parse_override, read_document


def read(text: str) -> dict[str, object]:
    return parse_document(text, "a.yaml").data


def message(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, "a.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1.", 1.0),
        (".5", 0.5),
        ("-2", -2),
        ("007", 7),
        ("0x1f", 31),
        (str(2**63), 2**63),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"),
        ("'10'", "10"),
        ("ndcg(gain=exp2)@10", "ndcg(gain=exp2)@10"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    found = read(f"a: {text}")["a"]
    assert (found, type(found)) == (value, type(value))


def test_document_locations_are_one_based_lines_and_columns() -> None:
    document = parse_document("a: 1\nb:\n  - x\n  - {c: 2}\n", "a.yaml")
    assert document.locate(Problem(("b", 1, "c"), "is wrong")) == "a.yaml:4:9: b[1].c: is wrong"
    assert document.locate(Problem(("b", 1, "c"), "is wrong", at_key=True)) == "a.yaml:4:6: b[1].c: is wrong"
    # What is missing is shown where it should be.
    assert document.locate(Problem(("b", 1, "d"), "is missing")) == "a.yaml:4:5: b[1].d: is missing"


def test_document_resolves_anchors_and_aliases() -> None:
    assert read("a: &x {k: 1}\nb: *x\n") == {"a": {"k": 1}, "b": {"k": 1}}


@pytest.mark.parametrize(
    ("value", "sign"),
    [("*/5 * * * *", "*"), ("*any", "*"), ('"*/5" * * * *', "*"), ("&/x", "&"), ("@daily", "@"), ("%H", "%")],
)
def test_unquoted_yaml_indicator_gets_a_hint_to_quote(value: str, sign: str) -> None:
    for text in (f"a: {value}", f"# ä\nb: {{a: {value}}}"):
        assert message(text).endswith(f"; put a value that begins with {sign} in quotes")
    assert "in quotes" not in message("a: [1")


def test_all_duplicate_keys_are_reported() -> None:
    assert message("a: 1\nb: {c: 1, c: 2}\na: 2\n").splitlines() == [
        "a.yaml:2:11: b.c: duplicate key 'c'; first given in line 2",
        "a.yaml:3:1: a: duplicate key 'a'; first given in line 1",
    ]


def test_missing_config_file_suggests_nearest_file(tmp_path: Path) -> None:
    (tmp_path / "knn.yaml").write_text("a: 1")
    with pytest.raises(ConfigError, match=r"kn\.yaml: no such file; did you mean 'knn\.yaml'\?"):
        read_document(tmp_path / "kn.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        read_document(tmp_path)


def test_config_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read_document(tmp_path / "latin.yaml")


def test_overrides_set_values_and_errors_name_the_override() -> None:
    document = parse_document("models: [random, {type: a, params: {k: 1}}]\nseed: 1\n", "a.yaml")
    changed = document.override(
        ["models.1.params.k=20", "models.0.params.legacy_seed=3", "seed=2", "recommend.n=5", "metrics=[a, b]"]
    )
    assert changed.data == {
        "models": [{"type": "random", "params": {"legacy_seed": 3}}, {"type": "a", "params": {"k": 20}}],
        "seed": 2,
        "recommend": {"n": 5},
        "metrics": ["a", "b"],
    }
    assert document.data["seed"] == 1
    wrong = Problem(("models", 1, "params", "k"), "is wrong")
    assert changed.locate(wrong) == "--set models.1.params.k=20: models[1].params.k: is wrong"


def test_a_key_that_is_set_twice_is_refused() -> None:
    document = parse_document("seed: 1\n", "test.yaml")
    with pytest.raises(ConfigError, match="--set seed=3: the key has a value already, by --set seed=2"):
        document.override(["seed=2", "seed=3"])


@pytest.mark.parametrize("text", ["*/7 * * * *", "@daily", "*.csv # all"])
def test_override_starting_with_yaml_indicator_is_text(text: str) -> None:
    assert parse_override(f"a.b= {text} ") == (("a", "b"), text)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("seed", "--set seed: must look like models.0.params.k=20"),
        ("=1", "--set =1: must look like models.0.params.k=20"),
        ("models.7.name=x", "models is a list of 1; name a position from 0 to 0, not 7"),
        ("models.a.name=x", "models is a list of 1; name a position from 0 to 0, not 'a'"),
        ("seed=[1", "--set seed=[1:"),
    ],
)
def test_override_of_unreachable_path_is_refused(assignment: str, expected: str) -> None:
    document = parse_document("models: [random]\n", "a.yaml")
    with pytest.raises(ConfigError) as caught:
        document.override([assignment])
    assert expected in str(caught.value)


def test_format_path_uses_dots_and_brackets() -> None:
    assert format_path(("models", 1, "params", "k")) == "models[1].params.k"


@given(st.text())
def test_any_text_is_parsed_or_refused_with_config_error(text: str) -> None:
    try:
        message = type(parse_document(text, "a.yaml").data).__name__
    except ConfigError as error:
        message = str(error)
    assert message.startswith(("a.yaml", "dict"))


@given(
    st.integers(-(2**63), 2**64 - 1)
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False, allow_infinity=False)
)
def test_override_round_trips_the_value(value: object) -> None:
    import json

    assert parse_override(f"a.b={json.dumps(value)}") == (("a", "b"), value)
