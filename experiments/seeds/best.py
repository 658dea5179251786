"""How often the true best is among the models that may be the best, with users and seeds drawn anew each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalplugin.comparison.statistics.best import may_be_best
from evalplugin.comparison.statistics.seeds import seed_spread

REPEATS = 1000
USERS = 100
MODELS = 3


def rates(sd: float, seeds: int) -> tuple[float, float]:
    """Return the rate with the seeds, and by users alone; ``sd`` is of a seed's effect on a model's mean."""
    rng = np.random.default_rng(10)
    kept = alone = 0
    for _ in range(REPEATS):
        scores = rng.normal(0, 1, (USERS, MODELS)) + rng.normal(0, 1, (USERS, 1))
        means = rng.normal(0, sd, (MODELS, seeds))
        scores += means.mean(axis=1)
        spreads = [seed_spread(one.tolist()) for one in means]
        kept += int(may_be_best(scores, seeds=spreads, rng=rng)[0])
        alone += int(may_be_best(scores, rng=rng)[0])
    return kept / REPEATS, alone / REPEATS


def main() -> None:
    """Print the table, and write it beside this file."""
    rows = ["| seed's effect (sd) | seeds | kept | kept, users alone |", "|---:|---:|---:|---:|"]
    for sd, seeds in ((0.05, 5), (0.15, 2), (0.15, 3), (0.15, 5), (0.3, 5)):
        kept, alone = rates(sd, seeds)
        rows.append(f"| {sd:g} | {seeds} | {100 * kept:.1f} % | {100 * alone:.1f} % |")
    print("\n".join(rows))
    (Path(__file__).parent / "best.md").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
