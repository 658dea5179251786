"""Run one job of ``topn.py`` in a process of its own: ``python topn_work.py TOOL DATA JOB``; prints JSON.

DATA is an .npz of user, item, rating and the sizes; JOB is JSON. Only what the tool needs is imported, so that it
runs in the environment of any of the tools.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

N = 100


def memory_mb(counter: str = "VmHWM") -> float:
    """Return the peak resident memory, or with VmRSS the current one, in 2**20 bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{counter}:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def evalplugin(data: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Fit and list as a bake-off does."""
    from evalplugin.base.seeding import generator
    from evalplugin.data import Candidates, Interactions
    from evalplugin.models import MODELS, recommend
    from evalplugin.models.base import ListRequest

    order = np.random.default_rng(0).permutation(len(data["user"]))
    train = Interactions(
        user=data["user"][order].astype(np.int32),
        item=data["item"][order].astype(np.int32),
        rating=data["rating"][order].astype(np.float32),
        timestamp=None,
        users=np.arange(data["n_users"]),
        items=np.arange(data["n_items"]),
    )
    users = np.unique(train.user)
    model: Any = MODELS.create(job["type"], job["params"])
    start = time.perf_counter()
    if hasattr(model, "prepare"):
        model.prepare()
    cold = time.perf_counter() - start
    start = time.perf_counter()
    model.fit(train, generator(0, "benchmark"))
    fitted = time.perf_counter()
    top = recommend(model, ListRequest(train, users, N, Candidates("unseen", excluded=train.rows)))
    done = time.perf_counter()
    return {"cold": cold, "fit": fitted - start, "lists": done - fitted, "users": len(top)}


def surprise(data: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Fit, then list in the documented way for some users, and compare with surprise_top_n on the same algorithm."""
    import heapq

    import pandas as pd
    import surprise

    from evalplugin import surprise_top_n

    frame = pd.DataFrame({"user": data["user"], "item": data["item"], "rating": data["rating"].astype(float)})
    scale = frame.rating.min(), frame.rating.max()
    start = time.perf_counter()
    trainset = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=scale)).build_full_trainset()
    params = dict(job["params"])
    if "sim_options" in params:
        params["verbose"] = False
    algorithm = getattr(surprise, job["type"].removeprefix("surprise."))(**params)
    algorithm.fit(trainset)
    fit = time.perf_counter() - start
    users = np.random.default_rng(1).permutation(trainset.n_users)[: job["users"]].tolist()
    start = time.perf_counter()
    anti = _anti_testset(trainset, users)
    lists: dict[Any, list[tuple[float, Any]]] = {}
    predictions = algorithm.test(anti)
    for user, item, _, estimate, _ in predictions:
        lists.setdefault(user, []).append((estimate, item))
    lists = {user: heapq.nlargest(N, row, key=lambda pair: pair[0]) for user, row in lists.items()}
    seconds = time.perf_counter() - start
    tracemalloc.start()
    held = _anti_testset(trainset, users[:2])
    held_too = algorithm.test(held)
    pair_bytes = tracemalloc.get_traced_memory()[0] / len(held_too)
    tracemalloc.stop()
    pairs = trainset.n_users * trainset.n_items - trainset.n_ratings
    some = [trainset.to_raw_uid(user) for user in users[:3]]
    ours = surprise_top_n(algorithm, N, users=some)
    same = 0
    for user in some:
        scores = [algorithm.predict(user, item, clip=False).est for u, item, _ in anti if u == user]
        same += np.allclose(ours[ours.user == user].score, sorted(scores, reverse=True)[:N], rtol=1e-9)
    return {
        "fit": fit,
        "lists": seconds * pairs / len(anti),
        "sampled": len(users),
        "users": trainset.n_users,
        "extrapolated_mb": max(memory_mb(), memory_mb("VmRSS") + pair_bytes * pairs / 2**20),
        "same": same,
        "compared": len(some),
    }


def _anti_testset(trainset: Any, users: list[int]) -> list[tuple[Any, Any, float]]:
    """Return the result of Trainset.build_anti_testset for some users."""
    anti = []
    for user in users:
        seen = {item for item, _ in trainset.ur[user]}
        anti += [
            (trainset.to_raw_uid(user), trainset.to_raw_iid(item), trainset.global_mean)
            for item in trainset.all_items()
            if item not in seen
        ]
    return anti


def _matrix(data: Any) -> Any:
    from scipy.sparse import csr_matrix

    shape = int(data["n_users"]), int(data["n_items"])
    return csr_matrix((data["rating"].astype(np.float32), (data["user"], data["item"])), shape=shape)


