"""Clusters of queries: coverage of intervals, error rates of paired tests, and how often the best model is kept.

``python clusters.py [--clusters 20 50 200 1000 5000] [--parts interval pair best] [--share 1.0] [--seed 0]`` writes
clusters.csv and clusters.md beside it. Rows of other parts and numbers of clusters remain, so that it can be run in
pieces; ``--share`` is that of the bake-offs.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scores import QUANTILES, SHARES, Table, _look_up, _uniforms

from evalplugin.base.seeding import generator
from evalplugin.comparison.statistics.best import may_be_best
from evalplugin.comparison.statistics.intervals import mean_interval
from evalplugin.comparison.statistics.one_sided import lower_bound
from evalplugin.comparison.statistics.paired import compare_pairs

HERE = Path(__file__).parent
CLUSTERS = (20, 50, 200, 1000, 5000)
BAKEOFFS = 500
CORRELATIONS = (0.0, 0.2, 0.8)
MODELS = 5  # that may be the best
WORSE = 0.8  # power of the shares of queries, of the models that are not the best
RANKS = np.ceil(np.clip((1 - SHARES) / 0.3 * 10, 1, 10))  # of the first hit
TABLES = {
    "hit, 3 %": (SHARES > 0.97).astype(np.float64),
    "hit, 25 %": (SHARES > 0.75).astype(np.float64),
    "rr, 70 % zeros": np.where(SHARES > 0.7, 1 / RANKS, 0),
}
SIZES = {
    "10 each": "Every cluster has 10 queries.",
    "log-normal": "1 to 200 queries, 6 on average: the tenth of the clusters with the most has half of the queries.",
    "power law": "1 to 200 queries, 5 on average: half of the clusters have 1, few have 100 and more.",
}


@dataclass(frozen=True)
class Cell:
    """One measured rate; the key is all but the last four fields."""

    part: str  # interval, pair, best
    scores: str
    models: str  # alike, lopsided; half: half of them are the best
    sizes: str
    correlation: float  # of two queries of a cluster
    clusters: int
    what: str  # the statistic
    naive: float  # the rate where queries are taken to be independent
    clustered: float
    about: float  # interval: mean width of the clustered one; pair: mean design effect; best: models kept
    bakeoffs: int

    @property
    def key(self) -> tuple[object, ...]:
        """Identity, equal in every run."""
        return self.part, self.scores, self.models, self.sizes, self.correlation, self.clusters, self.what


def sizes_of(kind: str, n_clusters: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the number of queries of each cluster."""
    if kind == "10 each":
        return np.full(n_clusters, 10)
    if kind == "log-normal":
        drawn = np.exp(1.3 * rng.standard_normal(n_clusters) + 1)
    else:
        drawn = (1 - rng.random(n_clusters)) ** (-1 / 1.1)
    return np.clip(np.floor(drawn), 1, 200).astype(np.int64)


def draw(
    tables: Sequence[Table], kind: str, n_clusters: int, correlation: float, rng: np.random.Generator
) -> tuple[Table, npt.NDArray[np.int64]]:
    """Return the scores (queries, models) and the cluster of each query.

    A query has the scores of its cluster in a share of cases whose square is the correlation, otherwise scores of its
    own; so all scores have the distribution of the tables, and any two queries of a cluster exactly the correlation.
    """
    sizes = sizes_of(kind, n_clusters, rng)
    codes = np.repeat(np.arange(n_clusters), sizes)
    shape = (len(codes), len(tables))
    of_clusters = _uniforms(np.repeat(rng.standard_normal((n_clusters, 1)), shape[1], axis=1), rng)[codes]
    own = _uniforms(np.repeat(rng.standard_normal((shape[0], 1)), shape[1], axis=1), rng)
    shares = np.where(rng.random((shape[0], 1)) < np.sqrt(correlation), of_clusters, own)
    return np.stack([_look_up(table, shares[:, i]) for i, table in enumerate(tables)], axis=1), codes


def intervals(n_clusters: int, bakeoffs: int, seed: int) -> Iterator[Cell]:
    """Yield the shares of 95 % intervals of one model's mean over queries that hold it, or are below or above it."""
    for scores, table in TABLES.items():
        for kind in SIZES:
            for correlation in CORRELATIONS:
                rng = generator(seed, "interval", scores, kind, correlation, n_clusters)
                found = []
                for _ in range(bakeoffs):
                    values, codes = draw([table], kind, n_clusters, correlation, rng)
                    both = [mean_interval(values[:, 0], clusters=c, rng=rng) for c in (None, codes)]
                    below = [i.high < table.mean() for i in both]
                    above = [i.low > table.mean() for i in both]
                    holds = [not (b or a) for b, a in zip(below, above, strict=True)]
                    width = both[1].high - both[1].low
                    found.append([(*holds, width), (*below, width), (*above, width)])
                for what, rates in zip(("auto", "below", "above"), np.mean(found, axis=0), strict=True):
                    yield Cell(
                        "interval", scores, "", kind, correlation, n_clusters, what, *map(float, rates), bakeoffs
                    )  # fmt: skip


