from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import coded, refusal, small_config

import evalplugin
from evalplugin.base.errors import DataError, ParameterError, PluginError
from evalplugin.data import Interactions, LoadContext, Split
from evalplugin.data.attributes import Attributes
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import prepare
from evalplugin.features.config import load
from evalplugin.segments import (
    NO_HISTORY,
    SEGMENTS,
    Attribute,
    Groups,
    Segmentation,
    by_number,
    by_quantile,
    by_text,
    segmentation,
)
from evalplugin.testing import check_segment

AGES = [20 + 3 * (i % 17) for i in range(40)]
PEOPLE = pd.DataFrame({"user": range(40), "age": AGES, "kind": [*"abcd"] * 10, "stars": [1.5, 2.0] * 20})


def data(pairs: list[tuple[int, int]], users: Any = range(6), n_items: int = 9) -> Interactions:
    ids = np.array(list(users))
    ids = ids.astype(object) if ids.dtype.kind == "U" else ids
    return coded(*np.array(pairs).T, users=ids, items=n_items)


# Train: user 0 has nothing, 1 and 2 one item, 3 two, 4 three, 5 four. Items 0..4 are met by 4, 3, 2, 1, 1.
TRAIN = [(1, 0), (2, 1), (3, 0), (3, 1), (4, 0), (4, 1), (4, 2), (5, 0), (5, 2), (5, 3), (5, 4)]
TEST = [(0, 0), (1, 1), (1, 3), (2, 2), (3, 3), (4, 3), (5, 8)]


def fold(users: Any = range(6), train: Any = TRAIN, test: Any = TEST, number: int = 0) -> Split:
    return Split(data(train, users), data(test, users), number)


def groups_of(type: str, *folds: Split, **params: Any) -> dict[str, list[Any]]:
    """Return the users in each group, in the order of the labels."""
    made = SEGMENTS.create(type, params)
    found = segmentation("s", made, folds or [fold()], LoadContext())
    groups = {label: found.users[found.group == i].tolist() for i, label in enumerate(found.labels)}
    assert sum(map(len, groups.values())) == len(found.users)
    return groups


# Groups


def test_quantile_groups_are_named_by_their_lowest_and_highest_value() -> None:
    groups = by_quantile(np.array([5.0, 1, 2, 3, 4, 9, np.nan]), 3)
    assert groups.labels == ("1-2", "3-4", "5-9")
    assert groups.group.tolist() == [2, 0, 0, 1, 1, 2, -1]


def test_equal_values_are_never_parted_so_that_groups_may_be_fewer() -> None:
    assert by_quantile(np.array([1.0, 1, 1, 2, 3, 4]), 3).labels == ("1", "2", "3-4")
    assert by_quantile(np.array([1.0, 1, 1, 1, 1, 4]), 3).labels == ("1", "4")
    assert by_quantile(np.array([7.0, 7]), 3).labels == ("7",)
    assert by_quantile(np.array([np.nan]), 3).labels == ()


def test_numbers_have_as_few_decimals_as_keep_them_apart() -> None:
    assert by_quantile(np.array([0.25, 1.5, 12.33, 12.5]), 2).labels == ("0.2-1.5", "12.3-12.5")
    assert by_quantile(np.array([0.25, 1.5, 12.334, 12.336]), 2).labels == ("0.25-1.50", "12.33-12.34")
    assert by_number(np.array([1e-9, 2e-9])).labels == ("1e-09", "2e-09")
    assert by_number(np.array([1990.0, -0.0, -3])).labels == ("-3", "0", "1990")
    assert by_quantile(np.array([-5.0, -1, 4]), 1).labels == ("-5 to 4",)


@given(st.lists(st.integers(-5, 30) | st.just(None), min_size=1, max_size=60), st.integers(1, 6))
def test_quantile_groups_keep_order_and_part_no_equals(numbers: list[int | None], n: int) -> None:
    values = np.array([np.nan if v is None else v for v in numbers])
    groups = by_quantile(values, n)
    defined = ~np.isnan(values)
    assert ((groups.group >= 0) == defined).all()
    assert len(groups.labels) <= n
    assert sorted(set(groups.group[defined].tolist())) == list(range(len(groups.labels)))
    order = np.argsort(values[defined], kind="stable")
    assert (np.diff(groups.group[defined][order]) >= 0).all()
    for value in set(values[defined].tolist()):
        assert len(set(groups.group[values == value].tolist())) == 1


