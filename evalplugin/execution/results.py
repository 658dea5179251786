"""A bake-off as plain values: its plan, its data, the results of its models."""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from evalplugin.base.fingerprint import digest
from evalplugin.base.libraries import pa
from evalplugin.base.places import DataSplit, OnDataSplit
from evalplugin.base.secrets import redact
from evalplugin.base.text import page_of
from evalplugin.data import Interactions
from evalplugin.data.background import Background, background_of, joined_folds
from evalplugin.data.interactions import joined
from evalplugin.execution.isolation import last_line
from evalplugin.metrics import MetricSpec, parse
from evalplugin.metrics.given import spec_of
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.models import TopN
from evalplugin.segments import HistoryLengths, Segmentation


@dataclass(frozen=True)
class Finding:
    """A finding of a check of the data or the results of a bake-off."""

    code: str  # such as EV101; `evalplugin describe check EV101` explains it
    text: str  # one line, with numbers
    severity: Literal["warning", "error"] = "warning"
    dataset: str = ""  # name in the config
    split: str = ""  # name in the config; empty: the same under every split
    model: str | None = None  # name in the config; None: not of one model

    @property
    def line(self) -> str:
        """The finding for people: ``EV114 shop: relevance.threshold is not set, ...``."""
        where = str(DataSplit.of(self))
        return f"{self.code} {where}: {self.text}" if where else f"{self.code} {self.text}"

    @property
    def is_error(self) -> bool:
        """Whether the config declares it to be an error."""
        return self.severity == "error"

    @property
    def url(self) -> str:
        """The address of the page on its check."""
        return page_of(self.code)


