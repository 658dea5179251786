"""Which results may be compared, on plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalplugin.base.errors import DataError
from evalplugin.comparison.compared import ComparedModel, shared_values
from evalplugin.comparison.contest import Contest
from evalplugin.metrics import definitions_hash, parse
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.competition import Rules
from evalplugin.segments import clustering
from evalplugin.tracking.read.agreement import agree

RULES = Rules("train1", "test1", 10, "unseen", 4.0, "hash1")
DEFINITIONS = {"ndcg@10": "a", "rr": "b", "coverage@10": "c"}


def scored(name: str, users: Sequence[Any] = (1, 2, 3), **changes: Any) -> Any:
    ids = np.array(users, dtype=object if isinstance(users[0], str) else np.int64)
    values = np.stack([np.arange(len(ids)) / 10, np.full(len(ids), 0.5)], axis=1)
    scores = PerUserScores(
        Units(ids),
        values,
        ("ndcg@10", "rr"),
        {"coverage@10": 0.7},
        {"ndcg": {10: 0.1}, "rr": {10: 0.5}},
        {0: 1.0},
    )
    result = ComparedModel(name, scores, fold_means=(scores.means,))
    logged = {
        "model": name, "bakeoff": "b1", "result": result, "rules": RULES, "folds": 1,
        "definitions": DEFINITIONS, "table": lambda name: None, "spec": parse, "given": {},
        "is_from_elsewhere": changes.get("rules", RULES).candidates is None,
        "tag": lambda key: "",
        **changes,
    }  # fmt: skip
    return SimpleNamespace(**logged)


def failed(name: str) -> Any:
    return scored(name, result=ComparedModel(name, None, error="it broke"))


def test_agreeing_runs_are_compared_unchanged() -> None:
    runs = [scored("a"), failed("f"), scored("b")]
    agreed = agree(runs)
    assert agreed.models == tuple(run.result for run in runs)
    assert (agreed.metrics, agreed.rules, agreed.notes) == (("ndcg@10", "rr", "coverage@10"), RULES, ())


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"folds": 5}, "folds: 1 in a; 5 in b"),
        ({"rules": replace(RULES, n=20)}, "length of the lists: 10 in a; 20 in b"),
        ({"rules": replace(RULES, candidates="all")}, "candidates: unseen in a; all in b"),
        ({"rules": replace(RULES, ties="id")}, "order of equal scores: hashed in a; id in b"),
        ({"rules": replace(RULES, cold_users="skip")}, "users without train data: model in a; skip in b"),
        ({"rules": replace(RULES, threshold=None)}, "relevance threshold: 4.0 in a; None in b"),
    ],
)
def test_runs_under_other_rules_are_refused(change: dict[str, Any], line: str) -> None:
    with pytest.raises(DataError) as refused:
        agree([scored("a"), scored("b", **change)])
    lines = str(refused.value).splitlines()
    assert lines[:2] == ["these runs cannot be compared:", f"  {line}"]
    assert lines[2].startswith("run the models, or score the lists, again under the same rules")


def clustered(name: str, clusters: Sequence[str], noun: str = "visitor") -> Any:
    run = scored(name)
    clustering_ = clustering(noun, np.array(clusters, dtype=object), run.result.scores.users)
    units = replace(run.result.scores.units, clusters=clustering_)
    return scored(name, result=replace(run.result, scores=replace(run.result.scores, units=units)))


def test_clusters_must_be_the_same_and_lists_from_elsewhere_take_them_over() -> None:
    a, b = clustered("a", ["x", "y", "x"]), clustered("b", ["x", "y", "x"])
    lists = scored("lists", rules=replace(RULES, candidates=None))
    for model in agree([lists, a, b]).models:
        assert model.scores is not None
        assert model.scores.units.codes is not None
        assert model.scores.units.codes.tolist() == [0, 1, 0]
    for other, line in (
        (scored("b"), "clusters: visitor in a; none in b"),
        (clustered("b", ["x", "y", "x"], "home"), "clusters: visitor in a; home in b"),
        (
            clustered("b", ["x", "z", "z"]),
            "clusters: 2 is in 'y' and in 'z'",
        ),
    ):
        with pytest.raises(DataError) as refused:
            agree([a, other])
        assert str(refused.value).splitlines()[1] == f"  {line}"


def test_users_in_common_stay_in_their_clusters() -> None:
    a, b = clustered("a", ["x", "y", "x"]), scored("b", (1, 3, 4))
    units = b.result.scores.units
    clusters = clustering("visitor", np.array(list("xxz")), units.ids)
    scores = replace(b.result.scores, units=replace(units, clusters=clusters))
    b = scored("b", result=replace(b.result, scores=scores))
    for model in agree([a, b]).models:
        assert model.scores is not None
        common = np.isin(model.scores.users, [1, 3])
        assert np.count_nonzero(common) == 2
        assert model.scores.units.codes is not None
        assert len(set(model.scores.units.codes[common].tolist())) == 1


def test_a_metric_of_the_same_name_and_another_definition_is_another_metric() -> None:
    other = scored(
        "b", rules=replace(RULES, metrics_hash="hash2"), definitions={**DEFINITIONS, "rr": "changed"}
    )
    agreed = agree([scored("a"), other])
    assert agreed.metrics == ("ndcg@10", "coverage@10")
    scores = agreed.models[1].scores
    assert scores is not None
    assert (scores.metrics, dict(scores.overall), set(scores.at_k)) == (
        ("ndcg@10",),
        {"coverage@10": 0.7},
        {"ndcg"},
    )
    assert scores.values[:, 0].tolist() == [0, 0.1, 0.2]
    assert agreed.rules.metrics_hash == definitions_hash([parse("ndcg@10"), parse("coverage@10")])


def test_definitions_that_were_not_logged_are_not_taken_for_the_same() -> None:
    unknown = dict.fromkeys(DEFINITIONS, "unknown, of hash2")
    other = scored("b", rules=replace(RULES, metrics_hash="hash2"), definitions=unknown)
    with pytest.raises(DataError, match="no metric in common; metrics in common: 0 of 3; left out"):
        agree([scored("a"), other])


def test_other_users_of_the_same_truth_are_compared_by_those_in_common() -> None:
    agreed = agree([scored("a"), scored("b", users=(2, 3, 4, 5))])
    assert [c.scores.users.tolist() for c in agreed.models if c.scores] == [[1, 2, 3], [2, 3, 4, 5]]
    contest = Contest("b1", "toy", "last_n", agreed.models, agreed.metrics, None, 0, "test")
    shared = shared_values(contest.values(contest.models, "ndcg@10"))
    assert shared.T.tolist() == [
        pytest.approx([np.nan, 0.1, 0.2, np.nan, np.nan], nan_ok=True),
        pytest.approx([np.nan, 0.0, 0.1, np.nan, np.nan], nan_ok=True),
    ]
    assert agreed.metrics == ("ndcg@10", "rr")
    assert agreed.notes == (
        "users in common: 2 of 3 in a; 4 in b",
        "left out, as they are one number over all users of a run: coverage@10",
    )
    scores = agreed.models[0].scores
    assert scores is not None
    assert (dict(scores.at_k), dict(scores.pr_curve), agreed.models[0].fold_means) == ({}, {}, ())


def test_ids_as_integers_and_as_text_are_refused() -> None:
    runs = [scored("a", users=(2, 10)), scored("b", users=("10", "2"))]
    with pytest.raises(DataError, match="ids of users: integers in a; text in b"):
        agree(runs)


def given_lists(name: str, **changes: Any) -> Any:
    return scored(name, rules=replace(RULES, train_digest=None, candidates=None, **changes))


def test_metrics_of_train_data_and_length_are_not_in_common_with_lists_from_elsewhere() -> None:
    with pytest.raises(DataError, match="no metric in common"):
        agree([scored("a"), given_lists("mine", n=5)])
    agreed = agree([given_lists("mine", n=15), scored("a")])
    assert (agreed.metrics, agreed.rules.candidates) == (("ndcg@10",), "unseen")
    assert agreed.notes[-2:] == (
        "left out, as they depend on the train data, which differs: coverage@10",
        "left out, as they depend on the length of the lists, which differs: rr",
    )
    known = {"definitions": {"ndcg@10": "a"}}
    mine = given_lists("mine", n=15)
    mine.definitions = known["definitions"]
    assert agree([scored("a", **known), mine]).metrics == ("ndcg@10",)
    with pytest.raises(DataError, match="score the lists, again under the same rules"):
        agree([scored("a"), given_lists("mine", threshold=None)])


def test_truth_of_the_same_content_is_the_same_test_data() -> None:
    def run(name: str, digest: str, *rows: tuple[Any, Any, float]) -> Any:
        table = pa.table(
            dict(zip(("user", "item", "rating"), map(list, zip(*rows, strict=True)), strict=True))
        )
        return scored(name, table={"truth": table}.get, rules=replace(RULES, test_digest=digest))

    one = run("a", "test1", (1, 10, 5.0), (1, 9, 3.0), (2, 10, 5.0))
    shuffled = run("b", "test2", (2, 10, 5.0), (1, 9, 3.0), (1, 10, 5.0))
    assert agree([one, shuffled]).notes == ()
    for other in ((2, 10, 4.0), (3, 10, 5.0)):
        with pytest.raises(DataError, match="test data: test1 in a; test3 in c"):
            agree([one, run("c", "test3", (1, 10, 5.0), (1, 9, 3.0), other)])


def test_without_a_user_in_common_nothing_is_compared() -> None:
    with pytest.raises(DataError, match="the runs have no user in common"):
        agree([scored("a"), scored("b", users=(7, 8))])


def test_truths_of_several_folds_are_compared_fold_by_fold() -> None:
    def run(name: str, digest: str, *rows: tuple[int, int, float, int]) -> Any:
        columns = zip(*rows, strict=True)
        table = pa.table(dict(zip(("user", "item", "rating", "fold"), map(list, columns), strict=True)))
        return scored(name, folds=2, table={"truth": table}.get, rules=replace(RULES, test_digest=digest))

    one = run("a", "test1", (1, 10, 5.0, 1), (2, 10, 5.0, 1), (1, 11, 3.0, 2))
    shuffled = run("b", "test2", (1, 11, 3.0, 2), (2, 10, 5.0, 1), (1, 10, 5.0, 1))
    assert agree([one, shuffled]).notes == ()
    other = run("c", "test3", (1, 10, 5.0, 1), (2, 10, 5.0, 1), (1, 12, 3.0, 2))
    with pytest.raises(DataError, match="test data: test1 in a; test3 in c"):
        agree([one, other])


def test_the_runs_are_named_by_bake_off_where_there_are_several() -> None:
    runs = [scored("a"), scored("b"), scored("a", bakeoff="b2", rules=replace(RULES, n=5))]
    with pytest.raises(
        DataError, match="length of the lists: 10 in a, b of bake-off b1; 5 in a of bake-off b2"
    ):
        agree(runs)
