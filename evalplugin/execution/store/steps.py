"""Cached steps (folds, lists, scores): the inputs that their keys depend on, and their files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import StoreError
from evalplugin.base.fingerprint import digest
from evalplugin.base.parameters import as_mapping
from evalplugin.config import Named
from evalplugin.config.sections import StoreSpec
from evalplugin.data import SPLITS, Candidates, Interactions, Split, Splitter
from evalplugin.execution.results import Costs
from evalplugin.execution.store.entry import Files, key_of
from evalplugin.execution.store.folder import Store, store_path
from evalplugin.execution.store.journal import Journal
from evalplugin.execution.store.versions import code_of, own_code
from evalplugin.execution.tasks import Lists, Task, TaskResult, curve_ks
from evalplugin.metrics import METRICS, definitions_hash
from evalplugin.metrics.scores import PerUserScores
from evalplugin.models import MODELS, TopN

__all__ = ["StepCache"]

Depends = dict[str, Any]
T = TypeVar("T")


@dataclass
class StepCache:
    """The cached steps of a bake-off in a store; a step whose code has no version is never cached."""

    store: Store
    fresh: bool = False  # whether only entries that this bake-off has written itself are used
    journal: Journal | None = None  # of the bake-off, once it has one
    _used: list[str] = field(default_factory=list, repr=False)  # keys used before it had one

    @classmethod
    def open(cls, spec: StoreSpec, report: Callable[[str], None], *, fresh: bool = False) -> StepCache:
        """Return the cache in the store that a config names.

        Raises:
            StoreError: The store cannot be used.
        """
        return cls(Store(store_path(spec.path), max_size=spec.max_size, report=report), fresh)

    def attach(self, journal: Journal) -> None:
        """Record in a bake-off's journal the entries that it has used so far and will use."""
        self.journal, self.fresh = journal, journal.header.fresh
        for key in self._used:
            journal.record_use(key)

    def folds(self, data: Interactions, split: Named[Splitter], seed: int) -> list[Split] | None:
        """Return the folds of a dataset under a split; None if they are not cached."""
        return self._read(_folds_depend_on(data, split, seed), lambda folder: _read_folds(folder, data))

    def store_folds(
        self, data: Interactions, split: Named[Splitter], seed: int, folds: Sequence[Split]
    ) -> None:
        """Write the folds of a dataset under a split, if they are on its own users and items."""
        if all(_same_ids(data, part) for fold in folds for part in (fold.train, fold.test)):
            about = f"{split.name} of {len(data):,} interactions: {len(folds)} fold{'s' * (len(folds) > 1)}"
            self._write("folds", about, _folds_depend_on(data, split, seed), _folds_files(folds))

    def result(self, task: Task) -> TaskResult | None:
        """Return the result of a task, with its costs at that time; None if it is not cached."""
        lists = self.lists(task)
        return None if lists is None else self.scored(task, lists)

    def lists(self, task: Task) -> Lists | None:
        """Return the lists of a task; None if they are not cached or lack predictions that a metric needs."""
        lists = self._read(_lists_depend_on(task), _read_lists)
        lacking = lists is not None and task.needs_predictions and lists.unpredicted is not None
        return None if lacking else lists

    def scored(self, task: Task, lists: Lists) -> TaskResult | None:
        """Return the lists of a task with their scores; None if the scores are not cached."""
        return self._read(_scores_depend_on(task, lists), lambda folder: _read_scores(folder, lists))

    def store_result(self, task: Task, result: TaskResult) -> TaskResult:
        """Write the result of a task; return it, or that which another process has written in the meantime."""
        n_users, n = result.top_n.item.shape
        about = f"{task.model.name}: {', '.join(metric.name for metric in task.metrics)}"
        # Scores first: where another process has written lists, it has written their scores too.
        new = self._write("scores", about, _scores_depend_on(task, result.lists), _scores_files(result))
        if task.lists is None:
            about = f"{task.model.name} ({task.model.type}): {n} items for each of {n_users:,} users"
            new &= self._write("lists", about, _lists_depend_on(task), _lists_files(result.lists))
        return result if new else self.result(task) or result

    def _may_use(self, key: str) -> bool:
        return not self.fresh or (self.journal is not None and key in self.journal.written)

    def _read(self, depends_on: Depends | None, read: Callable[[Path], T]) -> T | None:
        """Return the contents of an entry as ``read`` returns them; None if it does not exist or is pruned."""
        if depends_on is None or not self._may_use(key := key_of(depends_on)):
            return None
        self._uses(key)  # first, so that no process prunes it from now on
        folder = self.store.find(key)
        try:
            return None if folder is None else read(folder)
        except OSError:
            return None

    def _write(self, step: str, about: str, depends_on: Depends | None, files: Files) -> bool:
        if depends_on is None:
            return True
        key = key_of(depends_on)
        self._uses(key)
        try:
            new = self.store.write(step, about, depends_on, files, replace=self.fresh)
        except (OSError, StoreError) as error:
            # With a full disk the result in memory can still be logged.
            self.store.report(f"store: cannot keep the {step} of {about}: {error}")
            return True
        if new and self.journal is not None:
            self.journal.record_write(key)
        return new

    def _uses(self, key: str) -> None:
        if self.journal is None:
            self._used.append(key)
        else:
            self.journal.record_use(key)


