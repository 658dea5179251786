"""The model ``command``: lists made by any program, in any language and environment."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.errors import DataError, ModelError, ParameterError, Problem, did_you_mean
from evalplugin.base.libraries import pa, pq
from evalplugin.base.processes import ended_by_signal, find_program, run_program, with_output
from evalplugin.base.units import size_text
from evalplugin.files.inputs import command_input, program_input
from evalplugin.models.base import ListRequest, Recommender, model
from evalplugin.models.selection import TopN, row_codes

if TYPE_CHECKING:
    from evalplugin.data import Interactions, LoadContext
    from evalplugin.data.files import TableFiles

# {{word}} stands for {word}: awk and shells have braces of their own.
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")
_SHOWN = 80  # characters of the command in messages
_PLACEHOLDERS = ("train", "users", "history", "candidates", "out", "n", "seed", "fold")


@model("command")
@dataclass
class Command(Recommender):
    """Lists made by a program: of another Python, R, Java, a container, or a job that is submitted.

    Placeholders of the command are files, all in one format: {train} (user, item, rating and, where there are times,
    timestamp), {users} (user), {history} (as {train}, of users who are not in it), {candidates} (item, or user and
    item), {out} (to write: user, item, and rank from 1 or score); and numbers: {n}, {seed}, {fold}. {{word}} is {word}.

    Items that are no candidates are left out afterwards. Users without a list score 0. Unknown ids, short lists and
    missing users are counted. A program that fails, or whose lists break a rule, fails this model alone.

    It runs in the folder of the config, without a shell. Files and folders that the command names count as its code.
    """

    command: Annotated[
        list[str],
        Field(min_length=1, description="the program and its arguments, with placeholders"),
    ]
    version: Annotated[
        str | Annotated[list[str], Field(min_length=1)],
        Field(
            description="any text, a file, or a command (a list) that prints it; lists are made again when it "
            "changes. Without it, a program outside of a folder of its own is run each time"
        ),
    ] = ""
    format: Annotated[
        Literal["parquet", "csv"],
        Field(description="of all files; csv: with a header line"),
    ] = "parquet"
    notes: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    lists_new_items: ClassVar[bool] = True
    cold_users: ClassVar[str] = "the lists of the program"
    _seed: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        used = [(i, name) for i, argument in enumerate(self.command) for name in _names_in(argument)]
        problems = [
            Problem(
                ("command", i),
                f"unknown placeholder {{{name}}}{did_you_mean(name, _PLACEHOLDERS, noun=None)}; allowed: "
                f"{', '.join(f'{{{known}}}' for known in _PLACEHOLDERS)}, and {{{{{name}}}}} for {{{name}}} itself",
            )
            for i, name in used
            if name not in _PLACEHOLDERS
        ]
        if not problems and "out" not in {name for _, name in used}:
            message = "{out} is missing, the file that the program writes its lists to"
            problems.append(Problem(("command",), message))
        if problems:
            raise ParameterError(problems)

    @property
    def stochastic(self) -> bool:
        """Whether the program is given a seed."""
        return any("seed" in _names_in(argument) for argument in self.command)

    @property
    def takes_history(self) -> bool:
        """Whether the program is given the histories of users who are not in the train data."""
        return any("history" in _names_in(argument) for argument in self.command)

    @property
    def sequential(self) -> bool:
        """Whether the program is given events in their order: where it is given histories."""
        return self.takes_history

    def check(self, context: LoadContext) -> list[Problem]:
        """Return a problem if there is no such program."""
        programs = {"command": self.command}
        if isinstance(self.version, list):
            programs["version"] = self.version
        return [
            Problem((key, 0), _missing(words[0]))
            for key, words in programs.items()
            if find_program(words[0], context.base) is None
        ]

    def own_inputs(self, folder: Path) -> list[str]:
        """Return the name of the command that prints the version, or else of a program without a version."""
        if isinstance(self.version, list):
            return [command_input(self.version, folder)]
        program = None if self.version else find_program(self.command[0], folder)
        return [] if program is None else [program_input(program, folder)]

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw the seed; the program is run when lists are asked for."""
        self._seed = int(rng.integers(2**31))

    def recommend_task(self, request: ListRequest) -> TopN:
        """Return the lists of the program, without items that are no candidates.

        Raises:
            ModelError: The program is not there, fails, or writes no lists; with the last lines of its output.
            DataError: Its lists break a rule.
        """
        from evalplugin.lists.columns import ListColumns
        from evalplugin.lists.given import lists_on

        with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
            tables = _tables(request)
            files = {name: f"{folder}/{name}.{self.format}" for name in (*tables, "out")}
            for name, table in tables.items():
                self._write(table, files[name])
            values = {**files, "n": str(request.n), "seed": str(self._seed), "fold": str(request.fold + 1)}
            output = self._run(request.folder, values)
            if not Path(files["out"]).exists():
                raise ModelError(with_output(f"{self._shown} ended without writing {{out}}", output))
            try:
                lists, self.notes = lists_on(request, self._written(files["out"], request), ListColumns())
            except DataError as error:
                message = str(error).replace(files["out"], "{out}")
                raise DataError(f"{self._shown}: {message}") from None
        return lists

    def _write(self, table: pa.Table, file: str) -> None:
        if self.format == "csv":
            table.to_pandas().to_csv(file, index=False, lineterminator="\n")
        else:
            pq.write_table(table, file)

    def _written(self, out: str, request: ListRequest) -> TableFiles:
        from evalplugin.data.files import TableFiles, find_files
        from evalplugin.data.formats import CsvFormat, ParquetFormat

        files, partitions = find_files(Path(), out, f"*.{self.format}")
        if self.format == "parquet":
            return TableFiles("{out}", files, ParquetFormat(), partitions)
        ids = {"user": request.train.users, "item": request.train.items}
        text = [role for role, known in ids.items() if known.dtype.kind not in "iu"]
        return TableFiles("{out}", files, CsvFormat(text=text), partitions)

    @property
    def _shown(self) -> str:
        text = shlex.join(self.command)
        return f"the command {text if len(text) <= _SHOWN else f'{text[:_SHOWN]} ...'}"

    def _run(self, folder: Path, values: Mapping[str, str]) -> str:
        """Run the program, and return the end of its output."""
        program = find_program(self.command[0], folder)
        if program is None:
            raise ModelError(_missing(self.command[0]))
        arguments = [_filled(argument, values) for argument in self.command[1:]]
        try:
            code, output = run_program([program, *arguments], folder)
        except OSError as error:
            raise ModelError(f"{self._shown} cannot be started: {error.strerror or error}") from None
        if code != 0:
            ending = f"failed with exit code {code}" if code > 0 else ended_by_signal(code)
            raise ModelError(with_output(f"{self._shown} {ending}{_memory_limit()}", output))
        return output


