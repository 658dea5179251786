"""Logging scored lists from other systems: an MLflow run, as a model's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evalplugin.data import Interactions
from evalplugin.lists.catalogue import interactions_alone
from evalplugin.lists.columns import PairColumns, Role
from evalplugin.lists.folds import by_fold
from evalplugin.lists.job import ListJob
from evalplugin.lists.logs import Log
from evalplugin.lists.scores import ListScores
from evalplugin.metrics import MetricSpec
from evalplugin.tracking.write.lists import ScoredLists, log_lists


def log_scored_lists(
    job: ListJob,
    scores: ListScores,
    specs: Sequence[MetricSpec],
    *,
    name: str,
    experiment: str,
    tracking_uri: str | None,
) -> dict[str, str]:
    """Log the scores of files of lists as an MLflow run; return links to it by label.

    Args:
        job: The files.
        scores, specs: The scores and their metrics.
        name: Name of the run.
        experiment: Name of the MLflow experiment.
        tracking_uri: The store; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.
    """
    asked = {
        "lists": job.lists,
        "truth": job.truth,
        "train": job.train,
        "pool": job.pool,
        "metrics": [spec.name for spec in specs],
        "threshold": job.relevance.threshold,
        "input_format": job.format,
        "truth_format": None if job.truth_format == "auto" else job.truth_format,
        "unit": None if job.unit == "user" else job.unit,
        "duplicates": None if job.duplicates == "error" else job.duplicates,
        "columns": {key: value for key, value in vars(job.columns).items() if value is not None},
    }
    given = {key: value for key, value in asked.items() if value is not None}
    lists = ScoredLists(
        name=name,
        scores=scores.scores,
        metrics=specs,
        relevance=job.relevance,
        folds=tuple(_folds(job)),
        fold_means=scores.fold_means,
        asked=given,
        origin="score",
        dataset=job.truth,
        data={key: given[key] for key in ("lists", "truth", "train", "pool") if key in given},
    )
    return log_lists(lists, experiment=experiment, tracking_uri=tracking_uri)


def _folds(job: ListJob) -> list[tuple[Interactions | None, Interactions]]:
    """Return the train data and the truth of each fold, each read alone."""

    def read(role: Role, source: Any) -> Interactions:
        return interactions_alone(PairColumns.read_all(source, role, job.columns))

    if (log := Log.of(job.truth)) is not None:
        return [(None, log.load())]
    return [
        (None if fold["train"] is None else read("train", fold["train"]), read("truth", fold["truth"]))
        for fold in by_fold(job.sources, job.columns)
    ]
