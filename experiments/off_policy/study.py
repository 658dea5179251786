"""When can a value from logged decisions be trusted? Coverage, type I errors and may-be-best, beside what doubts see.

``python study.py simulate --seed 0 --rounds 0 5 --store FOLDER`` simulates a log of each cell in each round and keeps
what was measured, a file for each round and size; it goes on where it stopped. ``python study.py tables --seed 0
--store FOLDER`` writes results/*.md of all that is there.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from doubts import effective, largest, sums
from reference import Log as PlainLog
from reference import ratio, reward_model
from simulator import LOGGING, AnyPolicy, Cell, Floats, Greedy, Ints, Log, World

from evalplugin.base.seeding import generator
from evalplugin.comparison.best import best_models
from evalplugin.comparison.statistics.intervals import mean_intervals
from evalplugin.comparison.statistics.paired import compare_pairs
from evalplugin.metrics import parse

HERE = Path(__file__).parent
CLIPPED, BOUNDS = ("clipped10", "clipped50"), (10.0, 50.0)
PARTS = 5  # rounds that together have every cell once
PAIRS_EVERY = 6  # of which the first compares policies too
VALUED = 3  # policies that the other rounds value
DECISIONS = {1: (10_000, 50_000), 3: (10_000,)}
ITEMS = {1: (3, 10, 30, 100, 300), 3: (3, 10, 30)}
REWARDS = {1: ("3 %", "revenue"), 3: ("3 %",)}
SINGLE = ("replay", "ips", "clipped10", "clipped50", "snips", "dm", "dr", "sndr")
SLATE = (*SINGLE, "iips", "iips, conditional", "rips")
PAIRED = ("ips", "snips", "dr", "rips")
CONTEST = ("logging", "near soft", "good soft", "good greedy", "good epsilon", "bad greedy")
TWINS = ("good soft", "good greedy", "good epsilon")
SPEC = parse("ndcg@10")  # only its direction counts: higher is better

WEIGHTS = [
    "n", "clusters", "ess", "ess_clusters", "top", "top_clusters", "w", "w_low", "w_high", "unsupported", "matches",
    "match_spread", "ess_rewarded", "ess_rewarded_clusters",
    "top_rewarded",
]  # fmt: skip
VALUES = ["truth", "mean", "low", "high", "kurtosis", "skew"]


def cells(positions: int, decisions: int) -> list[Cell]:
    """Return the kinds of logs of a size."""
    return [
        Cell(decisions, items, logging, rewards, users, positions)
        for items, logging, rewards, users in itertools.product(
            ITEMS[positions], LOGGING, REWARDS[positions], (False, True)
        )
    ]


@dataclass(eq=False)
class Valued:
    """A policy's value by every estimator, for each decision."""

    columns: dict[str, Floats]
    # Weights (n,), and rewards times weights (n,): of the whole slate, and of the estimators that have others.
    weights: dict[str, tuple[Floats, Floats]]


def valued(world: World, policy: AnyPolicy, log: Log, model: Floats) -> Valued:
    """Return the values of a policy on a log; ``model``: expected rewards (items, k)."""
    k = log.shown.shape[1]
    prefix = policy.prefixes(log.types, log.shown) / np.cumprod(log.propensity, axis=1)
    w, reward = prefix[:, -1], log.reward.sum(axis=1)
    match = (w > 0).astype(float)
    columns = {
        "replay": ratio(match * reward, match),
        "ips": w * reward,
        **{e: np.minimum(w, bound) * reward for e, bound in zip(CLIPPED, BOUNDS, strict=True)},
        "snips": ratio(w * reward, w),
    }
    direct = np.einsum("kti,ik->t", policy.marginals[:k], model)[log.types]
    rest = reward - model[log.shown, np.arange(k)].sum(axis=1)
    columns |= {"dm": direct, "dr": direct + w * rest, "sndr": direct + ratio(w * rest, w)}
    kinds = {"slate": (w, w * reward)}
    kinds |= {e: (np.minimum(w, b), columns[e]) for e, b in zip(CLIPPED, BOUNDS, strict=True)}
    if k > 1:
        marginals = policy.marginals[np.arange(k), log.types[:, None], log.shown]
        for name, propensity in (("iips", log.marginal), ("iips, conditional", log.propensity)):
            columns[name] = (marginals / propensity * log.reward).sum(axis=1)
            kinds[name] = ((marginals / propensity).mean(axis=1), columns[name])
        columns["rips"] = (prefix * log.reward).sum(axis=1)
        kinds["rips"] = (w, columns["rips"])
    return Valued(columns, kinds)


