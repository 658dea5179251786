"""Error rates of evalplugin's tests and intervals over thousands of simulated bake-offs.

``python error_rates.py [--bakeoffs 3000] [--users 50 200 1000 5000] [--seed 0]`` writes error_rates.csv and
error_rates.md to its own folder. Rows of other numbers of users remain, so that it can be run in pieces.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from scipy.stats import skew
from scores import QUANTILES, Table, alike, better, draw, draw_family, lopsided

from evalplugin.base.seeding import generator
from evalplugin.comparison.statistics.intervals import Interval, mean_intervals
from evalplugin.comparison.statistics.paired import TESTS, benjamini_hochberg, compare_pairs, holm

HERE = Path(__file__).parent
ALPHA = 0.05
AT_ONCE = 500  # bake-offs
FAMILY_USERS = 200
FAMILY_SIZES = (5, 20)
FAMILY_SCORES = ("ndcg, 60 % zeros", "hit, 25 %", "dcg, long tail")


def excludes(interval: Interval, value: float = 0.0) -> bool:
    """Return whether a value lies outside an interval; False when its bounds are undefined."""
    return bool(value < interval.low or value > interval.high)


@dataclass(frozen=True)
class Part:
    """One table: its title, the target range of its rates, and reasons for rates outside."""

    title: str
    low: float
    high: float
    why: str


PARTS = {
    "null": Part(
        "Two models that are alike: share of bake-offs in which a test at 5 % calls them different",
        0.04,
        0.06,
        "Where few users differ, a p-value has few values that it can take, and the share stays below 5 %. An exact "
        "test errs on that side.",
    ),
    "lopsided": Part(
        "Two models of one mean, of which b serves twice as many users half as well: the same share",
        0.04,
        0.06,
        "Wilcoxon asks whether differences are symmetric around 0, which these are not: it is right, but about "
        "something other than the mean, so no significance mark rests on it. The other two need the more users, the "
        "fewer are served and the longer the tail is: of 50, a serves 4 to 10.",
    ),
    "difference": Part(
        "Share of 95 % intervals of the mean difference that hold the true one",
        0.94,
        0.96,
        "Differences of two models are nearly symmetric. The bootstrap (BCa) corrects for the skewness that it sees, "
        "which among few users is mostly noise; so `auto` is Student's interval here. See above on lopsided models.",
    ),
    "mean": Part(
        "Share of 95 % intervals of one model's mean that hold the true one",
        0.94,
        0.96,
        "One model's scores are skewed, which the bootstrap (BCa) sees and t does not; so `auto` is the bootstrap "
        "below 2,000 users. Among 50 neither sees a tail that most samples do not hold.",
    ),
    "power": Part(
        "Share of bake-offs in which a test at 5 % finds a difference as large as that stated as detectable",
        0.77,
        0.83,
        "The statement is for the t test. The permutation test finds less where few users differ, and by few values. "
        "Wilcoxon finds more where tails are long, as it hardly asks by how much users differ.",
    ),
    "families": Part(
        "Many challengers and one baseline: share of bake-offs with a false finding (Holm), mean share of false "
        "findings (Benjamini-Hochberg)",
        0,
        0.06,
        "",
    ),
}


@dataclass(frozen=True)
class Rate:
    """One measured rate."""

    part: str
    users: int
    scores: str
    models: str
    method: str
    rate: float
    bakeoffs: int

    @property
    def outside(self) -> bool:
        """Whether it misses the target."""
        return not PARTS[self.part].low <= self.rate <= PARTS[self.part].high

    @property
    def key(self) -> tuple[str, int, str, str, str]:
        """Identity of the rate, equal in every run."""
        return self.part, self.users, self.scores, self.models, self.method

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key of the tables."""
        return list(PARTS).index(self.part), list(QUANTILES).index(self.scores), self.users


def two_models(users: int, bakeoffs: int, seed: int) -> Iterator[Rate]:
    """Yield the rates of two models by kind of scores and of models."""
    for scores in QUANTILES:
        yield from _two_models("null", "alike", scores, alike(scores), users, bakeoffs, seed)
        if not scores.startswith("hit"):  # differences of 0/1 scores whose mean is 0 are symmetric
            yield from _two_models("lopsided", "lopsided", scores, lopsided(scores), users, bakeoffs, seed)
        yield from _two_models("power", "a better", scores, better(scores, users), users, bakeoffs, seed)


def _two_models(
    part: str, models: str, scores: str, tables: tuple[Table, Table], users: int, bakeoffs: int, seed: int
) -> Iterator[Rate]:
    rng = generator(seed, models, scores, users)
    found: dict[tuple[str, str], list[bool]] = {}

    def note(part: str, method: str, outcomes: Sequence[bool]) -> None:
        found.setdefault((part, method), []).extend(outcomes)

    true_a, true = tables[0].mean(), tables[0].mean() - tables[1].mean()
    for start in range(0, bakeoffs, AT_ONCE):
        a, b = draw(tables, users, min(AT_ONCE, bakeoffs - start), rng)
        pairs = compare_pairs(a, b, tests=TESTS, rng=rng)
        for test in TESTS:
            note(part, test, [pair.p[test] <= ALPHA for pair in pairs])
        resampled = mean_intervals(a - b, method="bootstrap", rng=rng)
        note("difference", "auto (t)", [not excludes(pair.interval, true) for pair in pairs])
        note("difference", "bootstrap", [not excludes(interval, true) for interval in resampled])
        if models == "alike":
            for method in ("auto", "bootstrap", "t"):
                intervals = mean_intervals(a, method=method, rng=rng)
                note("mean", method, [not excludes(interval, true_a) for interval in intervals])
    for (kind, method), outcomes in found.items():
        yield Rate(kind, users, scores, models, method, float(np.mean(outcomes)), bakeoffs)


