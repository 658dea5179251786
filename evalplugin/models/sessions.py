"""Models of sessions, which list what may come next: popularity, Markov chains, rules, and neighbours of sessions."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats, Ints, position_in_row, row_entries, search
from evalplugin.base.libraries import sparse
from evalplugin.models.base import Recommender, model
from evalplugin.models.selection import rank_entries, row_codes, select_candidates

if TYPE_CHECKING:
    from evalplugin.data import Candidates, Interactions
    from evalplugin.models.kernels.sessions import Queries

Decay = Literal["same", "linear", "div", "log", "quadratic"]


class Events(NamedTuple):
    """The events of sessions, each session's in order: by time, and by row where times are equal or unknown."""

    indptr: Ints  # (n_sessions + 1,)
    item: Codes  # (m,)
    time: Ints  # (n_sessions,) of the last event of each session, or its row where times are unknown; no event: -1

    @classmethod
    def of(cls, data: Interactions) -> Events:
        """Return the events of all users of the data."""
        return cls._of(data, np.arange(len(data)), data.user, data.n_users)

    @classmethod
    def of_users(cls, data: Interactions, users: Codes) -> Events:
        """Return the events of some users, ascending, who are numbered anew."""
        number, asked = search(users, data.user)
        rows = np.flatnonzero(asked)
        return cls._of(data, rows, number[rows], len(users))

    @classmethod
    def _of(cls, data: Interactions, rows: Ints, session: Ints | Codes, n_sessions: int) -> Events:
        if (times := data.time) is None:
            order = np.argsort(session, kind="stable")
        else:
            order = np.lexsort((times[rows], session))
        indptr, rows = _starts(session, n_sessions), rows[order]
        time, has_events = np.full(n_sessions, -1, dtype=np.int64), np.diff(indptr) > 0
        last = rows[indptr[1:][has_events] - 1]
        time[has_events] = last if times is None else times[last]
        return cls(indptr, data.item[rows], time)

    def select(self, sessions: Ints | Codes) -> Events:
        """Return the events of some sessions, which are numbered anew."""
        entries, _ = row_entries(self.indptr, sessions)
        counts = np.diff(self.indptr)[sessions]
        return Events(np.concatenate([[0], np.cumsum(counts)]), self.item[entries], self.time[sessions])

    def session(self) -> Ints:
        """Return the session of each event: int64 (m,)."""
        return np.repeat(np.arange(len(self.time)), np.diff(self.indptr))


class SessionModel(Recommender):
    """A model that answers queries: sessions so far, each with the number of its session in the train data, or -1."""

    sequential: ClassVar[bool] = True
    uses_ratings: ClassVar[bool] = False
    cold_users: ClassVar[str] = "popularity"

    def scores(self, users: Codes) -> Floats:
        """Return the scores after the sessions of the train data: float64 (len(users), n_items)."""
        return self._scores(self._events.select(users), users)

    def recommend_for(self, users: Codes, history: Interactions) -> Floats:
        """Return the scores after the sessions of the history: float64 (len(users), n_items)."""
        return self._scores(*_queries_of(users, history))

    def recommend_candidates(
        self, users: Codes, n: int, candidates: Candidates, history: Interactions | None = None
    ) -> tuple[Codes, Floats]:
        """Return the lists that follow from the scores, of which only those above zero are computed."""
        known = (self._events.select(users), users) if history is None else _queries_of(users, history)
        return self._lists(*known, users, n, candidates)

    def _remember(self, train: Interactions) -> Events:
        """Return the events of the train data, which are kept as queries."""
        self._events = Events.of(train)
        return self._events

    def _scores(self, queries: Events, own: Codes) -> Floats:
        raise NotImplementedError

    def _lists(
        self, queries: Events, own: Codes, users: Codes, n: int, candidates: Candidates
    ) -> tuple[Codes, Floats]:
        raise NotImplementedError


def _queries_of(users: Codes, history: Interactions) -> tuple[Events, Codes]:
    """Return the histories of some users as queries, and that they are no sessions of the train data."""
    asked, place = np.unique(users, return_inverse=True)
    return Events.of_users(history, asked).select(place), np.full(len(users), -1, dtype=np.int32)


