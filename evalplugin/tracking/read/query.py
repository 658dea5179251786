"""Queries of runs and experiments, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from evalplugin.tracking.read.logged import LoggedRun

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["PAGE_SIZE", "pages", "run_pages", "search_runs"]

PAGE_SIZE = 1000


def pages(fetch: Callable[[str | None], Any]) -> Iterator[list[Any]]:
    """Yield the pages that a search of MLflow's client has; ``fetch`` takes the token of a page and returns it."""
    token = None
    while True:
        page = fetch(token)
        yield page
        if not (token := page.token):
            return


def run_pages(
    client: MlflowClient,
    experiments: Sequence[str],
    query: str,
    size: int = PAGE_SIZE,
    *,
    deleted: bool = False,
) -> Iterator[list[LoggedRun]]:
    """Yield the runs of experiments that match a filter, the latest first, ``size`` at a time.

    Those that were deleted, and are still in the store, are left out unless ``deleted``.
    """
    from mlflow.entities import ViewType

    view = ViewType.ALL if deleted else ViewType.ACTIVE_ONLY

    def fetch(token: str | None) -> Any:
        order = ["attributes.start_time DESC"]
        return client.search_runs(
            list(experiments), query, view, max_results=size, order_by=order, page_token=token
        )

    if experiments:
        for page in pages(fetch):
            yield [LoggedRun(client, run) for run in page]


def search_runs(
    client: MlflowClient,
    experiments: Sequence[str],
    query: str,
    limit: int | None = None,
    *,
    deleted: bool = False,
) -> list[LoggedRun]:
    """Return the runs of experiments that match a filter, as ``run_pages``; at most ``limit``."""
    size = min(limit or PAGE_SIZE, PAGE_SIZE)
    return list(
        islice(chain.from_iterable(run_pages(client, experiments, query, size, deleted=deleted)), limit)
    )
