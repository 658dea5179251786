"""Values of a tracking store that were changed: each is named with its run, and left out or refused."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mlflow import MlflowClient
from samples import small_config

import evalplugin
from evalplugin.base.errors import DataError, EvalpluginError, TrackingError
from evalplugin.comparison.comparison import compare
from evalplugin.config.gate import Gate
from evalplugin.features.gate.command import decide_logged
from evalplugin.features.history.feature import read_past
from evalplugin.features.history.history import history_of
from evalplugin.tracking.read.contests import read_contests
from evalplugin.tracking.read.logged import VALUES, LoggedRun

CHANGED = {"tags": "x", "params": "x", "latest_metrics": 0.123}


@dataclass
class Store:
    """A store of two bake-offs, with the values that can be changed in it."""

    uri: str
    file: Path
    tuned: str = ""  # the latest run of the tuned model
    summary: str = ""

    def values(self, run: str) -> list[tuple[str, str, str]]:
        """Return table, run and key of every tag, parameter and metric of a run."""
        with closing(sqlite3.connect(self.file)) as db:
            return [
                (table, run, key)
                for table in ("tags", "params", "latest_metrics")
                for _, key in db.execute(f"SELECT run_uuid, key FROM {table} WHERE run_uuid = '{run}'")
                if not key.startswith("mlflow.") and key != VALUES
            ]

    def set(self, table: str, run: str, key: str, value: Any) -> Any:
        """Set a value and return the one before; a metric's NaN is written as MLflow writes it."""
        where = f"WHERE run_uuid = '{run}' AND key = '{key}'"
        nan = value != value
        with closing(sqlite3.connect(self.file)) as db, db:
            (before,) = db.execute(f"SELECT value FROM {table} {where}").fetchone()
            db.execute(f"UPDATE {table} SET value = ? {where}", (0.0 if nan else value,))
            if table == "latest_metrics":
                db.execute(f"UPDATE {table} SET is_nan = ? {where}", (nan,))
        return before

    def drop(self, run: str, tag: str) -> tuple[str, str]:
        """Delete a tag and return it."""
        client = MlflowClient(self.uri)
        text = client.get_run(run).data.tags[tag]
        client.delete_tag(run, tag)
        return tag, text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, _empty_store: Path, no_drawing: None) -> Store:
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copy(_empty_store, folder / "mlflow.db")
    found = Store(f"sqlite:///{folder / 'mlflow.db'}", folder / "mlflow.db")
    for seed in (1, 2):
        outcome = evalplugin.run(
            small_config(
                seed=seed,
                models=[
                    "popularity",
                    {"type": "sklearn.NearestNeighbors", "tune": {"n_neighbors": [5, 20]}},
                    "random",
                ],
                tune={"budget": {"trials": 2}},
                gate={"decisions": 9, "min_users": 2},
            ),
            tracking_uri=found.uri,
        )
    found.summary = outcome.links.summary_run_id
    client = MlflowClient(found.uri)
    runs = client.search_runs([outcome.links.experiment_id], "params.`tune.metric` != ''")
    found.tuned = runs[0].info.run_id  # the latest first
    return found


COMMANDS: dict[str, Callable[[str], object]] = {
    "compare": lambda uri: [compare(one) for one in read_contests(uri)],
    "history": lambda uri: history_of("shop", read_past(uri, experiment="shop")),
    "gate": lambda uri: decide_logged(
        Gate(decisions=9, min_users=2), bakeoff="latest", tracking_uri=uri, counted=False
    ),
}


@pytest.mark.slow
def test_every_value_of_a_models_run_that_was_changed_is_named(store: Store) -> None:
    client, run = MlflowClient(store.uri), store.tuned
    assert LoggedRun(client, client.get_run(run)).changed_values == []
    named = 0
    for table, _, key in store.values(run):
        before = store.set(table, run, key, CHANGED[table])
        (changed,) = LoggedRun(client, client.get_run(run)).changed_values or ("",)
        store.set(table, run, key, before)
        if table == "tags" and not changed:
            continue  # it is not read back, or changes when all models are compared
        assert f" {key} = " in changed or key.startswith("vs_baseline/"), (key, changed)
        named += 1
    assert named > 70
    with closing(sqlite3.connect(store.file)) as db, db:
        db.execute("CREATE TEMP TABLE lost AS SELECT * FROM params WHERE run_uuid = ? LIMIT 2", (run,))
        db.execute("DELETE FROM params WHERE key IN (SELECT key FROM lost) AND run_uuid = ?", (run,))
        db.commit()
        assert LoggedRun(client, client.get_run(run)).changed_values == ["2 lost values"]
        db.execute("INSERT INTO params SELECT * FROM lost")


