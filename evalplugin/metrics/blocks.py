"""Lists and truth, checked and cut into blocks of users that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM, Flags, Floats
from evalplugin.base.errors import DataError
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.grouped_rows import GroupedRows, Users
from evalplugin.metrics.relevance import ABOVE_0, Relevance
from evalplugin.metrics.slates import Shown
from evalplugin.metrics.train_data import TrainData
from evalplugin.models.selection import TopN

if TYPE_CHECKING:
    from evalplugin.data.candidates import Candidates
    from evalplugin.data.interactions import Interactions, Rows

N = TypeVar("N", bound=np.generic)

# Cells (user x rank) of a block: its few temporaries of 4 and 8 bytes a cell stay in the second-level cache.
_CELLS = 2**18
# Users of a block with short lists, as arrays of a value a user or a truth item must fit as well.
_USERS = 2**13
_MOST_PADDING = 2  # cells a listed item; beyond, users are cut into blocks by the lengths of their lists


Role: TypeAlias = Literal["lists", "truth", "train", "pool"]


def repeated_item(role: Role, user: object, item: object) -> DataError:
    """Return the error for a user who has an item twice."""
    noun = {"lists": "list", "truth": "truth", "train": "train data"}[role]
    text = f"the {noun} of user {raw_text(user)} has item {raw_text(item)} twice"
    hint = "; where each row is an event, merge those of a pair (score: duplicates keep)"
    return DataError(text if role == "lists" else f"{text}{hint}")


class ListSource(Protocol):
    """A source of the lists of U users, block by block."""

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Upper bounds of the lengths of the lists: int64 (U,)."""

    def block(self, users: Users) -> npt.NDArray[np.int32]:
        """Return the lists of some users: int32 (B, N), best first, NO_ITEM behind the end; items may be repeated.

        Raises:
            DataError: A list that breaks a rule, such as one with a hole.
        """

    def scores(self, users: Users) -> Floats:
        """Return the scores of the items of ``block``: float64 (B, N), NaN behind the end and where there are none."""
        return np.full(self.block(users).shape, np.nan)


