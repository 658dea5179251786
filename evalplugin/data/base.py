"""Protocols and registries of datasets, filters and splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import platformdirs

from evalplugin.base.arrays import Flags, Ints
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import sparse
from evalplugin.base.units import plural
from evalplugin.components.registry import Component, Registry
from evalplugin.data.interactions import Interactions, joined
from evalplugin.data.queries import Clusters, Unit

MOST_IDS = 100_000_000  # users or items that a config may ask for without naming them: 0.8 GB of ids


@dataclass(frozen=True)
class LoadContext:
    """Locations of datasets, and the callback for progress."""

    data_home: Path | None = None  # folder of downloaded datasets; None: the user's cache
    base: Path = Path()  # the folder that relative paths start from
    # Receives a text, and the share done, if known.
    report: Callable[[str, float | None], None] = lambda text, fraction: None
    # Columns that splits need: of the table of users, or of interactions with one value for each user.
    user_columns: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        """The folder of downloaded datasets."""
        if self.data_home is not None:
            return self.data_home
        return platformdirs.user_cache_path("evalplugin", appauthor=False)


class DatasetLoader(Component):
    """Loader of interactions: a dataclass whose fields are its parameters.

    Attributes:
        duplicates: ``keep``: the data is a log of events, in which a pair may occur again and again.
        is_log: Whether the data is a log of what was shown, whose users are decisions.
    """

    duplicates: str | None = None
    is_log: ClassVar[bool] = False
    new_items: ClassVar[bool] = False  # with any split; see ``Splitter``

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions.

        Raises:
            DataError: The data is missing or breaks a rule.
        """
        raise NotImplementedError

    @property
    def new_users(self) -> bool:
        """Whether test users have a history in place of train data, by any split."""
        return False


@dataclass(frozen=True, eq=False)
class Split:
    """Train and test data of one fold, on the same vocabularies, without a pair in both.

    Events of the same pair become one, with the sum of the ratings; a test pair may then be in the train data.
    ``fold``: its number, from 0. ``history``: what is known of test users who are not in the train data.
    ``validation``: the split for tuning that the data comes with. ``offered`` (n_items,): items that lists may have;
    None: all. ``notes``: decisions taken while splitting, which are logged.

    Raises:
        DataError: One of them is empty, the vocabularies differ, or a pair is in both.
    """

    train: Interactions
    test: Interactions
    fold: int = 0
    overlap_allowed: bool = False  # only where train and test are the same on purpose
    notes: tuple[str, ...] = ()  # decisions taken while splitting, for people; they are logged
    repeats: bool = False  # whether test pairs may be in the train data too, as in a log of events
    # What models are told of test users who are not in the train data, when they make lists for them.
    history: Interactions | None = None
    validation: Split | None = None  # for tuning, where the data comes with validation data
    log: Interactions | None = None  # the events of the train data, where it is a log, to be split again
    offered: Flags | None = None  # (n_items,) items that lists may have; None: the whole catalogue
    unit: Unit = "user"  # what has a list and a truth; ids of queries: see data/queries.py
    history_log: Interactions | None = None  # the events of the history, where it is a log of them
    # The same in all folds, of a split with a parameter ``cluster``; None: users, or sessions, are independent.
    clusters: Clusters | None = None
    shown: Interactions | None = None  # the train part of a log of what was shown, as it was

    def __post_init__(self) -> None:
        if self.train.events or self.test.events:
            object.__setattr__(self, "repeats", True)
        if self.train.events:
            object.__setattr__(self, "log", replace(self.train, part=None, parts=()))
        if self.history is not None and self.history.events:
            object.__setattr__(self, "history_log", self.history)
        for name, given in self._parts.items():
            data = given.merged(first=name == "test")
            object.__setattr__(self, name, data)
            if not len(data):
                raise DataError(f"fold {self.fold + 1} of the split has no {name} interactions")
            for ids in ("users", "items"):
                ours, theirs = getattr(self.train, ids), getattr(data, ids)
                # Splits share the arrays themselves: views of one array need no comparison.
                same = ours.__array_interface__ == theirs.__array_interface__ or np.array_equal(ours, theirs)
                if not same:
                    raise DataError(
                        f"fold {self.fold + 1} of the split: train and {name} data differ in their {ids}"
                    )
        if self.history is not None:
            self._check_history()
        if self.offered is not None and not self.offered[self.test.item].all():
            raise DataError(f"fold {self.fold + 1} of the split: the truth has items that are not offered")
        if not (self.overlap_allowed or self.repeats):
            self._refuse_overlap(self.train, "train")

    @property
    def _parts(self) -> dict[str, Interactions]:
        parts = {"train": self.train, "test": self.test, "history": self.history}
        return {name: part for name, part in parts.items() if part is not None}

    @cached_property
    def known(self) -> Interactions:
        """What is known of the users when lists are made for them: the train data and the history."""
        if self.history is None:
            return self.train
        return joined(self.train, self.history)

    @property
    def train_events(self) -> Interactions:
        """The train data as it was before events of the same pair were merged."""
        return self.train if self.log is None else self.log

    @property
    def history_events(self) -> Interactions | None:
        """The history as it was before events of the same pair were merged."""
        return self.history if self.history_log is None else self.history_log

    @cached_property
    def counts(self) -> dict[str, int]:
        """Sizes of both parts, and how much of the test data is cold."""
        train_users = self.known.rows.counts > 0
        test_users = np.bincount(self.test.user, minlength=self.test.n_users) > 0
        cold_item = self.train.item_counts == 0
        return {
            "train_interactions": self.train.n_events,
            "test_interactions": self.test.n_events,
            "test_users": int(test_users.sum()),
            "cold_users": int((test_users & ~train_users).sum()),
            "cold_items": int((cold_item & (self.test.item_counts > 0)).sum()),
            "test_interactions_on_cold_items": int(self.test.item_events[cold_item].sum()),
        }

    def without_cold_users(self) -> Split:
        """Return the split less the truth of users without train data, and with a note that counts them.

        Raises:
            DataError: No test user has train data.
        """
        users, cold = self.counts["test_users"], self.counts["cold_users"]
        if not cold:
            return self
        units = plural(self.unit)
        left_out = (
            f"{cold:,} of {users:,} test {units} without train data are left out (recommend.cold_users: skip)"
        )
        if cold == users:
            raise DataError(
                f"fold {self.fold + 1}: {left_out}, and nobody is left to test; choose model or popularity"
            )
        test = self.test.select(self.known.rows.counts[self.test.user] > 0)
        return replace(self, test=test, notes=(*self.notes, left_out))

    def shared_pairs(self, part: Interactions) -> Ints:
        """Return the pairs of the test data that a part has too, as numbers: see ``Interactions.pairs``."""
        known, test = (
            sparse.csr_array(
                (np.ones(len(data), dtype=np.bool_), data.rows.item, data.rows.indptr),
                shape=(data.n_users, data.n_items),
            )
            for data in (part, self.test)
        )
        user, item = known.multiply(test).nonzero()
        pairs: Ints = user.astype(np.int64) * part.n_items + item
        return pairs

    def _refuse_overlap(self, part: Interactions, name: str) -> None:
        both = self.shared_pairs(part)
        if len(both):
            raise DataError(
                f"fold {self.fold + 1} of the split: {len(both)} pairs are in both {name} and test data, "
                f"the first is {pair_text(part, both[0])}"
            )

    def _check_history(self) -> None:
        """Refuse a history of users with train data, or one that tells the truth."""
        assert self.history is not None
        in_both = np.flatnonzero((self.train.rows.counts > 0) & (self.history.rows.counts > 0))
        if len(in_both):
            raise DataError(
                f"fold {self.fold + 1} of the split: {len(in_both)} users have both train data and a history, the "
                f"first is {self.train.users[in_both[:1]].tolist()[0]!r}: a history is of users who are new"
            )
        if not self.repeats:
            self._refuse_overlap(self.history, "history")


