"""Values of other libraries' own code on drawn data, with which tests/metrics/test_library_values.py compares.

Each library runs by itself, as they do not go together or with ours; evalplugin is not needed. Of Elliot and RecBole
only the files of their metrics are imported, the others are installed:

    git clone --branch v0.3.1 https://github.com/sisinflab/elliot
    python experiments/metrics/libraries.py elliot elliot
    pip download --no-deps recbole==1.2.1 && unzip recbole-1.2.1-py3-none-any.whl -d recbole
    python experiments/metrics/libraries.py recbole recbole
    python -m venv .rectools && .rectools/bin/pip install rectools==0.19.0
    .rectools/bin/python experiments/metrics/libraries.py rectools
    python3.12 -m venv .warprec && .warprec/bin/pip install warprec==2.2.8  # brings torchmetrics
    .warprec/bin/python experiments/metrics/libraries.py warprec
    .warprec/bin/python experiments/metrics/libraries.py torchmetrics

Each writes its values into tests/metrics/libraries.json, beside the data.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import rankdata

USERS, ITEMS, LISTED, K, POWER = 40, 60, 12, 5, 0.5
BINS = (7, 13)  # predictions are multiples of 1/20: none is on a boundary
TO = Path(__file__).parents[2] / "tests" / "metrics" / "libraries.json"
Drawn = dict[str, Any]
Judged = dict[str, list[list[float]]]


def main(library: str, *folder: str) -> None:
    """Write the values of a library into libraries.json."""
    drawn = draw()
    values = LIBRARIES[library](drawn, *map(Path, folder))
    stored = json.loads(TO.read_text()) if TO.exists() else {}
    kept = {name: stored[name] for name in LIBRARIES if name in stored}
    TO.write_text(json.dumps(drawn | kept | {library: values}) + "\n")


def draw() -> Drawn:
    """Return lists, truth, train data and judged pairs, by row of users."""
    rng = np.random.default_rng(5)
    lists, truth, train = _lists(rng)
    judged, balanced = _judged(rng, balanced=False), _judged(rng, balanced=True)
    return {
        "k": K,
        "items": ITEMS,
        "lists": lists,
        "truth": truth,
        "train": train,
        "judged": judged,
        "balanced": balanced,
        "power": POWER,
    }


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


def _judged(rng: np.random.Generator, *, balanced: bool) -> Judged:
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


def _known(drawn: Drawn) -> sparse.csr_matrix:
    """Return the train data: float64 (USERS, ITEMS)."""
    known = sparse.lil_matrix((USERS, ITEMS))
    for user, items in enumerate(drawn["train"]):
        known[user, items] = 1
    return known.tocsr()


def elliot(drawn: Drawn, folder: Path) -> dict[str, float]:
    """Return the values of Elliot's metrics of popularity bias."""
    _import_files_of("elliot", folder)
    lists, truth, train = drawn["lists"], drawn["truth"], drawn["train"]
    known = _known(drawn)
    data = SimpleNamespace(
        private_items=dict(enumerate(range(ITEMS))),
        sp_i_train=known,
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


def recbole(drawn: Drawn, folder: Path) -> dict[str, float]:
    """Return the values of RecBole's GAUC and LogLoss."""
    _import_files_of("recbole", folder)
    sys.modules.setdefault("torch", ModuleType("torch"))
    kinds = SimpleNamespace(RANKING=1, VALUE=2)
    sys.modules["recbole.utils"] = _module("recbole.utils", EvaluatorType=kinds)
    metrics: Any = importlib.import_module("recbole.evaluator.metrics")
    config = {"metric_decimal_place": 15}

    def gauc(judged: Judged) -> float:
        pairs = list(zip(judged["truth"], judged["predictions"], strict=True))
        ranks = [rankdata([-p for p in some])[np.array(relevant) == 1].sum() for relevant, some in pairs]
        n, relevant = ([f(row) for row, _ in pairs] for f in (len, sum))
        return float(
            metrics.GAUC(config).metric_info(np.array(ranks)[:, None], np.array(n), np.array(relevant))
        )

    flat = [np.concatenate(drawn["judged"][name]) for name in ("predictions", "truth")]
    return {
        "gauc": gauc(drawn["judged"]),
        "logloss": float(metrics.LogLoss(config).metric_info(*flat)),
        "balanced gauc": gauc(drawn["balanced"]),
    }


def rectools(drawn: Drawn) -> dict[str, Any]:
    """Return RecTools' values of each user: popularity, intersection with the next user's list, debiased metrics."""
    import pandas as pd
    from rectools import Columns, metrics

    def frame(rows: list[list[int]], ranked: bool) -> pd.DataFrame:
        cells = [(user, item, rank) for user, row in enumerate(rows) for rank, item in enumerate(row, 1)]
        made = pd.DataFrame(cells, columns=[Columns.User, Columns.Item, Columns.Rank])
        return made if ranked else made.drop(columns=Columns.Rank)

    def of_users(values: pd.Series) -> list[float | None]:
        return [None if np.isnan(value) else float(value) for value in values.reindex(range(USERS))]

    reco, truth, train = (
        frame(drawn["lists"], True),
        frame(drawn["truth"], False),
        frame(drawn["train"], False),
    )
    others = frame([*drawn["lists"][1:], drawn["lists"][0]], True)
    config = metrics.DebiasConfig(iqr_coef=0.0, random_state=5)  # no more of an item than the third quartile
    kept = metrics.debias_interactions(truth, config)
    debiased = {
        "Recall": metrics.Recall(k=K, debias_config=config),
        "MAP": metrics.MAP(k=K, debias_config=config),
        "NDCG(divide_by_achievable=True)": metrics.NDCG(k=K, divide_by_achievable=True, debias_config=config),
        "HitRate": metrics.HitRate(k=K, debias_config=config),
    }
    return {
        "AvgRecPopularity": of_users(metrics.AvgRecPopularity(k=K).calc_per_user(reco, train)),
        "AvgRecPopularity(normalize=True)": of_users(
            metrics.AvgRecPopularity(k=K, normalize=True).calc_per_user(reco, train)
        ),
        "Intersection": of_users(metrics.Intersection(k=K).calc_per_user(reco, others)),
        "kept": [sorted(kept[Columns.Item][kept[Columns.User] == user].tolist()) for user in range(USERS)],
        "debiased": {name: of_users(metric.calc_per_user(reco, truth)) for name, metric in debiased.items()},
    }


def warprec(drawn: Drawn) -> dict[str, Any]:
    """Return WarpRec's values, in single precision: of all lists, or of each user."""
    import torch
    from warprec.evaluation import Evaluator
    from warprec.evaluation.propensity import build_propensity

    known = _known(drawn)
    lists, truth = torch.zeros(USERS, ITEMS), torch.zeros(USERS, ITEMS)
    for user in range(USERS):
        lists[user, drawn["lists"][user]] = torch.arange(LISTED, 0, -1).float()
        truth[user, drawn["truth"][user]] = 1.0
    counts = np.asarray(known.sum(axis=0)).ravel()
    values = _evaluated(
        Evaluator(
            ["APLT", "ACLT", "ARP", "PopREO", "PopRSP", "REO", "RSP", "SNIPSRecall", "SNIPSDCG"],
            [K],
            known,
            item_cluster=torch.arange(ITEMS) % 3 + 1,
            # An item without train data counts as one user's.
            propensity=build_propensity(counts, power=POWER, clip=float(counts.max()) ** -POWER),
        ),
        known,
        lists,
        truth,
    )
    relevant, logits = torch.zeros(USERS, ITEMS), torch.full((USERS, ITEMS), -torch.inf)
    for user, (row, predicted) in enumerate(
        zip(drawn["judged"]["truth"], drawn["judged"]["predictions"], strict=True)
    ):
        relevant[user, : len(row)] = torch.tensor(row)
        logits[user, : len(row)] = torch.logit(torch.tensor(predicted))
    nothing = sparse.csr_matrix(known.shape)
    return values | _evaluated(Evaluator(["GAUC", "LogLoss"], [K], nothing), nothing, logits, relevant)


def _evaluated(evaluator: Any, train: sparse.csr_matrix, scores: Any, truth: Any) -> dict[str, Any]:
    """Return what WarpRec's evaluator computes of scores and truth (USERS, ITEMS), as of a model's."""
    import torch

    model = SimpleNamespace(eval=lambda: None, predict=lambda user_indices: scores[user_indices].clone())
    data = SimpleNamespace(train_set=SimpleNamespace(get_sparse=lambda: train), train_transactions=None)
    evaluator.evaluate(model, [(torch.arange(USERS), truth)], "full", data)
    results = evaluator.compute_results()[K]
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in results.items()}


