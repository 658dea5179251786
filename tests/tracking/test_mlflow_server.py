"""A whole bake-off logged to a real MLflow server over HTTP, and looked at in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from chromium import needs_chromium, started
from mlflow import MlflowClient

import evalplugin
from evalplugin.report.notebook import Comparisons
from evalplugin.tracking.write.board import Links
from evalplugin.tracking.write.contents import page_artifact
from evalplugin.tracking.write.tracker import MlflowTracker

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def links(server: SimpleNamespace, make: SimpleNamespace) -> Links:
    result = make.whole()
    tracker = MlflowTracker.open(result.plan, server.url)
    for model in result.models:
        tracker.start_model(model.data, model.model, model.type)
        tracker.finish_model(model)
    comparisons = make.comparisons(result)
    return tracker.finish_bakeoff(result.models, comparisons, items=[page_artifact(comparisons)])


def test_a_bakeoff_logged_over_http_is_whole(links, server, capsys):
    client = MlflowClient(tracking_uri=server.url)
    found = client.search_runs([links.experiment_id], "tags.`evalplugin.role` = 'model'")
    runs = {run.info.run_name: run for run in found}
    assert {name: run.info.status for name, run in runs.items()} == {
        "random": "FINISHED",
        "knn": "FINISHED",
        "svd": "FINISHED",
        "broken": "FAILED",
    }
    knn = runs["knn"].info.run_id
    assert len(client.get_metric_history(knn, "per_user_quantile/ndcg_at_10")) == 21
    files = {file.path for file in client.list_artifacts(knn)}
    assert {"summary.md", "per_user.json", "per_user_ndcg_at_10.png", "config.yaml", "data"} <= files
    assert len(runs["knn"].inputs.dataset_inputs) == 2
    assert links.warnings == ()
    assert links.ui_command is None
    models = {model.name: model for model in client.search_logged_models([links.experiment_id])}
    assert {models[name].model_id for name in runs} == {
        output.model_id for run in runs.values() for output in run.outputs.model_outputs
    }
    values = {metric.key: metric for metric in models["knn"].metrics}
    assert values["ndcg_at_10"].value == runs["knn"].data.metrics["ndcg_at_10"]
    assert values["ndcg_at_10"].dataset_name == "toy test"
    assert links.board_url.startswith(f"{server.url}/#/experiments/")


def test_nothing_is_printed(server, make, capfd):
    tracker = MlflowTracker.open(make.bakeoff(("knn",), experiment="quiet"), server.url)
    tracker.start_model(make.data_info(), "knn", "x")
    tracker.finish_model(make.model_result("knn"))
    assert capfd.readouterr() == ("", "")


@pytest.fixture(scope="module")
def scored(server: SimpleNamespace) -> Comparisons:
    """A table of scores, logged."""
    generator = np.random.default_rng(4)
    table = pd.DataFrame(
        {
            "question": [f"q{number}" for number in range(90)] * 3,
            "llm": np.repeat(["small", "large", "tuned"], 90),
            "text": [number // 3 for number in range(90)] * 3,
            "subject": ["law", "art"] * 135,
            "right": generator.random(270) < np.repeat([0.3, 0.5, 0.8], 90),
        }
    )
    return evalplugin.compare_scores(
        table, unit="question", model="llm", value="right", cluster="text", segments="subject", baseline="small",
        log=True, experiment="answers", tracking_uri=server.url,
    )  # fmt: skip


def test_a_table_of_scores_logged_over_http_is_read_back(scored, server):
    read = evalplugin.compare(experiment="answers", tracking_uri=server.url)
    pd.testing.assert_frame_equal(read.to_frame(), scored.to_frame())
    assert read[0].contest.units.noun == "question"


@pytest.fixture
def page() -> Iterator[Page]:
    with started() as browser:
        page = browser.new_page(viewport={"width": 1700, "height": 2600})
        page.set_default_timeout(30_000)
        yield page


@needs_chromium
@pytest.mark.slow
@pytest.mark.browser
def test_the_board_shows_all_models_best_first_in_its_own_sections(links, page, tmp_path):
    page.goto(links.board_url)
    for section in (
        "Mean over users",
        "Metric at k (step = k)",
        "Difference from the baseline",
    ):
        page.get_by_text(section, exact=True).first.wait_for()
    page.locator(".js-plotly-plot .barlayer path").first.wait_for()
    page.locator(".js-plotly-plot .scatterlayer path.js-line").first.wait_for()
    assert page.get_by_text("Bake-off 20260101-120000-3f2a").count() >= 1
    # The list of runs is folded, so that two charts have room in a row.
    page.locator('[data-component-id="mlflow.experiment_page.table_resizer.collapse"]').click()
    page.get_by_role("link", name="broken").first.wait_for()
    shown = [name.strip() for name in page.get_by_role("link").all_inner_texts()]
    models = ("random", "knn", "svd", "broken")
    assert [name for name in shown if name.startswith(models)] == ["svd", "knn", "random", "broken"]
    page.get_by_text("Parameters that differ", exact=True).first.scroll_into_view_if_needed()
    page.get_by_text("Show differences only").first.wait_for()
    assert page.screenshot(path=tmp_path / "board.png")


@needs_chromium
@pytest.mark.browser
@pytest.mark.slow
def test_the_table_of_the_board_begins_with_the_metrics(links: Links, page: Page) -> None:
    page.goto(links.board_url.replace("compareRunsMode=CHART", "compareRunsMode=TABLE"))
    page.get_by_role("columnheader", name="ndcg_at_10").first.wait_for()
    left = {}
    for name in ("ndcg_at_10", "recall_at_10", "cost/fit_seconds"):
        box = page.get_by_role("columnheader", name=name).first.bounding_box()
        left[name] = box["x"]
    assert sorted(left, key=lambda name: left[name]) == ["ndcg_at_10", "recall_at_10", "cost/fit_seconds"]


@needs_chromium
@pytest.mark.browser
@pytest.mark.slow
def test_the_tab_models_compares_by_dataset(links: Links, page: Page, server: SimpleNamespace) -> None:
    page.set_viewport_size({"width": 3000, "height": 900})  # columns beyond the edge are not drawn
    page.goto(f"{server.url}/#/experiments/{links.experiment_id}/models?workflowType=machine_learning")
    for name in ("svd", "knn", "random", "broken"):
        page.get_by_role("link", name=name, exact=True).first.wait_for()
    page.get_by_text("toy test").first.wait_for()
    page.get_by_text("ndcg_at_10", exact=True).first.wait_for()


@pytest.mark.slow
@needs_chromium
@pytest.mark.browser
def test_the_compare_page_puts_pictures_side_by_side(links: Links, page: Page) -> None:
    page.goto(links.compare_url)
    page.get_by_text("Comparing 3 Runs from 1 Experiment").wait_for()
    page.get_by_text("per_user_ndcg_at_10.png", exact=True).first.dispatch_event("click")
    page.wait_for_function(
        "new Set([...document.images].filter(i => i.naturalWidth === 960 && i.naturalHeight === 660)"
        ".map(i => i.src)).size === 3"
    )


@pytest.mark.slow
@needs_chromium
@pytest.mark.browser
def test_the_comparison_page_works_inside_of_mlflow(links: Links, page: Page) -> None:
    page.goto(links.page_url)
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="Leaderboard").wait_for()
    models = frame.get_by_role("table").first.locator("tbody tr").all_inner_texts()
    assert [text.split()[1] for text in models[:3]] == ["svd", "knn", "random"]
    frame.locator("svg.marks path").first.wait_for()  # drawn by scripts that the frame lets run


@pytest.mark.slow
@needs_chromium
@pytest.mark.browser
def test_a_table_of_scores_is_shown_in_mlflow(scored: Comparisons, page: Page) -> None:
    page.goto(scored.links.page_url)
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="Leaderboard").wait_for()
    models = frame.get_by_role("table").first.locator("tbody tr").all_inner_texts()
    assert [text.split()[1] for text in models[:3]] == ["tuned", "large", "small"]
    assert "90 questions" in frame.locator("body").inner_text()
    page.goto(scored.links.board_url)
    for section in ("Mean over questions", "Difference from the baseline"):
        page.get_by_text(section, exact=True).first.wait_for()
    page.goto(scored.links.compare_url)
    page.get_by_text("Comparing 3 Runs from 1 Experiment").wait_for()
