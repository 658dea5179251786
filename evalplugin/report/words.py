"""Legends: sentences on the intervals, tests, marks, users and seeds behind the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalplugin.base.numbers import UNDEFINED, count_range, number, percent, share, signed
from evalplugin.base.units import count_text, plural
from evalplugin.comparison.best import BestModels
from evalplugin.comparison.compared import Cell, ComparedModel, Mark, Pair
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.statistics.paired import Test
from evalplugin.comparison.statistics.permutation import RELIABLE_FROM
from evalplugin.data.queries import Unit
from evalplugin.metrics import MetricSpec
from evalplugin.report.competition import facts_of

MARKS: dict[Mark, str] = {"+": "▲", "-": "▼", "": ""}
TEST_NAMES: dict[Test, str] = {"wilcoxon": "p (Wilcoxon)", "t": "p (t)"}
# Formats, of what is independent, in the singular and the plural.
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
MAY_ERR = "a test at 5 % may call equal models different in up to 8 %"  # experiments/statistics


def no_interval(independent: str) -> str:
    """Return the meaning of a dash in place of an interval; ``independent`` is the noun of what is independent."""
    return f"–: no interval, as hardly any {independent} differs from all others and the metric has no bounds"


def whom(unit: Unit) -> str:
    """Return the pronoun of users or queries: for whom, for which."""
    return "whom" if unit == "user" else "which"


def one_by_one(unit: Unit) -> str:
    """Return how models are paired: user by user, query by query."""
    return f"{unit} by {unit}"


def heading(metric: MetricSpec) -> str:
    """Return a metric's name as a heading, with its unit if it has one."""
    return " ".join(filter(None, (metric.name, metric.metric.unit)))


def better_words(metric: MetricSpec) -> str:
    """Return "higher is better" or "lower is better"; empty for a metric without a better direction."""
    return {1: "higher is better", -1: "lower is better", 0: ""}[metric.direction]


def legend(comparison: Comparison, metric: str) -> list[str]:
    """Return the legend of a metric's tables: intervals, test, correction, users, detectable difference."""
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    lines = []
    if methods := interval_methods(comparison, metric):
        lines.append(f"Intervals ({percent(comparison.level)}): {methods}.")
    lines += _test_legend(comparison, metric, pairs)
    lines += few_users_legend(pairs, comparison.contest.units.independent)
    lines += _user_legend(comparison, metric, pairs)
    if detectable := [p.paired.detectable for p in pairs if math.isfinite(p.paired.detectable)]:
        low, high = number(min(detectable)), number(max(detectable))
        least = low if low == high else f"{low} to {high}, by model"
        lines.append(
            f"Smallest difference found reliably (in 4 of 5 such bake-offs, one comparison by itself): {least}."
        )
    if (best := comparison.best.get(metric)) is not None:
        lines += [f"{text}." for text in to_tell_apart(best)]
    if comparison.n_folds > 1:
        lines.append(
            f"{comparison.n_folds} folds: each {comparison.contest.units.noun}'s scores are averaged before anything "
            f"is compared. The column: lowest to highest mean of a fold."
        )
    lines += tuning_lines(comparison)
    return [*lines, *(f"{row.model} failed: {row.error}" for row in comparison.failed)]


def to_tell_apart(best: BestModels) -> list[str]:
    """Return at most one sentence, without a full stop, on what it takes to tell the leader from its rival."""
    units = plural(best.unit)
    if best.needs_seeds:
        return [
            f"As far as is measured, it takes more seeds, not {units}, to tell {best.leader} from {best.rival}"
        ]
    if best.detectable is None:
        return []
    return [
        f"How many more {units} tell {best.leader} from {best.rival} depends on the true difference, which may be 0: "
        f"{best.users:,} {units} show one of {number(best.detectable)} in 4 of 5 bake-offs, {4 * best.users:,} one of "
        f"half the size"
    ]


