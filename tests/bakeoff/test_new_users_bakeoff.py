"""Bake-offs on users and items that are not in the train data, from the config to scores."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import matrix_of, small_config, write_config

from evalplugin.base.errors import ConfigError, DataError
from evalplugin.cli import main
from evalplugin.data import Split
from evalplugin.execution import executor
from evalplugin.execution.engines.local import InProcess
from evalplugin.execution.executor import sequential_executor, task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import PreparedData, jobs_of, prepare
from evalplugin.execution.store import Store, store_path
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.tasks import TaskResult
from evalplugin.features.config import load
from evalplugin.features.tuning.feature import studies_of

NEW = {"type": "new_users", "n_users": 15, "fold_in": 0.7}
EASE = {"type": "ease", "params": {"l2": 20.0}}
ITEMS = '''
from dataclasses import dataclass
import numpy as np
import evalplugin

@evalplugin.model("by_number")
@dataclass
class ByNumber:
    """Lists the items with the highest codes, new ones too."""

    lists_new_items = True

    def fit(self, train, rng):
        self.n = train.n_items

    def scores(self, users):
        return np.broadcast_to(np.arange(self.n, dtype=float), (len(users), self.n))
'''


def config(**changes: Any) -> dict[str, Any]:
    return small_config(
        **{"split": NEW, "models": ["popularity", EASE], "compare": {}, "relevance": {}, **changes}
    )


def prepared(given: dict[str, Any]) -> PreparedData:
    [data] = prepare(load(given), Path(os.environ.get("EVALPLUGIN_DATA_HOME", ".")), Observer())
    return data


def results(given: dict[str, Any], data: PreparedData | None = None) -> dict[str, TaskResult]:
    data = data or prepared(given)
    tasks = [(n, job.model.name, job.tasks[0]) for n, job in enumerate(jobs_of(load(given), [data]))]
    done = dict(sequential_executor(Observer())(tasks))
    named = {name: done[number] for number, name, _ in tasks}
    assert all(isinstance(result, TaskResult) for result in named.values()), named
    return named


def ease_by_numpy(fold: Split, l2: float, ks: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Recall (denominator min) and NDCG of each test user, as the code of Liang et al. 2018 and Steck 2019 has them."""
    assert fold.history is not None
    train, told, truth = (matrix_of(part, binary=True) for part in (fold.train, fold.history, fold.test))
    present = train.sum(axis=0) > 0
    gram = train[:, present].T @ train[:, present] + l2 * np.eye(present.sum())
    inverse = np.linalg.inv(gram)
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0)
    users = np.unique(fold.test.user)
    scores = np.zeros((len(users), fold.train.n_items))
    scores[:, present] = told[users][:, present] @ weights
    scores[told[users] > 0] = -np.inf
    order = np.argsort(-scores, axis=1)
    hits = np.take_along_axis(truth[users], order, axis=1)
    sizes = truth[users].sum(axis=1).astype(int)
    recall = hits[:, : ks[0]].sum(axis=1) / np.minimum(ks[0], sizes)
    discount = 1 / np.log2(np.arange(2, ks[1] + 2))
    ideal = np.array([discount[: min(size, ks[1])].sum() for size in sizes])
    return recall, (hits[:, : ks[1]] * discount).sum(axis=1) / ideal


METRICS = ["recall(denominator=min)@10", "ndcg(gain=binary)@20"]


def check_against_numpy(given: dict[str, Any], ks: tuple[int, int], l2: float) -> None:
    data = prepared(given)
    [fold] = data.folds
    scores = results(given, data)["ease"].per_user
    np.testing.assert_array_equal(scores.users, fold.test.users[np.unique(fold.test.user)])
    for column, expected in enumerate(ease_by_numpy(fold, l2, ks)):
        np.testing.assert_allclose(scores.values[:, column], expected, atol=1e-9)


def test_ease_on_new_users_is_the_protocol_of_the_literature():
    check_against_numpy(config(models=[EASE], metrics=METRICS), (10, 20), 20.0)


@pytest.mark.slow
def test_ease_on_new_users_of_movielens_is_the_protocol_of_the_literature():
    home = Path(os.environ.get("EVALPLUGIN_DATA_HOME", ""))
    if not list(home.glob("*ml-latest-small*")):
        pytest.skip("EVALPLUGIN_DATA_HOME is not set, or has no ml-latest-small")
    popular = [{"type": "min_count", "items": 20}]
    check_against_numpy(
        config(
            datasets=[{"name": "ml", "type": "movielens", "version": "latest-small", "filters": popular}],
            split={"type": "new_users", "n_users": 100, "cold": "drop"},
            models=[{"type": "ease", "params": {"l2": 100.0}}],
            metrics=["recall(denominator=min)@20", "ndcg(gain=binary)@100"],
            recommend={"n": 100},
        ),
        (20, 100),
        100.0,
    )


