"""Run a bake-off: prepare data and folds, execute the tasks of all models in order, collect their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from evalplugin.base.errors import DataError, KeyPath, Problem
from evalplugin.base.fingerprint import fingerprint
from evalplugin.base.numbers import share
from evalplugin.base.places import DataSplit
from evalplugin.base.seeding import generator
from evalplugin.base.units import plural
from evalplugin.components.registry import call_component
from evalplugin.config import CheckedConfig, ModelRecipe, Named, NamedDataset
from evalplugin.data import Candidates, Interactions, LoadContext, Pooled, Split, Splitter, in_one_piece
from evalplugin.data.decisions import folds_of
from evalplugin.execution.data_checks import check_data, check_policies
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.observer import Observer
from evalplugin.execution.per_item import items_table
from evalplugin.execution.results import Costs, DataInfo, FoldLists, ModelResult, Tuning
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.tasks import Task, TaskLists, TaskResult
from evalplugin.metrics import TrainData
from evalplugin.metrics.item_groups import ItemGroupMetric
from evalplugin.metrics.scores import Units, average_folds
from evalplugin.models import MODELS
from evalplugin.segments import (
    NO_HISTORY,
    Cold,
    Position,
    Repeat,
    Segmentation,
    clustering_of,
    history_lengths,
    segmentation,
)

Result = TaskResult | TaskFailure
# Runs numbered and labelled tasks; yields the number and the result of each as it ends.
TaskExecutor = Callable[[Iterable[tuple[int, str, Task]]], Generator[tuple[int, Result]]]

_SILENT = Observer()


@dataclass(frozen=True)
class PreparedData:
    """One dataset under one split, ready for any model: folds, and the candidates of each user."""

    info: DataInfo
    folds: tuple[Split, ...]
    candidates: tuple[Candidates, ...]


@dataclass(eq=False)
class Job:
    """One model on one dataset under one split: a task for each seed and fold, and the results so far.

    The tasks of the first seed come first, in the order of the folds.
    """

    info: DataInfo
    model: ModelRecipe
    tasks: list[Task]  # with lists that were cached and are still to be scored
    done: dict[int, Result] = field(default_factory=dict)  # by number of the task
    tuning: Tuning | None = None  # how the parameters of the tasks were found
    running: int = 0  # tasks that have started and not ended
    seeds: int = 1  # how often the model is fitted on each fold

    @property
    def failed(self) -> bool:
        """Whether a task failed, so that the rest need not be computed."""
        return any(isinstance(result, TaskFailure) for result in self.done.values())

    @property
    def ended(self) -> bool:
        """Whether every task has ended or need not run."""
        return not self.running and (self.failed or len(self.done) == len(self.tasks))

    @property
    def folds(self) -> int:
        """The number of folds."""
        return len(self.tasks) // self.seeds

    def label(self, number: int) -> str:
        """Return the label of a task, for progress."""
        seed, fold = divmod(number, self.folds)
        parts = (("fold", fold, self.folds), ("seed", seed, self.seeds))
        numbers = (f"{noun} {place + 1} of {n}" for noun, place, n in parts if n > 1)
        return ", ".join([self.model.name, *numbers])

    def name(self, number: int) -> str:
        """Return the unique name of a task within the bake-off."""
        seed, fold = divmod(number, self.folds)
        name = f"{self.info.dataset}/{self.info.split}/{self.model.name}/{fold}"
        return f"{name}/seed {seed + 1}" if seed else name


def prepare(config: CheckedConfig, data_home: Path | None, observer: Observer) -> list[PreparedData]:
    """Return every dataset under every split, with its folds and candidates.

    All data is read before any model is fitted, so that bad data costs no work. Datasets are searched for in
    ``data_home`` before they are downloaded.

    Raises:
        DataError: Data that is missing or breaks a rule.
    """
    columns = [name for split in config.splits for name in split.component.user_columns]
    context = LoadContext(
        data_home, config.folder, _report_tenths(observer), user_columns=tuple(dict.fromkeys(columns))
    )
    prepared = []
    for dataset in config.datasets:
        with observer.progress(f"read {dataset.name}"):
            data = dataset.load(context)
        rows, units = ("rows", "decisions") if data.is_log else ("interactions", "users")
        observer.report(
            f"{dataset.name}: {len(data):,} {rows} of {data.n_users:,} {units} with {data.n_items:,} items"
        )
        for note in data.notes:
            observer.report(f"{dataset.name}: {note}")
        for split in config.splits:
            with observer.progress(f"split {dataset.name} by {split.name}"):
                prepared.append(_prepare(config, dataset, data, split, context))
            for note in prepared[-1].info.notes[len(data.notes) :]:
                observer.report(f"{dataset.name}, {split.name}: {note}")
    return prepared


def _report_tenths(observer: Observer) -> Callable[[str, float | None], None]:
    """Return a function that reports lines ``subject: progress``, at most one for each tenth of a subject's work."""
    reported: set[tuple[str, int]] = set()

    def report(text: str, fraction: float | None) -> None:
        step = text.partition(":")[0], int((fraction or 0.0) * 10)
        if step not in reported and step[1] < 10:
            reported.add(step)
            observer.report(text)

    return report


