"""The contract of every model: parameters, lists, seeds, pickling, predictions."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evalplugin.base.arrays import NO_ITEM, Codes
from evalplugin.base.errors import ModelError
from evalplugin.base.seeding import generator
from evalplugin.data import Candidates, Interactions
from evalplugin.models import (
    MODELS,
    Recommender,
    TopN,
    predict_ratings,
    recommend,
)
from evalplugin.models.base import ListRequest, defines
from evalplugin.testing.cases import created, require, require_plain

Make = Callable[[], Recommender]

_UNSEEN_OWN = 3  # items of a user's own colour without an interaction


def check_recommender(recommender: str | Callable[..., Recommender], **params: Any) -> None:
    """Run every check of ``RECOMMENDER_CHECKS`` on a model, with small data (40 users, 30 items).

    A ``personalised`` model must learn a checkerboard of tastes, with dislikes if it ``uses_ratings``; a
    ``sequential`` one the next item of walks along two lines.
    """
    for check in RECOMMENDER_CHECKS:
        check(lambda: created(MODELS, recommender, params))


def checkerboard(*, dislikes: bool = True) -> Interactions:
    """Return data with one right answer: even users like even items, odd users odd ones.

    40 users have rated all but 3 of the 15 items of their own colour 5, and with ``dislikes`` also 5 of the other
    colour 1. The last user and the last item of the vocabularies have no interactions.
    """
    user, item = (axis.ravel() for axis in np.meshgrid(np.arange(40), np.arange(30), indexing="ij"))
    own = user % 2 == item % 2
    diagonal = user // 2 + item // 2
    rated = (own & (diagonal % 5 != 0)) | (dislikes & ~own & (diagonal % 3 == 0))
    return Interactions(
        user=user[rated].astype(np.int32),
        item=item[rated].astype(np.int32),
        rating=np.where(own[rated], 5 if dislikes else 1, 1).astype(np.float32),
        timestamp=np.arange(rated.sum()),
        users=np.arange(41) + 100,  # raw ids that differ from codes
        items=np.arange(31) * 2 + 1000,
    )


def walks() -> Interactions:
    """Return events with one right answer: even users walk along a line of the even items, odd users of the odd ones.

    A line has 15 items, which 15 users walk along from its first one: the first two users up to its end, the next two
    to the item before, and so on. The last user and the last item of the vocabularies have no events.
    """
    user, step = (axis.ravel() for axis in np.meshgrid(np.arange(30), np.arange(15), indexing="ij"))
    walked = step < 15 - user // 2
    user, step = user[walked], step[walked]
    return Interactions(
        user=user.astype(np.int32),
        item=(2 * step + user % 2).astype(np.int32),
        rating=np.ones(len(user), dtype=np.float32),
        timestamp=100 * step + user,
        users=np.arange(31) + 100,
        items=np.arange(31) * 2 + 1000,
        events=True,
    )


def _right_answer(model: Recommender, data: Interactions, user: int) -> tuple[list[int], str]:
    """Return the items that must be listed first for a user of ``_board``, in any order, and why."""
    own = np.setdiff1d(np.arange(user % 2, 30, 2), data.rows[user])
    if model.sequential:
        return own[:1].tolist(), "the next of its line"
    return own.tolist(), "its own colour, without an interaction"


def check_parameters_are_plain(make: Make) -> None:
    """Check that the parameters survive serialisation."""
    require_plain(make())


def check_learns_the_checkerboard(make: Make) -> None:
    """Check that the unseen items of a user's own colour are listed first, or of a sequential model the next item."""
    model, data = _fitted(make)
    if not model.personalised:
        return
    board = "walks" if model.sequential else "checkerboard"
    for user, items in enumerate(_lists(model, data, _UNSEEN_OWN).item[: data.n_users - 1]):
        right, reason = _right_answer(model, data, user)
        listed = items[: len(right)]
        require(
            np.array_equal(np.sort(listed), right),
            f"on the {board} the first items of user code {user} must be {right} in any order ({reason}), and are "
            f"{listed.tolist()}; a model without personal lists declares `personalised = False`",
        )


