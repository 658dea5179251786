"""Python processes that work beside this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evalplugin.base.processes import end_process, start_python

STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"
)


def test_a_process_that_ignores_the_first_signal_is_killed() -> None:
    process = start_python(STUBBORN, stdout=subprocess.PIPE)
    assert process is not None
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        end_process(process)
    assert process.returncode == -9


def test_it_ends_with_this_process() -> None:
    code = (
        "import subprocess; from evalplugin.base.processes import start_python\n"
        f"process = start_python({STUBBORN!r}, stdout=subprocess.PIPE)\n"
        "process.stdout.readline(); print(process.pid)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert not Path(f"/proc/{done.stdout.strip()}").exists()


def test_it_has_the_modules_of_this_process_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('not a module of this process')")
    monkeypatch.chdir(tmp_path)
    process = start_python("import json, sys; print(json.__file__)", stdout=subprocess.PIPE)
    assert process is not None
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert str(tmp_path) not in out.decode()
    end_process(process)


def test_none_is_started_without_an_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    assert start_python("") is None
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert start_python("") is None
