"""``DataCard``: what a dataset holds and how its splits divide it, in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Ints
from evalplugin.base.numbers import share
from evalplugin.data.base import Split
from evalplugin.data.interactions import Interactions
from evalplugin.data.queries import Unit
from evalplugin.execution.results import Finding

Seconds: TypeAlias = int | float  # float where the data has fractions of a second

_HEAD = 0.2  # of the catalogue, the most popular items; the others are the long tail
_PERCENTILES = (0, 10, 25, 50, 75, 90, 100)
_CURVE_POINTS = 51  # one for each 2 % of the users or items
_MOST_LEVELS = (
    20  # ratings that are counted one by one; of more, ranges of one width, or of counts powers of 2
)
_CHUNK = 2**16  # times counted at once: they stay in the cache
_PERIODS = 40  # equally long, from the first interaction to the last


@dataclass(frozen=True)
class Inequality:
    """How unequally interactions are divided among users, or among items."""

    # G = sum_i (2 i - n - 1) x_i / (n sum_i x_i) over counts x_1 <= ... <= x_n: 0 where all are equal.
    gini: float
    percentiles: Mapping[str, int]  # of the counts: "0" (the lowest), "10", "25", "50", "75", "90", "100"
    # Share of the interactions that the first 0 %, 2 %, ..., 100 % have, those with the most interactions first.
    curve: tuple[float, ...]
    # Number of users or items with 0, 1, 2 to 3, 4 to 7, 8 to 15 ... interactions.
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Rating:
    """How many interactions have a rating, or one within a range: from ``low`` to ``high``, both included."""

    low: float
    high: float
    interactions: int


@dataclass(frozen=True)
class Times:
    """Timestamps: the first, the last, and the interactions of equally long periods from the one to the other."""

    first: Seconds
    last: Seconds
    interactions: tuple[int, ...]


@dataclass(frozen=True)
class FoldCard:
    """Train data and truth of one fold; cold users and items have no train data."""

    train_interactions: int
    test_interactions: int
    test_users: int
    test_items: int
    cold_users: int  # of the test users
    cold_items: int  # of the test items
    cold_interactions: int  # of the test interactions: their user or their item is cold
    train_last: Seconds | None = None  # timestamps; None: there are none
    test_first: Seconds | None = None
    test_last: Seconds | None = None


@dataclass(frozen=True)
class SplitCard:
    """A split of the dataset."""

    name: str
    type: str
    folds: tuple[FoldCard, ...]
    unit: Unit = "user"  # what has a list and a truth; the "users" of its folds are queries, else

    def cold_shares(self) -> dict[str, float]:
        """Return the shares of ``users``, ``items`` and ``interactions`` of the truth that are cold, over all folds."""
        shares = {}
        for name in ("users", "items", "interactions"):
            cold, of = (
                sum(getattr(fold, f"{part}_{name}") for fold in self.folds) for part in ("cold", "test")
            )
            shares[name] = cold / of
        return shares


@dataclass(frozen=True)
class DataCard:
    """A dataset in numbers, after its filters. Users and items are those of the vocabularies."""

    name: str
    type: str
    digest: str
    users: int
    items: int
    interactions: int  # of a log of events: the events
    density: float  # pairs of user and item with an interaction / (users x items)
    # Share of the interactions with items other than the most popular 20 %.
    long_tail: float
    by_user: Inequality
    by_item: Inequality
    ratings: tuple[Rating, ...] | None  # None: all are 1, as without a rating column
    times: Times | None  # None: no timestamps
    notes: tuple[str, ...] = ()  # of reading and of the filters
    splits: tuple[SplitCard, ...] = ()


@dataclass(frozen=True)
class DescribedData:
    """The cards of all datasets of a bake-off."""

    cards: tuple[DataCard, ...]
    # By dataset: a line with its sizes in an earlier bake-off and now. Only datasets that an earlier one has.
    sizes: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()  # of the checks of the data, for the command ``data``

    def as_mapping(self) -> dict[str, Any]:
        """Return the cards as plain JSON values: ``datasets``."""
        return {"datasets": [asdict(card) for card in self.cards]}


def card_of(name: str, type: str, data: Interactions, splits: Sequence[SplitCard] = ()) -> DataCard:
    """Return the card of a dataset, under its name and type in the config."""
    by_item, pairs = data.item_counts, data.merged() if data.events else data
    popular = np.sort(by_item)[::-1]
    head = int(np.ceil(_HEAD * len(popular)))
    return DataCard(
        name=name,
        type=type,
        digest=data.digest,
        users=data.n_users,
        items=data.n_items,
        interactions=len(data),
        density=len(pairs) / (data.n_users * data.n_items),
        long_tail=float(popular[head:].sum() / len(data)),
        by_user=_inequality(np.bincount(data.user, minlength=data.n_users)),
        by_item=_inequality(by_item),
        ratings=_ratings(data.rating),
        times=_times(data),
        notes=(*data.notes, *_repeats(data, len(pairs))),
        splits=tuple(splits),
    )


def _repeats(data: Interactions, pairs: int) -> Iterator[str]:
    """Yield a sentence on a log of events."""
    if data.events:
        repeated = len(data) - pairs
        yield (
            f"a log of events: {len(data):,} events of {pairs:,} pairs of user and item; {repeated:,} "
            f"({share(repeated / len(data))}) repeat another one"
        )


def split_card(name: str, type: str, folds: Sequence[Split]) -> SplitCard:
    """Return the card of a split, under its name and type in the config."""
    return SplitCard(name, type, tuple(map(_fold, folds)), folds[0].unit)


def _fold(fold: Split) -> FoldCard:
    train, test, counts = fold.train, fold.test, fold.counts
    known_user = fold.known.rows.counts > 0
    is_known = known_user[test.user] & (train.item_counts > 0)[test.item]
    train_span, test_span = _span(train), _span(test)
    times = {}
    if train_span is not None and test_span is not None:
        times = {"train_last": train_span[1], "test_first": test_span[0], "test_last": test_span[1]}
    return FoldCard(
        train_interactions=train.n_events,
        test_interactions=test.n_events,
        test_users=counts["test_users"],
        test_items=int((test.item_counts > 0).sum()),
        cold_users=counts["cold_users"],
        cold_items=counts["cold_items"],
        cold_interactions=test.select(~is_known).n_events,
        **times,
    )


def _inequality(counts: Ints) -> Inequality:
    """Return how unequal some counts are; their sum is above 0."""
    ascending = np.sort(counts)
    n, total = len(counts), int(counts.sum())
    # Whole numbers: 2 i - n - 1 is at most n, and the sum fits into 64 bits for any data that fits into memory.
    gini = float(((2 * np.arange(1, n + 1) - n - 1) * ascending).sum() / (n * total))
    positions = [(n - 1) * percentile // 100 for percentile in _PERCENTILES]
    held = np.concatenate([[0], np.cumsum(ascending[::-1])]) / total
    curve = np.interp(np.linspace(0, n, _CURVE_POINTS), np.arange(n + 1), held)
    # The exponent of the binary representation: 1 for 1, 2 for 2 and 3, 3 for 4 to 7.
    sizes = np.bincount(np.frexp(counts)[1])
    return Inequality(
        gini=gini,
        percentiles={str(p): int(ascending[i]) for p, i in zip(_PERCENTILES, positions, strict=True)},
        curve=tuple(round(value, 6) for value in curve.tolist()),
        sizes=tuple(sizes.tolist()),
    )


def _ratings(rating: npt.NDArray[np.float32]) -> tuple[Rating, ...] | None:
    levels, counts = np.unique(rating, return_counts=True)
    if levels.tolist() == [1.0]:
        return None
    if len(levels) <= _MOST_LEVELS:
        # As text, 3.3 in float32 is 3.3 and not 3.299999952316284.
        texts = [float(str(level)) for level in levels]
        return tuple(Rating(text, text, count) for text, count in zip(texts, counts.tolist(), strict=True))
    edges = np.linspace(float(levels[0]), float(levels[-1]), _MOST_LEVELS + 1)
    group = np.clip(np.searchsorted(edges, levels, side="right") - 1, 0, _MOST_LEVELS - 1)
    is_skewed = 2 * counts[group == 0].sum() > counts.sum()
    if is_skewed and levels[0] >= 0 and np.array_equal(levels, np.floor(levels)):
        return _powers(levels, counts)
    inside = np.bincount(group, counts, minlength=_MOST_LEVELS).astype(np.int64).tolist()
    return tuple(
        Rating(float(f"{low:.6g}"), float(f"{high:.6g}"), count)
        for low, high, count in zip(edges[:-1], edges[1:], inside, strict=True)
    )


def _powers(levels: npt.NDArray[np.float32], counts: Ints) -> tuple[Rating, ...]:
    """Return how many interactions have a count of 0, 1, 2 to 3, 4 to 7, 8 to 15 and so on.

    Most counts are low and few are high: of ranges of one width, the first would have nearly all.
    """
    inside = np.bincount(np.frexp(levels)[1], counts).astype(np.int64).tolist()
    return tuple(
        Rating(float(2**power // 2), float(2**power - 1), count)
        for power, count in enumerate(inside)
        if count
    )


def _span(data: Interactions) -> tuple[Seconds, Seconds] | None:
    """Return the first and the last time; None without times."""
    if (time := data.time) is None:
        return None
    first, last, ticks = int(time.min()), int(time.max()), data.ticks_per_second
    return (first, last) if ticks == 1 else (first / ticks, last / ticks)


def _times(data: Interactions) -> Times | None:
    time, span = data.time, _span(data)
    if time is None or span is None:
        return None
    first, length = time.min(), max(1, int(time.max() - time.min()))
    counts = np.zeros(_PERIODS, dtype=np.int64)
    for start in range(0, len(time), _CHUNK):
        # As float64, as passed x periods may not fit into 64 bits.
        period = ((time[start : start + _CHUNK] - first) / length * _PERIODS).astype(np.int64)
        counts += np.bincount(np.minimum(period, _PERIODS - 1), minlength=_PERIODS)
    return Times(*span, tuple(counts.tolist()))
