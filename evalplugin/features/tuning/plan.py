"""The studies of a bake-off: validation data inside the train data of each fold, one study for each tuned model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from evalplugin.base.errors import DataError
from evalplugin.base.seeding import generator
from evalplugin.components.parameters import as_mapping
from evalplugin.config import CheckedConfig, Named
from evalplugin.config.checked import TuningPlan
from evalplugin.data import Candidates, Split, Splitter
from evalplugin.execution.data_checks import check_data
from evalplugin.execution.runner import Job, PreparedData
from evalplugin.features.tuning.space import SearchSpace
from evalplugin.features.tuning.study import Study


def studies_of(config: CheckedConfig, prepared: Sequence[PreparedData], jobs: Sequence[Job]) -> list[Study]:
    """Return a study for each fold of each job of a tuned model; nothing is fitted.

    Raises:
        DataError: The train data of a fold cannot be split into train and validation data.
    """
    plan = config.tune
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
                stream=(split.train.digest,),
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
    split = plan.split or _split_of(config, prepared)
    seed, recommend = config.spec.seed, config.spec.recommend
    params = json.dumps(as_mapping(split.component), sort_keys=True)
    stream = (fold.train.digest, split.type, params, str(fold.fold), "tune")
    place = f"{prepared.info.dataset}, {prepared.info.split}, fold {fold.fold + 1}"
    try:
        if fold.overlap_allowed:
            raise DataError("the test data is part of the train data, so that tuning would see the test")
        validation = split.component.split(fold.train, generator(seed, *stream, "split"))[0]
        if validation.overlap_allowed:
            raise DataError(f"the split {split.type} has no validation data apart from the train data")
        if recommend.cold_users == "skip":
            validation = validation.without_cold_users()
        check_data(config, fold.train, [validation])
    except DataError as error:
        hint = (
            "" if plan.split is not None else " (tune.split is left out, so that it is split like all data)"
        )
        raise DataError(
            f"tune: the train data of {place} cannot be split for validation{hint}: {error}"
        ) from None
    settings = plan.as_mapping() | {"split": {"type": split.type, **as_mapping(split.component)}}
    drawing = generator(seed, *stream, "candidates")
    negatives = recommend.negatives or 0
    candidates = Candidates.of(recommend.candidates, validation, drawing, n_negatives=negatives)
    return validation, candidates, settings


def _split_of(config: CheckedConfig, prepared: PreparedData) -> Named[Splitter]:
    """Return the split of the data, as it divides train data."""
    split = next(split for split in config.splits if split.name == prepared.info.split)
    of_train_data: Callable[[], Splitter] = getattr(split.component, "of_train_data", lambda: split.component)
    return replace(split, component=of_train_data())
