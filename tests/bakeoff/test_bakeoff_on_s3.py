"""A whole bake-off on objects of S3: data, items, lists of another system, a segment; outputs; nothing changed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import small_config
from servers import ObjectStorage

import evalplugin
from evalplugin.cli import main
from evalplugin.files.outputs import open_output
from evalplugin.files.remote import find_remote

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("no_drawing"),
    pytest.mark.filterwarnings("ignore:shop.*left out:UserWarning"),  # of the vendor's lists
]

SECRET = "an-aws-secret-of-32-characters-xx"


@pytest.fixture(autouse=True)
def secret(s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def _tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(7)
    users, items = np.nonzero(rng.random((60, 40)) < 0.4)
    ratings = rng.integers(1, 6, len(users))
    listed = np.concatenate([rng.permutation(40) for _ in range(60)])
    return {
        "log": pd.DataFrame({"user": users, "item": items, "rating": ratings, "time": np.arange(len(users))}),
        "items": pd.DataFrame({"item": np.arange(40), "title": [f"Item {i}" for i in range(40)]}),
        "users": pd.DataFrame({"user": np.arange(60), "country": ["AT", "CH", "DE"] * 20}),
        "lists": pd.DataFrame(
            {"user": np.repeat(np.arange(60), 40), "item": listed, "rank": np.tile(np.arange(1, 41), 60)}
        ),
    }


def _write(folder: str, tables: dict[str, pd.DataFrame]) -> None:
    for name, table in tables.items():
        parts = table.groupby(table["user"] % 2) if name == "log" else [(0, table)]
        for number, part in parts:
            content = io.BytesIO()
            if name == "log":
                part.to_parquet(content, index=False)
                uri = f"{folder}/log/half={number}/part.parquet"
            else:
                part.to_csv(content, index=False)
                uri = f"{folder}/{name}.csv"
            if "://" not in uri:
                Path(uri).parent.mkdir(parents=True, exist_ok=True)
            with open_output(uri) as file:
                file.write(content.getvalue())


def _config(folder: str) -> dict[str, Any]:
    dataset = {
        "name": "shop", "type": "parquet", "path": f"{folder}/log", "rating": "rating", "timestamp": "time",
        "items": {"path": f"{folder}/items.csv", "title": "title"}, "users": {"path": f"{folder}/users.csv"},
    }  # fmt: skip
    vendor = {"name": "vendor", "type": "lists", "params": {"path": f"{folder}/lists.csv"}}
    return small_config(
        datasets=[dataset],
        models=["random", "popularity", vendor],
        segments=[{"type": "attribute", "file": f"{folder}/users.csv", "column": "country"}],
    )


def _run(config: dict[str, Any], uri: str, *options: str) -> int:
    Path("shop.yaml").write_text(json.dumps(config))
    return main(["run", "shop.yaml", "--tracking-uri", uri, *options])


def test_a_bakeoff_on_objects_is_that_on_files(s3, uri, capsys):
    remote, local, tables = f"{s3.bucket}/shop", str(Path("local").absolute()), _tables()
    _write(remote, tables)
    _write(local, tables)
    on_files = evalplugin.run(_config(local), tracking_uri=uri, experiment="files")
    on_objects = evalplugin.run(_config(remote), tracking_uri=uri, experiment="objects")
    pd.testing.assert_frame_equal(on_files.to_frame(), on_objects.to_frame(), check_exact=True)

    assert _run(_config(remote), uri) == 0
    logged = ["--tracking-uri", uri, "--experiment", "shop"]
    assert main(["compare", *logged, "--html", f"{remote}/page.html"]) == 0
    assert main(["history", *logged, "--chart", f"{remote}/trend.svg"]) == 0
    page = find_remote(f"{remote}/page.html")[0].open().read()
    assert b"vendor" in page
    assert find_remote(f"{remote}/trend.svg")[0].size > 1000
    assert not list(Path().glob("s3*"))
    shown = capsys.readouterr()
    assert SECRET.encode() not in page
    assert SECRET not in shown.out + shown.err


def test_only_what_changed_is_computed_again(s3, uri, capsys):
    folder, tables = f"{s3.bucket}/changing", _tables()
    _write(folder, tables)
    config = _config(folder)
    config["models"][2]["params"]["path"] = f"{folder}/lists{{fold}}.csv"
    _write(folder, {"lists1": tables["lists"]})
    assert _run(config, uri) == 0
    capsys.readouterr()
    assert _run(config, uri, "--if-changed") == 0
    assert "nothing to do" in capsys.readouterr().out

    other = tables["lists"].assign(item=39 - tables["lists"]["item"])
    _write(folder, {"lists1": other})
    assert _run(config, uri, "--if-changed") == 0
    assert f"{folder}/lists*.csv has changed" in capsys.readouterr().err

    tables["log"].loc[0, "rating"] = 6 - tables["log"].loc[0, "rating"]
    _write(folder, {"log": tables["log"]})
    assert _run(config, uri, "--if-changed") == 0
    assert "nothing to do" not in capsys.readouterr().out


def test_a_missing_object_is_an_error_before_any_fit(s3, uri, capsys):
    folder = f"{s3.bucket}/shop"
    _write(folder, _tables())
    config = _config(folder)
    config["models"][2]["params"]["path"] = f"{folder}/list.csv"
    config["datasets"][0]["items"]["path"] = f"s3://key:{SECRET}x@bucket/items.csv"
    assert _run(config, uri, "--debug") == 2
    shown = capsys.readouterr().err
    assert f"models[2].params.path: file not found: {folder}/list.csv; did you mean 'lists.csv'?" in shown
    assert "datasets[0].items.path: s3://***@bucket/items.csv: has credentials in it" in shown
    assert SECRET not in shown
    assert not Path("mlflow.db").exists()


def test_a_store_that_fails_for_a_while_loses_nothing(s3, uri, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "4")
    folder = f"{s3.bucket}/shop"
    _write(folder, _tables())
    s3.proxy.add("status", path=r"part\.parquet|lists\.csv", method="GET", count=3, status=503)
    s3.proxy.add("reset", path=r"items\.csv", method="GET", count=2)
    results = evalplugin.run(_config(folder), tracking_uri=uri)
    assert len(s3.proxy.broken) == 5
    assert results.to_frame()["model"].nunique() == 3
