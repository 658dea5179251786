"""Who is told what came of a bake-off, and that nothing goes wrong with the bake-off when telling does."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evalplugin.config import CheckedConfig, load
from evalplugin.config.schema import Notify
from evalplugin.errors import DataError
from evalplugin.gate import Decision
from evalplugin.notify import failure_message, message_of, notify

MESSAGE = {"outcome": "keep", "failed": {}, "bakeoff": "b-1"}
SECRET = "T0/B0/xyzzy-plugh"


class Hook(ThreadingHTTPServer):
    """A server that gives one prepared answer after another, and remembers what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[int] = []
        self.seen: list[tuple[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, json.loads(body)))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def config() -> CheckedConfig:
    return load(
        {
            "experiment": "toy",
            "datasets": ["synthetic"],
            "split": {"type": "last_n", "n": 2},
            "metrics": ["ndcg@10"],
            "models": ["random"],
            "tracking": {"uri": "postgresql://ann:hunter2@db"},
        }
    )


def tell(spec: Notify, folder: Path = Path(), message: Any = MESSAGE) -> tuple[str | None, list[float]]:
    waits: list[float] = []
    return notify(spec, message, folder=folder, sleep=waits.append), waits


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_an_address_gets_the_message_as_json(hook: Hook) -> None:
    assert tell(Notify(url=f"{hook.url}/a/b")) == (None, [])
    assert hook.seen == [("/a/b", MESSAGE)]


def test_a_command_gets_the_message_on_its_standard_input(tmp_path: Path) -> None:
    command = python("import sys; open('told.json', 'w').write(sys.stdin.read())")
    assert tell(Notify(command=command), tmp_path) == (None, [])
    assert json.loads((tmp_path / "told.json").read_text()) == MESSAGE


@pytest.mark.parametrize(
    ("on", "outcome", "failed", "told"),
    [
        (["promote"], "keep", {}, False),
        (["promote", "keep"], "keep", {}, True),
        (["failure"], "keep", {"svd": "no"}, True),
        (["refuse"], "keep", {"svd": "no"}, False),
        (["failure"], "failure", {}, True),
        (["done"], "done", {}, True),
    ],
)
def test_only_what_is_asked_for_is_told(
    hook: Hook, on: list[Any], outcome: str, failed: dict[str, str], told: bool
) -> None:
    message = {"outcome": outcome, "failed": failed}
    assert tell(Notify(url=hook.url, on=on), message=message) == (None, [])
    assert bool(hook.seen) == told


def test_a_server_that_is_busy_is_asked_again(hook: Hook) -> None:
    hook.answers = [503, 429]
    assert tell(Notify(url=hook.url)) == (None, [1, 2])
    assert len(hook.seen) == 3


def test_after_the_last_try_there_is_a_warning(hook: Hook) -> None:
    hook.answers = [500] * 9
    warning, waits = tell(Notify(url=hook.url, tries=4))
    assert warning == "notify.url (127.0.0.1) was not told of the bake-off: it answered 500"
    assert waits == [1, 2, 4]


def test_an_answer_that_stays_the_same_is_not_asked_for_again(hook: Hook) -> None:
    for status in (302, 404, 410):
        hook.answers = [status]
        warning, waits = tell(Notify(url=f"{hook.url}/{SECRET}"))
        assert warning == f"notify.url (127.0.0.1) was not told of the bake-off: it answered {status}"
        assert waits == []


