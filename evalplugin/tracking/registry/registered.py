"""Recommenders in the MLflow Model Registry: how one gets there, and how it is made anew from what is there."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shlex
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalplugin.base.errors import DataError, TrackingError, did_you_mean
from evalplugin.base.secrets import redact, redact_values
from evalplugin.config.gate_checks import CHAMPION_ALIAS, PREVIOUS_ALIAS
from evalplugin.tracking.connection import (
    BRIEFLY,
    connect,
    connect_to_existing,
    is_there,
    loggers_at,
    talking,
)
from evalplugin.tracking.location import resolve_uri, sqlite_path
from evalplugin.tracking.names import shorten
from evalplugin.tracking.read.runs import find_runs
from evalplugin.tracking.registry.served import ServedLists

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion, RegisteredModel
    from mlflow.models import ModelSignature

__all__ = ["Evidence", "Recipe", "Registered", "recipe_of_registered", "recipe_of_run", "register_lists"]

_CODE = Path(__file__).parent / "served" / "recommender.py"
_REQUIREMENTS = ("mlflow", "numpy", "pandas")
_FOLDER = "model"  # of a run's artifacts
_CHATTY = ("mlflow.pyfunc", "mlflow.store.model_registry.abstract_store")
_NOT_THERE, _THERE = "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"
_REGISTRY = "MLFLOW_REGISTRY_URI"
_WHOLE_NUMBERS = (
    "whole numbers; MLflow makes one of whatever else comes over HTTP, of true 1, of 0.5 0, before the model sees it: "
    "the user of an answer is whose list it is"
)
_MADE_OF = ("model_type", "model_params", "data_digest", "lists_digest", "version")


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
    """The version of a registered model that is the champion now."""

    name: str
    version: str
    previous: str | None  # the version of the champion before it
    tracking_uri: str
    registry_uri: str | None = None  # where it is not the tracking store
    is_same: bool = False  # whether it was the champion before, with the same lists
    later: str | None = None  # the bake-off it is of, where that is a later one, whose place is not taken

    @property
    def uri(self) -> str:
        """What MLflow loads and serves the champion by."""
        return f"models:/{self.name}@{CHAMPION_ALIAS}"

    @property
    def command(self) -> str:
        """What serves the champion, for a shell."""
        stores = {"MLFLOW_TRACKING_URI": self.tracking_uri, _REGISTRY: self.registry_uri}
        named = [f"{key}={shlex.quote(redact(uri))}" for key, uri in stores.items() if uri is not None]
        return " ".join([*named, f"mlflow models serve -m {shlex.quote(self.uri)} --env-manager local"])


def recipe_of_registered(tracking_uri: str | None, champion: str) -> Recipe | None:
    """Return the recipe of a registered model's ``name@alias``; None where there is no such model or alias yet.

    Raises:
        DataError: The model has other aliases, and ``alias`` is not ``champion``.
        TrackingError: The store cannot be reached, or the version is not one that evalplugin registered.
    """
    uri = resolve_uri(tracking_uri)
    registry = _registry_of(uri)
    if not is_there(registry):
        return None
    name, _, alias = champion.partition("@")
    with talking(registry, f"look up the registered model {champion}", waiting=BRIEFLY):
        from mlflow import MlflowClient

        # A client makes the tracking store that it is given, if it is not there yet.
        client = MlflowClient(uri if is_there(uri) else registry)
        model = _model(client, name)
        found = None if model is None else _version_with(client, model, alias)
    # As long as nobody is champion, a baseline stands for it; an alias that is mistyped must not come to that.
    if model is not None and found is None and alias != CHAMPION_ALIAS and model.aliases:
        near = did_you_mean(alias, sorted(model.aliases), noun="there are")
        raise DataError(f"the registered model {name!r} has no alias {alias!r}{near}")
    if found is None:
        return None
    recipe = _recipe(_tags_of(found), f"{champion}, version {found.version}")
    if recipe is None:
        raise TrackingError(
            f"version {found.version} of the registered model {name!r}, its {alias}, was not registered by evalplugin: "
            f"its tags do not say how to fit it anew; choose another name (register.name, gate.champion.registry), "
            f"or give the alias {alias} to a version that evalplugin registered, or to none"
        )
    return recipe


def recipe_of_run(tracking_uri: str | None, run: str) -> Recipe:
    """Return the recipe of a model's run, given its id or name, or the model's name: then of its latest run.

    Raises:
        DataError: There is no such run.
        TrackingError: The store cannot be reached, or the run does not say how to fit its model anew.
    """
    uri = resolve_uri(tracking_uri)
    client = connect_to_existing(uri)
    with talking(uri, f"read the run {run}"):
        runs = find_runs(client, uri, bakeoff=None, runs=[run], experiment=None).runs
        latest = max(runs, key=lambda one: one.started)
        return Recipe(
            latest.model, latest.tag("model_type"), latest.params, f"{latest} of bake-off {latest.bakeoff}"
        )


def register_lists(
    tracking_uri: str | None, name: str, lists: ServedLists, evidence: Evidence, *, run_id: str
) -> Registered:
    """Make the lists a version of the registered model ``name``, the one with the alias ``champion``.

    The version that a promotion took the place of gets the alias ``previous``. No second version is made for a
    bake-off that has its own already, or that comes to the champion's lists again, made by the same model of the same
    data; and the champion of a later bake-off stays.

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
    registry = _registry_of(uri)
    client = connect(uri)
    with (
        talking(registry, f"register {evidence.model} as {name}"),
        _quiet(),
        tempfile.TemporaryDirectory(prefix="evalplugin-") as folder,
    ):
        arrays = Path(folder) / "lists.npz"
        lists.save(arrays)
        tags = _tags(evidence, arrays)
        model = _model(client, name) or _create(client, name)
        champion = _version_with(client, model, CHAMPION_ALIAS)
        now = Registered(
            name,
            "" if champion is None else str(champion.version),
            _text(model.aliases.get(PREVIOUS_ALIAS)),
            uri,
            None if registry == uri else registry,
        )
        if champion is not None and (stays := _stays(_tags_of(champion), tags)) is not None:
            return replace(now, **stays)
        new = _version_of(client, name, evidence.bakeoff)
        if new is None:
            files = Path(folder) / _FOLDER
            _save(lists, arrays, evidence, files)
            with talking(uri, f"log the files of {evidence.model}"):
                client.log_artifacts(run_id, str(files), _FOLDER)
            made = client.create_model_version(
                name,
                f"runs:/{run_id}/{_FOLDER}",
                run_id=run_id,
                tags={f"evalplugin.{key}": value for key, value in tags.items()},
                description=redact(evidence.description),
            )
            new = str(made.version)
        return _crown(client, now, new, is_other=evidence.outcome == "promote")


