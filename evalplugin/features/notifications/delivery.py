"""Delivery of a notification to a command, a webhook or apprise: within a time limit, again where a retry may help."""

from __future__ import annotations

import json
import logging
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evalplugin.base.errors import EvalpluginError
from evalplugin.base.placeholders import fill_placeholders, variables_in
from evalplugin.base.processes import kill_group
from evalplugin.base.secrets import redact_message
from evalplugin.config.sections import Notify

_LONGEST_WAIT = 30  # seconds between two tries
_RETRIED = (408, 425, 429, 500, 502, 503, 504)  # statuses that may change with a retry


class _DeliveryError(Exception):
    """The reason why a try failed, without secrets."""


class _TemporaryError(_DeliveryError):
    """The same, where a retry may help."""


def deliver(spec: Notify, payload: Mapping[str, Any], *, folder: Path) -> str | None:
    """Send a payload to the notifier of a config; return a warning if that fails, and never raise.

    Args:
        spec: The config's section.
        payload: From ``payload_of`` or ``failure_payload``.
        folder: That of the config, in which a command runs.
    """
    if not is_wanted(spec, payload):
        return None
    try:
        _send(spec, payload, folder)
    except (_DeliveryError, EvalpluginError) as error:
        return redact_message(f"{_target(spec)} was not told of the bake-off: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not cost a bake-off
        return f"{_target(spec)} was not told of the bake-off: {type(error).__name__}"
    return None


def is_wanted(spec: Notify, payload: Mapping[str, Any]) -> bool:
    """Return whether a config asks for notifications of such an outcome."""
    failed = payload.get("failed") or payload.get("error")
    # Whoever asks for a champion that stays wants to know of one that stays for want of users.
    outcomes = {payload["outcome"], "keep"} if payload["outcome"] == "cannot_tell" else {payload["outcome"]}
    return not outcomes.isdisjoint(spec.on) or (bool(failed) and "failure" in spec.on)


def message_of(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the title and the plain text of a payload, for chat and mail."""
    reasons = [(payload["decision"] or {}).get("reason"), payload["error"]]
    standings = [
        f"{_place(row)}: may be the best by {row['metric']}: {', '.join(row['may_be_best'])}"
        for row in payload["standings"]
        if row["may_be_best"]
    ]
    failed = [f"{_place(row)}: {row['model']} failed: {row['error']}" for row in payload["failed"]]
    links = [f"{name}: {link}" for name, link in payload["links"].items() if link]
    text = "\n".join([*filter(None, reasons), *standings, *failed, *links])
    title = f"{payload['outcome'].replace('_', ' ')}: {payload['config']}"
    return title, text.encode(errors="backslashreplace").decode() or f"bake-off: {payload['bakeoff']}"


def _place(row: Mapping[str, Any]) -> str:
    return ", ".join(filter(None, (row["dataset"], row["split"])))


def _send(spec: Notify, payload: Mapping[str, Any], folder: Path) -> None:
    texts = fill_placeholders(spec.texts, key=f"notify.{spec.kind}")
    # A lone surrogate, which no encoding has, is written as JSON's own \\u escape.
    body = json.dumps(payload, allow_nan=False, ensure_ascii=False).encode(errors="backslashreplace")
    if spec.kind == "command":
        _retry(spec.tries, partial(_run_command, texts, body, spec.timeout_seconds, folder))
    elif spec.kind == "url":
        # The timeout of requests is one of each read, and a server that sends a byte now and then never exceeds it.
        longest = spec.tries * spec.timeout_seconds + (spec.tries - 1) * _LONGEST_WAIT
        _time_limit(longest, partial(_post, texts[0], body, spec))
    else:
        problems = []
        for row, url in enumerate(texts):
            try:
                _retry(spec.tries, partial(_send_message, url, *message_of(payload), spec.timeout_seconds))
            except _DeliveryError as error:  # the other addresses are told
                problems.append(f"apprise[{row}]: {error}")
        if problems:
            raise _DeliveryError("; ".join(problems))


def _retry(tries: int, send: Callable[[], None]) -> None:
    """Call a function until it raises no temporary error, with longer and longer waits."""
    for attempt in range(1, tries):
        try:
            return send()
        except _TemporaryError:
            time.sleep(min(2 ** (attempt - 1), _LONGEST_WAIT))
    return send()


def _time_limit(seconds: float, send: Callable[[], None]) -> None:
    """Call a function that must end within some seconds; what takes longer is left behind in its thread."""
    done: Future[None] = Future()

    def run() -> None:
        try:
            send()
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised again below
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        done.result(seconds)
    except TimeoutError:
        raise _TemporaryError(f"no answer within {seconds:g} s") from None


def _post(url: str, body: bytes, spec: Notify) -> None:
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    retries = Retry(
        spec.tries - 1,
        other=0,  # such as a certificate that is not trusted
        allowed_methods=["POST"],
        status_forcelist=_RETRIED,
        raise_on_status=False,
        backoff_factor=1,
        backoff_max=_LONGEST_WAIT,
        retry_after_max=_LONGEST_WAIT,
    )
    # It logs the path of an address that is tried again, which may be the secret.
    logger = logging.getLogger("urllib3.connectionpool")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with requests.Session() as session:
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=retries))
            # The answer's body is not read: it may be long, slow, and repeat what was sent.
            status = session.post(
                url,
                data=body,
                headers={"Content-Type": "application/json"},
                timeout=spec.timeout_seconds,
                allow_redirects=False,
                stream=True,
            ).status_code
    except (requests.RequestException, ValueError) as error:
        # The type alone: the library's own words repeat the address.
        reason = getattr(error.args[0], "reason", error) if error.args else error
        raise _DeliveryError(f"it cannot be reached ({type(reason).__name__})") from None
    finally:
        logger.setLevel(level)
    if not 200 <= status < 300:
        redirect = ", and redirects are not followed" if 300 <= status < 400 else ""
        raise _DeliveryError(f"it answered {status}{redirect}")


def _send_message(url: str, title: str, text: str, seconds: float) -> None:
    import apprise

    def send() -> None:
        sender = apprise.Apprise()
        if not sender.add(url):
            raise _DeliveryError("apprise does not accept this address")
        if not sender.notify(text, title, body_format=apprise.NotifyFormat.TEXT):
            raise _TemporaryError(log.getvalue().strip().split("\n")[-1][:300] or "it was not sent")

    # What apprise logs is the reason, and is printed only as a part of the warning.
    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:
        _time_limit(seconds, send)


def _run_command(command: Sequence[str], body: bytes, seconds: float, folder: Path) -> None:
    # A file and no pipe: a pipe stays open as long as anything that the command has started.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise _DeliveryError(f"it cannot be started: {error.strerror}") from None
        try:
            process.communicate(body, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise _TemporaryError(f"it took more than {seconds:g} s") from None
        finally:
            if process.poll() is None:
                kill_group(process.pid)
                process.wait()
        if process.returncode != 0:
            output.seek(0)
            lines = output.read().decode(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
            raise _TemporaryError(f"exit code {process.returncode}: {last[:300]}")


def _target(spec: Notify) -> str:
    """Return the target of a config for messages: of an address no more than its host, of a command its name."""
    if spec.command is not None:
        return f"notify.command ({spec.command[0]})"
    if spec.url is None:
        return "notify.apprise"
    if variables_in(spec.url):
        return f"notify.url ({', '.join(f'${{{name}}}' for name in variables_in(spec.url))})"
    return f"notify.url ({urlsplit(spec.url).hostname})"
