"""Logs of events (``duplicates: keep``): splits cut events, which become pairs with counts; repeats are told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bakeoffs import run_bakeoff
from samples import TINY, RecordingObserver, checked_data

import evalplugin
from evalplugin.base.errors import ConfigError, DataError
from evalplugin.base.seeding import generator
from evalplugin.config.sections import Recommend
from evalplugin.data import Interactions, Split, Splitter
from evalplugin.data.splits import Holdout, KFold, LastN, SampleUsers
from evalplugin.data.temporal import Temporal
from evalplugin.execution.runner import prepare
from evalplugin.features.config import load
from evalplugin.features.data_card.card import card_of, split_card
from evalplugin.features.tuning.feature import studies_of
from evalplugin.metrics import evaluate
from evalplugin.models import MODELS
from evalplugin.tracking.registry.served import make_lists
from evalplugin.workspace import Workspace

pytestmark = pytest.mark.usefixtures("no_drawing", "store")

PLAYS = pd.DataFrame(
    [
        (1, "a", 10), (1, "b", 11), (1, "a", 12), (1, "a", 13), (1, "c", 14), (1, "b", 15),
        (2, "b", 10), (2, "b", 11), (2, "c", 12), (2, "b", 13),
        (3, "c", 20), (3, "a", 21),
    ],
    columns=["user", "item", "time"],
)  # fmt: skip


def events(frame: pd.DataFrame = PLAYS) -> Interactions:
    return Interactions.from_frame(frame, timestamp="time", duplicates="keep")


def many(n: int = 2000, users: int = 40, items: int = 30) -> pd.DataFrame:
    """Plays of users who each have favourites, in an order without meaning."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, users, n)
    favourite = (user * 7 + rng.integers(0, 5, n)) % items
    item = np.where(rng.random(n) < 0.7, favourite, rng.integers(0, items, n))
    return pd.DataFrame({"user": user, "item": item, "time": rng.integers(0, 10**6, n)})


def rows(data: Interactions) -> dict[tuple[Any, Any], tuple[float, int, int]]:
    """Return rating, number of events and time of each pair."""
    keys = zip(data.users[data.user].tolist(), data.items[data.item].tolist(), strict=True)
    values = zip(data.rating.tolist(), data.count.tolist(), data.timestamp.tolist(), strict=True)
    return dict(zip(keys, values, strict=True))


def test_last_n_cuts_events_which_become_pairs_with_counts() -> None:
    (fold,) = LastN(n=2).split(events(), np.random.default_rng(0))
    # Of a pair in the train data the latest time counts, of one in the truth the first.
    assert rows(fold.train) == {
        (1, "a"): (3.0, 3, 13),
        (1, "b"): (1.0, 1, 11),
        (2, "b"): (2.0, 2, 11),
        (3, "c"): (1.0, 1, 20),
        (3, "a"): (1.0, 1, 21),
    }
    assert rows(fold.test) == {
        (1, "c"): (1.0, 1, 14),
        (1, "b"): (1.0, 1, 15),
        (2, "c"): (1.0, 1, 12),
        (2, "b"): (1.0, 1, 13),
    }
    assert (fold.counts["train_interactions"], fold.counts["test_interactions"]) == (8, 4)
    assert fold.repeats


def test_ratings_of_events_are_added_up_and_their_number_is_kept() -> None:
    rated = PLAYS.assign(seconds=[5.0, 1, 7, 8, 2, 3, 9, 1, 1, 4, 2, 2])
    data = Interactions.from_frame(rated, rating="seconds", timestamp="time", duplicates="keep")
    assert rows(data.merged())[1, "a"] == (20.0, 3, 13)
    assert rows(data.merged(first=True))[1, "a"] == (20.0, 3, 10)
    assert data.merged().item_events.tolist() == data.item_events.tolist() == [4, 5, 3]
    assert data.merged().user_events.tolist() == [6, 4, 2]


def test_rows_in_another_order_give_the_same_pairs() -> None:
    shuffled = PLAYS.sample(frac=1, random_state=1)
    (one,), (other,) = (LastN(n=2).split(events(f), np.random.default_rng(0)) for f in (PLAYS, shuffled))
    assert rows(one.train) == rows(other.train)
    assert rows(one.test) == rows(other.test)


SPLITS: list[tuple[Splitter, Any]] = [
    (LastN(n=3), lambda counts: np.minimum(3, counts)),
    (Holdout(fraction=0.25), lambda counts: (0.25 * counts + 0.5).astype(int)),
    (SampleUsers(fraction=1.0, n=4), lambda counts: np.full(len(counts), 4)),
    (SampleUsers(fraction=1.0, n=4, hold="random"), lambda counts: np.full(len(counts), 4)),
]


