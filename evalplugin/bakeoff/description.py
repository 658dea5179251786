"""The description of a bake-off, as its runs in MLflow have it."""

from __future__ import annotations

from collections.abc import Mapping

from evalplugin.config import CheckedConfig
from evalplugin.execution.results import Bakeoff, new_id
from evalplugin.metrics import definitions_hash

__all__ = ["describe_bakeoff"]


def describe_bakeoff(config: CheckedConfig, experiment: str, inputs: Mapping[str, str]) -> Bakeoff:
    """Return the description of a bake-off that is about to run, under a new id."""
    spec, recommend = config.spec, config.spec.recommend
    candidates: str = recommend.candidates
    if recommend.negatives is not None:
        candidates += f", {recommend.negatives} negatives, seed {spec.seed}"
    return Bakeoff(
        id=new_id(),
        experiment=experiment,
        inputs=inputs,
        seed=spec.seed,
        seeds=spec.seeds,
        n=recommend.n,
        candidates=candidates,
        ties=recommend.ties,
        cold_users=recommend.cold_users,
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
