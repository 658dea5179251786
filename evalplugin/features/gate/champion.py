"""The champion of a config's gate: a model of the config, or type and parameters of a registered model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evalplugin.base.errors import DataError, EvalpluginError, TrackingError, did_you_mean
from evalplugin.base.text import json_of
from evalplugin.components.parameters import as_mapping
from evalplugin.config import CheckedConfig, ModelRecipe
from evalplugin.config.components import parameter_at, params_at
from evalplugin.features.gate.decide import check_challengers, no_champion_note
from evalplugin.features.gate.section import champion_of
from evalplugin.features.words import CHAMPION
from evalplugin.models import MODELS, Recommender, defines
from evalplugin.tracking.connection import FAIL_FAST, store_exists, tracking_call
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.names import CHAMPION_ALIAS
from evalplugin.tracking.read.uris import find_model, registry_uri, tags_of, version_with

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


@dataclass(frozen=True)
class GatedConfig:
    """A config with a gate: its models include the champion."""

    config: CheckedConfig
    champion: str  # the model's name
    notes: tuple[str, ...] = ()  # the origin of the champion, for the decision
    is_first: bool = False  # whether the baseline takes the role of a champion, as none is registered yet


def with_champion(config: CheckedConfig, tracking_uri: str | None = None) -> GatedConfig | None:
    """Return a config with its gate's champion among the models; None without a gate. Nothing is read or fitted.

    A champion from MLflow takes part with its type and parameters, fitted on this bake-off's data like any other
    model: under the name ``champion``, or, where the config has a model of the same type and parameters, as that one.
    As long as no model is registered, the baseline takes the role of the champion.

    Raises:
        DataError: The champion would open what MLflow names, or no model is left to challenge the baseline.
        TrackingError: The store cannot be reached, or lacks the type or the parameters of the champion.
        EvalpluginError: The champion's type or parameters are unknown to this installation.
    """
    gate = config.section("gate")
    if gate is None:
        return None
    baseline = config.spec.compare.baseline
    champion = champion_of(gate, config.section("register"), baseline)
    assert champion is not None  # checked with the config
    if isinstance(champion, str):
        return GatedConfig(config, champion)
    assert baseline is not None  # checked with the config
    recipe = recipe_of_registered(tracking_uri, champion.registry)
    if recipe is None:
        check_challengers(gate, baseline)
        note = no_champion_note(champion.registry, baseline)
        return GatedConfig(config, baseline, (note,), is_first=True)
    same = next((m for m in config.models if _is_same(m, recipe.type, recipe.params)), None)
    if same is None and not any(_is_tuned_as(model, recipe) for model in config.models):
        _check_harmless(recipe)
    # A parameter that is newer than the recipe has its default.
    params = _resolved(recipe.type, recipe.params, recipe.origin)
    same = same or next((m for m in config.models if _is_same(m, recipe.type, params)), None)
    if same is not None:
        note = f"the champion is {same.name}, as {recipe.origin}"
        return GatedConfig(config, same.name, (note,))
    models = (*config.models, replace(recipe, name=CHAMPION, params=params))
    note = f"the champion is {recipe.type}, fitted anew, as {recipe.origin}"
    return GatedConfig(replace(config, models=models), CHAMPION, (note,))


def _is_same(model: ModelRecipe, type: str, params: Mapping[str, Any]) -> bool:
    # A tuned model has other parameters than its defaults in the end, unless by chance.
    return not model.space and model.type == type and dict(model.params) == dict(params)


def _is_tuned_as(model: ModelRecipe, recipe: ModelRecipe) -> bool:
    """Return whether a recipe is one that the search of a config's model may find, or such a one with other numbers."""
    tried = {key: (space, parameter_at(recipe.params, key)) for key, space in (model.space or {}).items()}
    # Numbers name nothing that could be opened: a range may have been another when they were tried.
    tuned = {key: at for key, (space, at) in tried.items() if isinstance(at, int | float) or space.holds(at)}
    is_found = model.type == recipe.type and params_at(model.params, tuned) == dict(recipe.params)
    return is_found and list(model.inputs) == list(recipe.inputs)


def _check_harmless(recipe: ModelRecipe) -> None:
    """Check that a recipe from MLflow opens nothing where it is fitted: whoever may write tags chooses it.

    Raises:
        DataError: It runs code that is not ours, or names a program, a file or a deployed model.
    """
    if recipe.type not in MODELS.names():
        return  # refused as unknown
    if not MODELS.has_own(recipe.type):
        why = f"{recipe.type} is a plugin's model, which may open whatever its parameters name"
    elif defines(MODELS.entry(recipe.type).cls, Recommender.recommend_task):
        why = f"{recipe.type} runs a program, reads files or loads a deployed model, as its parameters say"
    elif recipe.inputs:
        why = "it declares inputs, which are opened to compare them"
    else:
        return
    shown = {"type": recipe.type, "params": dict(recipe.params)}
    if recipe.inputs:
        shown["inputs"] = list(recipe.inputs)
    raise DataError(
        f"the champion ({recipe.origin}) is not fitted: whoever may write to the tracking store has named it, and "
        f"{why}. It is {json.dumps(shown, ensure_ascii=False)}. If that is what you want, add this model to `models`"
    )


def _resolved(type: str, params: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Return the parameters with the defaults of this version, as the config's models have them."""
    try:
        return as_mapping(MODELS.create(type, params))
    except EvalpluginError as error:
        raise TrackingError(
            f"the champion ({origin}) cannot be fitted here: {error}; a plugin's model needs its plugin"
        ) from None


def recipe_of_registered(tracking_uri: str | None, champion: str) -> ModelRecipe | None:
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


def _recipe(version: ModelVersion, origin: str) -> ModelRecipe | None:
    """Return the recipe in the tags of a version; None where they are incomplete."""
    tags = tags_of(version)
    try:
        params, inputs = json_of(tags["model_params"]), json_of(tags.get("model_inputs", "[]"))
        origin = f"{origin}: {tags['model']} of bake-off {tags['bakeoff']}"
    except (KeyError, ValueError):
        return None
    if not isinstance(params, dict) or not isinstance(inputs, list):
        return None
    return ModelRecipe(tags["model"], tags["model_type"], params, tuple(map(str, inputs)), origin=origin)
