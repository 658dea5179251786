from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from samples import small_config

from evalplugin.bakeoff.dry_run import dry_run
from evalplugin.base.errors import DataError
from evalplugin.config import CheckedConfig, ModelRecipe
from evalplugin.config.sections import Recommend
from evalplugin.data import Candidates, Interactions, LastN, NewUsers, NextItem
from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import ModelResult
from evalplugin.execution.runner import PreparedData, _report_tenths, jobs_of, prepare, results_of
from evalplugin.execution.tasks import Task, run_task
from evalplugin.features.config import load
from evalplugin.metrics.relevance import Relevance
from evalplugin.models import MODELS, Recommender
from evalplugin.tracking.registry.served import make_lists
from evalplugin.workspace import Workspace


@dataclass
class Listening(Observer):
    said: list[str] = field(default_factory=list)
    watched: dict[str, int] = field(default_factory=dict)

    def report(self, text: str) -> None:
        self.said.append(text)

    @contextmanager
    def progress(self, label: Any, total: int | None = None) -> Iterator[Callable[[int], None]]:
        self.watched[label] = 0

        def advance(done: int) -> None:
            self.watched[label] += done

        yield advance
        if total is not None:
            assert self.watched[label] == total


def config(**changes: Any) -> dict[str, Any]:
    models = ["random", "popularity", "surprise.SVD"]
    metrics = ["ndcg@10", "coverage@10", "rmse"]
    return small_config(**{"metrics": metrics, "models": models, "compare": {}, "relevance": {}, **changes})


def run_model(
    checked: CheckedConfig, prepared: PreparedData, model: ModelRecipe, observer: Observer
) -> ModelResult:
    jobs = [job for job in jobs_of(checked, [prepared]) if job.model is model]
    ((_, result),) = results_of(jobs, sequential_executor(observer))
    return result


def test_every_user_with_a_truth_gets_a_list_and_progress_reaches_its_end() -> None:
    checked, observer = load(config()), Listening()
    (prepared,) = prepare(checked, None, observer)
    result = run_model(checked, prepared, checked.models[0], observer)
    tested = prepared.info.test.users[np.unique(prepared.info.test.user)]
    assert set(result.top_n["user"].to_pylist()) == set(tested.tolist())
    assert observer.watched["recommend random"] == len(result.per_user.users)
    assert observer.said[0] == "tiny: 1,500 interactions of 60 users with 80 items"


def test_imports_and_compilation_before_a_fit_are_called_start_in_the_progress() -> None:
    checked, observer = load(config()), Listening()
    (prepared,) = prepare(checked, None, observer)
    observer.watched.clear()
    for model in checked.models:
        run_model(checked, prepared, model, observer)
    steps = [label for label in observer.watched if label.startswith(("start ", "fit "))]
    started = "start surprise.SVD (imports and compiled code; longer the first time)"
    assert steps == ["fit random", "fit popularity", started, "fit surprise.SVD"]


@pytest.mark.parametrize(
    "split",
    [LastN(), NewUsers(n_users=5, fold_in="before_last_n", n=1), NextItem(test="n_sessions", n_sessions=5)],
)
def test_sequential_models_get_each_users_events_in_order(split, monkeypatch):
    given: list[Interactions] = []

    @dataclass
    class Remembering(Recommender):
        sequential = True

        def fit(self, train: Interactions, rng: np.random.Generator) -> None:
            given.append(train)

        def scores(self, users: np.ndarray) -> np.ndarray:
            return np.zeros((len(users), 9))

        def recommend_for(self, users: np.ndarray, history: Interactions) -> np.ndarray:
            given.append(history)
            return self.scores(users)

    user, milliseconds = np.divmod(np.random.default_rng(0).permutation(20 * 12), 12)
    frame = pd.DataFrame({"user": user, "item": np.arange(240) % 9, "time": 5 + milliseconds / 1000})
    data = Interactions.from_frame(frame, timestamp="time", duplicates="keep")
    [fold] = split.split(data, np.random.default_rng(0))
    monkeypatch.setattr(MODELS, "create", lambda type, params=None: Remembering())
    model = ModelRecipe("remembering", "popularity", {})
    metrics = load(config(metrics=["hit@5"])).metrics
    run_task(Task(model, fold, Candidates("all"), 0, (), 5, metrics, Relevance()), "remembering", Observer())
    make_lists(model, data, Recommend(n=5), seed=0)
    assert len(given) >= 2
    for events in given:
        for code in np.unique(events.user):
            assert (np.diff(events.time[events.user == code]) > 0).all()
    ordered = data.in_order()
    np.testing.assert_array_equal(ordered.user, data.user)  # each user's rows stay at the places of the user
    assert ordered.in_order().digest == ordered.digest


def test_a_model_that_cannot_do_what_is_asked_is_a_result_with_its_traceback() -> None:
    large = {"name": "large", "type": "sklearn.TruncatedSVD", "params": {"n_components": 500}}
    checked = load(config(models=[large]))
    (prepared,) = prepare(checked, None, Observer())
    result = run_model(checked, prepared, checked.models[0], Observer())
    assert result.per_user is None
    assert result.error is not None
    assert "Traceback" in result.error
    assert "n_components" in result.error