def _names_in(argument: str) -> Iterator[str]:
    return (match[2] for match in _PLACEHOLDER.finditer(argument) if match[2])


def _filled(argument: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values[match[2]] if match[2] else f"{{{match[1]}}}", argument)


def _missing(program: str) -> str:
    return f"there is no program {program!r}, relative to the config or on PATH"


def _memory_limit() -> str:
    """Return the limit on the memory of this process, which those that it starts have too."""
    if sys.platform != "linux":
        return ""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit == resource.RLIM_INFINITY:
        return ""
    return f" (each of its processes may allocate {size_text(limit)}: limits.memory)"


def _tables(request: ListRequest) -> dict[str, pa.Table]:
    """Return the tables that the program reads."""
    train, allowed = request.train, request.candidates
    nothing = train.select(np.empty(0, dtype=np.int64))
    candidates = {"item": train.items}
    if allowed.kind == "offered":
        assert allowed.included is not None
        candidates = {"item": train.items[np.unique(allowed.included.item)]}  # the same for all users
    elif allowed.included is not None:
        row, code = row_codes(allowed.included, request.users)
        candidates = {"user": train.users[request.users[row]], "item": train.items[code]}
    return {
        "train": pa.table(train.columns()),
        "users": pa.table({"user": train.users[request.users]}),
        "history": pa.table((nothing if request.history is None else request.history).columns()),
        "candidates": pa.table(candidates),
    }
