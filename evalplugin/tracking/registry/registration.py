"""Registration of a recommender as a version of a registered model, with the aliases champion and previous."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin._version import __version__
from evalplugin.base.errors import TrackingError
from evalplugin.base.fingerprint import file_digest
from evalplugin.base.secrets import redact, redact_values
from evalplugin.config import ModelRecipe
from evalplugin.tracking.connection import attempt, connect, tracking_call
from evalplugin.tracking.location import WORKSPACE_VARIABLE, workspace
from evalplugin.tracking.names import CHAMPION_ALIAS, PREVIOUS_ALIAS, shorten_value
from evalplugin.tracking.read.uris import REGISTRY_VARIABLE, find_model, registry_uri, tags_of, version_with
from evalplugin.tracking.registry.served import ServedLists, save_package
from evalplugin.tracking.write.logged_models import link_version, logged_model

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import RegisteredModel

_FOLDER = "model"  # of a run's artifacts
_TIME_OF_ID = len("20260101-120000")
_IDENTITY = ("model_type", "model_params", "data_digest", "lists_digest", "version")  # tags of equal versions


@dataclass(frozen=True)
class Evidence:
    """The reasons why a model is registered, and its recipe, as plain values."""

    bakeoff: str
    model: ModelRecipe  # as tuned, if it was
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
    tracking_uri: str
    registry_uri: str | None = None  # where it is not the tracking store
    is_same: bool = False  # whether it was the champion before, with the same lists
    later: str | None = None  # its bake-off, where that is a later one; then no other version replaces it

    @property
    def command(self) -> str:
        """The shell command that serves the champion."""
        stores = {
            "MLFLOW_TRACKING_URI": self.tracking_uri,
            REGISTRY_VARIABLE: self.registry_uri,
            WORKSPACE_VARIABLE: workspace(self.tracking_uri) or workspace(self.registry_uri or ""),
        }
        named = [f"{key}={shlex.quote(redact(uri))}" for key, uri in stores.items() if uri is not None]
        model = shlex.quote(f"models:/{self.name}@{CHAMPION_ALIAS}")
        # Not 5000, where MLflow's own server or user interface is running.
        serve = f"mlflow models serve -m {model} --env-manager local --port 5001"
        return " ".join([*named, serve])


def register_lists(
    uri: str,
    name: str,
    lists: ServedLists,
    evidence: Evidence,
    *,
    run_id: str,
    model_run_id: str | None = None,
) -> Registered:
    """Register the lists as the version of the model ``name`` that has the alias ``champion``.

    The version that a promotion replaces gets the alias ``previous``. A bake-off gets one version at most, and none if
    its model, data and lists are the champion's; and the champion of a later bake-off stays.

    Args:
        uri: The tracking store; absolute.
        name: Of the registered model, which is created if it does not exist.
        lists: The lists that are served.
        evidence: For the version's tags and description.
        run_id: The summary run, which the version links to.
        model_run_id: The run of the model, whose logged model holds the files. Where it has none, or the registry is
            not the tracking store, the summary run holds them in its folder ``model``.

    Raises:
        TrackingError: The store cannot be reached or refuses, or a parameter of the model holds a credential, which
            would stand in the version's tags.
    """
    model = evidence.model
    if redact_values(model.params) != dict(model.params):
        raise TrackingError(
            f"{model.name} is not registered: its parameters hold a credential, which the registry would show"
        )
    registry = registry_uri(uri)
    client = connect(uri)
    with (
        tracking_call(registry, f"register {model.name} as {name}"),
        tempfile.TemporaryDirectory(prefix="evalplugin-") as folder,
    ):
        arrays = Path(folder) / "lists.npz"
        lists.save(arrays)
        tags = _tags(evidence, arrays)
        registered = find_model(client, name) or _create(client, name)
        champion = version_with(client, registered, CHAMPION_ALIAS)
        version = "" if champion is None else str(champion.version)
        now = Registered(name, version, uri, None if registry == uri else registry)
        held = {} if champion is None else tags_of(champion)
        if champion is not None:
            of = held.get("bakeoff", "")
            if of == evidence.bakeoff:
                return now
            # A bake-off that is resumed late must not replace a later one. Ids begin with the time, to the second.
            if of[:_TIME_OF_ID] > evidence.bakeoff[:_TIME_OF_ID]:
                return replace(now, later=of)
            if all(held.get(key) == tags[key] for key in _IDENTITY):
                return replace(now, is_same=True)
        # Not every name fits into a query.
        versions = client.search_model_versions(f"tags.`evalplugin.bakeoff` = '{evidence.bakeoff}'")
        numbers = [str(version.version) for version in versions if version.name == name]
        new = max(numbers, key=int, default=None)
        if new is None:
            with tracking_call(uri, f"log the files of {model.name}"):
                logged = None
                if model_run_id is not None and registry == uri:
                    logged = logged_model(client, model_run_id)
                package = Path(folder) / _FOLDER
                save_package(lists, arrays, tags, package)
                if logged is None:
                    client.log_artifacts(run_id, str(package), _FOLDER)
                else:
                    client.log_model_artifacts(logged.model_id, str(package))
                    # MLflow's own store of models forgets the ``model_id`` that a version is made with.
                    tags["logged_model"] = str(logged.model_id)
            made = client.create_model_version(
                name,
                f"runs:/{run_id}/{_FOLDER}" if logged is None else logged.artifact_location,
                run_id=run_id,
                tags={f"evalplugin.{key}": value for key, value in tags.items()},
                description=redact(evidence.description),
                model_id=None if logged is None else logged.model_id,
            )
            new = str(made.version)
            if logged is not None:
                link_version(client, logged, made)
        if now.version and int(now.version) > int(
            new
        ):  # another process has made a later version the champion
            return replace(now, later=held.get("bakeoff", "?"))
        # A champion that stays is not its own predecessor: ``previous`` still has the model before it.
        if now.version and evidence.outcome == "promote":
            client.set_registered_model_alias(name, PREVIOUS_ALIAS, now.version)
        client.set_registered_model_alias(name, CHAMPION_ALIAS, new)  # last, so that there is always one
        return replace(now, version=new)


def _create(client: MlflowClient, name: str) -> RegisteredModel:
    description = "Lists of recommendations: the models that evalplugin's gate promoted."
    made = attempt("RESOURCE_ALREADY_EXISTS", client.create_registered_model, name, description=description)
    return made or client.get_registered_model(name)  # another bake-off was faster


def _tags(evidence: Evidence, arrays: Path) -> dict[str, str]:
    model = evidence.model
    return {
        "bakeoff": evidence.bakeoff,
        "model": model.name,
        "model_type": model.type,
        "model_params": json.dumps(model.params, sort_keys=True),
        "dataset": evidence.dataset,
        "data_digest": evidence.data_digest,
        "lists_digest": file_digest(arrays)[:32],
        "outcome": evidence.outcome,
        "reason": shorten_value(redact(evidence.reason)),
        # JSON has no NaN, and undefined values are no evidence.
        "metrics": json.dumps({m: value for m, value in evidence.metrics.items() if value == value}),
        "version": __version__,
    } | ({"model_inputs": json.dumps(model.inputs)} if model.inputs else {})
