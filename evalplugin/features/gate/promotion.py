"""Promotion: the champion among a config's models, the gate's decision, the winner registered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evalplugin.base.errors import DataError, EvalpluginError, ModelError, TrackingError
from evalplugin.comparison.contest import Contest
from evalplugin.components.parameters import as_mapping
from evalplugin.config import CheckedConfig, ModelRecipe
from evalplugin.config.gate_checks import CHAMPION_ALIAS, champion_of
from evalplugin.config.grid import parameter_at, params_at
from evalplugin.config.inputs import inputs_at
from evalplugin.config.names import CHAMPION
from evalplugin.data import Interactions
from evalplugin.execution.engines import Call, Session, run_calls
from evalplugin.execution.isolation import TaskFailure, last_line
from evalplugin.execution.results import Bakeoff, DataSplit
from evalplugin.features.base import Results, Running
from evalplugin.features.gate.champion import Recipe, recipe_of_registered, recipe_of_run
from evalplugin.features.gate.decide import (
    check_challengers,
    choose_contest,
    decide,
    gate_without_champion,
    no_champion_note,
)
from evalplugin.features.gate.decision import Decision
from evalplugin.features.gate.ledger import Ledger
from evalplugin.features.gate.report import decision_markdown
from evalplugin.models import MODELS
from evalplugin.tracking.registry.registration import Evidence, Registered, register_lists
from evalplugin.tracking.registry.served import ServedLists, make_lists


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
        DataError: The champion's run does not exist, or an input that it declares; it would open what MLflow names,
            without being trusted; or no model is left to challenge the baseline.
        TrackingError: The store cannot be reached, or lacks the type or the parameters of the champion.
        EvalpluginError: The champion's type or parameters are unknown to this installation.
    """
    gate = config.spec.gate
    if gate is None:
        return None
    baseline = config.spec.compare.baseline
    champion = champion_of(gate, config.spec.registered, baseline)
    assert champion is not None  # checked with the config
    if isinstance(champion, str):
        return GatedConfig(config, champion)
    if champion.run is not None:
        recipe = recipe_of_run(tracking_uri, champion.run)
    else:
        assert champion.registry is not None and baseline is not None  # checked with the config
        found = recipe_of_registered(tracking_uri, champion.registry)
        if found is None:
            check_challengers(gate, baseline)
            note = no_champion_note(champion.registry, baseline)
            return GatedConfig(config, baseline, (note,), is_first=True)
        recipe = found
    same = next((m for m in config.models if _is_same(m, recipe.type, recipe.params)), None)
    if same is None and not champion.trust and not any(_is_tuned_as(m, recipe) for m in config.models):
        _check_harmless(recipe)
    # A parameter that is newer than the recipe has its default.
    params = _resolved(recipe.type, recipe.params, recipe.origin)
    same = same or next((m for m in config.models if _is_same(m, recipe.type, params)), None)
    if same is not None:
        note = f"the champion is {same.name}, as {recipe.origin}"
        return GatedConfig(config, same.name, (note,))
    for text in recipe.inputs:
        try:
            inputs_at(text, config.folder)
        except DataError as error:
            raise DataError(f"inputs of the champion ({recipe.origin}): {error}") from None
    models = (*config.models, ModelRecipe(CHAMPION, recipe.type, params, recipe.inputs))
    note = f"the champion is {recipe.type}, fitted anew, as {recipe.origin}"
    return GatedConfig(replace(config, models=models), CHAMPION, (note,))


def _is_same(model: ModelRecipe, type: str, params: Mapping[str, Any]) -> bool:
    # A tuned model has other parameters than its defaults in the end, unless by chance.
    return not model.space and model.type == type and dict(model.params) == dict(params)


def _is_tuned_as(model: ModelRecipe, recipe: Recipe) -> bool:
    """Return whether a recipe is one that the search of a config's model may find, or such a one with other numbers."""
    tried = {key: (space, parameter_at(recipe.params, key)) for key, space in (model.space or {}).items()}
    # Numbers name nothing that could be opened: a range may have been another when they were tried.
    tuned = {key: at for key, (space, at) in tried.items() if isinstance(at, int | float) or space.holds(at)}
    is_found = model.type == recipe.type and params_at(model.params, tuned) == dict(recipe.params)
    return is_found and list(model.inputs) == list(recipe.inputs)


def _check_harmless(recipe: Recipe) -> None:
    """Check that a recipe from MLflow opens nothing where it is fitted: whoever may write tags chooses it.

    Raises:
        DataError: It runs code that is not ours, or names a program, a file or a deployed model.
    """
    if recipe.type not in MODELS.names():
        return  # refused as unknown
    if not MODELS.has_own(recipe.type):
        why = f"{recipe.type} is a plugin's model, which may open whatever its parameters name"
    elif hasattr(MODELS.entry(recipe.type).cls, "recommend_task"):
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
        f"{why}. It is {json.dumps(shown, ensure_ascii=False)}. If that is what you want, add this model to `models`, "
        f"or trust all who may write there by `gate: {{champion: {{trust: true}}}}`, beside its run or registry if the "
        f"config names one"
    )


