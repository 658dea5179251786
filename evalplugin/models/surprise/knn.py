"""The nearest-neighbour algorithms of scikit-surprise, under their own parameter names and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats, Ints
from evalplugin.base.errors import ModelError
from evalplugin.models.base import model
from evalplugin.models.surprise.base import BslOptions, ColdStartFromBiases, SimOptions, SurpriseModel
from evalplugin.models.surprise.similarity import similarities
from evalplugin.models.surprise.trainset import matrix_of_lists

if TYPE_CHECKING:
    from evalplugin.data import Interactions
    from evalplugin.models.kernels.neighbours import MeanOptions

_BYTES_A_PAIR = 8  # of users, or of items


@dataclass
class _Neighbours(SurpriseModel):
    """The weighted mean of the ratings, or of their deviations, by the k nearest neighbours."""

    takes_baselines: ClassVar[bool] = False  # whatever the similarity
    averages_deviations: ClassVar[bool] = False  # instead of ratings

    k: Annotated[int, Field(ge=1, description="most neighbours of a pair")] = 40
    min_k: Annotated[int, Field(ge=0, description="fewest neighbours that count; 0 is the same as 1")] = 1
    sim_options: SimOptions = field(default_factory=SimOptions)
    bsl_options: BslOptions = field(default_factory=BslOptions)

    def __post_init__(self) -> None:
        if self.min_k > self.k:
            raise ValueError(f"min_k ({self.min_k}) must not be above k ({self.k})")
        uses_baselines = self.takes_baselines or self.sim_options.name == "pearson_baseline"
        if not uses_baselines and self.bsl_options != BslOptions():
            raise ValueError(
                f"bsl_options of {self.name} go with the similarity 'pearson_baseline', "
                f"not with {self.sim_options.name!r}"
            )

    def prepare(self) -> None:
        """Import scikit-surprise and the compiled loops."""
        super().prepare()
        import_module("evalplugin.models.kernels.neighbours")

    def _learned_bytes(self, n_users: int, n_items: int, train: Interactions) -> int:
        return int(_BYTES_A_PAIR * (n_users if self.sim_options.user_based else n_items) ** 2)

    def _too_large(self, n_users: int, n_items: int) -> tuple[str, str]:
        user_based = self.sim_options.user_based
        sides = [(n_users, "users"), (n_items, "items")]
        (n, side), (n_other, other) = sides if user_based else reversed(sides)
        remedy = "take a sample of the data or another model"
        if n_other < n:
            switch = f"set sim_options.user_based to {str(not user_based).lower()}"
            remedy = f"{switch}, for {n_other:,} {other}, or {remedy}"
        return f"surprise.{self.name}: the similarity {self.sim_options.name!r} of {n:,} {side}", remedy

    def _fit(self, algorithm: Any, trainset: Any) -> None:
        algorithm.compute_similarities = partial(_similarities, algorithm)
        try:
            algorithm.fit(trainset)
        except ZeroDivisionError:
            name, side = self.sim_options.name, "users" if self.sim_options.user_based else "items"
            which = (
                "of which one's are all 0" if name == "cosine" else "that equal the baseline of one of them"
            )
            raise ModelError(
                f"surprise.{self.name}: the similarity {name!r} is undefined on this data: two {side} have in common "
                f"only ratings {which}; take another similarity, such as 'msd'"
            ) from None
        del algorithm.compute_similarities

    def adopt(self, algorithm: Any) -> None:
        """Take the learned state of a fitted algorithm."""
        super().adopt(algorithm)
        self._user_based = bool(algorithm.sim_options["user_based"])
        self._similarity: Floats = np.ascontiguousarray(algorithm.sim, dtype=np.float64)
        # The terms of the neighbours' means, in the order of the lists of each y.
        self._by_y = matrix_of_lists(algorithm.yr, (algorithm.n_y, algorithm.n_x))
        y = np.repeat(np.arange(algorithm.n_y), np.diff(self._by_y.indptr))
        self._by_y.data = self._terms(self._by_y.indices, y, self._by_y.data)

    def _terms(self, x: Codes, y: Ints, rating: Floats) -> Floats:
        """Return the term of each rating in a neighbour's mean."""
        return rating

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        """Turn neighbours' means into estimates; users and items broadcast to the shape of ``means``."""

    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item; see ``SurpriseModel``."""
        from evalplugin.models.kernels.neighbours import neighbour_means

        if self._user_based:
            estimates = neighbour_means(self._similarity, users, self._by_y, self._options)
        else:
            every = np.arange(len(self._similarity))
            by_item = neighbour_means(self._similarity, every, self._by_y[users], self._options)
            estimates = np.ascontiguousarray(by_item.T)
        self._complete(estimates, users[:, None], slice(None))
        return estimates

    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair."""
        from evalplugin.models.kernels.neighbours import pair_means

        xs, ys = (users, items) if self._user_based else (items, users)
        estimates = pair_means(self._similarity, xs, ys, self._by_y, self._options)
        self._complete(estimates, users, items)
        return estimates

    @property
    def _options(self) -> MeanOptions:
        from evalplugin.models.kernels.neighbours import MeanOptions

        fitted = self.algorithm
        otherwise = 0.0  # a deviation, which is added to an estimate
        if not self.averages_deviations:
            # With min_k 0 Surprise divides by zero where no neighbour counts.
            otherwise = float(self.mean) if fitted.min_k > 0 else np.nan
        return MeanOptions(max(0, min(fitted.k, fitted.n_x)), max(fitted.min_k, 1), otherwise)


