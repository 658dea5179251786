"""Lists and truth as other tools wrote them (experiments/formats/make.py), read by the name of the tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import refusal

import evalplugin
from evalplugin.cli import main
from evalplugin.cli.score import score as command
from evalplugin.data import Candidates, Interactions
from evalplugin.files import Format
from evalplugin.lists.columns import ListColumns
from evalplugin.lists.files import TruthFormat
from evalplugin.lists.foreign import COLUMNS, NestedLists, columns_of
from evalplugin.lists.job import ListJob
from evalplugin.lists.profiles import score_as
from evalplugin.models import MODELS, recommend
from evalplugin.models.base import ListRequest

HERE = Path(__file__).parent / "formats"
RECTOOLS = (HERE / "rectools" / "lists.csv", HERE / "rectools" / "truth.csv")
LENSKIT = HERE / "lenskit"
OMNIREC = HERE / "omnirec"


def said(tool: str) -> dict[str, float]:
    """Return the means that the tool printed for its lists."""
    return json.loads((HERE / tool / "values.json").read_text())["values"]


def means(lists: object, truth: object, **options: object) -> dict[str, float]:
    return evalplugin.score(lists, truth, ["recall@5", "ndcg(gain=binary)@5"], **options).means


@pytest.mark.parametrize(
    ("tool", "lists", "truth", "formats"),
    [
        ("rectools", "lists.csv", "truth.csv", {"format": "rectools"}),
        ("lenskit", "lists.parquet", "truth.parquet", {"format": "lenskit"}),
        ("lenskit", "flat.parquet", "truth.parquet", {"format": "lenskit"}),
        ("lenskit", "lists.csv", "truth.parquet", {"format": "lenskit"}),
        ("recbole", "lists.csv", "tiny.test.inter", {"truth_format": "recbole"}),
    ],
)
def test_lists_of_a_tool_have_the_values_that_it_prints(tool, lists, truth, formats) -> None:
    expected = said(tool)
    job = ListJob(HERE / tool / lists, HERE / tool / truth, **formats)
    assert score_as(job, tool, list(expected)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("tool", "suffix", "names"),
    [
        (
            "recommenders", "csv",
            {"precision_at_k": "precision@5", "recall_at_k": "recall@5", "ndcg_at_k": "ndcg(gain=binary)@5"},
        ),
        ("warprec", "tsv", {"Recall": "recall@5", "nDCG": "ndcg(gain=binary)@5"}),  # in single precision
    ],
)  # fmt: skip
def test_lists_of_a_tool_without_a_profile_have_its_values(tool, suffix, names) -> None:
    lists, truth = (HERE / tool / f"{name}.{suffix}" for name in ("lists", "truth"))
    scores = evalplugin.score(lists, truth, list(names.values()), format=tool)
    assert {name: scores.means[ours] for name, ours in names.items()} == pytest.approx(said(tool))


def test_lists_of_omnirec_are_those_that_lenskit_makes_for_it() -> None:
    truth = OMNIREC / "truth.csv"
    scores = means(OMNIREC / "predictions.json", truth, format="omnirec")
    assert scores == means(LENSKIT / "flat.parquet", truth, format="lenskit", truth_format="csv")
    assert scores["recall@5"] == pytest.approx(said("lenskit")["Recall@5"])


def test_trec_files_of_ranx_have_the_values_that_it_prints() -> None:
    job = ListJob(HERE / "trec" / "run.trec", HERE / "trec" / "qrels.trec", format="trec")
    assert score_as(job, "ranx", list(said("trec"))) == pytest.approx(said("trec"))


def test_list_metrics_of_lenskit_are_a_table_of_scores() -> None:
    frame = pd.read_csv(LENSKIT / "list_metrics.csv")
    table = pd.concat([frame.assign(model="a"), frame.assign(model="b")])
    compared = evalplugin.compare_scores(table, unit="user_id", model="model", value=["NDCG@5", "Recall@5"])
    for metric, mean in said("lenskit").items():
        assert compared.to_frame(metric)["mean"].tolist() == pytest.approx([mean, mean])


def test_frames_are_read_as_files_are() -> None:
    frames = [pd.read_csv(file) for file in RECTOOLS]
    assert means(*frames, format="rectools") == means(*RECTOOLS, format="rectools")


def test_flat_parquet_is_scored_in_partitions() -> None:
    files = LENSKIT / "flat.parquet", Path("truth.parquet")
    pd.read_csv(OMNIREC / "truth.csv").to_parquet(files[1])
    options = {"format": "lenskit", "truth_format": "parquet"}
    assert means(*files, **options, memory="1KB") == means(*files, **options)
    nested = refusal(lambda: means(LENSKIT / "lists.parquet", files[1], **options, memory="1KB"))
    assert "with a row for each item" in nested


def test_a_model_of_lists_reads_the_format_of_a_tool() -> None:
    truth = pd.read_csv(OMNIREC / "truth.csv")
    items = pd.DataFrame({"user": 99, "item": 100 + np.arange(20)})
    train = Interactions.from_frame(pd.concat([items, truth]))
    request = ListRequest(train, np.flatnonzero(train.users != 99).astype(np.int32), 5, Candidates("all"))
    ours = MODELS.create("lists", {"path": str(OMNIREC / "predictions.json"), "format": "omnirec"})
    theirs = MODELS.create("lists", {"path": str(LENSKIT / "lists.parquet"), "format": "lenskit"})
    top = recommend(ours, request)
    np.testing.assert_array_equal(top.item, recommend(theirs, request).item)
    predictions = pd.DataFrame(json.loads((OMNIREC / "predictions.json").read_text()))
    assert train.items[top.item].ravel().tolist() == predictions["item"].tolist()


def test_validate_names_the_columns_that_a_format_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    Path("shop.yaml").write_text(
        f"""\
