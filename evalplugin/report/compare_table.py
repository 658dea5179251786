"""A comparison in short texts: tables for any renderer, a verdict in words, and what the numbers mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from evalplugin.base.units import count_text
from evalplugin.comparison.compared import ComparedModel, Mark, Pair, SegmentCell
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.statistics import Test
from evalplugin.metrics import parse
from evalplugin.report.text import number, share

__all__ = [
    "TextCell",
    "TextTable",
    "legend",
    "pairs_table",
    "place",
    "segment_legend",
    "segment_table",
    "segment_verdict",
    "standings_table",
    "verdict",
]

_TEST_NAMES: dict[Test, str] = {"wilcoxon": "p (Wilcoxon)", "t": "p (t)"}
_OTHER_WAY: dict[Mark, Mark] = {"+": "-", "-": "+", "": ""}


class TextCell(NamedTuple):
    """One cell: what is read first, what stands small beside it, and whether it is better or worse."""

    text: str
    small: str = ""
    mark: Mark = ""


class TextTable(NamedTuple):
    """Heads and rows of cells; the first ``words`` columns are words, the others numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[TextCell, ...], ...]
    words: int


def place(comparison: Comparison) -> str:
    """Return the names of dataset and split."""
    contest = comparison.contest
    return ", ".join(filter(None, (contest.dataset, contest.split)))


def standings_table(comparison: Comparison, metric: str) -> TextTable:
    """Return the models by one metric, in the order of the comparison: means and differences from the baseline."""
    rows = [row for row in comparison.models if row.error is None]
    with_pairs = comparison.pairing == "baseline" and any(p.metric == metric for p in comparison.pairs)
    with_folds = any(len(row.fold_means) > 1 for row in rows)
    tests = _further_tests(comparison)
    heads = ["", "model", "mean"]
    heads += ["folds"] if with_folds else []
    heads += _pair_heads(tests) if with_pairs else []
    shown = []
    for row in rows:
        cell = row.cells.get(metric)
        cells = [TextCell("" if row.rank is None else str(row.rank)), _name(row)]
        cells.append(
            TextCell("–") if cell is None else TextCell(number(cell.mean), _interval(cell.low, cell.high))
        )
        if with_folds:
            cells.append(_folds(comparison, row, metric))
        if with_pairs:
            pair = None if cell is None else cell.difference
            cells += [TextCell("")] * len(_pair_heads(tests)) if pair is None else _pair_cells(pair, tests)
        shown.append(tuple(cells))
    order = "" if metric == comparison.contest.primary else f", in the order of {comparison.contest.primary}"
    title = f"{place(comparison)}: {metric}{_direction(metric)}{order}"
    return TextTable(title, tuple(heads), tuple(shown), 2)


def pairs_table(comparison: Comparison, metric: str) -> TextTable:
    """Return every two models that were compared by one metric."""
    tests = _further_tests(comparison)
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    rows = [(TextCell(pair.model), TextCell(pair.against), *_pair_cells(pair, tests)) for pair in pairs]
    title = f"{place(comparison)}: {metric}, model against model"
    return TextTable(title, ("model", "against", *_pair_heads(tests)), tuple(rows), 2)


def segment_table(comparison: Comparison, metric: str, segment: str) -> TextTable:
    """Return the models by one metric within each group of users."""
    cells = _segment_cells(comparison, metric, segment)
    with_pairs = any(cell.difference is not None for cell in cells)
    rows = []
    group = None
    for cell in cells:
        first = cell.label != group
        group = cell.label
        interval, pair = cell.interval, cell.difference
        shown = [
            TextCell(cell.label, f"{interval.n:,} users") if first else TextCell(""),
            TextCell(cell.model),
        ]
        if cell.model == comparison.contest.baseline:
            shown[1] = TextCell(cell.model, "baseline")
        shown.append(TextCell(number(interval.mean), _interval(interval.low, interval.high)))
        if with_pairs:
            shown += [TextCell("")] * len(_pair_heads(())) if pair is None else _pair_cells(pair, ())
        rows.append(tuple(shown))
    heads = (segment, "model", "mean", *(_pair_heads(()) if with_pairs else ()))
    return TextTable(f"{place(comparison)}: {metric} by {segment}", heads, tuple(rows), 2)


