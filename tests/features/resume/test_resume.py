"""Resuming: no task is computed twice and no result is lost after a crash: real processes, a real SQLite store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bakeoffs import fits, interrupt_bakeoff, run_bakeoff
from samples import RecordingObserver, line_of, small_config, write_config

import evalplugin
from evalplugin.base.errors import DataError, TrackingError
from evalplugin.cli import main
from evalplugin.config import CheckedConfig
from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, load_cached, prepare, results_of
from evalplugin.execution.store import Store, store_path
from evalplugin.execution.store.journal import Journal
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.tasks import Task, TaskResult, run_task
from evalplugin.features.base import Bakeoff
from evalplugin.features.config import load

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("no_drawing", "store")

PLUGIN = """
from dataclasses import dataclass
import sqlite3
import evalplugin

@evalplugin.model("counted")
@dataclass
class Counted:
    by: float = 1.0

    def fit(self, train, rng):
        with open("fits.txt", "a") as file:
            file.write("fit\\n")
        self.values = rng.random((train.n_users, train.n_items)) * self.by

    def scores(self, users):
        return self.values[users]

    def predict(self, users, items):
        return 1 + self.values[users, items]

@evalplugin.model("moody")
@dataclass
class Moody(Counted):
    '''Computes something else each time.'''

    def fit(self, train, rng):
        import numpy as np
        super().fit(train, np.random.default_rng())

@evalplugin.model("failing")
@dataclass
class Failing:
    def fit(self, train, rng):
        raise RuntimeError("no luck")

    def scores(self, users): ...

@evalplugin.model("breaking")
@dataclass
class Breaking:
    '''Takes the tracking store away: nothing that has to do with runs works any more.'''

    def fit(self, train, rng):
        rename("runs", "away")
        self.popularity = train.item_counts.astype(float)

    def scores(self, users):
        import numpy as np
        return np.tile(self.popularity, (len(users), 1))

def rename(old, new):
    with sqlite3.connect("mlflow.db") as store:
        store.execute("PRAGMA legacy_alter_table = ON")
        if store.execute("select 1 from sqlite_master where name = ?", (old,)).fetchone():
            store.execute(f"ALTER TABLE {old} RENAME TO {new}")
"""
DATA = [{"name": "tiny", "type": "synthetic", "n_users": 40, "n_items": 50, "n_interactions": 800}]


def write_own(folder: Path, **changes: Any) -> Path:
    (folder / "plugin.py").write_text(PLUGIN)
    own = {
        "plugins": ["plugin.py"],
        "datasets": DATA,
        "split": {"type": "kfold", "k": 2},
        "relevance": {},
        "recommend": {"n": 10},
        "metrics": ["ndcg@10", "rmse"],
        "models": ["counted", "failing", "popularity"],
        "segments": [],
        "compare": {"baseline": "popularity"},
    }
    return Path(write_config(small_config(**{**own, **changes}), folder / "config.yaml"))


def bake(config: Path, mode: Any = "run", **options: Any) -> tuple[Bakeoff, RecordingObserver]:
    said = RecordingObserver()
    return run_bakeoff(load(config), observer=said, mode=mode, **options), said


# ---- what MLflow's store holds, read without MLflow


COSTS = ("cost/", "tune/seconds")


def logged(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what each run holds, by its model or its role; costs of time and memory apart."""
    with sqlite3.connect(folder / "mlflow.db") as store:
        rows = {
            name: list(store.execute(f"select * from {name}"))
            for name in ("runs", "metrics", "params", "tags")
        }
        columns = {name: [c[1] for c in store.execute(f"pragma table_info({name})")] for name in rows}
    table = {name: [dict(zip(columns[name], row, strict=True)) for row in rows[name]] for name in rows}
    tags: dict[str, dict[str, str]] = defaultdict(dict)
    for tag in table["tags"]:
        tags[tag["run_uuid"]][tag["key"]] = tag["value"]
    found = {}
    for run in table["runs"]:
        own = tags[run["run_uuid"]]
        name = own.get("evalplugin.model", own["evalplugin.role"])
        assert name not in found, f"two runs of {name}"
        metrics: dict[tuple[str, int], list[float]] = defaultdict(list)
        for metric in table["metrics"]:
            if metric["run_uuid"] == run["run_uuid"]:
                metrics[metric["key"], metric["step"]].append(metric["value"])
        place = Path(run["artifact_uri"].removeprefix("file://"))
        found[name] = {
            "status": run["status"],
            "bakeoff": own["evalplugin.bakeoff"],
            "duplicates": {key for key, values in metrics.items() if len(values) > 1},
            "metrics": {k: v for k, v in metrics.items() if not k[0].startswith(COSTS)},
            "costs": {k: v for k, v in metrics.items() if k[0].startswith(COSTS)},
            "params": {p["key"]: p["value"] for p in table["params"] if p["run_uuid"] == run["run_uuid"]},
            "files": sorted(str(f.relative_to(place)) for f in place.rglob("*") if f.is_file()),
            "place": place,
        }
    return found


