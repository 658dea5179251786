"""Tables of a comparison, for all renderers: terminal, Markdown, LaTeX, notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from evalplugin.base.numbers import UNDEFINED, memory, number, p_value, relative, seconds, share, signed, span
from evalplugin.base.units import count_text, plural
from evalplugin.comparison.compared import Cell, ComparedModel, Mark, Pair
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.groups import GroupStatistic
from evalplugin.comparison.statistics.groups import LEAST_UNITS
from evalplugin.comparison.statistics.intervals import Interval
from evalplugin.comparison.statistics.paired import Test
from evalplugin.execution.results import Costs
from evalplugin.report.overlap import PERSISTENCE, Overlap, overlaps
from evalplugin.report.verdict import segment_verdict, verdict_sentence
from evalplugin.report.words import (
    TEST_NAMES,
    better_words,
    further_tests,
    heading,
    legend,
    ranking_basis,
    seed_lines,
    seed_texts,
    shared_lines,
)

COST_HEADS = ("start", "fit", "recommend", "score", "peak memory")


class TextCell(NamedTuple):
    """One cell: its text, a small text after it, and whether it is better or worse."""

    text: str
    small: str = ""
    mark: Mark = ""


class TextTable(NamedTuple):
    """Heads and rows of cells; the first ``words`` columns are words, the others numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[TextCell, ...], ...]
    words: int = 2
    verdict: str = ""  # a sentence or two, shown above
    legend: tuple[str, ...] = ()  # lines, shown below


def comparison_tables(
    comparison: Comparison, metrics: Sequence[str] = (), segment: str | None = None
) -> Iterator[TextTable]:
    """Yield the tables of each metric with verdicts and legends; without ``metrics`` of the primary one.

    First the models; if all were compared with each other, every two models; if a segmentation is named, its groups.
    """
    for metric in metrics or [comparison.contest.primary]:
        lines = (*legend(comparison, metric), *seed_lines(comparison))
        with_pairs = comparison.pairing == "all" and any(pair.metric == metric for pair in comparison.pairs)
        models = models_table(comparison, metric)._replace(verdict=verdict_sentence(comparison, metric))
        shared = tuple(shared_lines(comparison, [metric]))
        yield models._replace(legend=shared if with_pairs else (*shared, *lines))
        if with_pairs:
            yield pairs_table(comparison, metric)._replace(legend=lines)
        if segment is not None:
            groups = segment_table(comparison, metric, segment)
            if groups.rows:
                yield groups
            statistics = group_statistics_table(comparison, metric, segment)
            if statistics.rows:
                yield statistics


def models_table(comparison: Comparison, metric: str) -> TextTable:
    """Return the models by one metric, in the order of the comparison: means and differences from the baseline."""
    with_pairs = comparison.pairing == "baseline" and any(p.metric == metric for p in comparison.pairs)
    with_folds = comparison.n_folds > 1
    tests = further_tests(comparison)
    with_own = ranking_basis(comparison, metric) != ""
    heads = ["", "model", "mean"]
    heads += [f"own {plural(comparison.contest.units.noun)}"] if with_own else []
    heads += ["folds"] if with_folds else []
    heads += ["seeds"] if comparison.n_seeds > 1 else []
    heads += _pair_heads(tests) if with_pairs else []
    shown = []
    for row in comparison.scored:
        cell = row.cells.get(metric)
        rank = TextCell(str((cell and cell.rank) or ""))
        cells = [rank, name_cell(row), mean_cell(cell)._replace(mark="")]
        cells += [own_cell(cell)] if with_own else []
        cells += [_folds(comparison, row, metric)] if with_folds else []
        cells += [TextCell(*seed_texts(row, metric))] if comparison.n_seeds > 1 else []
        cells += _pair_cells(None if cell is None else cell.difference, tests) if with_pairs else []
        shown.append(tuple(cells))
    spec, primary = comparison.contest.spec(metric), comparison.contest.primary
    order = "" if metric == primary else f"in the order of {primary}"
    title = ", ".join(filter(None, (heading(spec), better_words(spec), order)))
    return TextTable(f"{comparison.contest.place}: {title}", tuple(heads), tuple(shown))


def pairs_table(comparison: Comparison, metric: str) -> TextTable:
    """Return every two models that were compared by one metric."""
    tests = further_tests(comparison)
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    rows = [(TextCell(pair.model), TextCell(pair.against), *_pair_cells(pair, tests)) for pair in pairs]
    title = f"{comparison.contest.place}: {heading(comparison.contest.spec(metric))}, model against model"
    return TextTable(title, ("model", "against", *_pair_heads(tests)), tuple(rows))