@given(st.integers(1, 80), st.integers(1, 9))
def test_groups_of_different_values_differ_in_size_by_one_at_most(size: int, n: int) -> None:
    sizes = np.bincount(by_quantile(np.random.default_rng(size).permutation(size) * 1.0, n).group)
    assert len(sizes) == min(n, size)
    assert sizes.max() - sizes.min() <= 1


def test_texts_stand_by_size_and_then_alphabet_and_the_rest_is_one_group() -> None:
    values = np.array(["b", "a", "c", "c", "e", None, "d"], dtype=object)
    groups = by_text(values, 2)
    assert groups.labels == ("c", "a", "3 other values")
    assert groups.group.tolist() == [2, 1, 0, 0, 2, -1, 2]
    assert by_text(values, 4).labels[-1] == "1 other value"
    assert by_text(values, 5).labels == ("c", "a", "b", "d", "e")


def test_a_group_is_added_if_anybody_is_in_it() -> None:
    groups = Groups(("a", "b"), np.array([0, 1, -1], dtype=np.int32))
    last = np.array([False, False, True])
    assert groups.adding("x", last & False) is groups
    assert groups.adding("x", last).group.tolist() == [0, 1, 2]
    first = groups.adding("x", last, first=True)
    assert (first.labels, first.group.tolist()) == (("x", "a", "b"), [1, 2, 0])
    assert groups.adding("b", last).group.tolist() == [0, 1, 1]


# What comes with evalplugin


def test_activity_counts_train_interactions() -> None:
    assert groups_of("activity") == {
        "no history": [0],
        "1 interaction": [1, 2],
        "2 interactions": [3],
        "3-4 interactions": [4, 5],
    }
    assert groups_of("activity", groups=1) == {"no history": [0], "1-4 interactions": [1, 2, 3, 4, 5]}
    warm = fold(test=[pair for pair in TEST if pair[0] > 0])
    assert groups_of("activity", warm, groups=2) == {"1 interaction": [1, 2], "2-4 interactions": [3, 4, 5]}


def test_popularity_is_the_mean_over_all_items_of_the_truth() -> None:
    # 4 users met item 0, 3 item 1, 2 item 2, 1 item 3, none item 8; user 1 has items 1 and 3: (3 + 1) / 2.
    assert groups_of("popularity") == {
        "niche 0 users per item": [5],
        "medium 1 users per item": [3, 4],
        "popular 2-4 users per item": [0, 1, 2],
    }
    assert list(groups_of("popularity", groups=1)) == ["medium 0-4 users per item"]
    halves = ["niche 0-1 users per item", "popular 2-4 users per item"]
    assert list(groups_of("popularity", groups=2)) == halves


def test_cold_users_are_those_with_fewer_train_interactions() -> None:
    assert groups_of("cold") == {"no history": [0], "with history": [1, 2, 3, 4, 5]}
    few = {"fewer than 3 interactions": [0, 1, 2, 3], "3 or more interactions": [4, 5]}
    assert groups_of("cold", below=3) == few


def test_a_user_is_measured_on_the_first_fold_that_tests_the_user() -> None:
    first = fold(train=[(0, 0), (1, 0), (2, 0)], test=[(0, 1), (1, 1)])
    second = fold(train=[(0, 2), (0, 3), (1, 2), (1, 3), (2, 2), (2, 3)], test=[(1, 0), (2, 0)], number=1)
    assert groups_of("activity", first, second) == {"1 interaction": [0, 1], "2 interactions": [2]}
    assert groups_of("activity", second, first) == {"1 interaction": [0], "2 interactions": [1, 2]}


# Attributes


def test_an_attribute_of_few_values_makes_a_group_of_each() -> None:
    frame = pd.DataFrame({"user": [0, 1, 2, 3, 9], "kind": ["b", "a", "b", None, "z"]})
    assert groups_of("attribute", frame=frame, column="kind") == {"b": [0, 2], "a": [1], "unknown": [3, 4, 5]}
    frame = pd.DataFrame({"user": [0, 1, 2, 3, 4, 5], "age": [30, 5, 30, 5, 12, 12]})
    assert groups_of("attribute", frame=frame, column="age") == {"5": [1, 3], "12": [4, 5], "30": [0, 2]}