def simulate(cell: Cell, seed: int, round_: int) -> dict[str, list[Any]]:
    """Return rows of what one log of a cell says: of policies, values, pairs and contests."""
    rng = generator(seed, "off-policy", cell.name, round_)
    world = World.drawn(cell, rng)
    log, train = world.log(rng), world.log(rng)
    model = reward_model(PlainLog(train.shown, train.reward, train.propensity), cell.items)
    codes = log.user
    policies: dict[str, AnyPolicy] = {"logging": world.logging, **world.policies}
    for name in TWINS:
        policies[f"{name}, twin"] = policies[name].swapped(world.twin)  # type: ignore[union-attr]
    for name, best, worst in (
        ("mixed greedy", "good greedy", "bad greedy"),
        ("mixed soft", "good sharp", "bad soft"),
    ):
        if (mixture := world.worth_the_logging(policies[best], policies[worst])) is not None:
            policies[name] = mixture
    compares = round_ // PARTS % PAIRS_EVERY == 0
    if not compares:  # other logs tell more than further policies on the same one
        names = [name for name in policies if not name.endswith("twin")]
        policies = {name: policies[name] for name in rng.choice(names, VALUED, replace=False)}
    results = {name: valued(world, policy, log, model) for name, policy in policies.items()}
    if "logging" in results:
        results["logging"] = as_logged(log, results["logging"])
    hopeless = {name for name, result in results.items() if is_hopeless(result, codes)}

    rows: dict[str, list[Any]] = {"policies": [], "values": [], "pairs": [], "contests": []}
    rows["policies"] = list(_weight_rows(world, policies, results, hopeless, log, rng))
    estimators = SINGLE if cell.positions == 1 else SLATE
    for name, result in results.items():
        if name.endswith("twin") or name in hopeless:
            continue
        truth = world.value(policies[name])
        undefined = undefined_of(policies[name], cell.positions)
        kept = [e for e in estimators if e not in undefined and np.isfinite(result.columns[e]).all()]
        intervals = mean_intervals(
            np.stack([result.columns[e] for e in kept], axis=1),
            bounds=[(-np.inf, np.inf)] * len(kept),
            clusters=codes,
            rng=rng,
        )
        for e, interval in zip(kept, intervals, strict=True):
            deviations = sums(result.columns[e] - interval.mean, codes)
            rows["values"].append(
                (
                    *(name, e, truth, interval.mean, interval.low, interval.high),
                    *(effective(deviations**2), _skew(deviations)),
                )
            )
    if not compares:
        return rows
    paired = [e for e in PAIRED if e in estimators]
    pairs = [(name, f"{name}, twin") for name in TWINS]
    pairs += [(name, "logging") for name in ("mixed greedy", "mixed soft") if name in policies]
    wanted = [
        (a, b, e)
        for a, b in pairs
        for e in paired
        if not {a, b} & hopeless
        and all(np.isfinite(results[x].columns[e]).all() for x in (a, b))
        and e not in undefined_of(policies[a], cell.positions)
    ]
    if wanted:
        compared = compare_pairs(
            *(np.stack([results[pair[side]].columns[pair[2]] for pair in wanted], axis=1) for side in (0, 1)),
            clusters=codes,
            rng=rng,
        )
        rows["pairs"] = [
            (*pair, c.interval.mean, c.interval.low, c.interval.high, c.p["permutation"], c.above + c.below)
            for pair, c in zip(wanted, compared, strict=True)
        ]
    truths = {name: world.value(policies[name]) for name in CONTEST}
    for e in paired:
        columns = {
            name: results[name].columns[e]
            for name in CONTEST
            if e not in undefined_of(policies[name], cell.positions) or name == "logging"
        }
        if not all(np.isfinite(c).all() for c in columns.values()):
            continue
        best = best_models(columns, SPEC, clusters=codes, level=0.95, rng=rng, seeds={})
        assert best is not None
        rows["contests"].append(
            (
                e,
                max(columns, key=truths.__getitem__),
                best.leader,
                best.rival,
                "|".join(best.models),
                "|".join(columns),
            )
        )
    return rows


def undefined_of(policy: AnyPolicy, positions: int) -> tuple[str, ...]:
    """Return the estimators that evalplugin does not define for a policy."""
    is_greedy = isinstance(policy, Greedy)
    undefined = () if is_greedy and not policy.epsilon else ("replay",)
    return (
        undefined
        if is_greedy or positions == 1
        else (*undefined, "dm", "dr", "sndr", "iips", "iips, conditional")
    )


