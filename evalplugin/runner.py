"""A checked config -> data, folds and tasks -> results."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from evalplugin.config import CheckedConfig, NamedDataset, NamedModel, NamedSplit
from evalplugin.costs import Stopwatch, peak_memory
from evalplugin.data import Candidates, Interactions, LoadContext, Split
from evalplugin.metrics import MetricSpec
from evalplugin.models import MODELS, TopN, predict_ratings, recommend
from evalplugin.parameters import as_mapping
from evalplugin.results import Costs, DataInfo, ModelResult
from evalplugin.scoring import PerUserScores, average_folds, score_top_n
from evalplugin.seeding import generator

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CURVE_KS",
    "Observer",
    "Prepared",
    "Silent",
    "Task",
    "TaskResult",
    "curve_ks",
    "prepare",
    "run_model",
    "run_task",
]

# Cutoffs of the metric-at-k curves, as far as the lists reach.
CURVE_KS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


class Observer(Protocol):
    """Hears what goes on."""

    def say(self, text: str) -> None:
        """Hear one line about a decision or a finished step."""

    def work(self, label: str, total: int | None = None) -> AbstractContextManager[Callable[[int], None]]:
        """Watch a piece of work; the function that is yielded hears how many more of ``total`` are done."""


class Silent:
    """An observer that keeps quiet."""

    def say(self, text: str) -> None:
        """Say nothing."""

    @contextmanager
    def work(self, label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show nothing."""
        yield lambda done: None


@dataclass(frozen=True)
class Prepared:
    """One dataset under one split, ready for any model: the folds, and what each user may be shown."""

    info: DataInfo
    folds: tuple[Split, ...]
    candidates: tuple[Candidates, ...]
    stream: tuple[str, ...]  # names the random streams of this data under this split


@dataclass(frozen=True)
class Task:
    """One model on one fold, as plain values: all that is needed to do the work anywhere."""

    model: NamedModel
    split: Split
    candidates: Candidates
    seed: int
    stream: tuple[str, ...]  # names the model's random stream
    n: int
    metrics: tuple[MetricSpec, ...]
    threshold: float | None


@dataclass(frozen=True)
class TaskResult:
    """What a task yields: lists, every user's scores, costs."""

    top_n: TopN
    per_user: PerUserScores
    costs: Costs


def prepare(config: CheckedConfig, data_home: Path | None, observer: Observer) -> list[Prepared]:
    """Return every dataset under every split, with its folds and candidates.

    All data is read before any model is fitted, so that bad data costs no work. ``data_home`` is where datasets are
    looked for before they are downloaded.

    Raises:
        DataError: Data that is missing or breaks a rule.
    """
    context = LoadContext(data_home=data_home, base=config.folder, report=_in_tenths(observer))
    prepared = []
    for dataset in config.datasets:
        with observer.work(f"read {dataset.name}"):
            data = dataset.loader.load(context)
        observer.say(
            f"{dataset.name}: {len(data):,} interactions of {data.n_users:,} users with {data.n_items:,} items"
        )
        for note in data.notes:
            observer.say(f"{dataset.name}: {note}")
        for split in config.splits:
            with observer.work(f"split {dataset.name} by {split.name}"):
                one = _prepare(config, dataset, data, split)
            for note in one.info.notes[len(data.notes) :]:
                observer.say(f"{dataset.name}, {split.name}: {note}")
            prepared.append(one)
    return prepared


def _in_tenths(observer: Observer) -> Callable[[str, float | None], None]:
    """Return a report of "subject: how far" that says a subject once, and then at every tenth of the way to its end."""
    said: set[tuple[str, int]] = set()

    def report(text: str, fraction: float | None) -> None:
        step = text.partition(":")[0], int((fraction or 0.0) * 10)
        if step not in said and step[1] < 10:
            said.add(step)
            observer.say(text)

    return report


def _prepare(config: CheckedConfig, dataset: NamedDataset, data: Interactions, split: NamedSplit) -> Prepared:
    # Streams are named by content, so that renaming a dataset, a split or a model changes no result.
    stream = (data.digest, split.type, json.dumps(as_mapping(split.splitter), sort_keys=True))
    folds = split.splitter.split(data, generator(config.spec.seed, *stream, "split"))
    asked = config.spec.recommend
    candidates = [
        Candidates.of(
            asked.candidates,
            fold,
            generator(config.spec.seed, *stream, fold.fold, "candidates"),
            n_negatives=asked.negatives or 0,
        )
        for fold in folds
    ]
    first = folds[0]
    info = DataInfo(
        dataset=dataset.name,
        type=dataset.type,
        params=as_mapping(dataset.loader),
        split=split.name,
        split_type=split.type,
        split_params=as_mapping(split.splitter),
        full=data,
        train=first.train,
        test=first.test,
        n_folds=len(folds),
        counts=first.counts,
        notes=(*data.notes, *first.notes),
    )
    return Prepared(info, tuple(folds), tuple(candidates), stream)