def verdict(comparison: Comparison, metric: str) -> str:
    """Return who won by a metric, over whom, and whether it is real, in a sentence or two."""
    up = parse(metric).metric.higher_is_better
    rows = [r for r in comparison.models if metric in r.cells and math.isfinite(r.cells[metric].mean)]
    if not rows:
        return f"No model has a value of {metric}."
    if up is None:
        return f"Neither high nor low is better by {metric}: no model wins by it."
    rows.sort(key=lambda row: -row.cells[metric].mean if up else row.cells[metric].mean)
    best = rows[0]
    if len(rows) == 1:
        return f"Only {best.model} has a value of {metric}."
    baseline = comparison.contest.baseline
    if best.is_baseline:
        return (
            f"No model beats the baseline {best.model} by {metric}.{_others(comparison, metric, best.model)}"
        )
    other = baseline if comparison.pairing == "baseline" else rows[1].model
    pair = None if other is None else _pair(comparison, metric, best.model, other)
    if pair is None:
        return f"{best.model} has the best {metric}: {number(best.cells[metric].mean)}."
    difference = f"{_signed(pair.paired.interval.mean)} {_in_brackets(_relative(pair))}"
    if pair.mark:
        return (
            f"{best.model} wins by {metric}: {difference} against {other}, {_p_words(pair.p_holm)}; better for "
            f"{share(pair.better)} of users, worse for {share(pair.worse)}."
        )
    return (
        f"{best.model} is ahead by {metric}, {difference} against {other}, but that may be chance "
        f"({_p_words(pair.p_holm)}): only a difference of {number(pair.paired.detectable)} is found reliably here, in "
        f"4 of 5 such bake-offs."
    )


def segment_verdict(comparison: Comparison, metric: str, segment: str) -> str:
    """Return in which groups each model is shown to be better or worse than the baseline; empty without one."""
    compared = [c for c in _segment_cells(comparison, metric, segment) if c.difference is not None]
    if not compared:
        return ""
    baseline = comparison.contest.baseline
    better, worse = (_groups_by_model(compared, mark) for mark in ("+", "-"))
    if not better and not worse:
        return f"No model is shown to differ from {baseline} in any group by {segment}."
    parts = ((f"Better than {baseline}", better), (f"Worse than {baseline}", worse))
    return " ".join(f"{words}: {groups}." for words, groups in parts if groups)


def _groups_by_model(cells: Sequence[SegmentCell], mark: str) -> str:
    found: dict[str, list[str]] = {}
    for cell in cells:
        if cell.difference is not None and cell.difference.mark == mark:
            found.setdefault(cell.model, []).append(cell.label)
    total = len({cell.label for cell in cells})
    return "; ".join(
        f"{model} in {'every group' if len(labels) == total else ', '.join(labels)}"
        for model, labels in found.items()
    )


def legend(comparison: Comparison, metric: str) -> list[str]:
    """Return what the tables of a metric rest on: intervals, test, correction, users, what could be detected."""
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    return [
        *_interval_words(comparison, metric, pairs),
        *_test_words(comparison, metric, pairs),
        *_user_words(comparison, metric, pairs),
        *_power_words(comparison, pairs),
        *_fold_words(comparison),
        *(f"{row.model} failed: {row.error}" for row in comparison.models if row.error is not None),
    ]


def segment_legend(comparison: Comparison, metric: str, segment: str) -> list[str]:
    """Return what a table by groups rests on, where that differs from what ``legend`` says."""
    pairs = [c.difference for c in _segment_cells(comparison, metric, segment) if c.difference is not None]
    if not pairs:
        return []
    return [
        f"Within each group, over its users alone; Holm's correction over the {count_text(len(pairs), 'comparison')} "
        f"of all models and groups of {segment}."
    ]