def families(bakeoffs: int, seed: int) -> Iterator[Rate]:
    """Yield the errors of Holm and Benjamini-Hochberg over many challengers of one baseline."""
    for scores in FAMILY_SCORES:
        best, table = better(scores, FAMILY_USERS)
        for size in FAMILY_SIZES:
            for n_better in (0, size // 2):
                models = f"{size}, {n_better or 'none'} better"
                rng = generator(seed, "family", models, scores)
                tables = [best] * n_better + [table] * (size - n_better)
                outcomes = []
                for start in range(0, bakeoffs, AT_ONCE):
                    n = min(AT_ONCE, bakeoffs - start)
                    pairs = compare_pairs(*draw_family(tables, table, FAMILY_USERS, n, rng), rng=rng)
                    p_values = np.array([pair.p["permutation"] for pair in pairs]).reshape(n, size)
                    outcomes += [_false_findings(p, n_better) for p in p_values]
                methods = ("Holm", "Benjamini-Hochberg")
                for method, rate in zip(methods, np.mean(outcomes, axis=0), strict=True):
                    yield Rate("families", FAMILY_USERS, scores, models, method, float(rate), bakeoffs)


def _false_findings(p: Table, n_better: int) -> tuple[float, float]:
    """Return whether Holm has a false finding, and the share of Benjamini and Hochberg's findings that are false."""
    found = benjamini_hochberg(p) <= ALPHA
    return float((holm(p)[n_better:] <= ALPHA).any()), found[n_better:].sum() / max(found.sum(), 1)


def table(part: str, rates: Sequence[Rate]) -> list[str]:
    """Return one table in Markdown, with rates outside the target in bold."""
    about = PARTS[part]
    methods = list(dict.fromkeys(rate.method for rate in rates))
    cells = {(r.scores, r.models, r.users, r.method): r for r in rates}
    lines = [f"## {about.title}", "", f"Target: {about.low:.0%} to {about.high:.0%}.", ""]
    lines += [f"| scores | models | users | {' | '.join(methods)} |", f"|---|---|--:|{'--:|' * len(methods)}"]
    for scores, models, users in dict.fromkeys((r.scores, r.models, r.users) for r in rates):
        shown = [
            f"**{r.rate:.1%}**" if r.outside else f"{r.rate:.1%}"
            for r in (cells[scores, models, users, method] for method in methods)
        ]
        lines.append(f"| {scores} | {models} | {users:,} | {' | '.join(shown)} |")
    within = ", ".join(
        f"{method} {sum(not r.outside for r in of)} of {len(of)}"
        for method in methods
        if (of := [r for r in rates if r.method == method])
    )
    lines += ["", f"Within the target: {within}."]
    return [*lines, *([about.why] if any(r.outside for r in rates) else []), ""]


def markdown(rates: Sequence[Rate]) -> str:
    """Return all tables."""
    n = min(rate.bakeoffs for rate in rates)
    lines = [
        "# Error rates of tests and intervals",
        "",
        f"Written by `error_rates.py`; {n:,} simulated bake-offs a rate, which leaves a standard error of "
        f"{np.sqrt(0.05 * 0.95 / n):.2%} at 5 %. **Bold**: outside the target.",
        "",
        "| scores | zeros | skewness |",
        "|---|--:|--:|",
    ]
    for scores in QUANTILES:
        values, _ = alike(scores)
        lines.append(f"| {scores} | {np.mean(values == 0):.0%} | {skew(values):.1f} |")
    lines.append("")
    for part in PARTS:
        of_part = [rate for rate in rates if rate.part == part]
        lines += table(part, of_part) if of_part else []
    return "\n".join(lines)


def read(file: Path) -> list[Rate]:
    """Return the rates of earlier runs."""
    if not file.exists():
        return []
    with file.open(newline="") as rows:
        kinds = {"users": int, "rate": float, "bakeoffs": int}
        return [Rate(**{n: kinds.get(n, str)(v) for n, v in row.items()}) for row in csv.DictReader(rows)]


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bakeoffs", type=int, default=3000)
    parser.add_argument("--users", type=int, nargs="*", default=[50, 200, 1000, 5000])
    parser.add_argument("--families", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    measured = [rate for users in args.users for rate in two_models(users, args.bakeoffs, args.seed)]
    if args.families:
        measured += families(args.bakeoffs, args.seed)
    file = HERE / "error_rates.csv"
    latest = {rate.key: rate for rate in [*read(file), *measured]}
    rates = sorted(latest.values(), key=lambda rate: rate.order)
    with file.open("w", newline="") as rows:
        writer = csv.DictWriter(rows, [field.name for field in fields(Rate)])
        writer.writeheader()
        writer.writerows(map(asdict, rates))
    file.with_suffix(".md").write_text(markdown(rates))


if __name__ == "__main__":
    main()
