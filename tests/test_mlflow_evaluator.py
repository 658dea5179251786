"""``mlflow.models.evaluate(..., evaluators="evalplugin")`` against real stores."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow.data.evaluation_dataset import EvaluationDataset
from samples import files_of

import evalplugin
from evalplugin.base.errors import DataError, ParameterError, TrackingError, UnknownNameError
from evalplugin.cli import main
from evalplugin.lists.evaluation import DEFAULT_METRICS, Evaluation, EvaluatorOptions
from evalplugin.metrics.scores import Counts
from evalplugin.mlflow_evaluator import RankingEvaluator

# What MLflow's own code is warned of, and what it says of tables with integers.
pytestmark = [
    pytest.mark.filterwarnings("ignore::Warning:mlflow"),
    pytest.mark.filterwarnings("ignore:_ImportHookChainedLoader:ImportWarning"),
]

METRICS = ["ndcg@2", "recall@3", "rr", "coverage@2"]


def cells(values: list[Any]) -> pd.Series:
    """A column whose cells are whatever is given, arrays included."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return pd.Series(column)


LISTS = [["x", "y", "z"], ["z", "x"], ["y"], []]
TRUTHS = [["y", "q"], ["z"], [], ["x"]]
TABLE = pd.DataFrame({"user": ["a", "b", "c", "d"], "listed": cells(LISTS), "held": cells(TRUTHS)})
LONG = pd.DataFrame({"user": list("aaabbc"), "item": list("xyzzxy"), "rank": [1, 2, 3, 1, 2, 1]})
TRUTH = pd.DataFrame({"user": list("aabd"), "item": list("yqzx")})
RATED = TRUTH.assign(rating=[2.0, 5.0, 3.0, 1.0])
RATINGS = [{"y": 2.0, "q": 5}, {"z": 3}, {}, {"x": 1}]
# Items 7 and 8 tie for q1: the lower id stands first.
PAIRS = pd.DataFrame(
    [("q1", 5, 0.1, 1.0), ("q1", 8, 0.5, 2.0), ("q1", 7, 0.5, 0.0), ("q1", 6, 0.9, 0.0), ("q2", 5, 0.3, 0.0),
     ("q2", 6, 0.2, 0.0)], columns=["q", "doc", "score", "label"],
)  # fmt: skip
OF_PAIRS = {"user": "q", "item": "doc"}


