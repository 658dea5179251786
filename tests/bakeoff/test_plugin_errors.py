"""An error in code of a plugin: one line with the component, the file and the line, whoever raises it and wherever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient
from samples import small_config, write_config

import evalplugin
from evalplugin.base.errors import PluginError
from evalplugin.cli.program import main
from evalplugin.components.registry import load_plugin_file

PLUGIN = """
import os
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import evalplugin
from evalplugin.data import LastN
from evalplugin.data.base import Kept
from evalplugin.metrics import OverallMetric
from evalplugin.data.datasets.synthetic import Synthetic
from evalplugin.segments.groups import Groups

def fail(place):
    if os.environ.get("FAILS") == place:
        np.ones(3).nope()  # line 15

@evalplugin.metric("share", higher_is_better=True, bounds=(0, 1))
def share(context, k):
    fail("metric")
    return context.undefined_without_relevant(context.n_hits(k) / k)

@evalplugin.metric("total")
@dataclass(frozen=True)
class Total(OverallMetric):
    higher_is_better: ClassVar = None
    bounds: ClassVar = (0, 1e9)

    def start(self, n_items):
        fail("start")
        return np.zeros(1)

    def update(self, state, context, k):
        fail("update")

    def merge(self, a, b):
        fail("merge")
        return a + b

    def finish(self, state):
        fail("finish")
        return 1.0

@evalplugin.model("fan")
@dataclass
class Fan:
    cut: int = 0

    def check(self, context):
        fail("model.check")
        return []

    def fit(self, train, rng):
        fail("fit")
        self.n = train.n_items

    def scores(self, users):
        if os.environ.get("FAILS") == "scores":
            np.linalg.inv(np.zeros((2, 2)))  # line 58
        return np.tile(np.arange(self.n, dtype=float), (len(users), 1))

@evalplugin.dataset("made")
@dataclass(frozen=True)
class Made(Synthetic):
    def check(self, context):
        fail("dataset.check")
        return []

    def load(self, context):
        fail("load")
        return super().load(context)

@evalplugin.data_filter("all")
@dataclass(frozen=True)
class All:
    def keep(self, data):
        fail("filter")
        return Kept(np.ones(len(data), dtype=bool))

@evalplugin.split("latest")
@dataclass(frozen=True)
class Latest:
    def split(self, data, rng):
        fail("split")
        return LastN(n=2).split(data, rng)

@evalplugin.segment("halves")
@dataclass(frozen=True)
class Halves:
    def measure(self, fold, users, context):
        fail("measure")
        return np.arange(len(users)) % 2

    def divide(self, values):
        fail("divide")
        return Groups(("a", "b"), values.astype(np.int32))

fail("import")
"""

LINE = "mine.py:15: AttributeError: 'numpy.ndarray' object has no attribute 'nope'"


def config(**changes: Any) -> str:
    Path("mine.py").write_text(PLUGIN)
    made = {"name": "tiny", "type": "made", "n_users": 60, "n_items": 80, "n_interactions": 1500}
    return write_config(
        small_config(
            plugins=["mine.py"],
            datasets=[{**made, "filters": [{"type": "all"}]}],
            split="latest",
            metrics=["ndcg@10", "share@10", "total"],
            models=["random", "popularity", "fan"],
            segments=["halves"],
            **changes,
        )
    )


@pytest.mark.parametrize(
    ("place", "component"),
    [
        ("import", "plugins[0]: {folder}/mine.py: plugin cannot be loaded"),
        ("dataset.check", "datasets[0]: check"),
        ("model.check", "models[2].params: check"),
        ("load", "dataset tiny"),
        ("filter", "filter all"),
        ("split", "split latest"),
        ("measure", "segment halves"),
        ("divide", "segment halves"),
    ],
)
def test_a_plugins_error_is_one_line_with_component_file_and_line(place, component, uri, monkeypatch, capsys):
    monkeypatch.setenv("FAILS", place)
    assert main(["run", config(), "--tracking-uri", uri]) == 2
    shown = capsys.readouterr().err
    (error,) = [line for line in shown.splitlines() if "AttributeError" in line]
    assert error.startswith("error: ")
    assert error.endswith(f"{component.format(folder=Path.cwd())}: {LINE}")
    assert "Traceback" not in shown
    assert "defect" not in shown
    assert "FAILED" not in shown


@pytest.mark.parametrize("workers", [1, 2])
def test_a_metric_that_raises_fails_no_model_and_the_lists_are_kept(workers, uri, monkeypatch, capsys):
    path = config()
    command = ["run", path, "--tracking-uri", uri, "--workers", str(workers)]
    monkeypatch.setenv("FAILS", "metric")
    assert main(command) == 2
    assert f"error: metric share@10: {LINE}" in capsys.readouterr().err
    client = MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("shop").experiment_id])
    assert "FAILED" not in {run.info.status for run in runs}
    Path("mine.py").write_text(Path("mine.py").read_text().replace('fail("metric")', "pass"))
    assert main(command) == 0
    assert "of 3 tasks are in the store and are only scored" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "line", "workers"),
    [("fit", LINE, 1), ("scores", "mine.py:58: numpy.linalg.LinAlgError: Singular matrix", 2)],
)
def test_a_model_that_raises_is_shown_with_its_file_and_line(place, line, workers, uri, monkeypatch, capsys):
    monkeypatch.setenv("FAILS", place)
    path = config()
    assert main(["run", path, "--tracking-uri", uri, "--workers", str(workers)]) == 1
    shown = capsys.readouterr()
    assert f"fan: FAILED: {line}" in shown.err
    assert f"fan failed: {line}" in shown.out
    assert main(["compare", "fan", "random", "--experiment", "shop", "--tracking-uri", uri]) in (0, 1)
    assert line in "".join(capsys.readouterr())


def test_a_metric_that_raises_fails_no_trial_of_tuning(monkeypatch, capsys):
    path = config(tune={"metric": "share@10", "budget": {"trials": 3}})
    monkeypatch.setenv("FAILS", "metric")
    tuned = ["--set", "models.2={type: fan, tune: {cut: {int: [0, 9]}}}"]
    assert main(["tune", path, *tuned]) == 2
    assert f"error: metric share@10: {LINE}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "name"), [("metric", "share@2"), ("start", "total"), ("update", "total"), ("finish", "total")]
)
def test_a_metric_that_raises_is_named_by_score(place, name, monkeypatch):
    Path("mine.py").write_text(PLUGIN)
    load_plugin_file(Path("mine.py"))
    monkeypatch.setenv("FAILS", place)
    truth = pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1]})
    with pytest.raises(PluginError) as raised:
        evalplugin.score(truth.assign(rank=[1, 2, 1]), truth, metrics=[name])
    assert str(raised.value) == f"metric {name}: {LINE}"
    assert isinstance(raised.value.__cause__, AttributeError)
