"""Models that misbehave in any way fail alone, or pass: the other models of the bake-off are computed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
from samples import small_config, write_config

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="misbehaves by means of POSIX and glibc")


@pytest.fixture
def bad() -> ModuleType:
    """The behaviours, read apart from evalplugin's registries."""
    from robustness import bad_models

    return bad_models


def run(folder: Path, *arguments: str) -> int:
    """Run Python with few file handles; return its exit code. It writes to the files ``out`` and ``err``."""
    (folder / "tmp").mkdir()
    # Files, as the processes that models leave hold a pipe open.
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")},
            cwd=folder, stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
    try:
        return process.wait(300)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what the models have left running


def outcomes(folder: Path, workers: int, kind: str, behaviours: list[str]) -> dict[str, list[str | None]]:
    """Return the failure and the traceback of each model, from a bake-off in a process of its own."""
    script = str(Path(__file__).with_name("run_bad_models.py"))
    assert run(folder, script, str(workers), kind, *behaviours) == 0
    found: dict[str, list[str | None]] = json.loads((folder / "found.json").read_text())
    return found


def assert_each_alone(found: dict[str, list[str | None]], expected: dict[str, str | None]) -> None:
    assert found.pop("random") == [None, None]
    assert found.pop("popularity") == [None, None]
    assert found.keys() == expected.keys()
    for how, part in expected.items():
        failure, error = found[how]
        assert (failure is None) == (part is None), (how, failure)
        assert part is None or part in (failure or ""), (how, failure, error)
        assert len(error or "") < 50_000
        assert "\x1b" not in (error or "")


def test_bad_fit_in_this_process_fails_alone(tmp_path: Path, bad: ModuleType) -> None:
    expected = {how: part for how, (_, part) in bad.FITS.items()}
    assert_each_alone(outcomes(tmp_path, 0, "bad-fit", list(expected)), expected)


def test_odd_scores_fail_alone(tmp_path: Path, bad: ModuleType) -> None:
    found = outcomes(tmp_path, 0, "bad-scores", list(bad.SCORES))
    for how, (_, fails) in bad.SCORES.items():
        assert (found[how][0] is not None) == fails, (how, found[how])
    assert found["popularity"] == [None, None]


@pytest.mark.slow
def test_every_bad_fit_in_a_worker_fails_alone(tmp_path: Path, bad: ModuleType) -> None:
    expected = {how: part for how, (_, part) in bad.FITS.items()}
    assert_each_alone(outcomes(tmp_path, 2, "bad-fit", list(expected)), expected)


@pytest.mark.slow
def test_bake_off_of_bad_models_logs_each_and_exits(tmp_path: Path, uri: str, bad: ModuleType) -> None:
    failing = ["controls", "keyboard interrupt"]
    passing = ["threads", "processes"]
    models = [{"name": how, "type": "bad-fit", "params": {"how": how}} for how in (*failing, *passing)]
    config = small_config(
        plugins=[bad.__file__],
        models=[*models, "popularity"],
        compare={},
        tracking={"uri": uri, "board": False},
    )
    write_config(config, tmp_path / "config.yaml")
    code = run(tmp_path, "-m", "evalplugin", "run", "config.yaml")
    shown, said = (tmp_path / "out").read_text(), (tmp_path / "err").read_text()
    assert code == 1, said
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as store:
        query = "select t.value, r.status from runs r join tags t using (run_uuid) where t.key = 'evalplugin.model'"
        statuses = dict(store.execute(query).fetchall())
    assert statuses == {
        **dict.fromkeys(failing, "FAILED"),
        **dict.fromkeys([*passing, "popularity"], "FINISHED"),
    }
    assert "\x1b" not in shown + said
    assert r"ValueError: \u001b[31mred" in shown
