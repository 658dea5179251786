"""The board: a saved view of MLflow's run page that puts a bake-off's models side by side."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import BakeoffResult
from evalplugin.metrics import parse
from evalplugin.tracking.names import metric_names

__all__ = [
    "BOARD_PREFIX",
    "MAX_EXPERIMENT_TAG",
    "PAGE",
    "SHARED_VIEW_TAG",
    "Board",
    "Links",
    "board_of",
    "board_path",
    "compare_path",
    "make_board",
    "why_no_board",
]

SHARED_VIEW_TAG = "mlflow.sharedViewState."
BOARD_PREFIX = "evalplugin-"  # before the bake-off's id in the keys of our boards
MAX_EXPERIMENT_TAG = 20_000  # characters
PAGE = "comparison.html"  # among the artifacts of the summary run

# A new browser shows MLflow's pages for language models unless the link says otherwise.
_WORKFLOW = {"workflowType": "machine_learning"}
# Sections that MLflow's own grouping would make for these metrics; there for who looks for them, closed.
_CLOSED = ("dist", "ci", "segment", "undefined", "Model metrics", "System metrics")
# MLflow does not document saved views; this is the first version in which ours was seen to open.
_VIEWS_SINCE = (3, 17)
_COSTS = ("fit_seconds", "recommend_seconds", "score_seconds", "peak_memory_mb")


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


def why_no_board(mlflow_version: str) -> str | None:
    """Return why a version of MLflow gets no board, or None where it does."""
    major, minor = (int(part) for part in mlflow_version.split(".")[:2])
    if (major, minor) >= _VIEWS_SINCE:
        return None
    oldest = ".".join(map(str, _VIEWS_SINCE))
    return f"no board was saved: it takes MLflow {oldest} or newer, and this is {mlflow_version}"


@dataclass(frozen=True)
class Links:
    """Where a bake-off can be looked at."""

    tracking_uri: str  # absolute, without credentials
    base_url: str  # of MLflow's pages
    board_url_path: str
    compare_url_path: str | None  # None: there is nothing to be compared
    ui_command: str | None  # what to start first; None where a server shows the pages already
    experiment_id: str
    summary_run_id: str
    warnings: tuple[str, ...] = ()  # what could not be logged and is not needed

    @property
    def board_url(self) -> str:
        """The page with all models' charts."""
        return self.base_url + self.board_url_path

    @property
    def compare_url(self) -> str | None:
        """The page with parameters, metrics and artifacts side by side."""
        return None if self.compare_url_path is None else self.base_url + self.compare_url_path

    @property
    def page_url(self) -> str:
        """The comparison page, as MLflow shows it among the summary run's artifacts."""
        run = f"/#/experiments/{quote(self.experiment_id)}/runs/{quote(self.summary_run_id)}"
        return f"{self.base_url}{run}/artifacts/{PAGE}?{urlencode(_WORKFLOW)}"


