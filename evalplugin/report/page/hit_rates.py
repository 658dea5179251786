"""The page's hit rates by popularity of items: what they are."""

from __future__ import annotations

from evalplugin.base.units import count_text, plural
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.competition import competition_of
from evalplugin.report.hit_rates import hit_rates


def hit_rates_note(comparison: Comparison) -> str:
    """Return sentences on the groups of items and on the models without counts; empty without hit rates."""
    contest, rates = competition_of(comparison.contest), hit_rates(comparison)
    if contest is None or rates is None:
        return ""
    groups = count_text(len(rates.labels), "group")
    parts = [
        f"The share of the relevant held-out items that is in the {plural(contest.units.noun)}' lists, which have "
        f"{contest.rules.n} items at most. Items are in {groups} of about as many each, by their interactions in the "
        f"train data: the line of a model that only finds what is popular starts low and ends high."
    ]
    if comparison.n_seeds > 1:
        parts.append("Lists are of the first seed.")
    if missing := [row.model for row in comparison.scored if row.model not in rates.hits]:
        parts.append(f"Without counts of items: {', '.join(missing)}.")
    return " ".join(parts)