def test_an_attribute_of_many_numbers_is_cut_and_one_of_many_texts_has_a_rest() -> None:
    ages = pd.DataFrame({"user": range(6), "age": [40.5, 10, 20, None, 30, 50]})
    assert groups_of("attribute", frame=ages, column="age", max_groups=3, groups=2) == {
        "10-20": [1, 2],
        "30-50": [0, 4, 5],
        "unknown": [3],
    }
    as_text = groups_of("attribute", frame=ages, column="age", max_groups=1, values="text")
    assert list(as_text) == ["10", "4 other values", "unknown"]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_attributes_come_from_a_file_beside_the_config(suffix: str) -> None:
    frame = pd.DataFrame({"who": range(5), "kind": ["x", "y", "x", " ", None], "more": 1})
    file = Path("users", f"people.{suffix}")
    file.parent.mkdir()
    write = {
        "csv": lambda: frame.to_csv(file, index=False),
        "csv.gz": lambda: file.write_bytes(gzip.compress(frame.to_csv(index=False).encode())),
        "parquet": lambda: frame.to_parquet(file),
    }
    write[suffix]()
    params = {"file": str(file), "user": "who", "column": "kind"}
    assert groups_of("attribute", **params) == {"x": [0, 2], "y": [1], "unknown": [3, 4, 5]}


def test_a_file_may_have_other_separators_and_no_header() -> None:
    Path("u.user").write_text("0|24|M\n1|53|F\n2|24|F\n")
    params = {"file": "u.user", "separator": "|", "columns": ["user", "age", "gender"], "column": "gender"}
    assert groups_of("attribute", **params) == {"F": [1, 2], "M": [0], "unknown": [3, 4, 5]}
    assert SEGMENTS.create("attribute", params).check(LoadContext()) == []


def test_numbers_in_a_file_are_numbers_only_if_all_are() -> None:
    Path("a.csv").write_text("user,code\n0,10\n1,9\n2,\n3,10\n")
    assert list(groups_of("attribute", file="a.csv", column="code")) == ["9", "10", "unknown"]
    Path("a.csv").write_text("user,code\n0,10\n1,9\n2,x\n3,010\n")
    labels = list(groups_of("attribute", file="a.csv", column="code"))
    assert labels == ["010", "10", "9", "x", "unknown"]


@pytest.mark.parametrize("values", [[True, False, True], pd.Categorical(["u", "v", "u"]), ["p", "q", "p"]])
def test_a_column_may_be_of_any_type_that_has_values(values: Any) -> None:
    frame = pd.DataFrame({"user": pd.array([0, 1, 2], dtype="Int64"), "kind": values})
    sizes = {label: len(users) for label, users in groups_of("attribute", frame=frame, column="kind").items()}
    assert sorted(sizes.values()) == [1, 2, 3]


