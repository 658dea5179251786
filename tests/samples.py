"""Small configs, and small bake-offs with known values, made without fitting anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from evalplugin.bakeoff.flow import read_data
from evalplugin.base.errors import DataError
from evalplugin.comparison.compared import Cell, metric_cells
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.comparison.statistics.intervals import Interval
from evalplugin.data import Interactions
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import Costs, DataInfo, FoldLists, ModelResult, Plan, Tuning
from evalplugin.execution.runner import PreparedData
from evalplugin.features.base import Bakeoff, all_features
from evalplugin.features.checks.feature import ChecksFeature
from evalplugin.metrics import parse
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.models import TopN
from evalplugin.report import overlap
from evalplugin.report.competition import competitions_of
from evalplugin.tracking.write.board import Links
from evalplugin.workspace import Workspace

METRICS = ("ndcg@10", "recall@10", "rr", "coverage@10")
PER_USER = METRICS[:3]

TINY = {"name": "tiny", "type": "synthetic", "n_users": 60, "n_items": 80, "n_interactions": 1500}
CHANCE = {"name": "chance", "type": "random", "params": {"legacy_seed": 5}}
FAILING = """
from dataclasses import dataclass
import evalplugin

@evalplugin.model("failing")
@dataclass
class Failing:
    def fit(self, train, rng):
        raise RuntimeError("this model cannot learn")

    def scores(self, users): ...
"""


@dataclasses.dataclass(frozen=True)
class Results:
    """A plan and the results of its models, which ``*results`` gives to functions of both."""

    plan: Plan
    models: tuple[ModelResult, ...]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.plan, self.models))


def line_of(part: str, code: str) -> int:
    """Return the number of the first line of code that has a part."""
    return 1 + code[: code.index(part)].count("\n")


def excludes(interval: Interval, value: float = 0.0) -> bool:
    """Return whether a value lies outside an interval; False when its bounds are undefined."""
    return bool(value < interval.low or value > interval.high)


def small_config(**changes: Any) -> dict[str, Any]:
    """Return a config of two models on one tiny dataset, with other sections where they are given."""
    return {
        "experiment": "shop",
        "seed": 3,
        "datasets": [TINY],
        "split": {"type": "last_n", "n": 4},
        "relevance": {"threshold": 4.0},
        "recommend": {"n": 20},
        "metrics": ["ndcg@10", "recall@10", "coverage@10"],
        "models": ["random", "popularity"],
        "compare": {"baseline": "random"},
        "checks": {"ignore": ["EV101"]},  # made-up users do not change their tastes over time
        **changes,
    }


def write_config(config: Mapping[str, Any], file: str | Path = "shop.yaml") -> str:
    """Write a config as YAML; return the name of the file."""
    Path(file).write_text(yaml.safe_dump(dict(config)))
    return str(file)


class RecordingObserver(Observer):
    """An observer that records its reports, warnings included."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def report(self, text: str) -> None:
        self.lines.append(text)

    def has(self, part: str) -> bool:
        return any(part in line for line in self.lines)


def refusal(call: Callable[..., object], *args: Any, **kwargs: Any) -> str:
    """Return the message of the DataError that a call raises."""
    with pytest.raises(DataError) as caught:
        call(*args, **kwargs)
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert len(message) < 700
    return message


