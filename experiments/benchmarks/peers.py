"""Time one library from two DataFrames to per-user values and means of six metrics, in its own process.

``python peers.py NAME FOLDER SECONDS``: reads lists.parquet and truth.parquet of the folder, calls the library once
(cold: after the imports alone), then repeatedly for SECONDS (warm: the best of all), and prints a JSON line:
seconds of the imports, cold and warm; the peak memory above the loaded input, in MB; the means.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Means = dict[str, float]
Task = Callable[[pd.DataFrame, pd.DataFrame], Means]
METRICS = ("ndcg@10", "recall@10", "precision@10", "ap@100", "rr", "hit@10")


def evalplugin() -> Task:
    """Return evalplugin's task."""
    from evalplugin.api import score

    def task(lists: pd.DataFrame, truth: pd.DataFrame) -> Means:
        scores = score(lists, truth, METRICS)
        assert len(scores.per_user)
        return scores.means

    return task


def prototype() -> Task:
    """Return a prototype: one compiled pass over each list for checks, match and all metrics, on one core.

    It takes integer ids below 2^31 in order of user and rank, every user with a list and truth, and nothing else.
    """
    import numba

    @numba.njit(nogil=True, error_model="numpy")
    def one_pass(
        item: np.ndarray, rank: np.ndarray, list_start: np.ndarray, truth_item: np.ndarray, rating: np.ndarray,
        truth_start: np.ndarray, discount: np.ndarray, values: np.ndarray,
    ) -> bool:  # fmt: skip
        slots = np.zeros(2**17, dtype=np.int64)  # user and item
        place = np.zeros(2**17, dtype=np.int32)  # position of a truth item plus 1, 0 for a listed one
        best = np.empty(1000)
        for u in range(len(list_start) - 1):
            first, end = truth_start[u], truth_start[u + 1]
            bits = 4
            while (1 << bits) < 3 * (end - first + list_start[u + 1] - list_start[u]):
                bits += 1
            mask, shift, relevant = (1 << bits) - 1, 32 - bits, end - first
            for p in range(first, end):
                key = ((u + 1) << 32) | truth_item[p]
                slot = ((truth_item[p] * 2654435769) & 0xFFFFFFFF) >> shift
                while slots[slot] >> 32 == u + 1:
                    if slots[slot] == key:
                        return False
                    slot = (slot + 1) & mask
                slots[slot], place[slot] = key, p + 1
                at = p - first  # the best list, by insertion
                while at > 0 and best[at - 1] < rating[p]:
                    best[at] = best[at - 1]
                    at -= 1
                best[at] = rating[p]
            hits, hits_10, gain, precisions, reciprocal = 0, 0, 0.0, 0.0, 0.0
            for position in range(list_start[u], list_start[u + 1]):
                r = position - list_start[u] + 1
                if rank[position] != r:
                    return False
                key = ((u + 1) << 32) | item[position]
                slot = ((item[position] * 2654435769) & 0xFFFFFFFF) >> shift
                while slots[slot] >> 32 == u + 1 and slots[slot] != key:
                    slot = (slot + 1) & mask
                if slots[slot] != key:
                    slots[slot], place[slot] = key, 0
                    continue
                if place[slot] == 0:
                    return False
                hits += 1
                precisions += hits / r
                reciprocal = max(reciprocal, 1.0 / r)
                if r <= 10:
                    hits_10 += 1
                    gain += rating[place[slot] - 1] / discount[r]
                place[slot] = 0
            ideal = 0.0
            for r in range(1, min(10, relevant) + 1):
                ideal += best[r - 1] / discount[r]
            values[u, 0], values[u, 1], values[u, 2] = gain / ideal, hits_10 / relevant, hits_10 / 10
            values[u, 3], values[u, 4], values[u, 5] = precisions / relevant, reciprocal, hits_10 > 0
        return True

    def task(lists: pd.DataFrame, truth: pd.DataFrame) -> Means:
        starts = [
            np.concatenate([[0], np.flatnonzero(user[1:] != user[:-1]) + 1, [len(user)]])
            for user in (lists["user"].to_numpy(), truth["user"].to_numpy())
        ]
        values = np.empty((len(starts[0]) - 1, len(METRICS)))
        discount = np.log2(np.arange(12) + 1.0)
        rating = truth["rating"].to_numpy().astype(np.float64)
        columns = lists["item"].to_numpy(), lists["rank"].to_numpy(), starts[0], truth["item"].to_numpy()
        assert one_pass(*columns, rating, starts[1], discount, values)
        return dict(zip(METRICS, values.mean(axis=0).tolist(), strict=True))

    return task


_RANX_NAMES = ("ndcg@10", "recall@10", "precision@10", "map@100", "mrr", "hit_rate@10")
_RANX = dict(zip(_RANX_NAMES, METRICS, strict=True))


