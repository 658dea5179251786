"""Tuning in a bake-off: studies on validation data inside the train data, run before the tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.base.numbers import share
from evalplugin.base.places import DataSplit
from evalplugin.base.seeding import generator
from evalplugin.components.registry import call_component
from evalplugin.config import CheckedConfig, ModelRecipe, Named
from evalplugin.data import Candidates, Split, Splitter
from evalplugin.data.decisions import folds_of
from evalplugin.execution.data_checks import check_data
from evalplugin.execution.executor import task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Job, PreparedData, candidates_of
from evalplugin.features.base import Bakeoff, Feature
from evalplugin.features.tuning.engine import run_studies
from evalplugin.features.tuning.pictures import study_pictures
from evalplugin.features.tuning.section import TuningPlan
from evalplugin.features.tuning.space import SearchSpace
from evalplugin.features.tuning.study import Study
from evalplugin.report.charts.pictures import ModelPicture

_COVERED = 0.5  # share of the relevant validation items that a pool must have
_POOL_REMEDY = (
    "name a pool for the validation data, a table like that of recommend.path, by recommend.validation, or leave tune "
    "out"
)


@dataclass
class TuningFeature(Feature):
    """Chooses the parameters of tuned models on validation data inside the train data of each fold."""

    studies: list[Study] = field(default_factory=list)

    def with_jobs(self, bakeoff: Bakeoff) -> None:
        """Split the validation data.

        Raises:
            DataError: The train data of a fold cannot be split into train and validation data.
        """
        self.studies = studies_of(bakeoff.workspace.config, bakeoff.prepared, bakeoff.jobs)

    def pictures(self, bakeoff: Bakeoff) -> Iterator[ModelPicture]:
        """Yield the history and the importance of each model's trials."""
        return study_pictures(bakeoff.plan, bakeoff.models)

    def before_tasks(self, bakeoff: Bakeoff) -> None:
        """Run the studies, and give the jobs of tuned models their best parameters."""
        workspace = bakeoff.workspace
        run = task_executor(bakeoff.session, Observer())  # the progress of all trials together is shown
        bakeoff.jobs = run_studies(self.studies, bakeoff.jobs, run, workspace.cache, workspace.observer)
        self.studies = []  # they have folds, which may be large


def planned_trials(config: CheckedConfig, model: ModelRecipe, folds: int) -> int | None:
    """Return the limit of a model's trials on all folds: 0 if it is not tuned, None if only seconds are limited."""
    plan = config.section("tune")
    if plan is None or not model.space:
        return 0
    trials = plan.budget.trials
    return None if trials is None else trials * folds


def studies_of(config: CheckedConfig, prepared: Sequence[PreparedData], jobs: Sequence[Job]) -> list[Study]:
    """Return a study for each fold of each job of a tuned model; nothing is fitted.

    Raises:
        DataError: The train data of a fold cannot be split into train and validation data.
    """
    plan = config.section("tune")
    if plan is None:
        return []
    studies = []
    # By identity: the models of one dataset and split share their folds.
    validation = {id(fold): _validation(config, plan, data, fold) for data in prepared for fold in data.folds}
    for number, job in enumerate(jobs):
        if not job.model.space:
            continue
        # A model is tuned once on each fold, whatever the number of seeds.
        once = replace(job, tasks=job.tasks[: job.folds], seeds=1)
        space = SearchSpace(job.model.space)
        for fold, task in enumerate(once.tasks):
            split, candidates, settings = validation[id(task.split)]
            base = replace(
                task,
                model=replace(job.model, space=None),
                split=split,
                candidates=candidates,
                stream=(split.train.pairs_digest,),
                metrics=(plan.metric,),
            )
            studies.append(
                Study(number, fold, once.label(fold), base, space, plan, settings, name=once.name(fold))
            )
    return studies


def _validation(
    config: CheckedConfig, plan: TuningPlan, prepared: PreparedData, fold: Split
) -> tuple[Split, Candidates, dict[str, Any]]:
    """Return the split of a fold's train data, the candidates, and the settings.

    Nothing depends on the test data, not even the streams.
    """
    seed = config.spec.seed
    split = plan.split or _split_of(config, prepared)
    given = fold.validation if plan.split is None else None
    params = json.dumps(split.params, sort_keys=True)
    stream = (fold.train.pairs_digest, split.type, params, str(fold.fold), "tune")
    place = f"{prepared.info.dataset}, {prepared.info.split}, fold {fold.fold + 1}"
    try:
        if fold.overlap_allowed:
            raise DataError("the test data is part of the train data, so that tuning would see the test")
        if given is None and plan.split is None and split.type == "given":
            raise DataError("the data has no validation part; name one, or set tune.split, such as holdout")
        draws, name = generator(seed, *stream, "split"), f"tune: split {split.name}"
        known = fold.shown or fold.train_events
        validation = given or call_component(name, folds_of, split.component, known, draws)[0]
        if validation.overlap_allowed:
            raise DataError(f"the split {split.type} has no validation data apart from the train data")
        if config.spec.recommend.cold_users == "skip":
            validation = validation.without_cold_users()
        check_data(config, fold.train_events, [validation])
    except DataError as error:
        hint = (
            "" if plan.split is not None else " (tune.split is left out, so that it is split like all data)"
        )
        raise DataError(
            f"tune: the train data of {place} cannot be split for validation{hint}: {error}"
        ) from None
    settings = plan.as_mapping() | {"split": {"type": split.type, **split.params}}
    drawing = generator(seed, *stream, "candidates")
    return validation, _candidates(config, DataSplit.of(prepared.info), validation, fold, drawing), settings


def _candidates(
    config: CheckedConfig, place: DataSplit, validation: Split, fold: Split, rng: np.random.Generator
) -> Candidates:
    """Return the candidates of the validation data of a fold; a pool must have at least half of its relevant truth.

    Raises:
        DataError: The pool lacks more, so that few users or none would tell the trials apart.
    """
    try:
        pooled = candidates_of(config, place, validation, rng, tuned=fold)
    except DataError as error:
        raise DataError(f"tune: {error}; {_POOL_REMEDY}") from None
    if pooled.covered < _COVERED:
        raise DataError(
            f"tune: the pool has {share(pooled.covered)} of the relevant validation items of {place.dataset}, "
            f"{place.split}, fold {fold.fold + 1}, and trials would be told apart by these alone: at least "
            f"{share(_COVERED)} are needed; {_POOL_REMEDY}"
        )
    return pooled.candidates


def _split_of(config: CheckedConfig, prepared: PreparedData) -> Named[Splitter]:
    """Return the split of the data, as it divides train data."""
    split = next(split for split in config.splits if split.name == prepared.info.split)
    return replace(split, component=split.component.of_train_data())


FEATURE = TuningFeature
