"""Checks of models, metrics and segments against splits with new users or items, or with queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from evalplugin.base.errors import EvalpluginError
from evalplugin.config.checked import ModelRecipe, Named
from evalplugin.config.checks import Checks
from evalplugin.config.components import parameter_at
from evalplugin.data import SPLITS, Splitter
from evalplugin.metrics import parse
from evalplugin.models import MODELS
from evalplugin.models.base import Recommender, may_take_history
from evalplugin.segments import Segmenter


class _Ability(NamedTuple):
    """What a split asks of each model."""

    is_asked: Callable[[Splitter], bool]
    may_have: Callable[[type[Recommender]], bool]  # with some parameters
    has: Callable[[Recommender], bool]
    problem: str
    remedy: str


_ABILITIES = (
    _Ability(
        lambda split: split.new_users,
        may_take_history,
        lambda model: model.takes_history,
        "cannot list items for users who are not in the train data",
        "a program (command) by {history}, and a model of yours by recommend_for(users, history)",
    ),
    _Ability(
        lambda split: split.new_items,
        lambda cls: cls.lists_new_items,
        lambda model: model.lists_new_items,
        "cannot list items that are not in the train data",
        "a model of yours that uses attributes of items declares lists_new_items = True",
    ),
)


def check_new(
    checks: Checks, splits: Sequence[Named[Splitter]], models: Iterable[ModelRecipe], *, tuning: bool = False
) -> None:
    """Add a problem for each model, and for each metric, that the test users or items of a split do not suit.

    ``tuning``: whether the splits are those of tuned models alone.
    """
    for ability in _ABILITIES:
        asking = [split.name for split in splits if ability.is_asked(split.component)]
        if not asking:
            continue
        able = ", ".join(entry.name for entry in MODELS if entry.is_own and ability.may_have(entry.cls))
        for recipe in models:
            if (tuning and not recipe.space) or ability.has(MODELS.create(recipe.type, recipe.params)):
                continue
            checks.add(
                checks.nested(recipe.path, "type"),
                f"{recipe.type} {ability.problem}, as the split {asking[0]} asks{_why(recipe)}; those that can: "
                f"{able}; {ability.remedy}; or take another split",
            )
    if of_new_users := [split.name for split in splits if split.component.new_users]:
        _check_metrics(checks, of_new_users[0])


def check_units(
    checks: Checks, splits: Sequence[Named[Splitter]], segments: Sequence[Named[Segmenter]]
) -> None:
    """Add a problem for each segment of queries where a split has users, and for splits of both in one config."""
    units = {split.name: split.component.unit for split in splits}
    of_users = [name for name, unit in units.items() if unit == "user"]
    for number, segment in enumerate(segments):
        if of_users and segment.component.unit == "query":
            checks.add(
                checks.nested(("segments", number), "type"),
                f"{segment.type} divides queries, and the split {of_users[0]} has users; the splits with queries: "
                f"{', '.join(entry.name for entry in SPLITS if entry.cls.unit == 'query')}",
            )


def _why(recipe: ModelRecipe) -> str:
    inverted = parameter_at(recipe.params, "inverted")
    return " with inverted: true" if inverted and may_take_history(MODELS.entry(recipe.type).cls) else ""


def _check_metrics(checks: Checks, split: str) -> None:
    for path, text in checks.parts("metrics", str):
        try:
            metric = parse(text)
        except EvalpluginError:  # it has been reported
            continue
        if "predictions" in metric.metric.needs:
            checks.add(
                path,
                f"{text!r} needs predicted ratings, which no model gives for users by their history alone, as the "
                f"split {split} asks; take metrics of lists, such as ndcg@10",
            )
