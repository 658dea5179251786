"""Telling others what came of a bake-off, as JSON: a command or an address hears of it, or a warning is left."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from evalplugin.bakeoff.flow import Outcome, run_bakeoff
from evalplugin.base.errors import EvalpluginError, UnchangedError
from evalplugin.base.placeholders import fill_placeholders, unset_variables, variables_in
from evalplugin.base.secrets import redact_message, redact_values
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.gate import Decision
from evalplugin.config import CheckedConfig, ConfigHeader
from evalplugin.config.sections import Notify
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import BakeoffResult

if TYPE_CHECKING:
    import requests

__all__ = ["Message", "failure_message", "message_of", "notify", "notify_invalid_config", "run_and_notify"]

Message = dict[str, Any]

_LONGEST_WAIT = 30  # seconds between two tries
_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)  # answers of a server that may be another next time


class _NotToldError(Exception):
    """Why a try failed, in words that hold no secret."""


class _NotNowError(_NotToldError):
    """The same, where another try may work."""


@dataclass(frozen=True)
class _Teller:
    """Tells of one config, and says where that did not work."""

    about: ConfigHeader
    observer: Observer | None
    hear: Callable[[Message], None]

    def tell(self, message: Message) -> None:
        self.hear(message)
        spec = self.about.notify
        if spec is None or not _is_wanted(spec, message):
            return
        with (self.observer or Observer()).progress("notify"):
            warning = notify(spec, message, folder=self.about.folder)
        if warning is not None:
            self.warn(warning)

    def warn(self, text: str) -> None:
        if self.observer is not None:
            self.observer.report(f"warning: {text}")
        else:
            warnings.warn(text, RuntimeWarning, stacklevel=4)


def run_and_notify(
    config: CheckedConfig,
    *,
    experiment: str | None = None,
    observer: Observer | None = None,
    hear: Callable[[Message], None] = lambda message: None,
    **how: Any,
) -> Outcome:
    """Return what ``run_bakeoff`` returns, and tell whom the config names and ``hear`` what came of it, errors too.

    ``how`` is handed on. Without an observer, a Python warning says that somebody could not be told.

    Raises:
        EvalpluginError: As ``run_bakeoff``.
    """
    about = _about(config, experiment)
    teller = _Teller(about, observer, hear)
    if about.notify is not None and (missing := unset_variables(*about.notify.texts)):
        teller.warn(f"notify: nobody will be told, as no value is set for {', '.join(missing)}")
    bakeoff: list[str] = []  # its id, as soon as there is one
    try:
        outcome = run_bakeoff(config, experiment=experiment, observer=observer, begun=bakeoff.append, **how)
    except UnchangedError as error:
        teller.tell(_message(about, outcome="unchanged", bakeoff=error.bakeoff))
        raise
    except Exception as error:
        teller.tell(failure_message(about, error, bakeoff=next(iter(bakeoff), None)))
        raise
    except KeyboardInterrupt:
        teller.tell(_message(about, outcome="interrupted", bakeoff=next(iter(bakeoff), None)))
        raise
    links = outcome.links
    shown = {"store": links.tracking_uri, "board": links.board_url, "compare": links.compare_url}
    teller.tell(
        message_of(
            config,
            outcome.result,
            outcome.comparisons,
            decision=outcome.decision,
            unregistered=outcome.unregistered,
            links=shown,
        )
    )
    return outcome


def notify_invalid_config(
    source: Path | Mapping[str, Any],
    error: Exception,
    *,
    overrides: Sequence[str] = (),
    experiment: str | None = None,
    observer: Observer | None = None,
    hear: Callable[[Message], None] = lambda message: None,
) -> None:
    """Tell that a config was not run since ``load`` has refused it, or another one beside it.

    Whom the config names is told where it can be read that far.
    """
    about = _about(ConfigHeader.read(source, overrides), experiment)
    _Teller(about, observer, hear).tell(failure_message(about, error))


def message_of(
    config: CheckedConfig,
    result: BakeoffResult,
    comparisons: Sequence[Comparison],
    *,
    decision: Decision | None = None,
    unregistered: str | None = None,
    links: Mapping[str, str | None] | None = None,
) -> Message:
    """Return what came of a bake-off as values that JSON can hold, without credentials.

    ``decision`` is what the gate decided, if there is one; ``unregistered`` why the winner could not be registered: it
    is told as ``error``; ``links`` lead to the results. Under ``failed`` each model that failed stands once for every
    dataset and split on which it did: ``dataset``, ``split``, ``model``, ``error``.
    """
    outcome = "failure" if result.failed else "done"
    return _message(
        _about(config, result.bakeoff.experiment),
        outcome=outcome if decision is None else decision.outcome,
        bakeoff=result.bakeoff.id,
        decision=None if decision is None else json.loads(decision.to_json()),
        standings=[_standings(comparison) for comparison in comparisons],
        failed=[
            {"dataset": one.data.dataset, "split": one.data.split, "model": one.model, "error": one.failure}
            for one in result.failed
        ],
        error=unregistered,
        links=dict(links or {}),
    )


def failure_message(
    config: CheckedConfig | ConfigHeader, error: BaseException, *, bakeoff: str | None = None
) -> Message:
    """Return what is told of a bake-off that was cut short by an error; the same keys as ``message_of``."""
    text = str(error) if isinstance(error, EvalpluginError) else f"{type(error).__name__}: {error}"
    return _message(_about(config), outcome="failure", error=text, bakeoff=bakeoff)


def notify(
    spec: Notify, message: Mapping[str, Any], *, folder: Path, sleep: Callable[[float], None] = time.sleep
) -> str | None:
    """Tell a message to whom a config names; return a warning if that did not work, and never raise.

    Args:
        spec: Whom to tell, and what of.
        message: What ``message_of`` or ``failure_message`` returned.
        folder: That of the config, where a command is run.
        sleep: Waits between tries.
    """
    if not _is_wanted(spec, message):
        return None
    try:
        _try(spec, _encoded(message), folder, sleep)
    except (_NotToldError, EvalpluginError) as error:
        return redact_message(f"{_whom(spec)} was not told of the bake-off: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not cost a bake-off
        return f"{_whom(spec)} was not told of the bake-off: {type(error).__name__}"
    return None


def _is_wanted(spec: Notify, message: Mapping[str, Any]) -> bool:
    failed = message.get("failed") or message.get("error")
    return message["outcome"] in spec.on or (bool(failed) and "failure" in spec.on)


def _encoded(message: Mapping[str, Any]) -> bytes:
    # Half a character, which no encoding has, is written as JSON's own \\u escape.
    return json.dumps(message, allow_nan=False, ensure_ascii=False).encode(errors="backslashreplace")


def _about(config: CheckedConfig | ConfigHeader, experiment: str | None = None) -> ConfigHeader:
    """Return what is told of a config; an experiment that is named wins over its own."""
    about = config if isinstance(config, ConfigHeader) else ConfigHeader.of(config)
    return about if experiment is None else replace(about, experiment=experiment)


def _message(about: ConfigHeader, **known: Any) -> Message:
    from evalplugin._version import __version__

    message: Message = {
        "evalplugin": __version__,
        "outcome": "failure",
        "config": about.name,
        "experiment": about.experiment,
        "bakeoff": None,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "decision": None,
        "standings": [],
        "failed": [],
        "error": None,
        "links": {},
    }
    return redact_values(_plain(message | known))


def _standings(comparison: Comparison) -> dict[str, Any]:
    contest = comparison.contest
    models = []
    for row in comparison.models:
        cell = row.cells.get(contest.primary)
        numbers = {} if cell is None else {"mean": cell.mean, "low": cell.low, "high": cell.high}
        models.append({"model": row.model, "rank": row.rank, **numbers})
    return {
        "dataset": contest.dataset,
        "split": contest.split,
        "metric": contest.primary,
        "baseline": contest.baseline,
        "models": models,
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: what is no finite number is null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _try(spec: Notify, body: bytes, folder: Path, sleep: Callable[[float], None]) -> None:
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

    again = Retrying(
        stop=stop_after_attempt(spec.tries),
        wait=wait_exponential(max=_LONGEST_WAIT),
        retry=retry_if_exception_type(_NotNowError),
        sleep=sleep,
        reraise=True,
    )
    if spec.command is None:
        again(_post, fill_placeholders(spec.texts, key="notify.url")[0], body, spec.timeout_seconds)
    else:
        again(_run, fill_placeholders(spec.texts, key="notify.command"), body, spec.timeout_seconds, folder)


def _post(url: str, body: bytes, seconds: float) -> None:
    status = _within(seconds, lambda: _answer(url, body, seconds))
    if status in _TRY_AGAIN:
        raise _NotNowError(f"it answered {status}")
    if 300 <= status < 400:
        raise _NotToldError(f"it answered {status}, and redirects are not followed")
    if not 200 <= status < 300:
        raise _NotToldError(f"it answered {status}")


def _within(seconds: float, work: Callable[[], int]) -> int:
    """Return what work returns, and do not wait for it any longer.

    The limit of a request is one of each read: a server that sends a byte now and then would hold it for ever.
    """
    done: Future[int] = Future()

    def fill() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again below
            done.set_exception(error)

    threading.Thread(target=fill, daemon=True).start()
    try:
        return done.result(seconds)
    except TimeoutError:
        raise _NotNowError(f"no answer within {seconds:g} s") from None


def _answer(url: str, body: bytes, seconds: float) -> int:
    """Return the status that a server answers with."""
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
        untrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
        why = "its certificate is not trusted" if untrusted else "it makes no secure connection"
        raise _NotToldError(why) from None
    except requests.ConnectionError as error:
        raise _NotNowError(_trouble(error)) from None
    except (requests.RequestException, ValueError):
        # The library's own words would repeat the address, which may be the secret.
        raise _NotToldError("that is no address that can be posted to") from None


def _trouble(error: requests.ConnectionError) -> str:
    """Return what has happened to a connection, in words that do not repeat the address."""
    from urllib3.exceptions import ProtocolError

    reason = error.args[0] if error.args else None
    if not isinstance(reason, ProtocolError):
        return "it cannot be reached"
    cause = reason.args[-1]
    if isinstance(cause, HTTPException) and not isinstance(cause, ConnectionError):
        return "its answer is not HTTP"
    return "it closed the connection without an answer"


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
            raise _NotToldError(f"it cannot be started: {error.strerror}") from None
        try:
            process.communicate(body, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise _NotNowError(f"it took more than {seconds:g} s") from None
        finally:
            if process.poll() is None:
                _kill(process)
        if process.returncode != 0:
            output.seek(0)
            lines = output.read().decode(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
            raise _NotNowError(f"exit code {process.returncode}: {last[:300]}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has started."""
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _whom(spec: Notify) -> str:
    """Return whom a config names, for messages: of an address no more than its host, of a command its name."""
    if spec.command is not None:
        return f"notify.command ({spec.command[0]})"
    assert spec.url is not None
    if variables_in(spec.url):
        return f"notify.url ({', '.join(f'${{{name}}}' for name in variables_in(spec.url))})"
    return f"notify.url ({urlsplit(spec.url).hostname})"
