from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from clusters import spark_session
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import list_tables

import evalplugin
from evalplugin.base.errors import DataError, EvalpluginError, UnknownNameError
from evalplugin.data import tables
from evalplugin.lists import ListScores
from evalplugin.metrics import TrainData
from evalplugin.metrics.base import UserMetric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.names import MetricSpec
from tests.lists.test_partitioned import FREE, METRICS

Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


def same(found: ListScores, expected: ListScores) -> None:
    pd.testing.assert_frame_equal(found.per_user, expected.per_user, check_exact=True)
    assert found.means == expected.means
    assert found.counts == expected.counts


def systems(lists: pd.DataFrame) -> list[pd.DataFrame]:
    """Return lists, their rows in another order, those of few users, and some with users and items of their own."""
    shuffled = lists.sample(frac=1, random_state=1)
    few = lists[lists["user"].isin(lists["user"].unique()[:5])]
    is_text = lists["user"].dtype.kind not in "iu"
    others = few.assign(
        user="new " + few["user"] if is_text else few["user"] + 10**9,
        item="new " + few["item"] if is_text else few["item"] - 10**9,
    )
    return [lists, shuffled, few, pd.concat([shuffled, others])]


def parquet(table: pd.DataFrame, name: str) -> str:
    table.to_parquet(f"{name}.parquet", index=False, row_group_size=50)
    return f"{name}.parquet"


def csv(table: pd.DataFrame, name: str) -> str:
    table.to_csv(f"{name}.csv", index=False)
    return f"{name}.csv"


INPUTS: dict[str, Callable[[pd.DataFrame, str], Any]] = {
    "DataFrame": lambda table, name: table,
    "category": lambda table, name: table.astype({"user": "category", "item": "category"}),
    "Parquet file": parquet,
    "CSV file": csv,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("metrics", [METRICS, FREE])
@pytest.mark.parametrize("kind", INPUTS)
def test_every_kind_of_input_has_the_scores_of_score_to_the_last_bit(
    folder: Path, text: bool, metrics: tuple[str, ...], kind: str
) -> None:
    lists, truth, train = list_tables(text=text)
    made = INPUTS[kind]
    asked = {"train": made(train, "train"), "threshold": 2.0}
    evaluator = evalplugin.Evaluator(made(truth, "truth"), metrics, **asked)
    for table in systems(lists):
        found = evaluator.score(made(table, "lists"))
        same(found, evalplugin.score(table, truth, metrics, train=train, threshold=2.0))


@pytest.mark.parametrize("train", [False, True])
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16), text=st.booleans(), order=st.sampled_from(["rank", "score"]))
def test_rows_in_any_order_have_the_scores_of_score(train: bool, seed: int, text: bool, order: str) -> None:
    lists, truth, history = list_tables(25, text=text)
    lists = lists.sort_values(["user", "score", "item"], ascending=[True, False, True], ignore_index=True)
    lists["rank"] = lists.groupby("user").cumcount() + 1
    lists, truth = (table.sample(frac=1, random_state=seed) for table in (lists, truth))
    asked: dict[str, Any] = {"train": history if train else None, order: order}
    metrics = METRICS if train else FREE
    evaluator = evalplugin.Evaluator(truth, metrics, **asked)
    same(evaluator.score(lists), evalplugin.score(lists, truth, metrics, **asked))
    half = lists[lists["user"].isin(lists["user"].unique()[::2])]
    if order == "score":
        half = half.sample(frac=0.5, random_state=seed)
    same(evaluator.score(half), evalplugin.score(half, truth, metrics, **asked))


def test_columns_of_other_names_hold_for_all_lists() -> None:
    lists, truth, train = list_tables()
    names = {
        "user": "who", "item": "what", "score": "points", "truth_user": "u", "truth_item": "i", "rating": "stars",
    }  # fmt: skip
    renamed = truth.rename(columns={"user": "u", "item": "i", "rating": "stars"})
    history = train.rename(columns={"user": "u", "item": "i"})
    evaluator = evalplugin.Evaluator(renamed, METRICS, train=history, **names)
    for table in systems(lists):
        found = evaluator.score(table.rename(columns={"user": "who", "item": "what", "score": "points"}))
        same(found, evalplugin.score(table, truth, METRICS, train=train, score="score"))


