"""What is compared: models that were scored on the same data, under the same rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.data.background import Background
from evalplugin.execution.results import BakeoffResult, Costs
from evalplugin.metrics import parse
from evalplugin.metrics.scoring import PerUserScores
from evalplugin.segments import Segmentation

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Contender",
    "Contest",
    "Rules",
    "contests_of",
    "with_choice",
]


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
                background=info.background,
            )
        )
    return contests
