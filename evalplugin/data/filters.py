"""Filters: steps that leave interactions out of a dataset before it is split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import search
from evalplugin.base.errors import DataError
from evalplugin.components.parameters import as_mapping
from evalplugin.components.registry import call_component
from evalplugin.data.base import Filter, Kept, data_filter
from evalplugin.data.given import in_one_piece
from evalplugin.data.interactions import Interactions
from evalplugin.data.times import is_date, time_text, timestamp_of


@data_filter("k_core")
@dataclass(frozen=True)
class KCore(Filter):
    """Only users and items with at least k interactions among those that stay.

    Others are left out, round by round, until none has fewer.

    Source: S. B. Seidman, Network structure and minimum degree, Social Networks 5 (1983).
    """

    depends_on_others: ClassVar[bool] = True

    k: Annotated[int, Field(ge=2, description="interactions that a user and an item have at least")] = 5

    def keep(self, data: Interactions) -> Kept:
        """Return the interactions of the k-core."""
        kept, rounds = np.arange(len(data)), 0
        while True:
            user, item = data.user[kept], data.item[kept]
            users = np.bincount(user, minlength=data.n_users) >= self.k
            stays = users[user] & (np.bincount(item, minlength=data.n_items) >= self.k)[item]
            if stays.all():
                break
            kept, rounds = kept[stays], rounds + 1
        alive = np.zeros(len(data), dtype=np.bool_)
        alive[kept] = True
        return Kept(alive, f"{rounds} round{'' if rounds == 1 else 's'}")


@data_filter("min_count")
@dataclass(frozen=True)
class MinCount(Filter):
    """Only users, or items, or both, with a minimum number of interactions.

    Users and items are counted once, before anything is left out: some that stay may have fewer afterwards;
    ``k_core`` repeats the step until none has.
    """

    depends_on_others: ClassVar[bool] = True

    users: Annotated[
        int | None, Field(ge=1, description="interactions that a user has at least; null: any number")
    ] = None
    items: Annotated[
        int | None, Field(ge=1, description="interactions that an item has at least; null: any number")
    ] = None

    def __post_init__(self) -> None:
        if self.users is None and self.items is None:
            raise ValueError("min_count takes users, items or both")

    def keep(self, data: Interactions) -> Kept:
        """Return the interactions of users and items with enough of them."""
        mask = np.ones(len(data), dtype=np.bool_)
        for least, codes, n in ((self.users, data.user, data.n_users), (self.items, data.item, data.n_items)):
            if least is not None:
                mask &= (np.bincount(codes, minlength=n) >= least)[codes]
        return Kept(mask)


@data_filter("rating")
@dataclass(frozen=True)
class RatingRange(Filter):
    """Only interactions whose rating is in a range, both ends included.

    To have only high ones count as relevant, set ``relevance.threshold`` instead.
    """

    min: Annotated[float | None, Field(description="lowest rating that stays; null: no limit")] = None
    max: Annotated[float | None, Field(description="highest rating that stays; null: no limit")] = None

    def __post_init__(self) -> None:
        if self.min is None and self.max is None:
            raise ValueError("rating takes min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min must be at most max, not {self.min:g} with max: {self.max:g}")

    def keep(self, data: Interactions) -> Kept:
        """Return the interactions in the range."""
        low, high = -np.inf if self.min is None else self.min, np.inf if self.max is None else self.max
        # Ratings are float32: a rating of 3.3 in the data must reach a minimum of 3.3.
        return Kept((data.rating >= np.float32(low)) & (data.rating <= np.float32(high)))


@data_filter("period")
@dataclass(frozen=True)
class Period(Filter):
    """Only interactions of a period: from its start, which is included, to its end, which is not.

    Both are timestamps as in the data, or ISO 8601 dates, which are compared with seconds since 1970; a date without a
    time zone is UTC. ``{from: 2025-01-01, to: 2026-01-01}`` is the year 2025.
    """

    from_: Annotated[
        int | str | None, Field(description="first time that stays; null: from the beginning")
    ] = None
    to: Annotated[int | str | None, Field(description="first time that is left out; null: to the end")] = None

    def __post_init__(self) -> None:
        start, end = self._ends
        if start is None and end is None:
            raise ValueError("period takes from, to or both")
        if start is not None and end is not None and start >= end:
            raise ValueError(f"from must be before to, not {self.from_} with to: {self.to}")

    def keep(self, data: Interactions) -> Kept:
        """Return the interactions of the period."""
        if (time := data.time) is None:
            raise DataError("needs timestamps, and the data has none: name its timestamp column")
        mask = np.ones(len(data), dtype=np.bool_)
        start, end = self._ends
        if start is not None:
            mask &= time >= ceil(start * data.ticks_per_second)
        if end is not None:
            mask &= time < ceil(end * data.ticks_per_second)
        return Kept(mask)

    @property
    def _ends(self) -> tuple[int | Fraction | None, int | Fraction | None]:
        start = None if self.from_ is None else timestamp_of(self.from_, "from")
        return start, None if self.to is None else timestamp_of(self.to, "to")


def filtered(data: Interactions, filters: Sequence[tuple[str, Filter]]) -> Interactions:
    """Return the data after all filters, in their order, with a note on each.

    Users and items without an interaction leave the vocabularies; titles and attributes follow. Each filter comes with
    its type.

    Raises:
        DataError: A filter leaves nothing, or the data lacks what it looks at.
    """
    for type, step in filters:
        name = filter_text(type, step)
        try:
            kept = call_component(f"filter {name}", _kept, step, data)
        except DataError as error:
            raise DataError(f"filter {name}: {error}") from None
        if not kept.mask.any():
            raise DataError(f"filter {name} leaves nothing: {_contents(data)}")
        if data.is_log and np.isin(data.user[kept.mask], data.user[~kept.mask]).any():
            raise DataError(
                f"filter {name} divides decisions, of which a log needs all rows: leave out whole ones, such as those "
                f"of a period"
            )
        before, data = data, data.restrict(kept.mask)
        left_out = (
            f"{len(before) - len(data):,} of {len(before):,} interactions left out, "
            f"{before.n_users - data.n_users:,} of {before.n_users:,} users, "
            f"{before.n_items - data.n_items:,} of {before.n_items:,} items"
        )
        data = data.noting(f"filter {name}: {left_out}" + (f"; {kept.detail}" if kept.detail else ""))
    return data


def _kept(step: Filter, data: Interactions) -> Kept:
    """Return the interactions that a filter keeps; a pair in several parts counts once."""
    if data.part is None or not step.depends_on_others:
        return step.keep(data)
    whole = in_one_piece(data) if data.events else data.merged()
    kept = step.keep(whole)
    pair = data.user.astype(np.int64) * data.n_items + data.item
    return replace(kept, mask=search(whole.select(kept.mask).pairs(), pair)[1])


def filter_text(type: str, step: Filter) -> str:
    """Return a filter with its parameters, such as ``k_core (k: 5)``."""
    given = ", ".join(
        f"{name}: {value:g}" if isinstance(value, float) else f"{name}: {value}"
        for name, value in as_mapping(step).items()
        if value is not None
    )
    return f"{type} ({given})" if given else type


def _contents(data: Interactions) -> str:
    """Describe the data that a filter was given, for its error."""
    most_active = np.bincount(data.user).max() if len(data) else 0
    lowest, highest = data.rating_scale
    text = (
        f"there are {len(data):,} interactions of {data.n_users:,} users (the most active has {most_active:,}) with "
        f"{data.n_items:,} items (the most popular has {data.item_counts.max():,}), ratings from {lowest:g} to "
        f"{highest:g}"
    )
    if data.timestamp is None:
        return f"{text}, no timestamps"
    first, last = int(data.timestamp.min()), int(data.timestamp.max())
    return f"{text}, timestamps from {_moment(first)} to {_moment(last)}"


def _moment(timestamp: int) -> str:
    return f"{timestamp} ({time_text(timestamp)})" if is_date(timestamp) else str(timestamp)