def test_models_are_tuned_on_other_users_who_are_held_out_from_the_train_data():
    tuned = {**EASE, "name": "ease", "tune": {"l2": {"float": [1, 100], "log": True}}}
    given = config(models=["popularity", tuned], tune={"budget": {"trials": 2}})
    data = prepared(given)
    [fold] = data.folds
    [study] = studies_of(load(given), [data], jobs_of(load(given), [data]))
    inner = study.base.split
    assert inner.history is not None
    told, truth, train = (set(part.user.tolist()) for part in (inner.history, inner.test, inner.train))
    assert told == truth
    assert len(truth) == 15
    assert train | truth == set(fold.train.user.tolist())
    assert not truth & (train | set(fold.test.user.tolist()))


def test_a_train_part_with_too_few_users_for_tuning_names_the_remedy():
    tuned = {**EASE, "name": "ease", "tune": {"l2": {"float": [1, 100], "log": True}}}
    given = config(models=["popularity", tuned], split={**NEW, "n_users": 40}, tune={"budget": {"trials": 2}})
    data = prepared(given)
    told = r"tune.split is left out.*n_users is 40, but only 20 users have at least 2"
    with pytest.raises(DataError, match=told):
        studies_of(load(given), [data], jobs_of(load(given), [data]))


def test_lists_of_histories_and_new_items_are_cached():
    for split in (NEW, {"type": "new_items", "n_items": 8}):
        models = ["random"] if split is not NEW else ["popularity", EASE]
        given = config(split=split, models=models)
        cache, data = StepCache(Store(store_path())), prepared(given)
        for job in jobs_of(load(given), [data]):
            done = results({**given}, data)[job.model.name]
            cache.store_result(job.tasks[0], done)
            cached = cache.result(job.tasks[0])
            np.testing.assert_array_equal(cached.top_n.item, done.top_n.item)


class SeveralSlots(InProcess):
    in_process = False
    slots = 3


def test_ranges_of_new_users_change_no_bit(monkeypatch):
    monkeypatch.setattr(executor, "BLOCK_BYTES", 4 * 80 * 8)
    given = config(models=["random", "popularity", EASE, {"type": "sklearn.NMF", "params": {"n_components": 3}},
                           {"type": "implicit.AlternatingLeastSquares", "params": {"factors": 4}}])  # fmt: skip
    tasks = [
        (n, job.model.name, job.tasks[0]) for n, job in enumerate(jobs_of(load(given), [prepared(given)]))
    ]
    here = dict(sequential_executor(Observer())(tasks))
    there = dict(task_executor(SeveralSlots(), Observer(), users_per_task=5)(tasks))
    for number, name, _ in tasks:
        ours, theirs = here[number], there[number]
        assert isinstance(ours, TaskResult), (name, ours)
        assert isinstance(theirs, TaskResult), (name, theirs)
        np.testing.assert_array_equal(ours.top_n.item, theirs.top_n.item, err_msg=name)
        np.testing.assert_array_equal(ours.top_n.score, theirs.top_n.score, err_msg=name)
        np.testing.assert_array_equal(ours.per_user.values, theirs.per_user.values, err_msg=name)


def test_segments_and_histories_count_what_is_known_of_new_users():
    data = prepared(config())
    [fold] = data.folds
    users = np.unique(fold.test.user)
    np.testing.assert_array_equal(data.info.histories.length, fold.history.rows.counts[users])
    assert data.info.counts["cold_users"] == 0
    labels = [label for segment in data.info.segments for label in segment.labels]
    assert labels
    assert "no history" not in labels
    background = data.info.background.history
    assert set(background["user"].to_pylist()) == set(fold.test.users[users].tolist())


FOLLOW = """
import sys
import pandas as pd
train, users, history, out, n = sys.argv[1:]
told = pd.read_parquet(history)
counts = pd.read_parquet(train)["item"].value_counts()
rows = []
for user in pd.read_parquet(users)["user"]:
    first = told[told["user"] == user]["item"].min()  # unknown for a user without a history
    near = sorted(counts.index, key=lambda item: abs(item - first))
    rows += [(user, item, rank) for rank, item in enumerate(near, 1)]
pd.DataFrame(rows, columns=["user", "item", "rank"]).to_parquet(out)
"""


