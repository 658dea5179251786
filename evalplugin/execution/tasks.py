"""Tasks: one model on one fold, from plain values to lists, scores and costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes
from evalplugin.base.costs import Peak, Stopwatch, peak_memory
from evalplugin.base.errors import PluginError
from evalplugin.base.seeding import generator, hashed_ranks
from evalplugin.config import ModelRecipe
from evalplugin.data import Candidates, Interactions, Split
from evalplugin.execution.observer import Observer
from evalplugin.execution.race import Race
from evalplugin.execution.results import Costs
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.blocks import Blocks
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import score_part, with_ids
from evalplugin.metrics.states import ScorerState
from evalplugin.models import MODELS, Recommender, TopN, one_blas_thread, predict_ratings, recommend
from evalplugin.models.base import ListRequest, defines
from evalplugin.models.recommend import ColdUsers

T = TypeVar("T")

# Cutoffs of the metric-at-k curves, up to the length of the lists.
_CURVE_KS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, eq=False)
class TaskLists:
    """The lists and predictions of a fitted model, from which any metric can be computed."""

    top_n: TopN
    predictions: npt.NDArray[np.float64] | None  # for the rows of the test data; None: it predicts no ratings
    costs: Costs  # ``score_seconds`` is the time of predicting
    # The error of a model that failed to predict; it does not matter until a metric needs predictions.
    unpredicted: str | None = None
    notes: tuple[str, ...] = ()  # sentences of the model on its lists


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
    relevance: Relevance
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
        return any("predictions" in metric.needs for metric in self.metrics)


@dataclass(frozen=True, eq=False)
class TaskResult:
    """The result of a task: lists, every user's scores, costs."""

    lists: TaskLists
    per_user: PerUserScores
    costs: Costs

    @property
    def top_n(self) -> TopN:
        """The lists alone."""
        return self.lists.top_n


def run_task(task: Task, label: str, observer: Observer) -> TaskResult:
    """Return the lists, the scores and the costs of one model on one fold."""
    # The number of threads of BLAS changes its rounding, and a result must not depend on the machine.
    with one_blas_thread():
        lists = task.lists or _make_lists(task, label, observer)
        with observer.progress(f"score {label}"):
            try:
                per_user, scoring = measured(lambda: with_ids(score_state(task, lists).scores(), task.split))
            except PluginError as error:
                error.lists = lists
                raise
    return TaskResult(lists, per_user, task_costs(task, lists, scoring))


def measured(score: Callable[[], T]) -> tuple[T, Costs]:
    """Run a function that scores; return its value and its costs."""
    watch = Stopwatch()
    with peak_memory() as peak, watch.time("score_seconds"):
        scores = score()
    return scores, Costs(**watch.seconds, peak_memory_mb=peak.mb)


def task_costs(task: Task, lists: TaskLists, scoring: Costs) -> Costs:
    """Return the costs of a task: of its lists and of scoring them; predictions count where a metric needs them."""
    made = lists.costs if task.needs_predictions else replace(lists.costs, score_seconds=0.0)
    return made + scoring


def score_state(
    task: Task, lists: TaskLists, *, curves: bool = True, log: Interactions | None = None
) -> ScorerState:
    """Return the state of scoring of lists, which merges with others.

    Args:
        task: The task.
        lists: Lists of its test users.
        curves: Whether to compute metric-at-k curves.
        log: The test data of all parts, where the task has a part of the test users; None: it has all.
    """
    blocks = Blocks.of(
        lists.top_n,
        _truth(task, lists.top_n),
        train=task.split.train,
        known=task.split.known,
        relevance=task.relevance,
        predictions=lists.predictions if task.needs_predictions else None,
        candidates=task.candidates,
        shown=task.split.shown,
        log=task.split.test if log is None else log,
        is_logging=MODELS.entry(task.model.type).cls.is_logging,
    )
    return score_part(blocks, task.metrics, curve_ks(task.n, task.metrics) if curves else ())


def _truth(task: Task, top_n: TopN) -> Interactions:
    """Return the test data; in a race, of the users who have lists."""
    test = task.split.test
    return test if task.race is None else test.select(np.isin(test.user, top_n.user))


def curve_ks(n: int, metrics: Sequence[MetricSpec]) -> list[int]:
    """Return the cutoffs of metric-at-k curves for lists of length n: the usual ones and the metrics' own."""
    own = {metric.k for metric in metrics if metric.k is not None}
    return sorted({k for k in _CURVE_KS if k <= n} | own | {n})


