"""The dataset ``impressions``: every row is checked, from any source."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from samples import refusal

import evalplugin
from evalplugin.base.errors import ParameterError
from evalplugin.data import DATASETS, Interactions, LoadContext

NAMES = {
    "decision": "request", "user": "user_id", "item": "item", "position": "slot", "reward": "click",
    "propensity": "p", "timestamp": "time",
}  # fmt: skip
LOG = {
    "request": ["a", "a", "b", "b"],
    "user_id": [1, 1, 2, 2],
    "item": [3, 4, 3, 5],
    "slot": [1, 2, 1, 2],
    "click": [True, False, False, True],
    "p": [0.5, 0.2, 0.5, 0.1],
    "time": [10, 10, 20, 20],
}
NAN = float("nan")


def load(log: dict[str, list[Any]] | None = None, **changes: Any) -> Interactions:
    params = {**NAMES, **changes, "frame": pa.table(LOG if log is None else log)}
    return DATASETS.create("impressions", params).load(LoadContext())


def test_a_log_has_decisions_positions_rewards_and_propensities() -> None:
    data = load()
    assert data.is_log
    assert data.users[data.user].tolist() == LOG["request"]
    assert data.items[data.item].tolist() == LOG["item"]
    assert data.rating.tolist() == [1, 0, 0, 1]
    assert data.position.tolist() == LOG["slot"]
    assert data.propensity.tolist() == LOG["p"]
    assert data.timestamp.tolist() == LOG["time"]
    assert data.user_columns["user"].tolist() == ["1", "2"]
    assert data.assumed is None
    assert data.notes == ()


def test_files_databases_and_tables_give_the_same_log() -> None:
    frame = pd.DataFrame(LOG)
    frame.to_csv("log.csv", index=False)
    frame.to_parquet("log.parquet")
    Path("log.jsonl").write_text("\n".join(json.dumps(row) for row in frame.to_dict("records")))
    with closing(sqlite3.connect("log.db")) as database:
        frame.sample(frac=1, random_state=1).to_sql("log", database, index=False)
    digest = load().digest
    sources = [{"path": f"log.{ending}"} for ending in ("csv", "parquet", "jsonl")]
    sources += [{"url": "sqlite:///log.db", "query": "SELECT * FROM log"}, {"frame": frame}]
    for source in sources:
        data = DATASETS.create("impressions", {**source, **NAMES}).load(LoadContext(base=Path.cwd()))
        assert data.digest == digest, source


def test_a_folder_of_files_with_a_title_for_each_item_and_text_ids() -> None:
    Path("log").mkdir()
    frame = pd.DataFrame(LOG)
    frame[:2].to_parquet("log/1.parquet")
    frame[2:].to_parquet("log/2.parquet")
    Path("items.csv").write_text("item,title\n3,Cup\n4,Pan\n5,Pot\n")
    items = {"path": "items.csv", "title": "title"}
    data = DATASETS.create("impressions", {"path": "log", "items": items, **NAMES}).load(LoadContext())
    assert data.titles.tolist() == ["Cup", "Pan", "Pot"]
    frame.to_csv("log.csv", index=False)
    data = DATASETS.create("impressions", {"path": "log.csv", "ids": "text", **NAMES}).load(LoadContext())
    assert data.items.tolist() == ["3", "4", "5"]


def test_parts_are_files_or_a_column() -> None:
    frame = pd.DataFrame(LOG)
    frame[:2].to_csv("train.csv", index=False)
    frame[2:].to_csv("test.csv", index=False)
    path = {"train": "train.csv", "test": "test.csv"}
    of_files = DATASETS.create("impressions", {"path": path, **NAMES}).load(LoadContext(base=Path.cwd()))
    of_column = load({**LOG, "part": ["train", "train", "test", "test"]}, part="part")
    for data in (of_files, of_column):
        assert [data.parts[code] for code in data.part] == ["train", "train", "test", "test"]
    divided = {**LOG, "part": ["train", "test", "test", "test"]}
    assert "decision 'a' has two parts: row 1" in refusal(load, divided, part="part")


def test_a_decision_without_position_has_one_item() -> None:
    log = {**LOG, "request": list("abcd")}
    assert load(log, position=None).position.tolist() == [1, 1, 1, 1]
    message = refusal(load, position=None)
    assert (
        "decision 'a' has two items at position 1: row 1 (counted from 1) and row 2 (counted from 1)"
        in message
    )
    assert "name the column of positions by position" in message


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("click", [1, None, 0, 0], "column 'click', row 2 (counted from 1) is empty: no reward may be missing"),
        ("click", [1.0, NAN, 0, 0], "row 2 (counted from 1) is empty: no reward may be missing"),
        ("click", [1.0, 0, float("inf"), 0], "row 3 (counted from 1) is inf (float): rewards must be finite"),
        ("click", [1e300, 0, 0, 0], "rewards must be finite numbers (float32)"),
        ("click", ["x", "y", "z", "z"], "row 1 (counted from 1) is 'x' (str): rewards must be finite"),
        ("click", [0, 0, 0, 0], "no row has a reward: all 4 of column 'click' are 0"),
        ("p", [0.1, 0.0, 0.0, 0.1], "column 'p', row 2 (counted from 1) is 0.0 (float), and 1 more rows"),
        ("p", [0.1, -0.5, 0.2, 0.1], "is above 0 and at most 1"),
        ("p", [0.1, 0.2, 1.5, 0.1], "row 3 (counted from 1) is 1.5 (float): the probability with which"),
        ("p", [0.1, NAN, 0.2, 0.1], "row 2 (counted from 1) is nan (float): propensities must be numbers above 0"),
        ("p", [0.1, None, 0.2, 0.1], "row 2 (counted from 1) is empty: no propensity may be missing"),
        ("p", list("abcd"), "row 1 (counted from 1) is 'a' (str): propensities must be numbers above 0"),
        ("slot", [1, 2, 1, 1], "decision 'b' has two items at position 1: row 3 (counted from 1) and row 4"),
        ("slot", [0, 1, 1, 2], "row 1 (counted from 1) is 0 (int): positions are whole numbers from 1"),
        ("slot", [1, 2, 1, 2**31], "row 4 (counted from 1) is 2147483648 (int): positions are whole numbers"),
        ("slot", [1.5, 2.0, 1.0, 2.0], "positions must be whole numbers from 1, not floats"),
        ("slot", [1, None, 1, 2], "row 2 (counted from 1) is empty: no position may be missing"),
        ("item", [3, 4, 5, 5], "decision 'b' shows item 5 twice: row 3 (counted from 1) and row 4 (counted"),
        ("item", [3, None, 3, 5], "no item id may be missing"),
        ("request", ["a", None, "b", "b"], "no decision id may be missing"),
        ("user_id", [1, 2, 2, 2], "decision 'a' has two users: row 1 (counted from 1) and row 2 (counted from 1)"),
        ("time", [10, 10, 20, 21], "decision 'b' has two timestamps: row 3 (counted from 1) and row 4"),
        ("p", None, "no propensity column 'p'; columns: request, user_id, item, slot, click, time"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_named(column: str, values: list[Any] | None, message: str) -> None:
    log = {name: list(LOG[name]) for name in LOG}
    log[column] = values or []
    assert message in refusal(load, {name: column for name, column in log.items() if column})


def test_propensities_that_are_all_the_same_are_told() -> None:
    (note,) = load({**LOG, "p": [1.0] * 4}).notes
    assert "all propensities are 1, as of a random choice among 1 items, and the log shows 3" in note
    (note,) = load({**LOG, "p": [0.2] * 4}).notes
    assert "all propensities are 0.2, as of a random choice among 5 items, and the log shows 3" in note
    assert load({**LOG, "p": [1 / 3] * 4}).notes == ()


def test_assumed_propensities_are_marked() -> None:
    # At position 1 item 3 was shown twice of 2 times, with each of three items once more: (2 + 1) / (2 + 3).
    data = load(propensity={"estimate": "item-position"})
    np.testing.assert_allclose(data.propensity, [0.6, 0.4, 0.6, 0.4])
    assert data.assumed == "the share of an item among all shown at a position (2 positions), smoothed"
    assert data.notes == (f"assumed propensities: {data.assumed}",)
    assert data.marginal
    assert load(propensities="marginal").marginal and not load().marginal


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "takes one source: path, or url and query; in Python also frame"),
        ({"path": "a.csv", "query": "SELECT 1"}, "takes one source"),
        ({"url": "sqlite:///a.db"}, "takes one source"),
        ({"path": "a.csv", "propensity": {"estimate": "position"}}, "must be 'item-position', not 'position'"),
        ({"path": "a.csv", "propensity": {"bias": "power"}}, "bias"),
        ({"path": "a.csv", "propensity": 0.1}, "must be text or a mapping with the key"),
        ({"path": "a.csv", "propensities": "joint"}, "must be 'conditional' or 'marginal', not 'joint'"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        DATASETS.create("impressions", params)
    assert message in str(caught.value)


def test_python_names_a_log_by_its_columns() -> None:
    frame = pd.DataFrame(LOG)
    frame.to_csv("log.csv", index=False)
    for log in (frame, Path("log.csv"), "log.csv"):
        dataset = evalplugin.impressions(log, **NAMES)
        assert dataset.load(LoadContext()).digest == load().digest
