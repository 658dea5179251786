"""The champion: type and parameters of a registered model or of a logged run, to fit it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalplugin.base.errors import DataError, TrackingError, did_you_mean
from evalplugin.config.gate_checks import CHAMPION_ALIAS
from evalplugin.tracking.connection import FAIL_FAST, existing_store, store_exists, tracking_call
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.read.runs import find_runs
from evalplugin.tracking.read.uris import find_model, registry_uri, tags_of, version_with

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


@dataclass(frozen=True)
class Recipe:
    """Type and parameters of a model, to fit it again."""

    model: str  # its name in a bake-off
    type: str
    params: Mapping[str, Any]
    origin: str  # where it was found, for messages
    inputs: tuple[str, ...] = ()  # that it declares, as in ``ModelRecipe``


def recipe_of_registered(tracking_uri: str | None, champion: str) -> Recipe | None:
    """Return the recipe of a registered model's ``name@alias``; None where there is no such model or alias yet.

    Raises:
        DataError: The model has other aliases, and ``alias`` is not ``champion``.
        TrackingError: The store cannot be reached, or the version is not one that evalplugin registered.
    """
    uri = resolve_uri(tracking_uri)
    registry = registry_uri(uri)
    if not store_exists(registry):
        return None
    name, _, alias = champion.partition("@")
    with tracking_call(registry, f"look up the registered model {champion}", settings=FAIL_FAST):
        from mlflow import MlflowClient

        # A client makes the tracking store that it is given, if it is not there yet.
        client = MlflowClient(uri if store_exists(uri) else registry)
        model = find_model(client, name)
        version = None if model is None else version_with(client, model, alias)
    # Without a champion the baseline takes its part; a mistyped alias must not lead to that.
    if model is not None and version is None and alias != CHAMPION_ALIAS and model.aliases:
        near = did_you_mean(alias, sorted(model.aliases), noun="there are")
        raise DataError(f"the registered model {name!r} has no alias {alias!r}{near}")
    if version is None:
        return None
    recipe = _recipe(version, f"{champion}, version {version.version}")
    if recipe is None:
        raise TrackingError(
            f"version {version.version} of the registered model {name!r}, its {alias}, was not registered by "
            f"evalplugin: its tags do not say how to fit it anew; choose another name (register.name, "
            f"gate.champion.registry), or give the alias {alias} to a version that evalplugin registered, or to none"
        )
    return recipe


def recipe_of_run(tracking_uri: str | None, run: str) -> Recipe:
    """Return the recipe of a model's run, given its id or name, or the model's name: then of its latest run.

    Raises:
        DataError: There is no such run.
        TrackingError: The store cannot be reached, or the run does not say how to fit its model anew.
    """
    with existing_store(tracking_uri, f"read the run {run}") as client:
        latest = max(find_runs(client, runs=[run]).runs, key=lambda logged: logged.started)
        origin = f"{latest} of bake-off {latest.bakeoff}"
        recipe = latest.recipe
        return Recipe(latest.model, latest.tag("model_type"), recipe.params, origin, recipe.inputs)


def _recipe(version: ModelVersion, origin: str) -> Recipe | None:
    """Return the recipe in the tags of a version; None where they are incomplete."""
    tags = tags_of(version)
    try:
        params, inputs = json.loads(tags["model_params"]), json.loads(tags.get("model_inputs", "[]"))
        origin = f"{origin}: {tags['model']} of bake-off {tags['bakeoff']}"
    except (KeyError, ValueError):
        return None
    if not isinstance(params, dict) or not isinstance(inputs, list):
        return None
    return Recipe(tags["model"], tags["model_type"], params, origin, tuple(map(str, inputs)))
