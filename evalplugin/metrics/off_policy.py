"""Off-policy evaluation: what lists would have earned, by a log of what another policy showed and what that earned.

A user of the context is a decision, the ratings of its truth are rewards. All metrics are of positions 1 to k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import DataError
from evalplugin.metrics.base import Metric, Need, OverallMetric, UserMetric, metric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.moments import Moments, mean_of_defined
from evalplugin.metrics.names import MetricSpec
from evalplugin.metrics.policies import (
    EPSILON,
    TEMPERATURE,
    Epsilon,
    Policy,
    PolicyName,
    Temperature,
    policy_of,
)
from evalplugin.metrics.slates import row_totals

if TYPE_CHECKING:
    from evalplugin.data import Interactions

Estimator: TypeAlias = Annotated[
    Literal["snips", "ips", "clipped", "dm", "dr", "sndr", "iips", "rips", "replay", "matches"],
    Field(description="How the value is estimated from the log"),
]
Ratio: TypeAlias = Annotated[
    Literal["joint", "position", "match"],
    Field(
        description="What is weighted: the whole slate (joint), the mean over its positions (position), or 1 where the "
        "policy shows the same as the log and 0 elsewhere, whatever the propensities (match)"
    ),
]

_BOUND = 10.0
_SOURCES: Mapping[str, tuple[Estimator, ...]] = {
    "snips": ("ips",),
    "sndr": ("dm", "dr"),
    "replay": ("matches",),
}
_WITH_REWARDS = ("dm", "dr", "sndr")  # estimators with a model of rewards
# What a ratio takes propensities beyond the first position to be of: an item given those above, or whatever is above.
_PROPENSITIES: Mapping[Ratio, str | None] = {"joint": "conditional", "position": "marginal", "match": None}


class _OfPolicy(Metric):
    """What metrics of a policy have in common."""

    needs: ClassVar[tuple[Need, ...]] = ("log",)
    weighted_by: ClassVar[str]  # the parameter that decides on the ratio

    policy: PolicyName
    temperature: Temperature
    epsilon: Epsilon

    def __post_init__(self) -> None:
        """Check that the parameters go together; set the needs, which depend on them."""
        policy_of(self.policy, self.temperature, self.epsilon)
        if self.policy != "greedy" and self._ratio == "match":
            raise ValueError(f"{self._weighted_by} goes with policy=greedy only; take another one")
        lists = {"softmax": ("scores",), "given": ("probabilities",)}.get(self.policy, ())
        object.__setattr__(self, "needs", ("log", *lists))

    @property
    def reads_whole_list(self) -> bool:
        """Whether items below k count: whether the policy may show any item of the list."""
        return self.policy != "greedy"

    @property
    def propensities(self) -> str | None:
        """Which propensities it needs beyond the first position: conditional or marginal ones; None: either."""
        return _PROPENSITIES[self._ratio]

    @property
    def _ratio(self) -> Ratio:
        raise NotImplementedError

    @property
    def _weighted_by(self) -> str:
        return f"{self.weighted_by}={getattr(self, self.weighted_by)}"

    @property
    def _shown(self) -> Policy:
        return policy_of(self.policy, self.temperature, self.epsilon)

    def check_cutoff(self, k: int | None) -> None:
        """Check that the value is defined at a cutoff; see ``Metric``."""
        if self.policy == "given" and k != 1:
            raise ValueError(
                "policy=given goes with @1 only: the given probabilities are of the first position"
            )
        if self.policy == "softmax" and k != 1 and (self._ratio == "position" or "train" in self.needs):
            raise ValueError(
                f"{self._weighted_by} of policy=softmax goes with @1 only: its probabilities at later positions have "
                f"no closed form; take ips, snips or rips (ratio=joint)"
            )


def _ratios(context: ScoringContext, policy: Policy, k: int, ratio: Ratio) -> Floats:
    """Return the probability of what the log shows by a policy over that by the log: float64 (B, K).

    ``joint``: of all positions down to each; ``match``: likewise, without the log's; ``position``: of each by itself.
    Where nothing is shown, a position has no factor, or a ratio of 0. The policy that made the log has 1 everywhere.
    """
    slates = context.slates(k)

    def made() -> Floats:
        if ratio == "position":
            return np.where(slates.shown, policy.marginal(context, slates) / slates.propensity, 0.0)
        factors = policy.conditional(context, slates)
        ratios: Floats = np.multiply.accumulate(
            factors / slates.propensity if ratio == "joint" else factors, axis=1
        )
        return ratios

    if context.is_logging:
        return slates.shown.astype(np.float64) if ratio == "position" else np.ones(slates.shown.shape)
    return context.once((policy, k, ratio), made)


@metric("value")
@dataclass(frozen=True)
class Value(_OfPolicy, UserMetric):
    """Reward of a decision that a policy made of the lists would have earned, estimated from a log of another policy.

    The value of a policy is the expectation of R, the sum of the rewards at positions 1..k of a decision. The mean over
    decisions estimates it. With a_p the item that the log shows at position p, r_p its reward, e_p its propensity,
    pi_p the policy's probability of a_p at p given the items that the log shows above, and w = product of pi_p / e_p:

    - ``ips``: w R. Unbiased where propensities are right and above 0 wherever the policy shows an item.
    - ``clipped``: min(w, bound) R: less variance, and a bias where weights exceed the bound.
    - ``snips`` (the default): V = sum of w R / sum of w over all decisions: less variance, and a bias that vanishes
      with their number.
    - ``rips``: sum of w_p r_p, with w_p the product down to position p: users look from the top down, and what follows
      does not matter.
    - ``iips``: sum of (pi(a_p at p) / e_p) r_p, with probabilities of single positions: what else is shown does not
      matter. Beyond @1, e_p must be that of the item at p whatever the log shows above (``propensities: marginal`` of
      the dataset), where all other weights need that given the items above (``conditional``): either is refused.
    - ``dm``: expectation of q under the policy at the positions that the log shows, with q the mean reward of an item
      at a position by an earlier log, shrunk to the means of the item and of the position. As wrong as q is.
    - ``dr``: dm + w (R - Q), with Q the sum of q of the shown items. Unbiased where propensities or q are right.
    - ``sndr``: dm + sum of w (R - Q) / sum of w.
    - ``replay``: mean of R where the policy shows the same slate as the log, which must have shown items uniformly at
      random. For policy=greedy only. ``matches`` is its numerator: R there, 0 elsewhere.

    Ratios of sums (snips, sndr, replay) have a value for each decision whose mean is V, so that intervals and
    differences are those of V: V + (n - V d) / mean of d, with n and d the decision's numerator and denominator.
    Their means over a part of the decisions are contributions to V, not the ratio of the part.

    Policies: ``greedy`` shows the list; ``softmax`` draws items of the list without replacement, in proportion to
    exp(score / temperature) (Plackett-Luce); ``epsilon`` shows the list, or with probability ``epsilon`` its items in
    random order; ``given`` draws the first item by probabilities that lists have (@1 only). The list must then be the
    whole pool of the decision. iips, dm, dr and sndr of softmax are defined @1 only, as probabilities at later
    positions have no closed form.

    Undefined (NaN) for a decision whose log shows nothing at positions 1..k, which tells nothing of them; for all of
    them where a denominator is 0: no decision shows what the policy could. An item at a position that the log does not
    show in a decision has no part in the value. The policy that made the log has the value R by every estimator.
    Higher is better.

    Source: Horvitz and Thompson, JASA 47, 1952 (ips); Swaminathan and Joachims, NeurIPS 2015 (snips); Dudík, Langford
    and Li, ICML 2011 (dm, dr); Li et al., WSDM 2011 (replay), KDD 2018 (iips); McInerney et al., KDD 2020 (rips).

    >>> from evalplugin.metrics import evaluate
    >>> log = {"truth": [{"a": 1}, {"b": 0}, {"b": 1}], "shown": [{"a": (1, 0.5)}, {"b": (1, 0.5)}, {"b": (1, 0.25)}]}
    >>> evaluate("value(estimator=ips)@1", lists=[["a", "b"], ["a", "b"], ["b", "a"]], **log)  # 1/0.5, 0, 1/0.25
    [2.0, 0.0, 4.0]
    >>> evaluate("value@1", lists=[["a", "b"], ["a", "b"], ["b", "a"]], **log)  # weights 2, 0, 4: V = (2 + 4)/(2 + 4)
    [1.0, 1.0, 1.0]
    """

    higher_is_better = True
    bounds = (-math.inf, math.inf)
    weighted_by = "estimator"

    estimator: Estimator = "snips"
    policy: PolicyName = "greedy"
    temperature: Temperature = TEMPERATURE
    epsilon: Epsilon = EPSILON
    bound: Annotated[float, Field(gt=0, description="With estimator=clipped: the highest weight")] = _BOUND

    def __post_init__(self) -> None:
        """Check that the parameters go together; set the needs, which depend on them."""
        super().__post_init__()
        if self.bound != _BOUND and self.estimator != "clipped":
            raise ValueError("bound goes with estimator=clipped only")
        if self.estimator in _WITH_REWARDS:
            object.__setattr__(self, "needs", (*self.needs, "train"))

    @property
    def propensities(self) -> str | None:
        """Which propensities it needs beyond the first position; None: either, or none."""
        return None if self.estimator == "dm" else super().propensities

    @property
    def _ratio(self) -> Ratio:
        if self.estimator == "iips":
            return "position"
        return "match" if self.estimator in ("replay", "matches") else "joint"

    @property
    def _of_policy(self) -> dict[str, Any]:
        return {"policy": self.policy, "temperature": self.temperature, "epsilon": self.epsilon}

    def sources(self, k: int | None) -> tuple[MetricSpec, ...]:
        """Return the values whose sums a ratio is made of, and the weights; none for other estimators."""
        estimators = _SOURCES.get(self.estimator, ())
        values = [MetricSpec("value", Value(estimator=e, **self._of_policy), k) for e in estimators]
        weight = MetricSpec("weight", Weight(**self._of_policy, ratio=self._ratio), k)
        return (*values, weight) if values else ()

    def companions(self, k: int | None) -> tuple[MetricSpec, ...]:
        """Return the sources and what tells whether the value can be trusted: weights, and what the log never shows."""
        specs = list(self.sources(k))
        if self.estimator != "dm":  # which has no weights
            diagnostics = (Weight, EffectiveDecisions, LargestWeight)
            names = ("weight", "effective_decisions", "largest_weight")
            for name, cls in zip(names, diagnostics, strict=True):
                specs.append(MetricSpec(name, cls(**self._of_policy, ratio=self._ratio), k))
        if self._ratio == "match":  # by slate, which replay takes to be the same for all that match
            specs.append(MetricSpec("weight", Weight(**self._of_policy), k))
        specs.append(MetricSpec("unsupported", Unsupported(**self._of_policy), k))
        return tuple({spec.name: spec for spec in specs}.values())

    def derive(self, *values: Floats) -> Floats:
        """Return values whose mean is the ratio of sums, from those of ``sources``."""
        weight, last = values[-1], values[-2]
        # Of sndr, the values of dm are added as they are.
        base = values[0] if len(values) == 3 else np.zeros(len(weight))
        numerator = last - base
        mean_weight = mean_of_defined(weight)
        if not mean_weight:
            return np.full(len(weight), np.nan)
        ratio = mean_of_defined(numerator) / mean_weight
        return base + (ratio + (numerator - ratio * weight) / mean_weight)

    def __call__(self, context: ScoringContext, k: int, /) -> Floats:
        """Return the estimate of each decision; of a ratio, as if those of the block were all."""
        if sources := self.sources(k):
            return self.derive(*(own.of(context, k) for own in sources))
        slates = context.slates(k)
        reward = row_totals(slates.reward)
        if not context.is_logging:
            reward = self._estimate(context, reward, k)
        return np.where(slates.shown.any(axis=1), reward, np.nan)

    def _estimate(self, context: ScoringContext, reward: Floats, k: int) -> Floats:
        """Return the estimate of each decision, float64 (B,), with the sums of rewards ``reward`` (B,)."""
        slates = context.slates(k)
        if self.estimator == "dm":
            return self._expected(context, k)[0]
        ratios = _ratios(context, self._shown, k, self._ratio)
        if self.estimator in ("iips", "rips"):
            return row_totals(ratios * slates.reward)
        weight = ratios[:, -1]
        if self.estimator == "clipped":
            weight = np.minimum(weight, self.bound)
        if self.estimator != "dr":
            return weight * reward
        of_policy, of_log = self._expected(context, k)
        return of_policy + weight * (reward - of_log)

    def _expected(self, context: ScoringContext, k: int) -> tuple[Floats, Floats]:
        """Return the rewards to be expected of what the policy shows and of what the log shows: float64 (B,) each."""
        assert context.train is not None, "`needs` says so"
        slates, rewards = context.slates(k), context.train.rewards_at
        n_positions = slates.shown.shape[1]
        of_policy = self._shown.expected(context, n_positions, rewards)
        of_log = np.stack([rewards(p + 1)[slates.item[:, p]] for p in range(n_positions)], axis=1)
        by_policy, by_log = (row_totals(np.where(slates.shown, own, 0.0)) for own in (of_policy, of_log))
        return by_policy, by_log


@dataclass(frozen=True)
class _OfWeights(_OfPolicy):
    """What tells by the weights of the decisions whether values of a policy can be trusted."""

    higher_is_better: ClassVar[bool | None] = None
    weighted_by = "ratio"

    policy: PolicyName = "greedy"
    temperature: Temperature = TEMPERATURE
    epsilon: Epsilon = EPSILON
    ratio: Ratio = "joint"

    @property
    def _ratio(self) -> Ratio:
        return self.ratio

    def _weights(self, context: ScoringContext, k: int) -> Floats:
        """Return the weight of each decision: float64 (B,), NaN for those that show nothing."""
        n_shown = np.count_nonzero(context.slates(k).shown, axis=1)
        ratios = _ratios(context, self._shown, k, self.ratio)
        mean = row_totals(ratios) / np.maximum(n_shown, 1) if self.ratio == "position" else ratios[:, -1]
        return np.where(n_shown > 0, mean, np.nan)


@metric("weight")
@dataclass(frozen=True)
class Weight(_OfWeights, UserMetric):
    """Weight of a decision in the ``value`` of a policy: the policy's probability of what was shown over the log's.

    weight@k = product over positions 1..k of pi_p / e_p, as of ``value``; with ``ratio=position`` the mean over
    positions of pi(a_p at p) / e_p; with ``ratio=match`` 1 where the policy shows the same slate and 0 elsewhere. The
    mean of the first two is 1 where propensities are right and the log may show all that the policy shows: where its
    interval does not hold 1, the values are not to be trusted. The policy that made the log has 1. Undefined (NaN) for
    a decision whose log shows nothing at positions 1..k. From 0 up; neither direction is better by itself.

    Source: Horvitz and Thompson, JASA 47, 1952; Li et al., KDD 2018 (control of the mean).

    >>> from evalplugin.metrics import evaluate
    >>> shown = [{"a": (1, 0.5), "b": (2, 0.25)}, {"b": (1, 0.5)}]
    >>> evaluate("weight@2", lists=[["a", "b"], ["a", "b"]], truth=[{"a": 0, "b": 1}, {"b": 1}], shown=shown)
    [8.0, 0.0]
    """

    bounds = (0.0, math.inf)

    def __call__(self, context: ScoringContext, k: int, /) -> Floats:
        """Return the weight of each decision."""
        return self._weights(context, k)


@metric("unsupported")
@dataclass(frozen=True)
class Unsupported(_OfPolicy, UserMetric):
    """Share of the policy's probability that is on items which no decision of the log shows, at any position.

    unsupported@k = mean over the positions 1..k that the log shows of the policy's probability of such items; of
    softmax that of the first position. Their reward is unknown: weights leave it out, a model of rewards guesses it. 0
    for the policy that made the log. Undefined (NaN) for a decision whose log shows nothing at positions 1..k. Range 0
    to 1; neither direction is better by itself, but values of policies with much of it cannot be trusted.

    Source: Sachdeva, Su and Joachims, KDD 2020 (deficient support).

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("unsupported@1", lists=[["c", "a"], ["a"]], truth=[{"a": 1}, {"b": 0}],
    ...          shown=[{"a": (1, 0.5)}, {"b": (1, 0.5)}])
    [1.0, 0.0]
    """

    higher_is_better = None
    bounds = (0.0, 1.0)
    propensities = None

    policy: PolicyName = "greedy"
    temperature: Temperature = TEMPERATURE
    epsilon: Epsilon = EPSILON

    @property
    def _ratio(self) -> Ratio:
        return "joint"

    def __call__(self, context: ScoringContext, k: int, /) -> Floats:
        """Return the share of each decision."""
        assert context.shown is not None, "`needs` says so"
        shown, lacking = context.slates(k).shown, (~context.shown.supported).astype(np.float64)
        n_shown = np.count_nonzero(shown, axis=1)
        share = np.zeros(context.n_users)
        if lacking.any() and not context.is_logging:
            of_policy = self._shown.expected(context, shown.shape[1], lambda position: lacking)
            share = row_totals(np.where(shown, of_policy, 0.0)) / np.maximum(n_shown, 1)
        return np.where(n_shown > 0, np.minimum(share, 1.0), np.nan)


class _OfAllWeights(_OfWeights, OverallMetric):
    """One number of the weights of all decisions: their state are exact moments."""

    def start(self, n_items: int) -> npt.NDArray[np.generic]:
        """Return no weights: object (1,)."""
        return np.array([Moments()], dtype=object)

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Add the weights of a block."""
        state[0] += Moments.of(self._weights(context, k))

    def merge(self, a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return the moments of both."""
        return np.array([a[0] + b[0]], dtype=object)


@metric("effective_decisions")
@dataclass(frozen=True)
class EffectiveDecisions(_OfAllWeights):
    """Number of decisions of equal weight that would tell as much of the policy as the decisions of the log do.

    effective_decisions@k = (sum of w)^2 / sum of w^2, with w as of ``weight``. One number a model: all decisions for
    the policy that made the log, 0 where all weights are 0. Undefined (NaN) without a decision that shows something at
    positions 1..k. From 0 up; neither direction is better by itself, but with few of them values cannot be trusted.

    Source: Kish, Survey Sampling, 1965; Kong, Technical Report 348, University of Chicago, 1992.

    >>> from evalplugin.metrics import evaluate
    >>> shown = [{"a": (1, 0.5)}, {"b": (1, 0.5)}, {"a": (1, 0.25)}]  # weights 2, 0, 4: 6^2 / (2^2 + 4^2)
    >>> evaluate("effective_decisions@1", lists=[["a", "b"]] * 3, truth=[{"a": 1}, {"b": 0}, {"a": 0}], shown=shown)
    [1.8]
    """

    bounds = (0.0, math.inf)

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the number of decisions."""
        moments: Any = state[0]
        if not moments.n:
            return math.nan
        return float(moments.sum.units**2 / moments.squares) if moments.squares else 0.0


@metric("largest_weight")
@dataclass(frozen=True)
class LargestWeight(_OfAllWeights):
    """Share that the decision with the largest weight has in the sum of all weights.

    largest_weight@k = max w / sum of w, with w as of ``weight``. One number a model. Undefined (NaN) where all weights
    are 0. Range 0 to 1; neither direction is better by itself, but where it is large, values hang on one decision.

    Source: Owen, Monte Carlo Theory, Methods and Examples, 2013, chapter 9 (diagnostics of weights).

    >>> from evalplugin.metrics import evaluate
    >>> shown = [{"a": (1, 0.5)}, {"b": (1, 0.5)}, {"a": (1, 0.25)}]  # weights 2, 0, 4: 4 / 6
    >>> evaluate("largest_weight@1", lists=[["a", "b"]] * 3, truth=[{"a": 1}, {"b": 0}, {"a": 0}], shown=shown)
    [0.6666666666666666]
    """

    bounds = (0.0, 1.0)

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the share."""
        moments: Any = state[0]
        return float(moments.highest / (moments.mean * moments.n)) if moments.highest > 0 else math.nan


def check_propensities(metrics: Sequence[MetricSpec], log: Interactions) -> None:
    """Check that the propensities of a log are of the kind that metrics need, which differs beyond the first position.

    Raises:
        DataError: They are of the other kind.
    """
    if log.position is None or log.position.max() == 1:
        return
    kinds = {"conditional": "of an item given those above", "marginal": "of an item whatever is above"}
    kind, other = ("marginal", "conditional") if log.marginal else ("conditional", "marginal")
    estimators = "iips" if log.marginal else "snips, ips, rips or dr"
    companions = {own.name for spec in metrics for own in spec.metric.companions(spec.k)}
    for spec in metrics:
        needed = spec.metric.propensities if isinstance(spec.metric, _OfPolicy) else None
        if spec.k != 1 and needed == other and spec.name not in companions:
            raise DataError(
                f"metric {spec.name} needs {other} propensities beyond the first position, {kinds[other]}, and those "
                f"of the log are {kind}, {kinds[kind]}: take @1 or {estimators}, or name a column of {other} ones and "
                f"say propensities: {other} in the dataset"
            )
