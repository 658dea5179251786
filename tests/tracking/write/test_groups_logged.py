"""What is logged of groups of users, and of the data that a page on them needs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from evalplugin.comparison.comparison import compare
from evalplugin.execution.results import DataInfo
from evalplugin.report.competition import competitions_of
from evalplugin.report.run_summary import summary_markdown
from evalplugin.segments import Segmentation
from evalplugin.tracking.names import is_allowed
from evalplugin.tracking.write.artifacts import model_artifacts
from evalplugin.tracking.write.contents import group_metrics, model_metrics
from evalplugin.tracking.write.writer import write_artifact


def in_groups(make: SimpleNamespace, *labels: str, name: str = "age") -> DataInfo:
    """Data whose users 0 to 199 are dealt out to groups, less every seventh, who is in none."""
    group = np.arange(200, dtype=np.int32) % len(labels)
    group[::7] = -1
    return make.data_info(segments=(Segmentation(name, labels, np.arange(200), group),))


def logged(make: SimpleNamespace, result: object, **asked: object) -> dict[str, float]:
    values = model_metrics(make.bakeoff(**asked), result, {})
    return {m.key: m.value for m in values if m.key.startswith("segment/")}


def test_groups_of_users_have_their_own_means(make: SimpleNamespace) -> None:
    result = make.model_result("knn", info=in_groups(make, "18-25", "26-99 (or more)"))
    values = logged(make, result)
    assert list(values) == [
        f"segment/{what}.age_{group}"
        for group in ("18-25", "26-99 _or more_")
        for what in ("users", "ndcg_at_10")
    ]
    young = result.per_user.column("ndcg@10")[(np.arange(200) % 2 == 0) & (np.arange(200) % 7 > 0)]
    assert values["segment/users.age_18-25"] == np.isfinite(young).sum()
    assert values["segment/ndcg_at_10.age_18-25"] == pytest.approx(np.nanmean(young))


def test_metrics_without_user_scores_have_no_groups(make: SimpleNamespace) -> None:
    result = make.model_result("knn", info=in_groups(make, "a", "b"))
    assert logged(make, result, primary="coverage@10") == {}
    assert logged(make, make.failed_result("broken", info=result.data)) == {}


def test_a_group_without_a_value_and_a_label_without_end_can_be_logged(make: SimpleNamespace) -> None:
    scores = make.per_user(0.3)
    scores.values[1::2, 0] = np.nan
    info = in_groups(make, "x" * 300, "x" * 301, name="y" * 300)
    values = logged(make, make.model_result("knn", info=info, scores=scores))
    assert len(values) == 3  # users twice, but only one mean
    assert sorted(values.values())[0] == 0
    assert all(is_allowed(key) for key in values)


def test_summary_of_groups_has_the_numbers_of_the_comparison(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("random", "knn"))
    info = in_groups(make, "young|er", "older")
    models = (make.model_result("random", 0.1, info=info), make.model_result("knn", 0.4, info=info))
    text = summary_markdown(asked, models[1], {})
    (contest,) = competitions_of(asked, models)
    cells = [c for c in compare(contest).segments if (c.model, c.metric) == ("knn", asked.primary)]
    for cell, label in zip(cells, ("young\\|er", "older"), strict=True):
        i = cell.interval
        bounds = f"{i.low:.4f}–{i.high:.4f}"
        assert f"| age | {label} | {i.n} | {i.mean:.4f} | {bounds} |" in text
    assert "## For whom" not in summary_markdown(asked, make.model_result("knn"), {})


def test_gap_and_worst_group_of_the_primary_metric_are_logged(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("random", "knn"))
    info = in_groups(make, "young", "old", name="age (years)")
    models = (make.model_result("random", 0.1, info=info), make.model_result("knn", 0.4, info=info))
    (contest,) = competitions_of(asked, models)
    comparison = compare(contest)
    key = "segment/ndcg_at_10.age _years_"
    for row in comparison.models:
        values = {m.key: m.value for m in group_metrics(asked, comparison, row)}
        parts = ["", "_low", "_high"]
        if not row.is_baseline:
            parts += ["_vs_baseline", "_vs_baseline_p_holm"]
        assert list(values) == [
            f"{key}.{statistic}{part}" for statistic in ("gap", "worst") for part in parts
        ]
        assert all(is_allowed(name) for name in values)
        statistics = {
            s.statistic: s
            for s in comparison.group_statistics
            if s.model == row.model and s.metric == "ndcg@10"
        }
        assert values[f"{key}.gap"] == statistics["gap"].value
        assert values[f"{key}.worst_high"] == statistics["worst"].high


def test_files_on_the_data_have_what_a_page_shows(make: SimpleNamespace, tmp_path: Path) -> None:
    info = in_groups(make, "a", "b")
    titles = np.array([f"title {i}" for i in range(9)], dtype=object)
    info = dataclasses.replace(info, full=dataclasses.replace(info.full, titles=titles))
    result = make.model_result("knn", info=info)
    for artifact in model_artifacts(make.bakeoff(), result, {}):
        write_artifact(artifact, tmp_path)

    def read(name: str) -> pq.Table:
        return pq.read_table(tmp_path / "data" / f"{name}.parquet")

    segments = read("segments")
    assert segments["user"].to_pylist() == list(range(200))
    assert segments["age"].to_pylist()[:9] == [None, "b", "a", "b", "a", "b", "a", None, "a"]
    assert json.loads(segments.schema.metadata[b"evalplugin"]) == {
        "segments": {"age": ["a", "b"]},
        "from_truth": [],
    }
    assert read("titles").to_pylist()[:2] == [
        {"item": 0, "title": "title 0"},
        {"item": 1, "title": "title 1"},
    ]
    assert len(read("truth")) == len(info.test)
    for name in ("truth", "history"):
        assert read(name).column_names == ["user", "item", "rating", "timestamp"]