def torchmetrics(drawn: Drawn) -> dict[str, Any]:
    """Return torchmetrics' calibration errors: of all judged pairs by number of bins, of each user's with 4 bins."""
    import torch
    from torchmetrics.functional.classification import binary_calibration_error

    def error(predicted: Any, relevant: Any, bins: int) -> float:
        given = torch.tensor(np.asarray(predicted)), torch.tensor(np.asarray(relevant, dtype=np.int64))
        return float(binary_calibration_error(*given, n_bins=bins))

    pairs = [drawn["judged"][name] for name in ("predictions", "truth")]
    values: dict[str, Any] = {str(bins): error(*map(np.concatenate, pairs), bins) for bins in BINS}
    return values | {"4 of users": [error(*of_user, 4) for of_user in zip(*pairs, strict=True)]}


def _import_files_of(package: str, folder: Path) -> None:
    """Make the modules of a package importable one by one, without what its own ``__init__`` files import."""
    for name in (package, f"{package}.evaluation", f"{package}.evaluation.metrics", f"{package}.evaluator"):
        module = ModuleType(name)
        module.__path__ = [str(folder / Path(*name.split(".")))]
        sys.modules[name] = module


def _module(name: str, **values: object) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(values)
    return module


LIBRARIES: dict[str, Callable[..., dict[str, Any]]] = {
    "elliot": elliot,
    "recbole": recbole,
    "rectools": rectools,
    "warprec": warprec,
    "torchmetrics": torchmetrics,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
