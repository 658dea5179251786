"""What notebooks show of a comparison, and of the outcome of a bake-off."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from samples import TINY, small_config

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.features.base import Bakeoff
from evalplugin.report.competition import facts_of
from evalplugin.report.hit_rates import hit_rates
from evalplugin.report.notebook import Comparisons

EVIL = '<img src=x onerror="alert(1)">'


def config(**changes: Any) -> dict[str, Any]:
    own = {
        "datasets": [{**TINY, "n_users": 120, "n_interactions": 3000}],
        "metrics": ["ndcg@10", "rr", "coverage@10"],
        "models": ["random", "popularity", {"name": EVIL, "type": "random", "params": {"legacy_seed": 5}}],
    }
    return small_config(**{**own, **changes})


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"


@pytest.fixture(scope="module")
def outcome(uri: str, no_drawing: None) -> Bakeoff:
    return evalplugin.run(config(), tracking_uri=uri)


class _Tags:
    """The tags, the attributes and the text of cells of HTML whose tags are all closed."""

    def __init__(self, text: str) -> None:
        root = ElementTree.fromstring(f"<all>{text.replace('<br>', '<br/>')}</all>")
        self.tags = {node.tag for node in root.iter() if node is not root}
        self.attributes = {name for node in root.iter() for name in node.attrib}
        self.cells = ["".join(cell.itertext()) for cell in root.iter("td")]


def test_the_table_is_inert_and_takes_its_colours_from_the_notebook(outcome: Bakeoff) -> None:
    text = outcome._repr_html_()
    read = _Tags(text)
    assert read.tags == {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "br", "span"}
    assert read.attributes == {"style"}
    assert EVIL in read.cells
    assert "color:inherit" in text
    assert "background:#" not in text


def test_the_table_has_the_numbers_of_the_frame(outcome: Bakeoff) -> None:
    cells = _Tags(outcome._repr_html_()).cells
    row = outcome.to_frame("ndcg@10").set_index("model").loc["popularity"]
    at = cells.index("popularity")
    assert cells[at + 1] == f"{row['mean']:.4f}{row.low:.4f}–{row.high:.4f}"
    assert cells[at + 2].startswith(f"+{row.difference:.4f} ▲+{row.diff_low:.4f} to +{row.diff_high:.4f}")


def test_the_frame_is_what_was_scored(outcome: Bakeoff) -> None:
    frame = outcome.to_frame()
    assert len(frame) == 3 * 3
    ours, base = (outcome.models[i].per_user.column("rr") for i in (1, 0))
    row = frame[(frame.metric == "rr") & (frame.model == "popularity")].iloc[0]
    assert row["mean"] == pytest.approx(np.nanmean(ours), abs=1e-15)
    assert row.difference == pytest.approx(np.nanmean(ours - base), abs=1e-15)
    groups = outcome.to_frame("rr", segment="activity")
    assert set(groups.segment) == {"activity"}
    assert len(groups) == 3 * groups.group.nunique()


def test_runs_in_the_store_give_the_same_as_the_outcome(outcome: Bakeoff, uri: str) -> None:
    from_store = evalplugin.compare(tracking_uri=uri, bakeoff=outcome.plan.id)
    again = evalplugin.compare(outcome)
    for other in (from_store, again):
        assert other._repr_html_() == outcome._repr_html_()
        assert other.to_frame().equals(outcome.to_frame())


def test_the_decision_is_on_the_page(outcome: Bakeoff, uri: str) -> None:
    compared = evalplugin.compare("popularity", EVIL, tracking_uri=uri, experiment="shop")
    assert "no model is the baseline (random is not among the runs)" in compared._repr_html_()
    assert EVIL not in compared._repr_html_()


def test_comparisons_are_a_sequence(outcome: Bakeoff, uri: str) -> None:
    two = config(datasets=[*config()["datasets"], {**config()["datasets"][0], "name": "more", "n_items": 90}])
    both = evalplugin.run(two, tracking_uri=uri, experiment="two")
    for asked, names in ((outcome, ["tiny"]), (both, ["tiny", "more"])):
        compared = evalplugin.compare(asked)
        assert isinstance(compared, Comparisons)
        assert len(compared) == len(names)
        assert [comparison.contest.dataset for comparison in compared] == names
        assert compared[0].contest.dataset == "tiny"
    assert len(both.plot().to_dict()["vconcat"]) == 2
    assert set(both.to_frame().dataset) == {"tiny", "more"}


def test_an_outcome_is_compared_anew_on_request(outcome: Bakeoff) -> None:
    compared = evalplugin.compare(outcome, baseline="popularity", primary="rr", level=0.5, tests=["t"])
    (comparison,) = compared
    assert (comparison.contest.baseline, comparison.contest.primary) == ("popularity", "rr")
    assert comparison.level == 0.5
    assert set(compared.to_frame().against.dropna()) == {"popularity"}
    assert "p_t" in compared.to_frame()
    with pytest.raises(
        DataError, match=r"an outcome of evalplugin\.run is compared by itself; runs in a store"
    ):
        evalplugin.compare(outcome, bakeoff="x")
    with pytest.raises(DataError, match="is compared by itself"):
        evalplugin.compare(outcome, "popularity")
    with pytest.raises(DataError, match="is called 'popular' to be the baseline; did you mean 'popularity'"):
        evalplugin.compare(outcome, baseline="popular")


def panel(chart: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows of a chart with one panel, and the properties of its horizontal axis."""
    spec = chart.to_dict()
    (panel,) = spec["vconcat"]
    axes = [layer["encoding"]["x"] for layer in panel["layer"] if "title" in layer["encoding"]["x"]]
    return pd.DataFrame(spec["datasets"][spec["data"]["name"]]), axes[0]