def _similarities(algorithm: Any) -> Floats:
    """Return what the method ``compute_similarities`` of an algorithm does, from sparse products."""
    options, trainset = algorithm.sim_options, algorithm.trainset
    ratings = matrix_of_lists(algorithm.xr, (algorithm.n_x, algorithm.n_y))
    if options["name"] == "pearson_baseline":
        of_x, of_y = algorithm.switch(*algorithm.compute_baselines())
        x = np.repeat(np.arange(algorithm.n_x), np.diff(ratings.indptr))
        ratings.data -= (trainset.global_mean + of_y[ratings.indices]) + of_x[x]
    return similarities(options["name"], ratings, options["min_support"], options.get("shrinkage", 100.0))


@model("surprise.KNNBasic")
@dataclass
class KNNBasic(_Neighbours):
    """The mean rating of the k nearest neighbours, weighted by similarity.

    User-based: score(u, i) = sum of sim(u, v) r_vi / sum of sim(u, v) over the k users v most similar to u among those
    who rated i; item-based the same over the items u rated. Only positive similarities count; the
    score is the mean of all ratings where fewer than ``min_k`` do, or user or item has no train data.
    """

    name = "KNNBasic"

    # With min_k 0 Surprise divides by zero where no neighbour counts.
    min_k: Annotated[int, Field(ge=1, description="fewest neighbours that count")] = 1


@model("surprise.KNNWithMeans")
@dataclass
class KNNWithMeans(_Neighbours):
    """The mean rating of a user (or item) plus the weighted mean of the neighbours' deviations from their own means.

    User-based: score(u, i) = mean_u + sum of sim(u, v) (r_vi - mean_v) / sum of sim(u, v) over the k nearest v that
    rated i. Where fewer than ``min_k`` of them have a positive similarity it is mean_u; the mean of all ratings where
    user or item has no train data.
    """

    name = "KNNWithMeans"
    averages_deviations = True

    def _terms(self, x: Codes, y: Ints, rating: Floats) -> Floats:
        deviations: Floats = rating - self.algorithm.means[x]
        return deviations

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        means += self.algorithm.means[users if self._user_based else items]


@model("surprise.KNNWithZScore")
@dataclass
class KNNWithZScore(KNNWithMeans):
    """Like KNNWithMeans, with deviations in units of each neighbour's standard deviation.

    User-based: score(u, i) = mean_u + s_u * sum of sim(u, v) (r_vi - mean_v) / s_v / sum of sim(u, v); s_v is the
    standard deviation of v's ratings, or that of all ratings where it is zero. Undefined if all ratings are equal.
    """

    name = "KNNWithZScore"

    def _fit(self, algorithm: Any, trainset: Any) -> None:
        low, high = trainset.rating_scale
        if low == high:
            raise ModelError(
                f"surprise.KNNWithZScore divides by the deviation of the ratings, and all of them are {low:g}; take "
                f"surprise.KNNBasic, or a model for data without ratings"
            )
        super()._fit(algorithm, trainset)

    def _terms(self, x: Codes, y: Ints, rating: Floats) -> Floats:
        scores: Floats = super()._terms(x, y, rating) / self.algorithm.sigmas[x]
        return scores

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        means *= self.algorithm.sigmas[users if self._user_based else items]
        super()._complete(means, users, items)


@model("surprise.KNNBaseline")
@dataclass
class KNNBaseline(ColdStartFromBiases, _Neighbours):
    """The baseline rating plus the weighted mean of the neighbours' deviations from their baseline ratings.

    User-based: score(u, i) = b_ui + sum of sim(u, v) (r_vi - b_vi) / sum of sim(u, v), b_ui = mean + b_u + b_i fitted
    as in BaselineOnly. Where fewer than ``min_k`` neighbours have a positive similarity, or user or item has no train
    data, it is b_ui. Koren 2010, "Factor in the neighbors", formula 3; best with the similarity 'pearson_baseline'.
    """

    name = "KNNBaseline"
    takes_baselines = averages_deviations = True

    def _terms(self, x: Codes, y: Ints, rating: Floats) -> Floats:
        deviations: Floats = rating - ((self.mean + self.algorithm.bx[x]) + self.algorithm.by[y])
        return deviations

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        means += self._baseline(users, items)
