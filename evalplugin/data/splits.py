"""Splits of interactions into train data and truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Flags, Ints
from evalplugin.base.errors import DataError
from evalplugin.base.seeding import hashed_ids, mixed
from evalplugin.data.base import Split, Splitter, split
from evalplugin.data.interactions import Interactions, rows_by_code, rows_by_time

ColdRule = Annotated[
    Literal["keep", "drop"],
    Field(
        description="test interactions of users or items without train data: keep them in the truth, or drop them; "
        "both are counted"
    ),
]


@split("none")
@dataclass(frozen=True)
class NoSplit(Splitter):
    """No split: all data is train data, and all of it is the truth.

    For worked examples and studies of memorisation, with ``candidates: all`` or ``judged``.
    """

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return one fold whose train and test data are the whole data."""
        return [Split(data, data, overlap_allowed=True)]


@split("holdout")
@dataclass(frozen=True)
class Holdout(Splitter):
    """A fraction of the interactions, drawn at random, is the truth.

    ``by: user`` draws from each user's interactions: the fraction of their number, rounded to the nearest whole
    (halves up), but one at least stays in train.
    """

    fraction: Annotated[
        float, Field(gt=0, lt=1, description="share of the interactions that is held out")
    ] = 0.2
    by: Annotated[Literal["user", "interactions"], Field(description="what the fraction is taken of")] = (
        "user"
    )
    cold: ColdRule = "keep"

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return one fold."""
        if self.by == "interactions":
            test = np.zeros(len(data), dtype=np.bool_)
            test[shuffled(data, rng)[: int(self.fraction * len(data) + 0.5)]] = True
            return [held_out(data, test, self.cold)]
        counts = data.rows.counts
        size = np.minimum((self.fraction * counts + 0.5).astype(np.int64), np.maximum(counts - 1, 0))
        untested = int(((counts > 0) & (size == 0)).sum())
        notes = [f"{untested} users have too few interactions for one to be held out"] if untested else []
        test = positions_in_user(data, shuffled(data, rng)) < size[data.user]
        return [held_out(data, test, self.cold, notes=notes)]


@split("kfold")
@dataclass(frozen=True)
class KFold(Splitter):
    """The interactions are dealt at random into k folds; each fold is the truth once, the others its train data."""

    k: Annotated[int, Field(ge=2, description="number of folds")] = 5
    cold: ColdRule = "keep"

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return k folds, of sizes that differ by one at most."""
        if len(data) < self.k:
            raise DataError(f"split kfold: {len(data)} interactions cannot make {self.k} folds; lower k")
        fold_of = np.empty(len(data), dtype=np.int64)
        fold_of[shuffled(data, rng)] = np.arange(len(data)) % self.k
        return [held_out(data, fold_of == fold, self.cold, fold=fold) for fold in range(self.k)]


@split("last_n")
@dataclass(frozen=True)
class LastN(Splitter):
    """The latest n interactions of each user are the truth; n = 1 is leave-one-out.

    Equal times are ordered by a hash of the seed, the user and the item. A user with fewer than ``n + min_train``
    interactions stays in train. Both are counted.
    """

    n: Annotated[int, Field(ge=1, description="interactions held out for each user")] = 1
    min_train: Annotated[
        int, Field(ge=1, description="interactions a tested user keeps in train at least")
    ] = 1
    cold: ColdRule = "keep"

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return one fold."""
        tested, notes = users_with(data, self.n + self.min_train, "last_n")
        from_end = places_from_end(data, "last_n", rng)
        notes += tied_cuts(data, tested, from_end, self.n)
        return [held_out(data, tested[data.user] & (from_end <= self.n), self.cold, notes=notes)]


@split("sample_users")
@dataclass(frozen=True)
class SampleUsers(Splitter):
    """Users drawn at random are tested on n of their interactions; all else is train data.

    Only users with at least ``n + min_train`` interactions are drawn. As LensKit's ``sample_users`` with ``LastN`` or
    ``SampleN``.
    """

    n_users: Annotated[int | None, Field(ge=1, description="number of users to test")] = None
    fraction: Annotated[
        float | None, Field(gt=0, le=1, description="share of the eligible users to test")
    ] = None
    n: Annotated[int, Field(ge=1, description="interactions held out for each tested user")] = 5
    hold: Annotated[
        Literal["last", "random"],
        Field(description="which ones: the latest (equal times in a random order), or any"),
    ] = "last"
    min_train: Annotated[
        int, Field(ge=1, description="interactions a tested user keeps in train at least")
    ] = 1
    cold: ColdRule = "keep"

    def __post_init__(self) -> None:
        if (self.n_users is None) == (self.fraction is None):
            raise ValueError("sample_users takes exactly one of n_users and fraction")

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return one fold."""
        eligible, notes = users_with(data, self.n + self.min_train, "sample_users")
        drawn = draw(eligible, self.n_users, self.fraction, rng)
        if drawn is None:
            raise DataError(
                f"split sample_users: n_users is {self.n_users}, but only {eligible.sum()} users have at least "
                f"{self.n + self.min_train} interactions",
                parameter="n_users",
            )
        last = self.hold == "last"
        from_end = (
            places_from_end(data, "sample_users", rng)
            if last
            else data.rows.counts[data.user] - positions_in_user(data, shuffled(data, rng))
        )
        notes += tied_cuts(data, drawn, from_end, self.n) if last else []
        return [held_out(data, drawn[data.user] & (from_end <= self.n), self.cold, notes=notes)]