@dataclass(frozen=True)
class FirstItem(UserMetric):
    """Code of the first item; a metric that depends on the codes of the catalogue."""

    def __call__(self, context: ScoringContext, k: int) -> np.ndarray[Any, Any]:
        return context.item[:, 0].astype(np.float64)


def test_a_metric_of_ones_own_sees_the_catalogue_of_score() -> None:
    lists, truth, train = list_tables(text=True)
    metrics = [MetricSpec("first_item", FirstItem())]
    evaluator = evalplugin.Evaluator(truth, metrics, train=train)
    for table in systems(lists):
        same(evaluator.score(table), evalplugin.score(table, truth, metrics, train=train))


def test_several_threads_score_lists_at_the_same_time() -> None:
    lists, truth, train = list_tables(200, text=True)
    evaluator = evalplugin.Evaluator(truth, METRICS, train=train, threshold=2.0)
    tables = systems(lists) * 4
    with ThreadPoolExecutor(4) as pool:
        scored = list(pool.map(evaluator.score, tables))
    for found, table in zip(scored, tables, strict=True):
        same(found, evalplugin.score(table, truth, METRICS, train=train, threshold=2.0))


def test_truth_and_train_data_are_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists, truth, train = list_tables(text=True)
    read: list[str] = []
    ids, made = tables.Table.ids, []
    monkeypatch.setattr(
        tables.Table, "ids", lambda self, *names, **how: read.append(self.name) or ids(self, *names, **how)
    )
    init = TrainData.__init__
    monkeypatch.setattr(TrainData, "__init__", lambda self, data: made.append(data) or init(self, data))
    evaluator = evalplugin.Evaluator(parquet(truth, "truth"), METRICS, train=csv(train, "train"))
    files = [Path("truth.parquet"), Path("train.csv")]
    expected = evalplugin.score(lists, truth, METRICS, train=train)
    for file in files:
        file.unlink()
    read.clear(), made.clear()
    for _ in range(3):
        same(evaluator.score(lists), expected)
    assert read == ["lists", "lists"] * 3
    known = {*truth["item"], *train["item"]}
    assert len(made) == (1 if set(lists["item"]) <= known else 3)


def test_changing_the_tables_later_changes_no_score() -> None:
    lists, truth, train = list_tables()
    expected = evalplugin.score(lists, truth, METRICS, train=train)
    truth, train = truth.copy(), train.copy()
    evaluator = evalplugin.Evaluator(truth, METRICS, train=train)
    truth["item"], truth["rating"], train["item"] = 0, 0.5, 0
    same(evaluator.score(lists), expected)


def test_an_evaluator_does_not_keep_the_tables() -> None:
    lists, *tables = list_tables()
    evaluator = evalplugin.Evaluator(tables[0], METRICS, train=tables[1])
    kept = [weakref.ref(table) for table in tables]
    tables.clear()
    gc.collect()
    assert [table() for table in kept] == [None, None]
    assert evaluator.score(lists).means


@pytest.mark.parametrize("given", [{"user": [1]}, [(1, 2)], np.array([[1, 2]]), None, 3])
def test_what_is_no_table_is_refused_by_name(given: object) -> None:
    lists, truth, _ = list_tables()
    kind = type(given).__name__
    with pytest.raises(
        DataError, match=rf"^truth: must be a pandas DataFrame or an Arrow table, not {kind}$"
    ):
        evalplugin.Evaluator(given, ["rr"])
    evaluator = evalplugin.Evaluator(truth, ["rr"])
    with pytest.raises(
        DataError, match=rf"^lists: must be a pandas DataFrame or an Arrow table, not {kind}$"
    ):
        evaluator.score(given)
    if given is not None:
        with pytest.raises(
            DataError, match=rf"^train: must be a pandas DataFrame or an Arrow table, not {kind}$"
        ):
            evalplugin.Evaluator(truth, ["rr"], train=given)
    same(evaluator.score(lists), evalplugin.score(lists, truth, ["rr"]))


