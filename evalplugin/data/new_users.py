"""The split ``new_users``: users who are not in the train data, with a history to start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Flags
from evalplugin.base.errors import DataError, ParameterError, Problem
from evalplugin.data.base import Split, Splitter, split
from evalplugin.data.interactions import Interactions
from evalplugin.data.splits import draw, places_from_end, positions_in_user, shuffled, tied_cuts, users_with

_BEFORE_LAST_N = "before_last_n"


@split("new_users")
@dataclass(frozen=True)
class NewUsers(Splitter):
    """Users drawn at random are not in the train data; models are told a part of their interactions for their lists.

    That part is the user's history (the fold-in), the rest is the truth. A share is rounded so that the truth has the
    nearest whole number (halves up), at least one; equal times are ordered as by ``last_n``. Users with too few
    interactions for ``min_history`` and a truth are train data.

    This is strong generalisation (Marlin 2004), as in Liang et al. 2018, and Steck 2019. Models must have
    ``recommend_for``. They are tuned on further users, held out from the train data in the same way.
    """

    new_users: ClassVar[bool] = True

    n_users: Annotated[int | None, Field(ge=1, description="number of users to test")] = None
    fraction: Annotated[
        float | None, Field(gt=0, lt=1, description="share of the eligible users to test")
    ] = None
    fold_in: Annotated[
        float | Literal["before_last_n"],
        Field(
            description="what models are told of a test user: a share of the interactions, drawn at random, or all "
            "but the latest n"
        ),
    ] = 0.8
    n: Annotated[
        int | None,
        Field(ge=1, description="interactions held out for each test user, with fold_in: before_last_n"),
    ] = None
    min_history: Annotated[
        int, Field(ge=1, description="interactions that are told of a test user at least")
    ] = 1
    cold: Annotated[
        Literal["keep", "drop"],
        Field(
            description="test interactions with items without train data: keep them in the truth, or drop them; both "
            "are counted"
        ),
    ] = "keep"

    def __post_init__(self) -> None:
        if (self.n_users is None) == (self.fraction is None):
            raise ValueError("new_users takes exactly one of n_users and fraction")
        if self.fold_in == _BEFORE_LAST_N:
            if self.n is None:
                raise ValueError(f"fold_in: {_BEFORE_LAST_N} needs n, how many of the latest are held out")
        elif not 0 < float(self.fold_in) < 1:
            text = (
                f"must be a share above 0 and below 1, or {_BEFORE_LAST_N}, not {self.fold_in:g}: a test user needs "
                f"both a history and a truth; to test users of whom nothing is known, take the split temporal"
            )
            raise ParameterError([Problem(("fold_in",), text)])
        elif self.n is not None:
            raise ParameterError([Problem(("n",), f"goes with fold_in: {_BEFORE_LAST_N}, not with a share")])

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return one fold."""
        least, needed = self.min_history + (self.n or 1), f"min_history + {'n' if self.n else '1'}"
        eligible, notes = users_with(data, least, "new_users", needed)
        drawn = draw(eligible, self.n_users, self.fraction, rng)
        if drawn is None:
            raise DataError(
                f"split new_users: n_users is {self.n_users}, but only {eligible.sum()} users have at least {least} "
                f"interactions ({needed}); lower n_users, or set fraction instead",
                parameter="n_users",
            )
        test, tied = self._truth(data, drawn, rng)
        is_new = drawn[data.user]
        if is_new.all():
            raise DataError(
                f"split new_users: all {int(drawn.sum())} users are test users, so that nobody is left to learn from; "
                f"test fewer",
                parameter="n_users" if self.fraction is None else "fraction",
            )
        history, train = is_new & ~test, data.select(~is_new)
        unknown = train.item_counts == 0
        cold = test & unknown[data.item]
        if self.cold == "drop":
            test &= ~cold
            if not test.any():
                raise DataError("split new_users: no test interaction is with an item of the train data")
        users = len(np.unique(data.user[test]))
        notes += [
            *tied,
            f"{users:,} test users are not in the train data: {int(history.sum()):,} of their interactions are their "
            f"histories, {int(test.sum()):,} the truth",
        ]
        if cold.any():
            done = "dropped" if self.cold == "drop" else "kept in the truth"
            notes.append(f"{int(cold.sum()):,} test interactions with items without train data are {done}")
        return [Split(train, data.select(test), notes=tuple(notes), history=data.select(history))]

    def _truth(self, data: Interactions, drawn: Flags, rng: np.random.Generator) -> tuple[Flags, list[str]]:
        """Return which interactions are the truth (m,), and a note on cuts among equal times."""
        counts = data.rows.counts
        if self.n is not None:
            from_end = places_from_end(data, "new_users", rng)
            return drawn[data.user] & (from_end <= self.n), tied_cuts(data, drawn, from_end, self.n)
        # The number of the others is rounded, halves down: 1 - 0.9 is less than 0.1.
        n_told = np.ceil(float(self.fold_in) * counts - 0.5).astype(np.int64)
        n_told = np.clip(n_told, self.min_history, np.maximum(counts - 1, self.min_history))
        position = positions_in_user(data, shuffled(data, rng))
        return drawn[data.user] & (position >= n_told[data.user]), []
