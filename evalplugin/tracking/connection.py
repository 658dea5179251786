"""Calls to MLflow: with timeouts and retries, without its output, every failure as one clear error."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit

from filelock import FileLock

from evalplugin.base.errors import EvalpluginError, TrackingError, is_disk_full
from evalplugin.base.libraries import sqlalchemy
from evalplugin.base.secrets import redact
from evalplugin.base.signals import deferred_signals, interrupt_waits
from evalplugin.base.text import cut
from evalplugin.tracking import mlflow
from evalplugin.tracking.location import WORKSPACE_VARIABLE, is_database, resolve_uri, sqlite_path, workspace

_P = ParamSpec("_P")
_T = TypeVar("_T")

# MLflow's own settings wait for four minutes. Variables that are set in the environment take precedence.
FAIL_FAST = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "PGCONNECT_TIMEOUT": "10",
}
PATIENT = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "5"}
# The links are shown once, at the end and on stderr; a progress bar for each small file is of no use.
_QUIET = {
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
_AZURE = (".windows.net", ".chinacloudapi.cn", ".usgovcloudapi.net", ".microsoft.com")
# The first three log exceptions, which are raised too; the others progress.
_LEVELS = {
    "mlflow.store.db.utils": logging.CRITICAL,
    "alembic": logging.CRITICAL,
    "urllib3.connectionpool": logging.CRITICAL,
    "mlflow.pyfunc": logging.WARNING,
    "mlflow.store.model_registry.abstract_store": logging.WARNING,
}


def connect(uri: str) -> mlflow.MlflowClient:
    """Return a client for a store that answers; a new SQLite store is created.

    Raises:
        TrackingError: The store does not answer within seconds, or refuses.
    """
    with tracking_call(uri, "reach it", settings=FAIL_FAST):
        if is_database(uri) and sqlite_path(uri) is None:
            # Once: MLflow would try for two minutes to reach a database that is not there.
            sqlalchemy.create_engine(uri, poolclass=sqlalchemy.NullPool).connect().close()
        with whole_creation(uri):
            client = mlflow.MlflowClient(tracking_uri=uri)
            # None has this name: the tags of one would be read.
            client.search_experiments(max_results=1, filter_string="name = ''")
        interrupt_waits()
        return client


@contextmanager
def whole_creation(uri: str) -> Iterator[None]:
    """If MLflow creates a SQLite store inside, let one process do it at a time, and defer signals.

    MLflow cannot open a store that has a part of its tables.
    """
    file = sqlite_path(uri)
    lock = None if file is None else file.with_name(f".{file.name}.lock")
    if file is None or lock is None or (file.exists() and not lock.exists()):
        yield
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with deferred_signals(), FileLock(lock):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def store_exists(uri: str) -> bool:
    """Return False for a SQLite store without a file, and True for any other; nothing is created."""
    file = sqlite_path(uri)
    return file is None or file.exists()


@contextmanager
def existing_store(
    tracking_uri: str | None, purpose: str, *, settings: Mapping[str, str] = PATIENT
) -> Iterator[mlflow.MlflowClient]:
    """Yield a client for a store that exists, as MLflow would create a new SQLite store; see ``tracking_call``.

    ``tracking_uri``: the store; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.

    Raises:
        TrackingError: There is no such store, or it does not answer within seconds, or refuses.
    """
    uri = resolve_uri(tracking_uri)
    if not store_exists(uri):
        raise TrackingError(f"there is no tracking store {uri}; name another with --tracking-uri")
    client = connect(uri)
    with tracking_call(uri, purpose, settings=settings):
        yield client


@contextmanager
def tracking_call(uri: str, purpose: str, *, settings: Mapping[str, str] = PATIENT) -> Iterator[None]:
    """Raise every error of MLflow inside as a TrackingError that names the store and the purpose.

    MLflow passes on the errors of clients of databases and object storage, which share no base class: all that came
    through a call into MLflow are converted. Other errors, such as defects of ours, pass unchanged.
    """
    with _quietly({**settings, **_QUIET}):
        try:
            yield
        except EvalpluginError:
            raise
        except Exception as error:
            known = mlflow.exceptions.MlflowException | OSError | ImportError | sqlite3.Error
            if not isinstance(error, known) and not _is_from_mlflow(error):
                raise
            raise TrackingError(f"MLflow at {uri}: cannot {purpose}: {_reason(error, uri)}") from error


def check_stored_uri(uri: str, tracking_uri: str) -> str:
    """Return a URI of artifacts that a store names, if reading it sends no credentials of this machine to another host.

    MLflow sends its own to whatever host such a URI has, and Azure's client those of Azure. S3 and Google's buckets
    have no host in their URI.

    Raises:
        TrackingError: It would.
    """
    from mlflow.utils.credentials import get_default_host_creds

    try:
        parts, own = urlsplit(uri), urlsplit(tracking_uri).hostname
        scheme, host = parts.scheme, parts.hostname or ""
    except ValueError:
        raise TrackingError(
            f"MLflow at {tracking_uri} names {uri} for artifacts, which is malformed"
        ) from None
    if scheme in ("http", "https", "mlflow-artifacts"):
        creds = get_default_host_creds(uri)  # type: ignore[no-untyped-call]
        sent = creds.username or creds.token or creds.auth or creds.aws_sigv4 or creds.client_cert_path
        is_own = not sent or host in ("", own)
    else:
        is_own = not scheme.startswith(("abfs", "wasb")) or host.endswith(_AZURE)
    if not is_own:
        raise TrackingError(
            f"MLflow at {tracking_uri} names {uri} for artifacts: nothing is read there, as credentials of this "
            f"machine would be sent to another host"
        )
    return uri


def is_missing(error: TrackingError) -> bool:
    """Return whether the error means that an object does not exist in the store, or that its name is invalid."""
    codes = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
    return getattr(error.__cause__, "error_code", None) in codes


def attempt(error_code: str, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
    """Return what a call of MLflow's client returns; None where it raises an error with this code."""
    try:
        return call(*args, **kwargs)
    except mlflow.exceptions.MlflowException as error:
        if error.error_code != error_code:
            raise
        return None


