"""Optimism of settings chosen on the test data and on validation data, and what the race saves.

``python measure.py [optimism] [race] [tables]`` writes optimism.csv, race.csv and results.md to its own folder; a part
that is not named keeps its rows. MovieLens latest-small is looked up in EVALPLUGIN_DATA_HOME.

optimism: the held-out items of each user are dealt at random into a test truth and a fresh truth. A setting
that neither of them chose scores the same by both, on average; one that the test truth chose does not.
race: the same studies with and without the race.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd

import evalplugin
from evalplugin.config import CheckedConfig
from evalplugin.data import LoadContext
from evalplugin.data.datasets.synthetic import Synthetic
from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import ModelResult
from evalplugin.execution.runner import jobs_of, prepare, results_of
from evalplugin.execution.store.steps import StepCache
from evalplugin.features.config import load
from evalplugin.features.tuning.engine import run_studies
from evalplugin.features.tuning.feature import studies_of
from evalplugin.features.tuning.study import Study

HERE = Path(__file__).parent
METRIC = "ndcg@10"
TRIALS = 24
SEEDS = {200: 24}  # by number of users
RACE_SEEDS = {"synthetic": 6, "MovieLens": 2}
HELD_OUT = 5  # items of each user in the test truth, and as many in the fresh truth
LEAST = 3 * HELD_OUT  # interactions of a user who takes part
BASE: dict[str, Any] = {"experiment": "tuning", "metrics": [METRIC], "segments": [], "compare": {}}
MODELS: list[dict[str, Any]] = [
    {"name": "neighbours", "type": "sklearn.NearestNeighbors"},
    {"name": "svd", "type": "sklearn.TruncatedSVD"},
    {"name": "ease", "type": "ease"},
]
SPACES: dict[str, dict[str, Any]] = {
    "neighbours": {"n_neighbors": {"int": [3, 190], "log": True}, "metric": ["cosine", "euclidean"]},
    "svd": {"n_components": {"int": [2, 60]}, "n_iter": {"int": [1, 8]}},
    "ease": {"l2": {"float": [1, 5000], "log": True}},
}
GRIDS: dict[str, dict[str, list[Any]]] = {  # as many settings as there are trials
    "neighbours": {
        "n_neighbors": [3, 4, 6, 9, 13, 19, 28, 41, 60, 87, 128, 190],
        "metric": ["cosine", "euclidean"],
    },
    "svd": {"n_components": [2, 6, 10, 16, 24, 32, 46, 60], "n_iter": [1, 4, 8]},
    "ease": {"l2": [round(float(v), 3) for v in np.geomspace(1, 5000, TRIALS)]},
}


@dataclass(frozen=True)
class Chosen:
    """The setting that was chosen for a model, on the data of one seed."""

    users: int
    seed: int
    model: str
    how: str  # grid: the best on the test truth; tune: the best on validation data
    test: float  # its score on the test truth, which is what is reported
    fresh: float  # its score on the fresh truth
    shift: float  # mean of test less fresh over all settings of the grid: chance that has nothing to do with choosing


@dataclass(frozen=True)
class Raced:
    """The same study with the race and without it."""

    data: str
    seed: int
    model: str
    dropped: int  # trials
    lists: float  # lists made with the race, as a share of those without it
    seconds: float  # fit, recommend and score of all trials with the race, as a share of those without it
    same: bool  # whether both found the same parameters
    difference: float  # of the winners' validation values: with the race less without it
    error: float  # standard error of that difference, over users


def measure_optimism(users: int, seed: int) -> Iterator[Chosen]:
    """Yield what was chosen for each model by each way."""
    with tempfile.TemporaryDirectory() as folder:
        known, fresh = _dealt(users, seed)
        path = Path(folder, "known.parquet")
        known.to_parquet(path)
        dataset = {"name": "drawn", "type": "parquet", "path": str(path), "user": "user", "item": "item"}
        base = BASE | {
            "seed": seed,
            "datasets": [dataset | {"timestamp": "time"}],
            "split": {"type": "last_n", "n": HELD_OUT},
        }
        grid = load(base | {"models": [model | {"grid": GRIDS[model["name"]]} for model in MODELS]})
        scored = [(r.model.split("(")[0], r.mean(METRIC), _on(fresh, r)) for r in _results(grid)]
        tuned = load(
            base
            | {"models": [model | {"tune": SPACES[model["name"]]} for model in MODELS]}
            | {"tune": {"budget": {"trials": TRIALS}}}
        )
        found = {r.model: r for r in _results(tuned, Path(folder, "cache"))}
    for model, result in found.items():
        points = [(test, new) for name, test, new in scored if name == model]
        assert len(points) == TRIALS
        shift = fmean(test - new for test, new in points)
        yield Chosen(users, seed, model, "grid", *max(points), shift)
        yield Chosen(users, seed, model, "tune", result.mean(METRIC), _on(fresh, result), shift)


def _dealt(users: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return interactions whose latest ones are the test truth, and the fresh truth, both drawn at random."""
    spec = Synthetic(n_users=2 * users, n_items=400, n_interactions=100 * users, implicit=True, seed=seed)
    data = spec.load(LoadContext())
    table = pd.DataFrame({"user": data.user, "item": data.item})
    table = table[table.groupby("user")["item"].transform("size") >= LEAST]
    table = table[table["user"].isin(table["user"].unique()[:users])]
    table = table.sample(frac=1.0, random_state=seed).reset_index(drop=True)
    table["time"] = np.arange(len(table))
    is_fresh = table.groupby("user").cumcount(ascending=False) < HELD_OUT
    return table[~is_fresh], table[is_fresh]


