"""The names in ``gate:`` and ``register:`` against the rest of the config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evalplugin.base.errors import EvalpluginError, Problem, did_you_mean
from evalplugin.config.gate import ChampionSpec, Gate, Register
from evalplugin.metrics import MetricSpec, parse

__all__ = ["CHAMPION", "CHAMPION_ALIAS", "PREVIOUS_ALIAS", "Known", "champion_of", "problems_of_gate"]

CHAMPION = "champion"  # what a champion from MLflow is called among the models
CHAMPION_ALIAS, PREVIOUS_ALIAS = "champion", "previous"  # of versions of a registered model


@dataclass(frozen=True)
class Known:
    """What the rest of a config names."""

    models: Sequence[str]
    metrics: Sequence[MetricSpec]
    datasets: Sequence[str]
    splits: Sequence[str]
    segments: Sequence[str]
    baseline: str | None
    # False where the sections that say who is the champion are not well formed.
    knows_champion: bool = True


def champion_of(gate: Gate, register: Register | None, baseline: str | None) -> str | ChampionSpec | None:
    """Return the champion that a gate names, or else the model that is registered, or else the baseline."""
    if gate.champion is not None:
        return gate.champion
    if register is not None:
        return _champion_in(register)
    return baseline


def problems_of_gate(gate: Gate | None, register: Register | None, known: Known) -> Iterator[Problem]:
    """Yield what is wrong in the two sections, as far as the rest of the config can tell."""
    if gate is None:
        if register is not None:
            yield Problem(("register",), "needs a gate: only what the gate promotes is registered")
        return
    champion = champion_of(gate, register, known.baseline) if known.knows_champion else gate.champion
    if known.knows_champion:
        yield from _champion(champion, gate, register, known)
    for place, model in enumerate(gate.challengers or ()):
        yield from _named("model", model, known.models, ("gate", "challengers", place))
        if model == champion:
            yield Problem(("gate", "challengers", place), f"{model!r} is the champion")
    for key, chosen, names in (
        ("dataset", gate.dataset, known.datasets),
        ("split", gate.split, known.splits),
    ):
        if chosen is not None:
            yield from _named(key, chosen, names, ("gate", key))
        elif len(names) > 1:
            yield Problem(
                ("gate",), f"names no {key} to decide on, and there are several: {', '.join(names)}"
            )
    if gate.metric is not None:
        yield from _metric(gate.metric, known.metrics, ("gate", "metric"), per_user=True)
    guardrails = gate.guardrails
    for metric in guardrails.metrics:
        yield from _metric(metric, known.metrics, ("gate", "guardrails", "metrics", metric), at_key=True)
    for segment, margin in guardrails.segments.items():
        path = ("gate", "guardrails", "segments", segment)
        yield from _named("segment", segment, known.segments, path, at_key=True)
        if margin.metric is not None:
            yield from _metric(margin.metric, known.metrics, (*path, "metric"), per_user=True)


def _champion(
    champion: str | ChampionSpec | None, gate: Gate, register: Register | None, known: Known
) -> Iterator[Problem]:
    is_named = gate.champion is not None
    path = ("gate", "champion") if is_named else ("gate",)
    if champion is None:
        yield Problem(
            path, "names no champion; give one, or a register, or a compare.baseline to stand for it"
        )
        return
    if isinstance(champion, str):
        words = repr(champion)
        if register is None:
            yield from _named("model", champion, known.models, path)
    else:
        words = f"the run {champion.run!r}" if champion.registry is None else repr(champion.registry)
        who = "" if is_named else f"the champion {champion.registry} "
        if CHAMPION in known.models:
            yield Problem(path, f"{who}comes from MLflow and is called {CHAMPION!r}: call no other model so")
        if champion.registry is not None and known.baseline is None:
            yield Problem(
                path,
                f"{who}is a registered model, and until there is one compare.baseline stands for it: name one",
            )
    if register is not None and champion != (own := _champion_in(register)):
        yield Problem(
            path,
            f"is {words}, but what is promoted takes the place of {own.registry}, which it would never be compared "
            f"with; leave champion out",
        )


def _champion_in(register: Register) -> ChampionSpec:
    return ChampionSpec(registry=f"{register.name}@{CHAMPION_ALIAS}")


def _named(
    kind: str, name: str, names: Sequence[str], path: tuple[str | int, ...], *, at_key: bool = False
) -> Iterator[Problem]:
    if names and name not in names:
        near = did_you_mean(name, names, noun=f"{kind}s")
        yield Problem(path, f"no {kind} is named {name!r}{near}", at_key)


def _metric(
    text: str,
    metrics: Iterable[MetricSpec],
    path: tuple[str | int, ...],
    *,
    per_user: bool = False,
    at_key: bool = False,
) -> Iterator[Problem]:
    try:
        asked = parse(text)
    except EvalpluginError as error:
        yield Problem(path, str(error), at_key)
        return
    names = [metric.name for metric in metrics]
    if names and asked.name not in names:
        near = did_you_mean(asked.name, names, noun="metrics")
        yield Problem(path, f"{asked.name!r} is not in the list of metrics{near}", at_key)
    if asked.metric.higher_is_better is None:
        yield Problem(
            path, f"of {asked.name!r} neither more nor less is better: nothing can be decided by it", at_key
        )
    elif per_user and asked.metric.scope != "user":
        yield Problem(
            path,
            f"{asked.name!r} is one number for all users: a decision takes a value for each user",
            at_key,
        )
