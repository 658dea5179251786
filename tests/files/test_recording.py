"""Files that code reads are recorded, however it opens them."""

from __future__ import annotations

import glob
import importlib
import importlib.metadata
import json
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalplugin.files import recording
from evalplugin.files.inputs import CHANGED, WRITTEN, fingerprint_of
from evalplugin.files.recording import recorded_inputs


@pytest.fixture(autouse=True)
def _nothing_carried_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_carried", {})


def here(found: dict[str, str]) -> dict[str, str]:
    """The inputs below the working directory, relative to it."""
    return {n.replace(f"{Path.cwd()}/", ""): value for n, value in found.items() if str(Path.cwd()) in n}


def digest(file: str) -> str:
    return fingerprint_of(f"{Path.cwd()}/{file}", str)


def write_numbers(file: str, seed: int = 0) -> None:
    values = np.random.default_rng(seed).random(80)
    path = Path(file)
    path.parent.mkdir(exist_ok=True, parents=True)
    frame = pd.DataFrame({"x": values})
    match path.suffix:
        case ".csv":
            frame.to_csv(path, index=False)
        case ".npy":
            np.save(path, values)
        case ".bin":
            values.tofile(path)
        case ".feather":
            frame.to_feather(path)
        case ".json":
            path.write_text(json.dumps(values.tolist()))


def low_level(file: str) -> bytes:
    number = os.open(file, os.O_RDONLY)
    try:
        return os.read(number, 10**6)
    finally:
        os.close(number)


READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "read_text": ("v.json", lambda file: json.loads(Path(file).read_text())),
    "os.open": ("v.json", lambda file: json.loads(low_level(file))),
    "pd.read_csv": ("v.csv", lambda file: pd.read_csv(file).x),
    "pd.read_csv, pyarrow": ("v.csv", lambda file: pd.read_csv(file, engine="pyarrow").x),
    "pd.read_feather": ("v.feather", lambda file: pd.read_feather(file).x),
    "np.load": ("v.npy", np.load),
    "np.load, memory map": ("v.npy", lambda file: np.load(file, mmap_mode="r")),
    "np.memmap": ("v.bin", lambda file: np.memmap(file, mode="r").view(float)),
    "np.fromfile": ("v.bin", np.fromfile),
    "np.loadtxt": ("v.csv", lambda file: np.loadtxt(file, skiprows=1)),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_are_recorded(name: str) -> None:
    file, read = READERS[name]
    write_numbers(file)
    with recorded_inputs() as found:
        values = np.asarray(read(file))
    assert values.size in (1, 80)
    assert here(found) == {file: digest(file)}


def test_missing_file_is_recorded_and_differs_when_it_appears() -> None:
    with recorded_inputs() as found, pytest.raises(FileNotFoundError):
        Path("absent.json").read_text()
    assert here(found) == {"absent.json": "missing"}
    Path("absent.json").write_text("{}")
    assert digest("absent.json") != "missing"


def test_files_that_are_written_first_are_no_inputs() -> None:
    Path("log.txt").write_text("old")
    with recorded_inputs() as found:
        Path("new.json").write_text("[1]")
        Path("new.json").read_text()
        with open("log.txt", "a") as log:
            log.write("line")
        with tempfile.TemporaryDirectory(dir=".") as folder:
            np.save(f"{folder}/a.npy", np.ones(3))
            np.load(f"{folder}/a.npy")
            os.listdir(folder)
        Path("part").write_text("[2]")
        os.replace("part", "whole")
        Path("whole").read_text()
    assert here(found) == {}


def test_file_that_is_read_and_then_changed_by_the_task_never_counts_as_the_same() -> None:
    Path("state.json").write_text("1")
    with recorded_inputs() as found:
        Path("state.json").write_text(str(int(Path("state.json").read_text()) + 10))
    assert here(found) == {"state.json": CHANGED}


def test_named_files_and_folders_that_are_written_to_are_marked() -> None:
    Path("out").mkdir()
    named = [f"{Path.cwd()}/out/", f"{Path.cwd()}/weights.npy", f"{Path.cwd()}/other/"]
    with recorded_inputs(named) as found:
        Path("out/log.txt").write_text("done")
        np.save("weights.npy", np.ones(2))
    assert here(found) == {"out/": WRITTEN, "weights.npy": WRITTEN}


@pytest.mark.parametrize(
    ("look", "name"),
    [
        (lambda: glob.glob("d/*.csv"), "glob:d/*.csv"),
        (lambda: list(Path("d").glob("*.csv")), "glob:d/*.csv"),
        (lambda: list(Path().rglob("*.csv")), "glob:**/*.csv"),
        (lambda: list(Path("d").iterdir()), "glob:d/*"),
        (lambda: os.listdir("d"), "glob:d/*"),
        (lambda: [entry.name for entry in os.scandir("d")], "glob:d/*"),
    ],
    ids=["glob", "Path.glob", "Path.rglob", "iterdir", "listdir", "scandir"],
)
def test_names_that_are_listed_are_recorded(look: Callable[[], object], name: str) -> None:
    write_numbers("d/a.csv")
    with recorded_inputs() as found:
        look()
    assert list(here(found)) == [name]
    before = list(found.values())
    write_numbers("d/b.csv")
    with recorded_inputs() as again:
        look()
    assert list(again.values()) != before


def test_files_of_python_its_packages_and_the_system_are_left_out() -> None:
    with recorded_inputs() as found:
        Path(json.__file__).read_text()
        Path(np.__file__).read_text()
        Path("/proc/self/status").read_text()
        Path("/etc/hostname").exists()
        importlib.reload(importlib.import_module("colorsys"))
        assert list(importlib.metadata.distributions())
    assert found == {}


def test_threads_of_a_task_are_recorded() -> None:
    write_numbers("v.json")
    with recorded_inputs() as found:
        thread = threading.Thread(target=lambda: Path("v.json").read_text())
        thread.start()
        thread.join()
    assert list(here(found)) == ["v.json"]


def test_files_that_plugin_code_may_hold_in_memory_are_carried_over() -> None:
    for file in ("shared.json", "a.json", "b.json"):
        write_numbers(file)
    here_ = Path.cwd()
    with recorded_inputs([f"{here_}/a.json"], carry=True) as first:
        Path("shared.json").read_text()
        Path("a.json").read_text()
    with recorded_inputs([f"{here_}/b.json"], carry=True) as second:
        Path("b.json").read_text()
    with recorded_inputs() as own:
        pass
    assert list(here(first)) == ["shared.json", "a.json"]
    assert list(here(second)) == ["b.json", "shared.json"]
    assert own == {}


def test_failure_of_the_recorded_code_is_raised_unchanged() -> None:
    for name, error in ((None, TypeError), ("a\0b", ValueError), ("absent", FileNotFoundError)):
        with pytest.raises(error), recorded_inputs():
            os.open(name, os.O_RDONLY)  # type: ignore[arg-type]
    Path("broken.parquet").write_text("no table")
    with pytest.raises(pa.ArrowInvalid), recorded_inputs():
        pq.read_table("broken.parquet")