def _prepare(
    config: CheckedConfig,
    dataset: NamedDataset,
    data: Interactions,
    split: Named[Splitter],
    context: LoadContext,
) -> PreparedData:
    seed = config.spec.seed
    # Streams are named by content, so that renaming a dataset or a split changes no result.
    stream = (data.pairs_digest, split.type, json.dumps(split.params, sort_keys=True))
    folds = _split(config, dataset, data, split, generator(seed, *stream, "split"))
    try:
        if config.spec.recommend.cold_users == "skip":
            folds = [fold.without_cold_users() for fold in folds]
        check_data(config, data, folds)
    except DataError as error:
        raise DataError(f"dataset {dataset.name}, split {split.name}: {error}") from None
    pooled = [
        candidates_of(
            config,
            DataSplit(dataset.name, split.name),
            fold,
            generator(seed, *stream, fold.fold, "candidates"),
        )
        for fold in folds
    ]
    candidates = tuple(of_fold.candidates for of_fold in pooled)
    try:
        check_policies(config, folds, candidates)
    except DataError as error:
        raise DataError(f"dataset {dataset.name}, split {split.name}: {error}") from None
    first = folds[0]
    segments, left_out = _segments(config, folds, context)
    place = "fold {}: " if len(folds) > 1 else ""
    notes = [
        f"{place.format(fold.fold + 1)}{note}"
        for fold, of_fold in zip(folds, pooled, strict=True)
        for note in (*fold.notes, *_repeated(fold), *of_fold.notes)
    ]
    info = DataInfo(
        dataset=dataset.name,
        type=dataset.type,
        params=dataset.params,
        split=split.name,
        split_type=split.type,
        split_params=split.params,
        full=data,
        train=first.train,
        test=first.test,
        n_folds=len(folds),
        counts=first.counts,
        notes=(*data.notes, *notes, *left_out, *_item_groups(config, first), *_row_order(config, first)),
        segments=segments,
        # A session is read event by event, with its repeated items.
        history=first.history_events if first.unit == "query" else first.history,
        histories=history_lengths(folds),
        units=_units(folds),
        pool=fingerprint([allowed.digest for allowed in candidates])
        if config.spec.recommend.candidates == "given"
        else None,
        later=tuple((fold.known, fold.test) for fold in folds[1:]),
    )
    return PreparedData(info, tuple(folds), candidates)


def _item_groups(config: CheckedConfig, fold: Split) -> Iterator[str]:
    """Yield a sentence on the sizes of each kind of groups of items that a metric compares."""
    metrics = [spec.metric for spec in config.metrics if isinstance(spec.metric, ItemGroupMetric)]
    train = TrainData(fold.train)
    yield from dict.fromkeys(metric.sizes_note(train) for metric in metrics)


def _row_order(config: CheckedConfig, fold: Split) -> Iterator[str]:
    """Yield a sentence on models that read events in order, where these have no times."""
    if fold.train.timestamp is not None:
        return
    if names := [m.name for m in config.models if MODELS.create(m.type, m.params).sequential]:
        yield f"the data has no times: for {', '.join(names)}, events are in the order of the rows"