def _segment_cells(comparison: Comparison, metric: str, segment: str) -> list[SegmentCell]:
    return [cell for cell in comparison.segments if (cell.segment, cell.metric) == (segment, metric)]


def _further_tests(comparison: Comparison) -> tuple[Test, ...]:
    return tuple(test for test in _TEST_NAMES if any(test in pair.paired.p for pair in comparison.pairs))


def _pair_heads(tests: Iterable[Test]) -> list[str]:
    return [
        "difference",
        "relative",
        "better / same / worse",
        "d_z",
        "p (Holm)",
        *(_TEST_NAMES[t] for t in tests),
    ]


def _pair_cells(pair: Pair, tests: Iterable[Test]) -> list[TextCell]:
    paired = pair.paired
    shares = " / ".join(share(value) for value in (pair.better, paired.equal, pair.worse))
    return [
        TextCell(
            _signed(paired.interval.mean),
            _interval(paired.interval.low, paired.interval.high, sign=True),
            pair.mark,
        ),
        TextCell(_relative(pair) or "–"),
        TextCell(shares),
        TextCell(_signed(paired.effect, 2)),
        TextCell(_p(pair.p_holm)),
        *(TextCell(_p(paired.p.get(test, math.nan))) for test in tests),
    ]


def _name(row: ComparedModel) -> TextCell:
    return TextCell(row.model, "baseline" if row.is_baseline else "")


def _folds(comparison: Comparison, row: ComparedModel, metric: str) -> TextCell:
    """Return the lowest and highest mean of the folds, and in how many the model is ahead of the baseline."""
    means = _fold_means(row, metric)
    if not means:
        return TextCell("–")
    text = f"{number(min(means))}–{number(max(means))}"
    up = parse(metric).metric.higher_is_better
    base = next((_fold_means(r, metric) for r in comparison.models if r.is_baseline), [])
    if row.is_baseline or up is None or len(base) != len(means):
        return TextCell(text)
    ahead = sum(a > b if up else a < b for a, b in zip(means, base, strict=True))
    return TextCell(text, f"ahead in {ahead} of {len(means)}")


def _fold_means(row: ComparedModel, metric: str) -> list[float]:
    means = [fold.get(metric, math.nan) for fold in row.fold_means]
    return means if all(map(math.isfinite, means)) else []


def _direction(metric: str) -> str:
    up = parse(metric).metric.higher_is_better
    return "" if up is None else ", higher is better" if up else ", lower is better"


def _pair(comparison: Comparison, metric: str, model: str, other: str) -> Pair | None:
    """Return how a model differs from another, whichever of the two was compared with the other."""
    pair = comparison.pair(metric, model, other)
    if pair is not None or (pair := comparison.pair(metric, other, model)) is None:
        return pair
    paired, mark = pair.paired, _OTHER_WAY[pair.mark]
    difference = paired.interval
    turned = replace(
        paired,
        mean_a=paired.mean_b,
        mean_b=paired.mean_a,
        interval=replace(difference, mean=-difference.mean, low=-difference.high, high=-difference.low),
        relative=-difference.mean / paired.mean_a if paired.mean_a else math.nan,
        effect=-paired.effect,
        above=paired.below,
        below=paired.above,
    )
    return replace(pair, model=model, against=other, paired=turned, mark=mark)


def _others(comparison: Comparison, metric: str, baseline: str) -> str:
    """Return which models are not shown to be worse than the baseline that leads them."""
    pairs = [p for p in comparison.pairs if (p.metric, p.against) == (metric, baseline)]
    unclear = [p.model for p in pairs if p.mark != "-"]
    if unclear:
        return f" Not shown to be worse: {', '.join(unclear)}."
    return " All others are shown to be worse." if pairs else ""