def pairs(n_clusters: int, bakeoffs: int, seed: int) -> Iterator[Cell]:
    """Yield the error rates of paired tests and one-sided bounds at 5 % of two models of one mean."""
    kinds = [
        ("hit, 3 %", "alike"),
        ("hit, 25 %", "alike"),
        ("rr, 70 % zeros", "alike"),
        ("ndcg, 60 % zeros", "lopsided"),
    ]
    for scores, models in kinds:
        for kind in SIZES:
            for correlation in CORRELATIONS:
                rng = generator(seed, "pair", scores, models, kind, correlation, n_clusters)
                tables = [TABLES[scores]] * 2 if models == "alike" else lopsided_tables(scores)
                wrong: dict[str, list[list[bool]]] = {}
                effects = []
                for _ in range(bakeoffs):
                    values, codes = draw(tables, kind, n_clusters, correlation, rng)
                    a, b = values[:, :1], values[:, 1:]
                    (paired,) = compare_pairs(a, b, tests=["t"], clusters=codes, rng=rng)
                    difference = a[:, 0] - b[:, 0]
                    naive = mean_interval(difference, method="t", rng=rng)  # the permutation test takes long
                    for test in ("permutation", "t"):
                        wrong.setdefault(test, []).append(
                            [not naive.low <= 0 <= naive.high, paired.p[test] <= 0.05]
                        )
                    bounds = [lower_bound(-difference, clusters=c) for c in (None, codes)]
                    wrong.setdefault("one-sided", []).append([bound > 0 for bound in bounds])
                    effects.append(paired.design_effect)
                for what, errors in wrong.items():
                    rates = np.mean(errors, axis=0)
                    yield Cell(
                        "pair", scores, models, kind, correlation, n_clusters, what, *map(float, rates),
                        float(np.nanmean(effects)), bakeoffs,
                    )  # fmt: skip


def lopsided_tables(scores: str) -> list[Table]:
    """Return two skewed distributions of equal mean: b serves twice as many queries half as well."""
    a = QUANTILES[scores](np.clip(2 * SHARES - 1, 0, None))
    b = QUANTILES[scores](SHARES) / 2
    return [a * (b.mean() / a.mean()), b]


def best(n_clusters: int, bakeoffs: int, seed: int) -> Iterator[Cell]:
    """Yield the share of the best models, two of five, that are among those that may be the best."""
    for scores in ("hit, 25 %", "rr, 70 % zeros"):
        table = TABLES[scores]
        worse = table[(SHARES ** (1 / WORSE) * len(SHARES)).astype(int)]
        tables = [table] * 2 + [worse] * (MODELS - 2)
        for kind in SIZES:
            for correlation in CORRELATIONS:
                rng = generator(seed, "best", scores, kind, correlation, n_clusters)
                kept = []
                for _ in range(bakeoffs):
                    values, codes = draw(tables, kind, n_clusters, correlation, rng)
                    kept.append([may_be_best(values, clusters=c, rng=rng) for c in (None, codes)])
                stays = np.array(kept)  # (bake-offs, naive or clustered, models)
                naive, clustered = stays[:, :, :2].mean(axis=(0, 2))
                yield Cell(
                    "best", scores, "half", kind, correlation, n_clusters, "kept", float(naive), float(clustered),
                    float(stays[:, 1].sum(axis=1).mean()), bakeoffs,
                )  # fmt: skip


PARTS = {"interval": intervals, "pair": pairs, "best": best}