def _stays(held: Mapping[str, str], new: Mapping[str, str]) -> dict[str, Any] | None:
    """Return why a champion keeps its place, as fields of ``Registered``; None where it does not. Given: tags."""
    of = held.get("bakeoff", "")
    if of == new["bakeoff"]:
        return {}
    # A bake-off that is resumed late must not take the place of a later one. Ids begin with the time.
    if of > new["bakeoff"]:
        return {"later": of}
    return {"is_same": True} if all(held.get(key) == new[key] for key in _MADE_OF) else None


def _crown(client: MlflowClient, now: Registered, new: str, *, is_other: bool) -> Registered:
    """Move the aliases; the champion's last, so that there is one at any time."""
    if now.version and int(now.version) > int(new):  # somebody else's, put there since
        return replace(
            now, later=_tags_of(client.get_model_version(now.name, now.version)).get("bakeoff", "?")
        )
    # One that stays with newer lists does not take its own place: the way back still leads to the model before it.
    if now.version and is_other:
        now = replace(now, previous=now.version)
        client.set_registered_model_alias(now.name, PREVIOUS_ALIAS, now.version)
    client.set_registered_model_alias(now.name, CHAMPION_ALIAS, new)
    return replace(now, version=new)


def _registry_of(uri: str) -> str:
    """Return where the registered models of a tracking store are: with it, or where MLFLOW_REGISTRY_URI says."""
    own = os.environ.get(_REGISTRY, "").strip()
    return resolve_uri(own) if sqlite_path(own) else own.rstrip("/") or uri


def _version_with(client: MlflowClient, model: RegisteredModel, alias: str) -> ModelVersion | None:
    number = _text(model.aliases.get(alias))
    return None if number is None else client.get_model_version(model.name, number)


def _tags_of(version: ModelVersion) -> dict[str, str]:
    return {key.removeprefix("evalplugin."): value for key, value in version.tags.items()}


def _recipe(tags: Mapping[str, str], place: str) -> Recipe | None:
    """Return what the tags of a version say; None where they do not say all of it."""
    try:
        params = json.loads(tags["model_params"])
        origin = f"{place}: {tags['model']} of bake-off {tags['bakeoff']}"
        return Recipe(tags["model"], tags["model_type"], params, origin) if isinstance(params, dict) else None
    except (KeyError, ValueError):
        return None


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
    found = client.search_model_versions(f"tags.`evalplugin.bakeoff` = '{bakeoff}'")
    # Not every name fits into a query.
    return max((str(one.version) for one in found if one.name == name), key=int, default=None)


def _tags(evidence: Evidence, arrays: Path) -> dict[str, str]:
    from evalplugin._version import __version__

    return {
        "bakeoff": evidence.bakeoff,
        "model": evidence.model,
        "model_type": evidence.type,
        "model_params": json.dumps(evidence.params, sort_keys=True),
        "dataset": evidence.dataset,
        "data_digest": evidence.data_digest,
        "lists_digest": hashlib.sha256(arrays.read_bytes()).hexdigest()[:32],
        "outcome": evidence.outcome,
        "reason": shorten(redact(evidence.reason)),
        # NaN is no JSON, and what is undefined is no evidence.
        "metrics": json.dumps({m: value for m, value in evidence.metrics.items() if value == value}),
        "version": __version__,
    }


def _save(lists: ServedLists, arrays: Path, evidence: Evidence, folder: Path) -> None:
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
def _quiet() -> Iterator[None]:
    """Keep MLflow from telling what it checks and waits for, and what it thinks of its own classes."""
    with loggers_at(logging.WARNING, _CHATTY), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Any type hint is inferred as AnyType")
        yield


def _text(number: object) -> str | None:
    return None if number is None else str(number)
