"""The check that fits models: whether the same data and the same random stream give the same lists."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evalplugin.base.numbers import share
from evalplugin.base.seeding import generator
from evalplugin.config import CheckedConfig
from evalplugin.data import Candidates, Interactions, Split
from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import PreparedData
from evalplugin.execution.tasks import Task, TaskResult
from evalplugin.features.checks.base import Found, model_check
from evalplugin.models import MODELS, Recommender, defines

_USERS, _ITEMS = 200, 300  # of the sample, at most
_EVERY = 5  # interaction of the sample is held out


@model_check(
    "EV112",
    title="a model that is not deterministic",
    rule="Found where a model that is fitted twice on the same sample (up to 200 users and 300 items, at random), "
    "with the same random stream, lists other items or another order for any user. Models from elsewhere (lists, "
    "programs, MLflow) are left out. What differs only on more data, or between machines, is not seen.",
    why="Results cannot be repeated, and a difference between two models may be one between two runs of the same.",
    source="Bouthillier et al., ICML 2019.",
    remedy="Draw all random numbers from the `rng` that `fit` gets, sort sets before they are walked through, and "
    "let libraries use one thread where their sums depend on the number. Where chance is meant, repeat it: `seeds: "
    "5`.",
)
def _not_deterministic(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    split = _sample(data.folds[0].train)
    if split is None:
        return
    own = [
        model
        for model in config.models
        if not defines(MODELS.entry(model.type).cls, Recommender.recommend_task)
    ]
    tasks = [
        Task(
            model=model,
            split=split,
            candidates=Candidates.of("unseen", split, generator(0, "checks", "EV112")),
            seed=config.spec.seed,
            stream=("checks", "EV112"),
            n=min(config.spec.recommend.n, 20),
            metrics=(),
            relevance=config.spec.relevance,
            folder=config.folder,
        )
        for model in own
        for _ in range(2)
    ]
    execute = sequential_executor(Observer())
    results = dict(execute((number, "", task) for number, task in enumerate(tasks)))
    for number, model in enumerate(own):
        first, second = results[2 * number], results[2 * number + 1]
        if not (isinstance(first, TaskResult) and isinstance(second, TaskResult)):
            continue
        differs = (first.top_n.item != second.top_n.item).any(axis=1)
        if differs.any():
            yield Found(
                f"{model.name}: fitted twice on the same {len(split.train):,} interactions with the same random "
                f"stream, it gives other lists for {share(differs.mean())} of {len(differs):,} users: results cannot "
                f"be repeated",
                model.name,
            )


def _sample(train: Interactions) -> Split | None:
    """Return a small split of some train data, the same each time; None where it is too small to be divided."""
    rng = generator(0, "checks", "EV112", "sample")
    chosen = []
    for counts, size in ((train.rows.counts, _USERS), (train.item_counts, _ITEMS)):
        active = np.flatnonzero(counts)
        # Popular items and active users are more likely, so that the sample is no sparser than need be.
        share_of = counts[active] / counts.sum()
        mask = np.zeros(len(counts), dtype=np.bool_)
        mask[rng.choice(active, min(size, len(active)), replace=False, p=share_of)] = True
        chosen.append(mask)
    users, items = chosen
    inside = users[train.user] & items[train.item]
    if np.count_nonzero(inside) < 2 * _EVERY:
        return None
    sample = train.restrict(inside)
    held_out = np.arange(len(sample)) % _EVERY == _EVERY - 1

    return Split(sample.select(~held_out), sample.select(held_out))
