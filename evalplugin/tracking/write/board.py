"""A bake-off's pages in MLflow: its board, a saved view of the run page with the models side by side, and links."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import shlex
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from evalplugin.base.errors import TrackingError
from evalplugin.base.places import DataSplit
from evalplugin.base.units import plural
from evalplugin.comparison.compared import Cell
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import ModelResult, Plan
from evalplugin.report.sentences.units import ranking_basis
from evalplugin.tracking import mlflow
from evalplugin.tracking.location import resolve_uri, ui_base_url, ui_command, ui_query
from evalplugin.tracking.names import flatten, metric_names
from evalplugin.tracking.read.runs import models_filter

PAGE = "comparison.html"  # among the artifacts of the summary run
# A new browser shows MLflow's pages for language models unless the link says otherwise.
_WORKFLOW = {"workflowType": "machine_learning"}
SHARED_VIEW_TAG = "mlflow.sharedViewState."
_PREFIX = "evalplugin-"  # before the bake-off's id in the keys of our boards
MAX_EXPERIMENT_TAG = 20_000  # characters
_BOARDS_KEPT = 20  # MLflow's page offers 40 saved views, people's own among them

# Sections that MLflow's own grouping would make for these metrics; they are closed.
_CLOSED = ("per_user_quantile", "dist", "ci", "segment", "undefined", "Model metrics", "System metrics")
# MLflow does not document saved views; this is the first version in which ours was seen to open.
_VIEWS_SINCE = (3, 17)
_WIDTH = 120  # pixels of a column, so that the names of metrics can be read
_HEIGHT = 300  # pixels of a chart
_MOST_PARAMS = 4  # parameters that are shown as columns
# A chart that counts as generated would be turned into another kind by the page.
_CHART = {"runsCountToCompare": 100, "deleted": False, "isGenerated": False}
# MLflow's compare page always opens on all parameters: this chart shows those that differ.
_DIFFERENCES = {
    "type": "DIFFERENCE",
    "chartName": "Parameters that differ",
    "compareGroups": ["Parameters"],
    "showChangeFromBaseline": False,
    "showDifferencesOnly": True,
    "baselineColumnUuid": "",
    **_CHART,
}
_TUNING = ("validation", "optimism", "seconds")
_COSTS = ("fit_seconds", "recommend_seconds", "score_seconds", "peak_memory_mb")


def board_tag(name: str, state: Mapping[str, Any], now_ms: int) -> str:
    """Return the value of the experiment tag that holds a board, created at ``now_ms``."""
    text = json.dumps(state, ensure_ascii=False, separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    times = {"createdAt": now_ms, "updatedAt": now_ms}
    return json.dumps({"name": name, **times, "state": f"deflate;{packed}"}, ensure_ascii=False)


def why_no_board(mlflow_version: str) -> str | None:
    """Return why a version of MLflow gets no board, or None where it does."""
    if tuple(map(int, mlflow_version.split(".")[:2])) >= _VIEWS_SINCE:
        return None
    oldest = ".".join(map(str, _VIEWS_SINCE))
    return f"no board was saved: it takes MLflow {oldest} or newer, and this is {mlflow_version}"


def save_boards(
    client: mlflow.MlflowClient,
    experiment_id: str,
    bakeoff: str,
    boards: Mapping[DataSplit, Mapping[str, Any]],
) -> tuple[str, ...]:
    """Save a bake-off's boards, from ``board_of``, with its experiment, delete our oldest ones, and return their keys.

    Raises:
        TrackingError: They cannot be saved; the message says why.
    """
    if not boards:
        raise TrackingError("no board was saved: no model has a value to show")
    if (reason := why_no_board(mlflow.version.VERSION)) is not None:
        raise TrackingError(reason)
    keys = []
    for number, (place, state) in enumerate([*boards.items()][:_BOARDS_KEPT], 1):
        tag = board_tag(f"{place}, bake-off {bakeoff}", state, int(time.time() * 1000))
        if len(tag) > MAX_EXPERIMENT_TAG:
            raise TrackingError(
                f"no board was saved: it takes {len(tag)} characters, MLflow keeps {MAX_EXPERIMENT_TAG}"
            )
        keys.append(f"{_PREFIX}{bakeoff}" + (f"-{number:02}" if number > 1 else ""))
        client.set_experiment_tag(experiment_id, f"{SHARED_VIEW_TAG}{keys[-1]}", tag)
    for old in _old_boards(client.get_experiment(experiment_id).tags):
        client.delete_experiment_tag(experiment_id, old)
    return tuple(keys)


def _old_boards(tags: Mapping[str, str]) -> list[str]:
    ours = [key for key in tags if key.startswith(f"{SHARED_VIEW_TAG}{_PREFIX}")]
    return sorted(ours, reverse=True)[_BOARDS_KEPT:]  # the ids of bake-offs begin with the time


def board_of(plan: Plan, results: Sequence[ModelResult], comparison: Comparison) -> dict[str, Any] | None:
    """Return the board of one dataset and split, as MLflow's page reads it; None without a value to show."""
    results = [result for result in results if DataSplit.of(result.data) == comparison.contest.place]
    cells = [cell for row in comparison.models for cell in row.cells.values()]
    shown = {cell.metric for cell in cells}
    if not shown:
        return None
    names = metric_names(plan.headline)
    headline = [name for metric, name in names.items() if metric in shown]
    shared = [m for m in shown if ranking_basis(comparison, m)]
    means = [f"shared/{name}" if m in shared else name for m, name in names.items() if m in shown]
    sections: list[dict[str, Any]] = []
    charts: list[dict[str, Any]] = []
    for name, cards in _layout(plan, results, cells, headline, means):
        if cards:
            sections.append(
                _section(name, display=True) | {"columns": min(2, len(cards)), "cardHeight": _HEIGHT}
            )
            charts.extend(
                {**card, "uuid": _uuid(name, str(i)), "metricSectionId": _uuid(name)}
                for i, card in enumerate(cards)
            )
    sections.extend(_section(name, display=False) for name in _CLOSED)
    costs = ["cost/fit_seconds", "cost/recommend_seconds"] if _has_costs(results) else []
    metrics = [*means, "users", *costs]
    params = ["model.type", *_differing_params(results)]
    columns = [*(f"metrics.`{key}`" for key in metrics), *(f"params.`{key}`" for key in params)]
    return {
        "selectedColumns": columns,
        # Without an order, metrics come after the dataset, and those of costs first.
        "columnOrder": columns,
        "columnWidths": dict.fromkeys(columns, _WIDTH),
        "runsHiddenMode": "SHOW_ALL",
        "compareRunCharts": charts,
        "compareRunSections": sections,
        # Beside the list and MLflow's side panel, two charts have no room for their titles; charts name the models.
        "runListHidden": True,
        "isAccordionReordered": True,
        # It is here and not in the link: MLflow's page opens no saved view under a link that has a filter.
        "searchFilter": models_filter(plan.id, comparison.contest.place),
        "orderByKey": f"metrics.`{means[0]}`",
        "orderByAsc": plan.spec(plan.primary).direction < 0,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
    }


