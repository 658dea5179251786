"""Notifications of outcomes; one that fails is a warning and costs no bake-off."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from samples import small_config

from evalplugin.base.errors import ConfigError, DataError
from evalplugin.features.config import load
from evalplugin.features.gate.decision import Decision
from evalplugin.features.notifications.delivery import deliver
from evalplugin.features.notifications.feature import ConfigHeader, failure_payload, payload_of, payload_with
from evalplugin.features.notifications.section import Notify
from evalplugin.tracking.write.board import Links

MESSAGE = {"outcome": "keep", "failed": [], "bakeoff": "b-1"}
FAILED = [{"dataset": "toy", "split": "last_n", "model": "svd", "error": "no"}]
CONFIG = small_config(tracking={"uri": "postgresql+psycopg2://ann:hunter2@db"})
SECRET = "T0/B0/xyzzy-plugh"


class Hook(ThreadingHTTPServer):
    """A server that gives one prepared answer after another, and remembers what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[int] = []
        self.headers: dict[str, str] = {}
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
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
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
def header() -> ConfigHeader:
    config = load(CONFIG)
    return ConfigHeader(config.name, config.folder, config.spec.experiment, config.section("notify"))


def notify(spec: Notify, folder: Path = Path(), message: Any = MESSAGE) -> tuple[str | None, list[float]]:
    """Return the warning and the waits, which take no time."""
    waits: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        clock = SimpleNamespace(sleep=waits.append, time=time.time)
        patch.setattr("urllib3.util.retry.time", clock)
        return deliver(spec, message, folder=folder), waits


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_webhook_receives_payload_as_json(hook: Hook) -> None:
    assert notify(Notify(url=f"{hook.url}/a/b")) == (None, [])
    assert hook.seen == [("/a/b", MESSAGE)]


def test_command_receives_payload_on_stdin(tmp_path: Path) -> None:
    command = python("import sys; open('payload.json', 'w').write(sys.stdin.read())")
    assert notify(Notify(command=command), tmp_path) == (None, [])
    assert json.loads((tmp_path / "payload.json").read_text()) == MESSAGE


@pytest.mark.parametrize(
    ("on", "outcome", "failed", "is_sent"),
    [
        (["promote"], "keep", [], False),
        (["promote", "keep"], "keep", [], True),
        (["failure"], "keep", FAILED, True),
        (["refuse"], "keep", FAILED, False),
        (["failure"], "failure", [], True),
        (["keep"], "cannot_tell", [], True),
        (["cannot_tell"], "cannot_tell", [], True),
        (["cannot_tell"], "keep", [], False),
        (["promote", "refuse"], "cannot_tell", [], False),
        (["done"], "done", [], True),
        (["failure"], "interrupted", [], False),
        (["interrupted"], "interrupted", [], True),
    ],
)
def test_only_selected_outcomes_are_notified(hook, on, outcome, failed, is_sent):
    message = {"outcome": outcome, "failed": failed}
    assert notify(Notify(url=hook.url, on=on), message=message) == (None, [])
    assert bool(hook.seen) == is_sent


def test_webhook_retries_busy_server(hook: Hook) -> None:
    hook.answers = [503, 429]
    assert notify(Notify(url=hook.url)) == (None, [2])  # the second try is made at once
    assert len(hook.seen) == 3


@pytest.mark.parametrize(("asked", "waited"), [("7", 7), ("86400", 30)])
def test_webhook_waits_as_long_as_server_asks_up_to_a_limit(hook: Hook, asked: str, waited: int) -> None:
    hook.answers, hook.headers = [429], {"Retry-After": asked}
    assert notify(Notify(url=hook.url)) == (None, [waited])
    assert len(hook.seen) == 2


def test_webhook_warns_after_last_try(hook: Hook) -> None:
    hook.answers = [500] * 9
    warning, waits = notify(Notify(url=hook.url, tries=4))
    assert warning == "notify.url (127.0.0.1) was not told of the bake-off: it answered 500"
    assert waits == [2, 4]
    assert len(hook.seen) == 4


def test_webhook_does_not_retry_permanent_errors(hook: Hook) -> None:
    for status, more in ((302, ", and redirects are not followed"), (404, ""), (410, "")):
        hook.answers = [status]
        warning, waits = notify(Notify(url=f"{hook.url}/{SECRET}"))
        assert warning == f"notify.url (127.0.0.1) was not told of the bake-off: it answered {status}{more}"
        assert waits == []


def test_webhook_tells_missing_tls_from_other_connection_errors(hook: Hook) -> None:
    warning, _ = notify(Notify(url=hook.url.replace("http:", "https:"), tries=1))
    assert warning == "notify.url (127.0.0.1) was not told of the bake-off: SSLError"


