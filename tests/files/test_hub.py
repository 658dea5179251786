"""Files of the Hugging Face Hub, through fsspec: a stand-in for the Hub takes the requests."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pandas as pd
import pytest
from hub import FakeHub, ServerError, fake_hub

from evalplugin.base.errors import DataError
from evalplugin.data import Csv, LoadContext, Parquet
from evalplugin.files import stores

FRAME = pd.DataFrame({"user": [1, 1, 2], "item": [5, 6, 5], "rating": [3.0, 4.0, 5.0]})
SHOP = "datasets/owner/shop"


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> type[FakeHub]:
    """A Hub with a data set of a CSV file, two Parquet files, and these of an older revision."""
    monkeypatch.setattr(FakeHub, "is_down", False)
    parquet, csv = FRAME.to_parquet(), FRAME.to_csv(index=False).encode()
    other = FRAME.assign(user=FRAME["user"] + 10).to_parquet()
    files = {"ratings.csv": csv, "data/part-0.parquet": parquet, "data/part-1.parquet": other}
    older = {f"{SHOP}@v1/data/part-0.parquet": parquet}
    return fake_hub({f"{SHOP}/{name}": content for name, content in files.items()} | older)


@pytest.mark.parametrize(
    ("path", "rows"),
    [("/data", 6), ("/data/*.parquet", 6), ("/data/part-1.parquet", 3), ("@v1/data/*.parquet", 3)],
)
def test_parquet_files_are_read(path: str, rows: int) -> None:
    dataset = Parquet(f"hf://{SHOP}{path}", rating="rating")
    assert not dataset.check(LoadContext())
    assert len(dataset.load(LoadContext())) == rows


def test_csv_files_are_read() -> None:
    assert len(Csv(f"hf://{SHOP}/ratings.csv").load(LoadContext())) == 3


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/rating.csv", "file not found: hf://datasets/owner/shop/rating.csv; did you mean 'ratings.csv'?"),
        ("s/ratings.csv", "file not found: hf://datasets/owner/shops/ratings.csv"),
        ("/*.parquet", "no file matches hf://datasets/owner/shop/*.parquet"),
    ],
)
def test_a_missing_file_is_an_error(path: str, message: str) -> None:
    (problem,) = Csv(f"hf://{SHOP}{path}").check(LoadContext())
    assert problem.message == message


def test_errors_of_the_hubs_client_are_errors_in_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeHub, "is_down", True)
    (problem,) = Csv(f"hf://{SHOP}/ratings.csv").check(LoadContext())
    assert problem.message == f"hf://{SHOP}/ratings.csv: [Errno 111] Connection refused"


def test_a_connection_that_is_lost_on_the_way_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*arguments: object, **options: object) -> None:
        raise ServerError("the connection was lost")

    dataset = Parquet(f"hf://{SHOP}/data", rating="rating")
    assert not dataset.check(LoadContext())
    monkeypatch.setattr(FakeHub, "open", lost)
    with pytest.raises(DataError, match=r"part-0\.parquet: cannot be read: the connection was lost"):
        dataset.load(LoadContext())


@pytest.mark.skipif(find_spec("huggingface_hub") is not None, reason="the package is installed")
def test_the_package_of_the_hub_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(import_module("fsspec.registry")._registry, "hf")
    stores._opened.cache_clear()
    (problem,) = Csv(f"hf://{SHOP}/ratings.csv").check(LoadContext())
    stores._opened.cache_clear()
    assert problem.message == "hf://datasets: a package for hf is not installed: pip install huggingface_hub"
