"""Logging the comparison of a table of scores as a bake-off: a run for each model, and a summary run."""

from __future__ import annotations

from collections.abc import Mapping

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.comparison.comparison import compare
from evalplugin.comparison.contest import Contest
from evalplugin.execution.results import ModelResult, Scored
from evalplugin.features.history.feature import past_of, trend_section
from evalplugin.tracking.connection import tracking_call
from evalplugin.tracking.names import metric_names
from evalplugin.tracking.write.board import Links
from evalplugin.tracking.write.contents import page_artifact
from evalplugin.tracking.write.lists import plan_from_elsewhere
from evalplugin.tracking.write.tracker import MlflowTracker

_EXPERIMENT = "scores"
_ID = "user"  # the column of units in the files of a run


def log_scores(
    contest: Contest,
    asked: Mapping[str, object],
    *,
    experiment: str | None = None,
    tracking_uri: str | None = None,
) -> Links:
    """Log the models of a table of scores as a bake-off, compared as every bake-off is; return the links.

    Args:
        contest: From ``read_scores``.
        asked: Where the scores come from, and the options of the comparison: plain values.
        experiment: Name of the MLflow experiment; None: ``scores``.
        tracking_uri: The store; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.

    Raises:
        DataError: A metric or a group of units has the name of the column of
            units, MLflow refuses the name of a metric, or there are too many metrics.
        TrackingError: The store cannot be reached or used.
    """
    _check_names(contest)
    experiment = _EXPERIMENT if experiment is None else experiment
    table = Scored(
        dataset=contest.dataset,
        type="scores",
        params={key: asked[key] for key in ("scores", "runs") if key in asked},
        units=contest.units,
        notes=contest.notes,
        segments=contest.segments,
    )
    plan = plan_from_elsewhere(
        asked,
        "compare_scores",
        experiment=experiment,
        metrics=list(contest.given.values()),
        models=[model.model for model in contest.models],
        dataset=contest.dataset,
        primary=contest.primary,
        baseline=contest.baseline,
        seed=contest.seed,
        given=contest.given,
    )
    results = tuple(
        ModelResult(table, model.model, model.model, {}, per_user=model.scores) for model in contest.models
    )
    with MlflowTracker.open(plan, tracking_uri) as tracker:
        comparison = compare(contest, pairs=contest.pairing)
        for result in results:
            tracker.start_model(table, result.model, result.type)
            tracker.finish_model(result)
        with tracking_call(tracker.uri, "read the bake-offs before"):
            past = past_of(tracker.client, tracker.experiment_id)
        sections = [trend_section(lambda: past)]
        return tracker.finish_bakeoff(
            results,
            [comparison],
            sections=sections,
            items=[page_artifact([comparison], sections)],
        )


def _check_names(contest: Contest) -> None:
    """Refuse names that MLflow or the files of a run cannot have."""
    for noun, names in (("metric", contest.given), ("segment", [s.name for s in contest.segments])):
        if _ID in names:
            raise DataError(
                f"{contest.dataset}: a {noun} that is logged cannot be called {_ID!r}, as the column of units is "
                f"called so in the files of every run: rename the column"
            )
    try:
        metric_names(contest.given)
    except TrackingError as error:  # the names are the table's
        raise DataError(f"{contest.dataset}: {error}; rename the column") from None
