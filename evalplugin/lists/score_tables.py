"""Tables of scores from any evaluation: a value of each unit for each model, read into a contest of the models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Flags, Floats, Ints
from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.libraries import pd
from evalplugin.base.units import noun_of, plural
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.contest import Contest, with_choice
from evalplugin.data.attributes import EntityTable
from evalplugin.data.formats import CsvFormat
from evalplugin.data.tables import Ids, Table, check_roles, column_problem, ids_of
from evalplugin.data.vocabulary import unicode_notes
from evalplugin.lists.files import open_files
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.given import given_metric, known_metric
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.segments import Segmentation, clustering
from evalplugin.segments.attribute import Attribute

_NAMED = 8  # models in a note
_VALUES = ("score", "value")  # columns of scores that need not be named
# Words in names of metrics of which lower values are usually better; no direction is taken from them.
_OFTEN_LOWER = re.compile(
    r"(^|[^a-z])(loss|error|errors|latency|perplexity|wer|cer|cost|time|seconds)($|[^a-z])", re.I
)


@dataclass(frozen=True)
class ScoreColumns:
    """Names of the columns of a table of scores, by what they hold.

    The table has a row for each unit and model (``model`` names the column of models' names), with one column of scores
    for each metric (``values``), or with one column of scores and the name of the metric in the column ``metric``. Or
    it is ``wide``: a row for each unit, and all columns but those named here are models with their scores.
    """

    unit: str
    model: str | None = None
    metric: str | None = None
    values: tuple[str, ...] = ()  # empty: the column score, or value; wide: the name of the metric, or empty
    wide: bool = False
    cluster: str | None = None
    segments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.wide and (self.model is not None or self.metric is not None):
            raise DataError(
                "a wide table has a column of scores for each model, so that no column has names of models or metrics: "
                "name either wide or model and metric"
            )
        if self.wide and len(self.values) > 1:
            raise DataError(f"a wide table has one metric, not {', '.join(self.values)}")
        if not self.wide and self.model is None:
            raise DataError(
                "name the column of models' names (model); where each model has a column of scores, say wide"
            )
        if self.metric is not None and len(self.values) > 1:
            raise DataError(
                f"the column {self.metric!r} names the metric of one column of scores, not of "
                f"{', '.join(map(repr, self.values))}: without it, each of these is a metric, and primary names that "
                f"which ranks"
            )

    @property
    def named(self) -> dict[str, str]:
        """The named columns by role, without those of scores."""
        roles = {"unit": self.unit, "model": self.model, "metric": self.metric, "cluster": self.cluster}
        return {role: name for role, name in roles.items() if name is not None} | {
            f"segment {name}": name for name in self.segments
        }

    def of_scores(self, table: str, columns: Sequence[str]) -> list[str]:
        """Return the columns of scores; of a wide table those of the models.

        Raises:
            DataError: A column that is missing, is there twice or has two roles, or scores that no column is named for.
        """
        problems = [
            column_problem(name, columns, role.partition(" ")[0])
            for role, name in [
                *self.named.items(),
                *(("score", name) for name in self.values if not self.wide),
            ]
        ]
        if wrong := "; ".join(filter(None, problems)):
            raise DataError(f"{table}: {wrong}")
        if self.wide:
            scores = [name for name in columns if name not in self.named.values()]
            if not scores:
                raise DataError(f"{table}: no column is left for the scores of a model")
        elif self.values:
            scores = list(dict.fromkeys(self.values))
        else:
            scores = [name for name in _VALUES if name in columns]
            if len(scores) != 1:
                near = did_you_mean(
                    "", [c for c in columns if c not in self.named.values()], noun="there are"
                )
                why = (
                    "both columns score and value are there"
                    if scores
                    else "no column is called score or value"
                )
                raise DataError(f"{table}: {why}: name the columns of scores (value){near}")
        for name in scores:
            if problem := column_problem(name, columns, "score"):
                raise DataError(f"{table}: {problem}")
        check_roles(table, {**self.named, **{f"scores {name}": name for name in scores}})
        return scores


def read_scores(
    source: Any,
    columns: ScoreColumns,
    *,
    lower_is_better: Sequence[str] = (),
    baseline: str | None = None,
    primary: str | None = None,
    name: str | None = None,
) -> Contest:
    """Return the contest of the models of a table of scores.

    Args:
        source: A table of pandas, polars or Arrow, or the path of a Parquet or CSV file.
        columns: What the columns hold.
        lower_is_better: Metrics of which lower values are better, beside those whose names say so.
        baseline: The model that the others are compared with; None: none.
        primary: The metric that ranks; None: the first one.
        name: Of the table; None: that of its file, or else ``scores``.

    Raises:
        DataError: A column or value that breaks a rule, a unit twice, fewer than two models.
    """
    table = _read(source, columns)
    scores = columns.of_scores(table.name, table.columns)
    if not len(table):
        raise DataError(f"{table.name}: there are no rows")
    noun = noun_of(columns.unit)
    unit, ids = _coded(table.ids(columns.unit, noun), ascending=True)
    models, metrics = _cells(table, columns, scores, unit)
    if len(models) < 2:
        raise DataError(f"{table.name}: a comparison takes two models; there is one: {', '.join(models)}")
    notes: list[str] = []
    matrices = {metric: _matrix(table, cells, models, ids, metric) for metric, cells in metrics.items()}
    specs = _specs(
        table.name, {metric: values for metric, (values, _) in matrices.items()}, lower_is_better, notes
    )
    for metrics_alike in _alike(matrices):
        values, has_unit = matrices[metrics_alike[0]]
        by = f" by {', '.join(metrics_alike)}" if len(metrics_alike) < len(matrices) else ""
        notes += _empty(values, has_unit, models, noun, by)
    for metric, (values, _) in matrices.items():
        notes += _constant(values, models, noun, f" by {metric}" if len(matrices) > 1 else "")
    units = Units(ids, noun)
    if columns.cluster is not None:
        units = replace(units, clusters=_clustering(table, columns.unit, columns.cluster, units))
    file = Path(table.name) if isinstance(source, str | Path) else None
    contest = Contest(
        name=name or ("scores" if file is None else file.stem),
        dataset=name or ("scores" if file is None else file.name),
        split="",
        models=tuple(
            ComparedModel(model, _of_model(number, units, matrices)) for number, model in enumerate(models)
        ),
        metrics=tuple(specs),
        baseline=None,
        seed=0,
        digest=units.digest,
        segments=tuple(_segmentation(table, columns.unit, column, units) for column in columns.segments),
        notes=(*notes, *dict.fromkeys(table.notes), *unicode_notes(noun, ids_of(ids))),
        given=specs,
    )
    if contest.few_clusters:
        contest = replace(contest, notes=(*contest.notes, contest.few_clusters))
    return with_choice(contest, baseline=baseline, primary=primary)


def _read(source: Any, columns: ScoreColumns) -> Table:
    if not isinstance(source, str | Path):
        return Table(source, "scores")
    files = open_files(source, "scores")
    scores = columns.of_scores(files.name, files.columns)
    if isinstance(files.format, CsvFormat):  # names of models and metrics may look like numbers
        files = replace(files, format=replace(files.format, text=("model", "metric")))
    roles = {("user" if role == "unit" else role): name for role, name in columns.named.items()}
    return files.read({**roles, **{f"scores {name}": name for name in scores}})


def _coded(ids: Ids, *, ascending: bool = False) -> tuple[Ints, npt.NDArray[np.generic]]:
    """Return the number of each row's id among the different ones (n,), and these, int64 or str as object."""
    values = ids.values.to_numpy(zero_copy_only=False) if ids.kind == "text" else ids.values.astype(np.int64)
    return pd.factorize(values, sort=ascending)


def _cells(
    table: Table, columns: ScoreColumns, scores: Sequence[str], unit: Ints
) -> tuple[list[str], dict[str, pd.DataFrame]]:
    """Return the models, and by metric its scores: ``unit`` and ``model`` as numbers, ``value`` (NaN where missing).

    The index has the rows of the table.
    """
    if columns.wide:
        metric = columns.values[0] if columns.values else "score"
        of_models = [
            pd.DataFrame({"unit": unit, "model": number, "value": table.scores(name)})
            for number, name in enumerate(scores)
        ]
        return list(scores), {metric: pd.concat(of_models)}
    assert columns.model is not None
    model, names = _coded(table.ids(columns.model, "model"))
    of_metrics = {
        name: pd.DataFrame({"unit": unit, "model": model, "value": table.scores(name)}) for name in scores
    }
    if columns.metric is not None:
        metric_of, metrics = _coded(table.ids(columns.metric, "metric"))
        every = of_metrics[scores[0]]
        of_metrics = {str(name): every[metric_of == number] for number, name in enumerate(metrics.tolist())}
    return [str(name) for name in names.tolist()], of_metrics


def _matrix(
    table: Table, cells: pd.DataFrame, models: Sequence[str], units: npt.NDArray[np.generic], metric: str
) -> tuple[Floats, Flags]:
    """Return a metric's values of all units and models, (U, M), NaN where missing, and which have a row."""
    again = cells[cells.duplicated(["unit", "model"])]
    if len(again):
        unit, model = again["unit"].iloc[0], again["model"].iloc[0]
        before = cells.index[(cells["unit"] == unit) & (cells["model"] == model)][0]
        raise DataError(
            f"{table.name}: {units.tolist()[unit]!r} has two scores of {models[model]!r} by {metric!r}: "
            f"{table.row_name(int(before))} and {table.row_name(int(again.index[0]))}"
            f"{f', and {len(again) - 1} more rows' if len(again) > 1 else ''}; a unit has one score, so average or "
            f"rename them first"
        )
    values = np.full((len(units), len(models)), np.nan)
    has_row = np.zeros(values.shape, dtype=bool)
    place = cells["unit"].to_numpy(), cells["model"].to_numpy()
    values[place] = cells["value"].to_numpy()
    has_row[place] = True
    return values, has_row


def _specs(
    table: str, values: Mapping[str, Floats], lower_is_better: Sequence[str], notes: list[str]
) -> dict[str, MetricSpec]:
    for name in lower_is_better:
        if name not in values:
            near = did_you_mean(name, list(values), noun="there are")
            raise DataError(f"{table}: there is no metric {name!r} of which lower is better{near}")
    specs = {}
    for name, matrix in values.items():
        specs[name] = given_metric(name, matrix, lower_is_better=True if name in lower_is_better else None)
        if name not in lower_is_better and known_metric(name) is None and _OFTEN_LOWER.search(name):
            notes.append(
                f"{name}: higher is taken to be better, as for every metric whose name is not known; where lower is, "
                f"say so: --lower-is-better {name}"
            )
    return specs


def _alike(matrices: Mapping[str, tuple[Floats, Flags]]) -> list[list[str]]:
    """Return the metrics in groups, of which each has values of the same units and models."""
    groups: list[list[str]] = []
    for metric, (values, has_unit) in matrices.items():
        for group in groups:
            others, others_have = matrices[group[0]]
            if np.array_equal(has_unit, others_have) and np.array_equal(np.isnan(values), np.isnan(others)):
                group.append(metric)
                break
        else:
            groups.append([metric])
    return groups


def _empty(values: Floats, has_unit: Flags, models: Sequence[str], noun: str, by: str) -> list[str]:
    """Return a note on scores that are missing though the unit has a row; ``by`` names metrics."""
    empty = (has_unit & np.isnan(values)).sum(axis=0).tolist()
    lacking = [f"{model} {n:,}" for model, n in zip(models, empty, strict=True) if n]
    if not lacking:
        return []
    return [f"left out, as the score is empty or NaN{by}: {plural(noun)} of {_shortened(lacking)}"]


def _constant(values: Floats, models: Sequence[str], noun: str, by: str) -> list[str]:
    """Return a note on models whose scores are all the same."""
    constant = [
        model
        for model, column in zip(models, values.T, strict=True)
        if np.isfinite(column).sum() > 1 and np.nanmin(column) == np.nanmax(column)
    ]
    return [f"the same score for all {plural(noun)}{by}: {_shortened(constant)}"] if constant else []


def _shortened(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _NAMED} more models" if len(texts) > _NAMED else ""
    return f"{', '.join(texts[:_NAMED])}{more}"


def _of_model(number: int, units: Units, matrices: Mapping[str, tuple[Floats, Flags]]) -> PerUserScores:
    having = [metric for metric, (_, has_unit) in matrices.items() if has_unit[:, number].any()]
    rows = np.any([matrices[metric][1][:, number] for metric in having], axis=0)
    every = rows.all()
    columns = [matrices[metric][0][:, number] for metric in having]
    return PerUserScores(
        units if every else units.only(rows),  # the same units for all models: they are compared at once
        np.stack([column if every else column[rows] for column in columns], axis=1),
        tuple(having),
    )


def _clustering(table: Table, ids: str, column: str, units: Units) -> Segmentation:
    noun = units.noun
    values = EntityTable(table, noun, ids, [column], units.ids).column(column, numbers=False)
    missing = np.array([value is None for value in values.tolist()])
    if missing.any():
        unit = units.ids.tolist()[int(np.argmax(missing))]
        raise DataError(
            f"{table.name}: column {column!r} is empty for the {noun} {unit!r}: every {noun} must be in a cluster"
        )
    clusters = clustering(column, values, units.ids)
    if len(clusters.labels) < 2:
        raise DataError(
            f"{table.name}: column {column!r} puts all {plural(noun)} into one cluster: {clusters.labels[0]!r}"
        )
    return clusters


def _segmentation(table: Table, ids: str, column: str, units: Units) -> Segmentation:
    values = EntityTable(table, units.noun, ids, [column], units.ids).column(column)
    groups = Attribute(column=column).divide(values)
    return Segmentation(column, groups.labels, units.ids, groups.group)
