"""Ranks over several datasets in a bake-off: sentences, a table, and the critical-difference picture in PNG and SVG."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from evalplugin.base.numbers import number, p_equals, percent
from evalplugin.base.text import cut, escape_html
from evalplugin.base.units import count_text
from evalplugin.comparison.comparison import Comparison
from evalplugin.features.base import Bakeoff, Feature
from evalplugin.features.ranks.ranks import Ranks, ranks_of
from evalplugin.metrics.given import known_metric
from evalplugin.report.charts.palette import model_colours
from evalplugin.report.charts.pictures import can_draw, png_of_svg
from evalplugin.report.charts.theme import LIGHT
from evalplugin.report.sections import Section
from evalplugin.report.table import Table, TableCell, numbers, words
from evalplugin.report.words import heading
from evalplugin.tracking.write.items import Artifact, Item

RANKS = "data/ranks.json"
_FEW = 5  # datasets; fewer prove little, whatever the tests say
_LABEL = 26  # characters
_WIDTH, _SIDE, _ROW, _BAR, _TITLE = 700.0, 220.0, 21.0, 9.0, 26.0  # points of the picture; _SIDE: for names


class RanksFeature(Feature):
    """Shows and logs the average ranks of the models over the datasets; there are none with one dataset."""

    def items(self, bakeoff: Bakeoff) -> Iterator[Item]:
        """Yield the ranks, as a picture and for programs."""
        if by_split := ranks_of(bakeoff.comparisons):
            if can_draw() and (drawn := [ranks for ranks in by_split if len(ranks.models) > 1]):
                yield Artifact(
                    "ranks.png", rank_png(drawn, model_colours(bakeoff.plan.models, bakeoff.plan.baseline))
                )
            yield Artifact(
                RANKS, json.dumps([asdict(ranks) for ranks in by_split], indent=1, ensure_ascii=False)
            )

    def sections(self, bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Section]:
        """Yield a table with its picture for each split of several datasets."""
        return rank_sections(comparisons)


def rank_sections(comparisons: Sequence[Comparison]) -> Iterator[Section]:
    """Yield the ranks over several datasets, as a table with its picture; none with one dataset."""
    for ranks in ranks_of(comparisons):
        picture = partial(rank_svg, ranks) if len(ranks.models) > 1 else None
        yield Section(table=ranks_table(ranks), picture=picture)


def ranks_headline(ranks: Ranks) -> str:
    """Return a sentence on the model with the best average rank and those that it is shown to differ from."""
    n = count_text(len(ranks.datasets), "dataset")
    if len(ranks.models) < 2:
        return f"Nothing is ranked over {n}: fewer than two models have a value of {ranks.metric} on each."
    if len({row.mean for row in ranks.models}) == 1:
        return f"The {len(ranks.models)} models have the same average rank over {n}."
    best = ranks.models[0]
    tied = [row.model for row in ranks.models if row.mean == best.mean]
    names = " and ".join([", ".join(tied[:-1]), tied[-1]] if len(tied) > 1 else tied)
    leads = f"{names} {'share' if len(tied) > 1 else 'has'} the best average rank, {number(best.mean, 2)}, over {n}"
    beaten = [pair.against for pair in ranks.pairs if pair.model == best.model and pair.differ]
    if not any(pair.differ for pair in ranks.pairs):
        return f"{leads}; no two models are shown to differ."
    if len(beaten) == len(ranks.models) - 1:
        return f"{leads}; it is shown to differ from each of the others ({percent(ranks.level)} confidence)."
    shown = f"it is shown to differ from {', '.join(beaten)}" if beaten else "only others are shown to differ"
    return f"{leads}; {shown} ({percent(ranks.level)} confidence)."


def ranks_lines(ranks: Ranks) -> Iterator[str]:
    """Yield sentences on the strength of the evidence, the tests, and the models and datasets left out."""
    datasets, models = len(ranks.datasets), count_text(len(ranks.models), "model")
    if ranks.pairs and datasets < max(_FEW, ranks.needed):
        why = "what holds on so few need not hold on the next."
        if datasets < ranks.needed:
            why = (
                f"even a model that is ahead on all of them could not be shown to differ; with {models} that takes at "
                f"least {ranks.needed} datasets."
            )
        yield f"{count_text(datasets, 'dataset')} prove little: {why}"
    if ranks.friedman is not None:
        yield (
            f"Whether any model differs: Friedman's test, {p_equals(ranks.friedman.p)} (permutations within the "
            f"datasets)."
        )
    elif ranks.pairs:
        yield "Friedman's test needs three models; these two are compared by Wilcoxon's alone."
    if ranks.pairs:
        lowest = min(ranks.pairs, key=lambda pair: pair.p_holm)
        which = f"; the lowest {p_equals(lowest.p_holm, 'Holm')}, {lowest.model} and {lowest.against}"
        nearest = which if lowest.p_holm < 1 else ""
        yield (
            f"Pairs: Wilcoxon's signed-rank test of the means on the {datasets} datasets, exact, two-sided, "
            f"Holm's correction over {count_text(len(ranks.pairs), 'pair')}{nearest}. A line joins models of which no "
            f"two are shown to differ."
        )
        yield "Ranks only: a mean over datasets would add up different scales."
    for model, without in ranks.left_out.items():
        yield f"{model} is left out: it has no value of {ranks.metric}, or too few, on {', '.join(without)}."
    for dataset, first in ranks.same_data.items():
        yield f"{dataset} does not count: its test data are those of {first}."


def _heading(metric: str) -> str:
    known = known_metric(metric)
    return metric if known is None else heading(known)


def ranks_table(ranks: Ranks) -> Table:
    """Return the average rank of each model and its rank on each dataset, with headline and lines."""
    where = f" ({ranks.split})" if ranks.split else ""
    return Table(
        f"Ranks over {count_text(len(ranks.datasets), 'dataset')}{where} by {_heading(ranks.metric)}",
        (*words("model"), *numbers("average rank", *ranks.datasets)),
        tuple(
            (
                TableCell(row.model),
                TableCell(number(row.mean, 2)),
                *(TableCell(f"{rank:g}") for rank in row.ranks),
            )
            for row in ranks.models
        ),
        ranks_headline(ranks),
        tuple(ranks_lines(ranks)),
    )


def rank_png(ranks: Sequence[Ranks], colours: Mapping[str, str]) -> bytes:
    """Return the critical-difference picture of each split, one below the other, as PNG; ``colours``: of each model."""
    top, parts = 0.0, []
    for of_split in ranks:
        drawing, height = _drawing(of_split, colours)
        title = _text(ranks_table(of_split).title, 12, 12 - _TITLE, "start")
        parts.append(f'<g transform="translate(0 {top + _TITLE:g})">{title}{drawing}</g>')
        top += _TITLE + height
    return png_of_svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:g}" height="{top:g}" font-family="sans-serif" '
        f'font-size="12" color="{LIGHT["ink"]}" fill="{LIGHT["ink"]}"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(parts)}</svg>"
    )


def rank_svg(ranks: Ranks, colours: Mapping[str, str]) -> str:
    """Return the critical-difference picture as SVG for the page; ``colours``: a colour of CSS for each model."""
    drawing, height = _drawing(ranks, colours)
    return (
        f'<svg class="ranks" viewBox="0 0 {_WIDTH:g} {height:g}" role="img" '
        f'aria-label="{escape_html(ranks_headline(ranks))}">{drawing}</svg>'
    )


def _drawing(ranks: Ranks, colours: Mapping[str, str]) -> tuple[str, float]:
    """Return the elements of the picture and its height: an axis of average ranks, the models below it.

    Bars join models that are not told apart.
    Source: Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006.
    """
    m = len(ranks.models)
    top = 44.0

    def at(rank: float) -> float:
        return _SIDE + (rank - 1) / max(m - 1, 1) * (_WIDTH - 2 * _SIDE)

    step = max(1, math.ceil(m / 12))
    parts = [
        _line([(at(1), top), (at(m), top)], 1.2),
        _text("average rank", _WIDTH / 2, 12, "middle", quiet=True),
    ]
    for rank in range(1, m + 1):
        parts.append(_line([(at(rank), top - 5), (at(rank), top)], 1.2))
        if (rank - 1) % step == 0:
            parts.append(_text(str(rank), at(rank), top - 14, "middle", quiet=True))
    below = top + _BAR * (len(ranks.cliques) + 1)
    left = (m + 1) // 2
    for position, row in enumerate(ranks.models):
        is_left = position < left
        y = below + _ROW * (0.6 + (position if is_left else m - 1 - position))
        x = at(row.mean)
        end = _SIDE - 12 if is_left else _WIDTH - _SIDE + 12
        parts.append(_line([(x, top), (x, y), (end, y)], 1.6, colours.get(row.model, "currentColor")))
        label = f"{cut(row.model, _LABEL)}  {number(row.mean, 2)}"
        parts.append(_text(label, end + (-6 if is_left else 6), y, "end" if is_left else "start"))
    # Last, so that they lie above the lines of models.
    mean = {row.model: row.mean for row in ranks.models}
    for level, clique in enumerate(ranks.cliques, 1):
        y = top + _BAR * level
        low, high = (at(mean[clique[end]]) for end in (0, -1))
        parts.append(_line([(low - 4, y), (high + 4, y)], 4.0))
    return "".join(parts), below + _ROW * (left + 0.3)


def _line(points: Sequence[tuple[float, float]], width: float, colour: str = "currentColor") -> str:
    return (
        f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" stroke-linecap="round" '
        f'stroke-linejoin="round" stroke-width="{width:g}" style="stroke:{colour}"/>'
    )


def _text(text: str, x: float, y: float, side: str, *, quiet: bool = False) -> str:
    """Return a text of which x is the start, middle or end, and y the middle."""
    style = f' class="quiet" fill="{LIGHT["quiet"]}"' if quiet else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{side}" dominant-baseline="central"{style}>'
        f"{escape_html(text)}</text>"
    )


FEATURE = RanksFeature
