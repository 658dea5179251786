"""The URI of the tracking store, made absolute, and the address of its pages."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from evalplugin.base.errors import TrackingError, TrackingUriError
from evalplugin.base.libraries import sqlalchemy
from evalplugin.base.secrets import redact
from evalplugin.base.tracking_uri import DATABASES, NO_FOLDERS, check_driver, check_tracking_uri, store_kind

DEFAULT_URI = "sqlite:///mlflow.db"
WORKSPACE_VARIABLE = "MLFLOW_WORKSPACE"
_UI_URL = "http://127.0.0.1:5000"  # where `mlflow ui` listens


def resolve_uri(uri: str | None) -> str:
    """Return the absolute tracking URI: the one given, or MLFLOW_TRACKING_URI, or ``sqlite:///mlflow.db``.

    A relative SQLite path is relative to the working directory.

    Raises:
        TrackingUriError: As ``check_tracking_uri`` and ``check_driver``; a folder in place of a database's file.
        TrackingError: Old runs in ``./mlruns`` while no store is named.
    """
    given = uri or os.environ.get("MLFLOW_TRACKING_URI", "").strip()
    if not given:
        old = Path("mlruns").absolute()
        if any(file.parent.name.isdigit() for file in old.glob("*/meta.yaml")):
            raise TrackingError(
                f"no tracking store is named, and {old} holds runs of an older MLflow, which MLflow would turn to. "
                f"{NO_FOLDERS}; or name a store: --tracking-uri {DEFAULT_URI}"
            )
        given = DEFAULT_URI
    check_tracking_uri(given)
    check_driver(given)
    kind = store_kind(given)
    if kind == "sqlite":
        return _absolute_sqlite(given)
    return given.rstrip("/") if kind in ("http", "https") else given


def artifact_location(uri: str, experiment: str) -> str | None:
    """Return the folder, as a URI, for the artifacts of a new experiment; None: the store decides.

    For SQLite it is next to the database: MLflow's own choice depends on the working directory.
    """
    path = sqlite_path(uri)
    if path is None:
        return None
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", experiment).strip("-.")[:60]
    # Names that differ only in characters that file names cannot hold stay apart.
    digest = hashlib.sha256(experiment.encode()).hexdigest()[:8]
    return (path.parent / "mlartifacts" / f"{name}-{digest}").as_uri()


def ui_command(uri: str) -> str | None:
    """Return the command that serves a store's pages on this machine; None for a server, which serves them itself."""
    if not is_database(uri):
        return None
    return f"mlflow ui --backend-store-uri {shlex.quote(redact(uri))}"


def is_database(uri: str) -> bool:
    """Return whether a tracking URI names a database, not a server."""
    return store_kind(uri) in DATABASES


def ui_base_url(uri: str) -> str:
    """Return the address that paths of links are appended to, without credentials."""
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https"):
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    if parts.scheme == "databricks" or uri == "databricks":
        return os.environ.get("DATABRICKS_HOST", "").rstrip("/") + "/ml"
    return _UI_URL


def workspace(uri: str) -> str | None:
    """Return the workspace of a server that MLFLOW_WORKSPACE names; None: the default one, which links do not name."""
    name = os.environ.get(WORKSPACE_VARIABLE, "").strip()
    is_server = urlsplit(uri).scheme in ("http", "https")
    return name if is_server and name not in ("", "default") else None


def ui_query(uri: str, **parameters: str) -> str:
    """Return the query of a link into MLflow's pages, which names the workspace if there is one."""
    named = workspace(uri)
    query = urlencode(parameters if named is None else {**parameters, "workspace": named}, quote_via=quote)
    return query and f"?{query}"


def _absolute_sqlite(uri: str) -> str:
    head, _, rest = uri.partition("://")
    name, mark, query = rest.removeprefix("/").partition("?")
    path = Path(os.path.abspath(name))
    if path.is_dir():
        raise TrackingUriError(
            f"tracking URI {uri!r}: {path} is a folder; name a file in it, such as mlflow.db"
        )
    return f"{head}:///{path.as_posix()}{mark}{query}"


def store_file(uri: str | None) -> Path | None:
    """Return the file of a SQLite store, resolved by ``resolve_uri``; None for any other store."""
    return sqlite_path(resolve_uri(uri))


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a SQLite store; None for any other store."""
    if store_kind(uri) != "sqlite":
        return None
    return Path(sqlalchemy.make_url(uri).database or "")
