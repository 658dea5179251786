"""Markdown about one model and about a whole bake-off."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from evalplugin.base.secrets import redact_values
from evalplugin.base.seeding import generator
from evalplugin.comparison.compared import Cell, ComparedModel
from evalplugin.comparison.comparison import LEVEL, Comparison
from evalplugin.comparison.statistics import mean_interval
from evalplugin.data import Interactions
from evalplugin.execution.results import Bakeoff, DataInfo, ModelResult

__all__ = [
    "escape",
    "interval_text",
    "leaderboard_markdown",
    "note_markdown",
    "number",
    "share",
    "summary_markdown",
]

_MARKS = {"+": "▲", "-": "▼", "": ""}
_NONE = "–"


def escape(text: object) -> str:
    """Return text that Markdown and HTML show as it is, on one line."""
    plain = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", plain)


def number(value: float, digits: int = 4) -> str:
    """Return a number with that many decimals, or a dash where it is undefined."""
    return f"{value:z.{digits}f}" if math.isfinite(value) else _NONE  # z: no minus before a zero


def interval_text(low: float, high: float) -> str:
    """Return ``[low, high]`` that no line break parts, or nothing where there is no interval."""
    return (
        f"[{number(low)},\N{NO-BREAK SPACE}{number(high)}]"
        if math.isfinite(low) and math.isfinite(high)
        else ""
    )


def share(value: float) -> str:
    """Return a share as percent; what is neither none nor all is never shown as 0 % or 100 %."""
    if not math.isfinite(value):
        return _NONE
    percent = 100 * value
    if 0 < percent < 1:
        return "< 1 %"
    return "> 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def note_markdown(bakeoff: Bakeoff, result: ModelResult, cells: Mapping[str, Cell]) -> str:
    """Return the short description of a model's run: what it is, and its means."""
    lines = [f"**{escape(result.model)}** ({escape(result.type)}) on {_data_name(result.data)}", ""]
    if result.error is not None:
        return "\n".join([*lines, f"FAILED: {escape(result.failure)}", "", "See `traceback.txt`."])
    lines += _table(
        ["metric", "mean", f"{LEVEL:.0%} interval"],
        [[escape(c.metric), number(c.mean), interval_text(c.low, c.high)] for c in cells.values()],
    )
    return "\n".join([*lines, "", f"Bake-off {escape(bakeoff.id)}. Everything: `summary.md`."])


def summary_markdown(
    bakeoff: Bakeoff, result: ModelResult, cells: Mapping[str, Cell], *, notes: Sequence[str] = ()
) -> str:
    """Return a run's summary: what was run on what, every headline metric, the costs, the decisions taken.

    ``notes`` are further decisions, such as which users a sample holds.
    """
    info = result.data
    lines = [f"# {escape(result.model)}", ""]
    lines += [f"{escape(result.type)} on {_data_name(info)}, in bake-off {escape(bakeoff.id)}", ""]
    if result.error is not None:
        lines += [
            "**This model failed:** " + escape(result.failure),
            "",
            "See `traceback.txt`.",
            "",
        ]
    if cells:
        lines += ["## Metrics", ""]
        lines += _table(
            [
                "metric",
                "mean",
                f"{LEVEL:.0%} interval",
                "std",
                "p10",
                "median",
                "p90",
                "users at 0",
                "users",
                "undefined",
            ],
            [_metric_row(cell) for cell in cells.values()],
        )
        methods = ", ".join(sorted({cell.method for cell in cells.values() if cell.method}))
        lines += [
            "",
            "Means are over the users for whom a metric is defined; undefined users are counted, not set to 0. "
            f"Intervals ({escape(methods) or 'none'}) are of the mean over users.",
            "",
        ]
    lines += _for_whom(bakeoff, result)
    if result.costs is not None:
        costs = result.costs
        lines += ["## Costs", ""]
        lines += _table(
            ["start", "fit", "recommend", "score", "peak memory"],
            [
                [
                    f"{number(costs.start_seconds, 2)} s",
                    f"{number(costs.fit_seconds, 2)} s",
                    f"{number(costs.recommend_seconds, 2)} s",
                    f"{number(costs.score_seconds, 2)} s",
                    f"{number(costs.peak_memory_mb, 0)} MB",
                ]
            ],
        )
        lines.append("")
    lines += ["## Model", "", *_list({"type": result.type, **redact_values(result.params)}), ""]
    lines += ["## Data", "", *_data_lines(info), ""]
    lines += ["## Evaluation", ""]
    lines += _list(
        {
            "list length": bakeoff.n,
            "candidates": bakeoff.candidates,
            "relevant": "every held-out item with a positive rating"
            if bakeoff.threshold is None
            else f"rating >= {bakeoff.threshold:g}",
            "seed": bakeoff.seed,
            "config": bakeoff.config_name,
        }
    )
    if said := [*info.notes, *notes]:
        lines += ["", "## Decisions", "", *(f"- {escape(note)}" for note in said)]
    return "\n".join(lines) + "\n"


