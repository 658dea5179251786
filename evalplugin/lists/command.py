"""The model ``command``: lists made by any program, in any language and environment."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from evalplugin.base.errors import ModelError, Problem, did_you_mean
from evalplugin.data import Candidates, Interactions, LoadContext
from evalplugin.data.files import TableFiles
from evalplugin.data.formats import ParquetFormat
from evalplugin.lists.columns import ListColumns
from evalplugin.lists.given import lists_on
from evalplugin.models.base import ListRequest, model
from evalplugin.models.selection import TopN, row_codes

__all__ = ["Command"]

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PLACEHOLDERS = ("train", "users", "candidates", "out", "n", "seed", "fold")
_LAST_LINES = 15  # of the output of a program that failed


@model("command")
@dataclass
class Command:
    """Lists made by a program: of another Python, R, Java, a container, or a job that is submitted.

    The program reads Parquet files and writes one. In the command, {train} stands for the file of the train data
    (columns user, item, rating and, where there are times, timestamp in seconds), {users} for that of the users who get
    lists (user), {candidates} for that of the items (item; with the candidates judged or sampled: user, item), {out}
    for the file to write (user, item and rank from 1, or score), {n} for the length of the lists, {seed} for an integer
    and {fold} for the number of the fold, from 1. Items that are no candidates, such as those of a user's train data,
    are left out afterwards. It runs in the folder of the config; files that the command names count as its code.
    """

    command: Annotated[
        list[str],
        Field(
            min_length=1, description="the program and its arguments, with placeholders; no shell is involved"
        ),
    ]
    version: Annotated[
        str, Field(description="of the program: lists are made again when it changes; any text")
    ] = ""
    notes: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    _seed: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        used = {name for argument in self.command for name in _PLACEHOLDER.findall(argument)}
        for name in sorted(used - {*_PLACEHOLDERS}):
            raise ValueError(
                f"command: unknown placeholder {{{name}}}{did_you_mean(name, _PLACEHOLDERS, noun=None)}; allowed: "
                + ", ".join(f"{{{known}}}" for known in _PLACEHOLDERS)
            )
        if "out" not in used:
            raise ValueError("command: {out} is missing, the file that the program writes its lists to")

    def check(self, context: LoadContext) -> list[Problem]:
        """Return a problem if there is no such program."""
        if self._program(context.base) is None:
            return [Problem(("command", 0), self._no_program)]
        return []

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw the seed; the program is run when lists are asked for."""
        self._seed = int(rng.integers(2**31))

    def recommend_task(self, request: ListRequest) -> TopN:
        """Return the lists of the program, without items that are no candidates.

        Raises:
            ModelError: The program is not there, fails, or writes no lists; with the last lines of its output.
            DataError: What it has written breaks a rule.
        """
        with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
            files = {name: f"{folder}/{name}.parquet" for name in ("train", "users", "candidates", "out")}
            _write_inputs(request, files)
            values = {**files, "n": str(request.n), "seed": str(self._seed), "fold": str(request.fold + 1)}
            output = self._run(request.folder, values)
            out = Path(files["out"])
            if not out.exists():
                raise ModelError(f"{self._shown} ended without writing {{out}}{_end_of(output)}")
            lists, self.notes = lists_on(request, TableFiles("{out}", (out,), ParquetFormat()), ListColumns())
        return lists

    @property
    def _shown(self) -> str:
        return f"the command {' '.join(self.command)[:200]!r}"

    @property
    def _no_program(self) -> str:
        return f"there is no program {self.command[0]!r}, relative to the config or on PATH"

    def _program(self, folder: Path) -> str | None:
        name = self.command[0]
        return shutil.which(str(folder / name)) if os.sep in name else shutil.which(name)

    def _run(self, folder: Path, values: Mapping[str, str]) -> list[str]:
        """Run the program, and return the last lines of its output."""
        program = self._program(folder)
        if program is None:
            raise ModelError(self._no_program)
        filled = [_PLACEHOLDER.sub(lambda match: values[match[1]], argument) for argument in self.command[1:]]
        last: deque[str] = deque(maxlen=_LAST_LINES)
        process = subprocess.Popen(
            [program, *filled],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
            start_new_session=True,  # so that what it starts can be ended with it
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                last.append(line.rstrip("\n")[:500])
            code = process.wait()
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
        if code != 0:
            how = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
            raise ModelError(f"{self._shown} {how}{_end_of(last)}")
        return list(last)


def _end_of(lines: Iterable[str]) -> str:
    shown = [*lines]
    return "\n  ".join(["; the end of its output:", *shown]) if shown else "; it printed nothing"


def _write_inputs(request: ListRequest, files: Mapping[str, str]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    train, users = request.train, request.users
    columns = {
        "user": train.users[train.user],
        "item": train.items[train.item],
        "rating": train.rating,
    }
    if train.timestamp is not None:
        columns["timestamp"] = train.timestamp
    parquet.write_table(pa.table(columns), files["train"])
    parquet.write_table(pa.table({"user": train.users[users]}), files["users"])
    parquet.write_table(pa.table(_candidates(request.candidates, request)), files["candidates"])


def _candidates(candidates: Candidates, request: ListRequest) -> dict[str, object]:
    train = request.train
    if candidates.included is None:
        return {"item": train.items}
    row, code = row_codes(candidates.included, request.users)
    return {"user": train.users[request.users[row]], "item": train.items[code]}
