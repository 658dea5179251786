"""How many more users would tell two models apart: how uncertain the number is, and how often its lower bound holds.

``python users_to_tell.py [--bakeoffs 400] [--seed 0]`` writes users_to_tell.md beside it.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

from evalplugin.base.seeding import generator
from evalplugin.comparison.best import BestModels, best_models
from evalplugin.comparison.statistics.power import detectable_gain, users_needed
from evalplugin.metrics import parse

SD = 0.25  # of the differences of two models
USERS = (500, 2000)
MODELS = (2, 5)
NEEDED = (0.5, 1, 3, 10, math.inf)  # users that tell the best model in 4 of 5 bake-offs, in users at hand


def bakeoff(n_models: int, n_users: int, lead: float, rng: np.random.Generator) -> tuple[BestModels, float]:
    """Return who may be the best, and the upper end of the 95 % interval of the leader's lead over the rival.

    The models differ for half of the users; model 0 is better by ``lead``.
    """
    easy = rng.beta(0.6, 2, n_users)[:, None]
    noise = SD * rng.standard_normal((n_users, n_models)) * (rng.random((n_users, n_models)) < 0.5)
    values = easy + noise
    values[:, 0] += lead
    columns = {f"{m}": values[:, m] for m in range(n_models)}
    best = best_models(columns, parse("ndcg@10"), level=0.95, rng=rng, seeds={})
    assert best is not None
    assert best.rival is not None
    difference = values[:, int(best.leader)] - values[:, int(best.rival)]
    return best, float(difference.mean() + 1.96 * difference.std(ddof=1) / np.sqrt(n_users))


def row(n_models: int, n_users: int, needed: float, bakeoffs: int, seed: int) -> str:
    """Return a row of the table."""
    rng = generator(seed, n_models, n_users, needed)
    level = 1 - 0.05 / (n_models - 1)
    lead = 0.0
    if math.isfinite(needed):
        lead = detectable_gain(SD, round(needed * n_users), level=level, one_sided=True)
    measured, least, holds = [], [], []
    for _ in range(bakeoffs):
        best, highest = bakeoff(n_models, n_users, lead, rng)
        if best.users_to_tell is None:
            continue
        true_lead = lead * ((best.leader == "0") - (best.rival == "0"))
        truth = users_needed(SD, true_lead, level=level, one_sided=True) if true_lead > 0 else math.inf
        measured.append(best.users_to_tell + n_users)
        least.append(max(users_needed(SD, highest, level=level, one_sided=True), n_users))
        holds.append(least[-1] <= max(truth, n_users))
    low, middle, high = np.quantile(measured, [0.1, 0.5, 0.9]) / n_users
    ends = np.quantile(least, [0.1, 0.9]) / n_users
    cells = [
        f"{n_models} | {n_users:,} | {f'{needed:g}' if math.isfinite(needed) else 'none suffices'}",
        f"{len(holds)} of {bakeoffs} | {low:.1f} | {middle:.1f} | {high:,.0f}",
        f"{ends[0]:.1f} to {ends[1]:.1f} | {np.mean(holds):.0%}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bakeoffs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    lines = [
        "# Users that tell two models apart",
        "",
        "Written by `users_to_tell.py`. All numbers of users are multiples of the users at hand. One model is better "
        "than all others, which are alike. *needed*: the users with whom it is told from one of them in 4 of 5 "
        "bake-offs. *undecided*: bake-offs in which several models may be the best; the rest of a row is of these. "
        "*measured*: the users that it takes if the measured lead is true (`users_to_tell`), in quantiles. *least*: if "
        "the lead is at the upper end of its 95 % interval, 10 % to 90 %. *holds*: no fewer are needed.",
        "",
        "| models | users | needed | undecided | measured, 10 % | 50 % | 90 % | least | holds |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for n_models in MODELS:
        for n_users in USERS:
            lines += [row(n_models, n_users, needed, args.bakeoffs, args.seed) for needed in NEEDED]
    Path(__file__).with_suffix(".md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