def test_a_user_may_stand_in_several_rows_that_agree() -> None:
    Path("a.csv").write_text("user,kind,age\n0,a,1\n1,b,2\n0,a,\n9,a,1\n9,b,2\n")
    assert groups_of("attribute", file="a.csv", column="kind")["a"] == [0]
    said = "a.csv: the rows of user 0 contradict each other: 'age' is 1.0 in one, empty in another"
    assert said in refusal(groups_of, "attribute", file="a.csv", column="age")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,kind\nu1,a\n", "'s': a.csv: user ids are text in the table (such as 'u1'), but integers in the data "
         "(such as 0)"),
        ("user,kind\n77,a\n78,b\n", "none of its users is in the data: column 'user' has ids such as 77, 78, the data "
         "such as 0, 1, 2"),
        ("user,knd\n1,a\n", "a.csv: no column 'kind'; did you mean 'knd'?"),
    ],
)  # fmt: skip
def test_invalid_attribute_files_are_refused(text: str, message: str) -> None:
    Path("a.csv").write_text(text)
    assert message in refusal(groups_of, "attribute", file="a.csv", column="kind")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"user": ["0", "1"], "kind": [1, 2]}, "user ids are text in the table (such as '0'), but integers"),
        ({"user": [0, 1], "kind": [[1], [2]]}, "column 'kind' is list<item: int64>: it must hold numbers or text"),
        ({"user": [0, 1], "kind": ["a", 1]}, "frame: column 'kind': cannot be read: "),
    ],
)  # fmt: skip
def test_invalid_attribute_frames_are_refused(frame: dict[str, Any], message: str) -> None:
    assert message in refusal(groups_of, "attribute", frame=pd.DataFrame(frame), column="kind")
    integers = pd.DataFrame({"user": [0, 1], "kind": [1, 2]})
    with pytest.raises(DataError, match=r"integers in the table \(such as 0\), but text in the data"):
        groups_of("attribute", fold(users=[*"abcdef"]), frame=integers, column="kind")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"column": "a", "file": "a.csv", "frame": PEOPLE}, "attribute takes a file or a frame, not both"),
        (
            {"column": "a", "frame": [1]},
            "frame must be a pandas DataFrame, or a table of polars or Arrow, not list",
        ),
    ],
)
def test_an_attribute_takes_one_table(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        SEGMENTS.create("attribute", params)
    assert str(caught.value) == message


def with_people(**columns: list[Any]) -> Split:
    one = fold()
    attributes = Attributes({name: np.array(values) for name, values in columns.items()})
    return replace(one, test=replace(one.test, user_attributes=attributes))


def test_without_a_file_the_table_of_the_dataset_is_taken() -> None:
    people = with_people(
        age=[20.0, 30.0, 20.0, np.nan, 30.0, 20.0],
        half=[0.5, 1.0, 0.5, 1.0, np.nan, 2.0],
        kind=np.array(["a", "b", None, "a", "a", "b"], dtype=object),
    )
    assert groups_of("attribute", people, column="age") == {"20": [0, 2, 5], "30": [1, 4], "unknown": [3]}
    assert groups_of("attribute", people, column="kind") == {"a": [0, 3, 4], "b": [1, 5], "unknown": [2]}
    as_text = groups_of("attribute", people, column="half", values="text")
    assert as_text == {"0.5": [0, 2], "1": [1, 3], "2": [5], "unknown": [4]}
    with pytest.raises(DataError, match=r"of users of the dataset: no column 'aeg'; did you mean 'age'"):
        groups_of("attribute", people, column="aeg")
    with pytest.raises(DataError, match=r"needs a file, or a table of users of the dataset .* column 'age'"):
        groups_of("attribute", column="age")


# Every segment


@pytest.mark.parametrize("name", SEGMENTS.names())
def test_every_segment_passes_the_contract(name: str) -> None:
    assert SEGMENTS.entry(name).summary
    columns = ({"column": "age"}, {"column": "kind", "max_groups": 2}, {"column": "stars"})
    variants: dict[str, list[dict[str, Any]]] = {
        "activity": [{}, {"groups": 5}], "popularity": [{}, {"groups": 1}], "cold": [{}, {"below": 4}],
        "attribute": [{"frame": PEOPLE, **column} for column in columns],
    }  # fmt: skip
    for params in variants.get(name, [{}]):
        check_segment(name, **params)


@dataclass
class Sound:
    """Users by their number."""

    def measure(self, fold: Split, users: npt.NDArray[np.int32], context: LoadContext) -> Any:
        return users % 3

    def divide(self, values: npt.NDArray[Any]) -> Groups:
        return Groups(("a", "b", "c"), values.astype(np.int32))


def depends_on_others(self: Sound, fold: Split, users: Any, context: LoadContext) -> Any:
    return users * 0 + len(users)


def depends_on_rows(self: Sound, fold: Split, users: Any, context: LoadContext) -> Any:
    return np.isin(users, fold.test.user[:20]).astype(int)


def depends_on_order(self: Sound, values: npt.NDArray[Any]) -> Groups:
    return Groups(("a", "b"), (np.arange(len(values)) < 20).astype(np.int32))


@pytest.mark.parametrize(
    ("method", "law"),
    [
        (depends_on_others, "must not depend on the other users of the call, but user"),
        (depends_on_rows, "neither the order of interactions nor the codes of items may change a value"),
        (depends_on_order, "the order of the users must not change a group, but user"),
    ],
)
def test_segment_contract_finds_violations(method, law, monkeypatch):
    check_segment(Sound)
    name = "divide" if method is depends_on_order else "measure"
    monkeypatch.setattr(Sound, name, method)
    if method is not depends_on_order:
        monkeypatch.setattr(Sound, "divide", lambda self, values: by_number(values))
    with pytest.raises(AssertionError, match=law):
        check_segment(Sound)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (lambda n: (("a",), np.zeros(n)), r"segment 's': divide must return one integer a user, \(6,\), not float64"),
        (lambda n: (("a",), np.zeros(1, dtype=np.int32)), r"must return one integer a user, \(6,\), not int32 \(1,\)"),
        (lambda n: (("a", "a"), np.zeros(n, dtype=np.int32)), "every group needs a label of its own, not 'a', 'a'"),
        (lambda n: (("a", ""), np.zeros(n, dtype=np.int32)), "every group needs a label of its own, not 'a', ''"),
        (lambda n: (("a",), np.ones(n, dtype=np.int32)), "a group is a number from -1 to 0, not 1"),
    ],
)  # fmt: skip
def test_invalid_segment_results_are_refused(groups, message, monkeypatch):
    monkeypatch.setattr(Sound, "divide", lambda self, values: Groups(*groups(len(values))))
    with pytest.raises(PluginError, match=message):
        segmentation("s", Sound(), [fold()], LoadContext())
    monkeypatch.setattr(Sound, "measure", lambda self, fold, users, context: users[:1])
    with pytest.raises(PluginError, match=r"'s': measure must return one value a user, \(6,\), not \(1,\)"):
        segmentation("s", Sound(), [fold()], LoadContext())


