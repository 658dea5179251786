from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from samples import checked_data, dataset_of_values, small_config

import evalplugin
from evalplugin.execution.observer import Observer
from evalplugin.features.config import load
from evalplugin.models import MODELS
from evalplugin.workspace import Workspace

STARS = (1, 2, 3, 4, 5)
Check = Callable[..., list[str]]


class Warned(Observer):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Return a function that prepares a config on a CSV file of some values and returns the warnings."""

    def run(values: tuple[float, ...], *, column: str = "stars", **changes: Any) -> list[str]:
        mine = dataset_of_values(tmp_path, values, column, rating=changes.pop("rating", column))
        if "timestamp" in changes:
            mine = {key: value for key, value in mine.items() if key != "timestamp"}
            frame = pd.read_csv(tmp_path / "data.csv").drop(columns="time")
            frame.to_csv(tmp_path / "data.csv", index=False)
            del changes["timestamp"]
        observer = Warned()
        mine_alone = {"checks": {"ignore": ["EV101", "EV102"]}}  # all items of the data are in every row
        config = load(small_config(datasets=[mine], **mine_alone, **changes))
        workspace = Workspace.open(config, observer=observer)
        (prepared,) = checked_data(workspace)
        assert [finding.line for finding in prepared.info.findings] == observer.warnings
        return observer.warnings

    return run


@pytest.mark.parametrize("values", [STARS, (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5), (20, 55.5, 80, 100)])
def test_explicit_ratings_without_a_threshold_are_a_warning(check: Check, values: tuple[float, ...]) -> None:
    (warning,) = check(values, relevance={})
    for part in ("mine", "relevance.threshold", f"{values[0]:g} to {values[-1]:g}", "100 %", "threshold: "):
        assert part in warning


def test_a_threshold_that_every_rating_reaches_is_a_warning(check: Check) -> None:
    (warning,) = check(STARS, relevance={"threshold": 1.0})
    assert "every rating reaches relevance.threshold: 1" in warning


ZEROS = (0, 0, 0, 0, 0, 0, 5, 7, 8, 10)


def test_zeros_may_be_no_ratings_and_no_threshold_is_proposed_that_all_or_none_reach(check: Check) -> None:
    for relevance in ({}, {"threshold": 0}):
        (warning,) = check(ZEROS, relevance=relevance)
        assert 'are 0, which may mean "no rating"' in warning
        assert "threshold: 8}, which 5" in warning
        assert "of the ratings above 0 reach" in warning


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 1, 1, 1, 1, 1, 2, 2, 2.5), 2),  # of the median all would be relevant
        ((1, 4, 5, 5, 5, 5), 5),
        ((-1, 0, 1), 1),
        ((11 / 3, 10 / 3, 3), 10 / 3),
    ],
)
def test_the_proposed_threshold_divides_the_ratings(check, values, expected):
    (warning,) = check(values, relevance={}, metrics=["recall@10"])
    proposed = float(warning.split("threshold: ")[1].split("}")[0])
    assert proposed == pytest.approx(expected)
    check(values, relevance={"threshold": proposed}, metrics=["recall@10"])  # DataError: no rating reaches it


@pytest.mark.parametrize("values", [(1,), (0, 1), (1, 1, 1, 2, 3), (1, 1, 2, 3, 500)])
def test_implicit_data_and_counts_need_no_threshold(check: Check, values: tuple[float, ...]) -> None:
    assert check(values, relevance={}, metrics=["recall@10"]) == []


def test_counts_as_gain_of_ndcg_are_a_warning(check: Check) -> None:
    counts = (1, 2, 3, 12, 324660)
    (warning,) = check(counts, relevance={}, metrics=["ndcg@10", "recall@10"])
    for part in ("EV115", "ndcg@10", "324,660", "ndcg(gain=binary)@10", "logarithm"):
        assert part in warning
    assert check(counts, relevance={}, metrics=["ndcg(gain=binary)@10", "recall@10"]) == []


@pytest.mark.parametrize(
    "column",
    ["stars", "Rating", "user_rating", "ratingValue", "overall", "review/overall", "weight", "play_count"],
)
def test_an_unused_column_of_ratings_is_a_warning(check: Check, column: str) -> None:
    (warning,) = check(STARS, column=column, rating=None, relevance={})
    for part in ("mine", f"column {column!r}", f"rating: {column}"):
        assert part in warning


@pytest.mark.parametrize(
    "column", ["when", "unixReviewTime", "created_at", "rating_time", "t_dat", "playedAt"]
)
def test_an_unused_column_of_times_is_a_warning(check: Check, column: str) -> None:
    mine = {"timestamp": None, "split": "holdout", "relevance": {}, "metrics": ["recall@10"]}
    (warning,) = check((1.0,), column=column, rating=None, **mine)
    assert f"{column!r} looks like times and is not used: the data has no times; set timestamp:" in warning


@pytest.mark.parametrize("column", ["operating_hours", "price", "started", "overall_length", "release_date"])
def test_other_unused_columns_are_no_warning(check: Check, column: str) -> None:
    assert check(STARS, column=column, rating=None, relevance={}) == []


KNN = {"name": "knn", "type": "surprise.KNNBasic", "grid": {"k": [3, 5]}}
COSINE = {"name": "cos", "type": "sklearn.NearestNeighbors"}
BY_RECALL: dict[str, Any] = {"relevance": {}, "metrics": ["recall@10"]}  # takes no gain
PREDICTS = """
from dataclasses import dataclass
import evalplugin

