"""Notes on reading the page: rules, undefined values, statistics, and the sample of users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalplugin.comparison.comparison import Comparison
from evalplugin.data.background import HISTORY
from evalplugin.report.competition import AS_LISTED, Rules, competition_of
from evalplugin.report.sentences.statistics import statistics_lines
from evalplugin.report.words import one_by_one

_RULES = (
    "Lists of {n} items, candidates: {candidates}; relevant are held-out items {relevant}. Test data {test}, metrics "
    "{metrics}."
)
_RATED_ABOVE_0 = "rated above 0"
_RATED_AT_LEAST = "rated {threshold:g} or higher"
_UNDEFINED = (
    "A {units.noun} without a relevant held-out item has no value, which is counted and left out of means, not set to "
    "0."
)
_UNDEFINED_SCORE = "A {units.noun} without a score has no value, which is left out of means, not set to 0."
_BH = "BH is Benjamini and Hochberg's correction."
_SAMPLE = "{shown} of {all} {units.nouns}: where one model loses most to another by {metric}."
_CUT = "Lists are cut at {k}, the truth at the {truth} best rated items, the history at the {history} latest."
_FIRST_FOLD = "Lists and truth are of the first fold, values are averaged over folds."


def reading_lines(
    comparison: Comparison, examples: Mapping[str, Any] | None, *, truth: int
) -> Iterator[tuple[str, str]]:
    """Yield labelled lines: rules, statistics, and the sample of users.

    Args:
        comparison: The comparison.
        examples: The sample of users; None: there is none.
        truth: Items of the truth that are shown of each user, at most.
    """
    contest = comparison.contest
    if (competition := competition_of(contest)) is None:
        yield from (("Table", f"{note}.") for note in contest.notes)
        yield "Undefined", _UNDEFINED_SCORE.format(units=contest.units)
    else:
        yield "Rules", _rules(competition.rules)
        yield "Undefined", _UNDEFINED.format(units=contest.units)
    if statistics := list(statistics_lines(comparison, contest.primary)):
        yield "Statistics", " ".join([*statistics, *([_BH] if comparison.pairs else [])])
    if examples is not None and competition is not None:
        cut = _CUT.format(k=examples["k"], truth=truth, history=HISTORY)
        first = [_FIRST_FOLD] if comparison.n_folds > 1 else []
        yield (
            one_by_one(contest.units.noun).capitalize(),
            " ".join([sample_sentence(comparison, examples), cut, *first]),
        )


def sample_sentence(comparison: Comparison, examples: Mapping[str, Any] | None) -> str:
    """Return a sentence on the sample of users or queries that the page shows; empty without a sample."""
    if examples is None:
        return ""
    units = comparison.contest.units
    shown, every = f"{len(examples['users']):,}", f"{examples['of']:,}"
    return _SAMPLE.format(shown=shown, all=every, units=units, metric=examples["metric"])


def _rules(rules: Rules) -> str:
    pool = "" if rules.pool is None else f" (pool {rules.pool[:12]})"
    relevant = (
        _RATED_ABOVE_0 if rules.threshold is None else _RATED_AT_LEAST.format(threshold=rules.threshold)
    )
    return _RULES.format(
        n=rules.n,
        candidates=f"{rules.candidates or AS_LISTED}{pool}",
        relevant=relevant,
        test=rules.test_digest[:12],
        metrics=rules.metrics_hash[:12],
    )