def _make_lists(task: Task, label: str, observer: Observer) -> TaskLists:
    work = Work(task, label, observer)
    model = work.new_model()
    with peak_memory() as peak:
        work.fit(model)
        made = work.make_lists(model)
    return replace(made, costs=work.costs(peak))


class Work:
    """The making of lists for a task, or of a part of them, with its progress and its seconds."""

    def __init__(self, task: Task, label: str, observer: Observer) -> None:
        """Begin with a task; ``label`` names it in the progress."""
        self._task, self._label, self._observer, self._watch = task, label, observer, Stopwatch()

    def new_model(self) -> Recommender:
        """Return the model of the task, started and not fitted."""
        model = MODELS.create(self._task.model.type, self._task.model.params)
        self.start(model)
        return model

    def fit(self, model: Recommender) -> None:
        """Fit the model."""
        task = self._task
        params = json.dumps(task.model.params, sort_keys=True)
        rng = generator(task.seed, *task.stream, task.model.type, params)
        with self._observer.progress(f"fit {self._label}"), self._watch.time("fit_seconds"):
            model.fit(_train_data(model, task.split), rng)

    def start(self, model: Recommender) -> None:
        """Import libraries and the like, once a process, so that they do not count as costs of the first model."""
        if defines(type(model), Recommender.prepare):
            label = f"start {self._label} (imports and compiled code; longer the first time)"
            with self._observer.progress(label), self._watch.time("start_seconds"):
                model.prepare()

    def make_lists(self, model: Recommender) -> TaskLists:
        """Return the lists of the test users and the predictions for the test data, without costs."""
        users = self._task.split.test.active_users
        with self._observer.progress(f"recommend {self._label}", len(users)) as advance:
            top_n = self._recommend(model, users, advance)
        with self._watch.time("score_seconds"):
            predictions, unpredicted = _predict(model, self._task, top_n)
        notes = tuple(model.notes)
        return TaskLists(top_n, predictions, Costs(), unpredicted, notes)

    def costs(self, peak: Peak) -> Costs:
        """Return the costs until now; ``score_seconds`` is the time of predicting."""
        return Costs(**self._watch.seconds, peak_memory_mb=peak.mb)

    def _recommend(self, model: Recommender, users: Codes, advance: Callable[[int], None]) -> TopN:
        """Return the lists of the users; in a race, of the users seen until the trial was dropped."""
        task, candidates = self._task, self._task.candidates
        train = _train_data(model, task.split)
        # A model that makes all lists at once would have to make them anew at each stage.
        race = None if defines(type(model), Recommender.recommend_task) else task.race
        if task.ties is not None:
            tie_rank = hashed_ranks(train.items, task.seed, "ties", *task.ties)
            candidates = replace(candidates, tie_rank=tie_rank)
        parts: list[TopN] = []
        for stage in [users] if race is None else race.stages():
            if race is not None and parts:
                seen = joined_lists(parts)
                lists = TaskLists(seen, _predict(model, task, seen)[0], Costs())
                scores = score_state(task, lists, curves=False).scores()
                if race.is_worse(seen.user, scores.values[:, 0]):
                    break
            request = ListRequest(
                train,
                stage,
                task.n,
                candidates,
                task.split.fold,
                task.folder,
                task.tracking_uri,
                _history(model, task.split),
                task.split.unit,
                task.split.test if model.is_logging else None,
            )
            with self._watch.time("recommend_seconds"):
                made = recommend(model, request, cold_users=task.cold_users, progress=advance)
            parts.append(made)
        return joined_lists(parts)


def _train_data(model: Recommender, split: Split) -> Interactions:
    """Return the train data in a model's form: each pair once, or the events of each user in order."""
    return split.train_events.in_order() if model.sequential else split.train


def _history(model: Recommender, split: Split) -> Interactions | None:
    """Return the histories of new users as the train data of the model is: pairs, or events in order."""
    events = split.history_events
    return events.in_order() if model.sequential and events is not None else split.history


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

    Ratings are predicted even if no metric needs them, as a later bake-off may score the cached lists by other metrics.
    Only the metric of a race ever scores its lists.
    """
    if task.race is not None and not task.needs_predictions:
        return None, "not predicted, as the metric of the race needs no predictions"
    if task.split.history is not None:  # `predict` is not given it, and would answer as for unknown users
        return None, "not predicted, as ratings are predicted for users of the train data alone"
    try:
        return predict_ratings(model, _truth(task, top_n)), None
    except Exception as error:
        if task.needs_predictions:
            raise
        return None, f"{type(error).__name__}: {error}"
