"""Models of the library LensKit: neighbours of items and users, and matrix factorisations."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import pd
from evalplugin.models.base import Recommender, model, own_parameters
from evalplugin.models.factors import FactorModel
from evalplugin.models.threads import one_blas_thread, thread_count

if TYPE_CHECKING:
    from evalplugin.data import Interactions

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Side = Literal["user", "item"]

MaxNeighbours = Annotated[int, Field(ge=1, description="most neighbours that count for a score")]
MinNeighbours = Annotated[int, Field(ge=1, description="neighbours below which there is no score")]
MinSimilarity = Annotated[float, Field(gt=0, description="similarity below which nobody is a neighbour")]
Feedback = Annotated[
    Literal["explicit", "implicit"],
    Field(description="whether ratings matter, or only the presence of interactions"),
]
EmbeddingSize = Annotated[
    int, Field(ge=1, description="length of the factor vectors; LensKit 2026 itself has 64 as its default")
]
Epochs = Annotated[int, Field(ge=1, description="passes over the data")]
Regularization = Annotated[
    Positive | dict[Side, Positive],
    Field(description="L2 regularisation of the factors: a number, or one each for `user` and `item`"),
]


class _LensKit(Recommender):
    """A model of LensKit, with the names of its parameters there."""

    module: ClassVar[str]
    requires: ClassVar[tuple[str, ...]] = ("lenskit",)
    cold_users: ClassVar[str] = "popularity"

    def prepare(self) -> None:
        """Import LensKit, which takes seconds, as it imports PyTorch, and make its threads."""
        import lenskit.basic
        import lenskit.training  # noqa: F401
        from lenskit.data import from_interactions_df  # noqa: F401 - imported from its module at the first access

        self._component()
        with _threads():
            pass

    def _trained(self, train: Interactions, rng: np.random.Generator) -> tuple[Any, Any]:
        """Return the trained component of LensKit, and its lookup of the users' items."""
        from lenskit.basic import UserTrainingHistoryLookup
        from lenskit.training import TrainingOptions

        data = _dataset(train)
        component = self._component()(**self._config())
        history = UserTrainingHistoryLookup()
        with _threads():
            component.train(data, TrainingOptions(rng=rng))
            history.train(data, TrainingOptions())
        return component, history

    def _component(self) -> Any:
        # Modules of LensKit import their classes at the first access.
        return getattr(import_module(self.module), type(self).__name__)

    def _config(self) -> dict[str, Any]:
        return own_parameters(self)


class _Neighbours(_LensKit):
    """Neighbours of LensKit, which scores one user at a time."""

    module = "lenskit.knn"
    stochastic: ClassVar[bool] = False
    feedback: str

    @property
    def uses_ratings(self) -> bool:
        """Whether ratings matter, or only the presence of interactions."""
        return self.feedback == "explicit"

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Compute what LensKit needs of the train data.

        Raises:
            ModelError: Ratings are to be compared, and all are the same.
        """
        low, high = train.rating_scale
        if self.uses_ratings and low == high:
            raise ModelError(
                f"lenskit.{type(self).__name__} compares ratings, and all of them are {low:g}; "
                f"set feedback to 'implicit'"
            )
        self._scorer, self._history = self._trained(train, rng)
        self._counts, self._n_items = train.rows.counts, train.n_items

    def scores(self, users: Codes) -> Floats:
        """Return LensKit's scores: float64 (len(users), n_items), -inf where it has none."""
        from lenskit.data import ItemList

        items = ItemList(item_nums=np.arange(self._n_items), vocabulary=self._scorer.items)
        scores = np.full((len(users), self._n_items), -np.inf)
        with _threads():
            for row, user in zip(scores, users.tolist(), strict=True):
                if self._counts[user]:
                    scored = self._scorer(self._history(user), items).scores()
                    row[:] = np.where(np.isnan(scored), -np.inf, scored)
        return scores


@model("lenskit.ItemKNNScorer")
@dataclass
class ItemKNNScorer(_Neighbours):
    """The items most similar to the user's items, by the cosine of their centred ratings or of their presence.

    Of the user's items, the ``max_nbrs`` that are most similar to item i count. explicit: score(u, i) = the mean
    rating of i + the average of the user's ratings less the means of their items, weighted by similarity. implicit:
    the sum of similarities. No score, so no place in a list, for an item with fewer than ``min_nbrs`` neighbours.
    Deshpande and Karypis 2004.
    """

    max_nbrs: MaxNeighbours = 20
    min_nbrs: MinNeighbours = 1
    min_sim: MinSimilarity = 1e-6
    save_nbrs: Annotated[
        int | None, Field(ge=1, description="neighbours that are kept of each item; null: all")
    ] = None
    feedback: Feedback = "explicit"


@model("lenskit.UserKNNScorer")
@dataclass
class UserKNNScorer(_Neighbours):
    """What the users most similar to the user like, by the cosine of their centred ratings or of their items.

    Of the users with item i, the ``max_nbrs`` that are most similar to u count. explicit: score(u, i) = the mean
    rating of u + the average of their ratings less their means, weighted by similarity. implicit: the sum of
    similarities times a constant. No score for an item with fewer than ``min_nbrs`` neighbours. Herlocker et al.
    1999.
    """

    max_nbrs: MaxNeighbours = 20
    min_nbrs: MinNeighbours = 1
    min_sim: MinSimilarity = 1e-6
    feedback: Feedback = "explicit"