def markdown(cells: Sequence[Cell]) -> str:
    """Return all tables."""
    lines = [
        "# Clusters of queries",
        "",
        "Written by `clusters.py`. In each cell: rate where queries are taken to be independent → rate with clusters. "
        "Correlation: of the scores of two queries of a cluster. Rates of the permutation test with log-normal and "
        "power law sizes were measured with flips of the clusters' sums, which "
        "[unequal_clusters.md](unequal_clusters.md) compares with the flips of now.",
        "",
        *(f"- {name}: {text}" for name, text in SIZES.items()),
        "",
        "Simulated bake-offs a cell, and the standard error of a rate of 95 % or 5 %:",
        "",
        f"| part | {' | '.join(f'{n:,} clusters' for n in CLUSTERS)} |",
        f"|---|{'--:|' * len(CLUSTERS)}",
    ]
    for part in PARTS:
        numbers = {c.clusters: c.bakeoffs for c in cells if c.part == part}
        texts = [
            f"{numbers[n]:,} ({np.sqrt(0.0475 / numbers[n]):.1%})" if n in numbers else "" for n in CLUSTERS
        ]
        lines.append(f"| {part} | {' | '.join(texts)} |")
    lines += ["", "## 95 % intervals of one model's mean that hold the true one", ""]
    lines += ["In brackets: mean width. **Bold**: below 93 %.", ""]
    lines += _table([c for c in cells if c.what == "auto"], _is_below(0.93), about="({:.3f})")
    for side in ("below", "above"):
        lines += ["", f"## 95 % intervals of one model's mean that are {side} the true one", ""]
        lines += ["So often the one-sided 97.5 % bound errs. **Bold**: above 4 %.", ""]
        lines += _table([c for c in cells if c.what == side], _is_above(0.04), about="")
    titles = {
        "permutation": "Models of one mean that the permutation test at 5 % calls different",
        "t": "Models of one mean that the t test at 5 % calls different",
        "one-sided": "One-sided 95 % bounds of a gain that are above the true one",
    }
    for what, title in titles.items():
        lines += ["", f"## {title}", ""]
        lines += [
            "Lopsided: b serves twice as many queries half as well. **Bold**: above 7 %. Independent: Student's t."
        ]
        lines += ["In brackets: mean design effect.", ""] if what == "permutation" else [""]
        chosen = [c for c in cells if c.part == "pair" and c.what == what]
        lines += _table(chosen, _is_above(0.07), about="({:.1f})" if what == "permutation" else "")
    lines += ["", "## The best models that are among those that may be the best", ""]
    lines += ["Two of five are the best. In brackets: models kept. **Bold**: below 93 %.", ""]
    lines += _table([c for c in cells if c.part == "best"], _is_below(0.93), about="({:.1f})")
    return "\n".join([*lines, ""])


def _is_below(limit: float) -> Callable[[float], bool]:
    return lambda rate: rate < limit


def _is_above(limit: float) -> Callable[[float], bool]:
    return lambda rate: rate > limit


def _table(cells: Sequence[Cell], is_off: Callable[[float], bool], *, about: str) -> list[str]:
    numbers = sorted({c.clusters for c in cells})
    lines = [
        f"| scores | models | queries of a cluster | correlation | {' | '.join(f'{n:,} clusters' for n in numbers)} |",
        f"|---|---|---|--:|{'--:|' * len(numbers)}",
    ]
    by_key = {(c.scores, c.models, c.sizes, c.correlation, c.clusters): c for c in cells}
    for row in dict.fromkeys(key[:4] for key in by_key):
        texts = []
        for n in numbers:
            if (cell := by_key.get((*row, n))) is None:
                texts.append("")
                continue
            text = f"{cell.clustered:.1%}"
            shown = f"{cell.naive:.1%} → {f'**{text}**' if is_off(cell.clustered) else text}"
            texts.append(f"{shown} {about.format(cell.about)}".rstrip())
        scores, models, sizes, correlation = row
        lines.append(f"| {scores} | {models} | {sizes} | {correlation:g} | {' | '.join(texts)} |")
    return lines


def read(file: Path) -> list[Cell]:
    """Return the cells of earlier runs."""
    if not file.exists():
        return []
    texts = {
        "part": str,
        "scores": str,
        "models": str,
        "sizes": str,
        "what": str,
        "clusters": int,
        "bakeoffs": int,
    }
    with file.open(newline="") as rows:
        return [Cell(**{n: texts.get(n, float)(v) for n, v in row.items()}) for row in csv.DictReader(rows)]


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clusters", type=int, nargs="*", choices=CLUSTERS, default=CLUSTERS)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    file = HERE / "clusters.csv"
    latest = {cell.key: cell for cell in read(file)}
    for n in args.clusters:
        for part in args.parts:
            bakeoffs = max(1, round(BAKEOFFS * args.share))
            latest |= {cell.key: cell for cell in PARTS[part](n, bakeoffs, args.seed)}
    cells = sorted(
        latest.values(),
        key=lambda c: (
            list(PARTS).index(c.part),
            c.scores,
            c.models,
            list(SIZES).index(c.sizes),
            c.correlation,
        ),
    )
    with file.open("w", newline="") as rows:
        writer = csv.DictWriter(rows, [field.name for field in fields(Cell)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, cells))
    file.with_suffix(".md").write_text(markdown(cells))


if __name__ == "__main__":
    main()
