"""Interactions from CSV and Parquet files and from DataFrames, and what is said of files that do not fit."""

from __future__ import annotations

import gzip
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from samples import refusal, small_config

from evalplugin.base.errors import DataError, ParameterError
from evalplugin.components.parameters import as_mapping
from evalplugin.data import DATASETS, Csv, DataFrame, Interactions, LoadContext, Parquet
from evalplugin.data.datasets.tables import ItemTable, UserTable
from evalplugin.data.tables import Table
from evalplugin.features.config import load

HERE = LoadContext()


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def rows(data: Interactions) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in data.to_frame().to_numpy().tolist()]


GOOD = "user,item,rating,timestamp\n3,a,4.5,20\n1,b,2,10\n"


def test_csv_reads_the_named_columns() -> None:
    write("log.csv", GOOD)
    data = Csv("log.csv", rating="rating", timestamp="timestamp").load(HERE)
    assert rows(data) == [(3, "a", 4.5, 20), (1, "b", 2.0, 10)]
    assert data.notes == ()


def test_a_rating_column_that_is_not_named_is_not_used_and_noted() -> None:
    write("log.csv", GOOD.replace("rating", "Stars"))
    data = Csv("log.csv").load(HERE)
    assert data.rating.tolist() == [1.0, 1.0]
    assert data.unused == (("rating", "Stars"), ("timestamp", "timestamp"))


def test_several_files_are_read_in_the_order_of_their_names() -> None:
    write("logs [1]/b.csv", "item,user\n1,2\n")
    write("logs [1]/a.csv", "user,item\n5,6\n")
    base = LoadContext(base=Path("logs [1]"))
    assert rows(Csv("*.csv").load(base)) == [(5, 6, 1.0), (2, 1, 1.0)]
    assert rows(Csv(str(Path("logs [1]", "a.csv").absolute())).load(HERE)) == [(5, 6, 1.0)]


def test_csv_options_separator_columns_compression_and_quotes() -> None:
    Path("log.tsv.gz").write_bytes(gzip.compress(b'1\t"a\tb"\t3\n2\tc\t4\n'))
    loader = Csv("log.tsv.gz", separator="\t", columns=["user", "item", "count"], rating="count")
    assert rows(loader.load(HERE)) == [(1, "a\tb", 3.0), (2, "c", 4.0)]


def test_csv_na_and_null_are_text_and_only_empty_is_missing() -> None:
    write("log.csv", "user,item\nNA,1\nnull,2\n")
    assert Csv("log.csv").load(HERE).users.tolist() == ["NA", "null"]
    write("log.csv", "user,item\n1,1\n,2\n")
    expected = "log.csv: column 'user', row 2 (counted from 1) is empty: no user id may be missing"
    assert refusal(Csv("log.csv").load, HERE).endswith(expected)


@pytest.mark.parametrize(
    "written", ["1970-01-02", "1970-01-02 00:00:00", "1970-01-02T01:00:00+01:00", "86400", "86400.0"]
)
def test_times_are_numbers_or_iso_dates(written: str) -> None:
    write("log.csv", f"user,item,at\n1,1,{written}\n")
    data = Csv("log.csv", timestamp="at").load(HERE)
    assert data.timestamp.tolist() == [86_400]


def test_ratings_may_turn_fractional_late_in_a_large_file() -> None:
    lines = [f"{number},1,3" for number in range(150_000)]
    write("log.csv", "\n".join(["user,item,rating", *lines, "150000,1,3.5"]))
    assert Csv("log.csv", rating="rating").load(HERE).rating[-1] == 3.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,item,rating\n", "log.csv: there are no rows"),
        ("userId,item,rating\n1,2,3\n", "log.csv: no user column 'user'; did you mean 'userId'?"),
        ("user,item,rating,user\n1,2,3,4\n", "log.csv: 2 columns are called 'user' (user)"),
        ("\ufeffuser,item,rating\n", "log.csv: there are no rows"),
        ("user,item\n1,2\n", "log.csv: no rating column 'rating'; columns: user, item"),
    ],
)
def test_a_bad_csv_file_is_named_with_the_row(text: str, message: str) -> None:
    write("log.csv", text)
    assert message in refusal(Csv("log.csv", rating="rating").load, HERE)


