from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.base.errors import EvalpluginError, ParameterError, UnknownNameError
from evalplugin.metrics import MetricSpec, definitions_hash, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ndcg@10", "ndcg@10"),
        ("ndcg(gain=linear)@10", "ndcg@10"),
        ("ndcg(gain=exp2)@10", "ndcg(gain=exp2)@10"),
        (" ndcg ( gain = exp2 ) @ 10 ", "ndcg(gain=exp2)@10"),
        ("ndcg()", "ndcg"),
        ("ndcg(gain=exp2,)@5", "ndcg(gain=exp2)@5"),
        ("ndcg(base=2.0, discount=log)@10", "ndcg(discount=log, base=2)@10"),
        ("ndcg(cut=truth, alpha=5.50, discount=halflife)", "ndcg(discount=halflife, alpha=5.5, cut=truth)"),
        ("ap(denominator=hits)@100", "ap(denominator=hits)@100"),
        ("rbp(p=.5)@20", "rbp(p=0.5)@20"),
        ("rbp(p=8e-1)@20", "rbp@20"),
        ("rbp(p=1e-05)", "rbp(p=1e-05)"),
        ("precision@007", "precision@7"),
        ("rr", "rr"),
        ("r_precision", "r_precision"),
        ("rmse", "rmse"),
        ("rmse(pooled=false)", "rmse"),
        ("mae( pooled = true )", "mae(pooled=true)"),
    ],
)
def test_a_name_is_read_into_its_canonical_form(text: str, canonical: str) -> None:
    assert parse(text).name == canonical


def test_a_spec_holds_family_parameters_and_cutoff() -> None:
    spec = parse("ndcg(discount=log, base=3)@7")
    assert (spec.family, spec.k) == ("ndcg", 7)
    assert (spec.metric.discount, spec.metric.base, spec.metric.gain) == ("log", 3.0, "linear")
    assert spec.at(None).name == "ndcg(discount=log, base=3)"
    assert spec.at(3) == parse("ndcg(discount=log, base=3)@3")


_NUMBERS = st.floats(min_value=1, exclude_min=True, max_value=1e300).map(repr)
_PARAMETERS = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "gain": st.sampled_from(["linear", "exp2", "binary"]),
            "cut": st.sampled_from(["full", "truth"]),
            "discount": st.sampled_from(["log2", "ln"]),
        },
    ),
    st.fixed_dictionaries({"discount": st.just("log"), "base": _NUMBERS}),
    st.fixed_dictionaries({"discount": st.just("halflife"), "alpha": _NUMBERS}),
)


@given(
    family=st.sampled_from(["ndcg", "dcg"]),
    params=_PARAMETERS,
    k=st.none() | st.integers(1, 2**31 - 1),
    data=st.data(),
)
def test_a_canonical_name_reads_back_as_the_same_metric(family, params, k, data):
    order = data.draw(st.permutations(list(params)))
    text = f"{family}({', '.join(f'{p}={params[p]}' for p in order)}){'' if k is None else f'@{k}'}"
    spec = parse(text)
    assert isinstance(spec, MetricSpec)
    assert parse(spec.name) == spec
    assert parse(spec.name).name == spec.name


@given(st.text(alphabet="ndcgrap@()=,.0123456789+-_ '\"e", max_size=25))
def test_parse_of_any_text_returns_or_raises_parameter_error(text: str) -> None:
    with suppress(EvalpluginError):
        spec = parse(text)
        assert parse(spec.name) == spec


@pytest.mark.parametrize(
    "number", [str(10**400), "9" * 5000, "0" * 5000 + ".5"], ids=["400", "5000", "zeros"]
)
def test_numbers_of_thousands_of_digits_are_refused(number: str) -> None:
    with pytest.raises(ParameterError, match=r"p: \d+ ... .* characters left out.* is too large a number"):
        parse(f"rbp(p={number})")