@dataclass(frozen=True, eq=False)
class Blocks:
    """The users to score, in blocks; iterating yields (positions of the block's users, context).

    A block has consecutive users, or, where lengths of lists differ much, users whose lists are of like length.
    """

    users: npt.NDArray[np.generic]  # (U,) raw ids, ascending, of the users with a list or a truth
    lists: ListSource
    truth: GroupedRows  # columns: item, and optionally rating and prediction
    n: int  # length of the longest list
    n_items: int  # size of the catalogue
    raw_item: Callable[[int], object]  # a code -> the raw id
    relevance: Relevance = ABOVE_0
    truth_is_checked: bool = False  # whether items are known to be distinct in each user's truth
    size: int | None = None  # users a block; None: as many as fit in the cache
    user: npt.NDArray[np.int64] | None = None  # (U,) codes, to look users up in the train data
    train: TrainData | None = None
    n_candidates: npt.NDArray[np.int64] | None = None  # (U,)
    pool: Rows | None = None  # the given candidates, by user code
    # Of a truth that is a log of decisions: (n_items,) items that any decision of the log shows.
    supported: Flags | None = None
    is_logging: bool = False  # whether lists stand for the policy that made the log
    has_scores: bool = True  # whether lists have a score, or a probability, for each item

    @classmethod
    def of(
        cls,
        top_n: TopN,
        truth: Interactions,
        *,
        train: Interactions | None = None,
        known: Interactions | None = None,
        relevance: Relevance = ABOVE_0,
        predictions: npt.NDArray[np.floating[Any]] | None = None,
        candidates: Candidates | None = None,
        shown: Interactions | None = None,
        log: Interactions | None = None,
        is_logging: bool = False,
    ) -> Blocks:
        """Return blocks of all users with a list or a truth. A user without a list has an empty one.

        Args:
            top_n: The lists, as codes into the truth's vocabularies.
            truth: The held-out interactions; its catalogue is the catalogue.
            train: The train data, on the same vocabularies, for metrics that need it.
            known: Of users: their train data and histories; None: the train data.
            relevance: Which ratings are relevant. The gain stays the rating.
            predictions: The model's predicted ratings of the truth's rows, (len(truth),); None for a model that
                predicts none: metrics that need them are then undefined for all users.
            candidates: The items that lists were chosen from; None: the whole catalogue.
            shown: An earlier log of decisions, which models of rewards are fitted on; used with train data alone.
            log: The whole log of decisions, where the truth is a part of one; None: the truth is all of it.
            is_logging: Whether lists stand for the policy that made the log.

        Raises:
            DataError: An item that is repeated in a user's truth, predictions of the wrong number or not finite.
        """
        order = _by_user(truth)
        columns: dict[str, npt.NDArray[Any]] = {"item": truth.item[order], "rating": truth.rating[order]}
        if predictions is not None:
            columns["prediction"] = _checked_predictions(predictions, truth)[order]
        if truth.position is not None and truth.propensity is not None:
            columns |= {"position": truth.position[order], "propensity": truth.propensity[order]}
        counts = np.bincount(truth.user, minlength=truth.n_users)
        row = np.full(truth.n_users, -1, dtype=np.int64)
        row[top_n.user] = np.arange(len(top_n))
        user = np.flatnonzero((counts > 0) | (row >= 0))
        return cls(
            users=truth.users[user],
            lists=_TopNLists(row[user], top_n),
            truth=GroupedRows(np.cumsum(counts) - counts, counts, columns, in_order=True).of(user),
            n=top_n.n,
            n_items=truth.n_items,
            raw_item=lambda code: truth.items[code],
            relevance=relevance,
            truth_is_checked=True,
            user=user,
            train=None if train is None else TrainData(train, known, shown),
            n_candidates=None if candidates is None else n_candidates(candidates, truth)[user],
            pool=candidates.included if candidates is not None and candidates.kind == "given" else None,
            supported=(truth if log is None else log).item_counts > 0 if truth.is_log else None,
            is_logging=is_logging,
            has_scores=bool(np.isfinite(top_n.score[top_n.item[:, 0] != NO_ITEM, 0]).all()),
        )

    def __len__(self) -> int:
        """Number of users, U."""
        return len(self.users)

    def __iter__(self) -> Iterator[tuple[Users, ScoringContext]]:
        """Yield each block's positions and context.

        Raises:
            DataError: As ``context``.
        """
        for users in self.cuts():
            yield users, self.context(users)

    def cuts(self) -> list[Users]:
        """Return the positions of each block's users."""
        lengths = np.maximum(self.lists.lengths, 1)
        if self.size is not None:
            return [slice(low, low + self.size) for low in range(0, len(lengths), self.size)]
        pieces = _pieces(lengths)
        width = np.maximum.reduceat(lengths, [p.start for p in pieces]) if pieces else lengths
        if sum((p.stop - p.start) * w for p, w in zip(pieces, width.tolist(), strict=True)) <= (
            _MOST_PADDING * int(lengths.sum())
        ):
            return list(pieces)
        # A block is as wide as its longest list: lengths up to 2, 4, 8 and so on go into blocks of their own.
        bits = np.frexp(lengths - 1)[1]
        order = np.argsort(bits, kind="stable")
        ends = np.cumsum(np.bincount(bits)).tolist()
        return [
            order[low:high][piece]
            for low, high in zip([0, *ends], ends, strict=False)
            for piece in _pieces(lengths[order[low:high]])
        ]

    def context(self, users: Users) -> ScoringContext:
        """Return lists and truth of some users.

        Raises:
            DataError: A list or a truth that breaks a rule, such as one with an item twice.
        """
        rows, count = self.truth.rows(users), self.truth.count[users]
        truth = {name: column[rows] for name, column in self.truth.columns.items()}
        item = truth["item"].astype(np.int32, copy=False)
        indptr = np.zeros(len(count) + 1, dtype=np.int64)
        np.cumsum(count, out=indptr[1:])
        rating = truth.get("rating", np.ones(len(item), dtype=np.float32)).astype(np.float32, copy=False)
        context = ScoringContext(
            item=self.lists.block(users),
            truth_indptr=indptr,
            truth_item=item,
            truth_rating=rating.astype(np.float64),
            truth_relevant=self.relevance.of(rating),
            n_items=self.n_items,
            predictions=truth.get("prediction"),
            train=self.train,
            user=None if self.user is None else self.user[users],
            n_candidates=None if self.n_candidates is None else self.n_candidates[users],
            pool=self.pool,
            shown=self._shown(truth),
            read_scores=lambda: self.lists.scores(users),
            is_logging=self.is_logging,
        )
        self._check_different(context, self.users[users])
        return context

    def _shown(self, truth: Mapping[str, npt.NDArray[Any]]) -> Shown | None:
        if "position" not in truth or self.supported is None:
            return None
        return Shown(truth["position"].astype(np.int64), truth["propensity"], self.supported)

    def _check_different(self, context: ScoringContext, users: npt.NDArray[np.generic]) -> None:
        """Refuse a list or a truth that has an item twice."""
        ordered = np.sort(context.item, axis=1)
        twice = ordered[:, 1:] == ordered[:, :-1]
        if twice.any() and len(repeated := np.argwhere(twice & (ordered[:, 1:] != NO_ITEM))):
            row, column = repeated[0]
            self._refuse("lists", users[row], int(ordered[row, column]))
        if not self.truth_is_checked and (pair := context.truth_pairs.repeated()) is not None:
            self._refuse("truth", users[pair[0]], pair[1])

    def _refuse(self, role: Role, user: object, item: int) -> NoReturn:
        raise repeated_item(role, user, self.raw_item(item))


