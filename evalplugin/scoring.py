"""Lists x truth -> every user's scores -> summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.data.interactions import Interactions
from evalplugin.errors import DataError
from evalplugin.metrics import Blocks, MetricSpec, OverallMetric, ScoringContext, UserMetric
from evalplugin.models.topn import TopN

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Counts", "PerUserScores", "Summary", "average_folds", "score_top_n", "summarise"]


class Counts(NamedTuple):
    """How many users a metric is defined for, and how many it is not."""

    users: int
    undefined: int


@dataclass(frozen=True, eq=False)
class PerUserScores:
    """One row a user, one float64 column a metric; NaN means undefined for that user, never zero.

    ``users`` (U,) raw ids; ``values`` float64 (U, M); ``metrics`` canonical names of the M columns.
    ``overall`` holds the metrics that are one number a model (``coverage@10``), by canonical name. ``at_k``
    holds the curve of each metric family over the cutoff: ``{"ndcg": {1: 0.1, 2: 0.15, ...}}``, means.
    """

    users: npt.NDArray[np.generic]
    values: npt.NDArray[np.float64]
    metrics: tuple[str, ...]
    overall: Mapping[str, float] = field(default_factory=dict)
    at_k: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    def column(self, metric: str) -> npt.NDArray[np.float64]:
        """Return one metric's value for every user: float64 (U,), NaN where undefined."""
        return self.values[:, self.metrics.index(metric)]

    @cached_property
    def means(self) -> dict[str, float]:
        """Each metric's mean over the users it is defined for, NaN without any; overall metrics as they are."""
        means = {name: _mean(self.column(name)) for name in self.metrics}
        return {**means, **self.overall}

    @cached_property
    def counts(self) -> dict[str, Counts]:
        """For each metric of ``metrics``, how many users it is defined and undefined for."""
        undefined = np.isnan(self.values).sum(axis=0).tolist()
        return {n: Counts(len(self.users) - u, u) for n, u in zip(self.metrics, undefined, strict=True)}

    def to_frame(self) -> pd.DataFrame:
        """Return the scores as a DataFrame indexed by raw user id, one column a metric."""
        import pandas as pd

        return pd.DataFrame(self.values, index=pd.Index(self.users, name="user"), columns=list(self.metrics))


def score_top_n(
    top_n: TopN,
    truth: Interactions,
    train: Interactions | None,
    metrics: Sequence[MetricSpec],
    *,
    threshold: float | None,
    predictions: npt.NDArray[np.floating[Any]] | None = None,
    curve_ks: Sequence[int] = (),
) -> PerUserScores:
    """Return the scores of everybody who has a list or a truth, by raw user id in the order of codes.

    A user with relevant truth but without a list scores 0; a user without relevant truth is undefined (NaN)
    for every ranking metric, whatever the list, so that all models are averaged over the same users. A cutoff
    beyond the lists' length counts the missing places as misses.

    Args:
        top_n: The lists, as codes into the truth's vocabularies.
        truth: The held-out interactions; its catalogue is the catalogue.
        train: The train data, on the same vocabularies, for metrics that need it.
        metrics: What to compute; no metric twice.
        threshold: Ratings from it on are relevant; None: ratings above 0 are. The gain stays the rating.
        predictions: The model's predicted ratings of the truth's rows, (len(truth),); None for a model that
            predicts none: metrics that need them are then undefined for everybody.
        curve_ks: The cutoffs of ``at_k``, computed for every metric of the list that takes k.

    Raises:
        DataError: A list or a truth with an item twice, unknown codes, predictions of the wrong number or not
            finite, ratings that a metric does not allow, a metric named twice or in need of the train data.
    """
    _check_request(metrics, train, curve_ks)
    blocks = Blocks.of(top_n, truth, train=train, threshold=threshold, predictions=predictions)
    curves = {s.at(None).name: {k: s.at(k) for k in curve_ks} for s in metrics if s.metric.takes_k}
    asked = {s.name: s for s in metrics}
    extra = {s.name: s for curve in curves.values() for s in curve.values() if s.name not in asked}

    columns = {
        name: np.full(len(blocks.user), np.nan) for name, s in asked.items() if s.metric.scope == "user"
    }
    sums = {name: _RunningMean() for name, s in extra.items() if s.metric.scope == "user"}
    states = {
        name: s.metric.start(truth.n_items)
        for name, s in {**asked, **extra}.items()
        if isinstance(s.metric, OverallMetric)
    }
    for place, context in blocks:
        for name, spec in {**asked, **extra}.items():
            k = top_n.n if spec.k is None else spec.k
            if isinstance(spec.metric, OverallMetric):
                spec.metric.update(states[name], context, k)
            elif name in columns:
                columns[name][place] = _per_user(spec, context, k)
            else:
                sums[name].add(_per_user(spec, context, k))

    overall = {n: s.metric.finish(states[n]) for n, s in asked.items() if isinstance(s.metric, OverallMetric)}
    means = {name: _mean(values) for name, values in columns.items()} | overall
    means |= {name: mean.value for name, mean in sums.items()}
    means |= {n: s.metric.finish(states[n]) for n, s in extra.items() if isinstance(s.metric, OverallMetric)}
    return PerUserScores(
        users=truth.users[blocks.user],
        values=np.column_stack(list(columns.values())) if columns else np.empty((len(blocks.user), 0)),
        metrics=tuple(columns),
        overall=overall,
        at_k={name: {k: means[s.name] for k, s in curve.items()} for name, curve in curves.items() if curve},
    )