def test_webhook_time_limit_ends_wait_for_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        warning, _ = notify(Notify(url=url, tries=1, timeout_seconds=0.2))
    assert warning == "notify.url (127.0.0.1) was not told of the bake-off: ConnectionError"


@pytest.mark.parametrize(
    ("url", "why", "waited"),
    [
        ("http://127.0.0.1:9/${HOOK}", "ConnectionError", [2]),
        ("${HOOK}", "MissingSchema", []),
        ("http://127.0.0.1:${HOOK}", "InvalidURL", []),
    ],
)
def test_notification_warnings_hide_secrets(url, why, waited, monkeypatch, capfd, caplog):
    monkeypatch.setenv("HOOK", SECRET)
    warning, waits = notify(Notify(url=url))
    assert warning == f"notify.url (${{HOOK}}) was not told of the bake-off: {why}"
    assert waits == waited
    assert SECRET not in "".join(capfd.readouterr())
    assert caplog.text == ""


def test_webhook_url_may_come_from_environment(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", f"{hook.url}/{SECRET}")
    assert notify(Notify(url="${HOOK}")) == (None, [])
    assert hook.seen[0][0] == f"/{SECRET}"


def test_unset_variables_are_named() -> None:
    for spec in (Notify(url="https://h/${HOOK_A}/${HOOK_B}"), Notify(command=["tell", "${HOOK_A}${HOOK_B}"])):
        warning, _ = notify(spec)
        key = "notify.url" if spec.url else "notify.command"
        assert warning.endswith(f"{key}: environment variables not set: HOOK_A, HOOK_B")


def test_last_output_line_of_failed_command_is_shown_redacted(tmp_path, monkeypatch):
    monkeypatch.setenv("HOOK", SECRET)
    code = "import sys; print('cannot send with', sys.argv[1], file=sys.stderr); print(); sys.exit(3)"
    warning, waits = notify(Notify(command=python(code, "${HOOK}")), tmp_path)
    assert warning.endswith("was not told of the bake-off: exit code 3: cannot send with ***")
    assert waits == []


def test_missing_command_is_a_warning(tmp_path: Path) -> None:
    warning, waits = notify(Notify(command=["./tell-them"]), tmp_path)
    assert warning == (
        "notify.command (./tell-them) was not told of the bake-off: it cannot be started: No such file or directory"
    )
    assert waits == []


def test_hanging_command_is_killed_with_its_children(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    warning, _ = notify(Notify(command=python(code), timeout_seconds=0.3), tmp_path)
    assert warning.endswith("was not told of the bake-off: it took more than 0.3 s")


DONE = {
    "outcome": "cannot_tell",
    "config": "nightly.yaml",
    "bakeoff": "b-1",
    "decision": {"reason": "svd may be better: 200 users are too few"},
    "error": None,
    "standings": [
        {"dataset": "toy", "split": "last_n", "metric": "ndcg@10", "may_be_best": ["svd"],
         "verdict": "svd is the best.", "models": []}
    ],
    "failed": FAILED,
    "links": {"store": "http://h", "board": "http://h/#/1", "compare": None},
}  # fmt: skip


def json_address(hook: Hook, path: str = "") -> str:
    return f"json://127.0.0.1:{hook.server_address[1]}/{path}"


def test_apprise_sends_outcome_reason_and_links_as_plain_text(hook: Hook) -> None:
    addresses = [json_address(hook, "a"), json_address(hook, "b")]
    assert notify(Notify(apprise=addresses), message=DONE) == (None, [])
    assert sorted(path.strip("/") for path, _ in hook.seen) == ["a", "b"]
    assert hook.seen[0][1]["title"] == "cannot tell: nightly.yaml"
    assert hook.seen[0][1]["message"].splitlines() == [
        "svd may be better: 200 users are too few",
        "toy: svd is the best.",
        "toy: svd failed: no",
        "store: http://h",
        "board: http://h/#/1",
    ]


def test_apprise_sends_outcome_alone_where_nothing_else_is_known(hook: Hook, header: ConfigHeader) -> None:
    spec = Notify(apprise=[json_address(hook)], on=["interrupted"])
    assert notify(spec, message=payload_with(header, outcome="interrupted")) == (None, [])
    assert hook.seen[0][1]["title"] == "interrupted: python"


def test_apprise_sends_error_of_bakeoff_that_could_not_run(hook: Hook, header: ConfigHeader) -> None:
    message = failure_payload(header, DataError("ratings.csv: k\udcff is not there"))
    assert notify(Notify(apprise=[json_address(hook)]), message=message) == (None, [])
    assert hook.seen[0][1]["title"] == "failure: python"
    assert hook.seen[0][1]["message"] == "ratings.csv: k\udcff is not there"


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([500, 204], None),
        ([500, 500], "Failed to send JSON POST notification: Internal server error., error=500."),
    ],
)
def test_apprise_is_tried_again_and_its_reason_is_shown_without_secrets(
    hook, answers, why, monkeypatch, capfd
):
    monkeypatch.setenv("HOOK", SECRET)
    hook.answers = answers
    warning, _ = notify(Notify(apprise=[json_address(hook, "${HOOK}?wait=0")], tries=2), message=DONE)
    assert warning == (why and f"notify.apprise was not told of the bake-off: {why}")
    assert [path.strip("/") for path, _ in hook.seen] == [SECRET, SECRET]
    assert SECRET not in f"{warning}{''.join(capfd.readouterr())}"