def _folds_depend_on(data: Interactions, split: Named[Splitter], seed: int) -> Depends | None:
    code = code_of(SPLITS.entry(split.type))
    if code is None:
        return None
    return {
        "step": "folds",
        "data": data.digest,
        "split": split.type,
        "params": as_mapping(split.component),
        "seed": seed,
        "code": _codes(code),
    }


def _lists_depend_on(task: Task) -> Depends | None:
    code = code_of(MODELS.entry(task.model.type))
    if code is None:
        return None
    return {
        "step": "lists",
        "train": task.split.train.digest,
        "test": task.split.test.digest,
        "candidates": _candidates_text(task.candidates),
        "model": task.model.type,
        "params": task.model.params,
        "params_hash": digest(task.model.params),
        "seed": task.seed,
        "stream": list(task.stream),
        "n": task.n,
        "code": _codes(code),
    }


def _scores_depend_on(task: Task, lists: Lists) -> Depends | None:
    of_lists = _lists_depend_on(task)
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
        "threshold": task.threshold,
        "curve_ks": curve_ks(task.n, task.metrics),
        "code": _codes(*codes),
    }


def _codes(*codes: str | None) -> list[str]:
    return [own_code(), *sorted({code for code in codes if code is not None} - {own_code()})]


def _candidates_text(candidates: Candidates) -> str:
    if candidates.kind != "sampled":
        return candidates.kind  # determined by train and test data
    assert candidates.included is not None
    drawn = hashlib.sha256()
    for array in (candidates.included.indptr, candidates.included.item):
        drawn.update(np.ascontiguousarray(array).data)
    return f"sampled {drawn.hexdigest()}"


def _content_of(lists: Lists) -> str:
    content = hashlib.sha256()
    top_n = lists.top_n
    for array in (top_n.user, top_n.item, top_n.score, lists.predictions):
        if array is not None:
            content.update(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes())
    return content.hexdigest()


def _same_ids(data: Interactions, part: Interactions) -> bool:
    pairs = ((data.users, part.users), (data.items, part.items))
    return all(ours.__array_interface__ == theirs.__array_interface__ for ours, theirs in pairs)


_COLUMNS = ("user", "item", "rating", "timestamp")


