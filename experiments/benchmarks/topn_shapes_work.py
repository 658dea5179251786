"""Run one job of ``topn_shapes.py`` in its own process: ``python topn_shapes_work.py JOB [ARGUMENT ...]``; prints JSON.

Only what a job needs is imported, so that those of other libraries run in their environments.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

N = 100
ROWS = 1024


def scores(n_items: int, dtype: str) -> Iterator[tuple[str, Any]]:
    """Yield the blocks of scores (ROWS, n_items) that selection is timed on."""
    for name, block in _blocks(n_items):
        yield name, block.astype(dtype, copy=False)


def _blocks(n_items: int) -> Iterator[tuple[str, Any]]:
    rng = np.random.default_rng(0)
    shape = ROWS, n_items
    normal = rng.standard_normal(shape, dtype=np.float32)
    few = np.zeros(shape, dtype=np.float32)
    columns = np.argsort(rng.random((ROWS, 400)), axis=1)[:, :40] * (n_items // 400)
    np.put_along_axis(few, columns, rng.random((ROWS, 40), dtype=np.float32) + 1, axis=1)
    yield "ordinary", normal
    yield "40 above zero, the rest tied", few
    yield "40 to be listed, the rest -inf", np.where(few > 0, few, np.float32(-np.inf))
    yield "2 % above zero", np.where(rng.random(shape, dtype=np.float32) < 0.02, abs(normal), np.float32(0))
    yield "all equal", np.ones(shape, dtype=np.float32)
    yield "five values", rng.integers(1, 6, shape).astype(np.float32)
    strided = normal.copy()
    strided[:, ::16] -= 100
    yield "every 16th worse", strided
    yield "every 16th better", -strided
    normal.sort(axis=1)
    yield "ascending", normal
    yield "descending", np.ascontiguousarray(normal[:, ::-1])


def best_of(work: Callable[..., object], *arguments: object, times: int = 5) -> float:
    """Return the shortest of several times, in seconds."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work(*arguments)
        best = min(best, time.perf_counter() - start)
    return best


def select_evalplugin(n_items: str, dtype: str) -> dict[str, float]:
    """Time the selection of the best items, exact in ties."""
    from evalplugin.models import select_top_n

    return {name: best_of(select_top_n, block, N) for name, block in scores(int(n_items), dtype)}


def select_torch(n_items: str, dtype: str) -> dict[str, float]:
    """Time torch.topk, whose ties are in no order."""
    import torch

    blocks = scores(int(n_items), dtype)
    return {name: best_of(torch.topk, torch.from_numpy(block), N) for name, block in blocks}


def select_numpy(n_items: str, dtype: str) -> dict[str, float]:
    """Time argpartition and a sort of the best, on one core and with ties in no order."""

    def work(block: Any) -> None:
        best = np.argpartition(-block, N, axis=1)[:, :N]
        np.argsort(-np.take_along_axis(block, best, axis=1), axis=1)

    return {name: best_of(work, block, times=2) for name, block in scores(int(n_items), dtype)}


def own_model(path: str, name: str, params: str, users: str) -> dict[str, float]:
    """Time surprise_top_n on an algorithm fitted by Surprise on shuffled rows, and the documented way on some users."""
    import pandas as pd
    import surprise

    from evalplugin import surprise_top_n

    data = np.load(path)
    order = np.random.default_rng(0).permutation(len(data["user"]))
    frame = pd.DataFrame({"user": data["user"], "item": data["item"], "rating": data["rating"]}).iloc[order]
    scale = float(frame.rating.min()), float(frame.rating.max())
    trainset = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=scale)).build_full_trainset()
    algorithm = getattr(surprise, name)(**json.loads(params)).fit(trainset)
    surprise_top_n(algorithm, N, users=[trainset.to_raw_uid(0)])  # loads the compiled code
    ours = best_of(lambda: surprise_top_n(algorithm, N), times=2)
    return {"evalplugin": ours, "documented way": _documented(algorithm, int(users))}


def _documented(algorithm: Any, n_users: int) -> float:
    """Return the seconds of the documented way for all users, extrapolated from some."""
    import heapq

    trainset = algorithm.trainset
    users = np.random.default_rng(1).permutation(trainset.n_users)[:n_users].tolist()
    start = time.perf_counter()
    pairs = 0
    for user in users:
        seen = {item for item, _ in trainset.ur[user]}
        raw = trainset.to_raw_uid(user)
        items = (trainset.to_raw_iid(item) for item in trainset.all_items() if item not in seen)
        predictions = algorithm.test([(raw, item, trainset.global_mean) for item in items])
        heapq.nlargest(N, predictions, key=lambda prediction: prediction.est)
        pairs += len(predictions)
    seconds = time.perf_counter() - start
    return seconds * (trainset.n_users * trainset.n_items - trainset.n_ratings) / pairs


def _train(user: Any, item: Any, rating: Any, shape: tuple[int, int]) -> Any:
    """Return interactions of codes of users and items, in the order of users."""
    from evalplugin.data import Interactions

    return Interactions(
        user=user.astype(np.int32),
        item=item.astype(np.int32),
        rating=rating.astype(np.float32),
        timestamp=None,
        users=np.arange(shape[0]),
        items=np.arange(shape[1]),
    )


