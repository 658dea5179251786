"""Checks of settings against the data: tuning, candidates, columns, relevance, values, models fitted before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Flags, row_entries, search
from evalplugin.base.numbers import share
from evalplugin.base.units import plural
from evalplugin.config import CheckedConfig, ModelRecipe
from evalplugin.data import Interactions
from evalplugin.execution.data_checks import looks_at_relevance
from evalplugin.execution.runner import PreparedData
from evalplugin.features.checks.base import Found, data_check
from evalplugin.features.words import CHAMPION
from evalplugin.files.inputs import inputs_named_in
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.relevance import Relevance
from evalplugin.models import MODELS, Recommender, defines

# Counts have a long tail: the highest is many times the median. No common rating scale is as wide.
_LONG_TAIL = 20.0
_SEEDS = ("random_state", "legacy_seed")
_ZEROS = 0.1  # share of the values from which on zeros may mean that there is no rating
# A larger share of zeros is hardly ratings on a scale of so many values above 0.
_MANY_ZEROS, _LEVELS_ABOVE_ZERO = 1 / 3, 5
_DATES = 0.9  # share of the times; chance gives 4 %
_MIN_LEVELS = 3  # 0 and 1, or -1 and 1, need no threshold


@data_check(
    "EV105",
    title="tuned models against untuned ones",
    rule="Found where one model has a `tune`, and another one has numbers among its parameters and none. Models from "
    "elsewhere (lists, programs, MLflow) and the champion are left out.",
    why="A difference may come from the tuning alone.",
    source="Ferrari Dacrema et al., RecSys 2019.",
    remedy="Give each model a `tune`; the budget is the same for all.",
)
def _tuned_against_untuned(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    tuned = [model.name for model in config.models if model.space]
    others = [model.name for model in config.models if _could_be_tuned(model)]
    if tuned and others:
        several = len(others) > 1
        yield Found(
            f"models: {', '.join(tuned)} {'are' if len(tuned) > 1 else 'is'} tuned, and {', '.join(others)} "
            f"{'are' if several else 'is'} not, though {'they have' if several else 'it has'} parameters: a difference "
            f"between them may come from the tuning alone; give {'each' if several else 'it'} a `tune`, which has the "
            f"same budget for all models"
        )


def _could_be_tuned(model: ModelRecipe) -> bool:
    """Return whether a model is not tuned and has numbers among its parameters, apart from seeds."""
    is_from_elsewhere = defines(MODELS.entry(model.type).cls, Recommender.recommend_task)
    # A champion has the parameters that it was promoted with.
    return not (model.space or is_from_elsewhere or model.name == CHAMPION) and _has_number(model.params)


def _has_number(params: Mapping[str, Any]) -> bool:
    return any(
        _has_number(value) if isinstance(value, Mapping) else isinstance(value, (int, float))
        for key, value in params.items()
        if key not in _SEEDS and not isinstance(value, bool)
    )


@data_check(
    "EV107",
    title="sampled candidates",
    rule="Found where `recommend.candidates` is `sampled`, unless the draw takes at least half of the catalogue for "
    "every user. Also where `given` pools have every held-out item of their users, beside others that are on average "
    "less than half of the catalogue: they were made from the truth.",
    why="Scores on a few random candidates need not rank models in the same order as scores on the catalogue.",
    source="Krichene and Rendle, KDD 2020.",
    remedy="Rank all items: `recommend: {candidates: unseen}`. To reproduce published numbers on the same pools, "
    "ignore it (`checks.ignore`), and compare with these alone.",
)
def _sampled_candidates(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    drawn, items = config.spec.recommend.negatives, data.info.full.n_items
    if config.spec.recommend.candidates == "sampled" and drawn is not None and 2 * drawn < items:
        yield Found(
            f"recommend.candidates: sampled ranks held-out items among {drawn:,} random ones of {items:,} "
            f"({share(drawn / items)}): models may come in another order than on the whole catalogue; set "
            f"candidates: unseen"
        )
    unit = data.info.units.noun
    others = _others_in_pools(data) if config.spec.recommend.candidates == "given" else None
    if others is not None and 2 * others < items:
        yield Found(
            f"recommend.candidates: given ranks held-out items among {others:,.0f} others of {items:,} a {unit} "
            f"({share(others / items)}), and the pools have every held-out item of their {plural(unit)}, as those "
            f"that are made from the truth: numbers can be compared with others on the same pools only, are far above "
            f"those on the whole catalogue, and models may come in another order there; for that, set candidates: "
            f"unseen"
        )


def _others_in_pools(data: PreparedData) -> float | None:
    """Return the mean number of items beside the truth in the pools of all folds; None if truth is outside of some."""
    sizes, truths = [], []
    for fold, candidates in zip(data.folds, data.candidates, strict=True):
        assert candidates.included is not None
        pool, test = candidates.included, fold.test.rows
        users = np.flatnonzero((pool.counts > 0) & (test.counts > 0))
        entries, row = row_entries(pool.indptr, users)
        wanted, owner = row_entries(test.indptr, users)
        pairs = row * fold.test.n_items + pool.item[entries]
        if not search(pairs, owner * fold.test.n_items + test.item[wanted])[1].all():
            return None
        sizes.append(pool.counts[users])
        truths.append(test.counts[users])
    return float(np.mean(np.concatenate(sizes) - np.concatenate(truths)))


@data_check(
    "EV113",
    title="a column of ratings or times that is not read",
    rule="Found where the config names no `rating` or no `timestamp`, and a table (`csv`, `parquet`, `dataframe`) "
    "has a column that looks like ratings or counts (rating, score or stars is a word of its name; overall, weight, "
    "count, plays, watch_ratio and the like are its whole name) or like times (timestamp, time, date, when, "
    "created_at and the like are its whole name).",
    why="Without ratings every interaction counts the same, one star too. Without times no split can keep the future "
    "out of the train data.",
    source="Ji et al., ACM TOIS 2023.",
    remedy="Name the column, or, where it means something else, ignore it (`checks.ignore`).",
)
def _unused_columns(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    looks = {
        "rating": ("ratings", "every rating is 1.0"),
        "timestamp": ("times", "the data has no times"),
    }
    for role, column in data.info.full.unused:
        kind, effect = looks[role]
        yield Found(f"column {column!r} looks like {kind} and is not used: {effect}; set {role}: {column}")


@data_check(
    "EV120",
    title="dates written as integers",
    rule="Found where at least 90 % of the times are integers such as 20260131 (or with a time of day, 202601311530 "
    "and 20260131153000): years from 1900 to 2100, months from 1 to 12, days from 1 to 31.",
    why="Integers are read as seconds since 1970: their order is right, but days, durations and dates of a config "
    "(`7d`, the `cutoff` of a split, the half-life of a model) do not mean what they say.",
    source="ISO 8601 (basic format).",
    remedy="Write dates as text, 2026-01-31, or convert the column before: `pandas.to_datetime(column, "
    "format='%Y%m%d')`. Where the order alone matters, ignore it (`checks.ignore`).",
)
def _integer_dates(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    times = data.info.full.timestamp
    if times is None:
        return
    dates = times[_are_dates(times)]
    if len(dates) >= _DATES * len(times):
        first = str(dates[0])
        yield Found(
            f"{share(len(dates) / len(times))} of the times are dates written as integers, such as {first}, and are "
            f"read as seconds since 1970: their order is right, days and durations are not; write them as text, such "
            f"as {first[:4]}-{first[4:6]}-{first[6:8]}"
        )


def _are_dates(times: npt.NDArray[np.int64]) -> Flags:
    """Return which integers (m,) are dates such as 20260131, perhaps followed by hours, minutes and seconds."""
    is_date = np.zeros(len(times), dtype=np.bool_)
    for clock in (1, 10**4, 10**6):
        rows = np.flatnonzero((times >= 1900_01_01 * clock) & (times < 2101_00_00 * clock))
        day = times[rows] // clock
        month, day = day // 100 % 100, day % 100
        is_date[rows[(month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)]] = True
    return is_date


@data_check(
    "EV114",
    title="explicit ratings without a relevance threshold",
    rule="Found where a metric asks which items are relevant, ratings look explicit, and `relevance.threshold` is not "
    "set or reached by every rating. Ratings look explicit if there are three values at least, the highest is at most "
    "20 times the median, and they are no small counts: whole numbers from 1 of which 1 is the most common. The "
    "proposed threshold is reached by about half of the ratings (of those above 0, where 10 % or more are 0).",
    why="Without a threshold a list of items that a user rated with one star is a success.",
    source="Cremonesi et al., RecSys 2010, which tests on ratings of five stars alone.",
    remedy="Set `relevance: {threshold: 4}`, or whatever your users mean by good. Where 0 means no rating, leave "
    "these rows out: `filters: [{type: rating, min: 1}]`.",
)
def _no_threshold(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    yield from map(Found, relevance_warnings(config.metrics, config.spec.relevance, data.info.full))


def relevance_warnings(
    specs: Sequence[MetricSpec],
    relevance: Relevance,
    data: Interactions,
    *,
    setting: str = "relevance.threshold",
) -> Iterator[str]:
    """Yield the text of EV114 where the threshold does not suit explicit ratings.

    Args:
        specs: The metrics; without one that asks which items are relevant, no threshold is needed.
        relevance: Which ratings are relevant.
        data: The ratings.
        setting: The name of the threshold in the text.
    """
    if not looks_at_relevance(specs) or kind_of_values(data) != "ratings":
        return
    lowest, highest = data.rating_scale
    zeros = float(np.mean(data.rating == 0)) if lowest == 0 else 0.0
    may_lack = zeros >= _ZEROS
    rated = data.rating[data.rating > 0] if may_lack else data.rating
    levels, counts = np.unique(rated, return_counts=True)
    reached = np.cumsum(counts[::-1])[::-1] / len(rated)
    # Not the lowest level, which all ratings reach. Of the values of a scale, at least two are above 0.
    place = 1 + int(np.argmin(np.abs(reached[1:] - 0.5)))
    section, _, key = setting.rpartition(".")
    example = f"{key}: {np.format_float_positional(levels[place], trim='-')}"
    remedy = (
        f'{share(zeros)} of the values are 0, which may mean "no rating": if so, leave them out; '
        * may_lack
        + f"set the lowest rating that is relevant, for example {f'{section}: {{{example}}}' if section else example}, "
        f"which {share(float(reached[place]))} of the ratings {'above 0 ' * may_lack}reach"
    )
    threshold = relevance.threshold
    if threshold is None:
        positive = share(float(np.mean(data.rating > 0)))
        yield (
            f"{setting} is not set, and the ratings look explicit ({lowest:g} to {highest:g}): every rating "
            f"above 0 ({positive} of them) is relevant, low ones too; {remedy}"
        )
    elif relevance.of(data.rating).all():
        yield (
            f"every rating reaches {setting}: {threshold:g} ({lowest:g} to {highest:g}), so that every "
            f"held-out item is relevant; {remedy}"
        )


def kind_of_values(data: Interactions) -> Literal["ratings", "counts", "other"]:
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


@data_check(
    "EV121",
    title="a rating of 0 that may mean no rating",
    rule="Found where ratings look explicit, as for EV114, more than a third of them are 0, and there are at least "
    "five values above 0 and none below.",
    why="Models of ratings learn that these items are the worst, error metrics ask for a prediction of 0, and an "
    "item that a user has chosen counts as a failure.",
    source="Ziegler et al., WWW 2005, whose data, Book-Crossing, has 0 for unrated books (62 % of its rows).",
    remedy="Leave these rows out, `filters: [{type: rating, min: 1}]`, or leave out the column `rating` to learn "
    "from all of them alike. Where 0 is a rating, ignore it (`checks.ignore`).",
)
def _zeros_as_ratings(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    full = data.info.full
    if full.is_log:  # of rewards, most of which are 0
        return
    zeros = float(np.mean(full.rating == 0))
    if zeros <= _MANY_ZEROS or full.rating_scale[0] < 0 or kind_of_values(full) != "ratings":
        return
    above = np.unique(full.rating[full.rating > 0])
    if len(above) >= _LEVELS_ABOVE_ZERO:
        yield Found(
            f'{share(zeros)} of the ratings are 0, and the others are {above[0]:g} to {above[-1]:g}: 0 may mean "not '
            f'rated", and models would learn it as the worst rating; leave these rows out by filters: [{{type: rating, '
            f"min: {above[0]:g}}}]"
        )


@data_check(
    "EV115",
    title="counts read as ratings",
    rule="Found where the highest value is more than 20 times the median, and a model reads the values (as its "
    "`uses_ratings` declares; or else if it predicts ratings), or a metric takes them as gains (`ndcg` and `dcg`, "
    "unless with `gain=binary`).",
    why="A few users with thousands of plays of an item decide what a model learns, and one item decides the nDCG of "
    "a user.",
    source="Hu et al., ICDM 2008, which takes the logarithm of such counts.",
    remedy="Store log(1 + count) as the rating, or set `values: binary` where the model has it, and `gain=binary` in "
    "the metric.",
)
def _counts_as_ratings(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    full = (
        data.info.full.merged() if data.info.full.events else data.info.full
    )  # models see numbers of events
    if kind_of_values(full) != "counts":
        return
    lowest, highest = full.rating_scale
    median = np.median(full.rating)
    looks = f"and these look like counts ({lowest:,.9g} to {highest:,.9g}, median {median:,.9g})"
    logarithm = "store the logarithm, such as log(1 + count), as the rating"
    models = [m for m in config.models if MODELS.create(m.type, m.params).uses_ratings]
    if models:
        binary = [model.name for model in models if "values" in model.params]
        option = f", or set values: binary in {', '.join(binary)}" if binary else ""
        yield Found(
            f"models: {', '.join(model.name for model in models)} {'read' if len(models) > 1 else 'reads'} raw values, "
            f"{looks}: a few large ones decide what is learned; {logarithm}{option}"
        )
    metrics = [spec for spec in config.metrics if getattr(spec.metric, "gain", "binary") != "binary"]
    if metrics and data.info.units.noun == "user":  # the truth of a query is one event
        # Every registered metric is a dataclass.
        binary = [replace(m, metric=replace(m.metric, gain="binary")).name for m in metrics]  # type: ignore[type-var]
        yield Found(
            f"metrics: {', '.join(spec.name for spec in metrics)} {'take' if len(metrics) > 1 else 'takes'} raw values "
            f"as gains, {looks}: one item may decide the score of a {data.info.units.noun}; use "
            f"{', '.join(binary)}, or {logarithm}"
        )


@data_check(
    "EV116",
    title="a model that may have seen the test data",
    rule="Found for each model that reads one of MLflow, by its type (`mlflow`) or by a parameter (`models:/...`).",
    why="It was fitted before this split, perhaps on the interactions that are held out here: its scores may be too "
    "high.",
    source="Kapoor and Narayanan, Patterns 2023.",
    remedy="Compare its type and parameters, fitted anew, as the gate does with a champion: `gate: {champion: "
    "{registry: NAME@ALIAS}}`. Or split by a time after its training, `split: {type: temporal, cutoff: 2026-01-31}`, "
    "and ignore it.",
)
def _seen_test_data(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    for model in config.models:
        named = [name for name in inputs_named_in(model.params, []) if name.startswith("models:/")]
        if model.type == "mlflow":  # from a run or a folder too
            named.append(str(model.params["model"]))
        if named:
            kind = "registered model" if named[0].startswith("models:/") else "model"
            yield Found(
                f"models: {model.name} reads the {kind} {named[0]}: it was fitted before this split, perhaps on "
                f"the very interactions that are held out here, so that its scores may be too high (leakage); compare "
                f"its type and parameters, fitted anew, for example by gate.champion: {{registry: NAME@ALIAS}}",
                model.name,
            )
