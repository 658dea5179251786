"""Values that a log of decisions cannot tell, and propensities that are assumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evalplugin.base.numbers import about
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.doubt import FAMILY, Doubt

_NOR = "Nor can it tell what {models} {are} worth."
_FURTHER = "{model}: {reasons}."
_NEXT_MORE = (
    "Next: value a log of {needed} decisions or more, or a policy that is nearer to what was shown (a higher "
    "temperature or epsilon)."
)
_NEXT_OTHER = (
    "Next: see that positions and propensities are those with which items were shown, or value a policy that is nearer "
    "to what was shown (a higher temperature or epsilon)."
)
_ASSUMED = "The propensities are assumed: {assumed}."


def cannot_tell(doubts: Mapping[str, Doubt]) -> str:
    """Return that the log cannot tell the values of some models, with the first reason of the first one."""
    (model, doubt), *others = doubts.items()
    text = f"T{doubt.text(f'what {model} is worth')[1:]}."
    if not others:
        return text
    names = " and ".join(name for name, _ in others)
    return f"{text} {_NOR.format(models=names, are='is' if len(others) == 1 else 'are')}"


def further_doubts(doubts: Mapping[str, Doubt]) -> Iterator[str]:
    """Yield the reasons of the models that ``cannot_tell`` leaves out."""
    for place, (model, doubt) in enumerate(doubts.items()):
        if reasons := doubt.reasons[0 if place else 1 :]:
            yield _FURTHER.format(model=model, reasons="; ".join(reason.text for reason in reasons))


def next_with_doubts(doubts: Mapping[str, Doubt]) -> str:
    """Return what to do where the log cannot tell values."""
    needed = [doubt.needed for doubt in doubts.values()]
    known = [number for number in needed if number is not None]
    return _NEXT_MORE.format(needed=about(max(known))) if len(known) == len(needed) else _NEXT_OTHER


def assumed_lines(contest: Contest, metrics: Sequence[str]) -> Iterator[str]:
    """Yield that propensities are assumed, where values by any of the metrics rest on them."""
    if contest.assumed is not None and any(contest.spec(metric).family == FAMILY for metric in metrics):
        yield _ASSUMED.format(assumed=contest.assumed)
