"""What is logged, as plain values: no MLflow is needed to know it."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evalplugin.comparison.comparison import compare
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.competition import competitions_of
from evalplugin.tracking.names import MAX_PARAM, MAX_TAG, shorten_value
from evalplugin.tracking.write import labels
from evalplugin.tracking.write.artifacts import model_artifacts, per_user_table, sampled_users
from evalplugin.tracking.write.contents import (
    difference_metrics,
    model_metrics,
    simplified,
    summary_metrics,
    summary_name,
)
from evalplugin.tracking.write.items import Artifact, Datum, Metric, Tag
from evalplugin.tracking.write.labels import dataset_inputs
from evalplugin.tracking.write.provenance import environment_text, git_items, is_gone, process_data
from evalplugin.tracking.write.writer import without_credentials, write_artifact


def logged(
    make: SimpleNamespace, result: object, asked: object | None = None
) -> dict[tuple[str, int], float]:
    asked = asked or make.bakeoff()
    items = model_metrics(asked, result, make.headline_of(asked, result))
    values = [item for item in items if isinstance(item, Metric)]
    found = {(m.key, m.step): m.value for m in values}
    assert len(found) == len(values)  # nothing is logged twice
    return found


def write(artifacts: Iterable[Artifact], folder: Path) -> None:
    for artifact in artifacts:
        assert isinstance(artifact, Artifact)
        write_artifact(artifact, folder)


def test_headline_means_are_logged_first_at_step_0(make: SimpleNamespace) -> None:
    result = make.model_result("knn")
    values = logged(make, result)
    assert [key for key, _ in list(values)[:4]] == ["ndcg_at_10", "recall_at_10", "rr", "coverage_at_10"]
    assert values["ndcg_at_10", 0] == pytest.approx(np.nanmean(result.per_user.column("ndcg@10")))
    assert values["coverage_at_10", 0] == 0.3


def test_the_spread_of_every_user_metric_is_logged(make: SimpleNamespace) -> None:
    result = make.model_result("knn")
    values = logged(make, result)
    column = result.per_user.column("rr")
    defined = column[~np.isnan(column)]
    for percent in (10, 50, 90):
        assert values[f"dist/rr.p{percent}", 0] == pytest.approx(np.quantile(defined, percent / 100))
    assert values["dist/rr.std", 0] == pytest.approx(defined.std(ddof=1))
    assert values["dist/rr.zero_share", 0] == np.mean(defined == 0)
    assert values["ci/rr.low", 0] < values["rr", 0] < values["ci/rr.high", 0]
    assert not any(key.startswith(("dist/coverage", "ci/coverage")) for key, _ in values)


def test_a_quantile_function_has_a_value_at_each_fifth_percentile(make: SimpleNamespace) -> None:
    result = make.model_result("knn")
    column = result.per_user.column("rr")
    values = logged(make, result)
    curve = {step: value for (key, step), value in values.items() if key == "per_user_quantile/rr"}
    assert list(curve) == list(range(0, 101, 5))
    expected = np.quantile(column[~np.isnan(column)], np.array([*curve]) / 100)
    assert [*curve.values()] == pytest.approx(expected)


def test_a_run_with_many_metrics_has_at_most_250_values(make: SimpleNamespace) -> None:
    metrics = tuple(f"ndcg@{k}" for k in range(1, 11))
    rng = np.random.default_rng(1)
    values = np.where(rng.random((200, 10)) < 0.4, 0.0, rng.random((200, 10)))
    scores = PerUserScores(
        Units(np.arange(200)), values, metrics, at_k={"ndcg": {k: k / 1000 for k in range(1, 60)}}
    )
    found = logged(make, make.model_result("knn", scores=scores), make.bakeoff(metrics=metrics))
    later = [metric for metric in metrics for _ in ("mean", "low", "high", "p", "p_holm")]
    assert 230 < len(found) + len(later) <= 250
    curve = {step: value for (key, step), value in found.items() if key == "per_user_quantile/ndcg_at_1"}
    assert [min(curve), max(curve)] == [0, 100]
    points = np.arange(0, 101, 5)
    drawn = np.interp(points, [*curve], [*curve.values()])
    assert drawn == pytest.approx(np.quantile(values[:, 0], points / 100), abs=0.1)


def test_a_simplified_line_keeps_its_ends_and_its_bends() -> None:
    bent = [(0.0, 0.0), (5.0, 0.0), (10.0, 0.0), (15.0, 1.0), (20.0, 2.0), (25.0, 2.1)]
    assert simplified(bent, 6) == bent
    assert simplified(bent, 4) == [(0.0, 0.0), (10.0, 0.0), (20.0, 2.0), (25.0, 2.1)]
    assert simplified(bent, 1) == [bent[0], bent[-1]]


def test_users_are_counted(make: SimpleNamespace) -> None:
    values = logged(make, make.model_result("knn"))
    assert values["users", 0] == 197
    assert values["users_undefined", 0] == 3
    assert values["undefined/rr", 0] == 3
    assert ("undefined/coverage_at_10", 0) not in values


def test_curves_are_stepped_by_k_and_undefined_values_are_counted(make: SimpleNamespace) -> None:
    asked, result = make.bakeoff(), make.model_result("knn", 0.4)
    values = logged(make, result)
    assert values["at_k/ndcg", 20] == pytest.approx(0.4)
    assert values["at_k/recall", 1] == 0.1
    assert ("at_k/recall", 20) not in values
    assert values["undefined/values_left_out", 0] == 1
    items = list(model_metrics(asked, result, make.headline_of(asked, result)))
    assert items[-1] == Datum("left_out", "at_k/recall")
    assert all(math.isfinite(v) for v in values.values())


def test_the_precision_recall_curve_is_stepped_by_recall_in_percent(make: SimpleNamespace) -> None:
    result = make.model_result("knn")
    scores = dataclasses.replace(result.per_user, pr_curve={0: 0.9, 10: 0.5, 100: 0.1})
    values = logged(make, dataclasses.replace(result, per_user=scores))
    curve = {step: value for (key, step), value in values.items() if key == "pr_curve/precision"}
    assert curve == {0: 0.9, 10: 0.5, 100: 0.1}


def test_costs_are_logged_where_they_are_known(make: SimpleNamespace) -> None:
    costs = dataclasses.replace(make.model_result("knn").costs, peak_memory_mb=math.nan)
    values = logged(make, make.model_result("knn", costs=costs))
    assert values["cost/fit_seconds", 0] == 1.5
    assert ("cost/peak_memory_mb", 0) not in values


def test_folds_are_logged_from_1_when_there_are_several(make: SimpleNamespace) -> None:
    folds = ({"ndcg@10": 0.1, "other": 1.0}, {"ndcg@10": 0.3})
    values = logged(make, make.model_result("knn", fold_means=folds))
    assert {k: v for k, v in values.items() if k[0].startswith("fold/")} == {
        ("fold/ndcg_at_10", 1): 0.1,
        ("fold/ndcg_at_10", 2): 0.3,
    }
    assert not any(key.startswith("fold/") for key, _ in logged(make, make.model_result("knn")))


def test_seeds_are_logged_from_1_with_their_spread_and_share_of_the_variance(make: SimpleNamespace) -> None:
    seeds = ({"ndcg@10": 0.28, "coverage@10": 0.1}, {"ndcg@10": 0.32, "coverage@10": 0.3})
    values = logged(make, make.model_result("svd", seed_means=seeds))
    deviation = math.sqrt(2) * 0.02
    spread = values["dist/ndcg_at_10.std", 0] ** 2 / 197  # of 200 users, 3 are undefined
    assert {k: v for k, v in values.items() if k[0].startswith("seed")} == {
        ("seed/ndcg_at_10", 1): 0.28,
        ("seed/ndcg_at_10", 2): 0.32,
        ("seed/coverage_at_10", 1): 0.1,
        ("seed/coverage_at_10", 2): 0.3,
        ("seed_sd/ndcg_at_10", 0): pytest.approx(deviation),
        ("seed_sd/coverage_at_10", 0): pytest.approx(math.sqrt(2) * 0.1),
        ("seed_share/ndcg_at_10", 0): pytest.approx(deviation**2 / 2 / (deviation**2 / 2 + spread)),
    }
    plain = logged(make, make.model_result("svd"))
    assert not any(key.startswith("seed") for key, _ in plain)
    assert values["ci/ndcg_at_10.low", 0] < plain["ci/ndcg_at_10.low", 0]


def test_a_metric_that_no_user_has_is_counted_and_nothing_else(make: SimpleNamespace) -> None:
    scores = make.per_user(0.3)
    scores.values[:, 2] = np.nan
    values = logged(make, make.model_result("knn", scores=scores))
    assert {key for key, _ in values if key.endswith("rr") or "/rr" in key} == {"undefined/rr"}
    assert values["undefined/rr", 0] == 200


def test_differences_are_logged_with_their_intervals(make: SimpleNamespace) -> None:
    result = make.whole()
    comparisons = make.comparisons(result)
    rows = comparisons[0].models
    own = {m.key: m.value for m in difference_metrics(result.plan, rows[0])}
    assert set(own) == {
        f"vs_baseline/{m}{part}"
        for m in ("ndcg_at_10", "recall_at_10", "rr")
        for part in ("", ".low", ".high", ".p", ".p_holm")
    }
    summary = {m.key: m.value for m in summary_metrics(result.plan, comparisons)}
    assert summary["difference/ndcg_at_10"] == own["vs_baseline/ndcg_at_10"]
    assert summary["difference/ndcg_at_10.low"] <= summary["difference/ndcg_at_10"]
    assert summary["leader/ndcg_at_10"] - summary["baseline/ndcg_at_10"] == pytest.approx(
        own["vs_baseline/ndcg_at_10"]
    )
    (one,) = comparisons
    for datasets in (1, 2, 4, 9):
        named = [
            dataclasses.replace(one, contest=dataclasses.replace(one.contest, dataset=f"toy{n}"))
            for n in range(datasets)
        ]
        assert len(list(summary_metrics(result.plan, named))) < 40
    assert (summary["models"], summary["models_failed"]) == (4, 1)
    baseline = next(row for row in rows if row.is_baseline)
    assert list(difference_metrics(result.plan, baseline)) == []


def test_parameters_are_flattened_under_model_data_split_and_eval(make: SimpleNamespace) -> None:
    params, too_long = labels.model_params(make.bakeoff(), make.model_result("knn"))
    assert too_long == []
    assert {
        "model.name": "knn",
        "model.type": "surprise.KNNBasic",
        "model.k": "40",
        "model.sim_options.name": "cosine",
        "model.sim_options.user_based": "true",
        "model.shrink": "null",
        "data.name": "toy",
        "data.options.scale": "[1, 5]",
        "split.type": "last_n",
        "split.n": "1",
        "split.cold_items": "1",
        "eval.seed": "10",
        "eval.metrics": "ndcg@10, recall@10, rr, coverage@10",
    }.items() <= {param.key: param.text for param in params}.items()


def test_credentials_in_parameters_are_hidden(make: SimpleNamespace) -> None:
    info = make.data_info(params={"url": "https://ann:pw@host/x.csv", "password": "pw"})
    items, _ = labels.model_params(make.bakeoff(), make.model_result("knn", info=info))
    params = {param.key: param.text for param in map(without_credentials, items)}
    assert (params["data.url"], params["data.password"]) == ("https://***@host/x.csv", "***")
    assert "pw" not in str(without_credentials(next(dataset_inputs(info))).source)


def test_a_run_is_found_by_its_tags(make: SimpleNamespace) -> None:
    asked = make.bakeoff()
    found_by = labels.model_tags(make.data_info(split="a"), "knn", "surprise.KNNBasic")
    tags = dict([*labels.common_tags(asked), *found_by])
    expected = {
        "role": "model", "bakeoff": asked.id, "model": "knn", "dataset": "toy", "split": "a", "pid": str(os.getpid()),
        "config_hash": "c" * 64, "metrics_hash": "d" * 64,
    }  # fmt: skip
    assert {key: tags.get(f"evalplugin.{key}", tags.get(key)) for key in expected} == expected
    assert tags["mlflow.source.name"] == "toy.yaml"


def test_long_tags_are_cut_and_stay_different() -> None:
    first, second = shorten_value("x" * 9000 + "a"), shorten_value("x" * 9000 + "b")
    assert len(first) == MAX_TAG
    assert first != second


def test_the_name_of_a_summary_run_counts_what_its_leader_leads(make: SimpleNamespace) -> None:
    def name(*best: str, datasets: Sequence[str] = ("toy",), end: str = "") -> str:
        results = [
            make.model_result(
                model + end, 0.5 if model == leader else 0.3, info=make.data_info(dataset, f"{i}")
            )
            for dataset in datasets
            for i, leader in enumerate(best)
            for model in ("knn", "svd")
        ]
        plan = make.bakeoff([f"knn{end}", f"svd{end}"], baseline=None)
        return summary_name([compare(contest) for contest in competitions_of(plan, results)])

    assert name("svd") == "svd is the best"
    assert name("svd", "knn", "svd") == "svd leads 2 of 3 splits, 2 decided"
    assert name("svd", datasets=("a", "b")) == "svd leads 2 of 2 datasets, 2 decided"
    assert name("svd", "knn", "svd", datasets=("a", "b")) == "svd leads 4 of 6 datasets and splits, 4 decided"
    assert name("", "") == "knn leads 2 of 2 splits, none decided"
    long = name("svd", "svd", end=" of a very long name" * 4)
    assert long.endswith("... leads 2 of 2 splits, 2 decided")
    assert len(long) == 60
    assert len(name("svd", end=" of a very long name" * 4)) == 60


def test_the_inputs_are_the_whole_train_and_test_data(make: SimpleNamespace) -> None:
    info = make.data_info()
    train, test = dataset_inputs(info)
    assert (train.context, test.context) == ("training", "evaluation")
    assert (train.digest, test.digest) == (info.train.digest, info.test.digest)
    assert len(train.digest) <= 36
    profile = json.loads(train.profile)
    assert profile["interactions"] == len(info.train)
    assert profile["density"] == len(info.train) / (profile["users"] * profile["items"])
    columns = [column["name"] for column in json.loads(train.schema)["mlflow_colspec"]]
    assert columns == ["user", "item", "rating", "timestamp"]


def test_train_and_test_data_that_are_the_same_are_two_inputs(make: SimpleNamespace) -> None:
    info = make.data_info()
    train, test = dataset_inputs(dataclasses.replace(info, test=info.train))
    assert train.digest == test.digest
    assert train.name != test.name


def test_the_table_of_a_small_bakeoff_holds_every_user_and_null_where_undefined(make):
    scores = make.per_user(0.3)
    table = per_user_table(scores)
    assert table["columns"] == ["user", "ndcg@10", "recall@10", "rr"]
    assert len(table["data"]) == 200
    assert table["data"][0] == [0, None, None, None]
    assert json.loads(json.dumps(table, allow_nan=False))


@pytest.mark.parametrize("text_ids", [False, True])
def test_the_sample_of_users_does_not_depend_on_the_other_users(make, text_ids):
    users = make.per_user(0.3, n_users=3000, text_ids=text_ids).users
    chosen = set(users[sampled_users(users, 100)].tolist())
    assert len(chosen) == 100
    fewer = users[: 3000 - 1]
    assert len(chosen & set(fewer[sampled_users(fewer, 100)].tolist())) >= 99


def test_a_run_has_its_files(make: SimpleNamespace, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    asked = make.bakeoff(config_text="uri: postgresql://a:pw@h/x\n")
    scores = make.per_user(0.3, n_users=1500, text_ids=True)
    result = make.model_result("knn", scores=scores, params={"x": "x" * (MAX_PARAM + 1)})
    write(model_artifacts(asked, result, make.headline_of(asked, result)), tmp_path)
    assert (tmp_path / "config.yaml").read_text() == "uri: postgresql://***@h/x\n"
    summary = (tmp_path / "summary.md").read_text()
    assert "holds 1,000 of 1,500 users" in summary
    assert "parameter model.x is too long for MLflow" in summary
    assert len(json.loads((tmp_path / "per_user.json").read_text())["data"]) == 1000
    whole = pq.read_table(tmp_path / "data" / "per_user.parquet")
    assert whole.column_names == ["user", "ndcg@10", "recall@10", "rr"]
    assert whole["user"].to_pylist() == result.per_user.users.tolist()
    np.testing.assert_array_equal(whole["rr"].to_numpy(), result.per_user.column("rr"))
    lists = pq.read_table(tmp_path / "data" / "top_n.parquet")
    assert lists.column_names == ["user", "item", "rank", "score"]


def test_a_failed_run_has_its_traceback_without_credentials(make: SimpleNamespace, tmp_path: Path) -> None:
    result = make.failed_result("broken", error="Traceback\nOSError: postgresql://a:pw@h \udcff")
    write(model_artifacts(make.bakeoff(), result, {}), tmp_path)
    assert (tmp_path / "traceback.txt").read_text() == "Traceback\nOSError: postgresql://***@h \\udcff"
    assert not (tmp_path / "per_user.json").exists()


def test_the_environment_names_every_package() -> None:
    lines = environment_text().splitlines()
    assert lines[0].startswith("# Python 3.")
    assert any(line.startswith("mlflow==") for line in lines)


def test_git_tags_name_the_commit_and_whether_files_differ_from_it(tmp_path: Path) -> None:
    assert not [*git_items(tmp_path), *git_items(tmp_path / "missing")]
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    (tmp_path / "a.yaml").write_text("a: 1\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    subprocess.run([*git, "remote", "add", "origin", "https://ann:pw@host/x.git"], check=True)
    tags = dict(git_items(tmp_path))
    assert len(tags["mlflow.source.git.commit"]) == 40
    assert tags["mlflow.source.git.branch"] == "main"
    url = Tag("mlflow.source.git.repoURL", tags["mlflow.source.git.repoURL"])
    assert without_credentials(url) == Tag("mlflow.source.git.repoURL", "https://***@host/x.git")
    assert tags["git_dirty"] == "false"
    (tmp_path / "a.yaml").write_text("a: 2\n")
    assert dict(git_items(tmp_path))["git_dirty"] == "true"


def test_only_a_dead_process_of_this_machine_is_gone() -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    here = process_data()
    assert not is_gone(here.__getitem__)
    assert is_gone({**here, "pid": str(dead.pid)}.__getitem__)
    for key, other in (("host", "elsewhere"), ("pid_namespace", "pid:[1]"), ("pid", "x")):
        assert not is_gone({**here, "pid": str(dead.pid), key: other}.__getitem__)
    assert not is_gone(lambda _: "")
