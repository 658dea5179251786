"""Time of valuing policies by a log: evalplugin, the NumPy reference, scikit-rec's point estimates; then ten million.

``python benchmark.py [--decisions 100000] [--scikit-rec PYTHON] [--parts 20]`` writes results/benchmark.md.
scikit-rec and the ten million decisions with a pool of 50, in so many parts, run in processes of their own; 0 parts
leave these out.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from reference import ESTIMATORS, Floats, Log, Policy, estimate, reward_model

HERE = Path(__file__).parent
POOL, ITEMS, MILLIONS = 50, 2_000, 10_000_000
TOLERANCE = 1e-9
POLICIES = {
    "greedy": "",
    "softmax": ", policy=softmax, temperature=0.5",
    "epsilon": ", policy=epsilon, epsilon=0.2",
}
ONE_POSITION = ("dm", "dr", "sndr", "iips")  # estimators of a softmax that are defined at one position only
IN_PARTS = (
    "value(estimator=snips, policy=softmax, temperature=0.5)@3",
    "value(estimator=rips, policy=epsilon, epsilon=0.2)@3",
    "value(estimator=dr)@3",
)
PEER = """
import json, sys, time
import numpy as np
from skrec.evaluator.direct_method import DirectMethodEvaluator
from skrec.evaluator.doubly_robust import DREvaluator
from skrec.evaluator.inverse_propensity_score import IPSEvaluator
from skrec.evaluator.snips import SNIPSEvaluator
data = np.load(sys.argv[1])
found = {}
evaluators = {"ips": IPSEvaluator, "snips": SNIPSEvaluator, "dm": DirectMethodEvaluator, "dr": DREvaluator}
for name, evaluator in evaluators.items():
    start = time.perf_counter()
    rewards = evaluator()._compute_modified_rewards(
        recommendation_scores=data["probability"], recommendation_probas=data["probability"],
        logged_items=data["place"], logged_rewards=data["reward"], logging_proba=data["propensity"],
        expected_rewards=data["expected"],
    )
    value = float(np.nanmean(rewards))
    found[name] = (value, time.perf_counter() - start)
print(json.dumps(found))
"""


def decisions(n: int, k: int, seed: int) -> tuple[Log, Policy]:
    """Return a log of n decisions of k positions, each with a pool of its own, and lists of the pools."""
    rng = np.random.default_rng(seed)
    step = rng.integers(1, ITEMS // POOL, n)  # distinct items: a start and multiples of a step, modulo
    pool = (rng.integers(0, ITEMS, n)[:, None] + np.arange(POOL) * step[:, None]) % ITEMS
    scores = rng.standard_normal((n, POOL))
    order = np.argsort(-scores, axis=1, kind="stable")
    lists, scores = np.take_along_axis(pool, order, axis=1), np.take_along_axis(scores, order, axis=1)
    # The log draws from a softmax of its own scores, without replacement.
    own = 1.5 * scores + 0.5 * rng.standard_normal((n, POOL))
    shown = np.argsort(-(own + rng.gumbel(size=(n, POOL))), axis=1)[:, :k]
    left = np.exp(own)
    propensity = np.empty((n, k))
    for position in range(k):
        at = shown[:, [position]]
        propensity[:, position] = np.take_along_axis(left, at, axis=1)[:, 0] / left.sum(axis=1)
        np.put_along_axis(left, at, 0, axis=1)
    chance = 0.02 + 0.2 * np.take_along_axis(1 / (1 + np.exp(-scores)), shown, axis=1)
    reward = (rng.random((n, k)) < chance).astype(float)
    return Log(np.take_along_axis(lists, shown, axis=1), reward, propensity), Policy(lists, scores)


def names(k: int) -> Iterator[tuple[str, str, str]]:
    """Yield estimator, policy and the name of the metric, of all that are defined."""
    for policy, parameters in POLICIES.items():
        for estimator in ESTIMATORS:
            if (estimator == "replay" and policy != "greedy") or (
                policy == "softmax" and k > 1 and estimator in ONE_POSITION
            ):
                continue
            yield estimator, policy, f"value(estimator={estimator}{parameters})@{k}"


def policy_of(policy: Policy, kind: str) -> Policy:
    """Return a policy of the same lists."""
    return Policy(policy.lists, policy.scores, kind, temperature=0.5, epsilon=0.2)  # type: ignore[arg-type]


def by_reference(n: int, k: int) -> dict[str, tuple[Floats, float]]:
    """Return the values by NumPy and the seconds of each."""
    (log, lists), (train, _) = decisions(n, k, 0), decisions(n, k, 1)
    model, seconds = timed(lambda: reward_model(train, ITEMS))
    found = {}
    for estimator, kind, name in names(k):
        own = policy_of(lists, kind)
        found[name] = timed(lambda e=estimator, p=own: estimate(e, log, p, model=model))  # type: ignore[misc]
    found["reward model"] = (np.empty(0), seconds)
    return found


def by_package(n: int, k: int) -> dict[str, tuple[Floats, float]]:
    """Return the values by evalplugin and the seconds of each metric by itself, then of all together."""
    from evalplugin.metrics import parse

    (log, lists), (train, _) = decisions(n, k, 0), decisions(n, k, 1)
    found = {}
    for _, _, name in names(k):
        scores, seconds = timed(lambda m=name: package_scores(log, lists, train, [m]).scores())  # type: ignore[misc]
        found[name] = (
            scores.column(parse(name).name) if hasattr(scores, "column") else scores.values[:, 0],
            seconds,
        )
    every = [name for _, _, name in names(k)]
    found["all together"] = (np.empty(0), timed(lambda: package_scores(log, lists, train, every).scores())[1])
    return found


def package_scores(log: Log, lists: Policy, train: Log, metrics: list[str], first: int = 0):  # noqa: ANN201
    """Return the state of scoring by evalplugin; ``first``: id of the first decision."""
    from evalplugin.metrics import parse
    from evalplugin.metrics.blocks import Blocks
    from evalplugin.metrics.scoring import score_blocks
    from evalplugin.metrics.states import Request
    from evalplugin.models.selection import TopN

    n = len(log.item)
    truth, earlier = interactions(log, first), interactions(train, first)
    top_n = TopN(np.arange(n, dtype=np.int32), lists.lists.astype(np.int32), lists.scores)
    blocks = Blocks.of(top_n, truth, train=earlier, shown=earlier)
    request = Request(tuple(parse(m) for m in metrics), POOL, ITEMS, ())
    return score_blocks(blocks, request, blocks.users)


def interactions(log: Log, first: int):  # noqa: ANN201
    """Return a log as evalplugin's data."""
    from evalplugin.data import Interactions

    n, k = log.item.shape
    return Interactions(
        user=np.repeat(np.arange(n, dtype=np.int32), k),
        item=log.item.ravel().astype(np.int32),
        rating=log.reward.ravel().astype(np.float32),
        timestamp=None,
        users=np.arange(first, first + n),
        items=np.arange(ITEMS),
        position=np.tile(np.arange(1, k + 1, dtype=np.int32), n),
        propensity=log.propensity.ravel(),
    )


