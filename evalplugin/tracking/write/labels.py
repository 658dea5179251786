"""What a bake-off's runs are called and found by: parameters, tags, names, descriptions; plain values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalplugin.base.secrets import redact, redact_values
from evalplugin.comparison.compared import Cell
from evalplugin.execution.results import Bakeoff, DataInfo, ModelResult
from evalplugin.metrics import definitions_hash, parse
from evalplugin.report.text import note_markdown
from evalplugin.tracking.names import flatten, is_allowed
from evalplugin.tracking.write.provenance import git_tags, process_tags, user_name

__all__ = [
    "MAX_PARAM",
    "MAX_TAG",
    "beside",
    "common_tags",
    "cut",
    "model_params",
    "model_tags",
    "note",
    "summary_params",
    "summary_tags",
]

_TABLES = "mlflow.loggedArtifacts"
MAX_PARAM, MAX_TAG = 6000, 8000  # characters; MLflow cuts longer values


def model_params(bakeoff: Bakeoff, result: ModelResult) -> tuple[dict[str, str], list[str]]:
    """Return the parameters of a model's run, and the keys of those that are too long for MLflow.

    What is too long stands in ``config.yaml`` and ``data/config_resolved.yaml`` alone.
    """
    info = result.data
    flat: dict[str, Any] = {"model.name": result.model, "model.type": result.type}
    flat |= flatten("model", redact_values(result.params), taken=flat)
    data = {
        "data.name": info.dataset,
        "data.type": info.type,
        "data.users": info.full.n_users,
        "data.items": info.full.n_items,
        "data.interactions": len(info.full),
    }
    flat |= data | flatten("data", redact_values(info.params), taken=data)
    split = {
        "split.name": info.split or info.split_type,
        "split.type": info.split_type,
        "split.folds": info.n_folds,
    }
    split |= {f"split.{name}": count for name, count in info.counts.items()}
    flat |= split | flatten("split", redact_values(info.split_params), taken=split)
    texts = {key: _param_text(value) for key, value in flat.items()} | _evaluation(bakeoff)
    kept = {key: text for key, text in texts.items() if len(text) <= MAX_PARAM and is_allowed(key)}
    return kept, [key for key in texts if key not in kept]


def summary_params(bakeoff: Bakeoff) -> dict[str, str]:
    """Return the parameters of the summary run."""
    texts = _evaluation(bakeoff) | {"models": ", ".join(bakeoff.models)}
    return {key: text for key, text in texts.items() if len(text) <= MAX_PARAM}


def common_tags(bakeoff: Bakeoff) -> dict[str, str]:
    """Return the tags of every run of a bake-off: what was asked, by which process, from which code."""
    from evalplugin._version import __version__

    return {
        "evalplugin.bakeoff": bakeoff.id,
        "evalplugin.version": __version__,
        "evalplugin.config_hash": bakeoff.config_hash,
        "evalplugin.metrics_hash": bakeoff.metrics_hash,
        # By these it is known that another bake-off would come out the same.
        **({"evalplugin.inputs": json.dumps(bakeoff.inputs)} if bakeoff.inputs else {}),
        # One by one too: runs may be compared by the metrics that they share.
        "evalplugin.definitions": json.dumps({m: definitions_hash([parse(m)])[:12] for m in bakeoff.metrics}),
        "mlflow.user": user_name(),
        "mlflow.source.name": bakeoff.config_name,
        "mlflow.source.type": "LOCAL",
        **process_tags(),
        **git_tags(Path(bakeoff.config_dir)),
    }


def model_tags(
    common: Mapping[str, str], info: DataInfo, model: str, model_type: str, colour: str | None = None
) -> dict[str, str]:
    """Return the tags that a model's run has from its start, ``common`` ones included.

    Without a colour MLflow chooses one, by the run.
    """
    own = {
        "evalplugin.role": "model",
        "evalplugin.model": model,
        "evalplugin.model_type": model_type,
        "evalplugin.dataset": info.dataset,
        "evalplugin.split": info.split or info.split_type,
        **({} if colour is None else {"mlflow.runColor": colour}),
    }
    return _fitting({**common, **own})


def summary_tags(common: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of the summary run, ``common`` ones included."""
    return _fitting({**common, "evalplugin.role": "summary"})


def beside(tags: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Return the tags to set on a run that has others from somebody else: what is there stays, tables are added."""
    # The process is not named: a run that it does not end is not ours to close when the process is gone.
    kept = {key: value for key, value in tags.items() if key not in found and key not in process_tags()}
    if _TABLES in tags and _TABLES in found:
        kept[_TABLES] = json.dumps([*json.loads(found[_TABLES]), *json.loads(tags[_TABLES])])
    return kept


def note(bakeoff: Bakeoff, result: ModelResult, cells: Mapping[str, Cell]) -> str:
    """Return what the run's page shows as its description: Markdown."""
    return cut(redact(note_markdown(bakeoff, result, cells)))


def cut(text: str, length: int = MAX_TAG) -> str:
    """Return text that fits into a tag; what was cut off is named by a hash, so that texts stay apart."""
    return (
        text
        if len(text) <= length
        else f"{text[: length - 14]}... {hashlib.sha256(text.encode()).hexdigest()[:10]}"
    )


def _evaluation(bakeoff: Bakeoff) -> dict[str, str]:
    asked = {
        "eval.n": bakeoff.n,
        "eval.candidates": bakeoff.candidates,
        "eval.threshold": bakeoff.threshold,
        "eval.metrics": ", ".join(bakeoff.metrics),
        "eval.primary": bakeoff.primary,
        "eval.baseline": bakeoff.baseline,
        "eval.seed": bakeoff.seed,
    }
    return {key: _param_text(value) for key, value in asked.items()}


def _param_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _fitting(tags: Mapping[str, str]) -> dict[str, str]:
    return {key: cut(value) for key, value in tags.items()}
