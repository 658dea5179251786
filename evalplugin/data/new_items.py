"""The split ``new_items``: items without train data, for models that know more than interactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.errors import DataError
from evalplugin.base.seeding import hashed_ranks
from evalplugin.data.base import Split, Splitter, split
from evalplugin.data.interactions import Interactions
from evalplugin.data.splits import draw, times_of

_SHOWN = 5  # of the new items


@split("new_items")
@dataclass(frozen=True)
class NewItems(Splitter):
    """All interactions of some items are the truth: the train data does not have these items.

    Only models that declare ``lists_new_items`` are allowed, such as plugins that use attributes, or lists from
    elsewhere. Equal times are ordered by a hash of the seed. Users whose interactions are all with new items have no
    train data: see ``recommend.cold_users``.
    """

    new_items: ClassVar[bool] = True

    n_items: Annotated[int | None, Field(ge=1, description="number of new items")] = None
    fraction: Annotated[
        float | None, Field(gt=0, lt=1, description="share of the items with interactions that is new")
    ] = None
    hold: Annotated[
        Literal["random", "latest"],
        Field(description="which items: any, or those whose first interaction is latest"),
    ] = "random"
    candidates: Annotated[
        Literal["new", "catalogue"],
        Field(
            description="lists are of new items alone, or of the whole catalogue, where an item of the train data is "
            "never right"
        ),
    ] = "new"

    def __post_init__(self) -> None:
        if (self.n_items is None) == (self.fraction is None):
            raise ValueError("new_items takes exactly one of n_items and fraction")

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return one fold."""
        in_data = data.item_counts > 0
        new = draw(in_data, self.n_items, self.fraction, rng)
        if new is None or new.sum() == in_data.sum():
            raise DataError(
                f"split new_items: {self.n_items or self.fraction} of {in_data.sum()} items with interactions leaves "
                f"no train data; make fewer items new",
                parameter="n_items" if self.fraction is None else "fraction",
            )
        if self.hold == "latest":
            time, first = times_of(data, "new_items"), np.full(data.n_items, np.iinfo(np.int64).max)
            np.minimum.at(first, data.item, time)
            seed = rng.bit_generator.seed_seq.entropy  # type: ignore[attr-defined]
            order = np.lexsort((hashed_ranks(data.items, seed, "first times"), first))
            order, n_new = order[in_data[order]], int(new.sum())
            new = np.zeros(data.n_items, dtype=np.bool_)
            new[order[-n_new:]] = True
        test = new[data.item]
        first = data.items[new][:_SHOWN].tolist()
        note = (
            f"{int(new.sum()):,} of {int(in_data.sum()):,} items are new ({', '.join(map(str, first))}"
            f"{', ...' if new.sum() > _SHOWN else ''}): their {int(test.sum()):,} interactions are the truth"
        )
        offered = new if self.candidates == "new" else None
        return [Split(data.select(~test), data.select(test), notes=(note,), offered=offered)]