def test_a_program_gets_a_file_of_histories():
    Path("follow.py").write_text(FOLLOW)
    program = [sys.executable, "follow.py", "{train}", "{users}", "{history}", "{out}", "{n}"]
    given = config(models=[{"type": "command", "name": "follow", "params": {"command": program}}])
    data = prepared(given)
    [fold] = data.folds
    top = results(given, data)["follow"].top_n
    for user, listed in zip(top.user, top.item, strict=True):
        known = fold.history.rows[user]
        there = np.setdiff1d(np.flatnonzero(fold.train.item_counts), known)
        gap = np.abs(there - known.min())
        assert np.abs(listed - known.min()).tolist() == np.sort(gap)[: len(listed)].tolist()


SHOWN = """
import shutil, sys
candidates, users, out = sys.argv[1:]
shutil.copy(candidates, "shown.csv")
items = open(candidates).read().split()[1:]
with open(out, "w") as file:
    print("user,item,rank", *(f"{user},{items[0]},1" for user in open(users).read().split()[1:]), sep="\\n", file=file)
"""


@pytest.mark.usefixtures("no_drawing", "store")
def test_new_items_are_shown_once_to_programs_and_in_the_note_and_are_no_finding(capsys):
    Path("shown.py").write_text(SHOWN)
    command = [sys.executable, "shown.py", "{candidates}", "{users}", "{out}"]
    models = ["random", {"name": "shown", "type": "command", "params": {"command": command, "format": "csv"}}]
    given = config(split={"type": "new_items", "n_items": 8}, models=models)
    [fold] = prepared(given).folds
    new = [str(item) for item in fold.test.items[np.unique(fold.test.item)].tolist()]
    assert main(["run", write_config(given)]) == 0
    assert Path("shown.csv").read_text().split() == ["item", *new]
    shown = capsys.readouterr().err
    assert f"items are new ({', '.join(new[:5])}, ...): their " in shown
    assert "EV102" not in shown


def test_new_items_are_listed_alone_by_models_that_can():
    Path("by_number.py").write_text(ITEMS)
    given = config(
        plugins=["by_number.py"], split={"type": "new_items", "n_items": 8}, models=["random", "by_number"]
    )
    data = prepared(given)
    [fold] = data.folds
    new = np.unique(fold.test.item)
    for name, result in results(given, data).items():
        listed = result.top_n.item[:, :8]
        assert set(np.unique(listed)) == set(new), name
        assert (result.top_n.item[:, 8:] == -1).all()
    best = results(given, data)["by_number"].top_n.item[0, :8]
    assert best.tolist() == new[::-1].tolist()


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (
            {"models": ["popularity", "surprise.SVD"]},
            ["models[1]: surprise.SVD cannot list items for users who are not in the train data",
             "as the split new_users asks", "those that can: command, ease, graph.p3alpha",
             "recommend_for(users, history)"],
        ),
        (
            {"models": [{"type": "neighbours.user", "params": {"inverted": True}}]},
            ["models[0]: neighbours.user cannot list", "with inverted: true"],
        ),
        (
            {"models": [{"type": "command", "params": {"command": ["cat", "{train}", "{out}"]}}]},
            ["models[0]: command cannot list", "a program (command) by {history}"],
        ),
        ({"metrics": ["ndcg@10", "rmse"]}, ["metrics[1]: 'rmse' needs predicted ratings"]),
        (
            {"split": {"type": "new_items", "n_items": 4}, "models": ["random", "ease"]},
            ["models[1]: ease cannot list items that are not in the train data",
             "those that can: command, lists, random", "lists_new_items = True"],
        ),
        (
            {"split": "holdout", "tune": {"split": NEW, "budget": {"trials": 2}},
             "models": ["surprise.SVD", {"type": "surprise.KNNBasic", "tune": {"k": [5, 9]}}]},
            ["models[1]: surprise.KNNBasic cannot list items for users"],
        ),
        (
            {"split": {**NEW, "fold_in": 0}},
            ["split.fold_in: must be a share above 0 and below 1, or before_last_n, not 0"],
        ),
    ],
)  # fmt: skip
def test_models_and_settings_that_cannot_are_refused_before_data_is_read(changes, parts):
    with pytest.raises(ConfigError) as caught:
        load(config(**changes))
    message = "\n".join(caught.value.lines)
    assert len(caught.value.lines) == 1, message
    for part in parts:
        assert part in message


def test_the_command_line_refuses_with_exit_code_2_and_the_place(capsys):
    file = write_config(config(split={**NEW, "n_users": 500}))
    assert main(["run", file]) == 2
    error = capsys.readouterr().err
    assert "shop.yaml" in error
    assert "split.n_users" in error
    assert "n_users is 500, but only 60 users have at least 2 interactions (min_history + 1)" in error
    assert main(["run", write_config(config(models=["popularity", "surprise.SVD"]))]) == 2
    assert "surprise.SVD cannot list items for users who are not in the train data" in capsys.readouterr().err
