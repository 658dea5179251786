"""The parameters, tags and datasets of runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin._version import __version__
from evalplugin.execution.results import (
    DataInfo,
    Finding,
    ModelResult,
    Plan,
    Scored,
)
from evalplugin.metrics import definitions_hash
from evalplugin.metrics.given import plain_metrics
from evalplugin.report.competition import AS_LISTED
from evalplugin.tracking.names import MAX_PARAM, flatten, is_allowed
from evalplugin.tracking.write.items import Dataset, Datum, Item, Param, Tag
from evalplugin.tracking.write.provenance import git_items, process_data, user_name

TABLES = "mlflow.loggedArtifacts"  # files that MLflow's artifact view shows as tables, joined across runs


def model_params(plan: Plan, result: ModelResult) -> tuple[list[Param], list[str]]:
    """Return the parameters of a model's run, and the keys of parameters that are too long for MLflow.

    The latter are in ``config.yaml`` and ``data/config_resolved.yaml`` alone.
    """
    info = result.data
    values: dict[str, Any] = {"model.name": result.model, "model.type": result.type}
    values |= flatten("model", result.params, taken=values)
    data = {
        "data.name": info.dataset,
        "data.type": info.type,
        **{f"data.{name}": size for name, size in info.sizes.items()},
    }
    values |= data | flatten("data", info.params, taken=data)
    if isinstance(info, DataInfo):
        split = {
            "split.name": info.split or info.split_type,
            "split.type": info.split_type,
            "split.folds": info.n_folds,
            **{f"split.{name}": count for name, count in info.counts.items()},
        }
        values |= split | flatten("split", info.split_params, taken=split)
        if info.pool is not None:
            values["eval.pool"] = info.pool
        if info.full.assumed is not None:
            values["eval.assumed"] = info.full.assumed
    if (tuning := result.tuning) is not None:
        values |= flatten("tune", tuning.settings)
        values |= {
            f"tune.space.{key}": json.dumps(space, ensure_ascii=False) for key, space in tuning.space.items()
        }
    params = [*starmap(Param, values.items()), *_evaluation_params(plan, len(result.seed_means) or 1)]
    return list(filter(_fits, params)), [param.key for param in params if not _fits(param)]


def summary_params(plan: Plan) -> Iterator[Param]:
    """Yield the parameters of the summary run."""
    models = Param("models", ", ".join(plan.models))
    return filter(_fits, [*_evaluation_params(plan, plan.seeds), models])


def _evaluation_params(plan: Plan, seeds: int) -> Iterator[Param]:
    if not plan.given:  # a table of scores has no lists
        yield Param("eval.n", plan.n)
        yield Param("eval.candidates", plan.candidates or AS_LISTED)
        yield Param("eval.ties", plan.ties or AS_LISTED)
        yield Param("eval.cold_users", plan.cold_users or AS_LISTED)
        yield Param("eval.threshold", plan.relevance.threshold)
    yield Param("eval.metrics", ", ".join(plan.metrics))
    yield Param("eval.primary", plan.primary)
    yield Param("eval.baseline", plan.baseline)
    yield Param("eval.seed", plan.seed)
    if plan.seeds > 1:
        yield Param("eval.seeds", seeds)


def _fits(param: Param) -> bool:
    return len(param.text) <= MAX_PARAM and is_allowed(param.key)


def common_tags(plan: Plan) -> Iterator[Tag | Datum]:
    """Yield the tags of every run of a bake-off, and what programs read: config and metrics, process, code."""
    yield Tag("evalplugin.bakeoff", plan.id)
    yield Tag("evalplugin.version", __version__)
    yield Datum("config_hash", plan.config_hash)
    yield Datum("metrics_hash", plan.metrics_hash)
    if plan.inputs:  # the same inputs: another bake-off would come out the same
        yield Datum("inputs", plan.inputs)
    # One by one too: runs may be compared by the metrics that they share.
    yield Datum(
        "definitions", {metric: definitions_hash([plan.spec(metric)])[:12] for metric in plan.metrics}
    )
    if plan.given:  # directions and bounds of the metrics of a table of scores
        yield Datum("given", plain_metrics(plan.given))
    yield Tag("mlflow.user", user_name())
    yield Tag("mlflow.source.name", plan.config_name)
    yield Tag("mlflow.source.type", "LOCAL")
    yield from starmap(Datum, process_data().items())
    yield from git_items(Path(plan.config_dir))


def model_tags(info: Scored, model: str, model_type: str) -> Iterator[Tag | Datum]:
    """Yield the identifying tags of a model's run, and what programs read."""
    yield Tag("evalplugin.role", "model")
    yield Tag("evalplugin.model", model)
    yield Datum("model_type", model_type)
    yield Tag("evalplugin.dataset", info.dataset)
    if isinstance(info, DataInfo):
        yield Tag("evalplugin.split", info.split or info.split_type)
    if info.units.noun != "user":
        yield Datum("unit", info.units.noun)
    if info.findings:
        yield checks_datum(info.findings)


