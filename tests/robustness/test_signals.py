"""A command that is interrupted, and interrupted again while it ends: one exit code, no traceback, no child left."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from samples import small_config, write_config

from evalplugin.cli import main

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")


def interrupted(folder: Path, moment: str, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name("signalled.py")
    started = subprocess.Popen(
        [sys.executable, str(script), moment, text, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = started.communicate(timeout=240)
    assert children_of(started.pid) == []
    return subprocess.CompletedProcess(started.args, started.returncode, out, err)


def children_of(session: int) -> list[str]:
    """Return the processes of a session that are left after a minute."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        left = []
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                state, _, _, of = file.read_text().rpartition(")")[2].split()[:4]
                if int(of) == session and state != "Z":
                    left.append(file.with_name("cmdline").read_text().replace("\0", " "))
        if not left:
            break
        time.sleep(0.1)
    return left


def assert_quiet(done: subprocess.CompletedProcess[str], code: int = 130) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert "Exception ignored" not in done.stderr


def write_small(folder: Path, uri: str, **changes: Any) -> str:
    config = small_config(experiment="e", compare={}, tracking={"uri": uri}, **changes)
    write_config(config, folder / "config.yaml")
    return "config.yaml"


@pytest.mark.parametrize("module", ["evalplugin.cli", "pydantic", "dataclasses"])
def test_interrupted_imports_end_quietly(tmp_path: Path, module: str) -> None:
    assert_quiet(interrupted(tmp_path, "import", module, "schema"))


def test_signals_at_exit_change_nothing(tmp_path: Path) -> None:
    done = interrupted(tmp_path, "exit", "", "list", "splits")
    assert_quiet(done, 0)
    assert "last_n" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "compute 2 tasks",
        *(
            pytest.param(text, marks=pytest.mark.slow)
            for text in ("log the bake-off", "read tiny", "split", "open the", "of 2] random", "compare")
        ),
    ],
)
def test_interrupted_bake_off_ends_quietly_and_leaves_no_open_run(tmp_path, uri, text):
    done = interrupted(tmp_path, "say", text, "run", write_small(tmp_path, uri))
    assert_quiet(done)
    assert "interrupted" in done.stderr
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as store:
        assert "RUNNING" not in dict(store.execute("select status, 1 from runs"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        "picture_artifacts",
        "competitions_of",
        "MlflowTracker.finish_model",
        "RunWriter.log_values",
        "MlflowClient.set_terminated",
    ],
)
def test_interrupted_in_a_step_of_logging_ends_quietly(tmp_path, uri, monkeypatch, function):
    file = write_small(tmp_path, uri)
    done = interrupted(tmp_path, "call", function, "run", file)
    assert "Traceback" not in done.stderr + done.stdout
    assert "Exception ignored" not in done.stderr
    assert done.returncode == 130, done.stderr
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as store:
        assert "RUNNING" not in dict(store.execute("select status, 1 from runs"))
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--resume", file]) == 0
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as store:
        names = [name for (name,) in store.execute("select name from runs where status = 'FINISHED'")]
    assert len(names) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "text", "code"), [("call", "Scheduler.run.<locals>.<lambda>", 0), ("file", "child", 130)]
)
def test_interrupted_foreground_schedule_ends_quietly(tmp_path, uri, moment, text, code):
    (tmp_path / "waiting.py").write_text(WAITING)
    file = write_small(
        tmp_path, uri, plugins=["waiting.py"], models=["waiting"], schedule={"cron": "* * * * *"}
    )
    done = interrupted(tmp_path, moment, text, "schedule", file)
    assert_quiet(done, code)
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as store:
        assert dict(store.execute("select status, 1 from runs")) == ({"KILLED": 1} if code else {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "text"), [("import", "vl_convert"), ("import", "mlflow"), ("say", "compute")]
)
def test_interrupted_workers_and_late_imports_end_quietly(tmp_path, uri, moment, text):
    file = write_small(tmp_path, uri, workers=2)
    assert_quiet(interrupted(tmp_path, moment, text, "run", file))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_interrupted_schedule_ends_its_bake_off(tmp_path: Path, uri: str) -> None:
    (tmp_path / "waiting.py").write_text(WAITING)
    file = write_small(
        tmp_path, uri, plugins=["waiting.py"], models=["waiting"], schedule={"cron": "0 3 * * *"}
    )
    done = interrupted(tmp_path, "say", "now waiting", "schedule", "--once", file)
    assert_quiet(done)
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as store:
        assert dict(store.execute("select status, 1 from runs")) == {"KILLED": 1}
    state = Path(f"/proc/{(tmp_path / 'child').read_text()}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


WAITING = """
import multiprocessing, time
from dataclasses import dataclass
import click
import evalplugin

@evalplugin.model("waiting")
@dataclass
class Waiting:
    def fit(self, train, rng):
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        child.start()
        open("child", "w").write(str(child.pid))
        click.echo("now waiting")
        time.sleep(600)

    def scores(self, users): ...
"""
