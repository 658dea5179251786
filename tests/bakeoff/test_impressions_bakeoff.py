"""Bake-offs on a log of decisions: what was shown, where, and what it earned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bakeoffs import interrupt_bakeoff, run_bakeoff
from samples import RecordingObserver, refusal, small_config

import evalplugin
from evalplugin.base.errors import ConfigError
from evalplugin.config import CheckedConfig
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import prepare
from evalplugin.features.base import Bakeoff
from evalplugin.features.config import load

SHOWN, ITEMS, USERS = 3, 12, 25
MODELS = ["popularity", "ease", "neighbours.item", "logging-policy"]
pytestmark = [pytest.mark.usefixtures("store", "no_drawing"), pytest.mark.filterwarnings("ignore:.*EV1")]


def feed(decisions: int = 240) -> pd.DataFrame:
    """Return a log of slates of three items, drawn at random; users click on items of their own half more often."""
    rng = np.random.default_rng(5)
    rows = []
    for decision in range(decisions):
        user = int(rng.integers(USERS))
        for position, item in enumerate(rng.permutation(ITEMS)[:SHOWN].tolist(), 1):
            click = rng.random() < (0.5 if item % 2 == user % 2 else 0.1)
            rows.append(
                (f"d{decision:03d}", user, item, position, click, 1 / (ITEMS + 1 - position), 60 * decision)
            )
    return pd.DataFrame(rows, columns=["request", "user_id", "item", "slot", "click", "p", "time"])


def config(log: pd.DataFrame | None = None, **changes: Any) -> dict[str, Any]:
    (feed() if log is None else log).to_csv("feed.csv", index=False)
    dataset = {
        "name": "feed", "type": "impressions", "path": str(Path("feed.csv").absolute()), "decision": "request",
        "user": "user_id", "position": "slot", "reward": "click", "propensity": "p", "timestamp": "time",
    }  # fmt: skip
    settings = {
        "datasets": [dataset | changes.pop("dataset", {})],
        "split": {"type": "temporal", "quantile": 0.75},
        "relevance": {},
        "recommend": {"n": 12},
        "metrics": ["hit@3", "recall@10"],
        "models": MODELS,
        "compare": {"baseline": "logging-policy"},
        "tracking": {"uri": "sqlite:///mlflow.db"},
    }
    return small_config(**settings | changes)


def checked(log: pd.DataFrame | None = None, **changes: Any) -> CheckedConfig:
    return load(config(log, **changes))


def run(log: pd.DataFrame | None = None, **changes: Any) -> Bakeoff:
    outcome = run_bakeoff(checked(log, **changes))
    for model in outcome.models:
        assert model.error is None, model.error
    return outcome


@pytest.mark.slow
def test_decisions_are_listed_scored_logged_and_read_back() -> None:
    outcome = run()
    frame = feed()
    tested = frame[frame["time"] >= 60 * 180]
    for model in outcome.models:
        assert model.per_user.units.noun == "decision"
        assert model.per_user.units.clusters.name == "user"
        assert model.per_user.users.tolist() == sorted(set(tested["request"]))
    scores = {model.model: model.per_user for model in outcome.models}
    # What was shown has all rewards among its three items.
    assert np.nanmin(scores["logging-policy"].column("recall@10")) == 1
    clicked = tested.groupby("request")["click"].any()
    assert np.isnan(scores["ease"].column("hit@3")).sum() == (~clicked).sum()
    lists = next(model.lists for model in outcome.models if model.model == "logging-policy").by_fold[0]
    shown = tested.sort_values(["request", "slot"])["item"].to_numpy().reshape(-1, SHOWN)
    np.testing.assert_array_equal(lists.item[:, :SHOWN], shown)
    assert (lists.item[:, SHOWN:] == -1).all()
    np.testing.assert_array_equal(lists.score[:, :SHOWN], [[1, 1 / 2, 1 / 3]] * len(lists.user))
    # Users like items of their own half.
    ease = next(model.lists for model in outcome.models if model.model == "ease").by_fold[0]
    user = tested.groupby("request")["user_id"].first().to_numpy()
    assert (ease.item[:, :4] % 2 == user[:, None] % 2).mean() > 0.75

    (again,) = evalplugin.compare(tracking_uri="sqlite:///mlflow.db").comparisons
    assert again.contest.units.noun == "decision"
    logged = next(row.scores for row in again.models if row.model == "ease")
    np.testing.assert_array_equal(logged.units.codes, scores["ease"].units.codes)
    for pair, other in zip(again.pairs, outcome.comparisons[0].pairs, strict=True):
        assert pair.paired == other.paired
    assert evalplugin.history("shop", tracking_uri="sqlite:///mlflow.db").to_frame()["model"].nunique() == 4


@pytest.mark.slow
def test_workers_and_the_cache_give_the_same_bits() -> None:
    first = run()
    observer = RecordingObserver()
    parallel = run_bakeoff(checked(), workers=2, mode="fresh")
    again = run_bakeoff(checked(), observer=observer)
    for model, other, cached in zip(first.models, parallel.models, again.models, strict=True):
        np.testing.assert_array_equal(model.per_user.values, other.per_user.values)
        np.testing.assert_array_equal(model.per_user.values, cached.per_user.values)
    assert not observer.has("fit ease")
    # Another position is another list of the logging policy.
    frame = feed()
    swapped = frame.assign(slot=4 - frame["slot"])
    changed = run(swapped, models=["popularity", "logging-policy"])
    lists = [
        next(m.lists for m in o.models if m.model == "logging-policy").by_fold[0] for o in (first, changed)
    ]
    np.testing.assert_array_equal(lists[0].item[:, :SHOWN], lists[1].item[:, SHOWN - 1 :: -1])


@pytest.mark.slow
def test_an_interrupted_bake_off_is_resumed() -> None:
    interrupt_bakeoff(checked())
    observer = RecordingObserver()
    again = run_bakeoff(checked(), mode="resume", observer=observer)
    assert [model.error for model in again.models] == [None] * 4


@pytest.mark.slow
def test_models_are_tuned_on_later_decisions_of_the_train_part() -> None:
    tuned = {"name": "tuned", "type": "ease", "tune": {"l2": {"choices": [1.0, 100.0]}}}
    outcome = run(models=["popularity", tuned], compare={}, tune={"budget": {"trials": 2}})
    assert outcome.models[1].tuning is not None


def folds(log: pd.DataFrame | None = None, **changes: Any) -> Any:
    (data,) = prepare(checked(log, **changes), None, Observer())
    return data


def test_models_learn_pairs_of_users_and_items_with_a_reward() -> None:
    data = folds()
    (fold,), frame = data.folds, feed()
    train, test = frame[frame["time"] < 60 * 180], frame[frame["time"] >= 60 * 180]
    first = train.groupby("user_id")["request"].min()
    clicks = train[train["click"]]
    expected = clicks.groupby([clicks["user_id"].map(first), "item"]).size()
    learnt = fold.train
    pairs = zip(learnt.users[learnt.user].tolist(), learnt.items[learnt.item].tolist(), strict=True)
    assert dict(zip(pairs, learnt.rating.tolist(), strict=True)) == expected.to_dict()
    assert learnt.count.tolist() == learnt.rating.tolist()
    assert fold.train_events.events and len(fold.train_events) == len(clicks)
    assert not fold.train.is_log
    # A decision is told what its user has clicked on before.
    told = fold.history_events
    own = pd.Series(told.item).groupby(told.users[told.user]).agg(sorted).to_dict()
    past = clicks.groupby("user_id")["item"].agg(sorted)
    users = test.groupby("request")["user_id"].first()
    assert own == {decision: past[user] for decision, user in users.items() if user in past.index}
    # The test part stays as it is, and so does the train part for models of rewards.
    assert (len(fold.test), len(fold.shown)) == (len(test), len(train))
    np.testing.assert_array_equal(fold.test.propensity, test["p"].to_numpy())
    np.testing.assert_array_equal(fold.shown.position, train["slot"].to_numpy())
    assert data.candidates[0].kind == "all"
    assert any("models learn from" in note for note in data.info.notes)


def test_splits_take_decisions_whole() -> None:
    frame = feed()
    data = folds(frame.assign(part=np.where(frame["time"] % 180 == 0, "test", "train")),
                 dataset={"part": "part"}, split="given")  # fmt: skip
    assert len(data.folds[0].test.active_users) == 80
    for split in ({"type": "holdout", "by": "interactions"}, {"type": "kfold", "k": 3}):
        data = folds(split=split)
        for fold in data.folds:
            tested = set(fold.test.user.tolist())
            assert len(fold.test) == SHOWN * len(tested)
            assert not tested & set(fold.shown.user.tolist())
            assert len(fold.shown) + len(fold.test) == len(frame)


def test_decisions_without_users_are_users_of_their_own() -> None:
    (fold,) = folds(dataset={"user": None}, models=["popularity"], compare={}).folds
    assert fold.history is None
    assert fold.clusters is None
    assert len(fold.train) == int(feed()["click"][:540].sum())


def test_pools_of_decisions_are_given_by_a_table() -> None:
    frame = feed()
    pool = pd.concat(
        [frame[["request", "item"]], frame[["request"]].assign(item=(frame["item"] + 5) % ITEMS)]
    )
    pool.drop_duplicates().to_csv("pool.csv", index=False)
    recommend = {"n": 6, "candidates": "given", "path": str(Path("pool.csv").absolute()), "user": "request"}
    changes = {"recommend": recommend, "metrics": ["recall@6", "pool_recall"]}
    candidates = folds(**changes).candidates[0]
    assert candidates.kind == "given"
    assert set(candidates.included.counts.tolist()) <= {0, 3, 4, 5, 6}
    pool[
        pool["request"].ne("d200") | pool["item"].ne(frame.query("request == 'd200'")["item"].iloc[1])
    ].to_csv("pool.csv", index=False)
    message = refusal(folds, **changes)
    assert "the pool lacks 1 of 180 items that the log has shown: the first is item" in message
    assert "of decision 'd200'" in message


def test_items_of_a_pool_are_part_of_the_catalogue() -> None:
    frame = feed()
    new = frame[["request"]].drop_duplicates().assign(item=ITEMS + 5)
    pd.concat([frame[["request", "item"]], new]).to_csv("pool.csv", index=False)
    path = str(Path("pool.csv").absolute())
    recommend = {"n": 4, "candidates": "given", "path": path, "user": "request"}
    changes = {"recommend": recommend, "metrics": ["unsupported(policy=epsilon, epsilon=1)@1"]}
    message = refusal(folds, **changes)
    assert "pool.csv: 1 item not in the data, such as 17" in message
    assert "items: {path: FILE, item: COLUMN, columns: [], catalogue: true}" in message
    items = {"path": path, "columns": [], "catalogue": True}
    (model,) = run(**changes, dataset={"items": items}, models=["popularity"], compare={}).models
    assert model.per_user.means["unsupported(policy=epsilon, epsilon=1)@1"] == pytest.approx(1 / 4)


def lists_model(frame: pd.DataFrame, metric: str, **changes: Any) -> Any:
    """Return the result of the model ``lists`` for the decisions of a log."""
    frame.to_csv("lists.csv", index=False)
    lists = {"name": "mine", "type": "lists", "params": {"path": str(Path("lists.csv").absolute())}}
    return run_bakeoff(checked(models=[lists], compare={}, metrics=[metric], **changes)).models[0]


@pytest.mark.slow
def test_lists_of_decisions_keep_what_they_show_and_its_scores() -> None:
    frame = feed().rename(columns={"request": "decision", "slot": "rank"})
    frame["score"] = np.log(4 - frame["rank"])  # softmax shows the first item with 3 of 6
    softmax = "value(estimator=ips, policy=softmax)@1"
    scored = lists_model(frame[["decision", "item", "score"]], softmax, recommend={"n": 12})
    first = frame[(frame["time"] >= 60 * 180) & (frame["rank"] == 1)]
    assert scored.per_user.means[softmax] == pytest.approx((first["click"] * 3 / 6 * ITEMS).mean())
    ranked = lists_model(frame[["decision", "item", "rank"]], softmax)
    assert "needs the scores of listed items, and these lists have ranks" in str(ranked.error)
    # A new item at the first place stays there.
    frame["item"] = frame["item"].where(frame["rank"] > 1, ITEMS + 5)
    lists = frame[["decision", "item", "rank"]]
    unknown = lists_model(lists, "unsupported@1")
    assert "lists.csv: 60 listed items not in the data, such as 17 of decision 'd180'" in str(unknown.error)
    items = {"path": str(Path("lists.csv").absolute()), "columns": [], "catalogue": True}
    known = lists_model(lists, "unsupported@1", dataset={"items": items})
    assert known.per_user.means["unsupported@1"] == 1
    feed().rename(columns={"request": "decision"})[["decision", "item"]].to_csv("pool.csv", index=False)
    pool = {"n": 12, "candidates": "given", "path": str(Path("pool.csv").absolute()), "user": "decision"}
    outside = lists_model(
        frame.assign(item=(feed()["item"] + 1) % ITEMS)[["decision", "item", "rank"]],
        "unsupported@1",
        recommend=pool,
    )
    assert "not in the pool, such as" in str(outside.error)


@pytest.mark.slow
def test_no_alarm_is_about_what_a_log_shows_or_about_decisions_without_users() -> None:
    codes = {finding.code for finding in run(dataset={"user": None}, metrics=["hit@10"]).findings}
    assert not codes & {"EV103", "EV106", "EV109"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": {"type": "last_n"}}, "the data is a log, whose decisions stand where users do"),
        ({"split": "none"}, "decisions are in the train part and in the test part"),
        ({"split": {"type": "new_users", "n_users": 5}}, "a log of decisions, which this split does not divide"),
        ({"dataset": {"filters": [{"type": "rating", "min": 1}]}}, "filter rating (min: 1) divides"),
        ({"split": {"type": "temporal", "cutoff": 60}}, "models have nothing to learn from"),
    ],
)  # fmt: skip
def test_a_log_is_refused(changes: dict[str, Any], message: str) -> None:
    frame = feed()
    frame.loc[frame["time"] < 120, "click"] = False
    assert message in refusal(folds, frame, **changes)


def test_decisions_of_one_user_make_no_interval() -> None:
    frame = feed()
    frame.loc[frame["time"] >= 60 * 180, "user_id"] = 3
    assert "all 60 tested decisions are of one user, '3'" in refusal(folds, frame)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": ["logging-policy", "surprise.SVD"], "metrics": ["hit@3"]}, "as the dataset feed asks"),
        ({"recommend": {"candidates": "unseen"}}, "feed is a log of events"),
        ({"recommend": {"candidates": "sampled", "negatives": 3}}, "sampled makes a pool of the truth"),
        ({"metrics": ["rmse"], "compare": {}}, "as the dataset feed asks; take metrics of lists"),
    ],
)
def test_a_config_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(**changes)
    assert message in " ".join(caught.value.lines)


def test_the_logging_policy_needs_a_log() -> None:
    with pytest.raises(ConfigError, match="lists what a log has shown, and the dataset tiny is no such log"):
        load(small_config(models=["popularity", "logging-policy"], compare={}))