def _results(config: CheckedConfig, cache: Path | None = None) -> list[ModelResult]:
    prepared = prepare(config, None, Observer())
    jobs, execute = jobs_of(config, prepared), sequential_executor(Observer())
    if cache is not None:
        jobs = run_studies(
            studies_of(config, prepared, jobs), jobs, execute, _cache(config, cache), Observer()
        )
    return [result for _, result in sorted(results_of(jobs, execute), key=lambda pair: pair[0])]


def _cache(config: CheckedConfig, folder: Path) -> StepCache:
    return StepCache.open(config.spec.store.model_copy(update={"path": str(folder)}), lambda text: None)


def _on(truth: pd.DataFrame, result: ModelResult) -> float:
    assert result.top_n is not None
    return evalplugin.score(result.top_n, truth[["user", "item"]], [METRIC]).means[METRIC]


def measure_race(data: str, seed: int) -> Iterator[Raced]:
    """Yield the comparison of each model's study with and without the race."""
    studies = {prune: _studies(data, seed, prune) for prune in ("race", "none")}
    for raced, full in zip(studies["race"], studies["none"], strict=True):
        a, b = _winner(raced), _winner(full)
        gain = a[1] - b[1]
        gain = gain[~np.isnan(gain)]
        yield Raced(
            data=data,
            seed=seed,
            model=raced.base.model.name,
            dropped=sum(t.state == "dropped" for t in raced.trials),
            lists=_spent(raced, "users") / _spent(full, "users"),
            seconds=_spent(raced, "seconds") / _spent(full, "seconds"),
            same=a[0] == b[0],
            difference=float(gain.mean()),
            error=float(gain.std(ddof=1) / np.sqrt(len(gain))),
        )


def _studies(data: str, seed: int, prune: str) -> list[Study]:
    dataset: dict[str, Any] = {"type": "movielens", "version": "latest-small"}
    models = MODELS[:2]  # EASE takes a minute for each trial on its 9,700 items
    if data == "synthetic":
        dataset = {"type": "synthetic", "n_users": 1000, "n_items": 600, "n_interactions": 50_000}
        dataset["seed"] = seed
        models = MODELS
    config = load(
        BASE
        | {
            "seed": seed,
            "datasets": [{"name": "data"} | dataset],
            "split": {"type": "last_n", "n": HELD_OUT},
            "relevance": {"threshold": 4},
            "models": [model | {"tune": SPACES[model["name"]]} for model in models],
            "tune": {"budget": {"trials": TRIALS}, "prune": prune},
        }
    )
    home = os.environ.get("EVALPLUGIN_DATA_HOME")
    prepared = prepare(config, None if home is None else Path(home), Observer())
    jobs, execute = jobs_of(config, prepared), sequential_executor(Observer())
    studies = studies_of(config, prepared, jobs)
    with tempfile.TemporaryDirectory() as folder:
        run_studies(studies, jobs, execute, _cache(config, Path(folder)), Observer())
    return studies


def _winner(study: Study) -> tuple[dict[str, Any], Any]:
    best = study.best
    assert best is not None
    assert best.scores is not None
    return dict(best.values), best.scores


def _spent(study: Study, what: str) -> float:
    return float(
        sum(getattr(trial, what) if what == "users" else trial.costs.seconds for trial in study.told)
    )