@pytest.mark.parametrize(
    ("url", "why", "tries"),
    [
        ("http://127.0.0.1:9/${HOOK}", "it cannot be reached", 3),
        ("${HOOK}", "that is no address that can be posted to", 1),
        ("http://[${HOOK}", "that is no address that can be posted to", 1),
    ],
)
def test_no_warning_shows_a_secret(
    url: str, why: str, tries: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOOK", SECRET)
    warning, waits = tell(Notify(url=url))
    assert warning == f"notify.url (${{HOOK}}) was not told of the bake-off: {why}"
    assert len(waits) == tries - 1
    assert SECRET not in "".join(capfd.readouterr())


def test_an_address_may_come_from_the_environment(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", f"{hook.url}/{SECRET}")
    assert tell(Notify(url="${HOOK}")) == (None, [])
    assert hook.seen[0][0] == f"/{SECRET}"


def test_a_variable_that_is_not_set_is_named() -> None:
    for spec in (Notify(url="https://h/${HOOK_A}/${HOOK_B}"), Notify(command=["tell", "${HOOK_A}${HOOK_B}"])):
        warning, _ = tell(spec)
        assert warning is not None
        assert warning.endswith(
            f"{'notify.url' if spec.url else 'notify.command'}: environment variables not set: HOOK_A, HOOK_B"
        )


def test_what_a_command_says_last_is_shown_without_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", SECRET)
    code = "import sys; print('cannot send with', sys.argv[1], file=sys.stderr); print(); sys.exit(3)"
    warning, waits = tell(Notify(command=python(code, "${HOOK}"), tries=2), tmp_path)
    assert warning is not None
    assert warning.endswith("was not told of the bake-off: exit code 3: cannot send with ***")
    assert waits == [1]


def test_a_command_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    warning, waits = tell(Notify(command=["./tell-them"]), tmp_path)
    assert warning == (
        "notify.command (./tell-them) was not told of the bake-off: it cannot be started: No such file or directory"
    )
    assert waits == []


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    warning, _ = tell(Notify(command=python(code), tries=1, timeout_seconds=0.3), tmp_path)
    assert warning is not None
    assert warning.endswith("was not told of the bake-off: it took more than 0.3 s")


def test_the_message_holds_the_standings_and_the_decision_and_no_credentials(
    make: SimpleNamespace, config: CheckedConfig
) -> None:
    result = make.whole()
    decision = Decision(
        "promote", "svd", "knn", "svd is better; see http://u:p@h", "ndcg@10", 0.95, ("svd",), (), "b", "toy", ""
    )  # fmt: skip
    message = message_of(
        config, result, make.comparisons(result), decision=decision, links={"board": "http://u:p@h/x"}
    )
    assert message["outcome"] == "promote"
    assert message["bakeoff"] == result.bakeoff.id
    assert message["decision"]["promoted"] == "svd"
    assert message["decision"]["reason"] == "svd is better; see http://***@h"
    assert message["failed"] == {"broken": "ValueError: k must be <= 12"}
    assert message["links"] == {"board": "http://***@h/x"}
    (standings,) = message["standings"]
    assert (standings["dataset"], standings["metric"], standings["baseline"]) == ("toy", "ndcg@10", "random")
    assert [(row["model"], row["rank"]) for row in standings["models"]] == [
        ("svd", 1), ("knn", 2), ("random", 3), ("broken", None),
    ]  # fmt: skip
    assert standings["models"][0]["low"] < standings["models"][0]["mean"] < standings["models"][0]["high"]
    json.dumps(message, allow_nan=False)


def test_without_a_gate_the_outcome_is_done_or_failure(make: SimpleNamespace, config: CheckedConfig) -> None:
    result = make.whole()
    assert message_of(config, result, ())["outcome"] == "failure"
    fine = type(result)(result.bakeoff, result.models[:3])
    assert message_of(config, fine, ())["outcome"] == "done"


def test_an_error_is_told_with_the_same_keys(make: SimpleNamespace, config: CheckedConfig) -> None:
    message = failure_message(config, DataError("ratings.csv at https://u:p@h: not there"))
    assert message["outcome"] == "failure"
    assert message["error"] == "ratings.csv at https://***@h: not there"
    assert message.keys() == message_of(config, make.whole(), ()).keys()
    assert failure_message(config, ValueError("x"))["error"] == "ValueError: x"
