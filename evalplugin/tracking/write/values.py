"""The numbers that are logged of a bake-off, and the data it used; plain values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalplugin.base.secrets import redact_values
from evalplugin.comparison.compared import Cell, ComparedModel
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Bakeoff, DataInfo, ModelResult
from evalplugin.tracking.names import MAX_KEY_LENGTH, metric_names, model_keys
from evalplugin.tracking.write.labels import cut

__all__ = [
    "DatasetInput",
    "Logged",
    "Metric",
    "dataset_inputs",
    "difference_metrics",
    "model_metrics",
    "summary_metrics",
]

_MAX_DATASET_NAME = 500
_MAX_SOURCE = 60_000


@dataclass(frozen=True)
class Metric:
    """One value to log under a key; ``step`` is k, a percentile, a recall in percent or a fold."""

    key: str
    value: float
    step: int = 0


@dataclass(frozen=True)
class Logged:
    """Metrics that can be logged, and the keys of those that cannot because they are no finite number."""

    metrics: tuple[Metric, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class DatasetInput:
    """A dataset that a run used: the fields of MLflow's dataset, and what it was used for."""

    name: str
    digest: str
    source: str
    schema: str
    profile: str
    context: str  # "training" or "evaluation"


def model_metrics(bakeoff: Bakeoff, result: ModelResult, cells: Mapping[str, Cell]) -> Logged:
    """Return every metric of a model's run.

    NaN and infinity are left out, since they break MLflow's filters; their number is logged in their place.
    """
    names = metric_names(bakeoff.metrics)
    # What a reader wants first comes first: MLflow's run page keeps the order.
    values = [Metric(names[metric], cell.mean) for metric, cell in cells.items()]
    if (primary := cells.get(bakeoff.primary)) is not None:
        values += [Metric("users", primary.users), Metric("users_undefined", primary.undefined)]
    if (costs := result.costs) is not None:
        values += [
            Metric("cost/fit_seconds", costs.fit_seconds),
            Metric("cost/recommend_seconds", costs.recommend_seconds),
            Metric("cost/start_seconds", costs.start_seconds),
            Metric("cost/score_seconds", costs.score_seconds),
            Metric("cost/peak_memory_mb", costs.peak_memory_mb),
        ]
    values += [Metric(f"undefined/{names[m]}", cell.undefined) for m, cell in cells.items() if cell.undefined]
    for metric, cell in cells.items():
        s, name = cell.summary, names[metric]
        if (
            s is not None and s.n
        ):  # without a user there is nothing to spread; the undefined are counted above
            spread = {"p10": s.p10, "p50": s.p50, "p90": s.p90, "std": s.std, "zero_share": s.zero_share}
            values += [Metric(f"ci/{name}.low", cell.low), Metric(f"ci/{name}.high", cell.high)]
            values += [Metric(f"dist/{name}.{part}", value) for part, value in spread.items()]
            values += [
                Metric(f"per_user_quantile/{name}", float(q), step) for step, q in enumerate(s.quantiles)
            ]
    if result.per_user is not None:
        curves = metric_names(result.per_user.at_k)
        for family, curve in result.per_user.at_k.items():
            values += [Metric(f"at_k/{curves[family]}", value, k) for k, value in sorted(curve.items())]
        precision = sorted(result.per_user.pr_curve.items())
        values += [Metric("pr_curve/precision", value, percent) for percent, value in precision]
    if len(result.fold_means) > 1:
        for fold, means in enumerate(result.fold_means, start=1):
            values += [Metric(f"fold/{names[m]}", v, fold) for m, v in means.items() if m in names]
    return _finite([*values, *_by_group(bakeoff, result)])


