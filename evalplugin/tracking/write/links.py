"""Links to a bake-off's pages in MLflow."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from evalplugin.tracking.location import ui_base_url, ui_command
from evalplugin.tracking.read.runs import models_filter

PAGE = "comparison.html"  # among the artifacts of the summary run
# A new browser shows MLflow's pages for language models unless the link says otherwise.
_WORKFLOW = {"workflowType": "machine_learning"}


@dataclass(frozen=True)
class Links:
    """The tracking store of a bake-off and the addresses of its pages."""

    tracking_uri: str  # absolute, without credentials
    experiment_id: str
    summary_run_id: str
    bakeoff: str  # id
    board: str | None  # key of the saved board; None: it was not saved
    compared: tuple[str, ...]  # ids of the models' runs, best first, without those that failed
    warnings: tuple[str, ...] = ()  # about items that could not be logged and are not needed

    @property
    def ui_command(self) -> str | None:
        """The command to start first; None where a server shows the pages already."""
        return ui_command(self.tracking_uri)

    @property
    def board_url_path(self) -> str:
        """The path of the run page that shows the bake-off's models, on its board if that was saved."""
        if self.board is None:
            shown = {"searchFilter": models_filter(self.bakeoff)}
        else:
            shown = {"viewStateShareKey": self.board}
        query = urlencode({**_WORKFLOW, "compareRunsMode": "CHART", **shown}, quote_via=quote)
        return f"/#/experiments/{quote(self.experiment_id)}/runs?{query}"

    @property
    def compare_url_path(self) -> str | None:
        """The path of the page with parameters, metrics and artifacts side by side; None: there is no model."""
        if not self.compared:
            return None
        runs = {"runs": json.dumps(self.compared), "experiments": json.dumps([self.experiment_id])}
        return f"/#/compare-runs?{urlencode({**runs, **_WORKFLOW}, quote_via=quote)}"

    @property
    def board_url(self) -> str:
        """The page with all models' charts."""
        return ui_base_url(self.tracking_uri) + self.board_url_path

    @property
    def compare_url(self) -> str | None:
        """The page with parameters, metrics and artifacts side by side; None: there is no model."""
        path = self.compare_url_path
        return None if path is None else ui_base_url(self.tracking_uri) + path

    @property
    def page_url(self) -> str:
        """The comparison page, as MLflow shows it among the summary run's artifacts."""
        run = f"/#/experiments/{quote(self.experiment_id)}/runs/{quote(self.summary_run_id)}"
        return f"{ui_base_url(self.tracking_uri)}{run}/artifacts/{PAGE}?{urlencode(_WORKFLOW)}"

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
