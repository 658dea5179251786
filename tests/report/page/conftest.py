"""Contests with known values, made without fitting anything, and whole pages of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evalplugin.comparison.compared import ComparedModel
from evalplugin.data.background import Background
from evalplugin.execution.results import Costs
from evalplugin.features.history.past import PastBakeoff, PastModel, Value
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.competition import Competition, ModelFacts, Rules
from evalplugin.segments import Segmentation

# The first one ranks; popularity@10 is better neither way, coverage@10 is one number a model.
METRICS = ("ndcg@10", "recall@10", "rmse", "popularity@10", "coverage@10")
ODD = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"quoted\" & 'single' {{ 7 * 7 }}",
    "日本 \u2028 \u202eünï -->",
)
N_ITEMS = 60


def scores_of(
    values: np.ndarray,
    metrics: Sequence[str],
    users: np.ndarray,
    *,
    overall: Mapping[str, float] | None = None,
    level: float = 0.5,
) -> PerUserScores:
    return PerUserScores(
        units=Units(users),
        values=values,
        metrics=tuple(metrics),
        overall=overall or {},
        at_k={"ndcg": {k: level * k / 20 for k in (1, 5, 10, 20)}, "recall": {1: level, 20: float("nan")}},
        pr_curve={p: level * (1 - p / 200) for p in range(0, 101, 10)},
    )


class Known(NamedTuple):
    """A model with its scores, and the facts about it."""

    scored: ComparedModel
    facts: ModelFacts


def compared_model(
    name: str,
    level: float,
    users: np.ndarray,
    *,
    seed: int = 0,
    cost: float = 1.0,
    scores: PerUserScores | None = None,
    fold_means: tuple[Mapping[str, float], ...] | None = None,
    **changes: Any,
) -> Known:
    """A model whose ndcg is about ``level``; the last user is undefined, every fourth one scores 0."""
    rng = np.random.default_rng(seed)
    ndcg = np.clip(rng.normal(level, 0.1, len(users)), 0.01, 1)
    ndcg[::4] = 0.0
    values = np.stack([ndcg, ndcg / 2, 1.5 - ndcg, 100 * ndcg], axis=1)
    values[-1] = np.nan
    own = scores or scores_of(values, METRICS[:4], users, overall={"coverage@10": level}, level=level)
    facts = ModelFacts(
        "random", Costs(cost, 2 * cost, 0.1, 100 * cost), partial(lists, users, seed), items(seed)
    )
    return Known(ComparedModel(name, own, fold_means or (own.means,)), replace(facts, **changes))


def failed(name: str, error: str) -> Known:
    return Known(ComparedModel(name, None, error=error), ModelFacts("random"))


def without(contest: Competition, fact: str, *models: str) -> Competition:
    """The contest without a fact about some models."""
    return replace(
        contest, facts=dict(contest.facts) | {m: replace(contest.facts[m], **{fact: None}) for m in models}
    )


def lists(users: np.ndarray, seed: int, k: int | None = None, n: int = 20) -> pa.Table:
    """Every user's list starts at an item of its own; model 0's first item is the user's first truth."""
    start = (np.arange(len(users))[:, None] + 5 * seed) % N_ITEMS
    items = (start + np.arange(n)) % N_ITEMS
    rank, score = (np.tile(column, len(users)) for column in (np.arange(1, n + 1), np.linspace(1, 0.05, n)))
    table = pa.table({"user": np.repeat(users, n), "item": items.ravel(), "rank": rank, "score": score})
    return table.filter(pc.field("rank") <= (k or n))


