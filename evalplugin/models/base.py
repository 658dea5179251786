"""The base class of recommenders, the protocols of what they can do, and their registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Floats
from evalplugin.components.registry import Component, Registry
from evalplugin.models.selection import TopN

if TYPE_CHECKING:
    from evalplugin.data import Candidates, Interactions
    from evalplugin.data.queries import Unit


class Recommender(Component):
    """A dataclass whose fields are its parameters. It learns by ``fit`` and then does ONE of two things.

    Either it has ``scores(users)`` (see ScoringRecommender) or ``recommend(users, n)`` (see ListRecommender). A model
    of evalplugin may make the lists of a whole task instead (see TaskRecommender). A model that also predicts ratings
    has ``predict(users, items)`` (see RatingPredictor); one that answers users by their history alone has
    ``recommend_for(users, history)`` (see FoldInRecommender).

    All else is optional, and a class variable or a property may override each attribute. A class that does not derive
    from this one gets the defaults when it is registered.

    Attributes:
        personalised: Whether lists differ between users, as the contract suite then demands.
        learns: Whether ``fit`` learns from the train data; lists that were made elsewhere cannot be registered.
        lists_new_items: Whether items without train data can be listed, as the split ``new_items`` asks.
        notes: Sentences about the lists that were made, which are shown as warnings of the run.
    """

    personalised: ClassVar[bool] = True
    learns: ClassVar[bool] = True
    lists_new_items: ClassVar[bool] = False
    notes: Sequence[str] = ()

    @property
    def stochastic(self) -> bool:
        """Whether another stream of random numbers may change the lists; if not, the model is fitted once."""
        return True

    @property
    def uses_ratings(self) -> bool:
        """Whether ratings matter, so that raw counts mislead the model; by default, whether it predicts them."""
        return isinstance(self, RatingPredictor)

    @property
    def takes_history(self) -> bool:
        """Whether users who are known by a history alone can be answered; by default, by ``recommend_for``."""
        return isinstance(self, FoldInRecommender)

    @property
    def sequential(self) -> bool:
        """Whether the order of events matters.

        ``fit`` and ``recommend_for`` are then given a log of events, in which pairs repeat, in place of one row for
        each pair. Each user's rows are in order of time.
        """
        return False

    @property
    def cold_users(self) -> str | None:
        """What users without train data get; None: the model is asked, and says nothing about it.

        ``popularity``: the model cannot know such users, and evalplugin lists the most popular items of the train data
        for them, in place of the model. Any other text describes in a few words the model's own answer.
        """
        return None

    @property
    def uris(self) -> Mapping[str, str]:
        """MLflow URIs that are read from the bake-off's tracking store, by the parameters that lead to them.

        They are looked up before anything is fitted.
        """
        return {}

    def own_inputs(self, folder: Path) -> list[str]:
        """Return inputs that decide the lists and that no parameter is the name of; see ``files/inputs.py``."""
        return []

    def prepare(self) -> None:
        """Import the libraries and load the compiled code that ``fit`` and scoring need.

        It is called once before ``fit``, to separate the start-up time from the work.
        """

    def fit_bytes(self, train: Interactions) -> int | None:
        """Return the peak memory of ``fit`` in bytes apart from ``train``, None if it is unknown.

        A fit that would run out of memory is refused before it starts.
        """
        return None

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Learn from the train data; all randomness comes from ``rng``.

        The data is read-only, and so is every array that the other methods are given.
        """
        raise NotImplementedError


@runtime_checkable
class ScoringRecommender(Protocol):
    """A recommender with scores for the whole catalogue, from which evalplugin selects the best n."""

    def scores(self, users: Codes) -> npt.NDArray[np.floating[Any]]:
        """Return a score for every item: floats (len(users), n_items), higher is better.

        -inf means "cannot be recommended"; NaN is an error. A user's scores must not depend on the other users
        of the call. Users without train data are not asked for if ``cold_users`` is "popularity". If all users have
        the same scores, return one row by ``numpy.broadcast_to``, which is sorted once.
        """


@runtime_checkable
class ListRecommender(Protocol):
    """A recommender with lists of its own, from which evalplugin removes items that are no candidates."""

    def recommend(
        self, users: Codes, n: int
    ) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.floating[Any]]]:
        """Return the best n items of each user, items of the train data included, best first.

        Returns:
            Item codes (len(users), n), -1 behind the end of a short list, and their scores, of the same shape,
            descending. ``n`` is larger than the list length of the config, to make up for removed items.
        """


@runtime_checkable
class FoldInRecommender(Protocol):
    """A recommender that can score items for users who are not in the train data, by a history of theirs."""

    def recommend_for(self, users: Codes, history: Interactions) -> npt.NDArray[np.floating[Any]]:
        """Return a score for every item, as ``scores`` does: floats (len(users), n_items), higher is better.

        ``history`` has the interactions that are known of such users, these among others, on the vocabularies of the
        train data; it is read-only. Nothing is fitted anew, and a user's scores depend on the user's own history alone.
        Items of the history need no special treatment: they are left out of the lists like those of the train data.
        """


@runtime_checkable
class CandidateRecommender(ScoringRecommender, Protocol):
    """A recommender that can do without most scores: for models of evalplugin, as its lists are not checked."""

    def recommend_candidates(self, users: Codes, n: int, candidates: Candidates) -> tuple[Codes, Floats]:
        """Return the lists of the users as a TopN has them: items int32 and scores float64, (len(users), n)."""


@runtime_checkable
class HistoryCandidateRecommender(FoldInRecommender, Protocol):
    """A recommender that answers histories without most scores: for models of evalplugin, whose lists are unchecked."""

    def recommend_candidates_for(
        self, users: Codes, n: int, candidates: Candidates, history: Interactions
    ) -> tuple[Codes, Floats]:
        """Return the lists of users with a history as ``recommend_candidates`` does."""


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


@runtime_checkable
class TaskRecommender(Protocol):
    """A recommender that makes all lists of a task at once, from a file or by a program: for models of evalplugin."""

    def recommend_task(self, request: ListRequest) -> TopN:
        """Return a list for each user of the request."""


@runtime_checkable
class RatingPredictor(Protocol):
    """A recommender with predicted ratings, on the scale of the data."""

    def predict(self, users: Codes, items: Codes) -> npt.NDArray[np.floating[Any]]:
        """Return the predicted rating of each pair: floats (len(users),)."""


def may_take_history(cls: type[Recommender]) -> bool:
    """Return whether models of a class can answer users by a history alone, with some parameters."""
    if cls.takes_history is Recommender.takes_history:
        return issubclass(cls, FoldInRecommender)
    return bool(cls.takes_history)


def cold_answer(cls: type[Recommender]) -> str | None:
    """Return the ``cold_users`` of a class of models, with default parameters if it depends on them."""
    declared: object = cls.cold_users
    return cls().cold_users if isinstance(declared, property) else cast(str | None, declared)


def own_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of a model by name: the fields that its constructor takes."""
    return {field.name: getattr(model, field.name) for field in fields(model) if field.init}


def _lack(cls: type) -> str | None:
    if not issubclass(cls, (ScoringRecommender, ListRecommender, TaskRecommender)):
        return "has neither scores(users) nor recommend(users, n)"
    return None


MODELS: Registry[Recommender] = Registry("model", "fit(train, rng)", base=Recommender, check=_lack)

model = MODELS.register  # a decorator of dataclasses
