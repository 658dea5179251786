"""The dataset ``pairs``: interactions in the files of other libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.errors import DataError
from evalplugin.data.base import MOST_IDS, LoadContext, dataset
from evalplugin.data.datasets.tables import FileDataset, PartPaths
from evalplugin.data.formats import FileFormat
from evalplugin.data.interactions import Interactions
from evalplugin.data.pair_formats import PairFormat, pair_format


@dataset("pairs")
@dataclass(frozen=True, kw_only=True)
class Pairs(FileDataset):
    """Interactions in files of other libraries: adjacency lines, RecBole's, triples without a header, sparse matrices.

    - ``adjacency``: a line is a user and all items of that user, separated by spaces (LightGCN and many papers);
    - ``recbole``: a table separated by tabs, whose header has types, as in ``user_id:token`` (.inter);
    - ``triples``: user, item, rating and time separated by tabs, without a header (Elliot; two columns are enough);
    - ``npz``: a matrix of ``scipy.sparse.save_npz`` (CSR, CSC or COO); users and items are its rows and columns. A
      cell that is stored twice is a repeated pair.

    The columns are called user, item, rating and timestamp; those of RecBole as in its header, by default user_id and
    item_id. Ratings and times are read if their columns are named.
    """

    format: Annotated[PairFormat, Field(description="format of the files")]
    path: Annotated[
        str | PartPaths,
        Field(description="the file, or for `split: given` one for each part: {train, test, validation}"),
    ]
    n_items: Annotated[
        int | None,
        Field(
            ge=1,
            le=MOST_IDS,
            description="size of the catalogue, with the ids from 0; null: the items of the data",
        ),
    ] = None
    ids: Annotated[
        Literal["auto", "text"], Field(description="what ids are read as; see the dataset csv")
    ] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ids == "text" and (self.format == "npz" or self.n_items is not None):
            numbers = "n_items" if self.n_items is not None else "format: npz"
            raise ValueError(f"ids: text does not go with {numbers}, whose ids are numbers: leave one out")

    @property
    def roles(self) -> dict[str, str]:
        """The columns of interactions by role."""
        usual = {"user": "user_id", "item": "item_id"} if self.format == "recbole" else {}
        return {role: usual.get(name, name) if name == role else name for role, name in super().roles.items()}

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions of all files, on the whole catalogue."""
        data = super().load(context)
        if self.n_items is None:
            return data
        if data.items.dtype == object or data.items[0] < 0 or data.items[-1] >= self.n_items:
            odd = data.items[[0 if data.items.dtype == object or data.items[0] < 0 else -1]].tolist()[0]
            raise DataError(
                f"pairs: n_items is {self.n_items}, so that items are the numbers below it, but one is {odd!r}"
            )
        return data.on_catalogue(np.arange(self.n_items))

    def _format(self) -> FileFormat:
        return pair_format(self.format, text_ids=self.ids == "text")
