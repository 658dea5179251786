"""Write the metric values of another library on random lists to tests/lists/profiles/<library>.json.

Each library runs in an environment of its own, without evalplugin:

    python -m venv .ranx && .ranx/bin/pip install ranx
    .ranx/bin/python experiments/profiles/make.py ranx
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "lists" / "profiles"
KS = (1, 3, 5, 10, 20)
Lists = dict[str, list[str]]
Truth = dict[str, dict[str, int]]
Result = tuple[dict[str, float], dict[str, dict[str, float]]]  # means; values by metric and user


def draw(seed: int, *, lowest: int, users: int = 300, gaps: bool = True) -> tuple[Lists, Truth, Truth]:
    """Return lists, truth and train data; with gaps, some users have no list and some no truth."""
    rng = np.random.default_rng(seed)
    items = [f"i{i:02d}" for i in range(40)]
    lists: Lists = {}
    truth: Truth = {}
    train: Truth = {}
    for user in (f"u{u:03d}" for u in range(users)):
        order = [items[i] for i in rng.permutation(len(items))]
        if length := int(rng.choice([0, 1, 2, 5, 12] if gaps else [1, 2, 5, 12])):
            lists[user] = order[:length]
        judged = rng.permutation(len(items))[: int(rng.choice([0, 1, 3, 8, 25] if gaps else [1, 3, 8, 25]))]
        if len(judged):
            truth[user] = {items[i]: int(rng.integers(lowest, 4)) for i in judged}
        train[user] = {items[i]: 1 for i in rng.permutation(30)[: int(rng.integers(1, 12))]}
    return lists, truth, train


def ranx(lists: Lists, truth: Truth, train: Truth) -> Result:
    """Return ranx's means and values of each user."""
    from ranx import Qrels, Run, evaluate

    names = ["precision", "recall", "hit_rate", "mrr", "map", "dcg", "ndcg", "dcg_burges", "ndcg_burges"]
    names += [f"{name}@{k}" for name in [*names, "f1"] for k in KS] + ["r-precision"]
    run = Run({user: {item: -float(rank) for rank, item in enumerate(row)} for user, row in lists.items()})
    means = evaluate(Qrels(truth), run, names, make_comparable=True)
    shown = [name for name in names if "@" not in name or name.endswith("@5")]
    return means, {name: {user: round(v, 13) for user, v in run.scores[name].items()} for name in shown}


def rectools(lists: Lists, truth: Truth, train: Truth) -> Result:
    """Return RecTools' means, by the call that creates each metric."""
    import pandas as pd
    from rectools import Columns, metrics

    def frame(rows: list[tuple[str, str, int]], last: str) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=[Columns.User, Columns.Item, last])

    reco = frame([(u, i, r) for u, row in lists.items() for r, i in enumerate(row, 1)], Columns.Rank)
    test = frame([(u, i, w) for u, row in truth.items() for i, w in row.items()], Columns.Weight)
    before = frame([(u, i, w) for u, row in train.items() for i, w in row.items()], Columns.Weight)
    made = {}
    for k in KS:
        for name, options in (
            ("Precision", {}),
            ("Precision", {"r_precision": True}),
            ("Recall", {}),
            ("F1Beta", {}),
            ("HitRate", {}),
            ("MRR", {}),
            ("MAP", {}),
            ("MAP", {"divide_by_k": True}),
            ("NDCG", {}),
            ("NDCG", {"divide_by_achievable": True}),
            ("MeanInvUserFreq", {}),
            ("AvgRecPopularity", {}),
        ):
            text = ", ".join(f"{o}={v}" for o, v in {"k": k, **options}.items())
            made[f"{name}({text})"] = getattr(metrics, name)(k=k, **options)
    tables = {"reco": reco, "interactions": test, "prev_interactions": before}
    return metrics.calc_metrics(made, **tables, catalog=range(40)), {}


def lenskit(lists: Lists, truth: Truth, train: Truth) -> Result:
    """Return LensKit's means; AveragePrecision only if every list has a truth, as it fails otherwise."""
    from lenskit.data import ItemList, ItemListCollection
    from lenskit.metrics import DCG, NDCG, RBP, Hit, Precision, Recall, RecipRank, RunAnalysis
    from lenskit.metrics.ranking import AveragePrecision

    runs, test = ItemListCollection.empty(["user_id"]), ItemListCollection.empty(["user_id"])
    for user, row in lists.items():
        runs.add(ItemList(item_ids=row, ordered=True), user)
    for user, row in truth.items():
        test.add(ItemList(item_ids=list(row)), user)
    kinds = [Precision, Recall, Hit, RecipRank, DCG, NDCG, RBP]
    kinds += [AveragePrecision] if lists.keys() <= truth.keys() else []
    analysis = RunAnalysis(*(kind(k) for kind in kinds for k in (None, *KS)))
    return analysis.measure(runs, test).list_summary()["mean"].to_dict(), {}


def main(library: str) -> None:
    """Write the library's fixture: two cases, without and with gaps."""
    lowest = 0 if library == "ranx" else 1
    compute = {"ranx": ranx, "rectools": rectools, "lenskit": lenskit}[library]
    cases = []
    for gaps in (False, True):
        lists, truth, train = draw(7, lowest=lowest, gaps=gaps)
        means, per_user = compute(lists, truth, train)
        cases.append(
            {
                "lists": lists,
                "truth": truth,
                "train": {user: list(row) for user, row in train.items()},
                "means": {name: float(value) for name, value in means.items()},
                "per_user": per_user if gaps else {},
            }
        )
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = {"library": library, "version": version(library), "made_by": "experiments/profiles/make.py"}
    (FOLDER / f"{library}.json").write_text(
        json.dumps({**made, "cases": cases}, separators=(",", ":")) + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1])