def check_lists_are_valid(make: Make) -> None:
    """Check lists of candidates of every kind: distinct catalogue items, none excluded, scores descending."""
    model, data = _fitted(make)
    unseen, judged = Candidates("unseen", excluded=data.rows), Candidates("judged", included=data.rows)
    for candidates in (unseen, Candidates("all"), judged):
        for n in (1, 7, data.n_items + 3):
            top = _lists(model, data, n, candidates)
            for user, (items, scores) in enumerate(zip(top.item, top.score, strict=True)):
                listed = items[items != NO_ITEM]
                where = f"the list of user code {user} (n={n}, candidates {candidates.kind})"
                distinct = len(np.unique(listed)) == len(listed)
                require(distinct, f"{where} has an item twice: {listed.tolist()}")
                require((listed < data.n_items).all(), f"{where} has an item outside the catalogue")
                require((np.diff(scores[: len(listed)]) <= 0).all(), f"{where} does not descend by score")
                known = np.isin(listed, data.rows[user])
                if candidates is unseen:
                    require(not known.any(), f"{where} has an item of the user's train data")
                if candidates is judged:
                    require(known.all(), f"{where} has an item that was not judged")


def check_same_seed_gives_same_lists(make: Make) -> None:
    """Check that two new models with one seed agree, and that a second fit discards the first."""
    model, data = _fitted(make)
    first = _lists(model, data, 10)
    other, _ = _fitted(make)
    _require_same(first, _lists(other, data, 10), "two models with the same seed make different lists")
    other.fit(data.select(np.arange(len(data)) % 3 > 0), generator(2, "other"))
    other.fit(data, _rng())
    message = "a model that was fitted before makes other lists than a new one"
    _require_same(first, _lists(other, data, 10), message)


def check_seeds_decide_only_what_is_declared(make: Make) -> None:
    """Check that a model that declares ``stochastic = False`` makes the same lists with any random numbers."""
    model, data = _fitted(make)
    if model.stochastic:
        return
    other = make()
    other.fit(data, generator(3, "another"))
    message = "it declares stochastic = False, and other random numbers make other lists"
    _require_same(_lists(model, data, 10), _lists(other, data, 10), message)


def check_lists_do_not_depend_on_blocks(make: Make) -> None:
    """Check that a user's list does not depend on the other users of a call, and that calls can be repeated."""
    model, data = _fitted(make)
    whole, request = _lists(model, data, 10), _request(data, 10)
    for n_users in (1, 7):
        blocks = recommend(model, request, block_bytes=n_users * data.n_items * 8)
        _require_same(whole, blocks, f"lists differ in blocks of {n_users} users")
    _require_same(whole, _lists(model, data, 10), "a second call returns other lists")


def check_leaves_data_untouched(make: Make) -> None:
    """Check that no method of the model modifies what it is given."""
    model = make()
    data = _board(model)
    before = data.digest
    model.fit(data, _rng())
    try:
        _lists(model, data, 5)
        predict_ratings(model, data)
    except ModelError as error:
        raise AssertionError(str(error)) from error
    require(dataclasses.replace(data).digest == before, "the train data was changed")


def check_lists_of_cold_users(make: Make) -> None:
    """Check that a user without train data gets one list, alone and among others, and the one that is declared."""
    model, data = _fitted(make)
    cold = data.n_users - 1
    answer = model.cold_users
    require(
        answer is None or (isinstance(answer, str) and bool(answer.strip())),
        f"cold_users must be 'popularity', or say in words what users without train data get, not {answer!r}",
    )
    alone = _lists(model, data, 5, users=[cold])
    among = _lists(model, data, 5)
    require(
        np.array_equal(alone.item[0], among.item[cold]),
        "a user without train data gets another list alone than among others",
    )
    whole = _lists(model, data, data.n_items, users=[cold])
    scores = whole.score[whole.item != NO_ITEM]
    require(
        answer is not None or len(scores) < 2 or bool(np.ptp(scores)),
        f"all items of a user without train data have the score {scores[0]:g}, which is not an order: declare "
        f"`cold_users = 'popularity'` to have evalplugin list popular items, or say in `cold_users` what the model "
        f"answers",
    )


def check_answers_users_by_their_history(make: Make) -> None:
    """Check ``recommend_for``: users without train data get lists that fit their histories, and nobody else's."""
    model = make()
    if not defines(type(model), Recommender.recommend_for) or not model.takes_history:
        return
    board = _board(model)
    new = np.array([board.n_users - 3, board.n_users - 2], dtype=np.int32)  # one of each colour
    is_new = np.isin(board.user, new)
    train, history = board.select(~is_new), board.select(is_new)
    model.fit(train, _rng())
    before = history.digest
    together = _lists(model, train, 10, history=history, users=new)
    law = "recommend_for has changed the history that it was given"
    require(dataclasses.replace(history).digest == before, law)
    for place, user in enumerate(new.tolist()):
        own = history.select(history.user == user)
        alone = _lists(model, train, 10, history=own, users=[user])
        law = f"recommend_for: the list of user code {user} depends on other users of the call, or their histories"
        require(np.array_equal(alone.item[0], together.item[place]), law)
        behind = _moved_behind(own)
        wider = dataclasses.replace(train, users=behind.users)
        moved = _lists(model, wider, 10, history=behind, users=[user + board.n_users])
        law = f"recommend_for: user code {user} gets another list under a code behind those of the train data"
        require(not model.personalised or np.array_equal(alone.item[0], moved.item[0]), law)
        right, reason = _right_answer(model, own, user)
        listed = together.item[place, : len(right)]
        require(
            not model.personalised or np.array_equal(np.sort(listed), right),
            f"recommend_for: the first items of user code {user} must be {right} in any order ({reason}), and are "
            f"{listed.tolist()}",
        )