def _repeated(fold: Split) -> Iterator[str]:
    """Yield a sentence on the truth of a log of events that the user, or the session, has met before."""
    if fold.test.from_events:
        repeated, pairs = len(fold.shared_pairs(fold.known)), len(fold.test)
        counted = (
            "queries ({}) repeat an item of their session"
            if fold.unit == "query"
            else "test pairs ({}) repeat one of the train data"
        )
        yield (
            f"{repeated:,} of {pairs:,} {counted.format(share(repeated / pairs))}; metrics with truth=repeat and "
            f"truth=explore, such as recall(truth=repeat)@10, tell these from the others"
        )


def candidates_of(
    config: CheckedConfig,
    place: DataSplit,
    fold: Split,
    rng: np.random.Generator,
    *,
    tuned: Split | None = None,
) -> Pooled:
    """Return the candidates of a fold's test users.

    Args:
        config: The config.
        place: Names of the dataset and the split.
        fold: The fold.
        rng: Source of the negatives of ``sampled``.
        tuned: The fold whose models are tuned on ``fold``; None: ``fold`` is a fold of the data itself.

    Raises:
        DataError: The pool is missing or breaks a rule; the message has its place in the config.
    """
    recommend = config.spec.recommend
    if recommend.candidates != "given":
        negatives = recommend.negatives or 0
        return Pooled(Candidates.of(recommend.candidates, fold, rng, n_negatives=negatives))
    pools = recommend.pools()
    key = "validation" if tuned is not None and "validation" in pools else "path"
    path = pools[key].at(place.dataset, place.split, (tuned or fold).fold + 1)
    try:
        return pools[key].candidates(config.folder, path, fold, config.spec.relevance.of(fold.test.rating))
    except DataError as error:
        raise DataError(config.document.locate(Problem(("recommend", key), str(error)))) from None


def _split(
    config: CheckedConfig,
    dataset: NamedDataset,
    data: Interactions,
    split: Named[Splitter],
    rng: np.random.Generator,
) -> list[Split]:
    """Return the folds; an error names the location in the config, and the dataset where there are several."""
    if not split.component.uses_parts:
        data = in_one_piece(data)
    try:
        return call_component(f"split {split.name}", folds_of, split.component, data, rng)
    except DataError as error:
        written, number = config.document.data["split"], config.splits.index(split)
        path: KeyPath = ("split", number) if isinstance(written, list) else ("split",)
        if error.parameter is not None:
            path = (*path, error.parameter)
        which = f" (dataset {dataset.name})" if len(config.datasets) > 1 else ""
        raise DataError(config.document.locate(Problem(path, f"{error}{which}"))) from None


def _units(folds: Sequence[Split]) -> Units:
    """Return the units that are tested in any fold."""
    test = folds[0].test
    tested = np.bincount(np.concatenate([fold.test.user for fold in folds]), minlength=test.n_users) > 0
    return Units.of_lists(test.users[tested], folds[0].unit, clustering_of(folds))


def _segments(
    config: CheckedConfig, folds: Sequence[Split], context: LoadContext
) -> tuple[tuple[Segmentation, ...], list[str]]:
    """Return the segmentations, and a note on each default one that is left out because it has one group.

    Queries are divided by position and repeat too.
    """
    needed = config.needed_segments
    are_asked_for = "segments" in config.spec.model_fields_set
    units = plural(folds[0].unit)
    shown, notes = [], []
    segmenters = [(named.name, named.component) for named in config.segments]
    if folds[0].unit == "query" and not are_asked_for:
        segmenters += [("position", Position()), ("repeat", Repeat())]
    for name, segmenter in segmenters:
        segment = segmentation(name, segmenter, folds, context)
        groups = np.unique(segment.group)
        label = next(iter(segment.labels), "none")
        is_of_newcomers = segment.name == "cold" and label == NO_HISTORY
        if len(groups) > 1 or is_of_newcomers or segment.name in needed or are_asked_for:
            shown.append(segment)
        else:
            notes.append(
                f"segment {segment.name} is not shown: all {len(segment.users):,} test {units} are in one group "
                f"({label})"
            )
    # Users who may decide a verdict are always told apart.
    if not any(NO_HISTORY in segment.labels for segment in shown):
        name = "cold" if all(segment.name != "cold" for segment in shown) else "history"
        segment = segmentation(name, Cold(), folds, context)
        if NO_HISTORY in segment.labels:
            users, cold = len(segment.users), np.count_nonzero(segment.group == 0)
            shown.append(segment)
            first = " in the first fold that tests them" if len(folds) > 1 else ""
            notes.append(
                f"segment {name} is added: {cold:,} of {users:,} test {units} have no train data{first}"
            )
    return tuple(shown), notes


