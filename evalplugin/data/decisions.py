"""Decisions of a log of what was shown: splits that take them whole, and what models learn from the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Flags, row_entries, search
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa
from evalplugin.base.units import count_text
from evalplugin.data.base import Split, Splitter
from evalplugin.data.candidates import Candidates
from evalplugin.data.interactions import Interactions, rows_by_code
from evalplugin.data.queries import Clusters, Unit

DECISION: Unit = "decision"
ALL_ITEMS = (
    "a policy may show them, and what they would earn is unknown; name all items that may be shown in the dataset, as "
    "by items: {path: FILE, item: COLUMN, columns: [], catalogue: true}"
)


def folds_of(splitter: Splitter, log: Interactions, rng: np.random.Generator) -> list[Split]:
    """Return the folds of data; of a log, with each decision as a whole in one part, see ``of_decisions``.

    The splitter is given the first row of each decision, so that a share is one of decisions.

    Raises:
        DataError: The splitter does not divide decisions, or a fold cannot be made.
    """
    if not log.is_log:
        return splitter.split(log, rng)
    hint = "decisions are divided by the splits temporal, given, kfold, and holdout with by: interactions"
    if splitter.unit != "user" or splitter.new_users or splitter.new_items:
        raise DataError(f"the data is a log of decisions, which this split does not divide; {hint}")
    heads = log.select(np.sort(np.unique(log.user, return_index=True)[1]))
    try:
        folds = splitter.split(heads, rng)
    except DataError as error:
        raise DataError(
            f"{error} (the data is a log, whose decisions stand where users do; {hint})",
            parameter=error.parameter,
        ) from None
    return [of_decisions(_whole(fold, log)) for fold in folds]


def _whole(fold: Split, log: Interactions) -> Split:
    """Return a fold with all rows of its decisions."""
    if fold.overlap_allowed or (_decisions(fold.train) & _decisions(fold.test)).any():
        raise DataError(
            f"fold {fold.fold + 1} of the split: decisions are in the train part and in the test part; a model is "
            f"valued on decisions that it has not learnt from"
        )
    shown = np.bincount(log.item, minlength=log.n_items) > 0
    return replace(
        fold,
        train=log.select(_decisions(fold.train)[log.user]),
        test=log.select(_decisions(fold.test)[log.user]),
        offered=None if shown.all() else shown,
        validation=None if fold.validation is None else of_decisions(_whole(fold.validation, log)),
    )


def _decisions(part: Interactions) -> Flags:
    """Return which decisions have rows in a part: bool (n_users,)."""
    flags: Flags = np.bincount(part.user, minlength=part.n_users) > 0
    return flags


def of_decisions(fold: Split) -> Split:
    """Return a fold of a log as models see it: pairs of users and what earned a reward; the test part is as it was.

    The train data are the rows of the train part with a reward above 0, under the code of the first decision there of
    their user. A test decision's history are those of its user. ``shown`` is the train part as it was.

    Raises:
        DataError: No row of the train part has a reward above 0, or all test decisions are of one user.
    """
    log, test = fold.train, fold.test
    rewarded = log.select(log.rating > 0)
    if not len(rewarded):
        raise DataError(
            f"fold {fold.fold + 1} of the split: no row of the train part has a reward above 0 ({len(log):,} rows of "
            f"{count_text(len(log.active_users), DECISION)}): models have nothing to learn from"
        )
    owner = _owners(log)
    first = np.full(log.n_users, -1, dtype=np.int32)  # by owner
    learnt = log.active_users[::-1]
    first[owner[learnt]] = learnt
    train = replace(
        rewarded,
        user=first[owner[rewarded.user]],
        rating=np.ones(len(rewarded), dtype=np.float32),
        position=None,
        propensity=None,
        assumed=None,
        events=True,
    )
    tested = test.active_users
    known = first[owner[tested]]
    start, rows = rows_by_code(train.user, train.n_users)
    met = np.flatnonzero(known >= 0)
    entries, place = row_entries(start, known[met])
    history = replace(train.select(rows[entries]), user=tested[met[place]])
    note = (
        f"models learn from {count_text(len(rewarded), 'row')} with a reward of {len(log):,} that "
        f"{count_text(len(log.active_users), DECISION)} have shown; they are valued on {len(test):,} rows of "
        f"{count_text(len(tested), DECISION)}"
    )
    return replace(
        fold,
        train=train,
        history=history if len(history) else None,
        repeats=True,
        unit=DECISION,
        clusters=_clusters(test, tested),
        shown=log,
        notes=(*fold.notes, note),
    )


def _owners(log: Interactions) -> Codes:
    """Return a code for the user of each decision: int32 (n_users,); decisions without users are their own."""
    users = log.user_columns.get("user")
    if users is None:
        return np.arange(log.n_users, dtype=np.int32)
    codes: Codes = pa.array(users, pa.large_string()).dictionary_encode().indices.to_numpy()
    return codes


def _clusters(test: Interactions, tested: Codes) -> Clusters | None:
    """Return the users of decisions as clusters; None where they are unknown."""
    users: npt.NDArray[Any] | None = test.user_columns.get("user")
    if users is None:
        return None
    if (users[tested] == users[tested[0]]).all():
        raise DataError(
            f"all {count_text(len(tested), 'tested decision')} are of one user, {users[tested[0]]!r}, and an interval "
            f"takes two at least: leave out the dataset's user where decisions are independent"
        )
    return Clusters("user", users)


def check_shown(test: Interactions, candidates: Candidates) -> None:
    """Refuse what a decision of the test part has shown and does not have in its pool.

    Raises:
        DataError: Names the first such decision and item.
    """
    if candidates.included is None:
        return
    pool = candidates.included
    user = np.repeat(np.arange(test.n_users, dtype=np.int64), pool.counts)
    shown = test.user.astype(np.int64) * test.n_items + test.item
    outside = np.flatnonzero(~search(user * test.n_items + pool.item, shown)[1])
    if len(outside):
        row = outside[:1]
        raise DataError(
            f"the pool lacks {len(outside):,} of {len(test):,} items that the log has shown: the first is item "
            f"{test.items[test.item[row]].tolist()[0]!r} of decision {test.users[test.user[row]].tolist()[0]!r}; a "
            f"pool has all that a decision could have shown"
        )