@dataclass
class _Factorisation(FactorModel, _LensKit):
    """A factorisation of LensKit. A user's factors are solved for anew after the last epoch, as LensKit does."""

    module = "lenskit.als"

    def _config(self) -> dict[str, Any]:
        from lenskit.data.types import UIPair

        config = super()._config()
        if isinstance(config["regularization"], dict):
            config["regularization"] = UIPair(**config["regularization"])
        return config

    def _factors(
        self, train: Interactions, rng: np.random.Generator
    ) -> tuple[Any, npt.NDArray[np.float32], Floats]:
        """Return the trained component, the factors of users, and what it returns as their biases (n_users,)."""
        component, history = self._trained(train, rng)
        factors, biases = component.user_embeddings.copy(), np.zeros(train.n_users)
        with one_blas_thread():
            for user in np.flatnonzero(train.rows.counts).tolist():
                query = history(user)
                # LensKit 2025 has another name.
                items = query.query_items if hasattr(query, "query_items") else query.user_items
                factors[user], bias = component.new_user_embedding(user, items)
                biases[user] = bias or 0.0
        return component, factors, biases


@model("lenskit.BiasedMFScorer")
@dataclass
class BiasedMFScorer(_Factorisation):
    """Matrix factorisation of ratings with biases of users and items, fitted by alternating least squares.

    score(u, i) = mu + b_u + b_i + p_u . q_i, with biases that are damped means and factors that minimise the squared
    error of the rest. Zhou et al. 2008.
    """

    cold_users: ClassVar[str] = "the mean of all ratings plus the bias of the item"

    embedding_size: EmbeddingSize = 50
    epochs: Epochs = 10
    regularization: Regularization = 0.1
    damping: Annotated[
        NotNegative | dict[Side, NotNegative],
        Field(
            description="ratings of the mean added to each bias: a number, or one each for `user` and `item`"
        ),
    ] = 5.0

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Learn the biases and factors."""
        component, factors, biases = self._factors(train, rng)
        bias = component.bias
        self.user_factors = np.column_stack([factors, np.ones(train.n_users), biases])
        self.item_factors = np.column_stack(
            [component.item_embeddings, bias.global_bias + bias.item_biases, np.ones(train.n_items)]
        )
        self._scale = train.rating_scale

    def predict(self, users: Codes, items: Codes) -> Floats:
        """Return the scores of pairs, clipped to the scale of the train ratings: float64 (len(users),)."""
        ratings: Floats = np.vecdot(self.user_factors[users], self.item_factors[items])
        return ratings.clip(*self._scale)


@model("lenskit.ImplicitMFScorer")
@dataclass
class ImplicitMFScorer(_Factorisation):
    """Weighted matrix factorisation of implicit feedback, fitted by alternating least squares (WMF, iALS).

    score(u, i) = p_u . q_i, with factors that minimise the squared error of a preference (1 for an interaction, else
    0), weighted by 1 + ``weight`` (times the rating with ``use_ratings``), else 1. Zero for items without train data.
    Hu et al. 2008.
    """

    embedding_size: EmbeddingSize = 50
    epochs: Epochs = 10
    regularization: Regularization = 0.1
    weight: Annotated[float, Field(gt=0, description="confidence of an interaction")] = 40.0
    use_ratings: Annotated[bool, Field(description="whether ratings multiply the weight")] = False

    @property
    def uses_ratings(self) -> bool:
        """Whether ratings matter, or only the presence of interactions."""
        return self.use_ratings

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Learn the factors."""
        component, self.user_factors, _ = self._factors(train, rng)
        self.item_factors = component.item_embeddings


def _dataset(train: Interactions) -> Any:
    """Return the data as LensKit has it, with codes for ids: all users and items, those without train data too."""
    from lenskit.data import from_interactions_df

    user = np.repeat(np.arange(train.n_users), train.rows.counts)
    table = pd.DataFrame({"user_id": user, "item_id": train.rows.item, "rating": train.rows.rating})
    return from_interactions_df(table, users=np.arange(train.n_users), items=np.arange(train.n_items))


@contextmanager
def _threads() -> Iterator[None]:
    """Let LensKit compute on its own threads, and linear algebra on one."""
    with one_blas_thread():
        _set_up_threads()
        yield


@cache
def _set_up_threads() -> None:
    """Start LensKit's threads, once in a process; PyTorch keeps its number of threads."""
    from lenskit import parallel

    if hasattr(parallel, "init_threading"):  # LensKit 2026 and later
        from lenskit.config import ParallelSettings

        parallel.init_threading(ParallelSettings(num_threads=thread_count(), num_backend_threads=-1))
        return
    import torch

    with warnings.catch_warnings():
        # It cannot be changed where PyTorch has run before; these models do not need it.
        warnings.filterwarnings("ignore", "failed to set interop threads")
        parallel.initialize(processes=1, threads=thread_count(), backend_threads=torch.get_num_threads())