def test_errors_in_several_files_name_the_file_and_its_own_row() -> None:
    write("a.csv", "user,item\n1,1\n2,1\n")
    write("b.csv", "user,item\n3,1\n1,1\n")
    message = refusal(Csv("*.csv").load, HERE)
    assert "(2 files): user 1 meets item 1 more than once" in message
    assert "row 1 of a.csv (counted from 1) and row 2 of b.csv (counted from 1)" in message


def test_a_file_of_other_columns_is_named() -> None:
    write("a.csv", "user,item\n1,1\n")
    write("b.csv", "user,item,extra\n2,1,3\n")
    message = refusal(Csv("*.csv").load, HERE)
    assert message.endswith("b.csv: its columns are not those of a.csv: 'extra' is in one of them only")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("log.csw", "log.csw; did you mean 'log.csv'?"),
        ("other/log.csv", "file not found: "),
        ("*.tsv", "no file matches "),
        (".", "is a folder, not a file; name its files by a pattern such as ./*.csv"),
    ],
)
def test_missing_files_are_found_before_any_is_read(path: str, message: str) -> None:
    write("log.csv", GOOD)
    [problem] = Csv(path).check(HERE)
    assert problem.path == ("path",)
    assert message in problem.message
    assert message in refusal(Csv(path).load, HERE)
    assert Csv("log.csv").check(HERE) == []


def test_parquet_reads_files_and_folders_of_several_widths() -> None:
    Path("logs/day=1").mkdir(parents=True)
    first = pd.DataFrame(
        {"user": [1, 2], "item": ["a", "b"], "n": [3, 4], "at": pd.to_datetime(["1970-01-02"] * 2)}
    )
    first.astype({"user": "int32"}).to_parquet("logs/day=1/x.parquet")
    first.assign(user=[3, 4]).astype({"n": float}).to_parquet("logs/y.parquet")
    loader = Parquet("logs", rating="n", timestamp="at")
    assert loader.check(HERE) == []
    data = loader.load(HERE)
    read = [(1, "a", 3.0), (2, "b", 4.0), (3, "a", 3.0), (4, "b", 4.0)]
    assert rows(data) == [(*row, 86400) for row in read]


def test_a_dataframe_is_read_as_it_is() -> None:
    frame = pd.DataFrame({"who": [2, 1], "what": ["x", "y"], "score": [0.5, 1]})
    loader = DataFrame(frame, user="who", item="what")
    assert loader.check(LoadContext()) == []
    data = loader.load(LoadContext())
    assert rows(data) == [(2, "x", 1.0), (1, "y", 1.0)]
    assert data.unused == (("rating", "score"),)
    unset = dict.fromkeys(("rating", "timestamp", "part", "items", "users"))
    assert as_mapping(loader) == {"user": "who", "item": "what", "duplicates": "error", **unset}


