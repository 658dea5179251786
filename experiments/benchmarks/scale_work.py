"""Run one contestant of ``scale.py`` in a process: ``scale_work.py CONTESTANT`` and a config, or data and models.

Each step prints a line as it begins, ``fit als ...``, and DONE as it ends: ``scale.py`` takes the times. The script by
hand and RecTools print their means at the end, as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

MODELS = ("popularity", "item-knn", "tsvd", "als", "ease", "svd")
N, HELD_OUT, BLOCK = 100, 5, 1024
DONE = "done ..."  # the end of the step that began last

Means = dict[str, dict[str, float]]


@contextmanager
def step(label: str) -> Iterator[None]:
    """Print the begin and the end of a step."""
    print(label, "...", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(DONE, file=sys.stderr, flush=True)


def evalplugin(config: str) -> None:
    """Run a bake-off as the command does, which prints the begin and the end of each step of its progress."""
    from evalplugin.__main__ import script
    from evalplugin.cli import show

    original = show.observer

    @contextmanager
    def progress(label: Any, total: int | None = None) -> Iterator[Callable[[int], None]]:
        with step(label if isinstance(label, str) else label()):
            yield lambda done: None

    def observer() -> Any:
        lines: Any = original()
        lines.progress = progress
        return lines

    vars(show)["observer"] = observer
    sys.argv = ["evalplugin", "run", config]
    script()


def hand(path: str, *models: str) -> Means:
    """Do the job as a script of one afternoon does: no checks, no statistics, no log."""
    import numpy as np
    import pyarrow.parquet as pq
    from implicit.als import AlternatingLeastSquares
    from implicit.nearest_neighbours import CosineRecommender
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import TruncatedSVD
    from threadpoolctl import threadpool_limits

    with step("read shop"):
        table = pq.read_table(path)
    with step("split shop"):
        user_ids, item_ids = (table[name].combine_chunks().dictionary_encode() for name in ("user", "item"))
        user, item = user_ids.indices.to_numpy(), item_ids.indices.to_numpy()
        n_users, n_items = len(user_ids.dictionary), len(item_ids.dictionary)
        order = np.lexsort((table["timestamp"].to_numpy(), user))
        user, item, rating = user[order], item[order], table["rating"].to_numpy()[order]
        counts = np.bincount(user)
        from_end = np.cumsum(counts)[user] - np.arange(len(user))
        is_test = (from_end <= HELD_OUT) & (counts > HELD_OUT)[user]
        train = csr_matrix((rating[~is_test], (user[~is_test], item[~is_test])), (n_users, n_items))
        train.sort_indices()
        tested = np.flatnonzero(counts > HELD_OUT)
        truth, gains = item[is_test].reshape(-1, HELD_OUT), rating[is_test].reshape(-1, HELD_OUT)
    blocks = np.array_split(tested, -(-len(tested) // BLOCK))

    def popularity() -> Callable[[], Any]:
        best_first = np.argsort(-np.bincount(train.indices, minlength=n_items), kind="stable")

        def lists() -> Any:
            found, is_seen = np.empty((len(tested), N), dtype=np.int64), np.zeros(n_items, dtype=bool)
            for row, user in enumerate(tested):
                seen = train.indices[train.indptr[user] : train.indptr[user + 1]]
                is_seen[seen] = True
                best = best_first[: N + len(seen)]
                found[row] = best[~is_seen[best]][:N]
                is_seen[seen] = False
            return found

        return lists

    def best_of(scores_of: Callable[[Any], Any]) -> Callable[[], Any]:
        """Return the lists by dense scores of blocks of users."""

        def top(block: Any) -> Any:
            scores, seen = scores_of(block), train[block]
            scores[np.repeat(np.arange(len(block)), np.diff(seen.indptr)), seen.indices] = -np.inf
            best = np.argpartition(scores, -N, axis=1)[:, -N:]
            by_score = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
            return np.take_along_axis(best, by_score, axis=1)

        return lambda: np.concatenate([top(block) for block in blocks])

    def item_knn() -> Callable[[], Any]:
        model = CosineRecommender(K=N)
        model.fit(train, show_progress=False)
        return lambda: np.concatenate([model.recommend(block, train[block], N=N)[0] for block in blocks])

    def tsvd() -> Callable[[], Any]:
        model = TruncatedSVD(64, n_iter=20, random_state=1)
        factors = model.fit_transform(train)
        return best_of(lambda block: factors[block] @ model.components_)

    def als() -> Callable[[], Any]:
        model = AlternatingLeastSquares(64, random_state=1)
        with threadpool_limits(1, "blas"):  # as implicit demands
            model.fit(train, show_progress=False)
        return lambda: model.recommend(tested, train[tested], N=N)[0]

    def ease() -> Callable[[], Any]:
        binary = train.astype(bool).astype(np.float64)
        inverse = np.linalg.inv((binary.T @ binary).toarray() + 500 * np.eye(n_items))
        weights = inverse / -np.diag(inverse)
        np.fill_diagonal(weights, 0)
        return best_of(lambda block: binary[block] @ weights)

    def svd() -> Callable[[], Any]:
        import pandas as pd
        import surprise

        pairs = train.tocoo()
        frame = pd.DataFrame({"user": pairs.row, "item": pairs.col, "rating": pairs.data})
        data = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=(1, 5)))
        trainset = data.build_full_trainset()
        model = surprise.SVD(random_state=1).fit(trainset)
        rows = np.array([trainset.to_inner_uid(user) for user in range(n_users)])
        columns = np.array([trainset.to_raw_iid(inner) for inner in range(trainset.n_items)])

        def scores(block: Any) -> Any:
            known = np.full((len(block), n_items), -np.inf)
            known[:, columns] = model.pu[rows[block]] @ model.qi.T + model.bi
            return known

        return best_of(scores)

    discount = 1 / np.log2(np.arange(2, 12))
    ideal = -np.sort(-gains, axis=1) @ discount[:HELD_OUT]
    keys = truth.ravel() + np.repeat(np.arange(len(tested)), HELD_OUT) * n_items
    by_key = np.argsort(keys)
    keys, gain_of = keys[by_key], gains.ravel()[by_key]

    def score(lists: Any) -> dict[str, float]:
        listed = lists + np.arange(len(tested))[:, None] * n_items
        place = np.searchsorted(keys, listed).clip(max=len(keys) - 1)
        hit = keys[place] == listed
        precision = hit.cumsum(axis=1) / np.arange(1, N + 1)
        return {
            "ndcg@10": float(((hit * gain_of[place])[:, :10] @ discount / ideal).mean()),
            "recall@10": float(hit[:, :10].mean() * 10 / HELD_OUT),
            "ap@100": float((hit * precision).sum(axis=1).mean() / HELD_OUT),
            "coverage@10": len(np.unique(lists[:, :10])) / n_items,
        }

    fits = dict(zip(MODELS, (popularity, item_knn, tsvd, als, ease, svd), strict=True))
    means = {}
    for name in models:
        with step(f"fit {name}"):
            recommend = fits[name]()
        with step(f"recommend {name}"):
            lists = recommend()
        with step(f"score {name}"):
            means[name] = score(lists)
    return means


def rectools(path: str, *models: str) -> Means:
    """Do the job as RecTools documents it, with popularity, item neighbours, PureSVD and EASE."""
    import pandas as pd
    from implicit.nearest_neighbours import CosineRecommender
    from rectools.dataset import Dataset, Interactions
    from rectools.metrics import MAP, NDCG, CatalogCoverage, Recall, calc_metrics
    from rectools.model_selection import LastNSplitter
    from rectools.models import EASEModel, ImplicitItemKNNWrapperModel, PopularModel, PureSVDModel

    with step("read shop"):
        columns = {"user": "user_id", "item": "item_id", "rating": "weight", "timestamp": "datetime"}
        frame = pd.read_parquet(path).rename(columns=columns)
        interactions = Interactions(frame)
    with step("split shop"):
        train_rows, test_rows, _ = next(LastNSplitter(HELD_OUT).split(interactions))
        train, test = interactions.df.iloc[train_rows], interactions.df.iloc[test_rows]
        dataset, tested = Dataset.construct(train), test["user_id"].unique()
    made = {
        "popularity": lambda: PopularModel(),
        "item-knn": lambda: ImplicitItemKNNWrapperModel(CosineRecommender(K=N)),
        "tsvd": lambda: PureSVDModel(factors=64),
        "ease": lambda: EASEModel(regularization=500),
    }
    metrics = {
        "ndcg@10": NDCG(10),
        "recall@10": Recall(10),
        "ap@100": MAP(N),
        "coverage@10": CatalogCoverage(10, normalize=True),
    }
    means = {}
    for name in [name for name in models if name in made]:
        with step(f"fit {name}"):
            model = made[name]()
            model.fit(dataset)
        with step(f"recommend {name}"):
            lists = model.recommend(tested, dataset, k=N, filter_viewed=True)
        with step(f"score {name}"):
            means[name] = calc_metrics(metrics, lists, test, catalog=train["item_id"].unique())
    return means


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    contestant, *arguments = sys.argv[1:]
    if contestant == "evalplugin":
        evalplugin(*arguments)
    else:
        print(json.dumps({"hand": hand, "rectools": rectools}[contestant](*arguments)))
