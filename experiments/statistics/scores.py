"""Simulated per-user scores with the shapes of metrics: many zeros, few levels, long tails, correlated models."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq
from scipy.special import nctdtrinc, ndtr, stdtrit

Table = npt.NDArray[np.float64]  # a distribution: each of its values as likely as the others

VALUES = 100_000
SHARES = (np.arange(VALUES) + 0.5) / VALUES
CORRELATION = 0.5  # of a user's latent easiness for two models: scores correlate by 0.3-0.4, as on MovieLens
LEVELS = np.repeat(np.arange(6) / 5, np.array([60, 22, 10, 5, 2, 1]) * VALUES // 100)


def _with_zeros(zeros: float, others: stats.rv_continuous, shares: Table) -> Table:
    return np.where(shares > zeros, others.ppf(np.clip((shares - zeros) / (1 - zeros), 0, 1)), 0)


def _levels(shares: Table) -> Table:
    return LEVELS[(shares * VALUES).astype(int)]


# Name: score of the user at a share of all users, from the worst served to the best.
QUANTILES = {
    "ndcg, 60 % zeros": lambda shares: _with_zeros(0.6, stats.beta(1.2, 3), shares),
    "ndcg, 85 % zeros": lambda shares: _with_zeros(0.85, stats.beta(1.2, 3), shares),
    "recall, 6 levels": _levels,
    "hit, 25 %": lambda shares: (shares > 0.75).astype(np.float64),
    "dcg, long tail": lambda shares: _with_zeros(0.6, stats.lognorm(0.7), shares),
}


def alike(scores: str) -> tuple[Table, Table]:
    """Return the same distribution for both models."""
    table = QUANTILES[scores](SHARES)
    return table, table


def lopsided(scores: str) -> tuple[Table, Table]:
    """Return two skewed distributions of equal mean: b serves twice as many users half as well."""
    a = QUANTILES[scores](np.clip(2 * SHARES - 1, 0, None))
    b = QUANTILES[scores](SHARES) / 2
    return (a if np.isclose(a.mean(), b.mean(), rtol=1e-9) else a * (b.mean() / a.mean())), b


def better(scores: str, n_users: int) -> tuple[Table, Table]:
    """Return two distributions whose difference of means is detectable with ``n_users`` in 80 % of bake-offs."""
    b = QUANTILES[scores](SHARES)
    shares_a, shares_b = _uniform_pairs((500_000,), np.random.default_rng(1))
    degrees = n_users - 1
    wanted = nctdtrinc(degrees, 0.2, stdtrit(degrees, 0.975)) / np.sqrt(n_users)

    def improved(power: float) -> Table:
        return QUANTILES[scores](SHARES ** (1 / power))

    def lacking(power: float) -> float:
        a = improved(power)
        spread = (_look_up(a, shares_a) - _look_up(b, shares_b)).std()
        return float((a.mean() - b.mean()) / spread - wanted)

    return improved(brentq(lacking, 1, 50, xtol=1e-4)), b


def draw(
    tables: tuple[Table, Table], n_users: int, n_bakeoffs: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the scores of two models, each (users, bake-offs)."""
    a, b = _uniform_pairs((n_users, n_bakeoffs), rng)
    return _look_up(tables[0], a), _look_up(tables[1], b)


def draw_family(
    challengers: list[Table], baseline: Table, n_users: int, n_bakeoffs: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the scores of the challengers and of their baseline, each (users, bake-offs x challengers)."""
    common = rng.standard_normal((n_users, n_bakeoffs))
    base = _look_up(baseline, _uniforms(common, rng))
    columns = [_look_up(table, _uniforms(common, rng)) for table in challengers]
    return np.stack(columns, axis=2).reshape(n_users, -1), np.repeat(base, len(challengers), axis=1)


def draw_models(tables: list[Table], n_users: int, rng: np.random.Generator) -> Table:
    """Return the scores of several models in one bake-off (users, models)."""
    uniforms = _uniforms(np.repeat(rng.standard_normal((n_users, 1)), len(tables), axis=1), rng)
    return np.stack([_look_up(table, uniforms[:, i]) for i, table in enumerate(tables)], axis=1)


def _uniform_pairs(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Table, Table]:
    common = rng.standard_normal(shape)
    return _uniforms(common, rng), _uniforms(common, rng)


def _uniforms(common: Table, rng: np.random.Generator) -> Table:
    own = rng.standard_normal(common.shape)
    return ndtr(np.sqrt(CORRELATION) * common + np.sqrt(1 - CORRELATION) * own)


def _look_up(table: Table, shares: Table) -> Table:
    return table[np.minimum((shares * VALUES).astype(np.int32), VALUES - 1)]
