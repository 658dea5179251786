"""The lists of models: how much two of them have in common, and the popularity of the items that they find."""

from __future__ import annotations

from collections.abc import Iterator

from evalplugin.base.numbers import number
from evalplugin.base.units import count_text
from evalplugin.comparison.compared import Pair
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.competition import competition_of
from evalplugin.report.hit_rates import hit_rates
from evalplugin.report.overlap import PERSISTENCE, Overlap, overlaps

_NO_OVERLAP = "Fewer than two models have lists here, so that there is no overlap."
_ONE_OVERLAP = "Overlap of {pair}."
_MOST = "{pair} list most alike."
_MOST_DIFFER = "{pair} list most alike, and are shown to differ by {metric}."
_LEAST = "{pair} list least alike."
_LEAST_SAME = "{pair} list least alike, and are not shown to differ by {metric}."
_MOST_OF_DIFFERENT = "Of the pairs shown to differ by {metric}, {pair} list most alike."
_LEAST_OF_SAME = "Of the pairs not shown to differ by {metric}, {pair} list least alike."
_OVER = "Mean over the first {k} places of {lists} lists of {units.nouns}."
_OVER_DRAWN = (
    "Mean over the first {k} places of {lists} lists of {units.nouns}, evenly drawn from {drawn_from}."
)
_MEASURES = (
    f"rbo: the share in common at each depth, the top weighing most (p = {PERSISTENCE:g}); jaccard: the share of the "
    "items of either list that both have. 1 is the same, 0 nothing in common."
)
_WITHOUT_LISTS = "Without lists: {models}."

_HIT_RATES = (
    "The share of the relevant held-out items that is in the {units.nouns}' lists, which have {n} items at most. Items "
    "are in {groups} of about as many each, by their interactions in the train data: the line of a model that only "
    "finds what is popular starts low and ends high."
)
_FIRST_SEED = "Lists are of the first seed."
_WITHOUT_COUNTS = "Without counts of items: {models}."


def overlap_sentence(comparison: Comparison) -> str:
    """Return sentences on the models that list most alike, and on those whose means say otherwise."""
    pairs = overlaps(comparison)
    if not pairs:
        return _NO_OVERLAP
    if len(pairs) == 1:
        return _ONE_OVERLAP.format(pair=_named(pairs[0]))
    most, least = (of(pairs, key=lambda pair: pair.rbo) for of in (max, min))
    differences = primary_differences(comparison)
    tested = [(pair, differences.get(frozenset((pair.model, pair.against)))) for pair in pairs]
    differing = [pair for pair, difference in tested if difference is not None and difference.mark]
    untold = [pair for pair, difference in tested if difference is not None and not difference.mark]
    alike = max(differing, key=lambda pair: pair.rbo, default=None)
    apart = min(untold, key=lambda pair: pair.rbo, default=None)
    sentences = [
        (_MOST_DIFFER if alike is most else _MOST, most),
        (_LEAST_SAME if apart is least else _LEAST, least),
    ]
    if alike is not None and alike is not most:
        sentences.append((_MOST_OF_DIFFERENT, alike))
    if apart is not None and apart is not least:
        sentences.append((_LEAST_OF_SAME, apart))
    metric = comparison.contest.primary
    return " ".join(template.format(pair=_named(pair), metric=metric) for template, pair in sentences)


def overlap_line(comparison: Comparison) -> str:
    """Return which two models list most alike, in one sentence."""
    pairs = overlaps(comparison)
    if len(pairs) < 2:
        return overlap_sentence(comparison)
    return _MOST.format(pair=_named(max(pairs, key=lambda pair: pair.rbo)))


def overlap_lines(comparison: Comparison) -> Iterator[str]:
    """Yield lines on the lists that were compared and on the models without any."""
    if not (pairs := overlaps(comparison)):
        return
    drawn_from = pairs[0].drawn_from
    over = (_OVER if drawn_from is None else _OVER_DRAWN).format(
        k=pairs[0].k,
        lists=f"{max(pair.lists for pair in pairs):,}",
        units=comparison.contest.units,
        drawn_from=f"{drawn_from or 0:,}",
    )
    yield f"{over} {_MEASURES}"
    having = {name for pair in pairs for name in (pair.model, pair.against)}
    if missing := [row.model for row in comparison.scored if row.model not in having]:
        yield _WITHOUT_LISTS.format(models=", ".join(missing))


def hit_rates_sentences(comparison: Comparison) -> str:
    """Return sentences on the groups of items and on the models without counts; empty without hit rates."""
    if (rates := hit_rates(comparison)) is None:
        return ""
    contest = comparison.contest
    competition = competition_of(contest)
    assert competition is not None  # a table of scores has no items
    groups = count_text(len(rates.labels), "group")
    sentences = [_HIT_RATES.format(units=contest.units, n=competition.rules.n, groups=groups)]
    if comparison.n_seeds > 1:
        sentences.append(_FIRST_SEED)
    if missing := [row.model for row in comparison.scored if row.model not in rates.hits]:
        sentences.append(_WITHOUT_COUNTS.format(models=", ".join(missing)))
    return " ".join(sentences)


def primary_differences(comparison: Comparison) -> dict[frozenset[str], Pair]:
    """Return the differences by the primary metric, by the two models."""
    primary = comparison.contest.primary
    return {frozenset((p.model, p.against)): p for p in comparison.every_pair if p.metric == primary}


def _named(pair: Overlap) -> str:
    return f"{pair.model} and {pair.against} (rbo {number(pair.rbo, 2)})"
