"""Models in a notebook give what a bake-off gives, from its objects."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import refusal

import evalplugin
from evalplugin.base.errors import ConfigError, ModelError, ParameterError, UnknownNameError
from evalplugin.config.document import parse_document
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, prepare
from evalplugin.execution.tasks import Task, run_task
from evalplugin.features.config import load
from evalplugin.models import MODELS, Recommender, defines

SEED = 3


def table(*, n_users: int = 30, n_items: int = 12, repeats: bool = False) -> pd.DataFrame:
    """Return ratings of integer users and text items; of a log, in which pairs repeat, with ``repeats``."""
    rng = np.random.default_rng(5)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.6)
    frame = pd.DataFrame({"user": 7 * user + 100, "item": [f"item {code:02d}" for code in item]})
    frame["rating"] = rng.integers(1, 6, len(frame)).astype(float)
    if repeats:
        frame = pd.concat([frame, frame[::3]], ignore_index=True)
    frame["timestamp"] = rng.permutation(len(frame)) + 1_700_000_000
    return frame.sample(frac=1.0, random_state=1, ignore_index=True)


def config_of(model: dict[str, Any], split: dict[str, Any], **options: Any) -> dict[str, Any]:
    data = {"name": "data", "type": "dataframe", "rating": "rating", "timestamp": "timestamp", **options}
    return {
        "experiment": "shop",
        "seed": SEED,
        "datasets": [data],
        "split": split,
        "recommend": {"n": 5},
        "metrics": ["ndcg@5"],
        "models": [model],
    }


def tasks_of(name: str, params: dict[str, Any], split: dict[str, Any], **options: Any) -> list[Task]:
    config = load(config_of({"type": name, "params": params}, split, **options))
    [job] = jobs_of(config, prepare(config, None, Observer()))
    return job.tasks


def lists_of(task: Task) -> pd.DataFrame:
    """Return the lists of a bake-off's task."""
    return run_task(task, "", Observer()).top_n.to_table(task.split.test).to_pandas()


# Some defaults are made for more than thirty users; a model of files, a program or a deployed one is no such model.
SMALL = {
    "sklearn.NMF": {"n_components": 2},
    "sklearn.TruncatedSVD": {"n_components": 2},
    "implicit.AlternatingLeastSquares": {"factors": 4},
    "implicit.BayesianPersonalizedRanking": {"factors": 4, "iterations": 5},
    "implicit.LogisticMatrixFactorization": {"factors": 4},
    "session.knn": {"sampling": "random", "sample_size": 10},
}
NAMES = [
    entry.name
    for entry in MODELS
    if entry.is_own
    and not defines(entry.cls, Recommender.recommend_task)
    and all(map(importlib.util.find_spec, entry.cls.requires))
]


@pytest.mark.parametrize("duplicates", ["error", "keep"], ids=["pairs", "log"])
@pytest.mark.parametrize("name", NAMES)
def test_lists_are_those_of_a_bake_off_with_the_same_train_data(name: str, duplicates: str) -> None:
    frame, params = table(repeats=duplicates == "keep"), SMALL.get(name, {})
    split = {"type": "kfold", "k": 2} if duplicates == "error" else {"type": "last_n", "n": 1}
    tasks = tasks_of(name, params, split, frame=frame, duplicates=duplicates)
    for task in tasks:
        train = pd.DataFrame(task.split.train_events.columns())
        assert set(train["item"]) == set(frame["item"])  # so that both have the same catalogue
        model = evalplugin.model_named(name, **params).fit(train, seed=SEED, duplicates=duplicates)
        expected = lists_of(task)
        pd.testing.assert_frame_equal(model.recommend(expected["user"].unique(), 5), expected)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if (model := MODELS.create(name)).takes_history and not model.stochastic]
)
def test_lists_by_a_history_are_those_of_a_bake_off_with_new_users(name: str) -> None:
    params = SMALL.get(name, {})
    [task] = tasks_of(name, params, {"type": "new_users", "n_users": 6}, frame=table())
    assert task.split.history is not None
    train, history = (pd.DataFrame(part.columns()) for part in (task.split.train, task.split.history))
    model = evalplugin.model_named(name, **params).fit(train, seed=SEED)
    expected = lists_of(task)
    pd.testing.assert_frame_equal(model.recommend(n=5, history=history), expected)
    # Users of the train data are answered beside new ones, in the order asked for.
    known, new = int(train["user"].iloc[0]), int(history["user"].iloc[0])
    both = model.recommend([known, new], 5, history=history)
    alone = [model.recommend(known, 5), expected[expected["user"] == new]]
    pd.testing.assert_frame_equal(both, pd.concat(alone, ignore_index=True))