def in_parts(parts: int) -> dict[str, float]:
    """Return seconds and peak memory of scoring ten million decisions in parts."""
    from evalplugin.metrics.states import ScorerState

    size, states, seconds = MILLIONS // parts, [], 0.0
    train, _ = decisions(size, 3, 1)
    for part in range(parts):
        log, lists = decisions(size, 3, 2 + part)
        state, took = timed(
            lambda a=log, b=lists, c=part: package_scores(a, b, train, list(IN_PARTS), c * size)  # type: ignore[misc]
        )
        states.append(state)
        seconds += took
        del log, lists
    _, took = timed(lambda: ScorerState.merge(states).scores())
    return {
        "seconds": seconds + took,
        "merged": took,
        "GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def by_scikit_rec(python: str, n: int) -> dict[str, tuple[float, float]]:
    """Return scikit-rec's value and seconds of each estimator, of a softmax at one position."""
    (log, lists), (train, _) = decisions(n, 1, 0), decisions(n, 1, 1)
    model, e = reward_model(train, ITEMS), np.exp(lists.scores / 0.5)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(
            path := Path(folder) / "log.npz",
            probability=e / e.sum(axis=1, keepdims=True),
            place=np.argmax(lists.lists == log.item, axis=1)[:, None],
            reward=log.reward,
            propensity=log.propensity,
            expected=model[lists.lists, 0],
        )
        done = subprocess.run([python, "-c", PEER, str(path)], capture_output=True, text=True, check=True)
    return {name: (value, seconds) for name, (value, seconds) in json.loads(done.stdout).items()}


def timed(call: Callable[[], object]):  # noqa: ANN201
    """Return the result of a call and its seconds."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def main() -> None:
    """Write results/benchmark.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--scikit-rec", dest="peer", help="Python of an environment with scikit-rec")
    parser.add_argument("--parts", type=int, default=20)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(in_parts(asked.parts)))
        return
    n = asked.decisions
    lines = [
        f"{n:,} decisions with a pool of {POOL} each; seconds of each value by itself. `evalplugin` checks log and",
        "lists and cuts them into blocks; the reference computes the values alone.",
        "",
        "| positions | value | evalplugin, s | NumPy, s | largest difference | scikit-rec, s | scikit-rec less NumPy |",
        "|--:|---|--:|--:|--:|--:|--:|",
    ]
    for k in (1, 3):
        package, plain = by_package(n, k), by_reference(n, k)
        peers = by_scikit_rec(asked.peer, n) if asked.peer and k == 1 else {}
        for estimator, kind, name in names(k):
            (a, a_seconds), (b, b_seconds) = package[name], plain[name]
            largest = float(np.max(np.abs(a - b) / np.maximum(np.abs(b), 1)))
            if np.isnan(b).all():
                raise SystemExit(f"{name}: no decision shows what the policy does, so nothing is compared")
            if not largest <= TOLERANCE:
                raise SystemExit(f"{name}: evalplugin and NumPy differ by {largest:g}")
            peer = peers.get(estimator) if kind == "softmax" else None
            theirs = ("-", "-") if peer is None else (f"{peer[1]:.3f}", f"{peer[0] - b.mean():.1e}")
            lines.append(
                f"| {k} | `{name}` | {a_seconds:.3f} | {b_seconds:.3f} | {largest:.0e} | {' | '.join(theirs)} |"
            )
        lines.append(f"| {k} | all together | {package['all together'][1]:.3f} | | | - | - |")
    if asked.parts:
        command = [sys.executable, __file__, "--one", "parts", "--parts", str(asked.parts)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        lines += [
            "",
            f"Ten million decisions of three positions with a pool of {POOL}, in {asked.parts} parts, three values "
            f"({', '.join(f'`{m}`' for m in IN_PARTS)}): {found['seconds']:.0f} s without making the data, of which "
            f"merging takes {found['merged']:.1f} s; peak memory {found['GB']:.1f} GB.",
        ]
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "benchmark.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
