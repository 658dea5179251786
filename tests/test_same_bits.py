"""Scores are the same to the last bit in this process, over processes, files and machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clusters import RAY_WARNINGS, ray_nodes, spark_session

import evalplugin
from evalplugin.data.interactions import Interactions
from evalplugin.execution.results import ModelResult
from evalplugin.lists.scores import ListScores
from evalplugin.metrics import METRICS, is_overall, parse

pytestmark = [pytest.mark.slow, pytest.mark.cluster, RAY_WARNINGS]
EXAMPLES = Path(__file__).parents[1] / "examples"

# All that need neither attributes of items, predicted ratings, a pool nor a log of decisions.
METRIC_NAMES = (
    *(
        spec.at(7 if spec.metric.takes_k else None).name
        for spec in map(parse, METRICS.names())
        if not {"item_attributes", "predictions", "pool", "log"} & set(spec.metric.needs)
    ),
    "ndcg(gain=exp2)",
    "precision",
)
THRESHOLD = 4.5  # leaves few users with a value: their intervals need the bootstrap


def made() -> pd.DataFrame:
    """Return interactions of 2,600 users with 6,000 items, so many that their scores are computed in two blocks."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(2600), 30)
    item = (user % 20 * 300 + 300 * rng.random(len(user)) ** 4).astype(
        np.int64
    )  # users of a kind share items
    item[:6000] = np.arange(6000)  # each is met
    table = pd.DataFrame({"user": user, "item": item, "rating": rng.integers(1, 11, len(user)) / 2})
    table["timestamp"] = rng.permutation(len(table))
    return table.drop_duplicates(["user", "item"]).astype({"user": str})


CONFIG: Mapping[str, Any] = {
    "experiment": "bits",
    "datasets": [
        {"name": "shop", "type": "dataframe", "frame": made(), "rating": "rating", "timestamp": "timestamp"}
    ],
    "split": {"type": "last_n", "n": 4},
    "relevance": {"threshold": THRESHOLD},
    "recommend": {"n": 12},
    "metrics": list(METRIC_NAMES),
    "models": [{"type": "sklearn.TruncatedSVD", "params": {"n_components": 8}}],
    "segments": [],
}


def clicks() -> pd.DataFrame:
    """Return ratings in sessions of up to 9 items, and every fifth of up to 59; some sessions rate high, others low."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, np.where(np.arange(1200) % 5, 10, 60))
    session = np.repeat(np.arange(len(lengths)), lengths)
    table = pd.DataFrame({"user": session, "item": (400 * rng.random(len(session)) ** 3).astype(np.int64)})
    table["rating"] = (
        np.minimum(rng.integers(1, 9, len(lengths))[session] + rng.integers(0, 3, len(table)), 10) / 2
    )
    table["timestamp"] = np.arange(len(table))
    return table.drop_duplicates(["user", "item"])


OF_QUERIES: Mapping[str, Any] = {
    **CONFIG,
    "datasets": [{**CONFIG["datasets"][0], "frame": clicks()}],
    "split": {"type": "next_item", "test": "n_sessions", "n_sessions": 900},
    # Without those that read the history of a query, which scores of lists are not given.
    "metrics": [name for name in METRIC_NAMES if not name.startswith(("serendipity", "popularity_"))],
    "models": ["session.markov"],
}


@dataclass
class Shop:
    """A bake-off in this process, and its lists, truth and train data as files."""

    folder: Path
    config: Mapping[str, Any]
    user: str  # the argument that names the column of users, or of queries
    runs: int = field(default=0, init=False)

    @property
    def metrics(self) -> list[str]:
        names: list[str] = self.config["metrics"]
        return names

    def bake_off(self, **changes: Any) -> ModelResult:
        """Return the result of the model."""
        self.runs += 1
        uri = f"sqlite:///{self.folder}/{self.runs}.db"
        outcome = evalplugin.run({**self.config, **changes}, tracking_uri=uri, fresh=True)
        (result,) = outcome.models
        assert result.error is None, result.error
        return result

    @cached_property
    def here(self) -> ModelResult:
        return self.bake_off(workers=1)

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Lists, truth and train data, rows shuffled."""
        assert self.here.top_n is not None and self.here.data.train is not None
        found = {
            "lists": self.here.top_n.select(["user", "item", "rank"]).to_pandas(),
            "truth": frame(self.here.data.test),
            "train": frame(self.here.data.train),
        }
        return {name: table.sample(frac=1, random_state=0) for name, table in found.items()}

    @cached_property
    def files(self) -> dict[str, Path]:
        for name, table in self.tables.items():
            (self.folder / name).mkdir()
            for number, part in enumerate(np.array_split(np.arange(len(table)), 3)):
                table.iloc[part].to_parquet(self.folder / name / f"{number}.parquet", index=False)
        return {name: self.folder / name for name in self.tables}

    def score(self, **changes: Any) -> ListScores:
        given = {**self.tables, **changes}
        return evalplugin.score(
            given.pop("lists"),
            given.pop("truth"),
            self.metrics,
            threshold=THRESHOLD,
            columns={self.user: "user"},
            **given,
        )