def items(seed: int) -> pa.Table:
    """Counts of items, of which the last ones are the most popular, and a model with a large seed finds those alone."""
    item = np.arange(N_ITEMS)
    truth = item % 3 * (1 + item // 20)
    hit = np.where(item >= 10 * seed, truth // 2, 0)
    return pa.table({"item": item, "train": 2 * item, "truth": truth, "listed": hit + 1, "hit": hit})


def background(users: np.ndarray, titles: Mapping[int, str] | None = None) -> Background:
    """User u holds out items u, u + 7 and u + 14, rated 5, 4 and 2."""
    held_out = (np.arange(len(users))[:, None] + np.array([0, 7, 14])) % N_ITEMS
    seen = (np.arange(len(users))[:, None] + np.array([30, 31])) % N_ITEMS
    return Background(
        truth=rated(users, held_out, (5.0, 4.0, 2.0)),
        history=rated(users, seen, (3.0, 1.0)),
        titles=titles if titles is not None else {i: f"Title {i}" for i in range(N_ITEMS)},
    )


def rated(users: np.ndarray, items: np.ndarray, ratings: Sequence[float]) -> pa.Table:
    user, rating = np.repeat(users, items.shape[1]), np.tile(np.float32(ratings), len(users))
    return pa.table({"user": user, "item": items.ravel(), "rating": rating})


def contest(models: Sequence[Known] | None = None, *, n_users: int = 40, **changes: Any) -> Competition:
    """Four models of which one failed; users are numbers from 100 on."""
    users = np.arange(100, 100 + n_users)
    if models is None:
        models = (
            compared_model("base", 0.3, users, seed=0, cost=1.0),
            compared_model("knn", 0.5, users, seed=1, cost=4.0),
            compared_model("svd", 0.2, users, seed=2, cost=2.0),
            failed("broken", "ValueError: k must be <= 12"),
        )
    made: dict[str, Any] = {
        "name": "bake-off-1",
        "dataset": "toy",
        "split": "last_n",
        "models": tuple(known.scored for known in models),
        "facts": {known.scored.model: known.facts for known in models},
        "metrics": METRICS,
        "baseline": "base",
        "seed": 10,
        "digest": "b" * 64,
        "rules": Rules("a" * 64, "b" * 64, 20, "unseen", 4.0, "c" * 64),
        "segments": (segmentation(users),),
        "background": background(users),
    }
    return Competition(**(made | changes))


def crowded_contest(n: int) -> Competition:
    """``n`` models with long names that are close together, long names of metrics and of groups."""
    users = np.arange(100, 300)
    long = ("two-tower-transformer-with-a-very-long-name", "als(factors=64)", "svd", "slim(l1=0.001, l2=0.5)")
    models = [
        compared_model(f"{long[i % 4]} {i}", 0.3 + 0.01 * i, users, seed=i, cost=1.3**i) for i in range(n)
    ]
    odd = ["ndcg(gain=exp2, discount=log, base=2)@10", *(f"recall@{k}" for k in range(20, 29))]

    def widened(known: Known) -> Known:
        own = known.scored.scores
        values = np.hstack([own.values, np.repeat(own.values[:, :1], len(odd), 1)])
        scores = replace(own, metrics=(*METRICS[:4], *odd), values=values)
        return known._replace(scored=replace(known.scored, scores=scores))

    wide = [*map(widened, models)]
    return contest(
        wide,
        n_users=200,
        metrics=(*METRICS, *odd),
        baseline=wide[0].scored.model,
        segments=(segmentation(users), segmentation(users, "popularity of what they like")),
    )


def segmentation(users: np.ndarray, name: str = "activity") -> Segmentation:
    return Segmentation(name, ("few", "many"), users, (np.arange(len(users)) % 2).astype(np.int32))


def odd_contest() -> Competition:
    """Names, ids and titles that would be HTML, script or template, were they not shown as they are."""
    users = np.array(sorted(f"{ODD[i % 4]} {i:02d}" for i in range(24)), dtype=object)
    models = [compared_model(name, 0.2 + 0.1 * i, users, seed=i) for i, name in enumerate(ODD)]
    return contest(
        [*models, failed(f"broken {ODD[1]}", f"ValueError: {ODD[0]}")],
        name=ODD[0],
        dataset=ODD[1],
        split=ODD[3],
        baseline=ODD[0],
        background=background(users, {i: f"{ODD[i % 4]} {i}" for i in range(N_ITEMS)}),
        segments=(segmentation(users, ODD[2]),),
    )


def edge_contests() -> dict[str, Competition]:
    """Contests that lack something, by what it is."""
    users = np.arange(100, 140)
    base, knn = compared_model("base", 0.3, users), compared_model("knn", 0.5, users, seed=1)
    many = [compared_model(f"model {i:02d}", 0.1 + 0.02 * i, users, seed=i, cost=2.0**i) for i in range(30)]
    undefined = np.full((len(users), 4), np.nan)
    folds = tuple(dict.fromkeys(METRICS, 0.1 * fold) for fold in (1, 2, 3))
    other_users = np.arange(120, 160)
    coverages = {
        name: scores_of(np.empty((40, 0)), (), users, overall={"coverage@10": coverage})
        for name, coverage in (("base", 0.25), ("knn", 0.75))
    }
    nothing = {"lists": None, "items": None, "costs": None}
    return {
        "no baseline": contest([base, knn], baseline=None),
        "one model": contest([base]),
        "no model": contest([failed("base", "failed")]),
        "baseline leads": contest([compared_model("base", 0.8, users), knn]),
        "baseline failed": contest([failed("base", "failed"), knn]),
        "lower is better": contest(
            [base, knn], metrics=("rmse", "ndcg@10", "recall@10", "popularity@10", "coverage@10")
        ),
        "neither is better": contest([base, knn], metrics=("popularity@10", "ndcg@10")),
        "overall only": contest(
            [compared_model(m, 0, users, scores=own) for m, own in coverages.items()],
            metrics=("coverage@10",),
        ),
        "undefined for all": contest(
            [base, compared_model("knn", 0.5, users, scores=scores_of(undefined, METRICS[:4], users))]
        ),
        "nothing kept": contest(
            [compared_model(m, v, users, **nothing) for m, v in (("base", 0.3), ("knn", 0.5))],
            background=None,
            segments=(),
        ),
        "other users": contest([base, compared_model("knn", 0.5, other_users, seed=1)]),
        "folds": contest(
            [
                compared_model(m, v, users, seed=i, fold_means=folds, lists=partial(of_folds, users, i))
                for i, (m, v) in enumerate((("base", 0.3), ("knn", 0.5)))
            ]
        ),
        "30 models": contest(many, baseline="model 03"),
        "two users": contest(
            [compared_model("base", 0.3, users[:2]), compared_model("knn", 0.5, users[:2], seed=1)], n_users=2
        ),
        "all pairs": contest([base, knn, compared_model("svd", 0.4, users, seed=2)]),
    }


def of_folds(users: np.ndarray, seed: int, k: int | None = None) -> pa.Table:
    """The same lists in fold 1, and others in fold 2."""
    table = lists(users, seed, k)
    other = table.set_column(1, "item", pa.array(np.zeros(len(table), dtype=np.int64)))
    fold = pa.array(np.repeat([1, 2], len(table)).astype(np.int32))
    return pa.concat_tables([table, other]).append_column("fold", fold)


def past(*nights: Mapping[str, float | None], **changes: Any) -> list[PastBakeoff]:
    """A bake-off a night: each model's mean of ndcg@10, None: it failed; the last one is the contest's own."""
    bakeoffs = []
    for number, means in enumerate(nights, start=1):
        models = [
            PastModel(
                name, "toy", "last_n", f"run-{name}",
                {} if mean is None else {"ndcg@10": Value(mean, mean - 0.02, mean + 0.02, 0.2, 400)},
                {"ndcg@10": "d1"}, "n=20", "data-1",
            )
            for name, mean in means.items()
        ]  # fmt: skip
        at = datetime(2026, 11, number, 3, tzinfo=UTC)
        made = PastBakeoff(f"bake-off-{number}", at, "ndcg@10", "base", tuple(models))
        bakeoffs.append(replace(made, **changes))
    return bakeoffs


@pytest.fixture(scope="session")
def contests() -> SimpleNamespace:
    """Everything that makes a contest."""
    return SimpleNamespace(
        METRICS=METRICS,
        ODD=ODD,
        compared_model=compared_model,
        without=without,
        contest=contest,
        crowded=crowded_contest,
        edges=edge_contests,
        odd=odd_contest,
        scores=scores_of,
        background=background,
        past=past,
    )