def implicit(data: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Fit and list with implicit."""
    if job["type"] == "CosineRecommender":
        from implicit.nearest_neighbours import CosineRecommender

        model: Any = CosineRecommender(K=40)
    else:
        from implicit.als import AlternatingLeastSquares

        model = AlternatingLeastSquares(factors=100, random_state=0)
    matrix = _matrix(data)
    start = time.perf_counter()
    model.fit(matrix, show_progress=False)
    fitted = time.perf_counter()
    users = np.arange(matrix.shape[0])
    model.recommend(users, matrix, N=N, filter_already_liked_items=True)
    return {"fit": fitted - start, "lists": time.perf_counter() - fitted, "users": len(users)}


def rectools(data: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Fit and list with RecTools."""
    import pandas as pd
    from rectools import Columns
    from rectools.dataset import Dataset

    if job["type"] == "EASE":
        from rectools.models import EASEModel

        model: Any = EASEModel()
    else:
        from implicit.nearest_neighbours import CosineRecommender
        from rectools.models import ImplicitItemKNNWrapperModel

        model = ImplicitItemKNNWrapperModel(CosineRecommender(K=40))
    frame = pd.DataFrame(
        {Columns.User: data["user"], Columns.Item: data["item"], Columns.Weight: data["rating"]}
    )
    frame[Columns.Datetime] = pd.Timestamp("2020-01-01")
    dataset = Dataset.construct(frame)
    start = time.perf_counter()
    model.fit(dataset)
    fitted = time.perf_counter()
    users = np.unique(data["user"])
    model.recommend(users, dataset, k=N, filter_viewed=True)
    return {"fit": fitted - start, "lists": time.perf_counter() - fitted, "users": len(users)}


def skrecsys(data: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Fit and list with skrecsys, which refuses users who have too few items left for a whole list."""
    from skrecsys import recommendation

    pairs = np.column_stack([data["user"], data["item"]])
    users = np.flatnonzero(int(data["n_items"]) - np.bincount(data["user"]) >= N)
    model = getattr(recommendation, job["type"])(**job["params"])
    start = time.perf_counter()
    model.fit(pairs, data["rating"])
    fitted = time.perf_counter()
    model.recommend(users, n_recommendations=N)
    return {"fit": fitted - start, "lists": time.perf_counter() - fitted, "users": len(users)}


def lenskit(data: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Fit LensKit and list for some users."""
    import pandas as pd
    from lenskit.batch import recommend
    from lenskit.data import from_interactions_df
    from lenskit.knn import ItemKNNScorer
    from lenskit.pipeline import topn_pipeline

    frame = pd.DataFrame(
        {"user_id": data["user"], "item_id": data["item"], "rating": data["rating"].astype(float)}
    )
    dataset = from_interactions_df(frame)
    pipeline = topn_pipeline(ItemKNNScorer(max_nbrs=40), predicts_ratings=True, n=N)
    start = time.perf_counter()
    pipeline.train(dataset)
    fitted = time.perf_counter()
    everyone = np.unique(data["user"])
    users = np.random.default_rng(1).permutation(everyone)[: job["users"]].tolist()
    recommend(pipeline, users, n=N, n_jobs=1)
    seconds = time.perf_counter() - fitted
    return {
        "fit": fitted - start,
        "lists": seconds * len(everyone) / len(users),
        "users": len(everyone),
        "sampled": len(users),
    }


def sklearn(data: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Find item neighbours with scikit-learn, and list by sparse products."""
    from scipy.sparse import csr_matrix
    from sklearn.neighbors import NearestNeighbors

    matrix = _matrix(data)
    start = time.perf_counter()
    columns = matrix.T.tocsr()
    nearest = NearestNeighbors(n_neighbors=41, metric="cosine", n_jobs=-1).fit(columns)
    distance, other = nearest.kneighbors(columns)
    n_items = matrix.shape[1]
    indptr = np.arange(n_items + 1) * 41
    similarity = csr_matrix((1 - distance.ravel(), other.ravel(), indptr), shape=(n_items, n_items))
    fitted = time.perf_counter()
    for first in range(0, matrix.shape[0], 1000):
        rows = matrix[first : first + 1000]
        scores = (rows @ similarity).toarray()
        scores[rows.nonzero()] = -np.inf
        best = np.argpartition(-scores, N, axis=1)[:, :N]
        np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1), axis=1)
    return {"fit": fitted - start, "lists": time.perf_counter() - fitted, "users": matrix.shape[0]}


def main() -> None:
    """Run the job of the arguments and print its costs."""
    tool, path, job = sys.argv[1:]
    data = dict(np.load(path))
    work = {f.__name__: f for f in (evalplugin, surprise, implicit, rectools, skrecsys, lenskit, sklearn)}[
        tool
    ]
    print(json.dumps({**work(data, json.loads(job)), "peak_mb": memory_mb()}))


if __name__ == "__main__":
    main()