def _layout(
    plan: Plan,
    results: Sequence[ModelResult],
    cells: Sequence[Cell],
    headline: Sequence[str],
    means: Sequence[str],
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each section: its title and its charts."""
    spread = {cell.metric for cell in cells if cell.summary is not None and cell.summary.n}
    names = metric_names(plan.headline)
    per_user = [name for metric, name in names.items() if metric in spread]
    families = dict.fromkeys(f for m in results if m.per_user is not None for f in m.per_user.at_k)
    curves = metric_names(families).values()
    compared = per_user if any(cell.difference is not None for cell in cells) else []
    by_fold = headline if any(len(m.fold_means) > 1 for m in results) else []
    units = {model.data.units.noun for model in results}
    unit = units.pop() if len(units) == 1 else "user"
    yield f"Mean over {plural(unit)}", [_bar(key) for key in means]
    yield "Metric at k (step = k)", [_line(f"at_k/{key}") for key in curves]
    yield "Difference from the baseline", [_bar(f"vs_baseline/{key}") for key in compared]
    yield "Fold by fold (step = fold)", [_line(f"fold/{key}") for key in by_fold]
    by_seed = headline if any(m.seed_means for m in results) else []
    yield "Seed by seed (step = seed)", [_line(f"seed/{key}") for key in by_seed]
    yield "Parameters that differ", [_DIFFERENCES] if len(results) > 1 else []
    tuned = any(m.tuning is not None for m in results)
    yield "Tuning", [_bar(f"tune/{key}") for key in _TUNING] if tuned else []
    yield "Cost", [_bar(f"cost/{cost}") for cost in _COSTS] if _has_costs(results) else []


def _has_costs(results: Sequence[ModelResult]) -> bool:
    return any(model.costs is not None for model in results)


def _differing_params(results: Sequence[ModelResult]) -> list[str]:
    """Return the first few keys in MLflow of the models' parameters that differ."""
    values: dict[str, set[str]] = {}
    for model in results:
        for key, value in flatten("model", model.params).items():
            values.setdefault(key, set()).add(json.dumps(value, default=str))
    return [key for key, texts in values.items() if len(texts) > 1][:_MOST_PARAMS]


def _section(name: str, *, display: bool) -> dict[str, Any]:
    kind = {"isReordered": True, "deleted": False, "isGenerated": True}
    return {"uuid": _uuid(name), "name": name, "display": display, **kind}


def _bar(key: str) -> dict[str, Any]:
    return {"type": "BAR", "metricKey": key, **_CHART}


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


@dataclass(frozen=True)
class Links:
    """The tracking store of a bake-off and the addresses of its pages."""

    tracking_uri: str  # absolute, without credentials
    experiment_id: str
    summary_run_id: str
    bakeoff: str  # id
    boards: tuple[str, ...]  # keys of the saved boards, of each dataset and split; empty: none was saved
    compared: tuple[str, ...]  # ids of the models' runs, best first, without those that failed
    warnings: tuple[str, ...] = ()  # about items that could not be logged and are not needed

    @property
    def ui_command(self) -> str | None:
        """The command to start first; None where a server shows the pages already."""
        return ui_command(self.tracking_uri)

    @property
    def open_command(self) -> str:
        """The command that opens the comparison page in the browser, without a server."""
        is_default = self.tracking_uri == resolve_uri(None)
        store = "" if is_default else f" --tracking-uri {shlex.quote(self.tracking_uri)}"
        return f"python -m evalplugin open {self.bakeoff}{store}"

    @property
    def compare_url_path(self) -> str | None:
        """The path of the page with parameters, metrics and artifacts side by side; None: there is no model."""
        if not self.compared:
            return None
        runs = {"runs": json.dumps(self.compared), "experiments": json.dumps([self.experiment_id])}
        return f"/#/compare-runs{ui_query(self.tracking_uri, **runs, **_WORKFLOW)}"

    @property
    def board_urls(self) -> tuple[str, ...]:
        """The pages with all models' charts, of each dataset and split; if no board was saved, the plain page."""
        shown = [{"viewStateShareKey": key} for key in self.boards]
        home = f"{ui_base_url(self.tracking_uri)}/#/experiments/{quote(self.experiment_id)}/runs"
        return tuple(
            home + ui_query(self.tracking_uri, **_WORKFLOW, compareRunsMode="CHART", **each)
            for each in shown or [{"searchFilter": models_filter(self.bakeoff)}]
        )

    @property
    def board_url(self) -> str:
        """The first of ``board_urls``."""
        return self.board_urls[0]

    @property
    def compare_url(self) -> str | None:
        """The page with parameters, metrics and artifacts side by side; None: there is no model."""
        path = self.compare_url_path
        return None if path is None else ui_base_url(self.tracking_uri) + path

    @property
    def page_url(self) -> str:
        """The comparison page, as MLflow shows it among the summary run's artifacts."""
        run = f"/#/experiments/{quote(self.experiment_id)}/runs/{quote(self.summary_run_id)}"
        return f"{ui_base_url(self.tracking_uri)}{run}/artifacts/{PAGE}{ui_query(self.tracking_uri, **_WORKFLOW)}"

    def _repr_html_(self) -> str:
        """Return the links for a notebook, and the command to start first."""
        pages = {"Page": self.page_url, "Board": self.board_url, "Compare": self.compare_url}
        links = " · ".join(
            f'<a href="{html.escape(url)}" target="_blank" rel="noopener">{name}</a>'
            for name, url in pages.items()
            if url is not None
        )
        command = self.ui_command
        first = "" if command is None else f"<div>First start <code>{html.escape(command)}</code></div>"
        return f"<div><b>Bake-off {html.escape(self.bakeoff)}</b>: {links}</div>{first}"
