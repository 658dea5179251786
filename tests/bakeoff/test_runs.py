"""Whole bake-offs, as a user runs them: a command line, a YAML file, a real SQLite store."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import FAILING, line_of, small_config, write_config

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.execution.results import Finding

pytestmark = pytest.mark.usefixtures("store")

ROOT = Path(__file__).parents[2]

WAITING = """
import sys, time
from dataclasses import dataclass
import evalplugin

@evalplugin.model("waiting")
@dataclass
class Waiting:
    def fit(self, train, rng):
        print("now waiting", file=sys.stderr, flush=True)
        time.sleep(600)

    def scores(self, users): ...
"""


def config(folder: Path, **changes: Any) -> Path:
    file = folder / "config.yaml"
    write_config(small_config(**{"experiment": "whole", **changes}), file)
    return file


def start(*argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "evalplugin", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # under nohup it would be ignored
    )  # fmt: skip


def run_process(*argv: str) -> tuple[int, str, str]:
    process = start(*argv)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process, which has imported everything: exit code, stdout and stderr."""

    def run(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return (main(argv), *capsys.readouterr())

    return run


def runs(folder: Path) -> dict[str, Any]:
    """Return the runs of the store in a folder: model or role -> run."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiments = [e.experiment_id for e in client.search_experiments()]
    found = client.search_runs(experiments)
    return {r.data.tags.get("evalplugin.model") or r.data.tags["evalplugin.role"]: r for r in found}


def artifact(run: Any, path: str) -> Path:
    return Path(run.info.artifact_uri.removeprefix("file://")) / path


def test_a_bake_off_ends_with_a_table_links_and_runs_that_hold_every_users_scores(tmp_path: Path) -> None:
    code, out, err = run_process("run", str(config(tmp_path)))
    assert code == 0, err
    for word in (
        "tiny, last_n",
        "ndcg@10",
        "popularity",
        "random (baseline)",
        "popularity is the best: ",
        "page     python -m evalplugin open ",
    ):
        assert word in out
    assert len(out.splitlines()) < 60
    assert max(len(line) for line in out.splitlines() if "▲" in line and "0." in line) <= 100
    assert "board " not in out
    found = runs(Path.cwd())
    assert set(found) == {"random", "popularity", "summary"}
    assert {r.info.status for r in found.values()} == {"FINISHED"}
    scores = pd.read_parquet(artifact(found["random"], "data/per_user.parquet"))
    lists = pd.read_parquet(artifact(found["random"], "data/top_n.parquet"))
    assert list(lists.columns) == ["user", "item", "rank", "score"]
    assert lists.groupby("user").size().max() == 20
    logged = found["random"].data.metrics
    assert logged["ndcg_at_10"] == pytest.approx(np.nanmean(scores["ndcg@10"]), abs=1e-12)
    items = pd.read_parquet(artifact(found["random"], "data/per_item.parquet")).set_index("item")
    truth = pd.read_parquet(artifact(found["random"], "data/truth.parquet")).query("rating >= 4")
    hits = lists.merge(truth, on=["user", "item"])
    for name, rows in {"listed": lists, "truth": truth, "hit": hits}.items():
        assert items[items[name] > 0][name].to_dict() == rows["item"].value_counts().to_dict()
    for run_ in (found["random"], found["popularity"]):
        names = {file.name for file in artifact(run_, "data").iterdir()}
        assert {"truth.parquet", "history.parquet", "segments.parquet"} <= names
    segments = pd.read_parquet(artifact(found["random"], "data/segments.parquet"))
    assert list(segments.columns) == ["user", "activity", "popularity", "train_interactions"]
    group = segments.groupby("activity")["user"].apply(set)
    for label, users in group.items():
        mean = scores[scores["user"].isin(users)]["ndcg@10"].mean()
        assert logged[f"segment/ndcg_at_10.activity_{label}"] == pytest.approx(mean, abs=1e-12)
    summary = artifact(found["random"], "summary.md").read_text()
    assert "## For whom" in summary
    assert "segment cold is not shown: all 60 test users are in one group" in summary


def test_a_warning_about_lists_is_printed_once(tmp_path: Path, run: Run) -> None:
    (tmp_path / "lists.csv").write_text("user,item,rank\n-1,1,1\n1,2,1\n")
    vendor = {"name": "vendor", "type": "lists", "params": {"path": str(tmp_path / "lists.csv")}}
    code, _, err = run("run", str(config(tmp_path, models=["random", vendor, "popularity"])))
    assert code == 0, err
    assert err.count("vendor: left out: 1 user that the data does not have") == 1


def test_a_warning_about_the_data_is_in_the_terminal_the_summary_the_page_and_the_comparison(tmp_path, run):
    code, _, err = run("run", str(config(tmp_path, relevance={})))
    assert code == 0, err
    found = runs(Path.cwd())
    (finding,) = json.loads(found["random"].data.tags["evalplugin.provenance"])["checks"]
    warning = Finding(**finding).line
    assert warning.startswith("EV114 tiny: relevance.threshold is not set")
    # Once, before anything is fitted; the end names its code.
    assert err.count(f"warning: {warning}\n") == 1
    assert "\nwarnings printed above: EV114\n" in err
    assert err.index(warning) < err.index("random: fit")
    summary = artifact(found["random"], "summary.md").read_text()
    assert "## Warnings\n\n- EV114 tiny: relevance.threshold is not set" in summary
    leaderboard = artifact(found["summary"], "leaderboard.md").read_text()
    assert "**Warning:** EV114 tiny: relevance.threshold" in leaderboard
    page = artifact(found["summary"], "comparison.html").read_text()
    assert 'checks/EV114.html">EV114</a></b> relevance.threshold is not set' in page
    code, out, err = run("compare", "--format", "json")
    assert code == 0, err
    assert json.loads(out)[0]["checks"] == [finding]
    assert f"warning: {warning}" in err


TASTE = """
from dataclasses import dataclass
import numpy as np
import evalplugin

@evalplugin.model("taste")
@dataclass
class Taste:
    uses_ratings = False

    def fit(self, train, rng):
        self.met = np.zeros((train.n_users, train.n_items))
        self.met[train.user, train.item] = 1
        self.together = self.met.T @ self.met / np.maximum(train.item_counts, 1) ** 2

    def scores(self, users):
        return self.met[users] @ self.together  # all zero without history
"""


def newcomers(folder: Path, *, known: int) -> dict[str, Any]:
    """Return the datasets and split of 50 test users with text ids, ``known`` of whom have train data of their taste.

    All the others take what most train users have met.
    """
    (folder / "taste.py").write_text(TASTE)
    rows = [(f"old{u}", f"hit{i}", 1) for u in range(50) for i in range(20) if (u + i) % 5]
    rows += [(f"old{u}", f"own{u % 5}_{i}", 1) for u in range(50) for i in range(4)]
    rows += [(f"old{u}", f"own{u % 5}_{i}", 9) for u in range(known) for i in range(4, 8)]
    rows += [(f"late{u}", f"own{u % 5}_{i}", 1) for u in range(50) for i in range(8)]
    rows += [(f"new{u}", f"hit{i}", 9) for u in range(50 - known) for i in range(5)]
    pd.DataFrame(rows, columns=["user", "item", "time"]).to_csv(folder / "new.csv", index=False)
    columns = {"user": "user", "item": "item", "timestamp": "time"}
    data = {"name": "new", "type": "csv", "path": str(folder / "new.csv"), **columns}
    return {
        "plugins": [str(folder / "taste.py")],
        "datasets": [data],
        "split": {"type": "temporal", "cutoff": 5},
        "relevance": {},
        "models": ["popularity", "taste"],
        "compare": {"baseline": "popularity"},
    }


def test_a_test_of_newcomers_alone_is_told_and_blames_no_model(tmp_path: Path, run: Run) -> None:
    code, out, err = run("run", str(config(tmp_path, **newcomers(tmp_path, known=0))))
    assert code == 0, err
    told = "But none of these 50 users has history: models are compared by what they give to newcomers"
    assert told in " ".join(out.split())
    leaderboard = artifact(runs(Path.cwd())["summary"], "leaderboard.md").read_text()
    assert told in leaderboard
    assert "EV103" not in leaderboard
    assert (
        "100 % of the test users (50 of 50) have no train data: this tests nothing but what models do for new"
        in err
    )
    assert "skip" not in err
    assert "segment cold is not shown" not in err
    page = tmp_path / "page.html"
    code, out, err = run("compare", "--bakeoff", "latest", "--experiment", "whole", "--html", str(page))
    assert (code, told in page.read_text()) == (0, True), err


def test_popularity_that_leads_by_newcomers_alone_is_no_finding(tmp_path: Path, run: Run) -> None:
    code, out, err = run("run", str(config(tmp_path, **newcomers(tmp_path, known=10))))
    assert code == 0, err
    assert "40 of these 50 users (80 %) have no history. Among the 10 with history, taste is the best." in out
    assert "EV103" not in err


def test_a_threshold_that_no_rating_reaches_ends_before_any_run_is_logged(tmp_path: Path, run: Run) -> None:
    code, out, err = run("run", str(config(tmp_path, relevance={"threshold": 40.0})))
    assert (code, out) == (2, "")
    assert "dataset tiny, split last_n: relevance.threshold: no rating of the data reaches 40" in err
    assert "Traceback" not in err
    assert runs(Path.cwd()) == {}


@pytest.mark.slow
def test_the_same_config_gives_the_same_numbers_and_other_models_change_nothing(tmp_path, run):
    assert run_process("run", str(config(tmp_path)))[0] == 0
    first = runs(Path.cwd())["random"].data.metrics
    knn = {"name": "knn", "type": "surprise.KNNBasic", "params": {"k": 5}}
    renamed = {"name": "chance", "type": "random"}
    models = [knn, renamed, "popularity"]
    file = config(tmp_path, models=models, experiment="again", compare={"baseline": "chance"})
    assert run("run", str(file))[0] == 0
    again = runs(Path.cwd())["chance"].data.metrics
    same = [name for name in first if not name.startswith(("cost/", "system/"))]
    assert {name: first[name] for name in same} == {name: again[name] for name in same}


def test_failing_model_does_not_stop_others(tmp_path: Path, run: Run) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    file = config(tmp_path, plugins=["failing.py"], models=["random", "failing", "popularity"])
    code, out, err = run("run", str(file))
    assert code == 1
    assert f"failing.py:{line_of('raise', FAILING)}: RuntimeError: this model cannot learn" in out
    assert "Traceback" not in err
    found = runs(Path.cwd())
    statuses = {name: r.info.status for name, r in found.items()}
    assert statuses == dict.fromkeys(("random", "popularity", "summary"), "FINISHED") | {"failing": "FAILED"}
    assert "this model cannot learn" in artifact(found["failing"], "traceback.txt").read_text()


def test_where_all_models_failed_there_is_nothing_to_compare(tmp_path: Path, run: Run) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    settings = config(tmp_path, plugins=["failing.py"], models=["failing"], compare={})
    code, out, _ = run("run", "--wide", str(settings))
    assert code == 1
    assert "mlflow ui --backend-store-uri" in out
    assert "workflowType=machine_learning" in out
    assert "\nboard " in out
    assert "\ncompare " not in out
    summary = runs(Path.cwd())["summary"]
    assert summary.info.status == "FAILED"
    assert "evalplugin.compare" not in summary.data.tags
    assert "[Compare]" not in summary.data.tags["mlflow.note.content"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_bake_off_leaves_no_run_running(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "waiting.py").write_text(WAITING)
    process = start("run", str(config(tmp_path, plugins=["waiting.py"], models=["random", "waiting"])))
    assert process.stderr is not None
    for line in process.stderr:
        if "now waiting" in line:
            break
    process.send_signal(number)
    for line in process.stderr:
        if "end the open runs" in line:
            break
    process.send_signal(number)  # what is impatient must not leave a run open
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    statuses = {name: r.info.status for name, r in runs(Path.cwd()).items()}
    assert statuses["random"] == "FINISHED"
    assert statuses["waiting"] == "KILLED"
    assert "RUNNING" not in statuses.values()


def test_less_than_one_worker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="workers: must be 1 or more, not -1"):
        evalplugin.run(config(tmp_path), workers=-1)


def test_unreachable_tracking_server_fails_before_any_fit(tmp_path: Path, run: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "waiting.py").write_text(WAITING)
    file = config(tmp_path, plugins=["waiting.py"], models=["waiting"], compare={})
    code, out, err = run("run", str(file), "--tracking-uri", f"http://user:secret@127.0.0.1:{port}")
    assert code == 1
    assert f"127.0.0.1:{port}" in err
    assert "secret" not in err
    assert "now waiting" not in err
    assert "Traceback" not in err
    assert out == ""


def test_folds_become_one_run_with_each_users_scores_averaged(tmp_path: Path, run: Run) -> None:
    changes = {"metrics": ["recall@10", "rmse"], "models": ["random", "surprise.SVD"]}
    assert run("run", str(config(tmp_path, split={"type": "kfold", "k": 3}, **changes)))[0] == 0
    found = runs(Path.cwd())
    assert set(found) == {"random", "surprise.SVD", "summary"}
    lists = pd.read_parquet(artifact(found["random"], "data/top_n.parquet"))
    assert sorted(lists["fold"].unique()) == [1, 2, 3]
    scores = pd.read_parquet(artifact(found["surprise.SVD"], "data/per_user.parquet"))
    assert len(scores) == lists["user"].nunique()
    assert found["surprise.SVD"].data.metrics["rmse"] == pytest.approx(np.nanmean(scores["rmse"]), abs=1e-12)


def test_several_datasets_and_splits_make_a_run_for_each(tmp_path: Path, run: Run) -> None:
    tiny = {"type": "synthetic", "n_users": 40, "n_items": 50, "n_interactions": 800}
    file = config(
        tmp_path,
        datasets=[{"name": "one", **tiny}, {"name": "two", **tiny, "seed": 1}],
        split=[{"name": "last", "type": "last_n"}, {"name": "fifth", "type": "holdout", "fraction": 0.2}],
        models=["popularity", "random"],
        relevance={},
        compare={},
    )
    code, out, err = run("run", str(file))
    assert code == 0, err
    for title in ("one, last", "one, fifth", "two, last", "two, fifth"):
        assert title in out
    assert "Ranks over 2 datasets (last) by " in out
    assert "2 datasets prove little" in out
    summary = runs(Path.cwd())["summary"]
    ranks = json.loads(artifact(summary, "data/ranks.json").read_text())
    both = ["one", "two"]
    assert [(one["split"], one["datasets"]) for one in ranks] == [("last", both), ("fifth", both)]
    assert artifact(summary, "ranks.png").read_bytes().startswith(b"\x89PNG")
    assert "## Ranks over 2 datasets" in artifact(summary, "leaderboard.md").read_text()
    assert artifact(summary, "comparison.html").read_text().count('<section class="across"') == 2
    # A warning about a dataset is printed once for all splits, before the first fit.
    for dataset in ("one", "two"):
        assert err.count(f"warning: EV114 {dataset}: relevance.threshold is not set") == 1


def test_a_bake_off_from_python_takes_a_data_frame() -> None:
    generator = np.random.default_rng(0)
    pairs = generator.permutation(40 * 30)[:600]
    who, stars = [f"u{u:02d}" for u in pairs // 30], generator.integers(1, 6, 600)
    frame = pd.DataFrame({"who": who, "what": pairs % 30, "stars": stars})
    mine = {"type": "dataframe", "frame": frame, "user": "who", "item": "what", "rating": "stars"}
    outcome = evalplugin.run(small_config(datasets=[mine], split={"type": "holdout", "fraction": 0.3}))
    scores = outcome.models[0].per_user
    assert set(scores.users) <= set(frame["who"])
    assert set(runs(Path.cwd())) == {"random", "popularity", "summary"}
