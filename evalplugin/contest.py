"""What is compared: models that were scored on the same data, under the same rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evalplugin.data import Interactions
from evalplugin.errors import DataError, did_you_mean
from evalplugin.metrics import parse
from evalplugin.results import BakeoffResult, Costs, DataInfo
from evalplugin.scoring import PerUserScores
from evalplugin.segments import Segmentation

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "HISTORY",
    "Background",
    "Contender",
    "Contest",
    "Rules",
    "background_of",
    "contests_of",
    "with_choice",
]

HISTORY = 20  # interactions of the train data that are kept of each user, the latest


@dataclass(frozen=True)
class Rules:
    """What must agree for two models' scores to be comparable."""

    train_digest: str | None  # of the first fold; None: lists made elsewhere, scored without it
    test_digest: str
    n: int  # length of the lists
    candidates: str
    threshold: float | None
    metrics_hash: str  # of the definitions of all metrics


@dataclass(frozen=True, eq=False)
class Contender:
    """One model's results; ``scores`` is None for one that failed."""

    model: str
    type: str
    scores: PerUserScores | None
    costs: Costs | None = None
    fold_means: tuple[Mapping[str, float], ...] = ()
    top_n: pa.Table | None = None  # user, item, rank, score (and fold, from 1, when there are several)
    run_id: str | None = None  # the MLflow run it was read from
    error: str | None = None  # what a failed model raised, in one line


@dataclass(frozen=True, eq=False)
class Background:
    """What a person needs to judge one user's lists; of the first fold, raw ids throughout.

    ``truth``: user, item, rating. ``history``: user, item, rating and, if known, timestamp, of the train data: the
    latest ``HISTORY`` of each user who has a truth, latest first. ``titles``: of items, where the dataset has them.
    """

    truth: pa.Table
    history: pa.Table
    titles: Mapping[Any, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Contest:
    """Models on one dataset under one split, in config order."""

    name: str  # of the bake-off or the experiment
    dataset: str
    split: str
    contenders: tuple[Contender, ...]
    metrics: tuple[str, ...]  # canonical names, the primary one first
    baseline: str | None
    seed: int
    rules: Rules
    segments: tuple[Segmentation, ...] = ()
    background: Background | None = None
    notes: tuple[str, ...] = ()  # what was decided or left out to make it, in words

    @property
    def primary(self) -> str:
        """The metric that ranks the models."""
        return self.metrics[0]


def with_choice(contest: Contest, *, baseline: str | None = None, primary: str | None = None) -> Contest:
    """Return a contest with another baseline, another metric that ranks, or both; None: as it is.

    Raises:
        DataError: No such model or metric.
    """
    models = [c.model for c in contest.contenders]
    if baseline is not None and baseline not in models:
        near = did_you_mean(baseline, models, noun="there are")
        raise DataError(f"no model is called {baseline!r} to be the baseline{near}")
    ranks = contest.primary if primary is None else parse(primary).name
    if ranks not in contest.metrics:
        near = did_you_mean(ranks, contest.metrics, noun="there are")
        raise DataError(f"there is no metric {ranks!r} to rank by{near}")
    return replace(
        contest,
        baseline=baseline or contest.baseline,
        metrics=(ranks, *(m for m in contest.metrics if m != ranks)),
    )


def contests_of(result: BakeoffResult) -> list[Contest]:
    """Return what a bake-off compares: one contest for each dataset and split, in config order."""
    asked = result.bakeoff
    contests = []
    for (dataset, split), group in groupby(result.models, key=lambda m: (m.data.dataset, m.data.split)):
        models = list(group)
        info = models[0].data
        contests.append(
            Contest(
                name=asked.id,
                dataset=dataset,
                split=split,
                contenders=tuple(
                    Contender(
                        m.model,
                        m.type,
                        m.per_user,
                        m.costs,
                        m.fold_means,
                        m.top_n,
                        error=m.failure,
                    )
                    for m in models
                ),
                metrics=asked.headline,
                baseline=asked.baseline,
                seed=asked.seed,
                rules=Rules(
                    train_digest=None if info.train is None else info.train.digest,
                    test_digest=info.test.digest,
                    n=asked.n,
                    candidates=asked.candidates,
                    threshold=asked.threshold,
                    metrics_hash=asked.metrics_hash,
                ),
                segments=info.segments,
                background=background_of(info),
            )
        )
    return contests


def background_of(info: DataInfo) -> Background:
    """Return the truth, the latest train data and the titles of the items, of the first fold."""
    import pyarrow as pa

    test, train = info.test, info.train
    history = np.empty(0, dtype=np.int64) if train is None else _latest(train, test)
    known = train if train is not None else test
    titles: Mapping[Any, str] = {}
    if info.full.titles is not None:
        titles = dict(zip(info.full.items.tolist(), info.full.titles.tolist(), strict=True))
    return Background(
        truth=pa.table(_columns(test, np.lexsort((test.item, test.user)))),
        history=pa.table(_columns(known, history)),
        titles=titles,
    )


def _latest(train: Interactions, test: Interactions) -> npt.NDArray[np.int64]:
    """Return the rows of the latest train data of each user of the test data, user by user, latest first."""
    tested = np.bincount(test.user, minlength=test.n_users) > 0
    rows = np.flatnonzero(tested[train.user])
    time = rows if train.timestamp is None else train.timestamp[rows]
    # Equal times: the later row first.
    rows = rows[np.lexsort((-rows, -time, train.user[rows]))]
    count = np.bincount(train.user[rows], minlength=train.n_users)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    return rows[place < HISTORY]


def _columns(data: Interactions, rows: Any) -> dict[str, Any]:
    columns = {
        "user": data.users[data.user[rows]],
        "item": data.items[data.item[rows]],
        "rating": data.rating[rows],
    }
    if data.timestamp is not None:
        columns["timestamp"] = data.timestamp[rows]
    return columns
