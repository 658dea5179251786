"""Scores of users: means, counts, averages over folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Flags, Floats, described
from evalplugin.base.errors import DataError
from evalplugin.base.fingerprint import digest
from evalplugin.base.libraries import pd
from evalplugin.base.units import plural
from evalplugin.data.queries import Sessions, Unit
from evalplugin.metrics.distribution import Distribution
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.segments import Segmentation


@dataclass(frozen=True, eq=False)
class Units:
    """The units that have a score each, such as users, and their clusters: units whose scores depend on each other."""

    ids: npt.NDArray[np.generic]  # raw (U,)
    noun: Unit = "user"  # of one
    clusters: Segmentation | Sessions | None = None  # whose name is a noun; None: units are independent

    __repr__ = described

    @classmethod
    def of_lists(cls, ids: npt.NDArray[np.generic], noun: Unit, column: Segmentation | None = None) -> Units:
        """Return the units that lists are for: users, or queries, whose ids name their sessions.

        ``column``: their clusters where a column of the data names them.
        """
        return cls(ids, noun, Sessions() if column is None and noun == "query" else column)

    def __len__(self) -> int:
        return len(self.ids)

    def only(self, rows: Flags) -> Units:
        """Return some of the units (U,)."""
        return replace(self, ids=self.ids[rows])

    @cached_property
    def codes(self) -> Codes | None:
        """The cluster of each unit (U,), equal for values that depend on each other; None: they do not."""
        return None if self.clusters is None else self.clusters.of(self.ids)

    @property
    def column(self) -> Segmentation | None:
        """The clusters where a column names them; else None."""
        return self.clusters if isinstance(self.clusters, Segmentation) else None

    @cached_property
    def digest(self) -> str:
        """A hash of the noun and the ids: 32 hexadecimal digits."""
        return digest([self.noun, *map(str, self.ids.tolist())])[:32]

    @property
    def independent(self) -> str:
        """The noun of what is independent: a unit, or a cluster."""
        return self.noun if self.clusters is None else self.clusters.name

    @property
    def nouns(self) -> str:
        """The plural of ``noun``."""
        return plural(self.noun)

    @property
    def independents(self) -> str:
        """The plural of ``independent``."""
        return plural(self.independent)


class Counts(NamedTuple):
    """Numbers of users for whom a metric is defined and undefined."""

    users: int
    undefined: int


@dataclass(frozen=True, eq=False)
class PerUserScores:
    """One row a unit, one float64 column a metric; NaN means undefined for that unit, never zero.

    ``values`` float64 (U, M); ``metrics`` canonical names of the M columns.
    ``overall`` holds the metrics that are one number a model (``coverage@10``), by canonical name. ``at_k``
    holds the curve of each metric family over the cutoff: ``{"ndcg": {1: 0.1, 2: 0.15, ...}}``, means.
    ``pr_curve`` holds the mean interpolated precision at a recall of 0, 10 ... 100 percent.
    """

    units: Units
    values: Floats
    metrics: tuple[str, ...]
    overall: Mapping[str, float] = field(default_factory=dict)
    at_k: Mapping[str, Mapping[int, float]] = field(default_factory=dict, repr=False)
    pr_curve: Mapping[int, float] = field(default_factory=dict, repr=False)
    unlisted: int = 0  # users with a truth and without a list, where lists from elsewhere were scored

    __repr__ = described

    @property
    def users(self) -> npt.NDArray[np.generic]:
        """The raw ids of the units (U,)."""
        return self.units.ids

    def column(self, metric: str) -> Floats:
        """Return one metric's value for every user: float64 (U,), NaN where undefined."""
        return self.values[:, self.metrics.index(metric)]

    @cached_property
    def means(self) -> dict[str, float]:
        """Each metric's mean over the users for whom it is defined, NaN without any; overall metrics as they are."""
        means = {name: mean_of_defined(self.column(name)) for name in self.metrics}
        return {**means, **self.overall}

    @cached_property
    def counts(self) -> dict[str, Counts]:
        """Numbers of users for whom each metric of ``metrics`` is defined and undefined."""
        undefined = np.isnan(self.values).sum(axis=0).tolist()
        return {n: Counts(len(self.users) - u, u) for n, u in zip(self.metrics, undefined, strict=True)}

    def to_frame(self) -> pd.DataFrame:
        """Return the scores as a DataFrame indexed by raw user id, one column a metric."""
        return pd.DataFrame(
            self.values,
            index=pd.Index(self.users, name="user"),
            columns=list(self.metrics),
        )


@dataclass(frozen=True, eq=False)
class ScoreTotals:
    """The scores of users whose values are not here: means, counts and distributions of all of them."""

    distributions: Mapping[str, Distribution]
    overall: Mapping[str, float] = field(default_factory=dict)
    at_k: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    pr_curve: Mapping[int, float] = field(default_factory=dict)
    unlisted: int = 0  # users with a truth and without a list

    @property
    def means(self) -> dict[str, float]:
        """Each metric's mean over the users for whom it is defined, NaN without any; overall metrics as they are."""
        return {**{name: each.moments.mean for name, each in self.distributions.items()}, **self.overall}

    @property
    def counts(self) -> dict[str, Counts]:
        """Numbers of users for whom each metric of ``metrics`` is defined and undefined."""
        return {name: Counts(each.moments.n, each.undefined) for name, each in self.distributions.items()}


def average_folds(folds: Sequence[PerUserScores]) -> PerUserScores:
    """Return each user's scores averaged over the folds where they are defined.

    Users of all folds are sorted. Overall metrics and curves are averaged with equal
    weights over the folds where they are defined.

    Raises:
        DataError: There is no fold, or folds have different metrics.
    """
    if not folds:
        raise DataError("there is no fold to average")
    first = folds[0]
    if len(folds) == 1:
        return first
    for number, fold in enumerate(folds):
        if (fold.metrics, set(fold.overall)) != (first.metrics, set(first.overall)):
            raise DataError(
                f"fold {number} was scored by {', '.join([*fold.metrics, *fold.overall])}, "
                f"but fold 0 by {', '.join([*first.metrics, *first.overall])}"
            )
    users, position = np.unique(np.concatenate([fold.users for fold in folds]), return_inverse=True)
    total = np.zeros((len(users), len(first.metrics)))
    defined = np.zeros_like(total)
    start = 0
    for fold in folds:  # a user is in a fold once, so plain indexing adds each row once
        rows = position[start : start + len(fold.users)]
        start += len(fold.users)
        total[rows] += np.nan_to_num(fold.values)
        defined[rows] += ~np.isnan(fold.values)
    return PerUserScores(
        units=replace(first.units, ids=users),
        values=np.divide(total, defined, out=np.full_like(total, np.nan), where=defined > 0),
        metrics=first.metrics,
        overall={name: mean_of_defined(np.array([f.overall[name] for f in folds])) for name in first.overall},
        at_k={
            name: {
                k: mean_of_defined(np.array([f.at_k[name][k] for f in folds]))
                for k in curve
                if all(k in f.at_k[name] for f in folds)  # lists from elsewhere may be shorter in some folds
            }
            for name, curve in first.at_k.items()
        },
        pr_curve={p: mean_of_defined(np.array([f.pr_curve[p] for f in folds])) for p in first.pr_curve},
        unlisted=max(fold.unlisted for fold in folds),
    )
