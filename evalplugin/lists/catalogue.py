"""Users, items and train data under the codes of sorted vocabularies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evalplugin.data.interactions import Interactions
from evalplugin.data.vocabulary import codes_in, encode
from evalplugin.lists.columns import ListInput, PairColumns
from evalplugin.metrics.blocks import Broken, BrokenRowsError
from evalplugin.metrics.train_data import TrainData

__all__ = ["Catalogue", "catalogue_of", "interactions_alone", "interactions_on"]


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
        pair = np.sort(data.user * np.int64(len(items)) + data.item)
        twice = pair[1:][pair[1:] == pair[:-1]]
        if len(twice):
            codes = divmod(int(twice[0]), len(items))
            raise BrokenRowsError(Broken.repeated("train", users[codes[0]], items[codes[1]]))
        return cls(users, items, data)


def catalogue_of(inputs: ListInput) -> Catalogue:
    """Return the catalogue of lists, truth and train data together."""
    every = [pairs for pairs in inputs if pairs is not None]
    users, items = encode([pairs.user for pairs in every])[0], encode([pairs.item for pairs in every])[0]
    return Catalogue.of(users, items, inputs.train)


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