POINTS: dict[str, tuple[str | None, int, int]] = {
    "whole": (None, 0, 1),
    "reading-data": ("end read tiny", 1, 1),
    "a-run-was-made": ("after create_run", 1, 1),
    "fitting-the-second-fold": ("begin fit counted, fold 2 of 2", 1, 1),
    "scores-are-there-and-lists-are-not": ("before write lists", 2, 1),
    "stored-and-not-logged": ("begin log counted", 1, 1),
    "metrics-without-files": ("after log_batch", 1, 1),
    "after-a-model-that-failed": ("[2 of 3] failing", 1, 1),
    "logged-and-not-ended": ("before set_terminated", 3, 1),
    "comparing": ("begin compare", 1, 1),
    "the-summary-is-half-logged": ("after log_batch", 7, 1),
    "all-is-done-but-the-end": ("after set_terminated", 4, 1),
    # Models end in any order with workers: a failed one may be logged while the other's second fold is fitted.
    "with-workers": ("begin log counted", 1, 2),
}


QUICK_POINTS = ("scores-are-there-and-lists-are-not", "comparing")


@pytest.fixture(scope="module")
def killed(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, _empty_store: Path
) -> tuple[Path, dict[str, list[int]]]:
    """Bake-offs that were killed and resumed, at the points that the selected tests ask for."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "template").mkdir()
    write_own(folder / "template")
    asked = {item.callspec.params.get("point") for item in request.session.items if hasattr(item, "callspec")}
    points = {name: POINTS[name] for name in POINTS if name in {*asked, *QUICK_POINTS, "whole"}}
    return folder, kill_and_resume(folder, points, _empty_store)


def kill_and_resume(
    folder: Path, points: dict[str, tuple[str | None, int, int]], store: Path
) -> dict[str, list[int]]:
    """Return the exit codes by point: of the bake-off of FOLDER/template, killed there, and of the resumed one."""
    shutil.copy(store, folder / "template" / "mlflow.db")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "killing.py"), str(folder), json.dumps(points)],
        capture_output=True, text=True, check=False, timeout=1800, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    codes: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    return codes


FINISHED = {"counted": "FINISHED", "failing": "FAILED", "popularity": "FINISHED", "summary": "FINISHED"}


def assert_same_end(place: Path, uninterrupted: Path, statuses: Mapping[str, str] = FINISHED) -> None:
    """Compare what two bake-offs have logged, in their folders."""
    found, whole = logged(place), logged(uninterrupted)
    assert {name: run["status"] for name, run in found.items()} == statuses
    assert not any(run["duplicates"] for run in found.values())
    assert len({run["bakeoff"] for run in found.values()}) == 1
    for name, run in found.items():
        for what in ("metrics", "params", "files"):
            assert run[what] == whole[name][what], (name, what)
        assert set(run["costs"]) == set(whole[name]["costs"])
    for name, run in found.items():
        for file in (file for file in run["files"] if file.endswith(".parquet")):
            ours, theirs = (pd.read_parquet(runs[name]["place"] / file) for runs in (found, whole))
            costs = [column for column in ours if column.endswith("_seconds") or column == "cached"]
            pd.testing.assert_frame_equal(
                ours.drop(columns=costs), theirs.drop(columns=costs), check_exact=True
            )
    assert list((place / ".evalplugin/bakeoffs").iterdir()) == []


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(name, marks=() if name in QUICK_POINTS else pytest.mark.slow)
        for name in POINTS
        if name != "whole"
    ],
)
def test_killed_bake_off_resumes_to_the_same_result(point, killed):
    folder, codes = killed
    place = folder / point
    errors = place / "error.txt"
    assert codes[point] == [-signal.SIGKILL, 0], errors.read_text() if errors.exists() else ""
    assert_same_end(place, folder / "whole")
    # It is the bake-off that was killed, if that had begun.
    begun = json.loads((place / "bakeoffs.json").read_text())
    assert len(begun) == (0 if point == "reading-data" else 1)
    if begun:
        assert logged(place)["summary"]["bakeoff"] == begun[0]
    # Nothing whose lists were there was fitted again.
    fitted = 3 if point == "scores-are-there-and-lists-are-not" else 2
    assert len((place / "fits.txt").read_text().splitlines()) == fitted


def test_a_finished_model_is_not_logged_again(killed: tuple[Path, dict[str, list[int]]]) -> None:
    folder, _ = killed
    heard = json.loads((folder / "comparing" / "heard-resume.json").read_text())
    # What the comparison says of each of the three models, the summary; nothing of the models themselves.
    assert Counter(heard)["after log_batch"] == 3 + 1
    assert Counter(heard)["after log_inputs"] == 0
    assert any(line.startswith("continuing the bake-off") for line in heard)
    assert not any(line.startswith("begin fit") for line in heard)


@pytest.mark.slow
def test_resume_does_not_retry_failed_model(killed: tuple[Path, dict[str, list[int]]]) -> None:
    folder, _ = killed
    heard = json.loads((folder / "after-a-model-that-failed" / "heard-resume.json").read_text())
    assert not any("fit failing" in line for line in heard)


# ---- taking from the store


def test_an_unchanged_run_computes_nothing_and_gives_the_same_to_the_last_bit(tmp_path: Path) -> None:
    config = write_own(tmp_path)
    first, said = bake(config)
    assert fits() == 2
    assert not said.has("are not computed again")
    again, said = bake(config)
    assert fits() == 2
    assert said.has(
        f"4 of 6 tasks are in the store {Path.cwd()}/.evalplugin and are not computed again; their costs are those "
        f"measured when they were (--fresh computes anew)"
    )
    assert again.plan.id != first.plan.id
    for one, other in zip(first.models, again.models, strict=True):
        assert one.costs == other.costs
        assert repr(one.fold_means) == repr(other.fold_means)
        if one.error is None:
            assert one.per_user.values.tobytes() == other.per_user.values.tobytes()
            assert one.per_user.users.tolist() == other.per_user.users.tolist()
            assert one.top_n.equals(other.top_n)


def test_fresh_computes_anew_and_what_it_computed_is_used_from_then_on(tmp_path: Path) -> None:
    config = write_own(tmp_path, models=["counted"], compare={})
    bake(config)
    fresh, said = bake(config, "fresh")
    assert fits() == 4
    assert not said.has("are not computed again")
    again, _ = bake(config)
    assert fits() == 4
    assert again.models[0].costs == fresh.models[0].costs


def test_a_new_metric_on_old_lists_is_scored_without_a_fit(tmp_path: Path) -> None:
    models = ["counted", "popularity"]
    bake(write_own(tmp_path, metrics=["ndcg@10"], models=models))
    metrics = ["recall@5", "ndcg@10", "rmse", "coverage@10"]
    config = write_own(tmp_path, metrics=metrics, models=models, relevance={"threshold": 3.0})
    again, said = bake(config)
    assert fits() == 2
    assert not said.has("are not computed again")
    assert said.has("the lists of 4 of 4 tasks are in the store and are only scored")
    scores = again.models[0].per_user
    assert scores.metrics == ("recall@5", "ndcg@10", "rmse")
    assert np.isfinite(scores.column("rmse")).any()
    anew, _ = bake(config, "fresh")
    assert anew.models[0].per_user.values.tobytes() == scores.values.tobytes()


@pytest.mark.parametrize(
    ("changes", "fitted"),
    [
        ({"models": [{"name": "renamed", "type": "counted"}], "compare": {}}, 0),
        ({"experiment": "another", "workers": 2, "tracking": {"board": False}}, 0),
        ({"models": [{"type": "counted", "params": {"by": 2.0}}, "popularity"]}, 2),
        ({"seed": 4}, 2),
        ({"recommend": {"n": 11}}, 2),
        ({"recommend": {"n": 10, "candidates": "all"}}, 2),
        ({"split": {"type": "kfold", "k": 3}}, 3),
        ({"datasets": [{**DATA[0], "seed": 9}]}, 2),
    ],
    ids=["name", "tracking and workers", "parameter", "seed", "n", "candidates", "split", "data"],
)
def test_changed_dependency_invalidates_cached_lists(tmp_path, changes, fitted):
    models = {"models": ["counted", "popularity"], "metrics": ["ndcg@10"]}
    assert computed(write_own(tmp_path, **models)) == 2
    assert computed(write_own(tmp_path, **{**models, **changes})) == fitted


def computed(config: Path) -> int:
    """Return how many fits of the counted model a config takes; nothing is logged."""
    before, checked = fits(), load(config)
    cache = StepCache(Store(store_path()))
    jobs = jobs_of(checked, prepare(checked, None, Observer()))
    load_cached(jobs, cache)
    for _ in results_of(jobs, sequential_executor(Observer()), cache):
        pass
    return fits() - before


def test_a_damaged_entry_is_computed_anew_with_the_same_result(tmp_path: Path) -> None:
    config = write_own(tmp_path, models=["counted"], compare={})
    first, _ = bake(config)
    store = Store(store_path())
    for facts in store.entries():
        file = next(store.folder_of(facts.key).glob("*.zst"))
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(bytes(content))
    again, said = bake(config)
    assert fits() == 4
    assert said.has("is damaged and is computed anew")
    assert not said.has("are in the store")
    assert first.models[0].per_user.values.tobytes() == again.models[0].per_user.values.tobytes()


def task_of(checked: CheckedConfig) -> Task:
    return jobs_of(checked, prepare(checked, None, Observer()))[0].tasks[0]


@pytest.mark.parametrize("text", [False, True], ids=["whole numbers", "text"])
def test_every_step_reads_back_bit_by_bit(tmp_path: Path, text: bool) -> None:
    rng = np.random.default_rng(1)
    pairs = rng.permutation(20 * 30)[:300]
    ids = [f'ü"{p // 30}' for p in pairs] if text else (pairs // 30).tolist()
    frame = pd.DataFrame({"user": ids, "item": pairs % 30, "rating": rng.random(300), "at": range(300)})
    data = {"type": "dataframe", "frame": frame, "rating": "rating"}
    datasets = [{**data, "timestamp": "at"} if text else data]
    checked = load(
        small_config(
            datasets=datasets,
            split={"type": "holdout", "fraction": 0.3},
            relevance={},
            recommend={"n": 8, "candidates": "sampled", "negatives": 3},
            metrics=["ndcg@5", "coverage@5", "rmse"],
            models=["surprise.BaselineOnly"],
            compare={},
        )
    )
    cache = StepCache(Store(tmp_path))
    task = task_of(checked)
    made = run_task(task, "x", Observer())
    assert cache.store_result(task, made) is made
    read = StepCache(Store(tmp_path)).result(task_of(checked))
    assert (read.costs, read.lists.costs) == (made.costs, made.lists.costs)
    assert_same_arrays(read.top_n, made.top_n, "user", "item", "score")
    assert_same_arrays(read.lists, made.lists, "predictions")
    assert_same_arrays(read.per_user, made.per_user, "values")
    assert read.per_user.users.tolist() == made.per_user.users.tolist()
    for name in ("metrics", "overall", "at_k", "pr_curve", "means"):
        assert repr(getattr(read.per_user, name)) == repr(getattr(made.per_user, name))


def assert_same_arrays(ours: object, theirs: object, *names: str) -> None:
    for name in names:
        a, b = getattr(ours, name), getattr(theirs, name)
        assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())


def test_model_defined_in_notebook_is_never_cached(tmp_path: Path) -> None:
    from dataclasses import dataclass

    @evalplugin.model("of a notebook")
    @dataclass
    class OfANotebook:
        def fit(self, train: Any, rng: Any) -> None:
            self.n_items = train.n_items

        def scores(self, users: Any) -> Any:
            return np.zeros((len(users), self.n_items))

    OfANotebook.__module__ = "__main__ of a notebook"
    checked = load(small_config(metrics=["ndcg@5"], models=["of a notebook"], compare={}))
    cache = StepCache(Store(tmp_path))
    task = task_of(checked)
    result = run_task(task, "x", Observer())
    assert cache.store_result(task, result) is result
    assert cache.store.entries() == []
    assert cache.result(task) is None


def test_unneeded_predictions_may_fail_and_are_retried_when_needed(tmp_path):
    odd = PLUGIN.replace("return 1 + self.values[users, items]", 'raise ValueError("no ratings")')
    (tmp_path / "odd.py").write_text(odd)
    asked = {"plugins": ["odd.py"], "models": ["counted"], "compare": {}, "metrics": ["ndcg@10"]}
    assert computed(write_own(tmp_path, **asked)) == 2
    assert computed(write_own(tmp_path, **asked)) == 0
    checked = load(write_own(tmp_path, **{**asked, "metrics": ["ndcg@10", "rmse"]}))
    cache = StepCache(Store(store_path()))
    jobs = jobs_of(checked, prepare(checked, None, Observer()))
    ((_, result),) = results_of(jobs, sequential_executor(Observer()), cache)
    line = line_of("return 1 + self.values[users, items]", PLUGIN)
    assert result.failure == f"odd.py:{line}: ValueError: no ratings"


def test_full_disk_does_not_lose_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = RecordingObserver()
    cache = StepCache(Store(tmp_path / "s", report=said.report))
    task = task_of(load(write_own(tmp_path, models=["popularity"])))

    def full(*args: Any, **kwargs: Any) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "write", full)
    result = run_task(task, "x", Observer())
    assert cache.store_result(task, result) is result
    assert said.has("store: cannot keep the lists of popularity (popularity): 10 items for each of")
    assert said.has("No space left on device")


def assert_of_its_lists(task: Task, result: TaskResult | None) -> None:
    scores = run_task(replace(task, lists=result.lists), "x", Observer()).per_user
    assert scores.values.tobytes() == result.per_user.values.tobytes()


def test_recomputed_lists_get_their_own_scores(tmp_path: Path) -> None:
    cache = StepCache(Store(tmp_path / "s"))
    task = task_of(load(write_own(tmp_path, models=["moody"], compare={})))
    first = cache.store_result(task, run_task(task, "x", Observer()))
    lists = next(facts.key for facts in cache.store.entries() if facts.step == "lists")
    (cache.store.folder_of(lists) / "item.zst").unlink()
    assert cache.result(task) is None
    second = cache.store_result(task, run_task(task, "x", Observer()))
    assert second.top_n.item.tobytes() != first.top_n.item.tobytes()
    read = cache.result(task)
    for result in (second, read):
        assert_of_its_lists(task, result)
    assert read.top_n.item.tobytes() == second.top_n.item.tobytes()


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_concurrent_processes_end_with_matching_lists_and_scores(tmp_path, turn, monkeypatch):
    ours, theirs = StepCache(Store(tmp_path / "s")), StepCache(Store(tmp_path / "s"))
    task = task_of(load(write_own(tmp_path, models=["moody"], compare={})))
    second = run_task(task, "x", Observer())
    calls, found, write = 0, [], ours.store.write

    def in_between(*args: Any, **kwargs: Any) -> bool:
        nonlocal calls
        calls += 1
        if calls == turn:
            found.append(theirs.store_result(task, second))
        return write(*args, **kwargs)

    monkeypatch.setattr(ours.store, "write", in_between)
    found.append(ours.store_result(task, run_task(task, "x", Observer())))
    if turn == 3:  # after us
        found.append(theirs.store_result(task, second))
    one, other = found
    assert one.top_n.item.tobytes() == other.top_n.item.tobytes()
    assert one.costs == other.costs
    for result in (one, other, ours.result(task)):
        assert_of_its_lists(task, result)


# ---- resuming


def test_resume_without_unfinished_bake_off_is_an_ordinary_run(tmp_path: Path) -> None:
    config = write_own(tmp_path, models=["popularity"])
    outcome, said = bake(config, "resume")
    assert not said.has("continue")  # as on the first night of a schedule
    assert outcome.models[0].error is None
    assert list(Store(store_path()).journals.iterdir()) == []


def interrupted(config: Path, **options: Any) -> RecordingObserver:
    """Run a bake-off that is interrupted when it compares, as by Ctrl-C."""
    return interrupt_bakeoff(load(config), **options)


def test_interrupted_bake_off_resumes_in_the_same_runs(tmp_path, monkeypatch):
    config = write_own(tmp_path, models=["popularity", "counted"])
    monkeypatch.setenv("EVALPLUGIN_STORE", "a store")
    said = interrupted(config, command=["config.yaml", "--set", "a b"])
    assert said.lines[-1] == (
        "to go on: EVALPLUGIN_STORE='a store' python -m evalplugin run --resume config.yaml --set 'a b'"
    )
    before = logged(Path.cwd())
    assert {run["status"] for run in before.values()} == {"FINISHED"}
    outcome, said = bake(config, "resume")
    assert said.has(f"continuing the bake-off {outcome.plan.id}, started ")
    assert {run["bakeoff"] for run in logged(Path.cwd()).values()} == {before["counted"]["bakeoff"]}
    assert "summary" in logged(Path.cwd())
    assert fits() == 2


def test_ordinary_run_abandons_unfinished_bake_off(tmp_path: Path) -> None:
    config = write_own(tmp_path, models=["popularity"])
    said = interrupted(config)
    assert said.lines[-1] == "to go on: evalplugin.run(..., resume=True)"
    outcome, said = bake(config)
    assert said.has("which was cut off, is given up for this one; use resume=True to continue one instead")
    interrupted(config, command=["config.yaml"])
    _, said = bake(config, command=["config.yaml"])
    assert said.has("is given up for this one; use --resume to continue one instead")
    _, said = bake(config, "resume")
    assert not said.has("continu")
    assert outcome.models[0].error is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("data", "differs in the data"),
        ("plugin", "differs in the code (evalplugin, its libraries or a plugin)"),
        ("experiment", "differs in the experiment"),
        ("config", "no bake-off of this config was cut off"),
    ],
)
def test_resume_refuses_changed_data_code_or_experiment(tmp_path: Path, change: str, words: str) -> None:
    data = pd.DataFrame({"user": [1, 1, 1, 2, 2, 2], "item": [1, 2, 3, 1, 2, 3]})
    data.to_csv(tmp_path / "data.csv", index=False)
    small = {"datasets": [{"type": "csv", "path": "data.csv"}], "split": {"type": "holdout", "fraction": 0.4}}
    small |= {"metrics": ["ndcg@10"], "models": ["counted"], "compare": {}}
    config = write_own(tmp_path, **small)
    interrupted(config)
    options = {}
    if change == "data":
        with (tmp_path / "data.csv").open("a") as file:
            file.write("3,1\n3,2\n")
    elif change == "plugin":
        (tmp_path / "plugin.py").write_text(PLUGIN + "# changed\n")
    elif change == "config":
        write_own(tmp_path, **{**small, "seed": 8})
    else:
        options = {"experiment": "another"}
    outcome, said = bake(config, "resume", **options)
    assert said.has("nothing to continue: ")
    assert said.has(words), said.lines
    assert outcome.models[0].error is None


def test_resume_skips_bake_off_of_running_process(tmp_path: Path) -> None:
    config = write_own(tmp_path, models=["popularity"])
    interrupted(config)
    (path,) = Store(store_path()).journals.glob("*.jsonl")
    held = Journal.reopen(path)
    _, said = bake(config, "resume")
    assert said.has("is being run by another process; this is a new one")
    held.close(finished=True)


def test_a_fresh_bake_off_is_resumed_with_what_it_computed_itself(tmp_path: Path) -> None:
    config = write_own(tmp_path, models=["counted"], compare={})
    old, _ = bake(config)
    interrupted(config, mode="fresh")
    assert fits() == 4
    outcome, _ = bake(config, "resume")
    assert fits() == 4
    assert outcome.models[0].costs != old.models[0].costs


def test_resumed_fresh_bake_off_ignores_older_entries(tmp_path, monkeypatch):
    config = write_own(tmp_path, models=["counted"], compare={})
    old, _ = bake(config)
    write = Store.write

    def cut_off(self: Store, about: str, depends_on: Any, *args: Any, **kwargs: Any) -> bool:
        if depends_on["step"] == "lists":
            raise KeyboardInterrupt
        return write(self, about, depends_on, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "write", cut_off)
        with pytest.raises(KeyboardInterrupt):
            bake(config, "fresh")
    assert fits() == 3
    outcome, said = bake(config, "resume")
    assert not said.has("are not computed again")
    assert fits() == 5
    assert outcome.models[0].costs != old.models[0].costs


def test_resume_and_fresh_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"either continued \(resume\) or computed anew \(fresh\), not both"):
        evalplugin.run(write_own(tmp_path), resume=True, fresh=True)


def test_from_python_too_a_bake_off_is_resumed_and_has_workers_and_limits(tmp_path: Path) -> None:
    limits = {"seconds": 100.0, "memory": "4GB"}
    relevance = {"threshold": 3}
    config = write_own(tmp_path, models=["counted", "popularity"], limits=limits, relevance=relevance)
    interrupted(config)
    outcome = evalplugin.run(config, resume=True, workers=2)
    assert not outcome.failed
    assert fits() == 2


# ---- a tracking store that goes away


def test_lost_tracking_store_does_not_lose_results(tmp_path, capsys):
    config = write_own(tmp_path, models=["popularity", "breaking", "counted"])
    assert main(["run", str(config), "--set", "experiment=away"]) == 1
    err = capsys.readouterr().err
    assert "the models that are left are computed and kept in the store" in err
    assert f"computed is in the store {Path.cwd()}/.evalplugin; to go on: python -m evalplugin run " in err
    assert f"--resume {config} --set experiment=away" in err
    assert "[3 of 3] counted" in err
    assert fits() == 2
    again = ["run", "--resume", str(config), "--set", "experiment=away"]
    assert main(again) == 1  # it is still away
    assert "no such table: runs" in capsys.readouterr().err
    rename("away", "runs")
    assert main(again) == 0
    out, err = capsys.readouterr()
    assert "6 of 6 tasks are in the store" in err
    assert "counted" in out
    assert fits() == 2
    found = logged(Path.cwd())
    assert {name: run["status"] for name, run in found.items()} == dict.fromkeys(
        ("popularity", "breaking", "counted", "summary"), "FINISHED"
    )
    assert not any(run["duplicates"] for run in found.values())


def rename(old: str, new: str) -> None:
    # Other tests have loaded plugins of theirs in this process: this test's was the last.
    plugins = [m for name, m in sys.modules.items() if name.startswith("evalplugin_plugin_")]
    next(m for m in reversed(plugins) if hasattr(m, "rename")).rename(old, new)


def test_unreachable_tracking_store_leaves_no_journal(tmp_path: Path) -> None:
    config = write_own(tmp_path, models=["counted"], compare={})
    (tmp_path / "no.db").write_text("no database " * 100)
    with pytest.raises(TrackingError, match=r"cannot reach it: .*not a database"):
        bake(config, tracking_uri=f"sqlite:///{tmp_path}/no.db")
    assert fits() == 0
    assert list(Store(store_path()).journals.iterdir()) == []