@dataclass(frozen=True)
class Costs:
    """Time and memory of some work: of a call, a task, or a model with all its folds.

    ``a + b`` has the seconds of both and the higher peak.
    """

    WORK: ClassVar = ("fit_seconds", "recommend_seconds", "score_seconds")  # what ``seconds`` adds
    SECONDS: ClassVar = (*WORK, "start_seconds")

    fit_seconds: float = 0.0
    recommend_seconds: float = 0.0
    score_seconds: float = 0.0
    # How much the resident memory of the process grew at most while the model ran, in 2**20 bytes: without data,
    # libraries and what other models hold. NaN where the system has no count.
    peak_memory_mb: float = math.nan
    start_seconds: float = 0.0  # importing libraries and loading compiled code, apart from the work

    @property
    def seconds(self) -> float:
        """Seconds of fitting, recommending and scoring."""
        return self.fit_seconds + self.recommend_seconds + self.score_seconds

    def __add__(self, other: Costs) -> Costs:
        seconds = {name: getattr(self, name) + getattr(other, name) for name in self.SECONDS}
        return Costs(**seconds, peak_memory_mb=float(np.fmax(self.peak_memory_mb, other.peak_memory_mb)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Scored:
    """The data that models were scored on, as it is logged: the units of a table of scores, or a bake-off's data."""

    dataset: str  # name in the config, or of the table
    type: str  # registered dataset type, or scores
    params: Mapping[str, Any]  # of the dataset, or the origin of the table
    split: str = ""  # name in the config
    units: Units = field(default_factory=lambda: Units(np.empty(0, dtype=np.int64)), repr=False)
    notes: tuple[str, ...] = ()  # sentences on decisions taken while reading and splitting
    findings: tuple[Finding, ...] = ()  # of the checks of the data
    segments: tuple[Segmentation, ...] = field(default=(), repr=False)  # groups of the units

    @property
    def test_digest(self) -> str:
        """The digest of what was scored."""
        return self.units.digest

    @property
    def sizes(self) -> dict[str, int]:
        """The number of units."""
        return {"units": len(self.units)}


@dataclass(frozen=True, eq=False, kw_only=True)
class DataInfo(Scored):
    """The data of one dataset under one split, as it is logged; ``train`` and ``test`` are the first fold's."""

    split_type: str
    split_params: Mapping[str, Any]
    full: Interactions = field(repr=False)
    train: Interactions | None = field(repr=False)  # None: lists from elsewhere, scored without it
    test: Interactions = field(repr=False)
    n_folds: int
    counts: Mapping[str, int]  # e.g. cold_users, cold_items, test_users, of the first fold
    # Of users who are not in the train data, in the first fold; of queries event by event.
    history: Interactions | None = field(default=None, repr=False)
    histories: HistoryLengths | None = field(default=None, repr=False)  # None: lists from elsewhere
    pool: str | None = None  # a hash of given candidates of all folds; None: lists are chosen by another rule
    # Of each fold after the first: train data, or what else is known of the users, and test data.
    later: tuple[tuple[Interactions | None, Interactions], ...] = field(default=(), repr=False)

    @property
    def test_digest(self) -> str:
        """The digest of the test data of all folds."""
        if not self.later:
            return self.test.digest
        return digest([self.test.digest, *(test.digest for _, test in self.later)])[:32]

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of users, items and interactions before the split."""
        return {"users": self.full.n_users, "items": self.full.n_items, "interactions": len(self.full)}

    @cached_property
    def background(self) -> Background:
        """The background of single users' lists, computed once for all models."""
        known = self.train
        if known is not None and self.history is not None:
            known = joined(known, self.history)
        return background_of(self.full, [(known, self.test), *self.later])


@dataclass(frozen=True, eq=False)
class Tuning:
    """The tuning of a model's parameters on one dataset under one split.

    ``trials`` has a row for each trial, with the columns

    - fold (from 1), trial (from 0; the first has the defaults), state (``done``, ``dropped`` by the race, ``failed``);
    - value: mean of the metric on the validation data, over the ``users`` seen; null for a trial that failed;
    - fit_seconds, recommend_seconds, score_seconds; cached and best, which are bool; error: the last line of the
      traceback, or null;
    - ``params.<name>`` for each tuned parameter: null where its condition is not met, text of JSON where its values
      have several types.
    """

    metric: str  # canonical name
    # For each fold: the values of the tuned parameters, under dotted names.
    best: tuple[Mapping[str, Any], ...]
    validation: float  # mean over the folds of the best trial's value
    trials: pa.Table = field(repr=False)
    # The section ``tune`` of the config as plain values, defaults filled in: split (type and parameters), metric,
    # budget (trials, seconds), prune.
    settings: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Any] = field(default_factory=dict)  # of each tuned parameter, as in the config
    notes: tuple[str, ...] = ()  # sentences, such as that the best value is at an end of its range

    def __post_init__(self) -> None:
        errors = self.trials["error"].to_pylist()
        if any(errors):  # credentials are removed, as from the error of a model
            safe = [None if error is None else redact(error) for error in errors]
            column = self.trials.column_names.index("error")
            object.__setattr__(self, "trials", self.trials.set_column(column, "error", [safe]))

    @property
    def defaults(self) -> float:
        """Mean over the folds of the value of the defaults; NaN where they failed."""
        first = self.trials.filter(np.asarray(self.trials["trial"]) == 0)["value"]
        values = first.to_pylist()
        return math.nan if None in values else mean_of_defined(np.array(values, dtype=np.float64))

    @property
    def seconds(self) -> float:
        """The seconds of all trials, in this bake-off or when they were computed."""
        return sum(value or 0.0 for name in Costs.WORK for value in self.trials[name].to_pylist())

    def count(self, state: Literal["done", "dropped", "failed"]) -> int:
        """Return the number of trials that ended so, on all folds together."""
        return int(np.count_nonzero(np.asarray(self.trials["state"]) == state))

    def optimism(self, test: float) -> float:
        """Return the gain of the value on the validation data over a value on the test data."""
        return parse(self.metric).direction * (self.validation - test)


@dataclass(frozen=True, eq=False)
class FoldLists:
    """A model's lists of all folds, as codes: less than half of the memory of their table."""

    by_fold: tuple[TopN, ...]
    data: tuple[Interactions, ...]  # of each fold: data with the vocabularies of its lists
    train_digests: tuple[str, ...] = ()  # of each fold; empty: lists from elsewhere

    def table(self, k: int | None = None) -> pa.Table:
        """Return user, item, rank, score (and fold, from 1, when there are several), with raw ids.

        ``k``: places of each list; None: all.
        """
        first = [replace(lists, item=lists.item[:, :k], score=lists.score[:, :k]) for lists in self.by_fold]
        table = joined_folds([lists.to_table(data) for lists, data in zip(first, self.data, strict=True)])
        if not self.train_digests:
            return table
        described = json.dumps({"train_digests": self.train_digests})
        return table.replace_schema_metadata({"evalplugin": described})


@dataclass(frozen=True)
class ModelResult:
    """The result of a model on a dataset under a split, all folds: the content of one MLflow run.

    ``model``, ``type`` and ``params``, ``costs``, ``per_user`` scores (averages over folds and seeds), ``fold_means``,
    ``seed_means``, the tables ``top_n`` (lists) and ``items`` (counts), ``notes``, ``tuning``, and ``error``: the
    traceback of a model that failed.
    """

    data: Scored
    model: str  # name in the config
    type: str  # registered model type
    params: Mapping[str, Any]  # resolved, defaults included
    costs: Costs | None = None
    # Each user's scores, averaged over the folds the user is in, and then over the seeds.
    per_user: PerUserScores | None = field(default=None, repr=False)
    fold_means: tuple[Mapping[str, float], ...] = ()  # canonical metric name -> mean, for each fold
    # Of each seed the mean over users of their averages over folds; empty for a model that was fitted once.
    seed_means: tuple[Mapping[str, float], ...] = ()
    lists: FoldLists | None = field(default=None, repr=False)  # of the first seed
    # item, train, truth, listed, hit: counts of the items that a list or a truth has; of the first seed
    items: pa.Table | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()  # sentences on its lists, such as how many users have none
    tuning: Tuning | None = None  # where its parameters were tuned; ``params`` has the best of the last fold
    error: str | None = None  # the traceback of a model that failed; then per_user and lists are None

    def __post_init__(self) -> None:
        if self.error is not None:  # shown and logged by many callers: credentials are removed once, here
            object.__setattr__(self, "error", redact(self.error))

    @property
    def top_n(self) -> pa.Table | None:
        """The lists: user, item, rank, score (and fold, when there are several); made anew each time."""
        return None if self.lists is None else self.lists.table()

    def by_group(self, metric: str) -> dict[str, dict[str, npt.NDArray[np.float64]]]:
        """Return the users' defined values of a metric, by name of the segment and label of the group."""
        scores = self.per_user
        if scores is None or metric not in scores.metrics:
            return {}
        values = scores.column(metric)
        return {segment.name: segment.by_label(scores.users, values) for segment in self.data.segments}

    def mean(self, metric: str) -> float:
        """Return the mean of a metric on the test data; NaN where it was not computed."""
        return math.nan if self.per_user is None else self.per_user.means.get(metric, math.nan)

    @property
    def optimism(self) -> float:
        """The gain of the tuned value on the validation data over the value on the test data; NaN without tuning."""
        return math.nan if self.tuning is None else self.tuning.optimism(self.mean(self.tuning.metric))

    @property
    def shown_notes(self) -> tuple[str, ...]:
        """The notes with the names of the dataset and the model, to be shown among notes of other models."""
        return tuple(f"{self.data.dataset}: {self.model}: {note}" for note in self.notes)

    @property
    def failure(self) -> str | None:
        """The last line of the traceback; None for a model that did not fail."""
        return None if self.error is None else last_line(self.error)


def new_id() -> str:
    """Return a unique id for a bake-off; it begins with the time in UTC, so that ids sort by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


@dataclass(frozen=True)
class Plan:
    """The plan of a bake-off, complete before it runs: data, models, metrics and rules of scoring."""

    id: str  # unique, e.g. 20260101-120000-3f2a
    experiment: str
    seed: int
    n: int
    candidates: str | None  # None: lists or scores from elsewhere, of which it is not known
    relevance: Relevance
    metrics: tuple[str, ...]  # canonical names
    primary: str  # canonical name of the metric that ranks the models
    baseline: str | None
    models: tuple[str, ...]  # names in config order
    config_name: str  # file name or "python"
    config_text: str = field(repr=False)  # as written, comments included
    config_resolved: str = field(repr=False)  # YAML with every default filled in and every grid expanded
    config_dir: str  # the config's folder, whose git commit is logged
    config_hash: str
    metrics_hash: str
    datasets: tuple[str, ...] = ()  # names in config order
    splits: tuple[str, ...] = ()  # names in config order
    seeds: int = 1  # how often a stochastic model is fitted
    ties: str | None = "hashed"  # order of items with equal scores; None: not known
    cold_users: str | None = "model"  # what makes the lists of users without train data; None: not known
    # Hashes of config, data and code, where they are known.
    inputs: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, MetricSpec] = field(default_factory=dict)  # metrics of a table of scores, by name

    def spec(self, metric: str) -> MetricSpec:
        """Return a metric by its name in ``metrics``."""
        return spec_of(metric, self.given)

    @property
    def headline(self) -> tuple[str, ...]:
        """Canonical names of the metrics, the primary one first."""
        return (self.primary, *(m for m in self.metrics if m != self.primary))

    def position(self, data: OnDataSplit, model: str) -> int:
        """Return the position of a run among the bake-off's runs, from 0, in config order."""
        number = 0
        for names, name in ((self.datasets, data.dataset), (self.splits, data.split), (self.models, model)):
            number = number * max(1, len(names)) + (names.index(name) if name in names else 0)
        return number

    def run_name(self, data: OnDataSplit, model: str) -> str:
        """Return the name of a run: the model, with dataset and split where the bake-off has several of them."""
        several = (data.dataset, len(self.datasets) > 1), (data.split, len(self.splits) > 1)
        return " · ".join([model, *(name for name, needed in several if needed)])