def _by_group(bakeoff: Bakeoff, result: ModelResult) -> list[Metric]:
    """Return the primary metric's mean in each group of users, and over how many it is."""
    name = metric_names(bakeoff.metrics)[bakeoff.primary]
    # What parts the two names is in neither, so that all are different.
    scores = {
        f"{segment}\0{label}": found
        for segment, groups in result.by_group(bakeoff.primary).items()
        for label, found in groups.items()
    }
    values = []
    for group, key in model_keys(scores).items():
        # All below one prefix: MLflow's page makes a section of each, and there are many groups.
        values.append(Metric(f"segment/users.{key}", len(scores[group])))
        if len(scores[group]):
            mean = float(scores[group].mean())
            values.append(Metric(cut(f"segment/{name}.{key}", MAX_KEY_LENGTH), mean))
    return values


def difference_metrics(bakeoff: Bakeoff, row: ComparedModel) -> Logged:
    """Return a model's paired differences from the baseline, for its own run."""
    names = metric_names(bakeoff.metrics)
    values: list[Metric] = []
    for metric, cell in row.cells.items():
        values += _difference(f"vs_baseline/{names[metric]}", cell)
    return _finite(values)


def summary_metrics(bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Logged:
    """Return the metrics of the summary run: how many models, and every model's paired differences."""
    names = metric_names(bakeoff.metrics)
    rows = {
        bakeoff.run_name(c.contest.dataset, c.contest.split, row.model): row
        for c in comparisons
        for row in c.models
    }
    keys = model_keys(rows)
    failed = sum(row.error is not None for row in rows.values())
    values = [Metric("models", len(rows)), Metric("models_failed", failed)]
    for run_name, row in rows.items():
        for metric, cell in row.cells.items():
            values += _difference(f"diff/{names[metric]}/{keys[run_name]}", cell)
    return _finite(values)


def _difference(key: str, cell: Cell) -> list[Metric]:
    if (pair := cell.difference) is None:
        return []
    interval = pair.paired.interval
    return [
        Metric(key, interval.mean),
        Metric(f"{key}.low", interval.low),
        Metric(f"{key}.high", interval.high),
        Metric(f"{key}.p", pair.p),
        Metric(f"{key}.p_holm", pair.p_holm),
    ]


def dataset_inputs(info: DataInfo) -> tuple[DatasetInput, ...]:
    """Return the train and the test data of a run (of the first fold), with digests of their whole content."""
    source = json.dumps({"type": info.type, **redact_values(info.params)}, default=str)
    if len(source) > _MAX_SOURCE:
        source = json.dumps({"type": info.type})
    schema = json.dumps({"mlflow_colspec": _columns(info)})
    inputs = []
    # MLflow keeps one input for a name and digest: where nothing is held out, both have the same digest.
    for part, data, context in (("train", info.train, "training"), ("test", info.test, "evaluation")):
        if data is None:
            continue
        users, items = _distinct(data.user), _distinct(data.item)
        profile = {
            "users": users,
            "items": items,
            "interactions": len(data),
            "density": len(data) / (users * items) if users and items else 0.0,
            "rating_scale": list(data.rating_scale),
            "folds": info.n_folds,
        }
        name = cut(info.dataset, _MAX_DATASET_NAME - 6) + f" {part}"
        inputs.append(DatasetInput(name, data.digest, source, schema, json.dumps(profile), context))
    return tuple(inputs)


def _finite(values: Iterable[Metric]) -> Logged:
    kept, left_out = [], []
    for metric in values:
        if math.isfinite(metric.value):
            kept.append(metric)
        else:
            left_out.append(metric.key)
    keys = tuple(dict.fromkeys(left_out))
    if keys:
        kept.append(Metric("undefined/values_left_out", len(left_out)))
    return Logged(tuple(kept), keys)


def _columns(info: DataInfo) -> list[dict[str, Any]]:
    data = info.full
    id_type = {
        name: "string" if ids.dtype == object else "long"
        for name, ids in (("user", data.users), ("item", data.items))
    }
    columns = [*id_type.items(), ("rating", "float")]
    if data.timestamp is not None:
        columns.append(("timestamp", "long"))
    return [{"type": kind, "name": name, "required": True} for name, kind in columns]


def _distinct(codes: Any) -> int:
    import numpy as np

    return int(np.count_nonzero(np.bincount(codes))) if len(codes) else 0