def fit_alone(path: str, model: str) -> dict[str, float]:
    """Time the fit of a bake-off's model and that of its library alone, in turn, on the same ratings."""
    from evalplugin.base.seeding import generator
    from evalplugin.models import MODELS
    from evalplugin.models.factors import matrix_of

    data = np.load(path)
    shape = int(data["n_users"]), int(data["n_items"])
    train = _train(data["user"], data["item"], data["rating"], shape)
    fitted: Any = MODELS.create(model, {})
    fitted.prepare()
    if model == "sklearn.TruncatedSVD":
        from sklearn.decomposition import TruncatedSVD

        matrix = matrix_of(train, fitted.values)
        library = TruncatedSVD(fitted.n_components, n_iter=fitted.n_iter, random_state=0)
        alone = lambda: library.fit(matrix)  # noqa: E731
    else:
        from implicit.bpr import BayesianPersonalizedRanking

        matrix = matrix_of(train, "binary").astype(np.float32)

        def alone() -> Any:
            # One thread, as here: with more, the same seed gives other factors.
            return BayesianPersonalizedRanking(num_threads=1, random_state=0).fit(matrix, show_progress=False)

    seconds = {"evalplugin": float("inf"), "alone": float("inf")}
    for _ in range(3):
        ours = best_of(lambda: fitted.fit(train, generator(0, "benchmark")), times=1)
        seconds["evalplugin"] = min(seconds["evalplugin"], ours)
        seconds["alone"] = min(seconds["alone"], best_of(alone, times=1))
    return seconds


def ten_million(model: str, params: str, documented_users: str, every: str) -> dict[str, float]:
    """Time fit and lists of a bake-off's model for 10 million ratings of 70,000 users and 10,700 items.

    Lists are made for one user in ``every``, and their time extrapolated to all; what the first block does once is not.
    """
    from evalplugin.base.seeding import generator
    from evalplugin.data import DATASETS, Candidates, LoadContext
    from evalplugin.models import MODELS, recommend
    from evalplugin.models.base import ListRequest

    size = {"n_users": 70_000, "n_items": 10_700, "n_interactions": 10_000_000}
    train = DATASETS.create("synthetic", size).load(LoadContext(None, Path(), lambda text, fraction: None))
    fitted: Any = MODELS.create(model, json.loads(params))
    getattr(fitted, "prepare", lambda: None)()
    start = time.perf_counter()
    fitted.fit(train, generator(0, "benchmark"))
    seconds = {"fit": time.perf_counter() - start}
    users, candidates = np.unique(train.user), Candidates("unseen", excluded=train.rows)
    some = users[:: int(every)]
    start = time.perf_counter()
    if len(some) < len(users):
        recommend(fitted, ListRequest(train, some[:1], N, candidates))
    once = time.perf_counter() - start
    start = time.perf_counter()
    recommend(fitted, ListRequest(train, some, N, candidates))
    seconds["lists"] = once + (time.perf_counter() - start) * len(users) / len(some)
    if int(documented_users):
        seconds["documented lists"] = _documented(fitted.algorithm, int(documented_users))
    else:
        # What any model costs whose scores are there already: a selection from all of them.
        start = time.perf_counter()
        recommend(_Stored(train.n_items), ListRequest(train, users, N, candidates))
        seconds["any scores"] = time.perf_counter() - start
    return seconds


class _Stored:
    """Scores that cost nothing: views of one array, which no two users share as a whole."""

    def __init__(self, n_items: int) -> None:
        self.n_items = n_items
        self.values = np.random.default_rng(0).random(2_000_000)

    def fit(self, train: Any, rng: Any) -> None:
        """Learn nothing."""

    def scores(self, users: Any) -> Any:
        """Return overlapping rows."""
        return np.lib.stride_tricks.sliding_window_view(self.values, self.n_items)[: len(users)]


def _listening() -> Any:
    """Return a matrix of the size of HetRec 2011's last.fm: 1,892 users, 17,632 artists, 92,834 entries."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(0)
    n_users, n_items, n = 1892, 17_632, 92_834
    weight = 1 / (np.arange(n_items) + 20.0)
    each = np.full(n_users, n // n_users)
    each[: n - each.sum()] += 1
    item = np.concatenate([rng.choice(n_items, size, False, weight / weight.sum()) for size in each])
    plays = np.exp(rng.normal(5, 1.5, n)).round() + 1
    shape = n_users, n_items
    return csr_matrix((plays, (np.repeat(np.arange(n_users), each), item)), shape=shape)


def neighbours_evalplugin(metric: str) -> dict[str, float]:
    """Time the fit of sklearn.NearestNeighbors as a bake-off's model."""
    from evalplugin.base.seeding import generator
    from evalplugin.models import MODELS

    matrix = _listening().tocoo()
    train = _train(matrix.row, matrix.col, matrix.data, matrix.shape)
    model: Any = MODELS.create("sklearn.NearestNeighbors", {"metric": metric})
    model.prepare()
    return {"fit": best_of(lambda: model.fit(train, generator(0, "benchmark")), times=3)}


def neighbours_sklearn(metric: str) -> dict[str, float]:
    """Time scikit-learn's own neighbours of items."""
    from sklearn.neighbors import NearestNeighbors

    columns = _listening().T.tocsr()
    nearest = NearestNeighbors(n_neighbors=41, metric=metric, n_jobs=-1).fit(columns)
    return {"fit": best_of(lambda: nearest.kneighbors(columns), times=2)}


def neighbours_implicit(metric: str) -> dict[str, float]:
    """Time implicit's neighbours of items, cosine alone."""
    from implicit.nearest_neighbours import CosineRecommender

    matrix = _listening()
    return {"fit": best_of(lambda: CosineRecommender(K=40).fit(matrix, show_progress=False), times=3)}


def main() -> None:
    """Run the job of the arguments and print its seconds."""
    jobs = (
        *(select_evalplugin, select_torch, select_numpy, own_model, fit_alone, ten_million),
        *(neighbours_evalplugin, neighbours_sklearn, neighbours_implicit),
    )
    job, *arguments = sys.argv[1:]
    print(json.dumps({work.__name__: work for work in jobs}[job](*arguments)))


if __name__ == "__main__":
    main()
