"""A real MLflow server on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Server:
    """A running MLflow server: its address, and the store behind it."""

    url: str
    store: str


@contextmanager
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run an MLflow server from a folder that has nothing to do with its store."""
    store = f"sqlite:///{tmp_path_factory.mktemp('server') / 'mlflow.db'}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("log") / "server.log"
    artifacts = tmp_path_factory.mktemp("artifacts").as_uri()
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--port", str(port)]
    command += ["--workers", "1", "--artifacts-destination", artifacts]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=tmp_path_factory.mktemp("elsewhere"),
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            start_new_session=True,
        )
    try:
        _wait_until_healthy(url, process, log)
        yield Server(url, store)
    finally:
        # The server's own workers are in its session, which is ours alone.
        os.killpg(process.pid, 15)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the MLflow server did not start:\n{log.read_text(errors='replace')[-3000:]}")
