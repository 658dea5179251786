"""A gate's decision on logged models, logged on the run of their summary or on one of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.comparison.gate import Decision
from evalplugin.report.markdown import decision_markdown
from evalplugin.tracking.connection import existing_store, tracking_call
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import bakeoff_of, find_runs, search_runs
from evalplugin.tracking.write.items import Artifact, Tag
from evalplugin.tracking.write.writer import RunWriter, redact_text

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["DECISION", "decision_files", "decision_tags", "log_decision", "run_ids"]

DECISION = "decision.json"


def log_decision(tracking_uri: str | None, decision: Decision, run_ids: Sequence[str]) -> str:
    """Log a decision on logged models and return a message with the run that has it.

    It is the summary run of their bake-off; or a new run with the role ``decision`` beside them, where they are of
    several bake-offs, where there is no summary, or where that has another decision, which may have registered a model.

    Raises:
        TrackingError: The store cannot be reached or refuses.
    """
    note = ""
    with existing_store(tracking_uri, "log the decision") as client:
        if (summary := _summary_of(client, run_ids)) is not None:
            run_id = summary.id
            if not summary.tag("outcome"):
                _log(RunWriter(client, summary.experiment_id), run_id, decision)
                return _logged_on(run_id)
            if _has(client, run_id, decision):
                return f"the run {run_id} has this decision already"
            note = f"; the summary run {run_id} keeps the decision that it has"
        writer = RunWriter(client, client.get_run(run_ids[0]).info.experiment_id)
        decided = bakeoff_of([LoggedRun(client, client.get_run(run_id)) for run_id in run_ids])
        tags = [Tag("evalplugin.role", "decision"), Tag("evalplugin.decided_bakeoff", decided)]
        run_id = writer.start(f"decision {decision.contest}", tags)
        try:
            _log(writer, run_id, decision)
        except BaseException:
            with suppress(TrackingError), tracking_call(client.tracking_uri, "end the run of the decision"):
                writer.end(run_id, "FAILED")
            raise
        writer.end(run_id, "FINISHED")
    return _logged_on(run_id) + note


def run_ids(tracking_uri: str | None, run: str) -> tuple[str, ...]:
    """Return the ids of the runs that an id, a run's name or a model's name stands for: one a dataset and split.

    Raises:
        DataError: There is none.
        TrackingError: The store cannot be reached.
    """
    with existing_store(tracking_uri, f"find the run {run}") as client:
        return tuple(found.id for found in find_runs(client, runs=[run]).runs)


def _log(writer: RunWriter, run_id: str, decision: Decision) -> None:
    writer.log(run_id, decision_files(decision))
    writer.log(run_id, decision_tags(decision))  # last: a run with these tags has a decision


def _logged_on(run_id: str) -> str:
    return f"logged on the run {run_id}: decision.md, decision.json"


def _has(client: MlflowClient, run_id: str, decision: Decision) -> bool:
    """Return whether a run has the same decision, with or without the same notes and decisions before it."""
    if DECISION not in {file.path for file in client.list_artifacts(run_id)}:
        return False
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
        logged = Path(client.download_artifacts(run_id, DECISION, folder)).read_text("utf-8")
    given = redact_text(DECISION, decision.to_json())
    try:
        first, second = (replace(Decision.from_json(text), notes=(), budget=None) for text in (logged, given))
    except DataError:  # of another version
        return False
    return first == second


def _summary_of(client: MlflowClient, run_ids: Sequence[str]) -> LoggedRun | None:
    runs = [LoggedRun(client, client.get_run(run_id)) for run_id in run_ids]
    bakeoffs = {(run.experiment_id, run.bakeoff) for run in runs}
    if len(bakeoffs) > 1:
        return None
    ((experiment, bakeoff),) = bakeoffs
    query = f"tags.`evalplugin.role` = 'summary' and tags.`evalplugin.bakeoff` = '{bakeoff}'"
    return next(iter(search_runs(client, [experiment], query, limit=1)), None)


def decision_tags(decision: Decision) -> Iterator[Tag]:
    """Yield the outcome of a decision and the data it was made on; ``promoted`` is empty where no model was."""
    yield Tag("evalplugin.outcome", decision.outcome)
    yield Tag("evalplugin.champion", decision.champion)
    yield Tag("evalplugin.promoted", decision.promoted or "")
    yield Tag("evalplugin.decided_dataset", decision.dataset)
    yield Tag("evalplugin.decided_split", decision.split)
    yield Tag("evalplugin.reason", decision.reason)
    if decision.budget is not None:
        yield Tag("evalplugin.decisions", str(decision.budget.decisions))
        yield Tag("evalplugin.decisions_left", str(decision.decisions_left))
        # What a later decision reads; repr is read back to the last bit.
        yield Tag("evalplugin.error_spent", repr(decision.error_spent))


def decision_files(decision: Decision) -> Iterator[Artifact]:
    """Yield a decision for people and for programs."""
    yield Artifact("decision.md", decision_markdown(decision))
    yield Artifact(DECISION, decision.to_json())