class _ProductModel(SessionModel):
    """A model whose scores are the product of a row for each query and a matrix that its ``fit`` keeps."""

    def prepare(self) -> None:
        """Import SciPy and the compiled loops."""
        import_module("evalplugin.models.kernels.sessions")

    def _left(self, queries: Events, own: Codes) -> sparse.csr_array:
        """Return the row (x,) of each query."""
        raise NotImplementedError

    def _scores(self, queries: Events, own: Codes) -> Floats:
        return self._product(self._left(queries, own))

    def _product(self, left: sparse.csr_array) -> Floats:
        from evalplugin.models.kernels.products import dense_product

        return dense_product(left, np.arange(left.shape[0], dtype=np.int32), self._right)

    def _lists(
        self, queries: Events, own: Codes, users: Codes, n: int, candidates: Candidates
    ) -> tuple[Codes, Floats]:
        left = self._left(queries, own)
        is_positive = self._is_positive and left.data.min(initial=0.0) >= 0
        if candidates.included is not None or not is_positive:
            return select_candidates(users, self._product(left), n, candidates)
        from evalplugin.data import Rows
        from evalplugin.models.kernels.products import top_of_product

        excluded = None
        if candidates.excluded is not None:
            row, item = row_codes(candidates.excluded, users)
            excluded = Rows(_starts(row, len(users)), item, np.empty(0, dtype=np.float32))
        rows = np.arange(len(users), dtype=np.int32)
        return top_of_product(left, rows, self._right, n, excluded, candidates.tie_rank)

    def _keep(self, right: sparse.csr_array) -> None:
        """Keep the matrix (x, n_items)."""
        self._right = right
        self._is_positive = bool(right.data.min(initial=0.0) >= 0)


def _starts(row: Ints | Codes, n_rows: int) -> Ints:
    """Return where each row starts among entries in the order of rows: int64 (n_rows + 1,)."""
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))])


Pruning = Annotated[int | None, Field(ge=1, description="most rules of each item; null: all")]


class _LastItem(_ProductModel):
    """Rules from the last item of the session to all items."""

    stochastic: ClassVar[bool] = False
    pruning: int | None

    def _fit(self, train: Interactions, weights: Floats | None) -> None:
        from evalplugin.models.kernels.sessions import Sequences, rules

        events = self._remember(train)
        sequences = Sequences(events.indptr, events.item)
        self._keep(rules(sequences, train.n_items, self.pruning, weights))

    def _left(self, queries: Events, own: Codes) -> sparse.csr_array:
        indptr, item, _ = queries
        known = np.diff(indptr) > 0
        last = item[indptr[1:][known] - 1]
        rows = np.concatenate([[0], np.cumsum(known)])
        return sparse.csr_array((np.ones(len(last)), last, rows), shape=(len(known), self._right.shape[0]))


@model("session.markov")
@dataclass
class MarkovChain(_LastItem):
    """What came next after the last item of the session: a Markov chain of the first order.

    score(s, i) = number of times that an event of item i is the next one after an event of the last item of s, in a
    session of the train data. Zero for other items. Ludewig and Jannach 2018; as in session-rec but for ties.
    """

    pruning: Pruning = 20

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Count what follows each item."""
        self._fit(train, np.ones(1))


@model("session.rules")
@dataclass
class SessionRules(_LastItem):
    """Rules from the last item of the session to others: association rules (AR) or sequential rules (SR).

    score(s, i) = weight of the rule from the last item of s to i, a sum over the pairs of an event of the last item
    and an event of i in one session of the train data. Zero for items without a rule.

    - association: each pair weighs 1, in whichever order.
    - sequential: a pair with i as the d-th event after the other weighs 1 (`same`), 1 / d (`div`),
      1 / log10(d + 1.7) (`log`), 1 / d² (`quadratic`) or 1 - d / 10 (`linear`, which session-rec lets become negative,
      and 0 behind the hundredth event), for d up to `steps`.

    Of equal weights, the rules to the first items of the catalogue are kept. Ludewig and Jannach 2018; as in
    session-rec but for ties.
    """

    kind: Annotated[
        Literal["association", "sequential"],
        Field(description="whether pairs count in any order, or only what comes later"),
    ] = "sequential"
    steps: Annotated[
        int, Field(ge=1, description="of sequential: most steps between the events of a pair")
    ] = 10
    weighting: Annotated[Decay, Field(description="of sequential: weight of a pair by its steps")] = "div"
    pruning: Pruning = 20

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Add up the weights of the pairs."""
        weights = None
        if self.kind == "sequential":
            longest = int(train.rows.counts.max(initial=1))
            weights = by_distance(self.weighting, np.arange(1, min(self.steps, longest) + 1))
        self._fit(train, weights)


