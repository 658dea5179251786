"""Notifications in a bake-off: its outcome, errors too, as values that JSON can hold, without credentials."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evalplugin._version import __version__
from evalplugin.base.errors import ConfigError, EvalpluginError, UnchangedError
from evalplugin.base.placeholders import unset_variables
from evalplugin.base.places import DataSplit
from evalplugin.base.secrets import redact_values
from evalplugin.comparison.comparison import Comparison
from evalplugin.config.load import read_source
from evalplugin.execution.observer import Observer
from evalplugin.features.base import Bakeoff, Feature
from evalplugin.features.notifications.delivery import deliver, is_wanted
from evalplugin.features.notifications.section import Notify
from evalplugin.report.sentences.verdict import verdict

Payload = dict[str, Any]


@dataclass
class NotificationsFeature(Feature):
    """Sends the outcome to the notifier of the config and to the workspace's file, where there is one."""

    bakeoff: str | None = None  # id, once the bake-off is in MLflow

    @contextmanager
    def around(self, bakeoff: Bakeoff) -> Iterator[None]:
        """Send the end of the bake-off: its outcome, an error, an interruption, or that nothing had changed."""
        workspace, config = bakeoff.workspace, bakeoff.workspace.config
        header = ConfigHeader(config.name, config.folder, workspace.experiment, config.section("notify"))
        if header.notify is not None and (missing := unset_variables(*header.notify.texts)):
            workspace.observer.warn(
                f"notify: nobody will be told, as no value is set for {', '.join(missing)}"
            )
        payload = None
        try:
            yield
            payload = payload_of(header, bakeoff)
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
                notify(header, payload, workspace.observer, workspace.outcome_file)

    def opened(self, bakeoff: Bakeoff) -> None:
        """Keep the id."""
        self.bakeoff = bakeoff.plan.id


@dataclass(frozen=True)
class ConfigHeader:
    """A config's name, experiment and notifier; known even where the rest of the config is wrong."""

    name: str
    folder: Path
    experiment: str | None = None
    notify: Notify | None = None

    @classmethod
    def read(
        cls, source: Path | Mapping[str, Any], overrides: Sequence[str] = (), experiment: str | None = None
    ) -> ConfigHeader:
        """Return the parts that can be read, whatever is wrong with the config and the assignments.

        An experiment that is given wins over the config's.
        """
        try:
            document, folder = read_source(source)
        except Exception:  # noqa: BLE001 - `load` reports it
            name, folder = (
                (str(source), source.parent) if isinstance(source, Path) else ("python", Path.cwd())
            )
            return cls(name, folder, experiment)
        for assignment in overrides:
            with suppress(ConfigError):
                document = document.override([assignment])
        named, notify = document.data.get("experiment"), None
        with suppress(ValidationError):
            notify = Notify.model_validate(document.data.get("notify"))
        return cls(document.name, folder, experiment or (named if isinstance(named, str) else None), notify)


def tell_of_failure(
    error: BaseException,
    source: Path | Mapping[str, Any],
    observer: Observer,
    *,
    overrides: Sequence[str] = (),
    experiment: str | None = None,
    outcome_file: Path | None = None,
) -> None:
    """Tell the notifier of a config, right or wrong, that its bake-off could not be run.

    Args:
        error: The reason.
        source, overrides: The config, as in ``config.load``.
        observer, outcome_file: As in ``notify``.
        experiment: Wins over the config's.
    """
    header = ConfigHeader.read(source, overrides, experiment)
    notify(header, failure_payload(header, error), observer, outcome_file)


def notify(
    header: ConfigHeader, payload: Payload, observer: Observer, outcome_file: Path | None = None
) -> None:
    """Write a payload to a file and send it to the notifier of a config; a failure is a warning and ends nothing.

    Args:
        header: What can be read of the config.
        payload: From ``payload_of`` or ``failure_payload``.
        observer: Receives progress, and a warning if the notification fails.
        outcome_file: Receives the payload too.
    """
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


def payload_of(header: ConfigHeader, bakeoff: Bakeoff) -> Payload:
    """Return the payload of a bake-off that was run to its end.

    Under ``failed`` each model that failed is listed once for every dataset and split on which it did: ``dataset``,
    ``split``, ``model``, ``error``. The facts of the features are added.
    """
    links = bakeoff.links
    known = {
        "outcome": "failure" if bakeoff.failed else "done",
        "bakeoff": bakeoff.plan.id,
        "standings": [_standings(comparison) for comparison in bakeoff.comparisons],
        "failed": [
            {**DataSplit.of(model.data)._asdict(), "model": model.model, "error": model.failure}
            for model in bakeoff.failed
        ],
        "links": {"store": links.tracking_uri, "board": links.board_url, "compare": links.compare_url},
    }
    return payload_with(header, **(known | bakeoff.facts()))


def failure_payload(header: ConfigHeader, error: BaseException, *, bakeoff: str | None = None) -> Payload:
    """Return the payload of a bake-off that was cut short by an error; the same keys as ``payload_of``."""
    text = str(error) if isinstance(error, EvalpluginError) else f"{type(error).__name__}: {error}"
    return payload_with(header, outcome="failure", error=text, bakeoff=bakeoff)


def payload_with(header: ConfigHeader, **known: Any) -> Payload:
    """Return a payload with the values that are known, and defaults for the rest."""
    payload: Payload = {
        "evalplugin": __version__,
        "outcome": "failure",
        "config": header.name,
        "experiment": header.experiment,
        "bakeoff": None,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "decision": None,
        "standings": [],
        "failed": [],
        "checks": [],
        "error": None,
        "links": {},
    }
    return redact_values(_finite(payload | known))


def _standings(comparison: Comparison) -> dict[str, Any]:
    contest = comparison.contest
    models = []
    for row in comparison.models:
        cell = row.cells.get(contest.primary)
        numbers = {} if cell is None else {"mean": cell.mean, "low": cell.low, "high": cell.high}
        models.append({"model": row.model, "rank": row.rank, **numbers})
    return {
        **contest.place._asdict(),
        "metric": contest.primary,
        "baseline": contest.baseline,
        "may_be_best": comparison.may_be_best,
        "verdict": verdict(comparison).headline,
        "models": models,
    }


def _finite(value: Any) -> Any:
    """Return a value with null in place of NaN and infinity, which JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


FEATURE = NotificationsFeature
