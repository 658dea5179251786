"""Which bake-off is continued: the newest unfinished one of which all that was asked is still the same."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from evalplugin.base.errors import StoreError
from evalplugin.base.fingerprint import fingerprint
from evalplugin.base.secrets import redact
from evalplugin.config import CheckedConfig
from evalplugin.data import SPLITS
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Prepared
from evalplugin.execution.store.entries import DEFAULT_PATH, STORE, store_path
from evalplugin.execution.store.journal import Header, Journal, is_running, unfinished
from evalplugin.execution.store.steps import Kept
from evalplugin.execution.store.versions import code_of, own_code
from evalplugin.metrics import METRICS
from evalplugin.models import MODELS

__all__ = ["Mode", "asked_of", "begin", "given_up", "go_on", "is_waiting", "since"]

Mode = Literal["run", "fresh", "resume", "sync"]

_CHANGED = {
    "config": "the config",
    "experiment": "the experiment",
    "tracking": "the tracking store",
    "data": "the data",
    "code": "the code (evalplugin, its libraries or a plugin)",
}


def asked_of(
    config: CheckedConfig, prepared: Sequence[Prepared], *, experiment: str, tracking: str
) -> dict[str, str]:
    """Return all that must be the same for a bake-off to be continued, by part; no credentials."""
    codes = {
        own_code(),
        *(code_of(MODELS.entry(model.type)) for model in config.models),
        *(code_of(METRICS.entry(metric.family)) for metric in config.metrics),
        *(code_of(SPLITS.entry(split.type)) for split in config.splits),
    }
    return {
        "config": fingerprint([config.hash, *config.deciding("comparison", "groups", "failures").values()]),
        "experiment": experiment,
        "tracking": redact(tracking),
        "data": fingerprint(
            [[one.info.full.digest, *(s.digest for s in one.info.segments)] for one in prepared]
        ),
        "code": fingerprint(sorted(map(str, codes))),
    }


def begin(header: Header, kept: Kept, mode: Mode, observer: Observer) -> Journal:
    """Return the journal of the bake-off to go on with, or else that of a new one, which ``header`` describes.

    Raises:
        StoreError: With ``sync`` there is none to go on with.
    """
    journal = None
    if mode in ("resume", "sync"):
        journal, words = _continued(kept.store.journals, header.asked)
        if journal is None and mode == "sync":
            raise StoreError(words)
        observer.report(words if journal is not None else f"{words}; this is a new one")
    journal = journal or Journal.start(kept.store.journals, header)
    journal.report = kept.store.report
    kept.belongs_to(journal)
    return journal


def is_waiting(kept: Kept, asked: Mapping[str, str]) -> bool:
    """Return whether a bake-off was cut off of which all that was asked is the same."""
    found = [one for one in unfinished(kept.store.journals) if one.header.asked == asked]
    return any(not is_running(one) for one in found)


def given_up(new: Journal) -> list[Journal]:
    """Return the bake-offs that a new one takes the place of; they cannot be continued any more."""
    found = []
    for one in unfinished(new.path.parent):
        if one.path != new.path and one.header.asked == new.header.asked:
            journal = Journal.take_up(one.path)
            if journal is not None:
                journal.close(finished=True)
                found.append(journal)
    return found


def go_on(journal: Journal) -> str:
    """Return how a bake-off that ended early is continued, in words."""
    if not journal.header.command:
        return "to go on: evalplugin.run(..., resume=True)"
    return f"to go on: {_variable(journal)}python -m evalplugin run --resume {shlex.join(journal.header.command)}"


def since(journal: Journal) -> str:
    """Return when a bake-off was started, in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(journal.header.started))


def _variable(journal: Journal) -> str:
    """Return what is to be typed first: the store, where it is another one without the environment."""
    named = os.environ.get(STORE, "")
    from_there = journal.path.parents[1] == store_path(named) != store_path(DEFAULT_PATH)
    return f"{STORE}={shlex.quote(named)} " if from_there else ""


def _continued(folder: Path, asked: Mapping[str, str]) -> tuple[Journal | None, str]:
    """Return the journal to go on with, None if there is none, and what there is to say about it."""
    different = ""
    for one in unfinished(folder):
        parts = [words for part, words in _CHANGED.items() if one.header.asked.get(part) != asked[part]]
        what = f"the bake-off {one.header.id}, started {since(one)},"
        if not parts:
            if (journal := Journal.take_up(one.path)) is not None:
                return journal, f"continuing {what} which was cut off"
            different = different or f"{what} is being run by another process"
        elif one.header.asked.get("config") == asked["config"]:
            different = different or f"{what} differs in {' and '.join(parts)}"
    return None, f"nothing to continue: {different or 'no bake-off of this config was cut off'}"
