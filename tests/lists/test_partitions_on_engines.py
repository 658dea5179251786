"""Files that are partitions already, and partitions that are scored on engines."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clusters import RAY_WARNINGS, ray_nodes
from samples import list_tables

import evalplugin
from evalplugin.base.errors import DataError, EngineError, EvalpluginError
from evalplugin.cli import main
from evalplugin.execution.engines import Call, Needs
from evalplugin.execution.engines.executor import Executor
from evalplugin.execution.isolation import TaskFailure
from evalplugin.lists import partitioned
from evalplugin.lists.job import engine_of
from tests.lists.test_partitioned import FREE, METRICS, assert_same, scored


class Session:
    """A session in this process whose calls and values are pickled, and which ends calls in another order."""

    slots, in_process = 2, False

    def __init__(self) -> None:
        self.running: list[bytes] = []
        self.calls = 0

    def put(self, value: Mapping[str, Any]) -> bytes:
        return pickle.dumps(value)

    def submit(self, call: Call) -> None:
        self.running.append(pickle.dumps(call))
        self.calls += 1

    def wait(self) -> list[tuple[int, Any]]:
        call: Call = pickle.loads(self.running.pop())
        shared = {name: one for handle in call.shared for name, one in pickle.loads(handle).items()}
        try:
            return [(call.number, pickle.loads(pickle.dumps(call.function(**shared, **call.rest))))]
        except BaseException as error:  # noqa: BLE001 - as an engine does
            return [(call.number, TaskFailure(repr(error)))]

    def describe(self) -> str:
        return ""

    def close(self) -> None:
        self.running.clear()


class Engine:
    def __init__(self) -> None:
        self.needs: Needs | None = None
        self.session = Session()

    @contextmanager
    def open(self, needs: Needs) -> Generator[Session]:
        self.needs = needs
        yield self.session


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path


def write_files(table: pd.DataFrame, name: str, part: np.ndarray[Any, Any]) -> None:
    """Write the rows of each part to a file, as another program would."""
    Path(name).mkdir()
    for number in range(int(part.max()) + 1):
        table[part == number].to_parquet(f"{name}/part-{number}.parquet", index=False, row_group_size=40)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("metrics", [METRICS, FREE])
@pytest.mark.parametrize("truth_is_divided", [False, True])
@pytest.mark.parametrize("on_engine", [False, True])
def test_files_that_are_partitions_give_the_same_to_the_last_bit(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: bool,
    metrics: tuple[str, ...],
    truth_is_divided: bool,
    on_engine: bool,
) -> None:
    lists, truth, train = list_tables(text=text)
    hashed = [
        table["user"].map(lambda user: zlib.crc32(str(user).encode()) % 5).to_numpy()
        for table in (lists, truth)
    ]
    write_files(lists, "lists", hashed[0])
    if truth_is_divided:
        write_files(truth, "truth.parquet", hashed[1])
    else:
        truth.to_parquet("truth.parquet", index=False)
    train.to_parquet("train.parquet", index=False)
    monkeypatch.setattr(partitioned, "write_partitions", None)
    engine = Engine()
    found = evalplugin.score(
        "lists", "truth.parquet", metrics, train="train.parquet", threshold=2.0, partitioned=True,
        engine=engine if on_engine else None,
    )  # fmt: skip
    assert_same(found, evalplugin.score(lists, truth, metrics, train=train, threshold=2.0))
    assert (engine.session.calls >= 5) == on_engine
    assert {path.name for path in (folder / "temporary").rglob("*") if path.is_file()} <= {"lock"}


def test_partitions_are_scored_by_the_calls_of_an_engine(folder: Path) -> None:
    lists, truth, train = list_tables()
    Path("lists").mkdir()
    lists[:150].to_parquet("lists/1.parquet", index=False, row_group_size=37)
    lists[150:].astype({"item": np.int16}).to_parquet("lists/2.parquet", index=False, row_group_size=50)
    truth.to_parquet("truth.parquet", index=False, row_group_size=50)
    engine = Engine()
    expected = evalplugin.score(lists, truth, METRICS, train=train)
    assert_same(evalplugin.score("lists", "truth.parquet", METRICS, train=train, engine=engine), expected)
    assert engine.session.calls >= 16
    assert [Path(name).name for name in engine.needs.inputs] == ["1.parquet", "truth.parquet", "probe"]
    assert all(Path(name).is_absolute() for name in engine.needs.inputs)
    assert {path.name for path in (folder / "temporary").rglob("*") if path.is_file()} <= {"lock"}


def test_a_user_in_two_files_is_refused_where_files_are_partitioned(folder, capsys):
    lists, truth, _ = list_tables()
    part = lists["user"].to_numpy() % 3
    part[np.flatnonzero(lists["user"] == 7)[0]] = 0
    write_files(lists, "lists", part)
    truth.to_parquet("truth.parquet", index=False)
    argv = ["score", "--lists", "lists", "--truth", "truth.parquet", "-m", "rr", "--partitioned"]
    assert main(argv) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("error: user 7 is in lists/part-0.parquet and in lists/part-1.parquet")
    assert_same(evalplugin.score("lists", "truth.parquet", ["rr"]), evalplugin.score(lists, truth, ["rr"]))


def test_files_of_tables_that_are_no_parquet_are_refused_for_parts(folder: Path) -> None:
    lists, truth, _ = list_tables()
    lists.to_csv("lists.csv", index=False)
    truth.to_parquet("truth.parquet", index=False)
    with pytest.raises(DataError, match=r"^lists.csv: partitions are asked for .* only Parquet files"):
        scored("lists.csv", "truth.parquet", ["rr"], partitioned=True)


@pytest.mark.parametrize("partitioned", [False, True])
def test_an_error_in_a_call_of_an_engine_is_the_error_of_this_process(folder, partitioned):
    lists, truth, _ = list_tables()
    twice = pd.concat([lists, lists[:1]])
    twice.to_parquet("lists.parquet", index=False)
    truth.to_parquet("truth.parquet", index=False)
    with pytest.raises(DataError) as here:
        evalplugin.score(twice, truth, ["rr"])
    with pytest.raises(DataError) as there:
        evalplugin.score("lists.parquet", "truth.parquet", ["rr"], partitioned=partitioned, engine=Engine())
    assert str(there.value) == str(here.value)


def test_a_lost_call_is_an_error_with_what_the_engine_says(folder, monkeypatch):
    lists, truth, _ = list_tables()
    lists.to_parquet("lists.parquet", index=False)
    truth.to_parquet("truth.parquet", index=False)
    monkeypatch.setattr(
        Session, "wait", lambda self: [(self.running.pop()[0], TaskFailure("the node is gone"))]
    )
    with pytest.raises(EvalpluginError, match=r"could not be scored:\nthe node is gone$"):
        evalplugin.score("lists.parquet", "truth.parquet", ["rr"], engine=Engine())


def test_engines_are_named_as_in_a_config() -> None:
    assert engine_of(None) is None
    assert engine_of("local") is None
    assert engine_of({"type": "local"}) is None
    for wrong in ("lcal", {"typ": "ray"}, 3):
        with pytest.raises(EvalpluginError):
            engine_of(wrong)


@pytest.mark.parametrize(
    "engine", ["executor", {"type": "executor", "factory": "os:getpid"}, Executor("os:getpid")]
)
def test_an_executor_is_refused_without_asking_for_workers(engine: object) -> None:
    """`score` has no number of workers: a message that asks for one leads nowhere."""
    with pytest.raises(
        EngineError, match=r"^engine executor: .* which score does not have; allowed: local, ray$"
    ):
        engine_of(engine)


@pytest.mark.slow
@pytest.mark.cluster
@RAY_WARNINGS
def test_ray_gives_the_same_errors(folder: Path) -> None:
    lists, truth, _ = list_tables(100)
    truth.to_parquet("truth.parquet", index=False)
    twice = pd.concat([lists, lists[:1]])
    write_files(twice, "lists", twice["user"].to_numpy() % 2)
    with ray_nodes() as cluster:
        ray = {"type": "ray", "address": cluster.address}
        with pytest.raises(DataError, match=r"^the list of user \d+ has item \d+ twice$"):
            evalplugin.score("lists", "truth.parquet", ["ndcg@5"], partitioned=True, engine=ray)
