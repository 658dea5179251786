"""Models of sessions: golden values by hand, the definitions in plain Python, laws, and the lists of session-rec."""

from __future__ import annotations

import csv
import math
import os
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import coded

from evalplugin.base.errors import ParameterError
from evalplugin.data import Candidates
from evalplugin.models import MODELS, limit_threads, recommend
from evalplugin.models.base import ListRequest
from evalplugin.models.selection import select_candidates

S_KNN = {"similarity": "cosine", "weighting": "same", "weighting_score": "same"}
CASES = [
    ("session.popularity", {}),
    ("session.markov", {"pruning": 2}),
    ("session.rules", {"kind": "association", "pruning": None}),
    ("session.rules", {"weighting": "log", "pruning": 2}),
    ("session.rules", {"weighting": "linear", "steps": 20}),
    ("session.knn", {"k": 3, "sample_size": 4}),
    ("session.knn", {"k": 3, **S_KNN}),
    ("session.knn", {"similarity": "jaccard", "weighting_score": "quadratic", "idf_weighting": 2.0}),
    ("session.knn", {"weighting": "linear", "weighting_score": "linear", "sample_size": None}),
    ("session.knn", {"weighting": "quadratic", "weighting_score": "log", "last_n_clicks": 2, "k": 2}),
    ("session.knn", {"similarity": "cosine", "weighting": "log", "sampling": "random", "sample_size": 3}),
]
by_case = pytest.mark.parametrize(("name", "params"), CASES)


def of_sessions(sessions, n_items, times=None):
    """Events of sessions, lists of item codes; the time of each event is its row's, unless sessions have times."""
    user = np.repeat(np.arange(len(sessions)), [len(session) for session in sessions])
    item = np.array([item for session in sessions for item in session], dtype=np.int32)
    time = np.arange(len(item)) if times is None else np.repeat(times, [len(s) for s in sessions])
    return coded(user, item, users=len(sessions), items=n_items, timestamp=time.astype(np.int64), events=True)


def fit(name, train, params=None, seed=1):
    model = MODELS.create(name, params or {})
    model.fit(train, np.random.default_rng(seed))
    return model


def everybody(data):
    return np.arange(data.n_users, dtype=np.int32)


def after(model, train, *sessions):
    """The scores after some sessions that are not in the train data."""
    history = of_sessions(sessions, train.n_items)
    return model.recommend_for(everybody(history), history)


TINY = of_sessions([[0, 1, 2], [0, 2, 0, 1], [1, 2], [3, 0]], 5)  # nobody has item 4


def test_the_models_declare_that_order_matters():
    names = [entry.name for entry in MODELS if entry.name.startswith("session.")]
    assert names == ["session.knn", "session.markov", "session.popularity", "session.rules"]
    assert all(MODELS.create(name, {}).sequential for name in names)
    assert not MODELS.create("popularity").sequential


def test_popularity_by_hand():
    popularity = [4 / 5, 3 / 4, 3 / 4, 1 / 2, 0]
    scores = after(fit("session.popularity", TINY), TINY, [], [3, 1, 3])
    assert scores[0].tolist() == popularity
    assert scores[1].tolist() == [4 / 5, 1 + 3 / 4, 3 / 4, 2 + 1 / 2, 0]


def test_markov_chain_by_hand():
    # After item 0 came 1, 2 and 1; after item 1 came 2 and 2; after item 2 came 0; after item 3 came 0.
    scores = after(fit("session.markov", TINY), TINY, [1, 0], [0, 1], [2], [3], [4], [])
    expected = [[0, 2, 1, 0, 0], [0, 0, 2, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0] * 5, [0] * 5]
    assert scores.tolist() == expected


def test_association_rules_by_hand():
    scores = after(fit("session.rules", TINY, {"kind": "association"}), TINY, [2, 0], [1])
    # Of item 0: the second session has two events of it, each with the other, with 2 and with 1.
    assert scores.tolist() == [[2, 1 + 2, 1 + 2, 1, 0], [1 + 2, 0, 1 + 1 + 1, 0, 0]]