@pytest.mark.parametrize(
    ("splitter", "held"), SPLITS, ids=lambda value: getattr(value, "__class__", value).__name__
)
def test_splits_of_users_hold_out_events_and_not_pairs(splitter: Splitter, held: Any) -> None:
    data = events(many())
    (fold,) = splitter.split(data, np.random.default_rng(0))
    counts = data.user_events
    assert fold.test.user_events.tolist() == held(counts).tolist()
    assert (fold.train.user_events + fold.test.user_events).tolist() == counts.tolist()


def test_folds_and_periods_have_every_event_once() -> None:
    data = events(many())
    folds = KFold(k=4).split(data, np.random.default_rng(0))
    assert [fold.test.n_events for fold in folds] == [500] * 4
    assert [fold.train.n_events for fold in folds] == [1500] * 4
    (fold,) = Temporal(quantile=0.8).split(data, np.random.default_rng(0))
    cut = np.sort(data.timestamp)[1600]
    assert fold.test.n_events == int((data.timestamp >= cut).sum())
    assert fold.train.timestamp.max() < cut
    periods = Temporal(every=200_000, folds=2).split(data, np.random.default_rng(0))
    last = data.timestamp > data.timestamp.max() - 200_000
    assert periods[1].test.n_events == int(last.sum())


def test_a_repeat_is_in_the_truth_and_in_the_train_data() -> None:
    (fold,) = LastN(n=2).split(events(), np.random.default_rng(0))
    assert len(fold.shared_pairs(fold.train)) == 2  # (1, b) and (2, b)


def test_popularity_counts_events() -> None:
    model = MODELS.create("popularity", {})
    model.fit(events().merged(), generator(0))
    assert model.scores(np.array([0]))[0].tolist() == [4.0, 5.0, 3.0]  # users: 2, 2 and 3


METRICS = ["recall@5", "recall(truth=repeat)@5", "recall(truth=explore)@5"]


def config(**changes: Any) -> dict[str, Any]:
    many().to_csv("plays.csv", index=False)
    plays = {"name": "plays", "type": "csv", "path": "plays.csv", "timestamp": "time", "duplicates": "keep"}
    split, models = {"type": "last_n", "n": 4}, ["popularity", "ease"]
    given = {"metrics": METRICS, "models": models, "segments": [], **changes}
    return {"experiment": "plays", "datasets": [plays], "split": split, **given}


def test_all_items_may_be_listed_where_candidates_are_left_out() -> None:
    assert load(config()).spec.recommend.candidates == "all"
    assert load(config(recommend={"n": 7})).spec.recommend.candidates == "all"
    judged = load(config(recommend={"candidates": "judged"}))
    assert judged.spec.recommend.candidates == "judged"


def test_unseen_is_refused_with_the_reason_before_data_is_read() -> None:
    with pytest.raises(ConfigError, match=r"unseen leaves out .* plays is a log of events"):
        load(config(recommend={"candidates": "unseen"}))


def test_unseen_is_refused_for_a_log_that_a_plugin_loads() -> None:
    Path("mine.py").write_text(
        "from dataclasses import dataclass\n"
        "import pandas as pd\n"
        "import evalplugin\n"
        "from evalplugin.data import Interactions\n"
        "@evalplugin.dataset('visits')\n"
        "@dataclass\n"
        "class Visits:\n"
        "    def check(self, context):\n"
        "        return []\n"
        "    def load(self, context):\n"
        "        frame = pd.DataFrame({'user': [1, 1, 1, 2, 2], 'item': [1, 2, 1, 1, 2], 'time': [1, 2, 3, 1, 2]})\n"
        "        return Interactions.from_frame(frame, timestamp='time', duplicates='keep')\n"
    )
    visits = {"plugins": ["mine.py"], "datasets": ["visits"], "split": {"type": "last_n"}}
    with pytest.raises(DataError, match=r"no list can have them\. In a log of events, set recommend"):
        prepare(load(config(**visits)), None, RecordingObserver())
    listed = config(**visits, recommend={"candidates": "all"})
    assert prepare(load(listed), None, RecordingObserver())[0].folds[0].repeats


def test_logs_beside_other_data_need_candidates_that_are_named() -> None:
    mixed = config()
    mixed["datasets"].append(TINY)
    with pytest.raises(ConfigError, match=r"is a log of events .* and tiny is not: say recommend.candidates"):
        load(mixed)
    assert load(mixed | {"recommend": {"candidates": "all"}}).spec.recommend.candidates == "all"