def segment_table(comparison: Comparison, metric: str, segment: str) -> TextTable:
    """Return the models by one metric within each group of users."""
    cells = [cell for cell in comparison.segments if (cell.segment, cell.metric) == (segment, metric)]
    pairs = [cell.difference for cell in cells if cell.difference is not None]
    rows: list[tuple[TextCell, ...]] = []
    group = None
    units = plural(comparison.contest.units.noun)
    for cell in cells:
        label = TextCell("") if cell.label == group else TextCell(cell.label, f"{cell.interval.n:,} {units}")
        name = TextCell(cell.model, "baseline" if cell.model == comparison.contest.baseline else "")
        differences = _pair_cells(cell.difference, ()) if pairs else []
        mean = TextCell(number(cell.interval.mean), _interval(cell.interval))
        rows.append((label, name, mean, *differences))
        group = cell.label
    corrected = (
        f"Within each group, over its {units} alone; Holm's correction over the {count_text(len(pairs), 'comparison')} "
        f"of all models and groups of {segment}."
    )
    return TextTable(
        f"{comparison.contest.place}: {heading(comparison.contest.spec(metric))} by {segment}",
        (segment, "model", "mean", *(_pair_heads(()) if pairs else ())),
        tuple(rows),
        verdict=segment_verdict(comparison, segment, metric),
        legend=(corrected,) if pairs else (),
    )


def group_statistics_table(comparison: Comparison, metric: str, segment: str) -> TextTable:
    """Return each model's gap between the groups of a segmentation and its worst group, by one metric.

    There are no rows without two groups that are large enough.
    """
    statistics = statistics_of(comparison, metric, segment)
    with_differences = any(s.difference is not None for s in statistics)
    rows: list[tuple[TextCell, ...]] = []
    for i, s in enumerate(statistics):
        is_first = not i or statistics[i - 1].statistic != s.statistic
        cells = [
            TextCell(s.statistic if is_first else ""),
            TextCell(s.model, "baseline" if s.model == comparison.contest.baseline else ""),
            TextCell(s.groups_text),
            TextCell(number(s.value), span(s.low, s.high)),
        ]
        if with_differences and s.difference is None:
            cells += [TextCell("")] * 2
        elif s.difference is not None:
            bounds = span(s.difference.low, s.difference.high, sign=True)
            cells += [TextCell(signed(s.difference.value), bounds, s.mark), TextCell(p_value(s.p_holm))]
        rows.append(tuple(cells))
    return TextTable(
        f"{comparison.contest.place}: gap and worst group of {heading(comparison.contest.spec(metric))} by {segment}",
        ("", "model", "groups", "mean", *(("difference", "p (Holm)") if with_differences else ())),
        tuple(rows),
        words=3,
        legend=group_statistics_legend(comparison, statistics),
    )


def statistics_of(comparison: Comparison, metric: str, segment: str) -> list[GroupStatistic]:
    """Return the statistics of the groups of a segmentation by one metric."""
    return [s for s in comparison.group_statistics if (s.segment, s.metric) == (segment, metric)]


def group_statistics_legend(comparison: Comparison, statistics: Sequence[GroupStatistic]) -> tuple[str, ...]:
    """Return lines that say what the statistics of groups mean, and which groups are left out; none without any."""
    if not statistics:
        return ()
    units = plural(comparison.contest.units.independent)
    small = ", ".join(dict.fromkeys(label for s in statistics for label in s.left_out))
    lines = [
        "gap: the highest mean of a group less the lowest one; worst: the mean of the worst group. The intervals hold "
        "although these groups are picked by their means, and are wider for it.",
    ]
    if any(s.difference is not None for s in statistics):
        lines.append(
            f"Differences from the baseline over the same {plural(comparison.contest.units.noun)}; Holm's correction "
            f"over the models. ▲ a smaller gap, or a worst group that is served better."
        )
    if small:
        lines.append(f"Groups of fewer than {LEAST_UNITS} {units} are left out: {small}.")
    return tuple(lines)


def overlap_table(comparison: Comparison) -> TextTable:
    """Return how much of the same every two models list, with their difference by the primary metric.

    There are no rows without two models whose lists are at hand.
    """
    differences = _differences(comparison)
    rows = []
    for pair in overlaps(comparison):
        names, shown = (pair.model, pair.against), TextCell(UNDEFINED)
        if (difference := differences.get(frozenset(names))) is not None:
            names, bounds = (difference.model, difference.against), difference.paired.interval
            shown = TextCell(signed(bounds.mean), span(bounds.low, bounds.high, sign=True), difference.mark)
        rows.append((*map(TextCell, (*names, number(pair.rbo), number(pair.jaccard))), shown))
    return TextTable(
        f"{comparison.contest.place}: overlap of lists",
        ("model", "against", "rbo", "jaccard", f"difference of {comparison.contest.primary}"),
        tuple(rows),
        verdict=overlap_sentence(comparison),
        legend=tuple(overlap_legend(comparison)),
    )


