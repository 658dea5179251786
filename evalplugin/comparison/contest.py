"""Models to compare: scored on the same data, under the same rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby
from typing import Literal

import numpy as np

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.units import plural
from evalplugin.comparison.compared import ComparedModel, Tuned
from evalplugin.comparison.statistics.clusters import RELIABLE_FROM, cluster_spread, clusters_in_order
from evalplugin.data.background import Background
from evalplugin.data.queries import Unit
from evalplugin.execution.results import DataInfo, DataSplit, Finding, ModelResult, Plan
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.clusters import ClusterMoments
from evalplugin.metrics.given import spec_of
from evalplugin.metrics.scores import PerUserScores
from evalplugin.segments import HistoryLengths, Segmentation

Pairing = Literal["baseline", "all"]
AS_LISTED = "as listed"  # candidates of lists from elsewhere: unknown


@dataclass(frozen=True)
class Rules:
    """The data and rules that must be the same for two models' scores to be comparable."""

    train_digest: str | None  # of the first fold; None: lists from elsewhere, scored without it
    test_digest: str  # of all folds
    n: int  # length of the lists
    candidates: str
    threshold: float | None
    metrics_hash: str  # of the definitions of all metrics
    ties: str = "hashed"  # order of items with equal scores
    cold_users: str = "model"  # who answers users without train data
    pool: str | None = None  # a hash of given candidates

    @property
    def are_given(self) -> bool:
        """Whether the lists come from elsewhere, with candidates and a length of their own."""
        return self.candidates == AS_LISTED


@dataclass(frozen=True, eq=False)
class Contest:
    """Models on one dataset under one split, in config order."""

    name: str  # of the bake-off or the experiment
    dataset: str
    split: str
    models: tuple[ComparedModel, ...]
    metrics: tuple[str, ...]  # canonical names, the primary one first
    baseline: str | None
    seed: int
    rules: Rules
    segments: tuple[Segmentation, ...] = ()
    histories: HistoryLengths | None = None  # None: not known
    background: Background | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()  # sentences on choices made and results left out
    findings: tuple[Finding, ...] = ()  # of the checks of data and results
    warnings: tuple[str, ...] = ()  # further sentences that must stand out, such as on the lists of a model
    given: Mapping[str, MetricSpec] = field(default_factory=dict)  # metrics of a table of scores, by name

    @property
    def pairing(self) -> Pairing:
        """The models that are compared unless others are asked for: each with the baseline, if there is one."""
        return "all" if self.baseline is None else "baseline"

    @property
    def place(self) -> DataSplit:
        """The dataset and the split."""
        return DataSplit.of(self)

    @property
    def primary(self) -> str:
        """The metric that ranks the models."""
        return self.metrics[0]

    @property
    def unit(self) -> Unit:
        """What has a list and a score: a user, or a query."""
        return "user" if self._scores is None else self._scores.unit

    @property
    def independent_unit(self) -> str:
        """The noun of what is independent: the unit, or its clusters."""
        return "user" if self._scores is None else self._scores.independent_unit

    @property
    def few_clusters(self) -> str:
        """The warning that a few large clusters decide the means; empty where they do not."""
        clusters = None if self._scores is None else self._scores.clusters
        codes = None if clusters is None else clusters_in_order(clusters)
        if codes is None:
            return ""
        spread = cluster_spread(ClusterMoments.of(np.zeros(len(codes)), codes))
        number, n = spread.effective, spread.clusters
        if number >= RELIABLE_FROM or 2 * number >= n:
            return ""
        nouns = plural(self.independent_unit)
        return (
            f"a few of {n:,} {nouns} have most {plural(self.unit)}: means vary like those of {number:.0f} {nouns} of "
            f"one size; below {RELIABLE_FROM}, fewer 95 % intervals hold the true mean, and more tests err"
        )

    @property
    def is_table(self) -> bool:
        """Whether the scores are those of a table, without lists, truth and history."""
        return self._scores is not None and self._scores.is_table

    @property
    def of_sessions(self) -> bool:
        """Whether the units are queries whose ids name their sessions."""
        return self.unit == "query" and not self.is_table

    @property
    def _scores(self) -> PerUserScores | None:
        return next((model.scores for model in self.models if model.scores is not None), None)

    def spec(self, metric: str) -> MetricSpec:
        """Return a metric by its name in ``metrics``.

        Raises:
            ParameterError, UnknownNameError: A name that means no metric.
        """
        return spec_of(metric, self.given)

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The findings as lines, then the further warnings."""
        return (*(finding.line for finding in self.findings), *self.warnings)


def with_choice(contest: Contest, *, baseline: str | None = None, primary: str | None = None) -> Contest:
    """Return a contest with another baseline, another primary metric, or both; None: unchanged.

    Raises:
        DataError: No such model or metric.
    """
    models = [c.model for c in contest.models]
    if baseline is not None and baseline not in models:
        near = did_you_mean(baseline, models, noun="there are")
        raise DataError(f"no model is called {baseline!r} to be the baseline{near}")
    metric = contest.primary if primary is None else contest.spec(primary).name
    if metric not in contest.metrics:
        near = did_you_mean(metric, contest.metrics, noun="there are")
        raise DataError(f"there is no metric {metric!r} to rank by{near}")
    return replace(
        contest,
        baseline=baseline or contest.baseline,
        metrics=(metric, *(m for m in contest.metrics if m != metric)),
    )


def with_common_users(contest: Contest) -> Contest:
    """Return a contest of the users that every model with scores has."""
    users = [m.scores.users for m in contest.models if m.scores is not None]
    if all(np.array_equal(these, users[0]) for these in users):
        return contest
    common = reduce(np.intersect1d, users)
    models = (
        m if m.scores is None else replace(m, scores=m.scores.only(np.isin(m.scores.users, common)))
        for m in contest.models
    )
    return replace(contest, models=tuple(models))


def findings_of(contests: Iterable[Contest]) -> tuple[Finding, ...]:
    """Return the findings of checks on any of the contests, each once."""
    return tuple(dict.fromkeys(finding for contest in contests for finding in contest.findings))


def contests_of(plan: Plan, results: Sequence[ModelResult]) -> list[Contest]:
    """Return one contest for each dataset and split of a bake-off, in config order."""
    contests = []
    for place, group in groupby(results, key=lambda m: DataSplit.of(m.data)):
        models = list(group)
        info = models[0].data
        assert isinstance(info, DataInfo)  # a table of scores is a contest already
        contests.append(
            Contest(
                name=plan.id,
                dataset=place.dataset,
                split=place.split,
                models=tuple(
                    ComparedModel(
                        m.model,
                        m.type,
                        m.per_user,
                        m.costs,
                        m.fold_means,
                        m.seed_means,
                        m.top_n,
                        m.items,
                        error=m.failure,
                        tuned=Tuned.of(m),
                    )
                    for m in models
                ),
                metrics=plan.headline,
                baseline=plan.baseline,
                seed=plan.seed,
                rules=Rules(
                    train_digest=None if info.train is None else info.train.digest,
                    test_digest=info.test_digest,
                    n=plan.n,
                    candidates=plan.candidates,
                    threshold=plan.relevance.threshold,
                    metrics_hash=plan.metrics_hash,
                    ties=plan.ties,
                    cold_users=plan.cold_users,
                    pool=info.pool,
                ),
                segments=info.segments,
                histories=info.histories,
                background=info.background,
                findings=info.findings,
                warnings=tuple(note for m in models for note in m.shown_notes),
            )
        )
    return contests
