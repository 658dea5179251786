"""Spark DataFrames, classic and Connect: one Java process for all tests of this module."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clusters import spark_session
from samples import list_tables

import evalplugin
from evalplugin.base.errors import DataError, EngineError
from evalplugin.lists.scores import ListScores
from evalplugin.lists.spark import frames as frames_module

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
FREE = (
    "ndcg@3", "ndcg(gain=exp2)", "dcg@2", "precision@2", "precision", "recall@3", "f1@2", "hit@1", "rr", "ap@5",
    "ap(denominator=min)@2", "rbp", "r_precision", "bpref", "precision_at_recall(level=0.5)",
)  # fmt: skip
CATALOGUE = ("auc", "coverage@2", "gini@2", "entropy", "personalization@2")
TRAIN = ("novelty@2", "popularity", "diversity@3", "serendipity@2")
EVERY = (*FREE, *CATALOGUE, *TRAIN)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A classic session, with a server of Spark Connect in the same Java process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    connect = "org.apache.spark.sql.connect.SparkConnectPlugin"
    with spark_session(spark_plugins=connect, spark_connect_grpc_binding_port=str(port)) as session:
        session.connect_port = port
        yield session


@pytest.fixture(scope="module")
def connect(spark: Any) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(f"sc://127.0.0.1:{spark.connect_port}").create()
    yield session
    session.client.close()


def frames(session: Any, *tables: pd.DataFrame) -> list[Any]:
    import pyarrow as pa

    return [session.createDataFrame(pa.Table.from_pandas(t, preserve_index=False)) for t in tables]


def check_equal(found: Any, expected: Any) -> None:
    frame = found.per_user.toArrow().to_pandas().set_index("user").sort_index()
    assert frame.index.tolist() == expected.per_user.index.tolist()
    assert frame.columns.tolist() == expected.per_user.columns.tolist()
    np.testing.assert_array_equal(frame.to_numpy(), expected.per_user.to_numpy())
    assert found.means == expected.means
    assert found.counts == expected.counts
    for name, summary in expected.summaries.items():
        np.testing.assert_array_equal(found.summaries[name].quantiles, summary.quantiles)
        assert found.summaries[name].std == summary.std
        assert found.interval(name) == expected.interval(name)


@pytest.mark.parametrize(("text", "rank"), [(False, False), (True, True)])
def test_scores_are_those_in_memory_to_the_last_bit(spark, monkeypatch, text, rank):
    monkeypatch.setattr("evalplugin.lists.spark.frames._BUCKET", 150)
    tables = list_tables(text=text, rank=rank)
    lists, truth, train = frames(spark, *tables)
    if not text:
        lists, truth = lists.selectExpr("int(user) user", "item", "score"), truth.repartition(3)
    expected = evalplugin.score(*tables[:2], EVERY, train=tables[2], threshold=2.0)
    found = evalplugin.score(lists, truth, EVERY, train=train if text else tables[2], threshold=2.0)
    assert isinstance(found, ListScores)
    check_equal(found, expected)


def test_connect_and_settings_of_the_session_change_nothing(connect, monkeypatch):
    monkeypatch.setattr("evalplugin.lists.spark.frames._BUCKET", 150)
    monkeypatch.setattr("evalplugin.lists.spark.frames._STATES", 2)  # states are merged on Spark first
    settings = {
        "spark.sql.session.timeZone": "Asia/Kathmandu",
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.caseSensitive": "true",
    }
    for name, value in settings.items():
        connect.conf.set(name, value)
    tables = list_tables(text=True)
    lists, truth, train = frames(connect, *tables)
    lists = lists.withColumnRenamed("user", "a.user").selectExpr("*", "1 AS `A.USER`")
    metrics = ("ndcg@3", "precision", "coverage@2", "novelty@2")
    names = {"user": "a.user", "truth_user": "user"}
    found = evalplugin.score(lists, truth, metrics, train=train, columns=names)
    check_equal(found, evalplugin.score(*tables[:2], metrics, train=tables[2]))
    assert repr(found).startswith("SparkScores(ndcg@3=0.")
    found.unpersist()
    assert found.per_user.count() == found.counts["ndcg@3"].users + found.counts["ndcg@3"].undefined
    for name in settings:
        connect.conf.unset(name)
    with pytest.raises(DataError, match=r"^lists: column 'item', a row of user 1 is empty: no item id may"):
        evalplugin.score(lists.selectExpr("1 user", "if(score > 1, null, 2) item", "score"), truth.selectExpr(
            "1 user", "3 item"), ["rr"])  # fmt: skip


@pytest.mark.parametrize("text", [False, True])
def test_metrics_without_a_catalogue_merge_over_buckets(spark, monkeypatch, text):
    monkeypatch.setattr("evalplugin.lists.spark.frames._BUCKET", 150)
    tables = list_tables(text=text)
    found = evalplugin.score(*frames(spark, *tables[:2]), FREE)
    check_equal(found, evalplugin.score(*tables[:2], FREE))


def test_queries_of_a_session_are_in_one_bucket(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalplugin.lists.spark.frames._BUCKET", 40)
    monkeypatch.setattr("evalplugin.lists.spark.frames._STATES", 2)
    tables = [
        table.assign(user=(table["user"] // 4).astype(str) + "\nx:" + (table["user"] % 4).astype(str))
        for table in list_tables(200)[:2]
    ]
    expected = evalplugin.score(*tables, FREE, columns={"query": "user"})
    found = evalplugin.score(*frames(spark, *tables), FREE, columns={"query": "user"})
    check_equal(found, expected)
    assert found.interval("rr").clusters == expected.interval("rr").clusters == 52
    with pytest.raises(
        DataError, match=r"^lists: column 'user', the row of user '7:x' .*: ids of queries are texts "
    ):
        evalplugin.score(
            *frames(spark, *(t.assign(user="7:x") for t in tables)), FREE, columns={"query": "user"}
        )
    with pytest.raises(DataError, match=r"^lists: column 'user' is of type \w+: ids of queries are texts "):
        evalplugin.score(
            *frames(spark, *(t.head(1).assign(user=7) for t in tables)), ["rr"], columns={"query": "user"}
        )


def test_errors_of_values_are_those_in_memory_and_name_user_and_item(spark: Any) -> None:
    lists, truth = frames(spark, *list_tables()[:2])
    cases = {
        r"^lists: column 'score', the row of user \d+ and item \d+ is nan \(float\): scores must be finite numbers$": (
            lists.selectExpr("user", "item", "double('nan') score"),
            truth,
        ),
        r"^lists: column 'score', the row of user \d+ and item \d+ is 90071992547\d+ \(int\): integer scores must": (
            lists.selectExpr("user", "item", "item + 9007199254740993 AS score"),
            truth,
        ),
        r"^the list of user \d+ has item \d+ twice$": (lists.unionAll(lists), truth),
        r"^the truth of user [34] has item \d+ twice; where": (
            lists,
            truth.where("user >= 3 and user < 5").unionAll(truth),
        ),
        r"^lists: the ranks of user \d+ must be 1, 2, 3 and so on, the best item first, and are 2, 2": (
            lists.selectExpr("user", "item", "2 AS rank"),
            truth,
        ),
        r"^lists: there are no rows$": (lists.limit(0), truth),
        r"^truth: there are no rows$": (lists, truth.limit(0)),
    }
    for message, (given, held_out) in cases.items():
        with pytest.raises(DataError, match=message):
            evalplugin.score(given, held_out, ["hit@2"])


def test_errors_of_columns_need_no_job(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalplugin.lists.spark.frames._check_workers", None)  # would be the first job
    pandas_lists, pandas_truth, _ = list_tables()
    lists, truth = frames(spark, pandas_lists, pandas_truth)
    cases: list[tuple[Any, Any, str]] = [
        (lists.selectExpr("decimal(user) user", "item", "score"), truth,
         r"^lists: column 'user' is of type decimal\(10,0\): user ids must be integers or text$"),
        (lists.selectExpr("double(user) user", "item", "score"), truth, r"user ids must be integers or text$"),
        (lists.selectExpr("user", "item", "decimal(score) score"), truth, r"scores must be finite numbers$"),
        (lists.selectExpr("user", "item", "score AS rank"), truth,
         r"^lists: column 'rank' is of type float: ranks must be whole numbers$"),
        (lists, truth.selectExpr("user", "item", "string(rating) rating"),
         r"^truth: column 'rating' is of type string: "),
        (lists.selectExpr("user", "item"), truth, "^lists: no column says how lists are ordered"),
        (lists.selectExpr("user users", "item", "score"), truth,
         r"^lists: no user column 'user'; did you mean 'users'\?$"),
        (lists, truth.selectExpr("string(user) user", "item"),
         "^user ids are integers in the lists, but text in the truth: they can never be equal"),
        (lists, pandas_truth, r"^truth: must be a Spark DataFrame, as lists is one, not pandas DataFrame: "
                              r"spark.createDataFrame\(truth\) makes one$"),
        (pandas_lists, truth, "^lists: must be a Spark DataFrame, as truth is one, not pandas DataFrame: "),
    ]  # fmt: skip
    for given, held_out, message in cases:
        with pytest.raises(DataError, match=message):
            evalplugin.score(given, held_out, ["rr"])
    with pytest.raises(DataError, match=r"^memory, partitioned, engine: Spark DataFrames are scored by"):
        evalplugin.score(lists, truth, ["rr"], memory="2GB")
    with pytest.raises(DataError, match=r"^metric novelty needs the train data$"):
        evalplugin.score(lists, truth, ["novelty"])
    monkeypatch.setattr("pyspark.__version__", "3.5.1")
    with pytest.raises(EngineError, match=r"4 or later, this is 3.5.1: pip install 'pyspark\[connect\]>=4' "):
        evalplugin.score(lists, truth, ["rr"])


def test_workers_without_this_evalplugin_are_refused_before_any_job(spark, monkeypatch, tmp_path):
    lists, truth = frames(spark, *list_tables()[:2])
    monkeypatch.setattr("evalplugin.lists.spark.frames.__version__", "9.9")
    python, version = re.escape(sys.executable), evalplugin.__version__
    expected = rf"\({python}\) has evalplugin {version}, but this process has 9.9: install"
    with pytest.raises(EngineError, match=expected):
        evalplugin.score(lists, truth, ["rr"])
    monkeypatch.undo()

    @evalplugin.metric("of_this_process", higher_is_better=True, bounds=(0, 1))
    def of_this_process(context: Any) -> Any:
        return context.undefined_without_relevant(np.zeros(context.n_users))

    with pytest.raises(
        EngineError, match=r"^the Python of Spark's workers .* cannot import metric of_this_process \("
    ):
        evalplugin.score(lists, truth, ["of_this_process"])
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    with pytest.raises(
        EngineError, match=r"cannot import evalplugin \(ModuleNotFoundError: .*\): install its package there$"
    ):
        evalplugin.score(lists, truth, ["rr"])
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "none"))
    with pytest.raises(EngineError, match=r"^Spark cannot run Python on its workers: Cannot run program"):
        evalplugin.score(lists, truth, ["rr"])


def test_the_catalogue_that_workers_need_has_a_limit(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lists, truth = frames(spark, *list_tables()[:2])
    monkeypatch.setitem(frames_module._MOST_BYTES, "classic", 100)
    with pytest.raises(DataError, match=r"^the catalogue of 0 MB, which these metrics read, go to every"):
        evalplugin.score(lists, truth, ["coverage@5"])
