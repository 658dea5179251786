"""Values that do not fit their column: null markers among ids, text among numbers and times, forms of Unicode."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from samples import refusal

import evalplugin
from evalplugin.data import Csv, DataFrame, Interactions, LoadContext, Pairs, Parquet, Sql
from evalplugin.data.candidates import Candidates
from evalplugin.data.datasets.tables import ItemTable, PartPaths, UserTable
from evalplugin.data.pool import PoolTable
from evalplugin.data.splits import LastN
from evalplugin.data.tables import Table
from evalplugin.lists.columns import ListColumns
from evalplugin.lists.files import open_files
from evalplugin.lists.given import lists_on
from evalplugin.models.base import ListRequest

N, ODD = 40, 17  # rows, and the position of the odd one
NULLS = ["NULL", "null", r"\N", "None", "NONE", "N/A", "NA", "nan", "NaN", "<NA>", "(null)", " NULL"]
COMPOSED, DECOMPOSED = (normalize(form, "Café") for form in ("NFC", "NFD"))


def written(name: str = "log.csv", rows: int = N, *, odd: int = ODD, **columns: Any) -> Path:
    """Write columns, each given by its usual value (or a function of the row) and perhaps an odd one."""
    values = {}
    for column, usual in columns.items():
        usual, *other = usual if isinstance(usual, tuple) else (usual,)
        cells = [usual(row) if callable(usual) else usual for row in range(rows)]
        if other:
            cells[odd] = other[0]
        values[column] = cells
    lines = [",".join(map(str, cells)) for cells in zip(*values.values(), strict=True)]
    Path(name).write_text("\n".join([",".join(columns), *lines]) + "\n", encoding="utf-8")
    return Path(name)


def number(row: int) -> int:
    return row


def text(row: int) -> str:
    return f"x{row}"


def user(row: int) -> int:
    return row % 7


def load(dataset: Any) -> Interactions:
    loaded: Interactions = dataset.load(LoadContext())
    return loaded


@pytest.mark.parametrize("null", NULLS)
def test_null_marker_among_integer_ids_is_refused_with_row_and_value(null: str) -> None:
    written(user=(user, null), item=number)
    message = refusal(lambda: load(Csv("log.csv")))
    assert f"column 'user', row 18 (counted from 1) is {null!r} (str): no user id may be missing" in message


def read_items(name: str) -> object:
    return load(Csv("data.csv", items=ItemTable(name)))


def pool(name: str) -> object:
    frame = pd.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 1, 2], "time": [1, 2, 3, 4]})
    data = Interactions.from_frame(frame, timestamp="time")
    fold = LastN(n=1).split(data, np.random.default_rng(0))[0]
    return PoolTable(name).candidates(Path(), name, fold, np.ones(len(fold.test), dtype=np.bool_))


READERS: dict[str, Callable[[str], object]] = {
    "dataset": lambda name: load(Csv(name)),
    "text ids": lambda name: load(Csv(name, ids="text")),
    "frame": lambda name: load(DataFrame(pd.read_csv(name, dtype=str, keep_default_na=False))),
    "categories": lambda name: load(
        DataFrame(pd.read_csv(name, dtype=str, keep_default_na=False).astype({"item": "category"}))
    ),
    "parquet": lambda name: load(Parquet(as_parquet(name))),
    "lists": lambda name: evalplugin.score(name, "data.csv", ["rr"]),
    "truth": lambda name: evalplugin.score("data.csv", name, ["rr"]),
    "train": lambda name: evalplugin.score("data.csv", "data.csv", ["novelty@5"], train=name),
    "parts": lambda name: evalplugin.score(as_parquet(name), as_parquet(name), ["rr"], memory="1KB"),
    "items": read_items,
    "pool": pool,
    "given": lambda name: load(Csv(PartPaths("data.csv", name))),
    "scores": lambda name: evalplugin.compare_scores(name, unit="item", model="model", value="rank"),
}


def as_parquet(name: str) -> str:
    frame = pd.read_csv(name, dtype=str, keep_default_na=False).astype({"rank": int})
    frame.to_parquet("text.parquet")
    return "text.parquet"


@pytest.mark.parametrize("reader", READERS)
def test_null_marker_among_integer_ids_is_refused_by_every_reader(reader: str) -> None:
    written("data.csv", user=1, item=number, rank=lambda row: row + 1, model="a")
    written("odd.csv", user=1, item=(number, "NULL"), rank=lambda row: row + 1, model="a")
    message = refusal(lambda: READERS[reader]("odd.csv"))
    assert "column 'item', row 18 (counted from 1) is 'NULL' (str)" in message
    assert "id may be missing" in message


def test_null_marker_among_pairs_of_adjacency_lines_is_refused() -> None:
    Path("log.txt").write_text("1 5 6\n2 5 NULL\n")
    message = refusal(lambda: load(Pairs(path="log.txt", format="adjacency")))
    assert "column 'item', row 4 (counted from 1) is 'NULL' (str): no item id may be missing" in message


def test_null_marker_among_sessions_of_queries_is_refused() -> None:
    written("lists.csv", q=(lambda row: f"{row}:2", "nan:2"), item=number, rank=1)
    written("truth.csv", q=lambda row: f"{row}:2", item=number)
    message = refusal(lambda: evalplugin.score("lists.csv", "truth.csv", ["rr"], columns={"query": "q"}))
    assert "lists.csv: column 'q', row 18 (counted from 1) is 'nan:2' (str): ids of queries are" in message


def test_null_marker_among_text_ids_is_noted_with_its_count() -> None:
    written(user=(text, "None"), item=(text, "NULL"), rank=1)
    assert load(Csv("log.csv")).notes == (
        "log.csv: 'None' is the user of 1 row (column 'user'), the first is row 18 (counted from 1): where it stands "
        "for a missing id, leave such rows out",
        "log.csv: 'NULL' is the item of 1 row (column 'item'), the first is row 18 (counted from 1): where it stands "
        "for a missing id, leave such rows out",
    )
    data = load(Csv("log.csv", items=ItemTable("log.csv"), users=UserTable("log.csv", columns=["rank"])))
    assert sum("'NULL' is the item of 1 row" in note for note in data.notes) == 2
    assert sum("'None' is the user of 1 row" in note for note in data.notes) == 2
    assert len(evalplugin.score("log.csv", "log.csv", ["rr"]).notes) == 4


def test_models_and_parts_may_have_the_name_of_a_null_marker() -> None:
    frame = pd.DataFrame(
        {"q": ["a", "b"] * 2, "model": ["none"] * 2 + ["1"] * 2, "score": [1.0, 0.0, 0.5, 0.2]}
    )
    contest = evalplugin.compare_scores(frame, unit="q", model="model").comparisons[0].contest
    assert contest.notes == ()


def test_null_marker_among_numeric_attributes_is_noted() -> None:
    written(user=user, item=number)
    written("items.csv", item=number, price=(number, "N/A"), kind=text)
    data = load(Csv("log.csv", items=ItemTable("items.csv")))
    assert data.notes == (
        "items.csv: column 'price' is text, as row 18 (counted from 1) is 'N/A', and all others are numbers: an "
        "unknown value must be empty",
    )


@pytest.mark.parametrize("odd", [0, ODD, N - 1])
@pytest.mark.parametrize("bad", ["five", "3;5", "2026-02-30"])
def test_first_text_among_ratings_is_named_with_its_row(bad: str, odd: int) -> None:
    written(user=user, item=number, rating=(lambda row: row / 2, bad), odd=odd)
    message = refusal(lambda: load(Csv("log.csv", rating="rating")))
    where = f"column 'rating', row {odd + 1} (counted from 1) is {bad!r} (str)"
    assert f"{where}: ratings must be finite numbers" in message


@pytest.mark.parametrize(
    ("usual", "bad"),
    [
        ("1700000000", "soon"),
        ("1700000000.5", "2026-02-27"),
        ("2026-02-27", "2026-02-30"),
        ("2026-02-27 10:00:00", "1700000000"),
        ("2026-02-27T10:00:00Z", "2026-02-27T10:00:00"),
        ("2026-02-27T10:00:00.123456789", "27.02.2026"),
    ],
)
def test_first_odd_time_is_named_with_its_row(usual: str, bad: str) -> None:
    written(user=user, item=number, time=(usual, bad))
    message = refusal(lambda: load(Csv("log.csv", timestamp="time")))
    assert f"column 'time', row 18 (counted from 1) is {bad!r} (str): timestamps must be numbers" in message
    assert f"all must be of one kind, and row 1 (counted from 1) is {usual!r}" in message


@pytest.mark.parametrize(("column", "rule"), [("rank", "ranks must be"), ("score", "scores must be")])
def test_first_text_among_ranks_and_scores_of_lists_is_named(column: str, rule: str) -> None:
    written("truth.csv", user=1, item=number)
    written("lists.csv", user=1, item=number, **{column: (lambda row: row + 1, "third")})
    message = refusal(lambda: evalplugin.score("lists.csv", "truth.csv", ["rr"]))
    assert f"lists.csv: column {column!r}, row 18 (counted from 1) is 'third' (str): {rule}" in message


def test_first_text_among_scores_of_a_table_is_named() -> None:
    written("table.csv", q=number, model="a", score=(0.5, "n/a"))
    message = refusal(lambda: evalplugin.compare_scores("table.csv", unit="q", model="model"))
    assert "column 'score', row 18 (counted from 1) is 'n/a' (str): scores must be finite" in message


def test_odd_value_of_one_of_several_files_is_named_with_its_file() -> None:
    written("a.csv", user=1, item=text, rating=4)
    written("b.csv", user=2, item=text, rating=(4, "five"))
    message = refusal(lambda: load(Csv("?.csv", rating="rating")))
    assert "column 'rating', row 18 of b.csv (counted from 1) is 'five' (str): ratings" in message


def test_odd_values_of_frames_and_databases_are_named() -> None:
    frame = pd.DataFrame(
        {"user": [1, 2, 3], "item": [1, 2, 3], "at": [pd.Timestamp(0), pd.Timestamp(1), "soon"]}
    )
    message = refusal(lambda: load(DataFrame(frame, timestamp="at")))
    assert "column 'at', row 3 (counted from 1) is 'soon' (str): timestamps must be" in message
    frame = frame.assign(at=["1", 2.0, 3.0])
    message = refusal(lambda: load(DataFrame(frame, rating="at")))
    assert "column 'at', row 1 (counted from 1) is '1' (str): ratings must be" in message
    frame = frame.assign(at=["2026-01-01", "2026-02-30", "2026-01-03"])
    frame.to_sql("log", sqlite3.connect("log.db"), index=False)
    message = refusal(lambda: load(Sql("sqlite:///log.db", "SELECT * FROM log", timestamp="at")))
    assert "is '2026-02-30' (str): timestamps must be" in message


def test_first_odd_text_of_a_large_column_is_found() -> None:
    values = np.arange(300_000).astype(str)
    values[[123_456, 250_000]] = "x", "y"
    table = Table(pa.table({"rating": values}), "a")
    assert "row 123457 (counted from 1) is 'x'" in refusal(lambda: table.numbers("rating", "rating"))


def test_ids_in_two_forms_of_unicode_are_noted() -> None:
    written("log.csv", user=1, item=(text, COMPOSED))
    written("items.csv", item=(text, DECOMPOSED), kind="a")
    data = load(Csv("log.csv", items=ItemTable("items.csv")))
    assert data.notes == (
        f"items.csv: 1 item, such as {COMPOSED!r}, in two forms of Unicode (NFC and NFD), which are different ids: "
        f"unicodedata.normalize('NFC', id) makes one",
    )
    assert load(Csv("log.csv", items=ItemTable("log.csv"))).notes == ()
    written("lists.csv", user=1, item=(text, DECOMPOSED), rank=lambda row: row + 1)
    assert (
        f"1 item, such as {COMPOSED!r}, in two forms of Unicode"
        in evalplugin.score("lists.csv", "log.csv", ["rr"]).notes[0]
    )
    frame = pd.DataFrame({"user": [COMPOSED, DECOMPOSED], "item": [1, 2]})
    assert f"1 user, such as {COMPOSED!r}, in two forms of Unicode" in Interactions.from_frame(frame).notes[0]


def test_tables_whose_ids_match_nothing_say_that_the_forms_of_unicode_differ() -> None:
    Path("log.csv").write_text(f"user,item\n1,{COMPOSED}\n", encoding="utf-8")
    Path("items.csv").write_text(f"item,kind\n{DECOMPOSED},a\n", encoding="utf-8")
    message = refusal(lambda: load(Csv("log.csv", items=ItemTable("items.csv"))))
    assert "none of its items is in the data" in message
    assert f"1 item, such as {COMPOSED!r}, in two forms of Unicode (NFC and NFD)" in message


def test_pool_with_null_markers_and_other_forms_of_unicode_is_noted() -> None:
    items = ["a", COMPOSED, "c", "d"]
    frame = pd.DataFrame({"user": ["u", "u", "v", "v"], "item": items, "time": [1, 2, 3, 4]})
    fold = LastN(n=1).split(Interactions.from_frame(frame, timestamp="time"), np.random.default_rng(0))[0]
    Path("pool.csv").write_text(f"user,item\nu,{COMPOSED}\nu,{DECOMPOSED}\nv,d\nNULL,c\n", encoding="utf-8")
    pooled = PoolTable("pool.csv").candidates(Path(), "pool.csv", fold, np.ones(2, dtype=np.bool_))
    assert any("'NULL' is the user of 1 row" in note for note in pooled.notes)
    assert any(f"1 item, such as {COMPOSED!r}, in two forms of Unicode" in note for note in pooled.notes)


def test_lists_of_a_model_in_another_form_of_unicode_are_noted() -> None:
    train = Interactions.from_frame(pd.DataFrame({"user": [1, 1, 2], "item": [COMPOSED, "a", "b"]}))
    Path("lists.csv").write_text(f"user,item,rank\n1,{DECOMPOSED},1\n2,a,1\n", encoding="utf-8")
    request = ListRequest(train, np.arange(2), 3, Candidates("all"))
    _, sentences = lists_on(request, open_files("lists.csv", "lists"), ListColumns())
    assert any(f"1 item, such as {COMPOSED!r}, in two forms of Unicode" in sentence for sentence in sentences)


def test_first_float_among_integer_ids_is_named_also_if_it_is_infinite_or_behind_a_missing_one() -> None:
    for values, row in (([1.0, np.inf], 2), ([1.0, np.nan, 2.5], 3)):
        frame = pd.DataFrame({"user": values, "item": range(len(values))})
        assert f"row {row} " in refusal(Interactions.from_frame, frame)


def test_integers_beyond_float64_among_fractions_are_named_with_their_row() -> None:
    frame = pd.DataFrame({"user": 1, "item": range(3), "score": [0.5, 2**53, 2**53 + 1]}, dtype=object)
    message = refusal(Table(frame, "lists").numbers, "score", "score")
    assert "row 2 (counted from 1) is 9007199254740992 (int): integer scores must be between" in message
