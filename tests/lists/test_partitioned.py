from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import list_tables

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.lists import job, partition_files, partitioned
from evalplugin.lists.job import ListJob
from evalplugin.lists.scores import ListScores, specs_of
from evalplugin.metrics.relevance import Relevance

ROOT = Path(__file__).parents[2]
METRICS = (
    "ndcg@5", "recall@10", "precision", "ap", "rr", "bpref", "auc", "coverage@5", "gini@5", "entropy@3",
    "personalization@5", "novelty@5", "popularity", "diversity@3", "serendipity@5",
    *(f"{name}(propensity=popularity, power=0.7)@5" for name in ("recall", "ap", "ndcg")),
)  # fmt: skip
FREE = ("ndcg@5", "precision", "ap(denominator=min)@3", "hit@2")


def scored(
    lists: Any,
    truth: Any,
    metrics: Sequence[str],
    *,
    train: Any = None,
    threshold: float | None = None,
    curves: bool = False,
    report: Callable[[str], None] = print,
    **options: Any,
) -> ListScores:
    job = ListJob(lists, truth, train, relevance=Relevance(threshold=threshold), **options)
    return job.score(specs_of(metrics), curves=curves, report=report)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return tmp_path


def assert_same(found: ListScores, expected: ListScores) -> None:
    pd.testing.assert_frame_equal(found.per_user, expected.per_user, check_exact=True)
    assert found.means == expected.means
    np.testing.assert_equal(found.scores.at_k, expected.scores.at_k)


def write(tables: tuple[pd.DataFrame, ...]) -> None:
    lists, truth, train = tables
    Path("lists").mkdir(exist_ok=True)
    lists[: len(lists) // 3].to_parquet("lists/1.parquet", index=False, row_group_size=50)
    lists[len(lists) // 3 :].to_parquet("lists/2.parquet", index=False)
    truth.to_parquet("truth.parquet", index=False)
    train.to_parquet("train.parquet", index=False)


@pytest.mark.parametrize(("text", "rank"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("metrics", [METRICS, FREE])
@pytest.mark.parametrize("memory", ["3KB", "40KB"])
def test_partitions_give_the_same_to_the_last_bit(folder, monkeypatch, text, rank, metrics, memory):
    monkeypatch.setattr(partition_files, "_BATCH", 64)
    write(list_tables(text=text, rank=rank))
    asked: dict[str, Any] = {"train": "train.parquet", "threshold": 2.0, "curves": True}
    said: list[str] = []
    expected = scored("lists", "truth.parquet", metrics, **asked)
    found = scored("lists", "truth.parquet", metrics, **asked, memory=memory, report=said.append)
    assert said[0].startswith("writing rows to ")
    assert int(said[0].split()[3]) > 3
    assert_same(found, expected)
    for name in expected.scores.metrics:
        assert found.interval(name) == expected.interval(name)
        np.testing.assert_array_equal(found.summaries[name].quantiles, expected.summaries[name].quantiles)
    assert list((folder / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "user", "item"),
    [(np.int64, -(2**63), 2**40), (np.int16, -77, -9), (np.uint64, 2**62, 2**63 - 40)],
)
def test_partitions_take_ids_of_any_width(folder, kind, user, item):
    tables = [
        table.assign(
            user=table["user"].to_numpy().astype(kind) + kind(user),
            item=table["item"].to_numpy().astype(kind) + kind(item),
        )
        for table in list_tables(rank=True)
    ]
    write(tuple(tables))
    found = evalplugin.score("lists", "truth.parquet", FREE, memory="3KB")
    assert_same(found, evalplugin.score(*tables[:2], FREE))


@pytest.mark.slow
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), n=st.integers(2, 9), ordered=st.booleans(), seed=st.integers(0, 2**16))
def test_any_number_of_partitions_gives_the_same_bits(tmp_path, data, n, ordered, seed):
    lists, truth, _ = list_tables(25)
    lists, truth = (t.sample(frac=1, random_state=seed) for t in (lists, truth))
    if ordered:
        lists, truth = (t.sort_values("user", kind="stable") for t in (lists, truth))
    size = data.draw(st.integers(1, 200))
    files = [str(tmp_path / name) for name in ("lists.parquet", "truth.parquet")]
    for file, table in zip(files, (lists, truth), strict=True):
        table.to_parquet(file, index=False, row_group_size=size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "partitions_within", lambda *args: n)
        found = evalplugin.score(*files, ["ndcg@5", "ap"], memory="3KB")
    assert_same(found, evalplugin.score(lists, truth, ["ndcg@5", "ap"]))


def test_small_input_is_not_partitioned(folder: Path) -> None:
    write(list_tables())
    said: list[str] = []
    scored("lists", "truth.parquet", ["rr"], memory="2GB", report=said.append)
    assert said == []


def test_ids_of_several_widths_and_kinds(folder: Path) -> None:
    lists, truth, train = list_tables()
    write((lists.astype({"user": np.int16, "item": np.uint8}), truth, train))
    expected = evalplugin.score(lists, truth, ["rr"]).per_user
    pd.testing.assert_frame_equal(
        evalplugin.score("lists", "truth.parquet", ["rr"], memory="3KB").per_user, expected
    )
    truth.astype({"item": str}).to_parquet("truth.parquet", index=False)
    with pytest.raises(
        DataError,
        match=r"^item ids are integers in the lists \(such as 14\), but text in the truth \(such as '3'\): ",
    ):
        evalplugin.score("lists", "truth.parquet", ["rr"], memory="3KB")
    assert list((folder / "temporary").iterdir()) == []


def test_partitions_take_files_with_integer_and_with_float_scores(folder: Path) -> None:
    lists, truth, train = list_tables()
    write((lists, truth, train))
    expected = evalplugin.score("lists", "truth.parquet", ["ndcg"]).per_user
    second = pd.read_parquet("lists/2.parquet")
    second.astype({"score": np.int64}).to_parquet("lists/2.parquet", index=False)
    found = evalplugin.score("lists", "truth.parquet", ["ndcg"], memory="3KB").per_user
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": float("inf")}, r"lists: column 'score', row 1 of 2.parquet \(counted from 1\) is inf"),
        ({"item": None}, r"lists: column 'item', row 1 of 2.parquet \(counted from 1\) is empty"),
    ],
)
def test_invalid_values_in_partitions_name_file_and_row(folder, change, message):
    write(list_tables())
    second = pd.read_parquet("lists/2.parquet").astype({"item": "Int64"})
    for column, value in change.items():
        second.loc[0, column] = value
    second.to_parquet("lists/2.parquet", index=False)
    with pytest.raises(DataError, match=message):
        evalplugin.score("lists", "truth.parquet", ["rr"], memory="3KB")
    assert list((folder / "temporary").iterdir()) == []


