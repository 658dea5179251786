"""Markdown on a model's run: a short note and a summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evalplugin.base.numbers import UNDEFINED, number, percent, seconds, share, signed, span
from evalplugin.base.remembering import remembered
from evalplugin.base.secrets import redact_values
from evalplugin.base.seeding import generator
from evalplugin.base.units import count_text, plural
from evalplugin.comparison.compared import LEVEL, Cell
from evalplugin.comparison.statistics.intervals import Interval, mean_interval
from evalplugin.data import Interactions
from evalplugin.execution.results import DataInfo, ModelResult, Plan, Scored
from evalplugin.metrics import MetricSpec, parse
from evalplugin.metrics.scores import PerUserScores
from evalplugin.report.competition import AS_LISTED, budget_text, split_text
from evalplugin.report.leaderboard import COST_COLUMNS, cost_cells
from evalplugin.report.render.markdown import escape, table_lines, titled_lines
from evalplugin.report.sentences.statistics import method_names
from evalplugin.report.table import Table, numbers, text_rows, words
from evalplugin.report.words import heading, whom
from evalplugin.segments import Segmentation

_INTERVAL = f"{percent(LEVEL)} interval"
_MEANS = (
    "Means are over the {units} for {whom} a metric is defined; undefined {units} are counted, not set to 0."
)
_INTERVALS = "Intervals of means: {methods}."
_OPTIMISM = (
    "Optimism: by how much the validation value is better than the one on the test data. It has the luck of the best "
    "trial in it, and how much easier one of the two is than the other for any model."
)
_COLUMNS = (*words("metric"), *numbers("mean", _INTERVAL, "std", "p10", "median", "p90"))


def note_markdown(plan: Plan, result: ModelResult, cells: Mapping[str, Cell]) -> str:
    """Return the short description of a model's run: model, data and means."""
    kind = f" ({escape(result.type)})" if result.type != result.model else ""  # that of a table is its name
    lines = [f"**{escape(result.model)}**{kind} on {_data_name(result.data)}", ""]
    if result.error is not None:
        return "\n".join([*lines, f"FAILED: {escape(result.failure)}", "", "See `traceback.txt`."])
    means = (
        (heading(plan.spec(cell.metric)), number(cell.mean), span(cell.low, cell.high))
        for cell in cells.values()
    )
    lines += table_lines(Table("", _COLUMNS[:3], text_rows(means)))
    if result.tuning is not None:
        lines += [
            "",
            f"Tuned: {count_text(len(result.tuning.trials), 'trial')}, optimism {signed(result.optimism)}.",
        ]
    return "\n".join([*lines, "", f"Bake-off {escape(plan.id)}. Everything: `summary.md`."])


def summary_markdown(
    plan: Plan,
    result: ModelResult,
    cells: Mapping[str, Cell],
    *,
    notes: Sequence[str] = (),
    verdict: str = "",
) -> str:
    """Return a run's summary: model, data, means of all headline metrics, costs, and decisions taken.

    Args:
        plan: The plan of the bake-off.
        result: The model's result.
        cells: The model's values by metric.
        notes: Further decisions, such as the choice of users for a sample.
        verdict: A sentence on all models; empty before they are compared.
    """
    info = result.data
    units = info.units.nouns
    lines = [f"# {escape(result.model)}", ""]
    lines += [f"{escape(result.type)} on {_data_name(info)}, in bake-off {escape(plan.id)}", ""]
    lines += [escape(verdict), ""] if verdict else []
    if result.error is not None:
        lines += [f"**This model failed:** {escape(result.failure)}", "", "See `traceback.txt`.", ""]
    if warnings := (*(finding.line for finding in info.findings), *result.notes):
        lines += ["## Warnings", "", *(f"- {escape(warning)}" for warning in warnings), ""]
    if cells:
        columns = (*_COLUMNS, *numbers(f"{units} at 0", units, "undefined"))
        rows = text_rows(_metric_row(plan.spec(cell.metric), cell) for cell in cells.values())
        methods = {cell.method for cell in cells.values()}
        footnotes = [_MEANS.format(units=units, whom=whom(info.units.noun))]
        if names := method_names(methods, info.units):
            footnotes.append(_INTERVALS.format(methods=names))
        lines += titled_lines(Table("Metrics", columns, rows, footnotes=tuple(footnotes)))
    lines += _cluster_lines(plan, info, cells)
    lines += _group_lines(plan, result)
    lines += _tuning_lines(result)
    if result.costs is not None:
        lines += titled_lines(Table("Costs", COST_COLUMNS, (tuple(cost_cells(result.costs)),)))
    lines += ["## Model", "", *_list({"type": result.type, **redact_values(result.params)}), ""]
    lines += ["## Data", "", *_data_lines(info), ""]
    lines += ["## Evaluation", ""]
    rules = {
        "list length": plan.n,
        "candidates": plan.candidates or AS_LISTED,
        "relevant": "every held-out item with a positive rating"
        if plan.relevance.threshold is None
        else f"rating >= {plan.relevance.threshold:g}",
    }
    lines += _list({**({} if plan.given else rules), "seed": plan.seed, "config": plan.config_name})
    if decisions := [*info.notes, *notes]:
        lines += ["", "## Decisions", "", *(f"- {escape(note)}" for note in decisions)]
    return "\n".join(lines) + "\n"


def _cluster_lines(plan: Plan, info: Scored, cells: Mapping[str, Cell]) -> list[str]:
    """Return the means in which each cluster counts once; empty where users are independent."""
    rows = [
        (
            heading(plan.spec(cell.metric)),
            number(over.mean),
            span(over.low, over.high) or UNDEFINED,
            f"{over.n:,}",
        )
        for cell in cells.values()
        if (over := cell.over_clusters) is not None
    ]
    if not rows:
        return []
    cluster = info.units.independent
    columns = (*words("metric"), *numbers(f"mean over {plural(cluster)}", _INTERVAL, plural(cluster)))
    title = f"If each {cluster} counts once, by the mean of its {info.units.nouns}:"
    return [title, "", *table_lines(Table(title, columns, text_rows(rows))), ""]