def test_the_chart_has_every_difference_with_its_interval(outcome: Bakeoff) -> None:
    drawn, x = panel(outcome.plot("rr"))
    rows = outcome.to_frame("rr").dropna(subset="difference")
    assert list(drawn.model) == list(rows.model)
    for column, name in (("difference", "difference"), ("low", "diff_low"), ("high", "diff_high")):
        assert list(drawn[column]) == list(rows[name])
    assert x["title"] == "rr: difference from random, 95 % intervals  (right is better)"


def test_the_chart_has_means_where_nothing_is_compared(outcome: Bakeoff) -> None:
    drawn, x = panel(outcome.plot("coverage@10"))
    means = outcome.to_frame("coverage@10")["mean"]
    assert list(drawn.difference) == list(drawn.low) == list(drawn.high) == list(means)
    assert x["title"] == "coverage@10  (right is better)"


def test_every_two_models_are_drawn_by_name(outcome: Bakeoff) -> None:
    drawn, x = panel(evalplugin.compare(outcome, pairs="all").plot())
    assert len(drawn) == 3
    assert "popularity − random" in list(drawn.model)
    assert x["title"].startswith("ndcg@10: difference between two models, ")


def test_a_filled_point_is_shown_to_be_better_or_worse(outcome: Bakeoff) -> None:
    drawn, _ = panel(outcome.plot("rr"))
    marks = outcome.comparisons[0].pairs
    shown = [pair.mark for pair in marks if pair.metric == "rr"]
    assert [row.fill == row.colour for row in drawn.itertuples()] == [mark != "" for mark in shown]


def test_the_chart_of_any_names_is_written_to_a_file(uri: str, tmp_path: Path) -> None:
    models = ["random", {"name": "推薦 $x^2", "type": "popularity"}]
    made = evalplugin.run(config(models=models), tracking_uri=uri, experiment="font")
    made.plot().save(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_of_runs_in_a_store_has_their_lists(outcome: Bakeoff, uri: str, tmp_path: Path) -> None:
    from_store = evalplugin.compare(tracking_uri=uri, bakeoff=outcome.plan.id)
    assert all(facts_of(from_store[0].contest, row.model).top_n is None for row in from_store[0].models)
    whole = from_store._complete()[0]
    assert all(facts_of(whole.contest, row.model).top_n is not None for row in whole.models)
    assert whole.pairs == from_store[0].pairs
    assert hit_rates(whole) is not None
    assert hit_rates(whole) == hit_rates(outcome.comparisons[0])
    pages = [thing.to_html(tmp_path / f"{i}.html") for i, thing in enumerate((outcome, from_store))]
    sizes = [page.stat().st_size for page in pages]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.03)  # with data card
    assert all("Hit rate by popularity of items" in page.read_text() for page in pages)


def test_sections_of_features_are_made_once_for_what_is_shown(outcome: Bakeoff) -> None:
    asked = []

    def sections(comparisons: Any) -> list[Any]:
        asked.append(comparisons)
        return []

    shown = Comparisons((*outcome.comparisons, *outcome.comparisons), sections)
    assert shown._repr_html_() and repr(shown) and shown.tables == []
    assert asked == [shown.comparisons]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda o: o.to_frame("rr@5"), r"metric 'rr@5' is not there; did you mean 'rr'\?"),
        (lambda o: o.plot("recall@5"), r"metric 'recall@5' is not there"),
        (lambda o: o.to_frame(segment="age"), r"users are not grouped by 'age'; there are: activity"),
        (lambda o: o.to_html("."), r"\.: the page cannot be written: Is a directory"),
        (lambda o: o.to_html("no/page.html"), r"no/page\.html: there is no folder .*/no to write to"),
    ],
)
def test_unknown_metric_segment_or_folder_is_an_error(asked: Any, message: str, outcome: Bakeoff) -> None:
    with pytest.raises(DataError, match=message):
        asked(outcome)


def test_a_history_shows_its_table(outcome: Bakeoff, uri: str) -> None:
    history = evalplugin.history("shop", tracking_uri=uri)
    text = history._repr_html_()
    read = _Tags(text)
    assert read.attributes == {"style"}
    assert EVIL not in text
    assert f"{outcome.plan.id}" in read.cells[0]
    mean = outcome.comparisons[0].models[0].cells["ndcg@10"].mean
    assert any(cell.startswith(f"{mean:.4f}") for cell in read.cells)
    frame = history.to_frame()
    assert list(frame["model"]) == [point.model.model for point in history.points]


def test_links_show_themselves_with_the_command_to_start_first(outcome: Bakeoff) -> None:
    text = outcome.links._repr_html_()
    assert _Tags(text).tags == {"div", "b", "a", "code"}
    for url in (outcome.links.page_url, outcome.links.board_url, outcome.links.compare_url):
        assert url is not None
        assert f'href="{html.escape(url)}"' in text
    assert f"<code>{html.escape(outcome.links.ui_command or '')}</code>" in text
