"""Top-N lists and predicted ratings from a fitted model, with checks of the model's contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM, Codes, Flags, Floats, position_in_row, row_entries
from evalplugin.base.errors import ModelError
from evalplugin.base.seeding import generator
from evalplugin.models.base import ListRequest, Recommender, defines
from evalplugin.models.baselines import MostPopular
from evalplugin.models.factors import NearProduct
from evalplugin.models.selection import (
    TopN,
    candidate_mask,
    near_top,
    rank_entries,
    row_codes,
    select_candidates,
    selection_rows,
    write_best,
)
from evalplugin.models.threads import for_ranges, one_blas_thread

if TYPE_CHECKING:
    from evalplugin.data import Candidates, Interactions

BLOCK_BYTES = 64 * 2**20
_PRODUCT_CELLS = 2_000_000  # of a thread's matrix product: with fewer rows it is slower
_ITEMS_A_GATHERED_ONE = 4  # items whose scores are computed in the time of one that is gathered

CodeType = TypeVar("CodeType", bound="np.integer[Any]")
Block = tuple[Codes, Floats]
ColdUsers = Literal["model", "popularity"]


def recommend(
    model: Recommender,
    request: ListRequest,
    *,
    cold_users: ColdUsers = "model",
    block_bytes: int = BLOCK_BYTES,
    progress: Callable[[int], None] | None = None,
) -> TopN:
    """Return a list of up to n candidates for each user, from a fitted model.

    Users without train data get the most popular items, where the model declares that it cannot know them (see
    ``Recommender``) or ``cold_users`` says so: the lists of the model ``popularity``. Users with a history in the
    request are answered by ``recommend_for``.

    Memory is bounded by the block and the lists: a block is as many users as have ``block_bytes`` of scores.

    Args:
        model: Fitted on the train data of the request; it has ``scores`` or ``recommend``.
        request: The users, the candidates, and the length of the lists, at least 1.
        cold_users: Who answers users without train data: as the ``model`` declares, or ``popularity`` for any model.
        block_bytes: Size of one block of scores.
        progress: Called after each block with the number of users in it.

    Raises:
        ModelError: The model broke its contract, or cannot answer users with a history alone; names the model, the user
            and what is wrong.
    """
    users, train = request.users, request.train
    item = np.empty((len(users), request.n), dtype=np.int32)
    score = np.empty((len(users), request.n), dtype=np.float64)
    unknown = np.zeros(len(users), dtype=np.bool_)
    folded_in = np.zeros(len(users), dtype=np.bool_)
    history_of: Callable[[Codes], Interactions] | None = None
    popular = MostPopular()
    if request.history is not None:
        folded_in = request.history.rows.counts[users] > 0
        if not model.takes_history:
            raise ModelError(
                f"{_name(model)} cannot list items for users who are not in the train data: it has no "
                f"recommend_for(users, history)"
            )
        if defines(type(model), Recommender.recommend_candidates):
            history_of = _histories(request.history)
    if "popularity" in (cold_users, model.cold_users) and not model.is_logging:
        unknown = (train.rows.counts[users] == 0) & ~folded_in
        popular.fit(train, generator(0, "popularity"))
    if defines(type(model), Recommender.recommend_task):
        if len(asked := np.flatnonzero(~unknown)):
            lists = model.recommend_task(replace(request, users=_read_only(users[asked])))
            item[asked], score[asked] = lists.item, lists.score
        if progress is not None:
            progress(len(asked))
        order = np.flatnonzero(unknown)
    else:
        order = np.arange(len(users))
    product = model.product()
    near = None if product is None else NearProduct.of(product)
    with nullcontext() if near is None else one_blas_thread():
        for rows in user_blocks(order, model.block_items(request), block_bytes):
            # Blocks are cut before these are left out: no bit of a list depends on who answers them.
            of_popularity, of_history = unknown[rows], folded_in[rows]
            if len(asked := rows[~of_popularity & ~of_history]):
                item[asked], score[asked] = _lists_of(model, replace(request, users=users[asked]), near)
            if len(asked := rows[of_popularity]):
                item[asked], score[asked] = _lists_of(popular, replace(request, users=users[asked]))
            if len(asked := rows[of_history]):
                item[asked], score[asked] = _from_histories(
                    model, replace(request, users=users[asked]), history_of
                )
            if progress is not None:
                progress(len(rows))
    return TopN(users, item, score)


def _lists_of(model: Recommender, request: ListRequest, near: NearProduct | None = None) -> Block:
    """Return the lists of a block of users: items and scores, (len(users), n)."""
    kind = type(model)
    if defines(kind, Recommender.recommend_candidates):
        return model.recommend_candidates(request.users, request.n, request.candidates)
    if defines(kind, Recommender.scores):
        return _from_scores(model, request) if near is None else _from_product(model, near, request)
    if defines(kind, Recommender.recommend):
        return _from_lists(model, request)
    raise ModelError(f"{_name(model)} has neither scores(users) nor recommend(users, n)")


def predict_ratings(
    model: Recommender, test: Interactions, *, block_bytes: int = BLOCK_BYTES
) -> Floats | None:
    """Return the rating the model predicts for each interaction: float64 (m,); None if it predicts no ratings.

    Raises:
        ModelError: The model returned something else than one finite float a pair.
    """
    if not defines(type(model), Recommender.predict):
        return None
    where, predicted = f"{_name(model)}.predict", np.empty(len(test), dtype=np.float64)
    # All pairs of a user in one call: most models share work among them.
    order = np.argsort(test.user, kind="stable")
    by_user = test.user[order]
    start = 0
    for block in user_blocks(np.unique(by_user), test.n_items, block_bytes):
        stop = int(np.searchsorted(by_user, block[-1], side="right"))
        rows = order[start:stop]
        ratings = np.asarray(_answer(where, model.predict, test.user[rows], test.item[rows]))
        if ratings.shape != rows.shape or ratings.dtype.kind != "f":
            raise ModelError(
                f"{where} must return floats of shape {rows.shape}, "
                f"not {ratings.dtype} of shape {ratings.shape}"
            )
        if not np.isfinite(ratings).all():
            first = int(np.flatnonzero(~np.isfinite(ratings))[0])
            user, item = _user(test, test.user[rows[first]]), _item(test, test.item[rows[first]])
            raise ModelError(
                f"{where} returned {ratings[first]} for {user} and {item}; ratings must be finite"
            )
        predicted[rows] = ratings
        start = stop
    return predicted


def user_blocks(
    users: npt.NDArray[CodeType], n_items: int, block_bytes: int = BLOCK_BYTES
) -> Iterator[npt.NDArray[CodeType]]:
    """Yield consecutive users, as many at a time as have ``block_bytes`` of float64 scores, at least one."""
    size = max(1, block_bytes // max(1, n_items * 8))
    for start in range(0, len(users), size):
        yield users[start : start + size]


def _answer(where: str, method: Callable[..., Any], *given: Codes, more: tuple[object, ...] = ()) -> Any:
    """Return what a method of a model, which is named in messages, returns for read-only copies of arrays.

    Raises:
        ModelError: It writes to one of them.
    """
    copies = [_read_only(array) for array in given]
    try:
        returned = method(*copies, *more)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise ModelError(
            f"{where}: {error}: what a model is given (users, items, train data) is read-only; copy "
            f"what it changes, as in users = users.copy()"
        ) from error
    # Compiled code and tensors of other libraries write to memory that NumPy has as read-only.
    if not all(map(np.array_equal, given, copies)):
        raise ModelError(
            f"{where} has changed the array of codes that it was given; copy what it changes, as in "
            f"users = users.copy()"
        )
    return returned


def _read_only(array: Codes) -> Codes:
    """Return a copy that cannot be written to."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _from_scores(model: Recommender, request: ListRequest) -> Block:
    where = f"{_name(model)}.scores"
    return _selected(where, _answer(where, model.scores, request.users), request)


