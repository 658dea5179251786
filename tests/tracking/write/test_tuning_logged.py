"""What is logged of how models were tuned, and what is read back of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from samples import Results

from evalplugin.features.tuning.pictures import study_pictures
from evalplugin.tracking.names import is_allowed
from evalplugin.tracking.read.contests import read_contests
from evalplugin.tracking.write.artifacts import model_artifacts, picture_artifacts
from evalplugin.tracking.write.board import board_of
from evalplugin.tracking.write.contents import model_metrics
from evalplugin.tracking.write.labels import model_params
from evalplugin.tracking.write.tracker import MlflowTracker
from evalplugin.tracking.write.writer import write_artifact


@pytest.fixture
def result(make: SimpleNamespace) -> Results:
    """A bake-off of two tuned models and one that was not."""
    tuned = [
        make.model_result("knn", 0.3, tuning=make.tuning(24)),
        make.model_result("svd", 0.4, tuning=make.tuning(30, folds=2)),
    ]
    return Results(make.bakeoff(), (make.model_result("random", 0.1), *tuned))


def test_validation_and_optimism_are_metrics_of_a_tuned_run(make, result):
    _, knn, _ = result.models
    metrics = model_metrics(result.plan, knn, {})
    values = {m.key: m.value for m in metrics if m.key.startswith("tune/")}
    assert values == {
        "tune/validation": 0.25,
        "tune/defaults": pytest.approx(knn.tuning.defaults),
        "tune/optimism": pytest.approx(0.25 - knn.per_user.means["ndcg@10"]),
        "tune/trials_done": 19,
        "tune/trials_dropped": 4,
        "tune/trials_failed": 1,
        "tune/seconds": pytest.approx(17.25),
    }
    assert all(map(is_allowed, values))


def test_a_model_that_was_not_tuned_has_nothing_of_it(make: SimpleNamespace, result: Results) -> None:
    random, *_ = result.models
    assert not [m.key for m in model_metrics(result.plan, random, {}) if m.key.startswith("tune/")]
    params, _ = model_params(result.plan, random)
    assert not [param.key for param in params if param.key.startswith("tune")]
    paths = {one.path for one in model_artifacts(result.plan, random, {})}
    assert not {"data/params.json", "tune/trials.parquet"} & paths
    untuned = Results(result.plan, (random,))
    assert not list(study_pictures(*untuned))


def test_a_model_that_failed_after_tuning_has_its_trials_and_no_optimism(make: SimpleNamespace) -> None:
    failed = dataclasses.replace(make.failed_result("broken"), tuning=make.tuning())
    keys = [m.key for m in model_metrics(make.bakeoff(), failed, {})]
    assert "tune/validation" in keys
    assert "tune/optimism" not in keys
    assert "tune/trials.parquet" in [one.path for one in model_artifacts(make.bakeoff(), failed, {})]


def test_settings_and_spaces_are_parameters(make: SimpleNamespace, result: Results) -> None:
    params, left_out = model_params(result.plan, result.models[1])
    found = {param.key: param.text for param in params if param.key.startswith("tune.")}
    assert found == {
        "tune.split.type": "last_n",
        "tune.split.n": "1",
        "tune.metric": "ndcg@10",
        "tune.budget.trials": "24",
        "tune.prune": "race",
        "tune.space.k": '{"int": [1, 100], "log": true}',
        "tune.space.sim_options.name": '["cosine", "msd"]',
        "tune.space.sim_options.shrinkage": '{"float": [0.0, 50.0]}',
    }
    assert left_out == []


def test_trials_are_a_table_whose_errors_hide_credentials(make: SimpleNamespace, tmp_path: Path) -> None:
    tuning = make.tuning()
    rows = tuning.trials.to_pylist()
    rows[3]["error"] = "OSError: s3://key:hunter2@bucket"
    secret = dataclasses.replace(tuning, trials=tuning.trials.from_pylist(rows, schema=tuning.trials.schema))
    for artifact in model_artifacts(make.bakeoff(), make.model_result("knn", tuning=secret), {}):
        write_artifact(artifact, tmp_path)
    table = pq.read_table(tmp_path / "tune" / "trials.parquet")
    assert table.schema == tuning.trials.schema
    assert table.num_rows == 24
    assert table["error"].to_pylist()[3] == "OSError: s3://***@bucket"


def test_pictures_of_tuning_have_the_same_name_in_all_runs_of_tuned_models(make, result):
    def names(one: Results) -> dict[str, set[str]]:
        pictures = picture_artifacts(*one, study_pictures(*one))
        return {
            model: {a.path for a in files if "tune" in a.path} for (_, _, model), files in pictures.items()
        }

    both = {"tune_history.png", "tune_importance.png"}
    assert names(result) == {"random": set(), "knn": both, "svd": both}
    assert set().union(*names(make.whole()).values()) == set()


def test_the_board_has_charts_of_tuning_where_something_was_tuned(make, result):
    def sections(one: Results) -> set[str]:
        board = board_of(*one, make.comparisons(one)[0])
        return {section["name"] for section in board["compareRunSections"]}

    assert "Tuning" in sections(result)
    assert "Tuning" not in sections(make.whole())


@pytest.mark.usefixtures("no_drawing")
def test_a_logged_run_has_the_parameters_that_were_found(make, result, uri):
    resolved = "models:\n- {name: knn, type: surprise.KNNBasic, params: {k: 40}, inputs: [prices.csv]}\n"
    with MlflowTracker.open(dataclasses.replace(result.plan, config_resolved=resolved), uri) as tracker:
        for model in result.models:
            tracker.start_model(model.data, model.model, model.type)
            tracker.finish_model(model)
        tracker.finish_bakeoff(result.models, make.comparisons(result))
    (contest,) = read_contests(uri, bakeoff=result.plan.id)
    direct = make.comparisons(result)[0].contest
    tuned = [contest.facts[m.model].tuned for m in contest.models]
    assert tuned == [direct.facts[m.model].tuned for m in direct.models]
    assert tuned[0] is None


def test_the_summary_tells_how_a_model_was_tuned(result: Results) -> None:
    def summary(number: int) -> str:
        files = model_artifacts(result.plan, result.models[number], {})
        return str(next(one.content for one in files if one.path == "summary.md"))

    knn = result.models[1]
    test = knn.per_user.means["ndcg@10"]
    assert "## Tuning" not in summary(0)
    for part in (
        "By ndcg@10 within the train data, last\\_n\\(n=1\\); budget: 24 trials.",
        f"| {knn.tuning.defaults:.4f} | 0.2500 | {test:.4f} | −{test - 0.25:.4f} |",
        "- trials: 19 done, 4 dropped, 1 failed; 17.25 s of work",
        f"- best: k: {knn.tuning.best[0]['k']}, ",
        "- the best k, 98, is at the end of its range, 1 to 100",
    ):
        assert part in summary(1)
    assert "- best, fold 2: k: " in summary(2)
    assert json.dumps(dict(knn.params)) == next(
        one.content for one in model_artifacts(result.plan, knn, {}) if one.path == "data/params.json"
    )
