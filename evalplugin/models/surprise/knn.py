"""The nearest-neighbour algorithms of scikit-surprise, under their own parameter names and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from evalplugin.base.arrays import Codes, Floats, Ints, position_in_row, row_entries
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import np, surprise
from evalplugin.components.parameters import Field
from evalplugin.models.base import model
from evalplugin.models.surprise.base import BslOptions, ColdStartFromBiases, SimOptions, SurpriseModel
from evalplugin.models.surprise.fit import (
    baselines,
    means,
    similarity,
    similarity_is_ours,
    standard_deviations,
)
from evalplugin.models.surprise.ratings import RatingLists, Ratings, TrainsetArrays
from evalplugin.models.threads import for_ranges

if TYPE_CHECKING:
    from evalplugin.data import Interactions
    from evalplugin.models.kernels.walk import MeanOptions, NeighbourRows, SortedNeighbours

# Bytes for each pair: the similarities, the order of item-based neighbours, and the work arrays of Surprise.
_SIMILARITY, _ORDER = 8, 4
_BYTES_A_PAIR = {"msd": 24, "cosine": 40, "pearson_baseline": 40, "pearson": 56}


@dataclass
class _Neighbours(SurpriseModel):
    """The weighted mean of the ratings, or of their deviations, by the k nearest neighbours."""

    kernels = ("biases", "neighbours", "similarity")
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

    def block_order(self, users: Codes) -> Ints:
        """Return the positions of the users by their number of ratings, if neighbours are items.

        A walk along the neighbours of an item ends once every user of the block has enough of them.
        """
        if self.sim_options.user_based:
            return np.arange(len(users))
        inner, indptr = self.known.inner_user[users], self.known.ratings.by_user.indptr
        return np.argsort(np.where(inner < 0, 0, indptr[inner + 1] - indptr[inner]), kind="stable")

    def _of_x(self, known: TrainsetArrays) -> RatingLists:
        return known.ratings.sides(self.sim_options.user_based)[0]

    def _learned_bytes(self, n_users: int, n_items: int, train: Interactions) -> int:
        counts = train.rows.counts if self.sim_options.user_based else train.item_counts
        ours = similarity_is_ours(self.sim_options.name, train.rating.astype(np.float64), int(counts.max()))
        each = _SIMILARITY if ours else _BYTES_A_PAIR[self.sim_options.name]
        each = max(each, _SIMILARITY if self.sim_options.user_based else _SIMILARITY + _ORDER)
        return int(each * (n_users if self.sim_options.user_based else n_items) ** 2)

    def _too_large(self, n_users: int, n_items: int) -> tuple[str, str]:
        user_based = self.sim_options.user_based
        sides = [(n_users, "users"), (n_items, "items")]
        (n, side), (n_other, other) = sides if user_based else reversed(sides)
        remedy = "take a sample of the data or another model"
        if n_other < n:
            switch = f"set sim_options.user_based to {str(not user_based).lower()}"
            remedy = f"{switch}, for {n_other:,} {other}, or {remedy}"
        return f"surprise.{self.name}: the similarity {self.sim_options.name!r} of {n:,} {side}", remedy

    def _fit(self, algorithm: Any, trainset: Any, known: TrainsetArrays) -> None:
        surprise.prediction_algorithms.knns.SymmetricAlgo.fit(algorithm, trainset)
        self._learn_before(algorithm, known)
        try:
            algorithm.sim = similarity(algorithm, known.ratings)
        except ZeroDivisionError:
            name, side = self.sim_options.name, "users" if self.sim_options.user_based else "items"
            which = (
                "of which one's are all 0" if name == "cosine" else "that equal the baseline of one of them"
            )
            raise ModelError(
                f"surprise.{self.name}: the similarity {name!r} is undefined on this data: two {side} have in common "
                f"only ratings {which}; take another similarity, such as 'msd'"
            ) from None

    def _learn_before(self, algorithm: Any, known: TrainsetArrays) -> None:
        """Set what the algorithm learns apart from similarities."""

    def adopt(self, algorithm: Any, ratings: Ratings) -> None:
        """Take the learned state of a fitted algorithm."""
        super().adopt(algorithm, ratings)
        self._user_based = bool(algorithm.sim_options["user_based"])
        self._similarity: Floats = np.ascontiguousarray(algorithm.sim, dtype=np.float64)
        _, self._by_y = ratings.sides(self._user_based)
        # For the ratings in the order of the lists of the y, as Surprise's heap receives them.
        self._values = self._values_of(self._by_y.other, self._by_y.own, self._by_y.rating)
        lists = self._by_y
        self._position: Codes | None = None
        if not lists.ascending:
            self._position = position_in_row(lists.own, len(lists.indptr) - 1).astype(np.int32)
        self._rows: NeighbourRows | None = None
        self._sorted: list[SortedNeighbours] | None = None
        self._undefined = np.isnan(self._similarity.sum(axis=1))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        return {**vars(self), "_rows": None, "_sorted": None}

    def _values_of(self, x: Codes, y: Codes, rating: Floats) -> Floats:
        """Return the term of each rating in a neighbour's mean."""
        return rating

    @property
    def _otherwise(self) -> float:
        """The mean of too few neighbours: an estimate, or a deviation that is added to one."""
        if self.averages_deviations:
            return 0.0
        # With min_k 0 Surprise divides by zero where no neighbour counts.
        return float(self.mean) if self.algorithm.min_k > 0 else np.nan

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        """Turn neighbours' means into estimates; users and items broadcast to the shape of ``means``."""

    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item; see ``SurpriseModel``."""
        from evalplugin.models.kernels.neighbours import neighbour_means, sort_all

        n_items = self.ratings.n_items
        estimates = np.empty((len(users), n_items))
        if self._user_based:
            if self._rows is None:
                self._rows = self._rows_of(np.arange(n_items))
            neighbour_means(self._similarity, users, self._rows, self._options, estimates)
        else:
            if self._sorted is None:
                self._sorted = sort_all(self._similarity)
            items, rows = np.arange(n_items), self._rows_of(users)
            neighbour_means(self._similarity, items, rows, self._options, estimates.T, self._sorted)
        for_ranges(
            lambda start, stop: self._complete(estimates[start:stop], users[start:stop, None], slice(None)),
            len(users),
            64,
        )
        for row, item in self._undefined_pairs(users):
            estimates[row, item] = self._predict(users[row], item)
        self._refuse_division(estimates)
        return estimates

    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair."""
        from evalplugin.models.kernels.neighbours import Pairs, pair_means

        xs_ys = (users, items) if self._user_based else (items, users)
        pairs = Pairs(*(np.ascontiguousarray(ids, dtype=np.int64) for ids in xs_ys))
        lists = self._by_y.arrays._replace(value=self._values)
        estimates, undefined = pair_means(self._similarity, pairs, lists, self._options)
        self._complete(estimates, users, items)
        for pair in np.flatnonzero(undefined).tolist():
            estimates[pair] = self._predict(users[pair], items[pair])
        self._refuse_division(estimates)
        return estimates

    @property
    def _options(self) -> MeanOptions:
        from evalplugin.models.kernels.walk import MeanOptions

        fitted = self.algorithm
        scale = getattr(fitted, "sigmas", None)  # KNNWithZScore alone has them
        divisor = np.ones(1) if scale is None else scale
        return MeanOptions(fitted.k, scale is not None, divisor, max(fitted.min_k, 1), self._otherwise)

    def _rows_of(self, ys: Ints) -> NeighbourRows:
        """Return the rows of all x, restricted to the entries of some y."""
        from evalplugin.models.kernels.walk import NeighbourRows

        entries, y = row_entries(self._by_y.indptr, ys)
        position = None if self._position is None else self._position[entries]
        shape = len(self._similarity), len(ys)
        x, values = self._by_y.other[entries], self._values[entries]
        return NeighbourRows.of(x, y, values, position, shape, self.algorithm.k)

    def _undefined_pairs(self, users: Ints) -> list[tuple[int, int]]:
        """Return the pairs with an undefined similarity (NaN) in their list.

        Its rank depends on the heap of Surprise, so Surprise itself predicts these pairs.
        """
        pairs: list[tuple[int, int]] = []
        by_user = self.ratings.by_user
        if self._user_based:
            for row in np.flatnonzero(self._undefined[users]).tolist():
                hit = np.isnan(self._similarity[users[row]])[by_user.own]
                pairs += [(row, item) for item in np.unique(by_user.other[hit]).tolist()]
        elif self._undefined.any():
            entries, rows = row_entries(by_user.indptr, users)
            for item in np.flatnonzero(self._undefined).tolist():
                hit = np.isnan(self._similarity[item])[by_user.other[entries]]
                pairs += [(row, item) for row in np.unique(rows[hit]).tolist()]
        return pairs

    def _predict(self, user: int, item: int) -> float:
        trainset = self.algorithm.trainset
        raw = trainset.to_raw_uid(int(user)), trainset.to_raw_iid(int(item))
        return float(self.algorithm.predict(*raw, clip=False).est)

    def _refuse_division(self, estimates: Floats) -> None:
        if np.isnan(self._otherwise) and np.isnan(estimates).any():
            raise ModelError(
                f"{type(self.algorithm).__name__} with min_k {self.algorithm.min_k} divides by zero where no "
                f"neighbour counts; min_k must be at least 1"
            )


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

    def _learn_before(self, algorithm: Any, known: TrainsetArrays) -> None:
        algorithm.means = means(self._of_x(known))

    def _values_of(self, x: Codes, y: Codes, rating: Floats) -> Floats:
        values: Floats = rating - self.algorithm.means[x]
        return values

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

    def _fit(self, algorithm: Any, trainset: Any, known: TrainsetArrays) -> None:
        low, high = known.rating_scale
        if low == high:
            raise ModelError(
                f"surprise.KNNWithZScore divides by the deviation of the ratings, and all of them are {low:g}; take "
                f"surprise.KNNBasic, or a model for data without ratings"
            )
        super()._fit(algorithm, trainset, known)

    def _learn_before(self, algorithm: Any, known: TrainsetArrays) -> None:
        super()._learn_before(algorithm, known)
        algorithm.overall_sigma = np.std(known.ratings.by_user.rating)
        algorithm.sigmas = standard_deviations(self._of_x(known), algorithm.overall_sigma)

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

    def _learn_before(self, algorithm: Any, known: TrainsetArrays) -> None:
        algorithm.bu, algorithm.bi = baselines(algorithm, known.ratings)
        algorithm.bx, algorithm.by = algorithm.switch(algorithm.bu, algorithm.bi)

    def _values_of(self, x: Codes, y: Codes, rating: Floats) -> Floats:
        values: Floats = rating - ((self.mean + self.algorithm.bx[x]) + self.algorithm.by[y])
        return values

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        means += self._baseline(users, items)