def test_groups_without_users_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert groups_of("cold", fold(test=[(1, 1), (2, 2)])) == {"with history": [1, 2]}
    groups = Groups(("none", "a", "also none", "b"), np.array([3, -1, 1, 3, 1, 1], dtype=np.int32))
    monkeypatch.setattr(Sound, "divide", lambda self, values: groups)
    found = segmentation("s", Sound(), [fold()], LoadContext())
    assert (found.labels, found.group.tolist()) == (("a", "b"), [1, -1, 0, 1, 0, 0])


def test_a_segment_without_its_methods_is_refused() -> None:
    @dataclass
    class Half:
        def measure(self, fold: Split, users: Any, context: LoadContext) -> Any: ...

    with pytest.raises(PluginError, match=r"segment 'half': Half has no method divide\(values\)"):
        evalplugin.segment("half")(Half)


@pytest.mark.parametrize("ids", [np.array([3, 5, 9]), np.array(["a", "b", "d"], dtype=object)])
def test_values_by_label_leave_out_unknown_users(ids: npt.NDArray[Any]) -> None:
    found = Segmentation("s", ("x", "y"), ids, np.array([1, -1, 0], dtype=np.int32))
    assert found.of(ids).tolist() == [1, -1, 0]
    others = np.array([ids[2], ids[0], {int: 4}.get(type(ids[0].item() if ids.dtype != object else ""), "c")])
    others = others.astype(ids.dtype)
    assert found.of(others).tolist() == [0, 1, -1]
    by_label = found.by_label(others, np.array([0.5, 0.25, 1.0]))
    assert {label: values.tolist() for label, values in by_label.items()} == {"x": [0.5], "y": [0.25]}
    undefined = found.by_label(ids, np.array([np.nan, 1.0, 0.5]))
    assert {label: values.tolist() for label, values in undefined.items()} == {"x": [0.5], "y": []}
    nobody = Segmentation("s", (), ids[:0], np.empty(0, dtype=np.int32))
    assert nobody.of(ids).tolist() == [-1, -1, -1]


# In a bake-off


def asked(**changes: Any) -> dict[str, Any]:
    split = {"type": "sample_users", "n_users": 25, "n": 3}
    return small_config(**{"split": split, "models": ["random"], "compare": {}, **changes})


