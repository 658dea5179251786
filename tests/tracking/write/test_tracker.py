"""Whole bake-offs logged to a real SQLite store and read back."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run, ViewType
from samples import Results

from evalplugin.base.errors import TrackingError
from evalplugin.comparison.comparison import compare
from evalplugin.report.competition import competitions_of
from evalplugin.tracking.connection import connect, tracking_call
from evalplugin.tracking.names import MAX_TAG
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.write.board import SHARED_VIEW_TAG, Links
from evalplugin.tracking.write.items import Artifact, Datum
from evalplugin.tracking.write.tracker import MlflowTracker


@pytest.fixture(scope="module", autouse=True)
def _boards_in_any_version() -> Iterator[None]:
    """Boards are written to the store of any MLflow here; only its pages depend on the version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalplugin.tracking.write.board._VIEWS_SINCE", (3, 0))
        yield


@pytest.fixture(scope="module")
def logged(make: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A bake-off of three models and one that fails, logged once for all tests that read it."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('störe 1')}/mlflow.db"
    return log_all(make.whole(), uri)


def log_all(result: Results, uri: str, *, board: bool = True) -> SimpleNamespace:
    tracker = MlflowTracker.open(result.plan, uri, board=board)
    run_ids = []
    for model in result.models:
        tracker.start_model(model.data, model.model, model.type)
        run_ids.append(tracker.run_id(model))
        tracker.finish_model(model)
    comparisons = [compare(contest) for contest in competitions_of(*result)]
    links = tracker.finish_bakeoff(result.models, comparisons, items=[Artifact("ranks.txt", "of a feature")])
    client = MlflowClient(tracking_uri=uri)
    runs = {run.info.run_name: run for run in client.search_runs([links.experiment_id])}
    return SimpleNamespace(tracker=tracker, links=links, client=client, runs=runs, run_ids=run_ids, uri=uri)


def start_model(make: SimpleNamespace, tracker: MlflowTracker, name: str) -> str:
    """Start the run of a model and return its id."""
    tracker.start_model(make.data_info(), name, "x")
    return tracker.run_id(make.model_result(name))


def artifacts(client: MlflowClient, run: Run, folder: str | None = None) -> set[str]:
    return {file.path for file in client.list_artifacts(run.info.run_id, folder)}


def text(client: MlflowClient, run: Run, path: str) -> str:
    return Path(client.download_artifacts(run.info.run_id, path)).read_text(encoding="utf-8")


SUMMARY = "svd is the best"  # named after the winner


def test_there_is_one_flat_run_a_model_and_a_summary(logged: SimpleNamespace) -> None:
    assert set(logged.runs) == {"random", "knn", "svd", "broken", SUMMARY}
    statuses = {name: run.info.status for name, run in logged.runs.items()}
    assert statuses == {**dict.fromkeys(logged.runs, "FINISHED"), "broken": "FAILED"}
    assert not any("mlflow.parentRunId" in run.data.tags for run in logged.runs.values())


class Recording:
    """A client that records the methods that are called."""

    def __init__(self, client: MlflowClient) -> None:
        self.client = client
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.called.append(name)
        return getattr(self.client, name)


def test_a_run_takes_a_request_for_each_kind_of_value_and_each_file(make: SimpleNamespace, uri: str) -> None:
    result = make.model_result("knn")
    tracker = MlflowTracker.open(make.bakeoff(("knn",), baseline=None), uri)
    client: Any = Recording(tracker.client)
    tracker.client = tracker.writer.client = client
    tracker.start_model(result.data, "knn", "x")
    tracker.finish_model(result)
    files = {name: n for name, n in Counter(client.called).items() if n > 1}
    assert files == {"log_artifact": 9}
    assert {*client.called} - {*files} == {
        "create_run", "create_logged_model", "log_outputs", "log_batch", "log_inputs", "finalize_logged_model",
        "set_terminated",
    }  # fmt: skip


def test_numbers_are_read_back_as_they_were(logged: SimpleNamespace, make: SimpleNamespace) -> None:
    metrics = logged.runs["knn"].data.metrics
    assert metrics["ndcg_at_10"] == make.whole().models[1].per_user.means["ndcg@10"]
    assert metrics["users"] == 197
    assert metrics["vs_baseline/ndcg_at_10.low"] > 0
    curve = logged.client.get_metric_history(logged.runs["knn"].info.run_id, "per_user_quantile/rr")
    assert sorted(m.step for m in curve) == list(range(0, 101, 5))


def test_compared_artifacts_have_the_same_root_names_in_every_run(logged: SimpleNamespace) -> None:
    expected = {"data", "config.yaml", "summary.md", "per_user.json", "per_user_ndcg_at_10.png"}
    for model in ("random", "knn", "svd"):
        assert artifacts(logged.client, logged.runs[model]) == expected
    tables = ("per_user.parquet", "top_n.parquet", "truth.parquet", "history.parquet")
    held = {f"data/{name}" for name in (*tables, "config_resolved.yaml", "environment.txt")}
    assert artifacts(logged.client, logged.runs["knn"], "data") == held
    assert text(logged.client, logged.runs["knn"], "config.yaml") == "# as written\nseed: 10\n"


def test_mlflow_reads_the_table_of_users(logged: SimpleNamespace) -> None:
    tag = json.loads(logged.runs["knn"].data.tags["mlflow.loggedArtifacts"])
    assert tag == [{"path": "per_user.json", "type": "table"}]
    table = json.loads(text(logged.client, logged.runs["knn"], "per_user.json"))
    assert table["columns"][0] == "user"


def test_a_failed_model_has_its_traceback_and_no_numbers(logged: SimpleNamespace) -> None:
    run = logged.runs["broken"]
    assert "ValueError: k must be <= 12" in text(logged.client, run, "traceback.txt")
    assert run.data.metrics == {}
    assert "FAILED" in run.data.tags["mlflow.note.content"]


def test_each_model_has_its_own_colour_and_the_baseline_is_grey(logged: SimpleNamespace) -> None:
    colours = {name: run.data.tags.get("mlflow.runColor") for name, run in logged.runs.items()}
    assert (colours["random"], colours["knn"]) == ("#7F7F7F", "#0072B2")
    assert len({colours[name] for name in ("random", "knn", "svd", "broken")}) == 4


def test_the_summary_run_compares_all_models(logged: SimpleNamespace) -> None:
    summary = logged.runs[SUMMARY]
    assert summary.info.run_id == logged.links.summary_run_id
    assert summary.data.tags["evalplugin.role"] == "summary"
    assert summary.data.metrics["difference/ndcg_at_10.low"] > 0
    assert summary.data.metrics["models_failed"] == 1
    assert "| 1 | svd |" in text(logged.client, summary, "leaderboard.md")
    assert text(logged.client, summary, "ranks.txt") == "of a feature"
    note = summary.data.tags["mlflow.note.content"]
    assert note.splitlines()[0].startswith("svd is the best: ")
    assert logged.links.board_url in note
    table = LoggedRun(logged.client, summary).local_file("data/differences.parquet")
    rows = {(r["metric"], r["model"], r["against"]): r for r in pq.read_table(table).to_pylist()}
    assert len(rows) == 3 * 3  # metrics of users, pairs of models
    own = logged.runs["svd"].data.metrics
    assert rows["ndcg@10", "svd", "random"]["p_holm"] == own["vs_baseline/ndcg_at_10.p_holm"]


def test_tags_are_few_and_for_people(logged: SimpleNamespace) -> None:
    def tags(name: str) -> set[str]:
        keys = logged.runs[name].data.tags
        return {key.removeprefix("evalplugin.") for key in keys if key.startswith("evalplugin.")}

    people = {"bakeoff", "model", "dataset", "split", "place", "may_be_best", "role", "version"}
    assert tags("svd") == people | {"provenance"}
    assert tags(SUMMARY) == {"bakeoff", "may_be_best", "role", "version", "provenance"}
    run = LoggedRun(logged.client, logged.runs["svd"])
    assert (run.tag("model"), run.tag("pid"), run.mapping("definitions").keys()) == (
        "svd", str(os.getpid()), {*run.metrics},
    )  # fmt: skip


def test_the_place_is_that_of_the_leaderboard(logged: SimpleNamespace) -> None:
    runs = [LoggedRun(logged.client, run) for name, run in logged.runs.items() if name != SUMMARY]
    ranked = sorted((run for run in runs if run.tag("place")), key=lambda run: run.tag("place"))
    means = [run.run.data.metrics["ndcg_at_10"] for run in ranked]
    assert [run.tag("place") for run in ranked] == ["1", "2", "3"]
    assert means == sorted(means, reverse=True)
    assert [run.model for run in runs if run not in ranked] == ["broken"]
    assert sorted(run.position for run in runs) == [0, 1, 2, 3]


def test_what_is_too_long_for_a_tag_is_in_a_file(make: SimpleNamespace, uri: str) -> None:
    warnings = [f"{'long' * 250} {number}" for number in range(20)]
    result = make.model_result("knn", notes=tuple(warnings))
    tracker = MlflowTracker.open(make.bakeoff(("knn",), baseline=None), uri)
    run_id = start_model(make, tracker, "knn")
    tracker.finish_model(result)
    run = LoggedRun(tracker.client, tracker.client.get_run(run_id))
    assert len(run.run.data.tags["evalplugin.provenance"]) < MAX_TAG
    assert run.warnings == tuple(f"toy: knn: {text}" for text in warnings)
    tracker.tag(run_id, Datum("engine", "ray"))
    again = LoggedRun(tracker.client, tracker.client.get_run(run_id))
    assert (again.warnings, again.tag("engine")) == (run.warnings, "ray")
    assert again.tag("metrics_hash") == "d" * 64


def test_a_run_from_before_has_a_tag_for_each_value(logged: SimpleNamespace) -> None:
    run = logged.client.get_run(logged.runs["svd"].info.run_id)
    new, data = LoggedRun(logged.client, run), json.loads(run.data.tags.pop("evalplugin.provenance"))
    for key, value in data.items():
        run.data.tags[f"evalplugin.{key}"] = value if isinstance(value, str) else json.dumps(value)
    old = LoggedRun(logged.client, run)
    assert all(old.tag(key) == new.tag(key) for key in data)
    assert (old.definitions, old.rules, old.warnings) == (new.definitions, new.rules, new.warnings)


def test_runs_say_which_models_may_be_the_best(logged: SimpleNamespace) -> None:
    tags = {name: run.data.tags.get("evalplugin.may_be_best") for name, run in logged.runs.items()}
    assert tags == {"svd": "yes", "knn": "no", "random": "no", "broken": None, SUMMARY: '["svd"]'}
    for path, run in (("leaderboard.md", SUMMARY), ("summary.md", "knn")):
        shown = text(logged.client, logged.runs[run], path)
        assert "svd is the best: " in shown


def test_links_have_ui_command_board_and_compare_page(logged: SimpleNamespace) -> None:
    links: Links = logged.links
    assert links.warnings == ()
    assert links.ui_command == f"mlflow ui --backend-store-uri '{logged.uri}'"
    assert links.board_url.startswith("http://127.0.0.1:5000/#/experiments/")
    assert "workflowType=machine_learning" in links.compare_url
    places = [links.compare_url.find(logged.runs[name].info.run_id) for name in ("svd", "knn", "random")]
    assert places == sorted(places)  # best first
    assert logged.runs["broken"].info.run_id not in links.compare_url


def test_the_experiment_is_one_of_models_and_has_the_board(logged: SimpleNamespace) -> None:
    experiment = logged.client.get_experiment(logged.links.experiment_id)
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    assert f"{SHARED_VIEW_TAG}evalplugin-20260101-120000-3f2a" in experiment.tags
    store = Path(logged.uri.removeprefix("sqlite:///"))
    assert experiment.artifact_location.startswith((store.parent / "mlartifacts").as_uri())


def test_open_runs_are_killed_by_an_exception_in_the_context(make: SimpleNamespace, uri: str) -> None:
    tracker = MlflowTracker.open(make.bakeoff(("a", "b"), baseline=None), uri)
    done, cut_off = (start_model(make, tracker, name) for name in ("a", "b"))
    tracker.finish_model(make.model_result("a"))
    client = MlflowClient(tracking_uri=uri)
    assert client.get_run(cut_off).info.status == "RUNNING"
    with tracker:
        pass
    assert client.get_run(cut_off).info.status == "RUNNING"
    for _ in range(2):  # the second time nothing is left to do
        with pytest.raises(KeyboardInterrupt), tracker:
            raise KeyboardInterrupt
        assert [client.get_run(r).info.status for r in (done, cut_off)] == ["FINISHED", "KILLED"]


def test_runs_of_a_dead_process_are_closed_and_those_of_others_are_not(make, uri):
    asked = make.bakeoff(("a", "b", "c"), baseline=None)
    tracker = MlflowTracker.open(asked, uri)
    ours, dead, elsewhere = (start_model(make, tracker, name) for name in asked.models)
    process = subprocess.Popen(["true"])
    process.wait()
    client = MlflowClient(tracking_uri=uri)
    for run_id in (dead, elsewhere):
        client.set_tag(run_id, "evalplugin.pid", str(process.pid))  # as of a run from before
    client.set_tag(elsewhere, "evalplugin.host", "another-machine")
    foreign = client.create_run(tracker.experiment_id).info.run_id
    MlflowTracker.open(asked, uri)
    statuses = [client.get_run(run_id).info.status for run_id in (ours, dead, elsewhere, foreign)]
    assert statuses == ["RUNNING", "KILLED", "RUNNING", "RUNNING"]


def test_mlflow_run_id_is_adopted_as_the_summary_run(make, uri, monkeypatch):
    client = connect(uri)
    run = client.create_run("0", tags={"mlflow.source.type": "PROJECT"})
    monkeypatch.setenv("MLFLOW_RUN_ID", run.info.run_id)
    first = log_all(make.whole(), uri)
    assert first.links.summary_run_id == run.info.run_id
    adopted = client.get_run(run.info.run_id)
    assert adopted.info.status == "FINISHED"
    assert adopted.data.tags["evalplugin.role"] == "summary"
    assert adopted.data.tags["mlflow.source.type"] == "PROJECT"
    second = log_all(make.whole(), uri)  # it has ended, so the next bake-off gets one of its own
    assert second.links.summary_run_id != run.info.run_id


def test_a_run_id_that_the_store_does_not_have_is_an_error(make, uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    with pytest.raises(TrackingError, match=r"cannot adopt the run of MLFLOW_RUN_ID=0{32}: .*not found"):
        MlflowTracker.open(make.bakeoff(), uri)


def test_a_deleted_experiment_is_an_error_that_tells_how_to_restore_it(make, uri):
    client = connect(uri)
    experiment_id = client.create_experiment("toy bake-off")
    client.delete_experiment(experiment_id)
    with pytest.raises(
        TrackingError, match=rf"'toy bake-off'.* deleted.*restore --experiment-id {experiment_id}"
    ):
        MlflowTracker.open(make.bakeoff(), uri)
    client.restore_experiment(experiment_id)
    assert MlflowTracker.open(make.bakeoff(), uri).experiment_id == experiment_id


def test_the_kind_of_an_experiment_that_is_there_stays_as_it_is(make: SimpleNamespace, uri: str) -> None:
    tags = {"mlflow.experimentKind": "genai_development"}
    experiment_id = connect(uri).create_experiment("toy bake-off", tags=tags)
    MlflowTracker.open(make.bakeoff(), uri)
    assert tags.items() <= connect(uri).get_experiment(experiment_id).tags.items()


def test_metrics_that_collide_are_refused_before_anything_is_fitted(make: SimpleNamespace, uri: str) -> None:
    with pytest.raises(TrackingError, match="would both be"):
        MlflowTracker.open(make.bakeoff(metrics=("a_b", "a(b)"), primary="a_b"), uri)


def test_large_tables_are_folders_of_parts_that_are_read_as_one(make, uri, logged, monkeypatch):
    monkeypatch.setattr("evalplugin.tracking.write.artifacts._PART_BYTES", 200)
    parts = log_all(make.whole(), uri)
    client, run = parts.client, parts.runs["knn"]
    assert artifacts(client, run, "data") == artifacts(logged.client, logged.runs["knn"], "data")
    for name in ("per_user", "truth"):
        files = artifacts(client, run, f"data/{name}.parquet")
        assert files == {f"data/{name}.parquet/part-{part:05}.parquet" for part in range(len(files))}
        assert len(files) > 1
        whole = LoggedRun(logged.client, logged.runs["knn"]).table(name)
        joined = LoggedRun(client, run).table(name)
        assert joined.schema.equals(whole.schema, check_metadata=True)
        assert joined.to_pandas().equals(whole.to_pandas())


def test_several_datasets_give_runs_names_of_their_own(make: SimpleNamespace, uri: str) -> None:
    models = tuple(make.model_result("knn", info=make.data_info(name, split="last")) for name in ("a", "b"))
    found = log_all(Results(make.bakeoff(("knn",), datasets=("a", "b"), baseline=None), models), uri)
    assert {"knn · a", "knn · b"} <= set(found.runs)
    assert len(found.links.boards) == len(found.links.board_urls) == 2
    note = found.client.get_run(found.links.summary_run_id).data.tags["mlflow.note.content"]
    assert all(url in note for url in found.links.board_urls)


def test_any_name_and_any_text_can_be_logged(make: SimpleNamespace, uri: str) -> None:
    names = ("knn[k=10] <b>|%", "協調 · émile", "knn(k=10) <b>/%")
    models = tuple(make.model_result(name, 0.2 + i / 10) for i, name in enumerate(names))
    asked = make.bakeoff(names, baseline=names[0], experiment="ünï/code", config_text="# 協調\n" * 3000)
    found = log_all(Results(asked, models), uri)
    assert set(names) < set(found.runs)
    assert found.links.warnings == ()
    summary = found.client.get_run(found.links.summary_run_id)
    assert "difference/rr.low" in summary.data.metrics


def test_long_parameters_do_not_stop_a_run(make: SimpleNamespace, uri: str) -> None:
    params = {f"p{i}": "x" * 5999 for i in range(120)} | {"long": "x" * 6001, "empty": ""}
    found = log_all(Results(make.bakeoff(("knn",)), (make.model_result("knn", params=params),)), uri)
    stored = found.runs["knn"].data.params
    assert len(stored["model.p119"]) == 5999
    assert stored["model.empty"] == ""
    assert "model.long" not in stored
    assert "model.long is too long" in text(found.client, found.runs["knn"], "summary.md").replace("\\", "")


def test_when_every_model_fails_the_summary_has_failed_too(make: SimpleNamespace, uri: str) -> None:
    found = log_all(Results(make.bakeoff(("broken",)), (make.failed_result("broken"),)), uri)
    assert found.client.get_run(found.links.summary_run_id).info.status == "FAILED"
    assert found.links.warnings == ("no board was saved: no model has a value to show",)
    assert "searchFilter=" in found.links.board_url


def test_only_the_newest_boards_are_kept(make: SimpleNamespace, uri: str) -> None:
    client = connect(uri)
    experiment_id = client.create_experiment("toy bake-off")
    for i in range(22):
        key = f"{SHARED_VIEW_TAG}evalplugin-202501{i:02d}-120000-3f2a"
        client.set_experiment_tag(experiment_id, key, "{}")
    client.set_experiment_tag(experiment_id, f"{SHARED_VIEW_TAG}mine", "somebody's own view")
    log_all(make.whole(), uri)
    tags = client.get_experiment(experiment_id).tags
    boards = {key.removeprefix(SHARED_VIEW_TAG) for key in tags if key.startswith(SHARED_VIEW_TAG)}
    assert len(boards) == 21
    newest = {f"evalplugin-202501{i:02d}-120000-3f2a" for i in range(3, 22)}
    assert boards == {"mine", "evalplugin-20260101-120000-3f2a", *newest}


def test_an_older_mlflow_gets_all_but_the_board(make, uri, monkeypatch):
    monkeypatch.setattr("evalplugin.tracking.write.board._VIEWS_SINCE", (99, 0))
    found = log_all(make.whole(), uri)
    (warning,) = found.links.warnings
    assert warning.startswith("no board was saved: it takes MLflow 99.0 or newer, and this is ")
    assert found.client.get_run(found.links.summary_run_id).info.status == "FINISHED"
    assert "searchFilter=" in found.links.board_url
    assert "viewStateShareKey" not in found.links.board_url


def test_a_board_that_is_not_wanted_is_not_saved(make: SimpleNamespace, uri: str) -> None:
    found = log_all(make.whole(), uri, board=False)
    tags = found.client.get_experiment(found.links.experiment_id).tags
    assert not [key for key in tags if key.startswith(SHARED_VIEW_TAG)]
    assert "viewStateShareKey" not in found.links.board_url
    assert found.links.warnings == ()


def test_a_server_that_is_not_there_is_one_clear_error_within_seconds(make, monkeypatch):
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = time.monotonic()
    said = rf"MLflow at http://\*\*\*@127\.0\.0\.1:{port}: cannot reach it: "
    with pytest.raises(TrackingError, match=said) as caught:
        MlflowTracker.open(make.bakeoff(), f"http://ann:s3cret@127.0.0.1:{port}")
    assert time.monotonic() - start < 30  # MLflow's own settings take minutes
    assert "s3cret" not in str(caught.value)
    assert "MLFLOW_HTTP_REQUEST_MAX_RETRIES" not in os.environ


def test_unreachable_store_is_an_error_and_ending_open_runs_raises_nothing(make, uri):
    tracker = MlflowTracker.open(make.bakeoff(("knn",)), uri)
    run_id = start_model(make, tracker, "knn")
    tracker.client.delete_run(run_id)
    with pytest.raises(TrackingError, match="cannot log knn: "):
        tracker.finish_model(make.model_result("knn"))
    with pytest.raises(KeyboardInterrupt), tracker:
        raise KeyboardInterrupt
    deleted = tracker.client.search_runs([tracker.experiment_id], run_view_type=ViewType.DELETED_ONLY)
    assert [run.info.run_id for run in deleted] == [run_id]


def test_errors_of_any_client_that_mlflow_uses_are_tracking_errors(make, uri, monkeypatch):
    class AzureError(Exception):
        """Like those of the clients of object storage, which share no base class."""

    def fail(*_: object, **__: object) -> None:
        raise AzureError("the specified container does not exist")

    repository = "mlflow.store.artifact.local_artifact_repo.LocalArtifactRepository"
    monkeypatch.setattr(f"{repository}.log_artifact", fail)
    tracker = MlflowTracker.open(make.bakeoff(("knn",)), uri)
    tracker.start_model(make.data_info(), "knn", "x")
    with pytest.raises(TrackingError, match="cannot log knn: the specified container does not exist"):
        tracker.finish_model(make.model_result("knn"))


def test_a_database_that_is_not_there_is_tried_once(make, monkeypatch):
    import mlflow.store.db.utils

    attempts: list[float] = []
    monkeypatch.setattr(mlflow.store.db.utils.time, "sleep", attempts.append)
    with pytest.raises(TrackingError, match=r"cannot reach it: .*Connection refused"):
        MlflowTracker.open(make.bakeoff(("knn",)), "postgresql+psycopg2://me@127.0.0.1:9/none")
    assert attempts == []


def test_other_errors_pass_through_a_tracking_call(uri: str) -> None:
    with pytest.raises(ZeroDivisionError), tracking_call(uri, "divide"):
        raise ZeroDivisionError
