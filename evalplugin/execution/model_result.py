"""The result of a model from those of its tasks: averages over folds and seeds, costs, lists, notes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evalplugin.config import ModelRecipe
from evalplugin.data import Interactions
from evalplugin.execution.results import Costs, DataInfo, ModelResult, Tuning
from evalplugin.execution.tasks import TaskFailure, TaskResult
from evalplugin.metrics.scores import average_folds
from evalplugin.models import TopN

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["model_result"]


def model_result(
    info: DataInfo,
    model: ModelRecipe,
    results: Sequence[TaskResult | TaskFailure],
    trains: Sequence[Interactions],
    seeds: int,
    tuning: Tuning | None,
) -> ModelResult:
    """Return the result of a model.

    Args:
        info, model, tuning: Of the job.
        results: Of its tasks: of the first seed on each fold, then of the next one. Where one has failed, others may
            be missing.
        trains: The train data of each fold.
        seeds: How often the model was fitted on each fold.
    """
    for result in results:
        if isinstance(result, TaskFailure):
            return ModelResult(info, model.name, model.type, model.params, tuning=tuning, error=result.error)
    done = [result for result in results if isinstance(result, TaskResult)]
    by_seed = [done[start : start + len(trains)] for start in range(0, len(done), len(trains))]
    averages = [average_folds([result.per_user for result in folds]) for folds in by_seed]
    by_fold = [average_folds([one.per_user for one in seeds]) for seeds in zip(*by_seed, strict=True)]
    return ModelResult(
        data=info,
        model=model.name,
        type=model.type,
        params=model.params,
        costs=_costs_of_a_seed(done, seeds),
        per_user=average_folds(averages),
        fold_means=tuple(fold.means for fold in by_fold),
        seed_means=tuple(one.means for one in averages) if seeds > 1 else (),
        top_n=_lists_table([result.top_n for result in by_seed[0]], trains),
        notes=tuple(_notes(by_seed)),
        tuning=tuning,
    )


def _notes(by_seed: Sequence[Sequence[TaskResult]]) -> Iterator[str]:
    """Yield what models say of their lists, with the numbers of the fold and the seed where there are several."""
    folds = len(by_seed[0])
    for seed, results in enumerate(by_seed):
        for fold, result in enumerate(results):
            where = f"fold {fold + 1}: " if folds > 1 else ""
            where += f"seed {seed + 1}: " if len(by_seed) > 1 else ""
            yield from (f"{where}{note}" for note in result.lists.notes)
    if len(by_seed) > 1 and all(_is_same(by_seed[0], other) for other in by_seed[1:]):
        yield (
            f"all {len(by_seed)} seeds gave the same lists: random numbers decide nothing here. A model of yours that "
            f"declares `stochastic = False` is fitted once"
        )


def _is_same(one: Sequence[TaskResult], other: Sequence[TaskResult]) -> bool:
    return all(np.array_equal(a.top_n.item, b.top_n.item) for a, b in zip(one, other, strict=True))


def _costs_of_a_seed(results: Sequence[TaskResult], seeds: int) -> Costs:
    """Return the costs of all folds together: the mean time of a seed, and the highest memory of any task."""
    total = sum((result.costs for result in results), Costs())
    seconds = {name: getattr(total, name) / seeds for name in (*Costs.WORK, "start_seconds")}
    return replace(total, **seconds)


def _lists_table(lists: Sequence[TopN], trains: Sequence[Interactions]) -> pa.Table:
    """Return the lists of all folds as one table; its metadata has the digest of each fold's train data."""
    import pyarrow as pa

    tables = [top_n.to_table(train) for top_n, train in zip(lists, trains, strict=True)]
    if len(tables) > 1:
        folds = [pa.array(np.full(len(table), fold + 1, dtype=np.int32)) for fold, table in enumerate(tables)]
        tables = [t.append_column("fold", f) for t, f in zip(tables, folds, strict=True)]
    described = json.dumps({"train_digests": [train.digest for train in trains]})
    return pa.concat_tables(tables).replace_schema_metadata({"evalplugin": described})
