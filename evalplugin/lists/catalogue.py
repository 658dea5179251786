"""Users, items and train data under the codes of sorted vocabularies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.data.interactions import Interactions
from evalplugin.data.tables import Ids, ids_of
from evalplugin.data.vocabulary import codes_in, encode
from evalplugin.lists.columns import PairColumns
from evalplugin.metrics.blocks import repeated_item
from evalplugin.metrics.train_data import TrainData

NO_IDS: npt.NDArray[np.generic] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Catalogue:
    """All items and, with train data, all users, for metrics that read the catalogue or the train data."""

    users: npt.NDArray[np.generic]  # sorted; none without train data
    items: npt.NDArray[np.generic]  # sorted
    train: Interactions | None

    @cached_property
    def train_data(self) -> TrainData | None:
        """The train data as metrics read it, once for all parts of the users."""
        return None if self.train is None else TrainData(self.train)

    @classmethod
    def of(cls, tables: Sequence[PairColumns | PartContents], train: PairColumns | None) -> Catalogue:
        """Return the catalogue of lists, truth or parts of the users, and of the train data.

        Raises:
            DataError: A pair occurs twice in the train data.
        """
        every = tables if train is None else [*tables, train]
        users = NO_IDS if train is None else encode([table.user for table in every])[0]
        return cls.on(users, encode([table.item for table in every])[0], train)

    @classmethod
    def on(
        cls, users: npt.NDArray[np.generic], items: npt.NDArray[np.generic], train: PairColumns | None
    ) -> Catalogue:
        """Return the catalogue of vocabularies that have all ids of the train data.

        Raises:
            DataError: A pair occurs twice in the train data.
        """
        if train is None:
            return cls(users, items, None)
        data = interactions_on(users, items, train)
        _refuse_repeated(data)
        return cls(users, items, data)

    def user_codes(self, users: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
        """Return the codes by which train data is looked up; without train data, the positions of the users."""
        if self.train is None:
            return np.arange(len(users))
        return codes_in(ids_of(users), self.users).astype(np.int64)


class PartContents(NamedTuple):
    """Users and items of a part of the users, each once, and the length of its longest list."""

    user: Ids
    item: Ids
    n: int


def _refuse_repeated(train: Interactions) -> None:
    """Refuse a pair that occurs twice in the train data.

    Raises:
        DataError: Names the first such pair.
    """
    pair = np.sort(train.user * np.int64(train.n_items) + train.item)
    twice = pair[1:][pair[1:] == pair[:-1]]
    if len(twice):
        user, item = divmod(int(twice[0]), train.n_items)
        raise repeated_item("train", train.users[user], train.items[item])


def interactions_on(
    users: npt.NDArray[np.generic], items: npt.NDArray[np.generic], pairs: PairColumns
) -> Interactions:
    """Return pairs as interactions on vocabularies that include all their ids; missing ratings are 1."""
    return Interactions(
        user=codes_in(pairs.user, users).astype(np.int32, copy=False),
        item=codes_in(pairs.item, items).astype(np.int32, copy=False),
        rating=(np.ones(len(pairs.user)) if pairs.values is None else pairs.values).astype(np.float32),
        timestamp=None,
        users=users,
        items=items,
    )


def interactions_alone(pairs: PairColumns) -> Interactions:
    """Return pairs as interactions on vocabularies of these pairs alone, so that the digest depends on nothing else."""
    return interactions_on(encode([pairs.user])[0], encode([pairs.item])[0], pairs)
