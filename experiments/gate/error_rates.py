"""Error rate and power of the gate: promotions of worse and better challengers over thousands of simulated bake-offs.

``python error_rates.py [--bakeoffs 4000] [--users 100 200 500 1000] [--seed 0]`` writes error_rates.csv and
error_rates.md to its own folder. Rows of other numbers of users remain, so that it can be run in pieces.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evalplugin.base.seeding import generator
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.contest import Contest
from evalplugin.features.gate.decide import decide
from evalplugin.features.gate.schema import Gate
from evalplugin.metrics.scores import PerUserScores, Units

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "statistics"))

from scores import QUANTILES, Table, alike, better, draw_family, lopsided  # noqa: E402

METRIC = "ndcg@10"  # the name of the simulated scores
CHALLENGERS = (1, 5)
SIZE = 1000  # users with whom two-sided tests find the gain of a better model in 80 % of bake-offs


@dataclass(frozen=True)
class Case:
    """The score distributions of the challengers and the champion, and the number of challengers without a gain."""

    challengers: list[Table]
    champion: Table
    min_gain: float | str
    no_better: int  # number of challengers, the last ones, whose gain is not above ``min_gain``


@dataclass(frozen=True)
class Rate:
    """One measured rate."""

    part: str  # false: promotions of a challenger that is no better; power: of a better one
    users: int
    scores: str
    models: str
    challengers: int
    rate: float
    bakeoffs: int


def cases(scores: str, n: int) -> Iterator[tuple[str, str, Case]]:
    """Yield the cases with ``n`` challengers: the part, a description, and the distributions."""
    same, _ = alike(scores)
    up, base = gain(scores)
    relative = f"{100 * (up.mean() / base.mean() - 1):.10f} %"
    yield "false", "alike", Case([same] * n, same, 0.0, n)
    if not scores.startswith("hit"):  # differences of 0/1 scores whose mean is 0 are symmetric
        few, many = lopsided(scores)
        yield "false", "many gain little, few lose much", Case([many] * n, few, 0.0, n)
        yield "false", "few gain much, many lose little", Case([few] * n, many, 0.0, n)
    yield "false", "gain of exactly min_gain, a share", Case([up] * n, base, relative, n)
    yield "power", "one with a gain", Case([up] + [same] * (n - 1), same, 0.0, n - 1)


@cache
def gain(scores: str) -> tuple[Table, Table]:
    """Return the distributions of a better model and of the champion."""
    tables: tuple[Table, Table] = better(scores, SIZE)
    return tables


def promoted(case: Case, users: int, gate: Gate, rng: np.random.Generator) -> int | None:
    """Return the index of the challenger that the gate promotes in one simulated bake-off; None: none."""
    values, champion = draw_family(case.challengers, case.champion, users, 1, rng)
    models = [compared_model(str(number), column) for number, column in enumerate(values.T)]
    models.append(compared_model("champion", champion[:, 0]))
    contest = Contest("study", "scores", "", tuple(models), (METRIC,), None, 0, "test")
    found = decide(contest, gate, "champion").promoted
    return None if found is None else int(found)


def compared_model(name: str, values: npt.NDArray[np.float64]) -> ComparedModel:
    """Return a model with these scores, one for each user."""
    return ComparedModel(name, PerUserScores(Units(np.arange(len(values))), values[:, None], (METRIC,)))


def measure(users: int, bakeoffs: int, seed: int) -> Iterator[Rate]:
    """Yield the rates by kind of scores, models and number of challengers."""
    for scores in QUANTILES:
        for n in CHALLENGERS:
            for part, models, case in cases(scores, n):
                rng = generator(seed, scores, models, n, users)
                gate = Gate(min_gain=case.min_gain, min_users=2)
                winners = [promoted(case, users, gate, rng) for _ in range(bakeoffs)]
                better_ones = len(case.challengers) - case.no_better
                wanted = [w is not None and (w < better_ones) == (part == "power") for w in winners]
                yield Rate(part, users, scores, models, n, float(np.mean(wanted)), bakeoffs)


def markdown(rates: Sequence[Rate]) -> str:
    """Return both tables; rates above 5 % by more than chance are bold."""
    n = min(rate.bakeoffs for rate in rates)
    chance = np.sqrt(0.05 * 0.95 / n)
    lines = [
        "# What the gate promotes",
        "",
        f"Written by `error_rates.py`; {n:,} simulated bake-offs a rate, so a standard error of {chance:.2%} at 5 %. "
        "**Bold**: above 5 % by more than two standard errors. By default the gate requires 500 users.",
        "",
    ]
    titles = {
        "false": "Share of bake-offs in which a challenger is promoted that is no better (95 %: at most 5 %)",
        "power": f"Share of bake-offs in which the one better challenger is promoted (its gain: what a two-sided test "
        f"finds in 80 % with {SIZE:,} users)",
    }
    for part, title in titles.items():
        of = [rate for rate in rates if rate.part == part]
        sizes = sorted({rate.users for rate in of})
        lines += [f"## {title}", ""]
        lines.append(f"| scores | models | challengers | {' | '.join(f'{u:,} users' for u in sizes)} |")
        lines.append(f"|---|---|--:|{'--:|' * len(sizes)}")
        cells = {(r.scores, r.models, r.challengers, r.users): r.rate for r in of}
        for scores, models, challengers in dict.fromkeys((r.scores, r.models, r.challengers) for r in of):
            shown = []
            for users in sizes:
                rate = cells.get((scores, models, challengers, users))
                high = part == "false" and rate is not None and rate > 0.05 + 2 * chance
                shown.append("" if rate is None else f"**{rate:.1%}**" if high else f"{rate:.1%}")
            lines.append(f"| {scores} | {models} | {challengers} | {' | '.join(shown)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bakeoffs", type=int, default=4000)
    parser.add_argument("--users", type=int, nargs="*", default=[100, 200, 500, 1000])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    file, names = HERE / "error_rates.csv", [field.name for field in fields(Rate)]
    rates: list[Rate] = []
    if file.exists():
        with file.open(newline="") as lines:
            rates = [_read(row) for row in csv.DictReader(lines)]
    rates = [rate for rate in rates if rate.users not in args.users]
    for users in args.users:
        rates += measure(users, args.bakeoffs, args.seed)
    rates.sort(key=lambda r: (r.part, list(QUANTILES).index(r.scores), r.models, r.challengers, r.users))
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(rate) for rate in rates)
    (HERE / "error_rates.md").write_text(markdown(rates))


def _read(row: dict[str, str]) -> Rate:
    kinds = {"users": int, "challengers": int, "bakeoffs": int, "rate": float}
    return Rate(**{name: kinds.get(name, str)(value) for name, value in row.items()})  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