@pytest.fixture
def client(
    tmp_path: Path, _empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[mlflow.MlflowClient]:
    """An empty SQLite store of its own, which MLflow finds by itself."""
    shutil.copy(_empty_store, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "evaluations")
    client = mlflow.MlflowClient(uri)
    client.create_experiment("evaluations", artifact_location=(tmp_path / "artifacts").as_uri())
    yield client
    while mlflow.active_run():
        mlflow.end_run()


def evaluate(model: Any = None, data: Any = TABLE, **arguments: Any) -> Any:
    given = {"targets": "held", "model_type": "ranker", "evaluators": "evalplugin", **arguments}
    if model is None and not isinstance(data, mlflow.data.dataset.Dataset):
        given = {"predictions": "listed", **given}
    return mlflow.models.evaluate(model, data, **given)


def headline(result: Any) -> dict[str, float]:
    return {name: value for name, value in result.metrics.items() if "/" not in name and "users" not in name}


def only_run(client: mlflow.MlflowClient) -> Any:
    (experiment,) = client.search_experiments(filter_string="name = 'evaluations'")
    (run,) = client.search_runs([experiment.experiment_id])
    return run


@pytest.mark.parametrize("as_cell", [list, tuple])
def test_a_table_with_one_row_a_user_has_the_scores_of_its_lists(client, as_cell):
    data = TABLE.assign(listed=cells([as_cell(c) for c in LISTS]), held=cells([as_cell(c) for c in TRUTHS]))
    result = evaluate(data=data, evaluator_config={"metrics": METRICS})
    expected = evalplugin.score(LONG, TRUTH, METRICS)
    assert headline(result) == {
        "ndcg_at_2": expected.means["ndcg@2"],
        "recall_at_3": expected.means["recall@3"],
        "rr": (1 / 2 + 1 + 0) / 3,
        "coverage_at_2": 3 / 4,
    }
    assert (result.metrics["users"], result.metrics["users_undefined"]) == (3, 1)
    per_user = result.artifacts["per_user"].content.set_index("user")
    pd.testing.assert_frame_equal(per_user, expected.per_user)


def test_ratings_by_item_are_gains_and_a_threshold_says_what_is_relevant(client: mlflow.MlflowClient) -> None:
    data = TABLE.assign(held=cells(RATINGS))
    asked = {"metrics": ["ndcg@2", "rr"], "threshold": 2.5}
    expected = evalplugin.score(LONG, RATED, ["ndcg@2", "rr"], threshold=2.5)
    assert expected.counts["rr"] == Counts(2, 2)
    assert headline(evaluate(data=data, evaluator_config=asked)) == {
        "ndcg_at_2": expected.means["ndcg@2"],
        "rr": expected.means["rr"],
    }


@pytest.mark.slow
def test_likely_mistakes_are_python_warnings(client: mlflow.MlflowClient) -> None:
    stars = cells([{"y": 4.5, "q": 1.0}, {"z": 4.5}, {"y": 2.0}, {"x": 4.5}])
    table = TABLE.assign(held=stars)
    known = pd.DataFrame({"user": ["a", "a", "b"], "item": ["y", "x", "z"]})
    for data, config, expected in (
        (table, {}, "threshold is not set, and the ratings look explicit (1 to 4.5)"),
        (table, {"threshold": 1.0}, "every rating reaches threshold: 1 (1 to 4.5), so that"),
        (table, {"threshold": 4.0}, None),
        (TABLE, {"train": known}, "2 of 4 relevant targets are in the train data too: "),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            evaluate(data=data, evaluator_config=config)
        said = [str(one.message) for one in caught if one.filename == __file__]
        assert [expected in text for text in said] == ([] if expected is None else [True])


def test_the_run_holds_what_a_run_of_the_score_command_holds(client: mlflow.MlflowClient) -> None:
    result = evaluate(data=TABLE.assign(held=cells(RATINGS)), evaluator_config={"metrics": METRICS})
    ours = client.get_run(result.run_id)
    LONG.to_csv("lists.csv", index=False)
    RATED.to_csv("truth.csv", index=False)
    argv = ["score", "--lists", "lists.csv", "--truth", "truth.csv", "--log", "--experiment", "scored"]
    assert main([*argv, *(word for metric in METRICS for word in ("-m", metric))]) == 0
    (experiment,) = client.search_experiments(filter_string="name = 'scored'")
    (theirs,) = client.search_runs([experiment.experiment_id])

    assert ours.data.metrics == theirs.data.metrics
    for curve in ("at_k/ndcg", "per_user_quantile/rr", "pr_curve/precision"):
        histories = (client.get_metric_history(run.info.run_id, curve) for run in (ours, theirs))
        steps = [[(m.step, m.value) for m in history] for history in histories]
        assert steps[0] == steps[1]
    files = [files_of(client, run.info.run_id) for run in (ours, theirs)]
    assert files[0] == files[1] | {"data/top_n.parquet"}
    assert {"per_user.json", "per_user_ndcg_at_2.png", "summary.md", "data/per_user.parquet"} <= files[0]
    assert ours.data.tags["evalplugin.role"] == "model"
    hashes = [json.loads(run.data.tags["evalplugin.provenance"])["metrics_hash"] for run in (ours, theirs)]
    assert hashes[0] == hashes[1]
    for tag in ("role", "split", "version"):
        assert ours.data.tags[f"evalplugin.{tag}"] == theirs.data.tags[f"evalplugin.{tag}"]
    digests = [
        [d.dataset.digest for d in run.inputs.dataset_inputs if d.dataset.source_type == "evalplugin"]
        for run in (ours, theirs)
    ]
    assert digests[0] == digests[1] != []
    for key in ("eval.n", "eval.metrics", "eval.threshold", "eval.candidates", "split.test_users"):
        assert ours.data.params[key] == theirs.data.params[key]


def test_the_result_has_tables_pictures_and_every_number_but_curves(client, tmp_path):
    result = evaluate(evaluator_config={"metrics": ["rr"]})
    run = client.get_run(result.run_id)
    assert result.metrics == {
        name: value
        for name, value in run.data.metrics.items()
        if not name.startswith(("at_k/", "per_user_quantile/", "pr_curve/"))
    }
    assert {"ci/rr.low", "dist/rr.p50", "undefined/rr"} <= set(result.metrics)
    assert set(result.artifacts) == {"per_user_table", "per_user", "top_n", "per_user_rr"}
    table = result.tables["per_user_table"]
    assert table["user"].tolist() == ["a", "b", "c", "d"]
    assert table["rr"].tolist()[:2] == [1 / 2, 1]
    assert math.isnan(table["rr"][2])
    top_n = result.artifacts["top_n"].content
    assert top_n[["user", "item", "rank"]].values.tolist() == LONG.values.tolist()
    assert top_n["score"].isna().all()
    assert result.artifacts["per_user_rr"].content.size[0] > 300

    for artifact in result.artifacts.values():
        assert Path(mlflow.artifacts.download_artifacts(artifact.uri)).is_file()
    result.save(tmp_path / "saved")
    again = mlflow.models.EvaluationResult.load(tmp_path / "saved")
    assert again.metrics == result.metrics
    pd.testing.assert_frame_equal(
        again.artifacts["per_user"].content, result.artifacts["per_user"].content, check_dtype=False
    )
    assert again.artifacts["per_user_table"].content == result.artifacts["per_user_table"].content


def test_queries_of_a_session_are_a_cluster(client: mlflow.MlflowClient) -> None:
    queries = [f"{session}:{known}" for session in range(6) for known in range(1, 5)]
    # The queries of a session are all hits, or none is.
    truths = cells([["x"] if int(query.split(":")[0]) % 2 else ["q"] for query in queries])
    data = pd.DataFrame({"query": queries, "listed": cells([["x", "y"]] * len(queries)), "held": truths})
    asked = [{"metrics": ["hit@2"], role: "query"} for role in ("query", "user")]
    ids = [evaluate(data=data, evaluator_config=config).run_id for config in asked]
    logged = [client.get_run(run_id).data.metrics for run_id in ids]
    # Four queries that agree are worth one: the variance of the mean is four times that of n queries, and n / (n - 1).
    assert logged[0]["dist/hit_at_2.clusters"] == 6
    assert logged[0]["dist/hit_at_2.design_effect"] == pytest.approx(4 * (6 / 5) / (24 / 23))
    assert "dist/hit_at_2.clusters" not in logged[1]
    assert logged[0]["hit_at_2"] == logged[1]["hit_at_2"] == 0.5


def test_every_row_of_a_table_of_pairs_is_a_candidate(client: mlflow.MlflowClient) -> None:
    metrics = ["ndcg@3", "rr", "hit@1", "bpref", "auc", "rmse"]
    result = evaluate(
        data=PAIRS, predictions="score", targets="label", evaluator_config={"metrics": metrics, **OF_PAIRS}
    )
    # The list of q1 is 6, 7, 8, 5; relevant are 8 and 5; q2 has nothing relevant.
    expected = {
        "ndcg_at_3": (2 / math.log2(4)) / (2 / math.log2(2) + 1 / math.log2(3)),
        "rr": 1 / 3,
        "hit_at_1": 0,
        "bpref": (1 - 2 / 2 + 1 - 2 / 2) / 2,
        "auc": 0 / 4,
        "rmse": (math.sqrt((0.9**2 + 1.5**2 + 0.5**2 + 0.9**2) / 4) + math.sqrt((0.3**2 + 0.2**2) / 2)) / 2,
    }
    assert headline(result) == pytest.approx(expected)
    assert (result.metrics["users"], result.metrics["users_undefined"]) == (1, 1)
    columns = {"user": "q", "item": "doc", "score": "score", "rating": "label"}
    same = evalplugin.score(PAIRS, PAIRS, metrics[:4], columns=columns)
    ours = result.artifacts["per_user"].content.set_index("user")[metrics[:4]]
    pd.testing.assert_frame_equal(ours, same.per_user)
    top_n = result.artifacts["top_n"].content
    assert top_n["item"].tolist() == [6, 7, 8, 5, 5, 6]
    assert top_n["score"].tolist() == [0.9, 0.5, 0.5, 0.1, 0.3, 0.2]
    run = client.get_run(result.run_id)
    assert run.data.params["eval.candidates"] == "judged"
    assert run.data.params["data.item"] == "doc"


@pytest.mark.parametrize(
    ("threshold", "rr"), [(None, 1 / 3), (1, 1 / 3), (2, 1 / 3), (2.5, math.nan), (0, 1 / 2), (-1, 1)]
)
def test_pairs_at_0_or_below_or_below_the_threshold_are_not_relevant(threshold, rr):
    data = PAIRS.assign(label=[1.0, 2.0, 0.0, -1.0, 0.0, 0.0])
    found = scored(data, {"metrics": ["rr"], "threshold": threshold, **OF_PAIRS}, "score", "label")
    assert found.scores.column("rr")[0] == pytest.approx(rr, nan_ok=True)


def scored(
    data: pd.DataFrame, config: dict[str, Any], predictions: str = "listed", targets: str = "held"
) -> Any:
    """The evaluation of a table without MLflow."""
    dataset = Evaluation.of(
        EvaluatorOptions.of(config),
        data.drop(columns=[predictions, targets]),
        data[targets],
    )
    return dataset.score(data[predictions])


@given(st.data())
@settings(max_examples=25)
def test_lists_in_cells_score_as_the_same_lists_in_rows(data: st.DataObject) -> None:
    items = st.lists(st.integers(-3, 12), unique=True, max_size=8)
    n = data.draw(st.integers(1, 6))
    lists = data.draw(st.lists(items, min_size=n, max_size=n).filter(any))
    truths = data.draw(st.lists(items, min_size=n, max_size=n).filter(any))
    users = data.draw(st.permutations(range(n)))
    table = pd.DataFrame({"user": users, "listed": cells(lists), "held": cells(truths)})
    rows = [(u, i, r) for u, listed in zip(users, lists, strict=True) for r, i in enumerate(listed, 1)]
    held = [(u, i) for u, truth in zip(users, truths, strict=True) for i in truth]
    metrics = ["ndcg@3", "ap", "recall@2", "coverage@4", "bpref"]
    expected = evalplugin.score(
        pd.DataFrame(rows, columns=["user", "item", "rank"]),
        pd.DataFrame(held, columns=["user", "item"]),
        metrics,
    )
    found = scored(table, {"metrics": metrics}).scores
    assert found.users.tolist() == list(range(n))
    pd.testing.assert_frame_equal(found.to_frame().reindex(expected.per_user.index), expected.per_user)
    for name, mean in expected.means.items():
        assert found.means[name] == mean or (math.isnan(mean) and math.isnan(found.means[name]))


@pytest.mark.parametrize("dtype", [None, object, str])
def test_cells_may_be_arrays_as_they_come_from_parquet(dtype: type | None) -> None:
    listed, held = (cells([np.array(c, dtype=dtype) for c in column]) for column in (LISTS, TRUTHS))
    found = scored(TABLE.assign(listed=listed, held=held), {"metrics": METRICS})
    assert found.scores.means == evalplugin.score(LONG, TRUTH, METRICS).means
    listed = cells([np.array([3, 1], dtype=np.int32), np.array([2], dtype=np.int64)])
    held = cells([np.array([1], dtype=np.int16), np.array([], dtype=np.int64)])
    numbers = pd.DataFrame({"listed": listed, "held": held})
    assert scored(numbers, {"metrics": ["rr"]}).scores.means == {"rr": 1 / 2}


def test_users_with_neither_list_nor_truth_are_counted() -> None:
    table = pd.DataFrame({"listed": cells([["x"], [], ["y"]]), "held": cells([["x"], [], []])})
    found = scored(table, {"metrics": ["rr", "coverage"]}).scores
    assert found.users.tolist() == [0, 1, 2]  # without a column of users, each row is one
    assert found.counts == {"rr": Counts(1, 2)}
    assert found.overall == {"coverage": 1}
    text = scored(table.assign(user=["b", "a", "c"]), {"metrics": ["rr"]}).scores
    assert text.users.tolist() == ["a", "b", "c"]
    assert text.column("rr").tolist()[1] == 1
    assert np.isnan(text.column("rr")[[0, 2]]).all()


def test_train_data_is_for_metrics_that_need_it() -> None:
    train = pd.DataFrame({"user": list("abb"), "item": list("xxq"), "rating": [1.0, 2, 3]})
    found = scored(TABLE, {"metrics": ["novelty@2", "coverage@2"], "train": train})
    assert found.scores.means == evalplugin.score(LONG, TRUTH, ["novelty@2", "coverage@2"], train=train).means
    assert found.train.rating.tolist() == [1, 2, 3]
    renamed = TABLE.rename(columns={"user": "who"})
    asked = {"metrics": ["novelty@2"], "user": "who", "train": train.rename(columns={"user": "who"})}
    assert scored(renamed, asked).scores.means["novelty@2"] == found.scores.means["novelty@2"]


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({}, DEFAULT_METRICS),
        ({"metrics": ["ndcg"]}, ("ndcg",)),
        ({"evalplugin": {"metrics": ["rr"]}}, ("rr",)),
    ],
)  # fmt: skip
def test_metrics_that_are_asked_for(config: dict[str, Any], names: tuple[str, ...]) -> None:
    assert tuple(spec.name for spec in EvaluatorOptions.of(config).specs()) == names


