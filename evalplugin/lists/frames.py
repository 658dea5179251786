"""Lists and truth in memory, as tables of raw ids -> every user's scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.base.seeding import generator
from evalplugin.comparison.statistics import Interval, mean_interval
from evalplugin.data.interactions import Interactions
from evalplugin.lists.arrange import Arranged, ListBlocks, arrange, place_by_rank
from evalplugin.lists.columns import Ids, Source
from evalplugin.lists.vocabulary import check_kinds, codes_end, codes_in, encode
from evalplugin.metrics import Blocks, MetricSpec, parse
from evalplugin.metrics.scores import Counts, PerUserScores, Summary, summarise
from evalplugin.metrics.scoring import Scorer, check_request, is_built_in
from evalplugin.models.selection import NO_ITEM, TopN

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Catalogue",
    "Columns",
    "ListScores",
    "Tables",
    "blocks_of",
    "blocks_on",
    "catalogue_of",
    "interactions_alone",
    "interactions_of",
    "need_catalogue",
    "score_tables",
    "specs_of",
    "top_n_on",
]


@dataclass(frozen=True)
class Columns:
    """Which column is what. None: the column of the usual name (rank, score, rating), if there is one."""

    user: str = "user"
    item: str = "item"
    rank: str | None = None
    score: str | None = None
    rating: str | None = None
    truth_user: str | None = None  # None: the same as in the lists
    truth_item: str | None = None

    def order_of(self, name: str, columns: Sequence[str]) -> tuple[str, str]:
        """Return what ranks the lists of a table, ``rank`` or ``score``, and the column's name.

        Raises:
            DataError: There is neither, or both are named.
        """
        if self.rank is not None and self.score is not None:
            raise DataError(
                f"{name}: lists are ranked by a rank or by a score: "
                f"name {self.rank!r} or {self.score!r}, not both"
            )
        if self.rank is not None:
            return "rank", self.rank
        if self.score is not None:
            return "score", self.score
        for order in ("rank", "score"):
            if order in columns:
                return order, order
        raise DataError(
            f"{name}: no column says how lists are ordered: "
            f"there must be one called 'rank' or 'score', or one that is named as such"
        )

    def rating_of(self, columns: Sequence[str], role: str = "truth") -> str | None:
        """Return the name of the rating column, None without one; train data need not have the one that is named."""
        if self.rating is not None and (role == "truth" or self.rating in columns):
            return self.rating
        return "rating" if "rating" in columns else None

    def of_lists(self, name: str, columns: Sequence[str]) -> list[str]:
        """Return the columns of lists that are read: user, item, and what ranks them."""
        return [self.user, self.item, self.order_of(name, columns)[1]]

    def of_rated(self, columns: Sequence[str], role: str = "truth") -> list[str]:
        """Return the columns of truth or train data that are read: user, item, and a rating if there is one."""
        rating = self.rating_of(columns, role)
        return [*self.of_truth(), *([] if rating is None else [rating])]

    def of_truth(self) -> tuple[str, str]:
        """Return the names of the user and the item column of truth and train data."""
        return self.truth_user or self.user, self.truth_item or self.item


@dataclass(frozen=True, eq=False)
class ListScores:
    """The scores of lists made elsewhere: ``per_user``, ``means``, ``counts``; and how each metric is spread."""

    scores: PerUserScores

    @cached_property
    def per_user(self) -> pd.DataFrame:
        """One row a user, indexed by raw id, ascending; one float64 column a metric, NaN where undefined."""
        return self.scores.to_frame()

    @property
    def means(self) -> dict[str, float]:
        """Each metric's mean over the users it is defined for; metrics of all lists together as they are."""
        return self.scores.means

    @property
    def counts(self) -> dict[str, Counts]:
        """For each metric with a value a user: how many users it is defined and undefined for."""
        return self.scores.counts

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """For each metric with a value a user: spread and quantiles."""
        return {name: summarise(self.scores.column(name)) for name in self.scores.metrics}

    def interval(self, metric: str, *, level: float = 0.95, seed: int = 0) -> Interval:
        """Return the interval of a metric's mean over users: the same for the same scores and seed."""
        return mean_interval(self.scores.column(metric), level=level, rng=generator(seed, "interval", metric))


