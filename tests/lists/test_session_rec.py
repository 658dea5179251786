"""Lists of session-rec for clicks of a shop score as session-rec scores them."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

import evalplugin

# The sums of its metrics (evaluation/metrics/accuracy.py: HitRate.hit and MRR.pos, commit 5dcd583) over the 387 events,
# computed by its code: for each row of the file in order,
#     metric.add(pd.Series(scores, index=recommendations), next_item)
# where next_item is the item of the event after `Position` of the session.
EXPECTED = {
    "ar.csv": {"hit@5": 170, "hit@20": 229, "rr@5": 116.13333333333334, "rr@20": 122.30174818731321},
    "sr.csv": {"hit@5": 181, "hit@20": 217, "rr@5": 122.81666666666666, "rr@20": 126.74755234445637},
}


@pytest.fixture(scope="module")
def folder() -> Path:
    folder = Path(os.environ.get("EVALPLUGIN_DATA_HOME", "")) / "published" / "rsc15-100k"
    if "EVALPLUGIN_DATA_HOME" not in os.environ or not folder.is_dir():
        pytest.skip("EVALPLUGIN_DATA_HOME is not set, or has no published/rsc15-100k")
    return folder


@pytest.mark.parametrize("file", list(EXPECTED))
def test_lists_of_session_rec_have_the_means_of_session_rec(folder: Path, file: str) -> None:
    rows = pd.read_csv(folder / file, sep=";")
    clicks = pd.read_csv(folder / "yoochoose-clicks-100k_test.txt", sep="\t")
    clicks = clicks.sort_values(["SessionId", "Time"], kind="stable")
    clicks["known"] = clicks.groupby("SessionId").cumcount()  # events before each
    clicks["query"] = clicks["SessionId"].astype(str) + ":" + clicks["known"].astype(str)
    rows["query"] = rows["SessionId"].astype(str) + ":" + (rows["Position"] + 1).astype(str)
    rows["item"] = rows["Recommendations"].str.split(",")
    lists = rows[["query", "item"]].explode("item").astype({"item": "int64"})
    lists["rank"] = lists.groupby("query").cumcount() + 1
    truth = clicks.loc[clicks["query"].isin(rows["query"]), ["query", "ItemId"]].rename(
        columns={"ItemId": "item"}
    )
    scored = evalplugin.score(lists, truth, list(EXPECTED[file]), columns={"query": "query"})
    assert len(truth) == len(scored.per_user) == 387
    for metric, expected in EXPECTED[file].items():
        assert scored.means[metric] == pytest.approx(expected / 387, rel=1e-12), metric
    assert scored.interval("hit@20").clusters == rows["SessionId"].nunique()
