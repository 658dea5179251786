"""Run the examples of a Markdown page: files are written, commands and Python are run, printed text is compared."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import mlflow
import pytest
from servers import free_port, is_healthy, running
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.myst import CodeBlockParser, SkipParser
from sybil.region import Lexeme

from evalplugin.cli import main
from evalplugin.cli.list import COMPONENT_KINDS, registry_of
from evalplugin.features.config import load

__all__ = ["run_page"]

# What a part of a config is added to; a key of its own replaces the line that is here.
_BASE = """\
experiment: shop
datasets: [{name: shop, type: csv, path: ratings.csv, user: user_id, item: item_id, rating: stars, timestamp: time}]
split: {type: last_n, n: 3}
relevance: {threshold: 4}
metrics: [ndcg@10, recall@10]
models: [random, popularity]
compare: {baseline: popularity}
"""
_SERVERS = {"mlflow server": "health", "mlflow models serve": "ping"}  # what is run beside the rest of a page
_MASKS = {
    r"\d{8}-\d{6}-[0-9a-f]{4}": "BAKEOFF",
    r"\b[0-9a-f]{8,64}\b": "HASH",
    r"\d+([.,]\d+)*": "#",
    "─+": "─",
    "[\\w.:#-]*/+[^\\s'\"]*": "PATH",
}
_python = PythonEvaluator()


def run_page(page: Path, names: Mapping[str, str] | None = None) -> int:
    """Run the examples of a page in the working directory, and return how many there are.

    Args:
        page: The Markdown file.
        names: What stands in the page for a host, a bucket or a password, and what there is on this machine.
    """
    document = _SYBIL.parse(page)
    examples = list(document.examples())
    with contextlib.ExitStack() as servers, pytest.MonkeyPatch.context() as environment:
        # MLflow keeps one store open for each URI, whatever the working directory is by then.
        store = {"sqlite:///mlflow.db": f"sqlite:///{Path.cwd()}/mlflow.db"}
        document.namespace.update(
            __names=store | dict(names or {}), __servers=servers, __environment=environment
        )
        servers.callback(mlflow.set_tracking_uri, None)  # a page may name a store for itself alone
        for example in examples:
            if isinstance(example.parsed, Lexeme):
                example.parsed = _here(example)
            try:
                example.evaluate()
            except BaseException as error:
                error.add_note(f"{page}:{example.line}")
                raise
    return len(examples)


def _run_python(example: Example) -> None:
    if _is_file(example):
        return
    with _printed(example):
        _python(example)


def _run_commands(example: Example) -> None:
    """Run the commands of a block, as one would type them one after another."""
    with _printed(example) as printed:
        for line in str(example.parsed).replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("python -m "), comments=True)
            if words[:1] == ["export"]:
                for name, _, value in (word.partition("=") for word in words[1:]):
                    example.namespace["__environment"].setenv(name, value)
            elif server := next((name for name in _SERVERS if line.startswith(name)), None):
                _start(example, server, words)
            elif words[:1] == ["evalplugin"] and not {"|", "&&"} & set(words):
                expected = re.search(r"# exit code (\d+)$", line)
                _run_command(words[1:], printed, 0 if expected is None else int(expected[1]))
            elif words:
                done = subprocess.run(["bash", "-euc", line], capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{line}\n{done.stderr}"
                printed.write(done.stdout)


def _run_command(words: list[str], printed: io.TextIOWrapper, expected: int) -> None:
    """Run a command of evalplugin in this process, its output to a file where `>` names one."""
    words, file = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)
    with contextlib.ExitStack() as stack:
        if file is not None:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(file, "w"))))
        code = main(words)
    assert code == expected, f"{words}\n{_shown(printed)}"


def _start(example: Example, server: str, words: list[str]) -> None:
    """Start a server on a free port, which then stands for the host and port of the page."""
    names, shown, here = example.namespace["__names"], words[words.index("--port") + 1], free_port()
    address = f"127.0.0.1:{here}"
    names |= {f"{host}:{shown}": address for host in ("127.0.0.1", "mlflow.example.org")}
    words = [names.get(word, word) for word in words]
    words[words.index("--port") + 1] = str(here)
    if server == "mlflow server":
        words += ["--workers", "1"]
    environment = {
        **os.environ,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",  # the addresses of pages do not exist
    }
    started = running([sys.executable, "-m", *words], Path.cwd(), environment)
    wait_until, _ = example.namespace["__servers"].enter_context(started)
    wait_until(lambda: is_healthy(f"http://{address}/{_SERVERS[server]}"))


def _check_config(example: Example) -> None:
    """Write a block with a caption to that file; load any other as a part of a config."""
    if _is_file(example):
        return
    text = str(example.parsed)
    keys = re.findall(r"^(\w+):", text, re.MULTILINE)
    base = "".join(line for line in _BASE.splitlines(keepends=True) if line.split(":")[0] not in keys)
    Path("part.yaml").write_text(base + text)
    load(Path("part.yaml"))


def _check_entry_points(example: Example) -> None:
    """Check that the entry points of a pyproject.toml are in groups that are looked up."""
    groups = tomllib.loads(str(example.parsed))["project"]["entry-points"]
    assert groups
    assert set(groups) <= {registry_of(kind).group for kind in COMPONENT_KINDS}


def _compare_output(example: Example) -> None:
    """Compare a block of text with what the block before it printed; `...` stands for anything."""
    shown = (re.escape(part) for part in re.split(r"\s*\.\.\.\s*", _masked(str(example.parsed))))
    printed = example.namespace["printed"]
    assert re.search(".*".join(shown), _masked(printed), re.DOTALL), f"printed:\n{printed}"


@contextlib.contextmanager
def _printed(example: Example) -> Iterator[io.TextIOWrapper]:
    """Keep what is printed, as bytes too, for the block of text that may follow."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed
    example.namespace["printed"] = _shown(printed)


def _shown(printed: io.TextIOWrapper) -> str:
    buffer = printed.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def _here(example: Example) -> Lexeme:
    """Return the text of a block with the names of this machine."""
    text = str(example.parsed)
    for name, here in example.namespace["__names"].items():
        text = text.replace(name, here)
    return Lexeme(text, example.parsed.offset, example.parsed.line_offset)


def _masked(text: str) -> str:
    """Return a text in which numbers are #, paths and ids one word, and any white space one space."""
    for pattern, word in _MASKS.items():
        text = re.sub(pattern, word, text)
    return " ".join(text.split())


def _is_file(example: Example) -> bool:
    caption = example.region.lexemes.get("options", {}).get("caption")
    if caption is not None:
        Path(caption).parent.mkdir(parents=True, exist_ok=True)
        Path(caption).write_text(str(example.parsed))
    return caption is not None


_SYBIL = Sybil(
    parsers=[
        CodeBlockParser("python", _run_python),
        CodeBlockParser("sh", _run_commands),
        CodeBlockParser("yaml", _check_config),
        CodeBlockParser("toml", _check_entry_points),
        CodeBlockParser("text", _compare_output),
        SkipParser(),
    ]
)
