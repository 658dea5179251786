"""Tables of a comparison by one metric: its models, every two of them, groups of users, overlap of lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from evalplugin.base.numbers import UNDEFINED, number, p_value, relative, share, signed, span
from evalplugin.comparison.compared import Cell, ComparedModel, Pair, SegmentCell
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.groups import GroupStatistic
from evalplugin.comparison.statistics.intervals import Interval
from evalplugin.comparison.statistics.paired import Test
from evalplugin.report.overlap import overlaps
from evalplugin.report.sentences.fits import fit_lines
from evalplugin.report.sentences.groups import corrected_line, group_statistics_lines
from evalplugin.report.sentences.lists import overlap_lines, overlap_sentence, primary_differences
from evalplugin.report.sentences.statistics import TEST_NAMES, further_tests, statistics_lines
from evalplugin.report.sentences.units import ranking_basis, shared_lines
from evalplugin.report.sentences.verdict import segment_verdict, verdict
from evalplugin.report.table import Column, Table, TableCell, numbers, words
from evalplugin.report.words import better_words, heading

_T = TypeVar("_T")


def comparison_tables(
    comparison: Comparison, metrics: Sequence[str] = (), segment: str | None = None
) -> Iterator[Table]:
    """Yield the tables of each metric with verdicts and footnotes; without ``metrics`` of the primary one.

    First the models; if all were compared with each other, every two models; if a segmentation is named, its groups.
    """
    for metric in metrics or [comparison.contest.primary]:
        shared = shared_lines(comparison, [metric])
        lines = (*statistics_lines(comparison, metric), *fit_lines(comparison, has_folds=True))
        with_pairs = comparison.pairing == "all" and any(pair.metric == metric for pair in comparison.pairs)
        models = models_table(comparison, metric)._replace(verdict=str(verdict(comparison, metric)))
        yield models._replace(footnotes=(*shared, *(() if with_pairs else lines)))
        if with_pairs:
            yield pairs_table(comparison, metric)._replace(footnotes=lines)
        if segment is not None:
            groups = segment_table(comparison, metric, segment)
            if groups.rows:
                yield groups
            statistics = group_statistics_table(comparison, metric, segment)
            if statistics.rows:
                yield statistics


def models_table(comparison: Comparison, metric: str) -> Table:
    """Return the models by one metric, in the order of the comparison: means and differences from the baseline."""
    spec, primary = comparison.contest.spec(metric), comparison.contest.primary

    def cell_of(row: ComparedModel) -> Cell | None:
        return row.cells.get(metric)

    def pair_of(row: ComparedModel) -> Pair | None:
        return None if (cell := cell_of(row)) is None else cell.difference

    fields: list[tuple[Column, Callable[[ComparedModel], TableCell]]] = [
        (Column("", is_number=False), lambda row: rank_cell(cell_of(row))),
        (Column("model", is_number=False), name_cell),
        (Column("mean"), lambda row: mean_cell(cell_of(row))._replace(mark="")),
    ]
    if ranking_basis(comparison, metric) != "":
        fields.append((own_column(comparison), lambda row: own_cell(cell_of(row))))
    if comparison.n_folds > 1:
        fields.append((Column("folds"), lambda row: _folds_cell(comparison, row, metric)))
    if comparison.n_seeds > 1:
        fields.append((Column("seeds"), lambda row: seeds_cell(row, metric)))
    if comparison.pairing == "baseline" and any(pair.metric == metric for pair in comparison.pairs):
        fields += _pair_fields(further_tests(comparison), pair_of)
    order = "" if metric == primary else f"in the order of {primary}"
    title = ", ".join(filter(None, (heading(spec), better_words(spec), order)))
    return Table.of(f"{comparison.contest.place}: {title}", comparison.scored, fields)


def pairs_table(comparison: Comparison, metric: str) -> Table:
    """Return every two models that were compared by one metric."""
    return Table.of(
        f"{comparison.contest.place}: {heading(comparison.contest.spec(metric))}, model against model",
        [pair for pair in comparison.pairs if pair.metric == metric],
        [
            (Column("model", is_number=False), lambda pair: TableCell(pair.model)),
            (Column("against", is_number=False), lambda pair: TableCell(pair.against)),
            *_pair_fields(further_tests(comparison), lambda pair: pair),
        ],
    )


def segment_table(comparison: Comparison, metric: str, segment: str) -> Table:
    """Return the models by one metric within each group of users."""
    cells = [cell for cell in comparison.segments if (cell.segment, cell.metric) == (segment, metric)]
    pairs = [cell.difference for cell in cells if cell.difference is not None]
    units = comparison.contest.units.nouns
    first = {cell.label: cell for cell in reversed(cells)}  # of each group, which names it

    def group_cell(cell: SegmentCell) -> TableCell:
        is_first = first[cell.label] is cell
        return TableCell(cell.label, f"{cell.interval.n:,} {units}") if is_first else TableCell("")

    fields: list[tuple[Column, Callable[[SegmentCell], TableCell]]] = [
        (Column(segment, is_number=False), group_cell),
        (Column("model", is_number=False), lambda cell: _named(comparison, cell.model)),
        (Column("mean"), lambda cell: TableCell(number(cell.interval.mean), _interval(cell.interval))),
    ]
    fields += _pair_fields((), lambda cell: cell.difference) if pairs else []
    title = f"{comparison.contest.place}: {heading(comparison.contest.spec(metric))} by {segment}"
    return Table.of(title, cells, fields)._replace(
        verdict=segment_verdict(comparison, segment, metric),
        footnotes=(corrected_line(comparison, segment, len(pairs)),) if pairs else (),
    )


def group_statistics_table(comparison: Comparison, metric: str, segment: str) -> Table:
    """Return each model's gap between the groups of a segmentation and its worst group, by one metric: a row a model.

    There are no rows without two groups that are large enough.
    """
    statistics = [s for s in comparison.group_statistics if (s.segment, s.metric) == (segment, metric)]
    by_model: dict[str, dict[str, GroupStatistic]] = {}
    for statistic in statistics:
        by_model.setdefault(statistic.model, {})[statistic.statistic] = statistic

    def value(kind: str) -> Callable[[str], TableCell]:
        return lambda model: (
            TableCell(UNDEFINED)
            if (s := by_model[model].get(kind)) is None
            else TableCell(number(s.value), span(s.low, s.high), s.mark)
        )

    def groups(kind: str) -> Callable[[str], TableCell]:
        return lambda model: TableCell(
            "" if (s := by_model[model].get(kind)) is None else " > ".join(s.groups)
        )

    fields: list[tuple[Column, Callable[[str], TableCell]]] = [
        (Column("model", is_number=False), lambda model: _named(comparison, model)),
        (Column("gap"), value("gap")),
        (Column("between", is_number=False), groups("gap")),
    ]
    if any(statistic.statistic == "worst" for statistic in statistics):
        fields += [(Column("worst"), value("worst")), (Column("group", is_number=False), groups("worst"))]
    metric_heading = heading(comparison.contest.spec(metric))
    title = f"{comparison.contest.place}: gap and worst group of {metric_heading} by {segment}"
    table = Table.of(title, by_model, fields)
    return table._replace(footnotes=tuple(group_statistics_lines(comparison, statistics)))


def overlap_table(comparison: Comparison) -> Table:
    """Return how much of the same every two models list, with their difference by the primary metric.

    There are no rows without two models whose lists are at hand.
    """
    differences = primary_differences(comparison)
    rows = []
    for pair in overlaps(comparison):
        names, shown = (pair.model, pair.against), TableCell(UNDEFINED)
        if (difference := differences.get(frozenset(names))) is not None:
            names, shown = (difference.model, difference.against), _difference_cell(difference)
        rows.append((*map(TableCell, (*names, number(pair.rbo), number(pair.jaccard))), shown))
    difference_of = f"difference of {comparison.contest.primary}"
    return Table(
        f"{comparison.contest.place}: overlap of lists",
        (*words("model", "against"), *numbers("rbo", "jaccard", difference_of)),
        tuple(rows),
        overlap_sentence(comparison),
        tuple(overlap_lines(comparison)),
    )


def rank_cell(ranked: ComparedModel | Cell | None) -> TableCell:
    """Return the rank of a model, or of its value; nothing where it has none."""
    rank = None if ranked is None else ranked.rank
    return TableCell("") if rank is None else TableCell(str(rank), value=rank)


def name_cell(row: ComparedModel) -> TableCell:
    """Return a model's name."""
    return TableCell(row.model, tag="baseline" if row.is_baseline else "")