def popular(table: pd.DataFrame) -> list[list[str]]:
    assert "held" not in table.columns
    return [["y", "x"] for _ in range(len(table))]


MODELS = {
    "lists": popular,
    "array": lambda table: np.array(popular(table)),
    "series": lambda table: pd.Series(popular(table), index=range(7, 7 + len(table))),
    "frame": lambda table: pd.DataFrame({"best": popular(table)}),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_callable_makes_the_lists(client: mlflow.MlflowClient, kind: str) -> None:
    result = evaluate(
        MODELS[kind], TABLE.drop(columns="listed"), evaluator_config={"metrics": ["rr"], "name": "popular"}
    )
    assert headline(result) == {"rr": (1 + 0 + 1 / 2) / 3}
    run = client.get_run(result.run_id)
    assert run.data.tags["evalplugin.model"] == "popular"
    assert json.loads(run.data.tags["evalplugin.provenance"])["model_type"] == "mlflow model"


def test_predictions_name_a_column_of_what_a_model_returns(client: mlflow.MlflowClient) -> None:
    def model(table: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"best": popular(table), "why": "popular"})

    data = TABLE.drop(columns="listed")
    asked = {"evaluator_config": {"metrics": ["rr"]}}
    assert headline(evaluate(model, data, predictions="best", **asked)) == {"rr": (1 + 0 + 1 / 2) / 3}
    with pytest.raises(DataError, match="several columns: predictions must name one of best, why"):
        evaluate(model, data, **asked)
    with pytest.raises(DataError, match="model's output: no predictions column 'bets'; did you mean 'best'"):
        evaluate(model, data, predictions="bets", **asked)
    with pytest.raises(DataError, match=r"predictions='best' names a column .* but it returns list"):
        evaluate(popular, data, predictions="best", **asked)
    with pytest.raises(DataError, match=r"predictions: there must be one for each of the 4 rows .* not 3"):
        evaluate(lambda table: popular(table)[:3], data, **asked)
    with pytest.raises(DataError, match=r"the model must return a list, .* not NoneType"):
        evaluate(lambda table: None, data, **asked)
    with pytest.raises(ZeroDivisionError):
        evaluate(lambda table: 1 / 0, data, **asked)


