"""Export of comparisons: DataFrame, CSV, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from evalplugin.base.libraries import pd
from evalplugin.base.text import escape_formula
from evalplugin.comparison.best import BestModels
from evalplugin.comparison.compared import Pair
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.statistics.intervals import Interval
from evalplugin.files.outputs import open_table
from evalplugin.report.competition import competition_of, findings_on
from evalplugin.report.overlap import Overlap, overlaps
from evalplugin.report.sentences.units import shared_lines
from evalplugin.report.sentences.verdict import verdict

# Of a pair, by column.
_PAIR: dict[str, Callable[[Pair], Any]] = {
    "pairs": attrgetter("paired.users"),
    "difference": attrgetter("paired.interval.mean"),
    "diff_low": attrgetter("paired.interval.low"),
    "diff_high": attrgetter("paired.interval.high"),
    "relative": attrgetter("paired.relative"),
    "p": attrgetter("p"),
    "p_holm": attrgetter("p_holm"),
    "p_bh": attrgetter("p_bh"),
    "effect": attrgetter("paired.effect"),
    "better": attrgetter("better"),
    "same": attrgetter("paired.equal"),
    "worse": attrgetter("worse"),
    "detectable": attrgetter("paired.detectable"),
    "mark": attrgetter("mark"),
}
# Of a statistic of groups, fields and, by column, those of its difference.
_STATISTIC = (
    "segment", "metric", "statistic", "model", "value", "low", "high", "groups", "left_out", "against",
)  # fmt: skip
_STATISTIC_DIFFERENCE = {"difference": "value", "diff_low": "low", "diff_high": "high", "p": "p"}
_MEAN = ("may_be_best", "mean", "low", "high", "users")
_ROW = ("dataset", "split", "metric", "rank", "model", *_MEAN, "has", "own_mean", "lacks", "undefined")
_WHOLE = (
    "rank",
    "users",
    "has",
    "lacks",
    "undefined",
    "folds",
    "clusters",
    "pairs",
)  # columns of whole numbers, some of them missing
_FOLDS = ("folds", "fold_low", "fold_high")
# Of the mean over clusters, by column.
_CLUSTERS: dict[str, Callable[[Interval], Any]] = {
    "clusters": attrgetter("n"),
    "cluster_mean": attrgetter("mean"),
    "cluster_mean_low": attrgetter("low"),
    "cluster_mean_high": attrgetter("high"),
}
_SEGMENT_ROW = ("dataset", "split", "segment", "group", "metric", "model", *_MEAN)


def compare_frame(
    comparisons: Sequence[Comparison], metrics: Sequence[str] = (), segment: str | None = None
) -> pd.DataFrame:
    """Return one row for each model, metric and other model that it is compared with.

    Columns: ``dataset``, ``split``, ``metric``, ``rank`` (by this metric), ``model``; ``may_be_best``: whether no other
    model is shown to beat it by the metric; ``mean`` with its interval ``low`` to ``high`` over ``users``, those with a
    value of every ranked model; ``has``: users with a value of this model, with the mean ``own_mean`` over all of them;
    ``lacks``: users with a value of another model alone; ``undefined``: users of this model without a value. A model
    with values for fewer than half as many users as another has no ``rank`` and no ``mean``. ``folds``, and their
    lowest and highest mean ``fold_low``, ``fold_high``; only where units have clusters, as queries have sessions:
    ``cluster_mean``, the mean in which each of ``clusters`` counts once, with its interval ``cluster_mean_low`` to
    ``cluster_mean_high``;
    ``against``, another model, and of the differences from it, over ``pairs`` users who have both: the mean
    ``difference`` with its interval ``diff_low`` to ``diff_high``, ``relative`` to the other's mean; ``p`` of the
    permutation test, ``p_holm`` and ``p_bh`` corrected for all comparisons by the metric, ``p_wilcoxon`` and ``p_t``
    if requested; ``effect`` (Cohen's d_z); the shares of users for whom the model is ``better``, the ``same``,
    ``worse``; the smallest ``detectable`` difference (80 % power); ``mark``: ``+`` better, ``-`` worse, by p_holm.
    Last, the ``error`` of a model that failed. Undefined values are missing.

    ``metrics`` are canonical names; none: all. With the name of a segmentation, it is ``segment_frame``.
    """
    if segment is not None:
        return segment_frame(comparisons, segment, metrics)
    rows = [row for comparison in comparisons for row in _rows(comparison, metrics)]
    every = (test for c in comparisons for pair in c.pairs for test in pair.paired.p)
    tests = dict.fromkeys(f"p_{test}" for test in every if test != "permutation")
    clusters = _CLUSTERS if any("clusters" in row for row in rows) else ()
    frame = pd.DataFrame(rows, columns=[*_ROW, *_FOLDS, *clusters, "against", *_PAIR, *tests, "error"])
    whole = [name for name in _WHOLE if name in frame]
    return frame.astype({**dict.fromkeys(whole, "Int64"), "may_be_best": "boolean"})


def segment_frame(
    comparisons: Sequence[Comparison], segment: str, metrics: Sequence[str] = ()
) -> pd.DataFrame:
    """Return one row for each group of users, metric and model; the columns are those of ``compare_frame``.

    ``group`` is the group of ``segment``. ``p_holm`` and ``p_bh`` are corrected for all models and groups by the
    metric, ``may_be_best`` for the groups.
    """
    best = {
        (comparison, group.metric, group.label): group
        for comparison in comparisons
        for metric in metrics or comparison.contest.metrics
        for group in comparison.best_in_groups(segment, metric)
    }
    rows = [
        {
            **comparison.contest.place._asdict(),
            "segment": segment,
            "group": cell.label,
            "metric": cell.metric,
            "model": cell.model,
            "may_be_best": _in(best.get((comparison, cell.metric, cell.label)), cell.model),
            "mean": cell.interval.mean,
            "low": cell.interval.low,
            "high": cell.interval.high,
            "users": cell.interval.n,
            **_pair_values(cell.difference),
        }
        for comparison in comparisons
        for cell in comparison.segments
        if cell.segment == segment and cell.metric in (metrics or comparison.contest.metrics)
    ]
    frame = pd.DataFrame(rows, columns=[*_SEGMENT_ROW, "against", *_PAIR])
    return frame.astype({"users": "Int64", "pairs": "Int64", "may_be_best": "boolean"})


def group_statistics_frame(
    comparisons: Sequence[Comparison], segment: str, metrics: Sequence[str] = ()
) -> pd.DataFrame:
    """Return one row for each metric, statistic of groups and model.

    Columns: ``dataset``, ``split``, ``segment``, ``metric``; ``statistic``: ``gap``, the highest mean of a group less
    the lowest one, or ``worst``, the mean of the worst group; ``model``; ``value`` with its interval ``low`` to
    ``high``; ``groups``: of a gap those with the highest and the lowest mean, of a worst mean that group; ``left_out``:
    groups with too few users; ``against``, the baseline, and the ``difference`` from its statistic with the interval
    ``diff_low`` to ``diff_high``; its ``p``, and ``p_holm`` corrected for all models; ``mark``: ``+`` where the gap is
    smaller or the worst group served better, ``-`` for the opposite, by p_holm. Undefined values are missing.

    ``metrics`` are canonical names; none: all.
    """
    rows = [
        comparison.contest.place._asdict()
        | {name: getattr(s, name) for name in _STATISTIC}
        | {name: getattr(s.difference, of) for name, of in _STATISTIC_DIFFERENCE.items() if s.difference}
        | {"p_holm": s.p_holm, "mark": s.mark}
        for comparison in comparisons
        for s in comparison.group_statistics
        if s.segment == segment and s.metric in (metrics or comparison.contest.metrics)
    ]
    columns = ["dataset", "split", *_STATISTIC, *_STATISTIC_DIFFERENCE, "p_holm", "mark"]
    return pd.DataFrame(rows, columns=columns)


def overlap_frame(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Return one row for every two models whose lists are at hand: how much of the same they list.

    Columns: ``dataset``, ``split``, ``model``, ``against``; ``k`` places of ``lists`` were compared; the means of
    ``rbo`` and ``jaccard`` over them, as of ``Overlap``; ``drawn_from``: the number of all lists where only some were
    compared, else empty.
    """
    rows = [c.contest.place._asdict() | asdict(pair) for c in comparisons for pair in overlaps(c)]
    return pd.DataFrame(rows, columns=["dataset", "split", *(field.name for field in fields(Overlap))])


def frame_csv(frame: pd.DataFrame) -> str:
    """Return a frame as CSV with all digits.

    Text that a spreadsheet would take for a formula has an apostrophe in front.
    """
    safe = {
        str(name): column.map(lambda value: escape_formula(value) if isinstance(value, str) else value)
        for name, column in frame.items()
        if column.dtype.kind == "O"
    }
    return str(frame.assign(**safe).to_csv(index=False, lineterminator="\n"))


def frame_json(frame: pd.DataFrame) -> str:
    """Return the rows of a frame as a JSON list of objects; missing values are null."""
    return json.dumps(_records(frame), ensure_ascii=False, indent=2, allow_nan=False)


def json_by_name(frame: pd.DataFrame) -> str:
    """Return the rows of a frame as a JSON object by their first column; missing values are null.

    A row is an object of the other columns, or its value where there is one.
    """
    values = {}
    for row in _records(frame):
        name, *others = row
        values[row[name]] = row[others[0]] if len(others) == 1 else {key: row[key] for key in others}
    return json.dumps(values, ensure_ascii=False, indent=2, allow_nan=False)


def write_frame(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a frame as Parquet or CSV, by the suffix; the file is never partial.

    Raises:
        DataError: The file cannot be written.
    """
    with open_table(path) as (file, is_parquet):
        if is_parquet:
            frame.to_parquet(file, index=False, compression="zstd")
        else:
            file.write(frame_csv(frame).encode(errors="surrogateescape"))


def compare_json(
    comparisons: Sequence[Comparison],
    metrics: Sequence[str] = (),
    segment: str | None = None,
    *,
    overlap: bool = False,
) -> str:
    """Return comparisons as JSON with all digits: a list with one object for each dataset and split.

    Each has ``name``, ``dataset``, ``split``, ``metrics``, ``primary``, ``baseline``, ``level`` (of the intervals),
    ``pairing`` (baseline: every model with it, or all), ``rules`` (common to the models; null for a table of scores),
    ``notes``, ``checks`` (the findings: ``code``, ``text``, ``severity``, ``dataset``, ``split``, ``model``),
    ``warnings``, ``may_be_best`` (names of the models that may be the best by the primary metric, the leader first),
    ``best`` (by metric: ``may_be_best``, ``users`` compared, the ``rival`` that is hardest to tell from the leader, and
    how many more ``users_to_tell``), ``verdicts`` (some sentences for each metric), ``rows`` (those of
    ``compare_frame``) and, for a named segmentation, ``segments`` (those of ``segment_frame``) and ``group_statistics``
    (those of ``group_statistics_frame``); with ``overlap``, ``overlap`` (those of ``overlap_frame``). Undefined values
    are null.
    """
    values = []
    for comparison in comparisons:
        contest, competition = comparison.contest, competition_of(comparison.contest)
        chosen = list(metrics or contest.metrics)
        content = {
            "name": contest.name,
            **comparison.contest.place._asdict(),
            "metrics": chosen,
            "primary": contest.primary,
            "baseline": contest.baseline,
            "level": comparison.level,
            "pairing": comparison.pairing,
            "rules": None if competition is None else competition.rules.shown(),
            "notes": [*contest.notes, *shared_lines(comparison, chosen)],
            "checks": [asdict(finding) for finding in findings_on(contest)],
            "warnings": [] if competition is None else list(competition.warnings),
            "may_be_best": comparison.may_be_best,
            "best": {m: _best(best) for m, best in comparison.best.items() if m in chosen},
            "verdicts": {metric: str(verdict(comparison, metric)) for metric in chosen},
            "rows": _records(compare_frame([comparison], chosen)),
        }
        if segment is not None:
            content["segments"] = _records(segment_frame([comparison], segment, chosen))
            content["group_statistics"] = _records(group_statistics_frame([comparison], segment, chosen))
        if overlap:
            content["overlap"] = _records(overlap_frame([comparison]))
        values.append(content)
    return json.dumps(values, ensure_ascii=False, indent=2, allow_nan=False)


def _rows(comparison: Comparison, metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    for metric in metrics or comparison.contest.metrics:
        for row in comparison.models:
            cell = row.cells.get(metric)
            if cell is None and row.error is None:
                continue
            values: dict[str, Any] = comparison.contest.place._asdict()
            values |= {"metric": metric, "rank": cell and cell.rank, "model": row.model}
            if cell is None:
                yield {**values, "error": row.error}
                continue
            values |= {"may_be_best": _in(comparison.best.get(metric), row.model)}
            values |= {"mean": cell.mean, "low": cell.low, "high": cell.high}
            counted = ("users", "has", "own_mean", "lacks", "undefined")
            values |= {name: getattr(cell, name) for name in counted}
            if folds := row.means_of_folds(metric):
                values |= {"folds": len(folds), "fold_low": min(folds), "fold_high": max(folds)}
            if (over := cell.over_clusters) is not None:
                values |= {name: of(over) for name, of in _CLUSTERS.items()}
            pairs = tuple(p for p in comparison.pairs if p.metric == metric and p.model == row.model)
            yield from (values | _pair_values(pair) for pair in pairs or (None,))


def _best(best: BestModels) -> dict[str, Any]:
    values = {"users": best.users, "rival": best.rival, "users_to_tell": best.users_to_tell}
    return {"may_be_best": best.models, **values}


def _in(best: BestModels | None, model: str) -> bool | None:
    """Return whether a model may be the best; None where no model can be, or it has no value."""
    return None if best is None or model not in best.compared else model in best.models


def _pair_values(pair: Pair | None) -> dict[str, Any]:
    if pair is None:
        return {}
    values = {"against": pair.against} | {name: of(pair) for name, of in _PAIR.items()}
    return values | {f"p_{test}": p for test, p in pair.paired.p.items() if test != "permutation"}


def _records(frame: pd.DataFrame) -> Any:
    """Return the rows as JSON objects; missing values are null."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")
