"""Sample of users or queries for the page: those on whom one model loses most to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.libraries import pa, pc, pd
from evalplugin.base.numbers import rounded
from evalplugin.comparison.comparison import Comparison
from evalplugin.data.background import FOLD, HISTORY
from evalplugin.data.queries import positions_of, session_ids
from evalplugin.metrics.relevance import Relevance
from evalplugin.report.competition import ModelFacts, competition_of, facts_of

MAX_USERS = 1000
MAX_ROWS = 120_000  # rows of lists, truth and history together: about 2 MB
MAX_PER_PAIR = 20  # users of one pair of models
MAX_TRUTH = 30  # held-out items of one user, best rated first
_LEAST_K = 10
_DIGITS = 4  # significant


class _Losers(NamedTuple):
    total: int  # users with a loss
    worst: npt.NDArray[np.int64]  # at most ``MAX_PER_PAIR`` of them, largest loss first


def examples(comparison: Comparison) -> dict[str, Any] | None:
    """Return some users with their lists, truth and history, as JSON values; None without two models to compare.

    For every ordered pair of models the users are chosen on whom the first model loses most to the second, by the
    first metric that is ``is_by_unit``: ``losers`` [first][second] counts all users with a loss, ``depth`` how many of
    the largest losses are in the sample without a gap. All is of the first fold, except the values, which are averaged
    over folds.

    Of queries there are ``sessions`` and ``positions`` too. The history of a query is in the order of the session, that
    of a user has the latest first.
    """
    contest, rows = comparison.contest, comparison.scored
    by_unit = (m for m in contest.metrics if contest.spec(m).is_by_unit)
    metric = next((m for m in by_unit if all(r.scores and m in r.scores.metrics for r in rows)), None)
    if metric is None or len(rows) < 2:
        return None
    units, values = contest.units, contest.values(rows, metric)
    all_users, competition = units.ids, competition_of(contest)
    background = None if competition is None else competition.background
    of_sessions = competition is not None and units.noun == "query"
    if background is not None:
        known = _first_fold(background.truth)["user"].to_numpy(zero_copy_only=False)
        in_fold = np.isin(all_users, np.unique(known))
        all_users, values = all_users[in_fold], values[in_fold]
    spec = contest.spec(metric)
    k = max(1, min(max(_LEAST_K, spec.k or 0), 0 if competition is None else competition.rules.n))
    extra = 0 if background is None else MAX_TRUTH + HISTORY
    most = min(MAX_USERS, max(1, MAX_ROWS // (k * len(rows) + extra)))
    losses = _losses(values * (spec.direction or 1))
    chosen = _choose(losses, most)
    is_chosen = np.zeros(len(all_users), dtype=np.bool_)
    is_chosen[chosen] = True
    depth = {pair: int(np.cumprod(is_chosen[users.worst]).sum()) for pair, users in losses.items()}
    users = all_users[chosen]
    items = _Items({} if background is None else background.titles)
    lists = [_lists_of(facts_of(contest, row.model), users) for row in rows]
    sample: dict[str, Any] = {
        "metric": metric,
        "k": k,
        "of": len(all_users),
        "users": [str(user) for user in users.tolist()],
        # Of queries; null for users.
        "sessions": session_ids(users).tolist() if of_sessions else None,
        "positions": positions_of(users).tolist() if of_sessions else None,
        "values": [[rounded(v, _DIGITS) for v in column] for column in values[chosen].T.tolist()],
        "losers": _matrix(len(rows), {pair: users.total for pair, users in losses.items()}),
        "depth": _matrix(len(rows), depth),
        "groups": _groups(comparison, users),
        "lists": [None if frame is None else _listed(frame, len(users), k, items) for frame in lists],
        "hits": None,
        "truth": None,
        "history": None,
    }
    if competition is not None and background is not None:
        truth = _rows_of(background.truth, users)
        relevant = truth[Relevance(threshold=competition.rules.threshold).of(truth["rating"].to_numpy())]
        sample["hits"] = [None if frame is None else _hits(relevant, len(users), frame, k) for frame in lists]
        sample["truth"] = _truth(truth, len(users), lists, items)
        history = _rows_of(background.history, users)
        # The history of a query is a session, to be read in its order.
        ordered = history[::-1] if of_sessions else history
        sample["history"] = _by_user(ordered, len(users), items)
    sample["items"] = items.shown
    return sample


def _losses(values: npt.NDArray[np.float64]) -> dict[tuple[int, int], _Losers]:
    """Return for each ordered pair of models the users on whom the first one loses most to the second.

    ``values``: (U, M), higher is better.
    """
    losses = {}
    for a, b in permutations(range(values.shape[1]), 2):
        loss = values[:, b] - values[:, a]
        losers = np.flatnonzero(loss > 0)  # never where one is undefined
        total = len(losers)
        if total > MAX_PER_PAIR:
            least = np.partition(loss[losers], -MAX_PER_PAIR)[-MAX_PER_PAIR]
            losers = losers[loss[losers] >= least]
        order = np.argsort(-loss[losers], kind="stable")
        losses[a, b] = _Losers(total, losers[order][:MAX_PER_PAIR])
    return losses


def _choose(losses: Mapping[tuple[int, int], _Losers], most: int) -> npt.NDArray[np.int64]:
    """Return at most ``most`` users: the largest loss of every pair, then the second largest, and so on."""
    # Pairs of the best models come first, in case the last round is incomplete.
    pairs = sorted(losses, key=lambda pair: (sum(pair), pair))
    chosen: dict[int, None] = {}
    for rank in range(MAX_PER_PAIR):
        for users in (losses[pair].worst for pair in pairs):
            if len(chosen) == most:
                return np.array(sorted(chosen), dtype=np.int64)
            if rank < len(users):
                chosen[int(users[rank])] = None
    return np.array(sorted(chosen), dtype=np.int64)


def _matrix(n_models: int, of: Mapping[tuple[int, int], int]) -> list[list[int]]:
    return [[of.get((a, b), 0) for b in range(n_models)] for a in range(n_models)]


class _Items:
    """Items numbered in the order of their first use, so that the page has each id and title once."""

    def __init__(self, titles: Mapping[Any, str]) -> None:
        self.titles = titles
        self.codes: dict[Any, int] = {}
        self.shown: list[list[str]] = []  # id and, if known, title

    def code(self, item: Any) -> int:
        if item not in self.codes:
            self.codes[item] = len(self.shown)
            title = self.titles.get(item)
            self.shown.append([str(item)] if title is None else [str(item), str(title)])
        return self.codes[item]


def _lists_of(facts: ModelFacts, users: npt.NDArray[np.generic]) -> pd.DataFrame | None:
    table = facts.top_n
    return None if table is None else _rows_of(table, users)


def _rows_of(table: pa.Table, users: npt.NDArray[np.generic]) -> pd.DataFrame:
    """Return the first fold's rows of some users, with the index of the user as ``position``."""
    table = _first_fold(table)
    column = table["user"]
    wanted = pc.is_in(column, value_set=pa.array(users.tolist(), type=column.type))
    frame: pd.DataFrame = table.filter(wanted).to_pandas()
    return frame.assign(position=pd.Index(users).get_indexer(frame["user"]))


