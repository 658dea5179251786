"""Tasks: one model on one fold, from plain values to lists, scores and costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes
from evalplugin.base.costs import Peak, Stopwatch, peak_memory
from evalplugin.base.seeding import generator, hashed_ranks
from evalplugin.data import Candidates, Interactions, Split
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.observer import Observer
from evalplugin.execution.race import Race
from evalplugin.execution.results import Costs
from evalplugin.files.recording import recorded_inputs
from evalplugin.metrics import Blocks, MetricSpec
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import score_top_n
from evalplugin.models import MODELS, Recommender, TopN, one_blas_thread, predict_ratings, recommend
from evalplugin.models.base import ListRequest, TaskRecommender
from evalplugin.models.recommend import ColdUsers

if TYPE_CHECKING:
    from evalplugin.config import ModelRecipe  # holds values: the config's code decides no result

__all__ = [
    "Task",
    "TaskFailure",
    "TaskLists",
    "TaskResult",
    "costs_of",
    "curve_ks",
    "fit_model",
    "joined_lists",
    "list_users",
    "run_task",
    "start_model",
    "task_costs",
]

# Cutoffs of the metric-at-k curves, as far as the lists reach.
_CURVE_KS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, eq=False)
class TaskLists:
    """The lists and predictions of a fitted model, from which any metric can be computed."""

    top_n: TopN
    predictions: npt.NDArray[np.float64] | None  # for the rows of the test data; None: it predicts no ratings
    costs: Costs  # ``score_seconds`` is the time of predicting
    # The error of a model that predicts, and failed to; it does not matter until a metric needs predictions.
    unpredicted: str | None = None
    notes: tuple[str, ...] = ()  # what people should know of them
    inputs: Mapping[str, str] = field(default_factory=dict)  # files that it has read, with fingerprints


@dataclass(frozen=True)
class Task:
    """One model on one fold, as picklable values that any process can work on."""

    model: ModelRecipe
    split: Split
    candidates: Candidates
    seed: int
    stream: tuple[str, ...]  # names the model's random stream
    n: int
    metrics: tuple[MetricSpec, ...]
    threshold: float | None
    lists: TaskLists | None = None  # computed before; they are only scored
    # Names of the inputs that the model's parameters name or the config declares.
    inputs: tuple[str, ...] = ()
    folder: Path = Path()  # base of relative paths
    # Names the order of items with equal scores under the seed; None: in order of item code.
    ties: tuple[str, ...] | None = None
    race: Race | None = None  # the result of a trial that is dropped covers the users seen until then
    tracking_uri: str | None = None  # the tracking store of the bake-off
    cold_users: ColdUsers = "model"

    @property
    def needs_predictions(self) -> bool:
        """Whether a metric needs predicted ratings."""
        return any("predictions" in metric.metric.needs for metric in self.metrics)

    @property
    def runs_plugins(self) -> bool:
        """Whether code runs in it that is not ours."""
        return self.scores_by_plugins or not MODELS.entry(self.model.type).is_own

    @property
    def scores_by_plugins(self) -> bool:
        """Whether a metric is not ours."""
        return not all(metric.is_own for metric in self.metrics)


@dataclass(frozen=True, eq=False)
class TaskResult:
    """The result of a task: lists, every user's scores, costs."""

    lists: TaskLists
    per_user: PerUserScores
    costs: Costs
    inputs: Mapping[str, str] = field(default_factory=dict)  # files that scoring has read, with fingerprints

    @property
    def top_n(self) -> TopN:
        """The lists alone."""
        return self.lists.top_n


def run_task(task: Task, label: str, observer: Observer) -> TaskResult:
    """Return the lists, the scores and the costs of one model on one fold."""
    # The number of threads of BLAS changes its rounding, and a result must not depend on the machine.
    with one_blas_thread():
        lists = task.lists or _make_lists(task, label, observer)
        watch = Stopwatch()
        with (
            recorded_inputs(carry=task.scores_by_plugins) as inputs,
            peak_memory() as peak,
            observer.progress(f"score {label}"),
            watch.time("score"),
        ):
            per_user = _scores(task, lists.top_n, lists.predictions, curve_ks(task.n, task.metrics))
    scoring = Costs(score_seconds=watch.seconds["score"], peak_memory_mb=peak.mb)
    return TaskResult(lists, per_user, task_costs(task, lists, scoring), inputs)


def task_costs(task: Task, lists: TaskLists, scoring: Costs) -> Costs:
    """Return the costs of a task: of its lists and of scoring them; predictions count where a metric needs them."""
    made = lists.costs if task.needs_predictions else replace(lists.costs, score_seconds=0.0)
    return made + scoring


def _scores(
    task: Task, top_n: TopN, predictions: npt.NDArray[np.float64] | None, ks: Sequence[int] = ()
) -> PerUserScores:
    return score_top_n(
        Blocks.of(
            top_n,
            _truth(task, top_n),
            train=task.split.train,
            threshold=task.threshold,
            predictions=predictions if task.needs_predictions else None,
            candidates=task.candidates,
        ),
        task.metrics,
        ks,
    )