def test_segments_are_those_of_the_test_users() -> None:
    (prepared,) = prepare(load(asked(segments=["activity", "popularity"])), None, Observer())
    info = prepared.info
    assert [s.name for s in info.segments] == ["activity", "popularity"]
    tested = info.test.users[np.unique(info.test.user)]
    for segment in info.segments:
        np.testing.assert_array_equal(segment.users, tested)
        assert (segment.group >= 0).all()


def test_segment_with_one_group_is_shown_only_on_request() -> None:
    (prepared,) = prepare(load(asked()), None, Observer())
    assert [s.name for s in prepared.info.segments] == ["activity", "popularity"]
    note = "segment cold is not shown: all 25 test users are in one group (with history)"
    assert prepared.info.notes[-1] == note
    (prepared,) = prepare(load(asked(segments=["cold"])), None, Observer())
    assert [s.name for s in prepared.info.segments] == ["cold"]
    assert note not in prepared.info.notes
    (prepared,) = prepare(load(asked(segments=[])), None, Observer())
    assert prepared.info.segments == ()


@pytest.mark.parametrize(
    ("segments", "names"),
    [
        (["cold"], ["cold"]),
        (["activity"], ["activity"]),  # tells them too
        (["popularity"], ["popularity", "cold"]),
        ([{"name": "cold", "type": "cold", "below": 9}], ["cold", "history"]),
        ([], ["cold"]),
    ],
)
def test_users_without_history_are_always_told_apart(segments: list[Any], names: list[str]) -> None:
    split = {"type": "temporal", "quantile": 0.05}
    (prepared,) = prepare(load(asked(segments=segments, split=split)), None, Observer())
    info = prepared.info
    assert [s.name for s in info.segments] == names
    added = [note for note in info.notes if "is added" in note]
    assert len(added) == len(names) - len(segments)
    (by_history,) = (s for s in info.segments if NO_HISTORY in s.labels)
    cold = np.count_nonzero(by_history.group == by_history.labels.index(NO_HISTORY))
    assert cold == info.counts["cold_users"] > 0
    for note in added:
        assert note.endswith(f"{cold} of {info.counts['test_users']} test users have no train data")


def test_history_is_that_of_the_first_of_several_folds() -> None:
    split = {"type": "temporal", "every": "3d", "folds": 3}
    (prepared,) = prepare(load(asked(segments=[], split=split)), None, Observer())
    (note,) = (note for note in prepared.info.notes if "is added" in note)
    assert note.endswith("test users have no train data in the first fold that tests them")


def test_attribute_table_of_other_users_is_refused_before_fitting() -> None:
    Path("people.csv").write_text("user,kind\nann,x\n")
    age = {"name": "kind", "type": "attribute", "file": "people.csv", "column": "kind"}
    checked = load(asked(segments=[age]))
    with pytest.raises(DataError, match=r"^segment 'kind': .*people\.csv: user ids are text in the table"):
        prepare(checked, None, Observer())


def test_a_frame_can_be_given_from_python() -> None:
    frame = pd.DataFrame({"user": range(62), "half": ["a", "b"] * 31})
    half = {"name": "half", "type": "attribute", "frame": frame, "column": "half"}
    checked = load(asked(segments=[half]))
    assert "frame" not in checked.resolved["segments"][0]
    (prepared,) = prepare(checked, None, Observer())
    (found,) = prepared.info.segments
    assert set(found.labels) == {"a", "b"}
    assert Attribute("half", frame).check(LoadContext()) == []


def test_a_plugin_brings_a_segment_of_its_own() -> None:
    Path("even.py").write_text(
        "from dataclasses import dataclass\n"
        "import numpy as np\n"
        "import evalplugin\n"
        "from evalplugin.segments import Groups\n"
        "@evalplugin.segment('even')\n"
        "@dataclass\n"
        "class Even:\n"
        "    'Users with even numbers, against the others.'\n"
        "    def measure(self, fold, users, context):\n"
        "        return fold.test.users[users] % 2\n"
        "    def divide(self, values):\n"
        "        return Groups(('even', 'odd'), values.astype(np.int32))\n"
    )
    checked = load(asked(segments=["even"], plugins=["even.py"]))
    (prepared,) = prepare(checked, None, Observer())
    (found,) = prepared.info.segments
    assert found.labels == ("even", "odd")
    check_segment("even")
