"""Links to a bake-off's pages in MLflow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from evalplugin.base.secrets import redact
from evalplugin.tracking.location import ui_base_url, ui_command

__all__ = ["PAGE", "Links", "board_path", "compare_path", "models_filter"]

PAGE = "comparison.html"  # among the artifacts of the summary run
# A new browser shows MLflow's pages for language models unless the link says otherwise.
_WORKFLOW = {"workflowType": "machine_learning"}


@dataclass(frozen=True)
class Links:
    """The tracking store of a bake-off and the addresses of its pages."""

    tracking_uri: str  # absolute, without credentials
    base_url: str  # of MLflow's pages
    board_url_path: str
    compare_url_path: str | None  # None: there is nothing to be compared
    ui_command: str | None  # to start first; None where a server shows the pages already
    experiment_id: str
    summary_run_id: str
    warnings: tuple[str, ...] = ()  # about items that could not be logged and are not needed

    @classmethod
    def of(
        cls,
        uri: str,
        experiment_id: str,
        *,
        bakeoff: str,
        board: str | None,
        compared: Sequence[str],
        summary_run_id: str,
        warnings: tuple[str, ...],
    ) -> Links:
        """Return the links of a bake-off; ``board``: key of its saved board; ``compared``: ids of its models' runs."""
        return cls(
            tracking_uri=redact(uri),
            base_url=ui_base_url(uri),
            board_url_path=board_path(experiment_id, bakeoff, board),
            compare_url_path=compare_path(experiment_id, compared) if compared else None,
            ui_command=ui_command(uri),
            experiment_id=experiment_id,
            summary_run_id=summary_run_id,
            warnings=warnings,
        )

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


def board_path(experiment_id: str, bakeoff: str, board: str | None) -> str:
    """Return the path of the run page that shows the models of one bake-off, on its board if that was saved."""
    query = {**_WORKFLOW, "compareRunsMode": "CHART"}
    query |= {"searchFilter": models_filter(bakeoff)} if board is None else {"viewStateShareKey": board}
    return f"/#/experiments/{quote(experiment_id)}/runs?{urlencode(query, quote_via=quote)}"


def compare_path(experiment_id: str, run_ids: Sequence[str]) -> str:
    """Return the path of the page that compares runs: parameters, metrics and artifacts side by side."""
    query = {"runs": json.dumps(list(run_ids)), "experiments": json.dumps([experiment_id]), **_WORKFLOW}
    return f"/#/compare-runs?{urlencode(query, quote_via=quote)}"


def models_filter(bakeoff: str) -> str:
    """Return the filter for the runs of a bake-off's models."""
    return f"tags.`evalplugin.bakeoff` = '{bakeoff}' and tags.`evalplugin.role` = 'model'"