PYFUNC = """
import mlflow
import pandas as pd

class Model(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input: pd.DataFrame, params=None):
        if "doc" in model_input:
            return model_input["doc"] * -1.0
        return [["y", "x"] for _ in range(len(model_input))]

mlflow.models.set_model(Model())
"""


def test_a_model_uri_makes_lists_or_scores_and_gets_the_metrics(client: mlflow.MlflowClient) -> None:
    Path("model.py").write_text(PYFUNC)
    with mlflow.start_run():
        model = mlflow.pyfunc.log_model(name="model", python_model="model.py", pip_requirements=[])
    with mlflow.start_run(run_name="served") as run:
        result = evaluate(model.model_uri, TABLE.drop(columns="listed"), evaluator_config={"metrics": ["rr"]})
    assert result.run_id == run.info.run_id
    assert headline(result) == {"rr": (1 + 0 + 1 / 2) / 3}
    found = client.get_run(run.info.run_id)
    assert found.data.metrics["rr"] == 1 / 2
    assert found.data.params["model.model_id"] == model.model_id
    assert {m.key: m.value for m in client.get_logged_model(model.model_id).metrics}["rr"] == 1 / 2

    config = {"metrics": ["rr"], **OF_PAIRS}
    data = PAIRS.drop(columns="score")
    pairs = evaluate(
        mlflow.pyfunc.load_model(model.model_uri), data, targets="label", evaluator_config=config
    )
    assert headline(pairs) == {"rr": 1}  # the lowest id first: 5 is relevant