def _from_product(model: Recommender, near: NearProduct, request: ListRequest) -> Block:
    """Return the lists from approximate scores of all items and the exact ones of those that may be listed."""
    users, n, candidates, n_items = request.users, request.n, request.candidates, request.train.n_items
    item = np.full((len(users), n), NO_ITEM, dtype=np.int32)
    score = np.full((len(users), n), np.nan)
    if candidates.included is not None:
        row, code = row_codes(candidates.included, users)
        value = near.product.exact(users[row], code)
        if np.isfinite(value).all() and candidates.excluded is None:
            return rank_entries(row, code, value, item.shape, candidates.tie_rank)
        return _from_scores(model, request)
    whole = np.zeros(len(users), dtype=np.bool_)

    def some(start: int, stop: int) -> None:
        asked = users[start:stop]
        scores, error = near.scores(asked)
        if candidates.excluded is not None:
            scores[row_codes(candidates.excluded, asked)] = -np.inf
        code, counts = near_top(scores, n, error)
        # So many near each other that to score all items is faster: of factors that are zero, for example.
        many = (counts * _ITEMS_A_GATHERED_ONE > n_items) | (error == np.inf)
        code, counts = code[~many.repeat(counts)], np.where(many, 0, counts)
        value = near.product.exact(asked.repeat(counts), code)
        write_best(code, value, counts, item[start:stop], score[start:stop], candidates.tie_rank)
        whole[start:stop] = many

    for_ranges(some, len(users), selection_rows(n_items, _PRODUCT_CELLS))
    if whole.any():
        item[whole], score[whole] = _from_scores(model, replace(request, users=users[whole]))
    return item, score