def _is_from_mlflow(error: Exception) -> bool:
    """Return whether an exception was raised by a call into MLflow, or into SQLAlchemy where we probe a database."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(module.partition(".")[0] in ("mlflow", "sqlalchemy") for module in modules)


def _reason(error: Exception, uri: str) -> str:
    file = sqlite_path(uri)
    if file is not None and (is_disk_full(error) or "database or disk is full" in str(error)):
        return f"no space is left on the disk of {file.parent}: make room there, or move the store to another disk"
    text = cut(" ".join(redact(str(error)).split()), 500)
    if file is not None and re.search(
        r"\(sqlite3\.OperationalError\) (table \S+ already exists|duplicate column)", str(error)
    ):
        return (
            f"the creation of its tables was cut off; if nothing was logged there yet, delete {file} ({text})"
        )
    if isinstance(error, ImportError):
        text += "; the store needs this package here too: install it beside evalplugin"
    if f"orkspace '{workspace(uri)}'" in text:
        text += f" ({WORKSPACE_VARIABLE} of the environment names it)"
    return text or type(error).__name__


@contextmanager
def _quietly(settings: Mapping[str, str]) -> Iterator[None]:
    """Add variables that the environment does not have, and silence loggers and warnings, inside."""
    added = {name: value for name, value in settings.items() if name not in os.environ}
    levels = {logger: logger.level for logger in map(logging.getLogger, _LEVELS)}
    os.environ.update(added)
    for logger in levels:
        logger.setLevel(_LEVELS[logger.name])
    try:
        with warnings.catch_warnings():
            # Deprecated calls from MLflow to its own libraries are for MLflow to change.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            # From the class of our registered recommender.
            warnings.filterwarnings("ignore", ".*Any type hint is inferred as AnyType")
            yield
    finally:
        for name in added:
            os.environ.pop(name, None)
        for logger, level in levels.items():
            logger.setLevel(level)