def specs_of(metrics: Sequence[str | MetricSpec]) -> list[MetricSpec]:
    """Return what a list of metric names asks for.

    Raises:
        DataError: There is none, or one that needs the ratings a model predicts.
        ParameterError, UnknownNameError: A name that means no metric.
    """
    if isinstance(metrics, str):
        raise DataError(f"metrics must be a list of names such as ['ndcg@10'], not the text {metrics!r}")
    specs = [parse(metric) if isinstance(metric, str) else metric for metric in metrics]
    if not specs:
        raise DataError("no metric is asked for, such as 'ndcg@10'")
    for spec in specs:
        if "predictions" in spec.metric.needs:
            raise DataError(
                f"metric {spec.name} needs the ratings that a model predicts for the truth; lists have none"
            )
    return specs


@dataclass(frozen=True, eq=False)
class Tables:
    """The columns of lists, truth and train data, checked, with ids as they came."""

    lists: Source
    truth: Source
    columns: Columns
    order: str
    user: Ids
    item: Ids
    by_name: str
    by: npt.NDArray[Any]  # (m,) rank or score
    truth_user: Ids
    truth_item: Ids
    rating: npt.NDArray[Any] | None
    train_user: Ids | None = None
    train_item: Ids | None = None
    train_rating: npt.NDArray[Any] | None = None

    @classmethod
    def read(
        cls, lists: Source, truth: Source, train: Source | None, columns: Columns, *, empty: bool = False
    ) -> Tables:
        """Return the columns of the tables; ``empty``: one without rows is a part of a larger one.

        Raises:
            DataError: No rows, a column that is not there, a value that breaks a rule.
        """
        order, by = columns.order_of(lists.name, lists.columns)
        for source in (lists, truth, train):
            if source is not None and not len(source) and not empty:
                raise DataError(f"{source.name}: there are no rows")
        user, item = columns.of_truth()
        read = cls(
            lists=lists,
            truth=truth,
            columns=columns,
            order=order,
            user=lists.ids(columns.user, "user"),
            item=lists.ids(columns.item, "item"),
            by_name=by,
            by=lists.numbers(by, "rank", "ranks must be whole numbers", whole=True)
            if order == "rank"
            else _floats(lists.numbers(by, "score", "scores must be finite numbers")),
            truth_user=truth.ids(user, "user"),
            truth_item=truth.ids(item, "item"),
            rating=_ratings(truth, columns, "truth"),
            train_user=None if train is None else train.ids(user, "user"),
            train_item=None if train is None else train.ids(item, "item"),
            train_rating=None if train is None else _ratings(train, columns, "train"),
        )
        check_kinds("user", **_named(lists=read.user, truth=read.truth_user, train=read.train_user))
        check_kinds("item", **_named(lists=read.item, truth=read.truth_item, train=read.train_item))
        return read

    def refuse(self, row: int, rule: str) -> NoReturn:
        """Raise the error for a rank that breaks a rule."""
        self.lists.refuse(self.by_name, row, self.by[row].item(), rule)


def score_tables(
    tables: Tables,
    specs: Sequence[MetricSpec],
    threshold: float | None,
    *,
    curve_ks: Callable[[int], Sequence[int]] = lambda n: (),
) -> PerUserScores:
    """Return the scores of everybody who has a list or a truth, by raw user id ascending.

    Raises:
        DataError: A list or a truth with an item twice, ranks that are not 1, 2, 3 and so on.
    """
    check_request(specs, tables.train_user is not None)
    if need_catalogue(specs):
        catalogue = catalogue_of(tables)
        coded = blocks_on(catalogue, tables, threshold)
        blocks: Blocks | ListBlocks = coded
        users = catalogue.users[coded.user]
    else:
        free = blocks_of(tables, threshold)
        blocks, users = free, free.users
    scorer = Scorer(specs, len(blocks), blocks.n, blocks.n_items, curve_ks=curve_ks(blocks.n))
    scorer.add(blocks)
    return scorer.result(users)


