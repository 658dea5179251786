"""Integer scores from 2^53 on, which float64 rounds: refused with row and value, wherever scores come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evalplugin
from evalplugin.base.errors import DataError, ModelError
from evalplugin.tracking.models.interface import Interface

TRUTH = pd.DataFrame({"user": [1], "item": [1]})
IDS = {"user": [1, 1], "item": [1, 2]}
LARGE = r"integer scores must be between -2\^53 and 2\^53, as float64 rounds others: subtract a constant, "
LARGE += "or give ranks$"
TABLES: dict[str, Callable[[list[Any]], Any]] = {
    "int64": lambda scores: pd.DataFrame({**IDS, "score": np.array(scores, dtype=np.int64)}),
    "Python integers": lambda scores: pd.DataFrame({**IDS, "score": pd.Series(scores, dtype=object)}),
    "nullable Int64": lambda scores: pd.DataFrame({**IDS, "score": pd.Series(scores, dtype="Int64")}),
    "Arrow": lambda scores: pa.table({**IDS, "score": scores}),
    "polars": lambda scores: pl.DataFrame({**IDS, "score": scores}),
}


def scored(lists: Any, truth: Any = TRUTH, **options: Any) -> float:
    return evalplugin.score(lists, truth, ["rr"], **options).means["rr"]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("low", [2**53, -(2**53) - 1, 1_700_000_000_000_000_000, 2**63 - 2])
def test_an_integer_score_from_2_53_on_is_refused_with_its_row(table, low):
    with pytest.raises(
        DataError, match=rf"^lists: column 'score', row 1 .* is {low} \(int\), and 1 more rows: {LARGE}"
    ):
        scored(table([low, low + 1]))


@pytest.mark.parametrize("low", [2**53 - 2, 1 - 2**53])
def test_the_largest_integers_that_float64_does_not_round_are_ordered(low: int) -> None:
    assert scored(TABLES["int64"]([low, low + 1])) == pytest.approx(0.5)


@pytest.mark.parametrize("high", [2**53 + 1, 2**63 - 1])
def test_integers_of_text_files_are_refused_with_their_row(tmp_path: Path, high: int) -> None:
    csv, run, qrels = tmp_path / "lists.csv", tmp_path / "lists.run", tmp_path / "truth.qrels"
    csv.write_text(f"user,item,score\n1,1,1\n1,2,{high}\n")
    run.write_text(f"1 Q0 1 1 1 tag\n\n1 Q0 2 2 {high} tag\n")
    qrels.write_text("1 0 1 1\n")
    for lists, truth, format in ((csv, TRUTH, "auto"), (run, qrels, "trec")):
        with pytest.raises(DataError, match=rf"column 'score', row 2 .* is {high} \(int\).*: {LARGE}"):
            scored(lists, truth, format=format)


@pytest.mark.parametrize("options", [{}, {"memory": "1KB"}, {"partitioned": True}])
@pytest.mark.parametrize("low", [2**53, 2**63])
def test_parquet_is_refused_at_once_and_in_parts(tmp_path: Path, options: dict[str, Any], low: int) -> None:
    kind = np.int64 if low < 2**63 else np.uint64
    lists = pd.DataFrame({**IDS, "score": np.array([low, low + 1], dtype=kind)})
    lists.to_parquet(tmp_path / "lists.parquet")
    TRUTH.to_parquet(tmp_path / "truth.parquet")
    with pytest.raises(DataError, match=rf"column 'score', row 1 .* is {low} \(int\).*: {LARGE}"):
        scored(tmp_path / "lists.parquet", tmp_path / "truth.parquet", **options)


def test_scores_of_compared_models_are_refused(tmp_path: Path) -> None:
    table = pd.DataFrame({"question": [1, 1, 2, 2], "llm": list("abab"), "score": [1, 2**53, 1, 2]})
    table.to_csv(tmp_path / "scores.csv", index=False)
    for scores in (table, table.astype({"score": "Int64"}), tmp_path / "scores.csv"):
        with pytest.raises(DataError, match=rf"column 'score', row 2 .* is {2**53} \(int\).*: {LARGE}"):
            evalplugin.compare_scores(scores, unit="question", model="llm")


def test_scores_of_a_deployed_model_are_refused() -> None:
    interface = Interface("the model ours", "user", "item", None, None)
    assert interface.scores(np.array([1, 2**53 - 1]), 2).tolist() == [1.0, 2.0**53 - 1]
    with pytest.raises(ModelError, match=f"^the model ours answers with {2**53}: {LARGE}"):
        interface.scores(np.array([1, 2**53]), 2)
