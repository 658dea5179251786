"""Coverage and error rates of intervals and tests that take in seeds, with users and seeds drawn anew each time.

Scores of a model follow y(user, seed) = mean + user + seed + user-by-seed, as in a crossed design. Two models share
the users' part of the difficulty; their own user parts, seeds and interactions are independent. All are normal, so
that what is measured is the treatment of seeds alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from evalplugin.comparison.statistics.intervals import Interval
from evalplugin.comparison.statistics.paired import Paired
from evalplugin.comparison.statistics.seeds import SeedSpread, interval_with_seeds, paired_with_seeds

REPEATS = 20_000
USERS = 500
LEVEL = 0.95


def excludes(interval: Interval, value: float = 0.0) -> bool:
    """Return whether a value lies outside an interval; False when its bounds are undefined."""
    return bool(value < interval.low or value > interval.high)


def study(ratio: float, mixing: float, seeds: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return the error rate of the difference with seeds and by users alone, and the width relative to the ideal.

    Args:
        ratio: Standard deviation of a seed's effect on the mean over the standard error of users, of one model.
        mixing: Standard deviation of what a seed changes for one user, over that of users.
        seeds: Fits of each model.
        rng: Draws everything.
    """
    error = 1 / np.sqrt(USERS)
    # Sufficient statistics: the mean and the variance of users' differences, and the means of the seeds.
    wrong = wrong_users = width = 0.0
    for number in range(REPEATS):
        seed_effects = rng.normal(0, ratio * error, (2, seeds))
        mixed = rng.normal(0, mixing, (2, seeds)) * error  # the interactions' means over users, for each seed
        of_users = rng.normal(0, np.sqrt(2) * error)
        means = seed_effects + mixed
        difference = of_users + means[0].mean() - means[1].mean()
        variance = 2 * (1 + mixing**2 / seeds) * rng.chisquare(USERS - 1) / (USERS - 1)
        half = stdtrit(USERS - 1, (1 + LEVEL) / 2) * np.sqrt(variance / USERS)
        interval = Interval(difference, difference - half, difference + half, LEVEL, "t", USERS)
        wrong_users += excludes(interval)
        if seeds > 1:
            spreads = [SeedSpread(float(one.std(ddof=1)), seeds) for one in means]
            interval = interval_with_seeds(interval, spreads)
            paired = Paired(
                USERS, Interval(difference, difference - half, difference + half, LEVEL, "t", USERS), 0.0,
                difference / np.sqrt(variance), 0.5, 0.0, 0.5, {"permutation": 0.0}, "", 0.1,
            )  # fmt: skip
            if number < 200:  # the p-value agrees with the interval
                p = paired_with_seeds(paired, *spreads).p["permutation"]
                assert (p < 1 - LEVEL) == excludes(interval)
        wrong += excludes(interval)
        width += interval.high - interval.low
    true = np.sqrt(2 * (1 + ratio**2 / seeds + mixing**2 / seeds)) * error
    return wrong / REPEATS, wrong_users / REPEATS, width / REPEATS / (2 * 1.96 * true)


def main() -> None:
    """Print the table of the README, and write it beside this file."""
    rows = [
        "| seed against users | per user | seeds | wrong | wrong, users alone | width against the ideal |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for ratio in (0.0, 0.5, 1.0, 2.0):
        for mixing in (0.0, 1.0):
            for seeds in (1, 2, 3, 5, 10):
                rng = np.random.default_rng([int(10 * ratio), int(10 * mixing), seeds])
                wrong, alone, width = study(ratio, mixing, seeds, rng)
                shown = f"{100 * wrong:.1f} %" if seeds > 1 else "–"
                rows.append(
                    f"| {ratio:g} | {mixing:g} | {seeds} | {shown} | {100 * alone:.1f} % | {width:.2f} |"
                )
                print(rows[-1], flush=True)
    (Path(__file__).parent / "coverage.md").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    sys.exit(main())