def blocks_of(tables: Tables, threshold: float | None, n: int = 0) -> ListBlocks:
    """Return lists and truth in blocks, with items under codes that mean nothing beyond equality and order."""
    # Both look once at all of a long column, and can do so at the same time.
    with ThreadPoolExecutor(1) as pool:
        coding = pool.submit(_item_codes, tables)
        starts = tables.user.run_starts(), tables.truth_user.run_starts()
        item, truth_item, raw_item, n_items = coding.result()
    users, (run_user, truth_run_user) = encode(
        [tables.user.take(starts[0]), tables.truth_user.take(starts[1])]
    )
    rated = () if tables.rating is None else (tables.rating,)
    placed = (
        place_by_rank(starts[0], run_user, len(users), item, tables.by) if tables.order == "rank" else None
    )
    return ListBlocks(
        users=users,
        lists=placed or arrange(starts[0], run_user, len(users), (item, tables.by), len(item)),
        order="none" if placed else tables.order,
        truth=arrange(starts[1], truth_run_user, len(users), (truth_item, *rated), len(truth_item)),
        threshold=threshold,
        n_items=n_items,
        raw_item=raw_item,
        refuse=tables.refuse,
        n=n,
    )


def need_catalogue(specs: Sequence[MetricSpec]) -> bool:
    """Return whether any of the metrics reads the catalogue or the train data; one of a plugin may.

    All others compare listed items with the truth, for which any codes of the items will do.
    """
    return any({"catalogue", "train"} & set(spec.metric.needs) or not is_built_in(spec) for spec in specs)


def _item_codes(tables: Tables) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Any, int]:
    ours, theirs = tables.item, tables.truth_item
    if ours.kind == "integers" and (end := codes_end(ours.values, theirs.values)) is not None:
        return ours.values, theirs.values, int, end
    vocabulary, (item, truth_item) = encode([ours, theirs])
    return item, truth_item, lambda code: vocabulary[code], len(vocabulary)


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Sorted vocabularies of all there is, for metrics that look at the catalogue or at the train data."""

    users: npt.NDArray[np.generic]
    items: npt.NDArray[np.generic]
    train: Interactions | None

    @classmethod
    def of(
        cls,
        users: npt.NDArray[np.generic],
        items: npt.NDArray[np.generic],
        train: tuple[Ids, Ids, npt.NDArray[Any] | None] | None,
    ) -> Catalogue:
        """Return the catalogue; ``train`` has users, items and ratings.

        Raises:
            DataError: A user meets an item twice in the train data.
        """
        if train is None:
            return cls(users, items, None)
        user, item, rating = train
        data = interactions_of(codes_in(user, users), codes_in(item, items), rating, users, items)
        pair = np.sort(data.user * np.int64(len(items)) + data.item)
        twice = pair[1:][pair[1:] == pair[:-1]]
        if len(twice):
            codes = divmod(int(twice[0]), len(items))
            who, what = (repr(ids[code]) for ids, code in zip((users, items), codes, strict=True))
            raise DataError(f"train: user {who} meets item {what} more than once")
        return cls(users, items, data)


def catalogue_of(tables: Tables) -> Catalogue:
    """Return everybody and everything of lists, truth and train data."""
    user, item = [tables.user, tables.truth_user], [tables.item, tables.truth_item]
    train = None
    if tables.train_user is not None and tables.train_item is not None:
        train = tables.train_user, tables.train_item, tables.train_rating
        user, item = [*user, train[0]], [*item, train[1]]
    return Catalogue.of(encode(user)[0], encode(item)[0], train)


def blocks_on(catalogue: Catalogue, tables: Tables, threshold: float | None, n: int = 0) -> Blocks:
    """Return lists and truth in blocks, under the catalogue's codes."""
    users, items = catalogue.users, catalogue.items
    item, truth_item = codes_in(tables.item, items), codes_in(tables.truth_item, items)
    truth = interactions_of(codes_in(tables.truth_user, users), truth_item, tables.rating, users, items)
    user = codes_in(tables.user, users)
    starts = Ids("integers", user).run_starts()
    empty = Arranged(
        np.zeros(len(users), np.int64), np.zeros(len(users), np.int64), (truth_item[:0],), True, None
    )
    lists = ListBlocks(
        users=users,
        lists=arrange(starts, user[starts], len(users), (item, tables.by), len(item)),
        order=tables.order,
        truth=empty,
        threshold=threshold,
        n_items=len(items),
        raw_item=lambda code: items[code],
        refuse=tables.refuse,
        n=n,
    )
    listed = np.flatnonzero(lists.lists.count)
    listed_items = np.full((len(listed), lists.n), NO_ITEM, dtype=np.int32)
    row_of = np.cumsum(lists.lists.count > 0) - 1
    for low, high in lists.cuts():
        block, has_list = lists.context(low, high).item, lists.lists.count[low:high] > 0
        listed_items[row_of[low:high][has_list], : block.shape[1]] = block[has_list]
    no_score = np.broadcast_to(np.float64(np.nan), listed_items.shape)
    top_n = TopN(listed.astype(np.int32), listed_items, no_score)
    return Blocks.of(top_n, truth, train=catalogue.train, threshold=threshold)