def jobs_of(
    config: CheckedConfig, prepared: Sequence[PreparedData], *, tracking_uri: str | None = None
) -> list[Job]:
    """Return a job for every model on every dataset under every split, in the order of the config.

    ``tracking_uri`` is the store of the models that are read from MLflow; None: the store of the environment.
    """
    return [_job(config, data, model, tracking_uri) for data in prepared for model in config.models]


def _job(config: CheckedConfig, prepared: PreparedData, model: ModelRecipe, tracking_uri: str | None) -> Job:
    inputs = tuple(dict.fromkeys(model.all_inputs(config.folder)))
    # With its parameters, or with some that its tuning may choose.
    draws = "random_state" in (model.space or ()) or MODELS.create(model.type, model.params).stochastic
    seeds = config.spec.seeds if draws else 1
    names = [(f"seed {seed + 1}",) if seed else () for seed in range(seeds)]
    tasks = [
        Task(
            model=model,
            split=fold,
            candidates=candidates,
            seed=config.spec.seed,
            # By the train data alone: no test data changes a fit. The first seed's stream is the one of a bake-off
            # without others.
            stream=(fold.train.pairs_digest, *name),
            n=config.spec.recommend.n,
            ties=None if config.spec.recommend.ties == "id" else name,
            metrics=config.metrics,
            relevance=config.spec.relevance,
            inputs=inputs,
            folder=config.folder,
            tracking_uri=tracking_uri,
            cold_users="popularity" if config.spec.recommend.cold_users == "popularity" else "model",
        )
        for name in names
        for fold, candidates in zip(prepared.folds, prepared.candidates, strict=True)
    ]
    return Job(prepared.info, model, tasks, seeds=seeds)


def load_cached(jobs: Sequence[Job], cache: StepCache) -> None:
    """Fill jobs with cached results and lists, and with the failures in the journal."""
    failures = {} if cache.journal is None else cache.journal.failures
    for job in jobs:
        names = {number: job.name(number) for number in range(len(job.tasks))}
        job.done |= {number: failures[name] for number, name in names.items() if name in failures}
        for number, task in enumerate([] if job.failed else job.tasks):
            if (lists := cache.lists(task)) is None:
                continue
            if (result := cache.scored(task, lists)) is not None:
                job.done[number] = result
            else:
                job.tasks[number] = replace(task, lists=lists)


def results_of(
    jobs: Sequence[Job],
    execute: TaskExecutor,
    cache: StepCache | None = None,
    starting: Callable[[int], None] = lambda job: None,
    task_ended: Callable[[], None] = lambda: None,
    observer: Observer = _SILENT,
) -> Iterator[tuple[int, ModelResult]]:
    """Yield the number and the result of each job as soon as all its tasks are done; a failure is part of the result.

    Args:
        jobs: The jobs, with the results and lists that were cached.
        execute: Executes the tasks without a result.
        cache: Stores each new result; None: results are not cached.
        starting: Receives the number of each job before anything is computed for it.
        task_ended: Called after each task, before its job is yielded.
        observer: Shows the storing of results.
    """
    for number, job in enumerate(jobs):
        if job.ended:
            starting(number)
            yield number, _result_of(job)
    waiting = [number for number, job in enumerate(jobs) if not job.ended]
    if not waiting:
        return
    started: list[tuple[int, int]] = []  # job, and task within it, by the order in which they start

    def missing() -> Iterator[tuple[int, str, Task]]:
        for number in waiting:
            job = jobs[number]
            starting(number)
            for place, task in enumerate(job.tasks):
                if job.failed:
                    break
                if place not in job.done:
                    started.append((number, place))
                    job.running += 1
                    yield len(started) - 1, job.label(place), task

    with closing(execute(missing())) as results:
        for task_number, result in results:
            number, place = started[task_number]
            job = jobs[number]
            job.running -= 1
            with observer.progress(f"store {job.label(place)}"):
                if cache is not None:
                    result = stored(cache, job.name(place), job.tasks[place], result)
                job.done[place] = result
                finished = _result_of(job) if job.ended else None
            task_ended()
            if finished is not None:
                yield number, finished


