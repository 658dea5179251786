"""The gate's conditions: requirements on each challenger, and the measured values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from evalplugin.base.arrays import Flags
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.doubt import doubts_of
from evalplugin.comparison.groups import common_means
from evalplugin.comparison.statistics.clusters import independent_units
from evalplugin.comparison.statistics.groups import (
    MOST_GROUPS,
    ExtremeDifference,
    GroupMeans,
    gap_difference,
    worst_difference,
)
from evalplugin.comparison.statistics.intervals import Column
from evalplugin.comparison.statistics.paired import holm
from evalplugin.comparison.statistics.pairs import paired_difference, standard_deviation
from evalplugin.comparison.statistics.power import detectable_gain, users_needed, users_of_units
from evalplugin.comparison.statistics.seeds import SeedSpread, bound_with_seeds, p_above_with_seeds
from evalplugin.features.gate.decision import Condition, ConditionKind
from evalplugin.features.gate.schema import Amount, Cost, CostLimit, Gate, SegmentMargin
from evalplugin.metrics import parse
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.metrics.scores import Units
from evalplugin.report.competition import facts_of
from evalplugin.segments import Segmentation

_UNDEFINED_SHARE = "a share is undefined of a mean below 0"


@dataclass
class Judge:
    """Checks challengers against one champion, which has scores by ``metric``."""

    contest: Contest
    gate: Gate
    metric: str  # canonical name of the deciding metric
    champion: ComparedModel
    error: float  # of the gains of all challengers together
    notes: list[str] = field(default_factory=list)  # on groups that were not judged

    def conditions(self, challengers: Sequence[ComparedModel]) -> list[Condition]:
        """Return every challenger's conditions; one that cannot be judged has a single one, with the reason."""
        unfit = {c.model: condition for c in challengers if (condition := self._unfit(c)) is not None}
        fit = [c for c in challengers if c.model not in unfit]
        conditions: list[Condition] = list(unfit.values())
        for challenger, gain in zip(fit, self._gains(fit), strict=True):
            conditions += [gain, *self._guardrails(challenger)]
        order = {c.model: i for i, c in enumerate(challengers)}
        return sorted(conditions, key=lambda condition: order[condition.challenger])

    def _unfit(self, challenger: ComparedModel) -> Condition | None:
        """Return the condition that a challenger without enough results fails."""
        least, unit = self.gate.min_users, self.contest.units.noun
        if not challenger.has_values(self.metric):
            why = (
                f"failed: {challenger.error}"
                if challenger.scores is None
                else f"has no scores by {self.metric}"
            )
            return Condition(challenger.model, "result", "result", False, f"scores for each {unit}", note=why)
        if (doubt := doubts_of(self.contest, self.metric).get(challenger.model)) is not None:
            needed = "a value that the log can tell"
            return Condition(challenger.model, "result", "result", False, needed, note=doubt.reasons[0].kind)
        users = self._common(challenger, self.metric).independent
        if users >= least:
            return None
        return Condition(
            challenger.model, "users", self._independent, False, f"at least {least:,} with scores of both models",
            limit=least, measured=users, users=users,
        )  # fmt: skip

    def _gains(self, challengers: Sequence[ComparedModel]) -> list[Condition]:
        tested = [self._common(c, self.metric).above(self.gate.least_gain, loss=False) for c in challengers]
        p = np.array([gain.p for gain in tested])
        levels, adjusted = _holm_levels(p, self.error), holm(p)
        return [
            replace(
                gain.with_power(
                    gain.condition(c.model, "gain", self.metric, level), level, keeping=1 - self.error
                ),
                p_holm=_number(p_holm),
                passed=gain.is_defined and bool(p_holm < self.error),
            )
            for c, gain, level, p_holm in zip(challengers, tested, levels, adjusted, strict=True)
        ]

    def _guardrails(self, challenger: ComparedModel) -> Iterator[Condition]:
        guardrails = self.gate.guardrails
        for name, margin in guardrails.metrics.items():
            yield self._metric(challenger, parse(name).name, Amount.of(margin))
        for cost, limit in guardrails.costs.items():
            yield from self._cost(challenger, cost, limit)
        for segment, margins in guardrails.segments.items():
            yield from self._segment(challenger, segment, margins)

    @property
    def _independent(self) -> str:
        """What ``min_users`` counts: users, or clusters such as the sessions of queries."""
        return self.contest.units.independents

    @property
    def _confidence(self) -> float:
        return self.gate.guardrails.confidence or self.gate.confidence

    def _metric(self, challenger: ComparedModel, metric: str, margin: Amount) -> Condition:
        failed = partial(Condition, challenger.model, "metric", metric, False, "no loss beyond the margin")
        units = self.contest.units.nouns
        if not self._was_measured(challenger, metric):
            return failed(note="not measured")
        if parse(metric).metric.scope == "user":
            common = self._common(challenger, metric)
            if common.independent < self.gate.min_users:
                return failed(
                    note=f"only {common.independent:,} {self._independent} have scores of both models"
                )
            tested = common.above(margin, loss=True)
            return tested.condition(challenger.model, "metric", metric, self._confidence)
        theirs, ours = _overall(self.champion, metric), _overall(challenger, metric)
        if margin.is_share and theirs < 0:
            return failed(note=_UNDEFINED_SHARE)
        gain = (ours - theirs) * parse(metric).direction
        lost = margin.beside(theirs)
        return Condition(
            challenger.model, "metric", metric, gain >= -lost,
            f"{_words('loss at most', margin, lost, theirs)}; one number for all {units} has no bound",
            limit=_number(-lost), measured=_number(gain),
        )  # fmt: skip

    def _cost(self, challenger: ComparedModel, cost: Cost, limit: CostLimit) -> Iterator[Condition]:
        theirs, ours = (_cost_of(self.contest, model, cost) for model in (self.champion, challenger))
        if limit.max is not None:
            yield Condition(
                challenger.model, "cost", cost, ours <= limit.max, f"at most {limit.max:g}",
                limit=limit.max, measured=_number(ours),
            )  # fmt: skip
        if limit.max_ratio is not None:
            most = limit.max_ratio * theirs
            times = f"{limit.max_ratio:g} times the champion's"
            yield Condition(
                challenger.model, "cost", cost, ours <= most,
                f"at most {times}, which was not measured" if math.isnan(theirs)
                else f"at most {most:.3g}, {times} {theirs:.3g}",
                limit=_number(most), measured=_number(ours),
            )  # fmt: skip

    def _segment(self, challenger: ComparedModel, name: str, margins: SegmentMargin) -> Iterator[Condition]:
        metric = self.metric if margins.metric is None else parse(margins.metric).name
        failed = partial(
            Condition, challenger.model, "segment", name, False, "no loss beyond the margin in any group"
        )
        segmentation = next((s for s in self.contest.segments if s.name == name), None)
        if segmentation is None:
            known = ", ".join(s.name for s in self.contest.segments) or "none"
            yield failed(note=f"there is no such segmentation; there are: {known}")
        elif not self._was_measured(challenger, metric):
            yield failed(note=f"{metric} was not measured")
        else:
            if margins.margin is not None:
                yield from self._each_group(
                    challenger, segmentation, metric, margins, Amount.of(margins.margin)
                )
            if margins.worst is not None or margins.gap is not None:
                yield from self._all_groups(challenger, segmentation, metric, margins)

    def _each_group(
        self,
        challenger: ComparedModel,
        segmentation: Segmentation,
        metric: str,
        margins: SegmentMargin,
        margin: Amount,
    ) -> Iterator[Condition]:
        name, least = segmentation.name, margins.min_users or self.gate.min_users
        common = self._common(challenger, metric)
        group = segmentation.of(common.units.ids)
        small = []
        for number, label in enumerate(segmentation.labels):
            inside = common.only(group == number)
            if inside.independent < least:
                small.append(f"{label} ({inside.independent:,})")
                continue
            tested = inside.above(margin, loss=True)
            shown = _of_segment(name, label, margins.metric and metric)
            yield tested.condition(challenger.model, "segment", shown, self._confidence)
        if len(small) == len(segmentation.labels):
            yield Condition(
                challenger.model, "segment", name, False, "no loss beyond the margin in any group",
                note=f"no group has {least:,} {self._independent}",
            )  # fmt: skip
        else:
            self._note_small(name, least, small)

    def _all_groups(
        self, challenger: ComparedModel, segmentation: Segmentation, metric: str, margins: SegmentMargin
    ) -> Iterator[Condition]:
        """Yield the conditions of the worst group and of the gap."""
        name, least = segmentation.name, margins.min_users or self.gate.min_users
        both = (challenger, self.champion)
        seeds = (challenger.spread_of_seeds(metric), self.champion.spread_of_seeds(metric))
        values = self.contest.values(both, metric)
        common = common_means(self.contest.units, values, seeds, segmentation, least)
        for label, words, margin, tested_by in (
            ("worst group", "loss below", margins.worst, _worst_excess),
            ("gap", "growth below", margins.gap, _gap_excess),
        ):
            if margin is None:
                continue
            shown = _of_segment(name, label, margins.metric and metric)
            if common.means is None:
                yield Condition(
                    challenger.model, "segment", shown, False, "no loss beyond the margin",
                    note=f"takes 2 to {MOST_GROUPS} groups of {least:,} {self._independent}",
                )  # fmt: skip
                continue
            amount = Amount.of(margin)
            theirs, gain, excess = tested_by(common.means, parse(metric).direction, amount, self._confidence)
            lost = amount.beside(theirs)
            is_defined = not (amount.is_share and theirs < 0)
            yield Condition(
                challenger.model, "segment", shown,
                passed=is_defined and excess.low > 0,
                required=_words(words, amount, abs(lost), theirs),
                limit=_number(-lost), measured=_number(gain), bound=_number(excess.low - lost),
                confidence=self._confidence, p=_number(excess.p_above), users=common.users,
                note="" if is_defined else _UNDEFINED_SHARE,
            )  # fmt: skip
        if common.means is not None:
            self._note_small(name, least, common.left_out)

    def _note_small(self, segment: str, least: int, small: Sequence[str]) -> None:
        if small:
            self.notes.append(
                f"{segment}: groups of fewer than {least:,} {self._independent} are not judged: {', '.join(small)}"
            )

    def _was_measured(self, challenger: ComparedModel, metric: str) -> bool:
        both = (challenger, self.champion)
        return all(
            m.has_values(metric) or (m.scores is not None and metric in m.scores.overall) for m in both
        )

    def _common(self, challenger: ComparedModel, metric: str) -> _Common:
        values = self.contest.values([challenger, self.champion], metric)
        seeds = (challenger.spread_of_seeds(metric), self.champion.spread_of_seeds(metric))
        common = _Common(metric, self.contest.units, values[:, 0], values[:, 1], seeds)
        return common.only(np.asarray(~np.isnan(values).any(axis=1)))


