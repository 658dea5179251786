"""A decision on the run of a bake-off's summary, or on one of its own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.gate import Decision
from evalplugin.redaction import redact, redact_values
from evalplugin.report.decision_text import decision_markdown
from evalplugin.tracking.artifacts import text_file, write
from evalplugin.tracking.connection import connect_to_existing, talking
from evalplugin.tracking.find import find_runs
from evalplugin.tracking.labels import cut
from evalplugin.tracking.location import resolve_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["decision_files", "decision_tags", "log_decision", "run_ids"]


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
    plain = redact_values(json.loads(decision.to_json()))
    texts = {
        "decision.md": redact(decision_markdown(decision)),
        "decision.json": json.dumps(plain, indent=2, ensure_ascii=False),
    }
    return {name: text_file(text) for name, text in texts.items()}


def log_decision(tracking_uri: str | None, decision: Decision, run_ids: Sequence[str]) -> str:
    """Log a decision on logged models and return the id of the run that has it.

    It is the summary run of their bake-off, where an earlier decision is replaced; or, where they are of several
    bake-offs or it has no summary, a new run with the role ``decision`` beside them.

    Raises:
        TrackingError: The store cannot be reached or refuses.
    """
    uri = resolve_uri(tracking_uri)
    client = connect_to_existing(uri)
    with talking(uri, "log the decision"):
        run_id = _summary_of(client, run_ids)
        own = run_id is None
        if run_id is None:
            home = client.get_run(run_ids[0]).info.experiment_id
            made = client.create_run(
                home, tags={"evalplugin.role": "decision"}, run_name=f"decision {decision.contest}"
            )
            run_id = str(made.info.run_id)
        for key, value in decision_tags(decision).items():
            client.set_tag(run_id, key, value)
        with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
            write(decision_files(decision), Path(folder))
            client.log_artifacts(run_id, folder)
        if own:
            client.set_terminated(run_id)
    return run_id


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


def _summary_of(client: MlflowClient, run_ids: Sequence[str]) -> str | None:
    runs = [client.get_run(run_id) for run_id in run_ids]
    bakeoffs = {(run.info.experiment_id, run.data.tags.get("evalplugin.bakeoff", "")) for run in runs}
    if len(bakeoffs) > 1:
        return None
    ((home, bakeoff),) = bakeoffs
    query = f"tags.`evalplugin.role` = 'summary' and tags.`evalplugin.bakeoff` = '{bakeoff}'"
    found = client.search_runs([home], query, max_results=1, order_by=["attributes.start_time DESC"])
    return str(found[0].info.run_id) if found else None
