"""JSON lines: datasets, tables of items, pools and lists; what is no object a line is refused with what to do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import refusal

import evalplugin
from evalplugin.cli import main
from evalplugin.data import Csv, Interactions, Json, LoadContext
from evalplugin.data.datasets.tables import ItemTable

# As reviews of Amazon's, with keys that are no columns.
REVIEWS: list[dict[str, Any]] = [
    {
        "reviewerID": f"A{n % 7}",
        "asin": f"00{n}",
        "overall": 3,
        "unixReviewTime": 1_400_000_000 + n,
        "reviewText": "two\nlines",
        "style": {"Format": "Kindle"},
        "helpful": [n, 2],
        **({"vote": "12"} if n == 5 else {}),
    }
    for n in range(20)
]


def write(name: str, rows: list[Any]) -> str:
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows).encode()
    Path(name).write_bytes(gzip.compress(text, mtime=0) if name.endswith(".gz") else text)
    return name


def load(name: str = "a.jsonl", **options: Any) -> Interactions:
    named = {"user": "reviewerID", "item": "asin", "rating": "overall", "timestamp": "unixReviewTime"}
    return Json(name, **named | options).load(LoadContext())


@pytest.mark.parametrize("name", ["a.jsonl", "a.json.gz"])
def test_json_lines_are_read_and_other_keys_ignored(name: str) -> None:
    data = load(write(name, [*REVIEWS[:3], "", *REVIEWS[3:]]))
    assert data.items.tolist() == sorted(row["asin"] for row in REVIEWS)
    assert data.timestamp.tolist() == [row["unixReviewTime"] for row in REVIEWS]
    assert set(data.rating) == {3.0}


def test_json_numbers_may_turn_fractional_behind_the_first_line() -> None:
    rows = [{**REVIEWS[0], "asin": n, "overall": n % 5 if n < 5000 else 4.5} for n in range(6000)]
    data = load(write("a.jsonl", rows))
    assert data.rating[-1] == 4.5
    assert data.items.tolist() == list(range(6000))


def test_json_times_may_be_text_as_in_iso_8601() -> None:
    rows = [{**row, "at": f"1970-01-02 00:00:{n:02}"} for n, row in enumerate(REVIEWS)]
    data = load(write("a.jsonl", rows), timestamp="at")
    assert data.timestamp.tolist() == [86_400 + n for n in range(20)]
    rows[17]["at"] = "soon"
    message = refusal(lambda: load(write("a.jsonl", rows), timestamp="at"))
    assert "column 'at', row 18 (counted from 1) is 'soon' (str): timestamps must be" in message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({**REVIEWS[0], "overall": "five"}, "line 18: 'overall' is 'five' (line 1: 3): the values of a"),
        ({**REVIEWS[0], "asin": 7}, "line 18: 'asin' is 7 (line 1: '000'): the values of a column must be"),
        ({**REVIEWS[0], "overall": [5]}, "line 18: 'overall' is [5]"),
        ({"reviewerID": "x", "asin": "y"}, "column 'overall', row 18 (counted from 1) is empty: no rating"),
        ({**REVIEWS[0], "asin": None}, "column 'asin', row 18 (counted from 1) is empty: no item id may be"),
        ("[1, 2]", "line 18 is '[1, 2]', which is not a JSON object: each line must be one"),
        ("{'overall': 5}", "line 18 is \"{'overall': 5}\", which is not a JSON object"),
        ('{"overall": 5', "line 18 is '{\"overall\": 5', which is not a JSON object"),
    ],
)
def test_bad_json_line_is_named(line: Any, words: str) -> None:
    write("a.jsonl", [*REVIEWS[:17], line, *REVIEWS[18:]])
    assert words in refusal(load)


@pytest.mark.parametrize("indent", [None, 2])
def test_json_documents_that_are_no_lines_are_refused_with_what_to_do(indent: int | None) -> None:
    write("a.jsonl", [json.dumps(REVIEWS, indent=indent)])
    message = refusal(load)
    assert "a.jsonl: line 1 is '[" in message
    assert "jq -c .[] makes such lines of an array" in message


def test_json_columns_are_checked_by_name_before_rows_are_read() -> None:
    write("a.jsonl", REVIEWS)
    assert "no rating column 'stars'; columns: reviewerID, asin" in refusal(lambda: load(rating="stars"))
    assert "line 1: 'helpful' is [0, 2] (line 1: [0, 2])" in refusal(lambda: load(rating="helpful"))
    write("a.jsonl", [])
    assert "a.jsonl is empty" in refusal(load)


def test_tables_of_items_pools_lists_and_scores_may_be_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "items.jsonl", [{"item": n, "price": n, "kind": "a"} for n in range(5)] + [{"item": 5, "price": 0.5}]
    )
    Path("log.csv").write_text("user,item\n1,0\n1,5\n")
    data = Csv("log.csv", items=ItemTable("items.jsonl")).load(LoadContext())
    np.testing.assert_array_equal(data.item_attributes["price"], [0, 0.5])
    assert data.item_attributes["kind"].tolist() == ["a", None]
    write("lists.jsonl", [{"user": 1, "item": n, "score": 9 - n / 2} for n in range(3)])
    write("truth.jsonl.gz", [{"user": 1, "item": 1}])
    assert (
        main(["score", "--lists", "lists.jsonl", "--truth", "truth.jsonl.gz", "-m", "rr", "--format", "csv"])
        == 0
    )
    assert "rr,0.5" in capsys.readouterr().out
    write("scores.ndjson", [{"q": q, "model": m, "score": q % 2 == 0} for q in range(9) for m in "ab"])
    compared = evalplugin.compare_scores("scores.ndjson", unit="q", model="model").comparisons[0]
    assert compared.pairs[0].paired.users == 9


@pytest.mark.parametrize("odd", [1.5, 2**63, True])
def test_ids_that_are_no_integers_are_named_with_their_line(odd: object) -> None:
    write("a.jsonl", [{"reviewerID": 1, "asin": 2}, {"reviewerID": odd, "asin": 3}])
    message = refusal(lambda: load(rating=None, timestamp=None))
    assert f"a.jsonl: line 2: 'reviewerID' is {odd} (line 1: 1): " in message