def test_duplicates_are_found_in_partitions(folder: Path) -> None:
    lists, truth, train = list_tables()
    write((pd.concat([lists, lists[:1]]), truth, train))
    rule = r"^the list of user \d+ has item \d+ twice$"
    with pytest.raises(DataError, match=rule):
        evalplugin.score("lists", "truth.parquet", ["rr"], memory="3KB")
    write((lists, pd.concat([truth, truth[:1]]), pd.concat([train, train[:1]])))
    rule = r"^the truth of user \d+ has item \d+ twice; where each row is an event"
    with pytest.raises(DataError, match=rule):
        evalplugin.score("lists", "truth.parquet", ["rr"], memory="3KB")
    rule = r"^the train data of user \d+ has item \d+ twice; where each row is an event"
    with pytest.raises(DataError, match=rule):
        evalplugin.score("lists", "truth.parquet", ["coverage@3"], train="train.parquet", memory="3KB")


@pytest.mark.parametrize("rank", [2, 29, 0, -(2**63), 2**62])
def test_wrong_ranks_in_partitions_name_the_user(folder: Path, rank: int) -> None:
    lists, truth, train = list_tables(rank=True)
    write((pd.concat([lists, pd.DataFrame([{"user": 7, "item": 999, "rank": rank}])]), truth, train))
    with pytest.raises(
        DataError, match=r"^lists: the ranks of user 7 must be 1, 2, 3 and so on, the best item f"
    ):
        scored("lists", "truth.parquet", FREE, curves=True, memory="3KB")


def test_partitions_check_free_disk_space_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(list_tables())

    class Full:
        free = 10

    monkeypatch.setattr(partitioned, "disk_usage", lambda path: Full)
    with pytest.raises(DataError, match=r"the partitions need 0.0 GB, but only 0.0 GB are free; set TMPDIR"):
        evalplugin.score("lists", "truth.parquet", ["rr"], memory="3KB")


def test_failed_scoring_leaves_the_output_file_unchanged(folder, monkeypatch):
    write(list_tables())
    argv = ["score", "--lists", "lists", "--truth", "truth.parquet", "-m", "rr", "--out", "out.parquet"]
    assert main(argv) == 0
    before = Path("out.parquet").read_bytes()
    monkeypatch.setattr(
        "pyarrow.parquet.write_table", lambda *args, **options: Path(args[1]).write_text("half") and 1 / 0
    )
    assert main([*argv, "--memory", "3KB"]) == 1
    assert Path("out.parquet").read_bytes() == before
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_scoring_removes_partitions(folder: Path, number: signal.Signals) -> None:
    write(list_tables(3000))
    options = "--lists lists --truth truth.parquet -m rr --out out.parquet --memory 3KB"
    process = subprocess.Popen(
        [sys.executable, "-m", "evalplugin", "score", *options.split()],
        env={**os.environ, "TMPDIR": str(folder / "temporary"), "PYTHONPATH": str(ROOT)},
        text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    said = [process.stderr.readline(), process.stderr.readline()]
    assert said[0].startswith("writing rows to")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.endswith("interrupted\n")
    assert list((folder / "temporary").iterdir()) == []
    assert {p.name for p in folder.iterdir()} == {"lists", "temporary", "train.parquet", "truth.parquet"}


@pytest.mark.parametrize("memory", ["100KB", "2MB"])
def test_a_user_with_most_rows_is_scored_in_partitions(folder: Path, memory: str) -> None:
    item = np.arange(3000)
    lists = pd.DataFrame({"user": 1, "item": item, "rank": item + 1})
    lists = pd.concat([lists, pd.DataFrame({"user": [2, 3], "item": [5, 6], "rank": 1})])
    truth = pd.DataFrame({"user": [1, 2], "item": [7, 5]})
    lists.sample(frac=1, random_state=0).to_parquet("lists.parquet", index=False, row_group_size=100)
    truth.to_parquet("truth.parquet", index=False)
    found = evalplugin.score("lists.parquet", "truth.parquet", ["rr"], memory=memory)
    assert found.per_user["rr"].fillna(-1).to_dict() == {1: 1 / 8, 2: 1, 3: -1}