def check_survives_pickling(make: Make) -> None:
    """Check that a model can be sent to another process, before and after it is fitted."""
    unfitted: Recommender = pickle.loads(pickle.dumps(make()))
    data = _board(unfitted)
    unfitted.fit(data, _rng())
    fitted: Recommender = pickle.loads(pickle.dumps(unfitted))
    first = _lists(unfitted, data, 10)
    _require_same(first, _lists(fitted, data, 10), "a fitted model makes other lists after pickling")
    _require_same(
        first, _lists(_fitted(make)[0], data, 10), "a model pickled before the fit makes other lists"
    )


def check_predicts_on_the_rating_scale(make: Make) -> None:
    """Check that predicted ratings, if the model has any, are one finite number a pair on the scale of the data."""
    model, data = _fitted(make)
    if not defines(type(model), Recommender.predict):
        return
    users, items = (axis.ravel().astype(np.int32) for axis in np.indices((data.n_users, data.n_items)))
    shuffled = np.random.default_rng(0).permutation(len(users))
    low, high = data.rating_scale
    predicted = np.asarray(model.predict(users, items))
    one_each = predicted.shape == users.shape
    require(one_each, f"predict must return one rating a pair, not shape {predicted.shape}")
    on_scale = ((predicted >= low) & (predicted <= high)).all()
    require(on_scale, f"predicted ratings must be from {low:g} to {high:g}, as the train ratings are")
    again = np.asarray(model.predict(users[shuffled], items[shuffled]))
    require(
        np.array_equal(again, predicted[shuffled]),
        "a predicted rating depends on the other pairs of the call",
    )


RECOMMENDER_CHECKS: tuple[Callable[[Make], None], ...] = (
    check_parameters_are_plain,
    check_learns_the_checkerboard,
    check_lists_are_valid,
    check_same_seed_gives_same_lists,
    check_seeds_decide_only_what_is_declared,
    check_lists_do_not_depend_on_blocks,
    check_leaves_data_untouched,
    check_lists_of_cold_users,
    check_answers_users_by_their_history,
    check_survives_pickling,
    check_predicts_on_the_rating_scale,
)


def _rng() -> np.random.Generator:
    return generator(1, "contract")


def _moved_behind(history: Interactions) -> Interactions:
    """Return a history whose users have codes behind the vocabulary, as those of users who come after the fit."""
    n, users = history.n_users, history.users
    return dataclasses.replace(
        history, user=history.user + np.int32(n), users=np.concatenate([users, users + users.max() + 1])
    )


def _board(model: Recommender) -> Interactions:
    return walks() if model.sequential else checkerboard(dislikes=model.uses_ratings)


def _fitted(make: Make) -> tuple[Recommender, Interactions]:
    model = make()
    data = _board(model)
    model.fit(data, _rng())
    return model, data


def _lists(
    model: Recommender,
    data: Interactions,
    n: int,
    candidates: Candidates | None = None,
    *,
    users: Sequence[int] | Codes | None = None,
    history: Interactions | None = None,
) -> TopN:
    """Return lists of n unseen items, or of n of the ``candidates``, for some users (codes) or for all.

    ``history``: of the users, if the train data has none of them.
    """
    return recommend(model, _request(data, n, candidates, users=users, history=history))


def _request(
    data: Interactions,
    n: int,
    candidates: Candidates | None = None,
    *,
    users: Sequence[int] | Codes | None = None,
    history: Interactions | None = None,
) -> ListRequest:
    codes: Codes = np.asarray(range(data.n_users) if users is None else users, dtype=np.int32)
    candidates = candidates or Candidates("unseen", excluded=(history or data).rows)
    return ListRequest(data, codes, n, candidates, history=history)


def _require_same(first: TopN, second: TopN, message: str) -> None:
    differ = np.flatnonzero((first.item != second.item).any(axis=1))
    if len(differ):
        user = int(differ[0])
        lists = f"{first.item[user].tolist()} and {second.item[user].tolist()}"
        raise AssertionError(f"{message}: user code {user} gets {lists}")
