"""Checks of ``gate:`` and ``register:`` against the rest of the config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evalplugin.base.errors import EvalpluginError, KeyPath, Problem
from evalplugin.config.checked import ModelRecipe
from evalplugin.config.checks import Checks
from evalplugin.config.gate import ChampionSpec, Gate, Register
from evalplugin.config.names import CHAMPION, ConfigNames, unknown_name, unlisted_metric
from evalplugin.metrics import MetricSpec, parse
from evalplugin.models import MODELS

CHAMPION_ALIAS, PREVIOUS_ALIAS = "champion", "previous"  # of versions of a registered model


def champion_of(gate: Gate, register: Register | None, baseline: str | None) -> str | ChampionSpec | None:
    """Return the champion that a gate names, or else the model that is registered, or else the baseline."""
    if register is not None and (gate.champion is None or gate.champion == ChampionSpec(trust=True)):
        return _champion_in(register, trust=gate.champion is not None)
    return baseline if gate.champion is None else gate.champion


def check_gate(checks: Checks, names: ConfigNames, models: Iterable[ModelRecipe]) -> None:
    """Add the problems of ``gate`` and ``register`` to the others, where the sections are well formed.

    Each model that the gate may promote must be one that can be fitted on all data, as it is to be registered.
    """
    gate, register = checks.section("gate", Gate), checks.section("register", Register)
    if gate is None:
        # A malformed gate is a gate: that there is none must not be reported.
        if register is not None and "gate" not in checks.document.data:
            checks.add(("register",), "needs a gate: only what the gate promotes is registered")
        return
    checks.extend(_problems(gate, register, names), ())
    for model in models:
        may_win = gate.challengers is None or model.name in gate.challengers
        if register is not None and may_win and not getattr(MODELS.entry(model.type).cls, "learns", True):
            checks.add(
                checks.nested(model.path, "type"),
                f"{model.type!r} learns nothing, so that it cannot be fitted on all data and registered as "
                f"{register.name}, if the gate promotes it: name the other models under gate.challengers, or leave "
                f"register out",
            )


def _problems(gate: Gate, register: Register | None, names: ConfigNames) -> Iterator[Problem]:
    champion = champion_of(gate, register, names.baseline) if names.knows_champion else gate.champion
    if names.knows_champion:
        yield from _champion(champion, gate, register, names)
    for position, model in enumerate(gate.challengers or ()):
        yield from unknown_name("model", model, names.models, ("gate", "challengers", position))
        if model == champion:
            yield Problem(("gate", "challengers", position), f"{model!r} is the champion")
    for key, chosen, defined in (
        ("dataset", gate.dataset, names.datasets),
        ("split", gate.split, names.splits),
    ):
        if chosen is not None:
            yield from unknown_name(key, chosen, defined, ("gate", key))
        elif len(defined) > 1:
            yield Problem(
                ("gate",), f"names no {key} to decide on, and there are several: {', '.join(defined)}"
            )
    if gate.metric is not None:
        yield from _metric(gate.metric, names.metrics, ("gate", "metric"), per_user=True)
    guardrails = gate.guardrails
    for metric in guardrails.metrics:
        yield from _metric(metric, names.metrics, ("gate", "guardrails", "metrics", metric), at_key=True)
    for segment, margin in guardrails.segments.items():
        path = ("gate", "guardrails", "segments", segment)
        yield from unknown_name("segment", segment, names.segments, path, at_key=True)
        if margin.metric is not None:
            yield from _metric(margin.metric, names.metrics, (*path, "metric"), per_user=True)


def _champion(
    champion: str | ChampionSpec | None, gate: Gate, register: Register | None, names: ConfigNames
) -> Iterator[Problem]:
    is_named = gate.champion is not None
    path = ("gate", "champion") if is_named else ("gate",)
    if champion is None:
        yield Problem(
            path, "names no champion; give one, or a register, or a compare.baseline to stand for it"
        )
        return
    if isinstance(champion, str):
        shown = repr(champion)
        if register is None:
            yield from unknown_name("model", champion, names.models, path)
    else:
        shown = f"the run {champion.run!r}" if champion.registry is None else repr(champion.registry)
        subject = "" if is_named else f"the champion {champion.registry} "
        if CHAMPION in names.models:
            yield Problem(
                path, f"{subject}comes from MLflow and is called {CHAMPION!r}: call no other model so"
            )
        if champion.registry is not None and names.baseline is None:
            yield Problem(
                path,
                f"{subject}is a registered model, and until there is one compare.baseline stands for it: name one",
            )
        if champion == ChampionSpec(trust=True):
            yield Problem(path, "needs a run or a registry, one of them, where no register names the model")
    own = None if register is None else _champion_in(register).registry
    if own is not None and getattr(champion, "registry", None) != own:
        yield Problem(
            path,
            f"is {shown}, but what is promoted takes the place of {own}, which it would never be compared "
            f"with; leave champion out",
        )


def _champion_in(register: Register, *, trust: bool = False) -> ChampionSpec:
    return ChampionSpec(registry=f"{register.name}@{CHAMPION_ALIAS}", trust=trust)


def _metric(
    text: str, metrics: Iterable[MetricSpec], path: KeyPath, *, per_user: bool = False, at_key: bool = False
) -> Iterator[Problem]:
    try:
        metric = parse(text)
    except EvalpluginError as error:
        yield Problem(path, str(error), at_key)
        return
    yield from unlisted_metric(metric, metrics, path, at_key=at_key)
    if not metric.direction:
        yield Problem(
            path, f"of {metric.name!r} neither more nor less is better: nothing can be decided by it", at_key
        )
    elif per_user and metric.metric.scope != "user":
        yield Problem(
            path,
            f"{metric.name!r} is one number for all users: a decision takes a value for each user",
            at_key,
        )
