from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import coded, refusal

import evalplugin
from evalplugin.base.errors import DataError, UnknownNameError
from evalplugin.data.interactions import Interactions
from evalplugin.metrics import Blocks, evaluate, parse
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scores import Counts
from evalplugin.metrics.scoring import score_top_n
from evalplugin.models.selection import NO_ITEM, TopN

EVERY = (
    "ndcg@3", "ndcg(gain=exp2)", "dcg@2", "precision@2", "precision", "recall@3", "f1@2", "hit@1", "rr", "ap@5",
    "ap(denominator=min)@2", "rbp", "r_precision", "bpref", "auc", "precision_at_recall(level=0.5)",
    "coverage@2", "gini@2", "entropy", "personalization@2", "novelty@2", "popularity", "diversity@3", "serendipity@2",
)  # fmt: skip
LISTS = pd.DataFrame(
    {"user": ["a", "a", "a", "b", "b", "c"], "item": list("xyzxwy"), "rank": [1, 2, 3, 1, 2, 1]}
)
TRUTH = pd.DataFrame({"user": ["a", "a", "b", "d"], "item": ["y", "q", "x", "x"], "rating": [2.0, 5, 3, 1]})


def lists(**columns: object) -> pd.DataFrame:
    return LISTS.assign(**columns)


def test_values_by_user_means_and_counts() -> None:
    scores = evalplugin.score(LISTS, TRUTH, ["rr", "recall@2", "coverage@1"])
    assert scores.per_user.index.tolist() == ["a", "b", "c", "d"]
    assert scores.per_user.index.name == "user"
    assert scores.per_user.columns.tolist() == ["rr", "recall@2"]
    assert scores.per_user["rr"].dtype == np.float64
    assert scores.per_user["rr"].tolist()[:2] == [1 / 2, 1]
    assert isnan(scores.per_user.loc["c", "rr"])  # a list, and no truth
    assert scores.per_user.loc["d", "rr"] == 0  # a truth, and no list
    assert scores.means == {"rr": (1 / 2 + 1 + 0) / 3, "recall@2": (1 / 2 + 1 + 0) / 3, "coverage@1": 2 / 5}
    assert scores.counts == {"rr": Counts(3, 1), "recall@2": Counts(3, 1)}
    assert scores.summaries["rr"].p50 == 1 / 2
    assert scores.interval("rr") == scores.interval("rr")
    assert scores.interval("rr").n == 3


def test_a_threshold_needs_ratings() -> None:
    truth = TRUTH.rename(columns={"rating": "weight"})
    message = refusal(evalplugin.score, LISTS, truth, ["hit@2"], threshold=4)
    assert "nothing is relevant, as no column has ratings" in message
    assert message.endswith("the columns are user, item, weight")
    assert evalplugin.score(LISTS, truth, ["hit@2"], threshold=1).counts["hit@2"].users == 3
    columns = {"rating": "weight"}
    assert evalplugin.score(LISTS, truth, ["hit@2"], threshold=4, columns=columns).counts["hit@2"].users == 1


def test_a_threshold_and_missing_ratings() -> None:
    assert evalplugin.score(LISTS, TRUTH, ["hit@3"], threshold=3).means == {"hit@3": (0 + 1) / 2}
    assert (
        evalplugin.score(LISTS, TRUTH.drop(columns="rating"), ["ndcg@1"]).means["ndcg@1"] == (0 + 1 + 0) / 3
    )
    fine = TRUTH.assign(rating=[3.3, 1, 1, 1])  # 3.3 is not the same as a float32 and as a float64
    assert evalplugin.score(LISTS, fine, ["hit@3"], threshold=3.3).means == {"hit@3": 1}


class SpeaksArrow:
    """A table of a library that has the Arrow protocol."""

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return pa.table(LISTS).__arrow_c_stream__(schema)


def in_polars(*kinds: Any) -> Any:
    """Return the lists as polars has them, with ids cast to a type."""
    frame = pl.DataFrame({name: LISTS[name].tolist() for name in LISTS})
    return frame.cast({name: kind for kind in kinds for name in ("user", "item")})


def views(*, coded: bool = False) -> pa.Table:
    """Return the lists with views of text, and users as categories of views, as polars may have them."""
    columns = {name: pa.array(LISTS[name]) for name in LISTS}
    columns |= {name: columns[name].cast(pa.string_view()) for name in ("user", "item")}
    if coded:
        users = pa.array(LISTS["user"], pa.string()).dictionary_encode()
        dictionary = users.dictionary.cast(pa.string_view())
        columns["user"] = pa.DictionaryArray.from_arrays(users.indices, dictionary)
    return pa.table(columns)