class ArrowStream:
    """A table of a library that has the Arrow protocol, such as polars."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return pa.table(self.frame).__arrow_c_stream__(schema)


@pytest.mark.parametrize("kind", [pa.table, ArrowStream])
def test_tables_of_other_libraries_are_the_same_data(kind: Any) -> None:
    frame = pd.DataFrame({"user": [2, 1, 2], "item": ["x", "y", "z"], "rating": [0.5, 1, 2]})
    loader, expected = (DataFrame(table, rating="rating") for table in (kind(frame), frame))
    assert loader.load(LoadContext()).digest == expected.load(LoadContext()).digest
    shop = {"name": "shop", "type": "dataframe", "frame": kind(frame), "rating": "rating"}
    segments = [{"name": "kind", "type": "attribute", "column": "rating", "frame": kind(frame)}]
    config = small_config(datasets=[shop], segments=segments)
    (dataset,) = (each.component for each in load(config).datasets)
    assert dataset.load(LoadContext()).digest == expected.load(LoadContext()).digest


def test_a_table_that_is_not_computed_yet_is_refused() -> None:
    class LazyFrame:
        def collect(self) -> None: ...

    with pytest.raises(DataError, match=r"not LazyFrame; collect\(\) makes one of it"):
        Table(LazyFrame(), "lists")


def test_a_dataframe_cannot_come_from_a_config() -> None:
    with pytest.raises(
        ParameterError, match=r"'dataframe' is for Python only: it takes a pandas DataFrame, .*; in a config"
    ):
        DATASETS.create("dataframe", {"user": "who"})
    with pytest.raises(ValueError, match="with the Arrow protocol, not list"):
        DataFrame([1, 2])


ITEMS = "item,name\na,Alien\nb,\nz,Zulu\n"
NAMED = ItemTable("items.csv", title="name")


def test_titles_come_from_a_table_of_items() -> None:
    write("log.csv", GOOD + "4,c,1,30\n")
    write("items.csv", ITEMS)
    data = Csv("log.csv", items=NAMED).load(HERE)
    assert dict(zip(data.items, data.titles, strict=True)) == {"a": "Alien", "b": "b", "c": "c"}
    assert data.notes == ("2 items have no title in items.csv: their ids are shown instead",)
    assert data.digest == Csv("log.csv").load(HERE).digest


def test_titles_of_whole_number_ids_and_from_parquet() -> None:
    write("log.csv", "user,item\n1,10\n1,20\n")
    write("items.csv", 'id;title\n20;"Heat; 1995"\n10;1984\n')
    frame = pd.DataFrame({"id": [20, 10], "title": ["Heat; 1995", "1984"]})
    frame.to_parquet("items.parquet")
    for items in (
        ItemTable("items.csv", item="id", title="title", separator=";"),
        ItemTable("items.parquet", item="id", title="title"),
    ):
        data = Csv("log.csv", items=items).load(HERE)
        assert data.titles.tolist() == ["1984", "Heat; 1995"]
        assert dict(data.item_attributes) == {}


PRICED = "item,name,price,kind\na,Alien,9.5,film\nc,Coma,,book\nz,Zulu,1,\n"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_attributes_are_in_the_order_of_codes(ending: str) -> None:
    write("log.csv", GOOD + "4,c,1,30\n")
    write("items.csv", PRICED)
    pd.read_csv("items.csv").to_parquet("items.parquet")
    data = Csv("log.csv", items=ItemTable(f"items.{ending}", title="name")).load(HERE)
    assert list(data.items) == ["a", "b", "c"]
    assert list(data.item_attributes) == ["price", "kind"]
    np.testing.assert_array_equal(data.item_attributes["price"], [9.5, np.nan, np.nan])
    assert data.item_attributes["kind"].tolist() == ["film", None, "book"]
    assert data.titles.tolist() == ["Alien", "b", "Coma"]
    assert not data.user_attributes
    chosen = Csv("log.csv", items=ItemTable(f"items.{ending}", columns=["kind"])).load(HERE)
    assert list(chosen.item_attributes) == ["kind"]
    assert chosen.titles is None


def test_attributes_of_users_count_in_the_digest_and_reach_every_part() -> None:
    write("log.csv", GOOD)
    loader = Csv("log.csv", users=UserTable("people.csv", user="id"))
    digests = [Csv("log.csv").load(HERE).digest]
    for age in (20, 30):
        write("people.csv", f"id,age\n1,{age}\n3,40\n3,40\n")
        data = loader.load(HERE)
        assert data.user_attributes["age"].tolist()[:2] == [age, 40]
        digests.append(data.digest)
    assert len(set(digests)) == 3
    part = data.select(np.arange(len(data)) < 1)
    assert part.user_attributes["age"] is data.user_attributes["age"]
    copied = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(copied.user_attributes["age"], data.user_attributes["age"])
    for one in (data, copied):
        with pytest.raises(ValueError, match="read-only"):
            one.user_attributes["age"][0] = 1
    same = replace(data, item_attributes=data.user_attributes, user_attributes=data.item_attributes)
    assert same.digest != data.digest


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (
            "item,name\na,Alien\nb,Heat\na,Other\n",
            "items.csv: the rows of item 'a' contradict each other: 'name' is 'Alien' in one, 'Other' in another",
        ),
        ("item,name\n,Alien\n", "column 'item', row 1 (counted from 1) is empty: no item id may be missing"),
        (
            "item,name\nx,Alien\n",
            "none of its items is in the data: column 'item' has ids such as 'x', the data such as 'a', 'b'",
        ),
        ("item,name\n", "items.csv: there are no rows"),
    ],
)
def test_side_tables_that_do_not_fit_are_refused(items: str, message: str) -> None:
    write("log.csv", GOOD)
    write("items.csv", items)
    assert message in refusal(Csv("log.csv", items=NAMED).load, HERE)
    frame = pd.read_csv("log.csv")
    assert message in refusal(DataFrame(frame=frame, items=NAMED).load, HERE)


def test_an_attribute_that_is_neither_number_nor_text_is_refused() -> None:
    write("log.csv", GOOD)
    pd.DataFrame({"item": ["a"], "tags": [["x", "y"]]}).to_parquet("items.parquet")
    message = refusal(Csv("log.csv", items=ItemTable("items.parquet")).load, HERE)
    assert "items.parquet: column 'tags' is list" in message
    assert message.endswith("it must hold numbers or text")


def test_missing_file_or_column_of_a_side_table_is_a_config_problem() -> None:
    write("log.csv", GOOD)
    write("items.csv", ITEMS)

    def problems(**items: Any) -> list[tuple[Any, ...]]:
        loader = DATASETS.create("csv", {"path": "log.csv", "items": items})
        return [(*problem.path, problem.message) for problem in loader.check(HERE)]

    with pytest.raises(
        ParameterError, match="items: must be a mapping with the keys path, columns, separator, item, title"
    ):
        DATASETS.create("csv", {"path": "log.csv", "items": "items.csv"})
    assert problems(path="items.csv", title="name") == []
    ((*path, message),) = problems(path="items.csv", item="itm", title="name")
    assert path == ["items", "item"]
    assert message.endswith("items.csv: no column 'itm'; did you mean 'item'?")
    ((*path, message),) = problems(path="items.csv", columns=["name", "prise"])
    assert path == ["items", "columns", 1]
    ((*path, message),) = problems(path="item.csv")
    assert path == ["items", "path"]
    assert message.endswith("item.csv; did you mean 'items.csv'?")


def test_a_dataset_shows_its_side_tables_and_null_without_them() -> None:
    shown = as_mapping(Csv("log.csv", items=NAMED))
    assert (shown["items"]["path"], shown["users"]) == ("items.csv", None)


def test_columns_that_splits_need_have_one_text_for_each_user() -> None:
    write("log.csv", "user,item,home,age\n2,1,007,30\n1,1,7,40\n2,3,007,30\n")
    write("users.csv", "user,home,city\n1,a,x\n2,b,\n")
    context = LoadContext(user_columns=("home", "age"))
    data = Csv("log.csv").load(context)
    expected = {"home": ["7", "007"], "age": ["40", "30"]}
    assert {name: values.tolist() for name, values in data.user_columns.items()} == expected
    assert not data.user_attributes
    assert data.digest == Csv("log.csv").load(HERE).digest
    # The table of users comes first.
    context = LoadContext(user_columns=("home", "city", "age"))
    both = Csv("log.csv", users=UserTable("users.csv")).load(context)
    expected = {"home": ["a", "b"], "city": ["x", None], "age": ["40", "30"]}
    assert {name: values.tolist() for name, values in both.user_columns.items()} == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,item,home\n1,1,a\n1,2,b\n", "column 'home' has two values for user 1, 'a' in row 1 (counted from 1) and "
         "'b' in row 2 (counted from 1): a cluster has all rows of a session"),
        ("user,item,home\n1,1,5\n2,1,5\n1,2,6\n2,2,7\n", "for user 1, 5 in row 1 (counted from 1) and 6 in row 3 "
         "(counted from 1) (and for 1 more)"),
        ("user,item,home\n1,1,a\n1,2,\n", "row 2 (counted from 1) is empty: no cluster id may be missing"),
        ("user,item,home\n1,1,0.5\n", "cluster ids must be integers or text"),
        ("user,item,Home\n1,1,a\n", "log.csv: no cluster column 'home'; did you mean 'Home'?"),
    ],
)  # fmt: skip
def test_columns_that_splits_need_are_checked(text: str, message: str) -> None:
    write("log.csv", text)
    assert message in refusal(Csv("log.csv").load, LoadContext(user_columns=("home",)))


def test_a_column_of_users_that_splits_need_has_no_other_role() -> None:
    write("log.csv", "user,item\n1,1\n")
    for role in ("user", "item"):
        message = f"column {role!r} cannot be both {role} and cluster: name two columns"
        assert message in refusal(Csv("log.csv").load, LoadContext(user_columns=(role,)))