@pytest.mark.parametrize("key", ["metrics.ndcg_at_10", "tags.evalplugin.place", "params.eval.n"])
def test_a_damaged_run_is_left_out_by_name_and_nothing_is_decided_on_it(store: Store, key: str) -> None:
    table, _, key = key.partition(".")
    table = "latest_metrics" if table == "metrics" else table
    before = store.set(table, store.tuned, key, CHANGED[table])
    said = rf"run sklearn\.NearestNeighbors \({store.tuned}\) is left out: not what was logged are the .* {key} = "
    try:
        (contest,) = read_contests(store.uri)
        assert [one.model for one in contest.models] == ["popularity", "random"]
        assert any(re.match(said, note) for note in contest.notes)
        history = history_of("shop", read_past(store.uri, experiment="shop"))
        assert store.tuned not in {point.model.run_id for point in history.points}
        assert re.match(said, history.damaged[0])
        with pytest.raises(DataError, match=f"nothing is decided on damaged runs: {said}"):
            COMMANDS["gate"](store.uri)
    finally:
        store.set(table, store.tuned, key, before)


def test_an_error_that_may_come_of_what_was_left_out_names_it(store: Store) -> None:
    before = store.set("params", store.tuned, "eval.n", "x")
    said = (
        rf"no model is called 'sklearn\.NearestNeighbors' .*\n.*{store.tuned}\) is left out: .* eval\.n = 'x'"
    )
    try:
        with pytest.raises(DataError, match=said):
            read_contests(store.uri, baseline="sklearn.NearestNeighbors")
    finally:
        store.set("params", store.tuned, "eval.n", before)


def test_lost_data_are_named(store: Store) -> None:
    with closing(sqlite3.connect(store.file)) as db, db:
        rows = db.execute("SELECT * FROM inputs WHERE destination_id = ?", (store.tuned,)).fetchall()
        db.execute("DELETE FROM inputs WHERE destination_id = ?", (store.tuned,))
        db.commit()
        (damaged,) = history_of("shop", read_past(store.uri, experiment="shop")).damaged
        db.executemany(f"INSERT INTO inputs VALUES ({','.join('?' * len(rows[0]))})", rows)
    assert damaged.endswith("2 lost values")


def test_an_outcome_that_no_gate_has_is_named(store: Store) -> None:
    before = store.set("tags", store.summary, "evalplugin.outcome", "x")
    history = history_of("shop", read_past(store.uri, experiment="shop"))
    store.set("tags", store.summary, "evalplugin.outcome", before)
    assert history.points[-1].outcome is None
    assert "has the tag evalplugin.outcome = 'x', which no gate has decided" in history.damaged[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sealed", "values"), [(True, ("x", "nan")), (False, ("", "-1", "nan", "[1]", "1e400"))]
)
def test_no_value_breaks_a_command(store: Store, sealed: bool, values: tuple[str, ...]) -> None:
    """Each key has one of the values, in turn: all commands with every value of every key would take minutes."""
    seals = {} if sealed else {run: store.drop(run, VALUES) for run in (store.tuned,)}
    try:
        for run in (store.tuned, store.summary):
            for (table, _, key), value in zip(store.values(run), cycle(values)):
                if table != "latest_metrics":
                    _run_all_with(store, table, run, key, value)
                elif value in ("nan", "-1"):
                    _run_all_with(store, table, run, key, float(value))
    finally:
        for run, (key, text) in seals.items():
            MlflowClient(store.uri).set_tag(run, key, text)


def _run_all_with(store: Store, table: str, run: str, key: str, value: str | float) -> None:
    """Run every command on a store with one value changed: it ends well or with an error of ours."""
    before = store.set(table, run, key, value)
    try:
        for command, call in COMMANDS.items():
            try:
                with suppress(EvalpluginError):
                    call(store.uri)
            except Exception as error:
                raise AssertionError(f"{command}: {table} {key} = {value!r}") from error
    finally:
        store.set(table, run, key, before)


def test_values_of_another_run_are_checked_where_they_enter() -> None:
    def run(params: dict[str, str] | None = None, start: int | None = 0, **tags: str) -> LoggedRun:
        info = SimpleNamespace(
            run_id="1",
            run_name="theirs",
            status="FINISHED",
            experiment_id="1",
            start_time=start,
            end_time=None,
        )
        data = SimpleNamespace(
            params=params or {}, metrics={}, tags={f"evalplugin.{key}": text for key, text in tags.items()}
        )
        return LoggedRun(cast(Any, None), cast(Any, SimpleNamespace(info=info, data=data, inputs=None)))

    for start in (None, 10**18, -(10**18)):
        assert run(start=start).started.year == 1970
    deep = "[" * 5000
    assert run(place="9" * 5000).place == 0
    for text in (deep, "5", '"text"', "{}"):
        assert run(warnings=text).warnings == run(notes=text).notes == run(checks=text).findings == ()
    for text in (deep, "5", "[]"):
        assert run(definitions=text).mapping("definitions") == {}
        with pytest.raises(TrackingError, match=r"run theirs .1. does not say which way is better"):
            _ = run(given=text).given
    for text in ("1000000000", "9" * 5000, "-1", "1.5", "x"):
        with pytest.raises(
            TrackingError,
            match=r"run theirs .1.: the parameter split.folds is .* not a whole number from 0 to",
        ):
            _ = run({"split.folds": text}).folds
    assert run({"split.folds": "3", "eval.seed": str(2**63 - 1)}).folds == 3
