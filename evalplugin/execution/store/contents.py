"""The files of cached steps (lists, scores), written and read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evalplugin.base.libraries import pa
from evalplugin.execution.results import Costs
from evalplugin.execution.store.entry import Files
from evalplugin.execution.tasks import TaskLists, TaskResult
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.models import TopN

_CODEC = "zstd"


def lists_files(lists: TaskLists) -> Files:
    """Return writers of the files of lists."""
    top_n = lists.top_n
    arrays: dict[str, npt.NDArray[Any]] = {"user": top_n.user, "item": top_n.item, "score": top_n.score}
    if lists.predictions is not None:
        arrays["predictions"] = lists.predictions
    facts = {"costs": asdict(lists.costs), "unpredicted": lists.unpredicted, "notes": lists.notes}
    return {**{f"{name}.zst": _array(a) for name, a in arrays.items()}, "facts.json": _json(facts)}


def read_lists(folder: Path) -> TaskLists:
    """Return lists from their files."""
    files = _read_files(folder)
    facts = files["facts.json"]
    return TaskLists(
        TopN(files["user.zst"], files["item.zst"], files["score.zst"]),
        files.get("predictions.zst"),
        Costs(**facts["costs"]),
        facts["unpredicted"],
        tuple(facts["notes"]),
    )


def scores_files(result: TaskResult) -> Files:
    """Return writers of the files of scores."""
    scores = result.per_user
    facts = {
        "unit": scores.units.noun,
        "metrics": scores.metrics,
        "overall": scores.overall,
        "at_k": [[name, list(curve.items())] for name, curve in scores.at_k.items()],
        "pr_curve": list(scores.pr_curve.items()),
        "score_seconds": result.costs.score_seconds,
        "peak_memory_mb": result.costs.peak_memory_mb,
    }
    text = scores.users.dtype == object
    users = {"users.json": _json(scores.users.tolist())} if text else {"users.zst": _array(scores.users)}
    return {**users, "values.zst": _array(scores.values), "facts.json": _json(facts)}


def read_scores(folder: Path, lists: TaskLists) -> TaskResult:
    """Return lists with their scores from the files of the scores."""
    files = _read_files(folder)
    facts, texts = files["facts.json"], files.get("users.json")
    per_user = PerUserScores(
        units=Units.of_lists(
            files["users.zst"] if texts is None else np.array(texts, dtype=object), facts["unit"]
        ),
        values=files["values.zst"],
        metrics=tuple(facts["metrics"]),
        overall=facts["overall"],
        at_k={name: dict(curve) for name, curve in facts["at_k"]},
        pr_curve=dict(facts["pr_curve"]),
    )
    scored = {name: facts[name] for name in ("score_seconds", "peak_memory_mb")}
    return TaskResult(lists, per_user, replace(lists.costs, **scored))


def _array(array: npt.NDArray[Any]) -> Callable[[BinaryIO], object]:
    """Return a writer of an array: a line with type and shape, and the compressed first bytes, second bytes and so on.

    Most values have the same high bytes, which so become few.
    """
    head = json.dumps([array.dtype.str, array.shape]).encode() + b"\n"
    places = np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8).T
    return lambda file: file.write(head + pa.Codec(_CODEC).compress(places.tobytes(), asbytes=True))


def _read_array(path: Path) -> npt.NDArray[Any]:
    content = path.read_bytes()
    head = content.index(b"\n") + 1
    dtype, shape = json.loads(content[:head])
    size = np.dtype(dtype).itemsize
    places = pa.Codec(_CODEC).decompress(memoryview(content)[head:], math.prod(shape) * size)
    values = np.frombuffer(places, np.uint8).reshape(size, -1).T
    return np.frombuffer(values.tobytes(), dtype).reshape(shape)


def _json(value: object) -> Callable[[BinaryIO], object]:
    # JSON restores the exact floats: Python writes as many digits as that takes.
    return lambda file: file.write(json.dumps(value).encode())


def _read_files(folder: Path) -> dict[str, Any]:
    # Listed before any file is read: a file pruned meanwhile must not count as one that was never written.
    arrays, values = list(folder.glob("*.zst")), list(folder.glob("*.json"))
    contents = {file.name: json.loads(file.read_bytes()) for file in values}
    return contents | {file.name: _read_array(file) for file in arrays}
