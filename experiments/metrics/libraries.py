"""Values of Elliot's and RecBole's own code on drawn data, with which tests/metrics/test_library_values.py compares.

Both need libraries that do not go with ours, so that only the files of their metrics are imported:

    git clone --branch v0.3.1 https://github.com/sisinflab/elliot
    pip download --no-deps recbole==1.2.1 && unzip recbole-1.2.1-py3-none-any.whl -d recbole
    python experiments/metrics/libraries.py elliot recbole

It writes tests/metrics/libraries.json.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import rankdata

USERS, ITEMS, LISTED, K = 40, 60, 12, 5
TO = Path(__file__).parents[2] / "tests" / "metrics"


def main(elliot: str, recbole: str) -> None:
    """Write libraries.json."""
    rng = np.random.default_rng(5)
    lists, truth, train = _lists(rng)
    judged, balanced = _judged(rng, balanced=False), _judged(rng, balanced=True)
    _import_files_of("elliot", Path(elliot))
    _import_files_of("recbole", Path(recbole))
    drawn = {
        "k": K,
        "items": ITEMS,
        "lists": lists,
        "truth": truth,
        "train": train,
        "elliot": _elliot(lists, truth, train),
        "judged": judged,
        "balanced": balanced,
        "recbole": _recbole(judged) | {"balanced gauc": _recbole(balanced)["gauc"]},
    }
    (TO / "libraries.json").write_text(json.dumps(drawn) + "\n")


def _lists(rng: np.random.Generator) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Return lists, truth and train data; lists and truth have no item of the user's train data."""
    chance = np.linspace(0.9, 0.02, ITEMS)
    known = rng.random((USERS, ITEMS)) < chance
    lists, truth = [], []
    for row in known:
        new = rng.permutation(np.flatnonzero(~row))
        truth.append(sorted(new[:4].tolist()))
        lists.append(rng.permutation(new)[:LISTED].tolist())
    return lists, truth, [np.flatnonzero(row).tolist() for row in known]


def _judged(rng: np.random.Generator, *, balanced: bool) -> dict[str, list[list[float]]]:
    """Return relevance and predicted probabilities of each user's pairs; ``balanced``: half of them are relevant."""
    truth, predictions = [], []
    for _ in range(USERS):
        n = 2 * int(rng.integers(2, 7))
        relevant = rng.permutation(np.arange(n) % 2) if balanced else rng.integers(0, 2, n)
        relevant[:2] = (0, 1)  # both kinds
        if balanced:
            relevant[2:] = rng.permutation(np.arange(n - 2) % 2)
        truth.append(relevant.astype(float).tolist())
        predictions.append((rng.integers(1, 20, n) / 20).tolist())  # some are equal
    return {"truth": truth, "predictions": predictions}


def _import_files_of(package: str, folder: Path) -> None:
    """Make the modules of a package importable one by one, without what its own ``__init__`` files import."""
    for name in (package, f"{package}.evaluation", f"{package}.evaluation.metrics", f"{package}.evaluator"):
        module = ModuleType(name)
        module.__path__ = [str(folder / Path(*name.split(".")))]
        sys.modules[name] = module


def _elliot(lists: list[list[int]], truth: list[list[int]], train: list[list[int]]) -> dict[str, float]:
    """Return the values of Elliot's metrics of popularity bias."""
    known = sparse.lil_matrix((USERS, ITEMS))
    for user, items in enumerate(train):
        known[user, items] = 1
    data = SimpleNamespace(
        private_items=dict(enumerate(range(ITEMS))),
        sp_i_train=known.tocsr(),
        transactions=int(known.sum()),
        train_dict={user: dict.fromkeys(items, 1) for user, items in enumerate(train)},
    )
    popularity = importlib.import_module("elliot.evaluation.popularity_utils.popularity").Popularity(data)
    counts = np.asarray(known.sum(axis=0)).ravel()
    head = popularity.get_short_head()
    if counts[popularity.get_long_tail()].max() == counts[head].min():
        raise SystemExit("equally popular items are in head and tail: Elliot divides them by their order")
    binary = SimpleNamespace(get_user_rel=lambda user: truth[user])
    given = SimpleNamespace(
        cutoff=K, pop=popularity, data=data, relevance=SimpleNamespace(binary_relevance=binary)
    )
    ranked = {user: [(item, 0.0) for item in row] for user, row in enumerate(lists)}
    values = {}
    for file, name in (("aplt", "APLT"), ("aclt", "ACLT"), ("pop_reo", "PopREO"), ("pop_rsp", "PopRSP")):
        cls = getattr(importlib.import_module(f"elliot.evaluation.metrics.bias.{file}.{file}"), name)
        values[name] = float(cls(ranked, None, None, given).eval())
    return values


def _recbole(judged: dict[str, list[list[float]]]) -> dict[str, float]:
    """Return the values of RecBole's GAUC and LogLoss."""
    sys.modules.setdefault("torch", ModuleType("torch"))
    kinds = SimpleNamespace(RANKING=1, VALUE=2)
    sys.modules["recbole.utils"] = _module("recbole.utils", EvaluatorType=kinds)
    metrics: Any = importlib.import_module("recbole.evaluator.metrics")
    config = {"metric_decimal_place": 15}
    pairs = list(zip(judged["truth"], judged["predictions"], strict=True))
    ranks = [
        rankdata([-p for p in predicted])[np.array(relevant) == 1].sum() for relevant, predicted in pairs
    ]
    n, relevant = ([f(row) for row, _ in pairs] for f in (len, sum))
    gauc = metrics.GAUC(config).metric_info(np.array(ranks)[:, None], np.array(n), np.array(relevant))
    flat = [np.concatenate(judged[name]) for name in ("predictions", "truth")]
    return {"gauc": float(gauc), "logloss": float(metrics.LogLoss(config).metric_info(*flat))}


def _module(name: str, **values: object) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(values)
    return module


if __name__ == "__main__":
    main(*sys.argv[1:])