def mean_cell(cell: Cell | None) -> TableCell:
    """Return a model's mean with its interval and its mark; a dash for a model without a value."""
    if cell is None:
        return TableCell(UNDEFINED)
    return TableCell(number(cell.mean), _interval(cell), cell.mark, value=cell.mean)


def own_column(comparison: Comparison) -> Column:
    """Return the column of the users that each model has values for."""
    return Column(f"own {comparison.contest.units.nouns}")


def own_cell(cell: Cell | None) -> TableCell:
    """Return how many users a model has values for, with the mean over all of them."""
    if cell is None or not cell.has:
        return TableCell(UNDEFINED)
    return TableCell(f"{cell.has:,}", f"mean {number(cell.own_mean)}", value=cell.has)


def seeds_cell(row: ComparedModel, metric: str) -> TableCell:
    """Return the lowest and highest mean of a seed, and the seeds' share of the variance of the mean."""
    if not row.seed_means:
        return TableCell("one fit")
    means = [seed.get(metric, math.nan) for seed in row.seed_means]
    if not all(map(math.isfinite, means)):
        return TableCell(UNDEFINED)
    part = row.cells[metric].seed_share if metric in row.cells else math.nan
    of_variance = f"{share(part)} of variance" if math.isfinite(part) else ""
    return TableCell(f"{number(min(means))}–{number(max(means))}", of_variance)


