"""Checks of the data against the config, right after the split: errors, and warnings about likely mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.base.inputs import inputs_named_in
from evalplugin.base.numbers import share
from evalplugin.config import CheckedConfig, ModelRecipe
from evalplugin.config.gate_checks import CHAMPION
from evalplugin.data import Interactions, Split
from evalplugin.metrics import MetricSpec
from evalplugin.models import MODELS

__all__ = ["check_data", "relevance_warnings"]

# Counts have a long tail: the highest is many times the median. No common rating scale is as wide.
_LONG_TAIL = 20.0
_SEEDS = ("random_state", "legacy_seed")
_MIN_LEVELS = 3  # 0 and 1, or -1 and 1, need no threshold


def check_data(config: CheckedConfig, data: Interactions, folds: Sequence[Split]) -> list[str]:
    """Return warnings about settings that do not suit the data; each has the setting, the value and the remedy.

    Args:
        config: The config.
        data: All interactions of one dataset.
        folds: Their split.

    Raises:
        DataError: A relevance threshold that no rating reaches, or ratings or attributes that a metric does not allow.
    """
    for metric in config.metrics:
        try:
            metric.metric.check_attributes(data.item_attributes)
            for fold in folds:
                metric.metric.check_ratings(*fold.test.rating_scale)
        except DataError as error:
            raise DataError(f"metrics: {metric.name}: {error}") from None
    _check_threshold(config, data, folds)
    kind = _kind(data)
    found = [*data.warnings]
    found += relevance_warnings(config.metrics, config.spec.relevance.threshold, data)
    if kind == "counts":
        found += _count_warnings(config, data)
    return [*found, *_leakage_warnings(config), *_tuning_warnings(config)]


def _looks_at_relevance(specs: Sequence[MetricSpec]) -> bool:
    metrics = (spec.metric for spec in specs)
    return any(m.scope == "user" and m.about == "truth" and "predictions" not in m.needs for m in metrics)


def _check_threshold(config: CheckedConfig, data: Interactions, folds: Sequence[Split]) -> None:
    if not _looks_at_relevance(config.metrics):
        return
    threshold = config.spec.relevance.threshold
    for fold in folds:
        highest = fold.test.rating_scale[1]
        # Ratings are float32: a rating of 3.3 in the data must reach a threshold of 3.3.
        if highest > 0 if threshold is None else highest >= np.float32(threshold):
            continue
        place = (
            "of the data" if highest == data.rating_scale[1] else f"of the test data (fold {fold.fold + 1})"
        )
        consequence = "no item would be relevant, and no user would have a score"
        if threshold is None:
            raise DataError(
                f"no rating {place} is above 0, the highest is {highest:g}; set relevance.threshold to the lowest "
                f"rating that is relevant: {consequence}"
            )
        raise DataError(
            f"relevance.threshold: no rating {place} reaches {threshold:g}, the highest is {highest:g}; lower it to "
            f"the lowest rating that is relevant: {consequence}"
        )


def _kind(data: Interactions) -> Literal["ratings", "counts", "other"]:
    """Return the kind of values: ratings on a scale, counts with a long tail, or other ones (such as 0 and 1)."""
    rating = data.rating
    lowest, highest = data.rating_scale
    levels, counts = np.unique(rating, return_counts=True)
    if len(levels) < _MIN_LEVELS:
        return "other"
    if lowest >= 0 and highest > _LONG_TAIL * np.median(rating[rating > 0]):
        return "counts"
    # Whole numbers from 1 of which 1 is the most common are small counts rather than stars.
    whole = bool((levels == np.floor(levels)).all())
    return "other" if whole and lowest == 1 and int(np.argmax(counts)) == 0 else "ratings"


def relevance_warnings(
    specs: Sequence[MetricSpec],
    threshold: float | None,
    data: Interactions,
    *,
    setting: str = "relevance.threshold",
) -> Iterator[str]:
    """Yield a warning where the threshold, called ``setting``, does not suit explicit ratings."""
    if not _looks_at_relevance(specs) or _kind(data) != "ratings":
        return
    lowest, highest = data.rating_scale
    median = float(np.median(data.rating))
    section, _, key = setting.rpartition(".")
    example = f"{section}: {{{key}: {median:g}}}" if section else f"{key}: {median:g}"
    remedy = (
        f"set the lowest rating that is relevant, for example {example}, which "
        f"{share(float(np.mean(data.rating >= median)))} of the ratings reach"
    )
    if threshold is None:
        positive = share(float(np.mean(data.rating > 0)))
        yield (
            f"{setting} is not set, and the ratings look explicit ({lowest:g} to {highest:g}): every rating "
            f"above 0 ({positive} of them) is relevant, low ones too; {remedy}"
        )
    elif lowest >= np.float32(threshold):
        yield (
            f"every rating reaches {setting}: {threshold:g} ({lowest:g} to {highest:g}), so that every "
            f"held-out item is relevant; {remedy}"
        )


def _count_warnings(config: CheckedConfig, data: Interactions) -> Iterator[str]:
    models = [
        model
        for model in config.models
        if getattr(MODELS.create(model.type, model.params), "compares_ratings", False)
    ]
    if not models:
        return
    lowest, highest = data.rating_scale
    names = ", ".join(model.name for model in models)
    binary = [model.name for model in models if "values" in model.params]
    option = f", or set values: binary in {', '.join(binary)}" if binary else ""
    yield (
        f"models: {names} {'compare' if len(models) > 1 else 'compares'} raw values, and these look like counts "
        f"({lowest:g} to {highest:g}, median {np.median(data.rating):g}): a few large ones decide who is a neighbour; "
        f"store the logarithm, such as log(1 + count), as the rating{option}"
    )


def _leakage_warnings(config: CheckedConfig) -> Iterator[str]:
    """Yield a warning about each model that reads one of MLflow, which was fitted on other data."""
    for model in config.models:
        named = [name for name in inputs_named_in(model.params, []) if name.startswith("models:/")]
        if model.type == "mlflow":  # from a run or a folder too
            named.append(str(model.params["model"]))
        if named:
            kind = "registered model" if named[0].startswith("models:/") else "model"
            yield (
                f"models: {model.name} reads the {kind} {named[0]}: it was fitted before this split, perhaps on "
                f"the very interactions that are held out here, so that its scores may be too high (leakage); compare "
                f"its type and parameters, fitted anew, for example by gate.champion: {{registry: NAME@ALIAS}}"
            )


def _tuning_warnings(config: CheckedConfig) -> Iterator[str]:
    """Yield a warning where some models are tuned, and others are compared with them at their defaults."""
    tuned = [model.name for model in config.models if model.space]
    others = [model.name for model in config.models if _could_be_tuned(model)]
    if tuned and others:
        several = len(others) > 1
        yield (
            f"models: {', '.join(tuned)} {'are' if len(tuned) > 1 else 'is'} tuned, and {', '.join(others)} "
            f"{'are' if several else 'is'} not, though {'they have' if several else 'it has'} parameters: a difference "
            f"between them may come from the tuning alone; give {'each' if several else 'it'} a `tune`, which has the "
            f"same budget for all models"
        )


def _could_be_tuned(model: ModelRecipe) -> bool:
    """Return whether a model is not tuned and has numbers among its parameters, those of random numbers apart."""
    is_from_elsewhere = hasattr(MODELS.entry(model.type).cls, "recommend_task")
    # A champion has the parameters that it was promoted with.
    return not (model.space or is_from_elsewhere or model.name == CHAMPION) and _has_number(model.params)


def _has_number(params: Mapping[str, Any]) -> bool:
    return any(
        _has_number(value) if isinstance(value, Mapping) else isinstance(value, (int, float))
        for key, value in params.items()
        if key not in _SEEDS and not isinstance(value, bool)
    )
