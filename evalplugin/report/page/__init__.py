"""The comparison page: one HTML file without dependencies, with verdict, leaderboard, charts and users."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from evalplugin._version import __version__
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import jinja2
from evalplugin.base.numbers import percent
from evalplugin.base.text import escape_controls, escape_nested
from evalplugin.base.units import count_text, plural
from evalplugin.comparison.comparison import Comparison
from evalplugin.data.background import HISTORY
from evalplugin.data.queries import Unit
from evalplugin.report.charts.library import chart_library
from evalplugin.report.charts.palette import IN_THE_DARK
from evalplugin.report.charts.theme import DARK, LIGHT, model_variables, theme_css
from evalplugin.report.competition import AS_LISTED, competition_of, findings_on
from evalplugin.report.page.data import colours_of, contest_data
from evalplugin.report.page.examples import MAX_TRUTH
from evalplugin.report.page.hit_rates import hit_rates_note
from evalplugin.report.page.leaderboard import leaderboard
from evalplugin.report.page.overlap import overlap_matrix
from evalplugin.report.sections import Section
from evalplugin.report.verdict import verdict
from evalplugin.report.words import (
    interval_methods,
    one_by_one,
    permutation_test,
    seed_lines,
    tuning_lines,
    whom,
)

__all__ = ["comparison_page"]

_SCRIPTS = ("page.js", "figures.js", "people.js")
# Inside a script element these could end it, open a comment, or, in older engines, break a line of a string.
_INERT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def comparison_page(comparisons: Sequence[Comparison], sections: Sequence[Section] = ()) -> str:
    """Return a deterministic HTML document that shows comparisons, a tab for each, and the sections of features.

    It needs no network, no storage and no other file, and shows ids, names and titles unchanged but for control
    characters, see ``escape_controls``. There is usually one
    comparison for each dataset and split of a bake-off.

    Raises:
        DataError: ``comparisons`` is empty.
    """
    if not comparisons:
        raise DataError("a page needs at least one comparison")
    first = comparisons[0]
    library = chart_library()
    variables = model_variables(colours_of(first))
    colours = {model: f"var(--{variable})" for model, variable in variables.items()}
    across = [
        {"table": s.table, "svg": "" if s.picture is None else _trusted([s.picture(colours)])}
        for s in sections
        if s.table is not None
    ]
    page: str = _template().render(
        title=f"Comparison {first.contest.name}",
        contests=[_contest(comparison, sections) for comparison in comparisons],
        across=across,
        css=_trusted([*_theme(comparisons), _source("page.css")]),
        charts=_json(library.charts),
        library=_trusted([library.script]),
        script=_trusted(_source(name) for name in _SCRIPTS),
        footer=f"{first.contest.name} · seed {first.contest.seed} · evalplugin {__version__}",
    )
    return page


def _contest(comparison: Comparison, sections: Sequence[Section]) -> dict[str, Any]:
    contest, competition = comparison.contest, competition_of(comparison.contest)
    data = contest_data(comparison) | {"trend": None, "card": None}
    added: dict[str, Any] = {"card": None}
    for section in sections:
        values = {} if section.tab is None else dict(section.tab(comparison, data["models"]))
        data |= values.pop("data", {})
        added |= values
    unit, findings = contest.units.noun, [f for section in sections for f in section.findings]
    statements = (s.statement for s in sections if s.statement and s.statement.place == contest.place)
    return {
        "name": " · ".join(filter(None, contest.place)),
        "subtitle": _subtitle(comparison),
        "primary": contest.primary,
        "unit": unit,
        "units": plural(unit),
        "whom": whom(unit),
        "one_by_one": one_by_one(unit),
        "findings": [asdict(finding) | {"url": finding.url} for finding in findings_on(contest, findings)],
        "warnings": () if competition is None else competition.warnings,
        "verdict": verdict(comparison),
        "statement": next(statements, None),
        "leaderboard": leaderboard(comparison, data["models"]),
        "overlap": overlap_matrix(comparison, data["models"]),
        "hit_rates": hit_rates_note(comparison),
        "reading": list(_reading(comparison, data["examples"])),
        "is_table": competition is None,
        "sample": _sample_text(data["examples"], unit),
        "data": data,
        "json": _json(data),
        **added,
    }


def _subtitle(comparison: Comparison) -> str:
    """Return dataset, split, and numbers of models and users, in one line."""
    contest = comparison.contest
    users = max((len(row.scores.users) for row in comparison.models if row.scores), default=0)
    parts = [
        contest.dataset,
        f"split {contest.split}" if contest.split else "",
        count_text(len(contest.models), "model"),
        f"{users:,} {plural(contest.units.noun)}",
        f"ranked by {contest.primary}",
    ]
    return " · ".join(filter(None, parts))


def _reading(comparison: Comparison, examples: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield labelled lines: rules, tuning, seeds, intervals, tests, and the sample of users."""
    yield from _rules(comparison)
    if tuning := tuning_lines(comparison):
        yield "Tuning", " ".join(tuning)
    if seeds := seed_lines(comparison):
        yield "Seeds", " ".join(seeds)
    yield from _statistics(comparison)
    if examples is not None and competition_of(comparison.contest) is not None:
        unit = comparison.contest.units.noun
        several = comparison.n_folds > 1
        first = " Lists and truth are of the first fold, values are averaged over folds." if several else ""
        yield (
            one_by_one(unit).capitalize(),
            f"{_sample_text(examples, unit)} Lists are cut at {examples['k']}, the truth at the {MAX_TRUTH} best rated "
            f"items, the history at the {HISTORY} latest.{first}",
        )


