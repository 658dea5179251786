"""What the order of equal scores is worth: user neighbours on CiteULike-a, by ids and by hashes.

    EVALPLUGIN_DATA_HOME=DATA python experiments/ties/citeulike.py

DATA holds published/citeulike-cmn/citeulike-a.npz. Ten articles of each user, drawn with one seed, are train data.
Users are compared by Jaccard's coefficient, and an article's score is the sum over a user's nearest neighbours.
Writes citeulike.md.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from evalplugin.base.seeding import hashed_ranks
from evalplugin.models import select_top_n

HERE = Path(__file__).resolve().parent
N, TRAIN, SEEDS, NEIGHBOURS = 300, 10, 20, (5, 20, 100)


def main() -> None:
    """Measure and write the table."""
    file = Path(os.environ["EVALPLUGIN_DATA_HOME"], "published", "citeulike-cmn", "citeulike-a.npz")
    with np.load(file, allow_pickle=False) as arrays:
        pairs = arrays["train_data"]
    train, test = divided(pairs, np.random.default_rng(0))
    items = np.arange(train.shape[1])
    orders = {"ascending": items, "descending": items[::-1].copy()}
    hashed = {f"hashed {seed}": hashed_ranks(items, seed, "ties") for seed in range(SEEDS)}
    lines = [
        "| neighbours | lists tied across the cutoff | ids ascending | ids descending "
        f"| hashed, {SEEDS} seeds: mean | lowest to highest |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for size in NEIGHBOURS:
        recall, tied = recalls(scores_of(train, size), train, test, orders | hashed)
        of_hashes = [recall[name] for name in hashed]
        lines.append(
            f"| {size} | {100 * tied:.0f} % | {recall['ascending']:.4f} | {recall['descending']:.4f} | "
            f"{np.mean(of_hashes):.4f} | {min(of_hashes):.4f} to {max(of_hashes):.4f} |"
        )
    text = "\n".join(
        [f"Recall@{N} of user neighbours on CiteULike-a, {TRAIN} train articles a user.", "", *lines]
    )
    (HERE / "citeulike.md").write_text(text + "\n", encoding="utf-8")


def divided(pairs: np.ndarray, rng: np.random.Generator) -> tuple[csr_array, csr_array]:
    """Return train and test data as matrices of users and items: some random pairs of each user, and the rest."""
    pairs = pairs[rng.permutation(len(pairs))]
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    place = np.arange(len(pairs)) - np.searchsorted(pairs[:, 0], pairs[:, 0])
    shape = tuple(pairs.max(axis=0) + 1)
    parts = pairs[place < TRAIN], pairs[place >= TRAIN]
    train, test = (csr_array((np.ones(len(part)), tuple(part.T)), shape=shape) for part in parts)
    return train, test


def scores_of(train: csr_array, size: int) -> csr_array:
    """Return the scores of all items for all users: sums of the similarities of a user's nearest neighbours."""
    common = (train @ train.T).toarray()
    counts = np.diff(train.indptr)
    similarity = common / (counts[:, None] + counts - common)
    np.fill_diagonal(similarity, 0)
    others = np.argpartition(-similarity, size, axis=1)[:, size:]
    np.put_along_axis(similarity, others, 0, axis=1)
    return csr_array(similarity) @ train


def recalls(
    scores: csr_array, train: csr_array, test: csr_array, orders: dict[str, np.ndarray]
) -> tuple[dict[str, float], float]:
    """Return the recall by order of equal scores, and the share of lists that are tied across the cutoff."""
    found: dict[str, list[float]] = {name: [] for name in orders}
    tied: list[bool] = []
    tested = np.flatnonzero(np.diff(test.indptr))
    for users in np.array_split(tested, 20):
        block, truth = scores[users].toarray(), test[users].toarray() > 0
        block[train[users].toarray() > 0] = -np.inf
        for name, rank in orders.items():
            item, score = select_top_n(block, N + 1, rank)
            hits = np.take_along_axis(truth, item[:, :N], axis=1).sum(axis=1)
            found[name] += (hits / truth.sum(axis=1)).tolist()
        tied += (score[:, N - 1] == score[:, N]).tolist()
    return {name: float(np.mean(values)) for name, values in found.items()}, float(np.mean(tied))


if __name__ == "__main__":
    main()