def _group_lines(plan: Plan, result: ModelResult) -> list[str]:
    """Return the section on groups of users: the primary metric's mean in each; empty without groups."""
    rows = []
    if (scores := result.per_user) is not None and plan.primary in scores.metrics:
        for segment in result.data.segments:
            for label, interval in _group_intervals(
                scores, segment, plan.spec(plan.primary), plan.seed
            ).items():
                shown = span(interval.low, interval.high) or UNDEFINED
                rows.append((segment.name, label, f"{interval.n:,}", number(interval.mean), shown))
    if not rows:
        return []
    units = result.data.units.nouns
    columns = (*words("segment", "group"), *numbers(units, "mean", _INTERVAL))
    lines = ["## For whom", "", f"{escape(plan.primary)} by group of {units}:", ""]
    return [*lines, *table_lines(Table("For whom", columns, text_rows(rows))), ""]


@remembered  # the summary is written again when all models are compared
def _group_intervals(
    scores: PerUserScores, segment: Segmentation, metric: MetricSpec, seed: int
) -> dict[str, Interval]:
    """Return the interval of the mean in each group of users, by label."""
    group, values, clusters = segment.of(scores.users), scores.column(metric.name), scores.units.codes
    intervals = {}
    for place, label in enumerate(segment.labels):
        inside = group == place
        intervals[label] = mean_interval(
            values[inside],
            level=LEVEL,
            bounds=metric.metric.bounds,
            clusters=None if clusters is None else clusters[inside],
            rng=generator(seed, "segment", segment.name, label),
        )
    return intervals


def _tuning_lines(result: ModelResult) -> list[str]:
    """Return the section on tuning; empty for a model that was not tuned."""
    if (tuning := result.tuning) is None:
        return []
    settings = tuning.settings
    values = (tuning.defaults, tuning.validation, result.mean(tuning.metric))
    columns = numbers("validation, defaults", "validation, best", "test", "optimism")
    row = (*map(number, values), signed(result.optimism))
    counts = {state: tuning.count(state) for state in ("done", "dropped", "failed")}
    trials = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    lines = [
        "## Tuning",
        "",
        f"By {escape(heading(parse(tuning.metric)))} within the train data, {escape(split_text(settings['split']))}; "
        f"budget: {escape(budget_text(settings['budget']))}.",
        "",
        *table_lines(Table("Tuning", columns, text_rows([row]))),
        "",
        _OPTIMISM,
        "",
        f"- trials: {trials}; {seconds(tuning.seconds)} of work",
    ]
    for fold, best in enumerate(tuning.best, start=1):
        where = f", fold {fold}" if len(tuning.best) > 1 else ""
        chosen = ", ".join(f"{name}: {value}" for name, value in best.items())
        lines.append(f"- best{where}: {escape(chosen)}")
    return [*lines, *(f"- {escape(note)}" for note in tuning.notes), ""]


def _metric_row(metric: MetricSpec, cell: Cell) -> list[str]:
    s = cell.summary
    spread = (
        [UNDEFINED] * 5
        if s is None
        else [number(s.std), number(s.p10), number(s.p50), number(s.p90), share(s.zero_share)]
    )
    return [
        heading(metric),
        number(cell.mean),
        span(cell.low, cell.high) or UNDEFINED,
        *spread,
        f"{cell.users:,}",
        f"{cell.undefined:,}",
    ]


def _data_name(info: Scored) -> str:
    if not isinstance(info, DataInfo):
        return escape(info.dataset)
    return f"{escape(info.dataset)}, split {escape(info.split or info.split_type)}"


@remembered  # all models of a dataset and split have the same data
def _data_lines(info: Scored) -> list[str]:
    if not isinstance(info, DataInfo):
        known = {info.units.nouns: f"{len(info.units):,}", "digest": info.test_digest[:12]}
        return _list({**redact_values(info.params), **known})
    fold = "" if info.n_folds == 1 else f", fold 1 of {info.n_folds}"
    parts = {"all": info.full, f"train{fold}": info.train, f"test{fold}": info.test}
    units = info.units.nouns
    # Train data is of sessions where the test data is of queries.
    users = units if info.units.noun == "user" else f"sessions or {units}"
    columns = (*words(""), *numbers(users, "items", "interactions", "density"), *words("digest"))
    rows = text_rows(_data_row(name, data) for name, data in parts.items() if data is not None)
    lines = table_lines(Table("Data", columns, rows))
    given = {
        "dataset": info.type,
        **redact_values(info.params),
        "split": info.split_type,
        **{f"split {name}": value for name, value in info.split_params.items()},
        **{
            name.replace("users", units).replace("_", " "): f"{count:,}"
            for name, count in info.counts.items()
        },
    }
    # ``users: None``, the table that a dataset does not have, would look like a count.
    return [*lines, "", *_list({name: value for name, value in given.items() if value is not None})]


def _data_row(name: str, data: Interactions) -> list[str]:
    users, items = len(data.active_users), int(np.count_nonzero(data.item_counts))
    density = len(data) / (users * items) if users and items else math.nan
    return [
        name,
        f"{users:,}",
        f"{items:,}",
        f"{len(data):,}",
        number(100 * density, 3) + " %",
        data.digest[:12],
    ]


def _list(values: Mapping[str, Any]) -> list[str]:
    return [f"- {escape(name)}: {escape(value)}" for name, value in values.items()]
