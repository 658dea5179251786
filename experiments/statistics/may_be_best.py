"""How often the true best model is among those that may be the best, and how many these are.

``python may_be_best.py [--users 50 200 1000 5000] [--truths alike half] [--seed 0]`` writes may_be_best.csv and
may_be_best.md to its own folder. Rows of other numbers of users and truths remain, so that it can be run in pieces.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr
from scores import QUANTILES, SHARES, Table, draw_models, lopsided

from evalplugin.base.seeding import generator
from evalplugin.comparison.statistics.best import may_be_best
from evalplugin.comparison.statistics.paired import holm

HERE = Path(__file__).parent
LEVEL = 0.95
BAKEOFFS = {3: 1000, 10: 500, 30: 250}  # by number of models
WORSE = 0.6  # power of the shares of users: the nearer to 1, the nearer to the best
TRUTHS = {
    "alike": "All models are equally good, each with other luck.",
    "half": "Half of the models (of 3: two) are equally good, the others clearly worse.",
    "lopsided": "Every other model serves twice as many users half as well: all have the same mean. Kept: of the "
    "models that serve fewer users, which are harder to keep.",
    "one best": "One is the best, the others are worse by equal steps.",
}


@dataclass(frozen=True)
class Cell:
    """What was measured with one kind of models."""

    truth: str
    scores: str
    models: int
    users: int
    bakeoffs: int
    covered: float  # share of the best models that are in the set, mean over bake-offs
    error: float  # standard error of that
    size: float  # mean number of models in the set
    holm_covered: float
    holm_size: float

    @property
    def is_low(self) -> bool:
        """Whether fewer are covered than chance explains: by more than two standard errors."""
        return self.covered < LEVEL - 2 * self.error

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Identity, equal in every run."""
        return self.truth, self.scores, self.models, self.users


