"""Protocols of recommenders, and their registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Floats
from evalplugin.components.registry import Registry
from evalplugin.models.selection import TopN

if TYPE_CHECKING:
    from evalplugin.data import Candidates, Interactions
    from evalplugin.data.queries import Unit

C = TypeVar("C", bound=type)


class Recommender(Protocol):
    """A dataclass whose fields are its parameters. It learns by ``fit`` and then does ONE of two things.

    Either it has ``scores(users)`` (see ScoringRecommender) or ``recommend(users, n)`` (see ListRecommender). A model
    of evalplugin may make the lists of a whole task instead (see TaskRecommender). A model that also predicts ratings
    has ``predict(users, items)`` (see RatingPredictor).

    More methods are optional. ``prepare() -> None`` imports the libraries and loads the compiled code that ``fit`` and
    scoring need: called once before ``fit``, it separates the start-up time from the work. ``fit_bytes(train) ->
    int | None`` returns the peak memory of ``fit`` in bytes apart from ``train``, None if it is unknown, so that a fit
    that would run out of memory can be refused before it starts.

    ``check(context) -> list[Problem]`` returns what can be known to be wrong before data is read, such as a file that
    is missing; paths are relative to ``context.base``.

    ``own_inputs(folder) -> list[str]`` names inputs that decide the lists and that no parameter is the name of; see
    ``files/inputs.py``.

    ``uris``, an optional property, is what the model reads from the bake-off's tracking store: MLflow's URI by the name
    of the parameter that leads to it. They are looked up before anything is fitted.

    An optional attribute ``notes``, a sequence of sentences about the lists that it has made, is shown as warnings of
    its run.

    An optional class variable or property ``uses_ratings: bool`` is whether ratings matter to the model, so that raw
    counts mislead it: a bake-off on such data warns. Left out, ratings matter to a model that predicts them. ``learns:
    bool = False`` says that nothing is learnt from the train data, as the lists or the model were made elsewhere: it
    cannot be fitted on all data and registered. ``stochastic: bool = False`` says that ``rng`` decides nothing: such a
    model is fitted once.

    ``recommend_for(users, history) -> scores`` scores items for users who are known by their history alone, as of the
    split ``new_users``: see FoldInRecommender. ``takes_history: bool``, a class variable or property, is whether the
    model can answer them; left out, it is whether it has ``recommend_for``. ``lists_new_items: bool = True`` says that
    the model can list items without train data, for example by their attributes, as the split ``new_items`` asks.

    ``sequential: bool = True`` says that the order of events matters: ``fit`` and ``recommend_for`` are given a log of
    events, in which pairs repeat, in place of one row for each pair. Each user's rows are in order of time.

    ``cold_users: str = "popularity"`` says that the model cannot know a user without train data: evalplugin then lists
    for such users the most popular items of the train data, in place of the model. Any other text describes in a few
    words the model's own answer. Without the attribute, the model itself is asked.
    """

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Learn from the train data; all randomness comes from ``rng``.

        The data is read-only, and so is every array that the other methods are given.
        """


@runtime_checkable
class ScoringRecommender(Recommender, Protocol):
    """A recommender with scores for the whole catalogue, from which evalplugin selects the best n."""

    def scores(self, users: Codes) -> npt.NDArray[np.floating[Any]]:
        """Return a score for every item: floats (len(users), n_items), higher is better.

        -inf means "cannot be recommended"; NaN is an error. A user's scores must not depend on the other users
        of the call. Users without train data are not asked for if ``cold_users`` is "popularity". If all users have
        the same scores, return one row by ``numpy.broadcast_to``, which is sorted once.
        """


@runtime_checkable
class ListRecommender(Recommender, Protocol):
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
class FoldInRecommender(Recommender, Protocol):
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
class TaskRecommender(Recommender, Protocol):
    """A recommender that makes all lists of a task at once, from a file or by a program: for models of evalplugin."""

    def recommend_task(self, request: ListRequest) -> TopN:
        """Return a list for each user of the request."""


@runtime_checkable
class RatingPredictor(Protocol):
    """A recommender with predicted ratings, on the scale of the data."""

    def predict(self, users: Codes, items: Codes) -> npt.NDArray[np.floating[Any]]:
        """Return the predicted rating of each pair: floats (len(users),)."""


def is_stochastic(model: Recommender) -> bool:
    """Return whether another stream of random numbers may change a model's lists: yes, unless it declares otherwise."""
    return bool(getattr(model, "stochastic", True))


def uses_ratings(model: Recommender) -> bool:
    """Return whether ratings matter to a model: as it declares, or else whether it predicts them."""
    return bool(getattr(model, "uses_ratings", isinstance(model, RatingPredictor)))


def takes_history(model: Recommender | type[Recommender]) -> bool:
    """Return whether a model can answer users who are known by a history alone; of a class, with some parameters."""
    return bool(getattr(model, "takes_history", hasattr(model, "recommend_for")))


def lists_new_items(model: Recommender | type[Recommender]) -> bool:
    """Return whether a model declares that it can list items without train data."""
    return bool(getattr(model, "lists_new_items", False))


def is_sequential(model: Recommender | type[Recommender]) -> bool:
    """Return whether a model declares that the order of events matters to it."""
    return bool(getattr(model, "sequential", False))


def cold_answer(model: Recommender | type[Recommender]) -> str | None:
    """Return how a model answers users without train data: "popularity", or its own answer in words, None if unknown.

    Of a class, with its default parameters.
    """
    if isinstance(model, type) and isinstance(getattr(model, "cold_users", None), property):
        model = model()
    return getattr(model, "cold_users", None)


def own_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of a model by name: the fields that its constructor takes."""
    return {field.name: getattr(model, field.name) for field in fields(model) if field.init}


def _lack(cls: type) -> str | None:
    if not any(callable(getattr(cls, name, None)) for name in ("scores", "recommend", "recommend_task")):
        return "has neither scores(users) nor recommend(users, n)"
    return None


MODELS: Registry[Recommender] = Registry("model", "fit(train, rng)", check=_lack)


def model(name: str) -> Callable[[C], C]:
    """Return a decorator that registers a dataclass as the model ``name``."""
    return MODELS.register(name)
