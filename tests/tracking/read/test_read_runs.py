"""Bake-offs are logged to a real SQLite store, and compared from there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from mlflow import MlflowClient
from samples import CHANCE, FAILING, TINY
from samples import small_config as config

import evalplugin
from evalplugin.base.errors import DataError, TrackingError
from evalplugin.comparison.comparison import compare
from evalplugin.features.base import Bakeoff
from evalplugin.report.competition import Competition, competitions_of
from evalplugin.tracking.read.contests import read_contests, with_lists

pytestmark = pytest.mark.usefixtures("no_drawing")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Bake-offs that agree and that differ, each in an experiment of its own but the first two."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "failing.py").write_text(FAILING)
    uri = f"sqlite:///{folder / 'mlflow.db'}"

    def run(**changes: Any) -> Bakeoff:
        return evalplugin.run(config(**changes), tracking_uri=uri)

    failing = {"plugins": [str(folder / "failing.py")], "models": ["random", "failing", "popularity"]}
    return SimpleNamespace(
        uri=uri,
        first=run(**failing),
        second=run(models=[CHANCE, "popularity"], compare={}),
        metrics=run(experiment="metrics", metrics=["rr", "ndcg@10"], models=["random", CHANCE]),
        folds=run(
            experiment="folds",
            seeds=2,
            split={"type": "kfold", "k": 3},
            datasets=[TINY, {**TINY, "name": "small", "n_users": 40}],
        ),
    )


def same(one: Competition, other: Competition) -> None:
    """Assert that two contests hold the same scores and give the same comparison to the last bit."""
    for a, b in zip(one.models, other.models, strict=True):
        assert (a.model, a.error) == (b.model, b.error)
        facts, others = one.facts[a.model], other.facts[b.model]
        assert (facts.type, facts.costs) == (others.type, others.costs)
        if a.scores is None or b.scores is None:
            assert a.scores is b.scores is None
            continue
        assert a.scores.metrics == b.scores.metrics
        np.testing.assert_array_equal(a.scores.users, b.scores.users)
        np.testing.assert_array_equal(a.scores.values, b.scores.values)
        for mapping in ("overall", "at_k", "pr_curve"):
            assert getattr(a.scores, mapping) == getattr(b.scores, mapping)
        assert (a.fold_means, a.seed_means) == (b.fold_means, b.seed_means)
    assert repr(compare(one).pairs) == repr(compare(other).pairs)  # NaN equals NaN here
    assert (one.metrics, one.baseline, one.seed, one.rules) == (
        other.metrics,
        other.baseline,
        other.seed,
        other.rules,
    )


def test_a_bake_off_is_read_as_it_was_in_memory(store: SimpleNamespace) -> None:
    result = store.first
    (read,) = read_contests(store.uri, bakeoff=result.plan.id)
    (made,) = competitions_of(result.plan, result.models)
    same(read, made)
    assert (read.name, read.dataset, read.split, read.notes) == (result.plan.id, "tiny", "last_n", ())
    assert [c.error for c in read.models] == [
        None,
        "failing.py:9: RuntimeError: this model cannot learn",
        None,
    ]
    for ours, theirs in zip(read.segments, made.segments, strict=True):
        assert (ours.name, ours.labels) == (theirs.name, theirs.labels)
        assert ours.from_truth == theirs.from_truth == (ours.name == "popularity")
        np.testing.assert_array_equal(ours.users, theirs.users)
        np.testing.assert_array_equal(ours.group, theirs.group)


def test_lists_and_background_are_read_when_they_are_wanted(store: SimpleNamespace) -> None:
    (made,) = competitions_of(store.first.plan, store.first.models)
    (read,) = read_contests(store.uri, bakeoff=made.name)
    assert all(facts.top_n is None for facts in read.facts.values())
    assert read.background is None
    whole = with_lists(read, store.uri)
    first, second = (whole.facts[model.model] for model in whole.models[:2])
    expected = made.facts[whole.models[0].model]
    assert (first.top_n, first.items) == (expected.top_n, expected.items)
    assert first.items is not None
    assert (second.top_n, second.items) == (None, None)
    assert whole.background is not None
    assert made.background is not None
    assert whole.background.truth == made.background.truth
    assert whole.background.history == made.background.history
    assert whole.background.titles == made.background.titles


def test_no_run_is_read_again_for_its_files(store: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    def refuse(self: SqlAlchemyStore, run_id: str) -> None:
        raise AssertionError(f"the run {run_id} is read again")

    monkeypatch.setattr(SqlAlchemyStore, "get_run", refuse)
    (contest,) = read_contests(store.uri, experiment="metrics")
    assert all(model.scores is not None for model in contest.models)


def test_folds_and_several_datasets_are_read_apart(store: SimpleNamespace) -> None:
    read = read_contests(store.uri, experiment="folds")
    made = competitions_of(store.folds.plan, store.folds.models)
    assert [(c.dataset, c.split) for c in read] == [("tiny", "kfold"), ("small", "kfold")]
    for one, other in zip(read, made, strict=True):
        same(one, other)
        assert len(one.models[0].fold_means) == 3
        assert [len(model.seed_means) for model in one.models] == [
            2 if one.facts[model.model].type == "random" else 0 for model in one.models
        ]


def test_runs_of_different_bake_offs_compare_when_data_split_and_metrics_agree(
    store: SimpleNamespace,
) -> None:
    (read,) = read_contests(store.uri, runs=["random", "chance"], experiment="shop")
    assert [c.model for c in read.models] == ["random", "chance"]
    (pair,) = [p for p in compare(read).pairs if p.metric == "ndcg@10"]
    ours = store.second.models[0].per_user.column("ndcg@10")
    theirs = store.first.models[0].per_user.column("ndcg@10")
    assert pair.paired.interval.mean == pytest.approx(np.nanmean(ours - theirs), abs=1e-15)
    assert (read.name, read.baseline, read.primary) == ("shop", "random", "ndcg@10")


def test_an_experiment_is_the_latest_run_of_each_model(store: SimpleNamespace) -> None:
    (read,) = read_contests(store.uri, experiment="shop")
    popularity = {c.model: c.run_id for c in read.models}["popularity"]
    client = MlflowClient(store.uri)
    assert [c.model for c in read.models] == ["random", "failing", "chance", "popularity"]
    assert client.get_run(popularity).data.tags["evalplugin.bakeoff"] == store.second.plan.id


def test_without_a_name_it_is_the_latest_bake_off_and_says_so(store: SimpleNamespace) -> None:
    read = read_contests(store.uri)
    latest = store.folds.plan.id
    assert {c.name for c in read} == {latest}
    assert read[0].notes == (
        f"the latest bake-off of {store.uri}: {latest} (experiment 'folds'); --bakeoff ID takes another",
    )
    (shop,) = read_contests(store.uri, bakeoff="latest", experiment="shop")
    assert shop.name == store.second.plan.id


def test_two_runs_of_one_model_are_kept_apart_by_name(store: SimpleNamespace) -> None:
    one, other = store.first.plan.id, store.second.plan.id
    ids = run_ids(store.uri, "popularity", "shop")
    (read,) = read_contests(store.uri, runs=ids)
    assert {c.model for c in read.models} == {f"popularity · {one}", f"popularity · {other}"}
    assert read.notes[0].startswith("2 runs are of popularity: they are called popularity · ")
    assert read.notes[1] == (
        "no model is the baseline (random is not among the runs); --baseline MODEL chooses one"
    )
    assert compare(read, pairs="all").pairs[0].paired.equal == 1.0


def test_the_baseline_is_not_guessed_where_there_are_several(store: SimpleNamespace) -> None:
    ids = [*run_ids(store.uri, "popularity", "shop"), *run_ids(store.uri, "random", "shop")]
    (read,) = read_contests(store.uri, runs=ids, baseline="random", primary="recall @ 10")
    assert (read.baseline, read.primary, len(read.models)) == ("random", "recall@10", 3)
    with pytest.raises(
        DataError, match=r"no model is called 'popularity' to be the baseline; there are: pop"
    ):
        read_contests(store.uri, runs=ids, baseline="popularity")
    with pytest.raises(DataError, match=r"there is no metric 'ndcg@5' to rank by; did you mean 'ndcg@10'"):
        read_contests(store.uri, runs=ids, primary="ndcg@5")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"runs": ["populrity"]}, r"has no run with results called 'populrity'; did you mean 'popularity'\?"),
        ({"runs": ["it's"]}, r"has no run with results called \"it's\"; there are: "),
        ({"runs": ["0" * 32]}, r"no run has the id 0{32}"),
        (
            {"runs": ["random"]},
            r"'random' is a run of several experiments: choose one with --experiment: folds, ",
        ),
        (
            {"runs": ["chance"], "experiment": "shop"},
            r"two models on the same data: left out: chance is the only",
        ),
        ({"runs": ["a"], "bakeoff": "b"}, r"give runs or a bake-off, not both: a and b"),
        ({"bakeoff": "x' or 'a' = 'a"}, r"has no bake-off \"x' or 'a' = 'a\"; latest: \d{8}-"),
        ({"experiment": "shp"}, r"has no experiment 'shp'; did you mean 'shop'\?"),
        (
            {"experiment": "Default"},
            r"'Default' has no runs of evalplugin's models; make some: python -m evalpl",
        ),
        (
            {"experiment": "Default", "bakeoff": "latest"},
            r"'Default' has no finished bake-off; name runs or an exper",
        ),
    ],
)
def test_what_is_not_there_is_said_with_what_is(
    asked: dict[str, Any], message: str, store: SimpleNamespace
) -> None:
    with pytest.raises(DataError, match=message):
        read_contests(store.uri, **asked)


def test_a_summary_run_is_no_model(store: SimpleNamespace) -> None:
    summary = store.first.links.summary_run_id
    with pytest.raises(DataError, match=f"is the summary of a bake-off: .* --bakeoff {store.first.plan.id}"):
        read_contests(store.uri, runs=[summary])


def test_runs_that_are_not_ours_or_not_done_have_no_results(uri: str) -> None:
    client = MlflowClient(uri)
    foreign = client.create_run("0", run_name="training").info.run_id
    with pytest.raises(
        DataError, match=r"\(training\) is not a run of evalplugin: it has no scores of users"
    ):
        read_contests(uri, runs=[foreign])
    tags = {"evalplugin.role": "model", "evalplugin.bakeoff": "b", "evalplugin.model": "m"}
    running = client.create_run("0", run_name="m", tags=tags).info.run_id
    with pytest.raises(DataError, match=r"\(m\) is RUNNING: it has no results"):
        read_contests(uri, runs=[running])
    with pytest.raises(
        DataError, match=r"on the same data: left out, as they have no results: m \(RUNNING\)"
    ):
        read_contests(uri, bakeoff="b")
    client.set_terminated(running)
    with pytest.raises(
        TrackingError, match=rf"run m \({running}\) does not say on which test data it was scored"
    ):
        read_contests(uri, bakeoff="b")


def test_missing_sqlite_store_is_not_created(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'none.db'}"
    with pytest.raises(TrackingError, match="there is no tracking store sqlite:"):
        read_contests(uri)
    assert list(tmp_path.iterdir()) == []


def test_the_same_data_under_another_name_are_the_same_data(uri: str) -> None:
    evalplugin.run(config(), tracking_uri=uri)
    evalplugin.run(
        config(models=[CHANCE], datasets=[{**TINY, "name": "other"}], compare={}), tracking_uri=uri
    )
    (read,) = read_contests(uri, experiment="shop")
    assert [c.model for c in read.models] == ["random", "popularity", "chance"]
    assert read.notes == ("data under several names: tiny, last_n; other, last_n",)


def test_candidates_drawn_from_other_seeds_are_other_candidates(uri: str) -> None:
    for seed in (1, 2):
        sampled = {"n": 20, "candidates": "sampled", "negatives": 9}
        evalplugin.run(config(seed=seed, recommend=sampled), tracking_uri=uri)
    with pytest.raises(
        DataError, match=r"candidates: sampled, 9 negatives, seed 2 in .*; sampled, 9 negatives, seed 1"
    ):
        read_contests(uri, runs=run_ids(uri, "random", "shop"))


def test_missing_per_user_scores_are_an_error_with_the_run(uri: str) -> None:
    outcome = evalplugin.run(config(), tracking_uri=uri)
    (run_id,) = run_ids(uri, "random", "shop")
    folder = Path(unquote(MlflowClient(uri).get_run(run_id).info.artifact_uri.removeprefix("file://")))
    (folder / "data" / "per_user.parquet").unlink()
    with pytest.raises(
        TrackingError, match=rf"run random \({run_id}\) has no data/per_user.parquet: without every user"
    ):
        read_contests(uri, bakeoff=outcome.plan.id)


def run_ids(uri: str, model: str, experiment: str) -> list[str]:
    client = MlflowClient(uri)
    home = client.get_experiment_by_name(experiment)
    assert home is not None
    runs = client.search_runs([home.experiment_id], f"tags.`evalplugin.model` = '{model}'")
    return [run.info.run_id for run in runs]


def test_errors_pooled_over_all_ratings_are_read_back(uri: str) -> None:
    """They are metrics with a value for each user by default, and have none when they are pooled."""
    names = ["ndcg@10", "rmse", "rmse(pooled=true)"]
    models = ["surprise.BaselineOnly", "surprise.SlopeOne"]
    outcome = evalplugin.run(config(metrics=names, models=models, compare={}), tracking_uri=uri)
    (contest,) = read_contests(uri)
    assert list(contest.metrics) == names
    same(competitions_of(outcome.plan, outcome.models)[0], contest)
    assert contest.models[0].scores is not None
    assert contest.models[0].scores.overall["rmse(pooled=true)"] > 0
