"""How models did from one bake-off to the next: rows, tables and the chart."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.cli.show.console import show_table
from evalplugin.features.history.chart import history_spec, write_history
from evalplugin.features.history.history import History, history_of
from evalplugin.features.history.past import PastBakeoff, PastModel, Value
from evalplugin.report.frames import frame_csv, frame_json


def value(mean: float) -> Value:
    return Value(mean, mean - 0.02, mean + 0.02, 400)


def model(name: str, mean: float | Value | None, metric: str = "ndcg@10", **changes: Any) -> PastModel:
    values = {} if mean is None else {metric: mean if isinstance(mean, Value) else value(mean)}
    made = PastModel(name, "toy", "last_n", f"run-{name}", values, {metric: "d1"}, "n=20", "data-1")
    return replace(made, **changes)


def night(number: int, *models: PastModel, metric: str = "ndcg@10", **changes: Any) -> PastBakeoff:
    at = datetime(2026, 11, 1, 3, tzinfo=UTC) + timedelta(days=number)
    made = PastBakeoff(f"b-{number}", at, metric, "random", models)
    return replace(made, **changes)


def test_points_are_in_the_order_of_time_whatever_order_they_come_in() -> None:
    nights = [night(2, model("svd", 0.5)), night(1, model("svd", 0.4), model("knn", 0.3))]
    found = history_of("nightly", nights)
    points = [(p.bakeoff.id, p.model.model) for p in found.points]
    assert points == [("b-1", "svd"), ("b-1", "knn"), ("b-2", "svd")]
    assert {key[2]: len(points) for key, points in found.trends.items()} == {"svd": 2, "knn": 1}
    assert found.metric == "ndcg@10"


def test_roles_are_those_that_a_model_had_then() -> None:
    models = [model("random", 0.1), model("knn", 0.3), model("svd", 0.5)]
    nights = [
        night(1, *models, outcome="promote", champion="knn", promoted="svd"),
        night(2, *models, outcome="keep", champion="svd"),
    ]
    assert [p.role for p in history_of("nightly", nights).points] == [
        "baseline", "champion", "promoted",
        "baseline", "challenger", "champion",
    ]  # fmt: skip


def test_decision_belongs_to_its_dataset_and_split_alone() -> None:
    places = [{"dataset": "one"}, {"dataset": "two"}]
    both = [model(name, 0.5, **place) for place in places for name in ("random", "knn", "svd")]
    decided = {"outcome": "promote", "champion": "random", "promoted": "svd"}
    said = night(1, *both, **decided, decided=("two", "last_n"))
    assert [(p.role, p.outcome) for p in history_of("nightly", [said]).points] == [
        ("baseline", None), ("challenger", None), ("challenger", None),
        ("champion", "promote"), ("challenger", "promote"), ("promoted", "promote"),
    ]  # fmt: skip
    assert history_of("nightly", [said]).to_frame()["outcome"][:3].isna().all()
    unsaid = history_of("nightly", [night(1, *both, **decided)])
    assert {(p.role, p.outcome) for p in unsaid.points} == {("baseline", None), ("challenger", None)}


def test_changed_settings_start_a_new_line() -> None:
    asked = ("k=10", "k=20", "k=20", "k=10")
    nights = [night(i, model("knn", 0.5, settings=one), model("svd", 0.4)) for i, one in enumerate(asked)]
    nights[2:2] = [night(9, model("knn", None, settings="k=20"), at=nights[1].at + timedelta(hours=1))]
    found = {name: points for (_, _, name), points in history_of("nightly", nights).trends.items()}
    assert [p.line for p in found["knn"]] == [0, 1, 1, 1, 2]
    assert {p.line for p in found["svd"]} == {0}


def test_a_metric_that_is_not_there_is_told_with_the_nearest() -> None:
    nights = [night(1, model("svd", 0.5))]
    with pytest.raises(DataError, match="'nightly' was scored by 'ndcg@20'; did you mean 'ndcg@10'"):
        history_of("nightly", nights, "ndcg@20")
    assert history_of("nightly", nights, "ndcg @10").metric == "ndcg@10"
    with pytest.raises(DataError, match="'nightly' has no bake-offs"):
        history_of("nightly", [])


def sample() -> Any:
    coverage = model("svd", Value(0.7), split="other")
    means = ((0.1, 0.3, 0.5), (0.1, 0.31, 0.4), (None, 0.32, 0.3))
    models = [
        [model(name, m) for name, m in zip(("random", "knn", "svd"), row, strict=True)] for row in means
    ]
    nights = [
        night(1, *models[0], outcome="promote", champion="knn", promoted="svd"),
        night(2, *models[1], coverage, outcome="keep", champion="svd"),
        night(3, *models[2], outcome="refuse", champion="svd"),
    ]
    return history_of("nightly", nights)


def test_rows_are_plain_and_say_what_is_unknown() -> None:
    found = sample()
    rows = json.loads(frame_json(found.to_frame()))
    first, last = rows[0], rows[-1]
    shown = [first[name] for name in ("bakeoff", "model", "role", "users")]
    assert shown == ["b-1", "random", "baseline", 400]
    assert (last["model"], last["mean"], last["high"], last["outcome"]) == ("svd", 0.3, 0.32, "refuse")
    failed = next(row for row in rows if row["bakeoff"] == "b-3" and row["model"] == "random")
    assert (failed["mean"], failed["users"]) == (None, None)
    table = list(csv.DictReader(io.StringIO(frame_csv(found.to_frame()))))
    assert [row["model"] for row in table] == [row["model"] for row in rows]
    assert table[[row["mean"] for row in rows].index(None)]["mean"] == ""


def lines_shown(history: History, capsys: pytest.CaptureFixture[str]) -> list[str]:
    for table in history.tables():
        show_table(table)
    return capsys.readouterr().out.splitlines()


def test_the_table_shows_means_with_intervals_roles_and_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_shown(sample(), capsys)
    assert lines[0] == "nightly: ndcg@10 on toy, last_n"
    assert lines[2].split() == ["bake-off", "decision", "knn", "svd", "random"]
    assert lines[4].split() == ["b-1", "promote", "0.3000", "☆", "0.5000", "★", "0.1000"]
    assert " ".join(lines[5].split()) == "2026-11-02 03:00 UTC 0.2800–0.3200 0.4800–0.5200 0.0800–0.1200"
    assert lines[8].split() == ["b-3", "refuse", "0.3200", "0.3000", "☆", "failed"]
    assert "nightly: ndcg@10 on toy, other" in lines


def test_the_table_shows_a_decision_only_where_it_was_taken(capsys: pytest.CaptureFixture[str]) -> None:
    both = [model(name, 0.5, dataset=dataset) for dataset in ("one", "two") for name in ("knn", "svd")]
    decided = {"outcome": "promote", "champion": "knn", "promoted": "svd", "decided": ("one", "last_n")}
    lines = lines_shown(history_of("nightly", [night(1, *both, **decided)]), capsys)
    assert lines[2].split() == ["bake-off", "decision", "knn", "svd"]
    assert lines[4].split() == ["b-1", "promote", "0.5000", "☆", "0.5000", "★"]
    (second,) = (i for i, line in enumerate(lines) if line == "nightly: ndcg@10 on two, last_n")
    assert lines[second + 2].split() == ["bake-off", "knn", "svd"]
    assert lines[second + 4].split() == ["b-1", "0.5000", "0.5000"]


def test_models_are_shown_some_at_a_time_where_all_are_wider_than_the_terminal() -> None:
    models = [model(f"model-{i}", 0.1 * i) for i in range(6)]
    (table,) = history_of("nightly", [night(1, *models)]).tables()
    widths = [12, *[19] * (len(table.columns) - 1)]
    first, second = table.parts(widths, 100)
    assert [part.heads for part in (first, second)] == [
        ("bake-off", "model-5", "model-4", "model-3", "model-2"), ("bake-off", "model-1", "model-0"),
    ]  # fmt: skip
    assert [cell.text for cell in second.rows[0]] == ["b-1", "0.1000", "0.0000"]
    assert list(table.parts(widths, 200)) == [table]


@pytest.mark.parametrize(
    ("changes", "said"), [({}, []), ({"outcome": "keep", "champion": "svd"}, ["☆ champion then."])]
)
def test_footnotes_explain_only_the_signs_that_are_shown(changes, said, capsys):
    nights = [night(i, model("svd", 0.5), **changes) for i in range(2)]
    lines = lines_shown(history_of("nightly", nights), capsys)
    assert [line for line in lines[lines.index("Small: 95 % interval of the mean.") + 1 :] if line] == said


def test_the_picture_has_a_panel_for_each_dataset_and_split_and_every_mean() -> None:
    history = sample()
    spec = history_spec(history)
    assert [panel["title"] for panel in spec["vconcat"]] == ["toy, last_n", "toy, other"]
    drawn = [row for panel in spec["vconcat"] for row in panel["data"]["values"]]
    assert len(drawn) == sum(point.value is not None for point in history.points)


def test_the_picture_joins_only_what_was_asked_alike_and_explains_only_what_it_shows() -> None:
    spec = history_spec(history_of("nightly", [night(i, model("svd", 0.5)) for i in (1, 2)]))
    assert spec["title"]["subtitle"] == "shaded: 95 % interval of the mean"
    nights = [
        night(i, model("svd", 0.5, settings=asked), outcome="promote", champion="random", promoted="svd")
        for i, asked in enumerate(("k=10", "k=10", "k=20"))
    ]
    spec = history_spec(history_of("nightly", nights))
    (panel,) = spec["vconcat"]
    assert all(layer["encoding"]["detail"]["field"] == "line" for layer in panel["layer"])
    assert [(row["line"], row["sign"]) for row in panel["data"]["values"]] == [(0, "★"), (0, "★"), (1, "★")]
    _, *rest = spec["title"]["subtitle"].split(" · ")
    assert rest == ["★ promoted then", "no line where type, parameters or rules changed"]


def test_chart_content_stays_within_its_frame(tmp_path: Path) -> None:
    alone = [night(i, model("svd", Value(mean)), promoted="svd") for i, mean in ((1, 0.7), (2, 0.6))]
    write_history(history_of("nightly", alone), tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text("utf-8")
    stars = re.findall(r'<text [^>]*transform="translate\(([\d.]+),([\d.-]+)\)"[^>]*>★<', drawn)
    assert len(stars) == 2
    assert all(10 < float(x) < 630 and float(y) > 5 for x, y in stars)  # the frame is 640 wide


@pytest.mark.parametrize(
    ("step", "labels"),
    [
        (timedelta(seconds=10), {"03:00 2026-11-01", "03:00:05 2026-11-01"}),
        (timedelta(minutes=10), {"03:00 2026-11-01", "03:05 2026-11-01"}),
        (timedelta(days=2), {"12:00 2026-11-01", "2026-11-02", "12:00 2026-11-02", "2026-11-03"}),
        (timedelta(days=6), {f"2026-11-0{day}" for day in range(2, 8)}),
    ],
)
def test_the_axis_of_time_has_dates(tmp_path: Path, step: timedelta, labels: set[str]) -> None:
    begin = datetime(2026, 11, 1, 3, tzinfo=UTC)
    nights = [night(i, model("svd", 0.5), at=begin + i * step) for i in (0, 1)]
    write_history(history_of("nightly", nights), tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text("utf-8")
    texts = re.findall(r"<text[^>]*>(?:<tspan[^>]*>([\d:]+)</tspan><tspan[^>]*>)?(2026-[\d-]+)<", drawn)
    assert labels <= {" ".join(filter(None, text)) for text in texts}
    assert not re.search(r">:\d\d<", drawn)


@pytest.mark.parametrize(
    ("name", "begins"), [("a.svg", b"<svg"), ("a.PNG", b"\x89PNG"), ("a.html", b"<!DOCTYPE html>")]
)
def test_the_picture_is_written_and_needs_no_network(tmp_path: Path, name: str, begins: bytes) -> None:
    write_history(sample(), tmp_path / name)
    written = (tmp_path / name).read_bytes()
    assert written.startswith(begins)
    assert b'src="http' not in written
    if name.endswith("svg"):
        assert "★ promoted" in written.decode()


def test_unwritable_picture_path_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.svg").mkdir()
    with pytest.raises(DataError, match=r"a.svg: the picture cannot be written: "):
        write_history(sample(), tmp_path / "a.svg")


@pytest.mark.parametrize(
    ("chart", "told"),
    [
        ("none/a.png", "none/a.png: there is no folder "),
        ("a.pdf", "a.pdf: a picture is written as .html, .png, .svg, not '.pdf'"),
    ],
)
def test_the_command_checks_the_picture_before_anything_is_read(chart, told, capsys):
    # There is no store either, which would be told next.
    assert main(["history", "--experiment", "nightly", "--chart", chart]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