def top_n_on(catalogue: Catalogue, tables: Tables) -> tuple[TopN, Interactions, Interactions | None]:
    """Return lists with their scores (ranks with the sign turned), truth and train data, on the catalogue's codes."""
    blocks = blocks_on(catalogue, tables, None)
    n_items = len(catalogue.items)
    pair = codes_in(tables.user, catalogue.users) * np.int64(n_items) + codes_in(tables.item, catalogue.items)
    order = np.argsort(pair)
    by = (tables.by if tables.order == "score" else -tables.by.astype(np.int64)).astype(np.float64)[order]
    lists = blocks.top_n
    place = np.searchsorted(pair[order], lists.user[:, None] * np.int64(n_items) + lists.item)
    score = np.where(lists.item == NO_ITEM, np.nan, by[np.minimum(place, len(by) - 1)])
    return TopN(lists.user, lists.item, score), blocks.truth, catalogue.train


def interactions_of(
    user: npt.NDArray[np.integer[Any]],
    item: npt.NDArray[np.integer[Any]],
    rating: npt.NDArray[Any] | None,
    users: npt.NDArray[np.generic],
    items: npt.NDArray[np.generic],
) -> Interactions:
    """Return interactions from codes into two vocabularies; without ratings each is 1."""
    return Interactions(
        user=user.astype(np.int32, copy=False),
        item=item.astype(np.int32, copy=False),
        rating=np.ones(len(user), dtype=np.float32) if rating is None else rating.astype(np.float32),
        timestamp=None,
        users=users,
        items=items,
    )


def interactions_alone(user: Ids, item: Ids, rating: npt.NDArray[Any] | None) -> Interactions:
    """Return interactions on vocabularies of their own, so that their digest depends on nothing else."""
    users, items = encode([user])[0], encode([item])[0]
    return interactions_of(codes_in(user, users), codes_in(item, items), rating, users, items)


def _floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _ratings(source: Source, columns: Columns, role: str) -> npt.NDArray[Any] | None:
    name = columns.rating_of(source.columns, role)
    return None if name is None else source.numbers(name, "rating", "ratings must be finite numbers")


def _named(**columns: Ids | None) -> dict[str, Ids]:
    return {name: column for name, column in columns.items() if column is not None}
