"""What the gate says by true gain and number of users: shares of promote, keep and cannot tell.

``python outcomes.py [--bakeoffs 1000] [--users 500 1000 3000 10000] [--seed 0]`` writes outcomes.csv and
outcomes.md to its own folder.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
from error_rates import METRIC, compared_model
from scipy.optimize import brentq
from scores import QUANTILES, SHARES, Table, alike, draw, draw_family

from evalplugin.base.seeding import generator
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.statistics import detectable_gain
from evalplugin.features.gate.decide import decide
from evalplugin.features.gate.schema import Gate

HERE = Path(__file__).parent
SCORES = ("ndcg, 60 % zeros", "ndcg, 85 % zeros")
CHALLENGERS = (1, 5)
TIMES = (0.0, 0.5, 1.0, 1.6, 2.0, 3.0)  # true gain of the best challenger over min_gain; the others have none
SIZE = 2000  # users who find twice min_gain 4 times in 5, if there is one challenger
OUTCOMES = ("promote", "keep", "cannot_tell")


@dataclass(frozen=True)
class Row:
    """Shares of the outcomes in one case."""

    scores: str
    challengers: int
    times: float
    users: int
    promote: float
    keep: float
    cannot_tell: float
    bakeoffs: int


@cache
def min_gain(scores: str) -> float:
    """Return the gain that ``SIZE`` users find 4 times in 5."""
    a, b = draw(alike(scores), 200_000, 1, np.random.default_rng(1))
    return detectable_gain(float((a - b).std()), SIZE, one_sided=True)


@cache
def gaining(scores: str, gain: float) -> Table:
    """Return the distribution of a model whose mean is higher by ``gain``."""
    quantile, mean = QUANTILES[scores], float(QUANTILES[scores](SHARES).mean())
    power = brentq(lambda power: float(quantile(SHARES ** (1 / power)).mean()) - mean - gain, 1, 50)
    table: Table = quantile(SHARES ** (1 / power))
    return table


def measure(users: int, bakeoffs: int, seed: int) -> Iterator[Row]:
    """Yield the shares for a number of users."""
    for scores in SCORES:
        least, (_, same) = min_gain(scores), alike(scores)
        gate = Gate(min_gain=least)
        for n in CHALLENGERS:
            for times in TIMES:
                rng = generator(seed, "outcomes", scores, n, times, users)
                tables = [gaining(scores, times * least)] + [same] * (n - 1)
                found: Counter[str] = Counter()
                for _ in range(bakeoffs):
                    values, champion = draw_family(tables, same, users, 1, rng)
                    models = [compared_model(str(number), column) for number, column in enumerate(values.T)]
                    models.append(compared_model("champion", champion[:, 0]))
                    contest = Contest("study", "scores", "", tuple(models), (METRIC,), None, 0, "test")
                    found[decide(contest, gate, "champion").outcome] += 1
                shares = {outcome: found[outcome] / bakeoffs for outcome in OUTCOMES}
                yield Row(scores, n, times, users, **shares, bakeoffs=bakeoffs)


def markdown(rows: list[Row]) -> str:
    """Return a table for each kind of scores and number of challengers."""
    sizes = sorted({row.users for row in rows})
    n = min(row.bakeoffs for row in rows)
    lines = [
        "# What the gate says",
        "",
        f"Written by `outcomes.py`; {n:,} simulated bake-offs a cell, so a standard error of {np.sqrt(0.0475 / n):.1%} "
        f"at 5 %. Each cell: promote / keep / cannot tell. `min_gain` is such that {SIZE:,} users find twice as "
        f"much 4 times in 5. True gain: of the best challenger, over `min_gain`; the others have none. Wrong, to be "
        f"at most 5 %, is `promote` up to a true gain of 1, and `keep` from there on.",
        "",
    ]
    cells = {(row.scores, row.challengers, row.times, row.users): row for row in rows}
    for scores, challengers in dict.fromkeys((row.scores, row.challengers) for row in rows):
        lines += [f"## {scores}, {challengers} challenger{'s' if challengers > 1 else ''}", ""]
        lines.append(f"| true gain | {' | '.join(f'{users:,} users' for users in sizes)} |")
        lines.append(f"|--:|{'--:|' * len(sizes)}")
        for times in TIMES:
            found = [cells[scores, challengers, times, users] for users in sizes]
            shown = (f"{row.promote:.1%} / {row.keep:.1%} / {row.cannot_tell:.1%}" for row in found)
            lines.append(f"| {times:g} | {' | '.join(shown)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bakeoffs", type=int, default=1000)
    parser.add_argument("--users", type=int, nargs="*", default=[500, 1000, 3000, 10_000])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows = [row for users in args.users for row in measure(users, args.bakeoffs, args.seed)]
    rows.sort(key=lambda row: (row.scores, row.challengers, row.times, row.users))
    with (HERE / "outcomes.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    (HERE / "outcomes.md").write_text(markdown(rows))


if __name__ == "__main__":
    main()