def test_apprise_refuses_redirects(hook: Hook) -> None:
    hook.answers, hook.headers = [302], {"Location": f"{hook.url}/elsewhere"}
    warning, _ = notify(Notify(apprise=[json_address(hook, "a")], tries=1), message=DONE)
    why = "Failed to send JSON POST notification: error=302."
    assert warning == f"notify.apprise was not told of the bake-off: {why}"
    assert [path.strip("/") for path, _ in hook.seen] == ["a"]


def test_apprise_sends_to_the_other_addresses_if_one_is_wrong(hook, monkeypatch):
    monkeypatch.setenv("HOOK", f"nobody://{SECRET}")
    warning, _ = notify(Notify(apprise=["${HOOK}", json_address(hook, "b")]), message=DONE)
    assert warning == "notify.apprise was not told of the bake-off: Unparseable URL ***"
    assert [path.strip("/") for path, _ in hook.seen] == ["b"]


def test_apprise_that_is_not_installed_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(
        ConfigError, match=r"notify\.apprise.*: needs the package apprise, .* pip install app"
    ):
        load({**CONFIG, "notify": {"apprise": ["json://127.0.0.1"]}})


def test_payload_holds_standings_and_decision_without_credentials(make, header):
    result = make.whole()
    decision = Decision(
        "promote", "svd", "knn", "svd is better; see http://u:p@h", "ndcg@10", 0.95, ("svd",), (), "b", "toy", ""
    )  # fmt: skip
    links = Links("http://u:p@h", "1", "2", result.plan.id, (), ("3",))
    bakeoff = make.filled(result, make.comparisons(result), decision=decision, links=links)
    message = payload_of(header, bakeoff)
    assert message["outcome"] == "promote"
    assert message["bakeoff"] == result.plan.id
    assert message["decision"]["promoted"] == "svd"
    assert message["decision"]["reason"] == "svd is better; see http://***@h"
    assert message["failed"] == [
        {"dataset": "toy", "split": "", "model": "broken", "error": "ValueError: k must be <= 12"}
    ]
    assert message["links"]["store"] == "http://***@h"
    links = [link.partition("#")[0] for link in message["links"].values()]
    assert links == ["http://***@h", "http://h/", "http://h/"]
    (standings,) = message["standings"]
    assert (standings["dataset"], standings["metric"], standings["baseline"]) == ("toy", "ndcg@10", "random")
    assert list(standings["may_be_best"]) == ["svd"]
    assert standings["verdict"].startswith("svd is the best: its ndcg@10 is ")
    ranks = {row["model"]: row["rank"] for row in standings["models"]}
    assert ranks == {"svd": 1, "knn": 2, "random": 3, "broken": None}
    assert standings["models"][0]["low"] < standings["models"][0]["mean"] < standings["models"][0]["high"]
    json.dumps(message, allow_nan=False)


def test_without_a_gate_the_outcome_is_done_or_failure(make: SimpleNamespace, header: ConfigHeader) -> None:
    result = make.whole()
    assert payload_of(header, make.filled(result))["outcome"] == "failure"
    fine = type(result)(result.plan, result.models[:3])
    assert payload_of(header, make.filled(fine))["outcome"] == "done"


def test_failure_payload_has_the_same_keys(make: SimpleNamespace, header: ConfigHeader) -> None:
    message = failure_payload(header, DataError("ratings.csv at https://u:p@h: not there"))
    assert message["outcome"] == "failure"
    assert message["error"] == "ratings.csv at https://***@h: not there"
    assert message.keys() == payload_of(header, make.filled(make.whole())).keys()
    assert failure_payload(header, ValueError("x"))["error"] == "ValueError: x"