def shared_lines(comparison: Comparison, metrics: Sequence[str]) -> list[str]:
    """Return lines on the users that means and ranks are over, and on who lacks how many; empty where nobody does.

    ``metrics`` are canonical names; a line that is not about all of them begins with its own.
    """
    metrics_of: dict[str, list[str]] = {}
    for metric in metrics:
        for line in _shared_lines(comparison, metric):
            metrics_of.setdefault(line, []).append(metric)
    return [
        line if len(of) == len(metrics) else f"{', '.join(of)}: {line}" for line, of in metrics_of.items()
    ]


def _shared_lines(comparison: Comparison, metric: str) -> Iterator[str]:
    cells = {row.model: row.cells[metric] for row in comparison.scored if metric in row.cells}
    lacking = [f"{model} {cell.lacks:,}" for model, cell in cells.items() if cell.has and cell.lacks]
    if not lacking:
        return
    unit = comparison.contest.units.noun
    without = f"without a value: {', '.join(lacking)}"
    if (basis := ranking_basis(comparison, metric)) is None:
        yield f"No {unit} has values of all models, so that none is ranked; {without}."
        return
    yield f"Means and ranks are over {basis}; {without}."
    if few := [f"{model} ({cell.has:,})" for model, cell in cells.items() if cell.has and not cell.users]:
        yield f"Not ranked, with values of fewer than half as many {plural(unit)} as others: {', '.join(few)}."


def ranking_basis(comparison: Comparison, metric: str) -> str | None:
    """Return the users that models are ranked by: ``180 of 300 questions, those with values of all models``.

    Empty where all models have values for the same users, None where no user has values of all.
    """
    cells = [row.cells[metric] for row in comparison.scored if metric in row.cells]
    cells = [cell for cell in cells if cell.has]
    if not any(cell.lacks for cell in cells):
        return ""
    if not (users := max(cell.users for cell in cells)):
        return None
    every, unit = cells[0].has + cells[0].lacks, comparison.contest.units.noun
    ranked = "all models" if all(cell.users for cell in cells) else "all ranked models"
    return f"{users:,} of {count_text(every, unit)}, those with values of {ranked}"


def tuning_lines(comparison: Comparison) -> list[str]:
    """Return lines on tuned models, with metric, split, budget and optimism; empty if no model was tuned."""
    tuned: dict[tuple[str, str, str], list[str]] = {}
    others = []
    for row in comparison.scored:
        if (how := facts_of(comparison.contest, row.model).tuned) is None:
            others.append(row.model)
        else:
            text = f"{row.model} {signed(how.optimism)}"
            tuned.setdefault((how.metric, how.split, how.budget), []).append(text)
    lines = []
    for (metric, split, budget), models in tuned.items():
        each = " each" if len(models) > 1 else ""
        lines.append(
            f"Tuned by {metric} within the train data, {split}; budget: {budget}{each}. Optimism, validation against "
            f"test: {', '.join(models)}."
        )
    if tuned and others:
        lines.append(f"Not tuned: {', '.join(others)}.")
    return lines


def seed_lines(comparison: Comparison) -> list[str]:
    """Return lines on models with several seeds, models fitted once and small differences; empty for one seed."""
    if comparison.n_seeds == 1:
        return []
    done = comparison.scored
    repeated = [row.model for row in done if row.seed_means]
    once = [row.model for row in done if not row.seed_means]
    lines = [
        f"Fitted with {comparison.n_seeds} seeds: {', '.join(repeated)}. Means are over all of them; intervals and "
        f"tests take in what other seeds give."
    ]
    if once:
        lines[0] += f" Fitted once, as no random numbers decide them, or always the same: {', '.join(once)}."
    metric = comparison.contest.primary
    if texts := [text for row in done if (text := _seeds_of_model(row, metric))]:
        lines.append(f"{metric} from seed to seed (standard deviation): {', '.join(texts)}.")
    if small := [
        f"{pair.model} against {pair.against} (±{number(pair.seed_range)})"
        for pair in comparison.pairs
        if pair.metric == metric and pair.is_within_seeds
    ]:
        lines.append(
            f"Smaller than what another seed gives ({percent(comparison.level)}, one fit of each): {', '.join(small)}."
        )
    return lines


def seed_range(pair: Pair) -> str:
    """Return the end of a sentence on a difference that other seeds may give too; empty for others."""
    if not pair.is_within_seeds:
        return ""
    return f"; smaller than what another seed gives (±{number(pair.seed_range)})"


