"""Pictures of every user's scores, and their axis."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from evalplugin.metrics import parse
from evalplugin.report.charts.distribution import Curve, axis_limits, user_pictures

LEVELS = {"random": 0.1, "knn": 0.3, "svd $x_1$": 0.5}


def curves() -> list[Curve]:
    rng = np.random.default_rng(0)
    return [
        curve(name, np.clip(rng.normal(level, 0.2, 300), 0, 1), f"#{i}0A0FF")
        for i, (name, level) in enumerate(LEVELS.items())
    ]


def curve(name: str, values: np.ndarray, colour: str = "#0072B2") -> Curve:
    return Curve(name, values, {"colour": colour, "shape": "circle"}, name == "random")


def pictures(curves: list[Curve], place: str = "shop") -> dict[str, bytes]:
    drawn = user_pictures(parse("ndcg@10"), curves, (0.0, 1.0), place, "user")
    return {model: draw() for model, draw in drawn}


def test_every_model_gets_a_picture_of_the_same_size_each_time_the_same() -> None:
    drawn = pictures(curves())
    assert list(drawn) == list(LEVELS)
    assert {Image.open(io.BytesIO(png)).size for png in drawn.values()} == {(960, 660)}
    assert len(set(drawn.values())) == len(LEVELS)
    assert pictures(curves()) == drawn


def test_the_other_models_are_grey() -> None:
    *others, last = curves()
    recoloured = [curve(c.model, c.values, "#ABCDEF") for c in others]
    assert pictures([*recoloured, last])[last.model] == pictures(curves())[last.model]


def test_lines_of_other_models_are_drawn_as_if_each_were_a_mark_of_its_own() -> None:
    def drawn(*others: str) -> np.ndarray:
        own, *rest = reversed(curves())
        (png, *_) = pictures([own, *(c for c in rest if c.model in others)]).values()
        return np.asarray(Image.open(io.BytesIO(png)).convert("L"), dtype=int)[150:]  # without the heading

    # Where none of them is, both together change nothing.
    alone, first, second, both = drawn(), drawn("random"), drawn("knn"), drawn("random", "knn")
    changed = (first != alone) | (second != alone)
    assert changed.any()
    np.testing.assert_array_equal(both[~changed], alone[~changed])


@pytest.mark.parametrize(
    "name", ["協調フィルタリング", "a" * 500, "<b>|$", "$title", "var(--ink)", "\x1b\ud800"]
)
def test_any_name_can_be_drawn_and_the_picture_keeps_its_size(name: str) -> None:
    (png,) = pictures([curve(name, np.array([0.5, 1.0]))], place=name).values()
    assert Image.open(io.BytesIO(png)).size == (960, 660)


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
