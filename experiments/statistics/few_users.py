"""Few users and rare values: the paired test's error rate, and the coverage of intervals of one model's mean.

``python few_users.py [--bakeoffs 4000] [--seed 0]`` writes few_users.csv and few_users.md beside it.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from scipy import stats
from scores import SHARES, Table, draw

from evalplugin.base.seeding import generator
from evalplugin.comparison.statistics.intervals import mean_intervals
from evalplugin.comparison.statistics.paired import compare_pairs

HERE = Path(__file__).parent
AT_ONCE = 500  # bake-offs
TEST_USERS = (30, 50, 75, 100, 150, 200, 300, 500, 1000)
ZEROS = (0.6, 0.85, 0.95)
SERVED = {"beta(1.2, 3)": stats.beta(1.2, 3), "lognormal(0.7)": stats.lognorm(0.7)}
USERS = (50, 200, 1000, 3000)
RATES = (0.002, 0.005, 0.02, 0.05, 0.1, 0.25)
SIZES = {"0 or 1": None, "beta(1.2, 3)": stats.beta(1.2, 3), "a third, two thirds, 1": stats.randint(1, 4)}


@dataclass(frozen=True)
class Row:
    """One measured rate."""

    part: str  # test: share of false findings at 5 %; interval: coverage at 95 %
    values: str
    rate: float  # of the users that have another value than 0
    users: int
    method: str
    measured: float
    about: float  # test: users with different scores, on average; interval: mean width
    bakeoffs: int


def lopsided_tests(bakeoffs: int, seed: int) -> Iterator[Row]:
    """Yield error rates of the permutation test of models of one mean: b serves twice as many users half as well."""
    for zeros in ZEROS:
        for name, served in SERVED.items():
            for users in TEST_USERS:
                rng, wrong, differing = generator(seed, "few", zeros, name, users), 0, 0
                for start in range(0, bakeoffs, AT_ONCE):
                    size = min(AT_ONCE, bakeoffs - start)
                    a, b = draw(_lopsided(zeros, served), users, size, rng)
                    pairs = compare_pairs(a, b, rng=rng)
                    wrong += sum(pair.p["permutation"] <= 0.05 for pair in pairs)
                    differing += sum(pair.differing for pair in pairs)
                yield Row(
                    "test",
                    name,
                    1 - zeros,
                    users,
                    "permutation",
                    wrong / bakeoffs,
                    differing / bakeoffs,
                    bakeoffs,
                )


def _lopsided(zeros: float, served: stats.rv_continuous) -> tuple[Table, Table]:
    def scores(shares: Table) -> Table:
        return np.where(shares > zeros, served.ppf(np.clip((shares - zeros) / (1 - zeros), 0, 1)), 0)

    a, b = scores(np.clip(2 * SHARES - 1, 0, None)), scores(SHARES) / 2
    return a * (b.mean() / a.mean()), b


def rare_values(bakeoffs: int, seed: int) -> Iterator[Row]:
    """Yield the coverage of intervals of a mean of values that are 0 but for a share of the users."""
    for name, sizes in SIZES.items():
        for rate in RATES:
            for users in USERS:
                rng = generator(seed, "rare", name, rate, users)
                shape, scale = (users, bakeoffs), 3 if name.startswith("a third") else 1
                drawn = 1.0 if sizes is None else sizes.rvs(shape, random_state=rng) / scale
                values = np.where(rng.random(shape) < rate, drawn, 0.0)
                true = rate * (1.0 if sizes is None else sizes.mean() / scale)
                methods = {"auto": "auto", "before": "bootstrap" if users < 2000 else "t"}
                for shown, method in methods.items():
                    found = mean_intervals(values, method=method, rng=rng)
                    yield _coverage(name, rate, users, shown, [(i.low, i.high) for i in found], true)
                if sizes is None:
                    bounds = [
                        stats.binomtest(int(hits), users).proportion_ci(method="wilson")
                        for hits in values.sum(axis=0)
                    ]
                    yield _coverage(name, rate, users, "Wilson", [(i.low, i.high) for i in bounds], true)


def _coverage(
    name: str, rate: float, users: int, method: str, bounds: list[tuple[float, float]], true: float
) -> Row:
    low, high = np.array(bounds).T
    covered = float(np.mean((low <= true) & (true <= high)))
    return Row("interval", name, rate, users, method, covered, float(np.mean(high - low)), len(bounds))


def markdown(rows: list[Row]) -> str:
    """Return both tables."""
    n, m = (next(row.bakeoffs for row in rows if row.part == part) for part in ("test", "interval"))
    lines = [
        "# Few users and rare values",
        "",
        f"Written by `few_users.py`; {n:,} simulated bake-offs a cell of tests, {m:,} of intervals: standard errors of "
        f"{np.sqrt(0.0475 / n):.1%} and {np.sqrt(0.0475 / m):.1%}.",
        "",
        "## Share of models of one mean that a permutation test at 5 % calls different",
        "",
        "b serves twice as many users as a, half as well. In brackets: users with different scores, on average. "
        "**Bold**: above 6 %.",
        "",
        f"| zeros of b | scores of served users | {' | '.join(f'{users:,} users' for users in TEST_USERS)} |",
        f"|--:|---|{'--:|' * len(TEST_USERS)}",
    ]
    tests = {(row.rate, row.values, row.users): row for row in rows if row.part == "test"}
    for rate, name in dict.fromkeys((rate, name) for rate, name, _ in tests):
        cells = []
        for users in TEST_USERS:
            row = tests[rate, name, users]
            text = f"{row.measured:.1%}"
            cells.append(f"{f'**{text}**' if row.measured > 0.06 else text} ({row.about:.0f})")
        lines.append(f"| {1 - rate:.0%} | {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "## Intervals (95 %) of one model's mean that hold the true one",
        "",
        "before: bootstrap (BCa) below 2,000 users, Student's t from there on; auto: what is used now. In brackets: "
        "mean width. **Bold**: below 93 %.",
        "",
        f"| values | users with another than 0 | method | {' | '.join(f'{users:,} users' for users in USERS)} |",
        f"|---|--:|---|{'--:|' * len(USERS)}",
    ]
    intervals = {(r.values, r.rate, r.method, r.users): r for r in rows if r.part == "interval"}
    for name, rate, method in dict.fromkeys(key[:3] for key in intervals):
        cells = []
        for users in USERS:
            row = intervals[name, rate, method, users]
            text = f"{row.measured:.1%}"
            cells.append(f"{f'**{text}**' if row.measured < 0.93 else text} ({row.about:.3f})")
        lines.append(f"| {name} | {rate:.1%} | {method} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bakeoffs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows = [*lopsided_tests(args.bakeoffs, args.seed), *rare_values(args.bakeoffs // 2, args.seed)]
    with (HERE / "few_users.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    (HERE / "few_users.md").write_text(markdown(rows))


if __name__ == "__main__":
    main()