@pytest.mark.parametrize(
    ("weighting", "steps", "weight"),
    [
        ("same", 3, {1: 1, 2: 1, 3: 1}),
        ("div", 10, {1: 1, 2: 1 / 2, 3: 1 / 3}),
        ("div", 2, {1: 1, 2: 1 / 2, 3: 0}),
        ("linear", 10, {1: 0.9, 2: 0.8, 3: 0.7}),
        ("quadratic", 10, {1: 1, 2: 1 / 4, 3: 1 / 9}),
        ("log", 10, {d: 1 / math.log10(d + 1.7) for d in (1, 2, 3)}),
    ],
)
def test_sequential_rules_by_hand(weighting, steps, weight):
    scores = after(fit("session.rules", TINY, {"weighting": weighting, "steps": steps}), TINY, [0])
    expected = [weight[2], weight[1] + weight[3] + weight[1], weight[2] + weight[1], 0, 0]
    assert scores[0] == pytest.approx(expected, rel=1e-12)


def test_pruning_keeps_the_heaviest_rules_and_of_equal_ones_the_first_items():
    train = of_sessions([[0, 1], [0, 3], [0, 2], [0, 2]], 4)
    assert after(fit("session.markov", train, {"pruning": 2}), train, [0]).tolist() == [[0, 1, 2, 0]]


def test_neighbours_by_hand():
    scores = after(fit("session.knn", TINY), TINY, [0, 1], [1, 0])
    # Weights 1/2 and 1 of two items. The last of them is the last event for all sessions but [3, 0] with its 0, for
    # which the event before it is.
    both, last, first = (1 / 2 + 1) / 2, 1 / 2, 1 / 2 / 2
    near, far = 2 * both + last, 2 * both + first / 2
    assert scores[0] == pytest.approx([far, near, near, first / 2, 0], rel=1e-12)
    assert scores[1] == pytest.approx([near, far, far, last, 0], rel=1e-12)


def test_session_neighbours_with_the_cosine_by_hand():
    scores = after(fit("session.knn", TINY, S_KNN), TINY, [0, 1])
    of_three, of_two = 2 / math.sqrt(2 * 3), 1 / math.sqrt(2 * 2)
    assert scores[0] == pytest.approx([2 * of_three + of_two] * 3 + [of_two, 0], rel=1e-12)


def test_jaccard_and_rare_items_by_hand():
    params = {"similarity": "jaccard", "weighting_score": "same", "idf_weighting": 3.0}
    scores = after(fit("session.knn", TINY, params), TINY, [0, 0, 1])
    of_three, of_two = 2 / 3, 1 / (2 + 2 - 1)
    plain = np.array([2 * of_three + of_two] * 3 + [of_two, 0])
    rarity = 1 + 3 * np.log(4 / np.array([4, 3, 3, 1, 4]))
    assert scores[0] == pytest.approx(plain * rarity, rel=1e-12)


def test_the_sample_is_of_the_most_recent_sessions():
    train = of_sessions([[0, 1], [0, 2], [0, 3], [0, 4]], 5, times=np.array([5, 9, 7, 9]))
    params = {"weighting_score": "same"}
    for sample_size, expected in ((1, [1]), (2, [1, 3]), (3, [1, 2, 3]), (None, [0, 1, 2, 3])):
        scores = after(fit("session.knn", train, {**params, "sample_size": sample_size}), train, [0])
        assert (np.flatnonzero(scores[0][1:])).tolist() == expected
    # All are equally similar: the more recent are neighbours.
    scores = after(fit("session.knn", train, {**params, "k": 3}), train, [0])
    assert np.flatnonzero(scores[0][1:]).tolist() == [1, 2, 3]


def test_without_times_rows_are_in_the_order_of_time():
    timeless = replace(of_sessions([[0, 1], [0, 2], [0, 3]], 4), timestamp=None)
    train = timeless.select(np.array([4, 0, 2, 3, 1, 5]))
    scores = after(fit("session.knn", train, {"k": 2}), train, [0])
    assert np.flatnonzero(scores[0]).tolist() == [0, 1, 3]