def pair_text(data: Interactions, pair: np.integer[Any]) -> str:
    """Return a pair, which is a number as in ``Interactions.pairs``, as messages show it."""
    user, item = divmod(int(pair), data.n_items)
    return f"user {data.users[[user]].tolist()[0]!r} with item {data.items[[item]].tolist()[0]!r}"


@dataclass(frozen=True, eq=False)
class Kept:
    """The interactions that a filter keeps."""

    mask: Flags  # (m,)
    detail: str = ""  # what people should know beyond the numbers, such as "4 rounds"


class Filter(Component):
    """Filter of interactions: a dataclass whose fields are its parameters.

    Attributes:
        depends_on_others: Whether what is kept depends on other interactions, which before a split are test data too.
    """

    depends_on_others: ClassVar[bool] = False

    def keep(self, data: Interactions) -> Kept:
        """Return which interactions stay.

        Raises:
            DataError: The data lacks what the filter looks at, such as timestamps.
        """
        raise NotImplementedError


class Splitter(Component):
    """Splitter of interactions into train and test data: a dataclass whose fields are its parameters.

    The ``parameter`` of a DataError locates it in the config.

    Attributes:
        uses_parts: Whether the parts of the data are looked at; else they are joined before.
        new_users: Whether test users have a history in place of train data.
        new_items: Whether test items have no train data.
        unit: What has a list and a truth: ``user`` or ``query``; of a log of what was shown it is ``decision``.
    """

    uses_parts: ClassVar[bool] = False
    new_users: ClassVar[bool] = False
    new_items: ClassVar[bool] = False
    unit: ClassVar[Unit] = "user"

    @property
    def user_columns(self) -> Sequence[str]:
        """Columns to read into ``Interactions.user_columns``, or the attributes of users."""
        return ()

    def of_train_data(self) -> Splitter:
        """Return the split for tuning, where ``tune.split`` is left out."""
        return self

    def newest(self, data: Interactions) -> Interactions:
        """Return the train data of a model that is to be registered."""
        return data

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return one split for each fold; all randomness comes from ``rng``.

        Raises:
            DataError: The data cannot be split this way.
        """
        raise NotImplementedError


DATASETS: Registry[DatasetLoader] = Registry("dataset", "load(context)", base=DatasetLoader)
FILTERS: Registry[Filter] = Registry("filter", "keep(data)", base=Filter)
SPLITS: Registry[Splitter] = Registry("split", "split(data, rng)", base=Splitter)

# Decorators of dataclasses, such as ``@dataset("mine")``.
dataset = DATASETS.register
data_filter = FILTERS.register
split = SPLITS.register
