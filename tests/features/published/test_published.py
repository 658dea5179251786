"""Published tables: their files, their verdicts, and the command that reproduces them."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import mlflow
import pytest
import yaml

from evalplugin.base.errors import ConfigError, DataError
from evalplugin.cli.program import main
from evalplugin.config import load
from evalplugin.data import LoadContext
from evalplugin.features.published.files import provide
from evalplugin.features.published.reproduction import Value
from evalplugin.features.published.table import SHIPPED, DataFile, NamedTable, find_tables

# Two of the three users find their item in the first place: recall@1 is 2/3.
FILES = {"train.txt": "1 10 20\n2 10 30\n3 20\n", "test.txt": "1 30\n2 20\n3 30\n"}
TAKES_LONG = {"bars-gowalla-m1-ease"}  # ten minutes and 7 GB: `evalplugin reproduce --all` before a release
PAGE = Path(__file__).parents[3] / "docs/published.jsonl"


def table(**changes: Any) -> dict[str, Any]:
    files = [
        {"file": f"tiny/{name}", "sha256": hashlib.sha256(text.encode()).hexdigest(), "origin": "made here"}
        for name, text in FILES.items()
    ]
    return {
        "title": "three users",
        "source": {"title": "Nobody 2026", "url": "https://example.org/paper", "place": "Table 1."},
        "data": files,
        "metrics": ["recall@1", "hit@1"],
        "values": {"top": "0.667 0.67"},
        "config": {
            "datasets": [
                {
                    "name": "tiny",
                    "type": "pairs",
                    "format": "adjacency",
                    "train": "{data}/tiny/train.txt",
                    "test": "{data}/tiny/test.txt",
                }
            ],
            "split": "given",
            "recommend": {"n": 1},
            "metrics": ["recall@1", "hit@1"],
            "segments": [],
            "models": [{"name": "top", "type": "popularity"}],
        },
        **changes,
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data home with the files, and the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALPLUGIN_DATA_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home/published/tiny"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return tmp_path / "home"


def written(folder: Path, **changes: Any) -> Path:
    file = folder / "own.yaml"
    file.write_text(yaml.safe_dump(table(**changes), sort_keys=False))
    return file


def documented_tables() -> list[dict[str, Any]]:
    return [json.loads(line) for line in PAGE.read_text().splitlines()]


# ---- values


def value(published: str, measured: float, *seeds: float, within: float = 0.0) -> Value:
    return Value("m", "recall@20", published, measured, math.nan, math.nan, seeds, within)


@pytest.mark.parametrize(
    ("shown", "verdict", "text"),
    [
        (value("0.0382", 0.03815), "agrees", "agrees"),
        (value("0.0382", 0.03825), "agrees", "agrees"),
        (value("0.0382", 0.03826), "differs", "differs by +0.00006"),
        (value("0.0382", 0.0381), "differs", "differs by -0.00010"),
        (value("0.0382", 0.0381, within=0.0001), "explained", "differs by -0.00010, explained"),
        (value("0.0382", 0.0380, within=0.0001), "differs", "differs by -0.00020"),
        (value("0.0382", 0.0370, 0.0360, 0.0390), "stochastic", "stochastic: 2 seeds give 0.0360 to 0.0390"),
        (value("0.0382", 0.0370, 0.0360, 0.0381), "differs", "differs by -0.00120"),
        (value("0.0382", math.nan), "failed", "failed"),
        (value("12", 12.4), "agrees", "agrees"),
        (value("-", 0.0382), "unpublished", "no published value"),
        (value("-", math.nan), "unpublished", "no published value"),
    ],
)
def test_a_value_agrees_to_the_printed_digit_or_says_why_not(shown: Value, verdict: str, text: str) -> None:
    assert shown.verdict == verdict
    assert shown.verdict_text == text


# ---- tables


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_shipped_table_is_valid_and_has_its_values_in_the_documentation(
    file: Path, tmp_path: Path
) -> None:
    named = NamedTable.read(file)
    config = named.config_with(tmp_path, tmp_path)
    for name in (*(entry.file for entry in named.table.data), "train.csv", "test.csv", "pool.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("user,item\n")
    checked = load(config)
    assert {model.name for model in checked.models} >= set(named.table.values)
    shown = next(line for line in documented_tables() if line["name"] == file.stem)
    listed = [text for row in named.table.values.values() for text in row.split()]
    assert [row["published"] for row in shown["values"]] == listed
    assert shown["agrees"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sauce": 1}, "unknown key 'sauce' of a published table; did you mean 'source'?"),
        ({"values": {"top": "0.667"}}, "values: top has 1 values, but there are 2 metrics"),
        ({"values": {"top": "0.667 2/3"}}, "top: '2/3' is no printed value, such as 0.0382, nor -"),
        ({"differences": {"tip": {"reason": "r", "within": 1.0}}}, "no values of tip; did you mean 'top'?"),
        (
            {"differences": {"top": {"reason": "r", "within": {"recal@1": 1.0}}}},
            "differences.top.within: no metric recal@1; did you mean 'recall@1'?; there are recall@1, hit@1",
        ),
        (
            {"scales": {"hit@2": {"name": "hits", "times": 100}}},
            "scales: no metric hit@2; did you mean 'hit@1'?",
        ),
        ({"source": {"title": "t", "place": "p"}}, "source.url: missing key 'url'"),
        (
            {"data": [{"file": "f", "sha256": "0" * 64}]},
            "a file needs a url to be fetched from, or an origin",
        ),
    ],
)
def test_a_table_with_a_mistake_is_refused_with_its_place(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    file = written(tmp_path, **changes)
    with pytest.raises(ConfigError) as caught:
        NamedTable.read(file)
    assert message in str(caught.value)
    assert f"{file}:" in str(caught.value)


def test_tables_are_found_by_name_by_path_and_in_folders(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert [named.name for named in find_tables(("own",), (tmp_path,))] == ["own"]
    assert [named.name for named in find_tables((str(file),))] == ["own"]
    assert "own" in [named.name for named in find_tables((), (tmp_path,))]
    with pytest.raises(
        DataError, match=r"no published table 'tois2021-table23'; did you mean 'tois2021-table32'\?"
    ):
        find_tables(("tois2021-table23",))


def test_a_model_without_values_in_the_config_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(home, values={"tip": "0.667 0.67"})
    assert main(["reproduce", str(file)]) == 2
    assert "values.tip: no model 'tip' in the config; did you mean 'top'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (
            "hit@2",
            "metrics[1]: no metric 'hit@2' in the config; did you mean 'hit@1'?; add it to config.metrics",
        ),
        ("hti@1", "metrics[1]: unknown metric 'hti'; did you mean 'hit'?"),
    ],
)
def test_a_metric_that_the_config_lacks_is_refused_before_the_run(
    home: Path, capsys: pytest.CaptureFixture[str], metric: str, message: str
) -> None:
    file = written(home, metrics=["recall@1", metric])
    assert main(["reproduce", str(file)]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert f"{file}:" in shown
    assert "fit top" not in shown


# ---- files


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    """The address of a server with the files."""
    folder = tmp_path / "origin"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetched_from(url: str, name: str) -> DataFile:
    checksum = hashlib.sha256(FILES[name].encode()).hexdigest()
    return DataFile.model_construct(file=f"tiny/{name}", sha256=checksum, url=f"{url}/{name}", origin=None)


def test_missing_files_are_fetched_and_checked(origin: str, tmp_path: Path) -> None:
    context = LoadContext(data_home=tmp_path / "home")
    files = [fetched_from(origin, name) for name in FILES]
    folder = provide(files, tmp_path, context)
    assert {name: (folder / "tiny" / name).read_text() for name in FILES} == FILES
    other = fetched_from(origin, "train.txt").model_copy(
        update={"sha256": "0" * 64, "file": "tiny/other.txt"}
    )
    with pytest.raises(
        DataError, match=r"the SHA256 checksum of what came is [0-9a-f]{64}, but should be 0000"
    ):
        provide([other], tmp_path, context)
    assert not (folder / "tiny/other.txt").exists()


def test_a_file_of_other_content_is_refused_with_both_checksums(home: Path) -> None:
    files = NamedTable.read(written(home)).table.data
    (home / "published/tiny/train.txt").write_text("1 10\n")
    with pytest.raises(DataError) as caught:
        provide(files, home, LoadContext(data_home=home))
    message = str(caught.value)
    assert files[0].sha256 in message
    assert hashlib.sha256(b"1 10\n").hexdigest() in message
    assert "put the right one there (made here), or name the folder that has it by --data-home" in message


def test_a_missing_file_that_cannot_be_fetched_is_named_with_its_origin(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(home)
    (home / "published/tiny/test.txt").unlink()
    assert main(["reproduce", str(file)]) == 2
    assert "tiny/test.txt: put the right one there (made here)" in capsys.readouterr().err


# ---- the command


@pytest.mark.usefixtures("no_drawing", "store")
def test_a_table_is_reproduced_and_logged(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(home)
    assert main(["reproduce", str(file), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(row["metric"], row["measured"]) for row in shown["values"]] == [
        ("recall@1", pytest.approx(2 / 3)),
        ("hit@1", pytest.approx(2 / 3)),
    ]
    assert shown["agrees"]
    runs = mlflow.search_runs(
        experiment_names=["published own"], filter_string="tags.`evalplugin.role` = 'summary'"
    )
    text = mlflow.artifacts.load_text(f"runs:/{runs.run_id[0]}/published.md")
    assert "of 2 values 2 agree to the printed digit" in text


@pytest.mark.usefixtures("no_drawing", "store")
def test_metrics_without_a_published_value_are_shown_and_count_for_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(home, values={"top": "0.667 -"})
    assert main(["reproduce", str(file), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["summary"] == "own: of 1 values 1 agree to the printed digit; 1 more are not published"
    row = shown["values"][1]
    assert (row["published"], row["verdict"], row["text"]) == ("-", "unpublished", "no published value")
    assert row["measured"] == pytest.approx(2 / 3)
    for form in ("text", "markdown"):
        assert main(["reproduce", str(file), "--format", form]) == 0
        assert re.search(r"hit@1.* - .*0\.66667.*no published value", capsys.readouterr().out)


@pytest.mark.usefixtures("no_drawing", "store")
def test_values_are_compared_on_the_scale_of_the_publication(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scales = {
        "recall@1": {"name": "recall@1 in %", "times": 100},
        "hit@1": {"name": "miss@1", "times": -1, "plus": 1},
    }
    file = written(home, values={"top": "66.7 0.32"}, scales=scales)
    assert main(["reproduce", str(file)]) == 1
    shown = capsys.readouterr().out
    assert re.search(r"recall@1 in % +66\.7 +66\.67 .*agrees", shown)
    assert re.search(r"miss@1 +0\.32 +0\.333 .*differs by \+0\.013", shown)
    assert "recall@1 in %: 100 × recall@1" in shown
    assert "miss@1: 1 - 1 × hit@1" in shown
    explained = {"top": {"reason": "coarse", "within": {"hit@1": 0.02}}}
    assert main(["reproduce", str(written(home, values={"top": "66.7 0.32"}, scales=scales, differences=explained))]) == 0  # fmt: skip  # noqa: E501


@pytest.mark.usefixtures("no_drawing", "store")
def test_the_exit_code_is_1_where_a_value_differs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(home, values={"top": "0.667 0.65"})
    assert main(["reproduce", str(file)]) == 1
    shown = capsys.readouterr().out
    assert "of 2 values 1 agree to the printed digit, 1 differ" in shown
    assert "differs by +0.017" in shown
    assert "Nobody 2026 Table 1. https://example.org/paper" in shown


def test_names_or_all_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 2
    assert "name tables, as `evalplugin list published` lists them, or give --all" in capsys.readouterr().err


def test_published_tables_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path)
    assert main(["list", "published", "--tables", str(tmp_path)]) == 0
    assert re.search(r"^own +three users$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.usefixtures("no_drawing", "store")
@pytest.mark.parametrize("name", sorted({file.stem for file in SHIPPED.glob("*.yaml")} - TAKES_LONG))
def test_the_documented_values_come_out(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    home = Path(os.environ.get("EVALPLUGIN_DATA_HOME", ""))
    files = find_tables((name,))[0].table.data
    if "EVALPLUGIN_DATA_HOME" not in os.environ or not all(
        (home / "published" / f.file).exists() for f in files
    ):
        pytest.skip("EVALPLUGIN_DATA_HOME is not set, or lacks the files of the table")
    code = main(["reproduce", name, "--format", "json"])
    shown = json.loads(capsys.readouterr().out)
    documented = next(line for line in documented_tables() if line["name"] == name)
    for now, then in zip(shown["values"], documented["values"], strict=True):
        assert now["verdict"] == then["verdict"], now
        assert now["measured"] == pytest.approx(then["measured"], rel=1e-6), now
    assert code == 0
