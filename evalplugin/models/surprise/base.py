"""Base class of the scikit-surprise models, and their shared parameters."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats, Ints
from evalplugin.base.costs import check_memory
from evalplugin.base.libraries import surprise
from evalplugin.models.base import own_parameters
from evalplugin.models.randomness import Seeded, draw_seed
from evalplugin.models.surprise.trainset import InnerIds

if TYPE_CHECKING:
    from evalplugin.data import Interactions

# A trainset stores each rating in two tuples, evalplugin in arrays by user and by item.
_BYTES_A_RATING = 250


Epochs = Annotated[int, Field(ge=0, description="passes over the ratings")]


@dataclass(frozen=True)
class SimOptions:
    """The similarity of users or of items; null marks an option that does not apply."""

    name: Annotated[
        Literal["cosine", "msd", "pearson", "pearson_baseline"], Field(description="the similarity measure")
    ] = "msd"
    user_based: Annotated[bool, Field(description="similarities of users (true) or of items (false)")] = True
    min_support: Annotated[int, Field(ge=1, description="fewest common items, or users, of a similarity")] = 1
    shrinkage: Annotated[
        float | None,
        Field(ge=0, description="pearson_baseline only: shrinkage for few ratings; 100 if null"),
    ] = None

    def __post_init__(self) -> None:
        if self.name == "pearson_baseline":
            object.__setattr__(self, "shrinkage", 100.0 if self.shrinkage is None else self.shrinkage)
        elif self.shrinkage is not None:
            raise ValueError(f"shrinkage goes with the name 'pearson_baseline', not with {self.name!r}")


_BSL_DEFAULTS: dict[str, dict[str, float]] = {
    "als": {"reg_i": 10.0, "reg_u": 15.0, "n_epochs": 10},
    "sgd": {"reg": 0.02, "learning_rate": 0.005, "n_epochs": 20},
}


@dataclass(frozen=True)
class BslOptions:
    """The fit of the biases of users and items; null marks an option that the method does not take."""

    method: Annotated[
        Literal["als", "sgd"], Field(description="alternating least squares, or stochastic gradient descent")
    ] = "als"
    reg_i: Annotated[
        float | None, Field(ge=0, description="als only: regularisation of items; 10 if null")
    ] = None
    reg_u: Annotated[
        float | None, Field(ge=0, description="als only: regularisation of users; 15 if null")
    ] = None
    n_epochs: Annotated[
        int | None, Field(ge=0, description="passes over the ratings; if null, 10 for als and 20 for sgd")
    ] = None
    reg: Annotated[float | None, Field(ge=0, description="sgd only: regularisation; 0.02 if null")] = None
    learning_rate: Annotated[
        float | None, Field(ge=0, description="sgd only: learning rate; 0.005 if null")
    ] = None

    def __post_init__(self) -> None:
        defaults = _BSL_DEFAULTS[self.method]
        for option in ("reg_i", "reg_u", "n_epochs", "reg", "learning_rate"):
            if option in defaults:
                if getattr(self, option) is None:
                    object.__setattr__(self, option, defaults[option])
            elif getattr(self, option) is not None:
                raise ValueError(
                    f"{option} is not an option of the method {self.method!r}; it takes {', '.join(defaults)}"
                )


@dataclass
class SurpriseModel(Seeded):
    """A scikit-surprise algorithm. A subclass names it and computes its estimates in ``block`` and ``pairs``.

    ``scores`` are ``algorithm.predict(user, item, clip=False).est`` within 1e-9, and ``predict`` returns the same
    clipped to the rating scale. The order of items whose estimates are equal within 1e-9 may be another than that of
    Surprise's own estimates.
    """

    name: ClassVar[str]  # of the class in the package surprise
    # Surprise estimates the mean of all ratings for every item, which is no order.
    cold_users: ClassVar[str] = "popularity"

    def prepare(self) -> None:
        """Import scikit-surprise."""
        import_module("surprise")

    def fit_bytes(self, train: Interactions) -> int:
        """Return the bytes of memory that ``fit`` needs at its peak, apart from ``train``."""
        n_users, n_items = _sizes(train)
        return _BYTES_A_RATING * len(train) + self._learned_bytes(n_users, n_items, train)

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Fit ``algorithm``, a genuine Surprise object whose raw ids are user and item codes.

        Raises:
            ModelError: The fit needs more memory than the machine has, or the algorithm is undefined on this data.
        """
        check_memory(self.fit_bytes(train), *self._too_large(*_sizes(train)))
        self.known, self._rating_scale = InnerIds.of(train), train.rating_scale
        algorithm = getattr(surprise, self.name)(**self._arguments(rng))
        self._fit(algorithm, self.known.trainset(train))
        self.adopt(algorithm)

    def adopt(self, algorithm: Any) -> None:
        """Take the learned state of a fitted algorithm, which is not modified."""
        self.algorithm = algorithm

    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item: float64 (len(users), n_items), a new array.

        Users and items are inner ids: those with train data.
        """
        return self._estimates(users[:, None], np.arange(self.algorithm.trainset.n_items))

    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair of inner ids: float64 (len(users),)."""
        return self._estimates(users, items)

    def scores(self, users: Codes) -> Floats:
        """Return the unclipped estimate of every item's rating: float64 (len(users), n_items)."""
        known = self.known
        inner = known.user[users]
        rows = np.flatnonzero(inner >= 0)
        n_items = len(known.item)
        if len(rows) == len(users) and len(known.item_codes) == n_items:
            return self.block(inner)
        scores = np.empty((len(users), n_items))
        scores[:] = self._cold(users[:, None], np.arange(n_items))
        if len(rows):
            scores[np.ix_(rows, known.item_codes)] = self.block(inner[rows])
        return scores

    def predict(self, users: Codes, items: Codes) -> Floats:
        """Return the estimated rating of each pair, clipped to the rating scale: float64 (len(users),)."""
        return self.scores_of_pairs(users, items).clip(*self._rating_scale)

    def scores_of_pairs(self, users: Codes, items: Codes | Ints) -> Floats:
        """Return the unclipped estimate of each pair, as ``scores`` has it: float64 (len(users),)."""
        known = self.known
        inner_user, inner_item = known.user[users], known.item[items]
        both = np.flatnonzero((inner_user >= 0) & (inner_item >= 0))
        estimates = np.empty(len(users))
        estimates[:] = self._cold(users, items)
        if len(both):
            estimates[both] = self.pairs(inner_user[both], inner_item[both])
        return estimates

    @property
    def mean(self) -> float:
        """Mean of all ratings, the fallback of Surprise."""
        return float(self.algorithm.trainset.global_mean)

    def _learned_bytes(self, n_users: int, n_items: int, train: Interactions) -> int:
        """Return the bytes of the learned state and of the work arrays of learning it."""
        return 0

    def _too_large(self, n_users: int, n_items: int) -> tuple[str, str]:
        """Return the subject and the remedy of an error: a fit that needs too much memory."""
        return f"surprise.{self.name}", "take a sample of the data"

    def _arguments(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return the algorithm's arguments, all of them new objects, as Surprise modifies its arguments."""
        arguments = own_parameters(self)
        for name, value in arguments.items():
            if is_dataclass(value):
                arguments[name] = {key: option for key, option in vars(value).items() if option is not None}
        if "random_state" in arguments:
            arguments["random_state"] = draw_seed(arguments["random_state"], rng)
        return {**arguments, "verbose": False} if arguments else {}

    def _fit(self, algorithm: Any, trainset: Any) -> None:
        algorithm.fit(trainset)

    def _estimates(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimates of inner ids that broadcast, a new array of their common shape."""
        raise NotImplementedError

    def _cold(self, users: Codes, items: Codes | Ints) -> Floats | float:
        """Return the estimates where user or item has no train data; codes and result broadcast."""
        return self.mean


class ColdStartFromBiases(SurpriseModel):
    """A model that estimates mean + learned biases for users or items without train data."""

    cold_users: ClassVar[str] = "the mean of all ratings plus the bias of the item"

    def _cold(self, users: Codes, items: Codes | Ints) -> Floats | float:
        # The inner id -1, of a code without train data, is the last one: a bias of zero.
        user_bias = np.append(self.algorithm.bu, 0.0)[self.known.user[users]]
        item_bias = np.append(self.algorithm.bi, 0.0)[self.known.item[items]]
        biased: Floats = (self.mean + user_bias) + item_bias
        return biased

    def _baseline(self, users: Ints, items: Ints | slice) -> Floats:
        """Return mean + user bias + item bias of inner ids that broadcast."""
        baseline: Floats = (self.mean + self.algorithm.bu[users]) + self.algorithm.bi[items]
        return baseline


def _sizes(train: Interactions) -> tuple[int, int]:
    """Return how many users and how many items have train data."""
    return int(np.count_nonzero(np.bincount(train.user))), int(np.count_nonzero(train.item_counts))
