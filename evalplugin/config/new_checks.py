"""Checks of models, metrics and segments against splits with new users or items, or with queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from evalplugin.base.errors import EvalpluginError
from evalplugin.config.checked import ModelRecipe, Named, NamedDataset
from evalplugin.config.checks import Checks
from evalplugin.config.components import parameter_at
from evalplugin.config.sections import Recommend
from evalplugin.data import SPLITS, DatasetLoader, Splitter
from evalplugin.metrics import parse
from evalplugin.models import MODELS
from evalplugin.models.base import Recommender, may_take_history
from evalplugin.segments import Segmenter


class _Ability(NamedTuple):
    """What a split, or a dataset with any split, asks of each model."""

    is_asked: Callable[[Splitter | DatasetLoader], bool]
    may_have: Callable[[type[Recommender]], bool]  # with some parameters
    has: Callable[[Recommender], bool]
    problem: str
    remedy: str


_ABILITIES = (
    _Ability(
        lambda part: part.new_users,
        may_take_history,
        lambda model: model.takes_history,
        "cannot list items for users who are not in the train data",
        "a program (command) by {history}, and a model of yours by recommend_for(users, history)",
    ),
    _Ability(
        lambda part: part.new_items,
        lambda cls: cls.lists_new_items,
        lambda model: model.lists_new_items,
        "cannot list items that are not in the train data",
        "a model of yours that uses attributes of items declares lists_new_items = True",
    ),
)


def check_new(
    checks: Checks,
    splits: Sequence[Named[Splitter]],
    models: Iterable[ModelRecipe],
    datasets: Sequence[NamedDataset] = (),
    *,
    tuning: bool = False,
) -> None:
    """Add a problem for each model, and for each metric, that the test users or items of a split do not suit.

    ``datasets``: those whose test users may be new ones with any split. ``tuning``: whether the splits are those of
    tuned models alone.
    """
    parts: list[Named[Any]] = [*splits, *datasets]
    for ability in _ABILITIES:
        asking = [part for part in parts if ability.is_asked(part.component)]
        if not asking:
            continue
        able = ", ".join(
            entry.name
            for entry in MODELS
            if entry.is_own and not entry.cls.is_logging and ability.may_have(entry.cls)
        )
        first = asking[0]
        otherwise = "leave out its user" if isinstance(first, NamedDataset) else "take another split"
        for recipe in models:
            if (tuning and not recipe.space) or ability.has(MODELS.create(recipe.type, recipe.params)):
                continue
            checks.add(
                checks.nested(recipe.path, "type"),
                f"{recipe.type} {ability.problem}, as the {_named(first)} asks{_why(recipe)}; those that can: "
                f"{able}; {ability.remedy}; or {otherwise}",
            )
    for part in parts:
        if part.component.new_users or (isinstance(part, NamedDataset) and part.component.is_log):
            _check_metrics(checks, _named(part))
            break


def check_logs(checks: Checks, datasets: Sequence[NamedDataset], models: Iterable[ModelRecipe]) -> None:
    """Add a problem for candidates and sections that logs of decisions do not go with, and models that need a log."""
    logs = [dataset.name for dataset in datasets if dataset.component.is_log]
    others = [dataset.name for dataset in datasets if not dataset.component.is_log]
    for recipe in models if others else ():
        if MODELS.entry(recipe.type).cls.is_logging:
            checks.add(
                checks.nested(recipe.path, "type"),
                f"{recipe.type} lists what a log has shown, and the dataset {others[0]} is no such log; leave it out, "
                f"or take a dataset of the type impressions",
            )
    if not logs:
        return
    recommend = checks.section("recommend", Recommend)
    if recommend is not None and recommend.candidates in ("judged", "sampled"):
        checks.add(
            ("recommend", "candidates"),
            f"{recommend.candidates} makes a pool of the truth, and {logs[0]} is a log of decisions, whose pool is "
            f"what they could have shown: set it to given, with a table of that, or leave it out for all items",
        )
    if checks.data.get("register") is not None:
        checks.add(
            ("register",),
            f"{logs[0]} is a log of decisions, and lists of past decisions are nothing to serve: leave register out",
        )


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


def _named(part: Named[Any]) -> str:
    return f"{'dataset' if isinstance(part, NamedDataset) else 'split'} {part.name}"


def _why(recipe: ModelRecipe) -> str:
    inverted = parameter_at(recipe.params, "inverted")
    return " with inverted: true" if inverted and may_take_history(MODELS.entry(recipe.type).cls) else ""


def _check_metrics(checks: Checks, asking: str) -> None:
    for path, text in checks.parts("metrics", str):
        try:
            metric = parse(text)
        except EvalpluginError:  # it has been reported
            continue
        if "predictions" in metric.metric.needs:
            checks.add(
                path,
                f"{text!r} needs predicted ratings, which no model gives for users by their history alone, as the "
                f"{asking} asks; take metrics of lists, such as ndcg@10",
            )
