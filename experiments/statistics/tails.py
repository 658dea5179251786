"""Error rates of paired tests at the strict levels of large families of comparisons.

``python tails.py [--bakeoffs 400000] [--users 50 200 1000] [--seed 0]`` writes tails.csv and tails.md beside it.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from scipy.special import ndtr, stdtr
from scores import Table, alike, draw, lopsided

from evalplugin.base.seeding import generator

HERE = Path(__file__).parent
SCORES = ("ndcg, 60 % zeros", "ndcg, 85 % zeros", "dcg, long tail")
LEVELS = (1e-3, 1e-4, 1e-5)
METHODS = ("bound", "normal", "t")
VALUES_AT_ONCE = 10**7


@dataclass(frozen=True)
class Row:
    """Share of bake-offs whose p-value is at most a level."""

    models: str
    scores: str
    users: int
    method: str
    level: float
    rate: float
    bakeoffs: int


def p_values(differences: Table) -> dict[str, Table]:
    """Return the two-sided p-values of each column by method."""
    n, squares = len(differences), (differences**2).sum(axis=0)
    z = np.abs(differences.sum(axis=0)) / np.sqrt(np.where(squares > 0, squares, 1))
    t = z * np.sqrt((n - 1) / np.maximum(n - z**2, 1e-12))
    normal = 2 * ndtr(-z)
    return {"bound": normal / (4 * ndtr(-np.sqrt(2))), "normal": normal, "t": 2 * stdtr(n - 1, -t)}


def measure(users: int, bakeoffs: int, seed: int) -> Iterator[Row]:
    """Yield the rates for a number of users."""
    for models, tables in (("alike", alike), ("lopsided", lopsided)):
        for scores in SCORES:
            rng, at_once = generator(seed, "tails", models, scores, users), VALUES_AT_ONCE // users
            found = np.zeros((len(METHODS), len(LEVELS)))
            for start in range(0, bakeoffs, at_once):
                a, b = draw(tables(scores), users, min(at_once, bakeoffs - start), rng)
                p = p_values(a - b)
                found += [[np.count_nonzero(p[method] <= level) for level in LEVELS] for method in METHODS]
            for method, counts in zip(METHODS, found, strict=True):
                for level, count in zip(LEVELS, counts, strict=True):
                    yield Row(models, scores, users, method, level, count / bakeoffs, bakeoffs)


def markdown(rows: list[Row]) -> str:
    """Return a table of rates over levels, for two models that are alike and for lopsided ones."""
    n = min(row.bakeoffs for row in rows)
    lines = [
        "# Tests at strict levels",
        "",
        f"Written by `tails.py`; {n:,} simulated bake-offs a row, none with a difference. Each cell: share of p-values "
        f"at most the level, over the level: 1 is right, below 1 is on the safe side. Standard error at 1: "
        f"{', '.join(f'{np.sqrt(1 / n / level):.2f} at {level:g}' for level in LEVELS)}. bound: of all sign flips, "
        f"used where none of 10,000 is as extreme; normal: their normal limit; t: the paired t test.",
        "",
    ]
    cells = {(r.models, r.scores, r.users, r.method, r.level): r for r in rows}
    for models in dict.fromkeys(row.models for row in rows):
        heads = [f"{method}, {level:g}" for method in METHODS for level in LEVELS]
        lines += [f"## Models that are {models}", "", f"| scores | users | {' | '.join(heads)} |"]
        lines.append(f"|---|--:|{'--:|' * len(heads)}")
        for scores, users in dict.fromkeys((r.scores, r.users) for r in rows if r.models == models):
            rates = (cells[models, scores, users, m, level].rate / level for m in METHODS for level in LEVELS)
            lines.append(f"| {scores} | {users:,} | {' | '.join(f'{rate:.1f}' for rate in rates)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bakeoffs", type=int, default=400_000)
    parser.add_argument("--users", type=int, nargs="*", default=[50, 200, 1000])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows = [row for users in args.users for row in measure(users, args.bakeoffs, args.seed)]
    rows.sort(key=lambda row: (row.models, SCORES.index(row.scores), row.users))
    with (HERE / "tails.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    (HERE / "tails.md").write_text(markdown(rows))


if __name__ == "__main__":
    main()
