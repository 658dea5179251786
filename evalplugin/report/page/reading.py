"""What was compared and how, in words, for the page's foot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalplugin.comparison.comparison import Comparison
from evalplugin.data.background import HISTORY
from evalplugin.report.page.data import scored
from evalplugin.report.page.examples import MOST_TRUTH

__all__ = ["footer", "place_text", "reading", "sample_text"]

_METHODS = {
    "bootstrap": "bootstrap over users (bias-corrected and accelerated)",
    "t": "Student's t over users",
}


def place_text(comparison: Comparison) -> str:
    """Return where the models were compared, in one line."""
    contest = comparison.contest
    users = max((len(row.scores.users) for row in scored(comparison) if row.scores), default=0)
    parts = [
        contest.dataset,
        f"split {contest.split}" if contest.split else "",
        f"{len(contest.models)} {'model' if len(contest.models) == 1 else 'models'}",
        f"{users:,} users",
        f"ranked by {contest.primary}",
    ]
    return " · ".join(filter(None, parts))


def reading(comparison: Comparison, examples: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return labelled lines: rules, intervals, tests, and what the users shown one by one were chosen for."""
    return [*_rules(comparison), *_statistics(comparison), *_sample(comparison, examples)]


def footer(comparison: Comparison) -> str:
    """Return what the page was made from, and by what."""
    from evalplugin._version import __version__

    contest = comparison.contest
    return f"{contest.name} · seed {contest.seed} · evalplugin {__version__}"


def sample_text(examples: Mapping[str, Any] | None) -> str:
    """Return which users the page can show one by one; nothing where it shows none."""
    if examples is None:
        return ""
    held, every = len(examples["users"]), examples["of"]
    return (
        f"{held:,} of {every:,} users are on this page: those on whom one model loses most to another by "
        f"{examples['metric']}, from every two models, largest first."
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
    level = f"{100 * comparison.level:g} %"
    means = (cell.method for row in comparison.models for cell in row.cells.values())
    differences = (pair.paired.interval.method for pair in comparison.pairs)
    used = [
        f"of {what} by {' or '.join(_METHODS[m] for m in found)}"
        for what, methods in (("means", means), ("differences", differences))
        if (found := list(dict.fromkeys(filter(None, methods))))
    ]
    if used:
        yield "Intervals", f"{level}: {', '.join(used)}."
    pairs = [p for p in comparison.pairs if p.metric == comparison.contest.primary] or list(comparison.pairs)
    if not pairs:
        return
    made = " or ".join(dict.fromkeys(p.paired.permutations for p in pairs))
    count = sum(p.metric == pairs[0].metric for p in pairs)
    yield (
        "Tests",
        f"Paired permutation test over users ({made}), two-sided. Marks ▲ and ▼ stand where its p-value is at most "
        f"{1 - comparison.level:.2g} after Holm's correction for the {count} comparisons by one metric "
        f"(among groups of users: for all models and groups of one division). BH is Benjamini and Hochberg's.",
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
    folds = max((len(row.fold_means) for row in comparison.models), default=0)
    first = " Lists and truth are of the first fold, values are averaged over folds." if folds > 1 else ""
    yield (
        "User by user",
        f"{sample_text(examples)} Lists are cut at {examples['k']}, the truth at the {MOST_TRUTH} best rated items, "
        f"the history at the {HISTORY} latest.{first}",
    )