def _first_fold(table: pa.Table) -> pa.Table:
    return table.filter(pc.equal(table[FOLD], 1)) if FOLD in table.column_names else table


def _listed(frame: pd.DataFrame, n_users: int, k: int, items: _Items) -> dict[str, list[Any]]:
    """Return each user's list cut at k, as items and scores."""
    top = frame[frame["rank"] <= k].sort_values(["position", "rank"], kind="stable")
    return _by_user(top, n_users, items, value="score")


def _hits(relevant: pd.DataFrame, n_users: int, frame: pd.DataFrame, k: int) -> list[list[int]]:
    """Return the ranks up to k at which each user's list has an item of the relevant truth."""
    return [sorted(rank for rank in ranks if 0 < rank <= k) for ranks in _ranks(relevant, n_users, frame)]


def _truth(
    truth: pd.DataFrame, n_users: int, lists: Sequence[pd.DataFrame | None], items: _Items
) -> dict[str, Any]:
    """Return each user's truth, best rated first, and the ranks of its items in every model's list."""
    ordered = truth.sort_values(["position", "rating"], ascending=[True, False], kind="stable")
    best = ordered[ordered.groupby("position").cumcount() < MAX_TRUTH]
    return {
        **_by_user(best, n_users, items),
        "ranks": [None if frame is None else _ranks(best, n_users, frame) for frame in lists],
        "counts": np.bincount(ordered["position"], minlength=n_users).tolist(),
    }


def _ranks(truth: pd.DataFrame, n_users: int, listed: pd.DataFrame) -> list[list[int]]:
    """Return for each user the ranks of the truth's items in the user's whole list; 0 for items that it lacks."""
    keys = ["position", "item"]
    listed_truth = truth[keys].merge(listed[[*keys, "rank"]], how="left", on=keys)
    ranks: list[list[int]] = [[] for _ in range(n_users)]
    for position, rank in zip(listed_truth["position"], listed_truth["rank"].fillna(0), strict=True):
        ranks[position].append(int(rank))
    return ranks


def _by_user(
    frame: pd.DataFrame, n_users: int, items: _Items, *, value: str = "rating"
) -> dict[str, list[Any]]:
    """Return each user's items, in the order of the frame, with their column ``value``."""
    listed: list[list[int]] = [[] for _ in range(n_users)]
    values: list[list[float | None]] = [[] for _ in range(n_users)]
    for position, item, number in zip(frame["position"], frame["item"], frame[value], strict=True):
        listed[position].append(items.code(item))
        values[position].append(rounded(number, _DIGITS))
    return {"items": listed, f"{value}s": values}


def _groups(comparison: Comparison, users: npt.NDArray[np.generic]) -> list[list[str]]:
    """Return each user's groups, as ``activity: 1-20 interactions``."""
    groups: list[list[str]] = [[] for _ in users]
    for segmentation in comparison.contest.segments:
        for row, group in enumerate(segmentation.of(users)):
            if group >= 0:
                groups[row].append(f"{segmentation.name}: {segmentation.labels[group]}")
    return groups
