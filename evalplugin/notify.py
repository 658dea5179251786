"""Telling others what came of a bake-off, as JSON: a command or an address hears of it, or a warning is left."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evalplugin.bakeoff import Outcome, run_bakeoff
from evalplugin.comparison import Comparison
from evalplugin.config import CheckedConfig
from evalplugin.config.schema import Notify
from evalplugin.errors import EvalpluginError, UnchangedError
from evalplugin.gate import Decision
from evalplugin.placeholders import fill, missing_in, names_in
from evalplugin.redaction import hide, redact_values
from evalplugin.results import BakeoffResult
from evalplugin.runner import Observer, Silent

__all__ = ["Message", "failure_message", "message_of", "notify", "run_and_tell"]

Message = dict[str, Any]

_LONGEST_WAIT = 30  # seconds between two tries
_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)  # answers of a server that may be another next time


class _NotToldError(Exception):
    """Why a try failed, in words that hold no secret."""


class _NotNowError(_NotToldError):
    """The same, where another try may work."""


def run_and_tell(
    config: CheckedConfig,
    *,
    observer: Observer | None = None,
    hear: Callable[[Message], None] = lambda message: None,
    **how: Any,
) -> Outcome:
    """Return what ``run_bakeoff`` returns, and tell whom the config names and ``hear`` what came of it, errors too.

    ``how`` is handed on. Without an observer, a Python warning says that somebody could not be told.

    Raises:
        EvalpluginError: As ``run_bakeoff``.
    """
    spec = config.spec.notify

    def warn(text: str) -> None:
        if observer is not None:
            observer.say(f"warning: {text}")
        else:
            warnings.warn(text, RuntimeWarning, stacklevel=4)

    def tell(message: Message) -> None:
        hear(message)
        if spec is None or not _is_wanted(spec, message):
            return
        with (observer or Silent()).work("notify"):
            warning = notify(spec, message, folder=config.folder)
        if warning is not None:
            warn(warning)

    if spec is not None and (missing := missing_in(*spec.texts)):
        warn(f"notify: nobody will be told, as no value is set for {', '.join(missing)}")
    try:
        outcome = run_bakeoff(config, observer=observer, **how)
    except UnchangedError as error:
        hear(_message(config, outcome="unchanged", bakeoff=error.bakeoff))
        raise
    except Exception as error:
        tell(failure_message(config, error))
        raise
    links = outcome.links
    shown = {"store": links.tracking_uri, "board": links.board_url, "compare": links.compare_url}
    tell(message_of(config, outcome.result, outcome.comparisons, decision=outcome.decision, links=shown))
    return outcome


def message_of(
    config: CheckedConfig,
    result: BakeoffResult,
    comparisons: Sequence[Comparison],
    *,
    decision: Decision | None = None,
    links: Mapping[str, str | None] | None = None,
) -> Message:
    """Return what came of a bake-off as values that JSON can hold, without credentials.

    ``decision`` is what the gate decided, if there is one; ``links`` lead to the results.
    """
    outcome = "failure" if result.failed else "done"
    return _message(
        config,
        outcome=outcome if decision is None else decision.outcome,
        bakeoff=result.bakeoff.id,
        experiment=result.bakeoff.experiment,
        decision=None if decision is None else json.loads(decision.to_json()),
        standings=[_standings(comparison) for comparison in comparisons],
        failed={model.model: model.failure for model in result.failed},
        links=dict(links or {}),
    )


def failure_message(config: CheckedConfig, error: BaseException) -> Message:
    """Return what is told of a bake-off that was cut short by an error; the same keys as ``message_of``."""
    text = str(error) if isinstance(error, EvalpluginError) else f"{type(error).__name__}: {error}"
    return _message(config, outcome="failure", error=text)


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
        _try(spec, json.dumps(message, allow_nan=False, ensure_ascii=False), folder, sleep)
    except (_NotToldError, EvalpluginError) as error:
        return hide(f"{_whom(spec)} was not told of the bake-off: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not cost a bake-off
        return f"{_whom(spec)} was not told of the bake-off: {type(error).__name__}"
    return None


def _is_wanted(spec: Notify, message: Mapping[str, Any]) -> bool:
    return message["outcome"] in spec.on or (bool(message["failed"]) and "failure" in spec.on)


def _message(config: CheckedConfig, **known: Any) -> Message:
    from evalplugin import __version__

    message: Message = {
        "evalplugin": __version__,
        "outcome": "failure",
        "config": config.name,
        "experiment": config.spec.experiment,
        "bakeoff": None,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "decision": None,
        "standings": [],
        "failed": {},
        "error": None,
        "links": {},
    }
    return redact_values(_plain(message | known))


def _standings(comparison: Comparison) -> dict[str, Any]:
    contest = comparison.contest
    models = []
    for row in comparison.standings:
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


def _try(spec: Notify, text: str, folder: Path, sleep: Callable[[float], None]) -> None:
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

    again = Retrying(
        stop=stop_after_attempt(spec.tries),
        wait=wait_exponential(max=_LONGEST_WAIT),
        retry=retry_if_exception_type(_NotNowError),
        sleep=sleep,
        reraise=True,
    )
    if spec.command is None:
        again(_post, fill(spec.texts, place="notify.url")[0], text, spec.timeout_seconds)
    else:
        again(_run, fill(spec.texts, place="notify.command"), text, spec.timeout_seconds, folder)


def _post(url: str, text: str, seconds: float) -> None:
    import requests

    try:
        # The answer's body is not read: it may be long, slow, and repeat what was sent.
        with requests.post(
            url,
            data=text.encode(),
            headers={"Content-Type": "application/json"},
            timeout=seconds,
            allow_redirects=False,
            stream=True,
        ) as answer:
            status = answer.status_code
    except requests.Timeout:
        raise _NotNowError(f"no answer within {seconds:g} s") from None
    except requests.exceptions.SSLError:
        raise _NotToldError("its certificate is not trusted") from None
    except requests.ConnectionError:
        raise _NotNowError("it cannot be reached") from None
    except (requests.RequestException, ValueError):
        # The library's own words would repeat the address, which may be the secret.
        raise _NotToldError("that is no address that can be posted to") from None
    if status in _TRY_AGAIN:
        raise _NotNowError(f"it answered {status}")
    if not 200 <= status < 300:
        raise _NotToldError(f"it answered {status}")


def _run(command: Sequence[str], text: str, seconds: float, folder: Path) -> None:
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
            process.communicate(text.encode(), timeout=seconds)
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
    if names_in(spec.url):
        return f"notify.url ({', '.join(f'${{{name}}}' for name in names_in(spec.url))})"
    return f"notify.url ({urlsplit(spec.url).hostname})"
