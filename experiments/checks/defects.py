"""Clean data with a sound config, and one defect for each check to seed into them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evalplugin.comparison.comparison import compare
from evalplugin.config import CheckedConfig
from evalplugin.data import LoadContext
from evalplugin.data.datasets.synthetic import Synthetic
from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import Finding, Plan
from evalplugin.execution.runner import jobs_of, prepare, results_of
from evalplugin.features.checks.feature import data_findings, result_findings
from evalplugin.features.config import load
from evalplugin.report.competition import competitions_of

__all__ = ["DEFECTS", "Seeded", "clean", "clean_log", "findings"]

Seeded = tuple[pd.DataFrame, dict[str, Any]]  # interactions (user, item, stars, time), config
_START, _DAYS = 1_750_000_000, 60
_QUANTILE = 0.8


def clean(seed: int) -> Seeded:
    """Return 400 users who were active for two months, split by time, and models with something to find."""
    data = Synthetic(n_users=400, n_items=200, n_interactions=12_000, seed=seed).load(LoadContext())
    frame = data.to_frame().rename(columns={"rating": "stars", "timestamp": "time"})
    rng = np.random.default_rng(seed)
    frame["time"] = _START + rng.integers(0, _DAYS * 86_400, len(frame))
    config = {
        "experiment": "checks",
        "seed": 1,
        "datasets": [{"name": "shop", "type": "csv", "rating": "stars", "timestamp": "time"}],
        "split": {"type": "temporal", "quantile": _QUANTILE},
        "relevance": {"threshold": 4.0},
        "recommend": {"n": 20},
        "metrics": ["ndcg@10", "recall@10"],
        "models": [
            "random",
            "popularity",
            {"name": "neighbours", "type": "sklearn.NearestNeighbors", "params": {"values": "binary"}},
            "ease",
        ],
        "compare": {"baseline": "popularity"},
        "gate": {"champion": "popularity", "min_gain": 0.05, "min_users": 100},
    }
    return frame, config


def findings(seeded: Seeded, *, of: tuple[str, ...] = ("data", "models", "results")) -> list[Finding]:
    """Return what the checks of the data, of the models on a sample, and of the results find."""
    frame, settings = seeded
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.csv"
        frame.to_csv(path, index=False)
        dataset = settings["datasets"][0] | {"path": str(path)}
        config = load(settings | {"datasets": [dataset]})
        data = prepare(config, None, Observer())
        found = data_findings(config, data, fit="models" in of)
        if "results" not in of:
            return found
        execute = sequential_executor(Observer())
        models = dict(results_of(jobs_of(config, data), execute))
        results = [models[number] for number in sorted(models)]
        compared = [compare(contest) for contest in competitions_of(_plan(config), results)]
        found += result_findings(config, data, results, compared)
    return list(dict.fromkeys(found))


def _plan(config: CheckedConfig) -> Plan:
    return Plan(
        id="study",
        experiment="checks",
        seed=config.spec.seed,
        n=config.spec.recommend.n,
        candidates=config.spec.recommend.candidates,
        relevance=config.spec.relevance,
        metrics=tuple(metric.name for metric in config.metrics),
        primary=config.primary.name,
        baseline=config.spec.compare.baseline,
        models=tuple(model.name for model in config.models),
        config_name="python",
        config_text="",
        config_resolved="",
        config_dir="",
        config_hash="",
        metrics_hash="",
    )


def _in_test(frame: pd.DataFrame) -> pd.Series[bool]:
    return frame["time"] >= frame["time"].quantile(_QUANTILE)


def _future(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    return frame, config | {"split": {"type": "last_n", "n": 5}}


def _new_items(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    new = frame["item"].isin(rng.choice(200, 20, replace=False) + 1)
    cutoff = int(frame["time"].quantile(_QUANTILE))
    return frame[_in_test(frame) | ~new], config | {"split": {"type": "temporal", "cutoff": cutoff}}


def _popular(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    chance = (np.arange(200) + 2.0) ** -0.8
    drawn = [
        rng.choice(200, len(rows), replace=False, p=chance / chance.sum()) + 1
        for _, rows in frame.groupby("user")
    ]
    return frame.sort_values("user").assign(item=np.concatenate(drawn)), config


def _edge(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    knn = {"name": "knn", "type": "sklearn.NearestNeighbors", "grid": {"n_neighbors": [1, 2, 3]}}
    return frame, config | {"models": ["popularity", knn]}


def _untuned(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    ease = {"type": "ease", "tune": {"l2": {"float": [1, 500]}}}
    neighbours = {"name": "neighbours", "type": "sklearn.NearestNeighbors"}
    return frame, config | {"models": ["popularity", ease, neighbours]}


def _seen(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    return frame, config | {"recommend": {"n": 20, "candidates": "all"}}


def _sampled(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    return frame, config | {"recommend": {"n": 20, "candidates": "sampled", "negatives": 20}}


def _few_users(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    return frame[frame["user"] <= 120], config | {"gate": config["gate"] | {"min_gain": 0.01}}


def _one_day(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    moved = _in_test(frame) & (rng.random(len(frame)) < 0.7)
    last = frame["time"].max() // 86_400 * 86_400
    return frame.assign(time=frame["time"].where(~moved, last + rng.integers(0, 3600, len(frame)))), config


def _copies(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    copied = frame[frame["user"].isin(rng.choice(400, 20, replace=False) + 1)]
    return pd.concat([frame, copied.assign(user=copied["user"] + 1000)]), config


def _twins(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    return frame, config | {"models": [*config["models"], {"name": "ease again", "type": "ease"}]}


def _unsteady(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    return frame, config | {
        "plugins": [str(Path(__file__).parent / "unsteady.py")],
        "models": [*config["models"], "unsteady"],
    }


def _no_rating(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    dataset = {"name": "shop", "type": "csv", "timestamp": "time"}
    return frame, config | {"datasets": [dataset], "relevance": {}}


def _no_threshold(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    return frame, config | {"relevance": {}}


def _counts(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    neighbours = {"name": "neighbours", "type": "sklearn.NearestNeighbors"}
    counts = np.ceil(rng.lognormal(1, 1.5, len(frame)))
    return frame.assign(stars=counts), config | {"models": ["popularity", neighbours], "relevance": {}}


def _served(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    served = {"name": "live", "type": "mlflow", "params": {"model": "models:/shop@champion"}}
    return frame, config | {"models": [*config["models"], served]}


def _filtered(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    dataset = config["datasets"][0] | {"filters": [{"type": "k_core", "k": 20}]}
    return frame, config | {"datasets": [dataset]}


def _whole_days(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    days = frame["time"] // (7 * 86_400) * (7 * 86_400)
    return frame.assign(time=days), config | {"split": {"type": "last_n", "n": 5}}


def _integer_dates(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    days = pd.to_datetime(frame["time"], unit="s").dt.strftime("%Y%m%d").astype(int)
    return frame.assign(time=days), config


def _not_rated(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = seeded
    return frame.assign(stars=frame["stars"].where(rng.random(len(frame)) < 0.6, 0)), config


def _newcomers(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    """Add 40 users with three random interactions before the cut and the most popular items after it."""
    frame, config = seeded
    cutoff = int(frame["time"].quantile(_QUANTILE))
    popular = frame.loc[frame["time"] < cutoff, "item"].value_counts().index[:10].to_numpy()
    rows = []
    for user in range(2001, 2041):
        before = rng.choice(np.setdiff1d(np.arange(200) + 1, popular), 3, replace=False)
        after = rng.choice(popular, 3, replace=False)
        times = np.where(np.arange(6) < 3, cutoff - 1 - np.arange(6), cutoff + np.arange(6))
        rows.append(pd.DataFrame({"user": user, "item": [*before, *after], "stars": 5.0, "time": times}))
    changed = {
        "split": {"type": "temporal", "cutoff": cutoff},
        "segments": [{"name": "newcomers", "type": "cold", "below": 5}],
    }
    return pd.concat([frame, *rows], ignore_index=True), config | changed


def _robots(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    """Make users sessions, of which the last day tests some, and add three sessions of 1,000 events each."""
    frame, config = seeded
    times = frame["time"].max() - np.arange(1000)
    robots = [
        pd.DataFrame({"user": user, "item": rng.integers(1, 201, 1000), "stars": 5.0, "time": times})
        for user in (1001, 1002, 1003)
    ]
    changed = {
        "datasets": [config["datasets"][0] | {"duplicates": "keep"}],
        "split": {"type": "next_item"},
        "models": ["random", "popularity"],
    }
    return pd.concat([frame, *robots], ignore_index=True), config | changed


def clean_log(rng: np.random.Generator, *, n_items: int = 4, shown: float = 1.0, old: int = 0) -> Seeded:
    """Return a log of 6,000 decisions on 300 users, each of which showed one of some items at random, and models.

    Args:
        rng: Draws the items and the rewards.
        n_items: Number of items.
        shown: Propensity that is logged, times the number of items.
        old: Items that are shown in the train part alone, and that earn most there.
    """
    n = 6000
    time = _START + np.arange(n) * 600
    is_test = np.arange(n) >= _QUANTILE * n
    item = np.where(is_test, rng.integers(old, n_items, n), rng.integers(0, n_items, n))
    propensity = shown / np.where(is_test, n_items - old, n_items)
    reward = (rng.random(n) < np.where(item < old, 0.9, 0.2 + 0.2 * item / n_items)).astype(int)
    columns = {"decision": np.arange(n), "item": item + 1, "reward": reward, "propensity": propensity}
    config = {
        "experiment": "checks",
        "seed": 1,
        "datasets": [{"name": "shop", "type": "impressions", "user": "user", "timestamp": "time"}],
        "split": {"type": "temporal", "quantile": _QUANTILE},
        "recommend": {"n": n_items},
        "metrics": ["value(estimator=ips)@1"],
        "models": ["popularity", {"name": "logging", "type": "logging-policy"}],
        "compare": {"baseline": "logging"},
    }
    return pd.DataFrame(columns | {"user": rng.integers(0, 300, n), "time": time}), config


def _many_items(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    return clean_log(rng, n_items=200)


def _half_propensities(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    return clean_log(rng, shown=0.5)


def _old_items(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    return clean_log(rng, n_items=8, old=2)


def _greedy(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = clean_log(rng)
    return frame.assign(propensity=1.0), config


def _clicks_alone(seeded: Seeded, rng: np.random.Generator) -> Seeded:
    frame, config = clean_log(rng)
    return frame[frame["reward"] > 0], config


# What each defect is, and the function that seeds it.
DEFECTS: dict[str, tuple[str, Callable[[Seeded, np.random.Generator], Seeded]]] = {
    "EV101": ("each user's last five interactions are held out, instead of the latest fifth of all", _future),
    "EV102": ("a tenth of the items comes up after the cut", _new_items),
    "EV103": ("users draw items by popularity alone, without tastes", _popular),
    "EV104": ("a grid that ends long before the best number of neighbours", _edge),
    "EV105": ("one of two models is tuned", _untuned),
    "EV106": ("lists may hold items of the train data", _seen),
    "EV107": ("20 random candidates of 200", _sampled),
    "EV108": ("a gain of 0.01 is asked of 120 users", _few_users),
    "EV109": ("70 % of the test interactions are moved to one day", _one_day),
    "EV110": ("20 of 400 users are copied", _copies),
    "EV111": ("a model stands twice in the config", _twins),
    "EV112": ("a model draws its random numbers from the operating system", _unsteady),
    "EV113": ("the config does not name the column of ratings", _no_rating),
    "EV114": ("no threshold", _no_threshold),
    "EV115": ("log-normal counts in place of ratings", _counts),
    "EV116": ("a registered model among the models", _served),
    "EV117": ("a 20-core is taken before the split", _filtered),
    "EV118": ("times are whole weeks, and each user's last five interactions are held out", _whole_days),
    "EV119": (
        "40 further users have three random interactions, and then want what is popular",
        _newcomers,
    ),
    "EV120": ("times are integers such as 20250615", _integer_dates),
    "EV121": ("40 % of the ratings are not given, and 0 in the data", _not_rated),
    "EV122": ("three sessions of 1,000 events are added to the test sessions", _robots),
    "EV123": ("a log of 1,200 tested decisions shows one of 200 items at random", _many_items),
    "EV124": ("propensities of a log are half of what they were", _half_propensities),
    "EV125": ("a log no longer shows the two items that earned most", _old_items),
    "EV126": ("all propensities of a log that showed items at random are 1", _greedy),
    "EV127": ("a log lacks the rows that earned nothing", _clicks_alone),
}
