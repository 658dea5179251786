"""The plan of a bake-off, as its runs in MLflow have it, and the fingerprints of all that decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalplugin.base.fingerprint import fingerprint
from evalplugin.base.secrets import redact
from evalplugin.config import CheckedConfig
from evalplugin.data import FILTERS, SPLITS
from evalplugin.execution.results import Plan, new_id
from evalplugin.execution.runner import PreparedData
from evalplugin.execution.store.versions import code_of, own_code
from evalplugin.metrics import METRICS, definitions_hash
from evalplugin.models import MODELS


def fingerprints_of(
    config: CheckedConfig, prepared: Sequence[PreparedData], experiment: str, tracking: str
) -> dict[str, str]:
    """Return, by part, the fingerprints that must be equal for a bake-off to be resumed; no credentials.

    Args:
        config: The config.
        prepared: The data, whose whole content counts.
        experiment: The name of the experiment.
        tracking: The tracking URI.
    """
    codes = {
        own_code(),
        *(code_of(MODELS.entry(model.type)) for model in config.models),
        *(code_of(METRICS.entry(metric.family)) for metric in config.metrics),
        *(code_of(SPLITS.entry(split.type)) for split in config.splits),
        *(code_of(FILTERS.entry(type)) for dataset in config.datasets for type, _ in dataset.filters),
    }
    for section in config.checked.values():
        codes.update(section.codes())
    return {
        "config": fingerprint([config.hash, *config.deciding("comparison", "groups", "failures").values()]),
        "experiment": experiment,
        "tracking": redact(tracking),
        "data": fingerprint([_data_of(data) for data in prepared]),
        "code": fingerprint(sorted(map(str, codes))),
    }


def _data_of(prepared: PreparedData) -> list[str]:
    info = prepared.info
    groups = [*info.segments, *filter(None, [info.units.column])]
    # A split that draws at random by itself gives other folds each time: such a bake-off must not be resumed.
    folds = [part.digest for fold in prepared.folds for part in (fold.train, fold.test)]
    return [info.full.digest, *folds, *(s.digest for s in groups), *filter(None, [info.pool])]


def inputs_of(config: CheckedConfig, fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Return hashes of the config, the data and the code of a bake-off; each is logged with its runs."""
    deciding = config.deciding("scores", "comparison", "groups", "decision")
    return {"config": fingerprint(deciding), "data": fingerprints["data"], "code": fingerprints["code"]}


def plan_of(config: CheckedConfig, experiment: str, inputs: Mapping[str, str]) -> Plan:
    """Return the plan of a bake-off that is about to run, under a new id."""
    spec, recommend = config.spec, config.spec.recommend
    candidates: str = recommend.candidates
    if recommend.negatives is not None:
        candidates += f", {recommend.negatives} negatives, seed {spec.seed}"
    return Plan(
        id=new_id(),
        experiment=experiment,
        inputs=inputs,
        seed=spec.seed,
        seeds=spec.seeds,
        n=recommend.n,
        candidates=candidates,
        ties=recommend.ties,
        cold_users=recommend.cold_users,
        relevance=spec.relevance,
        metrics=tuple(metric.name for metric in config.metrics),
        primary=config.primary.name,
        baseline=spec.compare.baseline,
        models=tuple(model.name for model in config.models),
        config_name=config.name,
        config_text=config.document.text,
        config_resolved=config.resolved_yaml,
        config_dir=str(config.folder),
        config_hash=config.hash,
        metrics_hash=definitions_hash(config.metrics),
        datasets=tuple(dataset.name for dataset in config.datasets),
        splits=tuple(split.name for split in config.splits),
    )
