"""The process that logs: the same runs as without it, errors that are raised later, ends of all kinds."""

from __future__ import annotations

import pickle
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from evalplugin.base import secrets
from evalplugin.base.errors import TrackingError
from evalplugin.comparison.comparison import compare
from evalplugin.comparison.contest import contests_of
from evalplugin.tracking.write import background
from evalplugin.tracking.write.background import Logger, _Served
from evalplugin.tracking.write.items import Tag
from evalplugin.tracking.write.tracker import MlflowTracker, key_of

# Of the moment, of this process or of a run itself.
OWN = (
    "evalplugin.started",
    "evalplugin.checksums",
    "mlflow.runName",
    "evalplugin.board",
    "evalplugin.compare",
)


@pytest.fixture(autouse=True)
def _copied_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that logs finds an empty store, whose tables would take seconds to make."""
    open_runs = Logger.open

    def opened(self: Logger, uri: str, *args: Any, **options: Any) -> background.RemoteRuns:
        if not (file := Path(uri.removeprefix("sqlite:///"))).exists():
            shutil.copy(store, file)
        return open_runs(self, uri, *args, **options)

    monkeypatch.setattr(Logger, "open", opened)


@pytest.fixture(scope="module")
def logger() -> Iterator[Logger]:
    with Logger.started() as logger:
        assert logger is not None
        yield logger


def log_all(make: SimpleNamespace, uri: str, logger: Logger | None) -> SimpleNamespace:
    result = make.whole()
    with MlflowTracker.open(result.bakeoff, uri, logger=logger) as tracker:
        for model in result.models:
            tracker.start_model(model.data, model.model, model.type)
            tracker.finish_model(model)
        tracker.runs.wait()
        assert tracker.runs.complete == {key_of(model) for model in result.models}
        links = tracker.finish_bakeoff(result, [compare(contest) for contest in contests_of(result)])
        ids = [tracker.run_id(model) for model in result.models]
    client = MlflowClient(tracking_uri=uri)
    return SimpleNamespace(
        client=client, links=links, runs=[client.get_run(id) for id in [*ids, links.summary_run_id]]
    )


def content(client: MlflowClient, run: Run) -> dict[str, Any]:
    ids = {run.info.run_id, run.data.tags["evalplugin.bakeoff"]}
    tags = {
        key: value
        for key, value in run.data.tags.items()
        if not key.startswith(OWN) and not any(id in value for id in ids) and "http://" not in value
    }
    files = {
        file.path: file.file_size
        for folder in (None, "data")
        for file in client.list_artifacts(run.info.run_id, folder)
    }
    return {
        "name": run.info.run_name,
        "status": run.info.status,
        "metrics": run.data.metrics,
        "params": run.data.params,
        "tags": tags,
        "files": {
            path: size for path, size in files.items() if path not in ("comparison.html", "leaderboard.md")
        },
        "models": len(
            client.search_logged_models([run.info.experiment_id], f"source_run_id = '{run.info.run_id}'")
        ),
    }


def test_it_logs_what_this_process_would(make: SimpleNamespace, tmp_path: Path, logger: Logger) -> None:
    here = log_all(make, f"sqlite:///{tmp_path}/here.db", None)
    there = log_all(make, f"sqlite:///{tmp_path}/there.db", logger)
    assert [content(there.client, run) for run in there.runs] == [
        content(here.client, run) for run in here.runs
    ]
    assert there.links.board == here.links.board
    assert len(there.links.compared) == len(here.links.compared) > 1
    assert there.links.warnings == here.links.warnings


def started(make: SimpleNamespace, uri: str, logger: Logger, **options: Any) -> MlflowTracker:
    tracker = MlflowTracker.open(make.bakeoff(("knn",), baseline=None), uri, logger=logger, **options)
    tracker.start_model(make.data_info(), "knn", "x")
    return tracker


def test_an_error_is_raised_later_and_again(make: SimpleNamespace, tmp_path: Path, logger: Logger) -> None:
    tracker = started(make, f"sqlite:///{tmp_path}/mlflow.db", logger)
    tracker.runs.wait()
    with sqlite3.connect(tmp_path / "mlflow.db") as store:
        store.execute("drop table tags")
    key = key_of(make.model_result("knn", 0.5))
    tracker.runs.finish(key, [Tag("a", "b")], failed=False)  # no error yet
    with pytest.raises(
        TrackingError, match=r"^MLflow at sqlite:.*mlflow\.db: cannot log knn: .*no such table: tags"
    ):
        tracker.runs.wait()
    with pytest.raises(TrackingError, match="cannot log knn"):
        tracker.read("read", _name)
    assert tracker.runs.complete == set()


def test_a_store_that_cannot_be_used_is_refused_when_it_is_opened(
    make: SimpleNamespace, tmp_path: Path, logger: Logger
) -> None:
    (tmp_path / "mlflow.db").write_text("no database, whatever its name says")
    with pytest.raises(TrackingError, match="cannot reach it"):
        started(make, f"sqlite:///{tmp_path}/mlflow.db", logger)
    started(make, f"sqlite:///{tmp_path}/another.db", logger).runs.wait()


def test_open_runs_are_ended_when_this_process_is_interrupted(
    make: SimpleNamespace, tmp_path: Path, logger: Logger
) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    tracker = started(make, uri, logger)
    tracker.runs.wait()
    # The call that it is at is cut off, and the one behind it is not made.
    logger.call("read", ("wait", _sleep), {})
    logger.call("run_id", ("unknown",), {})
    with pytest.raises(KeyboardInterrupt), tracker:
        raise KeyboardInterrupt
    (run,) = MlflowClient(tracking_uri=uri).search_runs([tracker.experiment_id])
    assert run.info.status == "KILLED"


def test_what_a_store_holds_is_read_there(make: SimpleNamespace, tmp_path: Path, logger: Logger) -> None:
    tracker = started(make, f"sqlite:///{tmp_path}/mlflow.db", logger)
    assert tracker.read("read the name", _name, suffix="!") == f"{tracker.bakeoff.experiment}!"
    with pytest.raises(RuntimeError, match=r"(?s)the process that logs to MLflow failed:.*ZeroDivisionError"):
        tracker.read("divide", _divide)


def test_this_process_waits_only_when_much_is_to_be_logged(
    make: SimpleNamespace, tmp_path: Path, logger: Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = started(make, f"sqlite:///{tmp_path / 'mlflow.db'}", logger).runs
    runs.wait()
    logger.process.send_signal(signal.SIGSTOP)
    try:
        for _ in range(10):
            runs.log("log", {})
        assert logger.waiting == 10
        assert not logger.is_behind
        monkeypatch.setattr(background, "_MOST_WAITING", 300)  # a call has 34 bytes
        assert logger.is_behind
    finally:
        logger.process.send_signal(signal.SIGCONT)
    runs.log("log", {})
    assert logger.waiting < 11
    runs.wait()
    assert not logger.waiting


def test_secrets_stay_secret(make: SimpleNamespace, tmp_path: Path, logger: Logger) -> None:
    tracker = started(make, f"sqlite:///{tmp_path}/mlflow.db", logger)
    secrets.register_secret("hunter2-hunter2")
    run_id = tracker.run_id(make.model_result("knn", 0.5))
    tracker.tag(run_id, "note", "hunter2-hunter2")
    assert tracker.read("read the tag", _tag, run_id) == "***"


def test_an_interruption_while_it_waits_refuses_calls_and_loses_none() -> None:
    ended = []
    runs = SimpleNamespace(run_id=lambda key: "1", end_open=lambda: ended.append(True))
    served: Any = _Served(lambda: runs, runs)  # type: ignore[arg-type]
    served.interrupt(signal.SIGINT, None)
    number, value, error = pickle.loads(served.answer(pickle.dumps((1, "run_id", ("a",), {}, frozenset()))))
    assert (number, value, type(error)) == (1, None, KeyboardInterrupt)
    assert pickle.loads(served.answer(pickle.dumps((2, "end_open", (), {}, frozenset())))) == (
        2,
        None,
        None,
    )
    assert ended == [True]


def test_a_call_whose_temporary_folder_was_deleted_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "deleted"))
    calls = []

    def log_summary(items: list[str]) -> None:
        calls.append(items)
        try:
            tempfile.mkdtemp()
        except FileNotFoundError as error:
            raise TrackingError("cannot log") from error

    served: Any = _Served(lambda: None, SimpleNamespace(log_summary=log_summary))  # type: ignore[arg-type]
    call = pickle.dumps((1, "log_summary", (["item"],), {}, frozenset()))
    assert pickle.loads(served.answer(call)) == (1, None, None)
    assert calls == [["item"], ["item"]]


def test_it_ends_at_once_when_the_process_that_asks_is_gone(make: SimpleNamespace, tmp_path: Path) -> None:
    with Logger.started() as logger:
        assert logger is not None
        started(make, f"sqlite:///{tmp_path}/mlflow.db", logger).runs.wait()
        logger.call("read", ("wait", _sleep), {})
        assert logger.process.stdin is not None
        logger.process.stdin.close()
        assert logger.process.wait(20) == 0


def test_its_end_is_an_error_of_the_tracking(make: SimpleNamespace, tmp_path: Path) -> None:
    with Logger.started() as logger:
        assert logger is not None
        tracker = started(make, f"sqlite:///{tmp_path}/mlflow.db", logger)
        tracker.runs.wait()
        logger.process.send_signal(signal.SIGKILL)
        logger.process.wait()
        with pytest.raises(TrackingError, match="the process that logs to MLflow was ended by SIGKILL"):
            tracker.run_id(make.model_result("knn", 0.5))
        with pytest.raises(TrackingError, match="SIGKILL"):
            tracker.runs.end_summary("FINISHED")
        tracker.runs.end_open()  # nothing can be ended


def _name(client: MlflowClient, experiment_id: str, suffix: str = "") -> str:
    (name,) = (one.name for one in client.search_experiments() if one.experiment_id == experiment_id)
    return f"{name}{suffix}"


def _tag(client: MlflowClient, experiment_id: str, run_id: str) -> str:
    return str(client.get_run(run_id).data.tags["evalplugin.note"])


def _sleep(client: MlflowClient, experiment_id: str) -> None:
    signal.pause()


def _divide(client: MlflowClient, experiment_id: str) -> float:
    return 1 / 0
