"""Scorers of ``mlflow.genai.evaluate``: the values of ``evalplugin.score``, on rows of a real evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.entities import Document

import evalplugin
from evalplugin.base.errors import DataError, ParameterError, UnknownNameError
from evalplugin.cli import main
from evalplugin.metrics import METRICS, is_overall
from evalplugin.scorers import ap, hit, metric, ndcg, precision, recall, rr

# Of MLflow's own calls.
pytestmark = pytest.mark.filterwarnings(
    "ignore::Warning:mlflow", "ignore:_ImportHookChainedLoader:ImportWarning"
)

LISTS = {"ann": ["heat", "up", "alien"], "bob": ["up", "heat"], "eve": ["brazil"], "joe": ["alien", "up"]}
OTHER = {"ann": ["up", "heat", "alien"], "bob": ["alien"], "eve": ["heat"], "joe": ["up", "alien"]}
LIKED = {"ann": ["heat"], "bob": ["up", "heat"], "eve": [], "joe": ["up"]}
METRIC_NAMES = ["ndcg@3", "recall@2"]


def value(scorer: Any, outputs: Any, expectations: Any) -> float | None:
    return scorer(outputs=outputs, expectations=expectations)


@pytest.mark.parametrize("threshold", [None, 2.0])
def test_values_of_random_rows_are_those_of_score(threshold: float | None) -> None:
    rng, n_rows, n_items = np.random.default_rng(7), 500, 12
    rows, lists, truths = [], [], []
    for user in range(n_rows):
        listed = rng.permutation(n_items)[: rng.integers(1, n_items)].tolist()
        gains = {
            int(item): float(rng.integers(0, 5)) for item in rng.permutation(n_items)[: rng.integers(0, 6)]
        }
        rows.append((listed, gains))
        lists += [(user, item, rank) for rank, item in enumerate(listed, start=1)]
        truths += [(user, item, gain) for item, gain in gains.items()]
    names = ["ndcg@10", "ndcg(gain=exp2)@3", "recall@5", "precision@5", "rr@10", "ap@10", "hit@2", "bpref"]
    expected = evalplugin.score(
        pd.DataFrame(lists, columns=["user", "item", "rank"]),
        pd.DataFrame(truths, columns=["user", "item", "rating"]),
        names,
        threshold=threshold,
    )
    scorers = [metric(name, threshold=threshold) for name in names]
    found = [[value(scorer, listed, {"relevant": gains}) for scorer in scorers] for listed, gains in rows]
    assert expected.counts["ndcg@10"].undefined > 25
    np.testing.assert_array_equal(np.array(found, dtype=np.float64), expected.per_user.to_numpy())


def test_named_scorers_are_metrics_at_10() -> None:
    made = [of() for of in (ndcg, recall, precision, rr, ap, hit)]
    assert [scorer.metric for scorer in made] == [
        "ndcg@10", "recall@10", "precision@10", "rr@10", "ap@10", "hit@10",
    ]  # fmt: skip
    assert [scorer.name for scorer in made[:2]] == ["ndcg_at_10", "recall_at_10"]  # as MLflow can spell them
    assert ndcg(k=3, threshold=2.5).name == "ndcg_at_3_threshold_2.5"


@pytest.mark.parametrize("entry", [*METRICS], ids=lambda entry: entry.name)
def test_every_metric_of_lists_and_truth_alone_is_a_scorer_and_no_other(entry: Any) -> None:
    name = f"{entry.name}@1" if entry.cls.takes_k else entry.name
    if is_overall(entry.cls()) or entry.cls().needs:
        with pytest.raises(DataError, match=f"metric {name} "):
            metric(name)
    else:
        best = value(metric(name), ["a"], {"relevant": ["a"]})
        assert best == pytest.approx(0.2 if name == "rbp@1" else 1)


@pytest.mark.parametrize(
    "outputs",
    [
        ["a", "b"],
        ("a", "b"),
        np.array(["a", "b"]),
        [{"doc_uri": "a", "id": "x"}, {"item": "b", "title": "B"}],
        [{"metadata": {"doc_uri": "a"}, "id": None, "page_content": "..."}, {"id": "b"}],
        [Document("...", {"doc_uri": "a"}), Document("...", id="b")],
        [{"doc_uri": "a"}, {"doc_uri": "a"}, {"doc_uri": "b"}],  # two passages of a
    ],
)  # fmt: skip
def test_lists_of_ids_and_of_documents_are_read(outputs: Any) -> None:
    assert value(rr(), outputs, {"relevant": ["b"]}) == 1 / 2


@pytest.mark.parametrize(
    "expectations",
    [
        {"expected_retrieved_context": [{"doc_uri": "7", "content": "..."}], "relevant": ["6"]},
        {"expected_ids": [7], "relevant": [6]},
        {"relevant": ["7"]},
        {"relevant": {"7": 3, "6": 0.0}},  # keys as JSON has them
        {"relevant": {7: 3.0}},
    ],
)
def test_expected_items_are_read_from_the_first_key_that_there_is(expectations: Any) -> None:
    assert value(rr(), [6, 7], expectations) == 1 / 2


@pytest.mark.parametrize(
    ("outputs", "expectations", "told"),
    [
        ("an answer", {"relevant": ["a"]}, "outputs must be a list of ids .* outputs are 'an answer' .str.$"),
        (None, {"relevant": ["a"]}, "outputs are None"),
        ([{"role": "user"}], {"relevant": ["a"]}, "outputs are .*role"),
        ([1.5], {"relevant": ["a"]}, "outputs are .1.5."),
        (["a", "b", "a"], {"relevant": ["a"]}, "outputs: the id 'a' stands twice"),
        (["a"], {"relevant": ["b", "b"]}, "expectations: relevant: the id 'b' stands twice"),
        (["a"], {"relevant": {7: 1, "7": 2}}, "the id '7' stands twice"),
        (["a"], {"relevant": "a"}, "relevant must be a list of ids .*, or a dict of gains by id, not 'a' .str."),
        (["a"], {"relevant": {"a": "high"}}, "the gain of 'a' must be a finite number, not 'high'"),
        (["a"], {"relevant": {"a": np.nan}}, "the gain of 'a' must be a finite number, not nan"),
        (["a"], {"relevant": {"a": -1, "b": 1}}, "needs ratings of 0 or more"),
        (["a"], {"answer": "b"}, "must have one of expected_retrieved_context, .* and have answer"),
        (["a"], {}, "and have nothing"),
        (["a"], None, "and have nothing"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_read_are_refused(outputs: Any, expectations: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        ndcg()(outputs=outputs, expectations=expectations)


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("coverage@10", DataError, "coverage@10 is one number for all lists together"),
        ("novelty@10", DataError, "novelty@10 needs more than a list and what is relevant: train"),
        ("auc", DataError, "needs more .*: catalogue"),
        ("recall(truth=explore)@5", DataError, "needs more .*: train"),
        ("precision", DataError, "precision needs a cutoff, such as precision@10"),
        ("ndgc@10", UnknownNameError, "did you mean 'ndcg'"),
        ("ndcg@0", ParameterError, "k must be a whole number from 1"),
    ],
)
def test_metrics_that_a_row_cannot_have_are_refused(name: str, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        metric(name)


def test_a_row_without_a_relevant_item_is_undefined_and_an_empty_list_is_0() -> None:
    assert value(ndcg(), ["a"], {"relevant": []}) is None
    assert value(ndcg(threshold=3), ["a"], {"relevant": {"a": 2}}) is None
    assert value(ndcg(threshold=3), ["a"], {"relevant": []}) is None
    assert value(ndcg(), [], {"relevant": ["a"]}) == 0.0
    with pytest.raises(DataError, match="threshold=3 is for gains: expectations: relevant must be a dict"):
        value(ndcg(threshold=3), ["a"], {"relevant": ["a"]})
    with pytest.raises(DataError, match="threshold must be a finite number"):
        ndcg(threshold=np.inf)


@pytest.mark.filterwarnings("ignore:.*is deprecated since 3.4.0:FutureWarning")
def test_the_page_has_the_values_of_mlflows_own_metrics() -> None:
    page = (Path(__file__).parents[1] / "docs" / "howto" / "genai.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.split("|")[1:5]] for line in lines]
    names, k = ("ndcg", "precision", "recall"), 5
    for listed, relevant, theirs, ours in rows:
        outputs, expected = listed.split(), relevant.split()
        columns = {"predictions": pd.Series([outputs]), "targets": pd.Series([expected])}
        scores = [getattr(mlflow.metrics, f"{name}_at_k")(k)(**columns).scores[0] for name in names]
        assert ", ".join(f"{score:.3g}" for score in scores) == theirs
        documents = [{"doc_uri": item} for item in outputs]
        values = [value(metric(f"{name}@{k}"), documents, {"relevant": expected}) for name in names]
        shown = "undefined" if None in values else ", ".join(f"{score:.3g}" for score in values)
        assert shown == ours
    outputs, expected = ["a"], [*"abcde"]
    as_theirs = [metric("ndcg(ideal=listed)@5"), metric("precision(denominator=listed)@5")]
    assert [value(scorer, outputs, {"relevant": expected}) for scorer in as_theirs] == [1, 1]


def evaluated(
    name: str, lists: dict[str, list[str]] | None = None, **arguments: Any
) -> tuple[str, dict[str, float]]:
    """Id and metrics of a real evaluation."""
    rows = [{"inputs": {"user": user}, "expectations": {"relevant": liked}} for user, liked in LIKED.items()]
    if lists is not None:
        rows = [row | {"outputs": lists[row["inputs"]["user"]]} for row in rows]
    with mlflow.start_run(run_name=name) as run:
        result = mlflow.genai.evaluate(data=rows, scorers=[ndcg(k=3), recall(k=2)], **arguments)
    return run.info.run_id, result.metrics


def table(lists: dict[str, list[str]]) -> pd.DataFrame:
    rows = [(user, item) for user, items in lists.items() for item in items]
    frame = pd.DataFrame(rows, columns=["user", "item"])
    return frame.assign(rank=frame.groupby("user").cumcount() + 1)


def test_runs_of_genai_evaluate_compare_as_their_lists_do(
    evaluations: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (one, metrics), (two, _) = evaluated("one", LISTS), evaluated("two", OTHER)
    lists = {"one": table(LISTS), "two": table(OTHER)}
    truth = table(LIKED).drop(columns="rank")
    means = evalplugin.score(lists["one"], truth, METRIC_NAMES).means
    assert metrics == {
        "ndcg_at_3/mean": means["ndcg@3"], "recall_at_2/mean": means["recall@2"],
        "ndcg_at_3/defined": 3, "recall_at_2/defined": 3,
    }  # fmt: skip
    (expected,) = evalplugin.score(lists, truth, METRIC_NAMES)
    (compared,) = evalplugin.compare_scores(runs=[one, two], tracking_uri=evaluations)
    assert compared.contest.metrics == ("ndcg_at_3", "recall_at_2")
    ours, theirs = compared.pairs[0].paired, expected.pairs[0].paired
    assert (ours.users, ours.interval, ours.p) == (theirs.users, theirs.interval, theirs.p)
    assert main(["compare-scores", "--runs", one, "--runs", two, "--tracking-uri", evaluations]) == 0
    assert "ndcg_at_3" in capsys.readouterr().out


def test_lists_are_read_from_outermost_retriever_spans(evaluations: str) -> None:
    def documents(ids: list[str]) -> list[dict[str, Any]]:
        return [{"page_content": "...", "metadata": {"doc_uri": item}} for item in ids]

    @mlflow.trace(span_type="RETRIEVER")
    def search(ids: list[str]) -> list[dict[str, Any]]:
        return documents(ids)

    @mlflow.trace(span_type="RETRIEVER")
    def reranked(ids: list[str]) -> list[dict[str, Any]]:
        return documents([item["metadata"]["doc_uri"] for item in search(ids[::-1])][::-1])

    def answer(user: str) -> str:
        first, *others = LISTS[user]
        reranked([first])
        search([first, *others])
        return "an answer"

    _, metrics = evaluated("traced", predict_fn=answer)
    assert metrics == evaluated("given", LISTS)[1]


def test_an_error_of_a_row_is_reported_and_left_out(evaluations: str) -> None:
    run, metrics = evaluated("one", LISTS | {"ann": "an answer"})
    assert metrics["ndcg_at_3/defined"] == 2
    traces = mlflow.search_traces(run_id=run, return_type="list")
    errors = [
        a.error.error_message
        for trace in traces
        for a in trace.info.assessments
        if a.name == "ndcg_at_3" and a.error
    ]
    assert len(errors) == 1
    assert errors[0].startswith("outputs must be a list of ids")
