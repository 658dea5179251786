"""The model ``logging-policy``: what a log of decisions has shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evalplugin.base.arrays import NO_ITEM, position_in_row, search
from evalplugin.models.base import ListRequest, Recommender, model
from evalplugin.models.selection import TopN

if TYPE_CHECKING:
    from evalplugin.data import Interactions


@model("logging-policy")
@dataclass
class LoggingPolicy(Recommender):
    """What each decision of the log has shown, by position: the policy that was in use when the data was logged.

    Its value is the mean reward of the decisions. The score of an item is 1 / position. For the dataset
    ``impressions`` alone.
    """

    personalised: ClassVar[bool] = False
    learns: ClassVar[bool] = False
    lists_new_items: ClassVar[bool] = True
    is_logging: ClassVar[bool] = True
    stochastic: ClassVar[bool] = False
    takes_history: ClassVar[bool] = True
    cold_users: ClassVar[str] = "what was shown, as all decisions do"

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Learn nothing."""

    def recommend_task(self, request: ListRequest) -> TopN:
        """Return what was shown to each decision of a request, the first ``n`` positions with an item."""
        log, users = request.log, request.users
        assert log is not None and log.position is not None, "a config without a log is refused"
        order = np.lexsort((log.position, log.user))
        row, is_asked = search(users, log.user[order])
        order, row = order[is_asked], row[is_asked]
        rank = position_in_row(row, len(users))
        order, row, rank = (values[rank < request.n] for values in (order, row, rank))
        item = np.full((len(users), request.n), NO_ITEM, dtype=np.int32)
        score = np.full((len(users), request.n), np.nan)
        item[row, rank], score[row, rank] = log.item[order], 1 / log.position[order]
        return TopN(users, item, score)
