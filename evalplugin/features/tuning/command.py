"""Studies without a bake-off: the best parameters of a config's tuned models; nothing is tested or logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from textwrap import indent
from typing import Any

import yaml

from evalplugin.base.errors import ConfigError
from evalplugin.base.numbers import number, seconds
from evalplugin.base.secrets import redact, redact_values
from evalplugin.base.text import escape_controls
from evalplugin.base.units import count_text
from evalplugin.comparison.compared import budget_text, split_text
from evalplugin.config import CheckedConfig
from evalplugin.config.components import params_at
from evalplugin.execution.executor import task_executor
from evalplugin.execution.isolation import TaskFailure, last_line
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import DataInfo, DataSplit, Tuning
from evalplugin.execution.runner import Job
from evalplugin.execution.worker import refuse_in_worker
from evalplugin.features.tuning.engine import run_studies
from evalplugin.features.tuning.feature import studies_of
from evalplugin.workspace import Workspace


@dataclass(frozen=True)
class TunedModel:
    """A tuned model on one dataset under one split."""

    data: DataInfo
    name: str
    entry: Mapping[str, Any]  # of the section `models`, with the best parameters in place of the spaces
    tuning: Tuning | None  # None: all trials failed
    error: str | None = None  # of the defaults, if all failed


def tune(workspace: Workspace, *, workers: int | None = None) -> list[TunedModel]:
    """Return the best parameters of each tuned model on each dataset under each split.

    The test data is split off and not looked at. What is computed is stored: a bake-off of the config uses it.
    ``workers``: how many trials run at a time; None: as in the config.

    Raises:
        ConfigError: No model is tuned.
        DataError: Data that is missing or breaks a rule, or train data that cannot be split.
        StoreError: The cache cannot be used.
    """
    refuse_in_worker()
    config, observer = workspace.config, workspace.observer
    tuned = tuple(model for model in config.models if model.space)
    if not tuned:
        raise ConfigError(
            [
                f"{config.name}: no model has a key tune, so nothing is to be tuned; for example: "
                f"{{type: surprise.KNNBasic, tune: {{k: {{int: [5, 300]}}}}}}"
            ]
        )
    workspace = replace(workspace, config=replace(config, models=tuned))
    prepared = workspace.prepare()
    jobs = workspace.jobs(prepared)
    studies = studies_of(workspace.config, prepared, jobs)
    inputs = workspace.look_up_inputs(jobs)
    with workspace.open_session(inputs, workers=workers) as session:
        jobs = run_studies(studies, jobs, task_executor(session, Observer()), workspace.cache, observer)
    return [_tuned_model(config, job) for job in jobs]


def _tuned_model(config: CheckedConfig, job: Job) -> TunedModel:
    spec = next(spec for spec in config.spec.models if spec.name == job.model.name)
    best: Mapping[str, Any] = {} if job.tuning is None else job.tuning.best[-1]
    entry = {
        "name": job.model.name,
        "type": job.model.type,
        "params": params_at(spec.params, best),
        "inputs": job.model.as_mapping().get("inputs"),
    }
    errors = [result.error for result in job.done.values() if isinstance(result, TaskFailure)]
    return TunedModel(
        data=job.info,
        name=job.model.name,
        entry={key: value for key, value in entry.items() if value},
        tuning=job.tuning,
        error=errors[0] if errors else None,
    )


def tuned_yaml(models: Sequence[TunedModel]) -> str:
    """Return the entries of the section ``models`` as YAML without credentials, with comments on their tuning.

    With several datasets or splits, there is a document for each.
    """
    documents = [
        "\n".join(_document(list(group))) for _, group in groupby(models, key=lambda m: DataSplit.of(m.data))
    ]
    return "\n---\n".join(documents) + "\n"


def _document(models: Sequence[TunedModel]) -> Iterator[str]:
    yield _comment(str(DataSplit.of(models[0].data)))
    if (tuning := next((model.tuning for model in models if model.tuning is not None), None)) is not None:
        settings = tuning.settings
        yield _comment(
            f"tuned by {tuning.metric} within the train data, {split_text(settings['split'])}; budget of each model: "
            f"{budget_text(settings['budget'])}"
        )
    yield "models:"
    for model in models:
        if model.tuning is None:
            yield "  " + _comment(
                f"{model.name}: every trial failed: {model.error and last_line(model.error)}"
            )
            continue
        for line in _summary(model.tuning):
            yield "  " + _comment(line)
        text = yaml.safe_dump([redact_values(model.entry)], sort_keys=False, allow_unicode=True)
        yield indent(text.rstrip("\n"), "  ")


def _summary(tuning: Tuning) -> Iterator[str]:
    counts = {state: tuning.count(state) for state in ("dropped", "failed")}
    left = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    trials = count_text(len(tuning.trials), "trial") + (f" ({left})" if left else "")
    yield (
        f"{tuning.metric} {number(tuning.validation)} on the validation data, {number(tuning.defaults)} with the "
        f"defaults; {trials}, {seconds(tuning.seconds)} of work"
    )
    yield from tuning.notes


def _comment(text: str) -> str:
    return f"# {escape_controls(redact(' '.join(text.split())))}"
