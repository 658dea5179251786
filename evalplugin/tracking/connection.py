"""Talking to MLflow: bounded waiting, quiet, and every failure as one clear error."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evalplugin.base.errors import TrackingError
from evalplugin.base.secrets import redact
from evalplugin.tracking.location import sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["BRIEFLY", "PATIENTLY", "connect", "connect_to_existing", "is_there", "loggers_at", "talking"]

# MLflow's own setting waits for four minutes. Whoever sets these variables is obeyed.
BRIEFLY = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
PATIENTLY = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "5"}
# The links are shown at the end, once, and on stderr; and a bar for each small file tells nobody anything.
_QUIET = {
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
_CHATTY = ("mlflow.store.db.utils", "alembic", "urllib3.connectionpool")


def connect(uri: str) -> MlflowClient:
    """Return a client for a store that answers; a new SQLite store is made ready for use.

    Raises:
        TrackingError: The store does not answer within seconds, or refuses.
    """
    with talking(uri, "reach it", waiting=BRIEFLY):
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri)
        client.search_experiments(max_results=1)
        return client


def is_there(uri: str) -> bool:
    """Return whether there is a store, as far as that can be known without making one."""
    file = sqlite_path(uri)
    return file is None or file.exists()


def connect_to_existing(uri: str) -> MlflowClient:
    """Return a client for a store that is there already; MLflow would make a new SQLite store.

    Raises:
        TrackingError: There is none, or it does not answer within seconds, or refuses.
    """
    if not is_there(uri):
        raise TrackingError(f"there is no tracking store {redact(uri)}; name another with --tracking-uri")
    return connect(uri)


@contextmanager
def talking(uri: str, purpose: str, *, waiting: Mapping[str, str] = PATIENTLY) -> Iterator[None]:
    """Turn whatever goes wrong inside into a TrackingError that names the store and the purpose."""
    with _environment({**waiting, **_QUIET}), _less_noise():
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
            reason = " ".join(redact(str(error)).split())
            if len(reason) > 500:
                reason = reason[:497] + "..."
            raise TrackingError(
                f"MLflow at {redact(uri)}: cannot {purpose}: {reason or type(error).__name__}"
            ) from error


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _less_noise() -> Iterator[None]:
    with loggers_at(logging.ERROR, _CHATTY), warnings.catch_warnings():
        # What MLflow uses of its own libraries is for MLflow to change.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield


@contextmanager
def loggers_at(level: int, names: Iterable[str]) -> Iterator[None]:
    """Let loggers tell nothing below a level inside."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.setLevel(was)
