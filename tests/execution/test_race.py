"""The race: when a trial is dropped, and how often one is dropped that is as good as the incumbent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from evalplugin.execution.race import Race


def race(values: np.ndarray, *, higher: bool = True, seed: int = 0) -> Race:
    order = np.random.default_rng(seed).permutation(len(values)).astype(np.int32)
    return Race(order, values[order], higher)


def test_stages_have_each_user_once_and_end_after_an_eighth_a_quarter_and_a_half() -> None:
    stages = race(np.zeros(803)).stages()
    assert list(np.cumsum([len(stage) for stage in stages])) == [100, 200, 401, 803]
    assert np.array_equal(np.sort(np.concatenate(stages)), np.arange(803))
    assert all((np.diff(stage) > 0).all() for stage in stages)
    assert stages[0][-1] > 400  # drawn from all users
    assert [len(stage) for stage in race(np.zeros(3)).stages()] == [1, 2]


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("shift", [-0.1, -0.05, -0.03, 0.0, 0.05])
def test_a_trial_is_worse_by_the_paired_t_test(higher: bool, shift: float) -> None:
    rng = np.random.default_rng(4)
    incumbent = rng.random(300)
    incumbent[:20] = np.nan
    users = np.sort(rng.permutation(300)[:150]).astype(np.int32)
    trial = (incumbent + rng.normal(shift if higher else -shift, 0.2, 300))[users]
    defined = ~np.isnan(trial)
    test = ttest_rel(trial[defined], incumbent[users][defined], alternative="less" if higher else "greater")
    assert race(incumbent, higher=higher).is_worse(users, trial) == (test.pvalue < 0.01)
    if shift in (-0.1, 0.05):  # the others are near the level, on either side
        assert race(incumbent, higher=higher).is_worse(users, trial) == (shift < 0)


def test_few_users_decide_nothing_and_equal_values_are_not_worse() -> None:
    values = np.full(200, 0.5)
    users = np.arange(200, dtype=np.int32)
    assert not race(values).is_worse(users[:19], np.zeros(19))
    assert race(values).is_worse(users[:20], np.zeros(20))
    assert not race(values).is_worse(users, values)
    assert not race(values).is_worse(users, np.full(200, np.nan))


def test_at_most_three_percent_of_the_trials_as_good_as_the_incumbent_are_dropped() -> None:
    rng = np.random.default_rng(2)
    dropped = 0
    for seed in range(1000):
        # As of ndcg@10: most users have none.
        quality = rng.random(240) < 0.3
        incumbent, trial = (np.where(quality & (rng.random(240) < 0.7), rng.random(240), 0.0) for _ in "ab")
        one = race(incumbent, seed=seed)
        seen = np.empty(0, dtype=np.int32)
        for stage in one.stages()[:-1]:
            seen = np.sort(np.concatenate([seen, stage]))
            if one.is_worse(seen, trial[seen]):
                dropped += 1
                break
    assert 2 <= dropped <= 30


def test_the_digest_covers_the_users_their_order_the_values_and_the_direction() -> None:
    values = np.random.default_rng(3).random(50)
    races = [
        race(values),
        race(values, seed=1),
        race(values, higher=False),
        race(values + 1),
        race(values[:49]),
    ]
    assert len({one.digest for one in races}) == len(races)
    assert race(values).digest == race(values.copy()).digest
