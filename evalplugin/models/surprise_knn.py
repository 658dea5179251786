"""The nearest-neighbour algorithms of scikit-surprise, under their own parameter names and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.data import Interactions
from evalplugin.errors import ModelError
from evalplugin.models.base import model
from evalplugin.models.surprise_base import Codes, Known, Scores, SurpriseModel, refuse_if_too_large
from evalplugin.models.surprise_options import BslOptions, SimOptions

__all__ = ["KNNBaseline", "KNNBasic", "KNNWithMeans", "KNNWithZScore"]

Inner = npt.NDArray[np.int64]

# What Surprise allocates to compute similarities: so many bytes for each pair.
_BYTES_A_PAIR = {"msd": 24, "cosine": 40, "pearson_baseline": 40, "pearson": 56}


@dataclass
class _Neighbours(SurpriseModel):
    """The weighted mean of the ratings, or of their deviations, by the k nearest neighbours."""

    k: Annotated[int, Field(ge=1, description="most neighbours of a pair")] = 40
    min_k: Annotated[int, Field(ge=0, description="fewest neighbours that count; 0 is the same as 1")] = 1
    sim_options: SimOptions = field(default_factory=SimOptions)
    bsl_options: BslOptions = field(default_factory=BslOptions)
    _rows: Any = field(default=None, init=False, repr=False, compare=False)  # RatingRows, user-based
    _values: Scores | None = field(
        default=None, init=False, repr=False, compare=False
    )  # (m,) as Known.rating
    _undefined: npt.NDArray[np.bool_] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.min_k > self.k:
            raise ValueError(f"min_k ({self.min_k}) must not be above k ({self.k})")
        if self._bsl_unused() and self.bsl_options != BslOptions():
            raise ValueError(
                f"bsl_options of {self.name} go with the similarity 'pearson_baseline', "
                f"not with {self.sim_options.name!r}"
            )

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Fit ``algorithm``, a genuine Surprise object whose raw ids are user and item codes.

        Raises:
            ModelError: The similarities need more memory than there is, or are undefined on this data.
        """
        try:
            super().fit(train, rng)
        except ZeroDivisionError:
            raise ModelError(
                f"surprise.{self.name}: the similarity {self.sim_options.name!r} is undefined on this data: "
                f"{_undefined_when(self.sim_options)}; take another similarity, such as 'msd'"
            ) from None

    def _bsl_unused(self) -> bool:
        return self.sim_options.name != "pearson_baseline"

    def _arguments(self, rng: np.random.Generator) -> dict[str, Any]:
        return {
            "k": self.k,
            "min_k": self.min_k,
            "sim_options": self.sim_options.as_dict(),
            "bsl_options": self.bsl_options.as_dict(),
            "verbose": False,
        }

    def _check(self, known: Known) -> None:
        user_based = self.sim_options.user_based
        sizes = {"users": len(known.user_codes), "items": len(known.item_codes)}
        n, other = (sizes["users"], sizes["items"]) if user_based else (sizes["items"], sizes["users"])
        each = _BYTES_A_PAIR[self.sim_options.name]
        what, turned = ("users", "items") if user_based else ("items", "users")
        refuse_if_too_large(
            each * n * n,
            f"surprise.{self.name}: the similarity {self.sim_options.name!r} of {n:,} {what}",
            f"set sim_options.user_based to {str(not user_based).lower()} ({each * other * other:,} bytes for "
            f"{other:,} {turned}), or take a sample of the data or another model",
        )

    def _prepare(self) -> None:
        known = self.known
        self._values = self._neighbour_values()
        self._rows = None
        if self.sim_options.user_based:
            self._rows = _rating_rows(
                known.user, known.item, self._values, (len(known.user_codes), len(known.item_codes)), self.k
            )
        self._undefined = np.isnan(self.algorithm.sim.sum(axis=1))

    def _neighbour_values(self) -> Scores:
        """Return what a neighbour's rating contributes: (m,), in the order of ``Known.rating``."""
        return self.known.rating

    def _combine(self, inner: Inner, means: Scores) -> Scores:
        """Return the estimates from the neighbours' means, ``_otherwise`` where there are too few neighbours."""
        return means

    def _otherwise(self) -> float:
        return self.mean

    def _scale(self) -> Scores | None:
        return None

    def _side(self, of_x: Scores, inner: Inner) -> Scores:
        """Return a value of each x so that it broadcasts over users and items."""
        return of_x[inner][:, None] if self.sim_options.user_based else of_x[None, :]

    def _x(self) -> npt.NDArray[np.int64]:
        return self.known.user if self.sim_options.user_based else self.known.item

    def _estimates(self, inner: Inner) -> Scores:
        from evalplugin.models.neighbours import neighbour_means

        assert self._values is not None
        known, similarity = self.known, self.algorithm.sim
        n_items = len(known.item_codes)
        entries, row = _entries_of(known, inner)
        if self.sim_options.user_based:
            means = neighbour_means(
                similarity, inner, self._rows, self._scale(), self.min_k, self._otherwise()
            )
        else:
            rows = _rating_rows(
                known.item[entries], row, self._values[entries], (n_items, len(inner)), self.k
            )
            every = np.arange(n_items)
            means = neighbour_means(similarity, every, rows, self._scale(), self.min_k, self._otherwise()).T
        estimates = self._combine(inner, means)
        for at_row, at_item in self._undefined_pairs(inner, entries, row):
            code = known.user_codes[inner[at_row]], known.item_codes[at_item]
            estimates[at_row, at_item] = self.algorithm.predict(*code, clip=False).est
        return estimates

    def _undefined_pairs(self, inner: Inner, entries: Inner, row: Inner) -> list[tuple[int, int]]:
        """Return the pairs with an undefined similarity (NaN) among their neighbours.

        How such a one sorts depends on Surprise's heap, so that Surprise itself has to be asked.
        """
        assert self._undefined is not None
        known, pairs = self.known, []
        if self.sim_options.user_based:
            for at in np.flatnonzero(self._undefined[inner]).tolist():
                hit = np.isnan(self.algorithm.sim[inner[at]])[known.user]
                pairs += [(at, item) for item in np.unique(known.item[hit]).tolist()]
        else:
            for item in np.flatnonzero(self._undefined).tolist():
                hit = np.isnan(self.algorithm.sim[item])[known.item[entries]]
                pairs += [(at, item) for at in np.unique(row[hit]).tolist()]
        return pairs


