"""Texts of the page: rules, statistics, and the sample of users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalplugin.base.numbers import percent
from evalplugin.base.units import count_text
from evalplugin.comparison.comparison import Comparison
from evalplugin.data.background import HISTORY
from evalplugin.report.page.examples import MAX_TRUTH
from evalplugin.report.words import interval_methods, permutation_test, seed_lines, tuning_lines

__all__ = ["footer", "reading", "sample_text", "subtitle"]


def subtitle(comparison: Comparison) -> str:
    """Return dataset, split, and numbers of models and users, in one line."""
    contest = comparison.contest
    users = max((len(row.scores.users) for row in comparison.models if row.scores), default=0)
    parts = [
        contest.dataset,
        f"split {contest.split}" if contest.split else "",
        count_text(len(contest.models), "model"),
        f"{users:,} users",
        f"ranked by {contest.primary}",
    ]
    return " · ".join(filter(None, parts))


def reading(comparison: Comparison, examples: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return labelled lines: rules, intervals, tests, and the sample of users."""
    tuning = [("Tuning", line) for line in [" ".join(tuning_lines(comparison))] if line]
    tuning += [("Seeds", line) for line in [" ".join(seed_lines(comparison))] if line]
    return [*_rules(comparison), *tuning, *_statistics(comparison), *_sample(comparison, examples)]


def footer(comparison: Comparison) -> str:
    """Return the bake-off, its seed and the version of evalplugin, in one line."""
    from evalplugin._version import __version__

    contest = comparison.contest
    return f"{contest.name} · seed {contest.seed} · evalplugin {__version__}"


def sample_text(examples: Mapping[str, Any] | None) -> str:
    """Return a sentence on the sample of users that the page shows; empty without a sample."""
    if examples is None:
        return ""
    return (
        f"{len(examples['users']):,} of {examples['of']:,} users are on this page: those on whom one model loses most "
        f"to another by {examples['metric']}, from every two models, largest first."
    )


def _rules(comparison: Comparison) -> Iterator[tuple[str, str]]:
    rules = comparison.contest.rules
    relevant = "rated above 0" if rules.threshold is None else f"rated {rules.threshold:g} or higher"
    yield (
        "Rules",
        f"Lists of {rules.n} items, candidates: {rules.candidates}; relevant are held-out items {relevant}. "
        f"Test data {rules.test_digest[:12]}, metrics {rules.metrics_hash[:12]}.",
    )
    yield (
        "Undefined",
        "A user without a relevant held-out item has no value, which is counted and left out of means, not set to 0.",
    )


def _statistics(comparison: Comparison) -> Iterator[tuple[str, str]]:
    if methods := interval_methods(comparison):
        yield "Intervals", f"{percent(comparison.level)}: {methods}."
    pairs = [p for p in comparison.pairs if p.metric == comparison.contest.primary] or list(comparison.pairs)
    if not pairs:
        return
    count = sum(p.metric == pairs[0].metric for p in pairs)
    yield (
        "Tests",
        f"p: {permutation_test(pairs)}, Holm's correction over {count_text(count, 'comparison')} by one metric (among "
        f"groups of users: over all models and groups of one division). ▲ better, ▼ worse: p at most "
        f"{percent(1 - comparison.level)}. BH is Benjamini and Hochberg's correction.",
    )
    yield (
        "Effects",
        "Relative: the difference as a share of the other model's mean. d_z: the mean difference over its standard "
        "deviation between users. Detectable: the smallest true difference that this many users would have shown "
        "4 times out of 5, at one test.",
    )


def _sample(comparison: Comparison, examples: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if examples is None:
        return
    several = comparison.n_folds > 1
    first = " Lists and truth are of the first fold, values are averaged over folds." if several else ""
    yield (
        "User by user",
        f"{sample_text(examples)} Lists are cut at {examples['k']}, the truth at the {MAX_TRUTH} best rated items, "
        f"the history at the {HISTORY} latest.{first}",
    )
