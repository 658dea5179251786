"""Outputs that name an input are refused, by whatever name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evalplugin.base.errors import DataError
from evalplugin.files.outputs import refuse_input


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Path("home").mkdir()
    Path("lists/day=1").mkdir(parents=True)
    for name in ("lists.csv", "lists/a.parquet", "lists/day=1/b.parquet", "home/lists.csv", "other.csv"):
        Path(name).write_text("text")
    os.symlink("lists.csv", "link.csv")
    os.symlink("lists", "linked")
    return tmp_path


@pytest.mark.parametrize(
    ("target", "given"),
    [
        ("lists.csv", "lists.csv"),
        ("./lists/../lists.csv", "lists.csv"),
        ("{}/lists.csv", "lists.csv"),
        ("lists.csv", "file://{}/lists.csv"),
        ("file://{}/lists.csv", "lists.csv"),
        ("link.csv", "lists.csv"),
        ("lists.csv", "link.csv"),
        ("home/lists.csv", "~/lists.csv"),
        ("lists/a.parquet", "lists"),
        ("linked/day=1/b.parquet", "lists/"),
        ("lists/a.parquet", "lists/*.parquet"),
        ("lists/new.parquet", "lists"),
        ("lists/new/new.parquet", "linked"),
        ("lists/new.parquet", "{}/lists/*.parquet"),
        ("lists/day=2/new.parquet", "lists/**/*.parquet"),
        ("s3://b/lists.csv", "s3a://b/lists.csv"),
        ("S3://b/lists.csv", "s3://b/lists.csv"),
        ("s3:/b/lists.csv", "s3://b/lists.csv"),
        ("gs://b/lists.csv", "gcs://anonymous@b/lists.csv"),
        ("s3://b/lists/day=1/new.parquet", "s3://b/lists"),
        ("s3://b/lists/day=1/new.parquet", "s3://b/lists/day=*/*.parquet"),
    ],
)
def test_an_output_that_is_an_input_is_refused(folder: Path, target: str, given: str) -> None:
    with pytest.raises(DataError, match=r"too, as .* would be replaced: write to another file") as caught:
        refuse_input(target.format(folder), ["other.csv", given.format(folder)], "*.parquet")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("target", "given"),
    [
        ("lists2.csv", "lists.csv"),
        ("lists/scores.csv", "lists"),  # of which Parquet files are read
        ("lists.parquet", "lists"),
        ("lists/day=1/new.parquet", "lists/*.parquet"),
        ("s3://b/lists2.parquet", "s3://b/lists"),
        ("s3://c/lists.csv", "s3://b/lists.csv"),
        ("b/lists.csv", "s3://b/lists.csv"),
        ("/dev/stdout", "lists.csv"),
        ("lists.csv", object()),
        ("lists.csv", None),
    ],
)
def test_another_output_is_not_refused(target: str, given: object) -> None:
    refuse_input(target, [given], "*.parquet")


def test_credentials_of_an_output_are_looked_for_first() -> None:
    with pytest.raises(DataError, match="has credentials in it") as caught:
        refuse_input("s3://key:the-secret@b/lists.csv", ["s3://key:the-secret@b/lists.csv"])
    assert "the-secret" not in str(caught.value)