def decide_bakeoff(
    gated: GatedConfig, contests: Sequence[Contest], bakeoff: Bakeoff, tracking_uri: str
) -> Decision:
    """Return the decision of the gate on the contests of a bake-off of ``gated.config``.

    Raises:
        DataError: There is no contest on the dataset and split of the gate.
        DataError: With ``gate.decisions``, the count of earlier decisions is damaged.
        TrackingError: With ``gate.decisions``, the store that counts them cannot be reached.
    """
    gate = gated.config.spec.gate
    assert gate is not None
    if gated.is_first:
        gate = gate_without_champion(gate)
    contest = choose_contest(contests, gate)
    by_budget = partial(decide, contest, gate, gated.champion, gated.notes)
    if gate.decisions is None:
        decision = by_budget()
    else:
        ledger = Ledger.open(tracking_uri, bakeoff.experiment, contest.dataset, contest.split, bakeoff.id)
        decision = ledger.decide(gate.decisions, by_budget)
    note = _note_on_old_lists(gated, decision)
    return decision if note is None else replace(decision, notes=(*decision.notes, note))


def _note_on_old_lists(gated: GatedConfig, decision: Decision) -> str | None:
    """Return a note that the registered lists stay as they are; None where they are replaced or there are none."""
    register = gated.config.spec.registered
    if register is None or gated.is_first or decision.outcome == "promote":
        return None
    if decision.champion_stays and register.refresh:
        return None
    why = "nothing could be judged" if decision.outcome == "refuse" else "register.refresh is false"
    return (
        f"{why}: the lists of {register.name}@{CHAMPION_ALIAS} stay those of the data that it was fitted on, and users "
        f"meet ever more of their items"
    )


def register_winner(gated: GatedConfig, running: Running, results: Results) -> Registered | None:
    """Return the version that the winner of a bake-off became in the registry; None where nothing is registered.

    That is the promoted challenger; or, unless ``register.refresh`` is false, the champion that stays. It is fitted
    again, now on all interactions (of the last window, where the split has one), with the same seed.

    Raises:
        EngineError: The engine cannot run the fit.
        ModelError: The model cannot be fitted on all interactions, or not within the limits.
        TrackingError: The store cannot be reached or refuses.
    """
    workspace, result = running.workspace, results.result
    decision: Decision = results.values["decision"]
    assert results.links is not None
    config, register = gated.config, gated.config.spec.registered
    # A baseline in the role of the champion is none, and is not refreshed.
    stays = decision.champion if decision.champion_stays and not gated.is_first else None
    if register is None or (winner := decision.promoted or (stays if register.refresh else None)) is None:
        return None
    recipe = next(m for m in config.models if m.name == winner)
    place = DataSplit.of(decision)
    won, run_id = next(
        (model, run_id)
        for model, run_id in zip(result.models, results.run_ids, strict=True)
        if model.model == winner and DataSplit.of(model.data) == place
    )
    splitter = next(split.component for split in config.splits if split.name == decision.split)
    newest: Callable[[Interactions], Interactions] = getattr(splitter, "newest", lambda data: data)
    data, recommend = newest(won.data.full), config.spec.recommend
    recipe = replace(recipe, params=won.params)  # as they were tuned
    arguments = {
        "model": recipe,
        "recommend": recommend.model_copy(update={"n": register.n or recommend.n}),
        "seed": config.spec.seed,
        "folder": config.folder,
    }
    observer = workspace.observer
    with (
        observer.progress(f"fit {winner} on all data, and list for every user", data.n_users) as advance,
        workspace.open_session(running.inputs, workers=1) as session,
    ):
        try:
            lists = _lists(session, data, arguments, advance)
        except ModelError as error:
            raise ModelError(f"{winner} cannot be registered: fitted on all data, {error}") from error
    evidence = Evidence(
        bakeoff=result.bakeoff.id,
        model=recipe,
        dataset=decision.dataset,
        data_digest=data.digest,
        outcome=decision.outcome,
        reason=decision.reason,
        metrics={} if won.per_user is None else dict(won.per_user.means),
        description=decision_markdown(decision),
    )
    with observer.progress(f"register {winner} as {register.name}"):
        registered = register_lists(
            workspace.uri, register.name, lists, evidence,
            run_id=results.links.summary_run_id, model_run_id=run_id,
        )  # fmt: skip
    version = f"version {registered.version} of {registered.name}"
    if registered.later is not None:
        observer.report(
            f"{winner} is not registered: {version}, its {CHAMPION_ALIAS}, is of the later bake-off {registered.later}"
        )
        return None
    how = f"registered: {version}, now its {CHAMPION_ALIAS}"
    if registered.is_same:
        how = f"not registered again: {version}, its {CHAMPION_ALIAS}, has the same lists"
    observer.report(f"{winner} is {how}; to serve it: {registered.command}")
    return registered


def _lists(
    session: Session, data: Interactions, arguments: dict[str, Any], progress: Callable[[int], None]
) -> ServedLists:
    rest = arguments | ({"progress": progress} if session.in_process else {})
    ((_, made),) = run_calls(session, [Call(0, make_lists, [session.put({"data": data})], rest)])
    if isinstance(made, TaskFailure):
        raise ModelError(f"it failed: {last_line(made.error)}")
    assert isinstance(made, ServedLists)
    return made


def _resolved(type: str, params: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Return the parameters with the defaults of this version, as the config's models have them."""
    try:
        return as_mapping(MODELS.create(type, params))
    except EvalpluginError as error:
        raise TrackingError(
            f"the champion ({origin}) cannot be fitted here: {error}; a plugin's model needs its plugin"
        ) from None
