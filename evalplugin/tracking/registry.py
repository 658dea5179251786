"""Recommenders in the MLflow Model Registry: how one gets there, and how it is made anew from what is there."""

from __future__ import annotations

import json
import logging
import shlex
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalplugin.config.gate_checks import CHAMPION_ALIAS, PREVIOUS_ALIAS
from evalplugin.errors import TrackingError
from evalplugin.redaction import redact, redact_values
from evalplugin.served import ServedLists
from evalplugin.tracking.connection import connect, connect_to_existing, is_there, loggers_at, talking
from evalplugin.tracking.find import find_runs
from evalplugin.tracking.labels import cut
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.logged import LoggedRun

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import RegisteredModel
    from mlflow.models import ModelSignature

__all__ = ["Evidence", "Recipe", "Registered", "recipe_of_registered", "recipe_of_run", "register_lists"]

_CODE = Path(__file__).parents[1] / "served" / "recommender.py"
_REQUIREMENTS = ("mlflow", "numpy", "pandas")
_FOLDER = "model"  # of a run's artifacts
_CHATTY = ("mlflow.pyfunc", "mlflow.store.model_registry.abstract_store")
_NOT_THERE, _THERE = "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"


@dataclass(frozen=True)
class Recipe:
    """What it takes to make a model anew, and where that stands."""

    model: str  # its name in a bake-off
    type: str
    params: Mapping[str, Any]
    origin: str  # in words


@dataclass(frozen=True)
class Evidence:
    """Why a model is registered, as plain values; what a recipe needs is part of it."""

    bakeoff: str
    model: str  # its name in the bake-off
    type: str
    params: Mapping[str, Any]
    dataset: str
    data_digest: str  # of all interactions
    outcome: str  # of the decision
    reason: str
    metrics: Mapping[str, float]  # means in the bake-off, by canonical name
    description: str  # Markdown


@dataclass(frozen=True)
class Registered:
    """A version of a registered model that is now the champion."""

    name: str
    version: str
    previous: str | None  # the version of the champion before it

    @property
    def uri(self) -> str:
        """What MLflow loads and serves the champion by."""
        return f"models:/{self.name}@{CHAMPION_ALIAS}"

    @property
    def command(self) -> str:
        """What serves the champion, given MLFLOW_TRACKING_URI."""
        return f"mlflow models serve -m {shlex.quote(self.uri)} --env-manager local"


def recipe_of_registered(tracking_uri: str | None, champion: str) -> Recipe | None:
    """Return the recipe of a registered model's ``name@alias``; None where there is no such model or alias yet.

    Raises:
        TrackingError: The store cannot be reached, or the version is not one that evalplugin registered.
    """
    uri = resolve_uri(tracking_uri)
    if not is_there(uri):
        return None
    client = connect(uri)
    name, _, alias = champion.partition("@")
    with talking(uri, f"look up the registered model {champion}"):
        model = _model(client, name)
        if model is None or alias not in model.aliases:
            return None
        found = client.get_model_version(name, str(model.aliases[alias]))
    tags = {key.removeprefix("evalplugin."): value for key, value in found.tags.items()}
    if "model_type" not in tags or "model_params" not in tags:
        raise TrackingError(
            f"version {found.version} of the registered model {name!r}, its {alias}, was not registered by evalplugin: "
            f"its tags do not say how to fit it anew"
        )
    origin = f"{champion}, version {found.version}: {tags['model']} of bake-off {tags['bakeoff']}"
    return Recipe(tags["model"], tags["model_type"], json.loads(tags["model_params"]), origin)


def recipe_of_run(tracking_uri: str | None, run: str) -> Recipe:
    """Return the recipe of a model's run, given its id or name, or the model's name: then of its latest run.

    Raises:
        DataError: There is no such run.
        TrackingError: The store cannot be reached, or the run does not say how to fit its model anew.
    """
    uri = resolve_uri(tracking_uri)
    client = connect_to_existing(uri)
    with talking(uri, f"read the run {run}"):
        runs = find_runs(client, redact(uri), bakeoff=None, runs=[run], experiment=None).runs
        latest = LoggedRun(client, max(runs, key=lambda one: one.info.start_time))
        return Recipe(
            latest.model, latest.tag("model_type"), latest.params, f"{latest} of bake-off {latest.bakeoff}"
        )


