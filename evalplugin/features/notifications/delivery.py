"""Delivery of a notification to a command or a webhook: within a time limit, again where a retry may help."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from evalplugin.base.errors import EvalpluginError
from evalplugin.base.placeholders import fill_placeholders, variables_in
from evalplugin.base.processes import kill_group
from evalplugin.base.secrets import redact_message
from evalplugin.config.sections import Notify

if TYPE_CHECKING:
    import requests

_LONGEST_WAIT = 30  # seconds between two tries
_RETRIED = (408, 425, 429, 500, 502, 503, 504)  # statuses that may change with a retry


class _DeliveryError(Exception):
    """The reason why a try failed, without secrets."""


class _TemporaryError(_DeliveryError):
    """The same, where a retry may help."""


def deliver(
    spec: Notify, payload: Mapping[str, Any], *, folder: Path, sleep: Callable[[float], None] = time.sleep
) -> str | None:
    """Send a payload to the command or the webhook of a config; return a warning if that fails, and never raise.

    Args:
        spec: The config's section.
        payload: From ``payload_of`` or ``failure_payload``.
        folder: That of the config, in which a command runs.
        sleep: Waits between tries.
    """
    if not is_wanted(spec, payload):
        return None
    try:
        _send(spec, payload, folder, sleep)
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


def _send(spec: Notify, payload: Mapping[str, Any], folder: Path, sleep: Callable[[float], None]) -> None:
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

    # A lone surrogate, which no encoding has, is written as JSON's own \\u escape.
    body = json.dumps(payload, allow_nan=False, ensure_ascii=False).encode(errors="backslashreplace")
    retrying = Retrying(
        stop=stop_after_attempt(spec.tries),
        wait=wait_exponential(max=_LONGEST_WAIT),
        retry=retry_if_exception_type(_TemporaryError),
        sleep=sleep,
        reraise=True,
    )
    texts = fill_placeholders(spec.texts, key="notify.url" if spec.command is None else "notify.command")
    if spec.command is None:
        retrying(_post, texts[0], body, spec.timeout_seconds)
    else:
        retrying(_run_command, texts, body, spec.timeout_seconds, folder)


def _post(url: str, body: bytes, seconds: float) -> None:
    status = _time_limit(seconds, lambda: _status(url, body, seconds))
    if status in _RETRIED:
        raise _TemporaryError(f"it answered {status}")
    if 300 <= status < 400:
        raise _DeliveryError(f"it answered {status}, and redirects are not followed")
    if not 200 <= status < 300:
        raise _DeliveryError(f"it answered {status}")


def _time_limit(seconds: float, work: Callable[[], int]) -> int:
    """Return the result of a function that must end within some seconds.

    The timeout of requests is one of each read: a server that sends a byte now and then would never exceed it.
    """
    done: Future[int] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again below
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return done.result(seconds)
    except TimeoutError:
        raise _TemporaryError(f"no answer within {seconds:g} s") from None


def _status(url: str, body: bytes, seconds: float) -> int:
    """Return the status of a server's answer."""
    import requests

    try:
        # The answer's body is not read: it may be long, slow, and repeat what was sent.
        with requests.post(
            url,
            data=body,
            headers={"Content-Type": "application/json"},
            timeout=seconds,
            allow_redirects=False,
            stream=True,
        ) as answer:
            return answer.status_code
    except requests.Timeout:
        raise TimeoutError from None
    except requests.exceptions.SSLError as error:
        is_untrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
        reason = "its certificate is not trusted" if is_untrusted else "it makes no secure connection"
        raise _DeliveryError(reason) from None
    except requests.ConnectionError as error:
        raise _TemporaryError(_connection_problem(error)) from None
    except (requests.RequestException, ValueError):
        # The library's own words would repeat the address, which may be the secret.
        raise _DeliveryError("that is no address that can be posted to") from None


def _connection_problem(error: requests.ConnectionError) -> str:
    """Return the reason of a connection error, without the address."""
    from urllib3.exceptions import ProtocolError

    reason = error.args[0] if error.args else None
    if not isinstance(reason, ProtocolError):
        return "it cannot be reached"
    cause = reason.args[-1]
    if isinstance(cause, HTTPException) and not isinstance(cause, ConnectionError):
        return "its answer is not HTTP"
    return "it closed the connection without an answer"


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
    assert spec.url is not None
    if variables_in(spec.url):
        return f"notify.url ({', '.join(f'${{{name}}}' for name in variables_in(spec.url))})"
    return f"notify.url ({urlsplit(spec.url).hostname})"
