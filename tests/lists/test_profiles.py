"""Each profile gives the numbers of its library: computed here, recorded from it, or worked by hand.

What was recorded is in ``profiles/*.json``, with the version, made by ``experiments/profiles/make.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isnan, log, log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from samples import coded

from evalplugin.base.errors import DataError, UnknownNameError
from evalplugin.data import Interactions
from evalplugin.lists.profiles import PROFILES, profile
from evalplugin.metrics import evaluate, parse
from evalplugin.metrics.relevance import Relevance
from evalplugin.models import NO_ITEM, TopN

FIXTURES = Path(__file__).with_name("profiles")
Lists = Mapping[str, Sequence[tuple[str, float]]]
Truth = Mapping[str, Mapping[str, float]]


def encoded(
    lists: Lists, truth: Truth, train: Mapping[str, Sequence[str]] | None = None
) -> tuple[Any, Any, Any]:
    """Return lists, truth and train data on shared vocabularies, as the library's users have them."""
    met = train or {}
    users = sorted({*lists, *truth, *met})
    items = sorted(
        {
            *(i for row in lists.values() for i, _ in row),
            *(i for rows in (truth, met) for r in rows.values() for i in r),
        }
    )
    user_code, item_code = ({raw: code for code, raw in enumerate(raws)} for raws in (users, items))

    def interactions(rows: list[tuple[str, str, float]]) -> Interactions:
        user, item = [user_code[u] for u, _, _ in rows], [item_code[i] for _, i, _ in rows]
        ids = {"users": np.array(users, dtype=object), "items": np.array(items, dtype=object)}
        return coded(user, item, [rating for _, _, rating in rows], **ids)

    listed = sorted(lists, key=user_code.__getitem__)
    shape = (len(listed), max((len(row) for row in lists.values()), default=1) or 1)
    item, score = np.full(shape, NO_ITEM, dtype=np.int32), np.full(shape, np.nan)
    for row, user in enumerate(listed):
        item[row, : len(lists[user])] = [item_code[i] for i, _ in lists[user]]
        score[row, : len(lists[user])] = [s for _, s in lists[user]]
    top_n = TopN(np.array([user_code[u] for u in listed], dtype=np.int32), item, score)
    pairs = [(u, i, r) for u, row in truth.items() for i, r in row.items()]
    return (
        top_n,
        interactions(pairs),
        None if train is None else interactions([(u, i, 1.0) for u, row in met.items() for i in row]),
    )


def ranked(lists: Mapping[str, Sequence[str]]) -> Lists:
    return {user: [(item, -float(rank)) for rank, item in enumerate(row)] for user, row in lists.items()}


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("name", ["ranx", "rectools", "lenskit"])
def test_the_numbers_recorded_from_a_library_are_reproduced(name: str, gaps: bool) -> None:
    recorded = json.loads((FIXTURES / f"{name}.json").read_text())
    case = recorded["cases"][gaps]
    top_n, truth, train = encoded(ranked(case["lists"]), case["truth"], case["train"])
    ours = profile(name).score(top_n, truth, list(case["means"]), train=train)
    assert recorded["version"] in profile(name).library
    assert ours == pytest.approx(case["means"], rel=1e-9, abs=1e-12)
    assert len(ours) >= 40


@pytest.mark.parametrize("name", ["ranx", "rectools", "lenskit"])
def test_every_metric_of_a_profile_was_compared(name: str) -> None:
    recorded = json.loads((FIXTURES / f"{name}.json").read_text())["cases"]
    compared = {profile(name).metric(theirs).name for case in recorded for theirs in case["means"]}
    assert {parse(ours.replace("{k}", "5")).name for ours in profile(name).metrics.values()} <= compared


def test_ranx_agrees_on_every_user() -> None:
    case = json.loads((FIXTURES / "ranx.json").read_text())["cases"][1]
    for name, theirs in case["per_user"].items():
        lists, truth = (
            [case["lists"].get(user, []) for user in theirs],
            [case["truth"][user] for user in theirs],
        )
        ours = evaluate(profile("ranx").metric(name).name, lists=lists, truth=truth)
        assert [0.0 if isnan(value) else value for value in ours] == pytest.approx(
            list(theirs.values()), abs=1e-9
        )


TREC = {
    "P": "P_5",
    "recall": "recall_5",
    "success": "success_5",
    "map": "map",
    "map_cut": "map_cut_5",
    "recip_rank": "recip_rank",
    "ndcg": "ndcg",
    "ndcg_cut": "ndcg_cut_5",
    "Rprec": "Rprec",
    "bpref": "bpref",
    "iprec_at_recall": "iprec_at_recall_0.50",
}


@pytest.mark.parametrize("seed", range(5))
def test_trec_eval_agrees_with_ties_and_users_on_one_side_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists, truth = {}, {}
    for user in (f"u{u}" for u in range(400)):
        items = [str(i) for i in rng.permutation(30)]  # as text 9 comes behind 10
        # Whole numbers tie, and so do numbers that differ by less than float32 can tell.
        listed = items[: rng.choice([0, 1, 4, 20])]
        if listed:
            scores = rng.integers(0, 4, len(listed)) + rng.choice([0, 1e-12], len(listed))
            lists[user] = list(zip(listed, scores.tolist(), strict=True))
        judged = rng.permutation(30)[: rng.choice([0, 1, 2, 8, 20])]
        if len(judged):
            truth[user] = {str(i): int(rng.integers(0, 3)) for i in judged}
    cut = {f"{m}.5" for m in ("P", "recall", "success", "map_cut", "ndcg_cut")} | {"iprec_at_recall.0.5"}
    evaluator = pytrec_eval.RelevanceEvaluator(truth, {*TREC} - {c.split(".")[0] for c in cut} | cut)
    theirs = list(evaluator.evaluate({user: dict(row) for user, row in lists.items()}).values())
    top_n, held_out, _ = encoded(lists, truth)
    ours = profile("trec_eval").score(top_n, held_out, list(TREC.values()))
    assert len(theirs) > 200
    for name in TREC.values():
        assert ours[name] == pytest.approx(np.mean([row[name] for row in theirs]), abs=1e-12), name