def register_lists(
    tracking_uri: str | None, name: str, lists: ServedLists, evidence: Evidence, *, run_id: str
) -> Registered:
    """Make the lists a version of the registered model ``name``, the one with the alias ``champion``.

    The version that a promotion took the place of gets the alias ``previous``. For a bake-off that has its version
    already, no second one is made.

    Args:
        tracking_uri: The store.
        name: Of the registered model, which is made if it is not there.
        lists: What is served.
        evidence: What the version's tags and description say.
        run_id: The run that holds the files, in its folder ``model``.

    Raises:
        TrackingError: The store cannot be reached or refuses, or a parameter of the model holds a credential, which
            would stand in the version's tags.
    """
    if redact_values(evidence.params) != dict(evidence.params):
        raise TrackingError(
            f"{evidence.model} is not registered: its parameters hold a credential, which the registry would show"
        )
    uri = resolve_uri(tracking_uri)
    client = connect(uri)
    with talking(uri, f"register {evidence.model} as {name}"), _quiet():
        model = _model(client, name) or _create(client, name)
        new = _version_of(client, name, evidence.bakeoff)
        if new is None:
            with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
                _save(lists, evidence, Path(folder))
                client.log_artifacts(run_id, str(Path(folder) / _FOLDER), _FOLDER)
            made = client.create_model_version(
                name,
                f"runs:/{run_id}/{_FOLDER}",
                run_id=run_id,
                tags=_tags(evidence),
                description=redact(evidence.description),
            )
            new = str(made.version)
        return _crown(client, model, new, is_other=evidence.outcome == "promote")


def _crown(client: MlflowClient, model: RegisteredModel, new: str, *, is_other: bool) -> Registered:
    """Move the aliases; the champion's last, so that there is one at any time."""
    champion, previous = (_text(model.aliases.get(alias)) for alias in (CHAMPION_ALIAS, PREVIOUS_ALIAS))
    # A bake-off that is resumed late must not take the place of a later one.
    if champion is not None and int(champion) >= int(new):
        return Registered(model.name, champion, previous)
    # One that stays with newer lists does not take its own place: the way back still leads to the model before it.
    if champion is not None and is_other:
        previous = champion
        client.set_registered_model_alias(model.name, PREVIOUS_ALIAS, previous)
    client.set_registered_model_alias(model.name, CHAMPION_ALIAS, new)
    return Registered(model.name, new, previous)


def _model(client: MlflowClient, name: str) -> RegisteredModel | None:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != _NOT_THERE:
            raise
        return None


def _create(client: MlflowClient, name: str) -> RegisteredModel:
    from mlflow.exceptions import MlflowException

    words = "Lists of recommendations: the models that evalplugin's gate promoted."
    try:
        return client.create_registered_model(name, description=words)
    except MlflowException as error:
        if error.error_code != _THERE:  # another bake-off was faster
            raise
        return client.get_registered_model(name)


def _version_of(client: MlflowClient, name: str, bakeoff: str) -> str | None:
    query = f"name = '{name}' and tags.`evalplugin.bakeoff` = '{bakeoff}'"
    found = client.search_model_versions(query)
    return max((str(one.version) for one in found), key=int, default=None)


def _tags(evidence: Evidence) -> dict[str, str]:
    from evalplugin import __version__

    values = {
        "bakeoff": evidence.bakeoff,
        "model": evidence.model,
        "model_type": evidence.type,
        "model_params": json.dumps(evidence.params, sort_keys=True),
        "dataset": evidence.dataset,
        "data_digest": evidence.data_digest,
        "outcome": evidence.outcome,
        "reason": cut(redact(evidence.reason)),
        # NaN is no JSON, and what is undefined is no evidence.
        "metrics": json.dumps({m: value for m, value in evidence.metrics.items() if value == value}),
        "version": __version__,
    }
    return {f"evalplugin.{key}": value for key, value in values.items()}


def _save(lists: ServedLists, evidence: Evidence, folder: Path) -> None:
    import pandas as pd
    from mlflow.pyfunc import save_model

    arrays = folder / "lists.npz"
    lists.save(arrays)
    save_model(
        folder / _FOLDER,
        python_model=str(_CODE),
        artifacts={"lists": str(arrays)},
        signature=_signature(lists),
        input_example=pd.DataFrame({"user": lists.users[:2].tolist()}),
        pip_requirements=[f"{package}=={version(package)}" for package in _REQUIREMENTS],
        metadata={
            "bakeoff": evidence.bakeoff,
            "model": evidence.model,
            "model_type": evidence.type,
            "users": len(lists.users),
            "items": len(lists.items),
            "n": lists.top_n.n,
            "candidates": (
                "all items but those that a user met in the data"
                if lists.candidates == "unseen"
                else "all items"
            ),
            "fitted_on": f"all interactions of {evidence.dataset}, digest {evidence.data_digest}",
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
def _quiet() -> Iterator[None]:
    """Keep MLflow from telling what it checks and waits for, and what it thinks of its own classes."""
    with loggers_at(logging.WARNING, _CHATTY), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Any type hint is inferred as AnyType")
        yield


def _text(number: object) -> str | None:
    return None if number is None else str(number)