def test_recall_is_made_of_its_repeats_and_its_new_items() -> None:
    outcome = run_bakeoff(load(config()))
    (prepared,) = prepare(load(config()), None, RecordingObserver())
    (fold,) = prepared.folds
    repeated = np.isin(fold.test.pairs(), fold.shared_pairs(fold.train))
    user = np.sort(fold.test.user)
    n = np.bincount(user)
    repeats = np.bincount(user[repeated], minlength=len(n))
    for model in outcome.models:
        assert model.per_user is not None, model.error
        both, repeat, explore = (model.per_user.column(name) for name in METRICS)
        assert np.isnan(repeat).tolist() == (repeats == 0).tolist()
        assert np.isnan(explore).tolist() == (repeats == n).tolist()
        parts = np.nan_to_num(repeat) * repeats + np.nan_to_num(explore) * (n - repeats)
        np.testing.assert_allclose(both, parts / n)
    (note,) = [note for note in prepared.info.notes if "truth=repeat" in note]
    assert note.startswith(f"{int(repeated.sum())} of {len(fold.test)} test pairs")


def test_parts_of_the_truth_by_hand() -> None:
    lists, truth, train = [["a", "b", "x"]], [{"a", "c", "b"}], [{"a", "q"}]
    value = {
        name: evaluate(f"{name}@3", lists=lists, truth=truth, train=train)[0]
        for name in (
            "recall(truth=repeat)", "recall(truth=explore)", "rr(truth=explore)", "ndcg(truth=explore)",
            "precision(truth=repeat)", "ap(truth=explore)",
        )
    }  # fmt: skip
    assert value == {
        "recall(truth=repeat)": 1 / 1,
        "recall(truth=explore)": 1 / 2,
        "rr(truth=explore)": 1 / 2,
        "ndcg(truth=explore)": (1 / np.log2(3)) / (1 + 1 / np.log2(3)),
        "precision(truth=repeat)": 1 / 3,
        "ap(truth=explore)": (1 / 2) / 2,
    }


def test_lists_from_elsewhere_are_scored_by_parts_of_the_truth_with_the_same_bits() -> None:
    outcome = run_bakeoff(load(config()))
    (fold,) = prepare(load(config()), None, RecordingObserver())[0].folds
    model = outcome.models[1]
    scores = evalplugin.score(
        model.top_n.to_pandas()[["user", "item", "rank"]],
        fold.test.to_frame()[["user", "item"]],
        METRICS,
        train=fold.train.to_frame()[["user", "item"]],
    )
    np.testing.assert_array_equal(scores.scores.values, model.per_user.values)


def test_models_are_tuned_on_events_that_may_repeat() -> None:
    tuned = {"models": [{"name": "ease", "type": "ease", "tune": {"l2": [1.0, 10.0]}}]}
    workspace = Workspace.open(load(config(**tuned)))
    prepared = workspace.prepare()
    (study,) = studies_of(workspace.config, prepared, workspace.jobs(prepared))
    validation: Split = study.base.split
    assert validation.test.n_events == 4 * 40
    assert validation.train.n_events == 2000 - 8 * 40
    assert len(validation.shared_pairs(validation.train))


def test_checks_know_that_items_repeat() -> None:
    plays = config()
    plays["datasets"][0]["filters"] = [{"type": "min_count", "users": 20}]
    outcome = run_bakeoff(load(plays))
    codes = {finding.code for finding in outcome.findings}
    assert not codes & {"EV106", "EV117"}


def test_a_long_tail_of_repeats_is_found_where_values_are_gains() -> None:
    frame = pd.concat([many(), *[pd.DataFrame({"user": [0], "item": [0], "time": [t]}) for t in range(90)]])
    plays = config(metrics=["ndcg@5", "ndcg(gain=binary)@5"])
    frame.to_csv("plays.csv", index=False)
    workspace = Workspace.open(load(plays))
    (checked,) = checked_data(workspace)
    lines = [finding.line for finding in checked.info.findings if finding.code == "EV115"]
    assert any("metrics: ndcg@5 takes raw values" in line for line in lines)


def test_the_data_card_counts_events_and_pairs() -> None:
    data = events()
    folds = LastN(n=2).split(data, np.random.default_rng(0))
    card = card_of("plays", "csv", data, [split_card("last", "last_n", folds)])
    assert card.interactions == 12
    assert card.density == 7 / 9
    assert "12 events of 7 pairs of user and item; 5 (42 %) repeat another one" in card.notes[-1]
    assert (card.splits[0].folds[0].train_interactions, card.splits[0].folds[0].test_interactions) == (8, 4)


def test_served_lists_may_repeat_what_a_user_has_met() -> None:
    from evalplugin.config import ModelRecipe

    lists = make_lists(ModelRecipe("popularity", "popularity", {}), events().merged(), Recommend(n=3), seed=0)
    assert not lists.unseen
    assert (lists.top_n.item == lists.top_n.item[0]).all()
