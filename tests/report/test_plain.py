"""What print and repr show of results."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import FAILING, TINY, interactions, small_config

import evalplugin
from evalplugin.data import Split
from evalplugin.execution.results import Finding
from evalplugin.features.base import Bakeoff
from evalplugin.features.config import load
from evalplugin.models import TopN
from evalplugin.report.render.text import LINES, WIDTH, plain_text
from evalplugin.report.table import Table, TableCell, numbers, words


def config(**changes: Any) -> dict[str, Any]:
    own = {"datasets": [{**TINY, "n_users": 120, "n_interactions": 3000}]}
    return small_config(**{**own, **changes})


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, no_drawing: None) -> Bakeoff:
    uri = f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"
    splits = [{"name": f"last {n}", "type": "last_n", "n": n} for n in (1, 2, 3, 4, 5)]
    return evalplugin.run(config(split=splits), tracking_uri=uri)


def check_fits(text: str) -> list[str]:
    lines = text.splitlines()
    assert 1 < len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    return lines


def test_an_outcome_is_printed_as_verdicts_and_tables(outcome: Bakeoff) -> None:
    text = str(outcome)
    lines = check_fits(text)
    assert text == repr(outcome)
    assert "popularity is the best: " in " ".join(lines[:4])
    assert lines[-1].startswith("... (") and lines[-1].endswith("more lines; to_frame() has all numbers)")
    assert lines[0].startswith(f"{TINY['name']}, last 1: ndcg@10")


def test_a_comparison_is_printed_with_its_models_and_marks(outcome: Bakeoff) -> None:
    one = copy(outcome)
    one.comparisons = outcome.comparisons[-1:]
    shown = evalplugin.compare(one, pairs="baseline")
    lines = check_fits(repr(shown))
    (head,) = [i for i, line in enumerate(lines) if line.split()[:2] == ["model", "mean"]]
    first, second = lines[head + 1 : head + 3]
    assert first.startswith("1  popularity") and second.startswith("2  random")
    frame = shown.to_frame("ndcg@10").set_index("model")
    assert f"{frame['mean']['popularity']:.4f} (" in first
    assert any("difference" in line for line in lines[head:])


def test_findings_in_the_results_are_printed(outcome: Bakeoff) -> None:
    one = copy(outcome)
    one.comparisons = outcome.comparisons[-1:]
    here, elsewhere = (
        Finding("EV199", "odd results", dataset=TINY["name"], split=s) for s in ("last 5", "last 1")
    )
    one.result_findings = (here, elsewhere)
    shown = " ".join(check_fits(repr(one)))
    assert f"Warning: {here.line}" in shown and elsewhere.line not in shown


def test_failed_models_and_warnings_are_printed() -> None:
    Path("failing.py").write_text(FAILING)
    outcome = evalplugin.run(config(plugins=["failing.py"], models=["random", "popularity", "failing"]))
    lines = check_fits(repr(outcome))
    assert sum(line.startswith("failing failed: ") and line.endswith("cannot learn") for line in lines) == 1


def test_compared_scores_are_printed() -> None:
    rng = np.random.default_rng(0)
    questions, models = np.tile(np.arange(200), 12), np.repeat(list("abcdefghijkl"), 200)
    table = pd.DataFrame({"question": questions, "llm": models, "score": rng.random(2400)})
    lines = check_fits(repr(evalplugin.compare_scores(table, unit="question", model="llm")))
    assert "This test cannot tell which of " in lines[0] + lines[1]


def test_a_wide_table_loses_its_last_columns_and_says_so() -> None:
    columns = (*words("", "model"), *numbers(*(f"number {i}" for i in range(30))))
    row = tuple(TableCell(f"{i}\u202e") for i in range(32))
    lines = check_fits(plain_text([Table("many", columns, (row,))]))
    assert lines[-1].startswith("Too wide to show: number ") and "number 0" in lines[2]
    assert "\\u202e" in lines[3]  # no control character reaches the terminal


def test_values_with_arrays_have_a_short_repr(outcome: Bakeoff) -> None:
    data = interactions(200, 20, seed=1)
    assert repr(data).startswith("Interactions(user=int32 (2015,), item=int32 (2015,), rating=float32 (2")
    assert repr(data.rows) == "Rows(indptr=int64 (201,), item=int32 (2015,), rating=float32 (2015,))"
    (model, *_) = outcome.models
    users = np.arange(200, dtype=np.int32)
    lists = TopN(users, np.zeros((200, 10), np.int32), np.zeros((200, 10)))
    assert repr(lists) == "TopN(user=int32 (200,), item=int32 (200, 10), score=float64 (200, 10))"
    test = np.arange(len(data)) % 2 == 0
    comparison = outcome.comparisons[0]
    for value in (
        Split(data.select(~test), data.select(test)), outcome.plan, model, model.per_user, comparison,
        comparison.models[0], load(config()),
    ):  # fmt: skip
        assert type(value).__name__ in repr(value)
        assert len(repr(value)) < 4000
