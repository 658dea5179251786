"""Names as MLflow takes them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.base.errors import TrackingError
from evalplugin.metrics import METRICS, parse
from evalplugin.tracking.names import flatten, is_allowed, metric_name, metric_names, model_keys

WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,12}", fullmatch=True)
NUMBERS = st.one_of(
    st.integers(-9, 10**6).map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr)
)


@st.composite
def canonical_names(draw: st.DrawFn) -> str:
    params = draw(st.lists(st.tuples(WORDS, st.one_of(WORDS, NUMBERS)), max_size=3))
    k = draw(st.one_of(st.none(), st.integers(1, 10**6)))
    inside = f"({', '.join(f'{n}={v}' for n, v in params)})" if params else ""
    return f"{draw(WORDS)}{inside}{'' if k is None else f'@{k}'}"


def accepted_by_mlflow(name: str) -> bool:
    from mlflow.exceptions import MlflowException
    from mlflow.utils.validation import _validate_metric_name, _validate_param_name

    try:
        _validate_metric_name(name)
        _validate_param_name(name)
    except MlflowException:
        return False
    return True


@pytest.mark.parametrize(
    ("canonical", "name"),
    [
        ("ndcg@10", "ndcg_at_10"),
        ("rr", "rr"),
        ("ndcg(gain=exp2)@10", "ndcg_gain-exp2_at_10"),
        ("ndcg(discount=log, base=2)@10", "ndcg_discount-log_base-2_at_10"),
        ("rbp(p=0.5)@20", "rbp_p-0.5_at_20"),
    ],
)
def test_a_canonical_name_is_spelled_without_signs(canonical: str, name: str) -> None:
    assert metric_name(canonical) == name


@given(canonical_names())
def test_mlflow_accepts_every_name_that_the_grammar_allows(canonical: str) -> None:
    name = metric_name(canonical)
    for key in (
        name,
        f"per_user_quantile/{name}",
        f"dist/{name}.zero_share",
        f"ci/{name}.low",
        f"at_k/{name}",
    ):
        assert accepted_by_mlflow(key)
        assert is_allowed(key)
        assert ":" not in key  # refused on Windows


def test_mlflow_accepts_the_name_of_every_metric() -> None:
    for entry in METRICS:
        assert accepted_by_mlflow(metric_name(parse(entry.name).name))


def test_two_metrics_with_one_name_are_an_error() -> None:
    with pytest.raises(
        TrackingError, match=re.escape("metrics 'a_b@1' and 'a(b)@1' would both be 'a_b_at_1'")
    ):
        metric_names(["a_b@1", "a(b)@1"])


def test_names_that_differ_in_case_alone_are_an_error() -> None:
    with pytest.raises(TrackingError, match="would both be"):
        metric_names(["NDCG@1", "ndcg@1"])


@pytest.mark.parametrize(
    ("canonical", "message"),
    [
        ("ndcg%", "metric 'ndcg%': MLflow cannot store the name: '%' is not allowed"),
        ("é", "'é' is not allowed"),
        ("", "MLflow cannot store the name"),
        ("..", "would read the name '..' as a path"),
        ("users", "MLflow's 'users' already holds the count of users"),
        ("m" * 300, "the name has 300 characters"),
    ],
)
def test_a_name_that_mlflow_would_refuse_is_an_error(canonical: str, message: str) -> None:
    with pytest.raises(TrackingError, match=re.escape(message)):
        metric_name(canonical)


@given(st.lists(st.text(max_size=300), unique=True, max_size=6))
def test_every_model_gets_a_key_of_its_own_that_mlflow_accepts(models: list[str]) -> None:
    keys = model_keys(models)
    assert list(keys) == models
    assert len({key.casefold() for key in keys.values()}) == len(models)
    for key in keys.values():
        assert accepted_by_mlflow(f"diff/ndcg_at_10/{key}.high")


def test_nested_parameters_get_dotted_keys() -> None:
    flat = flatten("model", {"k": 40, "sim": {"name": "cosine", "deep": {"x": 1}}, "empty": {}, "list": [1]})
    assert flat == {
        "model.k": 40,
        "model.sim.name": "cosine",
        "model.sim.deep.x": 1,
        "model.empty": {},
        "model.list": [1],
    }


def test_flatten_prefixes_parameters_that_collide() -> None:
    assert flatten("model", {"type": "x"}, taken={"model.type"}) == {"model.param.type": "x"}


@pytest.mark.parametrize("key", ["a.b", "a/b", "%", "", 3])
def test_flatten_leaves_mappings_with_invalid_keys_whole(key: object) -> None:
    assert flatten("model", {"weights": {key: 1}}) == {"model.weights": {key: 1}}