TABLES = {
    "Arrow": lambda: pa.table(LISTS),
    "Arrow protocol": SpeaksArrow,
    "categories": lambda: LISTS.astype({"user": "category", "item": "category"}),
    "objects": lambda: LISTS.astype({"user": object, "item": object}),
    "views": views,
    "categories of views": lambda: views(coded=True),
    "polars": in_polars,
    "polars categories": lambda: in_polars(pl.Categorical),
    "polars enums": lambda: in_polars(pl.Enum([*"zyxwcba"])),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_tables_of_other_kinds_give_the_same(table: Callable[[], Any]) -> None:
    expected = evalplugin.score(LISTS, TRUTH, ["ndcg@3"]).per_user
    truth = pa.table(TRUTH)
    pd.testing.assert_frame_equal(evalplugin.score(table(), truth, ["ndcg@3"]).per_user, expected)


def test_columns_may_have_other_names() -> None:
    expected = evalplugin.score(LISTS, TRUTH, ["ndcg@3"]).per_user
    names = {
        "user": "who", "item": "what", "rank": "place", "truth_user": "u", "truth_item": "i", "rating": "stars",
    }  # fmt: skip
    other_lists, other_truth = (
        table.set_axis([names[role] for role in roles], axis=1)
        for table, roles in (
            (LISTS, ("user", "item", "rank")), (TRUTH, ("truth_user", "truth_item", "rating")),
        )
    )  # fmt: skip
    renamed = evalplugin.score(other_lists, other_truth, ["ndcg@3"], columns=names)
    pd.testing.assert_frame_equal(renamed.per_user, expected)


def test_scores_rank_descending_and_ties_by_item() -> None:
    frame = pd.DataFrame({"user": [1, 1, 1, 1], "item": [9, 30, 4, 8], "score": [0.5, 0.7, 0.5, 0.5]})
    for truth, value in ((30, 1), (4, 1 / 2), (8, 1 / 3), (9, 1 / 4)):
        found = evalplugin.score(frame, pd.DataFrame({"user": [1], "item": [truth]}), ["rr"])
        assert found.means == {"rr": value}
    # Ids that are text are compared as text: "30" stands before "8".
    text = frame.assign(item=frame["item"].astype(str), score=1)
    for truth_text, value in (("30", 1), ("4", 1 / 2), ("8", 1 / 3), ("9", 1 / 4)):
        found = evalplugin.score(text, pd.DataFrame({"user": [1], "item": [truth_text]}), ["rr"])
        assert found.means == {"rr": value}


def test_where_both_are_there_the_rank_counts_unless_the_score_is_named() -> None:
    both = lists(score=[1.0, 2, 3, 1, 2, 1])
    assert evalplugin.score(both, TRUTH, ["rr"]).means == evalplugin.score(LISTS, TRUTH, ["rr"]).means
    by_score = evalplugin.score(both, TRUTH, ["rr"], columns={"score": "score"})
    assert by_score.per_user.loc["b", "rr"] == 1 / 2


@st.composite
def inputs(draw: st.DrawFn) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    users, items = draw(st.integers(1, 12)), draw(st.integers(2, 15))
    spread = draw(st.sampled_from([1, 3, 10**9]))  # neighbouring ids, some apart, ids beyond 32 bits
    shift = draw(st.sampled_from([0, -5, 7]))

    def pairs(density: float, least: int) -> pd.DataFrame:
        row, column = np.nonzero(rng.random((users, items)) < density)
        if len(row) < least:
            row, column = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        return pd.DataFrame({"user": row * spread + shift, "item": column * spread + shift})

    listed = pairs(draw(st.sampled_from([0.1, 0.5, 1.0])), 1)
    listed["score"] = rng.integers(0, 4, len(listed)) / 2
    listed = listed.sort_values(["user", "score", "item"], ascending=[True, False, True], ignore_index=True)
    listed["rank"] = listed.groupby("user").cumcount() + 1
    truth, train = pairs(0.3, 1), pairs(0.4, 1)
    truth["rating"] = rng.integers(0, 11, len(truth)) / 2
    return listed, truth, train


def by_codes(frame: pd.DataFrame, truth: pd.DataFrame, train: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    users = np.unique(np.concatenate([frame["user"], truth["user"], train["user"]]))
    items = np.unique(np.concatenate([frame["item"], truth["item"], train["item"]]))
    listed = np.unique(frame["user"])
    item = np.full((len(listed), frame["rank"].max()), NO_ITEM, dtype=np.int32)
    item[np.searchsorted(listed, frame["user"]), frame["rank"] - 1] = np.searchsorted(items, frame["item"])
    top_n = TopN(np.searchsorted(users, listed).astype(np.int32), item, np.zeros(item.shape))

    def data(part: pd.DataFrame) -> Interactions:
        codes = np.searchsorted(users, part["user"]), np.searchsorted(items, part["item"])
        return coded(*codes, part.get("rating"), users=users, items=items)

    scores = score_top_n(
        Blocks.of(top_n, data(truth), train=data(train), relevance=Relevance(threshold=2.5)),
        [parse(n) for n in names],
    )
    return scores.to_frame().assign(**scores.overall)


@settings(max_examples=settings.default.max_examples // 5)
@given(
    tables=inputs(),
    seed=st.integers(0, 99),
    by=st.sampled_from(["rank", "score"]),
    order=st.sampled_from(["shuffled", "by user", "by user, shuffled lists", "lists reversed"]),
    ids=st.sampled_from(["integers", "objects", "str", "object", "category"]),
)
def test_any_order_of_rows_and_any_ids_give_what_codes_give(tables, seed, by, order, ids):
    frame, truth, train = tables
    names = list(EVERY)
    expected = by_codes(frame, truth, train, names)
    ours = [part.sample(frac=1, random_state=seed) for part in (frame[["user", "item", by]], truth, train)]
    if order == "by user":
        ours[0] = frame[["user", "item", by]].copy()
    elif order != "shuffled":
        rows = ours[0] if "shuffled" in order else frame[["user", "item", by]][::-1]
        ours[0] = rows.sort_values("user", kind="stable")
    for part in ours:
        for column in ("user", "item"):
            if ids == "objects":
                part[column] = part[column].astype(object)
            elif ids != "integers":  # texts as wide as they sort: ids keep their order
                part[column] = ("id" + (part[column] + 2 * 10**11).astype(str)).astype(ids)
            if ids == "category":
                part[column] = part[column].cat.add_categories(["unused"])
    some = [n for n in names if not parse(n).metric.needs and parse(n).metric.scope == "user"]
    for asked in (names, [n for n in some if n != "auc"]):  # on real codes, and on ids as they are
        scores = evalplugin.score(ours[0], ours[1], asked, train=ours[2], threshold=2.5)
        found = scores.per_user
        assert len(found) == len(expected)
        for name in asked:
            if name in found:
                np.testing.assert_array_equal(found[name].to_numpy(), expected[name].to_numpy(), err_msg=name)
            else:
                np.testing.assert_equal(scores.means[name], expected[name].iloc[0])


@given(tables=inputs())
def test_it_agrees_with_literal_lists(tables: tuple[pd.DataFrame, ...]) -> None:
    frame, truth, _ = tables
    scores = evalplugin.score(frame, truth, ["ndcg@3", "ap@5"]).per_user
    everybody = scores.index.tolist()
    listed = [frame.loc[frame["user"] == u, "item"].tolist() for u in everybody]
    rated = [
        dict(truth.loc[truth["user"] == u, ["item", "rating"]].itertuples(index=False)) for u in everybody
    ]
    for name in scores:
        np.testing.assert_array_equal(scores[name].to_numpy(), evaluate(name, lists=listed, truth=rated))


def test_several_threads_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": np.repeat(np.arange(400), 10), "item": np.tile(np.arange(10), 400)})
    frame["score"] = rng.random(len(frame))
    truth = frame[rng.random(len(frame)) < 0.2]
    whole = evalplugin.score(frame, truth[["user", "item"]], ["ndcg", "ap"]).per_user
    monkeypatch.setattr("evalplugin.metrics.blocks._CELLS", 100)
    monkeypatch.setattr("evalplugin.metrics.scoring.thread_count", lambda: 4)
    pd.testing.assert_frame_equal(
        evalplugin.score(frame, truth[["user", "item"]], ["ndcg", "ap"]).per_user, whole
    )


INF = float("inf")
SCORED = LISTS.drop(columns="rank")


@pytest.mark.parametrize(
    ("frame", "truth", "message"),
    [
        (LISTS[:0], TRUTH, "lists: there are no rows"),
        (LISTS, TRUTH[:0], "truth: there are no rows"),
        (LISTS.rename(columns={"user": "users"}), TRUTH, "lists: no user column 'user'; did you mean 'users'?"),
        (
            LISTS[["user", "item"]], TRUTH,
            "lists: no column says how lists are ordered: there must be one called 'rank' or 'score', "
            "or one that is named as such",
        ),
        (
            lists(user=[1, 1, 1, 2, 2, 3]), TRUTH,
            "user ids are integers in the lists (such as 1), but text in the truth (such as 'a'): they can never be "
            "equal; convert one of the two columns, or read those of CSV files as text (ids: text, or --ids text)",
        ),
        (
            SCORED.assign(score=[1, 2, 3, 1, -INF, 3]), TRUTH,
            "lists: column 'score', row 5 (counted from 1) is -inf (float): scores must be finite numbers",
        ),
        (
            lists(rank=[1.0, 2, 3, 1, 2, 1]), TRUTH,
            "lists: column 'rank', row 1 (counted from 1) is 1.0 (float): ranks must be whole numbers, not floats; "
            "convert the column to integers first",
        ),
        (
            lists(rank=[1, 2, 4, 1, 2, 1]), TRUTH,
            "lists: the ranks of user 'a' must be 1, 2, 3 and so on, the best item first, and are 1, 2, 4",
        ),
        (
            lists(rank=[1, 2, 3, 1, 1, 1]), TRUTH,
            "lists: the ranks of user 'b' must be 1, 2, 3 and so on, the best item first, and are 1, 1",
        ),
        (
            lists(item=list("xyxxwy")), TRUTH,
            "the list of user 'a' has item 'x' twice",
        ),
        (
            LISTS, pd.concat([TRUTH, TRUTH[1:2]]),
            "the truth of user 'a' has item 'q' twice; where each row is an event, merge those of a pair "
            "(score: duplicates keep)",
        ),
        (
            LISTS, TRUTH.assign(rating=[1, 2, INF, 4]),
            "truth: column 'rating', row 3 (counted from 1) is inf (float): ratings must be finite numbers (float32)",
        ),
    ],
)  # fmt: skip
def test_invalid_tables_are_refused(frame: pd.DataFrame, truth: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError) as caught:
        evalplugin.score(frame, truth, ["rr"])
    assert str(caught.value) == message


def test_invalid_ranks_are_found_in_shuffled_lists() -> None:
    shuffled = lists(rank=[1, 2, 4, 1, 2, 1]).sample(frac=1, random_state=3).iloc[::-1]
    with pytest.raises(DataError, match=r"the ranks of user 'a' .*, and are 1, 2, 4$"):
        evalplugin.score(shuffled, TRUTH, ["rr"])
    with pytest.raises(DataError, match="the list of user 'a' has item 'x' twice"):
        evalplugin.score(lists(item=list("xyxxwy")).iloc[[3, 2, 1, 0, 4, 5]], TRUTH, ["rr"])


def test_unknown_metrics_and_two_orders_are_errors() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'ndcg'"):
        evalplugin.score(LISTS, TRUTH, ["ndgc@10"])
    with pytest.raises(
        DataError, match=r"^lists: lists are ranked by a rank or by a score: name 'rank' or 'rank'"
    ):
        evalplugin.score(LISTS, TRUTH, ["rr"], columns={"rank": "rank", "score": "rank"})


def test_integer_ids_of_any_width_and_sign() -> None:
    small = pd.DataFrame({"user": [1, 1, 2], "item": [3, 4, 3], "rank": [1, 2, 1]}, dtype=np.uint8)
    truth = pd.DataFrame({"user": [2, 1], "item": [3, 4]}, dtype=np.int64)
    assert evalplugin.score(small, truth, ["rr", "auc"]).per_user["rr"].tolist() == [1 / 2, 1]
    nullable = small.astype("Int64")
    assert evalplugin.score(nullable, truth, ["rr"]).means == {"rr": 3 / 4}
    negative = evalplugin.score(
        small.astype(np.int64).assign(item=[-3, -4, -3]), truth.assign(item=[-3, -4]), ["rr"]
    )
    assert negative.means == {"rr": 3 / 4}
    big = small.astype({"item": np.uint64}).assign(item=np.array([2**63, 1, 2], dtype=np.uint64))
    with pytest.raises(DataError, match=r"row 1 .* item ids must fit into 64 bits with sign"):
        evalplugin.score(big, truth, ["rr"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"users": "id"}}, "columns: 'users' is not a role of a column; did you mean 'user'?"),
        ({"columns": "id"}, "columns must be a mapping such as {'user': 'customer'}, not 'id'"),
        ({"columns": {"user": 1}}, "user must be the name of a column, as text, not 1"),
        (
            {"threshold": float("nan")},
            "threshold must be a finite number, from which ratings are relevant, not nan",
        ),
        ({"metrics": []}, "no metric is asked for, such as 'ndcg@10'"),
        ({"metrics": "rr"}, "metrics must be a list of names such as ['ndcg@10'], not the text 'rr'"),
        ({"metrics": ["rr", "rr"]}, "metric rr is requested twice"),
        ({"metrics": ["novelty@10"]}, "metric novelty@10 needs the train data"),
        (
            {"metrics": ["rmse"]},
            "metric rmse needs the ratings that a model predicts for the truth; lists have none",
        ),
        ({"metrics": [1]}, "metrics must be a list of names such as ['ndcg@10'], not [1]"),
        ({"lists": pd.Series([1])}, "lists: must be a pandas DataFrame or an Arrow table, not Series"),
        (
            {"truth": pd.DataFrame},
            "truth: must be a pandas DataFrame or an Arrow table, not the class DataFrame",
        ),
        (
            {"columns": {"rank": "item"}},
            "lists: column 'item' cannot be both item and rank: name two columns",
        ),
        (
            {"train": pd.DataFrame({"user": ["a", "a"], "item": ["x", "x"]}), "metrics": ["novelty@1"]},
            "the train data of user 'a' has item 'x' twice; where each row is an event, merge those of a pair "
            "(score: duplicates keep)",
        ),
    ],
)
def test_invalid_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    arguments = {"lists": LISTS, "truth": TRUTH, "metrics": ["rr"], **options}
    with pytest.raises(DataError) as refused:
        evalplugin.score(**arguments)
    assert str(refused.value) == message


