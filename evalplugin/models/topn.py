"""``TopN``: what a model recommends; and how the best n of a block of scores are chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

    from evalplugin.data import Interactions

__all__ = ["NO_ITEM", "TopN"]

NO_ITEM = -1


@dataclass(frozen=True, eq=False)
class TopN:
    """A list for each user: best first, score descending, equal scores in catalogue order, no item twice.

    ``user`` int32 (U,) codes, ascending; ``item`` int32 (U, N) codes, ``NO_ITEM`` behind the end of a short list;
    ``score`` float64 (U, N), NaN behind the end.
    """

    user: npt.NDArray[np.int32]
    item: npt.NDArray[np.int32]
    score: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("user", "item", "score"):
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.user)

    @property
    def n(self) -> int:
        """The length that was asked for; a list may be shorter."""
        return int(self.item.shape[1])

    def to_table(self, data: Interactions) -> pa.Table:
        """Return the lists as a table of raw ids: user, item, rank (from 1), score; one row a listed item."""
        import pyarrow as pa

        listed = self.item != NO_ITEM
        row, position = np.nonzero(listed)
        return pa.table(
            {
                "user": pa.array(data.users[self.user[row]].tolist() if data.users.dtype == object else data.users[self.user[row]]),
                "item": pa.array(data.items[self.item[listed]].tolist() if data.items.dtype == object else data.items[self.item[listed]]),
                "rank": pa.array((position + 1).astype(np.int32)),
                "score": pa.array(self.score[listed]),
            }
        )
