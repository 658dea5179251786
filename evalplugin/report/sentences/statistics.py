"""The statistics behind the numbers: intervals, tests, marks, and the differences that a bake-off can find."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalplugin.base.numbers import number, percent
from evalplugin.base.units import count_text, plural
from evalplugin.comparison.compared import Pair
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.statistics.paired import Test
from evalplugin.comparison.statistics.permutation import RELIABLE_FROM
from evalplugin.data.queries import Unit
from evalplugin.report.sentences.units import ranking_basis
from evalplugin.report.sentences.verdict import MAY_ERR

TEST_NAMES: dict[Test, str] = {"wilcoxon": "p (Wilcoxon)", "t": "p (t)"}

_INTERVALS = "Intervals ({level}): {methods}."
_SMALL = "Small: {level} interval of the mean."
_SMALL_BY = "Small: {level} interval of the mean ({methods})."
_NO_INTERVAL = "–: no interval, as hardly any {unit} differs from all others and the metric has no bounds."

# Of a metric's differences; a baseline's marks in a table of several metrics.
_FROM_BASELINE = "Differences from {baseline} over the same {units}."
_BETWEEN_TWO = "Differences between two models over the same {units}."
_FROM_BASELINE_SHARED = "Differences from {baseline} over the same {units}, all that both models have."
_BETWEEN_TWO_SHARED = "Differences between two models over the same {units}, all that both models have."
_TEST = "p: {test}, Holm's correction over {comparisons} by {metric}. ▲ better, ▼ worse: p at most {error}."
_EFFECT = (
    "d_z (effect size): the mean difference in standard deviations of the {units}' differences; 0.2 is small, 0.8 "
    "large."
)
_FURTHER = "{tests}: two-sided, not corrected."
_PERMUTATION = "paired permutation test, two-sided ({methods})"
_MARKS = (
    "▲ better, ▼ worse than the baseline {baseline}, {unit} by {unit}: paired permutation test at {error}, Holm's "
    "correction over the models."
)
_FEW = f"Fewer than {RELIABLE_FROM} {{units}} have different scores: {{models}}. There {MAY_ERR}."
_DETECTABLE = (
    "Smallest difference found reliably (in 4 of 5 such bake-offs, one comparison by itself): {low}."
)
_DETECTABLE_BY_MODEL = (
    "Smallest difference found reliably (in 4 of 5 such bake-offs, one comparison by itself): {low} to {high}, by "
    "model."
)

# Methods of intervals, of what is independent.
_METHODS = {
    "bootstrap": "bootstrap over {units} (BCa)",
    "t": "Student's t over {units}",
    "flips": "sign flips of Student's t over {units}, corrected for skewness",
    "exact": "exact of a share where all values are 0 or 1",
    "effective": "exact of a share where all values are 0 or 1, for the effective number of {values}",
    "bound": "a bound where hardly any {unit} differs from all others",
    "none": "none (–) where hardly any {unit} differs and the metric has no bounds",
}
_SHORT_METHODS = {
    "exact": "exact where all values are 0 or 1",
    "effective": "exact where all values are 0 or 1, for the effective number of {values}",
    "bound": "a bound where hardly any {unit} differs",
}


def no_interval(independent: str) -> str:
    """Return the meaning of a dash in place of an interval; ``independent`` is the noun of what is independent."""
    return _NO_INTERVAL.format(unit=independent)


def interval_lines(comparison: Comparison, metric: str | None = None) -> Iterator[str]:
    """Yield a line on the methods of the intervals of a metric (None: of all metrics); none without intervals."""
    if methods := interval_methods(comparison, metric):
        yield _INTERVALS.format(level=percent(comparison.level), methods=methods)


def interval_methods(comparison: Comparison, metric: str | None = None) -> str:
    """Return the methods of the intervals of a metric (None: of all metrics); empty without intervals."""
    cells = [cell for row in comparison.models for cell in row.cells.values()]
    means = {c.method for c in cells if metric in (None, c.metric)} - {""}
    differences = {p.paired.interval.method for p in comparison.pairs if metric in (None, p.metric)} - {""}
    units = comparison.contest.unit, comparison.contest.independent_unit
    return "; ".join(
        f"{of}, {' or '.join(_method(method, _METHODS, *units) for method in sorted(used))}"
        for of, used in (("of means", means), ("of mean differences", differences))
        if used
    )


def small_lines(
    level: float, methods: Iterable[str] = (), unit: Unit = "user", independent: str = "user"
) -> Iterator[str]:
    """Yield the meaning of the small numbers below means; ``independent`` is the noun of what is independent."""
    used = {*methods} - {""}
    methods = sorted(used - {"none"}, key=lambda method: (method in _SHORT_METHODS, method))
    if len(methods) > 1:
        methods = [_method(method, _SHORT_METHODS, unit, independent) for method in methods]
    yield (_SMALL_BY if methods else _SMALL).format(level=percent(level), methods="; ".join(methods))
    if "none" in used:
        yield no_interval(independent)


def test_lines(comparison: Comparison, metric: str) -> Iterator[str]:
    """Yield lines on the differences by a metric, their tests, effect size and marks; none without pairs."""
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    if not pairs:
        return
    units = plural(comparison.contest.unit)
    is_shared = ranking_basis(comparison, metric) != ""
    if comparison.pairing == "baseline":
        differences = _FROM_BASELINE_SHARED if is_shared else _FROM_BASELINE
    else:
        differences = _BETWEEN_TWO_SHARED if is_shared else _BETWEEN_TWO
    test = _TEST.format(
        test=permutation_test(pairs),
        comparisons=count_text(len(pairs), "comparison"),
        metric=metric,
        error=percent(1 - comparison.level),
    )
    differences = differences.format(baseline=comparison.contest.baseline, units=units)
    yield f"{differences} {test} {_EFFECT.format(units=units)}"
    if tests := further_tests(comparison):
        yield _FURTHER.format(tests=", ".join(TEST_NAMES[test] for test in tests))


def further_tests(comparison: Comparison) -> tuple[Test, ...]:
    """Return the tests that were computed in addition to the permutation test."""
    return tuple(test for test in TEST_NAMES if any(test in pair.paired.p for pair in comparison.pairs))


def permutation_test(pairs: Iterable[Pair]) -> str:
    """Return the name of the test behind the marks of pairs, with the method of permutation."""
    return _PERMUTATION.format(methods=" or ".join(sorted({pair.paired.permutations for pair in pairs})))


def mark_lines(comparison: Comparison) -> Iterator[str]:
    """Yield lines on the marks of means, and on those that rest on few users; none without marks."""
    if any(cell.mark for row in comparison.models for cell in row.cells.values()):
        contest = comparison.contest
        yield _MARKS.format(baseline=contest.baseline, unit=contest.unit, error=percent(1 - comparison.level))
        yield from few_lines(comparison, comparison.pairs)


def few_lines(comparison: Comparison, pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield a line on the marks that rest on few users with different scores; none without such marks."""
    metrics: dict[str, list[str]] = {}
    for pair in pairs:
        if pair.mark and pair.paired.differing < RELIABLE_FROM:
            metrics.setdefault(pair.model, []).append(pair.metric)
    if metrics:
        models = "; ".join(f"{model} by {', '.join(dict.fromkeys(of))}" for model, of in metrics.items())
        yield _FEW.format(units=plural(comparison.contest.independent_unit), models=models)


def detectable_lines(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield a line on the smallest difference that a bake-off like this finds; none where it is unknown."""
    if detectable := [p.paired.detectable for p in pairs if math.isfinite(p.paired.detectable)]:
        low, high = number(min(detectable)), number(max(detectable))
        yield (_DETECTABLE if low == high else _DETECTABLE_BY_MODEL).format(low=low, high=high)


def _method(method: str, formats: Mapping[str, str], unit: Unit, independent: str) -> str:
    nouns = {"unit": independent, "units": plural(independent), "values": plural(unit)}
    return formats.get(method, method).format(**nouns)