def test_messages_show_integer_ids_as_they_are_written() -> None:
    frame = pd.DataFrame({"user": [1, 1], "item": [7, 8], "rank": [1, 2]})
    twice = pd.DataFrame({"user": [1, 1], "item": [7, 7]})
    with pytest.raises(DataError, match="the train data of user 1 has item 7 twice"):
        evalplugin.score(frame, frame, ["novelty@1"], train=twice)


# ---- events and pools


EVENTS = pd.DataFrame({"user": ["a", "a", "a", "b"], "item": ["x", "x", "y", "y"]})
BOUGHT = EVENTS.assign(amount=[1.0, 2.5, 4.0, 1.0])


@pytest.mark.parametrize(
    ("truth", "columns", "merged"),
    [
        (EVENTS, {}, [2.0, 1.0, 1.0]),
        (BOUGHT, {"rating": "amount"}, [3.5, 4.0, 1.0]),
        (pa.table(BOUGHT), {"rating": "amount"}, [3.5, 4.0, 1.0]),
    ],
)
def test_events_of_truth_and_train_data_are_pairs_whose_ratings_add_up(truth, columns, merged):
    listed = pd.DataFrame({"user": ["a", "a", "b"], "item": ["y", "x", "x"], "rank": [1, 2, 1]})
    pairs = pd.DataFrame({"user": ["a", "a", "b"], "item": ["x", "y", "y"], "rating": merged})
    metrics = ["ndcg@2", "recall(truth=repeat)@2", "recall(truth=explore)@2", "novelty@2"]
    bought = pd.DataFrame({"user": ["a", "a", "b"], "item": ["x", "x", "x"]})
    found = evalplugin.score(listed, truth, metrics, train=bought, duplicates="keep", columns=columns)
    expected = evalplugin.score(listed, pairs, metrics, train=bought.drop_duplicates())
    pd.testing.assert_frame_equal(found.per_user, expected.per_user)
    assert found.per_user["recall(truth=repeat)@2"].tolist() == pytest.approx([1.0, np.nan], nan_ok=True)


