"""Base class of the scikit-surprise models: fit on interactions, estimates for blocks of users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from evalplugin.base.arrays import Codes, Floats
from evalplugin.base.memory import check_memory
from evalplugin.data import Interactions
from evalplugin.models.randomness import Seeded
from evalplugin.models.surprise.estimates import Estimates
from evalplugin.models.surprise.ratings import TrainsetArrays

__all__ = ["ColdStartFromBiases", "SurpriseModel"]


# A trainset stores each rating in two tuples, evalplugin in arrays by user and by item.
_BYTES_A_RATING = 200


@dataclass
class SurpriseModel(Seeded):
    """A scikit-surprise algorithm. A subclass gives its name and the ``Estimates`` class that reproduces its estimates.

    All arithmetic runs in the order of Surprise, so that scores tie exactly where those of Surprise do: ``scores`` is
    ``algorithm.predict(user, item, clip=False).est``, ``predict`` the same clipped to the rating scale.
    """

    name: ClassVar[str]  # of the class in the package surprise
    estimates: ClassVar[Callable[..., Estimates]]
    kernels: ClassVar[tuple[str, ...]] = ()  # modules of compiled code to load
    # Surprise estimates the mean of all ratings for every item, which is no order.
    cold_users: ClassVar[str] = "popularity"

    algorithm: Any = field(default=None, init=False, repr=False, compare=False)
    _known: TrainsetArrays | None = field(default=None, init=False, repr=False, compare=False)
    _estimates: Estimates | None = field(default=None, init=False, repr=False, compare=False)

    def prepare(self) -> None:
        """Import scikit-surprise and the compiled code."""
        for module in ("surprise", *(f"evalplugin.models.kernels.{kernel}" for kernel in self.kernels)):
            import_module(module)

    def fit_bytes(self, train: Interactions) -> int:
        """Return the bytes of memory that ``fit`` needs at its peak, apart from ``train``."""
        n_users, n_items = _sizes(train)
        return _BYTES_A_RATING * len(train) + self._learned_bytes(n_users, n_items, train)

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Fit ``algorithm``, a genuine Surprise object whose raw ids are user and item codes.

        Raises:
            ModelError: The fit needs more memory than the machine has, or the algorithm is undefined on this data.
        """
        import surprise

        check_memory(self.fit_bytes(train), *self._too_large(*_sizes(train)))
        known = TrainsetArrays.of(train)
        self._check(known)
        algorithm = getattr(surprise, self.name)(**self._arguments(rng))
        self._fit(algorithm, known.trainset(), known)
        self.algorithm, self._known = algorithm, known
        self._estimates = self._make_estimates()

    def scores(self, users: Codes) -> Floats:
        """Return the unclipped estimate of every item's rating: float64 (len(users), n_items)."""
        known = self.known
        inner = known.inner_user[users]
        rows = np.flatnonzero(inner >= 0)
        n_items = len(known.inner_item)
        assert self._estimates is not None
        if len(rows) == len(users) and len(known.item_codes) == n_items:
            return self._estimates.block(inner)
        scores = np.empty((len(users), n_items))
        scores[:] = self._cold_scores(users)
        if len(rows):
            scores[np.ix_(rows, known.item_codes)] = self._estimates.block(inner[rows])
        return scores

    def predict(self, users: Codes, items: Codes) -> Floats:
        """Return the estimated rating of each pair, clipped to the rating scale: float64 (len(users),)."""
        known = self.known
        inner_user, inner_item = known.inner_user[users], known.inner_item[items]
        both = np.flatnonzero((inner_user >= 0) & (inner_item >= 0))
        estimates = self._cold_pairs(users, items)
        if len(both):
            assert self._estimates is not None
            estimates[both] = self._estimates.pairs(inner_user[both], inner_item[both])
        return estimates.clip(*known.rating_scale)

    @property
    def known(self) -> TrainsetArrays:
        """Users and items that have train data."""
        assert self._known is not None, "fit comes first"
        return self._known

    @property
    def mean(self) -> float:
        """Mean of all ratings, the fallback of Surprise."""
        return float(self.algorithm.trainset.global_mean)

    def _learned_bytes(self, n_users: int, n_items: int, train: Interactions) -> int:
        """Return the bytes of the learned state and of the work arrays of learning it."""
        return 0

    def _too_large(self, n_users: int, n_items: int) -> tuple[str, str]:
        """Return a description of what is too large to be fitted, and a remedy."""
        return f"surprise.{self.name}", "take a sample of the data"

    def _arguments(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return the algorithm's arguments, all of them new objects, as Surprise modifies its arguments."""
        return {}

    def _check(self, known: TrainsetArrays) -> None:
        """Raise ModelError for data that the algorithm cannot be fitted on."""

    def _fit(self, algorithm: Any, trainset: Any, known: TrainsetArrays) -> None:
        algorithm.fit(trainset)

    def _make_estimates(self) -> Estimates | None:
        return type(self).estimates(self.algorithm, self.known.ratings)

    def _cold_scores(self, users: Codes) -> Floats | float:
        """Return the estimates where user or item has no train data: broadcasts to (len(users), n_items)."""
        return self.mean

    def _cold_pairs(self, users: Codes, items: Codes) -> Floats:
        """Return the same for pairs: (len(users),), a new array."""
        return np.full(len(users), self.mean)

    def _biases(self) -> tuple[Floats, Floats]:
        """Return the biases by code of all users and of all items, zero without train data."""
        known = self.known
        user_bias, item_bias = np.zeros(len(known.inner_user)), np.zeros(len(known.inner_item))
        user_bias[known.user_codes] = self.algorithm.bu
        item_bias[known.item_codes] = self.algorithm.bi
        return user_bias, item_bias


class ColdStartFromBiases(SurpriseModel):
    """A model that estimates mean + user bias + item bias, as far as learned, for users or items without train data."""

    cold_users: ClassVar[str] = "the mean of all ratings plus the bias of the item"

    def _cold_scores(self, users: Codes) -> Floats | float:
        user_bias, item_bias = self._biases()
        biased: Floats = (self.mean + user_bias[users])[:, None] + item_bias
        return biased

    def _cold_pairs(self, users: Codes, items: Codes) -> Floats:
        user_bias, item_bias = self._biases()
        biased: Floats = (self.mean + user_bias[users]) + item_bias[items]
        return biased


def _sizes(train: Interactions) -> tuple[int, int]:
    """Return how many users and how many items have train data."""
    return int(np.count_nonzero(np.bincount(train.user))), int(np.count_nonzero(train.item_counts))
