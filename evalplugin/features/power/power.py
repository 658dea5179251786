"""Power: the number of users that finds a gain, and the gain that the users of a config's data find."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from evalplugin.base.arrays import Codes, Floats
from evalplugin.base.numbers import number, percent
from evalplugin.base.places import DataSplit
from evalplugin.base.seeding import generator
from evalplugin.base.units import plural
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.statistics.intervals import mean_interval
from evalplugin.comparison.statistics.pairs import paired_difference, standard_deviation
from evalplugin.comparison.statistics.power import POWER, Dependence, detectable_gain, users_needed
from evalplugin.data.queries import Unit
from evalplugin.execution.runner import PreparedData
from evalplugin.metrics import parse
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.tracking.read.contests import read_contests
from evalplugin.workspace import Workspace

# Standard deviations of users' differences that metrics between 0 and 1 have: similar and very different models.
ASSUMED = (0.1, 0.2, 0.3)


@dataclass(frozen=True)
class PowerTest:
    """A test of a paired mean difference."""

    level: float = 0.95
    power: float = POWER
    one_sided: bool = False  # True: the test of a gate; False: of a comparison
    comparisons: int = 1  # share the error: the first step of Holm's correction
    decisions: int = 1  # of a gate, share it too

    @property
    def confidence(self) -> float:
        """The level of one comparison in one decision."""
        return 1 - (1 - self.level) / (self.comparisons * self.decisions)

    @property
    def words(self) -> str:
        """The test in words."""
        shared = [
            f"{n:,} {noun}"
            for n, noun in ((self.comparisons, "comparisons"), (self.decisions, "decisions"))
            if n > 1
        ]
        each = f", so {percent(self.confidence)} each" if shared else ""
        sides = "one-sided" if self.one_sided else "two-sided"
        return (
            f"{sides} at {percent(self.level)}{' for ' if shared else ''}{' in '.join(shared)}{each}; found with a "
            f"probability of {percent(self.power)}"
        )


@dataclass(frozen=True)
class PowerRow:
    """One spread, with the gain that some users find and the users that find some gain; unknown values are None.

    ``gain`` and ``detectable`` are true gains; ``margin`` is the gain that a gate requires them to exceed.
    """

    origin: str  # logged or assumed
    sd: float  # standard deviation of users' differences
    dataset: str = ""
    split: str = ""
    metric: str = ""
    model: str = ""
    against: str = ""
    users: int = 0
    measured: float | None = None  # mean difference, + where the model is better
    margin: float = 0.0
    detectable: float = math.nan  # with ``users``; NaN until it is ``solved``
    gain: float | None = None
    users_needed: int | None = (
        None  # to find ``gain``; noise where that is a measured one, which may be chance
    )
    # Of users in clusters, such as the queries of sessions, see ``detectable_gain``; None: users are independent.
    cluster_size: float | None = None
    design_effect: float | None = None
    unit: Unit = "user"

    @property
    def is_planned(self) -> bool:
        """Whether ``gain`` is one that was asked for, and not the measured one."""
        return self.gain is not None and self.gain != _size(self.measured)


@dataclass(frozen=True)
class PowerReport:
    """The power of a test for some spreads."""

    test: PowerTest
    rows: tuple[PowerRow, ...]
    notes: tuple[str, ...] = ()

    def sentences(self) -> Iterator[str]:
        """Yield for each dataset and split the true gain that a bake-off over its users would find."""
        for place in dict.fromkeys(map(DataSplit.of, self.rows)):
            rows = [r for r in self.rows if DataSplit.of(r) == place]
            gains = sorted(r.detectable for r in rows)
            sds = sorted(r.sd for r in rows)
            units = plural(rows[0].unit)
            yield (
                f"{place}: with {rows[0].users:,} {units}, a true gain of at least {_range(gains)} {rows[0].metric} "
                f"would be found in 4 of 5 bake-offs ({rows[0].origin} spread of {units}' gains: {_range(sds)})"
            )


def power_of_config(
    workspace: Workspace,
    prepared: Sequence[PreparedData],
    *,
    power: float = POWER,
    gain: float | None = None,
    experiment: str | None = None,
) -> PowerReport:
    """Return the power of a config's gate, or else of its comparison, with the users that its data has.

    Args:
        workspace: The config.
        prepared: The config's data.
        power: Probability of finding the gain.
        gain: The true gain to be found; None: twice the gate's ``min_gain``, or else the difference that was measured.
        experiment: The spreads are those of its last bake-off in the workspace's store; None: ``ASSUMED`` ones.

    Raises:
        DataError: The experiment has no bake-off that can be read.
        TrackingError: The store cannot be reached.
    """
    config = workspace.config
    gate = config.section("gate")
    others = max(1, len(config.models) - 1)
    if gate is None:
        test, least = PowerTest(power=power, comparisons=others), None
    else:
        challengers = others if gate.challengers is None else len(gate.challengers)
        test = PowerTest(gate.confidence, power, True, challengers, gate.decisions or 1)
        least = gate.least_gain
    metric = config.primary.name if gate is None or gate.metric is None else parse(gate.metric).name
    known: list[tuple[PowerRow, float]] = []
    if experiment is None:
        shown = ", ".join(f"{sd:g}" for sd in ASSUMED)
        notes = [
            f"spreads of {shown} are assumed; power CONFIG --experiment NAME takes those of its last bake-off"
        ]
    else:
        contests = read_contests(workspace.uri, bakeoff="latest", experiment=experiment)
        known = [pair for contest in contests for pair in spreads_of(contest, metric)]
        notes = [f"spreads of the bake-off {contests[0].name}, between the leader and each other model"]
    rows = []
    for data in prepared:
        users = len(data.info.units)
        known_here = [pair for pair in known if DataSplit.of(pair[0]) == DataSplit.of(data.info)]
        place = PowerRow("assumed", math.nan, *DataSplit.of(data.info), metric)
        for row, mean in known_here or [(replace(place, sd=sd), math.nan) for sd in ASSUMED]:
            limit = 0.0 if least is None else least.beside(mean)
            limit = limit if math.isfinite(limit) and limit > 0 else 0.0
            sought = gain if gain is not None else 2 * limit or _size(row.measured)
            rows.append(
                solved(test, replace(row, users=users, margin=limit, gain=sought, unit=data.info.units.noun))
            )
        if least is not None and least.is_share and not known_here:
            notes.append(
                f"min_gain is a share of a mean that is not known yet: gains are above {gate and gate.min_gain}"
            )
    return PowerReport(test, tuple(rows), tuple(dict.fromkeys(notes)))


def power_json(report: PowerReport) -> str:
    """Return a report as JSON."""
    test = {**asdict(report.test), "confidence": report.test.confidence}
    values = {"test": test, "rows": [asdict(row) for row in report.rows], "notes": list(report.notes)}
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)


def _range(values: Sequence[float]) -> str:
    low, high = number(values[0]), number(values[-1])
    return low if low == high else f"{low} to {high}"


def _size(difference: float | None) -> float | None:
    """Return the size of a difference; None if it is 0 or unknown."""
    return abs(difference) if difference else None


def solved(test: PowerTest, row: PowerRow) -> PowerRow:
    """Return a row with the gain that its users find, and the number of users that its gain needs, if it has one."""
    choice: dict[str, Any] = {
        "level": test.confidence,
        "power": test.power,
        "one_sided": test.one_sided,
        "dependence": Dependence(row.cluster_size or 1.0, row.design_effect or 1.0),
    }
    detectable, needed = row.margin + detectable_gain(row.sd, row.users, **choice), None
    if row.gain is not None and (row.gain > row.margin or not row.margin):
        needed = users_needed(row.sd, row.gain - row.margin, **choice)
    return replace(row, detectable=detectable, users_needed=needed)


def spreads_of(contest: Contest, metric: str) -> Iterator[tuple[PowerRow, float]]:
    """Yield the spread between the leader and each model that differs from it, with that model's mean."""
    spec = contest.spec(metric)
    direction = spec.direction or 1
    scored = [m for m in contest.models if m.has_values(metric)]
    means = {m.model: m.scores.means[metric] for m in scored if m.scores is not None}
    if len(scored) < 2 or spec.metric.scope != "user":
        return
    leader = max(scored, key=lambda model: direction * means[model.model])
    units = contest.units
    for model in scored:
        if model is leader:
            continue
        values = contest.values([leader, model], metric)
        both = ~np.isnan(values).any(axis=1)
        difference = paired_difference(*values[both].T)
        sd = standard_deviation(difference)
        if math.isfinite(sd) and sd > 0:
            row = PowerRow(
                "logged", sd, contest.dataset, contest.split, metric, leader.model, model.model, len(difference),
                direction * mean_of_defined(difference), unit=units.noun,
            )  # fmt: skip
            if units.codes is not None:
                row = _clustered(row, difference, units.codes[both])
            yield row, means[model.model]


def _clustered(row: PowerRow, difference: Floats, clusters: Codes) -> PowerRow:
    """Return a row with the size of the clusters of users, and by how much these add to the variance."""
    interval = mean_interval(difference, method="t", clusters=clusters, rng=generator(0))
    if interval.clusters is None:
        return row
    size = interval.n / interval.clusters
    return replace(row, cluster_size=size, design_effect=interval.design_effect)