def _named(comparison: Comparison, model: str) -> TableCell:
    return TableCell(model, tag="baseline" if model == comparison.contest.baseline else "")


def _interval(of: Cell | Interval) -> str:
    """Return an interval as text; a dash where too few values differ for bounds."""
    return span(of.low, of.high) or (UNDEFINED if of.method == "none" else "")


def _pair_fields(
    tests: Iterable[Test], pair_of: Callable[[_T], Pair | None]
) -> list[tuple[Column, Callable[[_T], TableCell]]]:
    """Return the columns of a difference; their cells are empty where a row has no pair of models."""

    def of_pair(cell: Callable[[Pair], TableCell]) -> Callable[[_T], TableCell]:
        return lambda row: TableCell("") if (pair := pair_of(row)) is None else cell(pair)

    cells: dict[str, Callable[[Pair], TableCell]] = {
        "difference": _difference_cell,
        "relative": lambda pair: TableCell(relative(pair.paired.relative) or UNDEFINED),
        "better / same / worse": _shares_cell,
        "d_z": lambda pair: TableCell(signed(pair.paired.effect, 2)),
        "p (Holm)": lambda pair: TableCell(p_value(pair.p_holm)),
        **{TEST_NAMES[test]: partial(_test_cell, test) for test in tests},
    }
    return [(Column(name), of_pair(cell)) for name, cell in cells.items()]


def _difference_cell(pair: Pair) -> TableCell:
    difference = pair.paired.interval
    bounds = span(difference.low, difference.high, sign=True)
    return TableCell(signed(difference.mean), bounds, pair.mark)


def _shares_cell(pair: Pair) -> TableCell:
    return TableCell(" / ".join(map(share, (pair.better, pair.paired.equal, pair.worse))))


def _test_cell(test: Test, pair: Pair) -> TableCell:
    return TableCell(p_value(pair.paired.p.get(test, math.nan)))


def _folds_cell(comparison: Comparison, row: ComparedModel, metric: str) -> TableCell:
    """Return the lowest and highest mean of the folds, and the number of folds with a lead over the baseline."""
    means = _fold_means(row, metric)
    if not means:
        return TableCell(UNDEFINED)
    text = f"{number(min(means))}–{number(max(means))}"
    direction = comparison.contest.spec(metric).direction
    base = next((_fold_means(r, metric) for r in comparison.models if r.is_baseline), [])
    if row.is_baseline or not direction or len(base) != len(means):
        return TableCell(text)
    ahead = sum(direction * a > direction * b for a, b in zip(means, base, strict=True))
    return TableCell(text, f"ahead in {ahead} of {len(means)}")


def _fold_means(row: ComparedModel, metric: str) -> list[float]:
    means = row.means_of_folds(metric)
    return means if all(map(math.isfinite, means)) else []
