"""Run one job of ``sessions.py`` in its own process: ``python sessions_work.py TOOL CLICKS PARAMS [CLONE]``.

TOOL is evalplugin, or a class of session-rec, whose clone is the last argument. It prints JSON. Only what a job needs
is imported, so that each runs in its own environment.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def clicks(folder: Path, part: str) -> pd.DataFrame:
    """Return the clicks of a part in order."""
    table = pd.read_csv(folder / f"yoochoose-clicks-100k_{part}.txt", sep="\t")
    return table.sort_values(["SessionId", "Time"], kind="stable")


def evalplugin(folder: Path, params: dict[str, Any]) -> dict[str, float]:
    """Time ``session.knn`` after each event, whose history are the events of its session up to it."""
    from evalplugin.data import Candidates, Interactions
    from evalplugin.models import MODELS, recommend
    from evalplugin.models.base import ListRequest

    train, test = clicks(folder, "train_full"), clicks(folder, "test")
    items = np.unique(train.ItemId)

    def events(table: pd.DataFrame, user: np.ndarray, users: np.ndarray) -> Interactions:
        return Interactions(
            user=user.astype(np.int32),
            item=np.searchsorted(items, table.ItemId).astype(np.int32),
            rating=np.ones(len(table), dtype=np.float32),
            timestamp=np.round(table.Time.to_numpy() * 1000).astype(np.int64),
            users=users,
            items=items,
            events=True,
        )

    users, user = np.unique(train.SessionId, return_inverse=True)
    data = events(train, user, users)
    length = test.groupby("SessionId").cumcount().to_numpy() + 1
    rows = np.concatenate([np.arange(end - n, end) for end, n in enumerate(length.tolist(), 1)])
    history = events(test.iloc[rows], np.repeat(np.arange(len(test)), length), np.arange(len(test)))
    queries = np.arange(len(test), dtype=np.int32)
    fits, lists = [], []
    for _ in range(3):
        model = MODELS.create("session.knn", params)
        model.prepare()
        start = time.perf_counter()
        model.fit(data, np.random.default_rng(0))
        fitted = time.perf_counter()
        recommend(model, ListRequest(data, queries, 20, Candidates("all"), history=history))
        fits.append(fitted - start)
        lists.append(time.perf_counter() - fitted)
    return {"fit": min(fits), "lists": min(lists), "queries": len(test)}


def session_rec(name: str, folder: Path, params: dict[str, Any], clone: Path) -> dict[str, float]:
    """Time ``predict_next`` of a class of session-rec after each event."""
    sys.path.insert(0, str(clone / "algorithms" / "knn"))
    module, cls = name.split(".")
    model = getattr(importlib.import_module(module), cls)(**params)
    train, test = clicks(folder, "train_full"), clicks(folder, "test")
    start = time.perf_counter()
    model.fit(train)
    fitted = time.perf_counter()
    items = train.ItemId.unique()
    for session, item, at in zip(test.SessionId, test.ItemId, test.Time, strict=True):
        model.predict_next(session, item, items, timestamp=at)
    return {"fit": fitted - start, "lists": time.perf_counter() - fitted, "queries": len(test)}


def main() -> int:
    """Print the costs of the job."""
    tool, folder, params, *clone = sys.argv[1:]
    if tool == "evalplugin":
        cost = evalplugin(Path(folder), json.loads(params))
    else:
        cost = session_rec(tool, Path(folder), json.loads(params), Path(clone[0]))
    print(json.dumps(cost))
    return 0


if __name__ == "__main__":
    sys.exit(main())