def average_folds(folds: Sequence[PerUserScores]) -> PerUserScores:
    """Return each user's scores averaged over the folds in which they are defined.

    Users are those of any fold, sorted. Overall metrics and curves are averaged over the folds, every fold
    alike, without those in which they are undefined.

    Raises:
        DataError: No fold, or folds scored by different metrics.
    """
    if not folds:
        raise DataError("there is no fold to average")
    first = folds[0]
    if len(folds) == 1:
        return first
    for number, fold in enumerate(folds):
        if (fold.metrics, set(fold.overall)) != (first.metrics, set(first.overall)):
            raise DataError(
                f"fold {number} was scored by {', '.join([*fold.metrics, *fold.overall])}, "
                f"but fold 0 by {', '.join([*first.metrics, *first.overall])}"
            )
    users, position = np.unique(np.concatenate([fold.users for fold in folds]), return_inverse=True)
    total = np.zeros((len(users), len(first.metrics)))
    defined = np.zeros_like(total)
    start = 0
    for fold in folds:  # a user stands once in a fold, so plain indexing adds each row once
        rows = position[start : start + len(fold.users)]
        start += len(fold.users)
        total[rows] += np.nan_to_num(fold.values)
        defined[rows] += ~np.isnan(fold.values)
    return PerUserScores(
        users=users,
        values=np.divide(total, defined, out=np.full_like(total, np.nan), where=defined > 0),
        metrics=first.metrics,
        overall={name: _mean(np.array([f.overall[name] for f in folds])) for name in first.overall},
        at_k={
            name: {k: _mean(np.array([f.at_k[name][k] for f in folds])) for k in curve}
            for name, curve in first.at_k.items()
        },
    )


@dataclass(frozen=True, eq=False)
class Summary:
    """How a metric's values are spread over the users it is defined for; NaN where these are too few."""

    n: int  # users it is defined for
    undefined: int  # users it is not defined for
    mean: float
    std: float  # of the sample: divided by n - 1
    p10: float
    p50: float
    p90: float
    zero_share: float  # share of the defined values that are exactly 0
    quantiles: npt.NDArray[np.float64]  # (101,) at 0, 1, ... 100 percent, linear between values


def summarise(values: npt.NDArray[np.float64]) -> Summary:
    """Return the summary of one metric's values (U,), NaN left out and counted."""
    defined = values[~np.isnan(values)]
    n = len(defined)
    quantiles = np.quantile(defined, np.linspace(0, 1, 101)) if n else np.full(101, np.nan)
    return Summary(
        n=n,
        undefined=len(values) - n,
        mean=_mean(values),
        std=float(defined.std(ddof=1)) if n > 1 else float("nan"),
        p10=float(quantiles[10]),
        p50=float(quantiles[50]),
        p90=float(quantiles[90]),
        zero_share=float(np.count_nonzero(defined == 0) / n) if n else float("nan"),
        quantiles=quantiles,
    )


class _RunningMean:
    """The mean of the defined values of many blocks."""

    def __init__(self) -> None:
        self.total, self.n = 0.0, 0

    def add(self, values: npt.NDArray[np.float64]) -> None:
        defined = values[~np.isnan(values)]
        self.total += float(defined.sum())
        self.n += len(defined)

    @property
    def value(self) -> float:
        return self.total / self.n if self.n else float("nan")


def _mean(values: npt.NDArray[np.float64]) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _per_user(spec: MetricSpec, context: ScoringContext, k: int) -> npt.NDArray[np.float64]:
    if "predictions" in spec.metric.needs and context.predictions is None:
        return np.full(context.n_users, np.nan)
    assert isinstance(spec.metric, UserMetric)
    values = spec.metric(context, k)
    if values.shape != (context.n_users,) or values.dtype != np.float64:
        raise DataError(
            f"metric {spec.name} must return float64 ({context.n_users},), one value a user, "
            f"not {values.dtype} {values.shape}"
        )
    return values


def _check_request(
    metrics: Sequence[MetricSpec], train: Interactions | None, curve_ks: Sequence[int]
) -> None:
    names = [spec.name for spec in metrics]
    for position, spec in enumerate(metrics):
        if spec.name in names[:position]:
            raise DataError(f"metric {spec.name} is asked for twice")
        if "train" in spec.metric.needs and train is None:
            raise DataError(f"metric {spec.name} needs the train data")
    for k in curve_ks:
        if k < 1:
            raise DataError(f"a curve's cutoffs start at 1, not at {k}")
