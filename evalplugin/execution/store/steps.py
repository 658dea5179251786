"""Cached steps (lists, scores): the inputs that their keys depend on, and their files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evalplugin.base.errors import DataError, StoreError
from evalplugin.base.fingerprint import digest
from evalplugin.base.secrets import redact
from evalplugin.base.units import plural
from evalplugin.execution.store.contents import (
    lists_files,
    read_lists,
    read_scores,
    scores_files,
)
from evalplugin.execution.store.entry import Files, key_of
from evalplugin.execution.store.folder import Store
from evalplugin.execution.store.journal import Journal
from evalplugin.execution.store.versions import code_of, own_code
from evalplugin.execution.tasks import Task, TaskLists, TaskResult, curve_ks
from evalplugin.files.inputs import CHANGED, Resolve, fingerprint_of
from evalplugin.files.uri_fingerprints import uri_fingerprint
from evalplugin.metrics import METRICS, definitions_hash
from evalplugin.models import MODELS

Depends = dict[str, Any]
T = TypeVar("T")


@dataclass
class StepCache:
    """The cached steps of a bake-off in a store.

    A step is never cached if its code has no version, or if it cannot be known whether one of its inputs has changed.
    ``task.inputs`` are the inputs that the config names.
    """

    store: Store
    fresh: bool = False  # whether the entries of earlier bake-offs are not used
    journal: Journal | None = None  # of the bake-off, once it has one
    resolve: Resolve = uri_fingerprint  # returns the fingerprint of a URI
    # Fingerprints of the inputs that the config names, as they were first.
    _named: dict[str, str] = field(default_factory=dict, repr=False)
    _used: list[str] = field(default_factory=list, repr=False)  # keys used before it had one

    def attach(self, journal: Journal) -> None:
        """Record in a bake-off's journal the entries that it has used so far and will use."""
        self.journal, self.fresh = journal, journal.header.fresh
        for key in self._used:
            journal.record_use(key)

    def declare(self, names: Sequence[str]) -> None:
        """Look up inputs that the config declares.

        Raises:
            DataError: It cannot be known whether one of them has changed.
        """
        self._named |= {name: fingerprint_of(name, self.resolve) for name in names}

    def named(self, names: Sequence[str]) -> dict[str, str]:
        """Return the fingerprints of inputs that the config names, as of the first call."""
        for name in names:
            if name not in self._named:
                self._named[name] = self._fingerprint(name)
        return {redact(name): self._named[name] for name in names}

    @property
    def inputs(self) -> dict[str, str]:
        """The fingerprints of all inputs that the config names, as far as they were asked for."""
        return self.named(list(self._named))

    def result(self, task: Task) -> TaskResult | None:
        """Return the result of a task, with its costs at that time; None if it is not cached."""
        lists = self.lists(task)
        return None if lists is None else self.scored(task, lists)

    def lists(self, task: Task) -> TaskLists | None:
        """Return the lists of a task; None if they are not cached, or lack predictions that a metric needs."""
        lists = self._read(self._lists_depend_on(task), read_lists)
        lacking = lists is not None and task.needs_predictions and lists.unpredicted is not None
        return None if lacking else lists

    def scored(self, task: Task, lists: TaskLists) -> TaskResult | None:
        """Return the lists of a task with their scores; None if the scores are not cached."""
        depends_on = self._scores_depend_on(task, lists)
        return self._read(depends_on, lambda folder: read_scores(folder, lists))

    def store_result(self, task: Task, result: TaskResult) -> TaskResult:
        """Write the result of a task; return it, or the result that another process has written in the meantime."""
        about = f"{task.model.name}: {', '.join(metric.name for metric in task.metrics)}"
        # Scores first: where another process has written lists, it has written their scores too.
        depends_on, files = self._scores_depend_on(task, result.lists), scores_files(result)
        new = self._write(about, depends_on, files, task.inputs)
        if task.lists is None:
            new &= self.store_lists(task, result.lists)
        return result if new else self.result(task) or result

    def store_lists(self, task: Task, lists: TaskLists) -> bool:
        """Write the lists of a task; return False if another process has written them in the meantime."""
        n_users, n = lists.top_n.item.shape
        about = f"{task.model.name} ({task.model.type}): {n} items for each of {n_users:,} {plural(task.split.unit)}"
        depends_on, files = self._lists_depend_on(task), lists_files(lists)
        return self._write(about, depends_on, files, task.inputs)

    def _fingerprint(self, name: str) -> str:
        try:
            return fingerprint_of(name, self.resolve)
        except DataError as error:
            if name not in self._named:
                self.store.report(f"warning: {error}; what depends on it is computed again")
            return CHANGED

    def _read(self, depends_on: Depends | None, read: Callable[[Path], T]) -> T | None:
        """Return the contents of an entry as ``read`` returns them; None if it does not exist or cannot be used."""
        if depends_on is None:
            return None
        key = key_of(depends_on)
        if self.fresh and (self.journal is None or key not in self.journal.entries):
            return None
        if not self.store.folder_of(key).exists():
            return None
        self._uses(key)  # first, so that no process prunes it from now on
        folder = self.store.find(key)
        try:
            return None if folder is None else read(folder)
        except OSError:  # pruned by another process in the meantime
            return None

    def _write(self, about: str, depends_on: Depends | None, files: Files, named: Sequence[str]) -> bool:
        """Write an entry; return False if another process has written it in the meantime."""
        if depends_on is None:
            return True
        # The step may have used it before or after the change.
        if changed := next((name for name in named if self._fingerprint(name) != self._named[name]), None):
            self._named[changed] = CHANGED
            self.store.report(
                f"store: cannot keep the {depends_on['step']} of {about}: {redact(changed)} has changed meanwhile"
            )
            return True
        try:
            new = self.store.write(about, depends_on, files, replace=self.fresh)
        except (OSError, StoreError) as error:
            # With a full disk the result in memory can still be logged.
            self.store.report(f"store: cannot keep the {depends_on['step']} of {about}: {error}")
            return True
        self._uses(key_of(depends_on))  # afterwards: a fresh bake-off that is resumed uses what was written
        return new

    def _lists_depend_on(self, task: Task) -> Depends | None:
        code, inputs = code_of(MODELS.entry(task.model.type)), self._known_inputs(task.inputs)
        if code is None or inputs is None:
            return None
        split = task.split
        # Models of sequences learn from the order of events.
        optional = {"history": split.history, "log": split.log, "history_log": split.history_log}
        return {
            "step": "lists",
            "train": split.train.digest,
            "test": split.test.digest,
            **{name: None if part is None else part.digest for name, part in optional.items()},
            "candidates": task.candidates.digest,
            "model": task.model.type,
            "params": task.model.params,
            "params_hash": digest(task.model.params),
            "seed": task.seed,
            "stream": list(task.stream),
            "n": task.n,
            "ties": None if task.ties is None else list(task.ties),
            "cold_users": task.cold_users,
            "race": None if task.race is None else task.race.digest,
            "code": _codes(code),
            "inputs": inputs,
        }

    def _scores_depend_on(self, task: Task, lists: TaskLists) -> Depends | None:
        of_lists = self._lists_depend_on(task)
        codes = [code_of(METRICS.entry(metric.family)) for metric in task.metrics]
        if of_lists is None or None in codes:
            return None
        return {
            "step": "scores",
            "lists": key_of(of_lists),
            # Lists with the same key may differ, as not every model is deterministic.
            "content": _content_of(lists),
            "metrics": [metric.name for metric in task.metrics],
            "definitions": definitions_hash(task.metrics),
            "threshold": task.relevance.threshold,
            "curve_ks": curve_ks(task.n, task.metrics),
            "shown": None if task.split.shown is None else task.split.shown.digest,
            "code": _codes(*codes),
        }

    def _known_inputs(self, names: Sequence[str]) -> dict[str, str] | None:
        """Return the fingerprints of inputs; None if it cannot be known whether one of them has changed."""
        inputs = self.named(names)
        return None if CHANGED in inputs.values() else inputs

    def _uses(self, key: str) -> None:
        if self.journal is None:
            self._used.append(key)
        else:
            self.journal.record_use(key)


def _codes(*codes: str | None) -> list[str]:
    return [own_code(), *sorted({code for code in codes if code is not None} - {own_code()})]


def _content_of(lists: TaskLists) -> str:
    content = hashlib.sha256()
    top_n = lists.top_n
    for array in (top_n.user, top_n.item, top_n.score, lists.predictions):
        if array is not None:
            content.update(f"{array.dtype.str} {array.shape} ".encode())
            content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()
