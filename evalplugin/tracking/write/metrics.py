"""The metrics of a model's run and of the summary run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalplugin.comparison.compared import Cell, ComparedModel
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Bakeoff, ModelResult
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.tracking.names import MAX_KEY_LENGTH, MAX_TAG, metric_names, model_keys, shorten_value
from evalplugin.tracking.write.items import Metric, Tag

__all__ = ["difference_metrics", "finite_metrics", "model_metrics", "summary_metrics"]


def model_metrics(bakeoff: Bakeoff, result: ModelResult, cells: Mapping[str, Cell]) -> Iterator[Metric | Tag]:
    """Yield every metric of a model's run, and a tag with the keys of those that are undefined."""
    metrics = list(_model_metrics(bakeoff, result, cells))
    yield from finite_metrics(metrics)
    if left_out := dict.fromkeys(m.key for m in metrics if not math.isfinite(m.value)):
        yield Tag("evalplugin.left_out", ", ".join(left_out)[:MAX_TAG])


def finite_metrics(metrics: Iterable[Metric]) -> Iterator[Metric]:
    """Yield the metrics that can be logged: NaN and infinity break MLflow's filters, so their number is logged."""
    left_out = 0
    for metric in metrics:
        if math.isfinite(metric.value):
            yield metric
        else:
            left_out += 1
    if left_out:
        yield Metric("undefined/values_left_out", left_out)


def _model_metrics(bakeoff: Bakeoff, result: ModelResult, cells: Mapping[str, Cell]) -> Iterator[Metric]:
    names = metric_names(bakeoff.metrics)
    # The most important first: MLflow's run page keeps the order.
    for metric, cell in cells.items():
        yield Metric(names[metric], cell.mean)
    if (primary := cells.get(bakeoff.primary)) is not None:
        yield Metric("users", primary.users)
        yield Metric("users_undefined", primary.undefined)
    yield from _tuning_metrics(result)
    if (costs := result.costs) is not None:
        for cost in ("fit_seconds", "recommend_seconds", "start_seconds", "score_seconds", "peak_memory_mb"):
            yield Metric(f"cost/{cost}", getattr(costs, cost))
    for metric, cell in cells.items():
        if cell.undefined:
            yield Metric(f"undefined/{names[metric]}", cell.undefined)
    for metric, cell in cells.items():
        yield from _spread(names[metric], cell)
    if (scores := result.per_user) is not None:
        curves = metric_names(scores.at_k)
        for family, curve in scores.at_k.items():
            yield from (Metric(f"at_k/{curves[family]}", value, k) for k, value in sorted(curve.items()))
        precision = sorted(scores.pr_curve.items())
        yield from (Metric("pr_curve/precision", value, percent) for percent, value in precision)
    if len(result.fold_means) > 1:
        for fold, means in enumerate(result.fold_means, start=1):
            yield from (Metric(f"fold/{names[m]}", v, fold) for m, v in means.items() if m in names)
    for seed, means in enumerate(result.seed_means, start=1):
        yield from (Metric(f"seed/{names[m]}", v, seed) for m, v in means.items() if m in names)
    for metric, cell in cells.items():
        if cell.seeds is not None:
            yield Metric(f"seed_sd/{names[metric]}", cell.seeds.sd)
        if math.isfinite(cell.seed_share):
            yield Metric(f"seed_share/{names[metric]}", cell.seed_share)
    yield from _segment_metrics(bakeoff, result)


def _tuning_metrics(result: ModelResult) -> Iterator[Metric]:
    """Yield the metrics of how a model was tuned; none where it was not."""
    if (tuning := result.tuning) is None:
        return
    yield Metric("tune/validation", tuning.validation)
    yield Metric("tune/defaults", tuning.defaults)
    if result.error is None:
        yield Metric("tune/optimism", result.optimism)
    for state in ("done", "dropped", "failed"):
        yield Metric(f"tune/trials_{state}", tuning.count(state))
    yield Metric("tune/seconds", tuning.seconds)


def _spread(name: str, cell: Cell) -> Iterator[Metric]:
    """Yield the interval and the distribution of a metric; nothing where no user has a value."""
    if (s := cell.summary) is None or not s.n:
        return
    yield Metric(f"ci/{name}.low", cell.low)
    yield Metric(f"ci/{name}.high", cell.high)
    for part in ("p10", "p50", "p90", "std", "zero_share"):
        yield Metric(f"dist/{name}.{part}", getattr(s, part))
    for percentile, value in enumerate(s.quantiles):
        yield Metric(f"per_user_quantile/{name}", float(value), percentile)


def _segment_metrics(bakeoff: Bakeoff, result: ModelResult) -> Iterator[Metric]:
    """Yield the primary metric's mean in each group of users, and the number of users it is over."""
    name = metric_names(bakeoff.metrics)[bakeoff.primary]
    # The separator is in neither name, so that all are different.
    scores = {
        f"{segment}\0{label}": values
        for segment, groups in result.by_group(bakeoff.primary).items()
        for label, values in groups.items()
    }
    for group, key in model_keys(scores).items():
        # All below one prefix: MLflow's page makes a section of each, and there are many groups.
        yield Metric(f"segment/users.{key}", len(scores[group]))
        if len(scores[group]):
            yield Metric(
                shorten_value(f"segment/{name}.{key}", MAX_KEY_LENGTH), mean_of_defined(scores[group])
            )


def difference_metrics(bakeoff: Bakeoff, row: ComparedModel) -> Iterator[Metric]:
    """Yield a model's paired differences from the baseline, for its own run."""
    names = metric_names(bakeoff.metrics)
    return finite_metrics(
        value
        for metric, cell in row.cells.items()
        for value in _difference(f"vs_baseline/{names[metric]}", cell)
    )


def summary_metrics(bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Metric]:
    """Yield the metrics of the summary run: the number of models, and every model's paired differences."""
    names = metric_names(bakeoff.metrics)
    rows = {bakeoff.run_name(c.contest, row.model): row for c in comparisons for row in c.models}
    keys = model_keys(rows)
    yield Metric("models", len(rows))
    yield Metric("models_failed", sum(row.error is not None for row in rows.values()))
    yield from finite_metrics(
        value
        for run_name, row in rows.items()
        for metric, cell in row.cells.items()
        for value in _difference(f"diff/{names[metric]}/{keys[run_name]}", cell)
    )


def _difference(key: str, cell: Cell) -> Iterator[Metric]:
    if (pair := cell.difference) is None:
        return
    interval = pair.paired.interval
    yield Metric(key, interval.mean)
    yield Metric(f"{key}.low", interval.low)
    yield Metric(f"{key}.high", interval.high)
    yield Metric(f"{key}.p", pair.p)
    yield Metric(f"{key}.p_holm", pair.p_holm)
