"""Hostile arguments of every command: one message and exit code 2, or 1 for a store; never a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from typing import Any

import click
from hypothesis import given, settings
from hypothesis import strategies as st

from evalplugin.cli import main
from evalplugin.cli.program import cli

VALUES = [
    "", " ", "x", "-", "--", "-x", "0", "-1", "1", "9" * 30, "1e400", "nan", "inf", "a" * 5000, "/", ".", "..",
    "/dev/null", "~",
    "/proc/self/mem", "é", "\u202e", "\x1b[31m", "\udcff", "a=b", "=", "models.0=x", "sqlite:///x/y/z.db", "sqlite://", "http://[",
    "postgresql://h:x", "file:///", "ndcg@10", "ndcg@0", "ndcg@" + "9" * 400, "ndcg(gain=", "(", "ndcg@10@10", "1GB",
    "999999999999TB",
    "missing.yaml", "missing.csv", "*", "[", "a\nb", "activity", "%s", "{}", "*.parquet",
]  # fmt: skip
# Files that would be written, and tracebacks that are asked for.
SKIPPED = ("html", "chart", "out", "outcome_file", "debug")


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from(sorted(cli.commands)))
    command: Any = cli.commands[name]
    arguments = [name]
    if isinstance(command, click.Group):
        inner = draw(st.sampled_from(sorted(command.commands)))
        command, arguments = command.commands[inner], [name, inner]
    value = st.sampled_from(VALUES)
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            choices = parameter.type.choices if isinstance(parameter.type, click.Choice) else ()
            arguments += draw(
                st.lists(st.sampled_from([*choices, *VALUES]) if choices else value, max_size=2)
            )
        elif draw(st.integers(0, 3)) == 0 and parameter.name not in SKIPPED:
            is_flag = isinstance(parameter, click.Option) and parameter.is_flag
            arguments += [parameter.opts[0]] if is_flag else [parameter.opts[0], draw(value)]
    return arguments


@settings(max_examples=settings.default.max_examples // 4)
@given(command_lines())
def test_hostile_arguments_are_refused_with_one_message(arguments: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(arguments)
        finally:
            os.chdir(before)
    assert code in (0, 1, 2), err.getvalue()
    assert "Traceback" not in err.getvalue(), err.getvalue()
    assert code == 0 or err.getvalue()
    assert not set("\x1b\u202e\r") & set(err.getvalue())
