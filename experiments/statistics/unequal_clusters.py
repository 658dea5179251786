"""Clusters of very unequal size: error rates of paired tests, and coverage of intervals of means over queries.

``python unequal_clusters.py [--parts test interval] [--share 1.0] [--seed 0]`` writes unequal_clusters.csv and
unequal_clusters.md beside it. Rows of the other part remain; ``--share`` is that of the bake-offs.

Tests are a vectorised copy of the formulas, over sums of clusters; 20 bake-offs of each number of clusters are compared
with ``compare_pairs`` itself. Intervals are those of ``mean_interval``.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from evalplugin.base.seeding import generator
from evalplugin.comparison.statistics.intervals import mean_interval
from evalplugin.comparison.statistics.paired import compare_pairs
from evalplugin.comparison.statistics.skewness import hall

Floats = npt.NDArray[np.float64]

HERE = Path(__file__).parent
CLUSTERS = (20, 50, 200, 1000)
CORRELATIONS = (0.0, 0.2, 0.8)
BAKEOFFS = {"test": 1000, "interval": 400}
FLIPS = 1999
LARGEST = 500  # queries of a cluster
STRENGTH = 0.2  # standard deviation over queries of what depends on the size, beside 1 of a single query
DIFFERING = 0.3  # share of queries whose hits differ
SIZES = {
    "10 each": "Every cluster has 10 queries.",
    "log-normal": "1 to 200 queries, 6 on average, as in [clusters.md](clusters.md).",
    "power law 2.5": f"1 to {LARGEST} queries; n of them in a share of clusters proportional to n^-2.5.",
    "power law 2": "The same with n^-2.",
    "power law 1.5": "The same with n^-1.5.",
}
DEPENDENCE = {
    "none": "The score does not depend on the size.",
    "log": "It falls by the logarithm of the size.",
    "log, rising": "It rises by it.",
    "half": "It is lower by a constant in the large clusters that have half of all queries.",
}
TESTS = ("sums", "studentised", "skew-corrected", "t")


@dataclass(frozen=True)
class Cell:
    """One measured rate; the key is all but the last two fields."""

    part: str  # test: models of one mean called different at 5 %; interval: of means that hold the true one
    scores: str
    sizes: str
    depends: str
    correlation: float  # of two queries of a cluster
    clusters: int
    what: str  # test: its name; interval: all
    rate: float
    bakeoffs: int

    @property
    def key(self) -> tuple[object, ...]:
        """Identity, equal in every run."""
        return tuple(getattr(self, field.name) for field in fields(self)[:-2])


class Population(NamedTuple):
    """Sizes of clusters (s,), their shares of the clusters, and how a score depends on the size."""

    sizes: npt.NDArray[np.int64]
    shares: Floats
    effect: Floats  # mean 0 and, unless all are 0, standard deviation 1 over queries

    @classmethod
    def of(cls, kind: str, depends: str) -> Population:
        """Return a kind of sizes, and a kind of dependence."""
        n = np.arange(1, (200 if kind == "log-normal" else LARGEST) + 1)
        if kind == "10 each":
            n, share = np.array([10]), np.ones(1)
        elif kind == "log-normal":
            ends = stats.norm.cdf((np.log(np.append(n, np.inf)) - 1) / 1.3)
            ends[0] = 0
            share = np.diff(ends)
        else:
            share = n ** -float(kind.split()[-1])
        share /= share.sum()
        queries = n * share / (n * share).sum()
        effect = np.zeros(len(n))
        if depends != "none" and len(n) > 1:
            effect = np.where(np.cumsum(queries) > 0.5, -1.0, 0.0) if depends == "half" else -np.log(n)
            effect -= (queries * effect).sum()
            effect /= np.sqrt((queries * effect**2).sum()) * (-1 if depends == "log, rising" else 1)
        return cls(n, share, effect)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return sizes and effects of clusters."""
        which = rng.choice(len(self.sizes), size=shape, p=self.shares)
        return self.sizes[which].astype(np.float64), self.effect[which]


