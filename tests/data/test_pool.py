"""Given candidates: the pool of a table, what is counted in it, and what is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from bakeoffs import run_bakeoff
from samples import RecordingObserver, checked_data

from evalplugin.base.errors import ConfigError, DataError, UnchangedError
from evalplugin.data import Candidates, Interactions, Split
from evalplugin.execution.runner import prepare
from evalplugin.features.base import Bakeoff
from evalplugin.features.config import load
from evalplugin.metrics import Blocks, parse
from evalplugin.metrics.scoring import score_part, score_top_n, with_ids
from evalplugin.metrics.states import ScorerState
from evalplugin.models import TopN
from evalplugin.workspace import Workspace

pytestmark = pytest.mark.usefixtures("no_drawing")

# Each user's last item is held out. The pool has that of users 1 and 2; of 3 it has others, of 4 nothing.
DATA = [(u, i, t) for u, items in enumerate(("abcd", "bcda", "cdab", "abdc"), 1) for t, i in enumerate(items)]
POOL = [(1, "d"), (1, "e"), (2, "a"), (2, "f"), (3, "e"), (3, "f")]


@pytest.fixture(autouse=True)
def files(store: Path) -> None:
    frame = pd.DataFrame([*DATA, (5, "e", 0), (5, "f", 1), (5, "c", 2)], columns=["user", "item", "time"])
    frame.to_csv("data.csv", index=False)
    pool_of(POOL)


def pool_of(pairs: list[tuple[Any, Any]], name: str = "pool.csv", *columns: str) -> None:
    frame = pd.DataFrame(pairs, columns=list(columns or ("user", "item")))
    if name.endswith(".parquet"):
        frame.to_parquet(name)
    else:
        frame.to_csv(name, index=False)


def config(**changes: Any) -> dict[str, Any]:
    shop = {"name": "shop", "type": "csv", "path": "data.csv", "timestamp": "time"}
    recommend = {"n": 3, "candidates": "given", "path": "pool.csv"} | changes.pop("recommend", {})
    given = {"metrics": ["recall@3", "pool_recall"], "models": ["popularity"], "segments": [], **changes}
    return {"experiment": "e", "datasets": [shop], "split": "last_n", "recommend": recommend, **given}


def refusal(**changes: Any) -> str:
    """Return the text that a config is refused with before a model is fitted."""
    Path("c.yaml").write_text(yaml.safe_dump(config(**changes)))
    with pytest.raises((ConfigError, DataError)) as error:
        prepare(load(Path("c.yaml")), None, RecordingObserver())
    return str(error.value)


def test_every_model_ranks_the_pool_and_nothing_else() -> None:
    Path("list.csv").write_text("user,item,rank\n1,a,1\n1,d,2\n1,e,3\n2,b,1\n2,f,2\n3,f,1\n4,a,1\n5,c,1\n")
    models = [
        "popularity",
        "random",
        "ease",
        {"name": "own", "type": "lists", "params": {"path": "list.csv"}},
    ]
    outcome = run_bakeoff(load(config(models=models)))
    allowed = {*POOL}
    for model in outcome.models:
        assert model.top_n is not None, model.error
        listed = [(row["user"], row["item"]) for row in model.top_n.to_pylist()]
        assert listed and set(listed) <= allowed
        if model.model != "own":
            assert set(listed) == allowed  # short pools make short lists
    own = outcome.models[-1].top_n.to_pandas()
    assert list(zip(own.user, own.item, strict=True)) == [(1, "d"), (1, "e"), (2, "f"), (3, "f")]


def test_pool_recall_is_the_share_of_the_relevant_truth_in_the_pool() -> None:
    scores = run_bakeoff(load(config())).models[0].per_user
    assert scores.users.tolist() == [1, 2, 3, 4, 5]
    assert scores.column("pool_recall").tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert scores.column("recall@3").tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_what_the_data_lacks_what_repeats_and_who_has_no_pool_is_said() -> None:
    pool_of([*POOL, (1, "d"), (9, "d"), (1, "x"), (2, "y"), (1, "a")])
    observer = RecordingObserver()
    (prepared,) = prepare(load(config()), None, observer)
    told = "\n".join(prepared.info.notes)
    for part in (
        "pool.csv: 1 user left out that the data does not have, such as 9",
        "pool.csv: 2 items left out that the data does not have, such as 'x'",
        "1 of 11 rows left out that repeat a pair",
        "2 of 5 test users have no pool, such as 4: they get no list and score 0",
        "2 to 2 items a user (median 2) for 3 test users",
        "1 pair is in the train data: left out (recommend.seen: keep ranks such pairs)",
        "it has 2 of 5 relevant held-out items (40 %)",
    ):
        assert part in told


@pytest.mark.parametrize(("seen", "listed"), [(None, "de"), ("drop", "de"), ("keep", "ade")])
def test_items_of_the_train_data_are_dropped_from_the_pool_unless_they_are_kept(seen, listed):
    pool_of([*POOL, (1, "a")])
    outcome = run_bakeoff(load(config(recommend={} if seen is None else {"seen": seen})))
    top_n = outcome.models[0].top_n
    assert "".join(sorted(row["item"] for row in top_n.to_pylist() if row["user"] == 1)) == listed


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_and_separator_can_be_named(suffix: str) -> None:
    pool_of(POOL, f"named.{suffix}", "uid", "iid")
    if suffix == "csv":
        Path("named.csv").write_text(Path("named.csv").read_text().replace(",", ";"))
    named = {"path": f"named.{suffix}", "user": "uid", "item": "iid"}
    named |= {"separator": ";"} if suffix == "csv" else {}
    (prepared,) = prepare(load(config(recommend=named)), None, RecordingObserver())
    included = prepared.candidates[0].included
    assert included.counts.tolist() == [2, 2, 2, 0, 0]


def test_paths_have_places_for_dataset_split_and_fold() -> None:
    for fold in (1, 2):
        pool_of([(u, i) for u, i, _ in DATA if (u + fold) % 2], f"shop-kfold-{fold}.csv")
    changes = {"split": {"type": "kfold", "k": 2}, "recommend": {"path": "{dataset}-{split}-{fold}.csv"}}
    (prepared,) = prepare(load(config(**changes)), None, RecordingObserver())
    first, second = (set(np.flatnonzero(c.included.counts)) for c in prepared.candidates if c.included)
    assert first <= {1, 3}
    assert second <= {0, 2}
    Path("shop-kfold-2.csv").unlink()
    assert "file not found" in refusal(**changes)
    assert "shop-kfold-1.csv" in refusal(**changes)


@pytest.mark.parametrize(
    ("recommend", "part"),
    [
        ({"path": "pol.csv"}, "did you mean 'pool.csv'"),
        ({"user": "users"}, "did you mean 'user'"),
        ({"item": "user"}, "cannot be both user and item"),
        ({"path": None}, "candidates: given needs path"),
        ({"negatives": 9}, "negatives goes with candidates: sampled, not with given"),
        ({"candidates": "unseen"}, "path goes with candidates: given, not with unseen"),
        ({"candidates": "sampled", "negatives": 3}, "path goes with candidates: given, not with sampled"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(recommend: dict[str, Any], part: str) -> None:
    assert part in refusal(recommend=recommend)


def test_the_metric_needs_a_pool() -> None:
    assert "'pool_recall' needs a pool" in refusal(recommend={"candidates": "all", "path": None})


@pytest.mark.parametrize(
    ("pool", "part"),
    [
        ([], "there are no rows, and a pool needs some"),
        ([("x1", "d")], "user ids are text in the table (such as 'x1'), but integers in the data"),
        ([(1, 7)], "none of its items is in the data: column 'item' has ids such as '7'"),
        ([(8, "d")], "none of its users is in the data"),
        ([(1, "e"), (3, "f")], "pool.csv has none of the 5 relevant held-out items"),
        ([(1, "d"), (2, None)], "column 'item', row 2"),
    ],
)
def test_a_pool_that_cannot_be_ranked_is_refused_before_any_fit(pool: list[Any], part: str) -> None:
    pool_of(pool)
    text = refusal()
    assert part in text
    assert "recommend.path" in text


def test_a_pool_that_changes_is_ranked_anew_and_an_unchanged_one_is_not() -> None:
    def run(**options: Any) -> Bakeoff:
        return run_bakeoff(load(config()), **options)

    first = run()
    with pytest.raises(UnchangedError):
        run(if_changed=True)
    pool_of([*POOL, (3, "b")])
    second = run(if_changed=True)
    before, after = (o.models[0].per_user for o in (first, second))
    assert before.column("recall@3").tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert after.column("recall@3").tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert first.comparisons[0].contest.rules.pool != second.comparisons[0].contest.rules.pool


def test_a_program_gets_the_pool() -> None:
    Path("ranked.py").write_text(
        "import sys, pandas as pd\n"
        "pool = pd.read_csv(sys.argv[1])\n"
        "pool['rank'] = pool.groupby('user').cumcount() + 1\n"
        "pool.to_csv(sys.argv[2], index=False)\n"
    )
    params = {"command": [sys.executable, "ranked.py", "{candidates}", "{out}"], "format": "csv"}
    outcome = run_bakeoff(load(config(models=[{"name": "program", "type": "command", "params": params}])))
    top_n = outcome.models[0].top_n
    assert top_n is not None, outcome.models[0].error
    assert {(row["user"], row["item"]) for row in top_n.to_pylist()} == set(POOL)


def test_tuning_needs_a_pool_that_has_the_validation_truth() -> None:
    tuned = {"models": [{"name": "ease", "type": "ease", "tune": {"l2": [1.0, 10.0]}}]}
    tuned |= {"tune": {"budget": {"trials": 2}, "prune": "none"}}

    def start(**recommend: Any) -> Bakeoff:
        return run_bakeoff(load(config(recommend=recommend, **tuned)))

    with pytest.raises(DataError, match=r"tune: .*none of the .*recommend\.validation"):
        start()
    before_last = [(u, i) for u, i, t in DATA if t == 2]
    pool_of([*POOL, before_last[0]])
    with pytest.raises(DataError, match=r"the pool has 20 % of the relevant validation items.*at least 50 %"):
        start()
    pool_of(POOL)
    pool_of(before_last, "validation.csv")
    outcome = start(validation="validation.csv")
    assert outcome.models[0].error is None


def test_pool_recall_has_the_same_bits_however_users_are_divided() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"user": rng.integers(0, 50, 400), "item": rng.integers(0, 30, 400)}
    ).drop_duplicates()
    truth = Interactions.from_frame(frame)
    pool = truth.select(np.flatnonzero(rng.random(len(truth)) < 0.6)).rows
    top_n = TopN(
        np.arange(50, dtype=np.int32),
        rng.permuted(np.tile(np.arange(30), (50, 1)), axis=1)[:, :5].astype(np.int32),
        np.zeros((50, 5)),
    )
    specs = [parse("pool_recall"), parse("recall@5"), parse("auc")]
    candidates = Candidates("given", included=pool)
    whole = score_top_n(Blocks.of(top_n, truth, candidates=candidates), specs)
    for halves in (2, 5):
        states = []
        for part in range(halves):
            mine = np.arange(50) % halves == part
            some = TopN(top_n.user[mine], top_n.item[mine], top_n.score[mine])
            blocks = Blocks.of(some, truth.select(mine[truth.user]), candidates=candidates)
            states.append(score_part(blocks, specs))
        merged = with_ids(ScorerState.merge(states[::-1]).scores(), Split(truth, truth, overlap_allowed=True))
        assert np.array_equal(merged.values, whole.values, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("where", [{"workers": 2}, {"engine": {"type": "local", "users_per_task": 2}}])
def test_scores_are_the_same_wherever_tasks_run(where: dict[str, Any]) -> None:
    models = {"models": ["random", "ease"], "metrics": ["recall@3", "pool_recall", "auc", "ndcg@2"]}
    here = run_bakeoff(load(config(**models)), mode="fresh").models
    there = run_bakeoff(load(config(**models, **where)), mode="fresh").models
    for one, other in zip(here, there, strict=True):
        assert other.per_user is not None, other.error
        assert np.array_equal(one.per_user.values, other.per_user.values, equal_nan=True)


def test_a_pool_made_from_the_truth_is_a_finding() -> None:
    pool_of([(u, i) for u, i, t in DATA if t == 3] + [(1, "e"), (2, "e"), (5, "c")])
    workspace = Workspace.open(load(config()))
    (checked,) = checked_data(workspace)
    (finding,) = (f for f in checked.info.findings if f.code == "EV107")
    assert "have every held-out item" in finding.line
    pool_of(POOL)
    workspace = Workspace.open(load(config()))
    (checked,) = checked_data(workspace)
    assert "EV107" not in {finding.code for finding in checked.info.findings}


# Of Ferrari Dacrema, Boglio, Cremonesi and Jannach 2021, "A troubling analysis of reproducibility and progress in
# recommender systems research", Table 4: CiteULike of CMN, one held-out item among 100 negatives.
CITEULIKE = {
    # The order of items with the same number of users is not known: ours is within 0.0008.
    "popularity": ((0.1810, 0.1226, 0.2774, 0.1537), 8e-4),
    "ease": ((0.8116, 0.6973, 0.8806, 0.7197), 5e-5),
}


@pytest.mark.slow
def test_published_values_on_fixed_negatives_come_out() -> None:
    home = os.environ.get("EVALPLUGIN_DATA_HOME")
    file = Path(home or "", "published", "citeulike-cmn", "citeulike-a.npz")
    if not file.exists():
        pytest.skip("EVALPLUGIN_DATA_HOME has no published/citeulike-cmn/citeulike-a.npz")
    arrays = np.load(file, allow_pickle=True)
    test = arrays["test_data"].item()
    pool_of(arrays["train_data"][:, :2].tolist(), "train.csv")
    pool_of([(user, positive) for user, (positive, _) in test.items()], "test.csv")
    pool_of([(u, i) for u, (positive, negatives) in test.items() for i in (positive, *negatives)], "pool.csv")
    data = {"name": "citeulike", "type": "csv", "path": {"train": "train.csv", "test": "test.csv"}}
    names = ["hit@5", "ndcg@5", "hit@10", "ndcg@10"]
    outcome = run_bakeoff(
        load(
            config(
                datasets=[data],
                split={"type": "given"},
                recommend={"n": 10},
                metrics=[*names, "pool_recall"],
                models=["popularity", {"name": "ease", "type": "ease", "params": {"l2": 523}}],
            )
        )
    )
    assert "EV107" in {finding.code for finding in outcome.findings}
    for model in outcome.models:
        assert model.per_user is not None, model.error
        assert model.per_user.means["pool_recall"] == 1.0
        published, tolerance = CITEULIKE[model.model]
        assert [model.per_user.means[name] for name in names] == pytest.approx(published, abs=tolerance)