def ranx_typed() -> Task:
    """Return ranx's fastest task, which its documentation does not show: typed lists of sorted arrays."""
    from numba.typed import List
    from ranx import evaluate

    def task(lists: pd.DataFrame, truth: pd.DataFrame) -> Means:
        users = truth["user"].nunique()
        lists = lists.sort_values(["user", "rank"])
        truth = truth.sort_values(["user", "rating"], ascending=[True, False])
        run = np.stack([lists["item"], -lists["rank"]], axis=-1).astype(np.float64).reshape(users, -1, 2)
        flat = truth[["item", "rating"]].to_numpy(np.float64)
        ends = np.cumsum(np.bincount(truth["user"]))[:-1]
        values = evaluate(List(np.split(flat, ends)), List(list(run)), list(_RANX), return_mean=False)
        return {_RANX[name]: float(np.mean(v)) for name, v in values.items()}

    return task


def ranx_frames() -> Task:
    """Return ranx's documented task from DataFrames; its ids are text."""
    from ranx import Qrels, Run, evaluate

    def task(lists: pd.DataFrame, truth: pd.DataFrame) -> Means:
        def texts(frame: pd.DataFrame) -> pd.DataFrame:
            return frame.assign(user=frame["user"].astype(str), item=frame["item"].astype(str))

        qrels = Qrels.from_df(texts(truth), q_id_col="user", doc_id_col="item", score_col="rating")
        ranked = texts(lists).assign(score=-lists["rank"].astype(float))
        run = Run.from_df(ranked, q_id_col="user", doc_id_col="item", score_col="score")
        values = evaluate(qrels, run, list(_RANX), return_mean=False)
        return {_RANX[name]: float(np.mean(v)) for name, v in values.items()}

    return task


def pytrec_eval() -> Task:
    """Return pytrec_eval's task: nested dicts of text."""
    import pytrec_eval as trec

    measured = ("ndcg_cut_10", "recall_10", "P_10", "map_cut_100", "recip_rank", "success_10")
    names = dict(zip(measured, METRICS, strict=True))
    measures = {"ndcg_cut.10", "recall.10", "P.10", "map_cut.100", "recip_rank", "success.10"}

    def task(lists: pd.DataFrame, truth: pd.DataFrame) -> Means:
        def nested(frame: pd.DataFrame, value: pd.Series) -> dict[str, dict[str, Any]]:
            made: dict[str, dict[str, Any]] = {}
            users, items = frame["user"].astype(str).tolist(), frame["item"].astype(str).tolist()
            for user, item, worth in zip(users, items, value.tolist(), strict=True):
                made.setdefault(user, {})[item] = worth
            return made

        qrels = nested(truth, truth["rating"].astype(int))
        run = nested(lists, -lists["rank"].astype(float))
        values = pd.DataFrame.from_dict(
            trec.RelevanceEvaluator(qrels, measures).evaluate(run), orient="index"
        )
        return {ours: float(values[name].mean()) for name, ours in names.items()}

    return task


def rectools() -> Task:
    """Return RecTools' fastest documented task: the tables are merged once for all metrics."""
    from rectools.metrics import MAP, MRR, NDCG, HitRate, Precision, Recall
    from rectools.metrics.base import merge_reco
    from rectools.metrics.classification import calc_confusions

    def task(lists: pd.DataFrame, truth: pd.DataFrame) -> Means:
        reco = lists.rename(columns={"user": "user_id", "item": "item_id"})
        known = truth.rename(columns={"user": "user_id", "item": "item_id"})
        merged = merge_reco(reco, known)
        confusions = calc_confusions(merged, 10)
        values = {
            "ndcg@10": NDCG(k=10).calc_per_user_from_merged(merged),
            "recall@10": Recall(k=10).calc_per_user_from_confusion_df(confusions),
            "precision@10": Precision(k=10).calc_per_user_from_confusion_df(confusions),
            "ap@100": MAP(k=100).calc_per_user_from_fitted(MAP.fit(merged, 100)),
            "rr": MRR(k=100).calc_per_user_from_merged(merged),
            "hit@10": HitRate(k=10).calc_per_user_from_confusion_df(confusions),
        }
        return {name: float(v.mean()) for name, v in values.items()}

    return task


