"""The model ``mlflow``: a logged or registered model, evaluated without fitting it anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from evalplugin.base.errors import DataError, Problem, did_you_mean
from evalplugin.files.uris import MLFLOW_SCHEMES, URI_SCHEMES, local_path, scheme_of
from evalplugin.models.base import ListRequest, Recommender, model

if TYPE_CHECKING:
    import numpy as np

    from evalplugin.data import Interactions, LoadContext
    from evalplugin.models.selection import TopN


@model("mlflow")
@dataclass
class PyfuncModel(Recommender):
    """A model from MLflow, as it is deployed: of the registry, of a run, or a folder.

    It is loaded in this environment, and not fitted. By its signature, it takes users and answers with lists, or
    pairs of user and item and answers with scores. Items that are no candidates are left out. Unknown ids, short
    lists and missing users are counted.
    """

    model: Annotated[
        str,
        Field(
            min_length=1,
            description="models:/NAME@ALIAS, models:/NAME/3, runs:/ID/PATH, another URI that MLflow loads from the "
            "tracking store of the bake-off, or a folder relative to the config",
        ),
    ]
    takes: Annotated[
        Literal["auto", "users", "pairs"],
        Field(description="users (lists) or pairs (scores); auto: by its signature"),
    ] = "auto"
    user: Annotated[str, Field(description="column of user ids, also in answers")] = "user"
    item: Annotated[str, Field(description="column of item ids, also in answers")] = "item"
    rank: Annotated[
        str | None, Field(description="column of ranks in a table of lists; null: rank, if there is one")
    ] = None
    score: Annotated[
        str | None, Field(description="column of scores in its answer; null: score, without a rank")
    ] = None
    inference: Annotated[
        dict[str, Any],
        Field(description="parameters of the signature, such as {n: 100}"),
    ] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    learns = False
    stochastic = False
    cold_users: ClassVar[str] = "what the deployed model answers"

    def __post_init__(self) -> None:
        if self.rank is not None and self.score is not None:
            raise ValueError("lists are ordered by rank or by score: name one of them")

    @property
    def uris(self) -> dict[str, str]:
        """The model, if it is in a tracking store, to be looked up before anything is fitted."""
        return {"model": self.model} if scheme_of(self.model) in MLFLOW_SCHEMES else {}

    def check(self, context: LoadContext) -> list[Problem]:
        """Return a problem if the URI is malformed, or there is no such folder."""
        problem = _problem_of_form(self.model)
        try:
            path = local_folder(self.model, context.base)
        except DataError as error:  # a file on another machine
            return [Problem(("model",), str(error))]
        if problem is None and path is not None and not (path / "MLmodel").is_file():
            problem = (
                f"{path} is not a model of MLflow: it has no file MLmodel; name a folder that MLflow has saved, "
                f"or a URI such as models:/NAME@ALIAS"
            )
        return [] if problem is None else [Problem(("model",), problem)]

    def prepare(self) -> None:
        """Import MLflow."""
        import mlflow.pyfunc  # noqa: F401

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Learn nothing: the model was fitted before."""

    def recommend_task(self, request: ListRequest) -> TopN:
        """Return the lists of the model, without items that are no candidates.

        Raises:
            ModelError: It cannot be loaded (for example, a package is missing), needs more than users and items, or
                answers in another shape.
            DataError: Its lists break a rule.
            TrackingError: There is no such model, or it cannot be downloaded.
        """
        from evalplugin.tracking.models.deployed import lists_of
        from evalplugin.tracking.models.interface import Interface

        interface = Interface(f"the model {self.model}", self.user, self.item, self.rank, self.score)
        folder, takes = local_folder(self.model, request.folder), None if self.takes == "auto" else self.takes
        lists, self.notes = lists_of(self.model, folder, interface, takes, self.inference, request)
        return lists


def _problem_of_form(uri: str) -> str | None:
    scheme = scheme_of(uri)
    if scheme is not None and scheme not in URI_SCHEMES:
        return f"{uri}: {scheme!r} is not a kind of URI that can be read{did_you_mean(scheme, URI_SCHEMES)}"
    if scheme not in ("models", "runs"):
        return None
    name, slash, rest = uri.partition(":")[2].strip("/").partition("/")
    if scheme == "runs":
        return None if name and rest else f"{uri} must look like runs:/RUN_ID/PATH, as in runs:/0123abc/model"
    before, _, alias = name.rpartition("@")
    if (before and alias and not slash) or (name and rest and "/" not in rest) or name.startswith("m-"):
        return None
    return f"{uri} does not name a model version: it must look like models:/NAME@ALIAS or models:/NAME/3"


def local_folder(uri: str, folder: Path) -> Path | None:
    """Return the folder that a path or a ``file:`` URI names, relative to ``folder``; None for any other URI."""
    return folder / local_path(uri).expanduser() if scheme_of(uri) in (None, "file") else None