def test_a_history_of_a_known_user_stands_in_place_of_the_train_data() -> None:
    frame = table()
    model = evalplugin.model_named("ease").fit(frame)
    own = frame[frame["user"] == 107]
    pd.testing.assert_frame_equal(
        model.recommend(107, history=own.assign(user=114)).assign(user=107), model.recommend(107)
    )


def test_a_history_needs_only_what_the_model_reads() -> None:
    frame = table()
    told = pd.DataFrame({"user": [1, 1], "item": ["item 01", "item 02"]})
    assert len(evalplugin.model_named("ease").fit(frame).recommend(n=3, history=told)) == 3
    reads = evalplugin.model_named("ease", values="rating").fit(frame)
    assert "no rating column 'rating'" in refusal(reads.recommend, n=3, history=told)
    assert len(reads.recommend(n=3, history=told.assign(rating=[5, 1]))) == 3


def test_items_of_a_history_that_are_unknown_are_counted() -> None:
    model = evalplugin.model_named("ease").fit(table())
    told = pd.DataFrame({"user": [1, 1, 2], "item": ["item 01", "new", "new"]})
    with pytest.warns(
        UserWarning, match="left out: 2 interactions with items that the data does not have, such as 'new'"
    ):
        assert set(model.recommend(n=3, history=told)["user"]) == {1}
    with pytest.warns(UserWarning, match="left out"):
        assert "user 2 is not in the data" in refusal(model.recommend, [2], history=told)
    assert "history: all of it, 3 interactions with items" in refusal(
        model.recommend, history=told.assign(item=["x", "y", "z"])
    )
    assert "item ids are integers in the history" in refusal(
        model.recommend, history=told.assign(item=[1, 2, 3])
    )


def test_tables_columns_and_users_of_many_kinds() -> None:
    frame = table()
    expected = evalplugin.model_named("ease", values="rating").fit(frame).recommend([107, 100, 107], 2)
    assert expected["user"].tolist() == [107, 107, 100, 100, 107, 107]
    assert expected["rank"].tolist() == [1, 2] * 3
    named = frame.rename(columns={"user": "who", "item": "what", "rating": "stars", "timestamp": "when"})
    model = evalplugin.model_named("ease", values="rating")
    model.fit(pl.from_pandas(named), user="who", item="what", rating="stars")
    pd.testing.assert_frame_equal(model.recommend(pd.Series([107, 100, 107]), 2), expected)
    without = model.fit(frame, rating=None)
    pd.testing.assert_frame_equal(
        without.recommend(107), evalplugin.model_named("ease").fit(frame).recommend(107)
    )
    assert model.recommend()["user"].nunique() == frame["user"].nunique()


def test_mistakes_are_named() -> None:
    frame = table()
    with pytest.raises(UnknownNameError, match="unknown model 'eas'; did you mean 'ease'"):
        evalplugin.model_named("eas")
    with pytest.raises(ParameterError, match="unknown parameter 'l22' of ease; did you mean 'l2'"):
        evalplugin.model_named("ease", l22=3)
    with pytest.raises(ParameterError, match="l2: must be a number, not '3'"):
        evalplugin.model_named("ease", l2="3")
    model = evalplugin.model_named("surprise.BaselineOnly")
    with pytest.raises(ModelError, match=r"surprise.BaselineOnly is not fitted yet: call fit\(frame\)"):
        model.recommend([100])
    with pytest.raises(ParameterError, match="unknown parameter 'users_id' of dataframe"):
        model.fit(frame, users_id="user")
    with pytest.raises(ParameterError, match=r"it takes a pandas DataFrame.*, not list"):
        model.fit([1, 2])
    assert "no user column 'user'; did you mean 'user_id'" in refusal(
        model.fit, frame.rename(columns={"user": "user_id"})
    )
    model.fit(frame)
    assert "user 5 is not in the data, whose users are such as 100; for new users" in refusal(
        model.recommend, [5]
    )
    assert "n must be at least 1, not 0" in refusal(model.recommend, [100], 0)
    with pytest.raises(ModelError, match="cannot list items for users who are not in the train data"):
        model.recommend(history=frame.assign(user=5).drop_duplicates("item"))
    model.fit(frame.assign(user="user " + frame["user"].astype(str)))
    assert "user 'user 10' is not in the data" in refusal(model.recommend, "user 10")
    assert "did you mean 'user 100'" in refusal(model.recommend, ["user 100x"])