def test_a_run_of_ones_own_stays_open_and_keeps_what_was_said_of_it(client: mlflow.MlflowClient) -> None:
    with mlflow.start_run(run_name="mine", description="by hand") as run:
        mlflow.log_table({"a": [1]}, "mine.json")
        mlflow.log_param("mine", 1)
        before = client.get_run(run.info.run_id).data.tags
        result = evaluate(evaluator_config={"metrics": ["rr"], "dataset": "letters"})
        assert mlflow.active_run().info.run_id == result.run_id == run.info.run_id
        assert client.get_run(run.info.run_id).info.status == "RUNNING"
    found = only_run(client)
    assert found.info.status == "FINISHED"
    tags = found.data.tags
    changed = {key for key in before if tags[key] != before[key]}
    assert changed == {"mlflow.loggedArtifacts"}
    assert [a["path"] for a in json.loads(tags["mlflow.loggedArtifacts"])] == ["mine.json", "per_user.json"]
    assert set(result.tables) == {"per_user_table"}
    assert tags["evalplugin.model"] == "mine"
    assert tags["evalplugin.dataset"] == "letters"
    # A later bake-off closes runs of processes that are gone: not those that it has not started.
    assert not {"evalplugin.pid", "evalplugin.host"} & set(tags)
    assert found.data.params["mine"] == "1"