def checks_datum(findings: Sequence[Finding]) -> Datum:
    """Return the findings of checks, errors first."""
    ordered = sorted(findings, key=lambda finding: not finding.is_error)
    return Datum("checks", [asdict(finding) for finding in ordered])


def without_tags(items: Iterable[Item], present: Mapping[str, str]) -> Iterator[Item]:
    """Yield the items to log into a run of another owner: its tags stay as they are, tables are added.

    The process is not named: a run that this process does not end must not be closed when the process is gone.
    """
    for item in items:
        match item:
            case Tag(key, value) if key == TABLES and key in present:
                yield Tag(key, json.dumps([*json.loads(present[key]), *json.loads(value)]))
            case Tag(key) if key in present:
                pass
            case Datum(key) if key in process_data():
                pass
            case _:
                yield item


def dataset_inputs(info: Scored) -> Iterator[Dataset]:
    """Yield the train data (of the first fold) and the test data of a run, with digests of their whole content.

    Of a table of scores, its units are the test data.
    """
    source: dict[str, object] = {"type": info.type, **info.params}
    schema = json.dumps({"mlflow_colspec": _columns(info)})
    if not isinstance(info, DataInfo):
        sizes = json.dumps({info.units.nouns: len(info.units)})
        yield Dataset(dataset_name(info, "test"), info.test_digest, source, schema, sizes, "evaluation")
        return
    # MLflow stores one input for a name and digest: where nothing is held out, both have the same digest.
    for part, data, context in (("train", info.train, "training"), ("test", info.test, "evaluation")):
        if data is None:
            continue
        users, items = len(data.active_users), int(np.count_nonzero(data.item_counts))
        profile = {
            "users": users,
            "items": items,
            "interactions": len(data),
            "density": len(data) / (users * items) if users and items else 0.0,
            "rating_scale": list(data.rating_scale),
            "folds": info.n_folds,
        }
        digest = info.test_digest if part == "test" else data.digest
        yield Dataset(dataset_name(info, part), digest, source, schema, json.dumps(profile), context)


def dataset_name(info: Scored, part: str) -> str:
    """Return the name of a part of the data, ``train`` or ``test``, among the inputs of a run."""
    return f"{info.dataset} {part}"


def _columns(info: Scored) -> list[dict[str, Any]]:
    if not isinstance(info, DataInfo):
        columns = {info.units.noun: _kind(info.units.ids)}
    else:
        data = info.full
        columns = {"user": _kind(data.users), "item": _kind(data.items), "rating": "float"}
        if data.timestamp is not None:
            columns["timestamp"] = "long" if data.fraction is None else "datetime"
    return [{"type": kind, "name": name, "required": True} for name, kind in columns.items()]


def _kind(ids: npt.NDArray[np.generic]) -> str:
    return "string" if ids.dtype == object else "long"