def test_a_random_sample_is_decided_by_the_seed():
    train = of_sessions([[0, 1 + i] for i in range(40)], 41)
    params = {"sampling": "random", "sample_size": 5}
    models = [fit("session.knn", train, params, seed) for seed in (1, 1, 2)]
    first, again, other = (after(model, train, [0])[0] for model in models)
    assert np.count_nonzero(first) == np.count_nonzero(other) == 6
    assert first.tolist() == again.tolist() != other.tolist()


def test_the_items_before_the_last_clicks_count_for_the_sample_alone():
    train = of_sessions([[1, 2], [0, 3], [0, 4]], 5)
    params = {"last_n_clicks": 1, "weighting_score": "same"}
    assert after(fit("session.knn", train, params), train, [0, 1])[0].tolist() == [0, 1, 1, 0, 0]
    assert not after(fit("session.knn", train, {**params, "sample_size": 2}), train, [0, 1]).any()


def test_a_session_of_the_train_data_is_no_neighbour_of_its_own():
    train = of_sessions([[0, 1], [0, 2]], 3)
    scores = fit("session.knn", train).scores(everybody(train))
    half = (1 / 2) / 2 / 2  # the weight of the first event of two, of two items, two events from the end
    assert scores.tolist() == [[half, 0, half], [half, half, 0]]


def test_a_wrong_parameter_is_named():
    with pytest.raises(ParameterError, match="sampling"):
        MODELS.create("session.knn", {"sampling": "latest"})
    with pytest.raises(ParameterError, match="kind"):
        MODELS.create("session.rules", {"kind": "associations"})


# The definitions, in plain Python.


def decay(weighting, d):
    if weighting == "linear":
        return 1 - d / 10
    return {"same": 1, "div": 1 / d, "log": 1 / math.log10(d + 1.7), "quadratic": 1 / d**2}[weighting]


def position_weight(weighting, p, n):
    if weighting == "linear":
        return 1 - (n - p) / 10 if p <= 10 else 0
    return {"same": 1, "div": p / n, "log": 1 / math.log10(n - p + 1.7), "quadratic": (p / n) ** 2}[weighting]


def rules_in_python(sessions, last, params):
    rules = defaultdict(float)
    for session in sessions:
        for p, q in ((p, q) for p in range(len(session)) for q in range(len(session)) if p != q):
            if session[p] != last:
                continue
            if params.get("kind") == "association":
                rules[session[q]] += 1
            elif 0 < q - p <= params.get("steps", 10):
                rules[session[q]] += decay(params.get("weighting", "div"), q - p)
    kept = sorted(rules, key=lambda item: (-round(rules[item], 9), item))[: params.get("pruning", 20)]
    return {item: rules[item] for item in kept}


def neighbours_in_python(sessions, query, params):
    """Scores by item; sessions come in the order of time."""
    n_clicks = params.get("last_n_clicks") or len(query)
    window = query[-n_clicks:]
    weighting = "same" if params.get("similarity") == "jaccard" else params.get("weighting", "div")
    weights = {item: position_weight(weighting, p, len(window)) for p, item in enumerate(window, 1)}
    events = Counter(item for session in sessions for item in session)
    sample = [set(s) for s in reversed(sessions) if set(s) & set(query)][: params.get("sample_size", 1000)]
    similar = []
    for session in sample:
        total = sum(weight for item, weight in weights.items() if item in session)
        if not total > 0:
            continue
        match params.get("similarity", "dot"):
            case "dot":
                similarity = total / len(weights)
            case "cosine":
                similarity = total / math.sqrt(sum(w * w for w in weights.values()) * len(session))
            case _:
                similarity = total / (len(weights) + len(session) - total)
        similar.append((round(similarity, 9), similarity, session))
    scores = defaultdict(float)
    for _, similarity, session in sorted(similar, key=lambda s: -s[0])[: params.get("k", 100)]:
        step = next(d for d, item in enumerate(reversed(window), 1) if item in session)
        for item in session:
            rarity = 1 + params.get("idf_weighting", 0) * math.log(len(sessions) / events[item])
            scores[item] += similarity * decay(params.get("weighting_score", "div"), step) * rarity
    return scores


