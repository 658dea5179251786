"""Reproducing a published table: its bake-off is run like any other, and its values are compared."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evalplugin.bakeoff.flow import run_bakeoff
from evalplugin.config import load
from evalplugin.data import LoadContext
from evalplugin.execution.observer import Observer
from evalplugin.features.published.files import provide
from evalplugin.features.published.reproduction import Reproduction
from evalplugin.features.published.table import NamedTable
from evalplugin.report.markdown import compare_markdown
from evalplugin.tracking.connection import existing_store
from evalplugin.workspace import Workspace

_TABLE = "published.md"  # an artifact of the summary run


def reproduce(
    named: NamedTable,
    *,
    data_home: Path | None = None,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    observer: Observer | None = None,
    workers: int | None = None,
) -> Reproduction:
    """Run the bake-off of a published table, log it to MLflow, and return its values beside those measured.

    Args:
        named: From ``find_tables``.
        data_home: Folder of downloaded datasets; None: the user's cache.
        tracking_uri: The store; None: from the environment.
        experiment: None: one of the name of the table.
        observer: Receives progress.
        workers: How many tasks run at a time.

    Raises:
        ConfigError: The config of the table is wrong.
        DataError: A file of the data is missing or another one.
        TrackingError: The tracking store cannot be reached.
    """
    observer = observer or Observer()
    context = LoadContext(data_home=data_home, report=lambda text, share: observer.report(text))
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as converted:
        folder = provide(named.table.data, Path(converted), context)
        config = load(named.config_with(folder, Path(converted)), data_home=data_home)
        named.check_config(
            [model.name for model in config.models], [metric.name for metric in config.metrics]
        )
        workspace = Workspace.open(
            config,
            tracking_uri=tracking_uri,
            experiment=experiment,
            observer=observer,
            data_home=data_home,
        )
        outcome = run_bakeoff(workspace, workers=workers)
    reproduction = Reproduction.of(named, outcome.comparisons[0])
    with existing_store(workspace.uri, "log the published values") as client:
        client.log_text(
            outcome.links.summary_run_id, compare_markdown([], tables=[reproduction.text_table]), _TABLE
        )
    return reproduction
