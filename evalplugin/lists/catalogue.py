"""Users, items and train data under the codes of sorted vocabularies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.data.interactions import Interactions
from evalplugin.data.tables import Ids, ids_of
from evalplugin.data.vocabulary import codes_in, encode
from evalplugin.lists.columns import PairColumns, Role
from evalplugin.metrics.blocks import Broken, BrokenRowsError
from evalplugin.metrics.train_data import TrainData

__all__ = [
    "Catalogue",
    "PartContents",
    "catalogue_of",
    "catalogue_of_parts",
    "interactions_alone",
    "interactions_on",
    "refuse_repeated",
]


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Sorted vocabularies of all users and items, for metrics that read the catalogue or the train data."""

    users: npt.NDArray[np.generic]
    items: npt.NDArray[np.generic]
    train: Interactions | None

    @cached_property
    def train_data(self) -> TrainData | None:
        """The train data as metrics read it, once for all parts of the users."""
        return None if self.train is None else TrainData(self.train)

    @classmethod
    def of(
        cls,
        users: npt.NDArray[np.generic],
        items: npt.NDArray[np.generic],
        train: PairColumns | None,
    ) -> Catalogue:
        """Return the catalogue.

        Raises:
            BrokenRowsError: A pair occurs twice in the train data.
        """
        if train is None:
            return cls(users, items, None)
        data = interactions_on(users, items, train)
        refuse_repeated("train", data.user, data.item, users, items)
        return cls(users, items, data)

    def including(self, pairs: PairColumns) -> Catalogue:
        """Return the catalogue with the users and items of some pairs too: the same one where it has them all."""
        users, (_, user) = encode([pairs.user, ids_of(self.users)])
        items, (_, item) = encode([pairs.item, ids_of(self.items)])
        if len(users) == len(self.users) and len(items) == len(self.items):
            return self
        data = self.train
        if data is not None:
            codes = user[data.user].astype(np.int32, copy=False), item[data.item].astype(np.int32, copy=False)
            data = Interactions(*codes, data.rating, None, users, items)
        return Catalogue(users, items, data)


def refuse_repeated(
    role: Role,
    user: npt.NDArray[np.integer[Any]],
    item: npt.NDArray[np.integer[Any]],
    users: npt.NDArray[np.generic],
    items: npt.NDArray[np.generic],
) -> None:
    """Refuse a pair that occurs twice.

    Args:
        role: The table of the pairs.
        user, item: Codes of each pair, (m,).
        users, items: PartContents of the codes.

    Raises:
        BrokenRowsError: Names the first such pair.
    """
    pair = np.sort(user * np.int64(len(items)) + item)
    twice = pair[1:][pair[1:] == pair[:-1]]
    if len(twice):
        codes = divmod(int(twice[0]), len(items))
        raise BrokenRowsError(Broken.repeated(role, users[codes[0]], items[codes[1]]))


def catalogue_of(
    truth: PairColumns, train: PairColumns | None, lists: PairColumns | None = None
) -> Catalogue:
    """Return the catalogue of truth, train data and lists together."""
    every = [pairs for pairs in (lists, truth, train) if pairs is not None]
    users, items = encode([pairs.user for pairs in every])[0], encode([pairs.item for pairs in every])[0]
    return Catalogue.of(users, items, train)


class PartContents(NamedTuple):
    """Users and items of a part of the users."""

    users: npt.NDArray[np.generic]
    items: npt.NDArray[np.generic]  # none if they are not asked for
    n: int  # length of its longest list


def catalogue_of_parts(
    parts: Sequence[PartContents], truth: PairColumns | None, train: PairColumns | None
) -> Catalogue:
    """Return the catalogue of parts of the users, of a truth that they share, and of the train data."""
    shared = [pairs for pairs in (truth, train) if pairs is not None]
    users = [ids_of(part.users) for part in parts] + [pairs.user for pairs in shared]
    known: list[Ids] = []  # items; those of a few parts at a time are added
    for at in range(0, len(parts), 16):
        known = [ids_of(encode([*known, *(ids_of(part.items) for part in parts[at : at + 16])])[0])]
    items = encode([*known, *(pairs.item for pairs in shared)])[0]
    return Catalogue.of(encode(users)[0], items, train)


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