def _folds_files(folds: Sequence[Split]) -> Files:
    files: dict[str, Callable[[BinaryIO], object]] = {}
    facts = []
    for number, fold in enumerate(folds):
        for name, part in (("train", fold.train), ("test", fold.test)):
            for column in _COLUMNS:
                if (array := getattr(part, column)) is not None:
                    files[f"{number}-{name}-{column}.npy"] = _array(array)
        facts.append(
            {
                "fold": fold.fold,
                "overlap_allowed": fold.overlap_allowed,
                "notes": fold.notes,
                "train": fold.train.notes,
                "test": fold.test.notes,
            }
        )
    return {**files, "facts.json": _json(facts)}


def _read_folds(folder: Path, data: Interactions) -> list[Split]:
    folds = []
    names = _names_in(folder)
    for number, facts in enumerate(_read_json(folder / "facts.json")):
        parts = {}
        for name in ("train", "test"):
            files = {column: f"{number}-{name}-{column}.npy" for column in _COLUMNS}
            columns: dict[str, Any] = {
                c: np.load(folder / f) if f in names else None for c, f in files.items()
            }
            parts[name] = replace(data, **columns, notes=tuple(facts[name]))
        notes = tuple(facts["notes"])
        folds.append(
            Split(**parts, fold=facts["fold"], overlap_allowed=facts["overlap_allowed"], notes=notes)
        )
    return folds


def _lists_files(lists: Lists) -> Files:
    top_n = lists.top_n
    arrays: dict[str, npt.NDArray[Any]] = {"user": top_n.user, "item": top_n.item, "score": top_n.score}
    if lists.predictions is not None:
        arrays["predictions"] = lists.predictions
    facts = {"costs": asdict(lists.costs), "unpredicted": lists.unpredicted}
    return {**{f"{name}.npy": _array(a) for name, a in arrays.items()}, "facts.json": _json(facts)}


def _read_lists(folder: Path) -> Lists:
    names, predictions = _names_in(folder), "predictions.npy"
    facts = _read_json(folder / "facts.json")
    return Lists(
        TopN(*(np.load(folder / f"{name}.npy") for name in ("user", "item", "score"))),
        np.load(folder / predictions) if predictions in names else None,
        Costs(**facts["costs"]),
        facts["unpredicted"],
    )


def _scores_files(result: TaskResult) -> Files:
    scores = result.per_user
    facts = {
        "metrics": scores.metrics,
        "overall": scores.overall,
        "at_k": [[name, list(curve.items())] for name, curve in scores.at_k.items()],
        "pr_curve": list(scores.pr_curve.items()),
        "score_seconds": result.costs.score_seconds,
        "peak_memory_mb": result.costs.peak_memory_mb,
    }
    text = scores.users.dtype == object
    users = {"users.json": _json(scores.users.tolist())} if text else {"users.npy": _array(scores.users)}
    return {**users, "values.npy": _array(scores.values), "facts.json": _json(facts)}


def _read_scores(folder: Path, lists: Lists) -> TaskResult:
    facts = _read_json(folder / "facts.json")
    text = folder / "users.json"
    users = np.array(_read_json(text), dtype=object) if text.exists() else np.load(folder / "users.npy")
    per_user = PerUserScores(
        users=users,
        values=np.load(folder / "values.npy"),
        metrics=tuple(facts["metrics"]),
        overall=facts["overall"],
        at_k={name: dict(curve) for name, curve in facts["at_k"]},
        pr_curve=dict(facts["pr_curve"]),
    )
    scored = {name: facts[name] for name in ("score_seconds", "peak_memory_mb")}
    return TaskResult(lists, per_user, replace(lists.costs, **scored))


def _array(array: npt.NDArray[Any]) -> Callable[[BinaryIO], object]:
    return lambda file: np.save(file, array, allow_pickle=False)


def _json(value: object) -> Callable[[BinaryIO], object]:
    # JSON restores the exact floats: Python writes as many digits as that takes.
    return lambda file: file.write(json.dumps(value).encode())


def _names_in(folder: Path) -> set[str]:
    # Listed before any file is read: a file pruned meanwhile must not count as one that was never written.
    return {file.name for file in folder.iterdir()}


def _read_json(path: Path) -> Any:
    return json.loads(path.read_bytes())