def seed_texts(row: ComparedModel, metric: str) -> tuple[str, str]:
    """Return the lowest and highest mean of a seed, and the seeds' share of the variance of the mean."""
    if not row.seed_means:
        return "one fit", ""
    means = [seed.get(metric, math.nan) for seed in row.seed_means]
    if not all(map(math.isfinite, means)):
        return UNDEFINED, ""
    part = row.cells[metric].seed_share if metric in row.cells else math.nan
    of_variance = f"{share(part)} of variance" if math.isfinite(part) else ""
    return f"{number(min(means))}–{number(max(means))}", of_variance


def interval_methods(comparison: Comparison, metric: str | None = None) -> str:
    """Return the methods of the intervals of a metric (None: of all metrics); empty without intervals."""
    cells = [cell for row in comparison.models for cell in row.cells.values()]
    means = {c.method for c in cells if metric in (None, c.metric)} - {""}
    differences = {p.paired.interval.method for p in comparison.pairs if metric in (None, p.metric)} - {""}
    parts = (("of means", means), ("of mean differences", differences))
    units = comparison.contest.units.noun, comparison.contest.units.independent
    return "; ".join(
        f"{of}, {' or '.join(_method(method, _METHODS, *units) for method in sorted(used))}"
        for of, used in parts
        if used
    )


def _method(method: str, formats: Mapping[str, str], unit: Unit, independent: str) -> str:
    nouns = {"unit": independent, "units": plural(independent), "values": plural(unit)}
    return formats.get(method, method).format(**nouns)


def permutation_test(pairs: Iterable[Pair]) -> str:
    """Return the name of the test behind the marks of pairs, with the method of permutation."""
    methods = " or ".join(sorted({pair.paired.permutations for pair in pairs}))
    return f"paired permutation test, two-sided ({methods})"


def marks_legend(baseline: str | None, level: float, unit: Unit) -> str:
    """Return the meaning of a leaderboard's marks."""
    return (
        f"▲ better, ▼ worse than the baseline {baseline}, {one_by_one(unit)}: paired permutation test at "
        f"{percent(1 - level)}, Holm's correction over the models."
    )


def few_users_legend(pairs: Iterable[Pair], unit: str) -> list[str]:
    """Return a line on the marks that rest on few users with different scores; empty without such marks.

    ``unit`` is the noun of what is independent.
    """
    metrics: dict[str, list[str]] = {}
    for pair in pairs:
        if pair.mark and pair.paired.differing < RELIABLE_FROM:
            metrics.setdefault(pair.model, []).append(pair.metric)
    if not metrics:
        return []
    named = "; ".join(f"{model} by {', '.join(dict.fromkeys(of))}" for model, of in metrics.items())
    return [f"Fewer than {RELIABLE_FROM} {plural(unit)} have different scores: {named}. There {MAY_ERR}."]


def small_legend(
    level: float, methods: Iterable[str] = (), unit: Unit = "user", independent: str = "user"
) -> str:
    """Return the meaning of the small numbers below means; ``independent`` is the noun of what is independent."""
    used = {*methods} - {""}
    methods = sorted(used - {"none"}, key=lambda method: (method in _SHORT_METHODS, method))
    names = "; ".join(
        methods if len(methods) == 1 else (_method(m, _SHORT_METHODS, unit, independent) for m in methods)
    )
    why = f"; {no_interval(independent)}" if "none" in used else ""
    return f"Small: {percent(level)} interval of the mean{f' ({names})' if names else ''}{why}"


def units_of(comparisons: Iterable[Comparison]) -> tuple[Unit, ...]:
    """Return the units of comparisons, usually one."""
    return tuple(dict.fromkeys(comparison.contest.units.noun for comparison in comparisons))


def counted(comparisons: Sequence[Comparison], metric: str, counts: Sequence[int]) -> str:
    """Return the numbers of users or queries with a value: ``Users: 500``, ``Queries: 500 of 120 sessions``.

    Args:
        comparisons: Of one unit.
        metric: Canonical name.
        counts: Numbers of users or queries, at least one.
    """
    (unit,) = units_of(comparisons)
    clusters = [cell.clusters for cell in _cells(comparisons, metric) if cell.clusters is not None]
    noun = plural(comparisons[0].contest.units.independent)
    of_clusters = f" of {count_range(clusters)} {noun}" if clusters else ""
    return f"{plural(unit).capitalize()}: {count_range(counts)}{of_clusters}"