def _truth(task: Task, top_n: TopN) -> Interactions:
    """Return the test data; in a race, of the users who have lists."""
    test = task.split.test
    return test if task.race is None else test.select(np.isin(test.user, top_n.user))


def curve_ks(n: int, metrics: Sequence[MetricSpec]) -> list[int]:
    """Return the cutoffs of metric-at-k curves for lists of length n: the usual ones and those of the metrics."""
    own = {metric.k for metric in metrics if metric.k is not None}
    return sorted({k for k in _CURVE_KS if k <= n} | own | {n})


def _make_lists(task: Task, label: str, observer: Observer) -> TaskLists:
    watch, is_plugin = Stopwatch(), not MODELS.entry(task.model.type).is_own
    with recorded_inputs(task.inputs, carry=is_plugin) as inputs, ExitStack() as measured:
        model, peak = fit_model(task, label, observer, watch, measured)
        made = list_users(model, task, label, observer, watch)
    return replace(made, costs=costs_of(watch, peak), inputs=inputs)


def fit_model(
    task: Task, label: str, observer: Observer, watch: Stopwatch, measured: ExitStack
) -> tuple[Recommender, Peak]:
    """Return the fitted model of a task; its peak memory is measured from then on until ``measured`` is closed."""
    model = MODELS.create(task.model.type, task.model.params)
    params = json.dumps(task.model.params, sort_keys=True)
    rng = generator(task.seed, *task.stream, task.model.type, params)
    with observer.progress(f"fit {label}"):
        start_model(model, watch)
        peak = measured.enter_context(peak_memory())
        with watch.time("fit"):
            model.fit(task.split.train, rng)
    return model, peak


def start_model(model: Recommender, watch: Stopwatch) -> None:
    """Pay what a process pays once, such as imports, which does not count as costs of the first model."""
    with watch.time("start"):
        getattr(model, "prepare", lambda: None)()


def list_users(model: Recommender, task: Task, label: str, observer: Observer, watch: Stopwatch) -> TaskLists:
    """Return the lists of the test users, and the predictions for the test data, by a fitted model."""
    users = np.unique(task.split.test.user)
    with observer.progress(f"recommend {label}", len(users)) as advance:
        top_n = _recommend(model, task, users, watch, advance)
    with watch.time("predict"):
        predictions, unpredicted = _predict(model, task, top_n)
    return TaskLists(
        top_n, predictions, costs_of(watch, Peak()), unpredicted, tuple(getattr(model, "notes", ()))
    )


def costs_of(watch: Stopwatch, peak: Peak) -> Costs:
    """Return what making lists has cost; ``score_seconds`` is the time of predicting."""
    fit, recommend, predict, start = (
        watch.seconds.get(name, 0.0) for name in ("fit", "recommend", "predict", "start")
    )
    return Costs(fit, recommend, predict, peak.mb, start)


def _recommend(
    model: Recommender, task: Task, users: Codes, watch: Stopwatch, advance: Callable[[int], None]
) -> TopN:
    """Return the lists of the users; in a race, of those seen until the trial was dropped, if it was."""
    # A model that makes all lists at once would have to make them anew at each stage.
    race = None if isinstance(model, TaskRecommender) else task.race
    train, ties = task.split.train, task.ties
    candidates = task.candidates
    if ties is not None:
        candidates = replace(candidates, tie_rank=hashed_ranks(train.items, task.seed, "ties", *ties))
    parts: list[TopN] = []
    for stage in [users] if race is None else race.stages():
        if race is not None and parts:
            seen = joined_lists(parts)
            scores = _scores(task, seen, _predict(model, task, seen)[0])
            if race.is_worse(seen.user, scores.values[:, 0]):
                break
        with watch.time("recommend"):
            request = ListRequest(
                train, stage, task.n, candidates, task.split.fold, task.folder, task.tracking_uri
            )
            lists = recommend(model, request, cold_users=task.cold_users, progress=advance)
        parts.append(lists)
    return joined_lists(parts)


def joined_lists(parts: Sequence[TopN]) -> TopN:
    """Return the lists of several groups of users as one, in the order of the users."""
    if len(parts) == 1:
        return parts[0]
    users = np.concatenate([part.user for part in parts])
    order = np.argsort(users)
    items, scores = (
        np.concatenate([getattr(part, name) for part in parts])[order] for name in ("item", "score")
    )
    return TopN(users[order], items, scores)


def _predict(
    model: Recommender, task: Task, top_n: TopN
) -> tuple[npt.NDArray[np.float64] | None, str | None]:
    """Return the predictions and None, or None and the error.

    Ratings are predicted even if no metric needs them: a later bake-off may score the cached lists by one that does.
    But the lists of a race are compared by its metric alone.
    """
    if task.race is not None and not task.needs_predictions:
        return None, "not predicted, as the metric of the race needs no predictions"
    try:
        return predict_ratings(model, _truth(task, top_n)), None
    except Exception as error:
        if task.needs_predictions:
            raise
        return None, f"{type(error).__name__}: {error}"