def overlap_sentence(comparison: Comparison) -> str:
    """Return sentences on the models that list most alike, and on those whose means say otherwise."""
    pairs = overlaps(comparison)
    if not pairs:
        return "Fewer than two models have lists here, so that there is no overlap."
    if len(pairs) == 1:
        return f"Overlap of {_named(pairs[0])}."
    most, least = (of(pairs, key=lambda pair: pair.rbo) for of in (max, min))
    differences = _differences(comparison)
    tested = [(pair, differences.get(frozenset((pair.model, pair.against)))) for pair in pairs]
    told = [pair for pair, difference in tested if difference is not None and difference.mark]
    untold = [pair for pair, difference in tested if difference is not None and not difference.mark]
    primary = comparison.contest.primary
    alike = max(told, key=lambda pair: pair.rbo, default=None)
    apart = min(untold, key=lambda pair: pair.rbo, default=None)
    parts = [
        f"{_named(most)} list most alike{f', and are shown to differ by {primary}' if alike is most else ''}.",
        f"{_named(least)} list least alike{f', and are not shown to differ by {primary}' if apart is least else ''}.",
    ]
    if alike not in (None, most):
        parts.append(f"Of the pairs shown to differ by {primary}, {_named(alike)} list most alike.")
    if apart not in (None, least):
        parts.append(f"Of the pairs not shown to differ by {primary}, {_named(apart)} list least alike.")
    return " ".join(parts)


def overlap_legend(comparison: Comparison) -> Iterator[str]:
    """Yield lines on the lists that were compared and on the models without any."""
    if not (pairs := overlaps(comparison)):
        return
    units = plural(comparison.contest.units.noun)
    k, drawn_from = pairs[0].k, pairs[0].drawn_from
    drawn = "" if drawn_from is None else f", evenly drawn from {drawn_from:,}"
    yield (
        f"Mean over the first {k} places of {max(pair.lists for pair in pairs):,} lists of {units}{drawn}. rbo: "
        f"the share in common at each depth, the top weighing most (p = {PERSISTENCE:g}); jaccard: the share of the "
        f"items of either list that both have. 1 is the same, 0 nothing in common."
    )
    having = {name for pair in pairs for name in (pair.model, pair.against)}
    if missing := [row.model for row in comparison.scored if row.model not in having]:
        yield f"Without lists: {', '.join(missing)}."


def _named(pair: Overlap) -> str:
    return f"{pair.model} and {pair.against} (rbo {number(pair.rbo, 2)})"


def _differences(comparison: Comparison) -> dict[frozenset[str], Pair]:
    """Return the differences by the primary metric, by the two models."""
    primary = comparison.contest.primary
    return {frozenset((p.model, p.against)): p for p in comparison.every_pair if p.metric == primary}


def name_cell(row: ComparedModel) -> TextCell:
    """Return a model's name."""
    return TextCell(row.model, "baseline" if row.is_baseline else "")


def own_cell(cell: Cell | None) -> TextCell:
    """Return how many users a model has values for, with the mean over all of them."""
    if cell is None or not cell.has:
        return TextCell(UNDEFINED)
    return TextCell(f"{cell.has:,}", f"mean {number(cell.own_mean)}")


def mean_cell(cell: Cell | None) -> TextCell:
    """Return a model's mean with its interval and its mark; a dash for a model without a value."""
    if cell is None:
        return TextCell(UNDEFINED)
    return TextCell(number(cell.mean), _interval(cell), cell.mark)


def _interval(of: Cell | Interval) -> str:
    """Return an interval as text; a dash where too few values differ for bounds."""
    return span(of.low, of.high) or (UNDEFINED if of.method == "none" else "")


def cost_texts(costs: Costs) -> list[str]:
    """Return a model's costs under ``COST_HEADS``."""
    times = (costs.start_seconds, costs.fit_seconds, costs.recommend_seconds, costs.score_seconds)
    return [*map(seconds, times), memory(costs.peak_memory_mb)]


def _pair_heads(tests: Iterable[Test]) -> list[str]:
    names = [TEST_NAMES[test] for test in tests]
    return ["difference", "relative", "better / same / worse", "d_z", "p (Holm)", *names]


def _pair_cells(pair: Pair | None, tests: Sequence[Test]) -> list[TextCell]:
    if pair is None:
        return [TextCell("")] * len(_pair_heads(tests))
    paired, difference = pair.paired, pair.paired.interval
    shares = " / ".join(share(value) for value in (pair.better, paired.equal, pair.worse))
    return [
        TextCell(signed(difference.mean), span(difference.low, difference.high, sign=True), pair.mark),
        TextCell(relative(paired.relative) or UNDEFINED),
        TextCell(shares),
        TextCell(signed(paired.effect, 2)),
        TextCell(p_value(pair.p_holm)),
        *(TextCell(p_value(paired.p.get(test, math.nan))) for test in tests),
    ]


def _folds(comparison: Comparison, row: ComparedModel, metric: str) -> TextCell:
    """Return the lowest and highest mean of the folds, and the number of folds with a lead over the baseline."""
    means = _fold_means(row, metric)
    if not means:
        return TextCell(UNDEFINED)
    text = f"{number(min(means))}–{number(max(means))}"
    direction = comparison.contest.spec(metric).direction
    base = next((_fold_means(r, metric) for r in comparison.models if r.is_baseline), [])
    if row.is_baseline or not direction or len(base) != len(means):
        return TextCell(text)
    ahead = sum(direction * a > direction * b for a, b in zip(means, base, strict=True))
    return TextCell(text, f"ahead in {ahead} of {len(means)}")


def _fold_means(row: ComparedModel, metric: str) -> list[float]:
    means = row.means_of_folds(metric)
    return means if all(map(math.isfinite, means)) else []