NOT_ONE_WORD = "is one word or one number, not a call or a list"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndcg(gian=exp2)@10", "unknown parameter 'gian' of ndcg; did you mean 'gain'?"),
        ("ndcg(gain=exp)@10", "gain: must be 'linear', 'exp2' or 'binary', not 'exp'; did you mean 'exp2'?"),
        ("rbp(p=half)", "p: must be a number, not 'half'"),
        ("rbp(p=1)", "p: must be less than 1, not 1"),
        ("rbp(p=true)", "p: must be a number, not True"),
        ("rbp(p=1e999)", "p: 1e999 is too large a number"),
        ("precision(k=5)", "unknown parameter 'k' of precision; allowed: denominator"),
        ("ndcg(base=2)@10", "base goes with discount=log only, not with discount=log2"),
        ("ndcg(alpha=2, discount=ln)", "alpha goes with discount=halflife only, not with discount=ln"),
        ("dcg(discount=log)", "discount=log needs base, for example base=2"),
        ("dcg(discount=halflife)", "discount=halflife needs alpha, for example alpha=2"),
        ("ndcg(discount=log, base=1)", "base: must be greater than 1, not 1"),
        ("ndcg@0", "k must be a whole number from 1 to 2147483647, not '0'"),
        ("ndcg@x", "k must be a whole number from 1 to 2147483647, not 'x'"),
        ("ndcg@-1", "k must be a whole number from 1 to 2147483647, not '-1'"),
        ("ndcg@1.5", "k must be a whole number from 1 to 2147483647, not '1.5'"),
        ("ndcg@", "k must be a whole number from 1 to 2147483647, not ''"),
        ("ndcg@99999999999", "k must be a whole number from 1 to 2147483647, not '99999999999'"),
        ("ndcg@10(gain=exp2)", "k must be a whole number from 1 to 2147483647, not '10(gain=exp2)'"),
        ("rmse@10", "rmse takes no k; write 'rmse'"),
        ("r_precision@5", "r_precision takes no k; write 'r_precision'"),
        ("ndcg(gain=f(2))@10", f"the value of 'gain' {NOT_ONE_WORD}: '(' at position 12"),
        ("ndcg(gain=[1])@10", f"the value of 'gain' {NOT_ONE_WORD}: '[' at position 11"),
        ("ndcg(gain='exp2')@10", "the value of 'gain' must not be quoted: \"'\" at position 11"),
        ("ndcg(gain=exp2, gain=exp2)", "parameter 'gain' is given twice"),
        ("ndcg(gain)@10", "expected '=' and a value after 'gain', found ')' at position 10"),
        ("ndcg(gain=)@10", "expected a word or a number as the value of 'gain', found ')' at position 11"),
        ("ndcg(gain=exp2@10", "expected ',' or ')', found '@' at position 15"),
        ("ndcg(gain=exp2", "expected ',' or ')', found the end"),
        ("ndcg(", "expected a parameter as name=value, or ')', found the end"),
        ("ndcg(gain=exp2,,", "expected a parameter as name=value, found ',' at position 16"),
        ("ndcg 10", "expected '@' and k, or the end, found '1' at position 6"),
        ("10", "expected the name of a metric, found '1' at position 1"),
        ("", "expected the name of a metric, found the end"),
    ],
)
def test_parse_error_has_position_and_allowed_values(text: str, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse(text)
    assert str(caught.value) == f"{text!r}: {message}"
    assert all(problem.path == () for problem in caught.value.problems)


def test_unknown_metric_suggests_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown metric 'ndgc'; did you mean 'ndcg'\?$"):
        parse("ndgc@10")


def test_parse_refuses_values_that_are_no_text() -> None:
    with pytest.raises(ParameterError, match=r"^a metric is named by text such as 'ndcg@10', not by 10$"):
        parse(10)


def test_the_definitions_hash_depends_on_names_and_versions_and_not_on_order(monkeypatch):
    specs = [parse("ndcg@10"), parse("ap@5")]
    before = definitions_hash(specs)
    assert definitions_hash(specs[::-1]) == before
    assert definitions_hash([parse("ndcg(gain=linear)@10"), parse("ap@5")]) == before
    assert definitions_hash([parse("ndcg@11"), parse("ap@5")]) != before
    assert len(before) == 64
    monkeypatch.setattr(type(specs[0].metric), "version", 2)
    assert definitions_hash(specs) != before
