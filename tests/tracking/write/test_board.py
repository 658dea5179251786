"""The saved view of MLflow's run page, as a value."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from samples import Results

from evalplugin.tracking.write.board import (
    MAX_EXPERIMENT_TAG,
    Links,
    board_of,
    board_tag,
    why_no_board,
)


@pytest.fixture
def board(make: SimpleNamespace) -> dict[str, Any]:
    result = make.whole()
    made = board_of(*result, make.comparisons(result)[0])
    assert made is not None
    return made


def query(path: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(path.replace("/#", "")).query)


def test_a_board_has_a_section_for_each_kind_of_chart(board: dict[str, Any]) -> None:
    sections = {s["uuid"]: s["name"] for s in board["compareRunSections"] if s["display"]}
    assert list(sections.values()) == [
        "Mean over users",
        "Metric at k (step = k)",
        "Difference from the baseline",
        "Parameters that differ",
        "Cost",
    ]
    # MLflow cuts these titles where two charts stand side by side, and takes no others; the page has the curves.
    assert not any("per_user_quantile" in str(c) for c in board["compareRunCharts"])
    assert max(s["columns"] for s in board["compareRunSections"] if s["display"]) == 2
    assert board["runListHidden"]  # else there is no room for the titles of two charts
    charts = board["compareRunCharts"]
    assert {c["metricSectionId"] for c in charts} == set(sections)
    assert len({c["uuid"] for c in charts}) == len(charts)
    first = [c["metricKey"] for c in charts if sections[c["metricSectionId"]] == "Mean over users"]
    assert first == ["ndcg_at_10", "recall_at_10", "rr", "coverage_at_10"]


def test_a_board_shows_the_models_of_its_bakeoff_best_first(board: dict[str, Any]) -> None:
    assert board["orderByKey"] == "metrics.`ndcg_at_10`"
    assert board["orderByAsc"] is False
    assert "20260101-120000-3f2a" in board["searchFilter"]
    assert "tags.`evalplugin.dataset` LIKE 'toy'" in board["searchFilter"]
    assert board["runsHiddenMode"] == "SHOW_ALL"


def test_the_table_of_a_board_begins_with_the_headline_metrics(board: dict[str, Any]) -> None:
    order = board["columnOrder"]
    assert order[:2] == ["metrics.`ndcg_at_10`", "metrics.`recall_at_10`"]
    assert set(order) == set(board["selectedColumns"])
    assert "params.`model.type`" in order


def test_a_board_shows_the_parameters_that_differ(make: SimpleNamespace) -> None:
    models = tuple(make.model_result(f"knn{k}", params={"k": k, "sim": {"shrink": 1}}) for k in (10, 40))
    result = Results(make.bakeoff(("knn10", "knn40"), baseline=None), models)
    board = board_of(*result, make.comparisons(result)[0])
    assert board["columnOrder"][-2:] == ["params.`model.type`", "params.`model.k`"]
    (card,) = [card for card in board["compareRunCharts"] if card["type"] == "DIFFERENCE"]
    assert card["showDifferencesOnly"] is True


def test_the_best_error_is_the_lowest(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("knn",), metrics=("rmse",), primary="rmse", baseline=None)
    scores = make.per_user(0.5)
    scores = type(scores)(scores.units, scores.values[:, :1], ("rmse",))
    result = Results(asked, (make.model_result("knn", scores=scores),))
    made = board_of(*result, make.comparisons(result)[0])
    assert made["orderByAsc"] is True
    names = [s["name"] for s in made["compareRunSections"] if s["display"]]
    assert "Difference from the baseline" not in names


def test_folds_have_a_section_when_there_are_several(make: SimpleNamespace) -> None:
    result = Results(
        make.bakeoff(("knn",)), (make.model_result("knn", fold_means=({"rr": 0.1}, {"rr": 0.2})),)
    )
    made = board_of(*result, make.comparisons(result)[0])
    assert "Fold by fold (step = fold)" in [s["name"] for s in made["compareRunSections"]]


def test_without_a_value_there_is_no_board(make: SimpleNamespace) -> None:
    result = Results(make.bakeoff(), (make.failed_result("broken"),))
    assert board_of(*result, make.comparisons(result)[0]) is None


def test_the_tag_holds_the_state_as_the_page_reads_it(board: dict[str, Any]) -> None:
    view = json.loads(board_tag("b1", board, 1_700_000_000_000))
    assert view["name"] == "b1"
    assert view["createdAt"] == view["updatedAt"] == 1_700_000_000_000
    head, packed = view["state"].split(";")
    assert head == "deflate"
    assert json.loads(zlib.decompress(base64.b64decode(packed))) == board
    assert len(board_tag("b1", board, 0)) < MAX_EXPERIMENT_TAG / 5


def test_older_mlflow_gets_no_board_and_a_warning() -> None:
    assert why_no_board("3.17.2") is None
    assert why_no_board("4.0.0rc1") is None
    assert why_no_board("3.9.0") == "no board was saved: it takes MLflow 3.17 or newer, and this is 3.9.0"


def links(*boards: str) -> Links:
    return Links("http://host", "7", "s1", "b1", boards, ("a", "b"))


def test_links_open_the_pages_for_models_on_the_board() -> None:
    key = "evalplugin-b1"
    asked = query(links(key).board_url)
    assert asked["workflowType"] == ["machine_learning"]
    assert asked["viewStateShareKey"] == [key]
    assert "searchFilter" not in asked  # a link with a filter opens no saved view
    assert links(key).board_url.startswith("http://host/#/experiments/7/runs?")


def test_links_name_the_workspace_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_WORKSPACE", "team a")
    found = links("key")
    for url in (found.board_url, found.compare_url, found.page_url):
        assert url.endswith("&workspace=team%20a")
    assert "workspace" not in replace(found, tracking_uri="sqlite:////x/mlflow.db").page_url
    monkeypatch.setenv("MLFLOW_WORKSPACE", "default")
    assert "workspace" not in found.page_url


def test_without_a_board_the_link_has_the_filter_itself() -> None:
    assert query(links().board_url)["searchFilter"] == [
        "tags.`evalplugin.bakeoff` = 'b1' and tags.`evalplugin.role` = 'model'"
    ]


def test_the_compare_link_names_every_run() -> None:
    path = links().compare_url_path
    asked = query(path)
    assert json.loads(asked["runs"][0]) == ["a", "b"]
    assert json.loads(asked["experiments"][0]) == ["7"]
    assert asked["workflowType"] == ["machine_learning"]
