"""The comparison page: one HTML file without dependencies, with verdict, leaderboard, charts and users."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from evalplugin.base.errors import DataError
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import DataSplit
from evalplugin.report.page.data import colours_of, contest_data
from evalplugin.report.page.leaderboard import leaderboard
from evalplugin.report.page.library import chart_library
from evalplugin.report.page.reading import footer, reading, sample_text, subtitle
from evalplugin.report.page.theme import DARK, LIGHT, for_dark, model_variables, theme_css
from evalplugin.report.sections import Section
from evalplugin.report.verdict import verdict

__all__ = ["comparison_page"]

_SCRIPTS = ("page.js", "figures.js", "trend.js", "card.js", "people.js")
# Inside a script element these could end it, open a comment, or, in older engines, break a line of a string.
_INERT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def comparison_page(comparisons: Sequence[Comparison], sections: Sequence[Section] = ()) -> str:
    """Return a deterministic HTML document that shows comparisons, a tab for each, and what features add to them.

    It needs no network, no storage and no other file, and shows ids, names and titles unchanged. There is usually one
    comparison for each dataset and split of a bake-off.

    Raises:
        DataError: ``comparisons`` is empty.
    """
    if not comparisons:
        raise DataError("a page needs at least one comparison")
    library = chart_library()
    variables = model_variables(colours_of(comparisons[0]))
    colours = {model: f"var(--{variable})" for model, variable in variables.items()}
    page: str = _template().render(
        title=f"Comparison {comparisons[0].contest.name}",
        contests=[_contest(comparison, sections) for comparison in comparisons],
        across=[_across(section, colours) for section in sections if section.table is not None],
        css=_trusted([*_theme(comparisons), _source("page.css")]),
        charts=_json(library.charts),
        library=_trusted([library.script]),
        script=_trusted(_source(name) for name in _SCRIPTS),
        footer=footer(comparisons[0]),
    )
    return page


def _contest(comparison: Comparison, sections: Sequence[Section]) -> dict[str, Any]:
    contest = comparison.contest
    place = DataSplit.of(contest)
    data = contest_data(comparison) | {"trend": None, "card": None}
    added: dict[str, Any] = {"card": None}
    for section in sections:
        values = dict(section.tab(comparison, data["models"]))
        data |= values.pop("data", {})
        added |= values
    statements = (section.statement for section in sections)
    return {
        "name": " · ".join(filter(None, place)),
        "subtitle": subtitle(comparison),
        "primary": contest.primary,
        "findings": [asdict(finding) | {"url": finding.url} for finding in contest.findings],
        "warnings": contest.warnings,
        "verdict": verdict(comparison),
        "statement": next((one for one in statements if one is not None and one.place == place), None),
        "leaderboard": leaderboard(comparison, data["models"]),
        "reading": reading(comparison, data["examples"]),
        "sample": sample_text(data["examples"]),
        "data": data,
        "json": _json(data),
        **added,
    }


def _across(section: Section, colours: Mapping[str, str]) -> dict[str, Any]:
    picture = "" if section.picture is None else _trusted([section.picture(colours)])
    return {"table": section.table, "svg": picture}


def _theme(comparisons: Sequence[Comparison]) -> list[str]:
    css = [theme_css("body", LIGHT, DARK)]
    for number, comparison in enumerate(comparisons):
        colours = colours_of(comparison)
        variables = model_variables(colours)
        light = {variables[model]: colour for model, colour in colours.items()}
        dark = {variable: for_dark(colour) for variable, colour in light.items()}
        css += [theme_css(f".contest-{number}", light, dark)]
        css += [theme_css(".across", light, dark)] if number == 0 and len(comparisons) > 1 else []
    return css


def _json(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _trusted([text.translate(_INERT)])


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_source("page.html.j2"))


def _trusted(texts: Iterable[str]) -> Any:
    """Return the package's own code without escaping; all other texts are escaped by the template."""
    from markupsafe import Markup

    return Markup("\n".join(texts))


def _source(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
