"""MLflow's own evaluation runs, compared row by row."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest

import evalplugin
from evalplugin.base.errors import DataError, TrackingError

INPUTS = ["a", "b", "c", "d"]
ANSWERS = {"one": "1234", "two": "1200"}


def right(predictions: Any, targets: Any) -> Any:
    scores = [float(a == b) for a, b in zip(predictions, targets, strict=True)]
    return mlflow.metrics.MetricValue(scores=scores, aggregate_results={"mean": sum(scores) / len(scores)})


def evaluated(name: str) -> str:
    table = pd.DataFrame({"inputs": INPUTS, "target": [*"1234"], "answer": [*ANSWERS[name]]})
    table = table.assign(topic=["art", "art", "art", "law"], text=["p", "p", "q", "q"])
    metric = mlflow.metrics.make_metric(eval_fn=right, greater_is_better=True, name="right")
    with mlflow.start_run(run_name=name) as run:
        mlflow.models.evaluate(  # type: ignore[no-untyped-call]
            data=table, targets="target", predictions="answer", extra_metrics=[metric], evaluators="default"
        )
    return str(run.info.run_id)


@pytest.mark.filterwarnings("ignore::Warning")  # of MLflow's own calls
def test_tables_of_models_evaluate_are_compared_by_their_inputs(evaluations: str) -> None:
    runs = [evaluated(name) for name in ANSWERS]
    (comparison,) = evalplugin.compare_scores(runs=runs, unit="inputs", tracking_uri=evaluations)
    assert {row.model: row.mean("right") for row in comparison.models} == {"one": 1.0, "two": 0.5}
    assert comparison.pairs[0].paired.users == len(INPUTS)
    with pytest.raises(DataError, match="did you mean"):
        evalplugin.compare_scores(runs=runs, unit="input", tracking_uri=evaluations)
    with pytest.raises(DataError, match="has no assessments"):
        evalplugin.compare_scores(runs=runs, tracking_uri=evaluations)
    with pytest.raises(DataError, match="name a table or runs, not both"):
        evalplugin.compare_scores(runs=runs, unit="inputs", model="target", tracking_uri=evaluations)


@pytest.mark.filterwarnings("ignore::Warning")
def test_the_comparison_of_runs_is_logged(evaluations: str) -> None:
    runs = [evaluated(name) for name in ANSWERS]
    logged = evalplugin.compare_scores(
        runs=runs, unit="inputs", tracking_uri=evaluations, log=True, experiment="again"
    )
    read = evalplugin.compare(experiment="again", tracking_uri=evaluations)
    assert [row.mean("right") for row in read[0].models] == [1.0, 0.5]
    pd.testing.assert_frame_equal(read.to_frame(), logged.to_frame())


@pytest.mark.filterwarnings("ignore::Warning")
def test_other_columns_of_the_tables_are_segments_and_clusters(evaluations: str) -> None:
    runs = [evaluated(name) for name in ANSWERS]
    compare = partial(evalplugin.compare_scores, runs=runs, unit="inputs", tracking_uri=evaluations)
    compared = compare(segments="topic", cluster="text")
    means = {(c.label, c.model): c.interval.mean for c in compared[0].segments}
    assert means == {("art", "one"): 1, ("law", "one"): 1, ("art", "two"): 2 / 3, ("law", "two"): 0}
    assert compared[0].pairs[0].paired.interval.clusters == 2
    for options in ({"segments": "country"}, {"cluster": "country"}):
        with pytest.raises(
            DataError, match=r"run one: no column 'country'; columns: inputs, topic, text, target, "
        ):
            compare(**options)


def logged(content: bytes) -> str:
    """The id of a run that holds a table as it is, and a metric ``right`` of it."""
    with mlflow.start_run(run_name="theirs") as run:
        mlflow.log_metric("right/mean", 0.5)
        Path("eval_results_table.json").write_bytes(content)
        mlflow.log_artifact("eval_results_table.json")
    return str(run.info.run_id)


def table(*rows: str, columns: str = '["inputs", "right/score"]') -> bytes:
    return f'{{"columns": {columns}, "data": [{", ".join(rows)}]}}'.encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{}", "it has no lists 'columns' and 'data'"),
        (b"null", "it has no lists 'columns' and 'data'"),
        (b"", "Expecting value"),
        (table('["a", Infinity]'), "right of row 1 is inf, which is not a finite number"),
        (table('["a", "good"]'), "right of row 1 is 'good', which is not a finite number"),
        (table('["a", [1]]'), "right of row 1 is .1., which is not a finite number"),
        (table('[["a"], 1]', '[{"b": 1}, 1]'), ""),
        (table("[null, 1]"), ""),
    ],
)
def test_a_damaged_table_names_its_run(evaluations: str, content: bytes, told: str) -> None:
    run = logged(content)
    with pytest.raises(DataError, match=rf"theirs.*{told}" if told else "inputs") as error:
        evalplugin.compare_scores(runs=[run], unit="inputs", tracking_uri=evaluations)
    assert len(str(error.value)) < 500


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning")
def test_feedback_of_genai_evaluate_is_compared_by_the_traced_inputs(evaluations: str) -> None:
    @mlflow.genai.scorer
    def exact(outputs: str, expectations: dict[str, str]) -> bool:
        return outputs == expectations["answer"]

    @mlflow.genai.scorer
    def says_zero(outputs: str) -> str:
        return "yes" if outputs == "0" else "no"

    @mlflow.genai.scorer
    def words(outputs: str) -> str:
        return f"it is {outputs}"

    runs = []
    for name, answers in ANSWERS.items():
        rows = [
            {"inputs": {"question": question}, "outputs": answer, "expectations": {"answer": target}}
            for question, answer, target in zip(INPUTS, answers, "1234", strict=True)
        ]
        with mlflow.start_run(run_name=name) as run:
            mlflow.genai.evaluate(data=rows, scorers=[exact, says_zero, words])
        runs.append(run.info.run_id)
    (comparison,) = evalplugin.compare_scores(runs=runs, tracking_uri=evaluations)
    assert comparison.contest.metrics == ("exact", "says_zero")  # by name; text is no score
    means = {row.model: (row.mean("exact"), row.mean("says_zero")) for row in comparison.models}
    assert means == {"one": (1.0, 0.0), "two": (0.5, 0.5)}
    with pytest.raises(DataError, match=r"run one: no column 'topic'; columns: input, .*words"):
        evalplugin.compare_scores(runs=runs, segments="topic", tracking_uri=evaluations)
    with pytest.raises(DataError, match="has no table"):
        evalplugin.compare_scores(runs=runs, unit="inputs", tracking_uri=evaluations)


def test_a_run_that_is_not_there_is_named(evaluations: str) -> None:
    with pytest.raises(TrackingError, match="nothere"):
        evalplugin.compare_scores(runs=["nothere"], tracking_uri=evaluations)
