"""Queries of runs and experiments, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["PAGE_SIZE", "pages", "run_pages", "search_runs", "tag_of"]

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
    client: MlflowClient, experiments: Sequence[str], query: str, size: int = PAGE_SIZE
) -> Iterator[list[Run]]:
    """Yield the runs of experiments that match a filter, the latest first, ``size`` at a time."""
    if not experiments:
        return iter(())
    order = ["attributes.start_time DESC"]
    return pages(
        lambda token: client.search_runs(
            list(experiments), query, max_results=size, order_by=order, page_token=token
        )
    )


def search_runs(
    client: MlflowClient, experiments: Sequence[str], query: str, limit: int | None = None
) -> list[Run]:
    """Return the runs of experiments that match a filter, the latest first; at most ``limit``."""
    size = min(limit or PAGE_SIZE, PAGE_SIZE)
    return list(islice(chain.from_iterable(run_pages(client, experiments, query, size)), limit))


def tag_of(run: Run, key: str) -> str:
    """Return a tag of ours; empty where the run has none."""
    return str(run.data.tags.get(f"evalplugin.{key}", ""))
