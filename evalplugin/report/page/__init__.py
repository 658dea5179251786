"""The comparison page: one HTML file without dependencies, with verdict, leaderboard, charts and users."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from importlib.resources import files
from typing import Any

from evalplugin._version import __version__
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import jinja2
from evalplugin.base.text import escape_controls, escape_nested
from evalplugin.base.units import count_text
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.charts.library import chart_library
from evalplugin.report.charts.palette import IN_THE_DARK
from evalplugin.report.charts.theme import DARK, LIGHT, model_variables, theme_css
from evalplugin.report.competition import competition_of, facts_of, findings_on
from evalplugin.report.leaderboard import leaderboard, spreads
from evalplugin.report.page.data import colours_of, contest_data
from evalplugin.report.page.examples import MAX_TRUTH
from evalplugin.report.sections import Section
from evalplugin.report.sentences.fits import costs_line
from evalplugin.report.sentences.groups import groups_line
from evalplugin.report.sentences.lists import hit_rates_sentences, overlap_line
from evalplugin.report.sentences.reading import reading_lines, sample_sentence
from evalplugin.report.sentences.verdict import verdict
from evalplugin.report.table import Column, Table, TableCell
from evalplugin.report.tables import group_statistics_table, overlap_table

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
        title=_title(comparisons),
        contests=[_contest(comparison, sections) for comparison in comparisons],
        across=across,
        css=_trusted([*_theme(comparisons), _source("page.css")]),
        charts=_json(library.charts),
        library=_trusted([library.script]),
        script=_trusted(_source(name) for name in _SCRIPTS),
        footer=f"{first.contest.name} · seed {first.contest.seed} · evalplugin {__version__}",
    )
    return page


def _title(comparisons: Sequence[Comparison]) -> str:
    """Return the experiment, and dataset and split if there is one of each; without any the name of the bake-off."""
    contest = comparisons[0].contest
    competition = competition_of(contest)
    experiment = "" if competition is None else competition.experiment
    place = str(contest.place) if len(comparisons) == 1 else ""
    return ": ".join(filter(None, (experiment, place))) or contest.name


def _contest(comparison: Comparison, sections: Sequence[Section]) -> dict[str, Any]:
    contest, competition = comparison.contest, competition_of(comparison.contest)
    data = contest_data(comparison) | {"trend": None, "card": None}
    added: dict[str, Any] = {"card": None}
    for section in sections:
        values = {} if section.tab is None else dict(section.tab(comparison, data["models"]))
        data |= values.pop("data", {})
        added |= values
    findings = [finding for section in sections for finding in section.findings]
    statements = (s.statement for s in sections if s.statement and s.statement.place == contest.place)
    return {
        "name": " · ".join(filter(None, contest.place)),
        "subtitle": _subtitle(comparison),
        "primary": contest.primary,
        "findings": [asdict(finding) | {"url": finding.url} for finding in findings_on(contest, findings)],
        "warnings": () if competition is None else competition.warnings,
        "verdict": verdict(comparison),
        "statement": next(statements, None),
        "leaderboard": leaderboard(comparison),
        "labels": _labels(comparison, data["models"]),
        "swatches": {model["name"]: {"model": model, "tags": (), "type": ""} for model in data["models"]},
        "spreads": list(spreads(comparison)),
        "group_statistics": {metric: _group_statistics(comparison, metric) for metric in contest.metrics},
        "overlap": overlap_table(comparison),
        "hit_rates": hit_rates_sentences(comparison),
        "lines": {
            "groups": groups_line(comparison),
            "costs": costs_line(comparison),
            "overlap": overlap_line(comparison),
        },
        "reading": list(reading_lines(comparison, data["examples"], truth=MAX_TRUTH)),
        "sample": sample_sentence(comparison, data["examples"]),
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
        f"{users:,} {contest.units.nouns}",
        f"ranked by {contest.primary}",
    ]
    return " · ".join(filter(None, parts))


def _group_statistics(comparison: Comparison, metric: str) -> list[Table]:
    """Return the gap and the worst group of each segmentation that has groups large enough."""
    segments = comparison.contest.segments
    tables = [group_statistics_table(comparison, metric, segment.name) for segment in segments]
    return [table for table in tables if table.rows]


def _labels(comparison: Comparison, models: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the labels beside each model's name in the leaderboard: its swatch, tags with their titles, its type."""
    best = "the best" if len(comparison.may_be_best) == 1 else "may be best"
    labels = {}
    for row, model in zip(comparison.scored, models, strict=True):
        tags = [(best, "")] if row.model in comparison.may_be_best else []
        facts = facts_of(comparison.contest, row.model)
        tags += [] if facts.tuned is None else [("tuned", facts.tuned.budget)]
        labels[row.model] = {
            "model": model,
            "tags": tags,
            "type": "" if facts.type == row.model else facts.type,
        }
    return labels


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
    # A line may break after a bracket, an equals sign or a comma of a metric's name.
    environment.filters["parts"] = partial(re.findall, r"[^(=,]+[(=,]*\s*")
    environment.filters["sortable"] = _sortable
    return environment.from_string(_source("page.html.j2"))


def _sortable(cell: TableCell, column: Column) -> str:
    """Return the key by which scripts sort a cell; empty for an undefined number, which stays last."""
    if not column.is_number and math.isnan(cell.value):
        return cell.text
    return repr(cell.value) if math.isfinite(cell.value) else ""


def _shown(value: Any) -> Any:
    """Return a value of the template with its control characters escaped, unless it is the package's own code."""
    return escape_controls(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _trusted(texts: Iterable[str]) -> Any:
    """Return the package's own code without escaping; all other texts are escaped by the template."""
    from markupsafe import Markup

    return Markup("\n".join(texts))


def _source(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
