"""Scores of MLflow's own evaluations, row by row: of ``mlflow.models.evaluate`` and ``mlflow.genai.evaluate``."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.base.libraries import pd
from evalplugin.base.text import json_of, shorten
from evalplugin.data.tables import column_problem
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import check_stored_uri, existing_store, is_missing, tracking_call
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.read.runs import pages

# Columns of the table: the run's name, and the input of ``mlflow.genai.evaluate``.
MODEL, INPUTS = "run", "input"
_TABLE = "eval_results_table.json"
_PAGE = 500  # traces a request
_RATINGS = {"yes": 1.0, "no": 0.0}  # as in MLflow's own means


def read_evaluations(
    runs: Sequence[str],
    *,
    unit: str | None = None,
    others: Sequence[str] = (),
    tracking_uri: str | None = None,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the rows of evaluation runs, each run a model, and the names of the metrics that all have.

    The table has a row for each run and input: columns ``MODEL``, the unit (``INPUTS`` where none is named), the
    metrics, and the other columns that are wanted.

    Args:
        runs: Ids of runs.
        unit: Column of the tables of ``mlflow.models.evaluate`` that names the input of a row; None: the inputs that
            ``mlflow.genai.evaluate`` has traced.
        others: Further columns that are wanted, such as a segment; of traces they are names of feedback.
        tracking_uri: The store; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.

    Raises:
        DataError: A run without rows, or without a column, or runs that share no metric.
        TrackingError: The store cannot be reached, or has no such run.
    """
    frames, metrics = [], []
    with existing_store(tracking_uri, "read the evaluations") as client:
        named = [client.get_run(run) for run in dict.fromkeys(runs)]
        names = [run.info.run_name or run.info.run_id for run in named]
        for run, name in zip(named, names, strict=True):
            shown = name if names.count(name) == 1 else f"{name} ({run.info.run_id})"
            frame, own = _rows(client, run, unit, tracking_uri)
            if problem := "; ".join(filter(None, (column_problem(column, [*frame]) for column in others))):
                raise DataError(f"run {shown}: {problem}")
            kept = dict.fromkeys([unit or INPUTS, *own, *others])
            frames.append(frame[[*kept]].assign(**{MODEL: shown}))
            metrics.append(own)
    shared = [metric for metric in metrics[0] if all(metric in own for own in metrics)] if metrics else []
    if not shared:
        each = "; ".join(f"{name}: {', '.join(own)}" for name, own in zip(names, metrics, strict=True))
        raise DataError(f"the runs have no metric of rows in common: {each}")
    return pd.concat(frames, ignore_index=True), tuple(shared)