def by_distance(weighting: str, distance: Ints) -> Floats:
    """Return the weight of each distance, from 1."""
    d = distance.astype(np.float64)
    match weighting:
        case "linear":
            return np.where(d <= 100, 1 - 0.1 * d, 0.0)
        case "div":
            return 1 / d
        case "log":
            return 1 / np.log10(d + 1.7)
        case "quadratic":
            return 1 / (d * d)
        case _:
            return np.ones(len(d))


def by_position(weighting: str, position: Ints, length: Ints) -> tuple[Floats, Floats]:
    """Return the weight of each position, from 1, in a session of some length, as a numerator and a denominator.

    Sums of whole numerators are exact: similarities that are equal on paper tie.
    """
    p, n = position.astype(np.float64), length.astype(np.float64)
    ones = np.ones(len(p))
    match weighting:
        case "linear":
            return np.where(p <= 10, 10 - (n - p), 0.0), 10 * ones
        case "div":
            return p, n
        case "log":
            return 1 / np.log10(n - p + 1.7), ones
        case "quadratic":
            return p * p, n * n
        case _:
            return ones, ones


@model("session.knn")
@dataclass
class SessionNeighbours(_ProductModel):
    """The items of similar sessions: neighbours of sessions (V-S-kNN, S-kNN).

    score(s, i) = sum of sim(s, v) decay(s, v) (1 + idf_weighting idf(i)) over the neighbours v of s that have item i.
    Zero for other items.

    - Neighbours are the k most similar sessions of a sample: of the train sessions with an item of s, the
      `sample_size` most recent ones by the time of their last event. Of equally recent sessions the first ids
      count, of equally similar ones the more recent.
    - sim(s, v), with the sum w of the weights of the distinct items of s that v has, and the numbers of distinct
      items |s| and |v|, is w / |s| (`dot`), w / (sqrt(sum of the squared weights of s) sqrt(|v|)) (`cosine`) or,
      where all weights are 1, w / (|s| + |v| - w) (`jaccard`).
    - An item of s weighs 1 (`same`), p / n (`div`), 1 / log10(n - p + 1.7) (`log`), (p / n)² (`quadratic`) or 1 -
      (n - p) / 10 (`linear`), where its last event is number p of n. With `linear`, events from the eleventh on
      weigh 0.
    - decay(s, v) is 1 (`same`), 1 / d (`div`), 1 / log10(d + 1.7) (`log`), 1 / d² (`quadratic`) or 1 - d / 10
      (`linear`, which becomes negative), where the last event of s whose item v has is number d, counted from the
      end.
    - idf(i) = log(number of sessions / number of events of i).

    The defaults are V-S-kNN. S-kNN is `similarity: cosine` with `weighting: same` and `weighting_score: same`.
    Ludewig and Jannach 2018; as in session-rec but for ties.
    """

    k: Annotated[int, Field(ge=1, description="most neighbours of a session")] = 100
    sample_size: Annotated[
        int | None, Field(ge=1, description="most sessions that are compared; null: all")
    ] = 1000
    sampling: Annotated[
        Literal["recent", "random"],
        Field(description="which sessions are compared"),
    ] = "recent"
    similarity: Annotated[Literal["dot", "cosine", "jaccard"], Field(description="see above")] = "dot"
    weighting: Annotated[
        Decay, Field(description="of the session's items in dot and cosine, by their position")
    ] = "div"
    weighting_score: Annotated[
        Decay, Field(description="what a neighbour counts, by the last item that it shares")
    ] = "div"
    idf_weighting: Annotated[float, Field(ge=0, description="how much more rare items score; 0: no more")] = (
        0.0
    )
    last_n_clicks: Annotated[
        int | None,
        Field(ge=1, description="last events of the session that count; null: all"),
    ] = None

    @property
    def stochastic(self) -> bool:
        """Whether another stream of random numbers may change the lists."""
        return self.sampling == "random"

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Index the sessions by their items, the preferred ones first."""
        from evalplugin.models.kernels.products import with_small_indices
        from evalplugin.models.kernels.sessions import Past

        events = self._remember(train)
        sessions = np.flatnonzero(np.diff(events.indptr) > 0)
        if self.sampling == "recent":
            sessions = sessions[np.argsort(-events.time[sessions], kind="stable")]
        else:
            # The first sessions of a random order are a random sample of any set of sessions.
            sessions = rng.permutation(sessions)
        self._place = np.full(train.n_users, -1, dtype=np.int64)
        self._place[sessions] = np.arange(len(sessions))
        shape = len(sessions), train.n_items
        pair = np.unique(self._place[events.session()] * train.n_items + events.item)
        session, item = np.divmod(pair, train.n_items)
        counts = np.bincount(events.item, minlength=train.n_items)
        idf = np.log(len(sessions) / np.maximum(counts, 1))
        weight = (1 + self.idf_weighting * idf)[item]
        right = with_small_indices(sparse.csr_array((weight, (session, item)), shape=shape))
        by_item = right.T.tocsr()
        self._past = Past(
            by_item.indptr.astype(np.int64),
            by_item.indices.astype(np.int32, copy=False),
            np.diff(right.indptr).astype(np.float64),
        )
        self._keep(right)

    def _left(self, queries: Events, own: Codes) -> sparse.csr_array:
        from evalplugin.models.kernels.sessions import nearest_sessions

        places = np.where(own < 0, -1, self._place[own])
        asked = self._queries(queries, places)
        return nearest_sessions(asked, self._past, self.k, self.sample_size, self.similarity)

    def _queries(self, queries: Events, own: Ints) -> Queries:
        """Return the distinct items of the queries with their weights."""
        from evalplugin.models.kernels.sessions import Queries

        indptr, item, _ = queries
        n_queries, n_items = len(own), self._right.shape[1]
        session, length = queries.session(), np.diff(indptr)
        position = np.arange(len(item)) - indptr[session]
        # The last event of each item of a query.
        key = session * n_items + item
        order = np.argsort(key, kind="stable")
        is_last = np.append(key[order][1:] != key[order][:-1], [True] * bool(len(key)))
        last = np.sort(order[is_last])
        session, item, position = session[last], item[last], position[last]
        distance = length[session] - position
        window = length if self.last_n_clicks is None else np.minimum(length, self.last_n_clicks)
        inside = distance <= window[session]
        place = np.maximum(window[session] - distance + 1, 1)
        weighting = "same" if self.similarity == "jaccard" else self.weighting
        weight, below = by_position(weighting, place, window[session])
        weight[~inside] = 0.0
        if self.similarity == "cosine":
            size = np.sqrt(np.bincount(session, weight * weight, n_queries))
        else:
            size = np.bincount(session, np.where(inside, below, 0.0), n_queries)
        starts = _starts(session, n_queries)
        return Queries(starts, item, weight, by_distance(self.weighting_score, distance), size, own)


@model("session.popularity")
@dataclass
class SessionPopularity(SessionModel):
    """The most popular items of the session so far, then those of all sessions (S-POP).

    score(s, i) = events of item i in s + n_i / (1 + n_i), with n_i events of item i in the train data: the session's
    items come first. Where these are no candidates, it is `popularity`. Hidasi et al., ICLR 2016; as in session-rec
    with all items as its `top_n`.
    """

    personalised: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Count the events of each item."""
        counts = train.item_events.astype(np.float64)
        self._popularity = counts / (1 + counts)
        self._remember(train)

    def _scores(self, queries: Events, own: Codes) -> Floats:
        entry, times = self._met(queries)
        scores = np.tile(self._popularity, (len(own), 1))
        scores.ravel()[entry] += times
        return scores

    def _met(self, queries: Events) -> tuple[Ints, Ints]:
        """Return each item of each query, as query * n_items + item, ascending, and how often the query has it."""
        entry, times = np.unique(queries.session() * len(self._popularity) + queries.item, return_counts=True)
        return entry, times

    def _lists(
        self, queries: Events, own: Codes, users: Codes, n: int, candidates: Candidates
    ) -> tuple[Codes, Floats]:
        if candidates.included is not None:
            return select_candidates(users, self._scores(queries, own), n, candidates)
        n_rows, n_items = len(users), len(self._popularity)
        met, times = self._met(queries)
        left_out = np.empty(0, dtype=np.int64)
        if candidates.excluded is not None:
            row, item = row_codes(candidates.excluded, users)
            left_out = row * n_items + item
        # So many popular items that n are left without those of the session and those that are left out.
        passed = np.bincount(np.concatenate([met, left_out]) // n_items, minlength=n_rows)
        row = np.repeat(np.arange(n_rows), np.minimum(n + passed, n_items))
        ties = np.arange(n_items) if candidates.tie_rank is None else candidates.tie_rank
        order = np.lexsort((ties, -self._popularity))
        popular = row * n_items + order[position_in_row(row, n_rows)]
        popular = popular[~np.isin(popular, met)]
        entry, times = (
            np.concatenate([met, popular]),
            np.concatenate([times, np.zeros(len(popular), dtype=np.int64)]),
        )
        listed = ~np.isin(entry, left_out)
        row, item = np.divmod(entry[listed], n_items)
        score = self._popularity[item] + times[listed]
        return rank_entries(row, item, score, (n_rows, n), candidates.tie_rank)