@model("surprise.KNNBasic")
@dataclass
class KNNBasic(_Neighbours):
    """The mean rating of the k nearest neighbours, weighted by similarity.

    User-based: score(u, i) = sum of sim(u, v) r_vi / sum of sim(u, v) over the k users v most similar to u among those
    who rated i; item-based the same over the items u rated. Only positive similarities count; the mean of all ratings
    stands in where fewer than ``min_k`` do, or user or item has no train data.
    """

    name = "KNNBasic"

    # Surprise divides by zero where no neighbour counts and none has to.
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

    def _neighbour_values(self) -> Scores:
        values: Scores = self.known.rating - self.algorithm.means[self._x()]
        return values

    def _otherwise(self) -> float:
        return 0.0

    def _combine(self, inner: Inner, means: Scores) -> Scores:
        return self._side(self.algorithm.means, inner) + means


@model("surprise.KNNWithZScore")
@dataclass
class KNNWithZScore(KNNWithMeans):
    """Like KNNWithMeans, with deviations counted in each neighbour's standard deviations.

    User-based: score(u, i) = mean_u + s_u * sum of sim(u, v) (r_vi - mean_v) / s_v / sum of sim(u, v); s_v is the
    standard deviation of v's ratings, or that of all ratings where it is zero. Undefined if all ratings are equal.
    """

    name = "KNNWithZScore"

    def _check(self, known: Known) -> None:
        if known.rating_scale[0] == known.rating_scale[1]:
            raise ModelError(
                f"surprise.KNNWithZScore divides by the deviation of the ratings, and all of them are "
                f"{known.rating_scale[0]:g}; take surprise.KNNBasic, or a model for data without ratings"
            )
        super()._check(known)

    def _scale(self) -> Scores:
        sigmas: Scores = self.algorithm.sigmas
        return sigmas

    def _combine(self, inner: Inner, means: Scores) -> Scores:
        return self._side(self.algorithm.means, inner) + means * self._side(self.algorithm.sigmas, inner)


@model("surprise.KNNBaseline")
@dataclass
class KNNBaseline(_Neighbours):
    """The baseline rating plus the weighted mean of the neighbours' deviations from their baseline ratings.

    User-based: score(u, i) = b_ui + sum of sim(u, v) (r_vi - b_vi) / sum of sim(u, v), b_ui = mean + b_u + b_i fitted
    as in BaselineOnly. Where fewer than ``min_k`` neighbours have a positive similarity, or user or item has no train
    data, it is b_ui. Koren 2010, "Factor in the neighbors", formula 3; best with the similarity 'pearson_baseline'.
    """

    name = "KNNBaseline"

    def _bsl_unused(self) -> bool:
        return False

    def _neighbour_values(self) -> Scores:
        known, fitted = self.known, self.algorithm
        x, y = (known.user, known.item) if self.sim_options.user_based else (known.item, known.user)
        values: Scores = known.rating - ((self.mean + fitted.bx[x]) + fitted.by[y])
        return values

    def _otherwise(self) -> float:
        return 0.0

    def _combine(self, inner: Inner, means: Scores) -> Scores:
        baseline: Scores = (self.mean + self.algorithm.bu[inner])[:, None] + self.algorithm.bi
        baseline += means
        return baseline

    def _strangers(self, users: Codes) -> Scores:
        return self._biased(users)


def _rating_rows(x: Inner, y: Inner, value: Scores, shape: tuple[int, int], k: int) -> Any:
    from evalplugin.models.neighbours import RatingRows

    return RatingRows.of(x, y, value, shape, k)


def _entries_of(known: Known, inner: Inner) -> tuple[Inner, Inner]:
    """Return where the ratings of some users stand in ``Known``, and at which place of ``inner`` their user stands."""
    start, counts = known.indptr[inner], np.diff(known.indptr)[inner]
    row = np.repeat(np.arange(len(inner)), counts)
    first = np.cumsum(counts) - counts
    return np.arange(len(row)) + np.repeat(start - first, counts), row


def _undefined_when(options: SimOptions) -> str:
    one = "users" if options.user_based else "items"
    if options.name == "cosine":
        return f"two {one} have in common only ratings of which one's are all 0"
    return f"two {one} have in common only ratings that equal the baseline of one of them"