def test_without_an_active_run_there_is_a_new_one(client: mlflow.MlflowClient) -> None:
    result = evaluate()
    run = only_run(client)
    assert (run.info.run_id, run.info.status) == (result.run_id, "FINISHED")
    assert run.data.tags["evalplugin.model"] == run.info.run_name
    assert run.data.tags["evalplugin.dataset"] == "dataset"
    assert "ndcg@10" in run.data.tags["mlflow.note.content"]
    assert mlflow.active_run() is None


def test_an_error_reaches_the_caller_and_the_run_failed(client: mlflow.MlflowClient) -> None:
    told = "unknown parameter 'metrcs' of evaluator_config; did you mean 'metrics'"
    with pytest.raises(ParameterError, match=told):
        evaluate(evaluator_config={"metrcs": ["rr"]})
    run = only_run(client)
    assert run.info.status == "FAILED"
    assert "evalplugin.role" not in run.data.tags


def test_a_run_takes_one_evaluation(client: mlflow.MlflowClient) -> None:
    def model(table: pd.DataFrame) -> Any:
        raise AssertionError("refused before any work")

    with mlflow.start_run(run_name="twice"):
        evaluate(evaluator_config={"metrics": ["rr"]})
        told = r"'twice' .* holds the results of 'twice' already: a run is one model"
        with pytest.raises(TrackingError, match=told):
            evaluate(model, TABLE.drop(columns="listed"))


def test_a_dataset_of_mlflow_brings_its_columns_and_its_name(client: mlflow.MlflowClient) -> None:
    data = mlflow.data.from_pandas(TABLE, predictions="listed", targets="held", name="letters")
    config = {"evalplugin": {"metrics": ["hit@1"]}}
    result = evaluate(data=data, targets=None, evaluators=["evalplugin"], evaluator_config=config)
    assert result.metrics["hit_at_1"] == 1 / 3
    assert only_run(client).data.tags["evalplugin.dataset"] == "letters"


def test_evaluations_of_one_table_can_be_compared(client, capsys):
    data = TABLE.assign(better=cells([["y", "x", "z"], ["z"], ["y"], ["x"]]))
    for name in ("listed", "better"):
        with mlflow.start_run(run_name=name):
            evaluate(data=data, predictions=name, evaluator_config={"metrics": ["rr"]})
    assert main(["compare", "--experiment", "evaluations", "--baseline", "listed", "-m", "rr"]) == 0
    shown = capsys.readouterr().out
    assert "+0.5000" in shown  # (1 + 1 + 1) / 3 - (1 / 2 + 1 + 0) / 3


def test_thresholds_are_validated(client: mlflow.MlflowClient) -> None:
    from mlflow.models import MetricThreshold

    result = evaluate(evaluator_config={"metrics": ["rr"]})
    assert result.metrics["rr"] == 1 / 2

    def validate(name: str, baseline: Any = None, **threshold: float) -> None:
        limits = {name: MetricThreshold(greater_is_better=True, **threshold)}
        mlflow.validate_evaluation_results(limits, result, baseline)

    validate("rr", threshold=0.5)
    validate("ci/rr.low", threshold=result.metrics["ci/rr.low"])
    failed = mlflow.models.evaluation.validation.ModelValidationFailedException
    with pytest.raises(failed, match="Metric rr value threshold check failed"):
        validate("rr", threshold=0.51)
    worse = evaluate(
        data=TABLE.assign(listed=cells([["z"], ["x", "z"], [], []])), evaluator_config={"metrics": ["rr"]}
    )
    validate("rr", worse, min_absolute_change=0.3)
    with pytest.raises(failed, match="minimum absolute change check failed"):
        validate("rr", worse, min_absolute_change=0.4)


def test_what_nobody_has_a_value_for_is_no_metric(client: mlflow.MlflowClient) -> None:
    data = TABLE.assign(held=cells([{"x": 0}, {}, {}, {}]))
    result = evaluate(data=data, evaluator_config={"metrics": ["rr"]})
    assert result.metrics["undefined/rr"] == 4
    assert "rr" not in result.metrics
    assert all(math.isfinite(value) for value in result.metrics.values())


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory, _empty_store: Path) -> Iterator[tuple[str, str]]:
    """A store and a run in it that no test writes to."""
    folder = tmp_path_factory.mktemp("untouched")
    shutil.copy(_empty_store, folder / "mlflow.db")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    client = mlflow.MlflowClient(uri)
    run = client.create_run(client.create_experiment("untouched"))
    yield uri, run.info.run_id
    after = client.get_run(run.info.run_id).data
    assert not after.metrics and after.tags == run.data.tags