def tables_of(truth: str, scores: str, n_models: int) -> tuple[list[Table], npt.NDArray[np.bool_]]:
    """Return the models' distributions, and which of those with the highest mean are counted."""

    def of(power: float) -> Table:
        return QUANTILES[scores](SHARES ** (1 / power))

    if truth == "lopsided":
        return [lopsided(scores)[model % 2] for model in range(n_models)], np.arange(n_models) % 2 == 0
    n_best = {"alike": n_models, "half": max(2, n_models // 2), "one best": 1}[truth]
    powers = {"half": [WORSE] * n_models, "one best": np.linspace(1, WORSE, n_models)}.get(truth, [])
    tables = [of(1.0)] * n_best + [of(power) for power in powers[n_best:]]
    return tables, np.arange(n_models) < n_best


def not_beaten(scores: Table) -> npt.NDArray[np.bool_]:
    """Return the models (M,) that no other beats by a t test of every pair, two-sided, with Holm's correction."""
    n_users, n_models = scores.shape
    centred = scores - scores.mean(axis=0)
    covariance = centred.T @ centred / (n_users - 1)
    variance = np.diag(covariance)
    a, b = np.triu_indices(n_models, 1)
    gain = scores.mean(axis=0)[b] - scores.mean(axis=0)[a]
    error = np.sqrt(np.maximum((variance[a] + variance[b] - 2 * covariance[a, b]) / n_users, 1e-300))
    found = holm(2 * stdtr(n_users - 1, -np.abs(gain) / error)) <= 1 - LEVEL
    stays = np.ones(n_models, dtype=np.bool_)
    stays[np.where(gain > 0, a, b)[found]] = False
    return stays


def measure(truth: str, scores: str, n_models: int, n_users: int, seed: int) -> Cell:
    """Return one cell."""
    rng = generator(seed, truth, scores, n_models, n_users)
    tables, is_best = tables_of(truth, scores, n_models)
    sets = []
    for _ in range(BAKEOFFS[n_models]):
        values = draw_models(tables, n_users, rng)
        sets.append((may_be_best(values, level=LEVEL, rng=rng), not_beaten(values)))
    kept = np.array(sets)  # (bake-offs, method, models)
    covered = kept[:, :, is_best].mean(axis=2)
    size = kept.sum(axis=2).mean(axis=0)
    return Cell(
        truth, scores, n_models, n_users, len(sets),
        covered=float(covered[:, 0].mean()), error=float(covered[:, 0].std() / np.sqrt(len(sets))), size=float(size[0]),
        holm_covered=float(covered[:, 1].mean()), holm_size=float(size[1]),
    )  # fmt: skip


def cells_of(users: Sequence[int], truths: Sequence[str], seed: int) -> Iterator[Cell]:
    """Yield all cells; 0/1 scores have no lopsided models, as of one mean they are alike."""
    for n_users in users:
        for truth in truths:
            for scores in QUANTILES:
                if truth == "lopsided" and scores.startswith("hit"):
                    continue
                for n_models in BAKEOFFS:
                    yield measure(truth, scores, n_models, n_users, seed)


def markdown(cells: Sequence[Cell]) -> str:
    """Return all tables."""
    bakeoffs = ", ".join(f"{n:,} of {models} models" for models, n in BAKEOFFS.items())
    lines = [
        "# The models that may be the best",
        "",
        f"Written by `may_be_best.py`: simulated bake-offs for each cell: {bakeoffs}; "
        f"{sum(c.bakeoffs for c in cells):,} in all. **Bold**: kept less often than in {LEVEL:.0%} by "
        "more than two standard errors.",
        "",
        f"Cells below: {sum(c.is_low for c in cells)} of {len(cells)}. Lowest: "
        f"{min(c.covered for c in cells):.1%}. Largest standard error: {max(c.error for c in cells):.1%}.",
        "",
        "## In short",
        "",
        "Kept: share of the best models that are in the set, mean over all kinds of scores and truths (lowest of "
        "them). Size: models in the set where one is the best, and by Holm's correction over all pairs.",
        "",
        "| models | users | kept | lowest | size | size by Holm |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for models, users in sorted({(c.models, c.users) for c in cells}):
        of = [c for c in cells if (c.models, c.users) == (models, users)]
        one = [c for c in of if c.truth == "one best"]
        covered = [c.covered for c in of]
        sizes = [np.mean([c.size for c in one]), np.mean([c.holm_size for c in one])]
        lines.append(
            f"| {models} | {users:,} | {np.mean(covered):.1%} | {min(covered):.1%} | {sizes[0]:.1f} | {sizes[1]:.1f} |"
        )
    for truth, text in TRUTHS.items():
        lines += ["", f"## {truth[0].upper()}{truth[1:]}", "", text, ""]
        lines += ["| scores | models | users | kept | size | kept by Holm | size by Holm |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|"]
        for c in cells:
            if c.truth == truth:
                kept = f"**{c.covered:.1%}**" if c.is_low else f"{c.covered:.1%}"
                lines.append(
                    f"| {c.scores} | {c.models} | {c.users:,} | {kept} | {c.size:.1f} | {c.holm_covered:.1%} | "
                    f"{c.holm_size:.1f} |"
                )
    return "\n".join([*lines, ""])


def read(file: Path) -> list[Cell]:
    """Return the cells of earlier runs."""
    if not file.exists():
        return []
    with file.open(newline="") as rows:
        kinds = {"truth": str, "scores": str, "models": int, "users": int, "bakeoffs": int}
        return [Cell(**{n: kinds.get(n, float)(v) for n, v in row.items()}) for row in csv.DictReader(rows)]


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, nargs="*", default=[50, 200, 1000, 5000])
    parser.add_argument("--truths", nargs="*", choices=TRUTHS, default=list(TRUTHS))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    file = HERE / "may_be_best.csv"
    latest = {cell.key: cell for cell in [*read(file), *cells_of(args.users, args.truths, args.seed)]}
    order = (list(TRUTHS), list(QUANTILES))
    cells = sorted(
        latest.values(), key=lambda c: (order[0].index(c.truth), order[1].index(c.scores), c.models, c.users)
    )
    with file.open("w", newline="") as rows:
        writer = csv.DictWriter(rows, [field.name for field in fields(Cell)])
        writer.writeheader()
        writer.writerows(map(asdict, cells))
    file.with_suffix(".md").write_text(markdown(cells))


if __name__ == "__main__":
    main()