@dataclass(frozen=True)
class _Common:
    """Values of one metric by two models, for the units where both are defined."""

    metric: str
    units: Units
    a: Column  # the challenger's
    b: Column  # the champion's
    seeds: tuple[SeedSpread | None, SeedSpread | None]  # of the challenger's mean, and of the champion's

    @property
    def independent(self) -> int:
        """The number of units, or of the clusters that they are in."""
        return len(self.units) if self.units.codes is None else len(np.unique(self.units.codes))

    def only(self, rows: Flags) -> _Common:
        return replace(self, units=self.units.only(rows), a=self.a[rows], b=self.b[rows])

    def above(self, amount: Amount, *, loss: bool) -> _Tested:
        """Test whether the gain is above an amount, or with ``loss`` whether the loss is below it.

        A share refers to the champion's mean, which is as uncertain as the challenger's: so it is applied to each
        user's value before averaging.
        """
        direction = parse(self.metric).direction
        gain = paired_difference(self.a, self.b) * direction
        sign = -1.0 if loss else 1.0
        mean = mean_of_defined(self.b)
        limit = sign * amount.beside(mean)
        needed = sign * amount.value * self.b if amount.is_share else limit
        # The excess has the champion's value minus once, and minus the share where it is one.
        share = sign * amount.value if amount.is_share else 0.0
        factors = (1.0, direction + share)
        return _Tested(
            amount, loss, limit, mean, mean_of_defined(gain), gain - needed,
            [spread.scaled(factor) for spread, factor in zip(self.seeds, factors, strict=True) if spread is not None],
            self.units,
        )  # fmt: skip