def _interval_words(comparison: Comparison, metric: str, pairs: Sequence[Pair]) -> Iterator[str]:
    of_means = {r.cells[metric].method for r in comparison.models if metric in r.cells} - {""}
    if of_means:
        words = f"Intervals ({_percent(comparison.level)}): of means, {_method_words(of_means)}"
        if pairs:
            words += f"; of mean differences, {_method_words({p.paired.interval.method for p in pairs})}"
        yield f"{words}."


def _method_words(methods: Iterable[str]) -> str:
    names = {"bootstrap": "bootstrap over users (BCa)", "t": "Student's t over users"}
    return " or ".join(names.get(method, method) for method in sorted(methods))


def _test_words(comparison: Comparison, metric: str, pairs: Sequence[Pair]) -> Iterator[str]:
    if not pairs:
        return
    how = " or ".join(sorted({pair.paired.permutations for pair in pairs}))
    whom = f"from {comparison.contest.baseline}" if comparison.pairing == "baseline" else "between two models"
    at = _percent(1 - comparison.level)
    yield (
        f"Differences {whom} over the same users. p: paired permutation test, two-sided ({how}), Holm's correction "
        f"over {count_text(len(pairs), 'comparison')} by {metric}. ▲ better, ▼ worse: p at most {at}. d_z: mean / "
        f"standard deviation of the differences."
    )
    if tests := _further_tests(comparison):
        yield f"{', '.join(_TEST_NAMES[test] for test in tests)}: two-sided, not corrected."


def _user_words(comparison: Comparison, metric: str, pairs: Sequence[Pair]) -> Iterator[str]:
    # A model that predicts no ratings has no value for anybody: it says nothing about the users.
    every = [row.cells[metric] for row in comparison.models if metric in row.cells]
    cells = [cell for cell in every if cell.users]
    if not cells:
        return
    if all(cell.summary is None for cell in cells):
        yield f"{metric} is one number over all users: it has no interval and no test."
        return
    undefined = max(cell.undefined for cell in cells)
    counted = _range([pair.paired.users for pair in pairs] or [cell.users for cell in cells])
    more = f"; {undefined:,} have no value of {metric}" if undefined else ""
    yield f"Users: {counted} {'compared' if pairs else 'counted'}{more}."


def _power_words(comparison: Comparison, pairs: Sequence[Pair]) -> Iterator[str]:
    found = [pair.paired.detectable for pair in pairs if math.isfinite(pair.paired.detectable)]
    if found:
        low, high = number(min(found)), number(max(found))
        span = low if low == high else f"{low} to {high}, by model"
        yield f"Smallest difference found reliably (in 4 of 5 such bake-offs, one comparison by itself): {span}."


def _fold_words(comparison: Comparison) -> Iterator[str]:
    folds = max((len(row.fold_means) for row in comparison.models), default=0)
    if folds > 1:
        yield (
            f"{folds} folds: each user's scores are averaged before anything is compared. The column: lowest to "
            f"highest mean of a fold."
        )


def _interval(low: float, high: float, *, sign: bool = False) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    if sign:
        return f"{_signed(low)} to {_signed(high)}"
    return f"{number(low)}{' to ' if low < 0 else '–'}{number(high)}"


def _signed(value: float, digits: int = 4) -> str:
    return f"{value:+z.{digits}f}" if math.isfinite(value) else "–"


def _relative(pair: Pair) -> str:
    relative = pair.paired.relative
    return f"{100 * relative:+.{1 if abs(relative) < 0.1 else 0}f} %" if math.isfinite(relative) else ""


def _in_brackets(text: str) -> str:
    return f"({text})" if text else ""


def _p(p: float) -> str:
    return "–" if math.isnan(p) else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _p_words(p: float) -> str:
    return f"p {_p(p)}" if p < 0.0001 else f"p = {_p(p)}"


def _percent(share_: float) -> str:
    return f"{100 * share_:.4g} %"


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
