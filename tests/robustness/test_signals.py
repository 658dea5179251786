"""A command that is interrupted, and interrupted again while it ends: one exit code, no traceback, no child left."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")


def interrupted(folder: Path, moment: str, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name("signalled.py")
    return subprocess.run(
        [sys.executable, str(script), moment, text, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder, capture_output=True, text=True, timeout=120,
        start_new_session=True,
    )  # fmt: skip


def assert_quiet(done: subprocess.CompletedProcess[str], code: int = 130) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert "Exception ignored" not in done.stderr


def write_config(folder: Path, uri: str, **changes: object) -> str:
    config = {
        "experiment": "e",
        "datasets": [{"type": "synthetic", "n_users": 40, "n_items": 60, "n_interactions": 900}],
        "split": {"type": "last_n", "n": 2},
        "recommend": {"n": 10},
        "metrics": ["ndcg@10"],
        "models": ["random", "popularity"],
        "segments": [],
        "tracking": {"uri": uri},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, **changes}))
    return "config.yaml"


@pytest.mark.parametrize(
    ("moment", "text", "arguments"),
    [
        ("import", "evalplugin.cli", ["list", "models"]),
        ("import", "numpy", ["list", "models"]),
        ("import", "dataclasses", ["list", "models"]),
    ],
)
def test_interrupted_imports_end_quietly(
    tmp_path: Path, moment: str, text: str, arguments: list[str]
) -> None:
    assert_quiet(interrupted(tmp_path, moment, text, *arguments))


def test_signals_at_exit_change_nothing(tmp_path: Path) -> None:
    done = interrupted(tmp_path, "exit", "", "list", "splits")
    assert_quiet(done, 0)
    assert "last_n" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "fit random",
        *(
            pytest.param(text, marks=pytest.mark.slow)
            for text in ("log the bake-off", "read synthetic", "split", "open the", "log random", "compare")
        ),
    ],
)
def test_interrupted_bake_off_ends_quietly_and_leaves_no_open_run(
    tmp_path: Path, uri: str, text: str
) -> None:
    done = interrupted(tmp_path, "say", text, "run", write_config(tmp_path, uri))
    assert_quiet(done)
    assert "interrupted" in done.stderr
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as store:
        assert "RUNNING" not in dict(store.execute("select status, 1 from runs"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "text"), [("import", "matplotlib"), ("import", "mlflow"), ("say", "compute")]
)
def test_interrupted_workers_and_late_imports_end_quietly(
    tmp_path: Path, uri: str, moment: str, text: str
) -> None:
    done = interrupted(tmp_path, moment, text, "run", write_config(tmp_path, uri, workers=2))
    assert_quiet(done)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_interrupted_schedule_ends_its_bake_off(tmp_path: Path, uri: str) -> None:
    (tmp_path / "waiting.py").write_text(WAITING)
    file = write_config(
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