def frame(data: Interactions) -> pd.DataFrame:
    return pd.DataFrame({"user": data.users[data.user], "item": data.items[data.item], "rating": data.rating})


@pytest.fixture(scope="module", params=["user", "query"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    config = CONFIG if request.param == "user" else OF_QUERIES
    return Shop(tmp_path_factory.mktemp("bits"), config, request.param)


def of_bake_off(**changes: Any) -> Callable[[Shop], ListScores]:
    def scored(shop: Shop) -> ListScores:
        result = shop.bake_off(**changes)
        assert result.per_user is not None
        assert result.items.equals(shop.here.items)
        return ListScores(result.per_user)

    return scored


def on_ray(shop: Shop) -> ListScores:
    with ray_nodes() as cluster:
        return of_bake_off(engine={"type": "ray", "address": cluster.address, **RANGES})(shop)


def lists_on_ray(shop: Shop) -> ListScores:
    with ray_nodes() as cluster:
        return shop.score(**shop.files, engine={"type": "ray", "address": cluster.address})


def on_spark(shop: Shop) -> ListScores:
    with spark_session() as session:
        found = shop.score(**{name: session.read.parquet(str(path)) for name, path in shop.files.items()})
        per_user = found.per_user.toPandas().set_index("user").sort_index()
        return replace(found, table=per_user)


RANGES = {"users_per_task": 700}
PROCESSES = {
    "type": "executor",
    "factory": "concurrent.futures:ProcessPoolExecutor",
    "params": {"max_workers": 2},
}
DASK = {"type": "executor", "factory": f"{EXAMPLES}/dask_executor.py:local_dask"}
WAYS: dict[str, Callable[[Shop], ListScores]] = {
    "worker processes": of_bake_off(workers=2),
    "ranges of users": of_bake_off(workers=2, engine={"type": "local", **RANGES}),
    "an executor": of_bake_off(workers=2, engine={**PROCESSES, **RANGES}),
    "Dask": of_bake_off(workers=2, engine={**DASK, **RANGES}),
    "Ray on two nodes": on_ray,
    "lists in memory": lambda shop: shop.score(),
    "files in memory": lambda shop: shop.score(**shop.files),
    "Spark": on_spark,
    "files out of core": lambda shop: shop.score(**shop.files, memory="4MB"),
    "files on Ray": lists_on_ray,
}


@pytest.mark.parametrize("way", WAYS)
def test_scores_are_the_same_to_the_last_bit(way: str, shop: Shop) -> None:
    assert shop.here.per_user is not None
    expected, found = ListScores(shop.here.per_user), WAYS[way](shop)
    per_user = found.per_user
    pd.testing.assert_frame_equal(per_user, expected.per_user[per_user.columns], check_exact=True)
    assert set(found.means) == set(expected.means) == set(shop.metrics)
    np.testing.assert_equal(found.means, {name: expected.means[name] for name in found.means})
    few = 0
    for name, counts in expected.counts.items():
        assert found.counts[name] == counts
        interval = found.interval(name)
        assert bits(interval) == bits(expected.interval(name))
        assert (interval.clusters is None) == (shop.user == "user")
        assert bits(found.summaries[name]) == bits(expected.summaries[name])
        few += counts.users < 2000
    assert 0 < few < len(expected.counts)  # both kinds of interval are there


def bits(value: Any) -> list[Any]:
    found = (getattr(value, one.name) for one in fields(value))
    return [
        v.tobytes() if isinstance(v, np.ndarray) else np.float64(v).tobytes() if isinstance(v, float) else v
        for v in found
    ]


def test_metrics_over_all_lists_are_among_them() -> None:
    assert sum(is_overall(parse(name).metric) for name in METRIC_NAMES) >= 4