@dataclass(frozen=True)
class _Tested:
    """A gain, and each user's excess over the required gain."""

    amount: Amount
    loss: bool
    limit: float
    champion: float  # its mean
    measured: float
    excess: Column
    seeds: Sequence[SeedSpread]  # what other seeds add to the spread of its mean
    units: Units

    @property
    def p(self) -> float:
        return p_above_with_seeds(self.excess, self.seeds, clusters=self.units.codes)

    @property
    def is_defined(self) -> bool:
        """Whether the amount is defined: a share of a mean below 0 would reverse the comparison."""
        return not (self.amount.is_share and self.champion < 0)

    def with_power(self, gain: Condition, level: float, *, keeping: float) -> Condition:
        """Return the condition of a gain with its upper bound and what its test can find.

        Args:
            gain: The condition; it stays as it is where the gain is undefined.
            level: At which the gain is tested, corrected for the number of challengers.
            keeping: Level of the upper bound. It needs no correction for the number of challengers: the champion is
                kept if the bounds of all exclude ``min_gain``, and that is wrong only if the bound of the best one is.
        """
        units, _ = independent_units(self.excess, self.units.codes)
        sd = standard_deviation(units)
        if not (self.is_defined and math.isfinite(sd)):
            return replace(gain, note=gain.note or f"not finite for every {self.units.noun}")
        upper = self.limit - bound_with_seeds(
            -self.excess, self.seeds, level=keeping, clusters=self.units.codes
        )
        gain = replace(gain, upper=_number(upper), upper_confidence=keeping)
        if not sd:
            return gain
        of_users = detectable_gain(sd, len(units), level=level, one_sided=True)
        # Of the square of what is detectable, the seeds' part does not fall with the number of users.
        of_seeds = of_users**2 * len(units) / sd**2 * sum(spread.error**2 for spread in self.seeds)
        detectable = math.sqrt(of_users**2 + of_seeds)
        distance = self.measured - self.limit
        # As many users as find twice min_gain also exclude min_gain where there is no gain.
        by_minimum = detectable > self.limit > 0
        sought = self.limit if by_minimum else abs(distance)
        gain = replace(gain, detectable=_number(detectable), sought=_number(sought))
        left = sought**2 - of_seeds
        if gain.is_at_limit or left <= 0:
            return gain
        tested = level if by_minimum or distance > 0 else keeping
        needed = users_needed(sd, math.sqrt(left), level=tested, one_sided=True)
        return replace(gain, users_needed=users_of_units(needed, len(self.excess), len(units)))

    def condition(self, challenger: str, kind: ConditionKind, name: str, confidence: float) -> Condition:
        bound = (
            bound_with_seeds(self.excess, self.seeds, level=confidence, clusters=self.units.codes)
            + self.limit
        )
        rule = "loss below" if self.loss else "gain above"
        return Condition(
            challenger, kind, name,
            passed=self.is_defined and bound > self.limit,
            required=_words(rule, self.amount, abs(self.limit), self.champion),
            limit=_number(self.limit), measured=_number(self.measured), bound=_number(bound),
            confidence=confidence, p=_number(self.p), users=len(self.excess),
            note="" if self.is_defined else _UNDEFINED_SHARE,
        )  # fmt: skip