def run_model(
    config: CheckedConfig, prepared: Prepared, model: NamedModel, observer: Observer
) -> ModelResult:
    """Return the result of one model over all folds of one split; a failure is part of the result."""
    info = prepared.info
    done: list[TaskResult] = []
    try:
        for fold, candidates in zip(prepared.folds, prepared.candidates, strict=True):
            task = Task(
                model=model,
                split=fold,
                candidates=candidates,
                seed=config.spec.seed,
                stream=(*prepared.stream, str(fold.fold)),
                n=config.spec.recommend.n,
                metrics=config.metrics,
                threshold=config.spec.relevance.threshold,
            )
            label = (
                f"{model.name}, fold {fold.fold + 1} of {info.n_folds}" if info.n_folds > 1 else model.name
            )
            done.append(run_task(task, label, observer))
    except Exception:  # noqa: BLE001 - the edge of a task: recorded whole, and the other models go on
        return ModelResult(info, model.name, model.type, model.params, error=traceback.format_exc())
    return ModelResult(
        data=info,
        model=model.name,
        type=model.type,
        params=model.params,
        costs=_add(tuple(result.costs for result in done)),
        per_user=average_folds([result.per_user for result in done]),
        fold_means=tuple(result.per_user.means for result in done),
        top_n=_one_table([result.top_n for result in done], info.full),
    )


def run_task(task: Task, label: str, observer: Observer) -> TaskResult:
    """Return the lists, the scores and the costs of one model on one fold."""
    split, watch = task.split, Stopwatch()
    users = np.unique(split.test.user)
    with peak_memory() as peak:
        model = MODELS.create(task.model.type, task.model.params)
        params = json.dumps(task.model.params, sort_keys=True)
        rng = generator(task.seed, *task.stream, task.model.type, params)
        with observer.work(f"fit {label}"):
            # What a process pays once must not be held against the first model that needs it.
            with watch.time("start"):
                getattr(model, "prepare", lambda: None)()
            with watch.time("fit"):
                model.fit(split.train, rng)
        with observer.work(f"recommend {label}", len(users)) as advance, watch.time("recommend"):
            top_n = recommend(model, users, task.n, task.candidates, split.train.n_items, progress=advance)
        with observer.work(f"score {label}"), watch.time("score"):
            needed = any("predictions" in metric.metric.needs for metric in task.metrics)
            per_user = score_top_n(
                top_n,
                split.test,
                split.train,
                task.metrics,
                threshold=task.threshold,
                predictions=predict_ratings(model, split.test) if needed else None,
                candidates=task.candidates,
                curve_ks=curve_ks(task.n, task.metrics),
            )
    seconds = watch.seconds
    return TaskResult(
        top_n,
        per_user,
        Costs(seconds["fit"], seconds["recommend"], seconds["score"], peak.mb, seconds["start"]),
    )


def curve_ks(n: int, metrics: Sequence[MetricSpec]) -> list[int]:
    """Return the cutoffs of metric-at-k curves for lists of length n: the usual ones and those asked for."""
    asked = {metric.k for metric in metrics if metric.k is not None}
    return sorted({k for k in CURVE_KS if k <= n} | asked | {n})


def _add(costs: Sequence[Costs]) -> Costs:
    return Costs(
        fit_seconds=sum(c.fit_seconds for c in costs),
        recommend_seconds=sum(c.recommend_seconds for c in costs),
        score_seconds=sum(c.score_seconds for c in costs),
        peak_memory_mb=max(c.peak_memory_mb for c in costs),
        start_seconds=sum(c.start_seconds for c in costs),
    )


def _one_table(lists: Sequence[TopN], data: Interactions) -> pa.Table:
    import pyarrow as pa

    tables = [top_n.to_table(data) for top_n in lists]
    if len(tables) == 1:
        return tables[0]
    folds = [pa.array(np.full(len(table), fold + 1, dtype=np.int32)) for fold, table in enumerate(tables)]
    return pa.concat_tables([t.append_column("fold", f) for t, f in zip(tables, folds, strict=True)])