def _histories(history: Interactions) -> Callable[[Codes], Interactions]:
    """Return a function that selects the history of some users, without a look at all others."""
    from evalplugin.data.interactions import rows_by_code

    start, rows = rows_by_code(history.user, history.n_users)
    return lambda users: history.select(rows[row_entries(start, users)[0]])


def _from_histories(
    model: Recommender, request: ListRequest, history_of: Callable[[Codes], Interactions] | None
) -> Block:
    """Return the lists of users who are known by their history."""
    if history_of is not None:
        history = history_of(request.users)
        return model.recommend_candidates(request.users, request.n, request.candidates, history)
    where = f"{_name(model)}.recommend_for"
    returned = _answer(where, model.recommend_for, request.users, more=(request.history,))
    return _selected(where, returned, request)


def _selected(where: str, returned: object, request: ListRequest) -> Block:
    """Return the lists of users from the scores that a method of a model has returned."""
    users, n, candidates, n_items = request.users, request.n, request.candidates, request.train.n_items
    if isinstance(returned, np.ma.MaskedArray):  # its mask would be lost
        raise ModelError(
            f"{where} returned a masked array; a score is -inf for an item that cannot be recommended"
        )
    scores = np.asarray(returned)
    _check_array(where, scores, (len(users), n_items))
    item, score = np.empty((len(users), n), dtype=np.int32), np.empty((len(users), n))
    if scores.strides[0] == 0 and candidates.included is None:
        _check_finite(where, users[:1], scores[:1], request.train)
        _from_one_order(scores[0], users, candidates, item, score)
        return item, score

    def some(start: int, stop: int) -> None:
        rows = slice(start, stop)
        _check_finite(where, users[rows], scores[rows], request.train)
        item[rows], score[rows] = select_candidates(users[rows], scores[rows], n, candidates)

    for_ranges(some, len(users), selection_rows(n_items))
    return item, score


def _from_one_order(
    scores: npt.NDArray[np.floating[Any]], users: Codes, candidates: Candidates, item: Codes, score: Floats
) -> None:
    """Write the lists of users who share one row of scores: the first items of one order that are not excluded."""
    excluded, ties = candidates.excluded, candidates.tie_rank
    order = np.argsort(-scores, kind="stable") if ties is None else np.lexsort((ties, -scores))
    order = order[: np.count_nonzero(scores > -np.inf)].astype(np.int32)
    rank = np.full(len(scores), len(order))
    rank[order] = np.arange(len(order))
    item_at, n = np.append(order, NO_ITEM), item.shape[1]
    score_at = np.append(scores[order], np.nan)
    place = np.tile(np.arange(n), (len(users), 1))  # in the order
    if excluded is not None:
        row, code = row_codes(excluded, users)
        near = rank[code] < np.minimum(n + excluded.counts[users], len(order))[row]
        entry = np.sort(row[near] * len(scores) + rank[code[near]])
        row, behind = np.divmod(entry, len(scores))
        # An excluded item moves all places from the number of the items that are left before it.
        left = behind - position_in_row(row, len(users))
        row, left = row[left < n], left[left < n]
        place += np.bincount(row * n + left, minlength=place.size).reshape(place.shape).cumsum(axis=1)
    np.minimum(place, len(order), out=place)
    item[:], score[:] = item_at[place], score_at[place]


