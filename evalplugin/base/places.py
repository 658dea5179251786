"""A dataset and a split, by their names."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class OnDataSplit(Protocol):
    """A value that names a dataset and a split."""

    @property
    def dataset(self) -> str:
        """The name of the dataset."""

    @property
    def split(self) -> str:
        """The name of the split; may be empty."""


class DataSplit(NamedTuple):
    """A dataset and a split, by their names in the config; as text ``shop, last_n``."""

    dataset: str
    split: str  # may be empty

    @classmethod
    def of(cls, value: OnDataSplit) -> DataSplit:
        """Return the dataset and split that a value names in ``dataset`` and ``split``."""
        return cls(value.dataset, value.split)

    def __str__(self) -> str:
        return ", ".join(filter(None, self))