def list_tables(
    users: int = 60, *, text: bool = False, rank: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return lists, truth and train data in shuffled rows; some users have a list alone, and some a truth alone."""
    rng = np.random.default_rng(3)
    row, column = np.nonzero(rng.random((users, 30)) < 0.3)
    lists = pd.DataFrame(
        {"user": row, "item": column, "score": rng.integers(0, 9, len(row)).astype(np.float32)}
    )
    if rank:
        shuffled = lists.sample(frac=1, random_state=0)
        lists = shuffled.assign(rank=shuffled.groupby("user").cumcount() + 1).drop(columns="score")
    row, column = np.nonzero(rng.random((users + 7, 33)) < 0.15)
    truth = pd.DataFrame({"user": row, "item": column, "rating": rng.integers(0, 10, len(row)) / 2})
    truth = truth[truth["user"] % 11 != 5]
    row, column = np.nonzero(rng.random((users + 2, 35)) < 0.2)
    train = pd.DataFrame({"user": row, "item": column})
    lists, truth, train = (t.sample(frac=1, random_state=n) for n, t in enumerate((lists, truth, train)))
    if text:
        for table in (lists, truth, train):
            table["user"] = "user " + table["user"].astype(str)
            table["item"] = "\N{LATIN SMALL LETTER E WITH ACUTE}" + table["item"].astype(str)
    return lists, truth, train


def interactions(
    n_users: int = 12, n_items: int = 9, *, seed: int = 0, text_ids: bool = False
) -> Interactions:
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.5)
    users, items = np.arange(100, 100 + n_users), np.arange(n_items)
    if text_ids:
        users = np.array(sorted(f"u{i:04d}" for i in range(n_users)), dtype=object)
    rating, time = rng.integers(1, 6, len(user)), np.arange(len(user), dtype=np.int64)
    return coded(user, item, rating, users=users, items=items, timestamp=time)


def data_info(dataset: str = "toy", split: str = "", *, n_folds: int = 1, **changes: object) -> DataInfo:
    full = interactions()
    held_out = np.arange(len(full)) % 4 == 0
    info = DataInfo(
        dataset=dataset,
        type="synthetic",
        params={"n_users": 12, "options": {"scale": [1, 5]}},
        split=split,
        split_type="last_n",
        split_params={"n": 1},
        full=full,
        train=full.select(~held_out),
        test=full.select(held_out),
        n_folds=n_folds,
        counts={"test_users": 12, "cold_users": 0, "cold_items": 1},
        notes=("2 duplicate pairs: the last one counts",),
    )
    return dataclasses.replace(info, **changes)


def per_user(
    level: float, *, n_users: int = 200, undefined: int = 3, text_ids: bool = False
) -> PerUserScores:
    """Scores whose mean is about ``level``; the first users are undefined."""
    rng = np.random.default_rng(round(1000 * level))
    values = np.clip(rng.normal(level, 0.15, (n_users, len(PER_USER))), 0, 1)
    values[:undefined] = np.nan
    users = np.arange(n_users)
    if text_ids:
        users = np.array([f"u{i:06d}" for i in range(n_users)], dtype=object)
    return PerUserScores(
        units=Units(users),
        values=values,
        metrics=PER_USER,
        overall={"coverage@10": level},
        at_k={"ndcg": {k: level * k / 20 for k in (1, 5, 10, 20)}, "recall": {1: 0.1, 20: float("nan")}},
    )


_LISTS = TopN(np.zeros(1, np.int32), np.array([[1, 0]], np.int32), np.array([[0.5, 0.25]]))


def model_result(
    name: str,
    level: float = 0.3,
    *,
    info: DataInfo | None = None,
    scores: PerUserScores | None = None,
    **changes: object,
) -> ModelResult:
    scores = scores or per_user(level)
    result = ModelResult(
        data=info or data_info(),
        model=name,
        type="surprise.KNNBasic",
        params={
            "k": 40,
            "sim_options": {"name": "cosine", "user_based": True},
            "verbose": False,
            "shrink": None,
        },
        costs=Costs(1.5, 0.25, 0.125, 512.0, 0.75),
        per_user=scores,
        fold_means=(scores.means,),
        lists=FoldLists((_LISTS,), (coded([], [], users=[1], items=[3, 5]),)),
    )
    return dataclasses.replace(result, **changes)


def tuning(n: int = 24, *, folds: int = 1, level: float = 0.25, **changes: object) -> Tuning:
    """``n`` trials a fold, by ndcg@10: the larger ``k``, the better; every fifth is dropped, and trial 3 failed."""
    rng = np.random.default_rng(n)
    rows = []
    for fold in range(1, folds + 1):
        ks = [40, *rng.integers(1, 100, n - 1).tolist()]
        last = max((k, trial) for trial, k in enumerate(ks) if trial != 3 and trial % 5 != 4)[1]
        for trial, k in enumerate(ks):
            failed, dropped = trial == 3, trial % 5 == 4
            name = str(rng.choice(["cosine", "msd"]))
            rows.append(
                {
                    "fold": fold,
                    "trial": trial,
                    "state": "failed" if failed else "dropped" if dropped else "done",
                    "value": None if failed else level * k / ks[last],
                    "users": None if failed else 25 if dropped else 200,
                    "fit_seconds": None if failed else 0.5,
                    "recommend_seconds": None if failed else 0.25,
                    "score_seconds": None if failed else 0.0,
                    "cached": trial < 4,
                    "best": trial == last,
                    "error": "ValueError: k must be <= 12" if failed else None,
                    "params.k": k,
                    "params.sim_options.name": name,
                    "params.sim_options.shrinkage": 10.0,
                }
            )
    best = [
        {name[7:]: value for name, value in row.items() if name.startswith("params.")}
        for row in rows
        if row["best"]
    ]
    split = {"type": "last_n", "n": 1}
    found = Tuning(
        metric="ndcg@10",
        best=tuple(best),
        validation=level,
        trials=pa.Table.from_pylist(rows),
        settings={"split": split, "metric": "ndcg@10", "budget": {"trials": n}, "prune": "race"},
        space={
            "k": {"int": [1, 100], "log": True},
            "sim_options.name": ["cosine", "msd"],
            "sim_options.shrinkage": {"float": [0.0, 50.0]},
        },
        notes=("the best k, 98, is at the end of its range, 1 to 100",),
    )
    return dataclasses.replace(found, **changes)


def failed_result(name: str, *, info: DataInfo | None = None, error: str | None = None) -> ModelResult:
    text = error or 'Traceback (most recent call last):\n  File "m.py", line 3\nValueError: k must be <= 12'
    return ModelResult(info or data_info(), name, "random", {}, error=text)


def bakeoff(models: Sequence[str] = ("random", "knn", "svd"), **changes: object) -> Plan:
    asked = Plan(
        id="20260101-120000-3f2a",
        experiment="toy bake-off",
        seed=10,
        n=20,
        candidates="unseen",
        relevance=Relevance(threshold=4.0),
        metrics=METRICS,
        primary="ndcg@10",
        baseline="random",
        models=tuple(models),
        config_name="toy.yaml",
        config_text="# as written\nseed: 10\n",
        config_resolved="seed: 10\nn: 20\n",
        config_dir=".",
        config_hash="c" * 64,
        metrics_hash="d" * 64,
        datasets=("toy",),
    )
    return dataclasses.replace(asked, **changes)


def whole() -> Results:
    """Three models that differ clearly, and one that failed."""
    models = [model_result(name, level) for name, level in (("random", 0.1), ("knn", 0.3), ("svd", 0.5))]
    return Results(bakeoff(("random", "knn", "svd", "broken")), (*models, failed_result("broken")))


def filled(results: Results, comparisons: Sequence[Comparison] = (), **found: Any) -> Bakeoff:
    """A bake-off as it is once it is logged; ``found``: ``links``, and what features have found, by any name."""
    bakeoff = Bakeoff(SimpleNamespace(), all_features())
    bakeoff.plan, bakeoff.models = results
    bakeoff.comparisons = tuple(comparisons)
    bakeoff.links = found.pop("links", Links("sqlite:///mlflow.db", "1", "2", results.plan.id, (), ()))
    bakeoff.found = {type(value): value for value in found.values()}
    return bakeoff


def files_of(client: Any, run_id: str, folder: str | None = None) -> set[str]:
    """The paths of a run's files."""
    listed = client.list_artifacts(run_id, folder)
    inner = (files_of(client, run_id, file.path) for file in listed if file.is_dir)
    return {file.path for file in listed if not file.is_dir}.union(*inner)


def checked_data(workspace: Workspace) -> list[PreparedData]:
    """The data of a config as the checks leave it."""
    bakeoff = Bakeoff(workspace, [ChecksFeature()])
    read_data(bakeoff)
    return bakeoff.prepared


def comparisons(result: Results) -> list[Comparison]:
    return [compare(contest) for contest in competitions_of(*result)]


def headline_of(asked: Plan, result: ModelResult) -> dict[str, Cell]:
    return metric_cells(
        result.per_user, list(map(parse, asked.headline)), asked.seed, seed_means=result.seed_means
    )


def random_data(seed=0, n_users=30, n_items=20, low=1):
    """Random ratings; the last user and the last item have none."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users - 1, n_items - 1)) < 0.3)
    return coded(user, item, rng.integers(low, 6, len(user)), users=n_users, items=n_items)


def of_pairs(pairs, n_users, n_items):
    """Interactions of pairs of codes, all rated 1."""
    user, item = np.array(sorted(pairs)).T
    return coded(user, item, users=n_users, items=n_items)


def coded(user, item, rating=None, *, users, items, timestamp=None, **more):
    """Interactions of codes, rated 1 unless ratings are given; of users and items the ids, or the number of codes."""
    user_ids, item_ids = (np.arange(ids) if np.ndim(ids) == 0 else np.asarray(ids) for ids in (users, items))
    return Interactions(
        user=np.asarray(user, dtype=np.int32),
        item=np.asarray(item, dtype=np.int32),
        rating=np.asarray(np.ones(len(user)) if rating is None else rating, dtype=np.float32),
        timestamp=timestamp,
        users=user_ids,
        items=item_ids,
        **more,
    )


def matrix_of(data, binary=False):
    """The ratings as a dense matrix, zero where there is none."""
    matrix = np.zeros((data.n_users, data.n_items))
    matrix[data.user, data.item] = 1 if binary else data.rating
    return matrix


def dataset_of_values(
    folder: Path, values: Sequence[float], column: str, *, rating: str | None
) -> dict[str, str]:
    """Write a CSV file of 20 users with ten items each and values in a column; return its dataset for a config."""
    rng = np.random.default_rng(1)
    user, item = np.divmod(np.arange(200), 10)
    frame = pd.DataFrame({"user": user, "item": item, "time": np.arange(200)})
    frame[column] = rng.choice(values, 200)
    frame.to_csv(folder / "data.csv", index=False)
    mine = {"name": "mine", "type": "csv", "path": str(folder / "data.csv"), "timestamp": "time"}
    return mine if rating is None else {**mine, "rating": rating}


def overlap_values(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rbo and Jaccard of two models' lists (L, k), list by list; NaN where both are empty."""
    pairs = [next(overlap._pairs([of_a[None], of_b[None]])) for of_a, of_b in zip(a, b, strict=True)]
    return np.array([rbo for _, rbo, _ in pairs]), np.array([jaccard for _, _, jaccard in pairs])
