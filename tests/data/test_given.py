"""Data in parts: names of parts, the split ``given``, files, columns and formats, and what is refused."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from samples import RecordingObserver, refusal

from evalplugin.base.errors import ConfigError, DataError
from evalplugin.data import DATASETS, GivenSplit, Interactions, KCore, LoadContext, filtered, in_one_piece
from evalplugin.data.parts import FoldParts, folds_of
from evalplugin.execution.runner import PreparedData, prepare
from evalplugin.features.config import load

TRAIN = [(1, 1), (1, 2), (2, 1), (2, 3), (3, 2)]
VALIDATION = [(1, 4), (2, 4)]
TEST = [(1, 3), (2, 2), (3, 1)]
PARTS = {"train": TRAIN, "validation": VALIDATION, "test": TEST}
PATHS = {"train": "train.csv", "test": "test.csv"}
Pairs = list[tuple[Any, Any]]


def csv_text(pairs: Pairs) -> str:
    return "user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs)


def table(parts: dict[str, Pairs]) -> pd.DataFrame:
    rows = [(user, item, part) for part, pairs in parts.items() for user, item in pairs]
    return pd.DataFrame(rows, columns=["user", "item", "part"])


def loaded(type: str, **params: Any) -> Interactions:
    """Return a dataset, after its check."""
    loader, context = DATASETS.create(type, params), LoadContext(base=Path.cwd())
    assert loader.check(context) == []
    return loader.load(context)


def in_parts(parts: dict[str, Pairs], **params: Any) -> Interactions:
    return loaded("dataframe", frame=table(parts), part="part", **params)


def raw(data: Interactions) -> set[tuple[Any, Any]]:
    return set(zip(data.users[data.user].tolist(), data.items[data.item].tolist(), strict=True))


def split(data: Interactions, **params: Any) -> Any:
    (fold,) = GivenSplit(**params).split(data, np.random.default_rng(0))
    return fold


def prepared(dataset: dict[str, Any], **changes: Any) -> PreparedData:
    config = {"experiment": "e", "datasets": [dataset], "split": "given", "metrics": ["recall@5"]}
    (data,) = prepare(load({**config, "models": ["popularity"], **changes}), None, RecordingObserver())
    return data


# Names of parts


@pytest.mark.parametrize("alias", ["validation", "valid", "val", "dev", "Valid", "DEV"])
def test_the_names_of_parts_have_aliases(alias: str) -> None:
    assert folds_of(["Train", "TEST", alias]) == [FoldParts(("Train",), (alias,), ("TEST",))]


def test_numbers_name_folds_in_their_natural_order() -> None:
    folds = folds_of(["fold10", "fold2", "fold1"])
    assert [fold.test for fold in folds] == [("fold1",), ("fold2",), ("fold10",)]
    assert folds[1].train == ("fold1", "fold10")


def test_parts_have_folds_of_their_own() -> None:
    folds = folds_of(["train 10", "train 9", "test 9", "test 10", "validation 9"])
    ninth = FoldParts(("train 9",), ("validation 9",), ("test 9",))
    assert folds == [ninth, FoldParts(("train 10",), (), ("test 10",))]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["train", "tset"], "'tset' is not the name of a part; did you mean 'test'?; the parts here are train, tset"),
        (["training", "testing"], "did you mean 'test'?"),
        (["train", "test", "other"], "allowed: train, validation, test, valid, val, dev"),
        (["False", "True"], "'False' is not the name of a part"),
        (["2020-01-01", "2020-01-02"], "'2020-01-01' is not the name of a part"),
        (["train"], "there is no test part, or it has no rows; the parts are train"),
        (["test"], "there is no train part"),
        (["7"], "all rows are of one fold (7), and at least two are needed"),
        (["train 1", "test 1", "train 2"], "there is no test part of fold 2"),
    ],
)  # fmt: skip
def test_other_names_are_refused_with_the_nearest_one(names: list[str], message: str) -> None:
    assert message in refusal(folds_of, names)


# The split


def test_the_parts_are_train_data_validation_data_and_truth() -> None:
    fold = split(in_parts(PARTS))
    assert raw(fold.train) == {*TRAIN, *VALIDATION}
    assert raw(fold.test) == set(TEST)
    assert raw(fold.validation.train) == set(TRAIN)
    assert raw(fold.validation.test) == set(VALIDATION)
    assert fold.notes == ("2 of 2 validation interactions are with 1 items without train data",)


def test_validation_data_may_be_for_tuning_alone() -> None:
    fold = split(in_parts(PARTS), fit_on_validation=False)
    assert raw(fold.train) == set(TRAIN)
    assert raw(fold.validation.test) == set(VALIDATION)
    assert fold.notes[-1] == "fit_on_validation is false: 2 validation interactions are for tuning alone"


def test_overlap_and_cold_users_and_items_are_counted() -> None:
    data = in_parts({"train": TRAIN, "test": [(1, 1), (1, 3), (9, 9)]})
    assert split(data).notes == (
        "1 of 3 test pairs are in the train data too, the first is user 1 with item 1",
        "1 of 2 test users have no train data",
        "1 of 3 test interactions are with 1 items without train data",
    )
    dropped = split(data, overlap="drop")
    assert raw(dropped.test) == {(1, 3), (9, 9)}
    assert dropped.notes[0].endswith("; they are left out of the truth")
    assert raw(split(data, cold="drop").test) == {(1, 1), (1, 3)}


def test_a_truth_of_train_pairs_alone_cannot_be_dropped() -> None:
    data = in_parts({"train": TRAIN, "test": TRAIN[:2]})
    with pytest.raises(DataError, match=r"2 of 2 test pairs .* nothing is left to test"):
        split(data, overlap="drop")


def test_a_part_that_a_filter_empties_is_refused() -> None:
    data = in_parts(PARTS)
    assert data.part is not None
    left = data.restrict(data.part != data.parts.index("test"))
    with pytest.raises(DataError, match="1: the test part has no rows; does a filter leave all of them out"):
        split(left)


pair = st.tuples(st.integers(0, 5), st.integers(0, 6))
part = st.lists(pair, min_size=1, max_size=15, unique=True)


@given(train=part, validation=part, test=part)
def test_every_row_of_a_part_is_in_its_place(train: Pairs, validation: Pairs, test: Pairs) -> None:
    data = in_parts({"train": train, "dev": validation, "test": test})
    fold = split(data)
    assert raw(fold.train) == {*train, *validation}
    assert len(fold.train) == len(raw(fold.train))
    assert raw(fold.test) == set(test)
    overlap = len(raw(fold.train) & set(test))
    assert len(fold.shared_pairs(fold.train)) == overlap
    assert any("test pairs are in the train data too" in note for note in fold.notes) == bool(overlap)
    assert raw(in_one_piece(data)) == {*train, *validation, *test}


@given(pairs=st.lists(pair, min_size=3, max_size=20, unique=True), k=st.integers(2, 3))
def test_each_row_is_the_truth_of_one_numbered_fold(pairs: Pairs, k: int) -> None:
    parts = {str(number): pairs[number::k] for number in range(k)}
    folds = GivenSplit().split(in_parts(parts), np.random.default_rng(0))
    assert [fold.fold for fold in folds] == list(range(k))
    for number, fold in enumerate(folds):
        assert raw(fold.test) == set(parts[str(number)])
        assert raw(fold.train) == set(pairs) - raw(fold.test)
        assert fold.notes[0] == f"the test part is {number}"


@given(pairs=st.lists(pair, min_size=4, max_size=25, unique=True), k=st.integers(2, 3))
def test_a_core_counts_the_pairs_of_several_folds_once(pairs: Pairs, k: int) -> None:
    cut = len(pairs) // 2
    whole = in_parts({"train": pairs[:cut], "test": pairs[cut:]})
    one, two = pairs[:cut], pairs[cut:]
    folds = in_parts({"train 1": one, "test 1": two, "train 2": two, "test 2": one})
    try:
        expected = raw(filtered(whole, [("k_core", KCore(k))]))
    except DataError:
        with pytest.raises(DataError, match="leaves nothing"):
            filtered(folds, [("k_core", KCore(k))])
    else:
        assert raw(filtered(folds, [("k_core", KCore(k))])) == expected


def test_the_digest_covers_the_parts() -> None:
    data = in_parts(PARTS)
    assert data.part is not None
    moved = in_parts({"train": TRAIN + VALIDATION, "test": TEST})
    renamed = replace(data, parts=("train", "test", "validation"))
    digests = [data.digest, moved.digest, renamed.digest, in_one_piece(data).digest]
    assert len(set(digests)) == 4
    assert in_parts(PARTS).digest == data.digest


def test_events_of_all_parts_stay_and_become_counts() -> None:
    data = in_parts({"train": [(1, 1), (1, 1), (2, 2)], "test": [(1, 1), (2, 1)]}, duplicates="keep")
    assert len(in_one_piece(data)) == 5
    fold = split(data)
    assert fold.train.rating.tolist() == [2.0, 1.0]


# Three forms, and all sources


def test_a_path_for_each_part_is_the_same_as_a_column() -> None:
    for name, pairs in PARTS.items():
        Path(f"{name}.csv").write_text(csv_text(pairs))
        pd.DataFrame(pairs, columns=["user", "item"]).to_parquet(f"{name}.parquet")
    frame = table(PARTS)
    frame.to_csv("all.csv", index=False)
    frame.to_parquet("all.parquet")
    frame.to_sql("all_rows", sqlite3.connect("shop.db"), index=False)
    sources = [
        loaded("csv", path={name: f"{name}.csv" for name in PARTS}),
        loaded("parquet", path={name: f"{name}.parquet" for name in PARTS}),
        loaded("csv", path="all.csv", part="part"),
        loaded("parquet", path="all.parquet", part="part"),
        loaded("sql", url="sqlite:///shop.db", query="SELECT * FROM all_rows", part="part"),
        in_parts(PARTS),
    ]
    for data in sources:
        fold = split(data)
        assert (raw(fold.train), raw(fold.test)) == ({*TRAIN, *VALIDATION}, set(TEST))
        assert raw(fold.validation.test) == set(VALIDATION)
    assert sources[0].digest == sources[2].digest == sources[3].digest == sources[5].digest


def test_rows_of_a_database_have_one_order_when_a_pair_is_in_several_parts() -> None:
    digests = set()
    for first, second in (("train", "test"), ("test", "train")):
        rows = table({first: TRAIN, second: TRAIN})
        rows.to_sql("rows", sqlite3.connect(f"{first}.db"), index=False)
        url, query = f"sqlite:///{first}.db", "SELECT * FROM rows"
        digests.add(loaded("sql", url=url, query=query, part="part").digest)
    assert len(digests) == 1


def test_paths_name_the_folds() -> None:
    for number in (1, 2, 10):
        Path(f"u{number}.base").write_text(csv_text([*TRAIN, (number, 7)]))
        Path(f"u{number}.test").write_text(csv_text(TEST))
    data = loaded("csv", path={"train": "u{fold}.base", "test": "u{fold}.test"})
    folds = GivenSplit().split(data, np.random.default_rng(0))
    assert [fold.notes[0] for fold in folds] == [f"the test part is test {number}" for number in (1, 2, 10)]
    assert all((n, 7) in raw(fold.train) for n, fold in zip((1, 2, 10), folds, strict=True))
    assert all(len(raw(a.train) ^ raw(b.train)) == 2 for a, b in pairwise(folds))
    joined = in_one_piece(data)
    assert raw(joined) == {*TRAIN, *TEST, (1, 7)}
    assert joined.notes[-1] == "the parts train 1, test 1 of the data are joined"


def test_other_splits_join_the_parts_with_a_note() -> None:
    Path("train.csv").write_text(csv_text(TRAIN))
    Path("test.csv").write_text(csv_text([*TEST, TRAIN[0]]))
    data = prepared({"name": "mine", "type": "csv", "path": PATHS}, split={"type": "kfold", "k": 2})
    assert raw(data.folds[0].train) | raw(data.folds[0].test) == {*TRAIN, *TEST}
    note = (
        "the parts train, test of the data are joined; 1 pairs of later parts take the place of earlier ones"
    )
    assert note in data.folds[0].train.notes


# Formats of other libraries

INTER = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"


def test_adjacency_lines_are_read() -> None:
    Path("train.txt").write_text("1 1 2\r\n2 1 3\n\n3 2\n4\n")
    Path("test.txt").write_text("1\t3\n2  2 \n3 1")
    fold = split(loaded("pairs", path={"train": "train.txt", "test": "test.txt"}, format="adjacency"))
    assert (raw(fold.train), raw(fold.test)) == (set(TRAIN), set(TEST))


def test_files_of_recbole_are_read() -> None:
    Path("a.train.inter").write_text(INTER + "x\t1\t3.5\t10\ny\t2\t1\t11\n")
    Path("a.test.inter").write_text(INTER + "x\t2\t2\t12\n")
    names = {"path": {"train": "a.train.inter", "test": "a.test.inter"}, "format": "recbole"}
    fold = split(loaded("pairs", **names, rating="rating", timestamp="timestamp"))
    assert raw(fold.train) == {("x", 1), ("y", 2)}
    assert fold.train.rating.tolist() == [3.5, 1.0]
    assert fold.test.timestamp.tolist() == [12]
    assert split(loaded("pairs", **names)).train.rating.tolist() == [1.0, 1.0]


def test_triples_are_read_with_two_to_four_columns() -> None:
    names = {"path": {"train": "train.tsv", "test": "test.tsv"}, "format": "triples"}
    Path("train.tsv").write_text("1\t1\t4\t10\n2\t2\t3\t11\n")
    Path("test.tsv").write_text("1\t2\t5\t12\n")
    fold = split(loaded("pairs", **names, rating="rating", timestamp="timestamp"))
    assert (fold.train.rating.tolist(), fold.test.timestamp.tolist()) == ([4.0, 3.0], [12])
    Path("train.tsv").write_text("1\t1\n2\t2\n")
    Path("test.tsv").write_text("1\t2\n")
    assert raw(split(loaded("pairs", **names)).train) == {(1, 1), (2, 2)}


def test_sparse_matrices_are_read() -> None:
    scipy.sparse.save_npz("train.npz", scipy.sparse.csr_array(np.array([[1, 0, 2], [0, 3, 0]])))
    scipy.sparse.save_npz("test.npz", scipy.sparse.coo_matrix(np.array([[0, 1, 0], [0, 0, 1]])))
    names = {"path": {"train": "train.npz", "test": "test.npz"}, "format": "npz"}
    fold = split(loaded("pairs", **names, rating="rating", n_items=5))
    assert raw(fold.train) == {(0, 0), (0, 2), (1, 1)}
    assert fold.train.rating.tolist() == [1.0, 2.0, 3.0]
    assert fold.train.n_items == 5
    assert fold.train.notes == ("2 of 5 items of the catalogue have no interactions",)


@pytest.mark.parametrize(
    ("format", "train", "test"),
    [
        ("adjacency", "01 7 08\n1 7\n", "01 9\n1 08\n"),
        ("recbole", INTER + "01\t7\t1\t1\n01\t08\t1\t1\n1\t7\t1\t1\n", INTER + "01\t9\t1\t1\n1\t08\t1\t1\n"),
        ("triples", "01\t7\n01\t08\n1\t7\n", "01\t9\n1\t08\n"),
    ],
)
def test_ids_of_each_format_are_read_as_text_on_request(format: str, train: str, test: str) -> None:
    Path("train").write_text(train)
    Path("test").write_text(test)
    data = loaded("pairs", format=format, path={"train": "train", "test": "test"}, ids="text")
    assert raw(data) == {("01", "7"), ("01", "08"), ("1", "7"), ("01", "9"), ("1", "08")}
    Path("train").write_text(train.replace("01", "3").replace("08", "8"))
    with pytest.raises(DataError, match="reading ids as text makes them the same in all files"):
        loaded("pairs", format=format, path={"train": "train", "test": "test"})
    loaded("pairs", format=format, path={"train": "train", "test": "test"}, ids="text")


def test_one_file_of_a_format_comes_in_one_piece() -> None:
    Path("all.txt").write_text("1 1 2\n2 1\n")
    data = loaded("pairs", path="all.txt", format="adjacency")
    assert data.part is None
    assert raw(data) == {(1, 1), (1, 2), (2, 1)}


ids = st.one_of(st.integers(-5, 99).map(str), st.sampled_from(["x", "007", "+1", "ä"]))


def test_adjacency_lines_that_begin_with_a_count_are_refused() -> None:
    Path("users.dat").write_text("3 17 4 9\n1 4\n3 2 9 8\n")
    message = refusal(loaded, "pairs", path="users.dat", format="adjacency")
    assert "users.dat: each line begins with the number of ids behind it, and not with a user" in message
    assert "awk '{$1 = NR - 1; print}'" in message


def test_adjacency_lines_of_users_with_as_many_items_as_their_number_are_read() -> None:
    Path("a.txt").write_text("1 17\n2 4 9\n")
    assert len(loaded("pairs", path="a.txt", format="adjacency")) == 3


@pytest.mark.slow
@given(lists=st.dictionaries(ids, st.lists(ids, min_size=1, unique=True), min_size=1))
def test_adjacency_lines_are_read_as_the_same_table_in_csv(lists: dict[str, list[str]]) -> None:
    Path("a.txt").write_text("".join(" ".join([user, *items]) + "\n" for user, items in lists.items()))
    Path("a.csv").write_text(csv_text([(user, item) for user, items in lists.items() for item in items]))
    assert loaded("pairs", path="a.txt", format="adjacency").digest == loaded("csv", path="a.csv").digest


# What is refused

CSV = {"name": "d", "type": "csv", "path": PATHS}
ADJACENCY = {"name": "d", "type": "pairs", "path": PATHS, "format": "adjacency"}
RECBOLE, TRIPLES, NPZ = (ADJACENCY | {"format": format} for format in ("recbole", "triples", "npz"))
COLUMN = {"name": "d", "type": "csv", "path": "train.csv", "part": "part"}
T, E = csv_text(TRAIN), csv_text(TEST)
REFUSED: list[tuple[dict[str, Any], str, str, list[str]]] = [
    (CSV, T, "user,item\n", ["test.csv: has no rows, and is the test part of the data"]),
    (CSV, T, "", ["test.csv is empty"]),
    (CSV, T, "u,i\n1,3\n", ["test.csv: its columns are not those of train.csv", "'u'"]),
    (CSV, T, E.replace("3,1", "3,x"), ["test.csv: column 'item' is string, but int64 in train.csv", "ids: text"]),
    (CSV, T, E.replace(",", ";"), ["test.csv: its header is one column, 'user;item': is ';' the separator?"]),
    (CSV, T, "user,item\n1,\n", ["column 'item', row 1 of test.csv", "is empty"]),
    (CSV, T, E + "1,1\n", ["dataset d, split given: recommend.candidates: unseen", "1 of 4 test pairs",
                           "user 1 with item 1", "overlap: drop", "candidates: all", "duplicates: keep"]),
    (CSV | {"path": PATHS | {"test": "tset.csv"}}, T, E, ["datasets[0].path.test: file not found", "'test.csv'"]),
    (CSV | {"path": {"train": "train.csv"}}, T, E, ["datasets[0].path.test: missing parameter 'test'"]),
    (CSV | {"path": {"train": "train.csv", "tset": "test.csv"}}, T, E, ["did you mean 'test'?"]),
    (CSV | {"path": PATHS | {"test": "train.csv"}}, T, E, ["test: ", "train.csv is the file of another part too"]),
    (CSV | {"part": "part"}, T, E, ["part names a column of one table"]),
    (CSV | {"path": "train.csv"}, T, E, ["split: split given needs data that comes in parts", "by part"]),
    (CSV | {"path": {"train": "train.csv", "test": "tes{fold}.csv"}}, T, E, ["there is no test part, or it has"]),
    (CSV | {"path": {"train": "{fold}/a.csv", "test": "b"}}, T, E, ["no file matches"]),
    (COLUMN, "user,item,part\n1,1,train\n1,2,tset\n", E, ["column 'part': 'tset' is not", "'test'"]),
    (COLUMN, "user,item,part\n1,1,train\n1,2,\n", E, ["column 'part', row 2", "is empty"]),
    (COLUMN, "user,item,part\n1,1,train\n1,2,train\n", E, ["column 'part': there is no test part"]),
    (COLUMN, "user,item,prat\n1,1,train\n", E, ["no part column 'part'; did you mean 'prat'?"]),
    (COLUMN, "user,item,part\n" + "".join(f"1,{n},{n}\n" for n in range(101)), E, ["101 parts", "at most 100"]),
    (ADJACENCY | {"n_items": 10**12}, "1 1\n", "1 2\n", ["n_items", "100000000"]),
    (ADJACENCY, T, E, ["train.csv: line 1 is 'user,item', without a space", "type: csv"]),
    (ADJACENCY, "1 1 2\n", "1\n", ["test.csv: has no rows, and is the test part"]),
    (ADJACENCY, "1 1 2\n", "1 x\n", ["column 'item' is string, but int64 in train.csv", "ids: text"]),
    (ADJACENCY, "1 1 1\n", "1 2\n", ["user 1 meets item 1 more than once"]),
    (ADJACENCY | {"rating": "rating"}, "1 1\n", "1 2\n", ["no rating column 'rating'; columns: user, item"]),
    (ADJACENCY | {"n_items": 2}, "1 1\n", "1 2\n", ["n_items is 2", "one is 2"]),
    (ADJACENCY | {"format": "adjacancy"}, "1 1\n", "1 2\n", ["did you mean 'adjacency'?"]),
    (CSV, T, E.replace("3,1", "3,1.5"), ["row 3 of test.csv", "is 1.5 (float)", "item ids must be integers or text"]),
    (RECBOLE, "user_id:token item_id:token\n1 1\n", E, ["is several names, which tabs must separate"]),
    (RECBOLE, "user_id:token,item_id:token\n1,1\n", E, ["is several names, which tabs must separate"]),
    (RECBOLE, T, E, ["train.csv: line 1: 'user,item' has no type"]),
    (RECBOLE | {"rating": "ratings"}, INTER + "1\t1\t1\t1\n", INTER + "1\t2\t1\t1\n", ["did you mean 'rating'?"]),
    (TRIPLES, T, E, ["train.csv: line 1 has 1 columns separated by tabs", "type: csv"]),
    (TRIPLES, "1\t1\t5\n", "1\t2\n", ["test.csv: its columns are not those of train.csv: 'rating'"]),
    (ADJACENCY | {"ids": "text", "n_items": 9}, "1 1\n", "1 2\n", ["ids: text does not go with n_items"]),
    (NPZ | {"ids": "text"}, T, E, ["ids: text does not go with format: npz, whose ids are numbers"]),
    (NPZ, T, E, ["train.csv: is not a sparse matrix as scipy.sparse.save_npz writes it"]),
]  # fmt: skip


@pytest.mark.parametrize(("dataset", "train", "test", "parts"), REFUSED, ids=[case[3][0] for case in REFUSED])
def test_wrong_data_is_refused_with_place_and_remedy(dataset, train, test, parts):
    Path("train.csv").write_text(train)
    Path("test.csv").write_text(test)
    with pytest.raises((DataError, ConfigError)) as error:
        prepared(dataset)
    for part in parts:
        assert part in str(error.value)
    assert "(part)" not in str(error.value)
    assert error.value.exit_code == 2


def test_overlap_is_allowed_where_lists_can_have_it_or_it_is_dropped() -> None:
    Path("train.csv").write_text(T)
    Path("test.csv").write_text(E + "1,1\n")
    assert len(prepared(CSV, recommend={"candidates": "all"}).folds[0].test) == 4
    assert len(prepared(CSV, split={"type": "given", "overlap": "drop"}).folds[0].test) == 3
