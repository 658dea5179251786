"""The datasets ``synthetic``, made from a seed, and ``blobs``, a worked example that can be checked by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats, Ints
from evalplugin.base.seeding import generator
from evalplugin.data.base import MOST_IDS, DatasetLoader, LoadContext, dataset
from evalplugin.data.interactions import Interactions

_BLOCK_ROWS = 1_000_000  # interactions made at a time
_BLOCK_CELLS = 4_000_000  # user x item scores at a time, where those are needed
_TASTE, _STYLE = 0.15, 0.1  # Dirichlet concentrations: how mixed a user's taste and an item's style are
_ZIPF, _OFFSET = 0.8, 15  # popularity ~ (rank + offset) ** -zipf
_ELSEWHERE = 0.01  # a little of every topic in every item, so that no pair is impossible
_START, _YEARS, _GAP = 1_577_836_800, 3, 6 * 3600  # users start in 2020-2022, hours between interactions


@dataclass(frozen=True)
class _Population:
    """Latent properties of users and items, from which interactions are drawn."""

    taste: Floats  # (n_users, factors) shares, each row sums to 1
    style: Floats  # (n_items, factors) shares, each row sums to 1
    choice: Floats  # (factors, n_items) probability of each item within a topic, each row sums to 1
    leniency: Floats  # (n_users,) bias of each user's ratings
    quality: Floats  # (n_items,) bias of each item's ratings
    activity: Ints  # (n_users,) interactions of each user


_SCALES = {"1-5": (1, 5, 1), "0.5-5": (0.5, 5, 0.5)}  # lowest, highest, step


@dataset("synthetic")
@dataclass(frozen=True)
class Synthetic(DatasetLoader):
    """Seeded interactions with latent factors and a long tail; embedded, so nothing is downloaded.

    Every user has a taste and every item a style: shares of ``factors`` topics, from a Dirichlet distribution. A user
    meets items one by one without repetition: a topic by taste, then an item by its popularity (a shifted Zipf law)
    times its share of that topic; how many is log-normal. The rating grows with the cosine of taste and style, the
    item's quality and the user's leniency, and has noise.
    """

    n_users: Annotated[
        int, Field(ge=1, le=MOST_IDS, description="number of users, each with one interaction at least")
    ] = 1000
    n_items: Annotated[int, Field(ge=2, le=MOST_IDS, description="size of the catalogue")] = 1700
    n_interactions: Annotated[
        int, Field(ge=1, le=10 * MOST_IDS, description="number of distinct user-item pairs")
    ] = 100_000
    factors: Annotated[int, Field(ge=1, le=100, description="number of latent topics")] = 12
    scale: Annotated[Literal["1-5", "0.5-5"], Field(description="whole stars 1-5, or half stars 0.5-5")] = (
        "1-5"
    )
    implicit: Annotated[bool, Field(description="no ratings: every rating is 1.0")] = False
    seed: Annotated[
        int, Field(ge=0, description="seed of the data; the bake-off's seed does not change it")
    ] = 0

    def __post_init__(self) -> None:
        if not self.n_users <= self.n_interactions <= self.n_users * self.n_items:
            raise ValueError(
                f"n_interactions must be from n_users to n_users x n_items, here {self.n_users} to "
                f"{self.n_users * self.n_items}, not {self.n_interactions}"
            )

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions, grouped by user, in order of time."""
        population = self._population(generator(self.seed, "synthetic", "world"))
        rng = generator(self.seed, "synthetic", "interactions")
        total = self.n_interactions
        user, item = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.int32)
        rating, time = np.ones(total, dtype=np.float32), np.empty(total, dtype=np.int64)
        done = 0
        block = np.cumsum(population.activity) // _BLOCK_ROWS
        for users in np.split(np.arange(self.n_users), np.flatnonzero(np.diff(block)) + 1):
            key = _pairs(population, users, rng)
            rows = slice(done, done + len(key))
            user[rows], item[rows] = np.divmod(key, self.n_items)
            if not self.implicit:
                rating[rows] = _ratings(population, user[rows], item[rows], self.scale, rng)
            time[rows] = _times(population.activity[users], rng)
            done = rows.stop
            context.report(f"synthetic: {done:,} of {total:,} interactions", done / total)
        names = np.arange(1, self.n_users + 1), np.arange(1, self.n_items + 1)
        return Interactions(user, item, rating, time, *names)

    def _population(self, rng: np.random.Generator) -> _Population:
        taste = rng.dirichlet(np.full(self.factors, _TASTE), self.n_users)
        style = rng.dirichlet(np.full(self.factors, _STYLE), self.n_items)
        rank = rng.permutation(self.n_items)
        popularity = (rank + _OFFSET) ** -_ZIPF
        choice = popularity * (style + _ELSEWHERE).T
        log_popularity = np.log(popularity)
        spread = float(log_popularity.std()) or 1.0
        return _Population(
            taste=taste,
            style=style,
            choice=choice / choice.sum(axis=1, keepdims=True),
            leniency=rng.normal(0, 0.35, self.n_users),
            quality=0.3 * (log_popularity - log_popularity.mean()) / spread
            + rng.normal(0, 0.2, self.n_items),
            activity=self._activity(rng),
        )

    def _activity(self, rng: np.random.Generator) -> Ints:
        weight = rng.lognormal(0, 0.9, self.n_users)
        least = max(1, self.n_interactions // self.n_users // 5)
        activity = np.full(self.n_users, least, dtype=np.int64)
        while left := self.n_interactions - int(activity.sum()):
            weight[activity == self.n_items] = 0
            activity = np.minimum(activity + rng.multinomial(left, weight / weight.sum()), self.n_items)
        return activity


def _pairs(population: _Population, users: Ints, rng: np.random.Generator) -> Ints:
    """Return each user's items as user * n_items + item, by user, in random order: int64 (m,)."""
    n_items = population.choice.shape[1]
    # Redrawing repeated items is slow for users with a large part of the catalogue.
    heavy = population.activity[users] > n_items // 8
    keys = np.concatenate([_draw(population, users[~heavy], rng), *_rank(population, users[heavy], rng)])
    keys = rng.permutation(keys)
    return keys[np.argsort(keys // n_items, kind="stable")]


def _draw(population: _Population, users: Ints, rng: np.random.Generator) -> Ints:
    """Return users' items as ``_pairs``, drawn one by one; repeated items are redrawn."""
    factors, n_items = population.choice.shape
    # One array holds the cumulative distributions of all topics: topic g lies from g to g + 1.
    cumulative = (np.cumsum(population.choice, axis=1) + np.arange(factors)[:, None]).ravel()
    cumulative[n_items - 1 :: n_items] = np.arange(1, factors + 1)
    taste = np.cumsum(population.taste, axis=1)
    done, keys = [], np.empty(0, dtype=np.int64)
    missing = population.activity[users]
    while len(users):
        user = np.repeat(users, missing)
        topic = (rng.random(len(user))[:, None] > taste[user, :-1]).sum(axis=1)
        # The sum may round up to g + 1, which belongs to the next topic.
        point = np.minimum(topic + rng.random(len(user)), np.nextafter(topic + 1.0, 0))
        item = np.searchsorted(cumulative, point, side="right") % n_items
        keys = np.concatenate([keys, user * n_items + item])
        keys.sort()
        keys = keys[np.r_[True, keys[1:] != keys[:-1]]]
        count = np.diff(np.searchsorted(keys, np.append(users, users[-1] + 1) * n_items))
        missing = population.activity[users] - count
        complete = np.repeat(missing == 0, count)
        done.append(keys[complete])
        keys, users, missing = keys[~complete], users[missing > 0], missing[missing > 0]
    return np.concatenate([np.empty(0, dtype=np.int64), *done])


def _rank(population: _Population, users: Ints, rng: np.random.Generator) -> Iterator[Ints]:
    """Yield users' items with the distribution of ``_draw``: the best by log probability plus Gumbel noise."""
    n_items = population.choice.shape[1]
    step = max(1, _BLOCK_CELLS // n_items)
    for first in range(0, len(users), step):
        block = users[first : first + step]
        score = np.log(population.taste[block] @ population.choice)
        score += rng.gumbel(size=score.shape)
        best = np.argsort(-score, axis=1)
        row, rank = np.nonzero(np.arange(n_items) < population.activity[block, None])
        yield block[row] * n_items + best[row, rank]


def _ratings(
    population: _Population, user: Codes, item: Codes, scale: str, rng: np.random.Generator
) -> Floats:
    low, high, step = _SCALES[scale]
    taste, style = population.taste[user], population.style[item]
    length = np.linalg.norm(taste, axis=1) * np.linalg.norm(style, axis=1)
    cosine = (taste * style).sum(axis=1) / np.maximum(length, 1e-300)
    noise = rng.normal(0, 0.5, len(user))
    liking = 2.7 + 1.6 * cosine + population.quality[item] + population.leniency[user] + noise
    stars: Floats = np.clip(np.round(liking / step) * step, low, high)
    return stars


def _times(activity: Ints, rng: np.random.Generator) -> Ints:
    """Return the times of users' interactions, each later than the one before: int64 (m,) seconds."""
    start = _START + rng.integers(0, _YEARS * 365 * 86_400, len(activity))
    gaps = 1 + rng.exponential(_GAP, int(activity.sum())).astype(np.int64)
    elapsed = np.cumsum(gaps)
    first = np.cumsum(activity) - activity
    times: Ints = elapsed + np.repeat(start - elapsed[first], activity)
    return times


@dataset("blobs")
@dataclass(frozen=True)
class Blobs(DatasetLoader):
    """Ten users who each rate all of thirty items 0 or 1: scikit-learn's ``make_blobs``, rounded.

    ``make_blobs(n_samples=30, n_features=10, centers=3, random_state=10, cluster_std=5)``, scaled to 0..1 over the
    whole array and flattened row by row; user j rates the items 0..29 by the values 30j .. 30j+29. For ``split:
    none`` and ``candidates: all``.
    """

    def load(self, context: LoadContext) -> Interactions:
        """Return the 300 interactions, by user and item."""
        from sklearn.datasets import make_blobs

        values, _ = make_blobs(n_samples=30, n_features=10, centers=3, random_state=10, cluster_std=5)
        scaled = (values - values.min()) / (values.max() - values.min())
        user, item = np.divmod(np.arange(10 * 30, dtype=np.int32), 30)
        rating = np.round(scaled).ravel().astype(np.float32)
        return Interactions(user, item, rating, None, np.arange(10), np.arange(30))