def _of_segment(segment: str, label: str, metric: str | None) -> str:
    """Return the name of a condition on a group, or on all of them; the metric where it is not the gate's."""
    return f"{segment}: {label}" if metric is None else f"{segment}: {label}, {metric}"


def _worst_excess(
    means: GroupMeans, direction: int, amount: Amount, confidence: float
) -> tuple[float, float, ExtremeDifference]:
    """Test whether the worst group of a is worse than that of b by less than an amount.

    Returns:
        The worst mean of b; the gain, positive where a is better; and its excess over the gain that is required.
    """
    share, shift = (amount.value, 0.0) if amount.is_share else (0.0, amount.value)
    of_a, of_b = (of.min() if direction > 0 else of.max() for of in (means.a, means.b))
    scaled = means.scaled(1 - direction * share)
    excess = worst_difference(
        scaled if direction > 0 else scaled.reversed, direction, level=2 * confidence - 1, shift=shift
    )
    return float(of_b), float((of_a - of_b) * direction), excess


def _gap_excess(
    means: GroupMeans, direction: int, amount: Amount, confidence: float
) -> tuple[float, float, ExtremeDifference]:
    """As ``_worst_excess``, whether the gap of a is larger by less than an amount; small gaps are always better."""
    share, shift = (amount.value, 0.0) if amount.is_share else (0.0, amount.value)
    of_a, of_b = (np.ptp(of) for of in (means.a, means.b))
    excess = gap_difference(means.scaled(1 + share).reversed, level=2 * confidence - 1, shift=shift)
    return float(of_b), float(of_b - of_a), excess


def _holm_levels(p: Column, error: float) -> Column:
    """Return the level at which Holm's procedure tests each p-value; a bound at that level passes where it does."""
    m = np.count_nonzero(~np.isnan(p))
    passed = np.count_nonzero(holm(p) < error)
    rank = np.empty(len(p), dtype=np.intp)
    rank[np.argsort(p, kind="stable")] = np.arange(len(p))
    return 1 - error / np.maximum(m - np.minimum(rank, passed), 1)


def _overall(model: ComparedModel, metric: str) -> float:
    assert model.scores is not None
    return float(model.scores.overall[metric])


def _cost_of(contest: Contest, model: ComparedModel, cost: Cost) -> float:
    """Return the mean cost of a fold; NaN where it was not measured."""
    costs, scores = facts_of(contest, model.model).costs, model.scores
    if costs is None or scores is None:
        return math.nan
    folds = max(1, len(model.fold_means))
    match cost:
        case "fit_seconds":
            return costs.fit_seconds / folds
        case "recommend_seconds_per_user":
            return costs.recommend_seconds / folds / max(1, len(scores.users))
        case "peak_memory_mb":
            return costs.peak_memory_mb


def _words(rule: str, amount: Amount, limit: float, champion: float) -> str:
    share = f", {100 * amount.value:g} % of the champion's {champion:.4f}" if amount.is_share else ""
    return f"{rule} {limit:.4g}{share}"


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