def _rows(
    client: mlflow.MlflowClient, run: mlflow.entities.Run, unit: str | None, uri: str | None
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a run with all their columns, and the names of its metrics."""
    if unit is None:
        return _of_traces(client, run)
    name, run_id = run.info.run_name, run.info.run_id
    try:
        with (
            tempfile.TemporaryDirectory(prefix="evalplugin-") as folder,
            tracking_call(resolve_uri(uri), f"download {_TABLE} of the run {name}"),
        ):
            check_stored_uri(run.info.artifact_uri, client.tracking_uri)
            frame = _table(Path(client.download_artifacts(run_id, _TABLE, folder)).read_bytes())
    except ValueError as error:
        raise DataError(
            f"run {name} ({run_id}): {_TABLE} is not as mlflow.models.evaluate logs it: {error}"
        ) from None
    except TrackingError as error:
        if not is_missing(error) and not isinstance(error.__cause__, OSError):
            raise
        raise DataError(
            f"run {name} ({run_id}) has no table of mlflow.models.evaluate ({_TABLE}); for runs of "
            f"mlflow.genai.evaluate leave out --unit"
        ) from None
    columns = [*frame]
    if problem := column_problem(unit, columns):
        raise DataError(f"run {name}: {problem}")
    # MLflow logs the mean of right/score as right/mean, and of latency as latency/mean.
    means = {key.removesuffix("/mean") for key in run.data.metrics if key.endswith("/mean")}
    metrics = [column for column in columns if column.removesuffix("/score") in means]
    if not metrics:
        raise DataError(f"run {name} ({run_id}) has no metric with a score of each row")
    renamed = {column: column.removesuffix("/score") for column in metrics}
    return _with_scores(frame.rename(columns=renamed), list(renamed.values()), f"run {name} ({run_id})")


def _table(content: bytes) -> pd.DataFrame:
    """Return the table that ``mlflow.models.evaluate`` has logged.

    Raises:
        ValueError: It is none.
    """
    table = json_of(content)
    try:
        return pd.DataFrame(table["data"], columns=table["columns"], dtype=object)
    except (KeyError, TypeError):
        raise ValueError("it has no lists 'columns' and 'data'") from None


def _with_scores(frame: pd.DataFrame, metrics: list[str], run: str) -> tuple[pd.DataFrame, list[str]]:
    """Return a table with float64 columns of scores, NaN where there is none, and their names.

    Raises:
        DataError: A score is not a finite number.
    """
    for metric in metrics:
        values = frame[metric].tolist()
        scores = [*map(_score, values)]
        for row, (value, score) in enumerate(zip(values, scores, strict=True), start=1):
            if score is None:
                raise DataError(
                    f"{run}: {metric} of row {row} is {shorten(repr(value), 60)}, which is not a finite number"
                )
        frame = frame.assign(**{metric: np.array(scores, dtype=np.float64)})
    return frame, metrics


def _score(value: object) -> float | None:
    """Return a score, NaN for null; None: it is not a finite number."""
    if value is None:
        return math.nan
    return float(value) if isinstance(value, int | float) and not math.isinf(value) else None


def _of_traces(client: mlflow.MlflowClient, run: mlflow.entities.Run) -> tuple[pd.DataFrame, list[str]]:
    """Return a row for each trace of an evaluation, with the feedback that it was given in this run."""
    rows, metrics = [], dict[str, None]()
    evaluated = pages(
        lambda token: client.search_traces(
            locations=[run.info.experiment_id],
            run_id=run.info.run_id,
            include_spans=False,
            max_results=_PAGE,
            page_token=token,
        )
    )
    for trace in chain.from_iterable(evaluated):
        row: dict[str, Any] = {INPUTS: trace.info.request_preview}
        for name, value in _feedback(trace, run.info.run_id):
            if value in _RATINGS and isinstance(value, str):
                value = _RATINGS[value]
            if name in row:
                raise DataError(
                    f"run {run.info.run_name}: {name!r} was assessed twice for the input {row[INPUTS]!r}"
                )
            row[name] = value
            metrics[name] = None
        rows.append(row)
    if not metrics:
        raise DataError(
            f"run {run.info.run_name} ({run.info.run_id}) has no assessments of mlflow.genai.evaluate; for a run of "
            f"mlflow.models.evaluate name the column of its inputs with --unit"
        )
    # By name: scorers run at the same time, so that the order of feedback is chance.
    numeric = [
        m for m in sorted(metrics) if not any(isinstance(row.get(m), str | list | dict) for row in rows)
    ]
    return _with_scores(
        pd.DataFrame(rows, dtype=object), numeric, f"run {run.info.run_name} ({run.info.run_id})"
    )


def _feedback(trace: mlflow.entities.Trace, run_id: str) -> Iterator[tuple[str, object]]:
    """Yield name and value of the valid feedback that a trace was given in a run."""
    for assessment in trace.info.assessments:
        metadata: Mapping[str, str] = assessment.metadata or {}
        if (
            isinstance(assessment, mlflow.entities.Feedback)
            and metadata.get("mlflow.assessment.sourceRunId", run_id) == run_id
            and assessment.valid is not False
        ):
            yield assessment.name, assessment.value
