"""The comparison page: one HTML file without dependencies, with verdict, leaderboard, charts and users."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from evalplugin.base.errors import DataError
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.gate import Decision
from evalplugin.comparison.ranks import Ranks, ranks_of
from evalplugin.comparison.trends import PastBakeoff
from evalplugin.data.drift import DescribedData
from evalplugin.execution.results import DataSplit
from evalplugin.report.decision import error_line, headline_of, outcome_words
from evalplugin.report.page.data import colours_of, contest_data, data_section
from evalplugin.report.page.leaderboard import leaderboard
from evalplugin.report.page.library import chart_library
from evalplugin.report.page.reading import footer, reading, sample_text, subtitle
from evalplugin.report.page.theme import DARK, LIGHT, for_dark, model_variables, theme_css
from evalplugin.report.page.trend import trend
from evalplugin.report.ranks import rank_svg, ranks_table
from evalplugin.report.verdict import verdict

__all__ = ["comparison_page"]

_SCRIPTS = ("page.js", "figures.js", "trend.js", "card.js", "people.js")
# Inside a script element these could end it, open a comment, or, in older engines, break a line of a string.
_INERT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def comparison_page(
    comparisons: Sequence[Comparison],
    *,
    decision: Decision | None = None,
    past: Sequence[PastBakeoff] = (),
    data: DescribedData | None = None,
) -> str:
    """Return a deterministic HTML document that shows comparisons, a tab for each.

    It needs no network, no storage and no other file, and shows ids, names and titles unchanged.

    Args:
        comparisons: Usually one for each dataset and split of a bake-off.
        decision: Of the gate, if it has decided.
        past: Bake-offs of the experiment, this one included; from two on, the page has a trend.
        data: Cards of the datasets.

    Raises:
        DataError: ``comparisons`` is empty.
    """
    if not comparisons:
        raise DataError("a page needs at least one comparison")
    library = chart_library()
    shown = [_contest(comparison, decision, past, data) for comparison in comparisons]
    page: str = _template().render(
        title=f"Comparison {comparisons[0].contest.name}",
        contests=shown,
        across=[_across(ranks, comparisons[0]) for ranks in ranks_of(comparisons)],
        css=_trusted([*_theme(comparisons), _source("page.css")]),
        charts=_json(library.charts),
        library=_trusted([library.script]),
        script=_trusted(_source(name) for name in _SCRIPTS),
        footer=footer(comparisons[0]),
    )
    return page


def _contest(
    comparison: Comparison,
    decision: Decision | None,
    past: Sequence[PastBakeoff],
    described: DescribedData | None,
) -> dict[str, Any]:
    contest = comparison.contest
    data = contest_data(comparison)
    names = DataSplit.of(contest)
    is_decided = decision is not None and DataSplit.of(decision) == names
    data["trend"] = trend(comparison, past, data["models"])
    card, data["card"] = data_section(described, *names)
    return {
        "name": " · ".join(filter(None, names)),
        "subtitle": subtitle(comparison),
        "primary": contest.primary,
        "findings": [asdict(finding) | {"url": finding.url} for finding in contest.findings],
        "warnings": contest.warnings,
        "verdict": verdict(comparison),
        "card": card,
        "decision": _decision(decision) if decision and is_decided else None,
        "leaderboard": leaderboard(comparison, data["models"]),
        "reading": reading(comparison, data["examples"]),
        "sample": sample_text(data["examples"]),
        "data": data,
        "json": _json(data),
    }


def _across(ranks: Ranks, comparison: Comparison) -> dict[str, Any]:
    """Return the ranks over several datasets; colours are those of ``comparison``."""
    variables = model_variables(colours_of(comparison))
    colours = {model: f"var(--{variable})" for model, variable in variables.items()}
    return {
        "table": ranks_table(ranks),
        "svg": _trusted([rank_svg(ranks, colours)]) if len(ranks.models) > 1 else "",
    }


def _decision(decision: Decision) -> dict[str, str]:
    status = {"promote": "better", "refuse": "worse"}.get(decision.outcome, "keep")
    return {
        "status": status,
        "label": f"Gate: {outcome_words(decision.outcome)}",
        "headline": headline_of(decision),
        "reason": decision.reason,
        "error": f"{error_line(decision)}.",
    }


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
