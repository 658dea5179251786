"""The segments ``activity``, ``popularity`` and ``cold``: users grouped by their interactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats, Ints
from evalplugin.data import LoadContext, Split
from evalplugin.segments.base import Segmenter, segment
from evalplugin.segments.groups import Groups, by_quantile

Parts = Annotated[
    int, Field(ge=1, description="groups of about the same size; fewer where many users are equal")
]

NO_HISTORY = "no history"  # label of the users without train data


class _ByHistory(Segmenter):
    """Base of the segments that divide users by the number of their train interactions."""

    def measure(self, fold: Split, users: Codes, context: LoadContext) -> Ints:
        """Return the number of train interactions, or of those of the history of a user without any."""
        return fold.known.user_events[users]


@segment("activity")
@dataclass(frozen=True)
class Activity(_ByHistory):
    """Users by the number of their interactions in the train data.

    Users with equally many are never parted. Those without any form the group ``no history``.
    """

    groups: Parts = 3

    def divide(self, values: Ints) -> Groups:
        """Return the users without history, and quantile groups of the others."""
        parts = by_quantile(np.where(values > 0, values, np.nan), self.groups)
        labels = tuple(f"{text} interaction{'s' * (text != '1')}" for text in parts.labels)
        return Groups(labels, parts.group).adding(NO_HISTORY, values == 0, first=True)


@segment("popularity")
@dataclass(frozen=True)
class Popularity(Segmenter):
    """Users by how popular the items of their truth are: from niche to popular.

    An item's popularity is its number of interactions in the train data; a user's is the mean over the user's
    held-out items, relevant or not. Labels have the lowest and the highest mean: ``niche 0-41 users per item``. Users
    with equal means are never parted.

    No winner is named in these groups, which are unknown before the items are held out.
    """

    from_truth: ClassVar[bool] = True

    groups: Parts = 3

    def measure(self, fold: Split, users: Codes, context: LoadContext) -> Floats:
        """Return the mean popularity of each user's truth."""
        test = fold.test
        total = np.bincount(test.user, fold.train.item_counts[test.item], minlength=test.n_users)
        size = np.bincount(test.user, minlength=test.n_users)
        return total[users] / size[users]

    def divide(self, values: Floats) -> Groups:
        """Return quantile groups: the lowest is niche, the highest popular, all others medium."""
        parts = by_quantile(values, self.groups)
        between = len(parts.labels) - 2
        words = ["niche", *["medium"] * between, "popular"] if between >= 0 else ["medium"]
        labels = tuple(
            f"{word} {text} users per item" for word, text in zip(words, parts.labels, strict=True)
        )
        return Groups(labels, parts.group)


@segment("cold")
@dataclass(frozen=True)
class Cold(_ByHistory):
    """Users with little or nothing in the train data, against the others."""

    below: Annotated[
        int, Field(ge=1, description="users with fewer train interactions than this are cold")
    ] = 1

    def divide(self, values: Ints) -> Groups:
        """Return the cold users and the others."""
        labels = (f"fewer than {self.below} interactions", f"{self.below} or more interactions")
        if self.below == 1:
            labels = (NO_HISTORY, "with history")
        return Groups(labels, (values >= self.below).astype(np.int32))
