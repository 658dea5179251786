"""Pictures of every user's scores."""

from __future__ import annotations

import io

import numpy as np
import pytest

from evalplugin.metrics import parse
from evalplugin.report.figures import Curve, FigureRequest, axis_limits

LEVELS = {"random": 0.1, "knn": 0.3, "svd $x_1$": 0.5}


def curves() -> list[Curve]:
    rng = np.random.default_rng(0)
    return [
        Curve(name, np.clip(rng.normal(level, 0.2, 300), 0, 1), f"#{i}0A0FF", name == "random")
        for i, (name, level) in enumerate(LEVELS.items())
    ]


def pixels(png: bytes) -> np.ndarray:
    from matplotlib.image import imread

    return np.asarray(imread(io.BytesIO(png)))


def test_every_model_gets_a_picture_of_the_same_size() -> None:
    drawn = curves()
    pictures = FigureRequest("ndcg@10", drawn, (0.0, 1.0), {}).draw()
    assert list(pictures) == list(LEVELS)
    assert {pixels(png).shape for png in pictures.values()} == {(440, 640, 3)}


def test_pictures_are_the_same_each_time() -> None:
    first, second = (FigureRequest("ndcg@10", curves(), (0.0, 1.0), {}).draw() for _ in range(2))
    assert first == second


def test_what_the_pictures_of_a_metric_share_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn: list[FigureCanvasAgg] = []
    draw = FigureCanvasAgg.draw
    monkeypatch.setattr(FigureCanvasAgg, "draw", lambda canvas: (drawn.append(canvas), draw(canvas))[1])
    assert len(FigureRequest("rr", curves(), (0.0, 1.0), {}).draw()) == len(LEVELS)
    assert len(drawn) == 1


def test_a_picture_has_nothing_of_the_picture_drawn_before_it() -> None:
    *_, last = curves()
    grey = [Curve(c.model, c.values, "#ABCDEF", c.is_baseline) for c in curves()[:-1]]
    alike = [FigureRequest("rr", [*c, last], (0.0, 1.0), {}).draw() for c in (grey, curves()[:-1])]
    assert len({pictures[last.model] for pictures in alike}) == 1


def test_a_model_without_a_defined_user_gets_no_picture() -> None:
    empty = Curve("empty", np.full(3, np.nan), "#000000")
    assert list(FigureRequest("rr", [empty, *curves()], (0.0, 1.0), {}).draw()) == list(LEVELS)


def test_one_user_is_enough() -> None:
    assert len(FigureRequest("rr", [Curve("a", np.array([0.5]), "#0072B2")], (0.0, 1.0), {}).draw()) == 1


@pytest.mark.parametrize("name", ["協調フィルタリング", "a" * 500, "<b>|$", "עברית"])
def test_any_name_can_be_drawn(name: str) -> None:
    assert FigureRequest(
        "rr", [Curve(name, np.array([0.5, 1.0]), "#0072B2")], (0.0, 1.0), {name: name}
    ).draw()


def test_the_axis_of_a_bounded_metric_that_uses_its_range_ends_at_its_bounds() -> None:
    assert axis_limits(parse("ndcg@10"), [np.array([0.2, 0.9]), np.array([np.nan, 0.3])]) == (0.0, 1.0)


def test_the_axis_of_small_values_ends_above_the_largest() -> None:
    low, high = axis_limits(parse("precision@10"), [np.array([0.0, 0.13])])
    assert low == 0.0
    assert 0.13 <= high <= 0.16


def test_the_axis_of_an_unbounded_metric_holds_every_value() -> None:
    low, high = axis_limits(parse("rmse"), [np.array([0.5, 3.7])])
    assert low <= 0.5
    assert high >= 3.7


@pytest.mark.parametrize("values", [[], [np.array([np.nan])], [np.array([0.0, 0.0])]])
def test_an_axis_is_never_empty(values: list[np.ndarray]) -> None:
    low, high = axis_limits(parse("ndcg@10"), values)
    assert low < high
