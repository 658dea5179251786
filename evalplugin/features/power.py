"""Power: the users that it takes to find a gain, and the gain that users find, from a spread."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from evalplugin.base.errors import DataError, TrackingError, did_you_mean
from evalplugin.base.numbers import number, percent
from evalplugin.comparison.compared import ComparedModel, aligned
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.statistics.pairs import paired_difference, standard_deviation
from evalplugin.comparison.statistics.power import POWER, detectable_gain, users_needed
from evalplugin.execution.results import DataSplit
from evalplugin.execution.runner import PreparedData
from evalplugin.metrics import parse
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.tracking.read.contests import read_contests
from evalplugin.workspace import Workspace

__all__ = [
    "ASSUMED",
    "PowerReport",
    "PowerRow",
    "PowerTest",
    "power_json",
    "power_of_config",
    "power_of_runs",
    "power_of_spread",
]

# Standard deviations of users' differences that metrics between 0 and 1 have: similar and very different models.
ASSUMED = (0.1, 0.2, 0.3)


@dataclass(frozen=True)
class PowerTest:
    """The test whose power is asked for, of a paired mean difference."""

    level: float = 0.95
    power: float = POWER
    one_sided: bool = False  # as a gate tests, and not as a comparison
    comparisons: int = 1  # which share the error: the first step of Holm's correction
    decisions: int = 1  # which share it too

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
    """One spread, and what it means; unknown values are None.

    ``gain`` and ``detectable`` are true gains, of which ``margin`` is what a gate requires them to be above.
    """

    origin: str  # given, logged or assumed
    sd: float  # standard deviation of users' differences
    dataset: str = ""
    split: str = ""
    metric: str = ""
    model: str = ""
    against: str = ""
    users: int | None = None
    measured: float | None = None  # mean difference, + where the model is better
    margin: float = 0.0
    detectable: float | None = None  # with ``users``
    gain: float | None = None
    users_needed: int | None = None  # to find ``gain``


@dataclass(frozen=True)
class PowerReport:
    """The power of a test for some spreads."""

    test: PowerTest
    rows: tuple[PowerRow, ...]
    notes: tuple[str, ...] = ()

    def sentences(self) -> Iterator[str]:
        """Yield for each dataset and split the true gain that a bake-off over its users would find."""
        for place in dict.fromkeys(map(DataSplit.of, self.rows)):
            rows = [r for r in self.rows if DataSplit.of(r) == place and r.detectable is not None]
            if not rows:
                continue
            gains = sorted(r.detectable for r in rows if r.detectable is not None)
            sds = sorted(r.sd for r in rows)
            users = f"with {rows[0].users:,} users, " if rows[0].users is not None else ""
            yield (
                f"{place}: {users}a true gain of at least {_range(gains)} {rows[0].metric} "
                f"would be found in 4 of 5 bake-offs ({rows[0].origin} spread of users' gains: {_range(sds)})"
            )


def power_of_spread(test: PowerTest, sd: float, *, users: int | None, gain: float | None) -> PowerReport:
    """Return the power for a given spread.

    Raises:
        DataError: A number outside its range, or neither users nor a gain.
    """
    if users is None and gain is None:
        raise DataError(
            "give --users, to learn what true gain they find, or --gain, to learn how many users it needs"
        )
    return PowerReport(test, (_solved(test, PowerRow("given", sd, users=users, gain=gain)),))


def power_of_runs(
    test: PowerTest,
    *,
    users: int | None = None,
    gain: float | None = None,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    bakeoff: str | None = None,
    metrics: Sequence[str] = (),
) -> PowerReport:
    """Return the power for the spreads between the leader of a logged bake-off and its other models.

    Without ``users`` those of the bake-off, without ``gain`` the difference that was measured.

    Raises:
        DataError: No such bake-off or metric; a number outside its range.
        TrackingError: The store cannot be reached, or a run lacks logged files.
    """
    contests = read_contests(tracking_uri, bakeoff=bakeoff or "latest", experiment=experiment)
    rows = []
    for contest in contests:
        for metric in [parse(name).name for name in metrics] or [contest.primary]:
            if metric not in contest.metrics:
                raise DataError(
                    f"no model has scores by {metric!r}{did_you_mean(metric, contest.metrics, noun='there are')}"
                )
            for row in _spreads(contest, metric):
                asked = replace(
                    row, users=users or row.users, gain=gain if gain is not None else _above(row.measured)
                )
                rows.append(_solved(test, asked))
    if not rows:
        raise DataError(
            f"in {contests[0].name} no model differs from the leader: there is no spread; give --sd"
        )
    notes = (f"spreads of the bake-off {contests[0].name}, between the leader and each other model",)
    return PowerReport(test, tuple(rows), notes)


def power_of_config(
    workspace: Workspace,
    prepared: Sequence[PreparedData],
    *,
    power: float = POWER,
    gain: float | None = None,
) -> PowerReport:
    """Return the power of a config's gate, or else of its comparison, with the users that its data has.

    The spreads are those of the last bake-off of its experiment; where there is none, or the store cannot be reached,
    they are assumed, and a note says so.
    """
    config = workspace.config
    gate = config.spec.gate
    others = max(1, len(config.models) - 1)
    if gate is None:
        test, least = PowerTest(power=power, comparisons=others), None
    else:
        challengers = others if gate.challengers is None else len(gate.challengers)
        test = PowerTest(gate.confidence, power, True, challengers, gate.decisions or 1)
        least = gate.least_gain
    metric = config.primary.name if gate is None or gate.metric is None else parse(gate.metric).name
    known, note = _last_spreads(workspace.uri, workspace.experiment, metric)
    rows, notes = [], [note]
    for one in prepared:
        users = len(np.unique(np.concatenate([fold.test.user for fold in one.folds])))
        here = [r for r in known if DataSplit.of(r[0]) == DataSplit.of(one.info)]
        place = PowerRow("assumed", math.nan, *DataSplit.of(one.info), metric)
        for row, mean in here or [(replace(place, sd=sd), math.nan) for sd in ASSUMED]:
            limit = 0.0 if least is None else least.beside(mean)
            limit = limit if math.isfinite(limit) and limit > 0 else 0.0
            sought = gain if gain is not None else 2 * limit or _above(row.measured)
            rows.append(_solved(test, replace(row, users=users, margin=limit, gain=sought)))
        if least is not None and least.is_share and not here:
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


def _above(value: float | None) -> float | None:
    """Return the size of a difference; None of one that is not there."""
    return abs(value) if value else None


def _solved(test: PowerTest, row: PowerRow) -> PowerRow:
    choice = {"level": test.confidence, "power": test.power, "one_sided": test.one_sided}
    detectable, needed = None, None
    if row.users is not None:
        detectable = row.margin + detectable_gain(row.sd, row.users, **choice)  # type: ignore[arg-type]
    if row.gain is not None and (row.gain > row.margin or not row.margin):
        needed = users_needed(row.sd, row.gain - row.margin, **choice)  # type: ignore[arg-type]
    return replace(row, detectable=detectable, users_needed=needed)


def _spreads(contest: Contest, metric: str) -> Iterator[PowerRow]:
    """Yield the spread between the leader and each other model that is not the same for every user."""
    direction = parse(metric).direction or 1
    scored = [m for m in contest.models if m.has_values(metric)]
    if len(scored) < 2 or parse(metric).metric.scope != "user":
        return
    leader = max(scored, key=lambda m: direction * _mean(m, metric))
    for other in scored:
        if other is leader:
            continue
        assert leader.scores is not None and other.scores is not None
        _, values = aligned((leader.scores, other.scores), metric)
        difference = paired_difference(*values[~np.isnan(values).any(axis=1)].T)
        sd = standard_deviation(difference)
        if math.isfinite(sd) and sd > 0:
            yield PowerRow(
                "logged", sd, contest.dataset, contest.split, metric, leader.model, other.model, len(difference),
                direction * mean_of_defined(difference),
            )  # fmt: skip


def _mean(model: ComparedModel, metric: str) -> float:
    assert model.scores is not None
    return model.scores.means[metric]


def _last_spreads(uri: str, experiment: str, metric: str) -> tuple[list[tuple[PowerRow, float]], str]:
    """Return the spreads of the last bake-off of an experiment, each with the other model's mean; and their origin."""
    try:
        contests = read_contests(uri, bakeoff="latest", experiment=experiment)
    except (DataError, TrackingError):
        shown = ", ".join(f"{sd:g}" for sd in ASSUMED)
        return [], f"no bake-off of the experiment {experiment!r} can be read: spreads of {shown} are assumed"
    found = []
    for contest in contests:
        means = {m.model: _mean(m, metric) for m in contest.models if m.has_values(metric)}
        found += [(row, means[row.against]) for row in _spreads(contest, metric)]
    return found, f"spreads of the bake-off {contests[0].name}, between the leader and each other model"
