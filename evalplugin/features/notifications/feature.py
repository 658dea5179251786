"""Notifications in a bake-off: its outcome, errors too, as the config's ``notify`` specifies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evalplugin.base.errors import UnchangedError
from evalplugin.base.placeholders import unset_variables
from evalplugin.config import ConfigHeader
from evalplugin.execution.observer import Observer
from evalplugin.features.base import Feature, Results, Running
from evalplugin.features.notifications.delivery import deliver, is_wanted
from evalplugin.features.notifications.payload import Payload, failure_payload, payload_of, payload_with
from evalplugin.workspace import Workspace


@dataclass
class NotificationsFeature(Feature):
    """Sends the outcome to the notifier of the config and to the workspace's file, where there is one."""

    bakeoff: str | None = None  # id, once the bake-off is in MLflow
    results: Results | None = None

    @contextmanager
    def around(self, workspace: Workspace) -> Iterator[None]:
        """Send what came of the bake-off: its outcome, an error, or that it was interrupted or had nothing to do."""
        header = ConfigHeader.of(workspace.config, workspace.experiment)
        if header.notify is not None and (missing := unset_variables(*header.notify.texts)):
            workspace.observer.warn(
                f"notify: nobody will be told, as no value is set for {', '.join(missing)}"
            )
        payload = None
        try:
            yield
            assert self.results is not None
            payload = payload_of(header, self.results)
        except UnchangedError as error:
            payload = payload_with(header, outcome="unchanged", bakeoff=error.bakeoff)
            raise
        except Exception as error:
            payload = failure_payload(header, error, bakeoff=self.bakeoff)
            raise
        except KeyboardInterrupt:
            payload = payload_with(header, outcome="interrupted", bakeoff=self.bakeoff)
            raise
        finally:
            if payload is not None:
                _send(header, payload, workspace.observer, workspace.outcome_file)

    def opened(self, running: Running) -> None:
        """Keep the id."""
        self.bakeoff = running.bakeoff.id

    def end(self, running: Running, results: Results) -> Results:
        """Keep the results."""
        self.results = results
        return results


def notify_invalid_config(
    header: ConfigHeader, error: Exception, observer: Observer, outcome_file: Path | None = None
) -> None:
    """Notify that a config was not run, as it, or another config of the same command, is invalid.

    Args:
        header: What can be read of the config.
        error: Why it was not run.
        observer: Receives progress, and a warning if the notification fails.
        outcome_file: Receives the payload too.
    """
    _send(header, failure_payload(header, error), observer, outcome_file)


def _send(header: ConfigHeader, payload: Payload, observer: Observer, outcome_file: Path | None) -> None:
    """Write a payload to the file and send it to the notifier; a failure is a warning and ends nothing."""
    if outcome_file is not None:
        line = json.dumps(payload, ensure_ascii=False) + "\n"
        try:
            with outcome_file.open("ab") as out:
                out.write(line.encode(errors="backslashreplace"))
        except OSError as error:
            observer.warn(f"--outcome {outcome_file} could not be written: {error.strerror or error}")
    if header.notify is None or not is_wanted(header.notify, payload):
        return
    with observer.progress("notify"):
        warning = deliver(header.notify, payload, folder=header.folder)
    if warning is not None:
        observer.warn(warning)
