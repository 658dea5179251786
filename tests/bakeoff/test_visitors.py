"""Bake-offs of queries in which all sessions of a visitor are one cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bakeoffs import interrupt_bakeoff, run_bakeoff
from samples import RecordingObserver, small_config

import evalplugin
from evalplugin.base.errors import ConfigError, UnchangedError
from evalplugin.cli import main
from evalplugin.comparison.comparison import Comparison
from evalplugin.features.base import Bakeoff
from evalplugin.features.config import load

DAY = 86_400
METRICS = ["rr@10", "hit@3"]
STORE = "sqlite:///mlflow.db"
pytestmark = [pytest.mark.usefixtures("store", "no_drawing"), pytest.mark.filterwarnings("ignore:.*EV1")]


def clicks() -> pd.DataFrame:
    """Return sessions of visitors, some of whom go on to the next item and others go back; the last 60 are of a day."""
    rng = np.random.default_rng(1)
    rows = []
    for session in range(120):
        visitor = int(rng.integers(0, 15))
        item = int(rng.integers(0, 12))
        start = (20 if session >= 60 else session // 10) * DAY + 600 * (session % 60)
        for event in range(int(rng.integers(1, 7))):
            rows.append((session, f"v{visitor}", item, start + event))
            item = (item + int(rng.choice([0, 1, 1, 5]) if visitor % 2 else rng.choice([0, 7, 7, 5]))) % 12
    return pd.DataFrame(rows, columns=["session", "visitor_id", "item", "time"])


def config(frame: pd.DataFrame | None = None, **changes: Any) -> dict[str, Any]:
    (clicks() if frame is None else frame).to_csv("clicks.csv", index=False)
    dataset = {
        "name": "clicks", "type": "csv", "path": str(Path("clicks.csv").absolute()), "user": "session",
        "timestamp": "time", "duplicates": "keep",
    }  # fmt: skip
    return small_config(
        **{
            "seed": 0,
            "datasets": [dataset],
            "split": {"type": "next_item", "cluster": "visitor_id"},
            "relevance": {},
            "recommend": {"n": 10},
            "metrics": METRICS,
            "models": ["session.popularity", "session.markov", "session.knn"],
            "compare": {"baseline": "session.popularity"},
            "tracking": {"uri": STORE},
            **changes,
        }
    )


SESSIONS = {"split": {"type": "next_item"}}


def run(config: dict[str, Any], **options: Any) -> Bakeoff:
    outcome = run_bakeoff(load(config), **options)
    assert [model.error for model in outcome.models] == [None] * 3
    return outcome


def numbers(comparison: Comparison) -> dict[str, str]:
    """Return all means, intervals, tests and models that may be the best, to the last bit."""
    return {
        "unit": repr((comparison.contest.units.noun, comparison.contest.units.independent)),
        "cells": repr({row.model: dict(row.cells) for row in comparison.models}),
        "pairs": repr(comparison.pairs),
        "best": repr({metric: comparison.best[metric] for metric in METRICS}),
    }


def only(comparisons: Any) -> Comparison:
    (comparison,) = comparisons
    assert isinstance(comparison, Comparison)
    return comparison


def test_a_bake_off_gives_what_a_table_of_its_scores_gives() -> None:
    comparison = only(run(config()).comparisons)
    visitor = clicks().drop_duplicates("session").set_index("session")["visitor_id"]
    tables = []
    for model in comparison.contest.models:
        frame = model.scores.to_frame().rename_axis("query").reset_index()
        frame["visitor_id"] = frame["query"].str.split(":").str[0].astype(int).map(visitor)
        tables.append(frame.assign(model=model.model))
    table = pd.concat(tables)
    assert 2 < table["visitor_id"].nunique() < table["query"].str.split(":").str[0].nunique()
    expected = evalplugin.compare_scores(
        table, unit="query", model="model", value=METRICS, cluster="visitor_id", baseline="session.popularity"
    )
    assert numbers(comparison) == numbers(only(expected))
    assert comparison.contest.units.independent == "visitor"


@pytest.mark.slow
def test_cached_resumed_and_read_back_it_has_the_same_bits(capsys: pytest.CaptureFixture[str]) -> None:
    interrupt_bakeoff(load(config()))
    said = RecordingObserver()
    resumed = run(config(), observer=said, mode="resume")
    assert said.has("continuing the bake-off")
    expected = numbers(only(resumed.comparisons))
    assert numbers(only(run(config()).comparisons)) == expected  # all of it cached
    assert numbers(only(run(config(), mode="fresh").comparisons)) == expected
    assert numbers(only(evalplugin.compare(tracking_uri=STORE))) == expected
    # In the terminal and in Markdown too, visitors are the units.
    assert main(["compare", "--tracking-uri", STORE, "--format", "markdown"]) == 0
    shown = capsys.readouterr().out
    assert " visitors" in shown
    assert "session counts once" not in shown


@pytest.mark.slow
def test_only_intervals_and_tests_depend_on_clusters() -> None:
    with_, without = (run(config(**changes)) for changes in ({}, SESSIONS))
    for a, b in zip(with_.models, without.models, strict=True):
        np.testing.assert_array_equal(a.per_user.users, b.per_user.users)
        np.testing.assert_array_equal(a.per_user.values, b.per_user.values)
        assert (a.top_n, a.costs) == (b.top_n, b.costs)  # cached lists: nothing is fitted again
        assert a.per_user.means == b.per_user.means
    wide, narrow = (only(o.comparisons).models[0].cells["rr@10"] for o in (with_, without))
    assert wide.mean == narrow.mean
    assert (wide.clusters or 0) < (narrow.clusters or 0)
    assert (wide.low, wide.high) != (narrow.low, narrow.high)


@pytest.mark.slow
def test_of_changed_clusters_nothing_is_resumed_or_skipped() -> None:
    run(config())
    frame = clicks()
    frame.loc[frame["session"] >= 110, "visitor_id"] = "v99"
    with pytest.raises(UnchangedError):
        run(config(), if_changed=True)
    run(config(frame), if_changed=True)


def test_lists_from_elsewhere_have_the_clusters_of_the_bake_off() -> None:
    outcome = run(config())
    model = next(m for m in outcome.models if m.model == "session.markov")
    test = model.data.test
    pd.DataFrame({"user": test.users[test.user], "item": test.items[test.item]}).to_csv(
        "truth.csv", index=False
    )
    model.top_n.to_pandas()[["user", "item", "rank"]].to_csv("vendor.csv", index=False)
    metrics = [part for name in METRICS for part in ("-m", name)]
    files = ["--lists", "vendor.csv", "--truth", "truth.csv", "--query", "user", *metrics]
    logged = ["--log", "--name", "vendor", "--experiment", "shop", "--tracking-uri", STORE]
    assert main(["score", *files, *logged]) == 0
    read = only(evalplugin.compare("vendor", "session.popularity", tracking_uri=STORE))
    assert read.contest.units.independent == "visitor"
    (vendor,) = (pair for pair in read.pairs if pair.metric == "rr@10")
    expected = next(
        p for p in only(outcome.comparisons).pairs if (p.model, p.metric) == ("session.markov", "rr@10")
    )
    assert (vendor.model, vendor.against) == ("vendor", "session.popularity")
    assert vendor.paired.interval == expected.paired.interval


def test_a_gate_counts_visitors() -> None:
    gate = {"champion": "session.popularity", "min_gain": 0.01, "min_users": 20}
    tested = clicks().query("session >= 60")
    visitors = tested[tested.duplicated("session")]["visitor_id"].nunique()
    decision = run(config(gate=gate)).decision
    conditions = [c for c in decision.conditions if c.challenger == "session.markov"]
    assert [(c.name, c.passed, c.measured) for c in conditions] == [("visitors", False, visitors)]


def test_tuning_takes_no_clusters() -> None:
    knn = {"name": "knn", "type": "session.knn", "tune": {"k": [5, 20]}}
    tune = {"split": {"type": "next_item", "cluster": "visitor_id"}, "budget": {"trials": 2}}
    with pytest.raises(ConfigError, match=r"tune\.split.*: cluster is for intervals"):
        load(config(models=["session.popularity", knn], tune=tune))
    del tune["split"]
    outcome = run_bakeoff(load(config(models=["session.popularity", knn], tune=tune)))
    (_, tuned) = outcome.models
    assert tuned.error is None
    assert dict(tuned.tuning.settings["split"]) == {
        "type": "next_item", "test": "last_day", "days": None, "n_sessions": None, "queries": "all",
        "max_history": 100, "cold": "keep", "cluster": None,
    }  # fmt: skip


@pytest.mark.slow
def test_a_table_of_sessions_names_their_visitors() -> None:
    expected = numbers(only(run(config()).comparisons))
    frame = clicks()
    frame.drop_duplicates("session")[["session", "visitor_id"]].to_csv("sessions.csv", index=False)
    changed = config(frame.drop(columns="visitor_id"))
    changed["datasets"][0]["users"] = {"path": str(Path("sessions.csv").absolute()), "user": "session"}
    assert numbers(only(run(changed).comparisons)) == expected