def test_every_metric_of_trec_eval_was_compared() -> None:
    compared = {profile("trec_eval").metric(name).name for name in TREC.values()}
    ours = [name.format(k=5, x="0.50") for name in profile("trec_eval").metrics.values()]
    assert {parse(name).name for name in ours} == compared


def recommenders(name: str, lists: Mapping[str, str], truth: Mapping[str, str]) -> float:
    top_n, held_out, _ = encoded(
        ranked(lists), {user: dict.fromkeys(row, 1.0) for user, row in truth.items()}
    )
    return profile("recommenders.jl").score(top_n, held_out, [name])[name]


def test_recommenders_jl_of_its_own_documentation() -> None:
    assert recommenders("precision2", {"1": "ab", "2": "de"}, {"1": "a", "2": "de"}) == (1 / 2 + 2 / 2) / 2


def test_recommenders_jl_worked_by_hand() -> None:
    lists, truth = {"1": "abc", "2": "x"}, {"1": "ac", "2": "xyz", "3": "a"}
    # A user without a list counts 0.
    assert recommenders("precision5", lists, truth) == pytest.approx((2 / 5 + 1 / 5 + 0) / 3)
    assert recommenders("recall5", lists, truth) == pytest.approx((2 / 2 + 1 / 3 + 0) / 3)
    assert recommenders("dcg5", lists, truth) == pytest.approx((1 / log(2) + 1 / log(4) + 1 / log(2) + 0) / 3)
    # The list is cut at the number of truth items: "ab" and "x".
    first = (1 / log(2)) / (1 / log(2) + 1 / log(3))
    second = (1 / log(2)) / (1 / log(2) + 1 / log(3) + 1 / log(4))
    assert recommenders("ndcg5", lists, truth) == pytest.approx((first + second + 0) / 3)


def test_trec_eval_puts_the_later_id_first_among_equal_scores() -> None:
    lists = {"1": [("9", 1.0), ("10", 1.0), ("b", 1.0), ("c", 2.0)]}
    top_n, truth, _ = encoded(lists, {"1": {"9": 1}})
    assert profile("trec_eval").score(top_n, truth, ["recip_rank"])["recip_rank"] == 1 / 3  # c, b, 9, 10
    unscored = TopN(top_n.user, top_n.item, np.full(top_n.item.shape, np.nan))
    with pytest.raises(DataError, match="the rule for ties needs a score for every listed item"):
        profile("trec_eval").score(unscored, truth, ["recip_rank"])


def test_a_threshold_takes_the_place_of_the_librarys() -> None:
    top_n, truth, _ = encoded(ranked({"1": "ab"}), {"1": {"a": 1, "b": 3}})
    assert profile("trec_eval").score(top_n, truth, ["P_2"]) == {"P_2": 1.0}
    assert profile("trec_eval").score(top_n, truth, ["P_2"], relevance=Relevance(threshold=2)) == {
        "P_2": 1 / 2
    }


def test_an_unknown_profile_or_metric_has_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown profile 'treceval'; did you mean 'trec_eval'\?"):
        profile("treceval")
    with pytest.raises(
        UnknownNameError, match=r"^unknown metric 'ndgc_cut_10' of trec_eval; did you mean 'ndcg_cut_10'"
    ):
        profile("trec_eval").metric("ndgc_cut_10")


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_names_real_metrics(name: str) -> None:
    conventions = profile(name)
    for theirs in conventions.metrics:
        assert conventions.metric(theirs.format(k=10, x=0.5)).name


# Of RecBole 1.2.1's metrics.py, for lists of five: hits by rank, and the number of relevant items of the user.
RECBOLE_LISTS = {"a": "12345", "b": "12345", "c": "12345", "d": "12345"}
RECBOLE_TRUTH = {"a": "136", "b": "9", "c": "1367890"}  # d has none: RecBole evaluates users with a truth


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hit@1", (1 + 0 + 1) / 3),
        ("precision@5", (2 / 5 + 0 + 2 / 5) / 3),
        ("recall@5", (2 / 3 + 0 + 2 / 7) / 3),
        ("recall@1", (1 / 3 + 0 + 1 / 7) / 3),
        ("mrr@5", (1 + 0 + 1) / 3),
        # Divided by min(k, relevant items), not by all relevant items as elsewhere.
        ("map@5", ((1 + 2 / 3) / 3 + 0 + (1 + 2 / 3) / 5) / 3),
        ("map@2", (1 / 2 + 0 + 1 / 2) / 3),
        # The ideal list has min(k, relevant items) items, each with a gain of 1.
        (
            "ndcg@5",
            (1.5 / (1 + 1 / log2(3) + 1 / 2) + 0 + 1.5 / sum(1 / log2(rank + 1) for rank in range(1, 6))) / 3,
        ),
        ("ndcg@2", (1 / (1 + 1 / log2(3)) + 0 + 1 / (1 + 1 / log2(3))) / 3),
    ],
)
def test_the_numbers_of_recbole_are_reproduced(name: str, expected: float) -> None:
    truth = {user: dict.fromkeys(items, 2.0) for user, items in RECBOLE_TRUTH.items()}
    top_n, data, _ = encoded(ranked(RECBOLE_LISTS), truth)
    assert profile("recbole").score(top_n, data, [name])[name] == pytest.approx(expected, rel=1e-12)
