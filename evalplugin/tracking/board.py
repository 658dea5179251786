"""The board: a saved view of MLflow's run page that puts a bake-off's models side by side."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

__all__ = ["MAX_EXPERIMENT_TAG", "SHARED_VIEW_TAG", "Board", "board_path", "compare_path", "make_board"]

SHARED_VIEW_TAG = "mlflow.sharedViewState."
MAX_EXPERIMENT_TAG = 20_000  # characters

# A new browser shows MLflow's pages for language models unless the link says otherwise.
_WORKFLOW = {"workflowType": "machine_learning"}
# Sections that MLflow's own grouping would make for these metrics; there for who looks for them, closed.
_CLOSED = ("dist", "ci", "undefined", "fold", "beyond", "Model metrics", "System metrics")


@dataclass(frozen=True)
class Board:
    """A saved view: its key, the name people see, and its state as MLflow's page reads it."""

    key: str
    name: str
    state: Mapping[str, Any] = field(repr=False)

    def tag_value(self, now_ms: int) -> str:
        """Return the value of the experiment tag that holds the board, created at ``now_ms``."""
        packed = base64.b64encode(zlib.compress(_json(self.state).encode(), 9)).decode()
        view = {"name": self.name, "createdAt": now_ms, "updatedAt": now_ms, "state": f"deflate;{packed}"}
        return json.dumps(view, ensure_ascii=False)


def make_board(
    *,
    headline: Sequence[tuple[str, str]],
    curves: Sequence[tuple[str, str]],
    quantiles: Sequence[tuple[str, str]],
    primary: str,
    descending: bool,
    differences: bool,
    folds: bool,
) -> Board:
    """Return the board for a set of metrics. The same set gives the same key, so bake-offs share it.

    Args:
        headline: MLflow name and title of each headline metric, the primary one first.
        curves: MLflow name and title of each metric drawn over k.
        quantiles: MLflow name and title of each metric that has a value for every user.
        primary: MLflow name of the metric that sorts the runs.
        descending: Whether the best run has the highest primary metric.
        differences: Whether there is a baseline to differ from.
        folds: Whether there is a value for each fold.
    """
    sections: list[dict[str, Any]] = []
    charts: list[dict[str, Any]] = []

    def section(name: str, cards: Iterable[dict[str, Any]], *, columns: int = 3, height: int = 300) -> None:
        uuid = _uuid(name)
        cards = list(cards)
        if cards:
            sections.append(_section(name, display=True) | {"columns": columns, "cardHeight": height})
            charts.extend(
                {**card, "uuid": _uuid(name, str(i)), "metricSectionId": uuid} for i, card in enumerate(cards)
            )

    section("Mean over users", [_bar(key, title) for key, title in headline])
    if differences:
        section(
            "Difference from the baseline, same users",
            [_bar(f"vs_baseline/{key}", f"{title}: model minus baseline") for key, title in quantiles],
        )
    section(
        "Every user, worst to best",
        [
            _line(f"per_user_quantile/{key}", f"{title}: value (y) at each percentile of users (x)")
            for key, title in quantiles
        ],
        height=360,
    )
    section("Metric at k", [_line(f"at_k/{key}", f"{title} at k, over k") for key, title in curves])
    if folds:
        section("Fold by fold", [_line(f"fold/{key}", f"{title} in each fold") for key, title in headline])
    section(
        "Cost",
        [
            _bar("cost/fit_seconds", "fit, seconds"),
            _bar("cost/recommend_seconds", "recommend, seconds"),
            _bar("cost/score_seconds", "score, seconds"),
            _bar("cost/peak_memory_mb", "peak memory, MB"),
        ],
        columns=4,
        height=260,
    )
    sections.extend(_section(name, display=False) for name in _CLOSED if not (folds and name == "fold"))
    columns = [f"metrics.`{key}`" for key, _ in headline]
    columns += ["metrics.`users`", "metrics.`cost/fit_seconds`", "metrics.`cost/recommend_seconds`"]
    columns += ["params.`model.type`", "attributes.`Dataset`"]
    state: dict[str, Any] = {
        "selectedColumns": columns,
        "columnOrder": [],
        "columnWidths": {},
        "runsExpanded": {},
        "runsPinned": [],
        "runsHidden": [],
        "runsVisibilityMap": {},
        "runsHiddenMode": "SHOW_ALL",
        "compareRunCharts": charts,
        "compareRunSections": sections,
        "viewMaximized": False,
        "runListHidden": False,
        "isAccordionReordered": True,
        "useGroupedValuesInCharts": True,
        "hideEmptyCharts": True,
        "groupBy": None,
        "groupsExpanded": {},
        "autoRefreshEnabled": True,
        "globalLineChartConfig": {"xAxisKey": "step", "lineSmoothness": 0, "selectedXAxisMetricKey": ""},
        "orderByKey": f"metrics.`{primary}`",
        "orderByAsc": not descending,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
    }
    key = "evalplugin-" + hashlib.sha256(_json(state).encode()).hexdigest()[:12]
    titles = ", ".join(title for _, title in headline)
    return Board(key, f"Bake-off: {titles if len(titles) <= 60 else titles[:57] + '...'}", state)


def board_path(experiment_id: str, bakeoff: str, board: Board | None) -> str:
    """Return the path of the run page that shows the models of one bake-off, on the board if there is one."""
    # The filter stands in the link and not on the board, so that one board serves every bake-off.
    chosen = f"tags.`evalplugin.bakeoff` = '{bakeoff}' and tags.`evalplugin.role` = 'model'"
    query = {**_WORKFLOW, "searchFilter": chosen, "compareRunsMode": "CHART"}
    if board is not None:
        query["viewStateShareKey"] = board.key
    return f"/#/experiments/{quote(experiment_id)}/runs?{urlencode(query, quote_via=quote)}"


def compare_path(experiment_id: str, run_ids: Sequence[str]) -> str:
    """Return the path of the page that compares runs: parameters, metrics and artifacts side by side."""
    query = {"runs": json.dumps(list(run_ids)), "experiments": json.dumps([experiment_id]), **_WORKFLOW}
    return f"/#/compare-runs?{urlencode(query, quote_via=quote)}"


def _section(name: str, *, display: bool) -> dict[str, Any]:
    return {
        "uuid": _uuid(name),
        "name": name,
        "display": display,
        "isReordered": True,
        "deleted": False,
        "isGenerated": True,
    }


def _card(kind: str, key: str, title: str) -> dict[str, Any]:
    return {
        "type": kind,
        "metricKey": key,
        "displayName": title,
        "runsCountToCompare": 100,
        "deleted": False,
        "isGenerated": False,
    }


def _bar(key: str, title: str) -> dict[str, Any]:
    return _card("BAR", key, title)


def _line(key: str, title: str) -> dict[str, Any]:
    return _card("LINE", key, title) | {
        "selectedMetricKeys": [key],
        "lineSmoothness": 0,
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "range": {},
        "xAxisKey": "step",
        "selectedXAxisMetricKey": "",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "ignoreOutliers": False,
        "useGlobalXaxisKey": True,
        "useGlobalLineSmoothing": True,
    }


def _uuid(*names: str) -> str:
    return hashlib.sha256("\x1f".join(names).encode()).hexdigest()[:10]


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
