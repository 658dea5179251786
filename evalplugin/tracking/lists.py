"""One MLflow run for lists made elsewhere, by the same contract as a model's run."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from evalplugin.data import Interactions
from evalplugin.metrics import MetricSpec, definitions_hash
from evalplugin.results import Bakeoff, DataInfo, ModelResult
from evalplugin.scoring import PerUserScores
from evalplugin.tracking.location import ui_base_url, ui_command
from evalplugin.tracking.mlflow_tracker import MlflowTracker

__all__ = ["log_lists"]


def log_lists(
    scores: PerUserScores,
    *,
    name: str,
    asked: Mapping[str, object],
    metrics: Sequence[MetricSpec],
    n: int,
    threshold: float | None,
    truth: Interactions,
    train: Interactions | None,
    experiment: str,
    tracking_uri: str | None = None,
) -> dict[str, str]:
    """Return where the new run can be looked at: ``store``, ``run`` and, where something must be started, ``look``.

    Args:
        scores: What came out, with curves in ``at_k``.
        name: What the run and its model are called.
        asked: The options of the command, plain values, as they are logged.
        metrics: What was computed; the first one is the primary metric.
        n: Length of the longest list.
        threshold: Ratings from it on were relevant.
        truth, train: The data.
        experiment, tracking_uri: Where to log.

    Raises:
        TrackingError: The store cannot be reached or used.
    """
    text = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in asked.items())
    bakeoff = Bakeoff(
        id=f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}",
        experiment=experiment,
        seed=0,
        n=n,
        candidates="as listed",
        threshold=threshold,
        metrics=tuple(spec.name for spec in metrics),
        primary=metrics[0].name,
        baseline=None,
        models=(name,),
        config_name="score",
        config_text=text,
        config_resolved=text,
        config_dir=str(Path.cwd()),
        config_hash=hashlib.sha256(text.encode()).hexdigest(),
        metrics_hash=definitions_hash(metrics),
        datasets=("lists",),
    )
    info = DataInfo(
        dataset=str(asked.get("truth", "lists")),
        type="files",
        params={key: asked[key] for key in ("lists", "truth", "train") if asked.get(key) is not None},
        split="",
        split_type="given",
        split_params={},
        full=truth,
        train=train,
        test=truth,
        n_folds=1,
        counts={"test_users": truth.n_users, "test_interactions": len(truth)},
    )
    tracker = MlflowTracker.open(bakeoff, tracking_uri)
    try:
        run_id = tracker.start_model(info, name, "lists")
        path = tracker.finish_alone(run_id, ModelResult(info, name, "lists", {}, per_user=scores))
    except BaseException:
        tracker.abort()  # no run may stay RUNNING for ever
        raise
    links = {"store": tracker.uri, "run": ui_base_url(tracker.uri) + path}
    command = ui_command(tracker.uri)
    return links if command is None else {**links, "look": command}
