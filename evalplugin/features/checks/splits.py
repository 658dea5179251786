"""Checks of splits and filters: leakage, unreachable items, unrepresentative test data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from evalplugin.base.numbers import share
from evalplugin.config import CheckedConfig
from evalplugin.data import Interactions, Split, in_one_piece
from evalplugin.data.filters import filter_text
from evalplugin.execution.results import DataInfo
from evalplugin.execution.runner import PreparedData
from evalplugin.features.checks.base import Found, data_check

_OWN_FUTURE = 0.01  # share of the test users
_FUTURE = 0.05  # share of the train data
_QUANTILE = 0.9  # of the temporal split that is proposed
_COLD = 0.05  # share of the test data
_ONE_DAY = 0.5  # share of the test data
_ONE_GROUP = 0.8  # share of the test users
_COLD_USERS = 0.5  # share of the test users
_EQUAL_TIMES = 0.05  # share of the test users
_DAY = 86_400  # seconds
_LONGER = {  # how a split tests a longer time; others choose no time
    "given": ", where the data is divided",
    "next_item": " (test: last_day, days: 7)",
    "temporal": ", by an earlier cutoff or a lower quantile, or several folds",
}
_EARLIEST, _LATEST = 631_152_000, 4_102_444_800  # 1990 and 2100: other times are hardly seconds since 1970


@data_check(
    "EV101",
    title="train data from the future",
    rule="Found where more than 1 % of the test users have train interactions later than their first test "
    "interaction, or where on average more than 5 % of the train data are later than a test interaction. Without "
    "times this check is silent.",
    why="In production no model knows the future. Here one learns what became popular later, with `last_n`, "
    "`holdout` and `kfold` as soon as users are active at different times; it can change the order of models.",
    source="Ji et al., ACM TOIS 2023; Meng et al., RecSys 2020.",
    remedy="Split by time: `split: {type: temporal, quantile: 0.9}`. A lower quantile leaves more test users with a "
    "history, `cold: drop` these alone. Where popularity and tastes do not change over the time of the data, ignore "
    "it (`checks.ignore`).",
)
def _future(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    shares = [_future_shares(fold) for fold in data.folds if not fold.overlap_allowed]
    known = [of_fold for of_fold in shares if of_fold is not None]
    if not known:
        return
    own, later = np.mean(known, axis=0)
    if own > _OWN_FUTURE or later > _FUTURE:
        users = (
            f", and {share(own)} of the test {data.info.units.nouns} have some of their own"
            if own > _OWN_FUTURE
            else ""
        )
        yield Found(
            f"split {data.info.split}: on average {share(later)} of the train data are later than a test "
            f"interaction{users}: models learn from the future; {_remedy(data.info)}"
        )


def _remedy(info: DataInfo) -> str:
    if info.units.noun == "query":
        return "test the sessions that end last: split: {type: next_item, test: last_day}"

    return _left_by_time(in_one_piece(info.full))


def _left_by_time(full: Interactions) -> str:
    """Return a text on the users that the proposed split would leave for the test, without making it."""
    time = full.time
    assert time is not None
    position = int(_QUANTILE * len(full))
    is_test = time >= np.partition(time, position)[position]
    if is_test.all():
        return "times are too alike to split by time"
    tested, known = (np.bincount(full.user[rows], minlength=full.n_users) > 0 for rows in (is_test, ~is_test))
    users, left, cold = map(np.count_nonzero, (tested | known, tested, tested & ~known))
    return (
        f"split: {{type: temporal, quantile: {_QUANTILE}}} does not, and leaves {left:,} of {users:,} users for the "
        f"test, {cold:,} of them without history"
    )


def _future_shares(fold: Split) -> tuple[float, float] | None:
    """Return the shares of test users with a later train interaction and of later train data; None without times.

    What is known of new users counts as train data; the history of a query is of its own session alone.
    """
    own = fold.history is None or fold.unit == "query"
    train, test = fold.train_events if own else fold.known, fold.test
    train_time, test_time = train.time, test.time
    if train_time is None or test_time is None:
        return None
    first = np.full(train.n_users, np.iinfo(np.int64).max)
    np.minimum.at(first, test.user, test_time)
    tested = test.active_users
    has_later = np.zeros(train.n_users, dtype=np.bool_)
    has_later[train.user[train_time > first[train.user]]] = True
    until = np.searchsorted(np.sort(train_time), test_time, side="right")
    return float(has_later[tested].mean()), float(1 - np.mean(until) / len(train))


@data_check(
    "EV102",
    title="items first seen after the cut",
    rule="Found where more than 5 % of the test interactions are on items that the train data does not have (mean "
    "over folds), but for the split `new_items`.",
    why="No model that learns from interactions can list such an item: the best possible recall is lower by that "
    "share.",
    source="Schein et al., SIGIR 2002.",
    remedy="Compare on items that can be known, by `cold: drop` in the split, or read all scores as out of the "
    "smaller maximum.",
)
def _cold_items(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    if data.info.split_type == "new_items":
        return
    counts = [fold.counts for fold in data.folds]
    cold, all_ = (
        sum(of_fold[key] for of_fold in counts)
        for key in ("test_interactions_on_cold_items", "test_interactions")
    )
    if cold > _COLD * all_:
        yield Found(
            f"split {data.info.split}: {share(cold / all_)} of the test interactions ({cold:,} of {all_:,}) are on "
            f"items that the train data does not have ({counts[0]['cold_items']:,} items"
            f"{' in the first fold' if len(counts) > 1 else ''}): no collaborative model can find them; cold: drop in "
            f"the split leaves them out"
        )


@data_check(
    "EV118",
    title="equal times at the cut",
    rule="Found where a split holds out the latest interactions of each user, and more than 5 % of the test users "
    "have train interactions at the very time of their first test interaction; not with `temporal`, `given` and "
    "`next_item`.",
    why="The seed draws which of these interactions are held out: their order is not in the data, as where many "
    "ratings were entered at once.",
    source="Meng et al., RecSys 2020 (on how much the split decides).",
    remedy="Cut between times: `split: {type: temporal, quantile: 0.9}`. Or run again with another `seed` to see how "
    "much the draw matters.",
)
def _equal_times(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    if data.info.split_type == "given" or data.info.units.noun == "query":
        return
    tied = tested = 0
    for fold in data.folds:
        train, test = fold.known, fold.test
        train_time, test_time = train.time, test.time
        if train_time is None or test_time is None or fold.overlap_allowed:
            return
        last, first = (
            np.full(train.n_users, np.iinfo(np.int64).min),
            np.full(train.n_users, np.iinfo(np.int64).max),
        )
        np.maximum.at(last, train.user, train_time)
        np.minimum.at(first, test.user, test_time)
        if (last > first).any():  # not the latest are held out
            return
        tied, tested = tied + int((last == first).sum()), tested + fold.counts["test_users"]
    if tied > _EQUAL_TIMES * tested:
        yield Found(
            f"split {data.info.split}: {share(tied / tested)} of the test {data.info.units.nouns} ({tied:,} of "
            f"{tested:,}) have train interactions at the time of their first test interaction: the seed draws which "
            f"ones are held out; a temporal split cuts between times"
        )


@data_check(
    "EV109",
    title="a test of mostly one group or one day",
    rule="Found where more than half of the test interactions are of one day (UTC) while the data has several, where "
    "more than 80 % of the test users are in one group of a segment that the config names, or where more than half of "
    "them have no train data (of a log of decisions, where its users are known). Times must be seconds since 1970; "
    "default segments do not count.",
    why="The conclusion holds for what was tested: a Monday, a campaign, one country, newcomers.",
    source="Beel and Brunel, RecSys 2019.",
    remedy="Test a longer time (a whole week or several folds), and compare by groups: `segments`.",
)
def _one_group(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    where, units = f"split {data.info.split}", data.info.units.nouns
    if (day := _main_day([fold.test for fold in data.folds], data.info)) is not None:
        yield Found(f"{where}: {day}")
    named = (
        {segment.name for segment in config.segments} if "segments" in config.spec.model_fields_set else set()
    )
    for segment in data.info.segments:
        sizes = np.bincount(segment.group[segment.group >= 0], minlength=len(segment.labels))
        if segment.name in named and np.count_nonzero(sizes) > 1 and sizes.max() > _ONE_GROUP * sizes.sum():
            label = segment.labels[int(sizes.argmax())]
            yield Found(
                f"{where}: {share(sizes.max() / sizes.sum())} of the test {units} are in one group of {segment.name} "
                f"({label}): means over all {units} are its means; compare by groups"
            )
    if data.info.full.is_log and "user" not in data.info.full.user_columns:
        return  # each decision is new
    users, cold = (sum(fold.counts[key] for fold in data.folds) for key in ("test_users", "cold_users"))
    if cold > _COLD_USERS * users:
        tests = (
            "nothing but what models do for newcomers; test users with train data to test more"
            if cold == users
            else "what models do for newcomers; recommend: {cold_users: skip} leaves them out"
        )
        yield Found(
            f"{where}: {share(cold / users)} of the test {units} ({cold:,} of {users:,}) have no train data: this "
            f"tests {tests}"
        )


def _main_day(tests: list[Interactions], info: DataInfo) -> str | None:
    full = info.full
    times = [test.timestamp for test in tests if test.timestamp is not None]
    if full.timestamp is None or not times:
        return None
    start, end = full.timestamp.min(), full.timestamp.max()
    if start < _EARLIEST or end > _LATEST or start // _DAY == end // _DAY:
        return None
    days, counts = np.unique(np.concatenate(times) // _DAY, return_counts=True)
    top = int(counts.argmax())
    if counts[top] <= _ONE_DAY * counts.sum():
        return None
    last_week = end // _DAY - 6
    day, cutoff = (datetime.fromtimestamp(int(n) * _DAY, UTC).date() for n in (days[top], last_week))
    is_long = start // _DAY < last_week
    by_time = f": split: {{type: temporal, cutoff: {cutoff}}}" if is_long else ", once there is more data"
    return (
        f"{share(counts[top] / counts.sum())} of the test interactions are of one day, {day}: test a whole week"
        f"{_LONGER.get(info.split_type, by_time)}"
    )


@data_check(
    "EV117",
    title="a filter that looks at the test data",
    rule="Found where a filter counts interactions (`k_core`, `min_count`, or one that says so by "
    "`depends_on_others`) and, on the train data of the first fold alone, would leave out interactions that are in "
    "it.",
    why="Who is in the data depends on what users did afterwards. Filtered data is easier to predict, and models may "
    "come in another order on it.",
    source="Beel and Brunel, RecSys 2019.",
    remedy="Leave the filter out, lower its numbers, or say so with the result. `min_train` of a split asks for train "
    "interactions alone.",
)
def _filters_that_see_the_test_data(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    dataset = next(dataset for dataset in config.datasets if dataset.name == data.info.dataset)
    train = data.folds[0].train_events
    for type, filter in dataset.filters:
        if not filter.depends_on_others:
            continue
        lost = len(train) - int(filter.keep(train).mask.sum())
        if lost:
            yield Found(
                f"filter {filter_text(type, filter)} runs before the split and counts test interactions too: by the "
                f"train data alone, it would leave out {lost:,} more of {len(train):,} train interactions "
                f"({share(lost / len(train))})"
            )
