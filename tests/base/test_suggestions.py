"""Suggestions in error messages: near in spelling and of the same kind, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalplugin.base.errors import ConfigError, DataError, did_you_mean
from evalplugin.cli import main
from evalplugin.config.document import read_document
from evalplugin.data import DATASETS, LoadContext


@pytest.mark.parametrize(
    ("value", "allowed", "suggested"),
    [
        ("ndgc", ["ndcg", "map"], "ndcg"),
        ("Ratting", ["rating"], "rating"),
        ("KNNBasic", ["surprise.KNNBasic", "surprise.SVD"], "surprise.KNNBasic"),
        ("opularity", ["popularity"], "popularity"),
        ("user_id", ["userId", "movieId"], "userId"),
        ("train", ["rating", "user"], None),
        ("folds", ["cold"], None),
        ("recall", ["all"], None),
        ("rating", ["rank"], None),
        ("EV999", ["EV109"], None),
        ("EV11", ["EV110", "EV118"], None),
    ],
)
def test_a_suggestion_is_near_in_spelling(value: str, allowed: list[str], suggested: str | None) -> None:
    said = did_you_mean(value, allowed)
    assert said == (f"; did you mean {suggested!r}?" if suggested else f"; allowed: {', '.join(allowed)}")


def test_an_unknown_parameter_is_not_said_to_be_another_word() -> None:
    with pytest.raises(Exception, match="unknown parameter 'train' of csv; allowed: path, "):
        DATASETS.create("csv", {"path": "a.csv", "train": "b.csv"})


@pytest.mark.parametrize(
    ("named", "beside", "suggested"),
    [
        ("beauty.csv", "beauty_t.yaml", False),
        ("beauty.csv", "beauty_t.csv", True),
        ("ratings.cvs", "ratings.csv", True),
        ("ratings.csv", "ratings.csv.gz", True),
        ("ratings", "ratings.csv", True),
        ("users.csv", "ratings.csv", False),
        ("truth.csv", "train.csv", False),
        ("ratings.csv", "raw.csv", False),
    ],
)
def test_a_file_that_is_suggested_is_of_the_same_kind(tmp_path, named, beside, suggested):
    (tmp_path / beside).write_text("user,item\n1,2\n")
    dataset = DATASETS.create("csv", {"path": named, "user": "user", "item": "item"})
    with pytest.raises(DataError, match="file not found: ") as caught:
        dataset.load(LoadContext(base=tmp_path))
    assert (f"did you mean {beside!r}?" in str(caught.value)) is suggested


@pytest.mark.parametrize(
    ("named", "suggested"), [("shop.yml", True), ("shops.yaml", True), ("shop.csv", False)]
)
def test_a_config_that_is_suggested_is_of_the_same_kind(tmp_path: Path, named: str, suggested: bool) -> None:
    (tmp_path / "shop.yaml").write_text("")
    with pytest.raises(ConfigError, match="no such file") as caught:
        read_document(tmp_path / named)
    assert ("did you mean" in str(caught.value)) is suggested


def test_an_option_that_is_suggested_is_near_in_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--metrics", "ndcg@10"]) == 2
    said = capsys.readouterr().err
    assert "--metric" in said and "--train" not in said
    assert main(["score", "--trial", "ndcg@10"]) == 2
    assert "mean" not in capsys.readouterr().err.partition("--trial")[2]
