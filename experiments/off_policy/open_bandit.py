"""The Open Bandit samples: each behaviour policy valued from its own log and from the other one's.

``python open_bandit.py --home FOLDER`` reads ``FOLDER/{random,bts}/{all,men,women}/*.csv``, 10,000 rows each, as the
package obp ships them (``obp/dataset/obd``), and writes results/open_bandit.md. A row is a decision of one position.
The random policy shows each item alike. The other one (Thompson sampling) changed during its week: as a policy on the
random log, it is its share of each item at a position over the week.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from doubts import PROPOSED, in_doubt, quantities
from reference import Floats, Ints, Log, ratio, reward_model

from evalplugin.comparison.statistics.intervals import Interval, mean_interval

HERE = Path(__file__).parent
CAMPAIGNS = ("all", "men", "women")
FITTED = 0.3  # first part of a log, on which the reward model of dr and sndr is fitted
BOUND = 10.0


def main() -> None:
    """Write results/open_bandit.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="folder of the samples")
    home = parser.parse_args().home
    lines = [
        "| campaign | log | policy | estimator | value, % | 95 % interval, % | on-policy, % | its interval, % "
        "| holds | agree | doubts |",
        "|---|---|---|---|--:|---|--:|---|---|---|---|",
    ]
    for campaign in CAMPAIGNS:
        logs = {policy: read(home / policy / campaign / f"{campaign}.csv") for policy in ("random", "bts")}
        for log in logs:
            for policy in logs:
                truth = interval_of(logs[policy]["click"].to_numpy(float))
                for estimator, interval, doubt in values(logs, log, policy):
                    error = np.hypot(truth.high - truth.low, interval.high - interval.low) / 2
                    agree = "yes" if abs(interval.mean - truth.mean) <= error else "no"
                    holds = "yes" if interval.low <= truth.mean <= interval.high else "no"
                    lines.append(
                        f"| {campaign} | {log} | {policy} | {estimator} | {100 * interval.mean:.2f} "
                        f"| {percent(interval)} | {100 * truth.mean:.2f} | {percent(truth)} | {holds} | {agree} "
                        f"| {doubt or '-'} |"
                    )
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "open_bandit.md").write_text("\n".join(lines) + "\n")


def read(path: Path) -> pd.DataFrame:
    """Return a sample in the order of time, with codes of items and positions from 0."""
    rows = pd.read_csv(path, index_col=0).sort_values("timestamp", kind="stable")
    rows["position"] -= 1
    return rows


def values(logs: dict[str, pd.DataFrame], log: str, policy: str) -> Iterator[tuple[str, Interval, str]]:
    """Yield each estimator's value of a policy by a log, and the doubts about it."""
    rows = logs[log]
    item, position = rows["item_id"].to_numpy(), rows["position"].to_numpy()
    reward, n_items = (
        rows["click"].to_numpy(float),
        int(max(other["item_id"].max() for other in logs.values())) + 1,
    )
    if policy == log:
        yield "mean reward", interval_of(reward), ""
        return
    shows = np.full((n_items, 3), 1 / n_items) if policy == "random" else shares(logs[policy], n_items)
    weight = shows[item, position] / rows["propensity_score"].to_numpy(float)
    seen = np.zeros(n_items, dtype=bool)
    seen[item] = True
    unsupported = float(shows[~seen].sum(axis=0)[position].mean())
    columns = {
        "ips": weight * reward,
        f"clipped({BOUND:.0f})": np.minimum(weight, BOUND) * reward,
        "snips": ratio(weight * reward, weight),
    }
    for estimator, column in columns.items():
        used = np.minimum(weight, BOUND) if estimator.startswith("clipped") else weight
        yield estimator, interval_of(column), doubt_of(used, reward, unsupported)
    first = int(FITTED * len(rows))
    rest = slice(first, None)
    model = at_positions(item[:first], position[:first], reward[:first], n_items)
    direct = (shows * model).sum(axis=0)[position[rest]]
    missed = reward[rest] - model[item[rest], position[rest]]
    doubt = doubt_of(weight[rest], reward[rest], unsupported)
    yield "dr", interval_of(direct + weight[rest] * missed), doubt
    yield "sndr", interval_of(direct + ratio(weight[rest] * missed, weight[rest])), doubt


def doubt_of(weight: Floats, reward: Floats, unsupported: float) -> str:
    """Return the doubts about a value."""
    return "; ".join(in_doubt(PROPOSED, quantities(weight, reward, unsupported)))


def shares(rows: pd.DataFrame, n_items: int) -> Floats:
    """Return the share of each item among what is shown at a position (items, 3)."""
    counts = np.bincount(rows["item_id"] * 3 + rows["position"], minlength=n_items * 3).reshape(n_items, 3)
    return counts / counts.sum(axis=0)


def at_positions(item: Ints, position: Ints, reward: Floats, n_items: int) -> Floats:
    """Return the reward model of rows that each show one item at one of three positions (items, 3)."""
    items = np.full((len(item), 3), -1)
    items[np.arange(len(item)), position] = item
    rewards = np.zeros(items.shape)
    rewards[np.arange(len(item)), position] = reward
    return reward_model(Log(items, rewards, np.ones(items.shape)), n_items)


def interval_of(column: Floats) -> Interval:
    """Return the 95 % interval of a mean over decisions."""
    return mean_interval(column, bounds=(-np.inf, np.inf), rng=np.random.default_rng(0))


def percent(interval: Interval) -> str:
    """Return the bounds of an interval in per cent."""
    return f"{100 * interval.low:.2f} to {100 * interval.high:.2f}"


if __name__ == "__main__":
    main()