def _check_finite(
    where: str, users: Codes, scores: npt.NDArray[np.floating[Any]], train: Interactions
) -> None:
    highest = scores.max(axis=1, initial=-np.inf)
    if not (highest < np.inf).all():
        row = int(np.flatnonzero(~(highest < np.inf))[0])
        code = int(np.argmax(np.isnan(scores[row]) | (scores[row] == np.inf)))
        raise ModelError(
            f"{where} returned {scores[row, code]} for {_user(train, users[row])} and "
            f"{_item(train, code)}; a score is a number, or -inf for an item that cannot be recommended"
        )


def _from_lists(model: Recommender, request: ListRequest) -> Block:
    users, n, candidates, n_items = request.users, request.n, request.candidates, request.train.n_items
    allowed = candidate_mask(users, candidates, n_items)
    n_removed = 0 if candidates.included is None else n_items
    if candidates.excluded is not None:
        n_removed += int(candidates.excluded.counts[users].max(initial=0))
    item, score = _checked_lists(model, users, min(n_items, n + n_removed), request.train)
    row, column = np.nonzero(item != NO_ITEM)
    code = item[row, column]
    candidate = allowed[row, code]
    row, column, code = row[candidate], column[candidate], code[candidate]
    return rank_entries(row, code, score[row, column], (len(users), n), candidates.tie_rank)


def _checked_lists(
    model: Recommender, users: Codes, length: int, train: Interactions
) -> tuple[npt.NDArray[np.integer[Any]], Floats]:
    where = f"{_name(model)}.recommend"
    returned = _answer(where, model.recommend, users, more=(length,))
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise ModelError(f"{where} must return two arrays, items and scores, not {type(returned).__name__}")
    item, raw = np.asarray(returned[0]), np.asarray(returned[1])
    if item.dtype.kind not in "iu" or item.shape != (len(users), length):
        raise ModelError(
            f"{where} must return integer item codes of shape {(len(users), length)}, "
            f"not {item.dtype} of shape {item.shape}"
        )
    _check_array(where, raw, (len(users), length))
    score = raw.astype(np.float64)
    listed = item != NO_ITEM

    def refuse(wrong: Flags, problem: str) -> None:
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ModelError(
                f"{where}: the list of {_user(train, users[row])} {problem} "
                f"(position {column + 1}: {_item(train, item[row, column])}, score {score[row, column]})"
            )

    refuse(
        listed & ((item < 0) | (item >= train.n_items)), f"has an item code outside 0 to {train.n_items - 1}"
    )
    resumed, rises = np.zeros_like(listed), np.zeros_like(listed)
    resumed[:, 1:] = listed[:, 1:] & ~listed[:, :-1]
    refuse(resumed, "goes on behind its end")
    refuse(listed & ~np.isfinite(score), "has a score that is not a finite number")
    by_code = np.sort(item, axis=1)
    twice = (by_code[:, 1:] == by_code[:, :-1]) & (by_code[:, 1:] != NO_ITEM)
    if twice.any():
        row, column = np.argwhere(twice)[0]
        raise ModelError(
            f"{where}: the list of {_user(train, users[row])} has {_item(train, by_code[row, column])} twice"
        )
    rises[:, 1:] = listed[:, 1:] & (score[:, 1:] > score[:, :-1])
    refuse(rises, "is not in descending order of score")
    return item, score


def _check_array(where: str, array: npt.NDArray[Any], shape: tuple[int, int]) -> None:
    if array.shape != shape or array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise ModelError(
            f"{where} must return float32 or float64 scores of shape {shape}, "
            f"not {array.dtype} of shape {array.shape}"
        )


def _name(model: object) -> str:
    return type(model).__name__


def _user(data: Interactions, code: np.integer[Any] | int) -> str:
    return f"user {data.users[[int(code)]].tolist()[0]!r}"


def _item(data: Interactions, code: np.integer[Any] | int) -> str:
    """Return the name of an item, its code where the catalogue has no such item."""
    return (
        f"item {data.items[[int(code)]].tolist()[0]!r}" if 0 <= code < data.n_items else f"item code {code}"
    )