@pytest.mark.parametrize("options", [{"memory": "1GB"}, {"partitioned": True}, {"engine": "local"}])
def test_events_and_pools_are_not_scored_in_parts(options: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"^duplicates: keep merges events in memory, .* group the events"):
        evalplugin.score(LISTS, TRUTH, ["rr"], duplicates="keep", **options)
    with pytest.raises(DataError, match=r"^pool: a pool is read into memory, "):
        evalplugin.score(LISTS, TRUTH, ["rr"], pool=LISTS[["user", "item"]], **options)


@pytest.mark.parametrize("train", [None, pd.DataFrame({"user": ["u0", "u2"], "item": ["i9", "i1"]})])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_metrics_of_a_pool_are_those_of_the_worked_examples(train, data):
    items = [f"i{n}" for n in range(6)]
    pools = [data.draw(st.lists(st.sampled_from(items), min_size=1, unique=True)) for _ in range(3)]
    lists = [pool[: data.draw(st.integers(1, len(pool)))] for pool in pools]
    truth = [data.draw(st.sets(st.sampled_from(items), min_size=1)) for _ in pools]
    found = evalplugin.score(
        pd.DataFrame([(f"u{u}", item, r) for u, row in enumerate(lists) for r, item in enumerate(row, 1)],
                     columns=["user", "item", "rank"]),
        pd.DataFrame([(f"u{u}", item) for u, row in enumerate(truth) for item in row], columns=["user", "item"]),
        ["pool_recall", "recall@3"],
        train=train,
        # Users without a list, and repeated rows, change nothing.
        pool=pd.DataFrame([*((f"u{u}", item) for u, row in enumerate(pools) for item in [*row, row[0]]), ("z", "i0")],
                          columns=["user", "item"]),
    ).per_user  # fmt: skip
    for name in found.columns:
        assert found[name].tolist() == evaluate(name, lists=lists, truth=truth, pool=pools)