@pytest.fixture
def run_id(untouched: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    uri, run_id = untouched
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return run_id


def table(**columns: list[Any]) -> pd.DataFrame:
    return TABLE.assign(**{name: cells(values) for name, values in columns.items()})


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({"evalplugin": {"usr": "u"}}, ParameterError, "unknown parameter 'usr' of evaluator_config; did you mean"),
        ({"metrics": ["ndgc@10"]}, UnknownNameError, "unknown metric 'ndgc'; did you mean 'ndcg'?"),
        ({"metrics": "rr"}, ParameterError, "metrics: must be a list, not 'rr'"),
        ({"metrics": []}, ParameterError, "metrics: must not be empty"),
        ({"metrics": ["rr", "rr"]}, DataError, "metric rr is requested twice"),
        ({"threshold": 3}, DataError, "threshold=3 is for ratings, and targets 'held' holds none"),
        ({"user": "a", "query": "b"}, ParameterError, "query: names the column of queries in place of user"),
        ({"query": "user"}, DataError, "query: 'a' is not the id of a query: ids of queries are texts SESSION:NUMBER"),
        ({"user": "usr"}, DataError, "data: no user column 'usr'; did you mean 'user'?"),
        ({"metrics": ["novelty@5"]}, DataError, "novelty@5 needs the train data: a DataFrame under the key 'train'"),
        ({"metrics": ["novelty@5"], "train": "x.csv"}, DataError, "train: must be a pandas DataFrame or an Arrow"),
        ({"metrics": ["novelty@5"], "train": TRUTH[["item"]]}, DataError, "train: no user column 'user'"),
        ({"metrics": ["rmse"]}, DataError, "rmse needs the ratings that a model predicts .*; lists have none"),
    ],
)  # fmt: skip
def test_options_that_are_refused(run_id, config, error, message):
    with pytest.raises(error, match=message):
        evaluated(run_id, TABLE, config)


