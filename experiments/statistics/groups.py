"""Gap between groups and worst group: coverage of intervals, errors and power of tests and of the gate's guardrails.

``python groups.py [--parts users clusters gate] [--users 50 200 1000] [--groups 2 4 12] [--share 1.0] [--seed 0]``
writes groups.csv and groups.md beside it. Rows of other parts and numbers remain, so that it can be run in pieces;
``--share`` is that of the bake-offs.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
from clusters import TABLES, sizes_of
from scores import QUANTILES, SHARES, Table, _look_up, _uniforms

from evalplugin.base.seeding import generator
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.statistics.groups import (
    LEAST_UNITS,
    Extreme,
    ExtremeDifference,
    GroupMeans,
    gap_difference,
    gap_of,
    worst_difference,
    worst_of,
)
from evalplugin.comparison.statistics.intervals import Interval, mean_interval, mean_intervals
from evalplugin.features.gate.decide import decide
from evalplugin.features.gate.schema import Gate
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.segments import Segmentation

HERE = Path(__file__).parent
LEVEL = 0.95
BAKEOFFS = {2: 300, 4: 300, 12: 100}  # by number of groups
CLUSTERED = {2: 150, 4: 150}
GATED = {2: 200, 4: 200, 12: 60}
FEWER = ("alike", "helped")  # truths of what takes long
SCORES = {
    "hit, 3 %": TABLES["hit, 3 %"],
    "rr, 70 % zeros": TABLES["rr, 70 % zeros"],
    "ndcg, 60 % zeros": QUANTILES["ndcg, 60 % zeros"](SHARES),
}
WORSE = 0.6  # power of the shares of users: the nearer to 1, the nearer to the best group
SIZES = {
    "equal": "all groups have so many users",
    "uneven": f"by equal ratios from {LEAST_UNITS}, the fewest allowed, to so many; the smallest is the worse one",
}
TRUTHS = {
    "alike": "all groups have the same mean, by both models",
    "one worse": "one group has a lower mean, by both models",
    "exchanged": "means of groups fall by equal steps, by the other model in the opposite order: gaps and worst means "
    "are the same, and the worst group is another",
    "helped": "all groups are alike by one model, one group has a lower mean by the other: differences are true",
}
SPREADS = {
    "in one group": "all queries of a session are in one group",
    "in all groups": "the queries of a session are in any group",
}
CORRELATION = 0.5  # of two queries of a session
STATISTICS = ("gap", "worst", "gap difference", "worst difference")
GUARDRAILS = {
    "at the limit": "the groups are alike by the champion; the challenger has a worse one, by exactly the limit: to "
    "pass is an error",
    "other group": "the same, but the champion's worse group is another one, and the challenger's is worse by the "
    "limit: to pass is an error",
    "equal": "both models are equal, the limits those of `at the limit`: to pass is right",
}
METRIC = "ndcg@10"  # the name of the simulated scores


@dataclass(frozen=True)
class Cell:
    """What was measured; the key is all but the last six fields."""

    part: str  # users, clusters, gate
    statistic: str  # of STATISTICS; of the gate the guardrail, worst or gap
    truth: str
    scores: str
    sizes: str  # of SIZES; of clusters: of SPREADS
    groups: int
    users: int  # of the largest group; of clusters: sessions for each group
    bias: float  # mean of the measured value less the true one
    covered: float  # share of intervals with the true value; of the gate NaN
    above: float  # share of intervals that are above the true value
    width: float  # mean; NaN where an interval has no bounds
    found: float  # share of differences with p of 5 % at most, or of guardrails that pass
    bakeoffs: int

    @property
    def key(self) -> tuple[object, ...]:
        """Identity, equal in every run."""
        return self.part, self.statistic, self.truth, self.scores, self.sizes, self.groups, self.users


def tables_of(truth: str, scores: str, n_groups: int) -> list[list[Table]]:
    """Return the distributions of both models in each group, by model."""

    def of(power: float) -> Table:
        return _look_up(SCORES[scores], SHARES ** (1 / power))

    alike = [of(1.0)] * n_groups
    one = [of(WORSE), *alike[1:]]
    steps = [of(power) for power in np.linspace(1, WORSE, n_groups)]
    lower = [of(WORSE**2), *alike[1:]]
    return {
        "alike": [alike, alike],
        "one worse": [one, one],
        "exchanged": [steps, steps[::-1]],
        "helped": [alike, one],
        "at the limit": [one, alike],
        "other group": [lower, one[::-1]],
        "equal": [alike, alike],
    }[truth]


def sizes_for(kind: str, n_groups: int, users: int) -> npt.NDArray[np.int64]:
    """Return the number of users of each group."""
    if kind == "equal":
        return np.full(n_groups, users)
    return np.round(np.geomspace(LEAST_UNITS, users, n_groups)).astype(np.int64)


def draw(
    tables: Sequence[Sequence[Table]], group: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return scores (model, users, bake-offs) of users of a group (users,) at shares (model, users, bake-offs)."""
    values = np.empty_like(shares)
    for model, by_group in enumerate(tables):
        for number, table in enumerate(by_group):
            values[model, group == number] = _look_up(table, shares[model, group == number])
    return values