def test_lists_with_items_outside_of_the_pool_are_refused() -> None:
    pool = pd.DataFrame({"user": ["a", "b"], "item": ["x", "y"]})
    listed = pd.DataFrame({"user": ["a", "b", "c"], "item": ["x", "x", "y"], "rank": [1, 1, 1]})
    with pytest.raises(DataError) as refused:
        evalplugin.score(listed, pool, ["pool_recall"], pool=pool)
    assert str(refused.value) == (
        "pool: 2 of 3 listed items are not in the pool of their user, such as item 'x' of user 'b': name the pool that "
        "the lists were chosen from, or leave it out"
    )
    with pytest.raises(DataError, match=r"user ids are text in the lists .* but integers in the pool"):
        evalplugin.score(listed, pool, ["pool_recall"], pool=pool.assign(user=[1, 2]))
    with pytest.raises(DataError, match="pool: no item column 'item'; did you mean 'itm'"):
        evalplugin.score(listed, pool, ["pool_recall"], pool=pool.rename(columns={"item": "itm"}))
    with pytest.raises(DataError, match=r"needs the pool that lists were chosen from: .* pool \(--pool\)"):
        evalplugin.score(listed, pool, ["pool_recall"])
    with pytest.raises(DataError, match="duplicates must be error or keep, not 'last'"):
        evalplugin.score(listed, pool, ["rr"], duplicates="last")


