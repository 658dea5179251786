"""The files of a registered recommender: its code, its lists, its signature and metadata."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.tracking.connection import loggers_at
from evalplugin.tracking.registry.served.lists import ServedLists

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

__all__ = ["quiet_mlflow", "save_package"]

_CODE = Path(__file__).parent / "recommender.py"
_REQUIREMENTS = ("mlflow", "numpy", "pandas")
_CHATTY = ("mlflow.pyfunc", "mlflow.store.model_registry.abstract_store")
_WHOLE_NUMBERS = (
    "whole numbers; MLflow makes one of whatever else comes over HTTP, of true 1, of 0.5 0, before the model sees it: "
    "the user of an answer is whose list it is"
)


def save_package(lists: ServedLists, arrays: Path, origin: Mapping[str, str], folder: Path) -> None:
    """Write the folder that MLflow loads and serves the lists from.

    Args:
        lists: The lists that are served.
        arrays: The file that they were saved to.
        origin: ``bakeoff``, ``model``, ``model_type``, ``dataset`` and ``data_digest``.
        folder: The folder, which must not exist.
    """
    import pandas as pd
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
            "candidates": (
                "all items but those that a user met in the data"
                if lists.candidates == "unseen"
                else "all items"
            ),
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


@contextmanager
def quiet_mlflow() -> Iterator[None]:
    """Silence MLflow's progress messages, and its warnings about its own classes."""
    with loggers_at(logging.WARNING, _CHATTY), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Any type hint is inferred as AnyType")
        yield
