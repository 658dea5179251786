"""Bias of metrics on logs that favour popular items, with and without weights, where the propensities are known.

Items differ in their appeal a. A user finds an item relevant with a chance of 0.6 a^0.5, and a
relevant item is observed with a chance of c a^g. So popularity in the log grows as a^(0.5 + g), and
the propensity as popularity^(g / (0.5 + g)): the right power. Train data are drawn by the same
process for other users, so that popularity is counted, not known. Three lists of every user are
scored on the observed items and on all relevant ones.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.data import Interactions
from evalplugin.metrics import Blocks, parse
from evalplugin.metrics.scoring import score_top_n
from evalplugin.models import TopN

USERS, TRAIN_USERS, ITEMS, K, DRAWS = 400, 2_000, 600, 20, 40
RECALL, NDCG, AP = METRICS = tuple(f"{name}({{}})@{K}" for name in ("recall", "ndcg", "ap"))
ERRORS = (
    "plain", "half the power", "right", "half more", "ndcg, plain", "ndcg, weighted", "ap, plain", "ap, weighted",
)  # fmt: skip
HERE = Path(__file__).parent
Flags = npt.NDArray[np.bool_]


def main() -> None:
    """Write propensity.csv and propensity.md."""
    rows = list(_rows(np.random.default_rng(0)))
    with (HERE / "propensity.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    heads = list(rows[0])
    lines = [heads, ["---"] + ["--:"] * (len(heads) - 1), *([str(v) for v in row.values()] for row in rows)]
    (HERE / "propensity.md").write_text("".join(f"| {' | '.join(line)} |\n" for line in lines))


def _rows(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    appeal = np.arange(1, ITEMS + 1) ** -0.5
    for g, c in ((0.0, 0.1), (0.5, 0.3), (0.5, 0.1), (1.0, 1.0), (1.0, 0.3), (2.0, 1.0)):
        chance = c * appeal**g
        relevant, other = (rng.random((n, ITEMS)) < 0.6 * appeal**0.5 for n in (USERS, TRAIN_USERS))
        observed = (relevant * chance).sum(axis=1).mean()
        right = g / (0.5 + g)
        train = _interactions(other & (rng.random(other.shape) < chance))
        for name, lists in _lists(rng, relevant, appeal).items():
            full = _means(lists, relevant, train, [_weighted(metric, 0.0) for metric in METRICS])
            asked = [_weighted(RECALL, power) for power in (0.0, right / 2, right, 1.5 * right)]
            asked += [_weighted(metric, power) for metric in (NDCG, AP) for power in (0.0, right)]
            draws = []
            for _ in range(DRAWS):
                seen = relevant & (rng.random(relevant.shape) < chance)
                draws.append(_means(lists, seen, train, asked))
            share = np.mean(draws, axis=0) / np.repeat(full, [4, 2, 2])
            yield {
                "lists": name,
                "g": g,
                "observed a user": round(float(observed), 1),
                "right power": round(right, 2),
                "recall, all relevant": f"{full[0]:.4f}",
                **{head: f"{value - 1:+.0%}" for head, value in zip(ERRORS, share.tolist(), strict=True)},
            }


def _lists(
    rng: np.random.Generator, relevant: Flags, appeal: npt.NDArray[np.float64]
) -> dict[str, npt.NDArray[np.int32]]:
    """Return lists that follow popularity, relevance whatever the popularity, or relevance among rare items."""
    noise = rng.normal(0, 1, relevant.shape)
    score = {
        "popular": np.log(appeal) + 0.5 * noise,
        "relevant": 1.5 * relevant + noise,
        "niche": 1.5 * relevant - 0.5 * np.log(appeal) + noise,
    }
    return {name: np.argsort(-values, axis=1)[:, :K].astype(np.int32) for name, values in score.items()}


def _weighted(metric: str, power: float) -> str:
    return metric.format(f"propensity=popularity, power={power:.6f}")


def _means(
    lists: npt.NDArray[np.int32], truth: Flags, train: Interactions, names: list[str]
) -> npt.NDArray[np.float64]:
    """Return the means over users that evalplugin computes."""
    top_n = TopN(np.arange(USERS, dtype=np.int32), lists, np.zeros(lists.shape))
    wide = np.zeros((TRAIN_USERS, ITEMS), dtype=np.bool_)
    wide[:USERS] = truth
    specs = list(map(parse, names))
    blocks = Blocks.of(top_n, _interactions(wide), train=train)
    scores = score_top_n(blocks, [*dict.fromkeys(specs)])
    return np.array([scores.means[spec.name] for spec in specs])


def _interactions(table: Flags) -> Interactions:
    user, item = np.nonzero(table)
    return Interactions(
        user=user.astype(np.int32),
        item=item.astype(np.int32),
        rating=np.ones(len(user), dtype=np.float32),
        timestamp=None,
        users=np.arange(TRAIN_USERS),
        items=np.arange(ITEMS),
    )


if __name__ == "__main__":
    main()