def test_lists_of_several_systems_are_compared_user_by_user() -> None:
    other = LISTS.assign(rank=LISTS.groupby("user")["rank"].rank(ascending=False).astype(int))
    systems = {"ours": LISTS, "theirs": other[other["user"] != "b"], "3": LISTS}
    (compared,) = evalplugin.score(systems, TRUTH, ["rr", "hit@1"])
    alone = {name: evalplugin.score(lists, TRUTH, ["rr", "hit@1"]) for name, lists in systems.items()}
    for row in compared.models:
        assert {metric: cell.mean for metric, cell in row.cells.items()} == pytest.approx(
            alone[row.model].means
        )
    assert {frozenset((pair.model, pair.against)) for pair in compared.pairs} == {
        frozenset(pair) for pair in (("ours", "theirs"), ("ours", "3"), ("theirs", "3"))
    }
    for pair in compared.pairs:
        gain = alone[pair.model].per_user[pair.metric] - alone[pair.against].per_user[pair.metric]
        assert (pair.paired.users, pair.paired.interval.mean) == (gain.count(), pytest.approx(gain.mean()))


def test_queries_of_several_systems_are_compared_by_session() -> None:
    queries = {"a": "1:1", "b": "1:2", "c": "2:1", "d": "2:2"}
    lists, truth = (table.assign(user=table["user"].map(queries)) for table in (LISTS, TRUTH))
    (compared,) = evalplugin.score({"a": lists, "b": lists}, truth, ["rr"], columns={"query": "user"})
    assert (compared.contest.units.noun, compared.contest.units.independent) == ("query", "session")


@pytest.mark.parametrize(
    ("systems", "message"),
    [({}, "two systems, and there are 0"), ({"a": LISTS}, "two systems, and there are 1")],
)
def test_a_mapping_of_fewer_than_two_systems_is_refused(systems, message):
    with pytest.raises(DataError, match=message):
        evalplugin.score(systems, TRUTH, ["rr"])