PARAMS = {
    "ease": {"l2": st.floats(1e-12, 1e12), "precision": st.sampled_from(["float32", "float64"])},
    "surprise.SVD": {"n_factors": st.integers(1, 10**6), "lr_all": st.floats(1e-300, 1)},
    "surprise.KNNBasic": {"sim_options": st.fixed_dictionaries({"user_based": st.booleans()})},
    "lists": {"rank": st.none() | st.text(), "text_ids": st.booleans()},
}


@pytest.mark.parametrize("name", PARAMS)
@given(data=st.data())
def test_a_config_loads_the_yaml_of_a_model(name: str, data: st.DataObject) -> None:
    needed = {"path": st.just(__file__), "format": st.just("csv")} if name == "lists" else {}
    model = evalplugin.model_named(name, **data.draw(st.fixed_dictionaries(needed, optional=PARAMS[name])))
    [entry] = parse_document(f"models:\n{model.to_yaml()}", "shop.yaml").data["models"]
    [recipe] = load(config_of(entry, {"type": "last_n"}, frame=table())).models
    assert recipe == model.recipe


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.filterwarnings("ignore:.*lists with fewer than")
@pytest.mark.usefixtures("store", "no_drawing", "cache")
def test_evaluate_runs_the_bake_off_of_the_same_config() -> None:
    frame = table()
    fitted = evalplugin.model_named("ease", l2=3).fit(frame.head(100))
    [task] = tasks_of("popularity", {}, {"type": "last_n", "n": 1}, frame=frame)
    lists = lists_of(task)
    outcome = evalplugin.evaluate(
        {"linear": fitted, "popular": "popularity", "mine": lists, "near": {"type": "neighbours.item"}},
        frame,
        split={"type": "last_n", "n": 1},
        metrics="ndcg@5",
        config={"seed": SEED, "recommend": {"n": 5}, "compare": {"baseline": "popular"}},
    )
    assert (outcome.failed, outcome.plan.experiment, outcome.plan.baseline) == ((), "notebook", "popular")
    linear, popular, mine, _ = outcome.models
    pd.testing.assert_frame_equal(mine.top_n.to_pandas()[["user", "item"]], lists[["user", "item"]])
    assert mine.mean("ndcg@5") == popular.mean("ndcg@5") > 0
    # A model that is fitted already is fitted anew, on the train part of the split.
    same = config_of(
        {"name": "linear", "type": "ease", "params": {"l2": 3}}, {"type": "last_n", "n": 1}, frame=frame
    )
    [alone] = evalplugin.run({**same, "metrics": ["ndcg@5"]}).models
    assert alone.top_n == linear.top_n
    # The same lists are the same model: their file has the name of its content.
    again = evalplugin.evaluate(
        {"mine": lists, "popular": "popularity"}, frame, split={"type": "last_n", "n": 1}, metrics=["ndcg@5"]
    )
    assert again.models[0].params == mine.params


@pytest.mark.usefixtures("cache")
def test_mistakes_of_evaluate_are_named_before_anything_is_fitted() -> None:
    frame = table()

    def evaluate(models: dict[str, Any], **options: Any) -> None:
        evalplugin.evaluate(models, frame, **{"split": "last_n", "metrics": "ndcg@5", **options})

    with pytest.raises(ConfigError) as caught:
        evaluate({"a": "popularty", "b": {"type": "ease", "params": {"l3": 1}}}, split="lastn", usr="who")
    assert [line.partition("; did")[0] for line in caught.value.lines] == [
        "python: datasets[0].usr: unknown parameter 'usr' of dataframe",
        "python: split: unknown split 'lastn'",
        "python: models[0]: unknown model 'popularty'",
        "python: models[1].params.l3: unknown parameter 'l3' of ease; allowed: l2, values, precision",
    ]
    assert "models: 'a' must be a model of model_named" in refusal(evaluate, {"a": 3})
    assert "lists of mine: no column says how lists are ordered" in refusal(evaluate, {"mine": frame})
    assert "config: models: an argument of evaluate already" in refusal(evaluate, {}, config={"models": []})
