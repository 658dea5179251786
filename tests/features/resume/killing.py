"""Kills bake-offs at chosen points, and resumes them: a script, as only a process can be killed.

    python killing.py FOLDER POINTS    POINTS: JSON, name -> [event, occurrence, workers]

FOLDER/template holds the config and an empty store.

What a bake-off imports is imported once, then each runs in a fork. An event is what an observer hears, and what is
asked of MLflow's client and of the store, before and after.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow

from evalplugin.bakeoff.flow import run_bakeoff
from evalplugin.base.costs import cheap_collections
from evalplugin.config.document import read_document
from evalplugin.execution.observer import Observer
from evalplugin.execution.store import entry, folder
from evalplugin.features.config import load
from evalplugin.report.charts import pictures
from evalplugin.tracking.write import writer
from evalplugin.workspace import Workspace

CLIENT = ("create_run", "log_batch", "log_inputs", "set_terminated", "set_experiment_tag")


class UploadsAtTheEnd:
    """Uploads in this thread, once they are waited for, so that a kill at an event always leaves the same."""

    def __init__(self, *_: object) -> None: ...

    def shutdown(self, **_: object) -> None: ...

    def submit(self, upload: Callable[..., None], *args: Any) -> SimpleNamespace:
        return SimpleNamespace(result=functools.cache(functools.partial(upload, *args)))


class Killer(Observer):
    """An observer that kills this process at the n-th occurrence of an event."""

    def __init__(self, event: str | None, occurrence: int, *, looks: bool) -> None:
        self.event, self.left, self.looks = event, occurrence, looks
        self.heard: list[str] = []
        self.files: list[str] = []  # a digest of them at each event, if it looks
        for name in CLIENT:
            self.listen(mlflow.MlflowClient, name, name)
        writer.ThreadPoolExecutor = UploadsAtTheEnd
        self.listen(folder.Store, "write", "write", lambda args: args[2]["step"])
        self.listen(
            entry, "_digests", "sums", lambda args: ""
        )  # everything is written, nothing is in its place

    def hear(self, event: str) -> None:
        self.heard.append(event)
        if self.looks:
            self.files.append(files_here())
        if event == self.event:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)

    def listen(
        self, owner: Any, name: str, event: str, detail: Callable[[Any], str] = lambda args: ""
    ) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def heard(*args: Any, **kwargs: Any) -> Any:
            what = f"{event} {detail(args)}".strip()
            self.hear(f"before {what}")
            result = original(*args, **kwargs)
            self.hear(f"after {what}")
            return result

        setattr(owner, name, heard)

    def report(self, text: str) -> None:
        self.hear(text.split(":")[0])

    @contextmanager
    def progress(self, label: Any, total: int | None = None) -> Iterator[Callable[[int], None]]:
        self.hear(f"begin {label}")
        yield lambda done: None
        self.hear(f"end {label}")


def files_here() -> str:
    """Return a digest of all paths, sizes and times of change, made in a fork: what a bake-off lists is an input."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        files = []
        for place, _, names in os.walk("."):
            for path in (os.path.join(place, name) for name in names):
                with suppress(FileNotFoundError):  # a temporary file
                    state = os.stat(path)
                    files.append((path, state.st_size, state.st_mtime_ns))
        os.write(writer, hashlib.sha256(repr(sorted(files)).encode()).digest())
        os._exit(0)
    os.waitpid(pid, 0)
    digest = os.read(reader, 32).hex()
    os.close(reader)
    os.close(writer)
    return digest


def in_fork(folder: Path, work: Callable[[], object]) -> int:
    """Return the exit code of work in a process of its own, minus the number of a signal that ended it."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        os.chdir(folder)
        work()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the edge of the process
        (folder / "error.txt").write_text(traceback.format_exc())
        os._exit(1)


def bake(event: str | None, occurrence: int, workers: int, mode: Any) -> None:
    killer = Killer(event, occurrence, looks=event is None and mode == "run")
    try:
        run_bakeoff(Workspace.open(load(Path("config.yaml")), observer=killer, mode=mode), workers=workers)
    finally:
        Path(f"heard-{mode}.json").write_text(json.dumps(killer.heard))
        Path(f"files-{mode}.json").write_text(json.dumps(killer.files))


def main(folder: Path, points: dict[str, tuple[str | None, int, int]]) -> None:
    """Run each point in a folder of its own: killed, and then resumed; print the exit codes."""
    # What is compared afterwards is which files there are, not how the pictures look.
    pictures.png_of = lambda spec: b""
    template, warm = folder / "template", folder / "warm"
    shutil.copytree(template, warm)
    os.chdir(warm)
    # Imports all that a bake-off needs but the plugin, whose file is another one in each folder.
    config = {**read_document(Path("config.yaml")).data, "plugins": [], "models": ["popularity"]}
    config.pop("tune", None)
    run_bakeoff(Workspace.open(load(config)))
    # Each fork shares its memory with this process, unless a garbage collection looks at everything in it.
    with cheap_collections():
        codes = {name: killed_and_resumed(template, folder / name, *point) for name, point in points.items()}
    sys.stdout.write(json.dumps(codes))


def killed_and_resumed(
    template: Path, place: Path, event: str | None, occurrence: int, workers: int
) -> list[int]:
    """Return the exit codes of a bake-off that is killed at an event, and of its resumption."""
    shutil.copytree(template, place)
    codes = [in_fork(place, lambda: bake(event, occurrence, workers, "run"))]
    if event is not None:
        journals = [
            json.loads(f.read_text().split("\n")[0]) for f in place.glob(".evalplugin/bakeoffs/*.jsonl")
        ]
        (place / "bakeoffs.json").write_text(json.dumps([journal["id"] for journal in journals]))
        codes.append(in_fork(place, lambda: bake(None, 0, workers, "resume")))
    return codes


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
