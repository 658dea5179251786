"""Off-policy values that a log of decisions cannot tell: how far its decisions stand for those of a policy.

A value is a mean over decisions that are weighted by how much more likely the policy shows what the log shows. Where a
few decisions have most of the weight, where few were rewarded, or where propensities are wrong, the interval of that
mean is too narrow, and its tests err. The bounds are those from which 95 % intervals held in simulated logs with a
known truth (experiments/off_policy).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from evalplugin.base.arrays import Codes, Floats
from evalplugin.base.numbers import UNDEFINED, about, number
from evalplugin.base.remembering import remembered
from evalplugin.base.seeding import generator
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.statistics.intervals import mean_interval
from evalplugin.metrics import MetricSpec, parse
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.metrics.scores import PerUserScores

LEAST_EFFECTIVE = 100.0  # decisions
MOST_LARGEST = 0.01  # share of one decision in all weight
LEAST_REWARDED = 20.0  # effective users with a reward, or decisions where these are independent
MOST_UNSUPPORTED = 0.05  # share of what the policy shows that no decision of the log shows
WEIGHT_LEVEL = 0.95  # of the interval of the mean weight, which must hold 1
MOST_UNEQUAL = 1.01  # ratio of the propensities of slates that replay counts
_ROUNDING = 1e-9  # of weights that are all 1

FAMILY = "value"  # of metrics
_OF_MATCHES = ("replay", "matches")  # estimators whose weights are 0 or 1
# The estimators whose own values are weighted rewards; of others, they are those of ips, where it is a companion.
_WEIGHTED = {own: own for own in ("clipped", "iips", "rips")} | dict.fromkeys(_OF_MATCHES, "matches")

Kind: TypeAlias = Literal[
    "few decisions", "one decision", "few rewards", "wrong weights", "no support", "no weights", "not uniform"
]

_WRONG = "the propensities are not the probabilities with which items were shown"


class Reason(NamedTuple):
    """One reason to doubt a value."""

    kind: Kind
    text: str  # what was measured and what is allowed, without capital and full stop
    times: float = math.inf  # how many times as many decisions would remove it; infinity: no number would


@dataclass(frozen=True)
class Weights:
    """What the weights of decisions say about an off-policy value; unknown numbers are NaN."""

    estimator: str
    decisions: int
    units: str  # that are independent, such as users
    unsupported: float  # share of what the policy shows that no decision of the log shows
    effective: float = math.nan  # equally weighted decisions whose mean varies as much, (sum w)^2 / sum w^2
    largest: float = math.nan  # share of one decision in all weight
    mean: float = math.nan  # of the weights
    low: float = math.nan  # of its interval; NaN where it need not hold 1
    high: float = math.nan
    rewarded: float = math.nan  # effective users with a reward, (sum S)^2 / sum S^2 of their sums S of w r
    unequal: float = math.nan  # of replay: largest over smallest propensity of the slates that count

    @property
    def are_one(self) -> bool:
        """Whether all decisions weigh 1, as for the policy that made the log."""
        return self.effective >= self.decisions * (1 - _ROUNDING) and abs(self.mean - 1) <= _ROUNDING

    @property
    def hold_one(self) -> bool:
        """Whether the interval of the mean weight holds 1, or what no support leaves of it.

        Weights that differ, but of too few decisions for an interval, say nothing.
        """
        differ = self.effective < self.decisions * (1 - _ROUNDING)
        if self.estimator in ("dm", *_OF_MATCHES) or self.are_one or (differ and math.isnan(self.low)):
            return True
        least = 1 - (self.unsupported if math.isfinite(self.unsupported) else 0.0)
        return self.low <= 1 + _ROUNDING and self.high >= least - _ROUNDING

    def reasons(self) -> Iterator[Reason]:
        """Yield the reasons to doubt the value."""
        if self.estimator == "dm":
            text = "the interval of estimator=dm does not hold the error of its model of rewards; take dr"
            yield Reason("no weights", text)
        if not self.are_one and self.effective < LEAST_EFFECTIVE:
            of = f"{self.effective:,.0f} effective decisions of {self.decisions:,}"
            text = f"{of} ({LEAST_EFFECTIVE:g} or more are needed)"
            yield Reason("few decisions", text, _times(LEAST_EFFECTIVE, self.effective))
        if not self.are_one and self.largest > MOST_LARGEST:
            most = percents(MOST_LARGEST)
            text = f"one decision has {percents(self.largest)} of all weight ({most} or less is allowed)"
            yield Reason("one decision", text, _times(self.largest, MOST_LARGEST))
        if not self.hold_one:
            weigh, why = "decisions weigh", _WRONG
            if self.estimator == "clipped":
                weigh, why = "clipped weights are", "the bound decides the value"
            interval = f" ({number(self.low)} to {number(self.high)})" if math.isfinite(self.low) else ""
            yield Reason("wrong weights", f"{weigh} {number(self.mean)} on average{interval}, not 1: {why}")
        if self.rewarded < LEAST_REWARDED:
            text = f"{self.rewarded:,.0f} effective {self.units} with a reward ({LEAST_REWARDED:g} or more are needed)"
            yield Reason("few rewards", text, _times(LEAST_REWARDED, self.rewarded))
        if self.unsupported > MOST_UNSUPPORTED:
            share, most = percents(self.unsupported), percents(MOST_UNSUPPORTED)
            text = f"{share} of what it shows is never shown in the log ({most} or less is allowed)"
            yield Reason("no support", text)
        if self.unequal > MOST_UNEQUAL:
            text = "estimator=replay needs a log that showed all with the same probability; take snips"
            yield Reason("not uniform", text)


@dataclass(frozen=True)
class Doubt:
    """Why a log cannot tell a value, and how many decisions it takes."""

    reasons: tuple[Reason, ...]
    needed: int | None  # decisions of which as large a share counts; None: more of them do not help

    def text(self, subject: str) -> str:
        """Return that the log cannot tell ``subject``, why, and what it takes; without capital and full stop."""
        text = f"this log cannot tell {subject}: {self.reasons[0].text}"
        return (
            text
            if self.needed is None
            else f"{text}; about {about(self.needed)} decisions like these would do"
        )


def values_among(specs: Iterable[MetricSpec]) -> list[MetricSpec]:
    """Return the off-policy values among metrics, the primary one first, without those that accompany another one."""
    first, *others = specs
    companions = {own.name for spec in (first, *others) for own in spec.metric.companions(spec.k)}
    specs = [first, *(spec for spec in others if spec.name not in companions)]
    return [spec for spec in specs if spec.family == FAMILY]


def companions_of(spec: MetricSpec) -> dict[str, str]:
    """Return the names of the metrics that accompany a value: other values by estimator, diagnostics by family.

    ``joint``: the weights of whole slates, where others decide.
    """
    names: dict[str, str] = {}
    for own in spec.metric.companions(spec.k):
        key = getattr(own.metric, "estimator", own.family)
        names["joint" if key in names else key] = own.name
    return names


def weights_of(scores: PerUserScores, metric: str | MetricSpec) -> Weights | None:
    """Return what the weights of decisions say about a value; None for other metrics and values without companions.

    Args:
        scores: Of a model, with the metrics that accompany the value.
        metric: Its canonical name, or the metric.
    """
    spec = parse(metric) if isinstance(metric, str) else metric
    names, estimator = companions_of(spec), estimator_of(spec)
    if spec.family != FAMILY or names.get("unsupported") not in scores.metrics:
        return None
    defined = np.isfinite(scores.column(names["unsupported"]))
    columns = {key: scores.column(name)[defined] for key, name in names.items() if name in scores.metrics}
    columns[estimator] = scores.column(spec.name)[defined]
    unsupported = float(mean_of_defined(columns["unsupported"]))
    weights = Weights(estimator, int(defined.sum()), scores.units.independents, unsupported)
    if (weight := columns.get("weight")) is None:
        return weights
    codes = None if scores.units.codes is None else scores.units.codes[defined]
    if estimator == "clipped":
        weight = np.minimum(weight, getattr(spec.metric, "bound", math.inf))
    if estimator not in _OF_MATCHES:
        bounds, rng = (-math.inf, math.inf), generator(0, "doubt")  # corrected for skewness
        interval = mean_interval(weight, level=WEIGHT_LEVEL, bounds=bounds, clusters=codes, rng=rng)
        weights = replace(weights, low=interval.low, high=interval.high)
    elif (ratios := columns.get("joint", weight))[(ratios > 0) & (weight > 0)].any():
        counted = ratios[(ratios > 0) & (weight > 0)]
        weights = replace(weights, unequal=float(counted.max() / counted.min()))
    if (rewards := columns.get(_WEIGHTED.get(estimator, "ips"))) is not None:
        weights = replace(weights, rewarded=_effective(np.abs(rewards), codes))
    return replace(
        weights,
        effective=_effective(weight),
        largest=float(weight.max()) / float(weight.sum()) if weight.any() else math.nan,
        mean=mean_of_defined(weight),
    )


def doubt_of(scores: PerUserScores, metric: str | MetricSpec, *, is_assumed: bool = False) -> Doubt | None:
    """Return why the log cannot tell a value; None where it can, and for other metrics.

    Args:
        scores: Of a model, with the metrics that accompany the value.
        metric: Its canonical name, or the metric.
        is_assumed: Whether propensities are assumed, as by a position bias: weights need not average 1 then.
    """
    if (weights := weights_of(scores, metric)) is None:
        return None
    found = weights.reasons()
    reasons = tuple(reason for reason in found if not (is_assumed and reason.kind == "wrong weights"))
    times = max((reason.times for reason in reasons), default=math.inf)
    needed = math.ceil(weights.decisions * times) if math.isfinite(times) else None
    return Doubt(reasons, needed) if reasons else None


@remembered
def doubts_of(contest: Contest, metric: str) -> Mapping[str, Doubt]:
    """Return the doubts about the values of a contest's models, by model; empty for other metrics."""
    spec, is_assumed = contest.spec(metric), contest.assumed is not None
    if spec.family != FAMILY:
        return {}
    scored = {row.model: row.scores for row in contest.models if row.scores is not None}
    doubts = {model: doubt_of(scores, spec, is_assumed=is_assumed) for model, scores in scored.items()}
    return {model: doubt for model, doubt in doubts.items() if doubt is not None}


def estimator_of(spec: MetricSpec) -> str:
    """Return the estimator of a value; empty for other metrics."""
    return str(getattr(spec.metric, "estimator", ""))


def percents(value: float) -> str:
    """Return a share with two significant digits: ``0.5 %``, ``9.1 %``."""
    return f"{100 * value:.2g} %" if math.isfinite(value) else UNDEFINED


def _times(of: float, by: float) -> float:
    return of / by if by else math.inf


def _effective(values: Floats, clusters: Codes | None = None) -> float:
    """Return the number of equal values whose sum varies as much as that of some values (n,); 0 where all are 0.

    ``clusters`` (n,): codes, whose sums are taken in place of values.
    """
    if clusters is not None:
        values = np.bincount(np.unique(clusters, return_inverse=True)[1], values).astype(np.float64)
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / squares if squares else 0.0
