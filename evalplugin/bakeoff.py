"""The whole flow: a checked config is run, and every result is logged as soon as it is there."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.config import CheckedConfig
from evalplugin.metrics import definitions_hash
from evalplugin.results import Bakeoff, BakeoffResult, ModelResult
from evalplugin.runner import Observer, Prepared, Silent, prepare, run_model

if TYPE_CHECKING:
    from evalplugin.tracking import Links, MlflowTracker

__all__ = ["Outcome", "describe_bakeoff", "run_bakeoff"]


@dataclass(frozen=True)
class Outcome:
    """A bake-off's results, and where they can be looked at."""

    result: BakeoffResult
    links: Links


def describe_bakeoff(config: CheckedConfig, *, experiment: str | None = None) -> Bakeoff:
    """Return all that is known of a bake-off before it runs, under a new id."""
    spec = config.spec
    return Bakeoff(
        id=f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}",
        experiment=experiment or spec.experiment,
        seed=spec.seed,
        n=spec.recommend.n,
        candidates=spec.recommend.candidates,
        threshold=spec.relevance.threshold,
        metrics=tuple(metric.name for metric in config.metrics),
        primary=config.primary.name,
        baseline=spec.compare.baseline,
        models=tuple(model.name for model in config.models),
        config_name=config.name,
        config_text=config.text,
        config_resolved=config.resolved_yaml,
        config_dir=str(config.folder),
        config_hash=config.hash,
        metrics_hash=definitions_hash(config.metrics),
        datasets=tuple(dataset.name for dataset in config.datasets),
        splits=tuple(split.name for split in config.splits),
    )


def run_bakeoff(
    config: CheckedConfig,
    *,
    data_home: Path | None = None,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    observer: Observer | None = None,
) -> Outcome:
    """Return what came of a bake-off: every model on every dataset under every split, logged to MLflow.

    Args:
        config: What ``evalplugin.config.load`` returned.
        data_home: Where datasets are looked for before they are downloaded.
        tracking_uri, experiment: Win over the config's.
        observer: Hears of progress; None: nobody does.

    Raises:
        DataError: Data that is missing or breaks a rule; nothing has been fitted.
        TrackingError: The tracking store cannot be reached; nothing has been fitted.
    """
    observer = observer or Silent()
    prepared = prepare(config, data_home, observer)
    bakeoff = describe_bakeoff(config, experiment=experiment)
    from evalplugin.tracking import MlflowTracker

    with observer.work("open the tracking store"):
        tracker = MlflowTracker.open(bakeoff, tracking_uri or config.spec.tracking.uri)
    try:
        return _run(config, bakeoff, prepared, tracker, observer)
    except BaseException:
        # Ctrl-C and SIGTERM included: no run may stay RUNNING for ever.
        tracker.abort()
        raise


def _run(
    config: CheckedConfig,
    bakeoff: Bakeoff,
    prepared: list[Prepared],
    tracker: MlflowTracker,
    observer: Observer,
) -> Outcome:
    results: list[ModelResult] = []
    runs: list[str] = []
    for one in prepared:
        for model in config.models:
            run_id = tracker.start_model(one.info, model.name, model.type)
            result = run_model(config, one, model, observer)
            with observer.work(f"log {model.name}"):
                tracker.finish_model(run_id, result)
            results.append(result)
            runs.append(run_id)
            observer.say(f"[{len(results)} of {len(prepared) * len(config.models)}] {_line(result)}")
    with observer.work("log the bake-off"):
        whole = BakeoffResult(bakeoff, tuple(results))
        links = tracker.finish_bakeoff(whole, runs, board=config.spec.tracking.board)
    return Outcome(whole, links)


def _line(result: ModelResult) -> str:
    if result.error is not None:
        return f"{result.model}: FAILED: {result.failure}"
    assert result.costs is not None
    costs = result.costs
    return (
        f"{result.model}: fit {costs.fit_seconds:.2f} s, recommend {costs.recommend_seconds:.2f} s, "
        f"score {costs.score_seconds:.2f} s"
    )