@pytest.mark.parametrize("model", ["sklearn.TruncatedSVD", "surprise.SVD", "random"])
def test_editing_test_data_changes_no_fit(tmp_path: Path, model: str) -> None:
    checked = load(config())
    (made,) = prepare(checked, None, Observer())
    frame, held_out = made.info.full.to_frame(), made.info.test.to_frame()
    lists = []
    for name, rating in (("before", frame["rating"]), ("after", 6 - frame["rating"])):
        tested = frame.merge(held_out[["user", "item"]], how="left", indicator=True)["_merge"] == "both"
        frame.assign(rating=frame["rating"].where(~tested, rating)).to_csv(tmp_path / f"{name}.csv")
        csv = {"name": "tiny", "type": "csv", "path": str(tmp_path / f"{name}.csv")}
        again = load(config(datasets=[csv | {"rating": "rating", "timestamp": "timestamp"}], models=[model]))
        (prepared,) = prepare(again, None, Observer())
        lists.append(run_model(again, prepared, again.models[0], Observer()).top_n)
    assert lists[0].equals(lists[1])


def test_sampled_candidates_are_the_same_for_every_model_and_in_every_run() -> None:
    sampled = {"n": 20, "candidates": "sampled", "negatives": 10}
    first, again = (
        prepare(load(config(recommend=sampled, models=models)), None, Observer())
        for models in (["random"], ["popularity", "random"])
    )
    included = first[0].candidates[0].included
    np.testing.assert_array_equal(included.item, again[0].candidates[0].included.item)
    fold = first[0].folds[0]
    tested = np.unique(fold.test.user)
    unknown = 80 - fold.train.rows.counts[tested] - 4
    np.testing.assert_array_equal(included.counts[tested], 4 + np.minimum(10, unknown))


@pytest.mark.parametrize(
    ("split", "place"), [("{SPLIT}", "split.every"), ("[holdout, {SPLIT}]", "split[1].every")]
)
def test_a_split_that_does_not_suit_the_data_names_the_line_of_the_config(split, place, tmp_path):
    plain = {key: value for key, value in config(models=["random"]).items() if key != "split"}
    written = split.replace("SPLIT", "type: temporal, every: 900000d")
    file = tmp_path / "rolling.yaml"
    file.write_text(f"{yaml.safe_dump(plain)}split: {written}\n")
    line = file.read_text().count("\n")
    with pytest.raises(DataError) as caught:
        prepare(load(file), None, Observer())
    column = f"split: {written}".index("900000d") + 1
    assert str(caught.value).startswith(f"{file}:{line}:{column}: {place}: split temporal: a test period of")


def test_the_notes_of_every_fold_are_shown() -> None:
    checked, observer = load(config(split={"type": "temporal", "folds": 2, "every": "30d"})), Listening()
    (prepared,) = prepare(checked, None, observer)
    notes = [line.split(": ")[1:3] for line in observer.said if "test from" in line]
    assert [fold for fold, _ in notes] == ["fold 1", "fold 2"]
    assert sum("test from" in note for note in prepared.info.notes) == 2


def test_a_plan_counts_tasks_users_and_bytes() -> None:
    checked = load(config(split={"type": "kfold", "k": 3}))
    jobs = dry_run(Workspace.open(checked)).jobs
    counts = [(planned.job.model.name, planned.job.folds, planned.job.tasks[0].n) for planned in jobs]
    assert counts == [(name, 3, 20) for name in ("random", "popularity", "surprise.SVD")]
    (prepared, *_) = prepare(checked, None, Observer())
    users = len(np.unique(prepared.folds[0].test.user))
    assert jobs[0].users == users
    assert jobs[0].lists_mb * 2**20 == users * 20 * (4 + 8)
    assert jobs[0].block_mb * 2**20 == users * 80 * 8


def test_download_progress_is_reported_in_tenths() -> None:
    observer = Listening()
    report = _report_tenths(observer)
    for done in range(1, 101):
        report(f"downloading a.zip: {done} MiB", done / 100)
    report("unpacking a.zip", None)
    assert observer.said == [
        *(f"downloading a.zip: {done} MiB" for done in (1, 10, 20, 30, 40, 50, 60, 70, 80, 90)),
        "unpacking a.zip",
    ]


def test_start_up_costs_are_separate_from_fit_costs() -> None:
    checked = load(config(models=["surprise.KNNBasic"]))
    (prepared,) = prepare(checked, None, Observer())
    costs = run_model(checked, prepared, checked.models[0], Observer()).costs
    assert costs.start_seconds > 0
    assert costs.fit_seconds > 0


def test_the_sizes_of_the_groups_that_a_metric_compares_are_in_the_notes() -> None:
    parity = ["popularity_parity@10", "popularity_parity@5"]
    metrics = ["ndcg@10", *parity, "popularity_opportunity(tail=0.5)@10"]
    (prepared,) = prepare(load(config(metrics=metrics)), None, Observer())
    counts = np.sort(prepared.info.train.item_counts)[::-1]
    last = counts[np.searchsorted(np.cumsum(counts), 0.8 * counts.sum() - 1e-6)]
    head, tail = (counts >= last).sum(), (counts < last).sum()
    sizes = sorted([(-head, f"head {head:,}"), (-tail, f"tail {tail:,}")])
    notes = [note for note in prepared.info.notes if note.startswith("items of each group")]
    assert len(notes) == 2
    assert notes[0] == f"items of each group by popularity, tail=0.8: {sizes[0][1]}, {sizes[1][1]}"
