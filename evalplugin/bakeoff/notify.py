"""Notifications of a bake-off's outcome, to a command or a webhook; a failed one is a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalplugin.bakeoff.delivery import deliver, is_wanted
from evalplugin.bakeoff.flow import Outcome, run_bakeoff
from evalplugin.bakeoff.payload import Payload, failure_payload, payload_of, payload_with
from evalplugin.base.errors import UnchangedError
from evalplugin.base.placeholders import unset_variables
from evalplugin.config import CheckedConfig, ConfigHeader
from evalplugin.execution.observer import Observer, PythonWarnings
from evalplugin.workspace import Mode, Workspace

__all__ = ["notify_invalid_config", "run_and_notify"]


@dataclass(frozen=True)
class _Notifier:
    """Sender of the payloads of one config; it warns where that fails."""

    header: ConfigHeader
    observer: Observer | None
    on_payload: Callable[[Payload], None]

    def send(self, payload: Payload) -> None:
        self.on_payload(payload)
        spec = self.header.notify
        if spec is None or not is_wanted(spec, payload):
            return
        with (self.observer or Observer()).progress("notify"):
            warning = deliver(spec, payload, folder=self.header.folder)
        if warning is not None:
            self.warn(warning)

    def warn(self, text: str) -> None:
        if self.observer is not None:
            self.observer.warn(text)
        else:
            warnings.warn(text, RuntimeWarning, stacklevel=4)


def run_and_notify(
    config: CheckedConfig,
    *,
    data_home: Path | None = None,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    observer: Observer | None = None,
    mode: Mode = "run",
    on_payload: Callable[[Payload], None] = lambda payload: None,
    **options: Any,
) -> Outcome:
    """Run a bake-off by ``run_bakeoff``, and send its outcome, errors too, as the config's ``notify`` specifies.

    Args:
        config, data_home, tracking_uri, experiment, mode: As in ``Workspace.open``.
        observer: Receives progress. None: a notification that fails is a Python warning, and so is a setting that does
            not suit the data.
        on_payload: Receives every payload.
        options: Go to ``run_bakeoff``.

    Raises:
        EvalpluginError: As ``run_bakeoff``.
    """
    header = ConfigHeader.of(config, experiment)
    notifier = _Notifier(header, observer, on_payload)
    if header.notify is not None and (missing := unset_variables(*header.notify.texts)):
        notifier.warn(f"notify: nobody will be told, as no value is set for {', '.join(missing)}")
    ids: list[str] = []  # the bake-off's id, as soon as there is one
    try:
        workspace = Workspace.open(
            config,
            tracking_uri=tracking_uri,
            experiment=experiment,
            observer=observer or PythonWarnings(),
            mode=mode,
            data_home=data_home,
        )
        outcome = run_bakeoff(workspace, on_start=ids.append, **options)
    except UnchangedError as error:
        notifier.send(payload_with(header, outcome="unchanged", bakeoff=error.bakeoff))
        raise
    except Exception as error:
        notifier.send(failure_payload(header, error, bakeoff=next(iter(ids), None)))
        raise
    except KeyboardInterrupt:
        notifier.send(payload_with(header, outcome="interrupted", bakeoff=next(iter(ids), None)))
        raise
    links = outcome.links
    payload = payload_of(
        header,
        outcome.result,
        outcome.comparisons,
        decision=outcome.decision,
        unregistered=outcome.unregistered,
        findings=outcome.findings,
        links={"store": links.tracking_uri, "board": links.board_url, "compare": links.compare_url},
    )
    notifier.send(payload)
    return outcome


def notify_invalid_config(
    source: Path | Mapping[str, Any],
    error: Exception,
    *,
    overrides: Sequence[str] = (),
    experiment: str | None = None,
    observer: Observer | None = None,
    on_payload: Callable[[Payload], None] = lambda payload: None,
) -> None:
    """Notify that a config was not run, as it, or another config of the same command, is invalid.

    Its ``notify`` section is used if it can be read.
    """
    header = ConfigHeader.read(source, overrides)
    if experiment is not None:
        header = replace(header, experiment=experiment)
    _Notifier(header, observer, on_payload).send(failure_payload(header, error))