N_ITEMS = 7
session = st.lists(st.integers(0, N_ITEMS - 2), min_size=1, max_size=14)
sessions = st.lists(session, min_size=1, max_size=9)


@settings(max_examples=40)
@given(sessions, session)
@by_case
def test_scores_are_those_of_the_definition(name, params, past, query):
    if params.get("sampling") == "random":
        return
    train = of_sessions(past, N_ITEMS)
    if name == "session.popularity":
        events, own = Counter(item for s in past for item in s), Counter(query)
        expected = {item: own[item] + events[item] / (1 + events[item]) for item in range(N_ITEMS)}
    elif name == "session.knn":
        expected = neighbours_in_python(past, query, params)
    else:
        own = {"steps": 1} if name == "session.markov" else {}
        expected = rules_in_python(past, query[-1], own | params)
    dense = [expected.get(item, 0.0) for item in range(N_ITEMS)]
    np.testing.assert_allclose(after(fit(name, train, params), train, query)[0], dense, rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(sessions, sessions, st.randoms(use_true_random=False))
@by_case
def test_a_list_depends_on_the_querys_own_history_alone(name, params, past, asked, random):
    train, history = of_sessions(past, N_ITEMS), of_sessions(asked, N_ITEMS)
    model = fit(name, train, params)
    together = model.recommend_for(everybody(history), history)
    for query in range(len(asked)):
        own = history.select(history.user == query)
        assert np.array_equal(model.recommend_for(np.array([query], dtype=np.int32), own)[0], together[query])
    backwards = everybody(history)[::-1]
    assert np.array_equal(model.recommend_for(backwards, history), together[::-1])
    # The order of rows tells nothing where times do: neither of the history nor of the train data.
    rows = np.array(random.sample(range(len(history)), len(history)))
    assert np.array_equal(model.recommend_for(everybody(history), history.select(rows)), together)
    rows = np.array(random.sample(range(len(train)), len(train)))
    shuffled = fit(name, train.select(rows), params)
    assert np.array_equal(shuffled.recommend_for(everybody(history), history), together)


@settings(max_examples=40)
@given(sessions, sessions, st.integers(1, N_ITEMS + 1), st.permutations(range(N_ITEMS)))
@by_case
def test_lists_are_those_of_the_scores(name, params, past, asked, n, ties):
    train, history = of_sessions(past, N_ITEMS), of_sessions(asked, N_ITEMS)
    model = fit(name, train, params)
    for rows, scores, lists in (
        (train, model.scores(everybody(train)), model.recommend_candidates),
        (
            history,
            model.recommend_for(everybody(history), history),
            lambda *given, history=history: model.recommend_candidates(*given, history),
        ),
    ):
        users = everybody(rows)
        for candidates in (
            Candidates("all", tie_rank=np.array(ties)),
            Candidates("unseen", excluded=rows.rows, tie_rank=np.array(ties)),
            Candidates("judged", included=rows.merged().rows),
        ):
            item, score = lists(users, n, candidates)
            expected_item, expected_score = select_candidates(users, scores, n, candidates)
            assert np.array_equal(item, expected_item)
            assert np.array_equal(score, expected_score, equal_nan=True)


@by_case
def test_no_bit_depends_on_threads_or_blocks(name, params):
    rng = np.random.default_rng(4)
    train = of_sessions([rng.integers(0, 60, rng.integers(1, 12)).tolist() for _ in range(300)], 60)
    history = of_sessions([rng.integers(0, 60, rng.integers(1, 12)).tolist() for _ in range(200)], 60)
    users = np.arange(0, 200, 3, dtype=np.int32)
    lists = []
    for threads, block_bytes in ((1, 2**20), (3, 2**20), (2, 7 * 60 * 8)):
        with limit_threads(threads):
            model = fit(name, train, params)
            request = ListRequest(train, users, 20, Candidates("all"), history=history)
            lists.append(recommend(model, request, block_bytes=block_bytes))
    for other in lists[1:]:
        assert np.array_equal(lists[0].item, other.item)
        assert np.array_equal(lists[0].score, other.score, equal_nan=True)
    own = model.recommend_candidates(users, 20, Candidates("all"), history)
    assert np.array_equal(lists[0].item, own[0])


# Clicks of yoochoose.com, and what session-rec (github.com/rn5l/session-rec, data/rsc15/recommendations) lists after
# each event but the last of the first 100 sessions.


def clicks_of(file):
    session, item, time = np.loadtxt(file, skiprows=1, delimiter="\t", unpack=True)
    return session.astype(np.int64), item.astype(np.int64), np.round(time * 1000).astype(np.int64)


@pytest.fixture(scope="module")
def clicks():
    folder = Path(os.environ.get("EVALPLUGIN_DATA_HOME", "")) / "published" / "rsc15-100k"
    if "EVALPLUGIN_DATA_HOME" not in os.environ or not folder.is_dir():
        pytest.skip("EVALPLUGIN_DATA_HOME is not set, or has no published/rsc15-100k")
    session, item, time = clicks_of(folder / "yoochoose-clicks-100k_train_full.txt")
    users, items = np.unique(session), np.unique(item)

    def events(user, item, time, users):
        return coded(
            user, np.searchsorted(items, item), users=users, items=items, timestamp=time, events=True
        )

    train = events(np.searchsorted(users, session), item, time, users)
    session, item, time = clicks_of(folder / "yoochoose-clicks-100k_test.txt")

    def history(queries):
        """The events of sessions up to some positions."""
        rows, user = [], []
        for number, (of, position) in enumerate(queries):
            own = np.flatnonzero(session == of)
            rows.append(own[np.argsort(time[own], kind="stable")][: position + 1])
            user.append(np.full(position + 1, number))
        rows, user = np.concatenate(rows), np.concatenate(user)
        return events(user, item[rows], time[rows], np.arange(len(queries)))

    return folder, train, history


def lists_after(model, train, history):
    request = ListRequest(train, everybody(history), 50, Candidates("all"), history=history)
    return recommend(model, request)


@pytest.mark.parametrize(
    ("file", "params"),
    [
        ("ar.csv", {"kind": "association"}),
        ("sr.csv", {"kind": "sequential", "steps": 20, "weighting": "quadratic"}),
    ],
)
def test_rules_on_clicks_are_those_of_session_rec(clicks, file, params):
    folder, train, history = clicks
    with (folder / file).open() as lines:
        published = list(csv.DictReader(lines, delimiter=";"))
    queries = history([(int(row["SessionId"]), int(row["Position"])) for row in published])
    lists = lists_after(fit("session.rules", train, params), train, queries)
    assert len(lists) == 387
    for row, item, score in zip(published, lists.item, lists.score, strict=True):
        expected = np.array(row["Scores"].split(","), dtype=np.float64)  # divided by the highest
        np.testing.assert_allclose(score / max(score[0], 1e-9), expected, rtol=1e-12)
        ids = np.array(row["Recommendations"].split(","), dtype=np.int64)
        ends = np.flatnonzero(expected[:-1] - expected[1:] > 1e-12 * expected[:-1]) + 1
        groups = np.split(np.arange(50), ends)
        # Of the last group with a rule some may have been pruned; behind it, items without a rule tie.
        with_rule = [group for group in groups if expected[group[0]] > 0]
        for group in with_rule[:-1]:
            assert set(ids[group]) == set(train.items[item[group]])


def test_neighbours_on_clicks_are_those_of_session_rec(clicks):
    _, train, history = clicks
    params = {"k": 500, "sample_size": 5000, "weighting": "quadratic", "idf_weighting": 5.0}
    published = {
        (1, 0): {214536502: 1, 214820201: 0.17468137562404298, 214826623: 0.1090097858661836},
        (2, 4): {214757407: 1, 214757390: 0.40621479384202225, 214825110: 0.4020843273434621},
        (87, 21): {214819760: 1, 214819762: 0.691520768979545, 214684843: 0.5468037996713546},
    }
    lists = lists_after(fit("session.knn", train, params), train, history(list(published)))
    for expected, item, score in zip(published.values(), lists.item, lists.score, strict=True):
        assert train.items[item[:3]].tolist() == list(expected)
        assert score[:3] / score[0] == pytest.approx(list(expected.values()), rel=1e-12)