@evalplugin.model("predicts")
@dataclass
class Predicts:
    def fit(self, train, rng): ...

    def scores(self, users): ...

    def predict(self, users, items): ...
"""


def test_raw_counts_for_neighbour_models_are_a_warning(check: Check) -> None:
    (warning,) = check((1, 1, 1, 2, 9000), models=["random", KNN, COSINE], **BY_RECALL)
    for part in ("mine", "knn(k=3), knn(k=5), cos", "1 to 9,000", "logarithm", "values: binary"):
        assert part in warning


def test_every_model_that_reads_raw_values_is_named(check: Check, tmp_path: Path) -> None:
    (tmp_path / "predicts.py").write_text(PREDICTS)
    types = dict.fromkeys((entry.name for entry in MODELS if entry.name.startswith("surprise.")), ())
    types |= {"sklearn.TruncatedSVD": (), "sklearn.NMF": ["values"], "ease": ["values"], "predicts": ()}
    raw = [
        {"name": f"raw {type}", "type": type, "params": dict.fromkeys(names, "rating")}
        for type, names in types.items()
    ]
    binary: list[Any] = ["ease", {"type": "sklearn.TruncatedSVD", "params": {"values": "binary"}}]
    if find_spec("implicit") is not None:
        own = ("AlternatingLeastSquares", "BM25Recommender")
        raw += [{"name": name, "type": f"implicit.{name}"} for name in own]
        binary.append("implicit.BayesianPersonalizedRanking")
    models, plugins = ["random", *binary, *raw], [str(tmp_path / "predicts.py")]
    (warning,) = check((1, 1, 1, 2, 9000), models=models, plugins=plugins, **BY_RECALL)
    assert f"models: {', '.join(model['name'] for model in raw)} read raw values" in warning


def test_neighbour_models_on_ratings_or_binary_values_are_no_warning(check: Check) -> None:
    assert check(STARS, models=["random", KNN, COSINE]) == []
    binary = {**COSINE, "params": {"values": "binary"}}
    assert check((1, 1, 1, 2, 9000), models=["random", binary], **BY_RECALL) == []


SERVED = """
from dataclasses import dataclass
import evalplugin

@evalplugin.model("served")
@dataclass
class Served:
    options: dict[str, str]

    def fit(self, train, rng): ...

    def scores(self, users): ...
"""


def test_a_model_that_reads_a_registered_version_is_a_warning(check: Check, tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(SERVED)
    served = {"name": "live", "type": "served", "params": {"options": {"uri": "models:/shop@champion"}}}
    (warning,) = check(STARS, models=["random", served], plugins=[str(tmp_path / "served.py")])
    for part in ("mine", "live", "models:/shop@champion", "leakage", "gate.champion"):
        assert part in warning
    other = {**served, "params": {"options": {"uri": "lists.csv"}}}
    assert check(STARS, models=["random", other], plugins=[str(tmp_path / "served.py")]) == []


def test_warning_of_a_bake_off_run_from_python_is_a_python_warning(uri: str) -> None:
    config = small_config(relevance={}, segments=[], tracking={"uri": uri, "board": False})
    with pytest.warns(UserWarning, match="relevance.threshold is not set") as warned:
        evalplugin.run(config)
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*relevance.threshold is not set")
        evalplugin.run(config)
