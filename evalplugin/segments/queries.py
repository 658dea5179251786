"""The segments ``position`` and ``repeat``: queries grouped by their place in the session and by their truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Flags, Ints, search
from evalplugin.data import LoadContext, Split
from evalplugin.data.queries import Unit, positions_of
from evalplugin.segments.base import Segmenter, segment
from evalplugin.segments.groups import Groups


@segment("position")
@dataclass(frozen=True)
class Position(Segmenter):
    """Queries by the number of events of the session before them: 1, 2 and so on, and one group of the rest.

    Only for splits whose units are queries, such as ``next_item``.
    """

    unit: ClassVar[Unit] = "query"

    groups: Annotated[int, Field(ge=2, description="groups, of which the last has all later queries")] = 5

    def measure(self, fold: Split, users: Codes, context: LoadContext) -> Ints:
        """Return the number of events before each query."""
        return positions_of(fold.test.users[users])

    def divide(self, values: Ints) -> Groups:
        """Return the groups that have queries."""
        number, group = np.unique(np.minimum(values, self.groups), return_inverse=True)
        labels = [
            f"after {'1 event' if n == 1 else f'{n} events'}{' or more' * (n == self.groups)}"
            for n in number.tolist()
        ]
        return Groups(tuple(labels), group.astype(np.int32))


@segment("repeat")
@dataclass(frozen=True)
class Repeat(Segmenter):
    """Queries whose truth has an item of the session's history, and the others.

    Only for splits whose units are queries, such as ``next_item``. No winner is named in these groups, which are
    unknown before the next item is.
    """

    unit: ClassVar[Unit] = "query"
    from_truth: ClassVar[bool] = True

    def measure(self, fold: Split, users: Codes, context: LoadContext) -> Flags:
        """Return whether the truth of each query has an item of its history."""
        test = fold.test
        _, is_known = search(fold.known.pairs(), test.user.astype(np.int64) * test.n_items + test.item)
        return (np.bincount(test.user[is_known], minlength=test.n_users) > 0)[users]

    def divide(self, values: Flags) -> Groups:
        """Return the queries with a new item, and those with a repeated one."""
        return Groups(("new to the session", "seen in the session"), values.astype(np.int32))