def evaluated(
    run_id: str, data: pd.DataFrame, config: Any, targets: str = "held", predictions: str = "listed"
) -> None:
    dataset = EvaluationDataset(data, targets=targets, predictions=predictions)
    RankingEvaluator().evaluate(model_type="ranker", dataset=dataset, run_id=run_id, evaluator_config=config)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (table(user=["a", "b", "a", "d"]), r"user 'a' stands in rows 1 and 3 \(counted from 1\), but lists"),
        (table(user=["a", None, "c", "d"]), r"column 'user', row 2 \(counted from 1\) is empty: no user id may be"),
        (table(listed=["x", "y", "z", "q"]), r"predictions 'listed': for user 'a' there must .* not 'x' \(str\)"),
        (table(listed=[["x"], None, [], []]), "predictions 'listed': for user 'b' .* not an empty cell"),
        (table(listed=[0.5, 1.0, 2.0, 3.0]), r"not 0.5 \(float\); scored pairs need the item column named"),
        (table(listed=[[], [], [], []]), "predictions 'listed': there is no item in any of the 4 rows"),
        (table(listed=[["x", "y"], ["z", 1.5], [], []]), r"place 2 of user 'b' is 1.5 \(float\): item ids must be"),
        (table(listed=[["x", "y", "x"], [], [], []]), "the list of user 'a' has item 'x' twice"),
        (table(listed=[[1], [2], [], []]), r"item ids are integers in the lists \(such as 1\), but text in the truth"),
        (table(held=["x", "y", "z", "q"]), "targets 'held': for user 'a' there must be a list of relevant items"),
        (table(held=[{"x": 1}, ["y"], [], []]), "targets 'held': for user 'b' there are no ratings, but for others"),
        (table(held=[{"x": math.nan}, {}, {}, {}]), "column 'rating', place 1 of user 'a' is nan .*: ratings must be"),
        (table(held=[{"x": "4"}, {}, {}, {}]), "column 'rating', place 1 of user 'a' is '4'"),
        (table(held=[["x", "x"], [], [], []]), "the truth of user 'a' has item 'x' twice"),
    ],
)  # fmt: skip
def test_lists_that_are_refused(run_id: str, data: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluated(run_id, data, {})


@pytest.mark.parametrize(
    ("data", "config", "message"),
    [
        (PAIRS, {"item": "doc"}, "scored pairs need the column of users: name it under the key 'user'; columns: q"),
        (PAIRS, {"user": "p", "item": "doc"}, "data: no user column 'p'"),
        (PAIRS, {"user": "q", "item": "docs"}, "data: no item column 'docs'; did you mean 'doc'?"),
        (PAIRS, {"user": "q"}, "user 'q1' stands in rows 1 and 2 .* scored pairs need the item column named"),
        (pd.concat([PAIRS, PAIRS[:1]]), OF_PAIRS, "the list of user 'q1' has item 5 twice"),
        (PAIRS.assign(score=[1, 2, math.nan, 1, 1, 1]), OF_PAIRS, "column 'score', row 3 .*: scores must be finite"),
        (PAIRS.assign(label=list("abcdef")), OF_PAIRS, "column 'label', row 1 .* is 'a' .*: ratings must be finite"),
        (PAIRS.assign(label=-1.0), OF_PAIRS, "gain=linear needs ratings of 0 or more, but the truth has -1"),
        (PAIRS.assign(score=cells([[1]] * 6)), OF_PAIRS, "column 'score', row 1 .*: scores must be finite numbers"),
    ],
)  # fmt: skip
def test_pairs_that_are_refused(run_id, data, config, message):
    with pytest.raises(DataError, match=message):
        evaluated(run_id, data, config, "label", "score")


def test_arguments_that_are_refused(client: mlflow.MlflowClient) -> None:
    with pytest.raises(DataError, match="extra_metrics are not for the evaluator 'evalplugin'"):
        evaluate(extra_metrics=[mlflow.metrics.mae()])
    with pytest.raises(DataError, match="custom_artifacts are not for the evaluator 'evalplugin'"):
        evaluate(custom_artifacts=[lambda frame, metrics, folder: {}])
    with pytest.raises(DataError, match="targets must name the column of relevant items"):
        evaluate(targets=None)
    with pytest.raises(DataError, match="there is no model, so predictions must name the column"):
        evaluate(predictions=None)
    with pytest.raises(DataError, match=r"data must be a pandas DataFrame, .* not ndarray"):
        evaluate(popular, np.zeros((3, 2)), targets=np.zeros(3))
    with pytest.raises(mlflow.MlflowException, match="does not contain the specified targets column 'help'"):
        evaluate(targets="help")


@pytest.mark.parametrize(
    ("model_type", "expected"),
    [
        *(("ranker", True), ("recommender", True)),
        *((kind, False) for kind in ("classifier", "retriever", "text", "Ranker", "", None)),
    ],
)
def test_what_is_ours_to_evaluate(model_type: Any, expected: bool) -> None:
    assert RankingEvaluator.can_evaluate(model_type=model_type, evaluator_config={}) is expected


@pytest.mark.parametrize("model_type", ["ranker", "recommender"])
def test_rankings_are_ours_where_no_evaluator_is_named(client: mlflow.MlflowClient, model_type: str) -> None:
    result = evaluate(model_type=model_type, evaluators=None, evaluator_config={"metrics": ["rr"]})
    assert headline(result) == {"rr": 1 / 2}


@pytest.mark.parametrize(
    ("model_type", "metric"), [("classifier", "accuracy_score"), ("regressor", "mean_absolute_error")]
)
def test_other_models_are_evaluated_by_mlflow_as_ever(client, model_type, metric):
    data = pd.DataFrame({"x": [1.0, 2, 3, 4], "y": [0, 1, 1, 0], "made": [0, 1, 0, 0]})
    given = {"data": data, "targets": "y", "predictions": "made", "model_type": model_type}
    result = mlflow.models.evaluate(evaluators=None, **given)
    alone = mlflow.models.evaluate(evaluators="default", **given)
    assert metric in result.metrics
    assert result.metrics == alone.metrics
    assert set(result.artifacts) == set(alone.artifacts)
    (experiment,) = client.search_experiments(filter_string="name = 'evaluations'")
    for run in client.search_runs([experiment.experiment_id]):
        assert not any(tag.startswith("evalplugin.") for tag in run.data.tags)
    with pytest.raises(mlflow.MlflowException, match="could not be evaluated by any of the registered"):
        mlflow.models.evaluate(evaluators="evalplugin", **given)


@pytest.mark.slow
def test_mlflow_finds_the_evaluator_and_loads_nothing_for_it() -> None:
    code = (
        "import mlflow.models, sys; assert 'evalplugin' in mlflow.models.list_evaluators();"
        "print(sorted(m for m in sys.modules if m.startswith('evalplugin')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ["", "._version", ".base", ".base.libraries", ".mlflow_evaluator"]
    assert done.stdout.splitlines()[-1] == str([f"evalplugin{module}" for module in loaded])