def _optimism_table(rows: Sequence[Chosen]) -> Iterator[str]:
    yield "| users | model | chosen on | reported | on fresh data | optimism | without the luck of the draw |"
    yield "|---:|---|---|---:|---:|---:|---:|"
    for users in sorted({row.users for row in rows}):
        for model in dict.fromkeys(row.model for row in rows):
            for how, words in (("grid", "test data"), ("tune", "validation data")):
                group = [r for r in rows if (r.users, r.model, r.how) == (users, model, how)]
                yield _row(str(users), model, words, group)
        for how, words in (("grid", "test data"), ("tune", "validation data")):
            of_seed = [
                [r for r in rows if (r.users, r.seed, r.how) == (users, seed, how)]
                for seed in sorted({r.seed for r in rows if r.users == users})
            ]
            yield _row(str(users), "mean of the three", words, list(map(_mean, of_seed)))
            yield _row(
                str(users), "best of the three", words, [max(r, key=lambda r: r.test) for r in of_seed]
            )


def _mean(rows: Sequence[Chosen]) -> Chosen:
    """Return the means over models."""
    test, fresh, shift = (fmean(getattr(row, name) for row in rows) for name in ("test", "fresh", "shift"))
    return replace(rows[0], test=test, fresh=fresh, shift=shift)


def _row(users: str, model: str, words: str, group: Sequence[Chosen]) -> str:
    test, fresh = fmean(r.test for r in group), fmean(r.fresh for r in group)
    plain = _mean_text([r.test - r.fresh for r in group])
    net = _mean_text([r.test - r.fresh - r.shift for r in group])
    return f"| {users} | {model} | {words} | {test:.4f} | {fresh:.4f} | {plain} | {net} |"


def _race_table(rows: Sequence[Raced]) -> Iterator[str]:
    yield "| data | model | dropped | lists | seconds | same winner | difference of winners | beyond 2 errors |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for data in dict.fromkeys(row.data for row in rows):
        for model in dict.fromkeys(row.model for row in rows):
            group = [row for row in rows if (row.data, row.model) == (data, model)]
            if not group:
                continue
            dropped = fmean(row.dropped for row in group)
            lists, seconds = (fmean(getattr(row, name) for row in group) for name in ("lists", "seconds"))
            same = sum(row.same for row in group)
            beyond = sum(abs(row.difference) > 2 * row.error for row in group if row.error > 0)
            yield (
                f"| {data} | {model} | {dropped:.1f} of {TRIALS} | {lists:.0%} | {seconds:.0%} | {same} of "
                f"{len(group)} | {_mean_text([row.difference for row in group])} | {beyond} of {len(group)} |"
            )


def _mean_text(values: Sequence[float]) -> str:
    error = stdev(values) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{fmean(values):+.4f} ± {error:.4f}"


def _write(name: str, rows: Iterable[Any], kind: type) -> None:
    with (HERE / name).open("w", newline="", buffering=1) as file:
        writer = csv.DictWriter(file, [field.name for field in fields(kind)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6f}" if isinstance(v, float) else v for k, v in asdict(row).items()})


def _read(name: str, kind: type) -> list[Any]:
    if not (HERE / name).exists():
        return []
    casts = {"int": int, "float": float, "str": str, "bool": lambda text: text == "True"}
    with (HERE / name).open(newline="") as file:
        types = {field.name: casts[str(field.type)] for field in fields(kind)}
        return [
            kind(**{key: types[key](value) for key, value in row.items()}) for row in csv.DictReader(file)
        ]


def main() -> None:
    """Measure the named parts and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", choices=["optimism", "race", "tables"], default=["optimism", "race"]
    )
    parts = parser.parse_args().parts
    if "optimism" in parts:
        todo = [(users, seed) for users, count in SEEDS.items() for seed in range(count)]
        _write("optimism.csv", (row for users, seed in todo for row in measure_optimism(users, seed)), Chosen)
    if "race" in parts:
        every = [(data, seed) for data, count in RACE_SEEDS.items() for seed in range(count)]
        _write("race.csv", (row for data, seed in every for row in measure_race(data, seed)), Raced)
    optimism, race = _read("optimism.csv", Chosen), _read("race.csv", Raced)
    lines = [
        "# Measured",
        "",
        "## Optimism",
        "",
        *_optimism_table(optimism),
        "",
        "## Race",
        "",
        *_race_table(race),
    ]
    (HERE / "results.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
