"""Real servers on this machine: MLflow over PostgreSQL and S3, with a proxy that can break what is stored."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_proxy import FaultProxy, fault_proxy

__all__ = [
    "S3_CLIENT",
    "ObjectStorage",
    "Server",
    "free_port",
    "is_healthy",
    "mlflow_server",
    "object_storage",
    "postgresql",
    "running",
]

# Settings of a client of ours for S3: one try, as a test's faults are there to stay.
S3_CLIENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",
}
_BUCKET = "mlflow"


@dataclass(frozen=True)
class ObjectStorage:
    """An S3 server, and the proxy that its clients go through."""

    bucket: str  # as a URI
    proxy: FaultProxy

    @property
    def environment(self) -> dict[str, str]:
        """The environment of an MLflow that uses it."""
        return {**S3_CLIENT, "MLFLOW_S3_ENDPOINT_URL": self.proxy.url}


@dataclass(frozen=True)
class Server:
    """A running MLflow server: its address, the database behind it, and its object storage."""

    url: str
    database: str
    storage: ObjectStorage


@contextmanager
def mlflow_server(
    folder: Path, database: str, storage: ObjectStorage, options: Sequence[str] = ()
) -> Iterator[Server]:
    """Run an MLflow server from a folder that has nothing to do with its stores."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", database]
    command += [*(options or ["--artifacts-destination", storage.bucket])]
    command += ["--port", str(port), "--workers", "1"]
    environment = {
        **os.environ,
        **storage.environment,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        # MLflow calls webhooks on this machine only if it is told to.
        "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http,https",
        "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
    }
    with running(command, folder, environment) as (check, _):
        check(lambda: is_healthy(f"{url}/health"))
        yield Server(url, database, storage)


@contextmanager
def object_storage() -> Iterator[ObjectStorage]:
    """Run an S3 server with an empty bucket, and a proxy in front of it."""
    import boto3
    from moto.server import ThreadedMotoServer

    with pytest.MonkeyPatch.context() as environment:
        for name, value in S3_CLIENT.items():
            environment.setenv(name, value)
        environment.setattr(logging.getLogger("werkzeug"), "disabled", True)
        moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        moto.start()
        host, port = moto.get_host_and_port()
        try:
            with fault_proxy(f"http://{host}:{port}") as proxy:
                boto3.client("s3", endpoint_url=proxy.url).create_bucket(Bucket=_BUCKET)
                yield ObjectStorage(f"s3://{_BUCKET}", proxy)
        finally:
            moto.stop()


@contextmanager
def postgresql() -> Iterator[str]:
    """Run a PostgreSQL server with an empty database; yield its URI."""
    programs = _postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian's package is postgresql)")
    user = _ordinary_user()
    port = free_port()
    # Not below pytest's folders: these are closed to other users.
    with tempfile.TemporaryDirectory(prefix="evalplugin-postgresql-", ignore_cleanup_errors=True) as folder:
        if user is not None:
            shutil.chown(folder, user)
        data = Path(folder) / "data"
        init = [programs / "initdb", "-D", data, "--username=test", "--auth=trust", "--no-sync", "--locale=C"]
        subprocess.run([*init, "--encoding=UTF8"], check=True, capture_output=True, cwd=folder, user=user)
        command = [str(programs / "postgres"), "-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", ""]
        command += ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]
        ready = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "test"]
        with running(command, Path(folder), {**os.environ}, user=user, stop=2) as (check, _):
            check(lambda: subprocess.run(ready, check=False).returncode == 0)
            yield f"postgresql+psycopg2://test@127.0.0.1:{port}/postgres"


def _postgresql_programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, which Debian does not put on the path."""
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return Path(found).resolve().parent if found else folders[-1] if folders else None


def _ordinary_user() -> str | None:
    """Return the user to run PostgreSQL as: it refuses to run as root. None: the present one."""
    return "nobody" if os.name == "posix" and os.geteuid() == 0 else None


@contextmanager
def running(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    user: str | None = None,
    stop: int = 15,
) -> Iterator[tuple[Callable[[Callable[[], bool]], None], subprocess.Popen[bytes]]]:
    """Run a server in a session of its own; yield a function that waits until it answers, and the process."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env=environment, user=user, start_new_session=True
        )

        def wait_until(is_ready: Callable[[], bool]) -> None:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and process.poll() is None:
                if is_ready():
                    return
                time.sleep(0.1)
            log.seek(0)
            raise RuntimeError(f"{command[:3]} did not start:\n{log.read().decode(errors='replace')[-3000:]}")

        try:
            yield wait_until, process
        finally:
            # The server's own workers are in its session, which is ours alone.
            if process.poll() is None:
                os.killpg(process.pid, stop)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()


def is_healthy(url: str) -> bool:
    """Return whether an address answers with 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
