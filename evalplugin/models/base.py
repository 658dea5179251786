"""The base class of recommenders, and their registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Factors, Floats, Ints
from evalplugin.components.registry import Component, Registry
from evalplugin.models.selection import TopN

if TYPE_CHECKING:
    from evalplugin.data import Candidates, Interactions
    from evalplugin.data.queries import Unit


class Recommender(Component):
    """A dataclass whose fields are its parameters, with ``fit`` and either ``scores`` or ``recommend``.

    All else is optional: a registered class that does not derive from this one gets the defaults.

    Attributes:
        personalised: Whether lists differ between users.
        learns: Whether ``fit`` learns from the train data; if not, it cannot be registered.
        lists_new_items: Whether items without train data can be listed, as the split ``new_items`` asks.
        is_logging: Whether lists stand for the policy that made a log of decisions, whatever they hold.
        notes: Sentences about the lists, which are shown as warnings of the run.
    """

    personalised: ClassVar[bool] = True
    learns: ClassVar[bool] = True
    lists_new_items: ClassVar[bool] = False
    is_logging: ClassVar[bool] = False
    notes: Sequence[str] = ()

    @property
    def stochastic(self) -> bool:
        """Whether random numbers may change the lists; if not, the model is fitted once."""
        return True

    @property
    def uses_ratings(self) -> bool:
        """Whether ratings matter; by default, whether it has ``predict``."""
        return defines(type(self), Recommender.predict)

    @property
    def takes_history(self) -> bool:
        """Whether users with a history alone can be answered; by default, whether it has ``recommend_for``."""
        return defines(type(self), Recommender.recommend_for)

    @property
    def sequential(self) -> bool:
        """Whether events matter: ``fit`` and ``recommend_for`` get them by user and time, and pairs repeat."""
        return False

    @property
    def cold_users(self) -> str | None:
        """The answer to users without train data: ``popularity``, a text on the model's own answer, or None."""
        return None

    @property
    def uris(self) -> Mapping[str, str]:
        """MLflow URIs to be read from the bake-off's tracking store, by parameter."""
        return {}

    def own_inputs(self, folder: Path) -> list[str]:
        """Return inputs that decide the lists and that no parameter names."""
        return []

    def prepare(self) -> None:
        """Import the libraries and load compiled code, before ``fit`` and not timed."""

    def fit_bytes(self, train: Interactions) -> int | None:
        """Return the peak memory of ``fit`` in bytes apart from ``train``, None if it is unknown.

        A fit that would run out of memory is refused before it starts.
        """
        return None

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Learn from the train data; all randomness comes from ``rng``. Arrays of all calls are read-only."""
        raise NotImplementedError

    def scores(self, users: Codes) -> npt.NDArray[np.floating[Any]]:
        """Return a score for every item: floats (len(users), n_items).

        Higher is better; -inf: cannot be recommended; NaN is an error. A user's scores must not depend on the other
        users of the call. One row by ``numpy.broadcast_to`` is sorted once for all users.
        """
        raise NotImplementedError

    def recommend(
        self, users: Codes, n: int
    ) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.floating[Any]]]:
        """Return the best n items of each user, items of the train data included, best first.

        Returns:
            Item codes (len(users), n), -1 behind the end of a short list, and their descending scores. ``n`` exceeds
            the list length of the config, as items that are no candidates are removed.
        """
        raise NotImplementedError

    def recommend_for(self, users: Codes, history: Interactions) -> npt.NDArray[np.floating[Any]]:
        """Return scores as ``scores`` does, for users who are not in the train data.

        ``history`` has the interactions that are known of such users, on the items of the train data; codes of users
        may lie behind those of the train data. A user's scores depend on the user's own history alone.
        """
        raise NotImplementedError

    def predict(self, users: Codes, items: Codes) -> npt.NDArray[np.floating[Any]]:
        """Return the predicted rating of each pair, on the scale of the data: floats (len(users),)."""
        raise NotImplementedError

    def recommend_candidates(
        self, users: Codes, n: int, candidates: Candidates, history: Interactions | None = None
    ) -> tuple[Codes, Floats]:
        """Return the lists of the users without most scores: items int32 and scores float64, (len(users), n).

        For models of evalplugin, as the lists are not checked. ``history``: of users who are not in the train data.
        """
        raise NotImplementedError

    def product(self) -> Product | None:
        """Return the scores as dot products of factors, from which lists are made faster; None: they are none.

        For models of evalplugin, as the lists are not checked. ``scores`` gives the same scores to the bit.
        """
        return None

    def block_items(self, request: ListRequest) -> int:
        """Return the number of items whose scores are in memory for each user of a block: with fewer, more users."""
        return request.train.n_items

    def recommend_task(self, request: ListRequest) -> TopN:
        """Return a list for each user of a request: all of a task at once, from a file or by a program.

        For models of evalplugin, as the lists are not checked.
        """
        raise NotImplementedError


class Product(NamedTuple):
    """Scores that are, but for their rounding and a number for each user, dot products of factors."""

    left: Callable[[Codes], Factors]  # the factors of users, (len(users), n_factors)
    right: Factors  # of all items, (n_items, n_factors)
    exact: Callable[[Codes, Ints | Codes], Floats]  # the score of each pair of a user and an item, float64


@dataclass(frozen=True, eq=False)
class ListRequest:
    """The lists that are asked for, and the data that the model was fitted on."""

    train: Interactions  # what ``fit`` was given
    users: Codes  # ascending
    n: int  # length of the lists
    candidates: Candidates
    fold: int = 0
    folder: Path = Path()  # base of relative paths: the folder of the config
    tracking_uri: str | None = None  # the tracking store of the bake-off; None: from the environment
    history: Interactions | None = None  # of users who are not in the train data
    unit: Unit = "user"  # what a list is for
    log: Interactions | None = None  # the test part of a log of decisions, for ``is_logging`` models


def defines(cls: type, method: Callable[..., Any]) -> bool:
    """Return whether a class of models has its own version of an optional method of ``Recommender``."""
    return getattr(cls, method.__name__, None) not in (None, method)


def may_take_history(cls: type[Recommender]) -> bool:
    """Return whether models of a class can answer users by a history alone, with some parameters."""
    if cls.takes_history is Recommender.takes_history:
        return defines(cls, Recommender.recommend_for)
    return bool(cls.takes_history)


def cold_answer(cls: type[Recommender]) -> str | None:
    """Return the ``cold_users`` of a class of models, with default parameters if it depends on them."""
    declared: object = cls.cold_users
    return cls().cold_users if isinstance(declared, property) else cast(str | None, declared)


def own_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of a model by name: the fields that its constructor takes."""
    return {field.name: getattr(model, field.name) for field in fields(model) if field.init}


_MAKE_LISTS = (Recommender.scores, Recommender.recommend, Recommender.recommend_task)


def _lack(cls: type) -> str | None:
    if not any(defines(cls, method) for method in _MAKE_LISTS):
        return "has neither scores(users) nor recommend(users, n)"
    return None


MODELS: Registry[Recommender] = Registry("model", "fit(train, rng)", base=Recommender, check=_lack)

model = MODELS.register  # a decorator of dataclasses