def _sample_text(examples: Mapping[str, Any] | None, unit: Unit) -> str:
    """Return a sentence on the sample of users or queries that the page shows; empty without a sample."""
    if examples is None:
        return ""
    return (
        f"{len(examples['users']):,} of {examples['of']:,} {plural(unit)} are on this page: those on {whom(unit)} one "
        f"model loses most to another by {examples['metric']}, from every two models, largest first."
    )


def _rules(comparison: Comparison) -> Iterator[tuple[str, str]]:
    contest = comparison.contest
    if (competition := competition_of(contest)) is None:
        yield from (("Table", f"{note}.") for note in contest.notes)
        yield (
            "Undefined",
            f"A {contest.units.noun} without a score has no value, which is left out of means, not set to 0.",
        )
        return
    rules = competition.rules
    pool = "" if rules.pool is None else f" (pool {rules.pool[:12]})"
    relevant = "rated above 0" if rules.threshold is None else f"rated {rules.threshold:g} or higher"
    yield (
        "Rules",
        f"Lists of {rules.n} items, candidates: {rules.candidates or AS_LISTED}{pool}; relevant are held-out items "
        f"{relevant}. Test data {rules.test_digest[:12]}, metrics {rules.metrics_hash[:12]}.",
    )
    yield (
        "Undefined",
        f"A {contest.units.noun} without a relevant held-out item has no value, which is counted and left out of "
        f"means, not set to 0.",
    )


def _statistics(comparison: Comparison) -> Iterator[tuple[str, str]]:
    if methods := interval_methods(comparison):
        yield "Intervals", f"{percent(comparison.level)}: {methods}."
    pairs = [p for p in comparison.pairs if p.metric == comparison.contest.primary] or list(comparison.pairs)
    if not pairs:
        return
    units = plural(comparison.contest.units.noun)
    count = sum(p.metric == pairs[0].metric for p in pairs)
    yield (
        "Tests",
        f"p: {permutation_test(pairs)}, Holm's correction over {count_text(count, 'comparison')} by one metric (among "
        f"groups of {units}: over all models and groups of one division). ▲ better, ▼ worse: p at most "
        f"{percent(1 - comparison.level)}. BH is Benjamini and Hochberg's correction.",
    )
    yield (
        "Effects",
        "Relative: the difference as a share of the other model's mean. d_z: the mean difference over its standard "
        f"deviation between {units}. Detectable: the smallest true difference that this many {units} would have shown "
        f"4 times out of 5, at one test.",
    )


def _theme(comparisons: Sequence[Comparison]) -> list[str]:
    css = [theme_css("body", LIGHT, DARK)]
    for number, comparison in enumerate(comparisons):
        colours = colours_of(comparison)
        variables = model_variables(colours)
        light = {variables[model]: colour for model, colour in colours.items()}
        dark = {variable: IN_THE_DARK.get(colour, colour) for variable, colour in light.items()}
        css += [theme_css(f".contest-{number}", light, dark)]
        css += [theme_css(".across", light, dark)] if number == 0 and len(comparisons) > 1 else []
    return css


def _json(value: Any) -> Any:
    text = json.dumps(escape_nested(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _trusted([text.translate(_INERT)])


@cache
def _template() -> Any:
    environment = jinja2.Environment(
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(_source("page.html.j2"))


def _shown(value: Any) -> Any:
    """Return a value of the template with its control characters escaped, unless it is the package's own code."""
    return escape_controls(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _trusted(texts: Iterable[str]) -> Any:
    """Return the package's own code without escaping; all other texts are escaped by the template."""
    from markupsafe import Markup

    return Markup("\n".join(texts))


def _source(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