def shares_of(users: int, bakeoffs: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return where users are between the worst and the best served ones, by two models (model, users, bake-offs)."""
    common = rng.standard_normal((users, bakeoffs))
    return np.stack([_uniforms(common, rng) for _ in range(2)])


def true_values(tables: Sequence[Sequence[Table]]) -> dict[str, float]:
    """Return the true value of each statistic."""
    means = np.array([[table.mean() for table in by_group] for by_group in tables])
    gaps, worst = np.ptp(means, axis=1), means.min(axis=1)
    values = (gaps[0], worst[0], gaps[0] - gaps[1], worst[0] - worst[1])
    return dict(zip(STATISTICS, map(float, values), strict=True))


Found = dict[str, Extreme | ExtremeDifference]


def found_of(intervals: Sequence[Interval], both: GroupMeans) -> Found:
    """Return all statistics of one bake-off."""
    return {
        "gap": gap_of(intervals, both.degrees, both),
        "worst": worst_of(intervals, both.degrees, 1, both),
        "gap difference": gap_difference(both, level=LEVEL),
        "worst difference": worst_difference(both, 1, level=LEVEL),
    }


def cells_of(found: Sequence[Found], true: dict[str, float], *key: object) -> Iterator[Cell]:
    """Yield the cells of one kind of bake-offs; the key is all but the statistic."""
    part, *others = key
    for name in STATISTICS:
        of = [one[name] for one in found]
        value, low, high = np.array([(e.value, e.low, e.high) for e in of]).T
        p = np.array([e.p if isinstance(e, ExtremeDifference) else np.nan for e in of])
        least, most = true[name] - 1e-9, true[name] + 1e-9  # room for rounding
        yield Cell(
            part, name, *others, float(value.mean() - true[name]),  # type: ignore[arg-type]
            covered=float(np.mean((low <= most) & (least <= high))), above=float(np.mean(low > most)),
            width=float(np.mean(high - low)), found=float(np.mean(p <= 1 - LEVEL)), bakeoffs=len(of),
        )  # fmt: skip


def of_users(users: int, n_groups: int, share: float, seed: int) -> Iterator[Cell]:
    """Yield the cells of groups of independent users."""
    bakeoffs = round(BAKEOFFS[n_groups] * share)
    for truth in TRUTHS if n_groups < 12 else FEWER:
        for scores in SCORES:
            for kind in SIZES:
                rng = generator(seed, truth, scores, kind, n_groups, users)
                tables, sizes = tables_of(truth, scores, n_groups), sizes_for(kind, n_groups, users)
                group = np.repeat(np.arange(n_groups), sizes)
                values = draw(tables, group, shares_of(len(group), bakeoffs, rng))
                by_group = [
                    mean_intervals(values[0, group == g], level=LEVEL, bounds=[(0.0, 1.0)] * bakeoffs, rng=rng)
                    for g in range(n_groups)
                ]  # fmt: skip
                found = [
                    found_of(
                        intervals, GroupMeans.of(values[0, :, number], values[1, :, number], group, n_groups)
                    )
                    for number, intervals in enumerate(zip(*by_group, strict=True))
                ]
                yield from cells_of(found, true_values(tables), "users", truth, scores, kind, n_groups, users)


def of_clusters(sessions: int, n_groups: int, share: float, seed: int) -> Iterator[Cell]:
    """Yield the cells of groups of the queries of sessions."""
    for truth in FEWER:
        for scores in SCORES:
            for spread in SPREADS:
                rng = generator(seed, "clusters", truth, scores, spread, n_groups, sessions)
                tables, found = tables_of(truth, scores, n_groups), []
                for _ in range(round(CLUSTERED[n_groups] * share)):
                    n_sessions = sessions * n_groups
                    codes = np.repeat(np.arange(n_sessions), sizes_of("log-normal", n_sessions, rng))
                    group = codes % n_groups
                    if spread == "in all groups":
                        group = rng.integers(0, n_groups, len(codes))
                    of_session = shares_of(n_sessions, 1, rng)[:, codes]
                    own = shares_of(len(codes), 1, rng)
                    is_alike = rng.random((len(codes), 1)) < np.sqrt(CORRELATION)
                    a, b = draw(tables, group, np.where(is_alike, of_session, own))[:, :, 0]
                    both = GroupMeans.of(a, b, group, n_groups, codes)
                    intervals = [
                        mean_interval(
                            a[group == g], level=LEVEL, bounds=(0.0, 1.0), clusters=codes[group == g], rng=rng
                        )
                        for g in range(n_groups)
                    ]
                    found.append(found_of(intervals, both))
                true = true_values(tables)
                yield from cells_of(found, true, "clusters", truth, scores, spread, n_groups, sessions)


def of_gate(users: int, n_groups: int, share: float, seed: int) -> Iterator[Cell]:
    """Yield how often the guardrails ``worst`` and ``gap`` pass."""
    bakeoffs = round(GATED[n_groups] * share)
    for case in GUARDRAILS:
        for scores in SCORES:
            limits = true_values(tables_of("at the limit" if case == "equal" else case, scores, n_groups))
            champion = min(table.mean() for table in tables_of(case, scores, n_groups)[1])
            amounts = {  # a share, and a number
                "worst": f"{-100 * limits['worst difference'] / champion:.10f} %",
                "gap": limits["gap difference"],
            }
            gate = Gate(min_users=LEAST_UNITS, guardrails={"segments": {"group": amounts}})
            for kind in SIZES:
                rng = generator(seed, "gate", case, scores, kind, n_groups, users)
                group = np.repeat(np.arange(n_groups), sizes_for(kind, n_groups, users))
                drawn = draw(tables_of(case, scores, n_groups), group, shares_of(len(group), bakeoffs, rng))
                passed = [guardrails(values.T, group, gate) for values in np.moveaxis(drawn, 2, 0)]
                for name, rate in zip(("worst", "gap"), np.mean(passed, axis=0), strict=True):
                    yield Cell(
                        "gate", name, case, scores, kind, n_groups, users,
                        np.nan, np.nan, np.nan, np.nan, float(rate), bakeoffs,
                    )  # fmt: skip


def guardrails(
    values: npt.NDArray[np.float64], group: npt.NDArray[np.int64], gate: Gate
) -> tuple[bool, bool]:
    """Return whether a challenger passes both guardrails, by the scores (users, 2) of it and of the champion."""
    users, labels = np.arange(len(values)), tuple(map(str, range(group.max() + 1)))
    models = tuple(
        ComparedModel(name, PerUserScores(Units(users), column[:, None], (METRIC,)))
        for name, column in zip(("challenger", "champion"), values.T, strict=True)
    )
    segment = Segmentation("group", labels, users, group.astype(np.int32))
    contest = Contest("study", "scores", "", models, (METRIC,), None, 0, "test", (segment,))
    conditions = {c.name: c.passed for c in decide(contest, gate, "champion").conditions}
    return conditions["group: worst group"], conditions["group: gap"]


PARTS = {"users": of_users, "clusters": of_clusters, "gate": of_gate}


def markdown(cells: Sequence[Cell]) -> str:
    """Return all tables."""
    lines = [
        "# Gap and worst group",
        "",
        "Written by `groups.py`. In each column: number of groups × users. **Bold**: worse than the promised 95 % or "
        "5 % by more than three standard errors. Scores: hits of 3 %, reciprocal ranks and nDCG. Truth:",
        "",
        *(f"- {name}: {text}" for name, text in TRUTHS.items()),
        "",
        "Sizes of groups:",
        "",
        *(f"- {name}: {text}" for name, text in SIZES.items()),
        "",
    ]
    of_users, of_clusters = ([c for c in cells if c.part == part] for part in ("users", "clusters"))
    biased = [c for c in of_users if c.statistic in STATISTICS[:2] and c.truth == "alike"]
    lines += ["## Mean error of the measured value, where groups are alike", ""]
    lines += _table(biased, lambda c: f"{c.bias:+.3f}", first="statistic")
    for part in (of_users, of_clusters):
        if part is of_clusters:
            lines += ["", "# Queries of sessions", ""]
            lines += [
                f"{CORRELATION:g} is the correlation of two queries of a session, which has 1 to 200 queries, 6 "
            ]
            lines[-1] += "on average. In each column: number of groups × sessions for each. Sessions:"
            lines += ["", *(f"- {name}: {text}" for name, text in SPREADS.items())]
        for name in STATISTICS:
            of = [c for c in part if c.statistic == name]
            lines += ["", f"## {name.capitalize()}: 95 % intervals with the true value", ""]
            lines += _table(of, _covered)
            if "difference" in name:
                lines += ["", f"## {name.capitalize()}: found at 5 %", ""]
                lines += ["An error, but in the rows of `helped`, where it is power.", ""]
                lines += _table(of, _found)
    lines += ["", "# Guardrails of the gate", "", "How often they pass at 95 %, by `decide`:", ""]
    lines += [f"- {name}: {text}" for name, text in GUARDRAILS.items()]
    for name in ("worst", "gap"):
        lines += ["", f"## Guardrail `{name}`", ""]
        lines += _table([c for c in cells if c.part == "gate" and c.statistic == name], _found)
    lines += [
        "",
        "# Bake-offs",
        "",
        "| part | groups | simulated | standard error at 95 % and 5 % |",
        "|---|--:|--:|--:|",
    ]
    for part, groups, bakeoffs in sorted({(c.part, c.groups, c.bakeoffs) for c in cells}):
        lines.append(f"| {part} | {groups} | {bakeoffs:,} | {_error(bakeoffs):.1%} |")
    return "\n".join([*lines, ""])


def _error(bakeoffs: int) -> float:
    return float(np.sqrt(LEVEL * (1 - LEVEL) / bakeoffs))


def _covered(cell: Cell) -> str:
    text = f"{cell.covered:.1%}"
    return f"**{text}**" if cell.covered < LEVEL - 3 * _error(cell.bakeoffs) else text


def _found(cell: Cell) -> str:
    text = f"{cell.found:.1%}"
    is_error = cell.truth not in ("helped", "equal")
    return f"**{text}**" if is_error and cell.found > 1 - LEVEL + 3 * _error(cell.bakeoffs) else text


def _table(cells: Sequence[Cell], text: Callable[[Cell], str], first: str = "truth") -> list[str]:
    """Return a table with a column for each number of groups and users."""
    columns = sorted({(c.groups, c.users) for c in cells})
    heads = " | ".join(f"{groups} × {users:,}" for groups, users in columns)
    lines = [f"| {first} | scores | sizes | {heads} |", f"|---|---|---|{'--:|' * len(columns)}"]
    by_row: dict[tuple[str, str, str], dict[tuple[int, int], str]] = {}
    for c in cells:
        by_row.setdefault((getattr(c, first), c.scores, c.sizes), {})[c.groups, c.users] = text(c)
    for row, texts in by_row.items():
        lines.append(f"| {' | '.join(row)} | {' | '.join(texts.get(c, '') for c in columns)} |")
    return lines


def read(file: Path) -> list[Cell]:
    """Return the cells of earlier runs."""
    if not file.exists():
        return []
    kinds = {field.name: {"str": str, "int": int, "float": float}[str(field.type)] for field in fields(Cell)}
    with file.open(newline="") as rows:
        return [Cell(**{n: kinds[n](v) for n, v in row.items()}) for row in csv.DictReader(rows)]


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--users", type=int, nargs="*", default=[50, 200, 1000])
    parser.add_argument("--groups", type=int, nargs="*", choices=BAKEOFFS, default=list(BAKEOFFS))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    file = HERE / "groups.csv"
    latest = {cell.key: cell for cell in read(file)}
    for part in args.parts:
        for n_groups in args.groups:
            for users in args.users:
                if part == "clusters" and (n_groups not in CLUSTERED or users > 200):
                    continue  # they take long
                latest |= {c.key: c for c in PARTS[part](users, n_groups, args.share, args.seed)}
                write(latest.values(), file)


def write(latest: Iterable[Cell], file: Path) -> None:
    """Write both files."""
    order = (
        list(PARTS),
        list(STATISTICS),
        [*TRUTHS, *GUARDRAILS],
        list(SCORES),
        [*SIZES, *SPREADS],
    )
    cells = sorted(
        latest,
        key=lambda c: (*(o.index(v) for o, v in zip(order, c.key[:5], strict=True)), c.groups, c.users),
    )
    with file.open("w", newline="") as rows:
        writer = csv.DictWriter(rows, [field.name for field in fields(Cell)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, cells))
    file.with_suffix(".md").write_text(markdown(cells))


if __name__ == "__main__":
    main()