def replay() -> Task:
    """Return RePlay's task, on polars."""
    import polars as pl
    from replay.metrics import MAP, MRR, NDCG, HitRate, OfflineMetrics, PerUser, Precision, Recall

    named = dict(zip(("NDCG", "Recall", "Precision", "MAP", "MRR", "HitRate"), METRICS, strict=True))

    def task(lists: pd.DataFrame, truth: pd.DataFrame) -> Means:
        recs = pl.DataFrame(
            {"query_id": lists["user"].to_numpy(), "item_id": lists["item"].to_numpy(),
             "rating": -lists["rank"].to_numpy().astype(np.float64)}
        )  # fmt: skip
        known = pl.DataFrame({"query_id": truth["user"].to_numpy(), "item_id": truth["item"].to_numpy()})
        metrics = [
            cls(k, mode=PerUser())
            for cls, k in ((NDCG, 10), (Recall, 10), (Precision, 10), (MAP, 100), (MRR, 100), (HitRate, 10))
        ]
        values = OfflineMetrics(metrics)(recs, known)
        return {
            named[name.partition("-")[0]]: float(np.mean(list(per_user.values())))
            for name, per_user in values.items()
        }

    return task


def recommenders() -> Task:
    """Return the task of recommenders, which has means only."""
    from recommenders.evaluation import python_evaluation as evaluation

    def task(lists: pd.DataFrame, truth: pd.DataFrame) -> Means:
        # The library adds a column called rank of its own.
        pred = lists.assign(prediction=-lists["rank"].astype(float)).drop(columns="rank")
        options = {"col_user": "user", "col_item": "item", "col_prediction": "prediction"}
        means = {}
        for name, function, k in (
            ("ndcg@10", evaluation.ndcg_at_k, 10),
            ("recall@10", evaluation.recall_at_k, 10),
            ("precision@10", evaluation.precision_at_k, 10),
            ("ap@100", evaluation.map_at_k if hasattr(evaluation, "map_at_k") else evaluation.map, 100),
        ):
            extra = {"col_rating": "rating", "score_type": "raw", "discfun_type": "log2"}
            means[name] = float(function(truth, pred, k=k, **options, **(extra if name == "ndcg@10" else {})))
        return means

    return task


def lenskit() -> Task:
    """Return LensKit's task, which has no average precision."""
    from lenskit.data import ItemListCollection
    from lenskit.metrics import NDCG, Hit, Precision, Recall, RecipRank, RunAnalysis

    def task(lists: pd.DataFrame, truth: pd.DataFrame) -> Means:
        columns = {"user": "user_id", "item": "item_id"}
        run = ItemListCollection.from_df(lists.rename(columns=columns), ["user_id"])
        known = ItemListCollection.from_df(truth.rename(columns=columns), ["user_id"])
        metrics = NDCG(n=10, gain="rating"), Recall(n=10), Precision(n=10), RecipRank(), Hit(n=10)
        values = RunAnalysis(*metrics).measure(run, known).list_metrics()
        names = ("ndcg@10", "recall@10", "precision@10", "rr", "hit@10")
        ours = dict(zip(values.columns, names, strict=True))
        return {ours[name]: float(values[name].mean()) for name in values.columns}

    return task


def mlflow() -> Task:
    """Return the task of MLflow's retriever metrics, on a list of items a user."""
    import logging

    from mlflow.metrics import ndcg_at_k, precision_at_k, recall_at_k

    logging.disable(logging.CRITICAL)

    def task(lists: pd.DataFrame, truth: pd.DataFrame) -> Means:
        predictions = lists.sort_values(["user", "rank"]).groupby("user")["item"].agg(list)
        targets = truth.groupby("user")["item"].agg(list).reindex(predictions.index)
        metrics = {"ndcg@10": ndcg_at_k, "recall@10": recall_at_k, "precision@10": precision_at_k}
        scores = {name: at_k(10).eval_fn(predictions, targets).scores for name, at_k in metrics.items()}
        return {name: float(np.mean(values)) for name, values in scores.items()}

    return task


TASKS: dict[str, Callable[[], Task]] = {
    "evalplugin": evalplugin,
    "prototype": prototype,
    "ranx typed": ranx_typed,
    "ranx frames": ranx_frames,
    "pytrec_eval": pytrec_eval,
    "RecTools": rectools,
    "RePlay": replay,
    "recommenders": recommenders,
    "LensKit": lenskit,
    "MLflow retriever": mlflow,
}


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"the kernel does not report {name}")


def main(name: str, folder: Path, seconds: float) -> None:
    """Print the costs of one library."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    task = TASKS[name]()
    imports = time.perf_counter() - start
    lists = pd.read_parquet(folder / "lists.parquet")
    truth = pd.read_parquet(folder / "truth.parquet")
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    start = time.perf_counter()
    means = task(lists, truth)
    cold = time.perf_counter() - start
    peak = _status("VmHWM") - before
    warm, begun, runs = cold, time.perf_counter(), 0
    while runs == 0 or (runs < 200 and time.perf_counter() - begun < seconds):
        start = time.perf_counter()
        task(lists, truth)
        warm = min(warm, time.perf_counter() - start)
        runs += 1
    costs = {"imports": imports, "cold": cold, "warm": warm, "runs": runs, "peak_mb": peak, "means": means}
    print(json.dumps(costs))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
