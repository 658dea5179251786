"""How often intervals of gaps between groups and of worst groups hold the true value, and tests of two models err.

``python groups.py [--users 30 200 1000] [--groups 2 3 6 12] [--seed 0]`` writes groups.csv and groups.md to its own
folder. Rows of other numbers of users and groups remain, so that it can be run in pieces.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scores import QUANTILES, SHARES, Table, draw

from evalplugin.base.seeding import generator
from evalplugin.comparison.statistics.groups import (
    GroupMeans,
    gap_difference,
    gap_of,
    worst_difference,
    worst_of,
)
from evalplugin.comparison.statistics.intervals import mean_intervals

HERE = Path(__file__).parent
LEVEL = 0.95
BAKEOFFS = 500
RESAMPLES = 500
WORSE = 0.6  # power of the shares of users: the nearer to 1, the nearer to the best group
TRUTHS = {
    "alike": "All groups have the same mean, by both models.",
    "one worse": "One group has a lower mean, by both models.",
    "exchanged": "Means of groups fall by equal steps, by the other model in the opposite order: gaps and worst means "
    "are the same, and the worst group is another.",
    "helped": "All groups are alike by one model, one group has a lower mean by the other: differences are true.",
}
STATISTICS = ("gap", "worst", "gap difference", "worst difference")


@dataclass(frozen=True)
class Cell:
    """What was measured of one statistic with one kind of groups."""

    statistic: str
    truth: str
    scores: str
    groups: int
    users: int  # of every other group; the others have four times as many
    true: float
    bias: float  # mean of the measured value less the true one
    covered: float
    above: float  # share of intervals that are above the true value
    width: float  # mean; NaN where an interval has no bounds
    found: float  # share of differences with p of 5 % at most; of gaps and worst means 0
    bootstrap_covered: float  # by percentiles of resampled users, group by group, of both models together
    bootstrap_width: float
    bootstrap_found: float

    @property
    def is_null(self) -> bool:
        """Whether a difference that is found is an error."""
        return "difference" in self.statistic and self.truth != "helped"

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """Identity, equal in every run."""
        return self.statistic, self.truth, self.scores, self.groups, self.users


def tables_of(truth: str, scores: str, n_groups: int) -> list[tuple[Table, Table]]:
    """Return the distributions of both models in each group."""

    def of(power: float) -> Table:
        return QUANTILES[scores](SHARES ** (1 / power))

    one = [of(WORSE), *[of(1.0)] * (n_groups - 1)]
    alike = [of(1.0)] * n_groups
    steps = [of(power) for power in np.linspace(1, WORSE, n_groups)]
    a, b = {
        "alike": (alike, alike),
        "one worse": (one, one),
        "exchanged": (steps, steps[::-1]),
        "helped": (alike, one),
    }[truth]
    return list(zip(a, b, strict=True))


def bootstrapped(
    values: Sequence[npt.NDArray[np.float64]], rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return resampled means (model, group, resample, bake-off) of groups' values (model, users, bake-off)."""
    means = []
    for of_group in values:
        n = of_group.shape[1]
        counts = rng.multinomial(n, np.full(n, 1 / n), RESAMPLES) / n
        means.append(counts @ of_group)
    return np.stack(means, axis=1)


