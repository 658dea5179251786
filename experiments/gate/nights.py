"""Error and power of a gate that decides every night: false promotions over whole histories.

``python nights.py [--histories 12000] [--seed 0]`` writes nights.csv and nights.md to its own folder.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtr

from evalplugin.base.seeding import generator

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "statistics"))

from scores import CORRELATION, VALUES, Table, alike, lopsided  # noqa: E402

ERROR = 0.05  # 1 - gate.confidence
NIGHTS = (30, 90, 365)
CORRELATIONS = (0.0, 0.5, 0.9)  # of one night's result with the next
CHALLENGERS = (1, 3, 10)
# Mean of a challenger's statistic, in standard errors: 2.8 is found in 80 % of single two-sided tests at 95 %.
GAINS = (0.5, 1.0, 2.0, 2.8)
USERS = 500  # the gate's default min_users
WORST = "ndcg, 85 % zeros", "many gain little, few lose much"


@dataclass(frozen=True)
class Share:
    """The share of histories with a promotion, or of single decisions."""

    part: str  # false, power, scores, tail
    case: str
    nights: int  # and decisions of the gate, where it has them; of a tail: decisions that share the error
    correlation: float
    challengers: int
    per_decision: float  # without ``decisions``
    spent: float  # with ``decisions`` as many as nights
    histories: int


def first_promotions(
    gain: float, challengers: int, correlation: float, histories: int, rng: np.random.Generator
) -> Iterator[npt.NDArray[np.float64]]:
    """Yield night by night the statistic that decides, (histories,): the largest, or that of the better challenger.

    Challengers share the champion, so their statistics correlate by 0.5; nights are an autoregression of order 1.
    """
    shape = histories, challengers + 1
    state = rng.standard_normal(shape)
    for _ in range(max(NIGHTS)):
        statistics = np.sqrt(0.5) * (state[:, :-1] + state[:, -1:])
        yield statistics.max(axis=1) if not gain else statistics[:, 0] + gain
        state = correlation * state + np.sqrt(1 - correlation**2) * rng.standard_normal(shape)


def histories_of(
    part: str, case: str, gain: float, challengers: int, correlation: float, histories: int, seed: int
) -> Iterator[Share]:
    """Yield the shares of histories with a promotion within each number of nights."""
    rng = generator(seed, part, gain, challengers, correlation)
    # Holm's correction promotes somebody where the best is beyond the level of the first step.
    critical = {1: ndtri(1 - ERROR / challengers)} | {n: ndtri(1 - ERROR / n / challengers) for n in NIGHTS}
    highest = np.full(histories, -np.inf)
    nights = first_promotions(gain, challengers, correlation, histories, rng)
    for night, statistic in enumerate(nights, 1):
        np.maximum(highest, statistic, out=highest)
        if night in NIGHTS:
            each, spent = (float((highest > critical[n]).mean()) for n in (1, night))
            yield Share(part, case, night, correlation, challengers, each, spent, histories)


def scored_histories(scores: str, correlation: float, histories: int, seed: int) -> Iterator[Share]:
    """Yield the shares for a challenger that is no better, from simulated scores of users and the gate's own test.

    Each user's easiness and luck with each model go on from night to night.
    """
    rng = generator(seed, "scores", scores, correlation)
    table, _ = alike(scores)
    shape = USERS, histories
    states = [rng.standard_normal(shape) for _ in range(3)]
    least = np.ones(histories)
    for night in range(1, NIGHTS[1] + 1):
        common, *own = states
        a, b = (_values(table, common, one) for one in own)
        np.minimum(least, p_values(a - b), out=least)
        for state in states:
            state *= correlation
            state += np.sqrt(1 - correlation**2) * rng.standard_normal(shape)
        if night in NIGHTS:
            each, spent = (float((least < ERROR / n).mean()) for n in (1, night))
            yield Share("scores", scores, night, correlation, 1, each, spent, histories)


def tails(scores: str, models: str, users: int, bakeoffs: int, seed: int) -> Iterator[Share]:
    """Yield the share of single decisions that promote a challenger that is no better, at the levels of histories."""
    # Lopsided: the challenger serves twice as many users half as well.
    tables = alike(scores) if models == "alike" else lopsided(scores)[::-1]
    rng = generator(seed, "tail", scores, models, users)
    p = []
    for _ in range(bakeoffs // 1000):
        common = rng.standard_normal((users, 1000))
        a, b = (_values(table, common, rng.standard_normal(common.shape)) for table in tables)
        p.append(p_values(a - b))
    found = np.concatenate(p)
    for nights in (1, *NIGHTS):
        rate = float((found < ERROR / nights).mean())
        yield Share("tail", f"{scores}; {models}; {users}", nights, 0.0, 1, rate, rate * nights, bakeoffs)


def p_values(excess: Table) -> Table:
    """Return ``p_above`` of each column of gains, (users, bake-offs)."""
    n = len(excess)
    mean, sd = excess.mean(axis=0), excess.std(axis=0, ddof=1)
    deviations = excess - mean
    g = (deviations**3).mean(axis=0) / (deviations**2).mean(axis=0) ** 1.5
    s = mean / sd
    hall = s + g * s**2 / 3 + g**2 * s**3 / 27 + g / (6 * n)
    return stdtr(n - 1, -np.sqrt(n) * np.minimum(s, hall))


def _values(table: Table, common: Table, own: Table) -> Table:
    shares = ndtr(np.sqrt(CORRELATION) * common + np.sqrt(1 - CORRELATION) * own)
    return table[np.minimum((shares * VALUES).astype(np.int32), VALUES - 1)]


def measure(histories: int, seed: int) -> Iterator[Share]:
    """Yield all shares."""
    for challengers in CHALLENGERS:
        for correlation in CORRELATIONS:
            yield from histories_of("false", "no better", 0.0, challengers, correlation, histories, seed)
    for gain in GAINS:
        for challengers in CHALLENGERS[:2]:
            for correlation in CORRELATIONS:
                case = f"{gain:g} standard errors"
                yield from histories_of("power", case, gain, challengers, correlation, histories // 4, seed)
    for correlation in CORRELATIONS:
        yield from scored_histories("ndcg, 85 % zeros", correlation, histories // 10, seed)
    for scores in ("ndcg, 60 % zeros", "ndcg, 85 % zeros", "dcg, long tail"):
        for models in ("alike", "many gain little, few lose much"):
            for users in (USERS, 4 * USERS):
                yield from tails(scores, models, users, 10 * histories, seed)
    yield from tails(*WORST, 10 * USERS, 10 * histories, seed)


def markdown(shares: Sequence[Share]) -> str:
    """Return the tables."""

    def columns(part: str) -> list[tuple[tuple[str, int, float], dict[int, Share]]]:
        rows: dict[tuple[str, int, float], dict[int, Share]] = {}
        for one in (s for s in shares if s.part == part):
            rows.setdefault((one.case, one.challengers, one.correlation), {})[one.nights] = one
        return list(rows.items())

    lines = [
        "# A gate that decides every night",
        "",
        "Written by `nights.py`. Without `decisions` each night is decided at 95 %; with it, 5 % are spent over as "
        "many decisions as there are nights. Correlation: of a night's result with the next one's.",
        "",
    ]
    heads = [f"{n} nights, {how}" for how in ("without", "with") for n in NIGHTS]
    titles = {
        "false": "Histories in which a challenger is promoted that is no better (with `decisions`: at most 5 %)",
        "scores": f"The same from simulated scores of {USERS} users",
        "power": "Histories in which the one better challenger is promoted within so many nights (its gain, in "
        "standard errors of one night's difference)",
    }
    for part, title in titles.items():
        rows = columns(part)
        n = min(s.histories for s in shares if s.part == part)
        lines += [f"## {title}", "", f"{n:,} histories a row.", ""]
        shown = [head for head in heads if part != "scores" or not head.startswith("365")]
        lines.append(f"| case | challengers | correlation | {' | '.join(shown)} |")
        lines.append(f"|---|--:|--:|{'--:|' * len(shown)}")
        for (case, challengers, correlation), of in rows:
            cells = [of[n].per_decision for n in NIGHTS if n in of] + [of[n].spent for n in NIGHTS if n in of]
            numbers = " | ".join(f"{cell:.1%}" for cell in cells)
            lines.append(f"| {case} | {challengers} | {correlation:g} | {numbers} |")
        lines.append("")
    counts = " | ".join(f"{n} decisions" if n > 1 else "1 decision" for n in (1, *NIGHTS))
    lines += [
        "## Error that one decision spends, times the decisions (at most 5 % is promised)",
        "",
        f"{min(s.histories for s in shares if s.part == 'tail'):,} bake-offs a row, in which the one challenger is no "
        "better. So strict levels are decided far out in the tail, where skewed scores are least normal.",
        "",
        f"| scores | models | users | {counts} |",
        f"|---|---|--:|{'--:|' * (1 + len(NIGHTS))}",
    ]
    for (case, *_), of in columns("tail"):
        scores, models, users = case.split("; ")
        numbers = " | ".join(f"{of[n].spent:.1%}" for n in (1, *NIGHTS))
        lines.append(f"| {scores} | {models} | {int(users):,} | {numbers} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--histories", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    shares = list(measure(args.histories, args.seed))
    with (HERE / "nights.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, [field.name for field in fields(Share)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(share) for share in shares)
    (HERE / "nights.md").write_text(markdown(shares))


if __name__ == "__main__":
    main()
