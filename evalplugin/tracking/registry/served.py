"""The registered recommender: its lists, from a model fitted on all data, and the files that MLflow serves it from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evalplugin.base.libraries import pd
from evalplugin.base.seeding import generator, hashed_ranks
from evalplugin.config import ModelRecipe
from evalplugin.config.sections import Recommend
from evalplugin.data import Candidates, Interactions
from evalplugin.models import MODELS, TopN, one_blas_thread, select_top_n
from evalplugin.models import recommend as model_lists
from evalplugin.models.base import ListRequest

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

_CODE = Path(__file__).parent / "recommender.py"
_REQUIREMENTS = ("mlflow", "numpy", "pandas")
_WHOLE_NUMBERS = (
    "whole numbers; MLflow makes one of whatever else comes over HTTP, of true 1, of 0.5 0, before the model sees it: "
    "the user of an answer is whose list it is"
)


@dataclass(frozen=True, eq=False)
class ServedLists:
    """A top-N list for every user of the data, and one for unknown users."""

    users: npt.NDArray[np.generic]  # (U,) raw ids, sorted: those who have a list
    items: npt.NDArray[np.generic]  # the catalogue: sorted raw ids
    top_n: TopN  # (U, N) of all users; item codes are positions in ``items``
    popular: TopN  # (1, N), for unknown users: items and how many users met them
    unseen: bool  # whether the lists leave out items that the user has met

    def save(self, path: Path) -> None:
        """Write an ``npz`` file of numbers and text alone, which ``recommender.py`` reads."""
        np.savez_compressed(
            path,
            users=_plain(self.users),
            catalogue=_plain(self.items),
            item=self.top_n.item,
            score=self.top_n.score,
            popular_item=self.popular.item[0],
            popular_score=self.popular.score[0],
        )


def make_lists(
    model: ModelRecipe,
    data: Interactions,
    recommend: Recommend,
    *,
    seed: int,
    folder: Path = Path(),
    progress: Callable[[int], None] | None = None,
) -> ServedLists:
    """Return the lists of a model fitted on all interactions, held-out ones included.

    Args:
        model: Its type and parameters.
        data: All interactions.
        recommend: Length of the lists (no more than there are items), candidates, and order of equal scores. Users
            meet ``all`` items, as in a log of events, or else those that they have not met in ``data``.
        seed: The seed of the bake-off; the random stream is named by ``data``.
        folder: Base of relative paths, for a model that runs a program.
        progress: Called after each block of users with their number.

    Raises:
        ModelError: The model broke its contract, or cannot be fitted on the data.
    """
    n = min(recommend.n, data.n_items)
    users = np.unique(data.user)
    tie_rank = hashed_ranks(data.items, seed, "ties") if recommend.ties == "hashed" else None
    unseen = recommend.candidates != "all" and not data.from_events
    allowed = Candidates("unseen" if unseen else "all", data.rows if unseen else None, tie_rank=tie_rank)
    with one_blas_thread():  # as in a bake-off's task: how it rounds must not depend on the machine
        fitted = MODELS.create(model.type, model.params)
        stream = generator(seed, data.pairs_digest, model.type, json.dumps(model.params, sort_keys=True))
        train = data.in_order() if fitted.sequential else data
        fitted.fit(train, stream)
        request = ListRequest(train, users, n, allowed, folder=folder)
        top_n = model_lists(fitted, request, progress=progress)
    item, score = select_top_n(data.item_events[None].astype(np.float64), n, tie_rank)
    return ServedLists(
        users=data.users[users],
        items=data.items,
        top_n=top_n,
        popular=TopN(np.zeros(1, dtype=np.int32), item, score),
        unseen=unseen,
    )


def _plain(ids: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return raw ids as an array that holds no objects."""
    return ids.astype(str) if ids.dtype == object else ids


def save_package(lists: ServedLists, arrays: Path, origin: Mapping[str, str], folder: Path) -> None:
    """Write the folder that MLflow loads and serves the lists from.

    Args:
        lists: The lists that are served.
        arrays: The file that they were saved to.
        origin: ``bakeoff``, ``model``, ``model_type``, ``dataset`` and ``data_digest``.
        folder: The folder, which must not exist.
    """
    from mlflow.pyfunc import save_model

    save_model(
        folder,
        python_model=str(_CODE),
        artifacts={"lists": str(arrays)},
        signature=_signature(lists),
        input_example=pd.DataFrame({"user": lists.users[:2].tolist()}),
        pip_requirements=[f"{package}=={version(package)}" for package in _REQUIREMENTS],
        metadata={
            **{key: origin[key] for key in ("bakeoff", "model", "model_type")},
            "users": len(lists.users),
            "items": len(lists.items),
            "n": lists.top_n.n,
            "candidates": "all items" + (" but those that a user met in the data" if lists.unseen else ""),
            "fitted_on": f"all interactions of {origin['dataset']}, digest {origin['data_digest']}",
            "user_ids": "text" if lists.users.dtype == object else _WHOLE_NUMBERS,
            "unknown_users": "the items that most users met, how many met them as scores; source is then "
            "'popularity', and 'model' otherwise",
        },
    )


def _signature(lists: ServedLists) -> ModelSignature:
    from mlflow.models import ModelSignature
    from mlflow.types.schema import Array, ColSpec, DataType, ParamSchema, ParamSpec, Schema

    user, item = (
        DataType.string if ids.dtype == object else DataType.long for ids in (lists.users, lists.items)
    )
    return ModelSignature(
        inputs=Schema([ColSpec(user, "user")]),
        outputs=Schema(
            [
                ColSpec(user, "user"),
                ColSpec(Array(item), "items"),
                ColSpec(Array(DataType.double), "scores"),
                ColSpec(DataType.string, "source"),
            ]
        ),
        params=ParamSchema([ParamSpec("n", DataType.long, lists.top_n.n)]),
    )