def measure(truth: str, scores: str, n_groups: int, n_users: int, seed: int) -> Iterator[Cell]:
    """Yield the cells of all statistics."""
    rng = generator(seed, truth, scores, n_groups, n_users)
    tables = tables_of(truth, scores, n_groups)
    sizes = [n_users * (4 if group % 2 else 1) for group in range(n_groups)]
    values = [np.stack(draw(pair, size, BAKEOFFS, rng)) for pair, size in zip(tables, sizes, strict=True)]
    means = np.array([[table.mean() for table in pair] for pair in tables]).T  # (model, group)
    gaps, worst = means.max(axis=1) - means.min(axis=1), means.min(axis=1)
    true = dict(zip(STATISTICS, (gaps[0], worst[0], gaps[0] - gaps[1], worst[0] - worst[1]), strict=True))

    degrees = np.array(sizes, dtype=np.float64) - 1
    by_group = [
        mean_intervals(v[0], level=LEVEL, bounds=[None] * BAKEOFFS, rng=np.random.default_rng(seed))
        for v in values
    ]
    group = np.repeat(np.arange(n_groups), sizes)
    rows: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in STATISTICS}
    for bakeoff, intervals in enumerate(zip(*by_group, strict=True)):
        for name, extreme in (
            ("gap", gap_of(intervals, degrees)),
            ("worst", worst_of(intervals, degrees, 1)),
        ):
            rows[name].append((extreme.value, extreme.low, extreme.high, 1.0))
        a, b = (np.concatenate([v[model, :, bakeoff] for v in values]) for model in (0, 1))
        both = GroupMeans.of(a, b, group, n_groups)
        for name, found in (
            ("gap difference", gap_difference(both)),
            ("worst difference", worst_difference(both, 1)),
        ):
            rows[name].append((found.value, found.low, found.high, found.p))

    resampled = bootstrapped(values, rng)
    of_gaps = resampled.max(axis=1) - resampled.min(axis=1)  # (model, resample, bake-off)
    of_worst = resampled.min(axis=1)
    draws = dict(
        zip(
            STATISTICS,
            (of_gaps[0], of_worst[0], of_gaps[0] - of_gaps[1], of_worst[0] - of_worst[1]),
            strict=True,
        )
    )
    for name in STATISTICS:
        value, low, high, p = np.array(rows[name]).T
        least, most = np.quantile(draws[name], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        is_difference = "difference" in name
        room = 1e-9  # for rounding
        yield Cell(
            name, truth, scores, n_groups, n_users, float(true[name]), float(value.mean() - true[name]),
            covered=float(np.mean((low <= true[name] + room) & (true[name] <= high + room))),
            above=float(np.mean(low > true[name] + room)),
            width=float(np.mean(high - low)),
            found=float(np.mean(p <= 1 - LEVEL)) if is_difference else 0.0,
            bootstrap_covered=float(np.mean((least <= true[name] + room) & (true[name] <= most + room))),
            bootstrap_width=float(np.mean(most - least)),
            bootstrap_found=float(np.mean((least > 0) | (most < 0))) if is_difference else 0.0,
        )  # fmt: skip


def markdown(cells: Sequence[Cell]) -> str:
    """Return all tables."""
    error = np.sqrt(LEVEL * (1 - LEVEL) / BAKEOFFS)
    lines = [
        "# Gap and worst group",
        "",
        f"Written by `groups.py`: {BAKEOFFS:,} simulated bake-offs for each cell, {len(QUANTILES)} kinds of scores. "
        "Every other group has the given number of users, the others four times as many.",
        "",
        "Covered: share of 95 % intervals with the true value, mean over kinds of scores (lowest of them); a true "
        f"share of 95 % is measured with a standard error of {error:.1%}. Bias: mean measured value less the true one. "
        "Found: differences with p of 5 % or less: errors, but in the rows of `helped`. Bootstrap: percentiles of "
        "resampled users. Width: of our intervals over those of the bootstrap, mean over kinds whose intervals "
        "all have bounds; one without bounds, as too few values differ, counts as one that does not hold.",
    ]
    for name in STATISTICS:
        of_statistic = [c for c in cells if c.statistic == name]
        is_difference = "difference" in name
        head = [
            "truth",
            "groups",
            "users",
            "bias",
            "covered",
            "lowest",
            "above",
            "bootstrap covered",
            "lowest",
            "width",
        ]
        head += ["found", "highest", "by bootstrap", "highest"] if is_difference else []
        lines += ["", f"## {name[0].upper()}{name[1:]}", "", "| " + " | ".join(head) + " |"]
        lines.append("|---|" + "--:|" * (len(head) - 1))
        for truth in TRUTHS:
            for groups, users in sorted({(c.groups, c.users) for c in of_statistic}):
                of = [c for c in of_statistic if (c.truth, c.groups, c.users) == (truth, groups, users)]
                if not of:
                    continue
                covered, bootstrap = [c.covered for c in of], [c.bootstrap_covered for c in of]
                row = [truth, str(groups), f"{users:,}", f"{np.mean([c.bias for c in of]):+.4f}"]
                row += [
                    f"{np.mean(covered):.1%}",
                    f"{min(covered):.1%}",
                    f"{np.mean([c.above for c in of]):.1%}",
                ]
                row += [f"{np.mean(bootstrap):.1%}", f"{min(bootstrap):.1%}"]
                row.append(f"{np.nanmean([c.width / c.bootstrap_width for c in of]):.2f}")
                if is_difference:
                    found, by_bootstrap = [c.found for c in of], [c.bootstrap_found for c in of]
                    row += [f"{np.mean(found):.1%}", f"{max(found):.1%}"]
                    row += [f"{np.mean(by_bootstrap):.1%}", f"{max(by_bootstrap):.1%}"]
                lines.append("| " + " | ".join(row) + " |")
    return "\n".join([*lines, ""])


def read(file: Path) -> list[Cell]:
    """Return the cells of earlier runs."""
    if not file.exists():
        return []
    with file.open(newline="") as rows:
        kinds = {"statistic": str, "truth": str, "scores": str, "groups": int, "users": int}
        return [Cell(**{n: kinds.get(n, float)(v) for n, v in row.items()}) for row in csv.DictReader(rows)]


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, nargs="*", default=[30, 200, 1000])
    parser.add_argument("--groups", type=int, nargs="*", default=[2, 3, 6, 12])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    file = HERE / "groups.csv"
    latest = {cell.key: cell for cell in read(file)}
    for n_users in args.users:
        for n_groups in args.groups:
            for truth in TRUTHS:
                for scores in QUANTILES:
                    cells = measure(truth, scores, n_groups, n_users, args.seed)
                    latest |= {cell.key: cell for cell in cells}
    order = (STATISTICS, list(TRUTHS), list(QUANTILES))
    cells = sorted(
        latest.values(),
        key=lambda c: (*(o.index(v) for o, v in zip(order, c.key[:3], strict=True)), c.groups, c.users),
    )
    with file.open("w", newline="") as rows:
        writer = csv.DictWriter(rows, [field.name for field in fields(Cell)])
        writer.writeheader()
        writer.writerows(map(asdict, cells))
    file.with_suffix(".md").write_text(markdown(cells))


if __name__ == "__main__":
    main()
