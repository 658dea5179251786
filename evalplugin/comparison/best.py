"""The models that may be the best by a metric, among all users or in one group."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Flags, Floats
from evalplugin.comparison.statistics.best import may_be_best
from evalplugin.comparison.statistics.clusters import independent_units
from evalplugin.comparison.statistics.pairs import paired_difference, standard_deviation
from evalplugin.comparison.statistics.power import detectable_gain, users_needed, users_of_units
from evalplugin.comparison.statistics.seeds import SeedSpread
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.moments import mean_of_defined


@dataclass(frozen=True)
class BestModels:
    """The models that no other is shown to beat, over the users who have values of all models."""

    metric: str  # canonical name
    level: float  # least probability that the true best is among them
    models: tuple[str, ...]  # the leader first, then by their means
    compared: tuple[str, ...]  # all models with a value, in the same order
    users: int  # below two, nothing is shown and all models may be the best
    rival: str | None  # hardest to tell from the leader; None: there is no other model
    # How many more would tell the leader from the rival, 4 times out of 5, if the true lead is the measured one. That
    # may be chance, and the number is noise: other users may give a hundred times as many. None: a single model may be
    # the best, or no number is known, as the means are equal or there are fewer than two users.
    users_to_tell: int | None
    # The lead over the rival that these users show, 4 times out of 5. None: as above.
    detectable: float | None = None
    # Whether more users alone would not tell them apart, as other seeds move the means as much.
    needs_seeds: bool = False
    # The model that is left out with the fewest users whose score is not the leader's, and their number; None: all
    # models may be the best.
    fewest: tuple[str, int] | None = None
    segment: str = ""  # a segmentation and one of its groups; empty: all users
    label: str = ""
    # Compared models whose values a log cannot tell; each of them may be the best.
    doubts: tuple[str, ...] = ()

    @property
    def leader(self) -> str:
        """The model with the best mean."""
        return self.models[0]

    def with_doubts(self, doubts: Collection[str]) -> BestModels:
        """Return the models that may be the best where values of some are in doubt: these too, and all if one leads.

        ``doubts``: names of models.
        """
        doubtful = tuple(model for model in self.compared if model in doubts)
        stay = self.compared if self.leader in doubts else (*self.models, *doubtful)
        return replace(self, models=tuple(m for m in self.compared if m in stay), doubts=doubtful)


def best_models(
    columns: Mapping[str, Floats],
    spec: MetricSpec,
    *,
    clusters: Codes | None = None,
    level: float,
    rng: np.random.Generator,
    seeds: Mapping[str, SeedSpread | None],
) -> BestModels | None:
    """Return the models that may be the best by a metric; see ``may_be_best``.

    None where the metric has no better direction, is one number for each model, or has no values.

    Args:
        columns: Values by model (U,), NaN for a unit without one.
        spec: The metric.
        clusters: Codes (U,), equal for units that may depend on each other; None: all are independent.
        level: At least 0.5.
        rng: Draws the critical values.
        seeds: Spread of each model's mean from seed to seed.
    """
    metric, direction = spec.name, spec.direction
    names = [model for model, column in columns.items() if np.isfinite(column).any()]
    if not direction or not names:
        return None
    values = np.stack([columns[name] for name in names], axis=1)
    compared = np.isfinite(values).all(axis=1)
    values, clusters = values[compared] * direction, None if clusters is None else clusters[compared]
    users = len(values)
    means = np.array([mean_of_defined(column) for column in values.T]) if users else np.zeros(len(names))
    order = np.argsort(-means, kind="stable")
    spreads = [seeds.get(name) for name in names]
    stays = may_be_best(values, level=level, seeds=spreads, clusters=clusters, rng=rng)
    kept = [i for i in order if stays[i]]
    rival = users_to_tell = detectable = None
    needs_seeds = False
    if len(order) > 1:
        rival, users_to_tell, detectable, needs_seeds = _rival(
            values, clusters, kept[0], kept[1:] or list(order[1:]), level, spreads
        )
    return BestModels(
        metric,
        level,
        models=tuple(names[i] for i in kept),
        compared=tuple(names[i] for i in order),
        users=users,
        rival=None if rival is None else names[rival],
        users_to_tell=users_to_tell if len(kept) > 1 else None,
        detectable=detectable if len(kept) > 1 else None,
        needs_seeds=needs_seeds and len(kept) > 1,
        fewest=min(
            (
                (names[i], _count(paired_difference(values[:, kept[0]], values[:, i]) != 0, clusters))
                for i in order
                if not stays[i]
            ),
            key=lambda other: other[1],
            default=None,
        ),
    )


def _count(users: Flags, clusters: Codes | None) -> int:
    """Return the number of some users (U,), or of the clusters that have any of them."""
    return int(np.count_nonzero(users)) if clusters is None else len(np.unique(clusters[users]))


def _rival(
    values: npt.NDArray[np.float64],
    clusters: Codes | None,
    leader: int,
    others: list[int],
    level: float,
    seeds: Sequence[SeedSpread | None],
) -> tuple[int, int | None, float | None, bool]:
    """Return the model with the smallest effect of the leader's lead, and how many more users would tell them apart.

    Third, the lead that these users show; fourth, whether only more seeds would tell, and no number of users.
    """
    # What is independent: users, or clusters of them.
    leads = [
        independent_units(paired_difference(values[:, leader], values[:, other]), clusters)[0]
        for other in others
    ]
    if len(leads[0]) < 2:
        return others[0], None, None, False
    gains = [mean_of_defined(lead) for lead in leads]
    spreads = [standard_deviation(lead) for lead in leads]
    effects = [
        gain / sd if sd else math.copysign(math.inf, gain) if gain else 0.0
        for gain, sd in zip(gains, spreads, strict=True)
    ]
    hardest = int(np.argmin(effects))
    if not 0 < effects[hardest] < math.inf:
        return others[hardest], None, None, False
    # As one test of many: the critical value of the set is at most Bonferroni's.
    corrected = 1 - (1 - level) / (values.shape[1] - 1)
    gain, sd, units, users = gains[hardest], spreads[hardest], len(leads[hardest]), len(values)
    detectable = detectable_gain(sd, units, level=corrected, one_sided=True)
    errors = sum(spread.error**2 for spread in (seeds[leader], seeds[others[hardest]]) if spread is not None)
    # The seeds' share of the variance of the difference does not fall with the number of users.
    left = 1 - detectable**2 * units * errors / (sd * gain) ** 2
    if left <= 0:
        return others[hardest], None, detectable, True
    needed = users_needed(sd, gain * math.sqrt(left), level=corrected, one_sided=True)
    return others[hardest], max(1, users_of_units(needed, users, units) - users), detectable, False