def sums_of_differences(
    scores: str, sizes: Floats, effect: Floats, correlation: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return sums of differences and of their squares, by bake-off and cluster (B, C).

    A query has the difference of its cluster in a share of cases whose square is the correlation, otherwise its own.
    """
    common = rng.binomial(sizes.astype(np.int64), np.sqrt(correlation)).astype(np.float64)
    own = sizes - common
    if scores == "continuous":
        of_cluster = effect + rng.standard_normal(sizes.shape)
        sums = np.sqrt(own) * rng.standard_normal(sizes.shape)
        within = np.where(own > 1, rng.chisquare(np.maximum(own - 1, 1)), 0)
        squares = own * effect**2 + 2 * effect * sums + sums**2 / np.maximum(own, 1) + within
        return common * of_cluster + own * effect + sums, common * of_cluster**2 + squares
    above = np.clip(DIFFERING / 2 + effect / 2, 0, DIFFERING)
    below = DIFFERING - above
    drawn = rng.random(sizes.shape)
    of_cluster = np.where(drawn < above, 1.0, np.where(drawn < DIFFERING, -1.0, 0.0))
    higher = rng.binomial(own.astype(np.int64), above)
    lower = rng.binomial(own.astype(np.int64) - higher, below / (1 - above))
    return common * of_cluster + higher - lower, common * np.abs(of_cluster) + higher + lower


def degrees_of_freedom(h: Floats, sizes: Floats, correlation: Floats) -> Floats:
    """Return Satterthwaite's degrees of freedom (B,), by shares of queries and sizes of clusters (B, C)."""
    weight, w = 1 / (1 - h), sizes * (1 + (sizes - 1) * correlation[:, None])
    g = w - h * w.sum(axis=1, keepdims=True) / 2
    diagonal = w - 2 * g * h
    squares = 2 * (
        (weight * g * g).sum(axis=1) * (weight * h * h).sum(axis=1) + (weight * g * h).sum(axis=1) ** 2
    )
    squares += (weight / (1 - h) * (diagonal**2 - (2 * g * h) ** 2)).sum(axis=1)
    return (weight * diagonal).sum(axis=1) ** 2 / squares


def p_values(sizes: Floats, sums: Floats, squares: Floats, signs: Floats) -> dict[str, Floats]:
    """Return two-sided p-values (B,) of each test, by sizes and sums of clusters (B, C) and signs (F, C)."""
    n_clusters, n = sizes.shape[1], sizes.sum(axis=1)
    h = sizes / n[:, None]
    w = 1 / (1 - h)
    terms = [sums, w * sums * h, w**1.5 * sums**3, w**1.5 * sums * h**2]
    fixed = [(w * sums**2), (w * h**2), w**1.5 * sums**2 * h, w**1.5 * h**3]
    total, shares, cross, cubes = (part.sum(axis=1) for part in fixed)

    def sizes_of(a: Floats, b: Floats, c: Floats, d: Floats) -> tuple[Floats, Floats, Floats]:
        square = np.maximum(total - 2 * a * b + a**2 * shares, np.maximum(1e-12 * total, 1e-300))
        third = c - 3 * a * cross + 3 * a**2 * d - a**3 * cubes
        t = a / np.sqrt(square)
        skewness = third / square**1.5 * np.sqrt(n_clusters)
        return np.abs(a), np.abs(t), np.abs(hall(t / np.sqrt(n_clusters), skewness, n_clusters))

    observed = sizes_of(*(term.sum(axis=1) for term in terms))
    flipped = sizes_of(*(signs @ term.T for term in terms))
    p = {
        name: ((many >= one - 1e-9 * np.maximum(one, 1)).sum(axis=0) + 1) / (len(signs) + 1)
        for name, one, many in zip(TESTS, observed, flipped, strict=False)
    }
    mean, t = sums.sum(axis=1) / n, observed[1]
    error = np.sqrt(np.maximum(total - 2 * mean * n * terms[1].sum(axis=1) + (mean * n) ** 2 * shares, 0)) / n
    effect = error**2 * n * (n - 1) / np.maximum(squares.sum(axis=1) - n * mean**2, 1e-300)
    correlation = np.clip((effect - 1) / np.maximum((sizes**2).sum(axis=1) / n - 1, 1e-9), 0, 1)
    p["t"] = 2 * special.stdtr(degrees_of_freedom(h, sizes, correlation), -t)
    return p


def tests(bakeoffs: int, seed: int) -> Iterator[Cell]:
    """Yield the shares of bake-offs of two models of one mean in which a test at 5 % calls them different."""
    for n_clusters in CLUSTERS:
        signs = generator(seed, "signs", n_clusters).choice([-1.0, 1.0], size=(FLIPS, n_clusters))
        check_copy(n_clusters, signs)
        for scores, kind, depends, correlation in product(
            ("continuous", "hits"), SIZES, ("none", "log", "half"), CORRELATIONS
        ):
            if kind == "10 each" and depends != "none":
                continue
            rng = generator(seed, "test", scores, kind, depends, correlation, n_clusters)
            sizes, effect = Population.of(kind, depends).draw((bakeoffs, n_clusters), rng)
            effect *= STRENGTH * (1 if scores == "continuous" else np.sqrt(DIFFERING))
            sums, squares = sums_of_differences(scores, sizes, effect, correlation, rng)
            for name, p in p_values(sizes, sums, squares, signs).items():
                rate = float(np.mean(p <= 0.05))
                yield Cell("test", scores, kind, depends, correlation, n_clusters, name, rate, bakeoffs)


def check_copy(n_clusters: int, signs: Floats) -> None:
    """Compare the vectorised copy with the package, within the error of random signs."""
    rng = generator(0, "copy", n_clusters)
    sizes, _ = Population.of("power law 2", "none").draw((20, n_clusters), rng)
    for row in sizes:
        codes = np.repeat(np.arange(n_clusters), row.astype(int))
        values = 0.5 * rng.standard_normal(n_clusters)[codes] + rng.standard_normal(len(codes))
        sums, squares = np.bincount(codes, values), np.bincount(codes, values**2)
        (ours,) = compare_pairs(values[:, None], 0 * values[:, None], tests=["t"], clusters=codes, rng=rng)
        copy = p_values(row[None], sums[None], squares[None], signs)
        assert abs(copy["t"][0] - ours.p["t"]) < 1e-6
        assert abs(copy["skew-corrected"][0] - ours.p["permutation"]) < 0.06
        assert (ours.p["permutation"] <= 0.05) == (not ours.interval.low <= 0 <= ours.interval.high)


def intervals(bakeoffs: int, seed: int) -> Iterator[Cell]:
    """Yield the shares of 95 % intervals of a mean over queries that hold it."""
    for scores, kind, depends, correlation in product(
        ("hits", "continuous"), SIZES, DEPENDENCE, CORRELATIONS
    ):
        if kind == "10 each" and depends != "none":
            continue
        population = Population.of(kind, depends)
        for n_clusters in CLUSTERS:
            rng = generator(seed, "interval", scores, kind, depends, correlation, n_clusters)
            holds = []
            for _ in range(bakeoffs):
                sizes, effect = population.draw((n_clusters,), rng)
                codes = np.repeat(np.arange(n_clusters), sizes.astype(int))
                values, truth = scores_of_queries(scores, population, effect, codes, correlation, rng)
                interval = mean_interval(values, clusters=codes, rng=rng)
                holds.append(interval.low <= truth <= interval.high)
            rate = float(np.mean(holds))
            yield Cell("interval", scores, kind, depends, correlation, n_clusters, "all", rate, bakeoffs)


def scores_of_queries(
    scores: str,
    population: Population,
    effect: Floats,
    codes: npt.NDArray[np.int64],
    correlation: float,
    rng: np.random.Generator,
) -> tuple[Floats, float]:
    """Return the scores of queries, and their true mean: hits of a quarter on average, or 0 to 1 and uneven."""
    level = np.clip(0.25 + 2 * STRENGTH * np.sqrt(0.25 * 0.75) * effect, 0.01, 0.99)
    queries = population.sizes * population.shares
    mean = np.clip(0.25 + 2 * STRENGTH * np.sqrt(0.25 * 0.75) * population.effect, 0.01, 0.99)
    truth = float((queries * mean).sum() / queries.sum())
    common = rng.random(len(codes)) < np.sqrt(correlation)
    if scores == "hits":
        of_cluster, own = rng.random(len(level))[codes], rng.random(len(codes))
        return (np.where(common, of_cluster, own) < level[codes]) * 1.0, truth
    of_cluster, own = rng.beta(level, 1 - level)[codes], rng.beta(level[codes], 1 - level[codes])
    return np.where(common, of_cluster, own), truth


PARTS = {"test": tests, "interval": intervals}


def markdown(cells: Sequence[Cell]) -> str:
    """Return all tables."""
    of_tests = [c for c in cells if c.part == "test"]
    of_intervals = [c for c in cells if c.part == "interval"]
    return "\n".join([
        "# Clusters of very unequal size",
        "",
        "Written by `unequal_clusters.py`.",
        "",
        *(f"- {name}: {text}" for name, text in SIZES.items()),
        "",
        f"What depends on the size has {STRENGTH:g} of the standard deviation of a single difference, or "
        f"{2 * STRENGTH:g} of that of a single score. Differences have a mean of 0 over queries.",
        "",
        *(f"- {name}: {text}" for name, text in DEPENDENCE.items()),
        "",
        "## Tests in short",
        "",
        "Rate of models of one mean that are called different at 5 %, average and highest over scores, correlations "
        "and numbers of clusters. *sums*: flips of the clusters' sums, as until now; *studentised*: of t of the mean "
        "over queries; *skew-corrected*: of Hall's transform of t, which is used; *t*: Student's t with "
        "Satterthwaite's degrees of freedom.",
        "",
        *_summary(of_tests),
        "",
        "## 95 % intervals of a mean over queries, by the effective number of clusters",
        "",
        "(sum n)^2 / sum n^2, the median of samples. Average and lowest rate over scores, correlations and kinds of "
        "dependence; *below 93 %*: of these.",
        "",
        *_by_effective_number(of_intervals),
        "",
        "## Models of one mean that a test at 5 % calls different",
        "",
        f"{BAKEOFFS['test']:,} bake-offs a cell: the standard error of 5 % is 0.7 points. **Bold**: above 7 %.",
        "",
        *_table(of_tests, TESTS, lambda rate: rate > 0.07),
        "",
        "## 95 % intervals of a mean over queries that hold it",
        "",
        f"{BAKEOFFS['interval']:,} bake-offs a cell: the standard error of 95 % is 1.1 points. **Bold**: below 93 %.",
        "",
        *_table([c for c in of_intervals if c.what == "all"], ("all",), lambda rate: rate < 0.93),
        "",
    ])  # fmt: skip


def _by_effective_number(cells: Sequence[Cell]) -> Iterator[str]:
    heads = (
        "effective number",
        "queries of a cluster",
        "clusters",
        "does not depend",
        "lowest",
        "depends",
        "lowest",
    )
    yield f"| {' | '.join(heads)} | below 93 % |"
    yield "|--:|---|--:|--:|--:|--:|--:|--:|"
    rows = []
    for sizes, n_clusters in product(SIZES, CLUSTERS):
        drawn, _ = Population.of(sizes, "none").draw(
            (2000, n_clusters), generator(0, "effective", sizes, n_clusters)
        )
        number = float(np.median(drawn.sum(axis=1) ** 2 / (drawn**2).sum(axis=1)))
        here = [c for c in cells if (c.sizes, c.clusters) == (sizes, n_clusters)]
        texts = []
        for rates in (
            [c.rate for c in here if c.depends == "none"],
            [c.rate for c in here if c.depends != "none"],
        ):
            texts += [f"{np.mean(rates):.1%}", f"{min(rates):.1%}"] if rates else ["", ""]
        below, kinds = sum(c.rate < 0.93 for c in here), len(here)
        rows.append(
            (
                number,
                f"| {number:.0f} | {sizes} | {n_clusters:,} | {' | '.join(texts)} | {below} of {kinds} |",
            )
        )
    yield from (text for _, text in sorted(rows))


def _summary(cells: Sequence[Cell]) -> Iterator[str]:
    yield f"| queries of a cluster | depends | {' | '.join(TESTS)} |"
    yield f"|---|---|{'--:|' * len(TESTS)}"
    for sizes, depends in dict.fromkeys((c.sizes, c.depends) for c in cells):
        texts = []
        for test in TESTS:
            rates = [c.rate for c in cells if (c.sizes, c.depends, c.what) == (sizes, depends, test)]
            texts.append(f"{np.mean(rates):.1%}, {max(rates):.1%}")
        yield f"| {sizes} | {depends} | {' | '.join(texts)} |"


def _table(cells: Sequence[Cell], whats: Sequence[str], is_off: Callable[[float], bool]) -> list[str]:
    heads = " | ".join(f"{n:,} clusters" for n in CLUSTERS)
    lines = [
        f"| scores | queries of a cluster | depends | correlation | {heads} |",
        f"|---|---|---|--:|{'--:|' * len(CLUSTERS)}",
    ]
    rates = {c.key[1:]: c.rate for c in cells}
    for row in dict.fromkeys(key[:4] for key in rates):
        texts = []
        for n in CLUSTERS:
            known = [rates[(*row, n, what)] for what in whats]
            texts.append(" / ".join(f"**{rate:.1%}**" if is_off(rate) else f"{rate:.1%}" for rate in known))
        lines.append(f"| {row[0]} | {row[1]} | {row[2]} | {row[3]:g} | {' | '.join(texts)} |")
    if len(whats) > 1:
        lines[0] = lines[0].replace("correlation |", f"correlation; {' / '.join(whats)} |", 1)
    return lines


def read(file: Path) -> list[Cell]:
    """Return the cells of earlier runs."""
    if not file.exists():
        return []
    types = {"correlation": float, "clusters": int, "rate": float, "bakeoffs": int}
    with file.open(newline="") as rows:
        return [Cell(**{n: types.get(n, str)(v) for n, v in row.items()}) for row in csv.DictReader(rows)]


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    file = HERE / "unequal_clusters.csv"
    cells = [cell for cell in read(file) if cell.part not in args.parts]
    for part in args.parts:
        cells += PARTS[part](max(1, round(BAKEOFFS[part] * args.share)), args.seed)
    order = [list(names) for names in (PARTS, ("continuous", "hits"), SIZES, DEPENDENCE)]
    cells.sort(
        key=lambda c: (*(names.index(v) for names, v in zip(order, c.key, strict=False)), c.correlation)
    )
    with file.open("w", newline="") as rows:
        writer = csv.DictWriter(rows, [field.name for field in fields(Cell)], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**asdict(cell), "rate": round(cell.rate, 4)} for cell in cells)
    file.with_suffix(".md").write_text(markdown(cells))


if __name__ == "__main__":
    main()