def test_mistakes_in_truth_metrics_and_train_data_are_found_before_any_lists() -> None:
    lists, truth, train = list_tables()
    twice = pd.concat([truth, truth[:1]], ignore_index=True)
    rule = rf"^truth: the truth of user \d+ has item \d+ twice: row 1 .* and row {len(twice)} \(counted from 1\)$"
    with pytest.raises(DataError, match=rule) as bound:
        evalplugin.Evaluator(twice, ["rr"])
    with pytest.raises(DataError) as scored:
        evalplugin.score(lists, twice, ["rr"])
    assert str(scored.value).startswith(str(bound.value))
    again = pd.concat([train, train[:1]], ignore_index=True)
    with pytest.raises(DataError, match=r"^train: the train data of user \d+ has item \d+ twice: row 1 "):
        evalplugin.Evaluator(truth, ["popularity"], train=again)
    for changed, message in (
        (truth.drop(columns="item"), "^truth: no item column 'item'"),
        (truth[:0], "^truth: there are no rows$"),
        (truth.assign(rating=np.nan), "^truth: column 'rating', row 1 .* ratings must be finite numbers"),
    ):
        with pytest.raises(DataError, match=message):
            evalplugin.Evaluator(changed, ["rr"])
    with pytest.raises(DataError, match=r"^train: there are no rows$"):
        evalplugin.Evaluator(truth, ["rr"], train=train[:0])
    with pytest.raises(DataError, match=r"^item ids are integers in the truth .*, but text in the train"):
        evalplugin.Evaluator(truth, ["rr"], train=train.astype({"item": str}))
    for metrics, options, message in (
        (["popularity"], {}, "^metric popularity needs the train data$"),
        (["rr", "rr"], {}, "^metric rr is requested twice$"),
        ("rr", {}, r"^metrics must be a list of names such as \['ndcg@10'\], not the text 'rr'$"),
        ([], {}, "^no metric is asked for"),
        (["rr"], {"threshold": float("nan")}, "^threshold must be a finite number"),
        (["rr"], {"user": None}, "^user must be the name of a column"),
    ):
        with pytest.raises(DataError, match=message):
            evalplugin.Evaluator(truth, metrics, **options)
    with pytest.raises(UnknownNameError):
        evalplugin.Evaluator(truth, ["ndgc"])
    with pytest.raises(EvalpluginError, match=r"truth\.parquet"):
        evalplugin.Evaluator("truth.parquet", ["rr"])


def test_mistakes_in_lists_are_those_of_score_and_leave_the_evaluator_as_it_was() -> None:
    lists, truth, train = list_tables()
    evaluator = evalplugin.Evaluator(truth, METRICS, train=train)
    for wrong in (
        pd.concat([lists, lists[:1]]),
        lists.drop(columns="score"),
        lists[:0],
        lists.assign(score=np.inf),
        lists.astype({"user": str}),
        lists.assign(rank=2),
        "missing.parquet",
    ):
        with pytest.raises(DataError) as expected:
            evalplugin.score(wrong, truth, METRICS, train=train)
        with pytest.raises(DataError) as found:
            evaluator.score(wrong)
        assert str(found.value) == str(expected.value)
    same(evaluator.score(lists), evalplugin.score(lists, truth, METRICS, train=train))


def test_an_evaluator_shows_its_metrics() -> None:
    assert repr(evalplugin.Evaluator(list_tables()[1], ["rr", "ndcg@5"])) == "Evaluator(rr, ndcg@5)"


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_spark_data_frames_are_scored_on_spark() -> None:
    lists, truth, train = list_tables()
    with spark_session() as session:

        def frame(table: pd.DataFrame) -> Any:
            return session.createDataFrame(pa.Table.from_pandas(table, preserve_index=False))

        evaluator = evalplugin.Evaluator(frame(truth), METRICS, train=frame(train), threshold=2.0)
        for table in systems(lists)[:2]:
            expected = evalplugin.score(table, truth, METRICS, train=train, threshold=2.0)
            assert evaluator.score(frame(table)).means == expected.means
        with pytest.raises(DataError, match=r"^lists: must be a Spark DataFrame, as truth is one"):
            evaluator.score(lists)
        with pytest.raises(DataError, match=r"^truth: must be a Spark DataFrame, as lists is one"):
            evalplugin.Evaluator(truth, METRICS, train=train).score(frame(lists))
