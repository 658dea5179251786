"""Studies without a bake-off: the best parameters of a config's tuned models; nothing is tested or logged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from textwrap import indent

import yaml

from evalplugin.base.errors import ConfigError
from evalplugin.base.numbers import number, seconds
from evalplugin.base.places import DataSplit
from evalplugin.base.secrets import redact, redact_values
from evalplugin.base.text import escape_controls
from evalplugin.base.units import count_text
from evalplugin.config import CheckedConfig
from evalplugin.config.components import params_at
from evalplugin.execution.executor import task_executor
from evalplugin.execution.isolation import TaskFailure, last_line
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import Tuning
from evalplugin.execution.runner import Job
from evalplugin.execution.worker import refuse_in_worker
from evalplugin.features.tuning.engine import run_studies
from evalplugin.features.tuning.feature import studies_of
from evalplugin.report.competition import budget_text, split_text
from evalplugin.workspace import Workspace


def tune(workspace: Workspace, *, workers: int | None = None) -> list[Job]:
    """Return a job of each tuned model on each dataset under each split, with the best parameters.

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
        return run_studies(studies, jobs, task_executor(session, Observer()), workspace.cache, observer)


def tuned_yaml(config: CheckedConfig, jobs: Sequence[Job]) -> str:
    """Return the entries of the section ``models`` as YAML without credentials, with comments on their tuning.

    With several datasets or splits, there is a document for each. ``jobs``: from ``tune`` on the config.
    """
    documents = [
        "\n".join(_document(config, list(group)))
        for _, group in groupby(jobs, key=lambda job: DataSplit.of(job.info))
    ]
    return "\n---\n".join(documents) + "\n"


def _document(config: CheckedConfig, jobs: Sequence[Job]) -> Iterator[str]:
    yield _comment(str(DataSplit.of(jobs[0].info)))
    if (tuning := next((job.tuning for job in jobs if job.tuning is not None), None)) is not None:
        settings = tuning.settings
        yield _comment(
            f"tuned by {tuning.metric} within the train data, {split_text(settings['split'])}; budget of each model: "
            f"{budget_text(settings['budget'])}"
        )
    yield "models:"
    for job in jobs:
        if job.tuning is None:
            error = next(result.error for result in job.done.values() if isinstance(result, TaskFailure))
            yield "  " + _comment(f"{job.model.name}: every trial failed: {last_line(error)}")
            continue
        for line in _summary(job.tuning):
            yield "  " + _comment(line)
        given = next(spec.params for spec in config.spec.models if spec.name == job.model.name)
        entry = {
            "name": job.model.name,
            "type": job.model.type,
            "params": params_at(given, job.tuning.best[-1]),
            "inputs": job.model.as_mapping().get("inputs"),
        }
        shown = redact_values({key: value for key, value in entry.items() if value})
        yield indent(yaml.safe_dump([shown], sort_keys=False, allow_unicode=True).rstrip("\n"), "  ")


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
