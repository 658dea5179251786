"""Seeds: who is fitted how often, what stays as without seeds, averages over seeds and folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from samples import small_config

from evalplugin.base.errors import ConfigError
from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import ModelResult
from evalplugin.execution.runner import Job, jobs_of, prepare, results_of
from evalplugin.execution.tasks import run_task
from evalplugin.features.config import load
from evalplugin.models import MODELS, Recommender

CHANCE = {"name": "chance", "type": "random"}
FIXED = {"name": "fixed", "type": "random", "params": {"legacy_seed": 3}}
MODELS_ASKED: list[Any] = ["random", "popularity", CHANCE, FIXED]


def jobs(models: Sequence[Any] = MODELS_ASKED, **changes: Any) -> list[Job]:
    tiny = {"name": "tiny", "type": "synthetic", "n_users": 40, "n_items": 50, "n_interactions": 800}
    kfold = {"datasets": [tiny], "split": {"type": "kfold", "k": 2}, "metrics": ["ndcg@10", "coverage@10"]}
    plain = {"relevance": {}, "recommend": {"n": 10}, "compare": {}, "models": list(models)}
    config = load(small_config(**{**kfold, **plain, **changes}))
    return jobs_of(config, prepare(config, None, Observer()))


def results(asked: Sequence[Job]) -> dict[str, ModelResult]:
    return {result.model: result for _, result in results_of(asked, sequential_executor(Observer()))}


def test_stochastic_models_have_a_task_for_each_seed_and_fold_and_others_one_for_each_fold() -> None:
    asked = jobs(seeds=3)
    assert [(job.model.name, len(job.tasks), job.seeds) for job in asked] == [
        ("random", 6, 3),
        ("popularity", 2, 1),
        ("chance", 6, 3),
        ("fixed", 2, 1),
    ]
    chance = asked[2]
    assert [chance.label(number) for number in (0, 3)] == [
        "chance, fold 1 of 2, seed 1 of 3",
        "chance, fold 2 of 2, seed 2 of 3",
    ]
    assert [chance.name(number) for number in (1, 2, 5)] == [
        "tiny/kfold/chance/1",
        "tiny/kfold/chance/0/seed 2",
        "tiny/kfold/chance/1/seed 3",
    ]
    assert len({task.stream for task in chance.tasks}) == 6
    assert [task.split.fold for task in chance.tasks] == [0, 1] * 3
    labels = [job.label(0) for job in jobs(seeds=3, split="holdout")]
    assert labels == ["random, seed 1 of 3", "popularity", "chance, seed 1 of 3", "fixed"]


def test_the_first_seed_is_that_of_a_bake_off_without_seeds() -> None:
    alone, several = (jobs([CHANCE], seeds=seeds)[0] for seeds in (1, 3))
    assert [task.stream for task in several.tasks[:2]] == [task.stream for task in alone.tasks]
    assert [several.name(number) for number in (0, 1)] == [alone.name(number) for number in (0, 1)]
    one, three = results([alone])["chance"], results([several])["chance"]
    assert one.seed_means == ()
    assert three.seed_means[0] == one.per_user.means
    assert three.top_n.equals(one.top_n)


def test_scores_are_averaged_over_folds_and_then_over_seeds() -> None:
    [job] = jobs([CHANCE], seeds=3)
    result = results([job])["chance"]
    scores = [job.done[number].per_user for number in range(6)]
    for place, user in enumerate(result.per_user.users):
        of_seeds = []
        for seed in range(3):
            folds = [one.values[one.users == user, 0] for one in scores[2 * seed : 2 * seed + 2]]
            of_seeds.append(np.nanmean(np.concatenate(folds)))
        assert result.per_user.values[place, 0] == pytest.approx(np.mean(of_seeds))
    assert result.per_user.means["ndcg@10"] == pytest.approx(
        np.mean([m["ndcg@10"] for m in result.seed_means])
    )
    for fold, means in enumerate(result.fold_means):
        assert means["ndcg@10"] == pytest.approx(np.mean([one.means["ndcg@10"] for one in scores[fold::2]]))
    coverage = [one.overall["coverage@10"] for one in scores]
    assert result.per_user.overall["coverage@10"] == pytest.approx(np.mean(coverage))
    assert len({means["ndcg@10"] for means in result.seed_means}) == 3
    costs = [result.costs.fit_seconds for result in job.done.values()]
    assert result.costs.fit_seconds == pytest.approx(sum(costs) / 3)


def test_seeds_that_all_give_the_same_lists_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MODELS.entry("popularity").cls, "stochastic")
    by_id = {"n": 10, "ties": "id"}
    found = results(jobs(["popularity", "random"], seeds=2, split="holdout", recommend=by_id))
    [note] = found["popularity"].notes
    assert note.startswith("all 2 seeds gave the same lists: random numbers decide nothing here")
    assert found["random"].notes == ()


def test_each_seed_has_an_order_of_ties_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MODELS.entry("popularity").cls, "stochastic")
    [job] = jobs(["popularity"], seeds=2, split="holdout", recommend={"n": 50, "candidates": "all"})
    first, second = (run_task(task, "", Observer()).top_n for task in job.tasks)
    np.testing.assert_array_equal(first.score, second.score)
    assert (first.item != second.item).any()
    assert len(set(map(tuple, first.item.tolist()))) == 1  # a popularity list stays one list


def test_a_model_that_declares_nothing_counts_as_stochastic_and_a_seed_of_its_own_as_none() -> None:
    assert Recommender().stochastic
    declared: list[tuple[str, dict[str, Any], bool]] = [
        ("random", {}, True),
        ("random", {"legacy_seed": 1}, False),
        ("ease", {}, False),
        ("surprise.SVD", {}, True),
        ("surprise.SVD", {"random_state": 0}, False),
        ("surprise.KNNBasic", {}, False),
        ("surprise.NormalPredictor", {}, True),
        ("implicit.AlternatingLeastSquares", {}, True),
        ("implicit.BM25Recommender", {}, False),
        ("lenskit.ItemKNNScorer", {}, False),
        ("lenskit.ImplicitMFScorer", {}, True),
        ("command", {"command": ["x", "{out}"]}, False),
        ("command", {"command": ["x", "{out}", "--seed={seed}"]}, True),
    ]
    found = [MODELS.entry(name).cls(**params).stochastic for name, params, _ in declared]
    assert found == [stochastic for _, _, stochastic in declared]


def test_seeds_are_part_of_the_hash_unless_there_is_one() -> None:
    asked = small_config()
    plain, one, two = load(asked), load({**asked, "seeds": 1}), load({**asked, "seeds": 2})
    assert plain.hash == one.hash != two.hash
    assert "seeds" not in one.resolved
    assert two.resolved["seeds"] == 2
    with pytest.raises(ConfigError, match="seeds: must be greater than or equal to 1, not 0"):
        load({**asked, "seeds": 0})
