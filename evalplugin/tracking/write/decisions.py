"""A decision on the run of a bake-off's summary, or on one of its own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.base.secrets import redact, redact_values
from evalplugin.comparison.gate import Decision
from evalplugin.report.decision_text import decision_markdown
from evalplugin.tracking.connection import connect_to_existing, talking
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.read.runs import find_runs
from evalplugin.tracking.write.artifacts import text_file, write
from evalplugin.tracking.write.labels import cut

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["LoggedDecision", "decision_files", "decision_tags", "log_decision", "run_ids"]

_JSON = "decision.json"


@dataclass(frozen=True)
class LoggedDecision:
    """Which run has a decision."""

    run_id: str
    is_new: bool = True  # False: it had this very decision already
    summary_run_id: str | None = None  # the summary run, where that has another decision

    @property
    def words(self) -> str:
        """Where the decision is, for people."""
        if not self.is_new:
            return f"the run {self.run_id} has this decision already"
        kept = f"; the summary run {self.summary_run_id} keeps the decision that it has"
        where = f"logged on the run {self.run_id}: decision.md, decision.json"
        return where if self.summary_run_id is None else where + kept


def decision_tags(decision: Decision) -> dict[str, str]:
    """Return the tags that say what was decided, and where; ``promoted`` is empty where nobody was."""
    return {
        "evalplugin.outcome": decision.outcome,
        "evalplugin.champion": decision.champion,
        "evalplugin.promoted": decision.promoted or "",
        "evalplugin.decided_dataset": decision.dataset,
        "evalplugin.decided_split": decision.split,
        "evalplugin.reason": cut(redact(decision.reason)),
    }


def decision_files(decision: Decision) -> dict[str, Callable[[Path], None]]:
    """Return what writes ``decision.md`` and ``decision.json``, without credentials."""
    texts = {"decision.md": redact(decision_markdown(decision)), _JSON: _json_text(decision)}
    return {name: text_file(text) for name, text in texts.items()}


def log_decision(tracking_uri: str | None, decision: Decision, run_ids: Sequence[str]) -> LoggedDecision:
    """Log a decision on logged models and return which run has it.

    It is the summary run of their bake-off; or a new run with the role ``decision`` beside them, where they are of
    several bake-offs, where there is no summary, or where that has another decision, which may have registered a model.

    Raises:
        TrackingError: The store cannot be reached or refuses.
    """
    uri = resolve_uri(tracking_uri)
    client = connect_to_existing(uri)
    with talking(uri, "log the decision"):
        summary = _summary_of(client, run_ids)
        if summary is not None and "evalplugin.outcome" not in summary.data.tags:
            _log(client, summary.info.run_id, decision)
            return LoggedDecision(summary.info.run_id)
        kept = None if summary is None else str(summary.info.run_id)
        if kept is not None and _has(client, kept, decision):
            return LoggedDecision(kept, is_new=False)
        home = client.get_run(run_ids[0]).info.experiment_id
        tags, name = {"evalplugin.role": "decision"}, f"decision {decision.contest}"
        run_id = str(client.create_run(home, tags=tags, run_name=name).info.run_id)
        try:
            _log(client, run_id, decision)
        except BaseException:
            with suppress(TrackingError), talking(uri, "end the run of the decision"):
                client.set_terminated(run_id, "FAILED")
            raise
        client.set_terminated(run_id)
    return LoggedDecision(run_id, summary_run_id=kept)


def run_ids(tracking_uri: str | None, run: str) -> tuple[str, ...]:
    """Return the ids of the runs that an id, a run's name or a model's name stands for: one a dataset and split.

    Raises:
        DataError: There is none.
        TrackingError: The store cannot be reached.
    """
    uri = resolve_uri(tracking_uri)
    client = connect_to_existing(uri)
    with talking(uri, f"find the run {run}"):
        found = find_runs(client, redact(uri), bakeoff=None, runs=[run], experiment=None)
    return tuple(str(one.info.run_id) for one in found.runs)


def _log(client: MlflowClient, run_id: str, decision: Decision) -> None:
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
        write(decision_files(decision), Path(folder))
        client.log_artifacts(run_id, folder)
    # Last: by them one sees that the run has a decision.
    for key, value in decision_tags(decision).items():
        client.set_tag(run_id, key, value)


def _json_text(decision: Decision) -> str:
    plain = redact_values(json.loads(decision.to_json()))
    return json.dumps(plain, indent=2, ensure_ascii=False)


def _has(client: MlflowClient, run_id: str, decision: Decision) -> bool:
    """Return whether a run has this very decision, whatever was noted on the way to it."""
    if _JSON not in {file.path for file in client.list_artifacts(run_id)}:
        return False
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
        text = Path(client.download_artifacts(run_id, _JSON, folder)).read_text("utf-8")
    try:
        found, this = (replace(Decision.from_json(one), notes=()) for one in (text, _json_text(decision)))
    except DataError:  # of another version
        return False
    return found == this


def _summary_of(client: MlflowClient, run_ids: Sequence[str]) -> Run | None:
    runs = [client.get_run(run_id) for run_id in run_ids]
    bakeoffs = {(run.info.experiment_id, run.data.tags.get("evalplugin.bakeoff", "")) for run in runs}
    if len(bakeoffs) > 1:
        return None
    ((home, bakeoff),) = bakeoffs
    query = f"tags.`evalplugin.role` = 'summary' and tags.`evalplugin.bakeoff` = '{bakeoff}'"
    found = client.search_runs([home], query, max_results=1, order_by=["attributes.start_time DESC"])
    return found[0] if found else None