def held_out(
    data: Interactions,
    test: Flags,
    cold: Literal["keep", "drop"],
    *,
    train: Flags | None = None,
    fold: int = 0,
    notes: list[str] | None = None,
) -> Split:
    """Return one fold; of data that repeats, test pairs may be in the train data too.

    Args:
        data: All interactions.
        test: Whether each is test data (m,).
        cold: Whether test interactions of users or items without train data are kept or dropped.
        train: Whether each is train data (m,); None: all that are not test data.
        fold: Number of the fold.
        notes: Decisions to note.
    """
    train, notes = ~test if train is None else train, list(notes or ())
    if cold == "drop":
        known_user = np.bincount(data.user[train], minlength=data.n_users) > 0
        known_item = np.bincount(data.item[train], minlength=data.n_items) > 0
        warm = test & known_user[data.user] & known_item[data.item]
        if dropped := int(test.sum() - warm.sum()):
            notes.append(f"dropped {dropped} test interactions of users or items without train interactions")
        test = warm
    return Split(data.select(train), data.select(test), fold=fold, notes=tuple(notes), repeats=data.repeats)


def draw(
    eligible: Flags, number: int | None, fraction: float | None, rng: np.random.Generator
) -> Flags | None:
    """Return which of the eligible ones are drawn, by number or share (at least one); None: there are too few."""
    pool = np.flatnonzero(eligible)
    size = max(1, int(float(fraction or 0) * len(pool) + 0.5)) if number is None else number
    if size > len(pool):
        return None
    drawn = np.zeros(len(eligible), dtype=np.bool_)
    drawn[rng.choice(pool, size, replace=False)] = True
    return drawn


def users_with(
    data: Interactions, least: int, name: str, needed: str = "n + min_train"
) -> tuple[Flags, list[str]]:
    """Return a mask of the users with at least ``least`` interactions, bool (n_users,), and a note on the others.

    ``needed`` says in messages what the number is made of.
    """
    counts = data.rows.counts
    enough = counts >= least
    if not enough.any():
        raise DataError(
            f"split {name}: no user has the {least} interactions that are needed ({needed}); "
            f"the most active one has {counts.max()}"
        )
    short = int(((counts > 0) & ~enough).sum())
    return enough, [f"{short} users with fewer than {least} interactions are not tested"] if short else []


def positions_in_user(data: Interactions, order: Ints) -> Ints:
    """Return the 0-based position of each interaction within its user, given an order of all rows (m,): int64 (m,)."""
    start, rows = rows_by_code(data.user[order], data.n_users)
    by_user = order[rows]
    positions = np.empty(len(data), dtype=np.int64)
    positions[by_user] = np.arange(len(data)) - start[data.user[by_user]]
    return positions


def shuffled(data: Interactions, rng: np.random.Generator) -> Ints:
    """Return the rows in random order, int64 (m,); the order that they are in does not count."""
    return data.by_pair()[rng.permutation(len(data))]


def places_from_end(data: Interactions, name: str, rng: np.random.Generator) -> Ints:
    """Return the place of each interaction within its user, from 1 for the latest: int64 (m,).

    Equal times are ordered by a hash of seed, user and item.
    """
    times_of(data, name)
    # The seed alone: the stream of ``rng`` depends on all pairs, and a further row would reorder ties elsewhere.
    seed = rng.bit_generator.seed_seq.entropy  # type: ignore[attr-defined]
    user = hashed_ids(data.users, seed, "times", "user")
    item = hashed_ids(data.items, seed, "times", "item")

    def tied(rows: npt.NDArray[np.integer[Any]]) -> tuple[npt.NDArray[Any], ...]:
        place = mixed(user[data.user[rows]] ^ item[data.item[rows]])
        # Events of one pair at one time differ by their ratings alone.
        return (data.rating[rows], place) if data.events else (place,)

    start, by_time = rows_by_time(data, tied)
    places = np.empty(len(data), dtype=np.int64)
    places[by_time] = np.repeat(start[1:], np.diff(start)) - np.arange(len(data))
    return places


def tied_cuts(data: Interactions, tested: Flags, from_end: Ints, n: int) -> list[str]:
    """Return a note on the tested users with equal times on both sides of the cut, if there are any.

    ``from_end`` (m,): the place of each interaction within its user, from 1 for the last.
    """
    time = data.time
    assert time is not None
    first, before = np.zeros((2, data.n_users), dtype=np.int64)
    first[data.user[from_end == n]] = time[from_end == n]
    before[data.user[from_end == n + 1]] = time[from_end == n + 1]
    tied = int((tested & (first == before)).sum())
    if not tied:
        return []
    return [
        f"{tied:,} of {int(tested.sum()):,} tested users have equal times on both sides of the cut: which of these "
        f"interactions are held out is drawn by the seed"
    ]


def times_of(data: Interactions, name: str) -> Ints:
    """Return the exact times in ticks, int64 (m,).

    Raises:
        DataError: The data has none; the message names the split.
    """
    if (time := data.time) is None:
        near = [column for role, column in data.unused if role == "timestamp"]
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise DataError(
            f"split {name} needs timestamps, and the data has none: name its timestamp column by the dataset's "
            f"timestamp{hint}"
        )
    return time
