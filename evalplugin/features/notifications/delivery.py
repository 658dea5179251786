"""Delivery of a notification to a command, a webhook or apprise; libraries try the network again."""

from __future__ import annotations

import json
import logging
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evalplugin.base.errors import EvalpluginError
from evalplugin.base.libraries import requests
from evalplugin.base.placeholders import fill_placeholders, variables_in
from evalplugin.base.processes import kill_group
from evalplugin.base.secrets import redact_message
from evalplugin.features.notifications.section import Notify
from evalplugin.features.words import outcome_words

_LONGEST_WAIT = 30  # seconds between two tries of a webhook
_RETRIED = (408, 425, 429, 500, 502, 503, 504)  # statuses that may change with a retry


class _DeliveryError(Exception):
    """The reason why a try failed, without secrets."""


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
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not cost a bake-off; its words may repeat the address
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
    lines = [
        (payload["decision"] or {}).get("reason"),
        payload["error"],
        *(f"{row['dataset']}: {row['verdict']}" for row in payload["standings"]),
        *(f"{row['dataset']}: {row['model']} failed: {row['error']}" for row in payload["failed"]),
        *(f"{name}: {link}" for name, link in payload["links"].items() if link),
    ]
    title = f"{outcome_words(payload['outcome'])}: {payload['config']}"
    return title, "\n".join(filter(None, lines)) or title


def _send(spec: Notify, payload: Mapping[str, Any], folder: Path) -> None:
    # A lone surrogate, which no encoding has, is written as JSON's own \\u escape.
    body = json.dumps(payload, allow_nan=False, ensure_ascii=False).encode(errors="backslashreplace")
    if spec.command is not None:
        _run(fill_placeholders(spec.command, key="notify.command"), body, spec.timeout_seconds, folder)
    elif spec.url is not None:
        _post(fill_placeholders([spec.url], key="notify.url")[0], body, spec)
    else:
        _send_message(fill_placeholders(spec.texts, key="notify.apprise"), *message_of(payload), spec.tries)


def _post(url: str, body: bytes, spec: Notify) -> None:
    from urllib3 import Retry

    retries = Retry(
        spec.tries - 1,
        allowed_methods=["POST"],
        status_forcelist=_RETRIED,
        raise_on_status=False,
        backoff_factor=1,
        backoff_max=_LONGEST_WAIT,
        retry_after_max=_LONGEST_WAIT,
    )
    # urllib3 logs the path of an address that is tried again, which may be the secret.
    logger = logging.getLogger("urllib3")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with requests.Session() as session:
            session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
            session.mount("https://", requests.adapters.HTTPAdapter(max_retries=retries))
            # The answer's body is not read: it may be long, slow, and repeat what was sent.
            status = session.post(
                url,
                data=body,
                headers={"Content-Type": "application/json"},
                timeout=spec.timeout_seconds,
                allow_redirects=False,
                stream=True,
            ).status_code
    finally:
        logger.setLevel(level)
    if not 200 <= status < 300:
        redirect = ", and redirects are not followed" if 300 <= status < 400 else ""
        raise _DeliveryError(f"it answered {status}{redirect}")


def _send_message(addresses: Sequence[str], title: str, text: str, tries: int) -> None:
    from apprise import Apprise, AppriseAsset, LogCapture, NotifyFormat

    asset = AppriseAsset(default_service_retry=tries - 1, default_service_wait=5, http_redirects=False)
    sender = Apprise(asset=asset)
    # What apprise logs is the reason, and is printed only as a part of the warning.
    with LogCapture(level=logging.WARNING, fmt="%(message)s") as log:
        is_complete = sender.add(addresses)
        is_sent = sender.notify(text, title, body_format=NotifyFormat.TEXT)
    if not (is_complete and is_sent):
        lines = (line for line in log.getvalue().splitlines() if not line.startswith("Attempt "))
        raise _DeliveryError(" ".join(dict.fromkeys(lines)))


def _run(command: Sequence[str], body: bytes, seconds: float, folder: Path) -> None:
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
            raise _DeliveryError(f"it took more than {seconds:g} s") from None
        finally:
            if process.poll() is None:
                kill_group(process.pid)
                process.wait()
        if process.returncode != 0:
            output.seek(0)
            lines = output.read().decode(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
            raise _DeliveryError(f"exit code {process.returncode}: {last[:300]}")


def _target(spec: Notify) -> str:
    """Return the target of a config for messages: of an address no more than its host, of a command its name."""
    if spec.command is not None:
        return f"notify.command ({spec.command[0]})"
    if spec.url is None:
        return "notify.apprise"
    if variables_in(spec.url):
        return f"notify.url ({', '.join(f'${{{name}}}' for name in variables_in(spec.url))})"
    return f"notify.url ({urlsplit(spec.url).hostname})"