def _pieces(lengths: npt.NDArray[np.int64]) -> list[slice]:
    """Return consecutive ranges of lists that fit into a block."""
    pieces, low = [], 0
    while low < len(lengths):
        high = low + min(max(1, _CELLS // int(lengths[low])), _USERS)
        high = min(len(lengths), high, low + max(1, _CELLS // int(lengths[low:high].max())))
        pieces.append(slice(low, high))
        low = high
    return pieces


def raw_text(identifier: object) -> str:
    """Return a raw id as messages show it."""
    return repr(identifier.item() if isinstance(identifier, np.generic) else identifier)


@dataclass(frozen=True, eq=False)
class _TopNLists(ListSource):
    """Lists under codes of the catalogue, one a row; see ``ListSource``."""

    row: npt.NDArray[np.int64]  # (U,) in top_n, ascending; -1 for a user without a list
    top_n: TopN

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Upper bounds of the lengths of the lists: int64 (U,)."""
        return np.full(len(self.row), self.top_n.n)

    def block(self, users: Users) -> npt.NDArray[np.int32]:
        """Return the lists of some users; items may be repeated."""
        return self._rows(self.top_n.item, users, NO_ITEM)

    def scores(self, users: Users) -> Floats:
        """Return the scores of some users' lists."""
        return self._rows(self.top_n.score, users, np.nan)

    def _rows(self, values: npt.NDArray[N], users: Users, missing: float) -> npt.NDArray[N]:
        row = self.row[users]
        if row[0] >= 0 and row[-1] - row[0] == len(row) - 1:  # consecutive, as rows ascend
            return values[row[0] : row[-1] + 1]
        rows = np.full((len(row), self.top_n.n), missing, dtype=values.dtype)
        rows[row >= 0] = values[row[row >= 0]]
        return rows


def n_candidates(candidates: Candidates, truth: Interactions) -> npt.NDArray[np.int64]:
    """Return the number of candidates of each user: int64 (n_users,)."""
    if candidates.included is not None:
        return candidates.included.counts
    everything = np.full(truth.n_users, truth.n_items, dtype=np.int64)
    return everything if candidates.excluded is None else everything - candidates.excluded.counts


def _by_user(truth: Interactions) -> npt.NDArray[np.int64] | slice:
    """Return an index that sorts the truth by user and item; raise DataError for a repeated pair."""
    pair = truth.user.astype(np.int64) * truth.n_items + truth.item
    if (pair[1:] > pair[:-1]).all():
        return slice(None)
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    twice = np.flatnonzero(pair[1:] == pair[:-1])
    if len(twice):
        row = order[twice[0]]
        user, item = truth.users[truth.user[row]], truth.items[truth.item[row]]
        raise DataError(f"the truth of user {raw_text(user)} has item {raw_text(item)} twice")
    return order


def _checked_predictions(
    predictions: npt.NDArray[np.floating[Any]], truth: Interactions
) -> npt.NDArray[np.float64]:
    checked: npt.NDArray[np.float64] = np.asarray(predictions, dtype=np.float64)
    if predictions.shape != (len(truth),):
        raise DataError(
            f"predictions must be one for each of the truth's {len(truth)} rows, "
            f"not of shape {predictions.shape}"
        )
    wrong = np.flatnonzero(~np.isfinite(checked))
    if len(wrong):
        user, item = truth.users[truth.user[wrong[0]]], truth.items[truth.item[wrong[0]]]
        raise DataError(
            f"the rating predicted for user {raw_text(user)} and item {raw_text(item)} must be finite, "
            f"not {checked[wrong[0]]}"
        )
    return checked