def stored(cache: StepCache, name: str, task: Task, result: Result) -> Result:
    """Write the result of a task to the cache, or its failure to the journal; ``name`` is its name within the bake-off.

    Raises:
        PluginError: A metric of a plugin has failed; the lists are written.
    """
    if isinstance(result, TaskResult):
        return cache.store_result(task, result)
    if (error := result.plugin_error) is None:
        if cache.journal is not None:
            cache.journal.record_failure(name, result)
        return result
    if isinstance(error.lists, TaskLists) and task.lists is None:
        cache.store_lists(task, error.lists)
    raise error


def _result_of(job: Job) -> ModelResult:
    """Return the result of a model: averages over folds and seeds, costs, lists, notes."""
    results = [result for _, result in sorted(job.done.items())]
    model = ModelResult(job.info, job.model.name, job.model.type, job.model.params, tuning=job.tuning)
    for result in results:
        if isinstance(result, TaskFailure):
            return replace(model, error=result.error)
    done = [result for result in results if isinstance(result, TaskResult)]
    by_seed = [done[start : start + job.folds] for start in range(0, len(done), job.folds)]
    averages = [average_folds([result.per_user for result in folds]) for folds in by_seed]
    by_fold = [average_folds([result.per_user for result in seeds]) for seeds in zip(*by_seed, strict=True)]
    scores = average_folds(averages)
    # The mean time of a seed, and the highest memory of any task.
    total = sum((result.costs for result in done), Costs())
    seconds = {name: getattr(total, name) / job.seeds for name in Costs.SECONDS}
    return replace(
        model,
        costs=replace(total, **seconds),
        per_user=replace(scores, units=replace(scores.units, clusters=job.info.units.clusters)),
        fold_means=tuple(fold.means for fold in by_fold),
        seed_means=tuple(average.means for average in averages) if job.seeds > 1 else (),
        lists=_lists(by_seed[0], [task.split for task in job.tasks[: job.folds]]),
        items=items_table(
            [result.top_n for result in by_seed[0]],
            [task.split for task in job.tasks[: job.folds]],
            job.tasks[0].relevance,
        ),
        notes=tuple(_notes(by_seed)),
    )


def _notes(by_seed: Sequence[Sequence[TaskResult]]) -> Iterator[str]:
    """Yield the notes of models on their lists, with the numbers of fold and seed where there are several."""
    folds = len(by_seed[0])
    for seed, results in enumerate(by_seed):
        for fold, result in enumerate(results):
            where = f"fold {fold + 1}: " if folds > 1 else ""
            where += f"seed {seed + 1}: " if len(by_seed) > 1 else ""
            yield from (f"{where}{note}" for note in result.lists.notes)
    items = [[result.top_n.item for result in results] for results in by_seed]
    if len(by_seed) > 1 and all(all(map(np.array_equal, items[0], others)) for others in items[1:]):
        yield (
            f"all {len(by_seed)} seeds gave the same lists: random numbers decide nothing here. A model of yours that "
            f"declares `stochastic = False` is fitted once"
        )


def _lists(results: Sequence[TaskResult], folds: Sequence[Split]) -> FoldLists:
    """Return the lists of all folds, with their test data, which outlives the bake-off."""
    by_fold = tuple(result.top_n for result in results)
    return FoldLists(by_fold, tuple(f.test for f in folds), tuple(f.train.digest for f in folds))
