"""The sections ``gate`` and ``register``, and their checks against the rest of the config."""

from __future__ import annotations

from collections.abc import Iterable

from evalplugin.base.errors import EvalpluginError, KeyPath
from evalplugin.config.checked import ModelRecipe
from evalplugin.config.checks import Checks
from evalplugin.config.schema import FeatureSection
from evalplugin.config.sections import Compare
from evalplugin.features.gate.schema import ChampionSpec, Gate, Register
from evalplugin.features.words import CHAMPION
from evalplugin.metrics import MetricSpec, parse
from evalplugin.metrics.given import known_metric
from evalplugin.models import MODELS
from evalplugin.tracking.names import CHAMPION_ALIAS


def champion_of(gate: Gate, register: Register | None, baseline: str | None) -> str | ChampionSpec | None:
    """Return the champion that a gate names, or else the model that is registered, or else the baseline."""
    if gate.champion is not None:
        return gate.champion
    return baseline if register is None else _champion_in(register)


def check_gate(checks: Checks, models: Iterable[ModelRecipe], primary: MetricSpec | None) -> None:
    """Add the problems of ``gate`` and ``register`` to the others, where the sections are well formed.

    Each model that the gate may promote must be one that can be fitted on all data, as it is to be registered.
    """
    gate, register = checks.section("gate", Gate), checks.section("register", Register)
    baseline = (checks.section("compare", Compare) or Compare()).baseline
    if gate is None:
        # A malformed gate is a gate: that there is none must not be reported.
        if register is not None and "gate" not in checks.document.data:
            checks.add(("register",), "needs a gate: only what the gate promotes is registered")
        return
    _check_names(checks, gate, register, baseline)
    if gate.metric is None and primary is not None and (problem := _undecidable(primary, per_user=True)):
        checks.add(("gate",), f"decides by the primary metric: {problem}; name another under gate.metric")
    for segment, margin in gate.guardrails.segments.items():
        text = margin.metric or gate.metric
        metric = primary if text is None else known_metric(text)
        if metric is not None and not metric.is_by_unit:
            checks.add(
                ("gate", "guardrails", "segments", segment),
                f"{metric.name!r} is a ratio of sums, of which groups have no means: name another under metric, such "
                f"as {metric.sources[0].name}",
            )
    for model in models:
        may_win = gate.challengers is None or model.name in gate.challengers
        if register is not None and may_win and not MODELS.entry(model.type).cls.learns:
            checks.add(
                checks.nested(model.path, "type"),
                f"{model.type!r} learns nothing, so that it cannot be fitted on all data and registered as "
                f"{register.name}, if the gate promotes it: name the other models under gate.challengers, or leave "
                f"register out",
            )


def _check_names(checks: Checks, gate: Gate, register: Register | None, baseline: str | None) -> None:
    champion = gate.champion
    if not checks.malformed & {"compare", "register"}:
        champion = champion_of(gate, register, baseline)
        _check_champion(checks, champion, gate, register, baseline)
    for position, model in enumerate(gate.challengers or ()):
        checks.check_name("model", model, ("gate", "challengers", position))
        if model == champion:
            checks.add(("gate", "challengers", position), f"{model!r} is the champion")
    for kind, chosen in (("dataset", gate.dataset), ("split", gate.split)):
        if chosen is not None:
            checks.check_name(kind, chosen, ("gate", kind))
        elif len(defined := checks.names[kind]) > 1:
            several = ", ".join(defined)
            checks.add(("gate",), f"names no {kind} to decide on, and there are several: {several}")
    if gate.metric is not None:
        _check_metric(checks, gate.metric, ("gate", "metric"), per_user=True)
    guardrails = gate.guardrails
    for metric in guardrails.metrics:
        _check_metric(checks, metric, ("gate", "guardrails", "metrics", metric), at_key=True)
    for segment, margin in guardrails.segments.items():
        path = ("gate", "guardrails", "segments", segment)
        checks.check_name("segment", segment, path, at_key=True)
        if margin.metric is not None:
            _check_metric(checks, margin.metric, (*path, "metric"), per_user=True)


def _check_champion(
    checks: Checks,
    champion: str | ChampionSpec | None,
    gate: Gate,
    register: Register | None,
    baseline: str | None,
) -> None:
    is_named = gate.champion is not None
    path = ("gate", "champion") if is_named else ("gate",)
    if champion is None:
        checks.add(path, "names no champion; give one, or a register, or a compare.baseline to stand for it")
        return
    if isinstance(champion, str):
        shown = repr(champion)
        if register is None:
            checks.check_name("model", champion, path)
    else:
        shown = repr(champion.registry)
        subject = "" if is_named else f"the champion {champion.registry} "
        if CHAMPION in checks.names["model"]:
            checks.add(path, f"{subject}comes from MLflow and is called {CHAMPION!r}: call no other model so")
        if baseline is None:
            checks.add(
                path,
                f"{subject}is a registered model, and until there is one compare.baseline stands for it: name one",
            )
    own = None if register is None else _champion_in(register).registry
    if own is not None and getattr(champion, "registry", None) != own:
        checks.add(
            path,
            f"is {shown}, but what is promoted takes the place of {own}, which it would never be compared "
            f"with; leave champion out",
        )


def _champion_in(register: Register) -> ChampionSpec:
    return ChampionSpec(registry=f"{register.name}@{CHAMPION_ALIAS}")


def _check_metric(
    checks: Checks, text: str, path: KeyPath, *, per_user: bool = False, at_key: bool = False
) -> None:
    try:
        metric = parse(text)
    except EvalpluginError as error:
        checks.add(path, str(error), at_key)
        return
    checks.is_listed(metric, path, at_key=at_key)
    if problem := _undecidable(metric, per_user=per_user):
        checks.add(path, problem, at_key)


def _undecidable(metric: MetricSpec, *, per_user: bool) -> str:
    """Return why nothing can be decided by a metric; empty where something can."""
    if not metric.direction:
        return f"of {metric.name!r} neither more nor less is better: nothing can be decided by it"
    if per_user and metric.metric.scope != "user":
        return f"{metric.name!r} is one number for all users: a decision takes a value for each user"
    return ""


SECTIONS = (
    FeatureSection(
        "gate",
        Gate,
        "decision",
        segments=lambda gate: gate.guardrails.segments,
        # How sure a decision is depends on their number.
        of_all_models="the gate decides nothing: this is a part of the models of the config",
    ),
    FeatureSection("register", Register, "decision", of_all_models=""),
)
CHECKS = {"gate": check_gate}
