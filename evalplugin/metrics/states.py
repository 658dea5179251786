"""States of scoring: the contributions of groups of users, merged exactly in any order and grouping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import DataError
from evalplugin.components.registry import call_component
from evalplugin.data.queries import Unit, sessions_of
from evalplugin.metrics.base import OverallMetric, UserMetric, is_mergeable, is_overall
from evalplugin.metrics.distribution import Distribution
from evalplugin.metrics.moments import ExactSum
from evalplugin.metrics.names import MetricSpec
from evalplugin.metrics.scores import PerUserScores, ScoreTotals, Units
from evalplugin.metrics.separation import RECALL_PERCENT


@dataclass(frozen=True)
class Request:
    """The metrics to compute, the same for all parts of the users."""

    metrics: tuple[MetricSpec, ...]
    n: int  # length of the longest list of all users
    n_items: int  # of the catalogue, as ``OverallMetric.start`` takes it
    curve_ks: tuple[int, ...] = ()
    unit: Unit = "user"  # query: ids of users are those of queries, as of ``queries.query_ids``

    @cached_property
    def requested(self) -> dict[str, MetricSpec]:
        """The requested metrics by name, then those that they are derived from."""
        sources = [own for spec in self.metrics for own in spec.sources]
        return {spec.name: spec for spec in (*self.metrics, *sources)}

    @cached_property
    def curves(self) -> dict[str, dict[int, MetricSpec]]:
        """The metrics of each curve over the cutoff."""
        return {
            s.at(None).name: {k: s.at(k) for k in self.curve_ks}
            for s in self.metrics
            if s.metric.takes_k and "log" not in s.metric.needs
        }

    @cached_property
    def derived(self) -> dict[str, MetricSpec]:
        """The requested metrics whose values are derived from those of others once they are known of all users."""
        return {name: spec for name, spec in self.requested.items() if spec.sources}

    @cached_property
    def every(self) -> dict[str, MetricSpec]:
        """All metrics to be computed by name: the requested ones, then further ones of the curves."""
        first = {name: spec for name, spec in self.requested.items() if name not in self.derived}
        of_curves = {spec.name: spec for curve in self.curves.values() for spec in curve.values()}
        return first | {name: spec for name, spec in of_curves.items() if name not in first}

    @cached_property
    def overall(self) -> dict[str, OverallMetric]:
        """The metrics with one number for all lists."""
        return {name: spec.metric for name, spec in self.every.items() if is_overall(spec.metric)}

    @cached_property
    def per_user(self) -> tuple[str, ...]:
        """Names of the requested metrics with a value a user, without those that are derived."""
        return tuple(n for n in self.requested if n not in self.overall and n not in self.derived)


class UserValues(NamedTuple):
    """The values of some users."""

    users: npt.NDArray[np.generic]  # (U,) raw ids or codes, each once
    values: Floats  # (M, U), a row for each of ``Request.per_user``, NaN where undefined


@dataclass(frozen=True, eq=False)
class ScorerState:
    """The contribution of some users to all scores. A worker returns it; merged states give the scores of all users.

    The scores are the same to the last bit as if all users had been scored at once, however they were divided and in
    whatever order states are merged. Users' values may be left out: distributions then take their place, which
    must be of all queries of their sessions.
    """

    request: Request
    values: tuple[UserValues, ...] = ()
    # Of users whose values were left out.
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    # States of metrics over all lists.
    overall: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    sums: Mapping[str, ExactSum] = field(default_factory=dict)  # of metrics that only curves hold
    precision: tuple[ExactSum, ...] = ()  # at each of RECALL_PERCENT
    unlisted: int = 0  # users with a truth and without a list

    @staticmethod
    def merge(states: Iterable[ScorerState]) -> ScorerState:
        """Return the state of the users of all states; no user is in two of them.

        Nor is a session whose queries' values were left out.

        Raises:
            DataError: A metric over all lists does not define ``merge``.
            ValueError: There is no state, or they are of different metrics, cutoffs, lengths of lists or catalogues.
        """
        merged: ScorerState | None = None
        distributions: dict[str, list[Distribution]] = {}
        values: list[UserValues] = []
        for state in states:
            values.extend(state.values)
            for name, distribution in state.distributions.items():
                distributions.setdefault(name, []).append(distribution)
            if merged is None:
                merged = state
                continue
            if merged.request != state.request:
                raise ValueError(
                    f"states of different scores cannot be merged: {merged.request}, {state.request}"
                )
            check_mergeable(merged.request.every.values())
            merged = replace(
                merged,
                overall={
                    name: call_component(
                        f"metric {name}", metric.merge, merged.overall[name], state.overall[name]
                    )
                    for name, metric in merged.request.overall.items()
                },
                sums={name: total + state.sums[name] for name, total in merged.sums.items()},
                precision=tuple(a + b for a, b in zip(merged.precision, state.precision, strict=True)),
                unlisted=merged.unlisted + state.unlisted,
            )
        if merged is None:
            raise ValueError("there is no state to merge")
        return replace(
            merged,
            values=tuple(values),
            distributions={name: Distribution.merge(parts) for name, parts in distributions.items()},
        )

    def without_values(self) -> ScorerState:
        """Return the state with distributions in place of users' values, whose size does not grow with the users.

        Raises:
            DataError: A user is in two of the merged states, or a metric is derived from the values of all users.
        """
        if self.request.derived:
            raise DataError(
                f"{', '.join(self.request.derived)}: follow from the values of all users together, which are left out "
                f"here: score in memory"
            )
        parts = {
            name: [self.distributions[name]] if self.distributions else [] for name in self.request.per_user
        }
        if self.values:
            users, values = self._ordered()
            sessions = sessions_of(users) if self.request.unit == "query" else None
            for name, column in zip(self.request.per_user, values, strict=True):
                parts[name].append(Distribution.of(column, users, sessions))
        distributions = {name: Distribution.merge(some) for name, some in parts.items()}
        return replace(self, values=(), distributions=distributions)

    def scores(self) -> PerUserScores:
        """Return the scores of all users, in ascending order of their ids.

        Raises:
            DataError: A user is in two of the merged states.
            ValueError: Values were left out.
        """
        if self.distributions:
            raise ValueError("values of users were left out: there are totals, but no scores of users")
        users, values = self._ordered()
        metrics = self.request.per_user
        if self.request.derived:
            metrics, values = self._derived(values)
        scores = PerUserScores(
            units=Units.of_lists(users, self.request.unit),
            values=values.T,
            metrics=metrics,
            unlisted=self.unlisted,
        )
        in_curves = {spec.name for curve in self.request.curves.values() for spec in curve.values()}
        overall, at_k, pr_curve = self._figures(
            scores.means if in_curves & set(self.request.per_user) else {}
        )
        return replace(scores, overall=overall, at_k=at_k, pr_curve=pr_curve)

    def _derived(self, values: Floats) -> tuple[tuple[str, ...], Floats]:
        """Return the names of all requested metrics with a value a user and their values, (M, U)."""
        columns = dict(zip(self.request.per_user, values, strict=True))
        for name, spec in self.request.derived.items():
            assert isinstance(spec.metric, UserMetric)
            sources = [columns[own.name] for own in spec.sources]
            columns[name] = call_component(f"metric {name}", spec.metric.derive, *sources)
        metrics = tuple(name for name in self.request.requested if name not in self.request.overall)
        return metrics, np.stack([columns[name] for name in metrics])

    def totals(self) -> ScoreTotals:
        """Return the scores without the values of users."""
        state = self.without_values()
        means = {name: each.moments.mean for name, each in state.distributions.items()}
        overall, at_k, pr_curve = self._figures(means)
        return ScoreTotals(state.distributions, overall, at_k, pr_curve, self.unlisted)

    def _figures(
        self, means: Mapping[str, float]
    ) -> tuple[dict[str, float], dict[str, dict[int, float]], dict[int, float]]:
        """Return the metrics over all lists, the curves over the cutoff and precision by recall."""
        finished = {
            name: call_component(f"metric {name}", metric.finish, self.overall[name])
            for name, metric in self.request.overall.items()
        }
        means = {**means, **finished, **{name: total.mean for name, total in self.sums.items()}}
        return (
            {name: value for name, value in finished.items() if name in self.request.requested},
            {
                name: {k: means[spec.name] for k, spec in curve.items()}
                for name, curve in self.request.curves.items()
                if curve
            },
            {p: total.mean for p, total in zip(RECALL_PERCENT, self.precision, strict=False)},
        )

    def _ordered(self) -> tuple[npt.NDArray[np.generic], Floats]:
        """Return all users in ascending order, (U,), and their values, (M, U)."""
        if not self.values:
            return np.empty(0, dtype=np.int64), np.empty((len(self.request.per_user), 0))
        users, unit = [part.users for part in self.values], self.request.unit
        keys: Any = users[0] if len(users) == 1 else np.concatenate(users)
        rank = np.arange(len(keys))
        if not bool((keys[1:] > keys[:-1]).all()):
            order = np.argsort(keys, kind="stable")
            keys, rank[order] = keys[order], np.arange(len(keys))
            if (twice := np.flatnonzero(keys[1:] == keys[:-1])).size:
                raise DataError(
                    f"{unit} {keys[twice[0]]!r} is in two parts: all rows of a {unit} belong into one"
                )
        elif len(users) == 1:
            return keys, self.values[0].values
        values = np.empty((len(self.request.per_user), len(keys)))
        start = 0
        for part in self.values:
            values[:, rank[start : start + len(part.users)]] = part.values
            start += len(part.users)
        return keys, values


def check_mergeable(metrics: Iterable[MetricSpec]) -> None:
    """Check, before any work, that metrics can be computed where users are divided over processes or machines.

    Raises:
        DataError: One is over all lists and does not define ``merge``.
    """
    for spec in metrics:
        if is_overall(spec.metric) and not is_mergeable(spec.metric):
            raise DataError(
                f"metric {spec.name} is one number for all lists and does not say how those of two groups of users "
                f"become one, so that it cannot be computed in parts: let {type(spec.metric).__name__} define "
                f"merge(self, a, b), which returns the state of the users of both"
            )