def is_hopeless(result: Valued, codes: Ints | None) -> bool:
    """Return whether a value is far beyond any bound of doubt, so that nobody needs its interval."""
    w, rewarded = result.weights["slate"]
    return effective(w) < 50 or largest(w) > 0.15 or effective(sums(rewarded, codes)) < 8


def as_logged(log: Log, result: Valued) -> Valued:
    """Return the values of the policy that has logged: every estimator is the sum of rewards."""
    reward = log.reward.sum(axis=1)
    return Valued(dict.fromkeys(result.columns, reward), {"slate": (np.ones(len(reward)), reward)})


def _weight_rows(
    world: World,
    policies: dict[str, AnyPolicy],
    results: dict[str, Valued],
    hopeless: set[str],
    log: Log,
    rng: np.random.Generator,
) -> Iterator[tuple[Any, ...]]:
    codes, n = log.user, len(log.types)
    seen = np.zeros(world.cell.items, dtype=bool)
    seen[log.shown] = True
    weights = [
        (name, kind, *weight)
        for name, result in results.items()
        for kind, weight in result.weights.items()
        if kind == "slate" or not name.endswith("twin")
    ]
    columns = [w for name, _, w, _ in weights if name not in hopeless]
    intervals = iter(
        mean_intervals(
            np.stack(columns, axis=1), bounds=[(-np.inf, np.inf)] * len(columns), clusters=codes, rng=rng
        )
        if columns
        else ()
    )
    for name, kind, w, rewarded in weights:
        interval = None if name in hopeless else next(intervals)
        low, high = (np.nan, np.nan) if interval is None else (interval.low, interval.high)
        by_cluster = sums(w, codes)
        marginals = policies[name].marginals[: world.cell.positions]
        unsupported = (marginals[:, :, ~seen].sum(axis=2).mean(axis=0))[log.types].mean()
        matched = log.propensity.prod(axis=1)[w > 0]
        spread = matched.max() / matched.min() if len(matched) else np.nan
        yield (
            *(name, kind, n, n if codes is None else codes[-1] + 1),
            *(effective(w), effective(by_cluster), largest(w), largest(by_cluster)),
            *(w.mean(), low, high, 0.0 if name == "logging" else unsupported),
            *(len(matched), spread, effective(rewarded), effective(sums(rewarded, codes)), largest(rewarded)),
        )


def _skew(deviations: Floats) -> float:
    d, sd = deviations - deviations.mean(), deviations.std()
    return float((d * d * d).mean() / sd**3) if sd else 0.0


def run(
    seed: int,
    rounds: Sequence[int],
    store: Path,
    positions: Sequence[int],
    sizes: Sequence[int],
    seconds: float,
) -> bool:
    """Simulate what is not in the store yet, for a time; return whether all is done."""
    import pandas as pd

    store.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    for round_, k in itertools.product(rounds, positions):
        for n in sizes:
            if n not in DECISIONS[k] or (path := store / f"{seed}-{k}-{n}-{round_}.pkl").exists():
                continue
            if time.monotonic() > end:
                return False
            tables: dict[str, list[Any]] = {"policies": [], "values": [], "pairs": [], "contests": []}
            for cell in cells(k, n)[round_ % PARTS :: PARTS]:
                rows = simulate(cell, seed, round_)
                key = (seed, round_, k, n, cell.items, cell.logging, cell.rewards, cell.users)
                for part, found in rows.items():
                    tables[part] += [(*key, *row) for row in found]
            pd.to_pickle(
                {part: pd.DataFrame(rows, columns=[*KEY, *COLUMNS[part]]) for part, rows in tables.items()},
                path,
            )
    return True


KEY = ["seed", "round", "positions", "decisions", "items", "logging", "rewards", "users"]
COLUMNS = {
    "policies": ["policy", "weights", *WEIGHTS],
    "values": ["policy", "estimator", *VALUES],
    "pairs": ["a", "b", "estimator", "difference", "low", "high", "p", "differing"],
    "contests": ["estimator", "best", "leader", "rival", "kept", "compared"],
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("simulate", "tables"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, nargs=2, default=(0, 1))
    parser.add_argument("--positions", type=int, nargs="*", default=(1, 3))
    parser.add_argument("--sizes", type=int, nargs="*", default=(500, 2000, 10_000, 50_000))
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    a = parser.parse_args()
    print(run(a.seed, range(*a.rounds), a.store, a.positions, a.sizes, a.seconds))