def _for_whom(bakeoff: Bakeoff, result: ModelResult) -> list[str]:
    """Return the section on groups of users: the primary metric's mean in each; nothing without groups."""
    rows = []
    for segment, groups in result.by_group(bakeoff.primary).items():
        for label, values in groups.items():
            rng = generator(bakeoff.seed, "segment", segment, label)
            interval = mean_interval(values, level=LEVEL, rng=rng)
            bounds = interval_text(interval.low, interval.high) or _NONE
            rows.append([escape(segment), escape(label), f"{interval.n:,}", number(interval.mean), bounds])
    if not rows:
        return []
    lines = ["## For whom", "", f"{escape(bakeoff.primary)} by group of users:", ""]
    return [*lines, *_table(["segment", "group", "users", "mean", f"{LEVEL:.0%} interval"], rows), ""]


def leaderboard_markdown(bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> str:
    """Return the table of all models, best first, for each dataset and split; then what failed."""
    lines = [f"# Bake-off {escape(bakeoff.id)}", ""]
    lines += [
        f"{escape(bakeoff.config_name)}: ranked by {escape(bakeoff.primary)}, "
        f"means over users with {LEVEL:.0%} intervals.",
        "",
    ]
    for comparison in comparisons:
        contest = comparison.contest
        done = [row for row in comparison.models if row.error is None]
        lines += [f"## {escape(', '.join(filter(None, (contest.dataset, contest.split))))}", ""]
        if done:
            heads = [
                "",
                "model",
                *(escape(m) for m in contest.metrics),
                "users",
                "undefined",
                "fit",
                "recommend",
            ]
            lines += [*_table(heads, [_leaderboard_row(row, contest.metrics) for row in done]), ""]
        if failed := [row for row in comparison.models if row.error is not None]:
            lines += [
                "Failed:",
                "",
                *(f"- **{escape(row.model)}**: {escape(row.error)}" for row in failed),
                "",
            ]
    if any(comparison.pairs for comparison in comparisons):
        lines.append(
            f"▲ better, ▼ worse than the baseline {escape(bakeoff.baseline)}: paired permutation test over the same "
            f"users, Holm's correction over the models, at {1 - LEVEL:.0%}."
        )
    lines += ["", "Users and undefined are those of the metric that ranks."]
    return "\n".join(lines) + "\n"


def _leaderboard_row(row: ComparedModel, metrics: Sequence[str]) -> list[str]:
    cells = [row.cells.get(metric) for metric in metrics]
    shown = [
        _NONE
        if c is None
        else " ".join(filter(None, (number(c.mean), _MARKS[c.mark], interval_text(c.low, c.high))))
        for c in cells
    ]
    counts = [_NONE, _NONE] if cells[0] is None else [f"{cells[0].users:,}", f"{cells[0].undefined:,}"]
    costs = row.costs
    seconds = (
        [_NONE, _NONE]
        if costs is None
        else [f"{number(costs.fit_seconds, 2)} s", f"{number(costs.recommend_seconds, 2)} s"]
    )
    name = f"{escape(row.model)} (baseline)" if row.is_baseline else escape(row.model)
    return ["" if row.rank is None else str(row.rank), name, *shown, *counts, *seconds]


def _metric_row(cell: Cell) -> list[str]:
    s = cell.summary
    spread = (
        [_NONE] * 5
        if s is None
        else [number(s.std), number(s.p10), number(s.p50), number(s.p90), share(s.zero_share)]
    )
    return [
        escape(cell.metric),
        number(cell.mean),
        interval_text(cell.low, cell.high) or _NONE,
        *spread,
        f"{cell.users:,}",
        f"{cell.undefined:,}",
    ]


def _data_name(info: DataInfo) -> str:
    return f"{escape(info.dataset)}, split {escape(info.split or info.split_type)}"


def _data_lines(info: DataInfo) -> list[str]:
    lines = _table(
        ["", "users", "items", "interactions", "density", "digest"],
        [
            _data_row("all", info.full),
            *(
                _data_row(part if info.n_folds == 1 else f"{part}, fold 1 of {info.n_folds}", data)
                for part, data in (("train", info.train), ("test", info.test))
                if data is not None
            ),
        ],
    )
    given = {
        "dataset": info.type,
        **redact_values(info.params),
        "split": info.split_type,
        **{f"split {name}": value for name, value in info.split_params.items()},
        **{name.replace("_", " "): f"{count:,}" for name, count in info.counts.items()},
    }
    return [*lines, "", *_list(given)]


def _data_row(name: str, data: Interactions) -> list[str]:
    users, items = (int(np.count_nonzero(np.bincount(codes))) for codes in (data.user, data.item))
    density = len(data) / (users * items) if users and items else math.nan
    return [
        name,
        f"{users:,}",
        f"{items:,}",
        f"{len(data):,}",
        number(100 * density, 3) + " %",
        f"`{data.digest[:12]}`",
    ]


def _list(values: Mapping[str, Any]) -> list[str]:
    return [f"- {escape(name)}: {escape(value)}" for name, value in values.items()]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(header)} |",
        f"|{'|'.join('---' for _ in header)}|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