def make_board(
    bakeoff: str,
    *,
    headline: Sequence[str],
    curves: Sequence[str],
    per_user: Sequence[str],
    descending: bool,
    differences: bool,
    folds: bool,
) -> Board:
    """Return the board of one bake-off.

    Args:
        bakeoff: The bake-off's id; the board shows its models and nothing else.
        headline: MLflow names of the headline metrics; the first one sorts the runs.
        curves: MLflow names of the metrics that are drawn over k.
        per_user: MLflow names of the headline metrics that have a value for every user.
        descending: Whether the best run has the highest value of the first headline metric.
        differences: Whether there is a baseline to differ from.
        folds: Whether there is a value for each fold.
    """
    layout = [
        ("Mean over users", [_bar(key) for key in headline], 3, 280),
        (
            "Every user, lowest to highest (step = percentile of users)",
            [_line(f"per_user_quantile/{key}") for key in per_user],
            3,
            340,
        ),
        ("Metric at k (step = k)", [_line(f"at_k/{key}") for key in curves], 3, 340),
        (
            "Difference from the baseline over the same users",
            [_bar(f"vs_baseline/{key}") for key in per_user if differences],
            3,
            280,
        ),
        ("Fold by fold (step = fold)", [_line(f"fold/{key}") for key in headline if folds], 3, 340),
        ("Cost", [_bar(f"cost/{cost}") for cost in _COSTS], 4, 260),
    ]
    sections: list[dict[str, Any]] = []
    charts: list[dict[str, Any]] = []
    for name, cards, columns_wide, height in layout:
        if cards:
            sections.append(_section(name, display=True) | {"columns": columns_wide, "cardHeight": height})
            charts.extend(
                {**card, "uuid": _uuid(name, str(i)), "metricSectionId": _uuid(name)}
                for i, card in enumerate(cards)
            )
    sections.extend(_section(name, display=False) for name in _CLOSED)
    columns = [f"metrics.`{key}`" for key in headline]
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
        # It stands here and not in the link: MLflow's page opens no saved view under a link that has a filter.
        "searchFilter": _filter(bakeoff),
        "orderByKey": f"metrics.`{headline[0]}`",
        "orderByAsc": not descending,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
    }
    return Board(f"{BOARD_PREFIX}{bakeoff}", f"Bake-off {bakeoff}", state)


def board_of(result: BakeoffResult, comparisons: Sequence[Comparison]) -> Board | None:
    """Return the board that fits a bake-off's outcome; None where no model has a value to show."""
    bakeoff = result.bakeoff
    names = metric_names(bakeoff.headline)
    cells = [cell for c in comparisons for row in c.models for cell in row.cells.values()]
    shown = {cell.metric for cell in cells}
    spread = {cell.metric for cell in cells if cell.summary is not None and cell.summary.n}
    families = dict.fromkeys(f for m in result.models if m.per_user is not None for f in m.per_user.at_k)
    if not shown:
        return None
    return make_board(
        bakeoff.id,
        headline=[name for metric, name in names.items() if metric in shown],
        curves=list(metric_names(families).values()),
        per_user=[name for metric, name in names.items() if metric in spread],
        descending=parse(bakeoff.primary).metric.higher_is_better is not False,
        differences=any(cell.difference is not None for cell in cells),
        folds=any(len(m.fold_means) > 1 for m in result.models),
    )


def board_path(experiment_id: str, bakeoff: str, board: Board | None) -> str:
    """Return the path of the run page that shows the models of one bake-off, on the board if there is one."""
    query = {**_WORKFLOW, "compareRunsMode": "CHART"}
    query |= {"searchFilter": _filter(bakeoff)} if board is None else {"viewStateShareKey": board.key}
    return f"/#/experiments/{quote(experiment_id)}/runs?{urlencode(query, quote_via=quote)}"


def compare_path(experiment_id: str, run_ids: Sequence[str]) -> str:
    """Return the path of the page that compares runs: parameters, metrics and artifacts side by side."""
    query = {"runs": json.dumps(list(run_ids)), "experiments": json.dumps([experiment_id]), **_WORKFLOW}
    return f"/#/compare-runs?{urlencode(query, quote_via=quote)}"


def _filter(bakeoff: str) -> str:
    return f"tags.`evalplugin.bakeoff` = '{bakeoff}' and tags.`evalplugin.role` = 'model'"


def _section(name: str, *, display: bool) -> dict[str, Any]:
    return {
        "uuid": _uuid(name),
        "name": name,
        "display": display,
        "isReordered": True,
        "deleted": False,
        "isGenerated": True,
    }


def _bar(key: str) -> dict[str, Any]:
    return {
        "type": "BAR",
        "metricKey": key,
        "runsCountToCompare": 100,
        "deleted": False,
        # A chart that counts as generated would be turned into another kind by the page.
        "isGenerated": False,
    }


def _line(key: str) -> dict[str, Any]:
    return _bar(key) | {
        "type": "LINE",
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