def design_effect_legend(comparisons: Sequence[Comparison], metric: str) -> list[str]:
    """Return a line on what sessions add to the variance of means; empty where queries or users are independent."""
    effects = [cell.design_effect for cell in _cells(comparisons, metric) if cell.clusters is not None]
    texts = [f"{effect:.1f}" for effect in sorted(filter(math.isfinite, effects))]
    if not texts:
        return []
    times = texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"
    return [
        f"Design effect: {times} (the variance of a mean of {metric}, against that of independent "
        f"{plural(comparisons[0].contest.units.noun)})."
    ]


def cluster_mean_legend(comparison: Comparison, metric: str) -> list[str]:
    """Return a line with each model's mean over sessions; empty where queries or users are independent."""
    texts = [
        f"{row.model} {number(mean.mean)} ({number(mean.low)}–{number(mean.high)})"
        for row in comparison.scored
        if metric in row.cells and (mean := row.cells[metric].over_clusters) is not None
    ]
    noun = comparison.contest.units.independent
    return [f"Mean of {metric} if each {noun} counts once: {', '.join(texts)}."] if texts else []


def _cells(comparisons: Sequence[Comparison], metric: str) -> list[Cell]:
    rows = (row for comparison in comparisons for row in comparison.scored)
    return [cell for row in rows if (cell := row.cells.get(metric)) is not None]


def further_tests(comparison: Comparison) -> tuple[Test, ...]:
    """Return the tests that were computed in addition to the permutation test."""
    return tuple(test for test in TEST_NAMES if any(test in pair.paired.p for pair in comparison.pairs))


def _test_legend(comparison: Comparison, metric: str, pairs: Sequence[Pair]) -> Iterator[str]:
    if not pairs:
        return
    reference = (
        f"from {comparison.contest.baseline}" if comparison.pairing == "baseline" else "between two models"
    )
    units = plural(comparison.contest.units.noun)
    those = ", all that both models have" if ranking_basis(comparison, metric) != "" else ""
    yield (
        f"Differences {reference} over the same {units}{those}. p: {permutation_test(pairs)}, Holm's correction over "
        f"{count_text(len(pairs), 'comparison')} by {metric}. ▲ better, ▼ worse: p at most "
        f"{percent(1 - comparison.level)}. d_z (effect size): the mean difference in standard deviations of the "
        f"{units}' differences; 0.2 is small, 0.8 large."
    )
    if tests := further_tests(comparison):
        yield f"{', '.join(TEST_NAMES[test] for test in tests)}: two-sided, not corrected."


def _user_legend(comparison: Comparison, metric: str, pairs: Sequence[Pair]) -> Iterator[str]:
    # A model that predicts no ratings has no value for any user, and is no reason to count them as undefined.
    cells = [c for row in comparison.models if (c := row.cells.get(metric)) is not None and c.users]
    if not cells:
        return
    if all(cell.summary is None for cell in cells):
        units = plural(comparison.contest.units.noun)
        yield f"{metric} is one number over all {units}: it has no interval and no test."
        return
    undefined = max(cell.undefined for cell in cells)
    counts = [pair.paired.users for pair in pairs] or [cell.users for cell in cells]
    more = f"; {undefined:,} have no value of {metric}" if undefined else ""
    yield f"{counted([comparison], metric, counts)} {'compared' if pairs else 'counted'}{more}."
    yield from design_effect_legend([comparison], metric)
    yield from cluster_mean_legend(comparison, metric)


def _seeds_of_model(row: ComparedModel, metric: str) -> str:
    cell = row.cells.get(metric)
    if cell is None or cell.seeds is None:
        return ""
    part = f", {share(cell.seed_share)} of the variance of its mean" if math.isfinite(cell.seed_share) else ""
    return f"{row.model} {number(cell.seeds.sd)}{part}"
