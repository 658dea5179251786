"""The statistics behind the numbers: intervals, tests, marks, and the differences that a bake-off can find."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from evalplugin.base.numbers import number, percent
from evalplugin.base.units import count_text
from evalplugin.comparison.compared import Pair
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.statistics.paired import Test
from evalplugin.comparison.statistics.permutation import RELIABLE_FROM
from evalplugin.metrics.scores import Units
from evalplugin.report.sentences.units import counted_lines, ranking_basis
from evalplugin.report.sentences.verdict import MAY_ERR, to_tell_apart

TEST_NAMES: dict[Test, str] = {"wilcoxon": "p (Wilcoxon)", "t": "p (t)"}

_INTERVALS = "Intervals ({level}): {methods}."
_SMALL = "Small: {level} interval of the mean."
_SMALL_BY = "Small: {level} interval of the mean, {methods}."
_NO_INTERVAL = "–: no interval, as hardly any {unit} differs from all others and the metric has no bounds."

# Of a metric's differences; a baseline's marks in a table of several metrics.
_FROM_BASELINE = "Differences from {baseline} over the same {units.nouns}."
_BETWEEN_TWO = "Differences between two models over the same {units.nouns}."
_FROM_BASELINE_SHARED = "Differences from {baseline} over the same {units.nouns}, all that both models have."
_BETWEEN_TWO_SHARED = "Differences between two models over the same {units.nouns}, all that both models have."
_TEST = (
    "p: paired permutation test, two-sided ({methods}), Holm's correction over {comparisons} by {metric}. ▲ better, "
    "▼ worse: p at most {error}."
)
_EFFECT = (
    "d_z (effect size): the mean difference in standard deviations of the {units.nouns}' differences; 0.2 is small, "
    "0.8 large."
)
_OF_ALL = "{metric} is a ratio of sums: neither single {units.nouns} nor groups of them have values of it."
_FURTHER = "{tests}: two-sided, not corrected."
_MARKS = (
    "▲ better, ▼ worse than the baseline {baseline}, {units.noun} by {units.noun}: paired permutation test at {error}, "
    "Holm's correction over the models."
)
_FEW = (
    f"Fewer than {RELIABLE_FROM} {{units.independents}} have different scores: {{models}}. There {MAY_ERR}."
)
_DETECTABLE = (
    "Smallest difference found reliably (in 4 of 5 such bake-offs, one comparison by itself): {low}."
)
_DETECTABLE_BY_MODEL = (
    "Smallest difference found reliably (in 4 of 5 such bake-offs, one comparison by itself): {low} to {high}, by "
    "model."
)

# Methods of intervals, of what is independent.
_METHODS = {
    "bootstrap": "bootstrap over {units.independents} (BCa)",
    "t": "Student's t over {units.independents}",
    "flips": "sign flips of Student's t over {units.independents}, corrected for skewness",
    "exact": "exact of a share where all values are 0 or 1",
    "effective": "exact of a share where all values are 0 or 1, for the effective number of {units.nouns}",
    "bound": "a bound where hardly any {units.independent} differs from all others",
    "none": "none (–) where hardly any {units.independent} differs and the metric has no bounds",
}


def no_interval(independent: str) -> str:
    """Return the meaning of a dash in place of an interval; ``independent`` is the noun of what is independent."""
    return _NO_INTERVAL.format(unit=independent)


def statistics_lines(comparison: Comparison, metric: str) -> Iterator[str]:
    """Yield lines on a metric's intervals, tests, users, and the differences that can be found."""
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    means = {row.cells[metric].method for row in comparison.models if metric in row.cells}
    differences = {pair.paired.interval.method for pair in pairs}
    if methods := "; ".join(
        f"{of}, {names}"
        for of, used in (("of means", means), ("of mean differences", differences))
        if (names := method_names(used, comparison.contest.units))
    ):
        yield _INTERVALS.format(level=percent(comparison.level), methods=methods)
    yield from _test_lines(comparison, metric, pairs)
    yield from few_lines(comparison, pairs)
    yield from counted_lines(comparison, metric)
    if detectable := [p.paired.detectable for p in pairs if math.isfinite(p.paired.detectable)]:
        low, high = number(min(detectable)), number(max(detectable))
        yield (_DETECTABLE if low == high else _DETECTABLE_BY_MODEL).format(low=low, high=high)
    if (best := comparison.best.get(metric)) is not None:
        yield from to_tell_apart(best, comparison.contest.units)


def small_line(level: float, methods: str = "") -> str:
    """Return the meaning of the small numbers below means."""
    return (_SMALL_BY if methods else _SMALL).format(level=percent(level), methods=methods)


def small_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the meaning of the small numbers below the means of all metrics; nothing where none has an interval."""
    used = {cell.method for row in comparison.models for cell in row.cells.values()}
    if methods := method_names(used, comparison.contest.units):
        yield small_line(comparison.level, methods)


def _test_lines(comparison: Comparison, metric: str, pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield lines on the differences by a metric, their tests, effect size and marks; none without pairs."""
    if not pairs:
        return
    units, is_shared = comparison.contest.units, ranking_basis(comparison, metric) != ""
    if comparison.pairing == "baseline":
        differences = _FROM_BASELINE_SHARED if is_shared else _FROM_BASELINE
    else:
        differences = _BETWEEN_TWO_SHARED if is_shared else _BETWEEN_TWO
    test = _TEST.format(
        methods=" or ".join(sorted({pair.paired.permutations for pair in pairs})),
        comparisons=count_text(len(pairs), "comparison"),
        metric=metric,
        error=percent(1 - comparison.level),
    )
    differences = differences.format(baseline=comparison.contest.baseline, units=units)
    effect = _EFFECT if comparison.contest.spec(metric).is_by_unit else _OF_ALL
    yield f"{differences} {test} {effect.format(units=units, metric=metric)}"
    if tests := further_tests(comparison):
        yield _FURTHER.format(tests=", ".join(TEST_NAMES[test] for test in tests))


def further_tests(comparison: Comparison) -> tuple[Test, ...]:
    """Return the tests that were computed in addition to the permutation test."""
    return tuple(test for test in TEST_NAMES if any(test in pair.paired.p for pair in comparison.pairs))


def mark_lines(comparison: Comparison) -> Iterator[str]:
    """Yield lines on the marks of means, and on those that rest on few users; none without marks."""
    if any(cell.mark for row in comparison.models for cell in row.cells.values()):
        contest = comparison.contest
        yield _MARKS.format(
            baseline=contest.baseline, units=contest.units, error=percent(1 - comparison.level)
        )
        yield from few_lines(comparison, comparison.pairs)


def few_lines(comparison: Comparison, pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield a line on the marks that rest on few users with different scores; none without such marks."""
    metrics: dict[str, list[str]] = {}
    for pair in pairs:
        if pair.mark and pair.paired.differing < RELIABLE_FROM:
            metrics.setdefault(pair.model, []).append(pair.metric)
    if metrics:
        models = "; ".join(f"{model} by {', '.join(dict.fromkeys(of))}" for model, of in metrics.items())
        yield _FEW.format(units=comparison.contest.units, models=models)


def method_names(methods: Iterable[str], units: Units) -> str:
    """Return the names of methods of intervals over units; empty without any."""
    return " or ".join(_METHODS[method].format(units=units) for method in sorted({*methods} - {""}))