experiment: shop
datasets: [{{type: synthetic, n_users: 80, n_items: 60, n_interactions: 2000}}]
split: {{type: last_n, n: 3}}
metrics: [ndcg@10]
models: [{{name: vendor, type: lists, params: {{path: {RECTOOLS[0]}, format: recommenders}}}}]
"""
    )
    assert main(["validate", "shop.yaml"]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert "no user column 'userID'; did you mean 'user_id'?" in err
    assert "the format recommenders has userID, itemID, prediction: name another format of the lists" in err


def test_unknown_formats_are_refused_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["score", "--lists", "a.csv", "--truth", "b.csv", "-m", "rr"]
    for option in ("--input-format", "--truth-format"):
        assert main([*asked, option, "rectool"]) == 2
        assert "did you mean 'rectools'?" in capsys.readouterr().err
    frame = pd.DataFrame({"user": [1], "item": [2], "rank": [1]})
    for option in ("format", "truth_format"):
        message = refusal(lambda name=option: means(frame, frame, **{name: "lenskitt"}))
        assert message.endswith("not 'lenskitt'; did you mean 'lenskit'?")


@pytest.mark.parametrize(
    ("lists", "truth", "options", "words"),
    [
        (
            RECTOOLS[0], OMNIREC / "truth.csv", {"format": "rectools"},
            ("truth.csv: no user column 'user_id'", "has user_id, item_id: name another format of the truth"),
        ),
        (
            OMNIREC / "truth.csv", OMNIREC / "truth.csv", {"format": "omnirec"},
            ("truth.csv: is not as OmniRec writes predictions.json",),
        ),
        (
            LENSKIT / "truth.parquet", LENSKIT / "truth.parquet", {"format": "lenskit"},
            ("truth.parquet: no column says how lists are ordered", "has user_id, item_id, rank or score"),
        ),
    ],
)  # fmt: skip
def test_files_of_another_format_are_refused_with_what_is_expected(lists, truth, options, words) -> None:
    message = refusal(lambda: means(lists, truth, **options))
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    "text",
    [
        "", "[1, 2]", '{"user": 1}', "[" * 10**5, '{"user": [1, 2], "item"', '{"user": {"0": 1}}',
        '{"user": [1, 2], "item": [1]}', '{"user": [1, "a"]}', f'{{"user": [{2**70}]}}',
    ],
)  # fmt: skip
def test_damaged_predictions_are_refused(text: str) -> None:
    Path("predictions.json").write_text(text)
    message = refusal(lambda: means("predictions.json", OMNIREC / "truth.csv", format="omnirec"))
    assert message.startswith("predictions.json: is not as OmniRec writes predictions.json")


def test_named_columns_win_over_those_of_a_format() -> None:
    assert columns_of(ListColumns(), "rectools") == ListColumns("user_id", "item_id")
    assert columns_of(ListColumns("uid"), "rectools") == ListColumns("uid", "item_id")
    assert columns_of(ListColumns(), "warprec") == ListColumns("user_id", "item_id", score="rating")
    assert columns_of(ListColumns(rank="place"), "warprec") == ListColumns("user_id", "item_id", rank="place")
    of_queries = columns_of(ListColumns(query="visit"), "lenskit")
    assert of_queries == ListColumns(item="item_id", query="visit")
    for other in ("auto", "csv", "trec"):
        assert columns_of(ListColumns(), other) == ListColumns()


def test_truth_of_another_format_has_its_own_columns() -> None:
    both = columns_of(ListColumns(), "rectools", "recommenders")
    assert both == ListColumns("user_id", "item_id", truth_user="userID", truth_item="itemID")
    plain = columns_of(ListColumns(), "rectools", "csv")
    assert plain == ListColumns("user_id", "item_id", truth_user="user", truth_item="item")
    alone = columns_of(ListColumns(truth_item="sku"), "auto", "recbole")
    assert alone == ListColumns(truth_user="user_id", truth_item="sku")


@given(st.lists(st.lists(st.integers(-5, 5), max_size=4), min_size=1, max_size=5), st.integers(1, 3))
def test_nested_lists_have_a_row_for_each_item(lists: list[list[int]], rows: int) -> None:
    kind = pa.list_(pa.struct({"item_id": pa.int64(), "rank": pa.int32()}))
    nested = [[{"item_id": item, "rank": n} for n, item in enumerate(own, 1)] for own in lists]
    table = pa.table({"user_id": range(len(lists)), "items": pa.array(nested, kind)})
    file = Path("nested.parquet")
    pq.write_table(table, file, row_group_size=rows)
    assert NestedLists().names(file) == ["user_id", "item_id", "rank"]
    read = NestedLists().read(file, {"user": "user_id", "item": "item_id", "rank": "rank"})
    expected = [(user, item, n) for user, own in enumerate(lists) for n, item in enumerate(own, 1)]
    assert list(zip(*read.to_pydict().values(), strict=True)) == expected


@pytest.mark.parametrize("items", ["a", [1, 2]])
def test_a_flat_table_may_have_a_column_of_items(items: object) -> None:
    pd.DataFrame({"user_id": [1], "item_id": [2], "rank": [1], "items": [items]}).to_parquet("lists.parquet")
    truth = pd.DataFrame({"user_id": [1], "item_id": [2]})
    assert means("lists.parquet", truth, format="lenskit")["recall@5"] == 1


def test_every_tool_has_a_format_that_is_offered_and_documented() -> None:
    lists, truth = set(get_args(Format)), set(get_args(TruthFormat))
    assert set(COLUMNS) - {"recbole"} == lists - {"auto", "csv", "parquet", "trec"}
    offered = {
        param.name: set(param.type.choices) for param in command.params if hasattr(param.type, "choices")
    }
    assert (offered["format"], offered["truth_format"]) == (lists, truth)
    page = Path(__file__).parents[2] / "docs" / "howto" / "lists.md"
    assert all(f"| `{name}` |" in page.read_text() for name in COLUMNS)
